//! Readers see durable groups only: not while the flush of a group is in flight, and never after it failed.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::future::BoxFuture;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep, spawn};
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Error as DeviceError, Flushed, Inquiry,
    Request, Result as DeviceResult,
};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{
    At, Durability, Engine, Error, Format, Formats, Group, Kinds, Modification, Options, PUT,
    Question, SpaceId, View, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
const OTHER: SpaceId = SpaceId(2);
/// Longer than any request to these devices takes.
const LONG: Nanos = Nanos(1_000_000_000);

const PASSES: u8 = 0;
const BLOCKS: u8 = 1;
const FAILS: u8 = 2;

/// A device whose flushes pass, block until they may pass, or fail.
#[derive(Debug)]
struct Gate {
    device: Arc<FaultyDevice>,
    mode: AtomicU8,
}

impl Gate {
    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::Release);
    }

    fn is(&self, mode: u8) -> bool {
        self.mode.load(Ordering::Acquire) == mode
    }
}

impl Device for Gate {
    fn inquiry(&self) -> &Inquiry {
        self.device.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> DeviceResult<Ensemble> {
        self.device.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> DeviceResult<BlockRange> {
        self.device.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> DeviceResult<EquivalenceClass> {
        self.device.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.device.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            while self.is(BLOCKS) {
                sleep(Nanos(1_000_000)).await;
            }
            if self.is(FAILS) {
                return Err(DeviceError::Io {
                    device: self.inquiry().name.clone(),
                    action: "flush",
                    offset: Lbn(0).byte_offset(),
                    source: std::io::Error::other("the test wants it"),
                });
            }
            self.device.flush().await
        })
    }
}

struct Fixture {
    data: Arc<Gate>,
    log: Arc<Gate>,
}

impl Fixture {
    async fn new() -> Fixture {
        let power = Power::on();
        let gate = |name: &str, blocks| {
            let (blocks, ensemble) = (BlockCount(blocks), BlockCount(16));
            let device = FaultyDevice::new(name.into(), blocks, ensemble, Arc::clone(&power));
            Arc::new(Gate { device, mode: AtomicU8::new(PASSES) })
        };
        let fixture = Fixture { data: gate("data", 4000), log: gate("log", 800) };
        let format =
            Format { block_bytes: ByteCount(512), partition_blocks: 4, ..Format::default() };
        Engine::format(&*fixture.data, &fixture.logs(), &WholeBlocks, format).await.unwrap();
        fixture
    }

    fn logs(&self) -> [Arc<dyn Device>; 1] {
        [Arc::clone(&self.log) as _]
    }

    async fn open(&self, options: Options) -> Arc<Engine> {
        let (data, formats) = (Arc::clone(&self.data) as _, Formats::of(WholeBlocks));
        let engine =
            Engine::open(data, &self.logs(), Kinds::new(), formats, options).await.unwrap();
        engine.create_space(SPACE).await.unwrap();
        Arc::new(engine)
    }
}

fn group(space: SpaceId, key: u64, byte: u8) -> Group {
    let mut group = Group::new();
    let key = key.to_be_bytes();
    group.modify(space, Modification { key: &key, kind: PUT, bytes: &[byte; 300] });
    group
}

async fn put(engine: &Engine, key: u64, byte: u8) -> Result<(), Error> {
    engine.commit(&group(SPACE, key, byte)).await
}

/// What the first byte under a key is.
struct FirstByte;

impl Question for FirstByte {
    type Answer = u8;

    fn of_newest(&self, newest: Modification<'_>) -> Option<u8> {
        newest.bytes.first().copied()
    }

    fn of_value(&self, value: Option<&[u8]>) -> u8 {
        value.and_then(|value| value.first()).copied().unwrap_or(0)
    }
}

/// The first byte under a key, by each way to read it.
async fn read(engine: &Engine, key: u64) -> u8 {
    let key = key.to_be_bytes();
    let got = engine.get(SPACE, &key).await.unwrap();
    let got = got.and_then(|value| value.first().copied()).unwrap_or(0);
    assert_eq!(engine.now().query(SPACE, &key, &FirstByte).await.unwrap(), got);
    let view = engine.view(SPACE, At::Key(&key), 1).await.unwrap();
    let blocks = view.iter().flat_map(View::blocks);
    let viewed = blocks.filter(|(low, _)| *low == key).find_map(|(_, block)| block.bytes().first());
    assert_eq!(viewed.copied().unwrap_or(0), got);
    got
}

#[test]
fn reads_do_not_show_a_group_whose_flush_is_in_flight() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let engine = fixture.open(Options::default()).await;
        put(&engine, 1, 7).await.unwrap();
        fixture.log.set(BLOCKS);
        let committing = Arc::clone(&engine);
        let committed = spawn(async move { put(&committing, 1, 8).await });
        // Another one behind it, whose future is dropped: the group stays in.
        let later = Arc::clone(&engine);
        let dropped = spawn(async move { put(&later, 2, 9).await });
        sleep(LONG).await;
        drop(dropped);
        assert!(!committed.is_ended());
        assert_eq!((read(&engine, 1).await, read(&engine, 2).await), (7, 0));
        fixture.log.set(PASSES);
        committed.await.unwrap();
        assert_eq!(read(&engine, 1).await, 8);
        sleep(LONG).await;
        assert_eq!(read(&engine, 2).await, 9);
    });
}

#[test]
fn reads_never_show_a_group_whose_flush_failed() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let engine = fixture.open(Options::default()).await;
        put(&engine, 1, 7).await.unwrap();
        fixture.log.set(FAILS);
        let committing = Arc::clone(&engine);
        let committed = spawn(async move { put(&committing, 1, 8).await });
        while !committed.is_ended() {
            assert_eq!(read(&engine, 1).await, 7);
            sleep(Nanos(1000)).await;
        }
        let failed = committed.await;
        assert!(matches!(failed, Err(Error::Stopped { .. })), "{failed:?}");
        fixture.log.set(PASSES);
        assert!(matches!(put(&engine, 1, 9).await, Err(Error::Stopped { .. })));
        sleep(LONG).await;
        assert_eq!(read(&engine, 1).await, 7);
    });
}

