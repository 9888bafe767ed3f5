//! A log on several devices.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, spawn};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{
    Durability, Engine, Error, Format, Formats, Group, Kinds, LOG_LABEL_BLOCKS, LogWriter,
    Modification, Options, PUT, Result, SpaceId, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
const LABEL: BlockRange = BlockRange { first: Lbn(0), count: BlockCount(1) };

struct Made {
    data: Arc<dyn Device>,
    logs: [Arc<FaultyDevice>; 2],
}

fn device(name: &str, blocks: u64) -> Arc<FaultyDevice> {
    FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Power::on())
}

impl Made {
    async fn new(writer: LogWriter) -> Made {
        let made =
            Made { data: device("data", 4000), logs: [device("log 0", 800), device("log 1", 400)] };
        let format = Format {
            block_bytes: ByteCount(512),
            partition_blocks: 4,
            segment_bytes: Some(ByteCount(8 << 10)),
            log: writer,
            ..Format::default()
        };
        Engine::format(&*made.data, &made.logs(), &WholeBlocks, format).await.unwrap();
        made
    }

    fn logs(&self) -> [Arc<dyn Device>; 2] {
        self.logs.clone().map(|log| log as _)
    }

    async fn open(&self, logs: &[Arc<dyn Device>], durability: Durability) -> Result<Engine> {
        let options = Options { log_wait: Nanos(0), durability, ..Options::default() };
        let (data, formats) = (Arc::clone(&self.data), Formats::of(WholeBlocks));
        let engine = Engine::open(data, logs, Kinds::new(), formats, options).await?;
        engine.create_space(SPACE).await?;
        Ok(engine)
    }
}

async fn put(engine: &Engine, key: u64) -> Result<()> {
    let key = key.to_be_bytes();
    engine.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[7; 300] }).await
}

/// A group that a crash cut off leaves segments in which nothing begins. They are free when it comes again.
#[test]
fn a_long_group_that_was_cut_off_finds_room_when_it_comes_again() {
    let trail = LogWriter::Trail { rotation: Nanos(1_000_000) };
    // Nearly as many blocks as a group can be of.
    let writers = [(LogWriter::Append, 120_u64), (trail, 90)];
    let cases = writers.into_iter().flat_map(|one| (1..16).map(move |writes| (one, writes)));
    for ((writer, keys), writes) in cases {
        block_on_virtual(1, async {
            let power = Power::on();
            let device = |name: &str, blocks| {
                let blocks = BlockCount(blocks);
                FaultyDevice::new(name.into(), blocks, BlockCount(16), Arc::clone(&power))
            };
            let (data, log) = (device("data", 4000), device("log", 16 * 17));
            let logs = [Arc::clone(&log) as Arc<dyn Device>];
            let format = Format {
                block_bytes: ByteCount(512),
                segment_bytes: Some(ByteCount(16 * 512)),
                log: writer,
                ..Format::default()
            };
            Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
            let open = async || {
                // What was written stays, also without a flush.
                let options = Options { durability: Durability::Written, ..Options::default() };
                let data = Arc::clone(&data) as Arc<dyn Device>;
                let formats = Formats::of(WholeBlocks);
                let engine = Engine::open(data, &logs, Kinds::new(), formats, options).await?;
                engine.create_space(SPACE).await?;
                Result::Ok(Arc::new(engine))
            };
            let mut long = Group::new();
            for key in 0..keys {
                let key = key.to_be_bytes();
                long.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[7; 512] });
            }
            let engine = open().await.unwrap();
            engine.checkpoint().await.unwrap();
            power.fail_after(writes);
            let _ = engine.commit(&long).await;
            drop(engine);
            moirai_runtime::sleep(Nanos(10_000_000)).await;
            power.bring_back();
            // A group that is whole has the number of the one that is none.
            let engine = open().await.unwrap();
            put(&engine, 1).await.unwrap();
            drop(engine);
            moirai_runtime::sleep(Nanos(10_000_000)).await;
            let engine = open().await.unwrap();
            for _ in 0..5 {
                let engine = Arc::clone(&engine);
                let long = long.clone();
                let committed = spawn(async move { engine.commit(&long).await });
                moirai_runtime::sleep(Nanos(10_000_000_000)).await;
                assert!(committed.is_ended(), "{writer:?}, cut off after {writes}: it waits");
                committed.await.unwrap();
            }
        });
    }
}

