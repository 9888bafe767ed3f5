//! Sends requests of one kind for a while, and measures what they bring.

use std::cell::Cell;

use futures::{StreamExt, stream};
use hdrhistogram::Histogram;
use moirai_storage::{Device, IoBuf, Op, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Instant, Lbn, Nanos};

use super::Throughput;
use crate::error::Result;
use crate::probe::SCATTERED_PART;

/// Response times are kept to three digits; those that take longer than this count as this.
const DIGITS: u8 = 3;
const LONGEST_NS: u64 = 600_000_000_000;

/// The requests of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) blocks: BlockCount,
    /// Requests at a time.
    pub(super) depth: u32,
    /// Whether requests begin at multiples of their length, and not in the middle between two.
    pub(super) is_aligned: bool,
}

/// A setting, and what was measured of it in each round.
pub(super) struct Series {
    pub(super) setting: Setting,
    bytes_per_s: Vec<f64>,
    /// Response times in ns, of all rounds.
    responses: Histogram<u64>,
}

impl Series {
    #[expect(clippy::expect_used, reason = "bounds and digits that a histogram can have")]
    pub(super) fn new(setting: Setting) -> Series {
        let responses = Histogram::new_with_max(LONGEST_NS, DIGITS).expect("three digits");
        Series { setting, bytes_per_s: Vec::new(), responses }
    }

    /// The median of the rounds.
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.bytes_per_s.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }

    pub(super) fn round(&self, round: usize) -> Option<f64> {
        self.bytes_per_s.get(round).copied()
    }

    pub(super) fn throughput(&self) -> Throughput {
        let Setting { blocks, depth, is_aligned } = self.setting;
        let least = self.bytes_per_s.iter().copied().fold(f64::MAX, f64::min);
        let most = self.bytes_per_s.iter().copied().fold(0.0, f64::max);
        Throughput {
            blocks,
            depth,
            is_aligned,
            bytes_per_s: self.median(),
            range: (least, most),
            response: Nanos(self.responses.value_at_quantile(0.5)),
            response_p99: Nanos(self.responses.value_at_quantile(0.99)),
        }
    }
}

/// Sends requests to a device, all over it or all over its scratch.
pub(super) struct Meter<'a> {
    device: &'a dyn Device,
    /// Where is written, and what these blocks hold; without, all of the device is read.
    scratch: Option<(BlockRange, IoBuf)>,
    /// Where the last request began, as a part of the device.
    at: f64,
    /// Reads go to the same memory from the first to the last. Memory that an allocator takes from the system and gives back costs
    /// more than a fast device's read, by its kind of page and by what was there before.
    memory: IoBuf,
}

impl<'a> Meter<'a> {
    /// Reads of up to `memory` blocks together at a time.
    pub(super) fn reading(device: &'a dyn Device, memory: BlockCount) -> Meter<'a> {
        Meter { device, scratch: None, at: 0.0, memory: resident(memory) }
    }

    /// Writes to `scratch`, whose blocks hold `content`.
    pub(super) fn writing(
        device: &'a dyn Device,
        scratch: BlockRange,
        content: IoBuf,
    ) -> Meter<'a> {
        let memory = IoBuf::zeroed(BlockCount::ZERO);
        Meter { device, scratch: Some((scratch, content)), at: 0.0, memory }
    }

