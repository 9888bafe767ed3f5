//! Scans with filters: the rows that a filter keeps of a whole scan, and no more bytes than that takes.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};
use moirai_devices::Power;
use moirai_runtime::{block_on_virtual, each_seed, random, spawn};
use moirai_tables::{
    Changes, Error as TablesError, FilterOrder, Layout, LoadOptions, PageOptions, RowFilter,
    ScanCounts, ScanOptions, Snapshot, Table, TableDefinition, Tables,
};
use moirai_units::ByteCount;
use moirai_update::Options;
use rand::Rng;

use crate::common::Devices;

const ROWS: i64 = 20_000;
const COLUMNS: usize = 6;
const ORDERS: [FilterOrder; 3] = [FilterOrder::Chosen, FilterOrder::Together, FilterOrder::First];

async fn opened() -> Arc<Tables> {
    opened_with(Options::default()).await
}

async fn opened_with(options: Options) -> Arc<Tables> {
    let devices = Devices::formatted(&Power::on(), 200_000, 20_000).await;
    devices.open(options).await.unwrap()
}

/// A table of numbers whose first column is its key, in short pages.
async fn loaded(tables: &Arc<Tables>, layout: Layout) -> Table {
    let pages = PageOptions::of(layout);
    let short = PageOptions { rows_max: 200, page_bytes: ByteCount(16 << 10), ..pages };
    loaded_in(tables, if layout == Layout::Nsm { pages } else { short }, 1).await
}

/// The same, with the numbers that `step` divides as keys.
async fn loaded_in(tables: &Arc<Tables>, pages: PageOptions, step: i64) -> Table {
    let field = |column| Field::new(format!("c{column}"), DataType::Int64, column > 0);
    let schema = Schema::new((0..COLUMNS).map(field).collect::<Vec<_>>());
    let mut definition = TableDefinition::new(schema, &["c0"]).unwrap();
    definition.pages = pages;
    let mut load = tables.load("t", definition, LoadOptions::default()).await.unwrap();
    let mut random = random("numbers");
    // Noise, which no encoding makes shorter.
    let columns: Vec<ArrayRef> = (0..COLUMNS)
        .map(|column| -> ArrayRef {
            let mut number = |row| if column == 0 { row * step } else { random.random() };
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(&mut number)))
        })
        .collect();
    let rows = RecordBatch::try_new(Arc::clone(load.table().schema()), columns).unwrap();
    load.push(&rows).await.unwrap();
    load.finish().await.unwrap().0
}

/// Keeps rows by the values of some columns.
struct Keep<F> {
    columns: Vec<usize>,
    keeps: F,
}

impl<F: Fn(&[i64]) -> Option<bool> + Send + Sync> RowFilter for Keep<F> {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, rows: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> {
        assert_eq!(rows.num_columns(), self.columns.len());
        let columns: Vec<_> =
            rows.columns().iter().map(|array| array.as_primitive::<Int64Type>()).collect();
        let of_row = |row| columns.iter().map(|array| array.value(row)).collect::<Vec<_>>();
        Ok((0..rows.num_rows()).map(|row| (self.keeps)(&of_row(row))).collect())
    }
}

