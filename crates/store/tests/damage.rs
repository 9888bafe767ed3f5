//! Damage, full devices and interrupted loads: clear errors, and everything else still there.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use common::{file, load, quadrangles, scan};
use moirai_runtime::{block_on_real, block_on_virtual};
use moirai_storage::{Device, IoBuf};
use moirai_store::{Error, LoadOptions, PageLayout, ScanOptions, Store};
use moirai_units::Lbn;

fn flip(path: &Path, offset: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// One flipped bit: the read names the page and the place, other tables are read.
#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let good = folder.path().join("good");
    let last = block_on_real(1, async {
        let store = Store::open(file(&path, "16MiB")).await.unwrap();
        load(&store, "csm", PageLayout::Csm, 5000).await;
        load(&store, "nsm", PageLayout::Nsm, 5000).await;
        let device = store.device();
        // The blocks that hold something, found from the device's content.
        let all = device.read(device.inquiry().all_blocks()).await.unwrap();
        (0..all.len()).rev().find(|at| all[*at] != 0).unwrap() as u64
    });
    std::fs::copy(&path, &good).unwrap();
    let content = std::fs::read(&good).unwrap();
    let mut damaged_reads = 0;
    for offset in [20, 4116].into_iter().chain((8192..=last).step_by(15_013)) {
        // A flipped bit in bytes that nothing uses, zeros, may pass: no page covers them all.
        let used = content[offset as usize] != 0;
        std::fs::copy(&good, &path).unwrap();
        flip(&path, offset);
        block_on_real(1, async {
            let store = match Store::open(file(&path, "")).await {
                Ok(store) => store,
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{error}");
                    return;
                }
            };
            let mut failed = 0;
            for name in ["csm", "nsm"] {
                let table = store.table(name).unwrap();
                let read = async {
                    table.page_bounds(0).await?;
                    table.page_bounds(1).await?;
                    table.page_bounds(2).await?;
                    table.page_bounds(4).await?;
                    scan(&table, ScanOptions::default()).await
                };
                if let Err(error) = read.await {
                    failed += 1;
                    let text = error.to_string();
                    assert!(matches!(error, Error::Damaged { .. }), "{text}");
                    assert!(text.contains(name) && text.contains("at byte"), "{text}");
                }
            }
            assert!(failed <= 1, "one bit damaged both tables");
            if offset < 8192 {
                assert_eq!(failed, 0, "the other superblock is enough");
            } else if used {
                assert_eq!(failed, 1, "the flipped bit at {offset} was not found");
                damaged_reads += 1;
            }
        });
    }
    assert!(damaged_reads > 10, "{damaged_reads}");
}

#[test]
fn foreign_and_other_versions_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let error_of = |content: Vec<u8>| {
        std::fs::write(&path, content).unwrap();
        block_on_real(0, async { Store::open(file(&path, "")).await.unwrap_err().to_string() })
    };
    let error = error_of(vec![b'x'; 1 << 20]);
    assert!(
        error.contains("does not know (at byte 0), which is no store of `moirai table`"),
        "{error}"
    );
    let mut other = vec![0; 1 << 20];
    other[..12].copy_from_slice(b"MOIRAISB\x63\0\0\0");
    let error = error_of(other);
    assert!(error.contains("format 99"), "{error}");
    let error = error_of(vec![0; 8192]);
    assert!(error.contains("has 8 KiB, but needs"), "{error}");
}

#[test]
fn a_load_that_fills_the_device_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    block_on_real(2, async {
        let store = Store::open(file(&path, "4MiB")).await.unwrap();
        let kept = load(&store, "kept", PageLayout::Csm, 3000).await;
        for layout in [PageLayout::Csm, PageLayout::Nsm] {
            let schema = common::schema();
            let mut big = store.load("big", &schema, layout, LoadOptions::default()).await.unwrap();
            let mut random = moirai_runtime::random("big");
            let error = loop {
                let next = common::batch(big.rows(), 5000, &mut random);
                if let Err(error) = big.append(&next).await {
                    break error;
                }
            };
            assert!(matches!(error, Error::Full { .. }), "{error}");
            drop(big);
            assert_eq!(store.table_names(), ["kept"]);
        }
        let table = store.table("kept").unwrap();
        assert_eq!(scan(&table, ScanOptions::default()).await.unwrap(), kept);
        // What the undone loads took is free: a table of half the device fits.
        load(&store, "after", PageLayout::Csm, 15_000).await;
    });
}

#[test]
fn a_row_larger_than_an_ensemble_is_refused_by_name() {
    block_on_virtual(3, async {
        let store = Store::open(quadrangles("")).await.unwrap();
        let field = |name| arrow_schema::Field::new(name, arrow_schema::DataType::Utf8View, false);
        let schema = Arc::new(arrow_schema::Schema::new(vec![field("t")]));
        let rows = ["small".to_owned(), "y".repeat(100_000), "z".repeat(1 << 20)];
        let text = |rows: &[String]| {
            let array = arrow_array::StringViewArray::from_iter_values(rows);
            arrow_array::RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(array)]).unwrap()
        };
        for layout in [PageLayout::Csm, PageLayout::Nsm] {
            let name = layout.to_string();
            let mut load =
                store.load(&name, &schema, layout, LoadOptions::default()).await.unwrap();
            load.append(&text(&rows[..2])).await.unwrap();
            load.append(&text(&rows[..1])).await.unwrap();
            load.finish().await.unwrap();
            let table = store.table(&name).unwrap();
            let expected = [rows[0].clone(), rows[1].clone(), rows[0].clone()];
            let found = scan(&table, ScanOptions::default()).await.unwrap();
            assert_eq!(found, text(&expected));
            let mut load = store.load("x", &schema, layout, LoadOptions::default()).await.unwrap();
            let error = load.append(&text(&rows)).await.unwrap_err().to_string();
            assert!(error.contains("row 2 of table `x` needs a page of 2064 blocks"), "{error}");
        }
    });
}

