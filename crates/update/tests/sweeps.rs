//! How sweeps go about what is staged.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use futures::future::{Either, select};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, now, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{
    Engine, Error, Format, Formats, Group, Kinds, Modification, Options, PUT, SpaceId, WholeBlocks,
};
use rand::{Rng, SeedableRng};

const SPACE: SpaceId = SpaceId(1);
const BLOCK: usize = 512;
const KEYS: u64 = 2048;
const PARTITIONS: u64 = KEYS / 8;

/// An empty engine with a log of its own, on devices of so many blocks.
async fn engine(data_blocks: u64, log_blocks: u64, format: Format, options: Options) -> Engine {
    let power = Power::on();
    let device = |name: &str, blocks| {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let data = device("data", data_blocks);
    let logs = [device("log", log_blocks) as Arc<dyn Device>];
    let format = Format { block_bytes: ByteCount(BLOCK as u64), ..format };
    Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
    let engine = Engine::open(data, &logs, Kinds::new(), Formats::of(WholeBlocks), options);
    let engine = engine.await.unwrap();
    engine.create_space(SPACE).await.unwrap();
    engine
}

/// Puts of keys with values of so many bytes.
fn puts(records: impl Iterator<Item = (u64, usize)>) -> Group {
    let mut group = Group::new();
    for (key, bytes) in records {
        let (key, bytes) = (key.to_be_bytes(), vec![7; bytes]);
        group.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &bytes });
    }
    group
}

async fn put(engine: &Engine, keys: impl Iterator<Item = u64>) {
    engine.commit(&puts(keys.map(|key| (key, 40)))).await.unwrap();
}

/// All partitions are loaded at the same time and get as much; they do not need their blocks written at the same time.
#[test]
fn blocks_are_written_all_the_time_and_not_now_and_then() {
    block_on_virtual(1, async {
        let format = Format { partition_blocks: 8, staging_percent: 150, ..Format::default() };
        let options = Options { memory: ByteCount(1 << 20), ..Options::default() };
        let engine = engine(20_000, 8_000, format, options).await;
        for key in (0..KEYS).step_by(64) {
            put(&engine, key..key + 64).await;
        }
        engine.checkpoint().await.unwrap();
        assert_eq!(engine.figures().partitions, PARTITIONS);
        let mut random = Random::seed_from_u64(1);
        // In each turn, each partition gets about a tenth of what its staging area holds: a value for each key.
        let mut placed = Vec::new();
        for _ in 0..16 {
            let before = engine.figures();
            for _ in 0..100 {
                let keys = std::iter::repeat_with(|| random.random_range(0..KEYS)).take(100);
                put(&engine, keys).await;
            }
            placed.push(engine.figures().placed - before.placed);
        }
        eprintln!("{placed:?}");
        let most = placed.iter().skip(1).max().unwrap();
        assert!(*most <= PARTITIONS / 4, "{placed:?} of {PARTITIONS} partitions");
        // And for that none is written much more often than it has to be.
        let all: u64 = placed.iter().sum();
        assert!((PARTITIONS..2 * PARTITIONS).contains(&all), "{placed:?}");
    });
}

/// Which key is read next, after so many reads.
type Reader = fn(u64) -> u64;

/// How often partitions were written in idle time, within `span` after the last commit, beside a reader or not.
async fn placed_in_idle_time(reader: Option<Reader>, span: Nanos) -> u64 {
    let format = Format { partition_blocks: 8, staging_percent: 150, ..Format::default() };
    let idle = Nanos(1_000_000);
    let options = Options { memory: ByteCount(1 << 20), idle: Some(idle), ..Options::default() };
    let engine = engine(20_000, 8_000, format, options).await;
    for key in (0..KEYS).step_by(64) {
        put(&engine, key..key + 64).await;
    }
    engine.checkpoint().await.unwrap();
    put(&engine, 0..KEYS).await;
    engine.checkpoint().await.unwrap();
    let before = engine.figures();
    let end = now() + idle + span;
    let mut reads = 0;
    while now() < end {
        if let Some(reader) = reader {
            engine.get(SPACE, &reader(reads).to_be_bytes()).await.unwrap();
            reads += 1;
        }
        // Reads from memory take no time.
        sleep(Nanos(100_000)).await;
    }
    engine.figures().placed - before.placed
}

/// What nobody waits for takes a tenth of the time where somebody reads, here in whole batches, and goes on nevertheless.
#[test]
fn sweeps_that_nobody_waits_for_make_way_for_readers() {
    let placed = |reader| block_on_virtual(1, placed_in_idle_time(reader, Nanos(200_000_000)));
    let alone = placed(None);
    // The second reads each key so often that it has paid for a sweep, again and again while the sweeper works.
    let readers: [Reader; 2] = [|reads| reads * 1009 % KEYS, |reads| reads / 5 * 8 % KEYS];
    for beside in readers.map(|reader| placed(Some(reader))) {
        assert!(beside > 0 && beside * 3 <= alone, "{beside} beside a reader, {alone} without");
    }
}

/// All free blocks of a small device are discarded at once. A commit meanwhile finds none, and waits.
#[test]
fn commits_wait_for_blocks_that_are_discarded() {
    block_on_virtual(1, async {
        let idle = Some(Nanos(100_000));
        let options = Options { memory: ByteCount(1 << 20), idle, ..Options::default() };
        let engine = engine(4000, 400, Format::default(), options).await;
        let mut random = Random::seed_from_u64(1);
        for _ in 0..1000 {
            put(&engine, std::iter::once(random.random_range(0..100))).await;
            sleep(Nanos(random.random_range(0..2_000_000))).await;
        }
    });
}

/// Partitions of one block make a directory that is long beside the device: what is kept free for checkpoints comes to more
/// than is free, and partitions with staged chunks cannot be rewritten.
#[test]
fn commits_are_refused_where_no_sweep_finds_space() {
    block_on_virtual(1, async {
        let mut refused = 0;
        for seed in 0..8 {
            let mut random = Random::seed_from_u64(seed);
            let data_blocks = random.random_range(500..1200);
            let format = Format {
                partition_blocks: 1,
                staging_percent: 300,
                segment_bytes: Some(ByteCount(7 << 10)),
                ..Format::default()
            };
            let options = Options { memory: ByteCount(23 << 10), ..Options::default() };
            let engine = engine(data_blocks, 400, format, options).await;
            for _ in 0..300 {
                let count = random.random_range(1..40);
                let record = || (random.random_range(0..1000), random.random_range(1..10));
                let group = puts(std::iter::repeat_with(record).take(count));
                let commit = std::pin::pin!(engine.commit(&group));
                let late = std::pin::pin!(sleep(Nanos(100_000_000_000)));
                match select(commit, late).await {
                    Either::Left((Ok(()), _)) => {}
                    Either::Left((Err(Error::Full { .. }), _)) => refused += 1,
                    Either::Left((Err(error), _)) => panic!("{error}"),
                    Either::Right(_) => panic!("seed {seed}: no answer"),
                }
            }
        }
        assert!(refused > 0);
    });
}