async fn filtered(
    snapshot: &Arc<Snapshot>,
    table: &Table,
    options: ScanOptions,
    filter: Arc<dyn RowFilter>,
    order: FilterOrder,
) -> Result<(RecordBatch, ScanCounts), TablesError> {
    let mut scan = Arc::clone(snapshot).filtered_scan(table, options, filter, order)?;
    let (schema, mut batches, mut rows) = (Arc::clone(scan.schema()), Vec::new(), 0);
    while let Some(batch) = scan.next().await? {
        assert!(batch.num_rows() > 0);
        rows += batch.num_rows();
        batches.push(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let all = match schema.fields().is_empty() {
        true => RecordBatch::try_new_with_options(schema, vec![], &options).unwrap(),
        false => arrow_select::concat::concat_batches(&schema, &batches).unwrap(),
    };
    Ok((all, scan.counts()))
}

/// All columns of a range.
async fn expected_of(
    snapshot: &Arc<Snapshot>,
    table: &Table,
    options: &ScanOptions,
) -> Result<RecordBatch, TablesError> {
    let all = ScanOptions { columns: None, ..options.clone() };
    let mut scan = Arc::clone(snapshot).scan(table, all)?;
    let mut batches = Vec::new();
    while let Some(batch) = scan.next().await? {
        batches.push(batch);
    }
    Ok(arrow_select::concat::concat_batches(table.schema(), &batches).unwrap())
}

/// What a filter keeps of them, of the columns that are asked for.
fn kept(all: &RecordBatch, filter: &dyn RowFilter, options: &ScanOptions) -> RecordBatch {
    let keep = filter.keep(&all.project(filter.columns()).unwrap()).unwrap();
    let kept = arrow_select::filter::filter_record_batch(all, &keep).unwrap();
    kept.project(options.columns.as_deref().unwrap()).unwrap()
}

/// What a filter keeps of a scan of all columns.
async fn expected(
    snapshot: &Arc<Snapshot>,
    table: &Table,
    options: &ScanOptions,
    filter: &dyn RowFilter,
) -> RecordBatch {
    let all = expected_of(snapshot, table, options).await.unwrap();
    kept(&all, filter, options)
}

type Predicate = fn(&[i64]) -> Option<bool>;

#[test]
fn a_filter_keeps_the_same_rows_in_every_order() {
    for layout in Layout::ALL {
        block_on_virtual(7, async {
            let tables = opened().await;
            let table = loaded(&tables, layout).await;
            let mut random = random("filters");
            // Freshly loaded, and with changes pending.
            for part in 0..2 {
                let snapshot = tables.snapshot().await;
                let predicates: [(&[usize], Predicate); 6] = [
                    (&[0], |values| Some((4000..4100).contains(&values[0]))),
                    (&[1], |values| Some(values[0] % 2 == 0)),
                    (&[3, 1], |values| Some(values[0] > 0 && values[1] % 7 == 0)),
                    (&[2], |values| (values[0] % 3 != 0).then_some(values[0] % 500 == 0)),
                    (&[5], |_| Some(false)),
                    (&[4, 0, 2], |_| Some(true)),
                ];
                for (columns, keeps) in predicates {
                    for order in ORDERS {
                        let mut wanted: Vec<usize> =
                            (0..COLUMNS).filter(|_| random.random_bool(0.5)).collect();
                        wanted.reverse();
                        let mut options = ScanOptions {
                            columns: Some(wanted),
                            batch_rows: random.random_range(1..5000),
                            ..ScanOptions::default()
                        };
                        if random.random_bool(0.5) {
                            let key = |id: i64| {
                                let ids: ArrayRef = Arc::new(Int64Array::from(vec![id]));
                                table.key(&[ids]).unwrap()
                            };
                            options.from = key(random.random_range(0..ROWS / 2));
                            options.to = Some(key(random.random_range(ROWS / 2..ROWS)));
                        }
                        let filter = Arc::new(Keep { columns: columns.to_vec(), keeps });
                        let mut right = expected(&snapshot, &table, &options, &*filter).await;
                        let columns = options.columns.clone().unwrap();
                        let (found, _) =
                            filtered(&snapshot, &table, options, filter, order).await.unwrap();
                        if columns.is_empty() {
                            assert_eq!(found.num_rows(), right.num_rows());
                            right = found.clone();
                        }
                        assert_eq!(found, right, "{layout:?}, {part}, {columns:?}, {order:?}");
                    }
                }
                let ids: Vec<i64> = (0..500).map(|_| random.random_range(0..ROWS)).collect();
                let ids: ArrayRef = Arc::new(Int64Array::from(ids));
                let numbers: ArrayRef =
                    Arc::new(Int64Array::from_iter_values((0..500).map(|one| one * 2)));
                let mut changes = Changes::new();
                changes.set(&table, std::slice::from_ref(&ids), &[(1, numbers)], &[]).unwrap();
                let gone = ids.slice(0, 50);
                changes.delete(&table, &[gone]).unwrap();
                tables.commit(&changes).await.unwrap();
            }
        });
    }
}

/// Few pages have rows to keep, or all have, or first all and then none: the order that is chosen reads about as little as the better one,
/// and goes over when that changes.
#[test]
fn the_order_that_reads_less_is_chosen() {
    block_on_virtual(7, async {
        let tables = opened().await;
        let table = loaded(&tables, Layout::Csm).await;
        let snapshot = tables.snapshot().await;
        let predicates: [(usize, Predicate); 4] = [
            (0, |values| Some((4000..4100).contains(&values[0]))),
            (1, |values| Some(values[0] % 10 == 0)),
            (0, |values| Some(values[0] < 10_000)),
            (0, |values| Some(values[0] > 10_000)),
        ];
        let mut read = Vec::new();
        for (column, keeps) in predicates {
            let mut counts = Vec::new();
            for order in ORDERS {
                let filter = Arc::new(Keep { columns: vec![column], keeps });
                let options =
                    ScanOptions { columns: Some(vec![2, 3, 4, 5]), ..ScanOptions::default() };
                let found = filtered(&snapshot, &table, options, filter, order).await.unwrap();
                counts.push(found.1);
            }
            read.push(counts);
        }
        let [few, all, first_half, second_half] = &read[..] else { panic!("{read:?}") };
        let [chosen, together, first] = few[..] else { panic!("{read:?}") };
        // The key takes next to nothing: a few of a hundred pages are read of each other column.
        assert!(first.bytes < together.bytes / 5 && chosen.bytes <= first.bytes, "{few:?}");
        assert_eq!((chosen.turns, together.turns, first.turns), (0, 0, 0), "{few:?}");
        // After some pages all columns are read together.
        let [chosen, together, first] = all[..] else { panic!("{read:?}") };
        assert!(together.bytes < chosen.bytes && chosen.bytes < first.bytes, "{all:?}");
        assert_eq!(chosen.turns, 1, "{all:?}");
        for (half, turns) in [(first_half, 2), (second_half, 1)] {
            let [chosen, together, first] = half[..] else { panic!("{half:?}") };
            assert_eq!(chosen.turns, turns, "{half:?}");
            assert!(chosen.bytes < together.bytes.max(first.bytes) * 11 / 10, "{half:?}");
        }
    });
}

/// Pages of which one request does not read as many as a row group has.
#[test]
fn runs_of_long_pages_are_read_in_parts() {
    block_on_virtual(7, async {
        let tables = opened().await;
        let table = loaded_in(&tables, PageOptions::of(Layout::Csm), 1).await;
        let snapshot = tables.snapshot().await;
        for keeps in [(|values: &[i64]| Some(values[0] % 1000 == 0)) as Predicate, |values| {
            Some(values[0] % 9000 == 0)
        }] {
            let filter = Arc::new(Keep { columns: vec![0], keeps });
            let options =
                ScanOptions { columns: Some(vec![5, 4, 3, 2, 1, 0]), ..ScanOptions::default() };
            let right = expected(&snapshot, &table, &options, &*filter).await;
            let order = FilterOrder::First;
            let found = filtered(&snapshot, &table, options, filter, order).await.unwrap();
            assert_eq!(found.0, right);
        }
    });
}

/// Sweeps divide pages in other places while a scan reads: no row comes twice, and none is left out.
#[test]
fn scans_are_right_while_sweeps_move_pages() {
    let survive = async || {
        let memory = ByteCount(random("memory").random_range(128..512) << 10);
        let tables = opened_with(Options { memory, ..Options::default() }).await;
        let layout = if random("layout").random_bool(0.7) { Layout::Csm } else { Layout::Pax };
        let pages = PageOptions {
            rows_max: 20,
            page_bytes: ByteCount(4 << 10),
            group_pages: 4,
            ..PageOptions::of(layout)
        };
        let table = loaded_in(&tables, pages, 2).await;
        let ended = Arc::new(AtomicBool::new(false));
        let writer = {
            let (tables, table, ended) = (Arc::clone(&tables), table.clone(), Arc::clone(&ended));
            spawn(async move {
                let mut random = random("writer");
                // Rows behind those of the load, and gone again: pages become full, are divided, and joined.
                while !ended.load(Ordering::Relaxed) {
                    let first = random.random_range(0..ROWS);
                    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
                        (first..first + 200).map(|id| id * 2 + 1),
                    ));
                    let mut changes = Changes::new();
                    if random.random_bool(0.5) {
                        let columns = vec![Arc::clone(&ids); COLUMNS];
                        let rows = RecordBatch::try_new(Arc::clone(table.schema()), columns);
                        changes.put(&table, &rows.unwrap()).unwrap();
                    } else {
                        changes.delete(&table, &[ids]).unwrap();
                    }
                    tables.commit(&changes).await.unwrap();
                }
            })
        };
        let mut random = random("reader");
        for _ in 0..10 {
            let snapshot = tables.snapshot().await;
            let order = match random.random_range(0..4) {
                3 => FilterOrder::Hint,
                one => ORDERS[one],
            };
            let mut options = ScanOptions { columns: Some(vec![0, 2]), ..ScanOptions::default() };
            let from = random.random_range(0..ROWS);
            if random.random_bool(0.7) {
                let key: ArrayRef = Arc::new(Int64Array::from(vec![from]));
                options.from = table.key(&[key]).unwrap();
            }
            // The rows of the load have even numbers, and stay.
            let keeps: Predicate = match random.random_range(0..3) {
                0 => |values| Some(values[0] % 2 == 0),
                1 => |values| Some(values[0] % 2 == 0 && values[0] % 300 == 0),
                _ => |values| Some(values[0] % 2 == 0 && values[0] / 2000 % 4 == 0),
            };
            let filter = Arc::new(Keep { columns: vec![0], keeps });
            let least = if options.from.is_empty() { 0 } else { from };
            let found = match random.random_bool(0.5) {
                true => filtered(&snapshot, &table, options, filter, order).await.map(|all| all.0),
                false => {
                    let all = expected_of(&snapshot, &table, &options).await;
                    all.map(|all| kept(&all, &*filter, &options))
                }
            };
            // With little memory a snapshot may end.
            let Ok(found) = found else { continue };
            let mut ids: Vec<i64> = found.column(0).as_primitive::<Int64Type>().values().to_vec();
            if order == FilterOrder::Hint {
                ids.retain(|id| keeps(&[*id]) == Some(true));
            }
            let right = (0..ROWS).map(|id| id * 2).filter(|id| *id >= least);
            let right: Vec<i64> = right.filter(|id| keeps(&[*id]) == Some(true)).collect();
            assert_eq!(ids, right);
        }
        ended.store(true, Ordering::Relaxed);
        writer.await;
    };
    each_seed(if cfg!(debug_assertions) { 4 } else { 200 }, survive);
}

