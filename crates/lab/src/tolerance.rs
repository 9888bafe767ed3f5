//! The tolerance of a figure: what decides whether an experiment reproduced it.

use std::fmt;

use moirai::units::grouped_decimals;
use serde::{Serialize, Serializer};

/// What a figure must satisfy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Ours differs from the published value by at most this share of it.
    Published(f64),
    /// Ours is the published value.
    Exact,
    /// Ours differs from `value` by at most `share` of it.
    Near {
        /// The value, which the experiment computes.
        value: f64,
        /// The share of it.
        share: f64,
    },
    /// Ours is at least this.
    AtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
    /// Ours is greater than this.
    Above(f64),
    /// Ours is less than this.
    Below(f64),
}

impl Tolerance {
    /// Whether `ours` satisfies the tolerance; `None` if it needs a published value and there is none.
    #[must_use]
    pub fn admits(self, ours: f64, published: Option<f64>) -> Option<bool> {
        let is_near = |value: f64, share: f64| (ours / value - 1.0).abs() <= share;
        match self {
            Tolerance::Published(share) => published.map(|published| is_near(published, share)),
            Tolerance::Exact => published.map(|published| ours.total_cmp(&published).is_eq()),
            Tolerance::Near { value, share } => Some(is_near(value, share)),
            Tolerance::AtLeast(least) => Some(ours >= least),
            Tolerance::AtMost(most) => Some(ours <= most),
            Tolerance::Above(bound) => Some(ours > bound),
            Tolerance::Below(bound) => Some(ours < bound),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Published(share) => write!(f, "±{} %", number(100.0 * share)),
            Tolerance::Exact => f.write_str("exact"),
            Tolerance::Near { value, share } => {
                write!(f, "{} ±{} %", number(*value), number(100.0 * share))
            }
            Tolerance::AtLeast(least) => write!(f, ">= {}", number(*least)),
            Tolerance::AtMost(most) => write!(f, "<= {}", number(*most)),
            Tolerance::Above(bound) => write!(f, "> {}", number(*bound)),
            Tolerance::Below(bound) => write!(f, "< {}", number(*bound)),
        }
    }
}

impl Serialize for Tolerance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A number with three decimals at most, and no noughts at the end of them.
fn number(value: f64) -> String {
    let text = grouped_decimals(value, 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
