//! What holds some keys at a moment: a partition, or a version that a sweep left for read points.

use std::sync::Arc;

use crate::data::place::Place;
use crate::ids::{PartitionId, PointNumber, SpaceId};
use crate::kind::Modification;
#[cfg(feature = "canary")]
use crate::options::Canary;
use crate::state::State;
use crate::state::partition::{Partition, Sealed, Staged};
use crate::state::points::{Probe, Version};
use crate::state::queue::Queue;
use crate::units::UnitSet;

/// What holds some keys at a moment: a partition, or a version of one.
#[derive(Clone, Copy)]
pub(crate) struct Holder<'a> {
    /// None of a version.
    pub(crate) partition: Option<(PartitionId, &'a Partition)>,
    pub(crate) low: &'a [u8],
    pub(crate) high: Option<&'a [u8]>,
    pub(crate) place: &'a Arc<Place>,
    pub(crate) staged: &'a [Arc<Staged>],
    pub(crate) history: Option<&'a Arc<Staged>>,
    pub(crate) point: PointNumber,
}

impl<'a> Holder<'a> {
    fn queues(&self) -> impl Iterator<Item = &'a Queue> + use<'a> {
        self.partition.into_iter().flat_map(|(_, partition)| partition.queues())
    }

    /// What is pending in memory of keys from one on and before another, and changes some of these units: of each key the oldest first.
    pub(crate) fn pending<'k>(
        &self,
        units: UnitSet,
        (from, to): (&'k [u8], Option<&'k [u8]>),
    ) -> impl Iterator<Item = Modification<'a>> + use<'a, 'k> {
        let (point, format) = (self.point, &self.place.spec().format);
        let is_all = self.place.shape().len() == 1 || units == UnitSet::ALL;
        let queues = self.queues().filter(move |queue| queue.units().meets(units));
        let pending = queues.flat_map(move |queue| queue.between(point, (from, to)));
        pending.filter(move |one| is_all || format.units_of(one).meets(units))
    }

    /// A key of a range before which so many modifications or more are pending, if there are more; see [`Queue::cut`].
    pub(crate) fn cut(&self, range: (&[u8], Option<&[u8]>), most: usize) -> Option<&'a [u8]> {
        self.queues().filter_map(|queue| queue.cut(range, most)).min()
    }

    /// What is pending of one key, oldest first.
    pub(crate) fn pending_of(&self, key: &[u8]) -> impl Iterator<Item = Modification<'a>> {
        let point = self.point;
        self.queues().flat_map(move |queue| queue.of_key(key, point))
    }

    /// Chunks on the device, oldest first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &'a Arc<Staged>> {
        self.staged.iter().chain(self.history)
    }
}

impl State {
    /// What holds some keys of a space at a moment; `None` where there is no such space, or the read point has ended.
    pub(crate) fn holder(
        &self,
        space: SpaceId,
        probe: Probe<'_>,
        point: PointNumber,
    ) -> Option<Holder<'_>> {
        let directory = self.spaces.get(&space)?;
        let mut at = match probe {
            Probe::Key(key) | Probe::Before(key) => self.position(space, key)?,
            Probe::Last => directory.len().checked_sub(1)?,
        };
        let mut id = directory.at(at)?;
        if let Probe::Before(key) = probe
            && at > 0
            && *self.partition(id)?.low >= *key
        {
            at -= 1;
            id = directory.at(at)?;
        }
        let partition = self.partition(id)?;
        if point > partition.covered {
            let next = directory.at(at + 1).and_then(|next| self.partition(next));
            return Some(Holder {
                partition: Some((id, partition)),
                low: &partition.low,
                high: next.map(|next| &*next.low),
                place: &partition.place,
                staged: &partition.staged,
                history: None,
                point,
            });
        }
        let version = self.points.version(space, probe, point)?;
        Some(Holder {
            partition: None,
            low: &version.low,
            high: version.high.as_deref(),
            place: &version.place,
            staged: &version.staged,
            history: version.history.as_ref(),
            point,
        })
    }

    /// Keeps what a partition holds for read points that were begun before it was sealed: what was sealed is about to go to its
    /// blocks or chunks.
    pub(super) fn keep_version(&mut self, id: PartitionId) -> Option<()> {
        let history = self.points.coming.remove(&id);
        let partition = self.partition(id)?;
        let Some(Sealed { points: last, .. }) = partition.sealed else { return Some(()) };
        let after = partition.covered;
        if !self.points.between(after, last).is_empty() {
            let at = self.position(partition.space, &partition.low)?;
            let directory = self.spaces.get(&partition.space)?;
            let next = directory.at(at + 1).and_then(|next| self.partition(next));
            #[cfg_attr(
                not(feature = "canary"),
                expect(unused_mut, reason = "the canary changes it")
            )]
            let mut version = Version {
                low: partition.low.clone(),
                high: next.map(|next| next.low.clone()),
                place: Arc::clone(&partition.place),
                staged: partition.staged.clone(),
                history,
            };
            #[cfg(feature = "canary")]
            if self.canary == Canary::VersionFreed {
                version.place = Arc::new(partition.place.unowned());
            }
            let space = partition.space;
            self.points.add(space, (after, last), version);
        }
        let partition = self.partition_mut(id)?;
        partition.covered = partition.covered.max(last);
        Some(())
    }
}
