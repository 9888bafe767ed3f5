//! Tables give back what was loaded, whole, by column, by page, by range and by row.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use common::{file, load, quadrangles, scan};
use moirai_runtime::{block_on_real, block_on_virtual, random};
use moirai_storage::{Device, Metered};
use moirai_store::{Error, LoadOptions, PageLayout, ScanOptions, Store};
use moirai_units::BlockCount;
use rand::Rng;

async fn check_reads(store: &Arc<Store>, name: &str, expected: &RecordBatch) {
    let table = store.table(name).unwrap();
    assert_eq!(table.rows(), expected.num_rows() as u64);
    let all = scan(&table, ScanOptions::default()).await.unwrap();
    assert_eq!(&all, expected, "{name}");

    let mut random = random("reads");
    for _ in 0..12 {
        let mut columns: Vec<usize> = (0..6).filter(|_| random.random_bool(0.4)).collect();
        if random.random_bool(0.5) {
            columns.reverse();
        }
        let start = random.random_range(0..=table.rows());
        let end = random.random_range(start..=table.rows());
        let limit = random.random_bool(0.5).then(|| random.random_range(0..=table.rows()));
        let found = scan(
            &table,
            ScanOptions {
                columns: Some(columns.clone()),
                rows: Some(start..end),
                limit,
                batch_rows: Some(random.random_range(1..10_000)),
                pages: None,
            },
        )
        .await
        .unwrap();
        let rows = (end - start).min(limit.unwrap_or(u64::MAX));
        let wanted = expected.project(&columns).unwrap().slice(start as usize, rows as usize);
        assert_eq!(found, wanted, "{name}: {columns:?} of {start}..{end}, limit {limit:?}");
    }
    if expected.num_rows() == 0 {
        return;
    }
    let rows: Vec<u64> = (0..50).map(|_| random.random_range(0..table.rows())).collect();
    let found = table.fetch(&rows, None).await.unwrap();
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(found.slice(index, 1), expected.slice(*row as usize, 1), "{name} row {row}");
    }
    assert_eq!(table.fetch(&[], Some(&[1])).await.unwrap().num_rows(), 0);
    let error = table.fetch(&[table.rows()], None).await.unwrap_err();
    assert!(matches!(error, Error::NoRow { .. }));
}

async fn check_store(device: Arc<dyn Device>, sizes: &[usize]) {
    let store = Store::open(Arc::clone(&device)).await.unwrap();
    let mut expected = Vec::new();
    for rows in sizes {
        for layout in [PageLayout::Csm, PageLayout::Nsm] {
            let name = format!("{layout}_{rows}");
            let loaded = load(&store, &name, layout, *rows).await;
            check_reads(&store, &name, &loaded).await;
            expected.push((name, loaded));
        }
    }
    // The same from a store that is opened again.
    drop(store);
    let store = Store::open(device).await.unwrap();
    assert_eq!(store.table_names(), expected.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>());
    for (name, loaded) in &expected {
        check_reads(&store, name, loaded).await;
    }
    // Dropping one leaves the others, and makes room.
    let (dropped, _) = expected.remove(0);
    store.drop_table(&dropped).await.unwrap();
    assert!(matches!(store.table(&dropped), Err(Error::NoTable { .. })));
    let again = load(&store, &dropped, PageLayout::Csm, 3000).await;
    check_reads(&store, &dropped, &again).await;
    for (name, loaded) in &expected {
        check_reads(&store, name, loaded).await;
    }
}

#[test]
fn tables_on_quadrangles_give_back_what_was_loaded() {
    block_on_virtual(3, async {
        check_store(quadrangles(""), &[0, 1, 777, 60_000]).await;
    });
}

#[test]
fn tables_in_a_file_give_back_what_was_loaded() {
    let folder = tempfile::tempdir().unwrap();
    block_on_real(3, async {
        check_store(file(&folder.path().join("store"), "64MiB"), &[0, 1, 777, 60_000]).await;
    });
}

