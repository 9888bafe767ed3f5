//! Reading at one moment: rows by their keys.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use moirai_btree::Leaf;
use moirai_pages::{KeyBounds, KeyReader, PageRows, PageSchema, number_of};
use moirai_transactions::{Point, Reads};
use moirai_units::ByteCount;
use moirai_update::{At, Draft, ReadPoint, Reader, UnitSet, View};

use crate::columns::ColumnBuilder;
use crate::definition::Layout;
use crate::rows::{RowDecoder, page_reader, rows_of};
use crate::table::Table;
use crate::tables::{RowBytes, Tables};
use crate::{Error, Result};

/// The fewest keys for which it is worth looking first whether all lie behind the last row: where they do not, one page is read in vain.
const LOOKED_BEHIND: usize = 16;

/// The tables of a store as they were at one moment. What is changed later is not shown. See [`moirai_update::ReadPoint`] for what it
/// costs, and when it ends.
pub struct Snapshot {
    point: SnapshotPoint,
    tables: Arc<Tables>,
}

/// What a snapshot reads.
pub(crate) enum SnapshotPoint {
    /// A moment.
    Alone(Arc<ReadPoint>),
    /// What a transaction sees.
    OfTransaction { point: Arc<Point>, draft: Arc<Draft>, reads: Option<Arc<Reads>> },
}

/// How much of the device a table takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Pages of its rows.
    pub pages: u64,
    /// Bytes of these, of the entries of its indexes, and of what waits for both.
    pub stored: ByteCount,
}

/// Pages that are counted for an estimate, which holds until the bytes of the table have changed by such a part.
const PAGES_COUNTED: usize = 8;
const ROW_BYTES_SHARE: u64 = 8;

/// The units of pages that hold some columns.
pub(crate) fn units_of(pages: &PageSchema, columns: &[usize]) -> UnitSet {
    let units = columns.iter().filter_map(|column| pages.unit(*column)).map(UnitSet::one);
    units.fold(UnitSet::NONE, UnitSet::with)
}

impl Tables {
    /// Begins to read at this moment.
    pub async fn snapshot(self: &Arc<Tables>) -> Arc<Snapshot> {
        let point = self.store.engine().read_point().await;
        Arc::new(Snapshot::new(Arc::clone(self), SnapshotPoint::Alone(Arc::new(point))))
    }

    /// Numbers for rows that are added to a table without a key, which nobody else gets: the first of `count`. Those of rows that are not
    /// committed in the end are passed over. Who numbers rows by [`Snapshot::next_row_number`] instead is to be alone.
    ///
    /// # Errors
    /// As of [`Snapshot::next_row_number`].
    pub async fn row_numbers(self: &Arc<Tables>, table: &Table, count: u64) -> Result<u64> {
        let mut numbers = self.row_numbers.lock().await;
        let next = match numbers.get(&table.space()) {
            Some(next) => *next,
            None => self.snapshot().await.next_row_number(table).await?,
        };
        numbers.insert(table.space(), next + count);
        Ok(next)
    }
}

impl Snapshot {
    pub(crate) fn new(tables: Arc<Tables>, point: SnapshotPoint) -> Snapshot {
        Snapshot { point, tables }
    }

    /// The tables, as they are now.
    #[must_use]
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    fn point(&self) -> &ReadPoint {
        match &self.point {
            SnapshotPoint::Alone(point) => point,
            SnapshotPoint::OfTransaction { point, .. } => point.read_point(),
        }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        let reader = self.point().reader();
        match &self.point {
            SnapshotPoint::Alone(_) => reader,
            SnapshotPoint::OfTransaction { draft, .. } => reader.over(draft),
        }
    }

