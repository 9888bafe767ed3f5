//! What an engine did, counted.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use moirai_units::Nanos;

/// The state is locked for so much processor time at most: nobody else uses it meanwhile.
pub(crate) const LOCK_HELD_MAX: Nanos = Nanos(1_000_000);

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) modifications: Count,
    pub(crate) staged_bytes: Count,
    pub(crate) history_bytes: Count,
    pub(crate) placed_bytes: Count,
    pub(crate) swept_bytes: Count,
    pub(crate) checkpoint_bytes: Count,
    pub(crate) placed: Count,
    pub(crate) long_written_bytes: Count,
    pub(crate) long_reads: Count,
    pub(crate) reads: Count,
    pub(crate) staged_reads: Count,
    pub(crate) table_reads: Count,
    pub(crate) cached_reads: Count,
    pub(crate) waits: Count,
    /// The longest processor time for which the state was locked at once.
    lock_held_max_ns: AtomicU64,
    lock_held_long: Count,
}

impl Counts {
    /// Counts that the state was locked for so much processor time, from `at` in the source on.
    pub(crate) fn count_lock(&self, held: Nanos, at: &Location<'_>) {
        // Most are short: these only read here.
        if held.0 > self.lock_held_max_ns.load(Ordering::Relaxed) {
            self.lock_held_max_ns.fetch_max(held.0, Ordering::Relaxed);
        }
        if held > LOCK_HELD_MAX {
            self.lock_held_long.add(1);
            tracing::debug!("the state was locked for {held}: {at}");
        }
    }

    pub(crate) fn lock_held_max_ns(&self) -> u64 {
        self.lock_held_max_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn lock_held_long(&self) -> u64 {
        self.lock_held_long.get()
    }
}

/// What an engine did since it was opened, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Modifications taken in.
    pub modifications: u64,
    /// Modifications in memory.
    pub queued: u64,
    /// Bytes of memory that they take.
    pub queued_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes of the log's segments that were taken into use: what is left free of tracks counts, too.
    pub log_passed_bytes: u64,
    /// Bytes of chunks written.
    pub staged_bytes: u64,
    /// Bytes written of modifications that left memory, for readers of read points.
    pub history_bytes: u64,
    /// Read points that have not ended.
    pub read_points: u64,
    /// Bytes of blocks written by sweeps.
    pub placed_bytes: u64,
    /// Bytes read by sweeps.
    pub swept_bytes: u64,
    /// Bytes of checkpoints written.
    pub checkpoint_bytes: u64,
    /// How often a partition was swept into blocks.
    pub placed: u64,
    /// Bytes of the data device that long values take.
    pub long_bytes: u64,
    /// Bytes of long values written.
    pub long_written_bytes: u64,
    /// Requests to the data device for reading long values.
    pub long_reads: u64,
    /// Requests to the data device for reading values and blocks.
    pub reads: u64,
    /// How many of these were of staged chunks.
    pub staged_reads: u64,
    /// Requests to the data device for tables, which say what keys the blocks of a partition hold.
    pub table_reads: u64,
    /// How many reads of blocks found all of them in memory.
    pub cached_reads: u64,
    /// Bytes of memory that blocks take which were read.
    pub cached_bytes: u64,
    /// Groups that waited for memory or for room in the log; those that waited for their turn behind one do not count.
    pub waits: u64,
    /// The most processor time for which one thread held the lock of the state at once, in nanoseconds: commits and reads
    /// wait for it. Up to 0.2 ms too long, as [`BusyTime`](moirai_runtime::BusyTime) is. Of the holds of commits that apply no group, one in
    /// 16 is measured. 0 in virtual time.
    pub lock_held_max_ns: u64,
    /// How often a thread held it for more than 1 ms of processor time.
    pub lock_held_long: u64,
    /// Partitions.
    pub partitions: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Bytes of memory for finding blocks: partitions, their staged chunks, and tables of blocks.
    pub directory_bytes: u64,
    /// Bytes of memory of the maps of free extents and of partitions, of the log's buffers, and of what sweeps work in.
    pub other_bytes: u64,
    /// Bytes of the data device that partitions, staged chunks and checkpoints share.
    pub data_bytes: u64,
    /// How many of these are free.
    pub data_free_bytes: u64,
    /// Bytes of the log's segments, on all of its devices.
    pub log_capacity_bytes: u64,
    /// Segments of the log, and how many are in use.
    pub log_segments: u64,
    /// See `log_segments`.
    pub log_segments_used: u64,
    /// Bytes of the log that were read when it was opened, without the frames that mark its end.
    pub replayed_bytes: u64,
    /// Partitions whose blocks or chunks could not be read since the engine was opened. What is pending for them is kept.
    pub set_aside: u64,
    /// Modifications that did not fit the value that a sweep applied them to ([`Kind::fits`](crate::Kind::fits)),
    /// since the engine was formatted. The values stayed as they were. Modifications of one key that were combined
    /// before they were applied count once.
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_and_long_locks_are_counted() {
        let counts = Counts::default();
        for held in [500, LOCK_HELD_MAX.0, LOCK_HELD_MAX.0 + 1, 700] {
            counts.count_lock(Nanos(held), Location::caller());
        }
        assert_eq!((counts.lock_held_max_ns(), counts.lock_held_long()), (1_000_001, 1));
    }
}
