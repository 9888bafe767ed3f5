//! What a device says of itself and of its block space.

use moirai_units::{BlockCount, BlockRange, Lbn};

/// The device as a whole (`sif_inquiry`, and what a real device adds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// How messages name the device: its URI.
    pub name: String,
    /// Blocks on the device.
    pub capacity: BlockCount,
    /// Parallelism p: how many blocks can be accessed at the same time (thesis 6.2.1).
    pub parallelism: u32,
    /// Depth d: how many blocks of one device can be accessed for one positioning cost.
    pub depth: u32,
    /// The unit of allocation, b blocks: requests aligned to it are served without extra work.
    pub volume_block: BlockCount,
    /// The unit that is written wholly or not at all when power fails.
    pub atomic_write: BlockCount,
    /// Whether written data can be lost at a power failure until [`flush`](crate::Device::flush).
    pub volatile_cache: bool,
    /// Whether the device refuses writes.
    pub read_only: bool,
    /// Whether the device keeps what is written; one that does not only simulates the timing.
    pub keeps_data: bool,
}

impl Inquiry {
    /// The whole block space.
    #[must_use]
    pub fn all_blocks(&self) -> BlockRange {
        BlockRange::new(Lbn(0), self.capacity)
    }
}

/// A run of blocks between two access delay boundaries: most efficient when accessed whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensemble {
    /// The blocks between the boundaries.
    pub blocks: BlockRange,
    /// The delay of crossing the upper boundary, as the number of blocks that could have been
    /// accessed meanwhile: H of thesis 6.3.3. Zero where nothing is lost, or nothing is known.
    pub switch: BlockCount,
}

/// Blocks that can be accessed together: the p x d matrix of thesis 6.2.3.
///
/// `lbns` holds the matrix row by row. The p blocks of a row can be accessed in parallel; the d
/// blocks of a column can be accessed semi-sequentially, for one positioning cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EquivalenceClass {
    /// The members, p to a row. Two classes are the same set or share no block.
    pub lbns: Vec<Lbn>,
    /// Members in a row, p.
    pub parallelism: u32,
}

impl EquivalenceClass {
    /// A block that has no equals.
    #[must_use]
    pub fn single(lbn: Lbn) -> Self {
        EquivalenceClass { lbns: vec![lbn], parallelism: 1 }
    }

    /// The members column by column: first the d blocks of the first column.
    pub fn by_column(&self) -> impl Iterator<Item = Lbn> + '_ {
        let parallelism = self.parallelism as usize;
        (0..parallelism)
            .flat_map(move |column| self.lbns.iter().skip(column).step_by(parallelism).copied())
    }
}
