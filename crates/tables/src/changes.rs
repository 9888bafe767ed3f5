//! Changes of rows, as modifications of the engine.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_data::ByteView;
use moirai_pages::{ADD, FieldsBuilder, KeyReader, SET, added_field};
use moirai_update::{DELETE, Group, KindNumber, MERGED_BYTES_MAX, Modification, PUT};

use crate::definition::Layout;
use crate::index::Index;
use crate::table::Table;
use crate::values::ArrayValues;
use crate::{Error, Result, types};

/// Bytes of a field beside its value, and of a number, at most.
const FIELD_BYTES: u64 = 10;
const NUMBER_BYTES_MAX: u32 = 32;

/// Changes of rows of any tables of a store, which are committed together: see [`crate::Tables::commit`]. Nothing is read for them.
#[derive(Debug, Default)]
pub struct Changes {
    group: Group,
    /// Those that it changes.
    tables: Vec<Table>,
}

/// The keys of rows.
struct Keys<'t> {
    reader: KeyReader<'t>,
    columns: Vec<ArrayValues>,
    /// The values of a row.
    values: Vec<Vec<u8>>,
}

impl<'t> Keys<'t> {
    /// Keys whose columns are these arrays, in the order of the key.
    fn of(table: &'t Table, columns: &[ArrayRef]) -> Result<Keys<'t>> {
        let pages = table.pages();
        if columns.len() != pages.key().len() {
            let (have, need) = (columns.len(), pages.key().len());
            return table.rows_refused(format!("its key has {need} columns, and {have} are given"));
        }
        for (array, column) in columns.iter().zip(pages.key()) {
            table.check_type(*column, array)?;
        }
        if columns.iter().any(|array| array.logical_null_count() > 0) {
            return table.rows_refused("a key has a null: give it a value".to_owned());
        }
        let values = vec![Vec::new(); columns.len()];
        let columns = columns.iter().map(ArrayValues::of).collect::<std::result::Result<_, _>>()?;
        Ok(Keys { reader: KeyReader::new(pages), columns, values })
    }

    /// The key of a row.
    fn key(&mut self, row: usize) -> Option<Vec<u8>> {
        for (column, value) in self.columns.iter().zip(&mut self.values) {
            column.field(row, value);
        }
        self.reader.key(self.values.iter().map(|value| &value[..]))
    }
}

/// Whole rows, as the engine has them.
pub(crate) struct RowEncoder<'t> {
    table: &'t Table,
    keys: Keys<'t>,
    others: Vec<(usize, ArrayValues)>,
    fields: FieldsBuilder,
    value: Vec<u8>,
}

impl<'t> RowEncoder<'t> {
    /// Rows with all columns of the table's pages.
    pub(crate) fn of(table: &'t Table, rows: &RecordBatch) -> Result<RowEncoder<'t>> {
        let pages = table.pages();
        let all = rows
            .columns()
            .iter()
            .enumerate()
            .map(|(column, array)| Ok((column, ArrayValues::of(array)?)));
        let (mut of_key, others): (Vec<_>, Vec<_>) = all
            .collect::<Result<Vec<(usize, ArrayValues)>>>()?
            .into_iter()
            .partition(|(column, _)| pages.key().contains(column));
        of_key.sort_by_key(|(column, _)| pages.key().iter().position(|one| one == column));
        if of_key.len() != pages.key().len() {
            return table.rows_refused("a column of its key is missing".to_owned());
        }
        let columns = of_key.into_iter().map(|(_, values)| values).collect();
        let keys = Keys {
            reader: KeyReader::new(pages),
            columns,
            values: vec![Vec::new(); pages.key().len()],
        };
        Ok(RowEncoder { table, keys, others, fields: FieldsBuilder::new(), value: Vec::new() })
    }

    /// The key of a row, and its fields.
    pub(crate) fn row(&mut self, row: usize) -> Result<(Vec<u8>, &[u8])> {
        let key = self.keys.key(row).ok_or_else(|| self.table.no_page())?;
        self.fields.clear();
        for (column, values) in &self.others {
            let is_valid = values.field(row, &mut self.value);
            self.fields.push(*column, is_valid.then_some(&self.value));
        }
        Ok((key, self.fields.bytes()))
    }
}

impl Table {
    /// A key as pages order them, for [`crate::ScanOptions`]: an array for each column of the key, in its order, of which the first
    /// value counts.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays that are no keys of the table.
    pub fn key(&self, columns: &[ArrayRef]) -> Result<Vec<u8>> {
        let key = Keys::of(self, columns)?.key(0);
        key.ok_or_else(|| self.no_page())
    }