/// A batch that failed in the middle leaves a load that cannot be finished.
#[test]
fn a_load_that_failed_in_the_middle_of_a_batch_is_not_finished() {
    block_on_virtual(6, async {
        let store = Store::open(quadrangles("")).await.unwrap();
        let fields = vec![
            arrow_schema::Field::new("id", arrow_schema::DataType::Int64, false),
            arrow_schema::Field::new("text", arrow_schema::DataType::Utf8View, false),
        ];
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        let batch = |length: usize| {
            let ids = arrow_array::Int64Array::from(vec![1, 2]);
            let texts = ["a".to_owned(), "b".repeat(length)];
            let texts = arrow_array::StringViewArray::from_iter_values(&texts);
            let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(ids), Arc::new(texts)];
            arrow_array::RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        let options = LoadOptions::default();
        let mut load = store.load("t", &schema, PageLayout::Csm, options).await.unwrap();
        load.append(&batch(10)).await.unwrap();
        let too_long = load.append(&batch(1 << 20)).await;
        assert!(matches!(too_long, Err(Error::RowTooLarge { .. })));
        assert!(matches!(load.append(&batch(10)).await, Err(Error::BrokenLoad { .. })));
        assert!(matches!(load.finish().await, Err(Error::BrokenLoad { .. })));
        assert!(store.table_names().is_empty());
    });
}

/// The catalog is replaced wholly or not at all, whichever write was the last to reach the device.
#[test]
fn a_store_cut_off_after_any_write_has_the_table_whole_or_not_at_all() {
    block_on_virtual(4, async {
        // The writes of two loads, one after the other, as a device of its own sees them.
        let log = Arc::new(Recorder::new(quadrangles("")));
        let store = Store::open(Arc::clone(&log) as Arc<dyn Device>).await.unwrap();
        let first = load(&store, "first", PageLayout::Csm, 700).await;
        let writes_of_first = log.count();
        let second = load(&store, "second", PageLayout::Nsm, 900).await;
        let all = log.count();
        // The last write of a commit is the second copy of its superblock.
        for cut in 0..=all {
            let device = quadrangles("");
            log.replay(&*device, cut).await;
            let store = Store::open(device).await.unwrap();
            let names = store.table_names();
            assert_eq!(
                names.contains(&"first".to_owned()),
                cut >= writes_of_first - 1,
                "after {cut} writes"
            );
            assert_eq!(names.contains(&"second".to_owned()), cut >= all - 1, "after {cut} writes");
            for (name, loaded) in [("first", &first), ("second", &second)] {
                if let Ok(table) = store.table(name) {
                    assert_eq!(&scan(&table, ScanOptions::default()).await.unwrap(), loaded);
                }
            }
            // And the store goes on.
            load(&store, "third", PageLayout::Csm, 50).await;
        }
    });
}

/// Passes requests on and remembers what was written, in order.
#[derive(Debug)]
struct Recorder {
    inner: Arc<dyn Device>,
    writes: parking_lot::Mutex<Vec<(Lbn, Vec<u8>)>>,
}

impl Recorder {
    fn new(inner: Arc<dyn Device>) -> Recorder {
        Recorder { inner, writes: parking_lot::Mutex::default() }
    }

    fn count(&self) -> usize {
        self.writes.lock().len()
    }

    async fn replay(&self, device: &dyn Device, count: usize) {
        let writes = self.writes.lock()[..count].to_vec();
        for (first, content) in writes {
            device.write(first, IoBuf::holding(&content)).await.unwrap();
        }
    }
}

impl Device for Recorder {
    fn inquiry(&self) -> &moirai_storage::Inquiry {
        self.inner.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> moirai_storage::Result<moirai_storage::Ensemble> {
        self.inner.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> moirai_storage::Result<moirai_units::BlockRange> {
        self.inner.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> moirai_storage::Result<moirai_storage::EquivalenceClass> {
        self.inner.equivalent(lbn)
    }

    fn submit(
        &self,
        batch: Vec<moirai_storage::Request>,
    ) -> futures::future::BoxFuture<'_, moirai_storage::Completions> {
        for request in batch.iter().filter(|request| request.op == moirai_storage::Op::Write) {
            let content = request.data.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            self.writes.lock().push((request.blocks.first, content));
        }
        self.inner.submit(batch)
    }

    fn flush(&self) -> moirai_storage::Flushed<'_> {
        self.inner.flush()
    }
}

#[test]
fn a_store_of_blank_superblocks_is_empty_and_unwritten() {
    block_on_virtual(5, async {
        let log = Arc::new(Recorder::new(quadrangles("")));
        let store = Store::open(Arc::clone(&log) as Arc<dyn Device>).await.unwrap();
        assert!(store.table_names().is_empty());
        assert_eq!(log.count(), 0);
    });
}
