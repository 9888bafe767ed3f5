//! Secondary indexes: the rows of a table by other columns.
//!
//! An index is a space like that of a table, in pages or in leaves, all of whose columns are the key: those of the index, and then those of the
//! table's key. Before a column that may be null there is a number: 0, or 1 for a null, so that nulls are the last.
//!
//! Who changes a row without having read it puts the new entry, and the old one stays. So an entry counts only while the row has its
//! values, which who uses it checks.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use moirai_pages::{ColumnType, KeyReader, number_bytes};
use moirai_update::{DELETE, Group, KindNumber, Modification, PUT, SpaceId};

use crate::definition::{EntryColumn, IndexDefinition, TableDefinition};
use crate::table::Table;
use crate::values::{ArrayValues, fixed_bytes};
use crate::{Error, Result, types};

/// An index of a table.
#[derive(Clone, Debug)]
pub struct Index {
    definition: IndexDefinition,
    /// Its entries, as rows.
    entries: Table,
    /// What the columns of entries are.
    columns: Vec<EntryColumn>,
    /// Which of them are those of the index; the others are of the table's key.
    of_index: Range<usize>,
}

impl Index {
    /// The index of a table called `name` in a space.
    pub(crate) fn of(
        name: &str,
        table: &TableDefinition,
        definition: &IndexDefinition,
        space: SpaceId,
    ) -> Result<Index> {
        let entries = table.entries_of(definition)?;
        let schema = entries.definition.page_schema();
        let pages = schema.ok_or_else(|| Error::Entry { name: name.to_owned() })?;
        Ok(Index {
            definition: definition.clone(),
            entries: Table::of(name, entries.definition, pages, space, Vec::new()),
            columns: entries.columns,
            of_index: 0..entries.of_index,
        })
    }

    /// What it is.
    #[must_use]
    pub fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// Its entries, as rows of a table.
    #[must_use]
    pub fn entries(&self) -> &Table {
        &self.entries
    }

    /// Of each column of its entries: the column of the table, and whether it says that this one is null.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, bool)> {
        let is_null = |one: &EntryColumn| matches!(one, EntryColumn::IsNull(_));
        self.columns.iter().map(move |one| (one.column(), is_null(one)))
    }

    /// How many columns of entries the first `count` columns of the index take.
    pub(crate) fn fields_of(&self, count: usize) -> usize {
        let ends = self.columns.iter().enumerate().filter(|(_, one)| one.value_of().is_some());
        ends.map(|(place, _)| place + 1).nth(count.saturating_sub(1)).unwrap_or(0)
    }

    /// What an entry has in the place of a null of a column of the table.
    pub(crate) fn blank_of(&self, table: &Table, column: usize) -> Vec<u8> {
        let field = table.schema_with_row_numbers().fields().get(column);
        field.map(|field| blank(field.data_type())).unwrap_or_default()
    }

    /// Whether some of these columns of the table are in it.
    #[must_use]
    pub fn has_any(&self, mut columns: impl Iterator<Item = usize>) -> bool {
        columns.any(|column| self.definition.columns.contains(&column))
    }

    /// How many bytes of an entry's key are of the index's columns; none where one of these is null.
    pub(crate) fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
        let pages = self.entries.pages();
        let mut reader = KeyReader::new(pages);
        let values = reader.read(key)?.get(self.of_index.clone())?;
        let is_null = |(column, value): (&EntryColumn, &Vec<u8>)| {
            matches!(column, EntryColumn::IsNull(_)) && *value != number_bytes(0)
        };
        if self.columns.iter().zip(values).any(is_null) {
            return None;
        }
        let prefix = KeyReader::new(pages).prefix(values.iter().map(|value| &value[..]));
        prefix.map(|prefix| prefix.len())
    }

    /// The columns of the table that entries are made of: those of the index and of the key.
    #[must_use]
    pub fn source_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> =
            self.columns.iter().filter_map(EntryColumn::value_of).collect();
        columns.sort_unstable();
        columns
    }

    /// What the keys of all entries begin with that have these values, none of which is null, in the first columns of the index: an
    /// array for each, of which the first value counts.
    ///
    /// # Errors
    /// [`Error::Rows`] for arrays of other types, nulls, and more columns than the index has.
    pub fn key_prefix(&self, values: &[ArrayRef]) -> Result<Vec<u8>> {
        let mut fields = Vec::with_capacity(2 * values.len());
        let mut columns = self.columns.get(self.of_index.clone()).unwrap_or_default().iter();
        for array in values {
            let mut value = Vec::new();
            loop {
                match columns.next() {
                    Some(EntryColumn::IsNull(_)) => fields.push(number_bytes(0)),
                    Some(EntryColumn::Value(_)) => break,
                    None => {
                        let problem = "the index has fewer columns".to_owned();
                        return self.entries.rows_refused(problem);
                    }
                }
            }
            if array.is_empty() || !ArrayValues::of(array)?.field(0, &mut value) {
                let problem = "an index is not asked for nulls".to_owned();
                return self.entries.rows_refused(problem);
            }
            fields.push(value);
        }
        let prefix = KeyReader::new(self.entries.pages()).prefix(fields.iter().map(|one| &one[..]));
        prefix.ok_or_else(|| self.entries.no_page())
    }

    /// The keys of the entries of rows: an array for each of [`Index::source_columns`], in their order.
    pub(crate) fn keys(&self, rows: &[ArrayRef]) -> Result<EntryKeys<'_>> {
        let of = |column: usize| self.source_columns().iter().position(|one| *one == column);
        let places = self.columns.iter().map(|one| {
            let place = of(one.column()).filter(|place| *place < rows.len())?;
            Some((place, one))
        });
        let Some(places) = places.collect::<Option<Vec<_>>>() else {
            let have = rows.len();
            return self.entries.rows_refused(format!("an entry is not made of {have} columns"));
        };
        let values = rows.iter().map(ArrayValues::of);
        let values = values.collect::<std::result::Result<Vec<_>, _>>()?;
        let fields = vec![Vec::new(); places.len()];
        Ok(EntryKeys { index: self, places, values, fields })
    }

    /// Of rows with all columns of the table, and their numbers where it has no key: bytes that are the same where the values in the
    /// columns of the index are; none where one of these is null.
    ///
    /// # Errors
    /// [`Error::Rows`] for other columns.
    pub fn identities(&self, rows: &RecordBatch) -> Result<Vec<Option<Vec<u8>>>> {
        let sources = self.sources(rows);
        let mut keys = self.keys(&sources)?;
        let identity = |row| {
            let mut key = keys.key(row)?;
            let bytes = self.prefix_bytes(&key);
            key.truncate(bytes.unwrap_or(0));
            Ok(bytes.map(|_| key))
        };
        (0..rows.num_rows()).map(identity).collect()
    }

    /// Puts the entries of rows into a group, or deletes them.
    pub(crate) fn modify(
        &self,
        group: &mut Group,
        kind: KindNumber,
        rows: &[ArrayRef],
    ) -> Result<()> {
        let count = rows.first().map_or(0, |array| array.len());
        let mut keys = self.keys(rows)?;
        for row in 0..count {
            let key = keys.key(row)?;
            group.modify(self.entries.space(), Modification { key: &key, kind, bytes: &[] });
        }
        Ok(())
    }

    pub(crate) fn put(&self, group: &mut Group, rows: &[ArrayRef]) -> Result<()> {
        self.modify(group, PUT, rows)
    }

    pub(crate) fn delete(&self, group: &mut Group, rows: &[ArrayRef]) -> Result<()> {
        self.modify(group, DELETE, rows)
    }

    /// The columns that entries are made of, of rows with all columns of the table.
    #[must_use]
    pub fn sources(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        let columns = self.source_columns();
        columns.into_iter().filter_map(|column| rows.columns().get(column).cloned()).collect()
    }

    /// The columns of entries that are those of the table's key, in its order.
    pub(crate) fn key_columns(&self, table: &Table) -> Vec<usize> {
        let place =
            |column: &usize| self.columns.iter().position(|one| one.value_of() == Some(*column));
        table.pages().key().iter().filter_map(place).collect()
    }
}

