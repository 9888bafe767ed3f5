//! Segments: how the devices of a log are divided, and where the log can be read from.

use std::ops::RangeInclusive;
use std::sync::Arc;

use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};

use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::log::frame::LABEL_BLOCKS;

/// A track is left when so many percent of it are written.
pub(crate) const TRACK_FILL_PERCENT: u64 = 75;
/// What counts of a track: a frame has seven bytes of eight for content at least.
const TRACK_ROOM_PERCENT: u64 = TRACK_FILL_PERCENT * 7 / 8;
/// Tracks of a log at most.
const TRACKS_MAX: usize = 1 << 20;
/// Disks of a log at most.
pub(crate) const LOG_DISKS_MAX: usize = 8;
/// Blocks of a segment at least, and physical sectors.
const SEGMENT_BLOCKS_MIN: u64 = 8;
const SEGMENT_SECTORS_MIN: u64 = 4;
/// Blocks of a physical sector at most: of longer ones frames take parts.
pub(crate) const PHYSICAL_BLOCKS_MAX: BlockCount = BlockCount(128);
/// Segments of a disk, at least and at most.
pub(crate) const SEGMENTS: RangeInclusive<u32> = 4..=1 << 20;

/// A disk of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogDisk {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Arc<Segments>,
    /// What its frames say which disk's they are.
    pub(crate) id: u64,
}

/// Where the log lies on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Blocks of a segment; of tracks, those that count.
    pub(crate) segment: BlockCount,
    pub(crate) segments: u32,
    pub(crate) writer: LogWriter,
    /// Blocks of a physical sector, as the device reported it when it was formatted. A power cut may damage the sectors that
    /// a write touches as a whole, so no two frames share one.
    pub(crate) physical: BlockCount,
}

impl Ring {
    /// Blocks of a segment, at least.
    pub(crate) fn segment_min(physical: BlockCount) -> BlockCount {
        BlockCount((physical.0 * SEGMENT_SECTORS_MIN).max(SEGMENT_BLOCKS_MIN))
    }

    /// Where the first segment begins, when these are no tracks.
    pub(crate) fn first(physical: BlockCount) -> Lbn {
        Lbn(LABEL_BLOCKS.0.next_multiple_of(physical.0.max(1)))
    }

    pub(crate) fn segment_at(&self, index: u32) -> BlockRange {
        let before = BlockCount(self.segment.0 * u64::from(index));
        BlockRange::new(Ring::first(self.physical) + before, self.segment)
    }

    pub(crate) fn after(&self, index: u32) -> u32 {
        self.step(index, 1)
    }

    /// The segment that comes `count` segments after `index`, at most once around.
    pub(crate) fn step(&self, index: u32, count: u32) -> u32 {
        (index + count) % self.segments.max(1)
    }

    /// How many segments after `from` the segment `to` comes.
    pub(crate) fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.segments - from) % self.segments.max(1)
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogWriter {
    /// Each frame behind the last one on its device: for files and flash, and for disks that take writes into a cache.
    #[default]
    Append,
    /// Each frame where the head is about to be. Each device of the log is a disk of its own, or the beginning of
    /// one, whose ensembles are its tracks.
    Trail {
        /// The time of a turn, of all disks of the log.
        rotation: Nanos,
    },
}

/// Where the segments of a log lie on a disk.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) ring: Ring,
    pub(crate) tracks: Option<Tracks>,
}

/// The tracks of a disk, in their order.
#[derive(Debug)]
pub(crate) struct Tracks {
    pub(crate) rotation: Nanos,
    /// Where each begins, and where the last ends. The disk's first is not one: it has the label.
    pub(crate) starts: Vec<Lbn>,
    /// By which part of a turn each begins behind the place where the first does.
    pub(crate) phases: Vec<f64>,
}

