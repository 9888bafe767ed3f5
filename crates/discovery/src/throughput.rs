//! What request sizes and how many requests at a time a device likes: its throughput, measured with reads, and with leave with writes.
//!
//! Both are looked for as thesis 3.2 defines them: an ensemble is what is best accessed whole, so it is as long as the shortest request
//! beyond which longer ones gain little; parallelism is how many requests at a time bring all that more of them would.

use futures::{StreamExt, stream};
use moirai_runtime::now;
use moirai_storage::{Device, IoBuf, Op, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn, Nanos};

use crate::error::Result;
use crate::probe::SCATTERED_PART;

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
    /// Requests that were sent.
    pub commands: u64,
    /// How long it took.
    pub elapsed: Nanos,
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
    /// Writes that were sent.
    pub commands: u64,
    /// How long it took.
    pub elapsed: Nanos,
}

/// What is measured at once.
#[derive(Clone, Copy)]
struct Setting {
    blocks: BlockCount,
    depth: u32,
    is_aligned: bool,
}

impl Setting {
    fn of_size(blocks: BlockCount) -> Setting {
        Setting { blocks, depth: 1, is_aligned: true }
    }

    fn of_depth(depth: u32) -> Setting {
        Setting { blocks: SHORTEST, depth, is_aligned: true }
    }
}

/// Measures what `device` likes in about the time `budget`. `progress` is told which share of it is over.
///
/// # Errors
/// Failures of the device.
pub async fn measure(
    device: &dyn Device,
    budget: Nanos,
    mut progress: impl FnMut(f64),
) -> Result<Preferences> {
    // A request has room for some others beside it.
    let longest = device.inquiry().capacity.0 / 16;
    let sizes: Vec<Setting> = (0..SIZES)
        .map(|power| Setting::of_size(BlockCount(SHORTEST.0 << power)))
        .filter(|setting| setting.blocks.0 <= longest || setting.blocks == SHORTEST)
        .collect();
    let depths: Vec<Setting> = (0..DEPTHS).map(|power| Setting::of_depth(1 << power)).collect();
    let settings: Vec<Setting> = sizes.iter().chain(&depths).copied().collect();
    let runs = (settings.len() + 2) * ROUNDS;
    let mut meter = Meter::reading(device);
    let span = Nanos(budget.0 / runs as u64);
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); settings.len()];
    let mut done = 0;
    for _ in 0..ROUNDS {
        for (setting, measured) in settings.iter().zip(&mut rounds) {
            measured.push(meter.run(*setting, span).await?);
            done += 1;
            progress(done as f64 / runs as f64);
        }
    }
    let (by_size, by_depth) = rounds.split_at(sizes.len());
    let size_of = |index: usize| sizes.get(index).map_or(SHORTEST, |setting| setting.blocks);
    let depth_of = |index: usize| depths.get(index).map_or(1, |setting| setting.depth);
    let medians = |all: &[Vec<f64>]| all.iter().map(|one| median(one)).collect::<Vec<f64>>();
    let in_round = |all: &[Vec<f64>], round: usize| {
        all.iter().filter_map(|one| one.get(round).copied()).collect::<Vec<f64>>()
    };
    let ensemble = size_of(knee(&medians(by_size)));
    let parallelism = depth_of(knee(&medians(by_depth)));
    let agree =
        |is_same: &dyn Fn(usize) -> bool| (0..ROUNDS).filter(|round| is_same(*round)).count();
    let agreeing = (
        agree(&|round| size_of(knee(&in_round(by_size, round))) == ensemble),
        agree(&|round| depth_of(knee(&in_round(by_depth, round))) == parallelism),
        ROUNDS,
    );
    let settings_of_ensemble =
        [true, false].map(|is_aligned| Setting { is_aligned, ..Setting::of_size(ensemble) });
    let mut of_ensemble = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (setting, measured) in settings_of_ensemble.into_iter().zip(&mut of_ensemble) {
            measured.push(meter.run(setting, span).await?);
            done += 1;
            progress(done as f64 / runs as f64);
        }
    }
    let told = |(setting, measured): (&Setting, &Vec<f64>)| throughput(*setting, measured);
    let [aligned, apart] = [0, 1].map(|index: usize| {
        let setting = settings_of_ensemble.get(index).copied();
        let measured = of_ensemble.get(index).map(Vec::as_slice).unwrap_or_default();
        throughput(setting.unwrap_or(Setting::of_size(ensemble)), measured)
    });
    Ok(Preferences {
        by_size: sizes.iter().zip(by_size).map(told).collect(),
        by_depth: depths.iter().zip(by_depth).map(told).collect(),
        is_alignment_worth: aligned.bytes_per_s > GAIN * apart.bytes_per_s,
        by_alignment: [aligned, apart],
        ensemble,
        parallelism,
        agreeing,
        commands: meter.commands,
        elapsed: meter.elapsed,
    })
}

