//! On and off periods of streams, and how those of two streams overlap (placement paper 3.1, 3.3).

use moirai_runtime::{Random, seeded};
use moirai_units::{Instant, Nanos};
use rand::Rng;

use crate::workload::{Stream, Workload};

/// The on periods of a stream, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    periods: OnOff,
    random: Random,
    /// What the periods are drawn from.
    seed: u64,
    leader: String,
    /// The end of the last cycle.
    at_ns: f64,
    /// The length of the first on period, where it is known.
    first_on: Option<f64>,
    /// How a follower's periods lie to those of its leader; `None` for a stream of its own.
    overlap: Option<(f64, Random)>,
}

/// The lengths of on and off periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OnOff {
    /// The mean length of an on period.
    pub(crate) on_ns: f64,
    /// The mean length of an off period.
    pub(crate) off_ns: f64,
    /// Whether each off period is as long, in proportion, as the on period before it. It must be
    /// where another stream follows this one.
    pub(crate) in_proportion: bool,
}

impl Windows {
    /// The on periods of `stream` of `workload` under `seed`; `None` when it is always on.
    #[must_use]
    pub(crate) fn of(workload: &Workload, stream: &Stream, seed: u64) -> Option<Windows> {
        let leader = workload.leader(stream);
        let (on_ms, off_ms) = (leader.on_ms?, leader.off_ms?);
        let follows = |other: &Stream| other.follows.as_ref() == Some(&leader.object);
        let in_proportion = workload.streams.iter().any(follows);
        let periods = OnOff { on_ns: on_ms * 1e6, off_ns: off_ms * 1e6, in_proportion };
        let named = |what: &str, name: &str| seeded(seed, &format!("{what} of {name}"));
        let overlap = stream.follows.as_ref().map(|_| {
            let overlap = stream.overlap.unwrap_or(0.0);
            (overlap, named("overlap", &stream.object))
        });
        let random = named("periods", &leader.object);
        let leader = leader.object.clone();
        Some(Windows { periods, random, seed, leader, at_ns: 0.0, first_on: None, overlap })
    }

    /// The stream whose periods these are.
    pub(crate) fn leader(&self) -> &str {
        &self.leader
    }

    /// The same from a moment on at which the stream is so far in its periods, from 0 to 1: on up to its share of the time.
    pub(crate) fn at_phase(mut self, phase: f64) -> Windows {
        let OnOff { on_ns, off_ns, in_proportion } = self.periods;
        if in_proportion {
            // At some moment a long period is more likely than a short one, by how long it is.
            let on = exponential(&mut self.random, on_ns) + exponential(&mut self.random, on_ns);
            self.first_on = Some(on);
            self.at_ns = -phase * on * (1.0 + off_ns / on_ns);
        } else if phase * self.cycle_ns() >= on_ns {
            // Exponential periods are as long from any moment in them as from their beginning.
            self.at_ns = exponential(&mut self.random, off_ns);
        }
        self
    }

    /// Leaves out the periods before `from_ns`. Those of a leader and of its followers are left out alike.
    pub(crate) fn skip_to(&mut self, from_ns: f64) {
        self.at_ns = from_ns;
        let name = format!("periods of {} from {from_ns} ns", self.leader);
        self.random = seeded(self.seed, &name);
    }

    /// The mean length of an on period and the off period after it.
    pub(crate) fn cycle_ns(&self) -> f64 {
        self.periods.on_ns + self.periods.off_ns
    }
}

impl Iterator for Windows {
    type Item = (Instant, Instant);

    /// The next on period.
    ///
    /// A follower is on as long as its leader and shifted against it. For a correlation of x, the
    /// share of the overlap is uniform from 0 to 2 x up to one half, and from 2 x - 1 to 1 above
    /// (placement paper 3.3).
    fn next(&mut self) -> Option<Self::Item> {
        let OnOff { on_ns, off_ns, in_proportion } = self.periods;
        let first_on = self.first_on.take();
        let on = first_on.unwrap_or_else(|| exponential(&mut self.random, on_ns));
        let off = match in_proportion {
            true => on * off_ns / on_ns,
            false => exponential(&mut self.random, off_ns),
        };
        let mut start = self.at_ns;
        self.at_ns += on + off;
        if let Some((correlation, random)) = &mut self.overlap {
            let x = *correlation;
            let (low, high) = if x <= 0.5 { (0.0, 2.0 * x) } else { (2.0 * x - 1.0, 1.0) };
            let share = low + (high - low) * random.random::<f64>();
            start += (1.0 - share) * on;
        }
        let instant = |ns: f64| Instant { ns: ns as u64 };
        Some((instant(start), instant(start + on)))
    }
}

/// A draw from the exponential distribution with `mean`.
pub(crate) fn exponential(random: &mut Random, mean: f64) -> f64 {
    -(1.0 - random.random::<f64>()).ln() * mean
}

/// The time between two instants in nanoseconds.
pub(crate) fn span(from: Instant, to: Instant) -> Nanos {
    Nanos(to.ns.saturating_sub(from.ns))
}