impl Segments {
    /// Those of a log that was formatted; `None` when the device has others now.
    pub(crate) fn of(device: &dyn Device, ring: Ring) -> Result<Option<Segments>> {
        if ring.writer == LogWriter::Append {
            let end = ring.segment_at(ring.segments).first;
            let is_there = end.0 <= device.inquiry().capacity.0;
            return Ok(is_there.then_some(Segments { ring, tracks: None }));
        }
        let now = Segments::tracks_of(device, ring.writer, ring.physical)?;
        Ok(Some(now).filter(|now| now.ring == ring))
    }

    /// Blocks of all segments.
    pub(crate) fn blocks(&self) -> BlockCount {
        match self.tracks.as_ref().map(|tracks| &tracks.starts[..]) {
            Some([first, .., end]) => end.since(*first),
            Some(_) => BlockCount::ZERO,
            None => BlockCount(self.ring.segment.0 * u64::from(self.ring.segments)),
        }
    }

    /// The tracks of `device`.
    pub(crate) fn tracks_of(
        device: &dyn Device,
        writer: LogWriter,
        physical: BlockCount,
    ) -> Result<Segments> {
        let rotation = match writer {
            LogWriter::Trail { rotation } => rotation,
            LogWriter::Append => Nanos(0),
        };
        if rotation == Nanos(0) {
            return Err(Error::Options {
                problem:
                    "a revolution of the log disk takes no time: give the rotation of the disk"
                        .into(),
            });
        }
        let capacity = device.inquiry().capacity;
        let label = device.ensemble(Lbn(0))?.blocks;
        let (mut at, mut phase) = (label.end().min(Lbn(capacity.0)), 0.0_f64);
        let (mut starts, mut phases) = (vec![at], vec![phase]);
        let mut counts = Vec::new();
        while at.0 < capacity.0 {
            let track = device.ensemble(at)?;
            let (count, end) = (track.blocks.count, track.blocks.end().min(Lbn(capacity.0)));
            if end <= at || starts.len() > TRACKS_MAX {
                let name = &device.inquiry().name;
                let problem = format!(
                    "{name}: the ensembles are not tracks, or are more than {TRACKS_MAX}: put the log on a disk, or at \
                     the beginning of a disk"
                );
                return Err(Error::Options { problem });
            }
            at = end;
            phase = (phase + track.switch.0 as f64 / count.0 as f64).fract();
            counts.push(count);
            starts.push(at);
            phases.push(phase);
        }
        // What the device's end cuts off is too short to count.
        let last = counts.pop().unwrap_or_default();
        let shortest = counts.into_iter().min().unwrap_or_default();
        if last < shortest {
            starts.pop();
        }
        let segments = starts.len().saturating_sub(1) as u32;
        // Sectors that reach over the track's ends are left out.
        let whole = shortest.0.saturating_sub(2 * (physical.0 - 1));
        let segment = BlockCount(whole * TRACK_ROOM_PERCENT / 100);
        let ring = Ring { segment, segments, writer, physical };
        Ok(Segments { ring, tracks: Some(Tracks { rotation, starts, phases }) })
    }

    pub(crate) fn at(&self, index: u32) -> BlockRange {
        let Some(tracks) = &self.tracks else { return self.ring.segment_at(index) };
        match tracks.starts.get(index as usize..) {
            Some([first, end, ..]) => BlockRange::between(*first, *end),
            _ => BlockRange::new(Lbn(0), BlockCount::ZERO),
        }
    }
}

/// The beginning of a segment in use: from here the log can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The segment that each disk is at, of which one begins here.
    pub(crate) at: [u32; LOG_DISKS_MAX],
    /// The number of its first frame.
    pub(crate) number: u64,
    /// The checksum of the frame before that.
    pub(crate) previous: u32,
    /// The first group that begins in it.
    pub(crate) first: Seq,
}

impl Start {
    pub(crate) fn segment(&self, disk: usize) -> u32 {
        self.at.get(disk).copied().unwrap_or(0)
    }

    /// This one, with `disk` at `segment`.
    pub(crate) fn with(mut self, disk: usize, segment: u32) -> Start {
        if let Some(at) = self.at.get_mut(disk) {
            *at = segment;
        }
        self
    }
}
