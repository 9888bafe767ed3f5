//! What came of a job: what was staged or rewritten, before the log says so.

use std::sync::Arc;

use moirai_extents::Extent;
use moirai_units::BlockRange;

use crate::data::place::Location;
use crate::data::tables::Tables;
use crate::error::Error;
use crate::state::block_table::BlockTable;
use crate::state::chunk::Chunk;

/// The outcome of a job.
pub(super) enum Done {
    Staged(Staging),
    Placed(Rewritten),
    /// There was no space.
    Postponed,
    /// Blocks or chunks could not be read.
    SetAside(Error),
}

impl Done {
    /// Bytes of the entries that tell of it, at most.
    pub(super) fn entry_bytes_max(&self) -> usize {
        let freed = |runs: &[BlockRange]| 32 * (runs.len() + 1);
        match self {
            Done::Staged(Staging { chunk, freed: runs, .. }) => {
                let mut encoded = Vec::new();
                chunk.encode(&mut encoded);
                encoded.len() + 32 + freed(runs)
            }
            Done::Placed(rewritten) => rewritten.entry_bytes_max(),
            Done::Postponed | Done::SetAside(_) => 0,
        }
    }
}

/// A chunk that was written.
#[derive(Default)]
pub(super) struct Staging {
    pub(super) chunk: Chunk,
    /// None when the chunk is empty.
    pub(super) extent: Option<Extent>,
    /// So many of the partition's chunks, those that were staged last, are in this one.
    pub(super) combined: usize,
    /// Blocks of long values that it leaves out.
    pub(super) freed: Vec<BlockRange>,
}

/// The new blocks of a partition, or of neighbours that were merged.
#[derive(Default)]
pub(super) struct Rewritten {
    pub(super) written: Vec<Written>,
    /// Modifications that did not fit their values.
    pub(super) refused: u64,
    /// Extents of long values that merges made.
    pub(super) made: Vec<Extent>,
    /// Blocks of long values that nothing refers to any more.
    pub(super) freed: Vec<BlockRange>,
    /// Records from this key on were left for the next batch; see `ingest`.
    pub(super) rest: Option<Box<[u8]>>,
    pub(super) emitted: Emitted,
}

/// Modifications of other spaces that came of a sweep, and the room in the log that is kept for them.
#[derive(Default)]
pub(super) struct Emitted {
    pub(super) entries: Vec<u8>,
    pub(super) count: u64,
    pub(super) held: Option<usize>,
}

impl Rewritten {
    pub(super) fn keep_tables(&mut self, tables: &Tables) {
        self.written.iter_mut().for_each(|one| one.keep_table(tables));
    }

    /// Bytes of the entries that tell of it, at most.
    pub(super) fn entry_bytes_max(&self) -> usize {
        let mut encoded = Vec::new();
        for one in &self.written {
            encoded.extend_from_slice(&one.low);
            encoded.extend_from_slice(&[0; 32]);
            one.location.encode(&mut encoded);
        }
        encoded.len() + 32 * (self.made.len() + self.freed.len() + 4)
    }
}

/// Blocks that were written: a partition to be.
#[derive(Default)]
pub(super) struct Written {
    pub(super) low: Box<[u8]>,
    pub(super) extents: Vec<Extent>,
    pub(super) location: Location,
    pub(super) table: Arc<BlockTable>,
}

impl Written {
    /// Gives its table to those that are in memory: of what is not applied for long, it would take memory beside these.
    pub(super) fn keep_table(&mut self, tables: &Tables) {
        let table = std::mem::take(&mut self.table);
        if let Some(last) = self.extents.last()
            && table.len() > 0
            && !self.location.table.is_short()
        {
            tables.keep(last.number, &table);
        }
    }
}
