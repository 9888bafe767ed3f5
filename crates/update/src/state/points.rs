//! Read points: the state as it was at some moments, for as long as somebody wants to read it.
//!
//! Nothing is overwritten. So where a partition is swept, its blocks and chunks of before stay as they are for the readers of
//! read points, and with them what was sealed and came before these points: its *history*, a chunk of its own. Together they
//! are a *version*.
//!
//! ```text
//!  read points          3          5      6
//!  time           ------|----------|------|------------------>
//!  partition         version, for 3  | version, for 5, 6 | now
//!                                  swept                swept
//! ```
//!
//! Each piece of a queue says which read point was the newest that had not ended when a modification came (`Piece::after`),
//! and a seal, which was that then (`Sealed::points`). A partition is what a read point sees once no sweep has changed it since, which
//! `Partition::covered` tells. Else there is a version. Versions are in memory alone: read points end with the process, and
//! their extents are free after the next opening.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::data::place::Place;
#[cfg(feature = "canary")]
use crate::ids::Seq;
use crate::ids::{PartitionId, PointNumber, SpaceId};
use crate::long::epoch::Epoch;
use crate::state::partition::Staged;

/// What a partition held before a sweep.
#[derive(Debug)]
pub(super) struct Version {
    /// It holds the keys from here on.
    pub(super) low: Box<[u8]>,
    /// And before this one; to the last where there is none.
    pub(super) high: Option<Box<[u8]>>,
    pub(super) place: Arc<Place>,
    pub(super) staged: Vec<Arc<Staged>>,
    /// What was sealed.
    pub(super) history: Option<Arc<Staged>>,
}

/// Versions for the same read points, by space and lowest key; no two have the same keys.
#[derive(Debug, Default)]
struct Versions {
    by_space: BTreeMap<SpaceId, BTreeMap<Box<[u8]>, Version>>,
    /// Bytes of memory.
    bytes: usize,
}

/// The read points of a state.
#[derive(Debug, Default)]
pub(crate) struct Points {
    newest: PointNumber,
    /// Those that have not ended, with the long values that they may read.
    live: BTreeMap<PointNumber, Arc<Epoch>>,
    /// By the newest read point that sees them, and then by the newest one that is too old to see them. Each is seen by one that
    /// has not ended. Where the newest ended they go to the one before: else a read point that is held long would look through as
    /// many groups as there were sweeps since.
    versions: BTreeMap<PointNumber, BTreeMap<PointNumber, Versions>>,
    /// Histories of partitions whose sweeps the next entries tell of.
    pub(super) coming: BTreeMap<PartitionId, Arc<Staged>>,
    /// Bytes of memory that versions take.
    bytes: usize,
    /// The first group after the newest read point; see `Canary::LatePoint`.
    #[cfg(feature = "canary")]
    first_after: Option<Seq>,
}

/// What a read point leaves: free once it is dropped, outside of the lock of the state.
#[derive(Debug)]
pub(crate) struct Ended {
    epoch: Arc<Epoch>,
    versions: Vec<Versions>,
}

impl Ended {
    /// Whether the read point may have kept versions, or blocks of long values that were left before the epoch `current`.
    pub(crate) fn kept_space(&self, current: &Arc<Epoch>) -> bool {
        !self.versions.is_empty() || !Arc::ptr_eq(&self.epoch, current)
    }
}