    /// Where a transaction wants to know what is read.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        match &self.point {
            SnapshotPoint::OfTransaction { reads, .. } => reads.as_deref(),
            SnapshotPoint::Alone(_) => None,
        }
    }

    /// The same, of which nobody wants to know what is read.
    pub(crate) fn without_reads(&self) -> Snapshot {
        let point = match &self.point {
            SnapshotPoint::Alone(point) => SnapshotPoint::Alone(Arc::clone(point)),
            SnapshotPoint::OfTransaction { point, draft, .. } => SnapshotPoint::OfTransaction {
                point: Arc::clone(point),
                draft: Arc::clone(draft),
                reads: None,
            },
        };
        Snapshot::new(Arc::clone(&self.tables), point)
    }

    /// Notes that rows of a range were read, or found missing.
    pub(crate) fn note_range(&self, table: &Table, from: &[u8], to: Option<&[u8]>) {
        if let Some(reads) = self.reads() {
            reads.note(table.space(), from, to);
        }
    }

    /// Notes that rows were read, or found missing.
    fn note_keys(&self, table: &Table, keys: &[Vec<u8>]) {
        if let Some(reads) = self.reads() {
            keys.iter().for_each(|key| reads.note_key(table.space(), key));
        }
    }

    /// Reads trees as they were; not what a transaction changed in them.
    #[must_use]
    pub fn trees(&self) -> moirai_btree::Reader<'_> {
        self.tables.store().at(self.point())
    }

    /// The table called `name`, if there was one. Errors as of [`Tables::table`].
    pub async fn find(&self, name: &str) -> Result<Option<Table>> {
        crate::table::find_in(self.trees(), name).await
    }

    /// Whether the table of that name was this one. Errors as of [`Tables::table`].
    pub async fn shows(&self, table: &Table) -> Result<bool> {
        let found = self.trees().relation(table.name()).await?;
        Ok(found.is_some_and(|found| table.is_relation(&found)))
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

    /// How much of the device a table takes. Errors as of [`Snapshot::divide`].
    pub async fn size(&self, table: &Table) -> Result<TableSize> {
        let engine = self.tables.store().engine();
        let mut size = TableSize::default();
        for (index, space) in table.spaces().into_iter().enumerate() {
            let sample = engine.sample(space, &[], None, 2).await?;
            size.stored.0 += sample.bytes;
            if index == 0 {
                size.pages = sample.blocks;
            }
        }
        Ok(size)
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
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        for picked in &sample.picked {
            let at = At::Key(&picked.low);
            let Some(view) = page_reader(table, self.reader()).view(table.space(), at, 1).await?
            else {
                continue;
            };
            rows += rows_of(table, &view)?;
            bytes += picked.bytes;
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
        let mut views =
            page_reader(table, self.reader()).views(table.space(), At::Last, 1, |_| true);
        while let Some(view) = views.next().await.transpose()? {
            if let Some(last) = last_row_number(table, &view)? {
                return Ok(last + 1);
            }
        }
        Ok(0)
    }

    /// Of each of these keys, whether no row has it: an array for each column of the key, in its order. In [`Layout::Csm`] this reads the
    /// minipages of keys alone.
    ///
    /// # Errors
    /// As of [`Snapshot::rows`].
    pub async fn lacks(&self, table: &Table, keys: &[ArrayRef]) -> Result<Vec<bool>> {
        let keys = table.keys(keys)?;
        self.note_keys(table, &keys);
        // Rows are often added behind all that are there.
        if let (Some(low), Some(high)) = (keys.iter().min(), keys.iter().max())
            && keys.len() >= LOOKED_BEHIND
            && self.shows_nothing(table, low, high).await?
        {
            return Ok(vec![true; keys.len()]);
        }
        let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let reader = self.reader().units(UnitSet::one(0));
        let found = reader.get_many(table.space(), &refs).await?;
        Ok(found.iter().map(Option::is_none).collect())
    }

    /// Columns of the rows with these keys, of which each that is there comes once, in the order of `keys`: an array for each column
    /// of the key, in its order. All rows are read at the same time, in [`Layout::Csm`] the minipages of the keys and of these columns alone.
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

    /// The fields of the rows with these keys, of these columns at least; nothing for a row that is not there.
    pub(crate) async fn fields_at(
        &self,
        table: &Table,
        keys: &[Vec<u8>],
        columns: &[usize],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.note_keys(table, keys);
        let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let units = match table.layout() {
            Layout::Csm | Layout::Pax => units_of(table.pages(), columns).with(UnitSet::one(0)),
            Layout::Nsm => UnitSet::one(0),
        };
        Ok(self.reader().units(units).get_many(table.space(), &refs).await?)
    }

    /// Columns of the rows with these keys, and the places of the keys whose rows are there.
    pub(crate) async fn rows_at(
        &self,
        table: &Table,
        keys: &[Vec<u8>],
        columns: &[usize],
    ) -> Result<(RecordBatch, Vec<usize>)> {
        let schema = projected(table, columns)?;
        let found = self.fields_at(table, keys, columns).await?;
        let mut builders: Vec<ColumnBuilder> =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        let (mut decoder, mut places) =
            (RowDecoder::of(table, columns), Vec::with_capacity(keys.len()));
        for (place, (key, row)) in keys.iter().zip(found).enumerate() {
            let Some(row) = row else { continue };
            decoder.append(key, &row, &mut builders)?;
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

/// The number of the last row of a view.
fn last_row_number(table: &Table, view: &View) -> Result<Option<u64>> {
    let no_page = || table.no_page();
    if table.layout() == Layout::Nsm {
        let mut last = None;
        for (_, block) in view.blocks() {
            let leaf = Leaf::of(block.bytes()).ok_or_else(no_page)?;
            let record = leaf.len().checked_sub(1).and_then(|index| leaf.record(index));
            last = record.map(|(key, _)| key).or(last);
        }
        let Some(key) = last else { return Ok(None) };
        let mut keys = KeyReader::new(table.pages());
        let number = keys.read(key).and_then(|values| number_of(values.first()?));
        return number.map(|number| Some(number as u64)).ok_or_else(no_page);
    }
    let mut numbers = ColumnBuilder::new(&DataType::UInt64);
    for page in view.layers() {
        let modifications: Vec<_> = page.modifications().collect();
        let read = PageRows::of(table.pages(), page.block, &modifications, None, &[]);
        let column = read.and_then(|read| read.column(table.schema().fields().len()));
        let column = column.map_err(|_| no_page())?;
        numbers.append(column).map_err(|_| no_page())?;
    }
    Ok(numbers.finish()?.as_primitive::<UInt64Type>().values().last().copied())
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
