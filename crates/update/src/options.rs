//! How an engine is opened.

use std::ops::RangeInclusive;

use moirai_units::{ByteCount, Nanos};

use crate::error::{Error, Result};
use crate::limits::PAGE_PARTITIONS;

/// When a group is acknowledged, and from when on readers see it.
///
/// Readers see the groups up to some one, in the order of the log: those that are as durable as the engine's
/// [`Options::durability`] says. So what a reader was shown outlasts what that outlasts. A commit returns once readers see
/// its group; with [`Engine::commit_with`](crate::Engine::commit_with) it may wait for more, and not for less: in an engine
/// with [`Durability::Flushed`] all commits are that, in one with [`Durability::Written`] each may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable.
    #[default]
    Flushed,
    /// When it is written: a power cut may lose it, with all that came after; the end of the process does not.
    Written,
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for everything that the engine keeps: pending modifications, what sweeps work in (a quarter at most, or
    /// one partition), buffers of the log, and what says where blocks and staged modifications lie and what is free.
    /// Pending modifications have a quarter of it at least. Sweeps begin when they use half of what the others leave; a
    /// commit waits when they use all of it, or when one partition has about an eighth of it pending. A group may go
    /// over it by its own length. Once partitions and chunks take more than half of it, sweeps apply staged modifications
    /// earlier. Memory that is not in use is a cache of blocks that were read for a value, and of those that scans read of
    /// spaces that take no more than half of the cache.
    ///
    /// The C library may hold more than that: glibc keeps what one thread frees from the others, and a process with
    /// queues and staged modifications may grow to one and a half times this. `moirai_runtime::use_one_heap` prevents it, at the price of
    /// a lock; an allocator whose threads share what is free, as mimalloc, which the tool has, is faster than either.
    ///
    /// Opening keeps to it, too, whatever the log was written with, unless the engine is opened for reading only, or the
    /// data device has no space or fails. Requests of readers in flight come on top, and while the engine opens, two
    /// segments of each log device, the checkpoint's index, and 4 MiB of what it reads of the checkpoint. 4 KiB at least; 64 MiB by default.
    pub memory: ByteCount,
    /// Of that, what blocks that were read may take at most; by default as much as is left.
    pub cache: ByteCount,
    /// Bytes that a scan reads ahead, for each disk of the data device, and 16 MiB in all at most. 2 MiB by default. A scan reads neighbouring
    /// blocks of a partition at once, up to a 32nd of the memory but 1 to 8 MiB, and begins another read while reads of fewer bytes than
    /// this are in flight, or fewer than two reads, however small this is. What a scan holds may so be four such reads more than this.
    pub read_ahead: ByteCount,
    /// When groups are acknowledged and readers see them; the least that a commit may ask for.
    pub durability: Durability,
    /// With several log disks: how long a group waits for the disk that writes (the BOSC paper's T_wait) before
    /// another takes it. What waits longer is written together with more. Outside of virtual time the clock counts
    /// milliseconds. 250 us by default.
    pub log_wait: Nanos,
    /// Neighbouring partitions that a checkpoint writes together, at most, when one of them has changed. With fewer it writes
    /// less, and its index is longer. 2 to 1024; 128 by default.
    pub page_partitions: u32,
    /// How long no group is committed before the sweeper does work that can wait: it rewrites partitions with staged or pending
    /// modifications, merges small partitions, and discards free space. After sixteen times as long it also shortens the log.
    /// A file system may give the discarded space of a file to other files; a write that finds none stops the engine. `None`:
    /// never. Flash is told after each sweep what it has freed, whatever this says. One second by default.
    pub idle: Option<Nanos>,
    /// Opens the engine for reading only: nothing is written to the devices, whatever a crash left there, and they need not
    /// take writes. Modifications are refused with [`Error::ReadOnly`](crate::Error::ReadOnly). Several such engines may be
    /// open on the same devices, as long as no other engine writes there. An engine that writes nothing cannot sweep: it
    /// holds all pending modifications of the log in memory, also where these take more than [`Options::memory`].
    pub read_only: bool,
    /// Opens an engine whose log ends before its durable end, or where a device cannot be read, as after
    /// [`Error::LogLost`](crate::Error::LogLost) and [`Error::LogUnreadable`](crate::Error::LogUnreadable). All groups that
    /// the log has behind its end are lost, acknowledged or not. Blocks that such groups had moved may be gone, too:
    /// [`Engine::check`](crate::Engine::check) finds these. Each device of the log must have a label or a frame that can be
    /// read.
    pub force_log_end: bool,
    /// A mistake that tests make to see that they notice it. It loses data.
    #[cfg(feature = "canary")]
    #[doc(hidden)]
    pub canary: Canary,
}

/// A mistake on purpose.
#[cfg(feature = "canary")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Canary {
    /// None.
    #[default]
    None,
    /// What is in the blocks is taken to be one group more than it is.
    EarlyFrontier,
    /// The blocks of a version are free although a read point needs them.
    VersionFreed,
    /// A read point sees the first group that came after it.
    LatePoint,
    /// An extent is given to two owners.
    ExtentTwice,
}

/// How many partitions a page of the directory may have at most. Long ones take long to copy when one is added.
const PAGES: RangeInclusive<u32> = 2..=1024;
/// What a store needs at least.
const MEMORY_MIN: ByteCount = ByteCount(4 << 10);

impl Options {
    /// [`Error::Options`] for too little memory, and pages of too few or too many partitions.
    pub fn check(&self) -> Result<()> {
        if self.memory < MEMORY_MIN {
            let problem =
                format!("memory of {} is too small: give at least {MEMORY_MIN}", self.memory);
            return Err(Error::Options { problem });
        }
        if !PAGES.contains(&self.page_partitions) {
            let (least, most) = (PAGES.start(), PAGES.end());
            let pages = self.page_partitions;
            let problem =
                format!("pages of {pages} partitions: give {least} to {most} of them to a page");
            return Err(Error::Options { problem });
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: ByteCount::mib(64),
            cache: ByteCount(u64::MAX),
            read_ahead: ByteCount::mib(2),
            durability: Durability::default(),
            log_wait: Nanos(250_000),
            page_partitions: PAGE_PARTITIONS as u32,
            idle: Some(Nanos(1_000_000_000)),
            read_only: false,
            force_log_end: false,
            #[cfg(feature = "canary")]
            canary: Canary::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_2_to_1024_partitions() {
        let is_taken = |page_partitions| {
            let options = Options { page_partitions, ..Options::default() };
            options.check().is_ok()
        };
        assert_eq!([1, 2, 1024, 1025].map(is_taken), [false, true, true, false]);
    }
}
