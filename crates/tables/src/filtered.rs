//! Reading the rows of ranges that a filter keeps (Clotho 6.1).
//!
//! A scan reads the columns of the filter and the others together (the paper's S-scan), or those of the filter first, and then all
//! columns of the pages alone that have rows to keep (SI-scan). The latter reads less where few pages have such rows, and waits for the
//! device twice. A scan begins with it, and goes over from one to the other by what it finds. The second time pages are found by
//! their keys, and filtered anew: a sweep may have divided them in other places.
//!
//! The caller may apply the filter again, as DataFusion does. Then a scan gives all rows while many pages have rows to keep
//! ([`FilterOrder::Hint`], `hint`).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use futures::future::try_join_all;
use moirai_pages::KeyBounds;
use moirai_runtime::now;
use moirai_update::{At, UnitSet, View, Views};

use crate::columns::ColumnBuilder;
use crate::definition::Layout;
use crate::filter_order::{Decision, FilterOrder, OrderChooser};
use crate::hint::Unfiltered;
use crate::scan::{PAGES_AT_ONCE, PageAt, Scan, ScanCounts, ScanOptions, append_page, read_keys};
use crate::snapshot::{Snapshot, projected, units_of};
use crate::table::Table;
use crate::{Error, Result};

/// So many pages without rows to keep, between two that have some, are read with them: one request instead of two.
const GAP_PAGES: usize = 4;
/// The most rows of a batch, for which memory is taken at once.
const BATCH_ROWS_MAX: usize = 1 << 16;

/// What decides which rows a scan gives.
pub trait RowFilter: Send + Sync {
    /// The columns of the table that it looks at.
    fn columns(&self) -> &[usize];

    /// Whether it keeps each of these rows, which have those columns in that order; a null keeps none.
    ///
    /// # Errors
    /// Whatever the filter fails with: the scan gives it as [`Error::Filter`].
    fn keep(
        &self,
        rows: &RecordBatch,
    ) -> std::result::Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>>;
}

/// Reads columns of the rows of a range that a filter keeps, in the order of their keys.
pub struct FilteredScan {
    pages: Pages,
    schema: SchemaRef,
    source: Source,
    kept: Kept,
    order: FilterOrder,
    chooser: OrderChooser,
    /// Where the filter's columns are in the answer, if it may have rows that are not kept.
    looked_at: Option<Vec<usize>>,
}

/// Where rows come from.
enum Source {
    /// Pages of which the filter's columns were read, or all.
    Views {
        views: Views,
        are_whole: bool,
    },
    /// Rows of [`Layout::Nsm`], with all columns.
    Rows(Box<Scan>),
    /// Rows as they are.
    Unfiltered(Box<Unfiltered>),
    Ended,
}

/// What is read of pages, and what of it is kept.
struct Pages {
    snapshot: Arc<Snapshot>,
    table: Table,
    filter: Arc<dyn RowFilter>,
    of_filter: Columns,
    /// Columns of the answer that the filter does not look at.
    others: Columns,
    /// Where each column of the answer is: among those of the filter, and behind them the others.
    places: Vec<usize>,
    options: ScanOptions,
    counts: ScanCounts,
}

/// Some columns of a table.
struct Columns {
    numbers: Vec<usize>,
    schema: SchemaRef,
    units: UnitSet,
    builders: Vec<ColumnBuilder>,
}

impl Columns {
    fn new(table: &Table, numbers: Vec<usize>) -> Result<Columns> {
        let schema = projected(table, &numbers)?;
        let units = units_of(table.pages(), &numbers);
        let builders =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        Ok(Columns { numbers, schema, units, builders })
    }

    /// The arrays of a page, of which these units were read, and how many rows it has.
    async fn of_page(
        &mut self,
        (snapshot, table): (&Snapshot, &Table),
        page: &PageAt<'_, '_>,
        units: UnitSet,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let into = (table, &self.numbers[..], &mut self.builders[..]);
        let rows = append_page(snapshot, page, units, into).await?;
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish);
        Ok((arrays.collect::<std::result::Result<Vec<_>, _>>()?, rows))
    }
}

