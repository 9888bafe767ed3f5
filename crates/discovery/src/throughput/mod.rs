//! What request sizes and how many requests at a time a device likes: its throughput, measured with reads, and with leave with writes.
//!
//! Both are looked for as thesis 3.2 defines them: an ensemble is what is best accessed whole, so it is as long as the shortest request
//! beyond which longer ones gain little; parallelism is how many requests at a time bring all that more of them would.

mod meter;
mod schedule;

use moirai_runtime::now;
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::error::Result;
use meter::{Meter, Series, Setting};
use schedule::Schedule;

/// Requests from 4 KiB to 8 MiB.
const SIZES: u32 = 12;
const SHORTEST: BlockCount = BlockCount(8);
/// Up to 128 requests at a time.
const DEPTHS: u32 = 8;
/// Writes of 4 KiB to 1 MiB, up to 32 at a time, in no more than this at the end of the device.
const WRITE_SIZES: u32 = 9;
const WRITE_DEPTHS: u32 = 6;
const SCRATCH: BlockCount = BlockCount(131_072);
/// As much of the time is spent on flushes as on so many of the other measurements.
const FLUSH_RUNS: usize = 8;
/// How often everything is measured, in turns: the machine and the device have other things to do now and then.
const ROUNDS: usize = 5;
/// What gains less is not worth it.
const GAIN: f64 = 1.05;

/// A throughput that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Of each request.
    pub blocks: BlockCount,
    /// Requests at a time.
    pub depth: u32,
    /// Whether requests begin at multiples of their length, and not in the middle between two.
    pub is_aligned: bool,
    /// The median of several measurements.
    pub bytes_per_s: f64,
    /// The least and the most of them.
    pub range: (f64, f64),
    /// From issue to completion: the median of all requests.
    pub response: Nanos,
    /// The 99th percentile of them.
    pub response_p99: Nanos,
}

/// What a device is good at, as far as reads tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Preferences {
    /// By length, one request at a time.
    pub by_size: Vec<Throughput>,
    /// By how many requests of 4 KiB there are at a time.
    pub by_depth: Vec<Throughput>,
    /// Requests as long as an ensemble that begin at its multiples, and in the middle between two.
    pub by_alignment: [Throughput; 2],
    /// Beyond this length a longer request gains under 5 %.
    pub ensemble: BlockCount,
    /// Whether an ensemble's beginning matters.
    pub is_alignment_worth: bool,
    /// Requests at a time that come within 5 % of the best throughput.
    pub parallelism: u32,
    /// How many of the rounds, each by itself, came to the same ensemble, and to the same parallelism, of how many.
    pub agreeing: (usize, usize, usize),
}

/// How fast a device is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// By length, one request at a time.
    pub by_size: Vec<Throughput>,
    /// By how many requests of 4 KiB there are at a time.
    pub by_depth: Vec<Throughput>,
    /// A write of 4 KiB and the flush behind it: the median.
    pub flush: Nanos,
    /// Where it was written, what it held.
    pub scratch: BlockRange,
}

impl Setting {
    fn of_size(blocks: BlockCount) -> Setting {
        Setting { blocks, depth: 1, is_aligned: true }
    }

    fn of_depth(depth: u32) -> Setting {
        Setting { blocks: SHORTEST, depth, is_aligned: true }
    }

    /// Of all requests that are in flight together.
    fn blocks_at_once(&self) -> BlockCount {
        BlockCount(self.blocks.0 * u64::from(self.depth))
    }
}

fn series(settings: Vec<Setting>) -> Vec<Series> {
    settings.into_iter().map(Series::new).collect()
}

