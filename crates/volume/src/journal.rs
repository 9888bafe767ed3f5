//! The journal: what a stripe's write is going to put where, made durable before any of it is written.
//! See `docs/formats/volume-journal.md`.
//!
//! A write changes units on several devices, and a crash in its middle leaves parity, or a copy, that
//! does not fit the rest: the write hole. With the new content of all units in the journal first, what
//! the crash left out is written after it, whichever devices are left. So a write of one stripe is whole
//! or not there at all.
//!
//! Each record goes to as many devices as may still fail, and one more. Writes that come while a record
//! is being made durable go together in the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;

use futures::future::join_all;
use moirai_storage::{Error, IoBuf, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::keeper::Keeper;
use crate::members::Members;
use crate::{DiskIndex, Role, StripeIndex};

/// What a record begins with.
pub(crate) const RECORD_MAGIC: &[u8; 8] = b"MOIRAIVJ";
/// The version of its format; a volume's label has the one of the whole.
pub(crate) const RECORD_VERSION: u32 = 1;

const FIXED_BYTES: usize = 64;
const ENTRY_BYTES: usize = 24;
const BLOCK: usize = BLOCK_BYTES as usize;

/// A number of a record, counted from 1.
pub(crate) type Sequence = u64;

/// Blocks of one unit of a stripe, as they are to be. A data unit is meant in all its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) stripe: StripeIndex,
    pub(crate) role: Role,
    pub(crate) offset: BlockCount,
    pub(crate) content: Vec<u8>,
}

impl Entry {
    pub(crate) fn blocks(&self) -> BlockCount {
        BlockCount((self.content.len() / BLOCK) as u64)
    }
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sequence: Sequence,
    /// Records before this one are in their places, durably.
    pub(crate) tail: Sequence,
    pub(crate) entries: Vec<Entry>,
}

/// The journal of an open volume.
#[derive(Debug)]
pub(crate) struct Journal {
    volume: u128,
    area: BlockRange,
    state: Mutex<State>,
    /// The right to write the next records.
    turn: tokio::sync::Mutex<()>,
    /// Rung when a record's content is in its places.
    placed: Notify,
}

#[derive(Debug)]
struct State {
    next: Sequence,
    /// Records up to this one are durable.
    durable: Sequence,
    tail: Sequence,
    /// Records that wait for their turn.
    waiting: Vec<(Sequence, Vec<Entry>)>,
    /// Records whose content is not in its places.
    active: BTreeSet<Sequence>,
    /// Which devices the next records go to first.
    rotation: usize,
    rings: Vec<Ring>,
    /// Set when no device took a record any more, and never cleared.
    is_broken: bool,
}

impl State {
    /// The next records that wait, of at most so many blocks together, and at least one.
    fn next_batch(&mut self, blocks_max: u64) -> Vec<(Sequence, Vec<Entry>)> {
        let mut blocks = 0;
        let mut fits = |(_, entries): &&(Sequence, Vec<Entry>)| {
            blocks += record_blocks(entries);
            blocks <= blocks_max
        };
        let count = self.waiting.iter().take_while(|record| fits(record)).count().max(1);
        self.waiting.drain(..count.min(self.waiting.len())).collect()
    }
}

/// The journal's area on one device, written round and round.
#[derive(Clone, Debug)]
struct Ring {
    blocks: u64,
    next: u64,
    free: u64,
    /// The last record of each run of blocks, and their number.
    used: VecDeque<(Sequence, u64)>,
}

impl Ring {
    /// Room for `blocks` behind each other.
    fn take(&mut self, blocks: u64, last: Sequence) -> Option<u64> {
        let (first, skipped) = match self.next + blocks <= self.blocks {
            true => (self.next, 0),
            false => (0, self.blocks - self.next),
        };
        if blocks + skipped > self.free {
            return None;
        }
        self.free -= blocks + skipped;
        self.next = first + blocks;
        self.used.push_back((last, blocks + skipped));
        Some(first)
    }

    fn free_before(&mut self, tail: Sequence) {
        while let Some((_, blocks)) = self.used.front().copied().filter(|(last, _)| *last < tail) {
            self.used.pop_front();
            self.free += blocks;
        }
    }
}

