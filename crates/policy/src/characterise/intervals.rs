//! In which intervals of a length each device is accessed, and which devices are accessed in the same ones.

use super::Overlap;

/// Intervals of one length.
#[derive(Debug, Default)]
pub(super) struct Scale {
    pub(super) length_ns: u64,
    current: u64,
    /// By device: requests of the current interval.
    counts: Vec<u32>,
    active: Vec<u32>,
    pub(super) devices: Vec<Intervals>,
    /// Intervals in which both of a pair were on, by [`pair`].
    both: Vec<u32>,
}

/// When a device was accessed, in intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    pub(super) on: u64,
    pub(super) periods: u64,
    pub(super) last_on: Option<u64>,
    pub(super) first_on: u64,
    /// Requests of the intervals that have ended, and the squares of their numbers.
    requests: u64,
    squares: f64,
}

/// Correlations below this are not told.
const CORRELATION_MIN: f64 = 0.2;
/// Intervals from which a correlation is told.
const INTERVALS_MIN: u64 = 20;

/// The number of a pair of devices, the lower one first: pairs with further devices have higher numbers.
fn pair(one: usize, other: usize) -> usize {
    other * other.saturating_sub(1) / 2 + one
}

impl Scale {
    /// Intervals of this length.
    pub(super) fn new(length_ns: u64) -> Scale {
        Scale { length_ns, ..Scale::default() }
    }

    pub(super) fn add(&mut self, device: u32, since_first_ns: u64) {
        let interval = since_first_ns / self.length_ns;
        if interval != self.current {
            self.end_interval();
            self.current = interval;
        }
        let index = device as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
            self.devices.resize(index + 1, Intervals::default());
            self.both.resize(pair(0, index + 1), 0);
        }
        if let Some(count) = self.counts.get_mut(index) {
            if *count == 0 {
                self.active.push(device);
            }
            *count += 1;
        }
    }

    pub(super) fn end_interval(&mut self) {
        self.active.sort_unstable();
        for (place, device) in self.active.iter().enumerate() {
            let index = *device as usize;
            let count = self.counts.get_mut(index).map_or(0, std::mem::take);
            if let Some(intervals) = self.devices.get_mut(index) {
                intervals.on += 1;
                intervals.requests += u64::from(count);
                intervals.squares += f64::from(count) * f64::from(count);
                match intervals.last_on {
                    None => {
                        intervals.first_on = self.current;
                        intervals.periods += 1;
                    }
                    Some(last) => intervals.periods += u64::from(last + 1 != self.current),
                }
                intervals.last_on = Some(self.current);
            }
            for other in self.active.iter().skip(place + 1) {
                if let Some(both) = self.both.get_mut(pair(index, *other as usize)) {
                    *both += 1;
                }
            }
        }
        self.active.clear();
    }

    /// By device: the variance of the requests in an interval over their mean.
    pub(super) fn dispersions(&self) -> Vec<f64> {
        let intervals = self.current.max(1) as f64;
        let of = |device: &Intervals| {
            let mean = device.requests as f64 / intervals;
            let variance = device.squares / intervals - mean * mean;
            if mean > 0.0 { variance / mean } else { 0.0 }
        };
        self.devices.iter().map(of).collect()
    }

    /// The pairs whose correlation is worth telling, of `all` intervals.
    pub(super) fn overlaps(&self, all: u64, name: &impl Fn(u32) -> String) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        if all < INTERVALS_MIN {
            return overlaps;
        }
        let all = all as f64;
        let on = |index: usize| self.devices.get(index).map_or(0.0, |device| device.on as f64);
        for one in 0..self.devices.len() {
            for other in one + 1..self.devices.len() {
                let both = self.both.get(pair(one, other)).copied().map_or(0.0, f64::from);
                let (a, b) = (on(one), on(other));
                let spread = (a * (all - a) * b * (all - b)).sqrt();
                if spread == 0.0 {
                    continue;
                }
                let correlation = (all * both - a * b) / spread;
                if correlation.abs() >= CORRELATION_MIN {
                    overlaps.push(Overlap {
                        one: name(one as u32),
                        other: name(other as u32),
                        scale_s: self.length_ns as f64 / 1e9,
                        share: both / a,
                        correlation,
                    });
                }
            }
        }
        overlaps
    }
}