    /// The key of each row, as pages order them: an array for each column of the key, in its order.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays that are no keys of the table.
    pub fn keys(&self, columns: &[ArrayRef]) -> Result<Vec<Vec<u8>>> {
        let count = columns.first().map_or(0, |array| array.len());
        let mut keys = Keys::of(self, columns)?;
        (0..count).map(|row| keys.key(row).ok_or_else(|| self.no_page())).collect()
    }

    /// What the keys of all rows begin with that have these values in the first columns of the key: an array for each, of which the
    /// first value counts.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays of other types, and nulls.
    pub fn key_prefix(&self, columns: &[ArrayRef]) -> Result<Vec<u8>> {
        let mut values = Vec::with_capacity(columns.len());
        for (array, column) in columns.iter().zip(self.definition().key()) {
            self.check_type(*column, array)?;
            let mut value = Vec::new();
            if !ArrayValues::of(array)?.field(0, &mut value) {
                return self.rows_refused("a key has a null: give it a value".to_owned());
            }
            values.push(value);
        }
        let prefix = KeyReader::new(self.pages()).prefix(values.iter().map(|value| &value[..]));
        prefix.ok_or_else(|| self.no_page())
    }

    /// Whether [`Changes::set`] and [`Changes::add`] change such rows, which have all columns. In [`Layout::Nsm`] a row that takes
    /// more than 16 MiB is to be put whole: changes of its fields are lost.
    #[must_use]
    pub fn takes_fields(&self, rows: &RecordBatch) -> bool {
        let longest = |array: &ArrayRef| {
            let texts = array.as_string_view_opt().map(|texts| texts.views());
            let views = texts.or_else(|| array.as_binary_view_opt().map(|bytes| bytes.views()));
            let lengths = views.into_iter().flat_map(|views| views.iter());
            let longest = lengths.map(|view| ByteView::from(*view).length).max();
            u64::from(longest.unwrap_or(NUMBER_BYTES_MAX))
        };
        let bytes: u64 = rows.columns().iter().map(|array| longest(array) + FIELD_BYTES).sum();
        self.layout() != Layout::Nsm || bytes <= MERGED_BYTES_MAX.0
    }

    /// Rows of a table without a key, with their numbers, from `first` on, as the last column.
    ///
    /// # Errors
    /// [`crate::Error::Arrow`] for other columns.
    pub fn numbered(&self, rows: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let count = rows.num_rows() as u64;
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..first + count));
        let arrays = rows.columns().iter().cloned().chain([numbers]).collect();
        Ok(RecordBatch::try_new(Arc::clone(self.schema_with_row_numbers()), arrays)?)
    }

    /// Whether an array may be of a column.
    pub(crate) fn check_type(&self, column: usize, array: &ArrayRef) -> Result<()> {
        let Some(field) = self.schema_with_row_numbers().fields().get(column) else {
            return self.rows_refused(format!("there is no column {column}"));
        };
        if types::held(array.data_type()) == *field.data_type() {
            return Ok(());
        }
        let (name, of, have) = (field.name(), field.data_type(), array.data_type());
        self.rows_refused(format!("column `{name}` is of {of}, and {have} is given: convert it"))
    }

    /// The same, and whether it has nulls where the column takes none.
    pub(crate) fn check_values(&self, column: usize, array: &ArrayRef) -> Result<()> {
        self.check_type(column, array)?;
        match self.schema_with_row_numbers().fields().get(column) {
            Some(field) if !field.is_nullable() && array.logical_null_count() > 0 => {
                Err(Error::Null { table: self.name().to_owned(), column: field.name().clone() })
            }
            _ => Ok(()),
        }
    }
}

