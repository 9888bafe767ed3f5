//! Tracks the segments in use, and the free segments that were discarded.
//!
//! Each disk uses its ring in order. The free segments in `holes` were discarded and not written since:
//!
//! ```text
//!  ring of one disk | in use | free, not discarded | holes | freed since | in use |
//!                            ^ next                                      ^ oldest
//! ```

use std::collections::VecDeque;

use moirai_units::{BlockRange, ByteCount};

use crate::log::segments::{LOG_DISKS_MAX, LogDisk, Ring, Start};

/// Segments of a disk in the order of its ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    first: u32,
    count: u32,
}

impl Run {
    fn end(&self, ring: &Ring) -> u32 {
        ring.step(self.first, self.count)
    }
}

/// Free segments of a disk that are being discarded, which the log does not go on to.
#[derive(Debug)]
pub(crate) struct Discarding {
    pub(crate) disk: usize,
    pub(crate) blocks: BlockRange,
    run: Run,
}

#[derive(Debug)]
pub(crate) struct Used {
    /// The segments in use, in the order in which they were begun, but for the first of each disk: these are one.
    pub(crate) starts: VecDeque<Start>,
    /// Of each disk, the free segments that were discarded.
    holes: [Run; LOG_DISKS_MAX],
    /// The disk and the first of the segments that are being discarded.
    discarding: Option<(usize, u32)>,
}

impl Used {
    pub(crate) fn new(starts: VecDeque<Start>) -> Used {
        Used { starts, holes: [Run::default(); LOG_DISKS_MAX], discarding: None }
    }

    /// The segment of a disk after `segment`, when the log may go on there.
    pub(crate) fn next_free(&self, disk: usize, segment: u32, ring: &Ring) -> Option<u32> {
        let next = ring.after(segment);
        let is_free = self.starts.front()?.segment(disk) != next;
        (is_free && self.discarding != Some((disk, next))).then_some(next)
    }

    /// Takes a free segment of a disk into use.
    pub(crate) fn begin(&mut self, disk: usize, segment: u32, start: Start, ring: &Ring) {
        self.starts.push_back(start);
        if let Some(holes) = self.holes.get_mut(disk)
            && holes.count > 0
            && holes.first == segment
        {
            *holes = Run { first: ring.after(segment), count: holes.count - 1 };
        }
    }

    /// The free segments of a disk to discard next, which follow its holes.
    fn discardable(&self, disk: usize, ring: &Ring) -> Option<Run> {
        let (oldest, last) =
            (self.starts.front()?.segment(disk), self.starts.back()?.segment(disk));
        let next = ring.after(last);
        // Where both are the same segment, all others are free.
        let free = ring.distance(next, oldest);
        let holes = *self.holes.get(disk)?;
        // Not the next one: the log may have chosen it already, before it begins it.
        let passed = if holes.count == 0 { 1 } else { ring.distance(next, holes.end(ring)) };
        let count = free.checked_sub(passed).filter(|count| *count > 0)?;
        Some(Run { first: ring.step(next, passed), count })
    }

    /// Whether a disk whose device can discard has segments for it.
    pub(crate) fn has_discardable(&self, disks: &[LogDisk]) -> bool {
        let mut all = disks.iter().enumerate();
        all.any(|(at, disk)| {
            can_discard(disk) && self.discardable(at, &disk.segments.ring).is_some()
        })
    }

    /// Free segments that lie together, of `most` bytes or a single one. Discard their blocks, and call [`Used::discarded`].
    pub(crate) fn take_discardable(
        &mut self,
        disks: &[LogDisk],
        most: ByteCount,
    ) -> Option<Discarding> {
        let mut all = disks.iter().enumerate().filter(|(_, disk)| can_discard(disk));
        let (disk, ring, run) = all.find_map(|(at, disk)| {
            let ring = disk.segments.ring;
            Some((at, ring, self.discardable(at, &ring)?))
        })?;
        let fitting = (most.0 / ring.segment.bytes().0.max(1)).max(1);
        let to_end = ring.segments - run.first;
        let count = run.count.min(to_end).min(fitting.try_into().unwrap_or(u32::MAX));
        let run = Run { first: run.first, count };
        self.discarding = Some((disk, run.first));
        let last = ring.segment_at(run.first + count - 1);
        let blocks = BlockRange::between(ring.segment_at(run.first).first, last.end());
        Some(Discarding { disk, blocks, run })
    }