#[test]
fn who_makes_a_space_waits_for_room_in_the_log() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
        // Each is a block of the log at least, which has 1,200.
        let spaces = 2..1500;
        for space in spaces.clone() {
            engine.create_space(SpaceId(space)).await.unwrap();
        }
        drop(engine);
        let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
        assert_eq!(engine.spaces().len(), spaces.len() + 1);
    });
}

/// A store at rest needs a short log, and the device gets back what the log was longer.
#[test]
fn a_store_at_rest_gives_its_log_back() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
        let held = async || {
            let mut held = 0;
            for log in made.logs() {
                let all = BlockRange::new(Lbn(0), log.inquiry().capacity);
                let content = log.read(all).await.unwrap();
                held += content.chunks_exact(512).filter(|block| *block != [0; 512]).count();
            }
            held
        };
        for key in 0..1000 {
            put(&engine, key).await.unwrap();
        }
        // Of 1,200 blocks.
        let before = held().await;
        assert!(before > 500, "{before}");
        // Not while it may go on.
        moirai_runtime::sleep(Nanos(10_000_000_000)).await;
        assert!(held().await >= before);
        moirai_runtime::sleep(Nanos(20_000_000_000)).await;
        let after = held().await;
        assert!(after < 1200 / 4, "{before} before, {after} after");
        assert!(engine.figures().log_segments_used <= 1 + 2);
        // Again, though the sweeper had nothing to do.
        for key in 1000..1400 {
            put(&engine, key).await.unwrap();
        }
        assert!(held().await > 300);
        moirai_runtime::sleep(Nanos(30_000_000_000)).await;
        assert!(held().await < 1200 / 4);
        // The next opening finds all of it, also what came after the rest.
        put(&engine, 1400).await.unwrap();
        drop(engine);
        let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
        for key in 0..1401_u64 {
            assert!(engine.get(SPACE, &key.to_be_bytes()).await.unwrap().is_some(), "{key}");
        }
    });
}

/// Puts so many at the same time.
async fn put_all(engine: &Arc<Engine>, keys: u64) {
    let one = |key| {
        let engine = Arc::clone(engine);
        spawn(async move { put(&engine, key).await })
    };
    let all: Vec<_> = (0..keys).map(one).collect();
    for one in all {
        one.await.unwrap();
    }
}

#[test]
fn what_comes_while_a_disk_writes_goes_to_another_and_is_found_there() {
    let trail = LogWriter::Trail { rotation: Nanos(1_000_000) };
    for writer in [LogWriter::Append, trail] {
        block_on_virtual(1, async {
            let made = Made::new(writer).await;
            let engine = Arc::new(made.open(&made.logs(), Durability::Flushed).await.unwrap());
            // A second put comes once the first is under way, and so on.
            let first = {
                let engine = Arc::clone(&engine);
                spawn(async move { put(&engine, 100).await })
            };
            moirai_runtime::sleep(Nanos(1)).await;
            put_all(&engine, 20).await;
            first.await.unwrap();
            drop(engine);
            for log in made.logs() {
                let behind = BlockRange::new(Lbn(LOG_LABEL_BLOCKS.0), BlockCount(100));
                let written = (log.as_ref() as &dyn Device).read(behind).await.unwrap();
                assert!(written.iter().any(|byte| *byte != 0), "{}", log.inquiry().name);
            }
            let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
            for key in (0..20_u64).chain([100]) {
                let read = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
                assert_eq!(read.first(), Some(&7), "{key}");
            }
        });
    }
}

#[test]
fn a_device_of_another_is_refused_and_left_as_it_is() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = made.open(&made.logs(), Durability::Flushed).await.unwrap();
        put(&engine, 1).await.unwrap();
        drop(engine);
        let [first, second] = made.logs();
        let other: Arc<dyn Device> = device("other", 400);
        let theirs = IoBuf::holding(&[9; 512 * 400]);
        other.write(Lbn(0), theirs).await.unwrap();
        let blank: Arc<dyn Device> = device("blank", 400);
        for logs in [[&first, &other], [&first, &blank], [&second, &first], [&first, &first]] {
            let logs = logs.map(Arc::clone);
            let refused = made.open(&logs, Durability::Flushed).await;
            assert!(matches!(refused, Err(Error::OtherLog { .. })), "{refused:?}");
        }
        let refused = made.open(std::slice::from_ref(&first), Durability::Flushed).await;
        assert!(matches!(refused, Err(Error::Options { .. })), "{refused:?}");
        let whole = other.read(BlockRange::new(Lbn(0), BlockCount(400))).await.unwrap();
        assert!(whole.iter().all(|byte| *byte == 9));
        made.open(&[first, second], Durability::Flushed).await.unwrap();
    });
}

