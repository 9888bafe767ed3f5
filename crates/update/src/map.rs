//! Maps: where everything lies on the data device.

use moirai_storage::Device;
use moirai_units::{BlockRange, ByteCount};

use crate::engine::Engine;
use crate::error::Result;
use crate::ids::{PartitionId, SpaceId};
use crate::limits::LOOKED_AT;
use crate::shared::Shared;
use crate::spec::SpaceFormat;

/// What an extent is in use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtentUse {
    /// Blocks of a space.
    Blocks(SpaceId),
    /// Modifications that are staged for blocks of a space.
    Staged(SpaceId),
    /// Long values, of any space.
    LongValues,
    /// The last checkpoint.
    Checkpoint,
}

/// An extent in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentInUse {
    /// What for.
    pub used_for: ExtentUse,
    /// Where it is.
    pub blocks: BlockRange,
    /// How many boundaries of the device's ensembles it crosses, where that costs something.
    pub crossed: u64,
    /// How many of these it would better not cross: it would begin with the next ensemble if there were room.
    pub avoidable: u64,
}

impl Engine {
    /// The extents that are in use on the data device, by their first blocks. Those that readers of read points need alone are
    /// left out, and what sweeps move meanwhile may come twice or not at all.
    pub async fn map(&self) -> Vec<ExtentInUse> {
        let shared = &self.shared;
        let mut all = Vec::new();
        let mut slot = 0;
        // Some at a time: others use the state, too.
        while shared.map_some(&mut slot, &mut all) {}
        let long: Vec<BlockRange> = shared.state().long.iter().collect();
        all.extend(long.into_iter().map(|blocks| shared.in_use(ExtentUse::LongValues, blocks)));
        let (_, kept) = &*shared.superblock.lock().await;
        let checkpoint = kept.extents().map(|one| one.blocks);
        all.extend(checkpoint.map(|blocks| shared.in_use(ExtentUse::Checkpoint, blocks)));
        all.sort_by_key(|one| one.blocks.first);
        all
    }

    /// Bytes of a block of spaces that were made without a format.
    #[must_use]
    pub fn block_bytes(&self) -> ByteCount {
        self.shared.layout.division.block.bytes()
    }

    /// What the blocks of a space are. [`Error::NoSpace`](crate::Error::NoSpace).
    pub fn space_format(&self, space: SpaceId) -> Result<SpaceFormat> {
        Ok(self.shared.spec(space)?.asked())
    }

    /// The data device.
    #[must_use]
    pub fn data_device(&self) -> &dyn Device {
        &*self.shared.data
    }
}

impl Shared {
    /// The extents of some partitions from `slot` on; tells whether there are more.
    fn map_some(&self, slot: &mut u32, all: &mut Vec<ExtentInUse>) -> bool {
        let mut found = Vec::new();
        let has_more = {
            let state = self.state();
            let end = slot.saturating_add(LOOKED_AT as u32).min(state.partitions.slots());
            for one in (*slot..end).filter_map(|id| state.partition(PartitionId(id))) {
                let blocks = one.place.extents().map(|extent| extent.blocks);
                found.extend(blocks.map(|blocks| (ExtentUse::Blocks(one.space), blocks)));
                let staged = one.staged.iter().map(|chunk| chunk.extent.blocks);
                found.extend(staged.map(|blocks| (ExtentUse::Staged(one.space), blocks)));
            }
            *slot = end;
            end < state.partitions.slots()
        };
        all.extend(found.into_iter().map(|(used_for, blocks)| self.in_use(used_for, blocks)));
        has_more
    }

    fn in_use(&self, used_for: ExtentUse, blocks: BlockRange) -> ExtentInUse {
        let ensembles = self.extents.ensembles();
        let crossed = ensembles.crossed(blocks);
        let avoidable = ensembles.avoidable(blocks, self.layout.division.grain);
        ExtentInUse { used_for, blocks, crossed, avoidable }
    }
}
