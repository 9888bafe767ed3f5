//! Volumes, trees and tables on MEMS stores and SSDs.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai::btree::{AddU64, Batch};
use moirai::devices::{Access, open};
use moirai::runtime::{block_on_virtual, sleep};
use moirai::storage::Device;
use moirai::tables::{Layout, LoadOptions, PageOptions, ScanOptions, TableDefinition};
use moirai::units::{BlockCount, ByteCount, Nanos};
use moirai::update::{KindNumber, Kinds, Options};
use moirai::volume::{LayoutDescription, Level, Rotation, StripeUnit, Volume};
use moirai::{NewFiles, NewTrees, TreesPlace, create_tables_on};

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema};

/// The kind of additions.
const ADD: KindNumber = KindNumber(16);

fn store(name: &str) -> Arc<dyn Device> {
    open(format!("sim:{name}").parse().unwrap(), Access::Write).unwrap()
}

/// Records come and go, a table is loaded and scanned, and a check finds no fault.
async fn use_store_on(device: Arc<dyn Device>) {
    let options = Options { memory: ByteCount::mib(8), ..Options::default() };
    let capacity = device.inquiry().capacity;
    let tables = create_tables_on(device, ByteCount(4096), options).await.unwrap();
    let tree = tables.store().tree("records").await.unwrap();
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for part in 0..100 {
        let mut batch = Batch::new();
        for number in part * 1000..(part + 1) * 1000 {
            batch.put(&tree, &key(number % 60_000), &number.to_le_bytes());
        }
        tables.store().commit(&batch).await.unwrap();
    }
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("square", DataType::Int64, false),
        Field::new("cube", DataType::Int64, false),
    ]);
    let mut definition = TableDefinition::new(schema, &["id"]).unwrap();
    definition.pages = PageOptions::for_device(Layout::Csm, capacity.bytes());
    let mut load = tables.load("powers", definition, LoadOptions::default()).await.unwrap();
    let power = |exponent| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..50_000).map(|id: i64| id.pow(exponent))))
    };
    let columns = vec![power(1), power(2), power(3)];
    let batch = RecordBatch::try_new(Arc::clone(load.table().schema()), columns).unwrap();
    load.push(&batch).await.unwrap();
    let (table, _) = load.finish().await.unwrap();
    tables.store().checkpoint().await.unwrap();
    assert_eq!(tables.store().check().await, []);
    for number in [0, 39_999, 40_000, 59_999] {
        let found = tables.store().get(&tree, &key(number)).await.unwrap().unwrap();
        let last = if number < 40_000 { number + 60_000 } else { number };
        assert_eq!(found, last.to_le_bytes());
    }
    let options = ScanOptions { columns: Some(vec![1]), ..ScanOptions::default() };
    let mut scan = tables.snapshot().await.scan(&table, options).unwrap();
    let mut squares: Vec<i64> = Vec::new();
    while let Some(batch) = scan.next().await.unwrap() {
        squares.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    assert!((0..50_000).map(|id: i64| id * id).eq(squares));
}

#[test]
fn a_store_lies_on_a_mems_store() {
    block_on_virtual(1, async { use_store_on(store("mems-g2")).await });
}

async fn use_store_on_raid_5(part: &str, unit: BlockCount) {
    let disks = (0..4).map(|_| store(part)).collect();
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) };
    let volume =
        Volume::new("volume".to_owned(), disks, Level::Raid5(Rotation::LeftSymmetric), layout);
    use_store_on(volume.unwrap()).await;
}

#[test]
fn a_store_lies_on_a_volume_of_mems_stores() {
    block_on_virtual(1, async { use_store_on_raid_5("mems-g3", BlockCount(360)).await });
}

#[test]
fn a_store_lies_on_an_ssd() {
    block_on_virtual(1, async { use_store_on(store("ssd-slc?size=256MiB")).await });
}

#[test]
fn a_store_lies_on_a_volume_of_ssds() {
    block_on_virtual(1, async {
        use_store_on_raid_5("ssd-slc?size=128MiB", BlockCount(1024)).await;
    });
}

/// A counter that is added to and read again and again: once merging has cost as much as a rewrite, its partition is swept, so that a read
/// merges few additions. On a disk, whose requests take some forty times as long, that is less often.
#[test]
fn counters_are_swept_once_merging_has_cost_as_much() {
    let placed = |name: &'static str| {
        block_on_virtual(1, async move {
            let options = Options { memory: ByteCount::mib(64), ..Options::default() };
            let mut kinds = Kinds::new();
            kinds.register(ADD, Arc::new(AddU64)).unwrap();
            let files = NewFiles::new();
            let uri = format!("sim:{name}");
            let place = TreesPlace { data: &uri, logs: &[] };
            let new = NewTrees::new(ByteCount(8 << 10), &files);
            let store = moirai::create_trees(place, new, kinds, options).await.unwrap().store;
            let tree = store.tree("counters").await.unwrap();
            for key in 0..100_u64 {
                store.put(&tree, &key.to_be_bytes(), &[0; 8]).await.unwrap();
            }
            // In idle time they come into blocks.
            sleep(Nanos(60_000_000_000)).await;
            let before = store.figures().placed;
            for count in 1..=3000_u64 {
                let mut batch = Batch::new();
                batch.merge(&tree, ADD, &[0; 8], &1_u64.to_le_bytes());
                store.commit(&batch).await.unwrap();
                let value = store.get(&tree, &[0; 8]).await.unwrap().unwrap();
                assert_eq!(value, count.to_le_bytes());
            }
            store.figures().placed - before
        })
    };
    let (on_ssd, on_disk) = (placed("ssd-slc?size=256MiB"), placed("seagate-cheetah-36es"));
    assert!(on_ssd > 4 * on_disk && on_ssd > 10, "{on_ssd} on an SSD, {on_disk} on a disk");
}
