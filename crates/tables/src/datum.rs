//! Reads single rows by their keys, as values without Arrow arrays.

use std::sync::Arc;

use arrow_array::RecordBatch;
use moirai_pages::{
    ColumnType, Fields, FieldsBuilder, KeyReader, NumberType, number_of, put_number_bytes,
};
use moirai_transactions::key_after;

use crate::columns::ColumnBuilder;
use crate::index::{Index, key_behind};
use crate::scan::ScanOptions;
use crate::snapshot::{Snapshot, batch_of, projected};
use crate::table::Table;
use crate::values::ArrayValues;
use crate::{Result, types};

/// So many rows are read page by page.
const FEW_ROWS: usize = 1024;

/// A value of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// No value.
    #[default]
    Null,
    /// A number as Arrow holds it: an integer, a decimal times ten to its scale, days or units since 1970, 0 or 1 for a boolean, the bits of
    /// a float.
    Number(i128),
    /// Text in UTF-8, or bytes.
    Bytes(Vec<u8>),
}

/// Columns of a row, in the order in which they were asked for.
pub type Row = Vec<Datum>;

impl From<i64> for Datum {
    fn from(number: i64) -> Datum {
        Datum::Number(number.into())
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::Bytes(text.into())
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Datum {
        Datum::Bytes(text.into())
    }
}

impl Datum {
    /// The number, where it is one.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        match self {
            Datum::Number(number) => Some(*number),
            Datum::Null | Datum::Bytes(_) => None,
        }
    }

    /// The text, where it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Datum::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Datum::Null | Datum::Number(_) => None,
        }
    }

    /// The value that a field has in a column.
    fn of(of: ColumnType, field: Option<&[u8]>) -> Option<Datum> {
        Some(match (field, of) {
            (None, _) => Datum::Null,
            (Some(field), ColumnType::Number(_)) => Datum::Number(number_of(field)?),
            (Some(field), ColumnType::Text) => Datum::Bytes(field.to_vec()),
        })
    }
}

/// Whether a column of this type can have a number.
fn fits(number: i128, of: NumberType) -> bool {
    let bits = 8 * of.width_bytes as u32;
    match (bits, of.is_signed) {
        (128.., _) => true,
        (_, true) => (number >> (bits - 1)) == number >> 127,
        (_, false) => number >= 0 && (number >> bits) == 0,
    }
}

impl Table {
    pub(crate) fn column_type(&self, column: usize) -> Result<(ColumnType, bool)> {
        let field = self.schema_with_row_numbers().fields().get(column);
        let of = field.and_then(|field| types::column_type(field.data_type()));
        match field.zip(of) {
            Some((field, of)) => Ok((of, field.is_nullable())),
            None => self.rows_refused(format!("there is no column {column}")),
        }
    }

    /// Makes `field` that of a value in a column; `false` for a null.
    pub(crate) fn field(&self, column: usize, value: &Datum, field: &mut Vec<u8>) -> Result<bool> {
        let (of, is_nullable) = self.column_type(column)?;
        field.clear();
        match (value, of) {
            (Datum::Null, _) if is_nullable => return Ok(false),
            (Datum::Number(number), ColumnType::Number(of)) if fits(*number, of) => {
                put_number_bytes(*number, field);
            }
            (Datum::Bytes(bytes), ColumnType::Text) => field.extend_from_slice(bytes),
            _ => {
                let field = self.schema_with_row_numbers().fields().get(column);
                let name =
                    field.map(|field| format!("`{}` of {}", field.name(), field.data_type()));
                let name = name.unwrap_or_default();
                return self.rows_refused(format!("column {name} cannot have {value:?}"));
            }
        }
        Ok(true)
    }

    /// The key of a row, or what keys begin with: values of the first columns of the key.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for values that the key cannot have.
    pub fn key_of(&self, values: &[Datum]) -> Result<Vec<u8>> {
        let mut fields = vec![Vec::new(); values.len()];
        for ((column, value), field) in self.pages().key().iter().zip(values).zip(&mut fields) {
            if !self.field(*column, value, field)? {
                return self.rows_refused("a key has a null: give it a value".to_owned());
            }
        }
        let prefix = KeyReader::new(self.pages()).prefix(fields.iter().map(|field| &field[..]));
        prefix.ok_or_else(|| self.no_page())
    }

