//! Reading ranges of rows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use moirai_pages::{KeyBounds, PageRows};
use moirai_transactions::key_after;
use moirai_update::{At, Layers, Modification, Reader, UnitSet, View, Views};

use crate::Result;
use crate::columns::ColumnBuilder;
use crate::definition::Layout;
use crate::rows::append_leaf;
use crate::snapshot::{Snapshot, batch_of, projected, units_of};
use crate::table::Table;

/// Pages that are read with one request at most: a view ends with its row group.
pub(crate) const PAGES_AT_ONCE: usize = 64;

/// Beside two for each row that is wanted, so many changes are shown before it is seen whether more are needed.
const CHANGES: usize = 32;

/// What a scan reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// The columns, in the order in which they come; all where it is `None`.
    pub columns: Option<Vec<usize>>,
    /// Keys from this one on, as pages order them.
    pub from: Vec<u8>,
    /// And before this one, or to the last.
    pub to: Option<Vec<u8>>,
    /// Rows of a batch, about: it ends with a page.
    pub batch_rows: usize,
    /// The most pages that one request reads. 1 is for callers that want a few rows: nothing is read before they ask for it, and the
    /// requests grow, from one page on.
    pub pages: usize,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions {
            columns: None,
            from: Vec::new(),
            to: None,
            batch_rows: 8192,
            pages: PAGES_AT_ONCE,
        }
    }
}

/// Reads columns of the rows of a range, in the order of their keys. In [`Layout::Csm`] it reads the minipages of these columns alone, and
/// those of the key where changes wait for the page. It reads ahead unless [`ScanOptions::pages`] is 1.
pub struct Scan {
    snapshot: Arc<Snapshot>,
    table: Table,
    schema: SchemaRef,
    columns: Vec<usize>,
    units: UnitSet,
    options: ScanOptions,
    source: Source,
    /// The view whose pages come next, and which of them.
    view: Option<(View, usize)>,
    builders: Vec<ColumnBuilder>,
    rows: usize,
    done: ScanCounts,
}

/// Where the views of a scan come from.
enum Source {
    /// A task that reads ahead.
    Ahead(Views),
    /// They are read when they are asked for.
    InTurn(Turn),
}

/// The view that is read next. Views grow, since many deleted rows may lie before the rows that are wanted.
struct Turn {
    /// Where it begins; `None` behind the last.
    at: Option<Box<[u8]>>,
    /// Pages that it has at most.
    pages: usize,
    /// Changes behind which it may end.
    changes: usize,
}

/// The reader of the rows of a table, of which these units are wanted.
fn reader_of<'a>(snapshot: &'a Snapshot, table: &Table, units: UnitSet) -> Reader<'a> {
    match table.layout() {
        Layout::Csm | Layout::Pax => snapshot.reader().units(units).in_layers(UnitSet::one(0)),
        Layout::Nsm => snapshot.reader(),
    }
}

/// What a scan has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Pages, of which one or more columns were read.
    pub pages: u64,
    /// Pages whose columns were made of what is there and of changes that wait for the page; those of rows are not counted.
    pub changed_pages: u64,
    /// Pages of which a filter kept no row, so that of all columns those of the filter alone were decoded.
    pub passed_pages: u64,
    /// How often a scan with a filter went over to the other order of reading.
    pub turns: u64,
    /// Bytes of minipages, from the device or a cache of the system; what was read ahead in vain is not counted.
    pub bytes: u64,
}

impl ScanCounts {
    /// Adds what another scan has read.
    pub(crate) fn add(&mut self, other: ScanCounts) {
        let ScanCounts { pages, changed_pages, passed_pages, turns, bytes } = other;
        self.pages += pages;
        self.changed_pages += changed_pages;
        self.passed_pages += passed_pages;
        self.turns += turns;
        self.bytes += bytes;
    }
}

impl Snapshot {
    /// Reads columns of the rows of a range; see [`Scan`].
    ///
    /// # Errors
    /// [`Error::Rows`] for a column that the table does not have.
    pub fn scan(self: Arc<Snapshot>, table: &Table, options: ScanOptions) -> Result<Scan> {
        Scan::new(self, table, options)
    }

    /// Whether one view shows that no row has a key from `low` to `high`.
    pub(crate) async fn shows_nothing(
        &self,
        table: &Table,
        low: &[u8],
        high: &[u8],
    ) -> Result<bool> {
        let options = ScanOptions {
            columns: Some(table.pages().key().to_vec()),
            from: low.to_vec(),
            to: Some(key_after(high)),
            batch_rows: 1,
            pages: 1,
        };
        Arc::new(self.without_reads()).scan(table, options)?.shows_nothing().await
    }
}

