//! What is known of the tracks of a disk, in little memory, and a device that serves it as attributes.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_geometry::Geometry;
use moirai_storage::{
    Completions, Device, Diagnostics, Discarded, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, IoBuf, Request, Result, Zoned,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::tracks::Tracks;

/// The tracks of a disk: runs of tracks of one length, behind which the same skew comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackMap {
    runs: Vec<Run>,
    end: Lbn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Lbn,
    track: u32,
    switch: u32,
}

impl TrackMap {
    /// The map of tracks that were found on a device of `capacity`.
    #[must_use]
    pub fn of(tracks: &Tracks, capacity: BlockCount) -> TrackMap {
        let end = Lbn(capacity.0);
        let ends = tracks.firsts.iter().copied().skip(1).chain([end]);
        let blocks = tracks.firsts.iter().zip(ends);
        let blocks = blocks.map(|(first, next)| BlockRange::between(*first, next));
        TrackMap::new(blocks.zip(tracks.switches.iter().copied()), end)
    }

    /// The map of all tracks of a layout.
    #[must_use]
    pub fn from_geometry(geometry: &Geometry) -> TrackMap {
        let mut at = Lbn(0);
        let tracks = std::iter::from_fn(|| {
            let track = geometry.track(at)?;
            at = track.blocks.end();
            Some((track.blocks, track.next_skew))
        });
        TrackMap::new(tracks, Lbn(geometry.capacity().0))
    }

    /// The map of runs of equally long tracks on a device of `capacity`: the first block of each run, blocks of a track, and
    /// the switch behind each. Runs begin at 0 and ascend.
    #[must_use]
    pub fn from_runs(
        runs: impl Iterator<Item = (u64, u32, u32)>,
        capacity: BlockCount,
    ) -> TrackMap {
        let run = |(first, track, switch)| Run { first: Lbn(first), track, switch };
        TrackMap { runs: runs.map(run).collect(), end: Lbn(capacity.0) }
    }

    /// The runs again: see [`TrackMap::from_runs`].
    pub fn runs(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        self.runs.iter().map(|run| (run.first.0, run.track, run.switch))
    }

    fn new(tracks: impl Iterator<Item = (BlockRange, u32)>, end: Lbn) -> TrackMap {
        let mut runs: Vec<Run> = Vec::new();
        for (blocks, switch) in tracks {
            // No track has so many blocks; what was taken for one is served in parts.
            let track = u32::try_from(blocks.count.0).unwrap_or(u32::MAX);
            let run = Run { first: blocks.first, track, switch };
            let is_same = |last: &&Run| (last.track, last.switch) == (run.track, run.switch);
            if runs.last().filter(is_same).is_none() {
                runs.push(run);
            }
        }
        runs.shrink_to_fit();
        TrackMap { runs, end }
    }

    /// The track of a block; `None` behind the last.
    #[must_use]
    pub fn track(&self, lbn: Lbn) -> Option<Ensemble> {
        let at = self.runs.partition_point(|run| run.first <= lbn).checked_sub(1)?;
        let Run { first, track, switch } = self.runs.get(at).filter(|_| lbn < self.end)?;
        let index = lbn.since(*first).0 / u64::from(*track).max(1);
        let first = *first + BlockCount(index * u64::from(*track));
        // A run may end within a track, where the device or the next run does.
        let next = self.runs.get(at + 1).map_or(self.end, |run| run.first);
        let end = next.min(first + BlockCount(u64::from(*track)));
        let blocks = BlockRange::between(first, end);
        Some(Ensemble { blocks, switch: BlockCount(u64::from(*switch)) })
    }

    /// The first blocks of all tracks, in their order.
    pub fn firsts(&self) -> impl Iterator<Item = Lbn> {
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.end]);
        self.runs
            .iter()
            .zip(ends)
            .flat_map(|(run, end)| (run.first.0..end.0).step_by(run.track.max(1) as usize).map(Lbn))
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<TrackMap>() + self.runs.capacity() * size_of::<Run>()
    }
}

/// A device that serves what was discovered of it as its attributes.
#[derive(Debug)]
pub struct Annotated {
    device: Arc<dyn Device>,
    tracks: TrackMap,
}

impl Annotated {
    /// `device` with these tracks as its ensembles.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, tracks: TrackMap) -> Annotated {
        Annotated { device, tracks }
    }
}

impl Device for Annotated {
    fn inquiry(&self) -> &Inquiry {
        self.device.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.tracks.track(lbn).ok_or_else(|| Error::PastEnd {
            device: self.inquiry().name.clone(),
            blocks: BlockRange::new(lbn, BlockCount(1)),
            capacity: self.inquiry().capacity,
        })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.ensemble(lbn).map(|ensemble| ensemble.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.ensemble(lbn).map(|_| EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.device.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        self.device.flush()
    }

    fn write_flushed(&self, first: Lbn, data: IoBuf) -> Flushed<'_> {
        self.device.write_flushed(first, data)
    }

    fn zones(&self) -> Option<&dyn Zoned> {
        self.device.zones()
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        self.device.diagnostics()
    }

    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        self.device.data_after(from)
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        self.device.discard(blocks)
    }
}