    /// Rows with all columns as Arrow arrays: for [`crate::Load`] and [`crate::Changes`].
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for values that the columns cannot have.
    pub fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.schema().fields().len()).collect();
        self.batch_with(&all, rows)
    }

    /// Rows with these columns as Arrow arrays. Errors as of [`Table::batch`].
    pub fn batch_with(&self, columns: &[usize], rows: &[Row]) -> Result<RecordBatch> {
        let schema = projected(self, columns)?;
        let mut arrays: Vec<ColumnBuilder> =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        let mut field = Vec::new();
        for row in rows {
            if row.len() != columns.len() {
                let (need, have) = (columns.len(), row.len());
                let problem = format!("it has {need} columns, and a row of {have} comes");
                return self.rows_refused(problem);
            }
            for ((column, value), array) in columns.iter().zip(row).zip(&mut arrays) {
                let is_valid = self.field(*column, value, &mut field)?;
                let value = is_valid.then_some(&field[..]);
                array.append_field(value).map_err(|_| self.no_page())?;
            }
        }
        batch_of(&schema, &mut arrays, rows.len())
    }

    /// The rows of a batch with these columns of the table.
    fn rows_of(&self, columns: &[usize], batch: &RecordBatch) -> Result<Vec<Row>> {
        let types = columns.iter().map(|column| Ok(self.column_type(*column)?.0));
        let types = types.collect::<Result<Vec<_>>>()?;
        let arrays = batch.columns().iter().map(ArrayValues::of);
        let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
        let mut field = Vec::new();
        let mut value = |row: usize, (of, array): (&ColumnType, &ArrayValues)| {
            let is_valid = array.field(row, &mut field);
            Datum::of(*of, is_valid.then_some(&field[..])).ok_or_else(|| self.no_page())
        };
        let rows = 0..batch.num_rows();
        rows.map(|row| types.iter().zip(&arrays).map(|one| value(row, one)).collect()).collect()
    }

    /// The key of a row and its fields.
    pub(crate) fn encoded(&self, row: &[Datum]) -> Result<(Vec<u8>, FieldsBuilder)> {
        let need = self.pages().columns().len();
        if row.len() != need {
            let have = row.len();
            return self.rows_refused(format!("it has {need} columns, and a row of {have} comes"));
        }
        let key = self.pages().key();
        let of_key: Row = key.iter().filter_map(|column| row.get(*column).cloned()).collect();
        let (mut fields, mut field) = (FieldsBuilder::new(), Vec::new());
        for (column, value) in row.iter().enumerate().filter(|(column, _)| !key.contains(column)) {
            let is_valid = self.field(column, value, &mut field)?;
            fields.push(column, is_valid.then_some(&field));
        }
        Ok((self.key_of(&of_key)?, fields))
    }
}

impl Snapshot {
    /// Columns of the rows with these keys as pages order them ([`Table::key_of`]), in the order of `keys`; nothing for one that is not
    /// there. All rows are read at the same time.
    ///
    /// # Errors
    /// As of [`Snapshot::rows`].
    pub async fn get_rows(
        &self,
        table: &Table,
        keys: &[Vec<u8>],
        columns: &[usize],
    ) -> Result<Vec<Option<Row>>> {
        let found = self.fields_at(table, keys, columns).await?;
        let types: Vec<ColumnType> = columns
            .iter()
            .map(|column| Ok(table.column_type(*column)?.0))
            .collect::<Result<_>>()?;
        let mut reader = KeyReader::new(table.pages());
        let rows = keys.iter().zip(found).map(|(key, fields)| {
            let Some(fields) = fields else { return Ok(None) };
            let of_key = reader.read(key).ok_or_else(|| table.no_page())?;
            let value = |(column, of): (&usize, &ColumnType)| {
                let part = table.pages().key().iter().position(|one| one == column);
                match part {
                    Some(part) => Datum::of(*of, of_key.get(part).map(|field| &field[..])),
                    None => Datum::of(*of, Fields::of(&fields).get(*column)),
                }
            };
            let row = columns.iter().zip(&types).map(value).collect::<Option<Row>>();
            row.map(Some).ok_or_else(|| table.no_page())
        });
        rows.collect()
    }