impl Changes {
    /// None yet.
    #[must_use]
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Puts rows, each in the place of one with its key if there is one; those of a table without a key come with their numbers.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for other columns than those of the table, and nulls where it takes none.
    pub fn put(&mut self, table: &Table, rows: &RecordBatch) -> Result<()> {
        let need = table.pages().columns().len();
        if rows.num_columns() != need {
            let have = rows.num_columns();
            return table.rows_refused(format!("it has {need} columns, and rows of {have} come"));
        }
        for (column, array) in rows.columns().iter().enumerate() {
            table.check_values(column, array)?;
        }
        self.note(table);
        let mut encoded = RowEncoder::of(table, rows)?;
        for row in 0..rows.num_rows() {
            let (key, bytes) = encoded.row(row)?;
            let put = Modification { key: &key, kind: PUT, bytes };
            self.group.modify(table.space(), put);
        }
        for index in table.indexes() {
            index.put(&mut self.group, &index.sources(rows))?;
        }
        Ok(())
    }

    /// Adds rows to a table without a key: they get numbers from `first` on, which is that of
    /// [`Snapshot::next_row_number`](crate::Snapshot::next_row_number).
    ///
    /// # Errors
    /// As of [`Changes::put`].
    pub fn append(&mut self, table: &Table, rows: &RecordBatch, first: u64) -> Result<()> {
        self.put(table, &table.numbered(rows, first)?)
    }

    /// Deletes the rows with these keys, where there are any: an array for each column of the key, in its order.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays that are no keys of the table.
    pub fn delete(&mut self, table: &Table, keys: &[ArrayRef]) -> Result<()> {
        self.modify(table, keys, DELETE, |_, _| {})
    }

    /// Deletes the entries that indexes have of rows which other changes of these put, set or delete: columns of the rows as they were,
    /// in the order of [`Index::source_columns`]. Who does not know them leaves entries that are found to be of no row when they are
    /// used. Comes before the changes of the rows, which put entries.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays that entries are not made of.
    pub fn forget(&mut self, table: &Table, index: &Index, rows: &[ArrayRef]) -> Result<()> {
        self.note(table);
        index.delete(&mut self.group, rows)
    }

