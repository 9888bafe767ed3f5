//! The journal: what a stripe's write is going to put where, made durable before any of it is written.
//! See `docs/formats/volume-journal.md`.
//!
//! A write changes units on several devices, and a crash in its middle leaves parity, or a copy, that
//! does not fit the rest: the write hole. With the new content of all units in the journal first, what
//! the crash left out is written after it, whichever devices are left. So a write of one stripe is whole
//! or not there at all.
//!
//! Each record goes to as many devices as the level can lose, and one more. Writes that come while a record
//! is being made durable go together in the next.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::future::{Either, join_all, select};
use moirai_storage::{Device, Error, IoBuf, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::keeper::Keeper;
use crate::members::{Members, Used};
use crate::ring::{Ring, Run, Sequence};
use crate::{DiskIndex, Role, StripeIndex};

/// What a record begins with.
pub(crate) const RECORD_MAGIC: &[u8; 8] = b"MOIRAIVJ";
/// The version of its format; a volume's label has the one of the whole.
pub(crate) const RECORD_VERSION: u32 = 2;

const FIXED_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;
const BLOCK: usize = BLOCK_BYTES as usize;

/// Blocks of one unit of a stripe, as they are to be. A data unit is meant in all its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Disks of the layout that the stripe is of: a volume that grows has two.
    pub(crate) disks: usize,
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

/// What was found of a journal.
pub(crate) struct Recovered {
    /// The records that are not known to be in their places, in order.
    pub(crate) records: Vec<Record>,
    /// None of those that were found has this number, or a later one.
    pub(crate) next: Sequence,
    /// The ring of each device.
    pub(crate) rings: Vec<Ring>,
}

/// The journal of an open volume.
#[derive(Debug)]
pub(crate) struct Journal {
    volume: u128,
    area: BlockRange,
    state: Mutex<State>,
    /// The right to write the next records.
    turn: tokio::sync::Mutex<()>,
    /// Rung when a record's content is in its places, or durable there.
    changed: Notify,
}

/// Names what waits to become a record; records have their numbers in the order they are written.
type Ticket = u64;

#[derive(Debug)]
struct State {
    next: Sequence,
    next_ticket: Ticket,
    /// What was handed in before this one is durable.
    durable: Ticket,
    /// The records of these, until who handed it in knows.
    numbered: BTreeMap<Ticket, Sequence>,
    /// Records before this one are in their places, durably.
    tail: Sequence,
    /// What waits for its turn.
    waiting: Vec<(Ticket, Vec<Entry>)>,
    /// Records whose content is not in its places.
    active: BTreeSet<Sequence>,
    /// Which devices the next records go to first.
    rotation: usize,
    rings: Vec<Ring>,
    /// Set when too few devices took a record, and never cleared.
    is_broken: bool,
}

/// What a batch waits for.
enum Room {
    Enough,
    /// A tail that frees what is in its places.
    AfterTail,
    /// Records that are not.
    AfterPlacing,
}

impl State {
    /// The number of the next record.
    fn number(&mut self) -> Sequence {
        self.next += 1;
        self.next - 1
    }

    /// The next of what waits, of at most so many blocks together, and at least one.
    fn next_batch(&mut self, blocks_max: u64) -> Vec<(Ticket, Vec<Entry>)> {
        let mut blocks = 0;
        let mut fits = |(_, entries): &(Ticket, Vec<Entry>)| {
            blocks += record_blocks(entries);
            blocks <= blocks_max
        };
        let count = self.waiting.iter().take_while(|record| fits(record)).count().max(1);
        self.waiting.drain(..count.min(self.waiting.len())).collect()
    }
}

impl Journal {
    /// A journal in `area` of each device, with a ring for each, whose next record is `next`.
    pub(crate) fn new(volume: u128, area: BlockRange, rings: Vec<Ring>, next: Sequence) -> Journal {
        Journal {
            volume,
            area,
            state: Mutex::new(State {
                next,
                next_ticket: 0,
                durable: 0,
                numbered: BTreeMap::new(),
                tail: next,
                waiting: Vec::new(),
                active: BTreeSet::new(),
                rotation: 0,
                rings,
                is_broken: false,
            }),
            turn: tokio::sync::Mutex::new(()),
            changed: Notify::new(),
        }
    }

    /// Makes a record of `entries` durable. When the content is in its places [`Journal::placed`] is to
    /// be told.
    pub(crate) async fn append(
        &self,
        keeper: &Keeper,
        members: &Members,
        entries: Vec<Entry>,
    ) -> Result<Sequence> {
        let ticket = {
            let mut state = self.state.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push((ticket, entries));
            ticket
        };
        let Some(_turn) = self.turn_or_done(ticket).await else {
            return Ok(self.state.lock().numbered.remove(&ticket).unwrap_or(0));
        };
        loop {
            let batch = {
                let mut state = self.state.lock();
                if state.is_broken {
                    return Err(Error::Latched { device: members.name().to_owned() });
                }
                if state.durable > ticket {
                    return Ok(state.numbered.remove(&ticket).unwrap_or(0));
                }
                state.next_batch(self.area.count.0 / 4)
            };
            let written = self.write_batch(keeper, members, &batch).await;
            let mut state = self.state.lock();
            state.is_broken = written.is_err();
            written?;
            state.durable = batch.last().map_or(ticket, |(last, _)| *last) + 1;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits for the right to write records; `None` when somebody else has made the ticket's durable.
    /// Who only waited for the turn then would keep that room which who has it waits for.
    async fn turn_or_done(&self, ticket: Ticket) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let mut turn = pin!(self.turn.lock());
        loop {
            // Rung from here on, so that nothing changes unseen.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.state.lock().durable > ticket {
                return None;
            }
            if let Either::Left((turn, _)) = select(turn.as_mut(), changed).await {
                return Some(turn);
            }
        }
    }

    /// A new device, with physical sectors of `physical`, is in a disk's place: its journal is empty.
    pub(crate) fn begin_anew(&self, disk: DiskIndex, physical: BlockCount) {
        if let Some(ring) = self.state.lock().rings.get_mut(disk.0) {
            *ring = Ring::new(self.area, physical);
        }
    }

    /// Notes that a record's content is in its places.
    pub(crate) fn placed(&self, sequence: Sequence) {
        self.state.lock().active.remove(&sequence);
        self.changed.notify_waiters();
    }

    /// The first record that has not been placed, or the next: all before are durable once the devices
    /// are flushed.
    pub(crate) fn first_active(&self) -> Sequence {
        let state = self.state.lock();
        state.active.first().copied().unwrap_or(state.next)
    }

    /// Notes that records before `tail` are in their places, durably. Their room is free once a record
    /// that says so is durable.
    pub(crate) fn retire(&self, tail: Sequence) {
        let mut state = self.state.lock();
        state.tail = state.tail.max(tail);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Writes a batch once there is room for it on all devices.
    async fn write_batch(
        &self,
        keeper: &Keeper,
        members: &Members,
        batch: &[(Ticket, Vec<Entry>)],
    ) -> Result<()> {
        let blocks = batch.iter().map(|(_, entries)| record_blocks(entries)).sum();
        loop {
            // Rung from here on, so that nothing changes unseen.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let tail = self.first_active();
            match self.room(members, blocks, tail) {
                Room::Enough => break,
                Room::AfterTail => {
                    keeper.settle(members, tail).await?;
                    let sequence = self.state.lock().number();
                    self.write(keeper, members, &[(sequence, &[])]).await?;
                }
                Room::AfterPlacing => changed.await,
            }
        }
        let mut records = Vec::with_capacity(batch.len());
        for (ticket, entries) in batch {
            let mut state = self.state.lock();
            // Under one lock: a flush in between would take it for placed.
            let sequence = state.number();
            state.active.insert(sequence);
            state.numbered.insert(*ticket, sequence);
            records.push((sequence, entries.as_slice()));
        }
        self.write(keeper, members, &records).await
    }

    /// What is needed before a batch can be written.
    fn room(&self, members: &Members, blocks: u64, tail: Sequence) -> Room {
        let state = self.state.lock();
        let rings = members.in_use().into_iter().filter_map(|disk| state.rings.get(disk.0));
        let (mut is_full, mut all_free) = (false, true);
        for ring in rings.filter(|ring| !ring.has_room(blocks)) {
            is_full = true;
            all_free &= ring.frees(tail);
        }
        match (is_full, all_free) {
            (false, _) => Room::Enough,
            (true, true) => Room::AfterTail,
            (true, false) => Room::AfterPlacing,
        }
    }

    /// Writes records to as many devices as may fail and one more, and flushes these; then what their
    /// tail says is freed.
    async fn write(
        &self,
        keeper: &Keeper,
        members: &Members,
        records: &[(Sequence, &[Entry])],
    ) -> Result<()> {
        let tail = self.state.lock().tail;
        let mut bytes = Vec::new();
        for (sequence, entries) in records {
            self.encode(*sequence, tail, entries, &mut bytes);
        }
        let last = records.last().map_or(0, |(last, _)| *last);
        let rotation = {
            let mut state = self.state.lock();
            state.rotation = state.rotation.wrapping_add(1);
            state.rotation
        };
        let mut reached: BTreeSet<DiskIndex> = BTreeSet::new();
        loop {
            let holders = keeper.shape().record_holders(&members.in_use(), rotation);
            if holders.is_empty() {
                return Err(Error::Latched { device: members.name().to_owned() });
            }
            let targets: Vec<DiskIndex> =
                holders.into_iter().filter(|disk| !reached.contains(disk)).collect();
            if targets.is_empty() {
                break;
            }
            let bytes = &bytes;
            let written = join_all(targets.into_iter().map(|disk| async move {
                let device = members.whole(disk);
                (disk, self.write_to(&device, disk, last, bytes).await, device)
            }));
            for (disk, result, device) in written.await {
                match result {
                    Ok(()) => {
                        reached.insert(disk);
                    }
                    Err(_) => members.fail(&device),
                }
            }
        }
        let mut state = self.state.lock();
        state.rings.iter_mut().for_each(|ring| ring.free_before(tail));
        Ok(())
    }

    async fn write_to(
        &self,
        device: &Used,
        disk: DiskIndex,
        last: Sequence,
        bytes: &[u8],
    ) -> Result<()> {
        let blocks = (bytes.len() / BLOCK) as u64;
        let first = {
            let mut state = self.state.lock();
            state.rings.get_mut(disk.0).and_then(|ring| ring.take(blocks, last))
        };
        // There was room on all devices in use, and only who has the turn takes any.
        let Some(first) = first else {
            return Err(Error::Latched { device: device.inquiry().name.clone() });
        };
        device.write(self.area.first + BlockCount(first), IoBuf::holding(bytes)).await?;
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
            let (offset, blocks) = (entry.offset.0 as u32, entry.blocks().0 as u32);
            for number in [role, position, offset, blocks, entry.disks as u32, 0] {
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

    /// Reads what the devices that are in use hold.
    pub(crate) async fn read(volume: u128, area: BlockRange, members: &Members) -> Recovered {
        let mut records: BTreeMap<Sequence, Record> = BTreeMap::new();
        let contents = members.in_use().into_iter().map(|disk| {
            let device = members.whole(disk);
            async move { (disk, read_what_can_be(&*device, area).await) }
        });
        let mut newest: BTreeMap<DiskIndex, Run> = BTreeMap::new();
        for (disk, content) in join_all(contents).await {
            let mut at = 0;
            while let Some(rest) = content.get(at..).filter(|rest| rest.len() >= BLOCK) {
                let Some((record, blocks)) = decode(volume, rest) else {
                    at += BLOCK;
                    continue;
                };
                let (sequence, first) = (record.sequence, (at / BLOCK) as u64);
                if newest.get(&disk).is_none_or(|run| run.last < sequence) {
                    newest.insert(disk, Run { last: sequence, first, blocks });
                }
                records.insert(sequence, record);
                at += blocks as usize * BLOCK;
            }
        }
        let (last, tail) = records.last_key_value().map_or((0, 0), |(last, r)| (*last, r.tail));
        let ring = |disk| {
            let physical = members.whole(disk).inquiry().physical_block;
            match newest.get(&disk) {
                Some(newest) => Ring::behind(area, physical, *newest),
                None => Ring::new(area, physical),
            }
        };
        let rings = members.all().map(ring).collect();
        let counting = records.into_values().filter(|record| record.sequence >= tail);
        Recovered { records: counting.collect(), next: last + 1, rings }
    }
}

/// Blocks read at once, where one cannot be read.
const READ_BLOCKS: u64 = 64;

/// The journal's area of a device; what cannot be read is left zero. A record is on more devices than may
/// fail, and so a block that one device cannot read loses none.
async fn read_what_can_be(device: &dyn Device, area: BlockRange) -> Vec<u8> {
    if let Ok(content) = device.read(area).await {
        return content.to_vec();
    }
    let mut content = Vec::new();
    let mut at = area.first;
    while at < area.end() {
        let count = BlockCount(READ_BLOCKS).min(area.end().since(at));
        match device.read(BlockRange::new(at, count)).await {
            Ok(blocks) => content.extend_from_slice(&blocks),
            Err(_) => {
                for block in 0..count.0 {
                    let one = BlockRange::new(at + BlockCount(block), BlockCount(1));
                    let read = device.read(one).await.ok();
                    content.extend_from_slice(read.as_deref().unwrap_or(&[0; BLOCK]));
                }
            }
        }
        at += count;
    }
    content
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
    if count > length / ENTRY_BYTES {
        return None;
    }
    let mut from = header_blocks(count) as usize * BLOCK;
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
        let disks = four(at + 24)? as usize;
        entries.push(Entry { disks, stripe: StripeIndex(eight(at)?), role, offset, content });
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
                disks: usize::from(fill),
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
            let journal = Journal::new(77, AREA, Vec::new(), 1);
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
}