/// Neighbouring pages that have rows to keep.
struct Run {
    /// The keys that they have.
    from: Box<[u8]>,
    to: Option<Box<[u8]>>,
    /// The last of them in its view, and how many they are.
    last: usize,
    pages: usize,
}

impl Run {
    fn keys(&self) -> KeyBounds<'_> {
        KeyBounds { from: &self.from, to: self.to.as_deref() }
    }
}

fn batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

/// The same as true and false.
fn without_nulls(keep: BooleanArray) -> BooleanArray {
    match keep.null_count() {
        0 => keep,
        _ => arrow_select::filter::prep_null_mask_filter(&keep),
    }
}

impl Pages {
    /// What is to be read at once.
    fn units(&self, are_whole: bool) -> UnitSet {
        let of_filter = match self.of_filter.units {
            // How many rows there are is all that such a filter can look at.
            UnitSet::NONE => UnitSet::one(0),
            units => units,
        };
        match are_whole {
            true => of_filter.with(self.others.units),
            false => of_filter,
        }
    }

    fn views(&self, are_whole: bool) -> Views {
        let to = self.options.to.clone();
        let goes_on = move |next: &[u8]| to.as_ref().is_none_or(|to| next < &to[..]);
        let reader = self.snapshot.reader().units(self.units(are_whole));
        let at = At::Key(&self.options.from);
        reader.in_layers(UnitSet::one(0)).views(self.table.space(), at, PAGES_AT_ONCE, goes_on)
    }

    fn keep(&self, arrays: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let of_filter = batch(&self.of_filter.schema, arrays.to_vec(), rows)?;
        let keep = self.filter.keep(&of_filter).map_err(Error::Filter)?;
        if keep.len() != rows {
            let problem =
                format!("a filter says of {} rows whether to keep them, of {rows}", keep.len());
            return Err(Error::Filter(problem.into()));
        }
        Ok(without_nulls(keep))
    }

    /// The filter's columns of a page of which these units were read, and which of its rows are kept.
    async fn filtered(
        &mut self,
        page: &PageAt<'_, '_>,
        units: UnitSet,
    ) -> Result<(Vec<ArrayRef>, BooleanArray)> {
        let of = (&*self.snapshot, &self.table);
        let (arrays, rows) = self.of_filter.of_page(of, page, units).await?;
        let keep = self.keep(&arrays, rows)?;
        Ok((arrays, keep))
    }

    /// Counts a page that is read for the first time.
    fn count(&mut self, page: &PageAt<'_, '_>, is_passed: bool) {
        self.counts.pages += 1;
        self.counts.changed_pages += u64::from(page.layers.modifications().next().is_some());
        self.counts.passed_pages += u64::from(is_passed);
    }

    /// The columns of the answer, of all rows of a page of which these units were read: the filter's are there.
    async fn answer(
        &mut self,
        of_filter: Vec<ArrayRef>,
        page: &PageAt<'_, '_>,
        units: UnitSet,
    ) -> Result<Vec<ArrayRef>> {
        let mut arrays = of_filter;
        if !self.others.numbers.is_empty() {
            let of = (&*self.snapshot, &self.table);
            arrays.extend(self.others.of_page(of, page, units).await?.0);
        }
        Ok(self.places.iter().filter_map(|place| arrays.get(*place).cloned()).collect())
    }
}

/// Rows that are kept, in batches.
enum Kept {
    Rows(Box<BatchCoalescer>),
    /// No columns are wanted: how many rows there are.
    Count(usize),
}

