//! Checks: everything that the engine has on the data device is read and compared with its checksums. What is damaged is
//! told, and dropped where that is asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{StreamExt, stream};

use crate::damage::{Damage, DamagedKeys};
use crate::data::checkpoint::read::damaged_places;
use crate::data::place::Place;
use crate::data::superblock::Superblock;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, SpaceId};
use crate::long::epoch::Epoch;
use crate::long::reference::Reference;
use crate::read_whole::{Content, Lost};
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::partition::Staged;

/// Partitions that are read at the same time.
const READ_AHEAD: usize = 4;

/// Partitions that are listed while nobody else uses the state.
const WHOLES_AT_ONCE: usize = 1 << 10;

/// Where partitions begin that are listed: a space and a key.
type Begin = (SpaceId, Box<[u8]>);

/// A partition to be read.
struct Whole {
    space: SpaceId,
    low: Box<[u8]>,
    /// The lowest key of the next one.
    high: Option<Box<[u8]>>,
    place: Arc<Place>,
    staged: Vec<Arc<Staged>>,
    /// Keeps the long values that it refers to.
    _epoch: Arc<Epoch>,
}

impl Whole {
    fn damage(&self, lost: &Lost, table: &BlockTable, device: &str) -> Damage {
        let (what, blocks, first, last) = match lost.clone() {
            Lost::Table(blocks) => ("a table of leaves", blocks, 0, self.place.blocks()),
            Lost::Block(index, blocks) => ("a leaf", blocks, index, index),
            Lost::Staged(of, blocks) => ("staged changes", blocks, *of.start(), *of.end()),
        };
        // Where the table is lost, the keys of a single block are not known.
        let low = |block: usize| match block < table.len() && block > 0 {
            true => table.low(block).into(),
            false => self.low.clone(),
        };
        let to = match last + 1 < table.len() {
            true => Some(low(last + 1)),
            false => self.high.clone(),
        };
        let keys = DamagedKeys { space: self.space, from: low(first), to };
        Damage { what, device: device.to_owned(), blocks, keys: Some(keys) }
    }
}

impl Shared {
    /// Reads everything; gives what is damaged.
    pub(crate) async fn check_all(&self) -> Vec<Damage> {
        let mut damage = self.check_checkpoint().await;
        let wholes = stream::unfold(Some((SpaceId(0), Box::default())), async |from| {
            let (some, next) = self.wholes(from?);
            Some((stream::iter(some), next))
        });
        let mut checked = std::pin::pin!(
            wholes
                .flatten()
                .map(|one| async move { self.check_partition(&one).await })
                .buffered(READ_AHEAD)
        );
        while let Some(more) = checked.next().await {
            damage.extend(more);
        }
        damage
    }

    /// What is damaged of a partition; blocks are read one by one only where something is.
    async fn check_partition(&self, one: &Whole) -> Vec<Damage> {
        match self.read_whole(&one.place, &one.staged).await {
            Ok(content) if self.is_of_format(&content) => {
                let damaged = self.damaged_long_values(&content).await;
                damaged
                    .into_iter()
                    .map(|(key, reference)| self.damage_of(one, key, &reference))
                    .collect()
            }
            _ => {
                let rest = self.read_rest(&one.place, &one.staged).await;
                let damaged = self.damaged_long_values(&rest).await;
                let long =
                    damaged.iter().map(|(key, reference)| self.damage_of(one, key, reference));
                let long: Vec<Damage> = long.collect();
                let device = &self.data.inquiry().name;
                let lost = rest.lost.iter().map(|lost| one.damage(lost, &rest.table, device));
                lost.chain(long).collect()
            }
        }
    }

    /// A long value that cannot be read.
    fn damage_of(&self, one: &Whole, key: &[u8], reference: &Reference) -> Damage {
        let to = Some([key, &[0]].concat().into());
        let keys = DamagedKeys { space: one.space, from: key.into(), to };
        let device = self.data.inquiry().name.clone();
        Damage { what: "a long value", device, blocks: reference.blocks(), keys: Some(keys) }
    }

    /// Partitions in the order of their keys, from the one that has a key of a space on, and where the next ones begin.
    fn wholes(&self, (space, key): Begin) -> (Vec<Whole>, Option<Begin>) {
        let state = self.state();
        let mut some: Vec<Whole> = Vec::new();
        let whole = |id: PartitionId| {
            let one = state.partition(id)?;
            let (place, staged) = (Arc::clone(&one.place), one.staged.clone());
            let _epoch = Arc::clone(&state.epoch);
            let (space, low) = (one.space, one.low.clone());
            Some(Whole { space, low, high: None, place, staged, _epoch })
        };
        for (of, directory) in state.spaces.range(space..) {
            let first = if *of == space { state.position(*of, &key).unwrap_or(0) } else { 0 };
            let mut before: Option<&mut Whole> = None;
            for one in directory.from(first).filter_map(whole) {
                if let Some(before) = before {
                    before.high = Some(one.low.clone());
                }
                if some.len() == WHOLES_AT_ONCE {
                    return (some, Some((*of, one.low)));
                }
                some.push(one);
                before = some.last_mut();
            }
        }
        (some, None)
    }

    /// Both copies of the superblock, and the checkpoint that it names. No checkpoint is taken meanwhile.
    async fn check_checkpoint(&self) -> Vec<Damage> {
        let mut held = self.superblock.lock().await;
        let (superblock, kept) = &mut *held;
        let mut damage = Superblock::damaged_copies(&*self.data, superblock).await;
        let device = &self.data.inquiry().name;
        let damaged = damaged_places(&*self.data, &superblock.checkpoint, kept).await;
        let of_checkpoint =
            |blocks| Damage { what: "the checkpoint", device: device.clone(), blocks, keys: None };
        damage.extend(damaged.into_iter().map(of_checkpoint));
        damage
    }

    fn is_of_format(&self, content: &Content) -> bool {
        let mut blocks = content.blocks().enumerate();
        blocks.all(|(index, block)| {
            content.format().last_key(content.table.low(index), block).is_ok()
        })
    }

    /// Drops what is damaged, and writes the rest anew.
    pub(crate) async fn drop_damaged(&self) -> Result<Vec<Damage>> {
        let damage = self.check_all().await;
        for keys in damage.iter().filter_map(|one| one.keys.as_ref()) {
            let mut state = self.state();
            // Partitions may have been divided or merged since they were read.
            let holding = holding(&state, keys);
            state.to_salvage.extend(holding);
        }
        loop {
            let swept = self.room.notified();
            self.check_running()?;
            if self.state().to_salvage.is_empty() {
                break;
            }
            if self.is_stuck.load(Ordering::Relaxed) {
                return Err(Error::full(&*self.data));
            }
            self.sweep_wake.notify_one();
            swept.await;
        }
        Ok(damage)
    }
}

/// The partitions that hold these keys now.
fn holding(state: &State, keys: &DamagedKeys) -> Vec<PartitionId> {
    let Some(directory) = state.spaces.get(&keys.space) else { return Vec::new() };
    let first = state.position(keys.space, &keys.from).unwrap_or(0);
    let begins_before_end = |id: &PartitionId| {
        let low = state.partition(*id).map(|one| &one.low);
        low.is_some_and(|low| keys.to.as_ref().is_none_or(|to| low < to))
    };
    directory.from(first).take_while(begins_before_end).collect()
}
