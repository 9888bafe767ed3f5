//! Reading at one moment: rows by their keys.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use moirai_pages::{Fields, KeyBounds, KeyReader, PageRows, PageSchema};
use moirai_update::{At, ReadPoint, Reader, UnitSet};

use crate::columns::ColumnBuilder;
use crate::scan::{Scan, ScanOptions};
use crate::tables::{RowBytes, Table, Tables};
use crate::{Error, Result};

/// The tables of a store as they were at one moment. What is changed later is not shown. See [`moirai_update::ReadPoint`] for what it
/// costs, and when it ends.
pub struct Snapshot {
    point: ReadPoint,
    tables: Arc<Tables>,
}

/// Pages that are counted for an estimate, which holds until the bytes of the table have changed by such a part.
const PAGES_COUNTED: usize = 8;
const ROW_BYTES_SHARE: u64 = 8;

/// The units of pages that hold some columns.
pub(crate) fn units_of(pages: &PageSchema, columns: &[usize]) -> UnitSet {
    let units = columns.iter().filter_map(|column| pages.unit(*column)).map(UnitSet::one);
    units.fold(UnitSet::NONE, UnitSet::with)
}

impl Snapshot {
    pub(crate) fn new(tables: Arc<Tables>, point: ReadPoint) -> Snapshot {
        Snapshot { point, tables }
    }

