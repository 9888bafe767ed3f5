//! How fast sorted records go into a file: by ingest, by commits, and how fast the file can be written.
//!
//!     cargo run --release -p moirai-btree --example ingest_speed -- FOLDER [MB]
//!
//! Records have keys of 16 bytes and values of 72. FOLDER must have room for twice the data.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

mod common;

use std::path::Path;

use moirai_btree::{Batch, Store, Tree, with_leaves};
use moirai_runtime::{Stopwatch, block_on_real};
use moirai_storage::IoBuf;
use moirai_units::{ByteCount, Lbn};
use moirai_update::{Kinds, Options};

use crate::common::{KEY_BYTES, LEAF, Outcome, device, key};

/// Updates of a commit.
const BATCH: usize = 1000;
const VALUE_BYTES: usize = 72;
const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
/// Records of a commit.
const WRITE: ByteCount = ByteCount(8 << 20);

async fn raw(folder: &Path, bytes: u64) -> Outcome {
    let device = device(folder, "raw.img", ByteCount(bytes + (64 << 20)))?;
    let watch = Stopwatch::start();
    let content = vec![0x5a; WRITE.0 as usize];
    for first in (0..bytes).step_by(WRITE.0 as usize) {
        device.write(Lbn(first / 512), IoBuf::holding(&content)).await?;
    }
    device.flush().await?;
    say("written to the file", bytes, &watch);
    Ok(std::fs::remove_file(folder.join("raw.img"))?)
}

fn say(what: &str, bytes: u64, watch: &Stopwatch) {
    let seconds = watch.elapsed().as_s();
    println!("{what}: {seconds:.2} s, {:.0} MB/s", bytes as f64 / seconds / 1e6);
}

fn record(number: u64) -> ([u8; KEY_BYTES], [u8; VALUE_BYTES]) {
    let mut value = [number as u8; VALUE_BYTES];
    for (to, from) in value.iter_mut().zip(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
    {
        *to = from;
    }
    (key(number), value)
}

async fn opened(folder: &Path, bytes: u64) -> Outcome<(Store, Tree)> {
    let size = ByteCount(bytes + bytes / 2 + (256 << 20));
    let (data, logs) =
        (device(folder, "data.img", size)?, [device(folder, "log.img", ByteCount(256 << 20))?]);
    Store::format(&*data, &logs, with_leaves(LEAF)).await?;
    let store = Store::open(data, &logs, Kinds::new(), Options::default()).await?;
    let tree = store.tree("records").await?;
    Ok((store, tree))
}

async fn close(folder: &Path, store: Store) -> Outcome {
    store.close().await?;
    std::fs::remove_file(folder.join("data.img"))?;
    Ok(std::fs::remove_file(folder.join("log.img"))?)
}

async fn ingest(folder: &Path, records: u64) -> Outcome {
    let (store, tree) = opened(folder, records * RECORD_BYTES).await?;
    let watch = Stopwatch::start();
    store.ingest(&tree, (0..records).map(record)).await?;
    say("ingested", records * RECORD_BYTES, &watch);
    println!("{:?}", store.figures());
    close(folder, store).await
}

async fn commit(folder: &Path, records: u64) -> Outcome {
    let (store, tree) = opened(folder, records * RECORD_BYTES).await?;
    let watch = Stopwatch::start();
    let mut batch = Batch::new();
    for number in 0..records {
        let (key, value) = record(number);
        batch.put(&tree, &key, &value);
        if batch.len() == BATCH || number + 1 == records {
            store.commit(&batch).await?;
            batch.clear();
        }
    }
    store.checkpoint().await?;
    say("committed, 1000 records at a time, and swept", records * RECORD_BYTES, &watch);
    close(folder, store).await
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let bytes = arguments.next().map_or(Ok(2000), |mb| mb.parse::<u64>())? * 1_000_000;
    let (folder, records) = (Path::new(&folder), bytes / RECORD_BYTES);
    raw(folder, bytes).await?;
    ingest(folder, records).await?;
    commit(folder, records).await
}

fn main() -> Outcome {
    block_on_real(1, run())
}
