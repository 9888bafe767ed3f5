//! All ensembles of a device, asked for once and kept by length.

use moirai_storage::{Device, Ensemble, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// The ensembles that tile a device, called tracks here as on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracks {
    runs: Vec<Run>,
}

/// Tracks behind each other that have the same length and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Lbn,
    track: BlockCount,
    switch: BlockCount,
    tracks: u64,
}

impl Tracks {
    /// Asks `device` for all its ensembles.
    pub(crate) fn of(device: &dyn Device) -> Result<Tracks> {
        let mut tracks = Tracks::default();
        let end = device.inquiry().all_blocks().end();
        let mut at = Lbn(0);
        while at < end {
            let ensemble = device.ensemble(at)?;
            tracks.push(ensemble);
            at = ensemble.blocks.end();
        }
        Ok(tracks)
    }

    /// Leaves the last one out if it is shorter than `whole`.
    pub(crate) fn drop_shorter_end(&mut self, whole: BlockCount) {
        if let Some(last) = self.runs.last_mut()
            && last.track < whole
        {
            last.tracks -= 1;
            if last.tracks == 0 {
                self.runs.pop();
            }
        }
    }

    pub(crate) fn push(&mut self, Ensemble { blocks, switch }: Ensemble) {
        match self.runs.last_mut() {
            Some(run) if run.track == blocks.count && run.switch == switch => run.tracks += 1,
            _ => {
                let run = Run { first: blocks.first, track: blocks.count, switch, tracks: 1 };
                self.runs.push(run);
            }
        }
    }

    /// The tracks in the order of their blocks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ensemble> + '_ {
        self.runs.iter().flat_map(|run| (0..run.tracks).map(move |index| run.at(index)))
    }

    /// The tracks that begin in `blocks`.
    pub(crate) fn within(&self, blocks: BlockRange) -> impl Iterator<Item = Ensemble> + '_ {
        let run = self.runs.partition_point(|run| run.first <= blocks.first).saturating_sub(1);
        let runs = self.runs.get(run..).unwrap_or_default();
        runs.iter()
            .flat_map(|run| (0..run.tracks).map(move |index| run.at(index)))
            .skip_while(move |track| track.blocks.first < blocks.first)
            .take_while(move |track| track.blocks.first < blocks.end())
    }
}

impl Run {
    fn at(&self, index: u64) -> Ensemble {
        let first = self.first + BlockCount(self.track.0 * index);
        Ensemble { blocks: BlockRange::new(first, self.track), switch: self.switch }
    }
}
