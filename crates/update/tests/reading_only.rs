//! Engines that are opened for reading only write nothing, whatever a crash left, and serve all reads.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, IoBuf, Op, Request,
    Result as StorageResult,
};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{
    At, Engine, Error, Format, Formats, Kinds, LOG_LABEL_BLOCKS, Modification, Options, PUT,
    Question, Result, SpaceId, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
/// Keys that have been brought to blocks, and those that are in the log alone.
const PLACED: u64 = 40;
const KEYS: u64 = 45;

/// A device that stops the test where it is told to write or to flush.
#[derive(Debug)]
struct Sealed(Arc<FaultyDevice>);

impl Device for Sealed {
    fn inquiry(&self) -> &Inquiry {
        self.0.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> StorageResult<Ensemble> {
        self.0.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> StorageResult<BlockRange> {
        self.0.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> StorageResult<EquivalenceClass> {
        self.0.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        assert!(batch.iter().all(|request| request.op == Op::Read), "{batch:?}");
        self.0.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        panic!("{} is flushed", self.0.inquiry().name);
    }
}

/// Whether there is a value.
struct IsThere;

impl Question for IsThere {
    type Answer = bool;

    fn of_newest(&self, _: Modification<'_>) -> Option<bool> {
        None
    }

    fn of_value(&self, value: Option<&[u8]>) -> bool {
        value.is_some()
    }
}

struct Made {
    data: Arc<FaultyDevice>,
    logs: [Arc<FaultyDevice>; 2],
}

impl Made {
    /// An engine that a crash ended: some keys in blocks, some in the log, whose last frame is torn.
    async fn crashed() -> Made {
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Power::on())
        };
        let made =
            Made { data: device("data", 4000), logs: [device("log 0", 800), device("log 1", 800)] };
        let engine = made.formatted().await;
        for key in 0..PLACED {
            put(&engine, key).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        for key in PLACED..=KEYS {
            put(&engine, key).await.unwrap();
        }
        drop(engine);
        sleep(Nanos(10_000_000)).await;
        made
    }

    /// An engine on new devices, with an empty space.
    async fn formatted(&self) -> Engine {
        let logs = self.logs.clone().map(|log| log as _);
        let block_bytes = ByteCount(512);
        let format = Format { block_bytes, partition_blocks: 4, ..Format::default() };
        Engine::format(&*self.data, &logs, &WholeBlocks, format).await.unwrap();
        let engine = self.open_for_writing().await;
        engine.create_space(SPACE).await.unwrap();
        engine
    }

    async fn block(&self, lbn: Lbn) -> Vec<u8> {
        let data: &dyn Device = &*self.data;
        data.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap().to_vec()
    }

    async fn set_block(&self, lbn: Lbn, block: &[u8]) {
        let data: &dyn Device = &*self.data;
        let mut buffer = IoBuf::zeroed(BlockCount(1));
        buffer.copy_from_slice(block);
        data.write(lbn, buffer).await.unwrap();
        data.flush().await.unwrap();
    }

    async fn open_for_writing(&self) -> Engine {
        let (data, logs) = (Arc::clone(&self.data) as _, self.logs.clone().map(|log| log as _));
        let (kinds, formats, options) =
            (Kinds::new(), Formats::of(WholeBlocks), Options::default());
        Engine::open(data, &logs, kinds, formats, options).await.unwrap()
    }

    fn sealed(&self) -> (Arc<dyn Device>, [Arc<dyn Device>; 2]) {
        let sealed = |device: &Arc<FaultyDevice>| Arc::new(Sealed(Arc::clone(device))) as _;
        (sealed(&self.data), self.logs.each_ref().map(sealed))
    }

    /// The last frame, by the page of the format.
    async fn last_frame(&self) -> (Arc<FaultyDevice>, Lbn) {
        let mut last = (0, Arc::clone(&self.logs[0]), Lbn(0));
        for log in &self.logs {
            let first = Lbn(LOG_LABEL_BLOCKS.0);
            let blocks = BlockRange::between(first, Lbn(log.inquiry().capacity.0));
            let bytes = (&**log as &dyn Device).read(blocks).await.unwrap();
            for (at, block) in (first.0..).zip(bytes.chunks_exact(512)) {
                let number = u64::from_le_bytes(block[24..32].try_into().unwrap());
                if block.starts_with(b"MOIRAIUL") && number > last.0 {
                    last = (number, Arc::clone(log), Lbn(at));
                }
            }
        }
        (last.1, last.2)
    }
}

async fn open(
    devices: &(Arc<dyn Device>, [Arc<dyn Device>; 2]),
    options: Options,
) -> Result<Engine> {
    let options = Options { read_only: true, ..options };
    let (data, formats) = (Arc::clone(&devices.0), Formats::of(WholeBlocks));
    Engine::open(data, &devices.1, Kinds::new(), formats, options).await
}

async fn put(engine: &Engine, key: u64) -> Result<()> {
    let key = key.to_be_bytes();
    engine.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[7; 300] }).await
}

async fn check_content(engine: &Engine) {
    for key in 0..KEYS {
        let read = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
        assert_eq!(read.first(), Some(&7), "{key}");
    }
    let torn = engine.get(SPACE, &KEYS.to_be_bytes()).await.unwrap();
    assert!(torn.is_none_or(|value| value.first() != Some(&7)));
}

#[test]
fn engines_for_reading_only_write_nothing_and_serve_all_reads() {
    block_on_virtual(1, async {
        let made = Made::crashed().await;
        let (log, torn) = made.last_frame().await;
        log.corrupt(torn);
        // What opening for writing repairs.
        made.logs[0].corrupt(Lbn(0));
        let devices = made.sealed();
        let engines = [
            open(&devices, Options::default()).await.unwrap(),
            open(&devices, Options::default()).await.unwrap(),
        ];
        for engine in &engines {
            check_content(engine).await;
            let key = 3_u64.to_be_bytes();
            assert!(engine.now().query(SPACE, &key, &IsThere).await.unwrap());
            let view = engine.view(SPACE, At::Key(&key), 1).await.unwrap().unwrap();
            assert!(view.low.is_some());
            assert_eq!(engine.spaces(), [SPACE]);
            assert_eq!(engine.figures().queued, KEYS - PLACED);
            engine.create_space(SPACE).await.unwrap();
            engine.barrier().await.unwrap();
            let refused = [
                put(engine, 1).await,
                engine.create_space(SpaceId(2)).await,
                engine.checkpoint().await,
            ];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(matches!(&error, Error::ReadOnly { device } if device == "data"));
                assert!(error.to_string().contains("opened for reading only"), "{error}");
            }
        }
        for engine in engines {
            engine.close().await.unwrap();
        }
        sleep(Nanos(10_000_000_000)).await;
        check_content(&made.open_for_writing().await).await;
    });
}

