//! The update engine: log now, commit in sweeps.
//!
//! After BOSC (the paper's sections 3 and 4; see ARCHITECTURE.md). The engine writes a modification to its log, puts it
//! into a queue in memory and acknowledges it; it reads no block for it. Sweeps take partitions in key order, read
//! their blocks, apply all pending modifications and write the blocks to a new place.
//!
//! Four things differ from the paper. Blocks are addressed by the keys that they hold, so a block may split without
//! touching pending modifications. Queues belong to partitions, which are neighbouring blocks. A swept queue is first
//! staged on the device, so one rewrite applies several memoryfuls. And nothing is overwritten, so a torn write harms
//! nothing.
//!
//! - `engine`: the door. `commit`, `steps`: groups. `bulk`: groups longer than log and memory. `ingest`: sorted records past log and queues. `reader`, with `read`, `read_many`, `view` and `sample`:
//!   reads. `read_point`: the state at one moment. `shared`: what the door, the log's writer and the sweeper share.
//! - `state`: spaces, partitions and queues in memory, and the log entries that change them.
//! - `log`: frames, segments, the writer and recovery.
//! - `data`: the data device: superblock, extents, checkpoints, the block cache.
//! - `long`: values that are too long for a block.
//! - `sweep`: which partitions leave memory, and how.

mod block_format;
mod bulk;
mod check;
mod codec;
mod commit;
mod damage;
mod data;
mod draft;
mod encoded;
mod engine;
mod error;
mod figures;
mod filter;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod group;
mod ids;
mod ingest;
mod kind;
mod limits;
mod locked;
mod log;
mod long;
mod map;
mod open;
mod options;
mod read;
mod read_many;
mod read_point;
mod read_tables;
mod read_whole;
mod reader;
mod records;
mod room;
mod sample;
mod shape;
mod shared;
mod space;
mod spec;
mod state;
mod steps;
mod sweep;
mod units;
mod view;

pub use block_format::{
    BlockFormat, KeyedReference, NewBlocks, NotOfFormat, OwnedUnits, WholeBlocks,
};
pub use bulk::Bulk;
pub use damage::{Damage, DamagedKeys};
pub use data::format::{Format, Lengths};
pub use draft::{Draft, DraftMark};
pub use engine::Engine;
pub use error::{Error, Result};
pub use figures::Figures;
pub use group::{Group, Modifications};
pub use ids::{DELETE, KINDS_OF_PROGRAMS, KindNumber, PUT, SpaceId};
pub use ingest::Ingest;
pub use kind::{Kind, Kinds, Modification, Question, Value};
pub use limits::{MERGED_BYTES_MAX, VALUE_BYTES_MAX};
pub use log::frame::LABEL_BLOCKS as LOG_LABEL_BLOCKS;
pub use log::segments::LogWriter;
pub use long::read::{LongValues, ValueReader};
pub use long::stored::Stored;
pub use long::value::LongValue;
pub use long::write::{ValueWriter, WrittenValue};
pub use map::{ExtentInUse, ExtentUse};
#[cfg(feature = "canary")]
#[doc(hidden)]
pub use options::Canary;
pub use options::{Durability, Options};
pub use read_point::ReadPoint;
pub use reader::Reader;
pub use sample::{Sample, SampledBlock};
pub use spec::{Formats, SpaceFormat};
pub use steps::{Appended, Reserved};
pub use sweep::requests::Cleared;
pub use units::{Block, UnitSet};
pub use view::{At, Layers, View, Views};