impl Scan {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        table: &Table,
        options: ScanOptions,
    ) -> Result<Scan> {
        let mut options = options;
        options.batch_rows = options.batch_rows.max(1);
        let columns =
            options.columns.clone().unwrap_or_else(|| (0..table.schema().fields().len()).collect());
        let schema = projected(table, &columns)?;
        let units = match units_of(table.pages(), &columns) {
            // Their number alone is asked for.
            UnitSet::NONE => UnitSet::one(0),
            units => units,
        };
        snapshot.note_range(table, &options.from, options.to.as_deref());
        let source = if options.pages > 1 {
            let (at, to) = (At::Key(&options.from), options.to.clone());
            let goes_on = move |next: &[u8]| to.as_ref().is_none_or(|to| next < &to[..]);
            let reader = reader_of(&snapshot, table, units);
            Source::Ahead(reader.views(table.space(), at, options.pages, goes_on))
        } else {
            // Pages of columns are taken whole.
            let changes = match table.layout() {
                Layout::Nsm => options.batch_rows.saturating_mul(2).saturating_add(CHANGES),
                Layout::Csm | Layout::Pax => usize::MAX,
            };
            Source::InTurn(Turn { at: Some(options.from[..].into()), pages: 1, changes })
        };
        let builders =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        let table = table.clone();
        Ok(Scan {
            snapshot,
            table,
            schema,
            columns,
            units,
            options,
            source,
            view: None,
            builders,
            rows: 0,
            done: ScanCounts::default(),
        })
    }

    /// What was read so far.
    #[must_use]
    pub fn counts(&self) -> ScanCounts {
        self.done
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The lowest key of the rows that come next, behind a page that is at hand; a table in rows has none.
    pub(crate) fn position(&self) -> Option<Vec<u8>> {
        let (view, at) = self.view.as_ref().filter(|_| self.table.layout() != Layout::Nsm)?;
        let low = match view.layers().nth(*at) {
            Some(layers) => layers.low,
            None => view.next.as_deref()?,
        };
        Some(low.max(&self.options.from[..]).to_vec())
    }

    /// Lets batches have about so many rows from now on.
    pub(crate) fn set_batch_rows(&mut self, batch_rows: usize) {
        self.options.batch_rows = batch_rows.max(1);
    }

    async fn next_view(&mut self) -> Result<Option<View>> {
        let turn = match &mut self.source {
            Source::Ahead(views) => return Ok(views.next().await.transpose()?),
            Source::InTurn(turn) => turn,
        };
        let Some(at) = &turn.at else { return Ok(None) };
        let (from, to) = (&self.options.from[..], self.options.to.as_deref());
        let reader =
            reader_of(&self.snapshot, &self.table, self.units).within(from, to, turn.changes);
        let view = reader.view(self.table.space(), At::Key(at), turn.pages).await?;
        let next = view.as_ref().and_then(|view| view.next.clone());
        turn.at = next.filter(|next| to.is_none_or(|to| **next < *to));
        turn.pages = (2 * turn.pages).min(PAGES_AT_ONCE);
        turn.changes = turn.changes.saturating_mul(4);
        Ok(view)
    }

    /// Whether the first view is the only one, and has no row; of a scan that reads in turn.
    pub(crate) async fn shows_nothing(mut self) -> Result<bool> {
        let Some(view) = self.next_view().await? else { return Ok(true) };
        if !matches!(self.source, Source::InTurn(Turn { at: None, .. })) {
            return Ok(false);
        }
        self.view = Some((view, 0));
        Ok(self.next().await?.is_none())
    }

    /// The next rows; `None` behind the last.
    ///
    /// # Errors
    /// [`crate::Error::NoPage`]; errors as of [`moirai_update::Reader`].
    ///
    /// # Cancel safety
    /// What was read comes with the next call.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows < self.options.batch_rows {
            let Some((view, at)) = &mut self.view else {
                match self.next_view().await? {
                    Some(view) => {
                        self.done.bytes += view.bytes();
                        self.view = Some((view, 0));
                    }
                    None => break,
                }
                continue;
            };
            let (from, to) = (&self.options.from[..], self.options.to.as_deref());
            let bounds = KeyBounds { from, to };
            if self.table.layout() == Layout::Nsm {
                // Rows of the view behind come with that one.
                let next = view.next.as_deref();
                let to = to.into_iter().chain(next).min();
                let into = (&self.table, &self.columns[..], &mut self.builders[..]);
                let (reader, bounds) = (self.snapshot.reader(), KeyBounds { from, to });
                match append_leaf(reader, (view, *at), bounds, into).await? {
                    Some(rows) => {
                        self.rows += rows;
                        self.done.pages += 1;
                        *at += 1;
                    }
                    None => {
                        if let Some(next) = next.filter(|next| *next > from) {
                            self.options.from = next.into();
                        }
                        self.view = None;
                    }
                }
                continue;
            }
            let Some(page) = PageAt::of(view, *at, bounds) else {
                // A sweep may have divided the pages behind in other places since: what came is not to come again.
                if let Some(next) = view.next.as_deref().filter(|next| *next > from) {
                    self.options.from = next.into();
                }
                self.view = None;
                continue;
            };
            let into = (&self.table, &self.columns[..], &mut self.builders[..]);
            self.done.pages += 1;
            self.done.changed_pages += u64::from(page.layers.modifications().next().is_some());
            self.rows += append_page(&self.snapshot, &page, self.units, into).await?;
            *at += 1;
        }
        if self.rows == 0 {
            return Ok(None);
        }
        let rows = std::mem::take(&mut self.rows);
        batch_of(&self.schema, &mut self.builders, rows).map(Some)
    }
}

