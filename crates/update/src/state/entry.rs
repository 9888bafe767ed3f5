//! Entries of the log; see `docs/formats/update-log.md`.
//!
//! A group is a sequence of entries that are durable together. Modifications come from programs, the others
//! from the engine itself.

use std::borrow::Cow;

use moirai_units::{BlockRange, Lbn};

use crate::codec::{Taker, put_bytes, put_number};
use crate::data::place::Location;
use crate::encoded::put_modification;
use crate::group::Group;
use crate::ids::{KindNumber, PartitionId, SpaceId};
use crate::kind::Modification;
use crate::long::runs::{encode_runs, take_runs};
use crate::spec::SpecBytes;
use crate::state::chunk::Chunk;

/// What an entry of the engine begins with, where others have their space.
const OWN: u64 = 0;
pub(crate) const CREATE_SPACE: u8 = 1;
pub(crate) const SEAL: u8 = 2;
pub(crate) const STAGED: u8 = 3;
pub(crate) const PLACED: u8 = 4;
pub(crate) const REFUSED: u8 = 5;
pub(crate) const LONG: u8 = 6;
pub(crate) const FREED: u8 = 7;
pub(crate) const ELSEWHERE: u8 = 8;
pub(crate) const COMBINED: u8 = 9;
/// What these three have in the place of a partition.
const NO_PARTITION: PartitionId = PartitionId(0);

#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// A modification, and it as queues have it.
    Modify { space: SpaceId, modification: Modification<'a>, encoded: &'a [u8] },
    /// A space with one partition.
    CreateSpace { space: SpaceId, partition: PartitionId, spec: SpecBytes<'a> },
    /// What is pending in a partition is about to leave memory; what comes is apart from it.
    Seal { partition: PartitionId },
    /// What was sealed is in a chunk, whose extent begins at `first`, together with what was in so many of the chunks that were
    /// staged last, whose place it takes.
    Staged { partition: PartitionId, chunk: Chunk, first: Lbn, combined: usize },
    /// What was staged and sealed of neighbouring partitions is in their blocks, which lie elsewhere now, in other
    /// partitions.
    Placed { from: Vec<PartitionId>, into: Vec<Placed> },
    /// Modifications that a sweep of a partition applied did not fit their values.
    Refused { partition: PartitionId, count: u64 },
    /// Long values of the group lie in these blocks.
    Long { runs: Vec<BlockRange> },
    /// Nothing refers to the long values in these blocks any more.
    Freed { runs: Vec<BlockRange> },
    /// All entries of the group lie in these blocks of the data device. The group has no other entry.
    Elsewhere(Elsewhere),
}

/// Where the entries of a group lie that the log refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    pub(crate) runs: Vec<BlockRange>,
    pub(crate) bytes: u64,
    pub(crate) checksum: u32,
}

impl Elsewhere {
    /// What a group refers to, if it does.
    pub(crate) fn of(group: &[u8]) -> Option<Elsewhere> {
        match is_own(group).then(|| Entry::take(&mut Taker(group)))?? {
            Entry::Elsewhere(elsewhere) => Some(elsewhere),
            _ => None,
        }
    }
}

/// One of the partitions that others have become.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) partition: PartitionId,
    /// Its lowest key.
    pub(crate) low: Box<[u8]>,
    /// Where its blocks lie.
    pub(crate) location: Location,
}

/// Whether the first entry of a group, or of the rest of one, is one of the engine's own.
pub(crate) fn is_own(group: &[u8]) -> bool {
    group.first() == Some(&(OWN as u8))
}

