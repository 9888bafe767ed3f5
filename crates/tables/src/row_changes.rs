//! Transactions that read and change a few rows by their keys.

use std::sync::Arc;

use moirai_pages::{ADD, ColumnType, FieldsBuilder, SET, added_field};
use moirai_transactions::{LockMode, LockWait};
use moirai_update::{DELETE, KindNumber, Modification, PUT};

use crate::Result;
use crate::datum::{Datum, Row};
use crate::table::Table;
use crate::transaction::Transaction;

impl Transaction {
    /// Columns of the row with this key, if it is there.
    ///
    /// # Errors
    /// As of [`Snapshot::get_rows`](crate::Snapshot::get_rows), and of a transaction that has failed.
    pub async fn get(
        &mut self,
        table: &Table,
        key: &[Datum],
        columns: &[usize],
    ) -> Result<Option<Row>> {
        let key = table.key_of(key)?;
        let rows = self.snapshot().await?.get_rows(table, &[key], columns).await?;
        Ok(rows.into_iter().next().flatten())
    }

    /// The same, of a row that no other transaction changes from now on until this one has ended.
    ///
    /// # Errors
    /// As of [`Transaction::get`] and [`Transaction::lock_rows`].
    pub async fn get_for_update(
        &mut self,
        table: &Table,
        key: &[Datum],
        columns: &[usize],
    ) -> Result<Option<Row>> {
        self.lock_rows(table, &[table.key_of(key)?], LockWait::Wait).await?;
        self.get(table, key, columns).await
    }

    /// Puts a row with all columns of the table, in the place of one with its key if there is one. Where the table has indexes, there is
    /// to be none: its entries would stay until they are found to be of no row.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for values that the columns cannot have; errors as of [`Transaction::change`].
    pub async fn put_row(&mut self, table: &Table, row: &[Datum]) -> Result<()> {
        if table.indexes().iter().any(|index| index.definition().is_unique) {
            let problem = "it has a unique index: use `Transaction::insert`".to_owned();
            return table.rows_refused(problem);
        }
        let (key, fields) = table.encoded(row)?;
        let put = (PUT, fields.bytes(), LockMode::Exclusive);
        self.modify(table, &key, put).await?;
        self.modify_entries(table, row, PUT)
    }

    /// Puts the entries that indexes have of a row, or deletes them.
    fn modify_entries(&mut self, table: &Table, row: &[Datum], kind: KindNumber) -> Result<()> {
        for index in table.indexes() {
            let key = index.key_from(table, row, usize::MAX)?;
            let entry = Modification { key: &key, kind, bytes: &[] };
            self.trees().inner().modify(index.entries().space(), entry)?;
        }
        Ok(())
    }

    /// Adds a row to a table without a key. Transactions that add rows do not wait for each other: each row gets a number of its own
    /// ([`Tables::row_numbers`](crate::Tables::row_numbers)).
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn append_row(&mut self, table: &Table, row: &[Datum]) -> Result<()> {
        let number = self.tables().row_numbers(table, 1).await?;
        let row: Row = row.iter().cloned().chain([Datum::Number(number.into())]).collect();
        self.put_row(table, &row).await
    }

    /// Sets columns of the row with this key, if it is there: columns that are not of the key, nor of an index.
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn set_fields(
        &mut self,
        table: &Table,
        key: &[Datum],
        values: &[(usize, Datum)],
    ) -> Result<()> {
        let (mut fields, mut field) = (FieldsBuilder::new(), Vec::new());
        for (column, value) in sorted(table, values)? {
            let is_valid = table.field(*column, value, &mut field)?;
            fields.push(*column, is_valid.then_some(&field));
        }
        let set = (SET, fields.bytes(), LockMode::Exclusive);
        self.modify(table, &table.key_of(key)?, set).await
    }

