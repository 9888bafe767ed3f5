//! How steadily a store much larger than its memory takes random updates: the slowest seconds, how long commits take, and the
//! resident size of the process.
//!
//!     cargo run --release -p moirai-btree --example steady_updates -- FOLDER [MB [SECONDS [MEMORY_MIB]]]
//!
//! Records have keys of 16 bytes and values of 16; a commit updates 1000 of them. FOLDER must have room for twice the data
//! and 1.5 GiB.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

mod common;
mod resident;

use std::path::Path;

use moirai_btree::{Batch, Store, Tree, with_leaves};
use moirai_runtime::{Stopwatch, block_on_real, random, use_one_heap};
use moirai_units::ByteCount;
use moirai_update::{Kinds, Options};
use rand::Rng;

use crate::common::{KEY_BYTES, LEAF, Outcome, device, key};
use crate::resident::resident_mib;

/// Updates of a commit.
const BATCH: usize = 1000;
const VALUE_BYTES: usize = 16;
const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// The value below which `share` in a thousand lie.
fn per_mille(sorted: &[u64], share: usize) -> u64 {
    sorted.get(sorted.len() * share / 1000).or(sorted.last()).copied().unwrap_or_default()
}

/// What happened while it updated.
#[derive(Default)]
struct Steadiness {
    /// Updates of each whole second.
    seconds: Vec<u64>,
    commits_us: Vec<u64>,
    resident_mib: u64,
}

impl Steadiness {
    fn print(&mut self) {
        self.seconds.sort_unstable();
        self.commits_us.sort_unstable();
        let seconds = |share| per_mille(&self.seconds, share);
        println!(
            "updates a second: median {}, slowest 1 % {}, slowest {}",
            seconds(500),
            seconds(10),
            seconds(0)
        );
        let ms = |share| per_mille(&self.commits_us, share) as f64 / 1000.0;
        println!(
            "commits of {BATCH}: median {:.2} ms, 99 % {:.2} ms, 99.9 % {:.2} ms, longest {:.2} ms",
            ms(500),
            ms(990),
            ms(999),
            ms(1000)
        );
        println!("resident: {} MiB at most, looked at each second", self.resident_mib);
    }
}

async fn update(store: &Store, tree: &Tree, records: u64, seconds: u64) -> Outcome<Steadiness> {
    let mut steadiness = Steadiness::default();
    let mut random = random("steady updates");
    let whole = Stopwatch::start();
    let (mut second, mut count) = (0, 0);
    while whole.elapsed().0 < seconds * 1_000_000_000 {
        let mut batch = Batch::new();
        for _ in 0..BATCH {
            let value: [u8; VALUE_BYTES] = random.random();
            batch.put(tree, &key(random.random_range(0..records)), &value);
        }
        let watch = Stopwatch::start();
        store.commit(&batch).await?;
        steadiness.commits_us.push(watch.elapsed().0 / 1000);
        let now = whole.elapsed().0 / 1_000_000_000;
        if now > second {
            steadiness.seconds.push(count);
            // Seconds without any.
            steadiness.seconds.extend((second + 1..now).map(|_| 0));
            steadiness.resident_mib = steadiness.resident_mib.max(resident_mib("VmRSS:")?);
            (second, count) = (now, 0);
        }
        count += BATCH as u64;
    }
    Ok(steadiness)
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (bytes, seconds, memory) = (number(2000)? * 1_000_000, number(120)?, number(256)?);
    let folder = Path::new(&folder);
    let device_of = |name, size| device(folder, name, size);
    let data = device_of("steady-data.img", ByteCount(bytes * 2 + (512 << 20)))?;
    let logs = [device_of("steady-log.img", ByteCount(1 << 30))?];
    Store::format(&*data, &logs, with_leaves(LEAF)).await?;
    let options = Options { memory: ByteCount(memory << 20), ..Options::default() };
    let store = Store::open(data, &logs, Kinds::new(), options).await?;
    let tree = store.tree("records").await?;
    let records = bytes / RECORD_BYTES;
    let watch = Stopwatch::start();
    store.ingest(&tree, (0..records).map(|number| (key(number), [7; VALUE_BYTES]))).await?;
    println!("{records} records ingested in {:.0} s", watch.elapsed().as_s());
    update(&store, &tree, records, seconds).await?.print();
    println!("{:?}", store.figures());
    let watch = Stopwatch::start();
    store.close().await?;
    println!("closed in {:.1} s", watch.elapsed().as_s());
    std::fs::remove_file(folder.join("steady-data.img"))?;
    Ok(std::fs::remove_file(folder.join("steady-log.img"))?)
}

fn main() -> Outcome {
    use_one_heap();
    block_on_real(1, run())
}
