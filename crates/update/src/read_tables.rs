//! Tables of partitions' blocks that are not in memory: read once they are asked for.

use std::sync::Arc;

use futures::stream;
use futures::{StreamExt, TryStreamExt};

use crate::data::place::Place;
use crate::data::tables::Tables;
use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;

/// Tables that are read at the same time.
const READS_MAX: usize = 32;

/// The tables that are in memory, those that the reader has read itself, and those that it lacks.
pub(crate) struct TablesAtHand<'a> {
    kept: &'a Tables,
    /// By the numbers of their places: they may be let go of at any time.
    read: Vec<(u64, Arc<BlockTable>)>,
    missing: Vec<Arc<Place>>,
}

impl TablesAtHand<'_> {
    /// The table of a place, when it is at hand.
    pub(crate) fn get(&self, place: &Place) -> Option<Arc<BlockTable>> {
        let read = self.read.iter().find(|(number, _)| *number == place.number());
        read.map(|(_, table)| Arc::clone(table)).or_else(|| self.kept.get(place))
    }

    /// The table of a place; `None` when it is to be read first.
    pub(crate) fn of(&mut self, place: &Arc<Place>) -> Option<Arc<BlockTable>> {
        let table = self.get(place);
        if table.is_none() && self.missing.iter().all(|one| one.number() != place.number()) {
            self.missing.push(Arc::clone(place));
        }
        table
    }
}

impl Shared {
    /// What `look` finds in the state. Where it returns `None`, as tables were missing, these are read, and it looks again.
    pub(crate) async fn with_tables<T>(
        &self,
        mut look: impl FnMut(&mut State, &mut TablesAtHand<'_>) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut tables = TablesAtHand { kept: &self.tables, read: Vec::new(), missing: Vec::new() };
        loop {
            if let Some(found) = look(&mut self.state(), &mut tables)? {
                return Ok(found);
            }
            let missing = std::mem::take(&mut tables.missing);
            let reads = stream::iter(missing).map(async |place| {
                let table = self.read_table(&place).await?;
                Ok::<_, Error>((place.number(), table))
            });
            let read: Vec<_> = reads.buffer_unordered(READS_MAX).try_collect().await?;
            tables.read.extend(read);
        }
    }

    /// The table of a place, which is read when it is not in memory.
    pub(crate) async fn table(&self, place: &Place) -> Result<Arc<BlockTable>> {
        match self.tables.get(place) {
            Some(table) => Ok(table),
            None => self.read_table(place).await,
        }
    }

    async fn read_table(&self, place: &Place) -> Result<Arc<BlockTable>> {
        let Some(range) = place.table_range() else { return Ok(Arc::default()) };
        self.counts.table_reads.add(1);
        let content = self.data.read(range).await?;
        let table = place.take_table(&content).ok_or_else(|| self.damaged_table(place))?;
        self.tables.keep(place.number(), &table);
        Ok(table)
    }
}
