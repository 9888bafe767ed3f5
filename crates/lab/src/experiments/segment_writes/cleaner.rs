//! What cleaning adds to the writes of a log-structured file system, whose segments may differ in length (thesis 5.5.2).

use std::collections::VecDeque;
use std::ops::Range;

use moirai::runtime::Random;
use moirai_models::analytic::SegmentCost;
use rand::Rng;
use rand::seq::SliceRandom;

/// The share of its space that a file system's data take.
const FULL: f64 = 0.8;
/// Hot and cold data (Rosenblum and Ousterhout 1992): this share of the writes goes to the rest's share of the files.
const HOT_WRITES: f64 = 0.9;
/// Cleaning goes on while a smaller share of the space than this is in empty segments: room for the blocks that it moves.
const EMPTY: f64 = 0.02;
/// The longest file, in blocks; the logarithms of their lengths are as likely.
const FILE_BLOCKS_MAX: usize = 128;
/// One of so many segments is cleaned at a time, and some at least; their blocks are written by age.
const CLEANED_PART: usize = 100;
const CLEANED_LEAST: usize = 2;
/// Segments that are kept empty at least, for new data and for what is moved.
const EMPTY_LEAST: usize = 4;

const NOTHING: SegmentCost =
    SegmentCost { new_written: 0.0, clean_read: 0.0, clean_written: 0.0, data_written: 0.0 };

/// A log-structured file system, without the disk: what is counted are blocks.
#[derive(Debug)]
pub(super) struct Log {
    segments: Vec<Segment>,
    /// Where each block of data is; and when it was written, in writes of a block.
    places: Vec<(usize, u64)>,
    /// Files, which are written whole.
    files: Vec<Range<usize>>,
    empty: VecDeque<usize>,
    empty_blocks: usize,
    blocks: usize,
    /// The segment that is filled with new data, and the one with moved data.
    open: [Option<usize>; 2],
    writes: u64,
    counted: SegmentCost,
}

/// An entry of the segment usage table: without the first block, which only a disk needs.
#[derive(Debug, Default)]
struct Segment {
    blocks: usize,
    /// Blocks that were written to it, of which some live elsewhere by now.
    held: Vec<usize>,
    live: usize,
    /// When its youngest block was written.
    written: u64,
}

impl Log {
    /// Segments of these lengths, filled with data in random order.
    pub(super) fn new(lengths: &[usize], random: &mut Random) -> Log {
        let blocks: usize = lengths.iter().sum();
        let segment = |blocks: &usize| Segment { blocks: *blocks, ..Segment::default() };
        let mut log = Log {
            segments: lengths.iter().map(segment).collect(),
            places: vec![(usize::MAX, 0); (blocks as f64 * FULL) as usize],
            files: Vec::new(),
            empty: (0..lengths.len()).collect(),
            empty_blocks: blocks,
            blocks,
            open: [None; 2],
            writes: 0,
            counted: NOTHING,
        };
        let mut first = 0;
        while first < log.places.len() {
            let longest = FILE_BLOCKS_MAX.min(log.places.len() - first);
            let count = (longest as f64).powf(random.random::<f64>()).ceil() as usize;
            log.files.push(first..first + count);
            first += count;
        }
        log.files.shuffle(random);
        (0..log.files.len()).for_each(|file| log.write(file));
        log
    }

    /// Overwrites as many times the data as `turns` says; gives what was written and read for that in the second half.
    pub(super) fn overwrite(&mut self, turns: usize, random: &mut Random) -> SegmentCost {
        let (count, data) = (self.files.len(), self.places.len());
        let hot = ((count as f64 * (1.0 - HOT_WRITES)) as usize).max(1);
        for half in 0..2 {
            if half == 1 {
                self.counted = NOTHING;
            }
            let until = self.writes + (data * turns / 2) as u64;
            while self.writes < until {
                let is_hot = random.random_bool(HOT_WRITES);
                let files = if is_hot { 0..hot } else { hot..count };
                self.write(random.random_range(files));
            }
        }
        self.counted
    }

    /// Writes a file anew.
    fn write(&mut self, file: usize) {
        for block in self.files.get(file).cloned().unwrap_or_default() {
            self.write_block(block);
        }
    }

