//! Reads columns of given rows: plans which blocks, reads them as one batch, takes the pages apart.

use std::ops::Range;

use arrow_array::ArrayRef;
use bytes::Bytes;
use moirai_units::{BlockCount, BlockRange};

use crate::Result;
use crate::catalog::ColumnPages;
use crate::columns::Output;
use crate::directory::DirectoryPage;
use crate::groups::row_count;
use crate::heap::{HeapPlace, Page};
use crate::minipage::{self, UnitFormat, UnitPlace};
use crate::reader::{Mode, read_runs};
use crate::shape::MinipageShape;
use crate::table::Table;

/// The blocks that hold some columns of some rows, and where in them the values are.
#[derive(Debug)]
pub(crate) struct ReadPlan<'a> {
    table: &'a Table,
    /// Ascending ranges of rows.
    rows: &'a [Range<u64>],
    /// What to read, each run into a buffer of its own.
    runs: Vec<BlockRange>,
    sources: Vec<Source<'a>>,
}

/// Where columns come from.
#[derive(Debug)]
enum Source<'a> {
    /// One fixed-size column, from A-pages.
    Minipage {
        minipage: &'a MinipageShape,
        format: UnitFormat,
        page_rows: u64,
        /// For each unit of the minipage, the runs of pages whose unit is read.
        units: Vec<Vec<PageRun>>,
    },
    /// One text column, from pages of its own.
    Text { column: usize, pages: Vec<HeapPage> },
    /// All columns, from pages of rows.
    Rows { columns: Vec<usize>, pages: Vec<HeapPage> },
}

/// Consecutive A-pages in a buffer.
#[derive(Debug)]
struct PageRun {
    pages: Range<u64>,
    run: usize,
}

/// A heap page in a buffer.
#[derive(Debug)]
struct HeapPage {
    page: DirectoryPage,
    run: usize,
}

