//! Numbers of spaces, groups, partitions and kinds.

/// A space of keys, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// The number of a group: one more with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seq(pub(crate) u64);

/// The number of a read point: one more with each, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PointNumber(pub(crate) u64);

impl PointNumber {
    /// After all read points: what is read now.
    pub(crate) const NOW: PointNumber = PointNumber(u64::MAX);
    /// After all read points that there may be: no read point sees what came then.
    pub(crate) const AFTER_ALL: PointNumber = PointNumber(u64::MAX - 1);
}

/// The number of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionId(pub(crate) u32);

/// The number of a kind. It is in logs, and so it is always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindNumber(pub u8);

impl KindNumber {
    /// Whether it is [`PUT`] or [`DELETE`], or a put of a long value: it needs no value, and is none that a program registers.
    #[must_use]
    pub fn is_put(self) -> bool {
        self < KINDS_OF_PROGRAMS
    }
}

/// Puts a value in the place of whatever was there.
pub const PUT: KindNumber = KindNumber(1);
/// Leaves no value.
pub const DELETE: KindNumber = KindNumber(2);
/// Puts a long value in the place of whatever was there: the modification is a reference to it. Groups make it of puts
/// that are too long for a block, and of [`Group::put_long`](crate::Group::put_long).
pub(crate) const PUT_LONG: KindNumber = KindNumber(3);
/// In histories alone: the modifications of this key that follow came after a read point, whose number is in the place of
/// the modification.
pub(crate) const AFTER_POINT: KindNumber = KindNumber(4);
/// The lowest number of kinds that programs register.
pub const KINDS_OF_PROGRAMS: KindNumber = KindNumber(16);
