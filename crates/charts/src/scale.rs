//! Scales: they map values to coordinates on an axis, and choose its ticks.

use crate::text::width;
use moirai_units::grouped_decimals;

/// A mapping of values to coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    values: (f64, f64),
    coordinates: (f64, f64),
    is_logarithmic: bool,
}

/// A labelled value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

impl Scale {
    pub(crate) fn linear(values: (f64, f64), coordinates: (f64, f64)) -> Scale {
        Scale { values: wide(values), coordinates, is_logarithmic: false }
    }

    /// A logarithmic scale from 1 to `highest`.
    pub(crate) fn logarithmic(highest: f64, coordinates: (f64, f64)) -> Scale {
        Scale { values: (1.0, highest.max(2.0)), coordinates, is_logarithmic: true }
    }

    /// Returns the coordinate of `value`; values off the axis map to its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let along = |value: f64| if self.is_logarithmic { value.max(1.0).ln() } else { value };
        let (low, high) = (along(self.values.0), along(self.values.1));
        let share = ((along(value) - low) / (high - low)).clamp(0.0, 1.0);
        let (start, end) = self.coordinates;
        start + (end - start) * if share.is_finite() { share } else { 0.0 }
    }

    /// The coordinate of the start of the axis.
    pub(crate) fn start(&self) -> f64 {
        self.coordinates.0
    }

    /// The coordinate of the end of the axis.
    pub(crate) fn end(&self) -> f64 {
        self.coordinates.1
    }

    /// Returns as many round values as have room for labels of `size` below the axis; only integers if `whole`.
    pub(crate) fn ticks_across(&self, size: f64, whole: bool) -> Vec<Tick> {
        let candidates = (2..=8).rev().map(|most| self.ticks(most, whole));
        let mut least = Vec::new();
        for ticks in candidates {
            if self.has_room(&ticks, size) {
                return ticks;
            }
            least = ticks;
        }
        least.truncate(1);
        least
    }

    fn has_room(&self, ticks: &[Tick], size: f64) -> bool {
        ticks.windows(2).all(|pair| match pair {
            [one, next] => {
                let room = (self.at(next.value) - self.at(one.value)).abs();
                let half = |tick: &Tick| width(&tick.label, size, false) / 2.0;
                room >= half(one) + half(next) + size
            }
            _ => true,
        })
    }

    /// Returns about `most` round values of the scale; only integers if `whole`.
    pub(crate) fn ticks(&self, most: u32, whole: bool) -> Vec<Tick> {
        if self.is_logarithmic {
            return self.powers(most);
        }
        let (low, high) = self.values;
        let mut step = round_step((high - low) / f64::from(most.max(1)));
        if whole {
            step = step.max(1.0);
        }
        let decimals = usize::try_from(-step.log10().floor() as i64).unwrap_or(0).min(9);
        let first = (low / step).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let ticks = (first..=last).map(|index| index as f64 * step);
        ticks.map(|value| Tick { value, label: grouped_decimals(value, decimals) }).collect()
    }

    /// Returns the multiples between powers of ten, for the small ticks that show a logarithmic scale.
    pub(crate) fn between_powers(&self) -> impl Iterator<Item = f64> {
        let high = self.values.1;
        let powers = (0..=high.log10() as i32).map(|power| 10f64.powi(power));
        let values = powers.flat_map(|power| (2..10).map(move |factor| f64::from(factor) * power));
        values.filter(move |value| *value <= high)
    }

    /// Returns powers of ten, and if these are few also their multiples by 2 and 5.
    fn powers(&self, most: u32) -> Vec<Tick> {
        let high = self.values.1;
        let decades = high.log10();
        let factors: &[f64] =
            if decades * 3.0 <= f64::from(most) { &[1.0, 2.0, 5.0] } else { &[1.0] };
        // 1, 100, 10,000, ... where there is no room for each power.
        let stride = (decades.floor() as usize + 1).div_ceil(most.max(1) as usize);
        let powers = (0..=decades as i32).step_by(stride).map(|power| 10f64.powi(power));
        let values = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        let values = values.filter(|value| *value <= high * (1.0 + 1e-9));
        values.map(|value| Tick { value, label: grouped_decimals(value, 0) }).collect()
    }
}

/// Returns the range, or one of width 1 if it is empty or infinite.
fn wide((low, high): (f64, f64)) -> (f64, f64) {
    if high > low && high.is_finite() { (low, high) } else { (low, low + 1.0) }
}

/// Returns the least of 1, 2, 5 times a power of ten that is no less than `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0].into_iter();
    // A rounding error such as 1.0000000001 must not become 2.
    factors
        .map(|factor| factor * power)
        .find(|round| *round >= step * 0.999)
        .unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        let check = |high, most, expected: &[&str]| {
            let ticks = Scale::linear((0.0, high), (0.0, 100.0)).ticks(most, false);
            assert_eq!(labels(&ticks), expected);
        };
        check(10.0, 5, &["0", "2", "4", "6", "8", "10"]);
        check(0.35, 4, &["0.0", "0.1", "0.2", "0.3"]);
        check(9_876.0, 2, &["0", "5,000"]);
        let few = Scale::linear((0.0, 2.0), (0.0, 100.0)).ticks(8, true);
        assert_eq!(labels(&few), ["0", "1", "2"]);
        let powers = |high, most| Scale::logarithmic(high, (0.0, 100.0)).ticks(most, true);
        assert_eq!(labels(&powers(10_041.0, 8)), ["1", "10", "100", "1,000", "10,000"]);
        assert_eq!(labels(&powers(1e7, 4)), ["1", "100", "10,000", "1,000,000"]);
        assert_eq!(labels(&powers(60.0, 8)), ["1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn ticks_across_leave_room_between_labels() {
        let scale = Scale::linear((0.0, 10_000_000.0), (0.0, 400.0));
        assert_eq!(labels(&scale.ticks_across(15.0, true)), ["0", "5,000,000", "10,000,000"]);
    }

    #[test]
    fn scale_of_no_width_maps_to_its_start() {
        assert_eq!(Scale::linear((3.0, 3.0), (10.0, 20.0)).at(3.0), 10.0);
        assert_eq!(Scale::logarithmic(0.0, (10.0, 20.0)).at(1.0), 10.0);
        assert_eq!(Scale::logarithmic(100.0, (10.0, 20.0)).at(10.0), 15.0);
        assert_eq!(Scale::linear((0.0, f64::NAN), (10.0, 20.0)).at(f64::NAN), 10.0);
    }
}