/// All rows that the filter keeps come once, in the order of their keys; where it keeps some of most pages, so do the others.
#[test]
fn a_hint_leaves_out_nothing_that_the_filter_keeps() {
    let all: Vec<usize> = (0..COLUMNS).collect();
    // A quarter of the rows at the beginning, and then none; few everywhere; none; all.
    let predicates: [(usize, Predicate); 4] = [
        (0, |values| Some(values[0] < ROWS / 4)),
        (0, |values| Some(values[0] % 1000 == 500)),
        (1, |_| Some(false)),
        (2, |_| Some(true)),
    ];
    for layout in Layout::ALL {
        block_on_virtual(7, async {
            let tables = opened().await;
            let pages = PageOptions::of(layout);
            let short = PageOptions { rows_max: 20, page_bytes: ByteCount(4 << 10), ..pages };
            let pages = if layout == Layout::Nsm { pages } else { short };
            let table = loaded_in(&tables, pages, 1).await;
            for part in 0..2 {
                let snapshot = tables.snapshot().await;
                let mut counts = Vec::new();
                for (column, keeps) in predicates {
                    let filter = Arc::new(Keep { columns: vec![column], keeps });
                    // 25 pages.
                    let columns = Some(all.clone());
                    let options =
                        ScanOptions { columns, batch_rows: 500, ..ScanOptions::default() };
                    let right = expected(&snapshot, &table, &options, &*filter).await;
                    let hint = (Arc::clone(&filter) as Arc<dyn RowFilter>, FilterOrder::Hint);
                    let (found, read) =
                        filtered(&snapshot, &table, options.clone(), hint.0, hint.1).await.unwrap();
                    assert_eq!(kept(&found, &*filter, &options), right, "{layout:?}, {part}");
                    counts.push((found.num_rows() as i64, read));
                }
                let [(quarter, turned), (few, _), (none, _), (whole, _)] = counts[..] else {
                    panic!("{counts:?}")
                };
                match layout {
                    Layout::Nsm => assert_eq!((quarter, few, none), (whole, whole, whole)),
                    Layout::Csm | Layout::Pax => {
                        // The first batch comes as it is.
                        assert!(quarter < ROWS / 2 && none < 550, "{counts:?}");
                        assert_eq!(few - none, if part == 0 { 20 } else { 19 }, "{counts:?}");
                        assert_eq!(turned.turns, 1, "{counts:?}");
                        assert!(turned.passed_pages > 500, "{counts:?}");
                    }
                }
                let gone: ArrayRef = Arc::new(Int64Array::from(vec![3, 500, 17_003]));
                let mut changes = Changes::new();
                changes.delete(&table, &[gone]).unwrap();
                tables.commit(&changes).await.unwrap();
            }
        });
    }
}

#[test]
fn a_filter_that_fails_ends_the_scan() {
    struct Failing;
    impl RowFilter for Failing {
        fn columns(&self) -> &[usize] {
            &[1]
        }

        fn keep(&self, _: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> {
            Err("no filter".into())
        }
    }
    block_on_virtual(7, async {
        let tables = opened().await;
        let table = loaded(&tables, Layout::Csm).await;
        let snapshot = tables.snapshot().await;
        let options = ScanOptions::default();
        let found =
            filtered(&snapshot, &table, options, Arc::new(Failing), FilterOrder::Chosen).await;
        assert_eq!(found.unwrap_err().to_string(), "no filter");
    });
}