/// Which keys are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe<'a> {
    /// Those around this one.
    Key(&'a [u8]),
    /// Those just before this one, which is not the first of all.
    Before(&'a [u8]),
    /// The last.
    Last,
}

impl Version {
    fn memory_bytes(&self) -> usize {
        let keys = self.low.len() * 2 + self.high.as_ref().map_or(0, |high| high.len());
        let history = self.history.as_ref().map_or(0, |history| history.memory_bytes());
        let staged: usize = self.staged.iter().map(|one| one.memory_bytes()).sum();
        2 * size_of::<Version>() + keys + self.place.memory_bytes() + staged + history
    }

    fn holds(&self, probe: Probe<'_>) -> bool {
        let high = self.high.as_deref();
        match probe {
            Probe::Key(key) => high.is_none_or(|high| key < high),
            Probe::Before(key) => high.is_none_or(|high| key <= high),
            Probe::Last => high.is_none(),
        }
    }
}

impl Versions {
    /// Takes others in, of the same read points.
    fn take_in(&mut self, others: Versions) {
        self.bytes += others.bytes;
        for (space, mut versions) in others.by_space {
            let own = self.by_space.entry(space).or_default();
            // Their keys differ, so it does not matter which of them take the others in.
            if own.len() < versions.len() {
                std::mem::swap(own, &mut versions);
            }
            own.extend(versions);
        }
    }

    fn find(&self, space: SpaceId, probe: Probe<'_>) -> Option<&Version> {
        let lows = match probe {
            Probe::Key(key) => (Bound::Unbounded, Bound::Included(key)),
            Probe::Before(key) => (Bound::Unbounded, Bound::Excluded(key)),
            Probe::Last => (Bound::Unbounded, Bound::Unbounded),
        };
        let (_, version) = self.by_space.get(&space)?.range::<[u8], _>(lows).next_back()?;
        version.holds(probe).then_some(version)
    }
}

impl Points {
    /// The newest read point that has not ended; before all where there is none. What comes now is for later ones. Those that
    /// ended do not count: a piece of a queue for each would cost memory for nothing.
    pub(crate) fn newest_live(&self) -> PointNumber {
        self.live.last_key_value().map_or(PointNumber::default(), |(newest, _)| *newest)
    }

    /// Whether some read points behind the first, up to the second, have not ended, or may yet begin.
    pub(crate) fn separates(&self, first: PointNumber, second: PointNumber) -> bool {
        let between = (Bound::Excluded(first), Bound::Included(second));
        second > self.newest || self.live.range(between).next().is_some()
    }

    /// How many have not ended.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.live.len() * 2 * size_of::<(PointNumber, Arc<Epoch>)>()
    }

    /// What keeps the long values of a read point; `None` once it has ended.
    pub(crate) fn epoch(&self, point: PointNumber) -> Option<&Arc<Epoch>> {
        self.live.get(&point)
    }

    /// Begins a read point, whose state is the current one.
    pub(crate) fn begin(&mut self, epoch: Arc<Epoch>) -> PointNumber {
        self.newest.0 += 1;
        #[cfg(feature = "canary")]
        {
            self.first_after = None;
        }
        self.live.insert(self.newest, epoch);
        self.newest
    }

    /// The newest read point, and the one before it for the first group that comes after it.
    #[cfg(feature = "canary")]
    pub(crate) fn newest_but_for(&mut self, seq: Seq) -> PointNumber {
        let is_first = *self.first_after.get_or_insert(seq) == seq;
        PointNumber(self.newest_live().0.saturating_sub(u64::from(is_first)))
    }

    /// The oldest read point.
    pub(crate) fn oldest(&self) -> Option<PointNumber> {
        self.live.first_key_value().map(|(oldest, _)| *oldest)
    }

    /// The oldest read point, when read points keep something: versions, which several may share, or blocks of long values that
    /// were left in another epoch than the current one.
    pub(crate) fn oldest_of_use(&self, current: &Arc<Epoch>) -> Option<PointNumber> {
        let (oldest, epoch) = self.live.first_key_value()?;
        (!self.versions.is_empty() || !Arc::ptr_eq(epoch, current)).then_some(*oldest)
    }

    /// The read points after one that have not ended, up to another, in their order.
    pub(crate) fn between(&self, after: PointNumber, last: PointNumber) -> Vec<PointNumber> {
        if after >= last {
            return Vec::new();
        }
        let range = (Bound::Excluded(after), Bound::Included(last));
        self.live.range(range).map(|(point, _)| *point).collect()
    }

    /// Keeps the history of a partition until the entry that tells of its sweep is applied.
    pub(crate) fn expect(&mut self, id: PartitionId, history: Arc<Staged>) {
        self.coming.insert(id, history);
    }

    pub(super) fn version(
        &self,
        space: SpaceId,
        probe: Probe<'_>,
        point: PointNumber,
    ) -> Option<&Version> {
        let mut all = self.versions.range(point..).flat_map(|(_, some)| some.range(..point));
        all.find_map(|(_, versions)| versions.find(space, probe))
    }

    /// Adds a version for the read points after one, up to another.
    pub(super) fn add(
        &mut self,
        space: SpaceId,
        (after, last): (PointNumber, PointNumber),
        version: Version,
    ) {
        let bytes = version.memory_bytes();
        self.bytes += bytes;
        let versions = self.group(after, last);
        versions.bytes += bytes;
        versions.by_space.entry(space).or_default().insert(version.low.clone(), version);
    }

    /// The versions for the read points after one, up to another. Those that have ended do not count, so there are few groups.
    fn group(&mut self, after: PointNumber, last: PointNumber) -> &mut Versions {
        let after = self.live_up_to(after).unwrap_or_default();
        // It may have ended between the seal and the end of the sweep.
        let last = self.live_up_to(last).unwrap_or(last);
        self.versions.entry(last).or_default().entry(after).or_default()
    }

    /// The newest read point up to one that has not ended.
    fn live_up_to(&self, point: PointNumber) -> Option<PointNumber> {
        self.live.range(..=point).next_back().map(|(live, _)| *live)
    }

    /// Ends a read point; `None` if it has ended.
    pub(crate) fn end(&mut self, point: PointNumber) -> Option<Ended> {
        let epoch = self.live.remove(&point)?;
        let before = self.live_up_to(point);
        let next = self.live.range(point..).next().map_or(PointNumber::NOW, |(next, _)| *next);
        // It was the newest to see these; later ones are for the next read point.
        let mut last_seen = self.versions.split_off(&point);
        self.versions.append(&mut last_seen.split_off(&next));
        let mut left = Vec::new();
        for (_, mut some) in last_seen {
            // The one before is too old for these.
            left.extend(some.split_off(&before.unwrap_or_default()).into_values());
            for (after, versions) in some {
                self.group(after, before.unwrap_or_default()).take_in(versions);
            }
        }
        // It was too old for these, and so is the one before.
        for some in self.versions.range_mut(next..).map(|(_, some)| some) {
            if let Some(versions) = some.remove(&point) {
                some.entry(before.unwrap_or_default()).or_default().take_in(versions);
            }
        }
        self.bytes -= left.iter().map(|some| some.bytes).sum::<usize>();
        Some(Ended { epoch, versions: left })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use moirai_units::BlockCount;
    use rand::Rng;

    use super::*;
    use crate::data::division::Division;
    use crate::spec::{Spec, whole_blocks};

    const SPACE: SpaceId = SpaceId(1);
    const KEYS: u8 = 20;

    /// A version of one key.
    fn version(spec: &Arc<Spec>, key: u8) -> Version {
        Version {
            low: [key].into(),
            high: Some([key + 1].into()),
            place: Arc::new(Place::empty(spec)),
            staged: Vec::new(),
            history: None,
        }
    }

    /// What a read point sees of each key, beside a list of all versions: read points begin and end at random, one of them long after
    /// the others, and partitions are swept.
    #[test]
    fn read_points_see_their_versions_in_few_groups() {
        let division = Division {
            grain: BlockCount(1),
            block: BlockCount(1),
            partition_blocks: 1,
            staging: BlockCount(0),
        };
        let spec = whole_blocks(division).default;
        let mut random = moirai_runtime::seeded(1, "points");
        for _ in 0..50 {
            let mut points = Points::default();
            let epoch = Arc::new(Epoch::default());
            // Of each key the read points that see the partition as it is now come after this one.
            let mut covered = [PointNumber::default(); KEYS as usize];
            let mut sealed = [None; KEYS as usize];
            let mut all: Vec<(u8, PointNumber, PointNumber, Arc<Place>)> = Vec::new();
            let mut live = BTreeMap::new();
            let held = points.begin(Arc::clone(&epoch));
            live.insert(held, ());
            let mut ended = Vec::new();
            for _ in 0..600 {
                match random.random_range(0..4) {
                    0 => {
                        live.insert(points.begin(Arc::clone(&epoch)), ());
                    }
                    1 if live.len() > 1 => {
                        let ending = live.keys().nth(random.random_range(1..live.len()));
                        let ending = *ending.unwrap();
                        live.remove(&ending);
                        ended.push(points.end(ending).unwrap());
                        assert!(points.end(ending).is_none());
                    }
                    2 => {
                        let key = random.random_range(0..KEYS);
                        sealed[usize::from(key)].get_or_insert(points.newest_live());
                    }
                    // Some read points may have ended since the seal.
                    _ => {
                        let key = random.random_range(0..KEYS);
                        let Some(last) = sealed[usize::from(key)].take() else { continue };
                        let after = covered[usize::from(key)];
                        if !points.between(after, last).is_empty() {
                            let version = version(&spec, key);
                            all.push((key, after, last, Arc::clone(&version.place)));
                            points.add(SPACE, (after, last), version);
                        }
                        covered[usize::from(key)] = after.max(last);
                    }
                }
                let groups: usize = points.versions.values().map(BTreeMap::len).sum();
                assert!(groups <= live.len() * (live.len() + 1) / 2, "{groups} groups");
                for point in live.keys() {
                    let key = random.random_range(0..KEYS);
                    let found = points.version(SPACE, Probe::Key(&[key]), *point);
                    let expected = all.iter().find(|(one, after, last, _)| {
                        *one == key && after < point && point <= last
                    });
                    let places = (found.map(|one| &one.place), expected.map(|one| &one.3));
                    match places {
                        (Some(found), Some(expected)) => assert!(Arc::ptr_eq(found, expected)),
                        (None, None) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
            // What nobody sees is free, and nothing else: the list has one reference to each.
            drop(ended);
            let is_seen = |after, last| {
                live.range((Bound::Excluded(after), Bound::Included(last))).next().is_some()
            };
            for (_, after, last, place) in &all {
                assert_eq!(Arc::strong_count(place) > 1, is_seen(*after, *last));
            }
            live.into_keys().for_each(|point| drop(points.end(point)));
            assert_eq!((points.bytes, points.versions.len()), (0, 0));
        }
    }
}