#[test]
fn tables_on_a_single_disk_give_back_what_was_loaded() {
    block_on_virtual(4, async {
        let disk = moirai_devices::open(
            "sim:quantum-atlas-10k".parse().unwrap(),
            moirai_devices::Access::Write,
        )
        .unwrap();
        check_store(disk, &[500, 20_000]).await;
    });
}

/// "Reading one fixed-size attribute of a CSM table reads at most 1.05 times that attribute's
/// blocks; of NSM, the whole table."
#[test]
fn a_scan_reads_only_the_blocks_of_the_wanted_attributes() {
    let rows = 200_000;
    let read_blocks = |layout, columns: Option<Vec<usize>>| {
        block_on_virtual(5, async {
            let device = Metered::new(quadrangles(""));
            let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await.unwrap();
            load(&store, "t", layout, rows).await;
            let table = store.table("t").unwrap();
            let extent_blocks = table.size().await.unwrap().extent_blocks;
            device.take();
            scan(&table, ScanOptions { columns, ..ScanOptions::default() }).await.unwrap();
            (device.take().read_blocks, extent_blocks)
        })
    };
    // 8 bytes of key; a unit of 512 bytes holds 62, so a full page has less than 3.3 % of overhead.
    let (key, _) = read_blocks(PageLayout::Csm, Some(vec![0]));
    let attribute_blocks = rows as f64 / 62.0;
    assert!((key.0 as f64) < 1.05 * attribute_blocks, "{key} of {attribute_blocks}");

    let (whole, size) = read_blocks(PageLayout::Nsm, None);
    let (column, _) = read_blocks(PageLayout::Nsm, Some(vec![0]));
    assert_eq!(column, whole);
    assert!(whole.0 as f64 > 0.99 * size.0 as f64, "{whole} of {size}");
    // Texts are read only when asked for.
    let (fixed, _) = read_blocks(PageLayout::Csm, Some(vec![0, 1, 2, 4]));
    let (all, _) = read_blocks(PageLayout::Csm, None);
    assert!(fixed.0 * 2 < all.0, "{fixed} of {all}");
}

/// "In ensemble-sized I/Os": also of a table that was loaded after small ones left fragments.
#[test]
fn a_large_table_is_read_in_ensemble_sized_ios() {
    let folder = tempfile::tempdir().unwrap();
    block_on_real(10, async {
        let device = Metered::new(file(&folder.path().join("store"), "256MiB"));
        let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await.unwrap();
        for small in 0..5 {
            load(&store, &format!("small{small}"), PageLayout::Csm, 700 + 1000 * small).await;
        }
        load(&store, "large", PageLayout::Csm, 400_000).await;
        let table = store.table("large").unwrap();
        device.take();
        let columns = Some(vec![0]);
        scan(&table, ScanOptions { columns, ..ScanOptions::default() }).await.unwrap();
        let meter = device.take();
        // Ensembles of 64 KiB are 128 blocks; the first extents are small.
        let average = meter.read_blocks.0 / meter.reads;
        assert!(average > 96, "{average} blocks in each of {} reads", meter.reads);
    });
}

#[test]
fn page_bounds_tell_which_pages_can_be_left_out() {
    block_on_virtual(6, async {
        for layout in [PageLayout::Csm, PageLayout::Nsm] {
            let store = Store::open(quadrangles("")).await.unwrap();
            let loaded = load(&store, "t", layout, 30_000).await;
            let table = store.table("t").unwrap();
            let bounds = table.page_bounds(0).await.unwrap().unwrap();
            assert_eq!(bounds.pages() as u64, table.size().await.unwrap().pages);
            let wanted = 3 * 12_345;
            let min =
                arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(&bounds.min);
            let max =
                arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(&bounds.max);
            let mask: Vec<bool> =
                (0..min.len()).map(|p| min.value(p) <= wanted && wanted <= max.value(p)).collect();
            assert_eq!(mask.iter().filter(|wanted| **wanted).count(), 1);
            let options = ScanOptions { pages: Some(mask), ..ScanOptions::default() };
            let found = scan(&table, options).await.unwrap();
            let keys = found.column(0);
            let keys = arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(keys);
            let place = keys.iter().position(|key| key == Some(wanted)).unwrap();
            assert_eq!(found.slice(place, 1), loaded.slice(12_345, 1));
            assert!(table.page_bounds(3).await.unwrap().is_none(), "texts have no bounds");

            for column in 0..6 {
                let nulls = table.bounds(column).unwrap().nulls as usize;
                assert_eq!(nulls, loaded.column(column).null_count(), "{layout}: {column}");
            }
            let all = table.bounds(1).unwrap();
            let max = all.max.unwrap();
            let numbers = loaded.column(1);
            let numbers =
                arrow_array::cast::as_primitive_array::<arrow_array::types::Int32Type>(numbers);
            let largest = numbers.iter().flatten().max();
            let max = arrow_array::cast::as_primitive_array::<arrow_array::types::Int32Type>(&max);
            assert_eq!(Some(max.value(0)), largest);
        }
    });
}