impl Entry<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Modify { space, modification, .. } => {
                put_modification(out, *space, *modification);
            }
            Entry::CreateSpace { space, partition, spec } => {
                own(out, CREATE_SPACE, *partition);
                put_number(out, u64::from(space.0));
                spec.encode(out);
            }
            Entry::Seal { partition } => own(out, SEAL, *partition),
            Entry::Staged { partition, chunk, first, combined } => {
                match combined {
                    0 => own(out, STAGED, *partition),
                    _ => {
                        own(out, COMBINED, *partition);
                        put_number(out, *combined as u64);
                    }
                }
                chunk.encode(out);
                put_number(out, first.0);
            }
            Entry::Refused { partition, count } => {
                own(out, REFUSED, *partition);
                put_number(out, *count);
            }
            Entry::Long { runs } => {
                own(out, LONG, NO_PARTITION);
                encode_runs(out, runs.iter().copied());
            }
            Entry::Freed { runs } => {
                own(out, FREED, NO_PARTITION);
                encode_runs(out, runs.iter().copied());
            }
            Entry::Elsewhere(Elsewhere { runs, bytes, checksum }) => {
                own(out, ELSEWHERE, NO_PARTITION);
                encode_runs(out, runs.iter().copied());
                put_number(out, *bytes);
                put_number(out, u64::from(*checksum));
            }
            Entry::Placed { from, into } => {
                own(out, PLACED, from.first().copied().unwrap_or(PartitionId(0)));
                put_number(out, from.len().saturating_sub(1) as u64);
                from.iter().skip(1).for_each(|id| put_number(out, u64::from(id.0)));
                put_number(out, into.len() as u64);
                for placed in into {
                    put_number(out, u64::from(placed.partition.0));
                    put_bytes(out, &placed.low);
                    placed.location.encode(out);
                }
            }
        }
    }

    /// The entry at the front; `None` when none of ours is there.
    #[inline]
    pub(crate) fn take<'a>(taker: &mut Taker<'a>) -> Option<Entry<'a>> {
        let space = taker.number32()?;
        if space != OWN as u32 {
            let before = taker.0;
            let kind = KindNumber(taker.byte()?);
            let modification = Modification { key: taker.bytes()?, kind, bytes: taker.bytes()? };
            let encoded = before.get(..before.len() - taker.0.len())?;
            return Some(Entry::Modify { space: SpaceId(space), modification, encoded });
        }
        let what = taker.byte()?;
        let partition = PartitionId(taker.number32()?);
        Some(match what {
            CREATE_SPACE => {
                let space = taker.space()?;
                Entry::CreateSpace { space, partition, spec: SpecBytes::take(taker)? }
            }
            SEAL => Entry::Seal { partition },
            STAGED | COMBINED => {
                let combined = if what == COMBINED { taker.number32()? as usize } else { 0 };
                let chunk = Chunk::take(taker)?;
                Entry::Staged { partition, chunk, first: Lbn(taker.number()?), combined }
            }
            REFUSED => Entry::Refused { partition, count: taker.number()? },
            LONG => Entry::Long { runs: take_runs(taker)? },
            FREED => Entry::Freed { runs: take_runs(taker)? },
            ELSEWHERE => Entry::Elsewhere(Elsewhere {
                runs: take_runs(taker)?,
                bytes: taker.number()?,
                checksum: taker.number32()?,
            }),
            PLACED => {
                let mut from = vec![partition];
                for _ in 0..taker.number()? {
                    from.push(PartitionId(taker.number32()?));
                }
                let count = taker.number()?;
                let mut into = Vec::new();
                for _ in 0..count {
                    let partition = PartitionId(taker.number32()?);
                    let low = taker.bytes()?.into();
                    into.push(Placed { partition, low, location: Location::take(taker)? });
                }
                Entry::Placed { from, into }
            }
            _ => return None,
        })
    }
}

fn own(out: &mut Vec<u8>, what: u8, partition: PartitionId) {
    put_number(out, OWN);
    out.push(what);
    put_number(out, u64::from(partition.0));
}

/// A group as entries of the log.
impl Group {
    /// The entries for the log: its modifications, and the blocks of its long values.
    pub(crate) fn entries(&self) -> Cow<'_, [u8]> {
        if self.long.is_empty() {
            return Cow::Borrowed(&self.bytes);
        }
        let mut entries = self.bytes.clone();
        let runs = self.long.iter().flat_map(|value| value.runs()).copied().collect();
        Entry::Long { runs }.encode(&mut entries);
        Cow::Owned(entries)
    }

    /// Bytes that it takes in the log.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.entries().len()
    }
}
