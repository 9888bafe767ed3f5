//! What is damaged on the data device.

use moirai_units::BlockRange;

use crate::ids::SpaceId;

/// Something on the data device that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub what: &'static str,
    /// The device.
    pub device: String,
    /// Where it lies.
    pub blocks: BlockRange,
    /// What it holds of the records; none of a superblock or a checkpoint, which are written anew.
    pub keys: Option<DamagedKeys>,
}

/// Keys whose values, or changes, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedKeys {
    /// Their space.
    pub space: SpaceId,
    /// The lowest key that may be among them.
    pub from: Box<[u8]>,
    /// The key before which they end; none where they may be the last of the space.
    pub to: Option<Box<[u8]>>,
}