#[test]
fn a_device_that_is_named_twice_is_refused() {
    block_on_virtual(1, async {
        let (data, log) = (device("data", 4000), device("log", 400) as Arc<dyn Device>);
        let format = Format { block_bytes: ByteCount(512), ..Format::default() };
        let logs = [Arc::clone(&log), log];
        let refused = Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap_err();
        assert!(refused.to_string().contains("once"), "{refused}");
    });
}

#[test]
fn a_label_that_is_damaged_is_written_again() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = Arc::new(made.open(&made.logs(), Durability::Flushed).await.unwrap());
        put_all(&engine, 5).await;
        put(&engine, 1).await.unwrap();
        drop(engine);
        let log: Arc<dyn Device> = made.logs()[0].clone();
        let before = log.read(LABEL).await.unwrap();
        made.logs[0].corrupt(Lbn(0));
        made.open(&made.logs(), Durability::Flushed).await.unwrap();
        assert_eq!(log.read(LABEL).await.unwrap()[..], before[..]);
    });
}

/// What was ours is not taken for a device that holds nothing.
#[test]
fn superblocks_that_are_damaged_are_said() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        // An opening writes the other copy anew.
        for (copies, is_opened) in [(&[1][..], true), (&[9], true), (&[1, 9], false)] {
            for copy in copies {
                made.data.write(Lbn(*copy), IoBuf::holding(&[9; 512])).await.unwrap();
            }
            let opened = made.open(&made.logs(), Durability::Flushed).await;
            assert_eq!(opened.is_ok(), is_opened, "{opened:?}");
            let is_damaged = matches!(opened, Err(Error::Damaged { what: "the superblock", .. }));
            assert_eq!(is_damaged, !is_opened, "{opened:?}");
        }
    });
}

/// A checkpoint ends though others come all the time, each with something to sweep.
#[test]
fn checkpoints_end_while_more_of_them_come() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = Arc::new(made.open(&made.logs(), Durability::Written).await.unwrap());
        let mut all = Vec::new();
        for key in 0..1000 {
            let engine = Arc::clone(&engine);
            all.push(spawn(async move {
                put(&engine, key).await?;
                engine.checkpoint().await
            }));
            // Much faster than a device carries out requests.
            moirai_runtime::sleep(Nanos(100_000)).await;
            if all.first().is_some_and(moirai_runtime::Task::is_ended) {
                break;
            }
        }
        assert!(all.len() < 500, "the first checkpoint waits for {} others", all.len());
        for one in all {
            one.await.unwrap();
        }
    });
}

/// The log of a large disk: what sweeps say of themselves goes there, and not to a checkpoint each time.
#[test]
fn sweeps_are_logged_however_long_the_log_is() {
    block_on_virtual(1, async {
        let (data, log) = (device("data", 40_000), device("log", 64 << 20) as Arc<dyn Device>);
        let format = Format { block_bytes: ByteCount(512), ..Format::default() };
        Engine::format(&*data, std::slice::from_ref(&log), &WholeBlocks, format).await.unwrap();
        let options = Options { memory: ByteCount::mib(1), ..Options::default() };
        let (logs, formats) = ([log], Formats::of(WholeBlocks));
        let engine = Engine::open(data, &logs, Kinds::new(), formats, options).await.unwrap();
        let engine = Arc::new(engine);
        engine.create_space(SPACE).await.unwrap();
        for _ in 0..4 {
            put_all(&engine, 2000).await;
        }
        let figures = engine.figures();
        assert!(figures.placed_bytes + figures.staged_bytes > 0, "{figures:?}");
        assert_eq!(figures.checkpoint_bytes, 0, "{figures:?}");
    });
}

/// A barrier ends though others come all the time, each with something to flush that is not written yet.
#[test]
fn barriers_end_while_more_of_them_come() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = Arc::new(made.open(&made.logs(), Durability::Written).await.unwrap());
        let mut all = Vec::new();
        let first = {
            let engine = Arc::clone(&engine);
            spawn(async move {
                put(&engine, 0).await?;
                engine.barrier().await
            })
        };
        // Much faster than a device carries out requests.
        for key in 1..600 {
            moirai_runtime::sleep(Nanos(20_000)).await;
            let engine = Arc::clone(&engine);
            all.push(spawn(async move {
                put(&engine, key).await?;
                engine.barrier().await
            }));
            if first.is_ended() {
                break;
            }
        }
        assert!(all.len() < 300, "the first barrier took as long as {} others came", all.len());
        first.await.unwrap();
        for one in all {
            one.await.unwrap();
        }
    });
}