#[cfg(test)]
mod tests {
    use moirai_units::ByteCount;

    use super::*;

    /// The share of the leader's on time during which the follower is on, too.
    fn overlap(x: f64) -> f64 {
        let mut leader = Stream::open("leader", 1.0, ByteCount(4096));
        (leader.on_ms, leader.off_ms) = (Some(100.0), Some(100.0));
        let mut follower = Stream::open("follower", 1.0, ByteCount(4096));
        (follower.follows, follower.overlap) = (Some("leader".into()), Some(x));
        let workload = Workload { streams: vec![leader, follower] };
        let of = |index: usize| -> Vec<(Instant, Instant)> {
            let windows = Windows::of(&workload, &workload.streams[index], 1).unwrap();
            windows.take(10_000).collect()
        };
        let (leader, follower) = (of(0), of(1));
        let on: u64 = leader.iter().map(|(from, to)| span(*from, *to).0).sum();
        let both: u64 = leader
            .iter()
            .zip(&follower)
            .map(|(one, other)| span(one.0.max(other.0), one.1.min(other.1)).0)
            .sum();
        both as f64 / on as f64
    }

    #[test]
    fn periods_overlap_as_much_as_the_correlation_says() {
        for x in [0.0, 0.25, 0.5, 0.75, 1.0] {
            assert!((overlap(x) - x).abs() < 0.02, "{x}: {}", overlap(x));
        }
    }

    #[test]
    fn periods_that_are_left_out_are_left_out_of_both_streams() {
        let mut leader = Stream::open("leader", 1.0, ByteCount(4096));
        (leader.on_ms, leader.off_ms) = (Some(100.0), Some(100.0));
        let mut follower = Stream::open("follower", 1.0, ByteCount(4096));
        (follower.follows, follower.overlap) = (Some("leader".into()), Some(1.0));
        let workload = Workload { streams: vec![leader, follower] };
        let after = |index: usize, before: usize| -> Vec<(Instant, Instant)> {
            let mut windows = Windows::of(&workload, &workload.streams[index], 1).unwrap();
            assert_eq!(windows.by_ref().take(before).count(), before);
            windows.skip_to(1e15);
            windows.take(50).collect()
        };
        // However many periods each had before.
        assert_eq!(after(0, 3), after(1, 4));
        assert!(after(0, 3).iter().all(|(start, _)| start.ns >= 1_000_000_000_000_000));
    }

    /// Whether a stream is on at a moment, and how long it stays so.
    fn at(workload: &Workload, index: usize, seed: u64, phase: f64) -> (bool, f64) {
        let windows = Windows::of(workload, &workload.streams[index], seed).unwrap();
        let mut after = windows.at_phase(phase).skip_while(|(_, end)| *end <= Instant::ZERO);
        let (start, end) = after.next().unwrap();
        let is_on = start == Instant::ZERO;
        (is_on, if is_on { end.ns } else { start.ns } as f64)
    }

    #[test]
    fn at_a_phase_below_its_share_a_stream_is_on() {
        let mut alone = Stream::open("alone", 1.0, ByteCount(4096));
        (alone.on_ms, alone.off_ms) = (Some(1e6), Some(3e6));
        let mut leader = Stream::open("leader", 1.0, ByteCount(4096));
        (leader.on_ms, leader.off_ms) = (Some(1e6), Some(3e6));
        let mut follower = Stream::open("follower", 1.0, ByteCount(4096));
        (follower.follows, follower.overlap) = (Some("leader".into()), Some(0.0));
        let workload = Workload { streams: vec![alone, leader, follower] };
        let (mut left, mut follows) = ([0.0; 2], 0);
        let count = 4_000;
        for seed in 0..count {
            let phase = (seed as f64 + 0.5) / count as f64;
            for (index, left) in left.iter_mut().enumerate() {
                let (is_on, for_ns) = at(&workload, index, seed, phase);
                assert_eq!(is_on, phase < 0.25, "{phase}");
                *left += if is_on { for_ns / 1e12 } else { 0.0 };
            }
            let (is_on, _) = at(&workload, 2, seed, phase);
            assert!(!is_on || phase >= 0.25, "never with its leader");
            follows += u32::from(is_on);
        }
        // From a moment in an on period it lasts as long again as one does on average, 1,000 s: three deviations of 1,000 are a tenth.
        for left in left {
            assert!((left / 1000.0 - 1.0).abs() < 0.1, "{left}");
        }
        assert!(follows.abs_diff(1_000) < 82, "{follows}");
    }

    #[test]
    fn a_stream_is_on_for_its_share_of_the_time() {
        let mut stream = Stream::open("a", 1.0, ByteCount(4096));
        (stream.on_ms, stream.off_ms) = (Some(50.0), Some(150.0));
        let workload = Workload { streams: vec![stream] };
        let windows: Vec<_> =
            Windows::of(&workload, &workload.streams[0], 7).unwrap().take(20_000).collect();
        let on: u64 = windows.iter().map(|(from, to)| span(*from, *to).0).sum();
        let share = on as f64 / windows.last().unwrap().1.ns as f64;
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert!(windows.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
