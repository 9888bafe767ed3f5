//! Copies of all tables and trees to another store.

use std::sync::Arc;

use crate::Result;
use crate::load::{Load, LoadOptions};
use crate::scan::ScanOptions;
use crate::snapshot::Snapshot;
use crate::tables::Tables;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Tables.
    pub tables: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Trees, and their records.
    pub trees: moirai_btree::Copied,
}

impl Snapshot {
    /// Copies all tables and trees to another store, where none of the same names may be. All copies are there once this returns, and
    /// nothing of them before: after a crash or an error all are there or none. `progress` is told now and then how much is copied.
    ///
    /// # Errors
    /// [`crate::Error::TableExists`]; errors as of [`Load::push`], [`crate::Scan::next`] and
    /// [`moirai_btree::Reader::copy_trees_to`].
    ///
    /// # Cancel safety
    /// There is no copy, but what was copied takes space until the store is opened again, or a table is made.
    pub async fn copy_to(
        self: &Arc<Snapshot>,
        to: &Arc<Tables>,
        mut progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        let mut copied = Copied::default();
        let mut loads: Vec<Load<'_>> = Vec::new();
        for name in self.names().await? {
            let Some(table) = self.find(&name).await? else { continue };
            let definition = table.definition().clone();
            let mut load = to.load(&name, definition, LoadOptions::default()).await?;
            let mut scan = Arc::clone(self).scan(&table, ScanOptions::default())?;
            while let Some(rows) = scan.next().await? {
                load.push(&rows).await?;
                copied.rows += rows.num_rows() as u64;
                progress(&copied);
            }
            load.fill(true).await?;
            loads.push(load);
            copied.tables += 1;
        }
        let relations = loads.iter().map(|load| load.table().relation()).collect();
        let trees = self.trees().copy_trees_to(to.store(), relations, |trees| {
            copied.trees = *trees;
            progress(&copied);
        });
        copied.trees = trees.await?;
        loads.into_iter().for_each(Load::entered);
        Ok(copied)
    }
}
