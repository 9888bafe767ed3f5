//! How an engine is opened.

use moirai_units::{ByteCount, Nanos};

/// When a group is acknowledged.
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
    /// Memory for pending modifications and for what says where blocks and staged modifications lie, which leaves
    /// the others a quarter at least; with more than half of it for these, what is swept is written where something
    /// is staged already. Sweeps begin when half of the rest is in use, and who modifies waits when all is, or when
    /// about an eighth of it is pending for one partition. A group may go over it by its own length. What is not in
    /// use keeps blocks that were read for a value. 4 KiB at least; 64 MiB by default.
    pub memory: ByteCount,
    /// Of that, what blocks that were read may take at most; by default as much as is left.
    pub cache: ByteCount,
    /// When groups are acknowledged.
    pub durability: Durability,
    /// With several log disks: how long a group waits for the disk that writes (the BOSC paper's T_wait) before
    /// another takes it. What waits longer is written together with more. Outside of virtual time the clock counts
    /// milliseconds. 250 us by default.
    pub log_wait: Nanos,
    /// A mistake that tests make to see that they notice it: what is in the blocks is taken to be one group more
    /// than it is. It loses data.
    #[doc(hidden)]
    pub canary: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: ByteCount::mib(64),
            cache: ByteCount(u64::MAX),
            durability: Durability::default(),
            log_wait: Nanos(250_000),
            canary: false,
        }
    }
}