impl<'a> ReadPlan<'a> {
    /// Plans to read `columns`, which ascend, of `rows`.
    pub(crate) async fn new(
        table: &'a Table,
        columns: &[usize],
        rows: &'a [Range<u64>],
    ) -> Result<ReadPlan<'a>> {
        let mut plan = ReadPlan { table, rows, runs: Vec::new(), sources: Vec::new() };
        if let Some((index, _)) = table.heap(None).filter(|_| !columns.is_empty()) {
            let pages = plan.heap_pages(index).await?;
            plan.sources.push(Source::Rows { columns: columns.to_vec(), pages });
            return Ok(plan);
        }
        for column in columns {
            let minipage = table
                .column_pages()
                .and_then(|pages| Some((pages, pages.shape.minipage(*column)?)));
            let source = match (minipage, table.heap(Some(*column))) {
                (Some((pages, minipage)), _) => plan.minipage(pages, minipage),
                (None, Some((index, _))) => {
                    Source::Text { column: *column, pages: plan.heap_pages(index).await? }
                }
                (None, None) => return Err(table.no_column(*column)),
            };
            plan.sources.push(source);
        }
        Ok(plan)
    }

    /// The runs of blocks that are read.
    pub(crate) fn runs(&self) -> &[BlockRange] {
        &self.runs
    }

    fn minipage(&mut self, pages: &'a ColumnPages, minipage: &'a MinipageShape) -> Source<'a> {
        let attribute = self.table.entry.attributes.get(minipage.attribute);
        let format = UnitFormat {
            width_bytes: attribute.and_then(|a| a.attribute_type.width_bytes()).unwrap_or(1),
            nullable: attribute.is_some_and(|attribute| attribute.nullable),
            unit_values: minipage.unit_values,
        };
        let page_rows = u64::from(pages.shape.rows);
        let mut units: Vec<Vec<PageRun>> = Vec::with_capacity(minipage.units);
        for unit in 0..minipage.units {
            let mut unit_runs: Vec<PageRun> = Vec::new();
            for rows in self.rows {
                let wanted = pages_with_unit(rows, page_rows, unit, minipage.unit_values);
                self.add_pages(pages, minipage.first_slot + unit, wanted, &mut unit_runs);
            }
            units.push(unit_runs);
        }
        Source::Minipage { minipage, format, page_rows, units }
    }

    /// Adds the blocks of slot `slot` of pages `wanted`, extent by extent.
    fn add_pages(
        &mut self,
        pages: &ColumnPages,
        slot: usize,
        mut wanted: Range<u64>,
        unit_runs: &mut Vec<PageRun>,
    ) {
        // Ranges ascend, so that only the last page of the one before can be wanted again.
        if let Some(last) = unit_runs.last() {
            wanted.start = wanted.start.max(last.pages.end);
        }
        let unit = pages.shape.unit_blocks;
        let first_pages = &self.table.extent_first_pages;
        while !wanted.is_empty() {
            let index = first_pages.partition_point(|first| *first <= wanted.start).wrapping_sub(1);
            let (Some(extent), Some(first_page)) =
                (pages.extents.get(index), first_pages.get(index))
            else {
                return;
            };
            let end_page = (first_page + extent.columns / unit).min(wanted.end);
            let Some(blocks) = extent.slot(slot) else {
                return;
            };
            if end_page <= wanted.start {
                return;
            }
            self.runs.push(BlockRange::new(
                blocks.first + BlockCount((wanted.start - first_page) * unit),
                BlockCount((end_page - wanted.start) * unit),
            ));
            unit_runs.push(PageRun { pages: wanted.start..end_page, run: self.runs.len() - 1 });
            wanted.start = end_page;
        }
    }

    /// Adds the blocks of the pages of heap `index` that hold the rows.
    async fn heap_pages(&mut self, index: usize) -> Result<Vec<HeapPage>> {
        let directory = self.table.directory(index).await?;
        let mut pages: Vec<HeapPage> = Vec::new();
        let first_run = self.runs.len();
        for rows in self.rows {
            for page in directory.pages_of(rows.clone()) {
                if pages.last().is_some_and(|last| last.page == *page) {
                    continue;
                }
                let is_own = self.runs.len() > first_run;
                match self.runs.last_mut() {
                    Some(run) if is_own && run.end() == page.blocks.first => {
                        run.count += page.blocks.count;
                    }
                    _ => self.runs.push(page.blocks),
                }
                pages.push(HeapPage { page: *page, run: self.runs.len() - 1 });
            }
        }
        Ok(pages)
    }

    /// Accesses the blocks without wanting their data.
    pub(crate) async fn access(&self) -> Result<()> {
        read_runs(&*self.table.device, &self.runs, Mode::Access).await.map(drop)
    }

    /// Reads the blocks and gives the columns, in their order.
    pub(crate) async fn read(&self) -> Result<Vec<ArrayRef>> {
        let buffers = read_runs(&*self.table.device, &self.runs, Mode::Data).await?;
        let buffers: Vec<Bytes> = buffers.into_iter().map(|buffer| buffer.freeze()).collect();
        let mut arrays = Vec::new();
        for source in &self.sources {
            match source {
                Source::Minipage { minipage, format, page_rows, units } => arrays
                    .push(self.decode_minipage(minipage, *format, *page_rows, units, &buffers)?),
                Source::Text { column, pages } => {
                    arrays.push(self.decode_text(*column, pages, &buffers)?);
                }
                Source::Rows { columns, pages } => {
                    arrays.extend(self.decode_rows(columns, pages, &buffers)?);
                }
            }
        }
        Ok(arrays)
    }

    fn output(&self, column: usize) -> Result<Output> {
        let attribute = self.table.entry.attributes.get(column);
        let attribute = attribute.ok_or_else(|| self.table.no_column(column))?;
        Ok(Output::new(attribute, row_count(self.rows) as usize))
    }

    fn decode_minipage(
        &self,
        minipage: &MinipageShape,
        format: UnitFormat,
        page_rows: u64,
        units: &[Vec<PageRun>],
        buffers: &[Bytes],
    ) -> Result<ArrayRef> {
        let mut output = self.output(minipage.attribute)?;
        let unit_rows = u64::from(minipage.unit_values);
        let mut cursors: Vec<UnitCursor<'_>> =
            units.iter().map(|runs| UnitCursor::new(runs)).collect();
        for rows in self.rows {
            for page in rows.start / page_rows..rows.end.div_ceil(page_rows) {
                let page_first = page * page_rows;
                let wanted = rows.start.max(page_first) - page_first
                    ..rows.end.min(page_first + page_rows) - page_first;
                for (unit, cursor) in cursors.iter_mut().enumerate() {
                    let unit_first = unit as u64 * unit_rows;
                    let start = wanted.start.max(unit_first);
                    let end = wanted.end.min(unit_first + unit_rows);
                    if start >= end {
                        continue;
                    }
                    let place = UnitPlace {
                        table: self.table.entry.id,
                        page: page as u32,
                        attribute: minipage.attribute as u16,
                        unit: unit as u16,
                    };
                    let found = cursor.seek(page);
                    let damaged =
                        |problem| self.damaged_page(Some(minipage.attribute), page, found, problem);
                    let unit_blocks = self.table.column_pages().map_or(0, |p| p.shape.unit_blocks);
                    let bytes = found
                        .and_then(|(run, index)| {
                            let unit_bytes = BlockCount(unit_blocks).bytes().0 as usize;
                            buffers.get(run)?.get(index * unit_bytes..(index + 1) * unit_bytes)
                        })
                        .ok_or_else(|| damaged("the page was not read"))?;
                    let values = minipage::decode(bytes, place, format).map_err(&damaged)?;
                    let (skip, count) = ((start - unit_first) as usize, (end - start) as usize);
                    if values.count < skip + count {
                        return Err(damaged("the page holds fewer values than the table has rows"));
                    }
                    output.extend(values, skip, count);
                }
            }
        }
        output.finish()
    }

    fn decode_text(
        &self,
        column: usize,
        pages: &[HeapPage],
        buffers: &[Bytes],
    ) -> Result<ArrayRef> {
        let mut output = self.output(column)?;
        let mut block = None;
        self.each_heap_page(Some(column), pages, buffers, |page, range, run, bytes, offset| {
            let block = match block {
                Some((of_run, block)) if of_run == run => block,
                _ => {
                    let added = output.add_block(bytes);
                    block = Some((run, added));
                    added
                }
            };
            output.extend_text(page, block, offset, range)
        })?;
        output.finish()
    }

    fn decode_rows(
        &self,
        columns: &[usize],
        pages: &[HeapPage],
        buffers: &[Bytes],
    ) -> Result<Vec<ArrayRef>> {
        let outputs: Result<Vec<Output>> =
            columns.iter().map(|column| self.output(*column)).collect();
        let mut outputs = outputs?;
        self.each_heap_page(None, pages, buffers, |page, range, _, _, _| {
            for index in range {
                self.table.row_format.decode(page.record(index), columns, |column, value| {
                    outputs.get_mut(column).map_or(Ok(()), |output| output.push(value))
                })?;
            }
            Ok(())
        })?;
        outputs.into_iter().map(Output::finish).collect()
    }

    /// Calls `each` with the pages of a heap that hold the rows: the page, the range of its records
    /// that are wanted, the run it was read with, the run's bytes, and where in them it begins.
    fn each_heap_page(
        &self,
        attribute: Option<usize>,
        pages: &[HeapPage],
        buffers: &[Bytes],
        mut each: impl FnMut(
            &Page<'_>,
            Range<usize>,
            usize,
            &Bytes,
            usize,
        ) -> std::result::Result<(), &'static str>,
    ) -> Result<()> {
        let place: HeapPlace = self.table.heap_place(attribute);
        let mut first = 0;
        for rows in self.rows {
            while pages
                .get(first)
                .is_some_and(|p| p.page.first_row + u64::from(p.page.rows) <= rows.start)
            {
                first += 1;
            }
            for heap_page in pages.iter().skip(first).take_while(|p| p.page.first_row < rows.end) {
                let DirectoryPage { first_row, rows: page_rows, blocks } = heap_page.page;
                let damaged = |problem| {
                    let what = format!(
                        "the page of {} from row {first_row} on",
                        self.table.attribute_name(attribute)
                    );
                    self.table.damaged(what, Some(blocks), problem)
                };
                let (Some(run), Some(bytes)) =
                    (self.runs.get(heap_page.run), buffers.get(heap_page.run))
                else {
                    return Err(damaged("the page was not read"));
                };
                let offset = blocks.first.since(run.first).bytes().0 as usize;
                let content = bytes.get(offset..offset + blocks.bytes().0 as usize);
                let page = Page::decode(content.unwrap_or(&[]), place).map_err(&damaged)?;
                if (page.first_row, page.count()) != (first_row, page_rows as usize) {
                    return Err(damaged("the page holds other rows than the directory says"));
                }
                let end = first_row + u64::from(page_rows);
                let start = (rows.start.max(first_row) - first_row) as usize;
                let end = (rows.end.min(end) - first_row) as usize;
                each(&page, start..end, heap_page.run, bytes, offset).map_err(&damaged)?;
            }
        }
        Ok(())
    }

    fn damaged_page(
        &self,
        attribute: Option<usize>,
        page: u64,
        found: Option<(usize, usize)>,
        problem: &str,
    ) -> crate::Error {
        let what = format!("page {page} of {}", self.table.attribute_name(attribute));
        let blocks = found.and_then(|(run, index)| {
            let unit = self.table.column_pages()?.shape.unit_blocks;
            let first = self.runs.get(run)?.first + BlockCount(index as u64 * unit);
            Some(BlockRange::new(first, BlockCount(unit)))
        });
        self.table.damaged(what, blocks, problem)
    }
}