impl Journal {
    /// A journal in `area` of each of `disks` devices, whose next record is `next`.
    pub(crate) fn new(volume: u128, area: BlockRange, disks: usize, next: Sequence) -> Journal {
        let blocks = area.count.0;
        let ring = Ring { blocks, next: 0, free: blocks, used: VecDeque::new() };
        Journal {
            volume,
            area,
            state: Mutex::new(State {
                next,
                durable: next - 1,
                tail: next,
                waiting: Vec::new(),
                active: BTreeSet::new(),
                rotation: 0,
                rings: vec![ring; disks],
                is_broken: false,
            }),
            turn: tokio::sync::Mutex::new(()),
            placed: Notify::new(),
        }
    }

    /// Makes a record of `entries` durable; `bearable` more devices may fail. When the content is in its
    /// places [`Journal::placed`] is to be told.
    pub(crate) async fn append(
        &self,
        keeper: &Keeper,
        members: &Members,
        bearable: usize,
        entries: Vec<Entry>,
    ) -> Result<Sequence> {
        let sequence = {
            let mut state = self.state.lock();
            let sequence = state.next;
            state.next += 1;
            state.active.insert(sequence);
            state.waiting.push((sequence, entries));
            sequence
        };
        let _turn = self.turn.lock().await;
        loop {
            let batch = {
                let mut state = self.state.lock();
                if state.is_broken {
                    return Err(Error::Latched { device: members.name().to_owned() });
                }
                if state.durable >= sequence {
                    return Ok(sequence);
                }
                state.next_batch(self.area.count.0 / 2)
            };
            let written = self.write(keeper, members, bearable, &batch).await;
            let mut state = self.state.lock();
            state.is_broken = written.is_err();
            written?;
            state.durable = batch.last().map_or(sequence, |(last, _)| *last);
        }
    }

    /// Notes that a record's content is in its places.
    pub(crate) fn placed(&self, sequence: Sequence) {
        self.state.lock().active.remove(&sequence);
        self.placed.notify_waiters();
    }

    /// The first record that has not been placed, or the next: all before are durable once the devices
    /// are flushed.
    pub(crate) fn first_active(&self) -> Sequence {
        let state = self.state.lock();
        state.active.first().copied().unwrap_or(state.next)
    }

    /// Notes that records before `tail` are in their places, durably.
    pub(crate) fn retire(&self, tail: Sequence) {
        let mut state = self.state.lock();
        state.tail = state.tail.max(tail);
        let tail = state.tail;
        state.rings.iter_mut().for_each(|ring| ring.free_before(tail));
    }

    /// Writes records to as many devices as are needed, and flushes these.
    async fn write(
        &self,
        keeper: &Keeper,
        members: &Members,
        bearable: usize,
        records: &[(Sequence, Vec<Entry>)],
    ) -> Result<()> {
        let mut reached: BTreeSet<DiskIndex> = BTreeSet::new();
        loop {
            let failed = members.failed();
            let needed = (bearable + 1).saturating_sub(failed.len()).max(1);
            reached.retain(|disk| !failed.contains(disk));
            if reached.len() >= needed {
                return Ok(());
            }
            let targets = self.targets(members, &reached, needed - reached.len());
            if targets.is_empty() {
                return Err(Error::Latched { device: members.name().to_owned() });
            }
            let written = join_all(targets.into_iter().map(|disk| async move {
                (disk, self.write_to(keeper, members, disk, records).await)
            }));
            for (disk, result) in written.await {
                match result {
                    Ok(()) => {
                        reached.insert(disk);
                    }
                    Err(_) => {
                        members.fail(disk);
                    }
                }
            }
        }
    }

    fn targets(
        &self,
        members: &Members,
        reached: &BTreeSet<DiskIndex>,
        count: usize,
    ) -> Vec<DiskIndex> {
        let mut state = self.state.lock();
        let disks = state.rings.len();
        state.rotation = (state.rotation + 1) % disks.max(1);
        let rotation = state.rotation;
        (0..disks)
            .map(|index| DiskIndex((rotation + index) % disks))
            .filter(|disk| !members.has_failed(*disk) && !reached.contains(disk))
            .take(count)
            .collect()
    }