/// Measures how fast `device` is written, in about the time `budget`: at its end, where what the blocks hold is written again. Nobody
/// else may write there meanwhile. `progress` is told which share of it is over.
///
/// # Errors
/// Failures of the device.
pub async fn measure_writes(
    device: &dyn Device,
    budget: Nanos,
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
    let settings: Vec<Setting> = sizes.iter().chain(&depths).copied().collect();
    let runs = settings.len() * ROUNDS + FLUSH_RUNS;
    let span = Nanos(budget.0 / runs as u64);
    let mut meter = Meter { scratch: Some((scratch, content)), ..Meter::reading(device) };
    let began_all = now();
    let is_over = || now().since(began_all) >= budget;
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); settings.len()];
    for round in 0..ROUNDS {
        // Flushes take time, too: on some devices more than all the writes.
        if round > 0 && is_over() {
            break;
        }
        for (index, (setting, measured)) in settings.iter().zip(&mut rounds).enumerate() {
            measured.push(meter.run(*setting, span).await?);
            // What was written at a time is not left to the next measurement.
            device.flush().await?;
            progress((round * settings.len() + index) as f64 / runs as f64);
        }
    }
    let mut flushes = Vec::new();
    let mut left = Nanos(span.0 * FLUSH_RUNS as u64);
    while flushes.is_empty() || (left > Nanos::ZERO && !is_over()) {
        let began = now();
        meter.run(Setting::of_size(SHORTEST), Nanos::ZERO).await?;
        device.flush().await?;
        let took = now().since(began);
        flushes.push(took);
        left = left - took.min(left);
    }
    flushes.sort_unstable();
    let (by_size, by_depth) = rounds.split_at(sizes.len());
    let told = |(setting, measured): (&Setting, &Vec<f64>)| throughput(*setting, measured);
    Ok(Writes {
        by_size: sizes.iter().zip(by_size).map(told).collect(),
        by_depth: depths.iter().zip(by_depth).map(told).collect(),
        flush: flushes.get(flushes.len() / 2).copied().unwrap_or_default(),
        scratch,
        commands: meter.commands,
        elapsed: now().since(began_all),
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

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn throughput(setting: Setting, measured: &[f64]) -> Throughput {
    let least = measured.iter().copied().fold(f64::MAX, f64::min);
    let most = measured.iter().copied().fold(0.0, f64::max);
    let Setting { blocks, depth, is_aligned } = setting;
    Throughput { blocks, depth, is_aligned, bytes_per_s: median(measured), range: (least, most) }
}

/// Sends requests, and measures how much they bring.
struct Meter<'a> {
    device: &'a dyn Device,
    /// Where is written, and what these blocks hold; without, all of the device is read.
    scratch: Option<(BlockRange, IoBuf)>,
    /// Where the last request began, as a part of the device.
    at: f64,
    commands: u64,
    elapsed: Nanos,
}

impl<'a> Meter<'a> {
    fn reading(device: &'a dyn Device) -> Meter<'a> {
        Meter { device, scratch: None, at: 0.0, commands: 0, elapsed: Nanos::ZERO }
    }

    /// Bytes a second, of requests all over the device or its scratch for about `span`, of which there is one in any case.
    async fn run(&mut self, setting: Setting, span: Nanos) -> Result<f64> {
        let Setting { blocks, depth, is_aligned } = setting;
        let device = self.device;
        let within = match &self.scratch {
            Some((scratch, _)) => *scratch,
            None => BlockRange::new(Lbn(0), device.inquiry().capacity),
        };
        // The smallest device has no other place.
        let has_room = within.count.0 >= blocks.0 + blocks.0 / 2;
        let offset = if is_aligned || !has_room { 0 } else { blocks.0 / 2 };
        let places = (within.count.0.saturating_sub(offset) / blocks.0).max(1);
        let (at, scratch) = (&mut self.at, &self.scratch);
        let requests = std::iter::repeat_with(move || {
            *at = (*at + SCATTERED_PART).fract();
            let place = (*at * places as f64) as u64;
            let from = BlockCount(offset + place * blocks.0);
            let blocks = BlockRange::new(within.first + from, blocks);
            let Some((_, content)) = scratch else { return Request::read(blocks) };
            let bytes = from.bytes().0 as usize..(from + blocks.count).bytes().0 as usize;
            let data = vec![IoBuf::holding(content.get(bytes).unwrap_or_default())];
            Request { op: Op::Write, blocks, data }
        });
        let mut reads = stream::iter(requests)
            .map(|request| device.access(request))
            .buffer_unordered(depth as usize);
        let (mut began, mut ended, mut count) = (None, None, 0_u64);
        while let Some(read) = reads.next().await {
            let timing = read?.timing;
            count += 1;
            let first = *began.get_or_insert(timing.issued);
            let last = ended.map_or(timing.finished, |ended| timing.finished.max(ended));
            ended = Some(last);
            if last.since(first) >= span {
                break;
            }
        }
        drop(reads);
        self.commands += count;
        let taken = ended.zip(began).map_or(Nanos::ZERO, |(ended, began)| ended.since(began));
        self.elapsed += taken;
        Ok((count * blocks.0 * BLOCK_BYTES) as f64 * 1e9 / taken.0.max(1) as f64)
    }
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