    /// The tables, as they are now.
    #[must_use]
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        self.point.reader()
    }

    /// Reads trees as they were.
    #[must_use]
    pub fn trees(&self) -> moirai_btree::Reader<'_> {
        self.tables.store().at(&self.point)
    }

    /// The table called `name`, if there was one. Errors as of [`Tables::table`].
    pub async fn find(&self, name: &str) -> Result<Option<Table>> {
        crate::tables::find_in(self.trees(), name).await
    }

    /// The names of all tables there were, in their order. Errors as of [`Tables::names`].
    pub async fn names(&self) -> Result<Vec<String>> {
        let all = self.trees().relations().await?;
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    /// Keys at which a range of a table divides into parts of about as many bytes each: where the second part begins, and so on to the
    /// last of `parts`, or fewer. Nothing is read for it but where pages lie.
    ///
    /// # Errors
    /// As of [`moirai_update::Engine::sample`].
    pub async fn divide(
        &self,
        table: &Table,
        range: KeyBounds<'_>,
        parts: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let engine = self.tables.store().engine();
        let sample = engine.sample(table.space(), range.from, range.to, parts + 1).await?;
        let mut keys: Vec<Vec<u8>> =
            sample.picked.into_iter().skip(1).map(|picked| picked.low.into()).collect();
        // The last one picked is the last page.
        keys.truncate(parts.saturating_sub(1));
        keys.dedup();
        Ok(keys)
    }

    /// About how many rows a range of a table has, by the bytes of its pages and what waits for them. Some pages of the table are
    /// counted for it when its bytes have changed much since the last time.
    ///
    /// # Errors
    /// [`Error::NoPage`]; errors as of [`moirai_update::Reader`].
    pub async fn estimate_rows(&self, table: &Table, range: KeyBounds<'_>) -> Result<u64> {
        let engine = self.tables.store().engine();
        let all = engine.sample(table.space(), &[], None, 2).await?.bytes;
        let known = self.tables.row_bytes(table.space());
        let is_fresh =
            |known: &RowBytes| all.abs_diff(known.of_table) <= known.of_table / ROW_BYTES_SHARE;
        let RowBytes { of_row, .. } = match known.filter(is_fresh) {
            Some(known) => known,
            None => self.count_row_bytes(table).await?,
        };
        let bytes = match range.from.is_empty() && range.to.is_none() {
            true => all,
            false => engine.sample(table.space(), range.from, range.to, 2).await?.bytes,
        };
        Ok((bytes as f64 / of_row.max(f64::MIN_POSITIVE)).round() as u64)
    }

    /// Counts the rows of pages at equal distances.
    async fn count_row_bytes(&self, table: &Table) -> Result<RowBytes> {
        let engine = self.tables.store().engine();
        let sample = engine.sample(table.space(), &[], None, PAGES_COUNTED).await?;
        let reader = self.reader().units(UnitSet::one(0)).in_layers(UnitSet::one(0));
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        for picked in &sample.picked {
            let Some(view) = reader.view(table.space(), At::Key(&picked.low), 1).await? else {
                continue;
            };
            for page in view.layers().take(1) {
                let modifications: Vec<_> = page.modifications().collect();
                let read = PageRows::of(table.pages(), page.block, &modifications, None, &[]);
                rows += read.map_err(|_| table.no_page())?.rows() as u64;
                bytes += picked.bytes;
            }
        }
        // An empty page has no rows, whatever its bytes are.
        let of_row = if rows == 0 { f64::INFINITY } else { bytes as f64 / rows as f64 };
        let counted = RowBytes { of_row, of_table: sample.bytes };
        self.tables.note_row_bytes(table.space(), counted);
        Ok(counted)
    }

    /// The number behind the last row of a table whose rows have numbers.
    ///
    /// # Errors
    /// [`Error::NoPage`]; errors as of [`moirai_update::Reader`].
    pub async fn next_row_number(&self, table: &Table) -> Result<u64> {
        let column = table.schema().fields().len();
        let reader = self.reader().units(UnitSet::one(0)).in_layers(UnitSet::one(0));
        let mut views = reader.views(table.space(), At::Last, 1, |_| true);
        while let Some(view) = views.next().await.transpose()? {
            for page in view.layers() {
                let modifications: Vec<_> = page.modifications().collect();
                let no_page = |_| table.no_page();
                let read = PageRows::of(table.pages(), page.block, &modifications, None, &[]);
                let read = read.map_err(no_page)?;
                if read.rows() == 0 {
                    continue;
                }
                let mut builder = ColumnBuilder::new(&DataType::UInt64);
                let numbers = read.column(column).map_err(no_page)?;
                builder.append(numbers).map_err(|_| table.no_page())?;
                let numbers = builder.finish()?;
                let last = numbers.as_primitive::<UInt64Type>().values().last().copied();
                return Ok(last.map_or(0, |last| last + 1));
            }
        }
        Ok(0)
    }

    /// Reads columns of the rows of a range; see [`Scan`].
    ///
    /// # Errors
    /// [`Error::Rows`] for a column that the table does not have.
    pub fn scan(self: Arc<Snapshot>, table: &Table, options: ScanOptions) -> Result<Scan> {
        Scan::new(self, table, options)
    }

    /// Of each of these keys, whether no row has it: an array for each column of the key, in its order. Reads the minipages of keys
    /// alone.
    ///
    /// # Errors
    /// As of [`Snapshot::rows`].
    pub async fn lacks(&self, table: &Table, keys: &[ArrayRef]) -> Result<Vec<bool>> {
        let keys = table.keys(keys)?;
        let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let reader = self.reader().units(UnitSet::one(0));
        let found = reader.get_many(table.space(), &refs).await?;
        Ok(found.iter().map(Option::is_none).collect())
    }

    /// Columns of the rows with these keys, of which each that is there comes once, in the order of `keys`: an array for each column
    /// of the key, in its order. Reads the minipages of the keys and of these columns alone, all rows at the same time.
    ///
    /// # Errors
    /// [`Error::Rows`] for arrays that are no keys, and columns that the table does not have; [`Error::NoPage`]; errors as of
    /// [`moirai_update::Reader`].
    pub async fn rows(
        &self,
        table: &Table,
        keys: &[ArrayRef],
        columns: &[usize],
    ) -> Result<RecordBatch> {
        self.rows_of(table, &table.keys(keys)?, columns).await
    }

    /// The same for keys as pages order them. Errors as of [`Snapshot::rows`].
    pub async fn rows_of(
        &self,
        table: &Table,
        keys: &[Vec<u8>],
        columns: &[usize],
    ) -> Result<RecordBatch> {
        Ok(self.rows_at(table, keys, columns).await?.0)
    }

    /// The same, with the places of the keys whose rows are there.
    pub(crate) async fn rows_at(
        &self,
        table: &Table,
        keys: &[Vec<u8>],
        columns: &[usize],
    ) -> Result<(RecordBatch, Vec<usize>)> {
        let pages = table.pages();
        let schema = projected(table, columns)?;
        let mut reader = KeyReader::new(pages);
        let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let units = units_of(pages, columns).with(UnitSet::one(0));
        let found = self.reader().units(units).get_many(table.space(), &refs).await?;
        let mut builders: Vec<ColumnBuilder> =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        let mut places = Vec::with_capacity(keys.len());
        for (place, (key, row)) in keys.iter().zip(found).enumerate() {
            let Some(row) = row else { continue };
            let of_key = reader.read(key).ok_or_else(|| table.no_page())?;
            for (column, builder) in columns.iter().zip(&mut builders) {
                let value = match pages.key().iter().position(|one| one == column) {
                    Some(part) => of_key.get(part).map(|value| &value[..]),
                    None => Fields::of(&row).get(*column),
                };
                builder.append_field(value).map_err(|_| table.no_page())?;
            }
            places.push(place);
        }
        let rows = batch_of(&schema, &mut builders, places.len())?;
        Ok((rows, places))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The schema of some columns.
pub(crate) fn projected(table: &Table, columns: &[usize]) -> Result<SchemaRef> {
    let project = table.schema_with_row_numbers().project(columns);
    project
        .map(Arc::new)
        .map_err(|error| Error::Rows { table: table.name().to_owned(), problem: error.to_string() })
}

/// The rows that builders have.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    builders: &mut [ColumnBuilder],
    rows: usize,
) -> Result<RecordBatch> {
    let arrays = builders.iter_mut().map(ColumnBuilder::finish);
    let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}