    async fn write_to(
        &self,
        keeper: &Keeper,
        members: &Members,
        disk: DiskIndex,
        records: &[(Sequence, Vec<Entry>)],
    ) -> Result<()> {
        let last = records.last().map_or(0, |(last, _)| *last);
        let blocks: u64 = records.iter().map(|(_, entries)| record_blocks(entries)).sum();
        let first = loop {
            // Rung from here on, so that no record is placed unseen.
            let mut placed = pin!(self.placed.notified());
            placed.as_mut().enable();
            let taken = {
                let mut state = self.state.lock();
                state.rings.get_mut(disk.0).and_then(|ring| ring.take(blocks, last))
            };
            if let Some(first) = taken {
                break first;
            }
            let tail = self.first_active();
            if tail > self.state.lock().tail {
                keeper.settle(members, tail).await?;
                if members.has_failed(disk) {
                    return Err(Error::Latched {
                        device: members.whole(disk).inquiry().name.clone(),
                    });
                }
            } else {
                placed.await;
            }
        };
        let tail = self.state.lock().tail;
        let mut bytes = Vec::with_capacity(blocks as usize * BLOCK);
        for (sequence, entries) in records {
            self.encode(*sequence, tail, entries, &mut bytes);
        }
        let device = members.whole(disk);
        device.write(self.area.first + BlockCount(first), IoBuf::holding(&bytes)).await?;
        match device.inquiry().volatile_cache {
            true => device.flush().await,
            false => Ok(()),
        }
    }

    fn encode(&self, sequence: Sequence, tail: Sequence, entries: &[Entry], bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        let blocks = record_blocks(entries);
        bytes.extend_from_slice(RECORD_MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&RECORD_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.volume.to_le_bytes());
        for number in [sequence, tail, blocks, entries.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for entry in entries {
            let (role, position) = match entry.role {
                Role::Data { position, .. } => (0u32, position as u32),
                Role::P => (1, 0),
                Role::Q => (2, 0),
            };
            bytes.extend_from_slice(&entry.stripe.0.to_le_bytes());
            for number in [role, position, entry.offset.0 as u32, entry.blocks().0 as u32] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.resize(begin + header_blocks(entries.len()) as usize * BLOCK, 0);
        entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.content));
        let checksum = bytes.get(begin + 12..).map_or(0, crc32c::crc32c);
        if let Some(place) = bytes.get_mut(begin + 8..begin + 12) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// The records on the devices that are in use which are not known to be in their places, in order.
    pub(crate) async fn read(
        volume: u128,
        area: BlockRange,
        members: &Members,
    ) -> Result<Vec<Record>> {
        let mut records: BTreeMap<Sequence, Record> = BTreeMap::new();
        for disk in members.in_use() {
            let device = members.whole(disk);
            // What cannot be read here is on another device too.
            let Ok(content) = device.read(area).await else { continue };
            let mut at = 0;
            while let Some(rest) = content.get(at..).filter(|rest| rest.len() >= BLOCK) {
                match decode(volume, rest) {
                    Some((record, blocks)) => {
                        records.insert(record.sequence, record);
                        at += blocks as usize * BLOCK;
                    }
                    None => at += BLOCK,
                }
            }
        }
        let tail = records.last_key_value().map_or(0, |(_, last)| last.tail);
        Ok(records.into_values().filter(|record| record.sequence >= tail).collect())
    }
}

fn header_blocks(entries: usize) -> u64 {
    (FIXED_BYTES + entries * ENTRY_BYTES).div_ceil(BLOCK) as u64
}

fn record_blocks(entries: &[Entry]) -> u64 {
    header_blocks(entries.len()) + entries.iter().map(|entry| entry.blocks().0).sum::<u64>()
}

/// The record at the beginning of `bytes`, and its blocks; `None` when there is none, or it is torn.
fn decode(volume: u128, bytes: &[u8]) -> Option<(Record, u64)> {
    let eight = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let four = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let is_ours = bytes.get(..8)? == RECORD_MAGIC && bytes.get(16..32)? == volume.to_le_bytes();
    if !is_ours {
        return None;
    }
    let (sequence, tail, blocks) = (eight(32)?, eight(40)?, eight(48)?);
    let length = usize::try_from(blocks).ok()?.checked_mul(BLOCK)?;
    let whole = bytes.get(..length)?;
    if four(12)? != RECORD_VERSION || crc32c::crc32c(whole.get(12..)?) != four(8)? {
        return None;
    }
    let count = usize::try_from(eight(56)?).ok()?;
    let mut from = usize::try_from(header_blocks(count)).ok()?.checked_mul(BLOCK)?;
    let mut entries = Vec::new();
    for index in 0..count {
        let at = FIXED_BYTES + index * ENTRY_BYTES;
        let role = match four(at + 8)? {
            0 => Role::Data { position: four(at + 12)? as usize, copy: 0 },
            1 => Role::P,
            2 => Role::Q,
            _ => return None,
        };
        let length = four(at + 20)? as usize * BLOCK;
        let content = whole.get(from..from + length)?.to_vec();
        from += length;
        let offset = BlockCount(four(at + 16)?.into());
        entries.push(Entry { stripe: StripeIndex(eight(at)?), role, offset, content });
    }
    Some((Record { sequence, tail, entries }, blocks))
}

/// Blocks that a record takes at most for a stripe of `units` units of `unit` blocks.
pub(crate) fn record_blocks_max(units: usize, unit: BlockCount) -> u64 {
    // A data unit may be written in two parts, and more where requests of a batch meet in it.
    header_blocks(units * 2 + 64) + units as u64 * unit.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_units::Lbn;
    use proptest::prelude::*;

    const AREA: BlockRange = BlockRange { first: Lbn(16), count: BlockCount(64) };

    fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
        let role = prop_oneof![
            Just(Role::P),
            Just(Role::Q),
            (0usize..9).prop_map(|position| Role::Data { position, copy: 0 }),
        ];
        let entry = (0u64..1 << 40, role, 0u64..4096, 1usize..5, any::<u8>()).prop_map(
            |(stripe, role, offset, blocks, fill)| Entry {
                stripe: StripeIndex(stripe),
                role,
                offset: BlockCount(offset),
                content: vec![fill; blocks * BLOCK],
            },
        );
        prop::collection::vec(entry, 0..30)
    }

