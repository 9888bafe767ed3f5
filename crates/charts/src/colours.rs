//! The colours of the pictures: the palette of the demo's report, and a ramp of its blue.

/// Text and axes; 16:1 on white.
pub(crate) const INK: &str = "#1b1f24";
/// Secondary text; 6:1 on white.
pub(crate) const MUTED: &str = "#5b6472";
/// Grid lines and outlines.
pub(crate) const LINE: &str = "#d5dae0";
/// A surface without data.
pub(crate) const EMPTY: &str = "#eceff2";
/// A surface next to a blue one, of less weight.
pub(crate) const PALE: &str = "#e6f0f9";
/// The background.
pub(crate) const PAPER: &str = "#ffffff";
/// The main colour.
pub(crate) const BLUE: &str = "#0b5394";
/// The accent: marks on the main colour.
pub(crate) const ORANGE: &str = "#c96a12";
/// The colours of series, which also differ in lightness, each with its pattern of dashes.
pub(crate) const SERIES: [(&str, &str); 5] = [
    (BLUE, "none"),
    (ORANGE, "11 5"),
    ("#1f7a3d", "3 4"),
    ("#7b2d8b", "13 4 3 4"),
    ("#9a6b00", "7 3"),
];

const LIGHT: [f64; 3] = [196.0, 220.0, 241.0];
const DARK: [f64; 3] = [11.0, 83.0, 148.0];

/// Returns the light end of the ramp.
pub(crate) fn lightest() -> String {
    ramp(0.0)
}

/// Returns the colour at `share` of the way from light (0) to dark blue (1).
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