/// Makes the keys of entries.
pub(crate) struct EntryKeys<'i> {
    index: &'i Index,
    /// Of each column of entries, which array it comes from.
    places: Vec<(usize, &'i EntryColumn)>,
    values: Vec<ArrayValues>,
    fields: Vec<Vec<u8>>,
}

impl EntryKeys<'_> {
    /// The key of the entry of a row.
    pub(crate) fn key(&mut self, row: usize) -> Result<Vec<u8>> {
        let entries = &self.index.entries;
        let fields = entries.schema().fields().iter();
        for (((place, column), value), field) in
            self.places.iter().zip(&mut self.fields).zip(fields)
        {
            let is_there = self.values.get(*place).is_some_and(|values| values.field(row, value));
            match column {
                EntryColumn::IsNull(_) => *value = number_bytes(i128::from(!is_there)),
                EntryColumn::Value(_) if is_there => {}
                EntryColumn::Value(_) => *value = blank(field.data_type()),
            }
        }
        let key = KeyReader::new(entries.pages()).key(self.fields.iter().map(|field| &field[..]));
        key.ok_or_else(|| entries.no_page())
    }
}

/// What an entry has in the place of a null.
fn blank(data_type: &DataType) -> Vec<u8> {
    match (types::column_type(data_type), fixed_bytes(data_type)) {
        (Some(ColumnType::Number(_)), _) => number_bytes(0),
        (_, width) => vec![0; width.unwrap_or(0)],
    }
}

/// The first key behind all that begin with `prefix`; `None` where there is none.
#[must_use]
pub fn key_behind(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if let Some(next) = last.checked_add(1) {
            *last = next;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_behind_a_prefix_is_above_all_that_begin_with_it() {
        assert_eq!(key_behind(vec![1, 2]), Some(vec![1, 3]));
        assert_eq!(key_behind(vec![1, 255]), Some(vec![2]));
        assert_eq!(key_behind(vec![255, 255]), None);
        assert_eq!(key_behind(Vec::new()), None);
    }
}