    proptest! {
        #[test]
        fn records_round_trip_and_a_changed_bit_is_none(
            entries in any_entries(),
            sequence in 1u64..1 << 50,
            bit in any::<prop::sample::Index>(),
        ) {
            let journal = Journal::new(77, AREA, 3, 1);
            let mut bytes = Vec::new();
            journal.encode(sequence, sequence / 2, &entries, &mut bytes);
            let blocks = record_blocks(&entries);
            prop_assert_eq!(bytes.len(), blocks as usize * BLOCK);
            let record = Record { sequence, tail: sequence / 2, entries };
            prop_assert_eq!(decode(77, &bytes), Some((record, blocks)));
            prop_assert_eq!(decode(78, &bytes), None);
            prop_assert_eq!(decode(77, &bytes[..bytes.len() - 1]), None);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(77, &bytes), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_record(mut bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(decode(77, &bytes), None);
            if let Some(magic) = bytes.get_mut(..8) {
                magic.copy_from_slice(RECORD_MAGIC);
                prop_assert_eq!(decode(77, &bytes), None);
            }
        }
    }

    #[test]
    fn a_ring_never_gives_what_is_in_use() {
        let mut ring = Ring { blocks: 10, next: 0, free: 10, used: VecDeque::new() };
        assert_eq!(ring.take(4, 1), Some(0));
        assert_eq!(ring.take(4, 2), Some(4));
        // Two are left at the end: a third run of four must begin anew, where the first still is.
        assert_eq!(ring.take(4, 3), None);
        ring.free_before(2);
        assert_eq!(ring.take(4, 3), Some(0));
        ring.free_before(4);
        assert_eq!((ring.free, ring.next), (10, 4));
    }
}