    /// Adds a round to `series`: requests for about `span`, of which there is one in any case.
    pub(super) async fn run(&mut self, series: &mut Series, span: Nanos) -> Result<()> {
        let Setting { blocks, depth, is_aligned } = series.setting;
        let (device, scratch) = (self.device, &self.scratch);
        let within = match scratch {
            Some((scratch, _)) => *scratch,
            None => BlockRange::new(Lbn(0), device.inquiry().capacity),
        };
        // The smallest device has no other place.
        let has_room = within.count.0 >= blocks.0 + blocks.0 / 2;
        let offset = if is_aligned || !has_room { 0 } else { blocks.0 / 2 };
        let places = (within.count.0.saturating_sub(offset) / blocks.0).max(1);
        let mut rest = std::mem::replace(&mut self.memory, IoBuf::zeroed(BlockCount::ZERO));
        let free = match scratch {
            Some(_) => Vec::new(),
            None => divided(&mut rest, blocks, depth),
        };
        let free = Cell::new(free);
        let at = &mut self.at;
        // Requests in flight when the time is over are awaited, and do not count.
        let is_over = Cell::new(false);
        let mut next = || {
            *at = (*at + SCATTERED_PART).fract();
            let place = (*at * places as f64) as u64;
            let from = BlockCount(offset + place * blocks.0);
            let blocks = BlockRange::new(within.first + from, blocks);
            let Some((_, content)) = scratch else {
                let mut buffers = free.take();
                let buffer = buffers.pop().unwrap_or_else(|| IoBuf::zeroed(blocks.count));
                free.set(buffers);
                return Request { op: Op::Read, blocks, data: vec![buffer] };
            };
            let bytes = from.bytes().0 as usize..(from + blocks.count).bytes().0 as usize;
            let data = vec![IoBuf::holding(content.get(bytes).unwrap_or_default())];
            Request { op: Op::Write, blocks, data }
        };
        let until_over = std::iter::from_fn(|| (!is_over.get()).then(&mut next));
        let mut requests = stream::iter(until_over)
            .map(|request| device.access(request))
            .buffer_unordered(depth as usize);
        let mut first: Option<Instant> = None;
        let (mut last, mut count) = (Instant::default(), 0_u64);
        while let Some(done) = requests.next().await {
            let done = done?;
            if scratch.is_none() {
                let mut buffers = free.take();
                buffers.extend(done.data);
                free.set(buffers);
            }
            if is_over.get() {
                continue;
            }
            let timing = done.timing;
            let first = *first.get_or_insert(timing.issued);
            last = last.max(timing.finished);
            count += 1;
            series.responses.saturating_record(timing.response().0);
            is_over.set(last.since(first) >= span);
        }
        drop(requests);
        self.memory = joined(free.into_inner(), rest);
        let taken = first.map_or(Nanos::ZERO, |first| last.since(first));
        series
            .bytes_per_s
            .push((count * blocks.0 * BLOCK_BYTES) as f64 * 1e9 / taken.0.max(1) as f64);
        Ok(())
    }
}

/// Memory that is there: until it is written to, it may not be.
fn resident(count: BlockCount) -> IoBuf {
    let mut memory = IoBuf::zeroed(count);
    memory.fill(1);
    memory
}

/// Cuts `count` buffers of `blocks` from the front of `memory`.
fn divided(memory: &mut IoBuf, blocks: BlockCount, count: u32) -> Vec<IoBuf> {
    let needed = BlockCount(blocks.0 * u64::from(count));
    // A device that failed to give a buffer back has it still.
    if memory.blocks() < needed {
        *memory = resident(needed);
    }
    let cut = |_| {
        let rest = memory.split_off(blocks);
        std::mem::replace(memory, rest)
    };
    (0..count).map(cut).collect()
}

/// Undoes [`divided`], in whatever order the buffers came back.
fn joined(mut buffers: Vec<IoBuf>, rest: IoBuf) -> IoBuf {
    buffers.sort_unstable_by_key(|buffer| buffer.as_ptr());
    let mut memory = IoBuf::zeroed(BlockCount::ZERO);
    for buffer in buffers.into_iter().chain([rest]) {
        memory.join(buffer);
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_same_after_it_was_divided() {
        let mut memory = resident(BlockCount(64));
        let address = memory.as_ptr();
        let mut buffers = divided(&mut memory, BlockCount(8), 5);
        assert_eq!((buffers.len(), memory.blocks()), (5, BlockCount(24)));
        buffers.swap(0, 3);
        let memory = joined(buffers, memory);
        assert_eq!((memory.as_ptr(), memory.blocks()), (address, BlockCount(64)));
        let mut memory =
            joined(divided(&mut { memory }, BlockCount(8), 8), resident(BlockCount::ZERO));
        assert_eq!(memory.blocks(), BlockCount(64));
        assert_eq!(divided(&mut memory, BlockCount(128), 2).len(), 2, "of fresh memory");
    }
}
