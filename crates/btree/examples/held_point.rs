//! What a read point costs that is held under full load: updates a second with it and without, whether it shows the same to its
//! end, and how soon its space is free.
//!
//!     cargo run --release -p moirai-btree --example held_point -- FOLDER [MB [SECONDS [MEMORY_MIB]]]
//!
//! Two trees have records with keys of 16 bytes and values of 16; a commit updates 1000 of them. Each of three rounds updates
//! for so many seconds without a read point, and as long with one. FOLDER must have room for seven times the data and 1.5 GiB.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

mod common;

use std::path::Path;

use moirai_btree::{Batch, Direction, KeyRange, Scan, Store, Tree, with_leaves};
use moirai_runtime::{Random, Stopwatch, block_on_real, random, sleep, use_one_heap};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{Kinds, Options};
use rand::Rng;

use crate::common::{KEY_BYTES, LEAF, Outcome, device, key};

/// Updates of a commit.
const BATCH: usize = 1000;
const VALUE_BYTES: usize = 16;
const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
const ROUNDS: usize = 3;

struct Bench {
    store: Store,
    trees: [Tree; 2],
    /// Of each tree.
    records: u64,
}

/// How many records a scan shows, and a checksum over their keys and values.
async fn checksum(mut scan: Scan<'_>, before: u32) -> Outcome<(u64, u32)> {
    let (mut records, mut sum) = (0, before);
    while let Some((key, value)) = scan.next().await? {
        sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value);
        records += 1;
    }
    Ok((records, sum))
}

impl Bench {
    async fn new(folder: &Path, bytes: u64, memory: ByteCount) -> Outcome<Bench> {
        let data = device(folder, "held-data.img", ByteCount(bytes * 7 + (512 << 20)))?;
        let logs = [device(folder, "held-log.img", ByteCount(1 << 30))?];
        Store::format(&*data, &logs, with_leaves(LEAF)).await?;
        let options = Options { memory, ..Options::default() };
        let store = Store::open(data, &logs, Kinds::new(), options).await?;
        let trees = [store.tree("one").await?, store.tree("other").await?];
        let records = bytes / RECORD_BYTES / 2;
        for tree in &trees {
            let all = (0..records).map(|number| (key(number), [7; VALUE_BYTES]));
            store.ingest(tree, all).await?;
        }
        Ok(Bench { store, trees, records })
    }

    /// Updates records; gives how many a second.
    async fn update(&self, random: &mut Random, seconds: u64) -> Outcome<f64> {
        let (watch, mut count) = (Stopwatch::start(), 0);
        while watch.elapsed().0 < seconds * 1_000_000_000 {
            let mut batch = Batch::new();
            for tree in self.trees.iter().cycle().take(BATCH) {
                let value: [u8; VALUE_BYTES] = random.random();
                batch.put(tree, &key(random.random_range(0..self.records)), &value);
            }
            self.store.commit(&batch).await?;
            count += BATCH;
        }
        Ok(count as f64 / watch.elapsed().as_s())
    }

    /// All records of all trees, and a checksum over them.
    async fn content<'a>(&self, scan: impl Fn(&Tree) -> Scan<'a>) -> Outcome<(u64, u32)> {
        let mut found = (0, 0);
        for tree in &self.trees {
            let (records, sum) = checksum(scan(tree), found.1).await?;
            found = (found.0 + records, sum);
        }
        Ok(found)
    }

    fn free_bytes(&self) -> u64 {
        self.store.figures().data_free_bytes
    }

    async fn round(&self, random: &mut Random, seconds: u64) -> Outcome<f64> {
        let without = self.update(random, seconds).await?;
        let all = |tree: &Tree| self.store.scan(tree, KeyRange::all(), Direction::Forward);
        let expected = self.content(all).await?;
        let point = self.store.read_point().await;
        let with = self.update(random, seconds).await?;
        let all = |tree: &Tree| point.reader().scan(tree, KeyRange::all(), Direction::Forward);
        let found = self.content(all).await?;
        let same = if found == expected { "the same" } else { "OTHER RECORDS" };
        println!(
            "updates a second: {without:.0} without, {with:.0} with a read point, {:.3} times as many",
            with / without
        );
        println!("  the read point shows {same}: {} records, checksum {:08x}", found.0, found.1);
        let (before, watch) = (self.free_bytes(), Stopwatch::start());
        drop(point);
        let at_once = self.free_bytes() - before;
        println!(
            "  {:.0} MB are free {} ms after its end",
            at_once as f64 / 1e6,
            watch.elapsed().0 / 1_000_000
        );
        sleep(Nanos(1_000_000_000)).await;
        Ok(with / without)
    }
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (bytes, seconds, memory) = (number(1000)? * 1_000_000, number(60)?, number(256)?);
    let folder = Path::new(&folder);
    let bench = Bench::new(folder, bytes, ByteCount(memory << 20)).await?;
    let mut random = random("held point");
    // What is staged comes to what it is in the long run.
    bench.update(&mut random, seconds).await?;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        ratios.push(bench.round(&mut random, seconds).await?);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ROUNDS / 2).ok_or("no rounds")?;
    println!("median: {median:.3} times as many updates with a read point");
    println!("{:?}", bench.store.figures());
    bench.store.close().await?;
    std::fs::remove_file(folder.join("held-data.img"))?;
    Ok(std::fs::remove_file(folder.join("held-log.img"))?)
}

fn main() -> Outcome {
    use_one_heap();
    block_on_real(1, run())
}
