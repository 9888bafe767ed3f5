//! Long values: values that are too long for a block lie in extents of their own.
//!
//! ```text
//!  block      | key | value | key | reference | key | value |
//!                                    |
//!  extents     up to 1 MiB:     value          longer:  index -> part, part, part, ...
//! ```
//!
//! The extents of a long value are written and flushed before the group that refers to it is logged, so the log holds
//! the reference alone: a modification of kind [`PUT_LONG`]. The reference goes through queue and chunk into the block.
//!
//! Invariants:
//!
//! 1. `State::long` holds the device blocks of every long value that a queue, a chunk or a block refers to, and beside
//!    these only those whose references or index were lost to damage. It changes by entries of the log: `Long` adds the blocks of a group's values, and `Freed` removes those that
//!    a sweep leaves without a reference. So blocks of a value whose group was never logged are free after a crash.
//! 2. A reference is in one place at a time. The sweep that drops it, because a later modification replaces it, logs
//!    `Freed` in the same group as the new place of the partition.
//! 3. Blocks that were freed are given to others once `Freed` is durable and every reader has ended that may have seen the
//!    reference ([`epoch`]).
//!
//! [`PUT_LONG`]: crate::ids::PUT_LONG

pub(crate) mod epoch;
pub(crate) mod layout;
pub(crate) mod made;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod reference;
pub(crate) mod references;
pub(crate) mod runs;
pub(crate) mod stored;
pub(crate) mod sweep;
pub(crate) mod value;
pub(crate) mod write;
