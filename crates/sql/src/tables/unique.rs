//! Unique indexes: before a row is written, the statement checks that no other row has the same values.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use moirai_tables::{Index, Snapshot, Table};

use crate::tables::table::external;
use crate::{Error, Result};

/// The values that a statement has put into unique indexes, by their names.
#[derive(Debug, Default)]
pub(crate) struct UniqueValues(BTreeMap<String, HashSet<Vec<u8>>>);

impl UniqueValues {
    pub(crate) fn contains(&self, index: &Index, identity: &[u8]) -> bool {
        let values = self.0.get(&index.definition().name);
        values.is_some_and(|values| values.contains(identity))
    }

    /// Whether they were not there.
    pub(crate) fn insert(&mut self, index: &Index, identity: Vec<u8>) -> bool {
        let name = &index.definition().name;
        match self.0.get_mut(name) {
            Some(values) => values.insert(identity),
            None => self.0.insert(name.clone(), HashSet::from([identity])).is_none(),
        }
    }

    /// Of rows that are to be put, with their numbers where the table has no key: whether another row has the same values, in the store
    /// or among those that the statement has put. Rows whose keys are among `left` leave.
    pub(crate) async fn taken(
        &mut self,
        snapshot: &Arc<Snapshot>,
        (table, index): (&Table, &Index),
        rows: &RecordBatch,
        left: Option<&HashSet<Vec<u8>>>,
    ) -> Result<Vec<bool>> {
        let leaves = |key: &Vec<u8>| left.is_some_and(|left| left.contains(key));
        let taken = snapshot.conflicts(table, index, rows, leaves).await;
        let mut taken = taken.map_err(external)?;
        let identities = index.identities(rows).map_err(external)?;
        for (is_taken, identity) in taken.iter_mut().zip(identities) {
            if !*is_taken && let Some(identity) = identity {
                *is_taken = !self.insert(index, identity);
            }
        }
        Ok(taken)
    }
}

/// Columns of the first row with their values, for people.
pub(crate) fn named_values(table: &Table, columns: &[usize], rows: &RecordBatch) -> Result<String> {
    let named = columns.iter().map(|column| {
        let value = ScalarValue::try_from_array(rows.column(*column), 0)?;
        Ok(format!("{}={value}", table.schema().field(*column).name()))
    });
    let named: Vec<String> = named.collect::<std::result::Result<_, DataFusionError>>()?;
    Ok(named.join(", "))
}

/// The error for a row whose values another one has.
pub(crate) fn not_unique(table: &Table, index: &Index, row: &RecordBatch) -> Result<Error> {
    let definition = index.definition();
    let values = named_values(table, &definition.columns, row)?;
    let problem = format!(
        "`{}` has another row with {values}, and index `{}` is unique",
        table.name(),
        definition.name
    );
    Ok(Error::Rows { problem, sqlstate: "23505" })
}