/// Measures what `device` likes until `ends`, or longer if one request for each measurement takes longer. `progress` is told which
/// share of the measurements is done.
///
/// # Errors
/// Failures of the device.
pub async fn measure(
    device: &dyn Device,
    ends: Instant,
    mut progress: impl FnMut(f64),
) -> Result<Preferences> {
    // A request has room for some others beside it.
    let longest = device.inquiry().capacity.0 / 16;
    let sizes: Vec<Setting> = (0..SIZES)
        .map(|power| Setting::of_size(BlockCount(SHORTEST.0 << power)))
        .filter(|setting| setting.blocks.0 <= longest || setting.blocks == SHORTEST)
        .collect();
    let depths: Vec<Setting> = (0..DEPTHS).map(|power| Setting::of_depth(1 << power)).collect();
    let mut schedule = Schedule::new(ends, (sizes.len() + depths.len() + 2) * ROUNDS);
    let memory = sizes.iter().chain(&depths).map(Setting::blocks_at_once).max();
    let mut meter = Meter::reading(device, memory.unwrap_or(SHORTEST));
    let [mut by_size, mut by_depth] = [sizes, depths].map(series);
    for _ in 0..ROUNDS {
        for series in by_size.iter_mut().chain(&mut by_depth) {
            meter.run(series, schedule.next_span()).await?;
            progress(schedule.done());
        }
    }
    let ensemble_of = |throughput: &dyn Fn(&Series) -> f64| {
        let values: Vec<f64> = by_size.iter().map(throughput).collect();
        by_size.get(knee(&values)).map_or(SHORTEST, |series| series.setting.blocks)
    };
    let parallelism_of = |throughput: &dyn Fn(&Series) -> f64| {
        let values: Vec<f64> = by_depth.iter().map(throughput).collect();
        by_depth.get(knee(&values)).map_or(1, |series| series.setting.depth)
    };
    let (ensemble, parallelism) = (ensemble_of(&Series::median), parallelism_of(&Series::median));
    let in_round = |round| move |series: &Series| series.round(round).unwrap_or(0.0);
    let agree = |is_same: &dyn Fn(usize) -> bool| (0..ROUNDS).filter(|at| is_same(*at)).count();
    let agreeing = (
        agree(&|round| ensemble_of(&in_round(round)) == ensemble),
        agree(&|round| parallelism_of(&in_round(round)) == parallelism),
        ROUNDS,
    );
    let mut by_alignment = [true, false]
        .map(|is_aligned| Series::new(Setting { is_aligned, ..Setting::of_size(ensemble) }));
    for _ in 0..ROUNDS {
        for series in &mut by_alignment {
            meter.run(series, schedule.next_span()).await?;
            progress(schedule.done());
        }
    }
    let by_alignment = by_alignment.each_ref().map(Series::throughput);
    let [aligned, apart] = &by_alignment;
    Ok(Preferences {
        is_alignment_worth: aligned.bytes_per_s > GAIN * apart.bytes_per_s,
        by_size: by_size.iter().map(Series::throughput).collect(),
        by_depth: by_depth.iter().map(Series::throughput).collect(),
        by_alignment,
        ensemble,
        parallelism,
        agreeing,
    })
}

/// Measures how fast `device` is written, until `ends`, or longer if one request for each measurement takes longer: at the device's
/// end, where what the blocks hold is written again. Nobody else may write there meanwhile. `progress` is told which share of the
/// measurements is done.
///
/// # Errors
/// Failures of the device.
pub async fn measure_writes(
    device: &dyn Device,
    ends: Instant,
    mut progress: impl FnMut(f64),
) -> Result<Writes> {
    let capacity = device.inquiry().capacity.0;
    let count = (capacity / 16).min(SCRATCH.0).max(SHORTEST.0.min(capacity));
    let first = Lbn((capacity - count) / SHORTEST.0 * SHORTEST.0);
    let scratch = BlockRange::new(first, BlockCount(count));
    let content = device.read(scratch).await?;
    let sizes = (0..WRITE_SIZES).map(|power| Setting::of_size(BlockCount(SHORTEST.0 << power)));
    let sizes: Vec<Setting> = sizes
        .filter(|setting| setting.blocks.0 <= count / 4 || setting.blocks == SHORTEST)
        .collect();
    let depths: Vec<Setting> =
        (0..WRITE_DEPTHS).map(|power| Setting::of_depth(1 << power)).collect();
    let [mut by_size, mut by_depth] = [sizes, depths].map(series);
    let runs = (by_size.len() + by_depth.len()) * ROUNDS + FLUSH_RUNS;
    let mut schedule = Schedule::new(ends, runs);
    let mut meter = Meter::writing(device, scratch, content);
    let is_over = || now() >= ends;
    for round in 0..ROUNDS {
        // Flushes take time, too: on some devices more than all the writes.
        if round > 0 && is_over() {
            break;
        }
        for series in by_size.iter_mut().chain(&mut by_depth) {
            meter.run(series, schedule.next_span()).await?;
            // What was written at a time is not left to the next measurement.
            device.flush().await?;
            progress(schedule.done());
        }
    }
    let mut flushes = Vec::new();
    let mut single = Series::new(Setting::of_size(SHORTEST));
    while flushes.is_empty() || !is_over() {
        let began = now();
        meter.run(&mut single, Nanos::ZERO).await?;
        device.flush().await?;
        flushes.push(now().since(began));
    }
    flushes.sort_unstable();
    Ok(Writes {
        by_size: by_size.iter().map(Series::throughput).collect(),
        by_depth: by_depth.iter().map(Series::throughput).collect(),
        flush: flushes.get(flushes.len() / 2).copied().unwrap_or_default(),
        scratch,
    })
}

/// The first of values from which on none gains as much as [`GAIN`].
fn knee(values: &[f64]) -> usize {
    let best_behind = |index: usize| {
        values.get(index + 1..).unwrap_or_default().iter().copied().fold(0.0, f64::max)
    };
    let is_enough = |(index, value): &(usize, &f64)| best_behind(*index) < **value * GAIN;
    values.iter().enumerate().find(is_enough).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_is_where_more_gains_little() {
        assert_eq!(knee(&[1.0, 2.0, 4.0, 7.0, 7.1, 7.2, 7.3]), 3);
        assert_eq!(knee(&[7.0, 7.0]), 0);
        // A step that gains nothing, before one that does.
        assert_eq!(knee(&[1.0, 1.0, 3.0, 3.1]), 2);
        assert_eq!(knee(&[]), 0);
    }
}