/// The log goes on for a moment after a sweep stopped the engine.
#[test]
fn reads_never_show_a_group_that_was_refused_before_its_flush_ended() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let engine = fixture.open(Options::default()).await;
        put(&engine, 1, 7).await.unwrap();
        fixture.data.set(BLOCKS);
        let sweeping = Arc::clone(&engine);
        let swept = spawn(async move { sweeping.checkpoint().await });
        sleep(LONG).await;
        fixture.log.set(BLOCKS);
        let committing = Arc::clone(&engine);
        let committed = spawn(async move { put(&committing, 1, 8).await });
        sleep(LONG).await;
        assert!(!committed.is_ended() && !swept.is_ended());
        fixture.data.set(FAILS);
        let (failed, refused) = (swept.await, committed.await);
        assert!(matches!(failed, Err(Error::Stopped { .. })), "{failed:?}");
        assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
        fixture.log.set(PASSES);
        sleep(LONG).await;
        assert_eq!(read(&engine, 1).await, 7);
    });
}

/// With `Durability::Written` for all, reads show what is written; one commit may wait for its flush.
#[test]
fn a_commit_waits_for_as_much_as_it_asks_for() {
    block_on_virtual(1, async {
        for default in [Durability::Flushed, Durability::Written] {
            for asked in [Durability::Flushed, Durability::Written] {
                let fixture = Fixture::new().await;
                let options = Options { durability: default, ..Options::default() };
                let engine = fixture.open(options).await;
                engine.barrier().await.unwrap();
                fixture.log.set(BLOCKS);
                let committing = Arc::clone(&engine);
                let committed =
                    spawn(async move { committing.commit_with(&group(SPACE, 1, 7), asked).await });
                sleep(LONG).await;
                let is_shown = read(&engine, 1).await == 7;
                assert_eq!(is_shown, default == Durability::Written);
                let is_written = (default, asked) == (Durability::Written, Durability::Written);
                assert_eq!(committed.is_ended(), is_written, "{default:?}, {asked:?}");
                fixture.log.set(PASSES);
                committed.await.unwrap();
                assert_eq!(read(&engine, 1).await, 7);
            }
        }
    });
}

#[test]
fn groups_whose_flush_is_in_flight_count_as_memory() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let memory = ByteCount(16 << 10);
        let engine = fixture.open(Options { memory, ..Options::default() }).await;
        fixture.log.set(BLOCKS);
        let mut all = Vec::new();
        for key in 0..200 {
            let engine = Arc::clone(&engine);
            all.push(spawn(async move { put(&engine, key, 7).await }));
        }
        sleep(LONG).await;
        let figures = engine.figures();
        assert!((1000..memory.0).contains(&figures.queued_bytes), "{figures:?}");
        assert!(figures.modifications < 100, "{figures:?}");
        // The groups that wait do not depend on those before them being waited for.
        let waiting = all.split_off(figures.modifications as usize);
        drop(all);
        fixture.log.set(PASSES);
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!((read(&engine, 0).await, read(&engine, 199).await), (7, 7));
    });
}

/// A space counts for what comes after it in the log, and is there for readers once it is durable.
#[test]
fn a_space_takes_groups_before_it_is_durable() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let engine = fixture.open(Options::default()).await;
        fixture.log.set(BLOCKS);
        let mut all = Vec::new();
        for _ in 0..2 {
            let engine = Arc::clone(&engine);
            all.push(spawn(async move { engine.create_space(OTHER).await }));
        }
        let committing = Arc::clone(&engine);
        all.push(spawn(async move { committing.commit(&group(OTHER, 1, 7)).await }));
        sleep(LONG).await;
        assert!(all.iter().all(|one| !one.is_ended()));
        assert_eq!(engine.spaces(), [SPACE]);
        let key = 1_u64.to_be_bytes();
        let read = engine.get(OTHER, &key).await;
        assert!(matches!(read, Err(Error::NoSpace { space: OTHER })), "{read:?}");
        fixture.log.set(PASSES);
        for one in all {
            one.await.unwrap();
        }
        assert!(engine.get(OTHER, &key).await.unwrap().is_some());
    });
}

/// Both number partitions, before what they append is applied.
#[test]
fn spaces_that_are_made_during_sweeps_take_no_partition_of_these() {
    block_on_virtual(1, async {
        let fixture = Fixture::new().await;
        let memory = ByteCount(16 << 10);
        let engine = fixture.open(Options { memory, ..Options::default() }).await;
        let mut all = Vec::new();
        for number in 0..300 {
            let putting = Arc::clone(&engine);
            all.push(spawn(async move { put(&putting, number, 7).await }));
            if number % 5 == 0 {
                let making = Arc::clone(&engine);
                let space = SpaceId(2 + number as u32);
                all.push(spawn(async move { making.create_space(space).await }));
            }
            sleep(Nanos(100_000)).await;
        }
        for one in all {
            one.await.unwrap();
        }
        let (spaces, partitions) = (engine.spaces(), engine.figures().partitions);
        assert!(spaces.len() == 61 && partitions > 80, "{partitions} partitions");
        drop(engine);
        sleep(LONG).await;
        let engine = fixture.open(Options { memory, ..Options::default() }).await;
        assert_eq!(engine.spaces(), spaces);
        for key in 0..300 {
            assert_eq!(read(&engine, key).await, 7, "{key}");
        }
    });
}
