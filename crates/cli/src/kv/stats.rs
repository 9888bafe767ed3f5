//! `kv stats`: what a store holds, and what it takes on its devices and in memory.

use moirai::btree::{Estimate, KeyRange, Store, Tree};
use moirai::units::{ByteCount, Nanos, grouped};
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

#[derive(Serialize)]
struct Stats {
    trees: Vec<TreeStats>,
    /// Of these trees.
    records: u64,
    /// Bytes of keys and values.
    live_bytes: u64,
    /// Whether records and bytes were counted, and not estimated.
    is_exact: bool,
    /// Allocated, log included.
    used_bytes: u64,
    /// Of the devices, as far as they are the store's.
    device_bytes: u64,
    /// Pending changes, directory and cache.
    memory_bytes: u64,
    leaves: u64,
    partitions: u64,
    /// Of values that are too long for a leaf, on the device.
    long_bytes: u64,
    set_aside: u64,
    pending_changes: u64,
    pending_bytes: u64,
    directory_bytes: u64,
    cached_bytes: u64,
    data_bytes: u64,
    data_free_bytes: u64,
    log_bytes: u64,
    log_segments: u64,
    log_segments_used: u64,
    replayed_bytes: u64,
    refused_merges: u64,
    /// The most processor time for which the store's lock was held at once since it was opened, and how often it was held
    /// for more than 1 ms.
    lock_held_max_ns: u64,
    lock_held_long: u64,
}

#[derive(Serialize)]
struct TreeStats {
    name: String,
    records: u64,
    live_bytes: u64,
    is_exact: bool,
}

pub(super) async fn stats(
    store: &Store,
    of: &[Tree],
    is_exact: bool,
    json: bool,
) -> Result<(), Failure> {
    let mut trees = Vec::new();
    for tree in of {
        let size = match is_exact {
            true => store.measure(tree, KeyRange::all()).await?,
            false => store.estimate(tree, KeyRange::all()).await?,
        };
        let Estimate { records, bytes, is_exact } = size;
        trees.push(TreeStats {
            name: tree.name().to_owned(),
            records,
            live_bytes: bytes,
            is_exact,
        });
    }
    let figures = store.figures();
    let used = figures.data_bytes - figures.data_free_bytes;
    let stats = Stats {
        records: trees.iter().map(|tree| tree.records).sum(),
        live_bytes: trees.iter().map(|tree| tree.live_bytes).sum(),
        is_exact: trees.iter().all(|tree| tree.is_exact),
        trees,
        used_bytes: used + figures.log_capacity_bytes,
        device_bytes: figures.data_bytes + figures.log_capacity_bytes,
        memory_bytes: figures.queued_bytes
            + figures.directory_bytes
            + figures.other_bytes
            + figures.cached_bytes,
        leaves: figures.blocks,
        partitions: figures.partitions,
        long_bytes: figures.long_bytes,
        set_aside: figures.set_aside,
        pending_changes: figures.queued,
        pending_bytes: figures.queued_bytes,
        directory_bytes: figures.directory_bytes,
        cached_bytes: figures.cached_bytes,
        data_bytes: figures.data_bytes,
        data_free_bytes: figures.data_free_bytes,
        log_bytes: figures.log_capacity_bytes,
        log_segments: figures.log_segments,
        log_segments_used: figures.log_segments_used,
        replayed_bytes: figures.replayed_bytes,
        refused_merges: figures.refused,
        lock_held_max_ns: figures.lock_held_max_ns,
        lock_held_long: figures.lock_held_long,
    };
    if json {
        return print::json(&stats);
    }
    print_stats(&stats)
}

fn print_stats(stats: &Stats) -> Result<(), Failure> {
    let tree = |tree: &TreeStats| {
        let about = if tree.is_exact { "" } else { "about " };
        vec![
            tree.name.clone(),
            format!("{about}{}", grouped(tree.records)),
            format!("{about}{}", ByteCount(tree.live_bytes)),
        ]
    };
    let rows = stats.trees.iter().map(tree).collect();
    print::table(&[("tree", false), ("records", true), ("keys and values", true)], rows)?;
    print::line("")?;
    let facts = [
        (
            "leaves",
            format!("{} in {} partitions", grouped(stats.leaves), grouped(stats.partitions)),
        ),
        ("long values", format!("{} outside of leaves", ByteCount(stats.long_bytes))),
        (
            "pending",
            format!(
                "{} changes, {} of memory",
                grouped(stats.pending_changes),
                ByteCount(stats.pending_bytes)
            ),
        ),
        ("directory", format!("{} of memory", ByteCount(stats.directory_bytes))),
        (
            "space",
            format!(
                "{} of {} are in use",
                ByteCount(stats.data_bytes - stats.data_free_bytes),
                ByteCount(stats.data_bytes)
            ),
        ),
        (
            "log",
            format!(
                "{}, {} of {} segments in use",
                ByteCount(stats.log_bytes),
                grouped(stats.log_segments_used),
                grouped(stats.log_segments)
            ),
        ),
        (
            "replayed",
            format!("{} of log when the store was opened", ByteCount(stats.replayed_bytes)),
        ),
        (
            "refused merges",
            format!(
                "{} met a value that is not a number, or is longer than 16 MiB",
                grouped(stats.refused_merges)
            ),
        ),
        (
            "lock",
            format!(
                "{} of processor time at once at most, over 1 ms {} times",
                Nanos(stats.lock_held_max_ns),
                grouped(stats.lock_held_long)
            ),
        ),
        ("set aside", format!("{} partitions, which could not be read", grouped(stats.set_aside))),
    ];
    let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
    print::table(&[("store", false), ("", false)], facts.into_iter().map(row).collect())
}
