//! How fast a tree is read in the order of its keys, beside its device read in order: with nothing pending, and after random
//! updates.
//!
//!     cargo run --release -p moirai-btree --example scan_speed -- FOLDER [MB [SECONDS]]
//!
//! Records have keys of 16 bytes and values of 72, and the store has 256 MiB of memory. FOLDER must have room for one and a
//! half times the data and 1 GiB. Device and tree are read in turns; the medians count.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

mod common;

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use moirai_btree::{Batch, Direction, KeyRange, Store, Tree, with_leaves};
use moirai_runtime::{Stopwatch, block_on_real, random, use_one_heap};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai_update::{Kinds, Options};
use rand::Rng;

use crate::common::{KEY_BYTES, LEAF, Outcome, device, key};

/// Updates of a commit.
const BATCH: usize = 1000;
const VALUE_BYTES: usize = 72;
const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
const MEMORY: ByteCount = ByteCount(256 << 20);
/// Requests in flight while the device is read in order, and blocks of each.
const IN_FLIGHT: usize = 4;
const REQUEST: BlockCount = BlockCount(2048);
const TURNS: usize = 5;

struct Bench {
    device: Arc<dyn Device>,
    store: Store,
    tree: Tree,
    records: u64,
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

impl Bench {
    async fn new(folder: &Path, bytes: u64) -> Outcome<Bench> {
        let size = ByteCount(bytes + bytes / 2 + (512 << 20));
        let device_of = |name, size| device(folder, name, size);
        let device = device_of("scan-data.img", size)?;
        let logs = [device_of("scan-log.img", ByteCount(512 << 20))?];
        Store::format(&*device, &logs, with_leaves(LEAF)).await?;
        // What is pending stays so while it is measured.
        let options = Options { memory: MEMORY, idle: None, ..Options::default() };
        let store = Store::open(Arc::clone(&device), &logs, Kinds::new(), options).await?;
        let tree = store.tree("records").await?;
        let records = bytes / RECORD_BYTES;
        store.ingest(&tree, (0..records).map(|number| (key(number), [7; VALUE_BYTES]))).await?;
        Ok(Bench { device, store, tree, records })
    }

    /// MB/s of the device, read in order.
    async fn read_device(&self) -> Outcome<f64> {
        let bytes = self.records * RECORD_BYTES;
        let starts = (0..bytes / REQUEST.bytes().0).map(|at| Lbn(at * REQUEST.0));
        let reads = starts.map(|first| self.device.read(BlockRange::new(first, REQUEST)));
        let watch = Stopwatch::start();
        let mut reads = futures::stream::iter(reads).buffered(IN_FLIGHT);
        while reads.try_next().await?.is_some() {}
        Ok(bytes as f64 / watch.elapsed().as_s() / 1e6)
    }

    /// MB/s of keys and values, in the order of the keys.
    async fn scan(&self) -> Outcome<f64> {
        let watch = Stopwatch::start();
        let mut scan = self.store.scan(&self.tree, KeyRange::all(), Direction::Forward);
        let (mut count, mut bytes) = (0, 0);
        while let Some((key, value)) = scan.next().await? {
            count += 1;
            bytes += key.len() + value.len();
        }
        if count != self.records {
            return Err(format!("{count} of {} records", self.records).into());
        }
        Ok(bytes as f64 / watch.elapsed().as_s() / 1e6)
    }

    async fn compare(&self, what: &str) -> Outcome {
        let (mut device, mut scans) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            device.push(self.read_device().await?);
            scans.push(self.scan().await?);
        }
        let each: Vec<String> = scans.iter().map(|rate| format!("{rate:.0}")).collect();
        let (device, scan) = (median(device), median(scans));
        let percent = 100.0 * scan / device;
        println!("{what}: {scan:.0} MB/s, {percent:.0} % of {device:.0} MB/s ({})", each.join(" "));
        Ok(())
    }

    async fn update(&self, seconds: f64) -> Outcome {
        let (watch, mut count) = (Stopwatch::start(), 0);
        let mut random = random("scan speed");
        while watch.elapsed().as_s() < seconds {
            let mut batch = Batch::new();
            for _ in 0..BATCH {
                batch.put(
                    &self.tree,
                    &key(random.random_range(0..self.records)),
                    &[8; VALUE_BYTES],
                );
            }
            self.store.commit(&batch).await?;
            count += BATCH;
        }
        println!("{count} random updates in {:.0} s", watch.elapsed().as_s());
        Ok(())
    }
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let bytes = arguments.next().map_or(Ok(2000), |mb| mb.parse::<u64>())? * 1_000_000;
    let seconds = arguments.next().map_or(Ok(60.0), |seconds| seconds.parse())?;
    let folder = Path::new(&folder);
    let bench = Bench::new(folder, bytes).await?;
    bench.compare("nothing pending").await?;
    bench.update(seconds).await?;
    bench.compare("after the updates").await?;
    println!("{:?}", bench.store.figures());
    drop(bench);
    std::fs::remove_file(folder.join("scan-data.img"))?;
    Ok(std::fs::remove_file(folder.join("scan-log.img"))?)
}

fn main() -> Outcome {
    use_one_heap();
    block_on_real(1, run())
}
