//! The tables that a statement sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use moirai_tables::{Snapshot, Table};

use crate::tables::syntax::TARGET;
use crate::tables::table::Rows;

/// The tables of a snapshot, and rows that are not in the store, under names that no table has.
pub(crate) struct StatementTables {
    snapshot: Arc<Snapshot>,
    names: Vec<String>,
    others: BTreeMap<String, Arc<dyn TableProvider>>,
}

impl StatementTables {
    /// Those of a snapshot.
    pub(crate) async fn of(snapshot: &Arc<Snapshot>) -> moirai_tables::Result<StatementTables> {
        let (names, snapshot) = (snapshot.names().await?, Arc::clone(snapshot));
        Ok(StatementTables { snapshot, names, others: BTreeMap::new() })
    }

    /// Shows a table with the numbers of its rows, where it has no key, as [`TARGET`].
    pub(crate) fn with_target(self, table: &Table) -> StatementTables {
        let rows = Rows::new(Arc::clone(&self.snapshot), table.clone(), true);
        self.with(TARGET, Arc::new(rows))
    }

    /// Shows other rows under a name.
    pub(crate) fn with(mut self, name: &str, rows: Arc<dyn TableProvider>) -> StatementTables {
        self.others.insert(name.to_owned(), rows);
        self
    }
}

#[async_trait]
impl SchemaProvider for StatementTables {
    fn table_names(&self) -> Vec<String> {
        self.names.clone()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(rows) = self.others.get(name) {
            return Ok(Some(Arc::clone(rows)));
        }
        let found = self.snapshot.find(name).await.map_err(super::table::external)?;
        let rows = |table| Rows::new(Arc::clone(&self.snapshot), table, false);
        Ok(found.map(|table| Arc::new(rows(table)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name) || self.others.contains_key(name)
    }
}

impl std::fmt::Debug for StatementTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementTables").field("names", &self.names).finish_non_exhaustive()
    }
}
