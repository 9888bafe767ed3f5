//! How the data device is divided: superblocks, and extents of any length after them.

use moirai_units::{BlockCount, BlockRange};

use crate::data::division::Division;

/// How the data device is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The blocks for extents.
    pub(crate) data: BlockRange,
    /// How the blocks of spaces are divided that are made without naming a format.
    pub(crate) division: Division,
}

impl Layout {
    /// Whether all extents have addresses: a superblock that was read may say anything.
    pub(crate) fn is_addressable(&self) -> bool {
        let is_data = self.data.first.0 < 1 << 32 && self.data.count.0 < 1 << 62;
        is_data && self.division.is_addressable()
    }

    /// The layout on the same device, which by now has `capacity`; the same where it is no longer.
    pub(crate) fn grown(self, capacity: BlockCount) -> Layout {
        let room = BlockCount(capacity.0.saturating_sub(self.data.first.0));
        Layout { data: BlockRange::new(self.data.first, room.max(self.data.count)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::Lbn;

    use super::*;

    #[test]
    fn layout_beyond_addresses_is_refused() {
        let division = Division {
            grain: BlockCount(8),
            block: BlockCount(16),
            partition_blocks: 32,
            staging: BlockCount(512),
        };
        let layout = Layout { data: BlockRange::new(Lbn(16), BlockCount(9000)), division };
        assert!(layout.is_addressable());
        let with = |division| Layout { division, ..layout }.is_addressable();
        let block = BlockCount(u64::MAX / 3);
        assert!(!with(Division { block, ..division }));
        assert!(!with(Division { block: BlockCount::ZERO, ..division }));
        assert!(!with(Division { staging: block, ..division }));
        assert!(!with(Division { partition_blocks: 65, ..division }));
        assert!(!with(Division { grain: BlockCount::ZERO, ..division }));
        let data = BlockRange::new(Lbn(16), BlockCount(u64::MAX - 20));
        assert!(!Layout { data, ..layout }.is_addressable());
    }
}
