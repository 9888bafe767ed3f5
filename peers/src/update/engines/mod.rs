//! The engines, each with the memory that it is given.

pub(crate) mod fjall;
pub(crate) mod lmdb;
pub(crate) mod ours;
pub(crate) mod redb;
pub(crate) mod rocksdb;
pub(crate) mod sqlite;

use std::collections::BTreeMap;
use std::path::Path;

use crate::Outcome;
use crate::update::workload::Key;

/// What an engine is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) folder: &'a Path,
    /// For what it caches and puts off, in bytes.
    pub(crate) memory: u64,
    /// Whether a group is durable before it is acknowledged.
    pub(crate) sync: bool,
    pub(crate) records: u64,
}

/// So many records are loaded in one commit.
const LOAD_GROUP: usize = 10_000;

/// Calls `commit` with groups of records.
fn in_groups<T: Copy>(
    records: &mut dyn Iterator<Item = T>,
    mut commit: impl FnMut(&[T]) -> Outcome<()>,
) -> Outcome<()> {
    loop {
        let group: Vec<T> = records.take(LOAD_GROUP).collect();
        if group.is_empty() {
            return Ok(());
        }
        commit(&group)?;
    }
}

/// Each key once, and how often it is there: for engines that do not see in a batch what it writes.
fn counted(keys: &[Key]) -> BTreeMap<Key, u64> {
    let mut counts = BTreeMap::new();
    keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
    counts
}