/// The second copy of the superblock may be older than the first one: a crash came between them.
#[test]
fn a_crash_while_a_checkpoint_is_taken_is_no_damage() {
    let mut older = 0;
    for writes in 0.. {
        let is_whole = block_on_virtual(writes, async {
            let power = Power::on();
            let device = |name: &str, blocks| {
                FaultyDevice::new(
                    name.into(),
                    BlockCount(blocks),
                    BlockCount(16),
                    Arc::clone(&power),
                )
            };
            let logs = [device("log 0", 800), device("log 1", 800)];
            let made = Made { data: device("data", 4000), logs };
            let engine = made.formatted().await;
            for key in 0..PLACED {
                put(&engine, key).await.unwrap();
            }
            power.fail_after(writes);
            let is_whole = engine.checkpoint().await.is_ok();
            drop(engine);
            sleep(Nanos(10_000_000)).await;
            power.bring_back();
            for device in made.logs.iter().chain([&made.data]) {
                device.restart();
            }
            let copies = [made.block(Lbn(0)).await, made.block(Lbn(8)).await];
            older += u32::from(copies[0] != copies[1]);
            let devices = made.sealed();
            let check = async || open(&devices, Options::default()).await.unwrap().check().await;
            assert_eq!(check().await, [], "after {writes} writes");
            // The first copy is never the older one.
            if copies[0] != copies[1] {
                made.set_block(Lbn(0), &copies[1]).await;
                made.set_block(Lbn(8), &copies[0]).await;
                assert_eq!(check().await.len(), 1, "after {writes} writes");
                made.open_for_writing().await.close().await.unwrap();
                assert_eq!(check().await, []);
            }
            is_whole
        });
        if is_whole {
            assert!(older > 0 && writes > 5, "{older} of {writes}");
            return;
        }
    }
}

/// Reads that would have a running engine sweep, and blocks that it would clear.
#[test]
fn an_end_that_is_forced_for_reading_only_stays_as_it_is() {
    block_on_virtual(1, async {
        let made = Made::crashed().await;
        let (log, last) = made.last_frame().await;
        log.make_unreadable(last);
        let devices = made.sealed();
        let forced =
            Options { force_log_end: true, memory: ByteCount(4 << 10), ..Options::default() };
        for _ in 0..2 {
            let refused = open(&devices, Options::default()).await;
            assert!(matches!(refused, Err(Error::LogUnreadable { .. })), "{refused:?}");
            let engine = open(&devices, forced).await.unwrap();
            for _ in 0..50 {
                check_content(&engine).await;
            }
        }
    });
}
