//! The sizes that several parts of the engine keep to.

use moirai_units::ByteCount;

/// The longest value.
pub const VALUE_BYTES_MAX: ByteCount = ByteCount(1 << 30);
/// The longest value that a merge changes: a merge holds it in memory. A merge onto a longer one changes nothing and is
/// counted as refused ([`Figures::refused`](crate::Figures::refused)), whatever memory an engine has.
pub const MERGED_BYTES_MAX: ByteCount = ByteCount(16 << 20);
/// Bytes of a value that are written, read and checked at once.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// Blocks of a partition at most.
pub(crate) const PARTITION_BLOCKS_MAX: u32 = 64;
/// Bytes of a block at most.
pub(crate) const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the name of a block format.
pub(crate) const NAME_BYTES: usize = 16;
/// Partitions that are looked at in one go, while nobody else uses the state: about half a millisecond where memory is slow.
pub(crate) const LOOKED_AT: usize = 2048;
/// Runs of long values in one entry: the state is locked while an entry is applied.
pub(crate) const RUNS_OF_ENTRY: usize = 256;

/// Partitions of a page of the directory at most, unless `Options::page_partitions` says otherwise.
pub(crate) const PAGE_PARTITIONS: usize = 1 << 7;
