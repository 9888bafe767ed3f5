//! The colours of the pictures: those of the demo's report, and a ramp of its blue.

/// Text and axes; 16:1 on white.
pub(crate) const INK: &str = "#1b1f24";
/// Text of less weight; 6:1 on white.
pub(crate) const MUTED: &str = "#5b6472";
/// Grid lines, which need not be seen to be understood.
pub(crate) const LINE: &str = "#d5dae0";
/// Where there is nothing.
pub(crate) const EMPTY: &str = "#eceff2";
/// A surface that comes second to a blue one.
pub(crate) const PALE: &str = "#e6f0f9";
/// The background.
pub(crate) const PAPER: &str = "#ffffff";
/// The main colour.
pub(crate) const BLUE: &str = "#0b5394";
/// What stands out from the main colour.
pub(crate) const ORANGE: &str = "#c96a12";
/// Colours that differ in lightness too, each with dashes of its own.
pub(crate) const SERIES: [(&str, &str); 4] =
    [(BLUE, "none"), (ORANGE, "11 5"), ("#1f7a3d", "3 4"), ("#7b2d8b", "13 4 3 4")];

const LIGHT: [f64; 3] = [196.0, 220.0, 241.0];
const DARK: [f64; 3] = [11.0, 83.0, 148.0];

/// The light end of the ramp.
pub(crate) fn lightest() -> String {
    ramp(0.0)
}

/// The colour at `share` of the way from light to dark blue.
pub(crate) fn ramp(share: f64) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
    let mixed = LIGHT.iter().zip(DARK).map(|(light, dark)| light + (dark - light) * share);
    mixed.fold("#".to_owned(), |hex, part| hex + &format!("{:02x}", part.round() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_ends_at_the_main_colour() {
        assert_eq!(ramp(1.0), BLUE);
        assert_eq!(ramp(f64::NAN), BLUE);
        assert_eq!(ramp(-1.0), lightest());
    }
}
