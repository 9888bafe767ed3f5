//! Numbers of spaces, groups, partitions and kinds.

/// A space of keys, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// The number of a group: one more with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seq(pub(crate) u64);

/// The number of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionId(pub(crate) u32);

/// The number of a kind. It is in logs, and so it is always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindNumber(pub u8);

/// Puts a value in the place of whatever was there.
pub const PUT: KindNumber = KindNumber(1);
/// Leaves no value.
pub const DELETE: KindNumber = KindNumber(2);
/// The lowest number of kinds that programs register.
pub const KINDS_OF_PROGRAMS: KindNumber = KindNumber(16);
