//! The update engine: log now, commit in sweeps.
//!
//! After BOSC (the paper's sections 3 and 4; see ARCHITECTURE.md): a modification is written to a log and put into a
//! queue in memory, and is acknowledged. Blocks are not read for it. Sweeps go over the blocks in their order,
//! read those with something pending many at a time, apply it, and write them.
//!
//! What differs: blocks are addressed by the keys that they hold, so that a block may become several without
//! anything that is pending knowing; queues are kept for partitions, which are neighbouring blocks; what leaves
//! memory goes first to a staging area beside a partition's blocks, and so one sweep applies many memoryfuls;
//! and nothing is written over, so that a torn write harms nothing.

mod blocks;
mod cache;
mod chunk;
mod codec;
mod engine;
mod entry;
mod error;
mod extents;
mod figures;
mod filter;
mod format;
mod frame;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod group;
mod kind;
mod log;
mod options;
mod partition;
mod placing;
mod queue;
mod read;
mod replay;
mod snapshot;
mod state;
mod superblock;
mod sweep;
mod writer;

pub use blocks::{BlockFormat, Modification, NotOfFormat, Pieces, WholeBlocks};
pub use engine::Engine;
pub use error::{Error, Result};
pub use figures::Figures;
pub use format::{Format, Lengths};
pub use frame::LABEL_BLOCKS as LOG_LABEL_BLOCKS;
pub use group::Group;
pub use kind::{DELETE, KINDS_OF_PROGRAMS, Kind, KindNumber, Kinds, PUT, Question, Value};
pub use options::{Durability, Options};
pub use placing::LogWriter;
pub use read::{At, View};

/// A space of keys, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// The number of a group: one more with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seq(pub(crate) u64);