/// Thesis 6.4.7: capsules of 60 records in nine blocks, and the pages of one are one class.
#[test]
fn a_page_is_one_equivalence_class() {
    block_on_virtual(7, async {
        let device = Metered::new(quadrangles("?data=none"));
        let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await.unwrap();
        let schema = arrow_schema::Schema::new(
            (0..9)
                .map(|i| {
                    arrow_schema::Field::new(format!("a{i}"), arrow_schema::DataType::Int64, false)
                })
                .collect::<Vec<_>>(),
        );
        let options = LoadOptions { page_rows: Some(60), replace: false };
        let load = store.load("t", &schema, PageLayout::Csm, options).await.unwrap();
        let table = load.reserve(1_000_000).unwrap();
        assert_eq!(table.page_rows(), Some(60));
        device.take();
        table.access_rows(&[777_777], None).await.unwrap();
        let meter = device.take();
        assert_eq!((meter.reads, meter.read_blocks), (9, BlockCount(9)));
        // One revolution and a seek, not nine times half a revolution.
        let service = meter.parts.service().as_ms() / 9.0;
        assert!(service < 8.0, "{service} ms each");
    });
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    block_on_virtual(8, async {
        let store = Store::open(quadrangles("")).await.unwrap();
        load(&store, "there", PageLayout::Csm, 10).await;
        let begin = |name: &'static str, schema| {
            let store = Arc::clone(&store);
            async move { store.load(name, &schema, PageLayout::Csm, LoadOptions::default()).await }
        };
        let schema = |field: arrow_schema::DataType| {
            arrow_schema::Schema::new(vec![arrow_schema::Field::new("c", field, false)])
        };
        use arrow_schema::DataType::{Binary, Int64};
        assert!(matches!(begin("there", schema(Int64)).await, Err(Error::TableExists { .. })));
        assert!(matches!(begin("", schema(Int64)).await, Err(Error::BadName { .. })));
        assert!(matches!(begin("x", schema(Binary)).await, Err(Error::UnsupportedType { .. })));
        let empty = arrow_schema::Schema::empty();
        assert!(matches!(begin("x", empty).await, Err(Error::ColumnCount { .. })));

        let mut load = begin("x", schema(Int64)).await.unwrap();
        let wrong = common::batch(0, 5, &mut random("wrong"));
        assert!(matches!(load.append(&wrong).await, Err(Error::SchemaMismatch { .. })));
        drop(load);
        assert_eq!(store.table_names(), ["there"]);
    });
}

#[test]
fn nulls_are_refused_where_there_must_be_none() {
    block_on_virtual(9, async {
        let store = Store::open(quadrangles("")).await.unwrap();
        let strict = arrow_schema::Schema::new(vec![arrow_schema::Field::new(
            "number",
            arrow_schema::DataType::Int32,
            false,
        )]);
        let mut load =
            store.load("t", &strict, PageLayout::Nsm, LoadOptions::default()).await.unwrap();
        let batch = common::batch(0, 100, &mut random("nulls")).project(&[1]).unwrap();
        let error = load.append(&batch).await.unwrap_err().to_string();
        assert!(error.contains("column `number` is declared without nulls"), "{error}");
    });
}