/// The pages of `rows` in which unit `unit` of a minipage holds any of them.
fn pages_with_unit(rows: &Range<u64>, page_rows: u64, unit: usize, unit_values: u32) -> Range<u64> {
    let unit_first = unit as u64 * u64::from(unit_values);
    let unit_end = unit_first + u64::from(unit_values);
    let mut first = rows.start / page_rows;
    if rows.start % page_rows >= unit_end {
        first += 1;
    }
    let mut end = rows.end.div_ceil(page_rows);
    if end > first && (rows.end - 1) % page_rows < unit_first {
        end -= 1;
    }
    first..end.max(first)
}

/// Finds pages in the runs of a unit, whose order is that of the pages.
struct UnitCursor<'a> {
    runs: &'a [PageRun],
}

impl<'a> UnitCursor<'a> {
    fn new(runs: &'a [PageRun]) -> Self {
        UnitCursor { runs }
    }

    /// The run that holds `page`, and the page's place in it. Pages are asked for in order.
    fn seek(&mut self, page: u64) -> Option<(usize, usize)> {
        while let Some((first, rest)) = self.runs.split_first() {
            if page < first.pages.end {
                let index = page.checked_sub(first.pages.start)?;
                return Some((first.run, index as usize));
            }
            self.runs = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_units_that_hold_wanted_rows_are_read() {
        // Pages of 10 rows, units of 4: rows 0-3, 4-7, 8-9 of each page.
        let pages = |rows: Range<u64>| {
            (0..3).map(|unit| pages_with_unit(&rows, 10, unit, 4)).collect::<Vec<_>>()
        };
        assert_eq!(pages(0..20), [0..2, 0..2, 0..2]);
        assert_eq!(pages(5..6), [1..1, 0..1, 0..0]);
        assert_eq!(pages(5..13), [1..2, 0..1, 0..1]);
        assert_eq!(pages(8..25), [1..3, 1..3, 0..2]);
        assert_eq!(pages(19..20), [2..2, 2..2, 1..2]);
    }
}