    /// Columns of the first rows whose keys begin with `prefix` and are `from` or above, in the order of the keys, `most` at most. What is
    /// behind the last one is not read.
    ///
    /// # Errors
    /// As of [`Snapshot::scan`].
    pub async fn first_rows(
        &self,
        table: &Table,
        (prefix, from): (&[u8], &[u8]),
        columns: &[usize],
        most: usize,
    ) -> Result<Vec<Row>> {
        let (from, to) = (from.max(prefix).to_vec(), key_behind(prefix.to_vec()));
        // Those of the key, too: they say how far was read.
        let read: Vec<usize> = columns.iter().chain(table.pages().key()).copied().collect();
        let options = ScanOptions {
            columns: Some(read.clone()),
            from: from.clone(),
            to: to.clone(),
            batch_rows: most,
            pages: if most <= FEW_ROWS { 1 } else { ScanOptions::default().pages },
        };
        let mut scan = Arc::new(self.without_reads()).scan(table, options)?;
        let (mut rows, mut last) = (Vec::new(), None);
        while rows.len() < most
            && let Some(batch) = scan.next().await?
        {
            let count = batch.num_rows().min(most - rows.len());
            for mut row in table.rows_of(&read, &batch.slice(0, count))? {
                last = Some(row.split_off(columns.len()));
                rows.push(row);
            }
        }
        let end = match last {
            Some(last) if rows.len() >= most => Some(key_after(&table.key_of(&last)?)),
            _ => to,
        };
        self.note_range(table, &from, end.as_deref());
        Ok(rows)
    }

    /// Columns of the rows that have these values in the first columns of an index, in the order of the index, `most` at most.
    ///
    /// # Errors
    /// As of [`Snapshot::index_scan`].
    pub async fn rows_by_index(
        self: &Arc<Snapshot>,
        (table, index): (&Table, &Index),
        values: &[Datum],
        columns: &[usize],
        most: usize,
    ) -> Result<Vec<Row>> {
        let from = index.prefix_of(table, values)?;
        let to = key_behind(from.clone());
        let options = ScanOptions {
            columns: Some(columns.to_vec()),
            from,
            to,
            batch_rows: most.clamp(1, FEW_ROWS),
            pages: 1,
        };
        let mut scan = Arc::clone(self).index_scan(table, index, options)?;
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some(batch) = scan.next().await?
        {
            let count = batch.num_rows().min(most - rows.len());
            rows.extend(table.rows_of(columns, &batch.slice(0, count))?);
        }
        Ok(rows)
    }
}

impl Index {
    /// What the keys of all entries begin with that have these values, none of which is null, in the first columns of the index.
    fn prefix_of(&self, table: &Table, values: &[Datum]) -> Result<Vec<u8>> {
        let mut row = vec![Datum::Null; table.pages().columns().len()];
        for (column, value) in self.definition().columns.iter().zip(values) {
            if let Some(place) = row.get_mut(*column) {
                place.clone_from(value);
            }
        }
        let count = self.fields_of(values.len());
        self.key_from(table, &row, count)
    }

    /// The first `count` fields of the entry of a row, as a key of the index.
    pub(crate) fn key_from(&self, table: &Table, row: &[Datum], count: usize) -> Result<Vec<u8>> {
        let mut fields = Vec::new();
        for (column, is_null) in self.parts().take(count) {
            let mut field = Vec::new();
            let value = row.get(column).unwrap_or(&Datum::Null);
            let is_there = *value != Datum::Null;
            match (is_null, is_there) {
                (true, _) => put_number_bytes(i128::from(!is_there), &mut field),
                (false, true) => {
                    table.field(column, value, &mut field)?;
                }
                (false, false) => field = self.blank_of(table, column),
            }
            fields.push(field);
        }
        let entries = self.entries();
        let prefix = KeyReader::new(entries.pages()).prefix(fields.iter().map(|one| &one[..]));
        prefix.ok_or_else(|| entries.no_page())
    }
}
