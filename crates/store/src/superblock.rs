//! The superblocks: where the catalog is. See `docs/formats/superblock.md`.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version |
//! | 12 | 4 | CRC-32C of all that follows, begun with magic and version |
//! | 16 | 8 | generation: one more each time the catalog is replaced |
//! | 24 | 8 | bytes of the catalog |
//! | 32 | 4 | checksum of the catalog |
//! | 36 | 4 | runs of blocks that hold it, in order |
//! | 40 | 16 n | first block and number of blocks of each |
//!
//! There are two, in the first two volume blocks. A new catalog is written beside the old one and
//! flushed; then the superblock that does not count is replaced, which the device does wholly or not
//! at all, and flushed; then the other. At open the valid one of the highest generation counts.

use moirai_units::BLOCK_BYTES;

use crate::blob::BlobRef;
use crate::checksum::checksum;
use crate::space::RunExtent;

/// What a superblock begins with.
pub(crate) const SUPERBLOCK_MAGIC: &[u8; 8] = b"MOIRAISB";
/// The version of the store's format as a whole.
pub(crate) const SUPERBLOCK_VERSION: u32 = 1;

const SIZE: usize = BLOCK_BYTES as usize;
const FIXED_BYTES: usize = 40;
/// Runs that a catalog can be divided into.
pub(crate) const RUNS_MAX: usize = (SIZE - FIXED_BYTES) / 16;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) generation: u64,
    pub(crate) catalog: BlobRef,
}

/// What lies where a superblock is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Valid(Superblock),
    /// Zeros: nothing was ever written.
    Blank,
    /// A superblock that was torn or damaged.
    Damaged,
    /// A superblock of another version.
    Version(u32),
    /// Something else.
    Foreign,
}

impl Superblock {
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        let mut content = Vec::with_capacity(SIZE);
        content.extend_from_slice(&self.generation.to_le_bytes());
        content.extend_from_slice(&self.catalog.bytes.to_le_bytes());
        content.extend_from_slice(&self.catalog.crc.to_le_bytes());
        content.extend_from_slice(&(self.catalog.runs.len() as u32).to_le_bytes());
        for run in &self.catalog.runs {
            content.extend_from_slice(&run.first.to_le_bytes());
            content.extend_from_slice(&run.blocks.to_le_bytes());
        }
        content.resize(SIZE - 16, 0);
        let crc = checksum(SUPERBLOCK_MAGIC, SUPERBLOCK_VERSION, 0, &content);
        let mut block = [0; SIZE];
        let bytes = SUPERBLOCK_MAGIC
            .iter()
            .copied()
            .chain(SUPERBLOCK_VERSION.to_le_bytes())
            .chain(crc.to_le_bytes())
            .chain(content);
        for (to, from) in block.iter_mut().zip(bytes) {
            *to = from;
        }
        block
    }

    pub(crate) fn decode(block: &[u8]) -> Found {
        let Some((header, content)) = block.get(..SIZE).and_then(<[u8]>::split_first_chunk::<16>)
        else {
            return Found::Foreign;
        };
        if block.iter().all(|byte| *byte == 0) {
            return Found::Blank;
        }
        let mut header = Fields(header);
        if header.take() != Some(*SUPERBLOCK_MAGIC) {
            return Found::Foreign;
        }
        match header.take().map(u32::from_le_bytes) {
            Some(SUPERBLOCK_VERSION) => {}
            version => return Found::Version(version.unwrap_or(0)),
        }
        let crc = header.take().map(u32::from_le_bytes);
        if crc != Some(checksum(SUPERBLOCK_MAGIC, SUPERBLOCK_VERSION, 0, content)) {
            return Found::Damaged;
        }
        Superblock::decode_content(&mut Fields(content)).map_or(Found::Damaged, Found::Valid)
    }

    fn decode_content(fields: &mut Fields<'_>) -> Option<Superblock> {
        let generation = u64::from_le_bytes(fields.take()?);
        let bytes = u64::from_le_bytes(fields.take()?);
        let crc = u32::from_le_bytes(fields.take()?);
        let count = u32::from_le_bytes(fields.take()?) as usize;
        let mut runs = Vec::new();
        for _ in 0..count.min(RUNS_MAX + 1) {
            runs.push(RunExtent {
                first: u64::from_le_bytes(fields.take()?),
                blocks: u64::from_le_bytes(fields.take()?),
            });
        }
        Some(Superblock { generation, catalog: BlobRef { bytes, crc, runs } })
    }
}

/// Reads fields off the front of some bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock(generation: u64, runs: usize) -> Superblock {
        let run = |index: usize| RunExtent { first: 100 * index as u64, blocks: index as u64 + 1 };
        Superblock {
            generation,
            catalog: BlobRef { bytes: 12345, crc: 678, runs: (0..runs).map(run).collect() },
        }
    }

    proptest! {
        #[test]
        fn superblocks_round_trip_and_flipped_bits_are_found(
            generation in any::<u64>(),
            runs in 0..=RUNS_MAX,
            bit in 0usize..512 * 8,
        ) {
            let written = superblock(generation, runs);
            let mut block = written.encode();
            prop_assert_eq!(Superblock::decode(&block), Found::Valid(written));
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(Superblock::decode(&block), Found::Valid(_)));
        }

        #[test]
        fn arbitrary_bytes_are_no_superblock(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(!matches!(Superblock::decode(&bytes), Found::Valid(_)));
        }
    }

    #[test]
    fn what_is_no_superblock_is_told_apart() {
        assert_eq!(Superblock::decode(&[0; 512]), Found::Blank);
        assert_eq!(Superblock::decode(&[1; 512]), Found::Foreign);
        let mut block = superblock(1, 2).encode();
        block[8] = 99;
        assert_eq!(Superblock::decode(&block), Found::Version(99));
        block[8] = 1;
        block[200] ^= 1;
        assert_eq!(Superblock::decode(&block), Found::Damaged);
    }
}