    fn write_block(&mut self, block: usize) {
        self.writes += 1;
        self.counted.data_written += 1.0;
        self.counted.new_written += 1.0;
        let written = self.writes;
        self.put(block, written, 0);
        while (self.empty_blocks as f64) < EMPTY * self.blocks as f64
            || self.empty.len() < EMPTY_LEAST
        {
            if !self.clean() {
                return;
            }
        }
    }

    /// Puts a block into the segment of new or of moved data that is open.
    fn put(&mut self, block: usize, written: u64, which: usize) {
        let is_full =
            |at: usize| self.segments.get(at).is_none_or(|one| one.held.len() >= one.blocks);
        if self.open.get(which).copied().flatten().is_none_or(is_full) {
            let Some(next) = self.empty.pop_front() else {
                panic!(
                    "{EMPTY_LEAST} segments are kept empty, and {CLEANED_LEAST} and more filled none"
                );
            };
            self.empty_blocks -= self.segments.get(next).map_or(0, |one| one.blocks);
            if let Some(open) = self.open.get_mut(which) {
                *open = Some(next);
            }
        }
        let Some(open) = self.open.get(which).copied().flatten() else { return };
        let Some(place) = self.places.get_mut(block) else { return };
        let before = std::mem::replace(place, (open, written));
        if let Some(old) = self.segments.get_mut(before.0) {
            old.live -= 1;
        }
        if let Some(segment) = self.segments.get_mut(open) {
            segment.held.push(block);
            segment.live += 1;
            segment.written = segment.written.max(written);
        }
    }

    /// Empties the segments that it pays most to clean: by free space and age over what reading and writing cost
    /// (Rosenblum and Ousterhout 1992). Their live blocks are written by age. Tells whether that gave space.
    fn clean(&mut self) -> bool {
        let worth = |index: &usize| {
            let segment = self.segments.get(*index)?;
            let is_open = self.open.contains(&Some(*index));
            let full = segment.live as f64 / segment.blocks as f64;
            let age = (self.writes - segment.written + 1) as f64;
            let is_full = segment.held.len() >= segment.blocks;
            (!is_open && is_full && full < 1.0).then_some((1.0 - full) * age / (1.0 + full))
        };
        let mut all: Vec<(f64, usize)> =
            (0..self.segments.len()).filter_map(|index| Some((worth(&index)?, index))).collect();
        all.sort_by(|one, other| other.0.total_cmp(&one.0));
        all.truncate((self.segments.len() / CLEANED_PART).max(CLEANED_LEAST));
        let mut live = Vec::new();
        for (_, index) in all.iter().copied() {
            let Some(segment) = self.segments.get_mut(index) else { continue };
            // Only what lives is looked at; the segment is read whole.
            if segment.live > 0 {
                self.counted.clean_read += segment.blocks as f64;
            }
            let held = std::mem::take(&mut segment.held);
            live.extend(held.into_iter().filter_map(|block| {
                let (at, written) = self.places.get(block).copied()?;
                (at == index).then_some((written, block))
            }));
        }
        live.sort_unstable();
        live.dedup();
        self.counted.clean_written += live.len() as f64;
        for (written, block) in live {
            self.put(block, written, 1);
        }
        for (_, index) in &all {
            let Some(segment) = self.segments.get_mut(*index) else { continue };
            (segment.live, segment.written) = (0, 0);
            self.empty_blocks += segment.blocks;
            self.empty.push_back(*index);
        }
        !all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use moirai::runtime::seeded;

    use super::*;

    #[test]
    fn every_block_lives_in_one_segment() {
        let lengths: Vec<usize> = (0..200).map(|index| 20 + index % 15).collect();
        let mut random = seeded(1, "cleaner");
        let mut log = Log::new(&lengths, &mut random);
        let cost = log.overwrite(4, &mut random);
        let live: usize = log.segments.iter().map(|segment| segment.live).sum();
        assert_eq!(live, log.places.len());
        for (index, segment) in log.segments.iter().enumerate() {
            let of = log.places.iter().filter(|place| place.0 == index).count();
            assert_eq!((of, segment.held.len() <= segment.blocks), (segment.live, true), "{index}");
        }
        // Of what was read to clean, a part was live.
        assert!(cost.clean_written > 0.0 && cost.clean_written < cost.clean_read, "{cost:?}");
        assert!((1.2..6.0).contains(&cost.write_cost()), "{cost:?}");
    }
}
