//! Groups so long that several threads apply each of them, a piece at a time: readers see all of a group, or nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai_runtime::{Stopwatch, sleep, spawn};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{
    Engine, Format, Formats, Group, Kinds, LogWriter, Modification, Options, PUT, Reader, SpaceId,
    WholeBlocks,
};

use crate::memory::Memory;
use crate::{BLOCK, SPACE};

/// Keys that each group puts a number under.
const KEYS: u64 = 4000;
/// Keys of a group that are read, the first and the last among them.
const READ: [u64; 4] = [0, KEYS / 3, KEYS / 2, KEYS - 1];
const WRITERS: u64 = 3;
const READERS: u64 = 3;
/// At least, and at most if there were few groups and reads until then.
const TIME: Nanos = Nanos(3_000_000_000);
const TIME_MAX: Nanos = Nanos(60_000_000_000);
/// Groups, and reads.
const LEAST: u64 = 60;

async fn open() -> Engine {
    let (data, log) = (Memory::new("data", 400_000), Memory::new("log", 100_000));
    let format = Format {
        block_bytes: ByteCount(BLOCK as u64),
        partition_blocks: 8,
        staging_percent: 100,
        segment_bytes: None,
        log: LogWriter::Append,
    };
    Engine::format(&*data, &[Arc::clone(&log) as _], &WholeBlocks, format).await.unwrap();
    let options = Options { memory: ByteCount::mib(256), ..Options::default() };
    let formats = Formats::of(WholeBlocks);
    let engine = Engine::open(data, &[log as _], Kinds::new(), formats, options).await.unwrap();
    engine.create_space(SPACE).await.unwrap();
    engine
}

fn group_of(number: u64) -> Group {
    let mut group = Group::new();
    for key in 0..KEYS {
        let bytes = &number.to_le_bytes();
        group.modify(SPACE, Modification { key: &key.to_be_bytes(), kind: PUT, bytes });
    }
    group
}

/// The numbers under some of the keys, from one moment.
async fn numbers(reader: Reader<'_>, space: SpaceId) -> Vec<u64> {
    let keys = READ.map(u64::to_be_bytes);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let values = reader.get_many(space, &keys).await.unwrap();
    values.into_iter().map(|value| crate::number(&value.unwrap())).collect()
}

#[test]
fn readers_see_whole_groups() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(crate::THREADS)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = Arc::new(open().await);
        engine.commit(&group_of(0)).await.unwrap();
        let (last, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reads = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..WRITERS {
            let (engine, last, is_over) =
                (Arc::clone(&engine), Arc::clone(&last), Arc::clone(&is_over));
            tasks.push(spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let number = last.fetch_add(1, Ordering::Relaxed) + 1;
                    engine.commit(&group_of(number)).await.unwrap();
                }
            }));
        }
        for reader in 0..READERS {
            let (engine, is_over) = (Arc::clone(&engine), Arc::clone(&is_over));
            let reads = Arc::clone(&reads);
            tasks.push(spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let found = match reader {
                        0 => {
                            let point = engine.read_point().await;
                            numbers(point.reader(), SPACE).await
                        }
                        _ => numbers(engine.now(), SPACE).await,
                    };
                    let is_whole = found.iter().all(|number| *number == found[0]);
                    assert!(is_whole, "after {reads:?} reads: {found:?}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let watch = Stopwatch::start();
        let done = || (last.load(Ordering::Relaxed), reads.load(Ordering::Relaxed));
        let is_enough = || done().0 >= LEAST && done().1 >= LEAST;
        while watch.elapsed() < TIME || (!is_enough() && watch.elapsed() < TIME_MAX) {
            sleep(Nanos(10_000_000)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await;
        }
        eprintln!("(groups, reads): {:?}", done());
        assert!(is_enough(), "(groups, reads): {:?}", done());
    });
}