    /// Adds to numbers of the row with this key, if it is there, without reading it. Transactions that add to a row do not wait for each
    /// other. The columns are none of the key, nor of an index.
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn add_fields(
        &mut self,
        table: &Table,
        key: &[Datum],
        values: &[(usize, Datum)],
    ) -> Result<()> {
        let mut fields = FieldsBuilder::new();
        for (column, value) in sorted(table, values)? {
            match (table.column_type(*column)?.0, value) {
                (ColumnType::Number(of), Datum::Number(number)) => {
                    fields.push(*column, Some(&added_field(of, *number)));
                }
                _ => {
                    return table
                        .rows_refused(format!("{value:?} is not added to column {column}"));
                }
            }
        }
        let add = (ADD, fields.bytes(), LockMode::Shared);
        self.modify(table, &table.key_of(key)?, add).await
    }

    /// Changes a row, with the entries that indexes have of it, from what it was to what it is to be: both with all columns of the table.
    /// The row is locked, and was read after that; its key stays, and so do values of unique indexes.
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn replace_row(&mut self, table: &Table, old: &[Datum], new: &[Datum]) -> Result<()> {
        let (mut fields, mut field) = (FieldsBuilder::new(), Vec::new());
        let key = table.encoded(new)?.0;
        let changed = |column: &usize| old.get(*column) != new.get(*column);
        let changes_unique = table.indexes().iter().any(|index| {
            index.definition().is_unique && index.has_any((0..new.len()).filter(changed))
        });
        if changes_unique || table.pages().key().iter().any(changed) {
            let problem = "a key or a value of a unique index changes: use `Changes`".to_owned();
            return table.rows_refused(problem);
        }
        for (column, value) in new.iter().enumerate().filter(|(column, _)| changed(column)) {
            let is_valid = table.field(column, value, &mut field)?;
            fields.push(column, is_valid.then_some(&field));
        }
        self.modify(table, &key, (SET, fields.bytes(), LockMode::Exclusive)).await?;
        for index in table.indexes() {
            let entries = [old, new].map(|row| index.key_from(table, row, usize::MAX));
            let [before, after] = entries;
            let (before, after) = (before?, after?);
            if before == after {
                continue;
            }
            for (key, kind) in [(before, DELETE), (after, PUT)] {
                let entry = Modification { key: &key, kind, bytes: &[] };
                self.trees().inner().modify(index.entries().space(), entry)?;
            }
        }
        Ok(())
    }

    /// Deletes a row that it has locked and read since, with all columns, and the entries that indexes have of it.
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn remove_row(&mut self, table: &Table, row: &[Datum]) -> Result<()> {
        let key = table.encoded(row)?.0;
        self.modify(table, &key, (DELETE, &[], LockMode::Exclusive)).await?;
        self.modify_entries(table, row, DELETE)
    }

    /// Deletes the row with this key, if it is there. Entries that indexes have of it stay until they are found to be of no row.
    ///
    /// # Errors
    /// As of [`Transaction::put_row`].
    pub async fn delete_row(&mut self, table: &Table, key: &[Datum]) -> Result<()> {
        self.modify(table, &table.key_of(key)?, (DELETE, &[], LockMode::Exclusive)).await
    }

    async fn modify(
        &mut self,
        table: &Table,
        key: &[u8],
        (kind, bytes, mode): (KindNumber, &[u8], LockMode),
    ) -> Result<()> {
        self.note(table);
        let tables = Arc::clone(self.tables());
        let inner = self.trees().inner();
        let place = (table.space(), key);
        inner.lock(tables.store().engine(), place, mode, LockWait::Wait).await?;
        Ok(inner.modify(table.space(), Modification { key, kind, bytes })?)
    }
}

/// The values in the order of their columns, none of which is of the key or of an index.
fn sorted<'v>(table: &Table, values: &'v [(usize, Datum)]) -> Result<Vec<&'v (usize, Datum)>> {
    let mut sorted: Vec<&(usize, Datum)> = values.iter().collect();
    sorted.sort_unstable_by_key(|(column, _)| *column);
    let is_ascending = sorted.is_sorted_by(|(one, _), (next, _)| one < next);
    let key = table.pages().key();
    let is_used = |column: &usize| {
        key.contains(column)
            || table.indexes().iter().any(|index| index.has_any(std::iter::once(*column)))
    };
    match !is_ascending || sorted.iter().any(|(column, _)| is_used(column)) {
        true => table.rows_refused(
            "columns of the key or of an index, or one twice: use `Changes::set` for these"
                .to_owned(),
        ),
        false => Ok(sorted),
    }
}