/// A page of a view.
pub(crate) struct PageAt<'v, 'b> {
    pub(crate) layers: Layers<'v>,
    /// The lowest key of the page behind; `None` where there is none.
    pub(crate) next: Option<&'v [u8]>,
    /// The range that is read, where rows of the page are outside of it.
    pub(crate) bounds: Option<KeyBounds<'b>>,
}

impl<'v, 'b> PageAt<'v, 'b> {
    /// The page at a place, of keys between bounds; `None` behind the last.
    pub(crate) fn of(view: &'v View, at: usize, bounds: KeyBounds<'b>) -> Option<PageAt<'v, 'b>> {
        let mut all = view.layers().skip(at);
        let layers = all.next()?;
        let next = all.next().map(|next| next.low).or(view.next.as_deref());
        let KeyBounds { from, to } = bounds;
        if to.is_some_and(|to| layers.low >= to) {
            return None;
        }
        // The page behind begins with the first key that this one does not have.
        let ends_before = |to: &[u8]| next.is_some_and(|next| next <= to);
        let is_whole = layers.low >= from && to.is_none_or(ends_before);
        Some(PageAt { layers, next, bounds: (!is_whole).then_some(bounds) })
    }

    /// The keys whose rows it has, but for those outside of the range.
    pub(crate) fn keys(&self) -> KeyBounds<'_> {
        let (low, next) = (self.layers.low, self.next);
        match self.bounds {
            None => KeyBounds { from: low, to: next },
            Some(bounds) => KeyBounds {
                from: low.max(bounds.from),
                to: next.into_iter().chain(bounds.to).min(),
            },
        }
    }

    /// Whether its keys are needed, and were not read.
    fn lacks_keys(&self) -> bool {
        let has_keys = self.layers.block.is_none_or(|block| block.unit(0).is_some());
        self.bounds.is_some() && !has_keys
    }
}

/// Adds the rows of a page, of which these units were read, to the arrays; gives how many there are.
///
/// # Cancel safety
/// No row is added until all that is needed of the page is there.
pub(crate) async fn append_page(
    snapshot: &Snapshot,
    page: &PageAt<'_, '_>,
    units: UnitSet,
    into: (&Table, &[usize], &mut [ColumnBuilder]),
) -> Result<usize> {
    #[cfg(feature = "canary")]
    if snapshot.tables().has_canary(crate::Canary::WholePages) {
        return append(&page.layers, None, into);
    }
    if !page.lacks_keys() {
        return append(&page.layers, page.bounds, into);
    }
    let ((table, columns, builders), keys) = (into, page.keys());
    let units = units.with(UnitSet::one(0));
    let views = read_keys((snapshot, table), units, keys, 1).await?;
    let mut rows = 0;
    for (from, view) in &views {
        let bounds = Some(KeyBounds { from, to: keys.to });
        for layers in view.layers() {
            rows += append(&layers, bounds, (table, columns, &mut *builders))?;
        }
    }
    Ok(rows)
}

/// The pages that have keys between these, in views of so many pages at most. With each view comes the key from which on its rows
/// count: sweeps may have divided pages in other places meanwhile.
pub(crate) async fn read_keys(
    (snapshot, table): (&Snapshot, &Table),
    units: UnitSet,
    keys: KeyBounds<'_>,
    pages: usize,
) -> Result<Vec<(Box<[u8]>, View)>> {
    let reader = snapshot.reader().units(units).in_layers(UnitSet::one(0));
    let (mut from, mut views) = (Box::<[u8]>::from(keys.from), Vec::new());
    loop {
        let at = At::Key(&from);
        let Some(view) = reader.view(table.space(), at, pages).await? else {
            return Ok(views);
        };
        let next = view.next.clone().filter(|next| keys.to.is_none_or(|to| &**next < to));
        views.push((from, view));
        match next {
            Some(next) => from = next,
            None => return Ok(views),
        }
    }
}

/// Adds the rows of a page to the arrays; gives how many there are.
fn append(
    page: &Layers<'_>,
    bounds: Option<KeyBounds<'_>>,
    (table, columns, builders): (&Table, &[usize], &mut [ColumnBuilder]),
) -> Result<usize> {
    let modifications: Vec<Modification<'_>> = page.modifications().collect();
    let no_page = || table.no_page();
    let read = PageRows::of(table.pages(), page.block, &modifications, bounds, columns);
    let read = read.map_err(|_| no_page())?;
    for (column, builder) in columns.iter().zip(builders) {
        let column = read.column(*column).map_err(|_| no_page())?;
        builder.append(column).map_err(|_| no_page())?;
    }
    Ok(read.rows())
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scan { table, options, .. } = self;
        f.debug_struct("Scan")
            .field("table", &table.name())
            .field("options", options)
            .finish_non_exhaustive()
    }
}
