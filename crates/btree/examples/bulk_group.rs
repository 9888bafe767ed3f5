//! A group longer than log and memory: how long it takes, how much memory, and whether it is whole after a crash.
//!
//!     cargo run --release -p moirai-btree --example bulk_group -- FOLDER make [RECORDS [MEMORY_MIB [LOG_MIB]]]
//!     cargo run --release -p moirai-btree --example bulk_group -- FOLDER change [RECORDS [MEMORY_MIB]]
//!     cargo run --release -p moirai-btree --example bulk_group -- FOLDER check [RECORDS [MEMORY_MIB]]
//!
//! `make` ingests records with keys of 16 bytes and values of 8, all of round 0; `change` puts the next round into all of them,
//! in random order and as one group, after a group that it drops; `check` tells which round the records are of, and fails
//! when they are not all of one. Kill `change` at any time, and `check`. FOLDER must have room for 150 bytes for each record.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

mod common;
mod resident;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use moirai_btree::{Direction, KeyRange, Store, Tree, with_leaves};
use moirai_devices::{Access, open};
use moirai_runtime::{Stopwatch, block_on_real, use_one_heap};
use moirai_storage::Device;
use moirai_units::ByteCount;
use moirai_update::{Kinds, Options};

use crate::common::{LEAF, Outcome, device, key};
use crate::resident::resident_mib;

/// Odd, so that its multiples come to each number once, in an order that looks random.
const STEP: u64 = 0x9e37_79b9;
/// Bytes of the device for each record.
const ROOM: u64 = 140;

async fn opened(folder: &Path, memory: ByteCount) -> Outcome<(Store, Tree)> {
    let there = |name: &str| -> Outcome<Arc<dyn Device>> {
        let uri = format!("file:{}", folder.join(name).display());
        Ok(open(uri.parse()?, Access::Write)?)
    };
    let options = Options { memory, ..Options::default() };
    let logs = [there("bulk-log.img")?];
    let store = Store::open(there("bulk-data.img")?, &logs, Kinds::new(), options).await?;
    let tree = store.tree("records").await?;
    Ok((store, tree))
}

async fn make(folder: &Path, records: u64, memory: ByteCount, log: ByteCount) -> Outcome {
    let data = device(folder, "bulk-data.img", ByteCount(records * ROOM + (256 << 20)))?;
    let logs = [device(folder, "bulk-log.img", log)?];
    Store::format(&*data, &logs, with_leaves(LEAF)).await?;
    let options = Options { memory, ..Options::default() };
    let store = Store::open(data, &logs, Kinds::new(), options).await?;
    let tree = store.tree("records").await?;
    store.ingest(&tree, (0..records).map(|number| (key(number), 0_u64.to_le_bytes()))).await?;
    Ok(store.close().await?)
}

/// How many records there are of each round.
async fn rounds(store: &Store, tree: &Tree) -> Outcome<BTreeMap<u64, u64>> {
    let mut found = BTreeMap::new();
    let mut scan = store.scan(tree, KeyRange::all(), Direction::Forward);
    while let Some((_, value)) = scan.next().await? {
        *found.entry(u64::from_le_bytes(value.try_into()?)).or_default() += 1;
    }
    Ok(found)
}

async fn change(folder: &Path, records: u64, memory: ByteCount) -> Outcome {
    let (store, tree) = opened(folder, memory).await?;
    let first = store.get(&tree, &key(0)).await?.ok_or("make the store first")?;
    let round = u64::from_le_bytes(first[..].try_into()?) + 1;
    for is_dropped in [true, false] {
        let watch = Stopwatch::start();
        let free = store.figures().data_free_bytes;
        let mut bulk = store.bulk();
        for number in 0..records {
            let number = number.wrapping_mul(STEP) % records;
            bulk.put(&tree, &key(number), &round.to_le_bytes()).await?;
        }
        let made = watch.elapsed().as_s();
        if is_dropped {
            drop(bulk);
            let left = free.saturating_sub(store.figures().data_free_bytes);
            println!(
                "{records} changes made in {made:.1} s and dropped: {left} bytes are not free"
            );
            continue;
        }
        bulk.commit().await?;
        let whole = watch.elapsed().as_s();
        println!(
            "{records} changes made in {made:.1} s, committed after {:.1} s more",
            whole - made
        );
    }
    println!("resident: {} MiB at most", resident_mib("VmHWM:")?);
    println!("rounds: {:?}", rounds(&store, &tree).await?);
    Ok(store.close().await?)
}

async fn check(folder: &Path, records: u64, memory: ByteCount) -> Outcome {
    let (store, tree) = opened(folder, memory).await?;
    let found = rounds(&store, &tree).await?;
    println!("rounds: {found:?}");
    match found.len() == 1 && found.values().sum::<u64>() == records {
        true => Ok(store.close().await?),
        false => Err("a part of a group is there".into()),
    }
}

fn main() -> Outcome {
    use_one_heap();
    let mut arguments = std::env::args().skip(1);
    let usage = "name a folder, and make, change or check";
    let (folder, what) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (records, memory, log) = (number(10_000_000)?, number(64)?, number(64)?);
    let (memory, log) = (ByteCount(memory << 20), ByteCount(log << 20));
    let folder = Path::new(&folder);
    block_on_real(1, async {
        match what.as_str() {
            "make" => make(folder, records, memory, log).await,
            "change" => change(folder, records, memory).await,
            "check" => check(folder, records, memory).await,
            _ => Err(usage.into()),
        }
    })
}