    /// The segments may be used again; their device knows that they hold nothing, or will not be asked again.
    pub(crate) fn discarded(&mut self, Discarding { disk, run, .. }: Discarding) {
        self.discarding = None;
        if let Some(holes) = self.holes.get_mut(disk) {
            *holes = match holes.count {
                0 => run,
                count => Run { count: count + run.count, ..*holes },
            };
        }
    }
}

/// Segments that are tracks lie on disks, which have no use for it.
fn can_discard(disk: &LogDisk) -> bool {
    disk.segments.tracks.is_none() && disk.device.inquiry().discard.is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use moirai_devices::{FaultyDevice, Power};
    use moirai_units::BlockCount;
    use rand::Rng;

    use super::*;
    use crate::ids::Seq;
    use crate::log::segments::{LogWriter, Segments};

    const SEGMENTS: u32 = 40;

    fn disk() -> LogDisk {
        let segment = BlockCount(8);
        let ring = Ring {
            segment,
            segments: SEGMENTS,
            writer: LogWriter::Append,
            physical: BlockCount(1),
        };
        let blocks = ring.segment_at(SEGMENTS).first;
        let device =
            FaultyDevice::new("log".into(), BlockCount(blocks.0), BlockCount(1), Power::on());
        LogDisk { device, segments: Segments { ring, tracks: None }.into(), id: 1 }
    }

    /// Segments are chosen, begun, freed and discarded at random, beside a model that knows what each holds.
    #[test]
    fn only_free_segments_are_discarded_and_each_once() {
        let disk = disk();
        let ring = disk.segments.ring;
        let start = |segment: u32, number: u64| {
            Start { at: [0; LOG_DISKS_MAX], number, previous: 0, first: Seq(number) }
                .with(0, segment)
        };
        let mut random = moirai_runtime::random("used");
        let mut used = Used::new([start(0, 0)].into());
        let mut in_use = vec![0];
        // At first nobody knows what the others hold.
        let mut written: BTreeSet<u32> = (0..SEGMENTS).collect();
        let mut discarding: Option<Discarding> = None;
        // What the log writes to next, which it begins later.
        let mut chosen = None;
        let mut discards = 0;
        for number in 1..20_000 {
            let last = *in_use.last().unwrap();
            match random.random_range(0..8) {
                0..=2 if chosen.is_none() => {
                    let next = ring.after(last);
                    let is_discarded = discarding.as_ref().is_some_and(|one| one.run.first == next);
                    let expected = (in_use[0] != next && !is_discarded).then_some(next);
                    assert_eq!(used.next_free(0, last, &ring), expected);
                    chosen = expected;
                }
                0..=3 => {
                    if let Some(next) = chosen.take() {
                        used.begin(0, next, start(next, number), &ring);
                        in_use.push(next);
                        written.insert(next);
                    }
                }
                4 => {
                    let freed = random.random_range(0..in_use.len());
                    in_use.drain(..freed);
                    used.starts.drain(..freed);
                }
                5 | 6 if discarding.is_none() => {
                    let most = ByteCount(random.random_range(0..16 << 10));
                    discarding = used.take_discardable(std::slice::from_ref(&disk), most);
                    if let Some(Discarding { blocks, run, .. }) = &discarding {
                        assert_eq!(blocks.first, ring.segment_at(run.first).first);
                        assert_eq!(blocks.count.0, u64::from(run.count) * 8);
                        for segment in run.first..run.first + run.count {
                            assert!(written.remove(&segment) && !in_use.contains(&segment));
                            assert_ne!(chosen, Some(segment));
                            discards += 1;
                        }
                    } else {
                        // All free ones were, but for the next.
                        let next = ring.after(last);
                        let is_held = |segment: &u32| in_use.contains(segment) || *segment == next;
                        assert!(written.iter().all(is_held));
                    }
                }
                _ => discarding.take().into_iter().for_each(|one| used.discarded(one)),
            }
        }
        assert!(discards > 1000, "{discards}");
    }
}
