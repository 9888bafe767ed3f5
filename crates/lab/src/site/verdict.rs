//! How near ours is to what was published.

use crate::Row;

/// How near a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within 5 %.
    Five,
    /// Within 15 %.
    Fifteen,
    /// Within 30 %.
    Thirty,
    /// Further away.
    Off,
}

impl Verdict {
    /// From the nearest on.
    pub const ALL: [Verdict; 4] = [Verdict::Five, Verdict::Fifteen, Verdict::Thirty, Verdict::Off];

    /// Of a row; `None` without a published value, and where the scale of the run says nothing of it.
    pub(super) fn of(row: &Row) -> Option<Verdict> {
        let published = row.published.filter(|_| !row.is_unjudged())?;
        let is_within = |share: f64| (row.ours - published).abs() <= share * published.abs();
        Some(match () {
            () if is_within(0.05) => Verdict::Five,
            () if is_within(0.15) => Verdict::Fifteen,
            () if is_within(0.30) => Verdict::Thirty,
            () => Verdict::Off,
        })
    }

    /// As a sentence has it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Five => "within 5 %",
            Verdict::Fifteen => "within 15 %",
            Verdict::Thirty => "within 30 %",
            Verdict::Off => "off",
        }
    }

    pub(super) fn cell(self) -> String {
        let class = match self {
            Verdict::Five => "near",
            Verdict::Fifteen => "fair",
            Verdict::Thirty => "far",
            Verdict::Off => "off",
        };
        format!("<span class=\"{class}\">{}</span>", self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Tolerance};

    #[test]
    fn verdicts_begin_where_they_say() {
        let of = |ours| Verdict::of(&Row::new("it", "", ours).beside(100.0)).unwrap();
        assert_eq!([105.0, 95.0, 100.0].map(of), [Verdict::Five; 3]);
        assert_eq!([105.1, 86.0].map(of), [Verdict::Fifteen; 2]);
        assert_eq!([116.0, 71.0].map(of), [Verdict::Thirty; 2]);
        assert_eq!([131.0, 0.0, -100.0, f64::NAN].map(of), [Verdict::Off; 4]);
        let zeros = Row::new("it", "", 0.0).beside(0.0);
        assert_eq!(Verdict::of(&zeros), Some(Verdict::Five));
        assert_eq!(Verdict::of(&Row::new("it", "", 1.0)), None);
        let scaled = Context::new(1).scaled(0.5);
        let row = Row::new("it", "", 9.0).beside(1.0);
        assert_eq!(Verdict::of(&row.judged_at_full_scale(Tolerance::Exact, &scaled)), None);
    }
}