impl Kept {
    fn push(
        &mut self,
        schema: &SchemaRef,
        arrays: Vec<ArrayRef>,
        keep: &BooleanArray,
    ) -> Result<()> {
        match self {
            Kept::Count(rows) => *rows += keep.true_count(),
            Kept::Rows(coalescer) => {
                let rows = batch(schema, arrays, keep.len())?;
                match keep.true_count() == keep.len() {
                    true => coalescer.push_batch(rows)?,
                    false => coalescer.push_batch_with_filter(rows, keep)?,
                }
            }
        }
        Ok(())
    }

    /// A batch that is full; at the end, what there is.
    fn next(&mut self, schema: &SchemaRef, is_end: bool) -> Result<Option<RecordBatch>> {
        match self {
            Kept::Count(0) => Ok(None),
            Kept::Count(rows) => batch(schema, Vec::new(), std::mem::take(rows)).map(Some),
            Kept::Rows(coalescer) => {
                if is_end {
                    coalescer.finish_buffered_batch()?;
                }
                Ok(coalescer.next_completed_batch())
            }
        }
    }
}

impl FilteredScan {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        table: &Table,
        options: ScanOptions,
        (filter, order): (Arc<dyn RowFilter>, FilterOrder),
    ) -> Result<FilteredScan> {
        let columns =
            options.columns.clone().unwrap_or_else(|| (0..table.schema().fields().len()).collect());
        let schema = projected(table, &columns)?;
        snapshot.note_range(table, &options.from, options.to.as_deref());
        let filtered = filter.columns().to_vec();
        let mut others: Vec<usize> = Vec::new();
        let mut place_of = |column: &usize| {
            if let Some(place) = filtered.iter().position(|one| one == column) {
                return place;
            }
            let place = others.iter().position(|one| one == column).unwrap_or_else(|| {
                others.push(*column);
                others.len() - 1
            });
            filtered.len() + place
        };
        let places = columns.iter().map(&mut place_of).collect();
        let batch_rows = options.batch_rows.clamp(1, BATCH_ROWS_MAX);
        let kept = match columns.is_empty() {
            true => Kept::Count(0),
            false => Kept::Rows(Box::new(BatchCoalescer::new(Arc::clone(&schema), batch_rows))),
        };
        let pages = Pages {
            snapshot: Arc::clone(&snapshot),
            table: table.clone(),
            filter,
            of_filter: Columns::new(table, filtered.clone())?,
            others: Columns::new(table, others.clone())?,
            places,
            options: options.clone(),
            counts: ScanCounts::default(),
        };
        let of_answer = |column: &usize| columns.iter().position(|one| one == column);
        let looked_at: Option<Vec<usize>> = filtered.iter().map(of_answer).collect();
        let looked_at = looked_at.filter(|_| order == FilterOrder::Hint);
        let source = match (table.layout(), &looked_at) {
            (_, Some(looked_at)) => {
                let scan = (Arc::clone(&snapshot), table, options.clone());
                Source::Unfiltered(Box::new(Unfiltered::new(scan, looked_at.clone())?))
            }
            (Layout::Csm | Layout::Pax, None) => {
                let are_whole = pages.are_whole(order);
                Source::Views { views: pages.views(are_whole), are_whole }
            }
            (Layout::Nsm, None) => {
                let columns = Some([filtered, others].concat());
                Source::Rows(Box::new(snapshot.scan(table, ScanOptions { columns, ..options })?))
            }
        };
        let chooser = OrderChooser::default();
        Ok(FilteredScan { pages, schema, source, kept, order, chooser, looked_at })
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was read so far.
    #[must_use]
    pub fn counts(&self) -> ScanCounts {
        let mut counts = self.pages.counts;
        match &self.source {
            Source::Rows(scan) => counts.add(scan.counts()),
            Source::Unfiltered(rows) => counts.add(rows.counts()),
            Source::Views { .. } | Source::Ended => {}
        }
        counts
    }

    /// The next rows; `None` behind the last.
    ///
    /// # Errors
    /// [`Error::Filter`]; errors as of [`Scan::next`].
    ///
    /// # Cancel safety
    /// A call that is dropped loses rows: do not use the scan afterwards.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            // Rows that were kept come before those that come as they are.
            let is_end = matches!(self.source, Source::Ended | Source::Unfiltered(_));
            if let Some(rows) = self.kept.next(&self.schema, is_end)? {
                return Ok(Some(rows));
            }
            match &mut self.source {
                Source::Ended => return Ok(None),
                Source::Rows(scan) => match scan.next().await? {
                    Some(rows) => {
                        let of_filter = rows.columns().get(..self.pages.of_filter.numbers.len());
                        let of_filter = of_filter.unwrap_or_default();
                        let keep = self.pages.keep(of_filter, rows.num_rows())?;
                        let arrays = self.pages.places.iter();
                        let arrays = arrays.filter_map(|place| rows.columns().get(*place).cloned());
                        self.kept.push(&self.schema, arrays.collect(), &keep)?;
                    }
                    None => {
                        self.pages.counts.add(scan.counts());
                        self.source = Source::Ended;
                    }
                },
                Source::Unfiltered(unfiltered) => {
                    let rows = unfiltered.next().await?;
                    let keep = |arrays: &[ArrayRef], rows| self.pages.keep(arrays, rows);
                    let position = match &rows {
                        Some(rows) => unfiltered.look(rows, keep)?,
                        None => None,
                    };
                    if rows.is_none() || position.is_some() {
                        self.pages.counts.add(unfiltered.counts());
                        self.source = Source::Ended;
                    }
                    if let Some(position) = position {
                        self.pages.options.from = position;
                        self.begin(self.pages.are_whole(self.order));
                    }
                    if rows.is_some() {
                        return Ok(rows);
                    }
                }
                Source::Views { views, are_whole } => {
                    let (are_whole, asked) = (*are_whole, now());
                    let view = views.next().await.transpose()?;
                    let ahead_bytes = views.ahead_bytes();
                    match view {
                        Some(view) => {
                            self.pages.counts.bytes += view.bytes();
                            self.chooser.waited(now().since(asked), view.bytes());
                            match are_whole {
                                true => self.take_whole(&view).await?,
                                false => self.take_filtered(&view).await?,
                            }
                            let next = view.next.as_deref();
                            let from = &mut self.pages.options.from;
                            // A sweep may have divided the pages behind in other places since: what came is not to come again.
                            if let Some(next) = next.filter(|next| *next > &from[..]) {
                                *from = next.to_vec();
                            }
                            self.decide((are_whole, ahead_bytes), next.is_some())?;
                        }
                        None => self.source = Source::Ended,
                    }
                }
            }
        }
    }

    /// Keeps rows of a view with all columns.
    async fn take_whole(&mut self, view: &View) -> Result<()> {
        let ScanOptions { from, to, .. } = self.pages.options.clone();
        let bounds = KeyBounds { from: &from, to: to.as_deref() };
        let (units, mut at) = (self.pages.units(true), 0);
        while let Some(page) = PageAt::of(view, at, bounds) {
            let has_rows = self.take(&page, units).await?;
            self.pages.count(&page, !has_rows);
            self.chooser.page(has_rows);
            at += 1;
        }
        Ok(())
    }

    /// Keeps rows of a page with all columns; tells whether there are some.
    async fn take(&mut self, page: &PageAt<'_, '_>, units: UnitSet) -> Result<bool> {
        let (of_filter, keep) = self.pages.filtered(page, units).await?;
        if keep.true_count() == 0 {
            return Ok(false);
        }
        let arrays = self.pages.answer(of_filter, page, units).await?;
        self.kept.push(&self.schema, arrays, &keep)?;
        Ok(true)
    }

    /// Looks for rows to keep in a view with the filter's columns, and reads the pages that have some with all columns.
    async fn take_filtered(&mut self, view: &View) -> Result<()> {
        let ScanOptions { from, to, .. } = self.pages.options.clone();
        let bounds = KeyBounds { from: &from, to: to.as_deref() };
        let (units, mut runs, mut at) = (self.pages.units(false), Vec::<Run>::new(), 0);
        while let Some(page) = PageAt::of(view, at, bounds) {
            let (_, keep) = self.pages.filtered(&page, units).await?;
            let has_rows = keep.true_count() > 0;
            self.pages.count(&page, !has_rows);
            self.chooser.page(has_rows);
            if has_rows {
                let keys = page.keys();
                let to = keys.to.map(Box::from);
                match runs.last_mut().filter(|run| at - run.last <= GAP_PAGES + 1) {
                    Some(run) => {
                        (run.to, run.pages, run.last) = (to, run.pages + at - run.last, at)
                    }
                    None => runs.push(Run { from: keys.from.into(), to, last: at, pages: 1 }),
                }
            }
            at += 1;
        }
        let (of, units) = ((&*self.pages.snapshot, &self.pages.table), self.pages.units(true));
        let reads = runs.iter().map(|run| read_keys(of, units, run.keys(), run.pages));
        let asked = now();
        let read = try_join_all(reads).await?;
        self.chooser.waited_for_single(now().since(asked));
        for (run, views) in runs.iter().zip(&read) {
            for (from, view) in views {
                self.pages.counts.bytes += view.bytes();
                let (bounds, mut at) = (KeyBounds { from, to: run.to.as_deref() }, 0);
                while let Some(page) = PageAt::of(view, at, bounds) {
                    self.take(&page, units).await?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Goes over to the other order where that is better by what was found, from the next view on.
    fn decide(&mut self, (are_whole, ahead_bytes): (bool, u64), goes_on: bool) -> Result<()> {
        let ScanOptions { from, to, .. } = &self.pages.options;
        let is_over = !goes_on || to.as_ref().is_some_and(|to| from >= to);
        let is_chosen = matches!(self.order, FilterOrder::Chosen | FilterOrder::Hint);
        if is_over || !is_chosen {
            return Ok(());
        }
        let decision = self.chooser.decide(are_whole, ahead_bytes);
        let is_most = decision == Decision::Most;
        if let Some(looked_at) = self.looked_at.clone().filter(|_| is_most) {
            let Pages { snapshot, table, options, .. } = &self.pages;
            let scan = (Arc::clone(snapshot), table, options.clone());
            self.source = Source::Unfiltered(Box::new(Unfiltered::new(scan, looked_at)?));
            self.pages.counts.turns += 1;
        } else if !self.pages.are_whole(FilterOrder::First) {
            match decision {
                Decision::First => self.begin(false),
                Decision::Together | Decision::Most if !are_whole => self.begin(true),
                Decision::Stay | Decision::Together | Decision::Most => {}
            }
        }
        Ok(())
    }

    /// Goes on with views that have all columns, or those of the filter.
    fn begin(&mut self, are_whole: bool) {
        self.pages.counts.turns += 1;
        self.source = Source::Views { views: self.pages.views(are_whole), are_whole };
    }
}

impl Pages {
    /// Whether a scan begins with all columns: there may be no others, or all are in one unit.
    fn are_whole(&self, order: FilterOrder) -> bool {
        order == FilterOrder::Together || self.units(true) == self.units(false)
    }
}

impl Snapshot {
    /// Reads columns of the rows of a range that a filter keeps; see [`FilteredScan`].
    ///
    /// # Errors
    /// [`Error::Rows`] for a column that the table does not have.
    pub fn filtered_scan(
        self: Arc<Snapshot>,
        table: &Table,
        options: ScanOptions,
        filter: Arc<dyn RowFilter>,
        order: FilterOrder,
    ) -> Result<FilteredScan> {
        FilteredScan::new(self, table, options, (filter, order))
    }
}

impl std::fmt::Debug for FilteredScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Pages { table, options, .. } = &self.pages;
        f.debug_struct("FilteredScan")
            .field("table", &table.name())
            .field("options", options)
            .finish_non_exhaustive()
    }
}
