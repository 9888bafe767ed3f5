//! How a scan is divided: row groups that are read one after the other, each as one batch of I/O.
//!
//! Of a CSM table a group is the wanted pages of one extent: with full extents, a parallel ensemble
//! for each slot. Of a table that is all heap pages, a group is about a parallel ensemble of pages.

use std::ops::Range;

use moirai_units::BlockCount;

use crate::Result;
use crate::catalog::ColumnPages;
use crate::directory::Directory;
use crate::table::Table;

/// Which pages of a table a scan reads: a flag for each A-page, or each page of rows.
pub type PageMask = Vec<bool>;

/// Rows that are read together: ascending ranges that do not touch.
pub(crate) type RowGroup = Vec<Range<u64>>;

/// How many rows a group has.
pub(crate) fn row_count(group: &[Range<u64>]) -> u64 {
    group.iter().map(|rows| rows.end - rows.start).sum()
}

/// The groups of a scan of `table` that reads `columns`, of the pages in `mask` only, and of those
/// only what lies in `rows`.
pub(crate) async fn row_groups(
    table: &Table,
    columns: &[usize],
    mask: Option<&PageMask>,
    rows: Range<u64>,
) -> Result<Vec<RowGroup>> {
    let mut groups = match table.column_pages() {
        Some(pages) => column_groups(table, pages, mask, &rows),
        None => {
            // Rows, or the first wanted text; without either there is nothing to read.
            let heap = table
                .heap(None)
                .or_else(|| columns.iter().find_map(|column| table.heap(Some(*column))));
            match heap {
                Some((index, _)) => heap_groups(table, table.directory(index).await?, mask, &rows)?,
                None => vec![std::iter::once(0..table.rows()).collect()],
            }
        }
    };
    for group in &mut groups {
        clip(group, &rows);
    }
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}

/// The first `limit` rows of `groups`.
pub(crate) fn limit_rows(groups: &mut Vec<RowGroup>, limit: u64) {
    let mut left = limit;
    for group in groups.iter_mut() {
        group.retain_mut(|range| {
            range.end = range.end.min(range.start.saturating_add(left));
            left -= range.end - range.start;
            !range.is_empty()
        });
    }
    groups.retain(|group| !group.is_empty());
}

fn clip(group: &mut RowGroup, rows: &Range<u64>) {
    group.retain_mut(|range| {
        range.start = range.start.max(rows.start);
        range.end = range.end.min(rows.end);
        !range.is_empty()
    });
}

fn column_groups(
    table: &Table,
    pages: &ColumnPages,
    mask: Option<&PageMask>,
    rows: &Range<u64>,
) -> Vec<RowGroup> {
    let page_rows = u64::from(pages.shape.rows);
    let all_pages = table.rows().div_ceil(page_rows);
    let extents = pages.extents.iter().zip(&table.extent_first_pages);
    let first_wanted = table
        .extent_first_pages
        .partition_point(|first_page| first_page * page_rows <= rows.start)
        .saturating_sub(1);
    extents
        .skip(first_wanted)
        .take_while(|(_, first_page)| *first_page * page_rows < rows.end)
        .map(|(extent, first_page)| {
            let end_page = (first_page + extent.columns / pages.shape.unit_blocks).min(all_pages);
            let wanted = wanted_runs(*first_page..end_page, mask).into_iter();
            wanted
                .map(|run| run.start * page_rows..(run.end * page_rows).min(table.rows()))
                .collect()
        })
        .collect()
}

fn heap_groups(
    table: &Table,
    directory: &Directory,
    mask: Option<&PageMask>,
    rows: &Range<u64>,
) -> Result<Vec<RowGroup>> {
    let mut groups = Vec::new();
    let wanted = directory.page_range(rows);
    let pages = directory.pages().get(..wanted.end).unwrap_or(&[]);
    let mut start = wanted.start;
    while let Some(first) = pages.get(start) {
        let parallel = table.device.parallel_ensemble(first.blocks.first)?;
        let mut blocks = BlockCount::ZERO;
        let mut end = start;
        while let Some(page) = pages.get(end) {
            let inside = parallel.contains(page.blocks.first);
            if end > start && (!inside || blocks + page.blocks.count > parallel.count) {
                break;
            }
            blocks += page.blocks.count;
            end += 1;
        }
        let wanted = wanted_runs(start as u64..end as u64, mask).into_iter();
        let rows = wanted.filter_map(|run| {
            let first = pages.get(run.start as usize)?;
            let last = pages.get(run.end as usize - 1)?;
            Some(first.first_row..last.first_row + u64::from(last.rows))
        });
        groups.push(rows.collect());
        start = end;
    }
    Ok(groups)
}

/// The runs of pages in `pages` that `mask` wants; pages past its end are wanted.
fn wanted_runs(pages: Range<u64>, mask: Option<&PageMask>) -> Vec<Range<u64>> {
    let wanted = |page: u64| {
        let flag = mask.and_then(|mask| mask.get(usize::try_from(page).ok()?));
        flag.copied().unwrap_or(true)
    };
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages.filter(|page| wanted(*page)) {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_become_runs() {
        let mask = vec![true, true, false, true, false];
        assert_eq!(wanted_runs(0..5, Some(&mask)), [0..2, 3..4]);
        assert_eq!(wanted_runs(1..7, Some(&mask)), [1..2, 3..4, 5..7]);
        assert!(wanted_runs(2..3, Some(&mask)).is_empty());
        assert_eq!(wanted_runs(4..9, None).first(), Some(&(4..9)));
        assert!(wanted_runs(4..4, None).is_empty());
    }

    #[test]
    fn a_limit_takes_the_first_rows() {
        let one = |rows: Range<u64>| std::iter::once(rows).collect::<RowGroup>();
        let cut = |limit| {
            let mut groups = vec![vec![0..20, 40..60], one(60..80)];
            limit_rows(&mut groups, limit);
            groups
        };
        assert_eq!(cut(u64::MAX).len(), 2);
        assert!(cut(0).is_empty());
        assert_eq!(cut(5), [one(0..5)]);
        assert_eq!(cut(31), [[0..20, 40..51]]);
        assert_eq!(cut(41), [vec![0..20, 40..60], one(60..61)]);
    }

    #[test]
    fn a_range_of_rows_clips_every_group() {
        let mut group = vec![0..20, 40..60, 80..90];
        clip(&mut group, &(10..50));
        assert_eq!(group, [10..20, 40..50]);
    }
}
