//! How sweeps go about what is staged.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{
    Engine, Format, Group, Kinds, Modification, Options, PUT, SpaceId, WholeBlocks,
};
use rand::{Rng, SeedableRng};

const SPACE: SpaceId = SpaceId(1);
const BLOCK: usize = 512;
const KEYS: u64 = 2048;
const PARTITIONS: u64 = KEYS / 8;

async fn put(engine: &Engine, keys: impl Iterator<Item = u64>) {
    let mut group = Group::new();
    for key in keys {
        let modification = Modification { key: &key.to_be_bytes(), kind: PUT, bytes: &[7; 40] };
        group.modify(SPACE, modification);
    }
    engine.commit(&group).await.unwrap();
}

/// All partitions are loaded at the same time and get as much; they do not need their blocks written at the same time.
#[test]
fn blocks_are_written_all_the_time_and_not_now_and_then() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let data = device("data", 20_000);
        let logs = [device("log", 8_000) as Arc<dyn Device>];
        let block_bytes = ByteCount(BLOCK as u64);
        let format =
            Format { block_bytes, partition_blocks: 8, staging_percent: 150, ..Format::default() };
        Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
        let options = Options { memory: ByteCount(1 << 20), ..Options::default() };
        let engine = Engine::open(data, &logs, Kinds::new(), Arc::new(WholeBlocks), options);
        let engine = engine.await.unwrap();
        engine.create_space(SPACE).await.unwrap();
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

/// All free blocks of a small device are discarded at once. A commit meanwhile finds none, and waits.
#[test]
fn commits_wait_for_blocks_that_are_discarded() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let data = device("data", 4000);
        let logs = [device("log", 400) as Arc<dyn Device>];
        let format = Format { block_bytes: ByteCount(BLOCK as u64), ..Format::default() };
        Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
        let idle = Some(Nanos(100_000));
        let options = Options { memory: ByteCount(1 << 20), idle, ..Options::default() };
        let engine = Engine::open(data, &logs, Kinds::new(), Arc::new(WholeBlocks), options);
        let engine = engine.await.unwrap();
        engine.create_space(SPACE).await.unwrap();
        let mut random = Random::seed_from_u64(1);
        for _ in 0..1000 {
            put(&engine, std::iter::once(random.random_range(0..100))).await;
            sleep(Nanos(random.random_range(0..2_000_000))).await;
        }
    });
}