    /// Sets columns of the rows with these keys, where there are any: for each column, which is none of the key, an array with the
    /// value of each row. Where one of them is in an index with other columns, `known` has the values of these, which are not set; those of
    /// the key need not be given. Who changes one of these columns meanwhile leaves the index without an entry: lock the rows
    /// before reading them ([`crate::Transaction::lock_rows`]). The entries of rows as they were stay unless [`Changes::forget`] deletes them,
    /// before. Long rows of layout nsm are to be put whole: see [`Table::takes_fields`].
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for arrays that are no keys or values of the table.
    pub fn set(
        &mut self,
        table: &Table,
        keys: &[ArrayRef],
        columns: &[(usize, ArrayRef)],
        known: &[(usize, ArrayRef)],
    ) -> Result<()> {
        values_of(table, keys, known)?;
        let values = values_of(table, keys, columns)?;
        self.modify(table, keys, SET, |row, fields| {
            let mut value = Vec::new();
            for (column, values) in &values {
                let is_valid = values.field(row, &mut value);
                fields.push(*column, is_valid.then_some(&value));
            }
        })?;
        let of_key = |column: usize| {
            let part = table.pages().key().iter().position(|one| *one == column)?;
            keys.get(part).cloned()
        };
        for index in table.indexes() {
            if !index.has_any(columns.iter().map(|(column, _)| *column)) {
                continue;
            }
            let given = |column| array_of(columns, column).or_else(|| array_of(known, column));
            let source = |column| given(column).or_else(|| of_key(column));
            match sources_of(index, source) {
                Ok(sources) => index.put(&mut self.group, &sources)?,
                Err(column) => {
                    let fields = table.schema().fields();
                    let name = fields.get(column).map_or("", |field| field.name());
                    let index = &index.definition().name;
                    return table.rows_refused(format!(
                        "index `{index}` has column `{name}`, too: give its values with those that are set"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds to numbers of the rows with these keys, where there are any. A null stays one, as does a number to which a null is
    /// added; sums wrap around.
    ///
    /// # Errors
    /// As of [`Changes::set`].
    pub fn add(
        &mut self,
        table: &Table,
        keys: &[ArrayRef],
        columns: &[(usize, ArrayRef)],
    ) -> Result<()> {
        let columns = values_of(table, keys, columns)?;
        for (column, _) in &columns {
            let Some(field) = table.schema().fields().get(*column) else { continue };
            if !types::is_summable(field.data_type()) {
                let (name, of) = (field.name(), field.data_type());
                let problem = format!("nothing is added to column `{name}` of {of}: set it");
                return table.rows_refused(problem);
            }
            let has_column = |index: &&Index| index.has_any(std::iter::once(*column));
            if let Some(index) = table.indexes().iter().find(has_column) {
                let (name, index) = (field.name(), &index.definition().name);
                let problem =
                    format!("nothing is added to column `{name}` of index `{index}`: set it");
                return table.rows_refused(problem);
            }
        }
        self.modify(table, keys, ADD, |row, fields| {
            for (column, values) in &columns {
                let number = values.number_at(row);
                let added = number.map(|(of, number)| added_field(of, number));
                if let Some(added) = added {
                    fields.push(*column, Some(&added));
                }
            }
        })
    }

    fn modify(
        &mut self,
        table: &Table,
        keys: &[ArrayRef],
        kind: KindNumber,
        mut put: impl FnMut(usize, &mut FieldsBuilder),
    ) -> Result<()> {
        let rows = keys.first().map_or(0, |array| array.len());
        if keys.iter().any(|array| array.len() != rows) {
            return table.rows_refused("the columns of the keys have different lengths".to_owned());
        }
        self.note(table);
        let (mut keys, mut fields) = (Keys::of(table, keys)?, FieldsBuilder::new());
        for row in 0..rows {
            let Some(key) = keys.key(row) else {
                return table.rows_refused("a key is not of the columns' types".to_owned());
            };
            fields.clear();
            put(row, &mut fields);
            let modification = Modification { key: &key, kind, bytes: fields.bytes() };
            self.group.modify(table.space(), modification);
        }
        Ok(())
    }

    fn note(&mut self, table: &Table) {
        if self.tables.iter().all(|one| one.spaces() != table.spaces()) {
            self.tables.push(table.clone());
        }
    }

    /// The tables that it changes.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter()
    }

    /// As a group of the engine.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.group.clear();
        self.tables.clear();
    }
}

/// The array of a column.
fn array_of(columns: &[(usize, ArrayRef)], column: usize) -> Option<ArrayRef> {
    let found = columns.iter().find(|(one, _)| *one == column);
    found.map(|(_, array)| Arc::clone(array))
}

/// The arrays that entries of an index are made of, or a column that is missing.
fn sources_of(
    index: &Index,
    array: impl Fn(usize) -> Option<ArrayRef>,
) -> std::result::Result<Vec<ArrayRef>, usize> {
    index.source_columns().into_iter().map(|column| array(column).ok_or(column)).collect()
}

/// The values of columns that are changed, in the order of the columns.
fn values_of(
    table: &Table,
    keys: &[ArrayRef],
    columns: &[(usize, ArrayRef)],
) -> Result<Vec<(usize, ArrayValues)>> {
    let rows = keys.first().map_or(0, |array| array.len());
    let mut values = Vec::with_capacity(columns.len());
    for (column, array) in columns {
        table.check_values(*column, array)?;
        let name = || table.schema().fields().get(*column).map_or("", |field| field.name());
        if table.definition().key().contains(column) {
            let problem =
                format!("column `{}` is of the key: delete the row, and put another", name());
            return table.rows_refused(problem);
        }
        if array.len() != rows {
            let problem = format!("column `{}` has {} values for {rows} rows", name(), array.len());
            return table.rows_refused(problem);
        }
        values.push((*column, ArrayValues::of(array)?));
    }
    values.sort_by_key(|(column, _)| *column);
    if values.is_sorted_by(|(one, _), (next, _)| one < next) {
        Ok(values)
    } else {
        table.rows_refused("a column is set twice".to_owned())
    }
}
