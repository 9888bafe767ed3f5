//! How an engine ends: closed, dropped while it closes, and by a panic in what a program registered. And that it is as
//! before when it is opened again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use futures::FutureExt;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{
    Engine, Error, Format, Formats, Kind, KindNumber, Kinds, Modification, Options, PUT, SpaceId,
    Value, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
const PANIC: KindNumber = KindNumber(20);
/// Longer than any request to these devices takes, and what follows from it.
const LONG: Nanos = Nanos(1_000_000_000);

/// A mistake of a program.
struct Panics;

impl Kind for Panics {
    fn apply(&self, _: &mut Value, _: &[u8]) {
        panic!("a kind that panics, as the test wants it");
    }
}

struct Made {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

impl Made {
    async fn new() -> Made {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let made = Made { data: device("data", 4000), log: device("log", 800) };
        let block_bytes = ByteCount(512);
        let format = Format { block_bytes, partition_blocks: 4, ..Format::default() };
        Engine::format(&*made.data, &made.logs(), &WholeBlocks, format).await.unwrap();
        made
    }

    fn logs(&self) -> [Arc<dyn Device>; 1] {
        [Arc::clone(&self.log) as _]
    }

    async fn open(&self) -> Engine {
        let mut kinds = Kinds::new();
        kinds.register(PANIC, Arc::new(Panics)).unwrap();
        let data = Arc::clone(&self.data) as Arc<dyn Device>;
        let (logs, formats) = (self.logs(), Formats::of(WholeBlocks));
        Engine::open(data, &logs, kinds, formats, Options::default()).await.unwrap()
    }

    /// How many hold the devices beside the test.
    fn holders(&self) -> usize {
        Arc::strong_count(&self.data) + Arc::strong_count(&self.log) - 2
    }
}

async fn modify(engine: &Engine, space: SpaceId, key: u64, kind: KindNumber) -> Result<(), Error> {
    let key = key.to_be_bytes();
    engine.modify(space, Modification { key: &key, kind, bytes: &[7; 300] }).await
}

#[test]
fn nothing_holds_the_devices_once_an_engine_is_closed() {
    block_on_virtual(1, async {
        let made = Made::new().await;
        let engine = made.open().await;
        engine.create_space(SPACE).await.unwrap();
        modify(&engine, SPACE, 1, PUT).await.unwrap();
        assert!(made.holders() > 0);
        engine.close().await.unwrap();
        assert_eq!(made.holders(), 0);
    });
}

/// Who no longer waits for it to close has dropped it.
#[test]
fn nothing_is_left_of_an_engine_that_is_dropped_while_it_closes() {
    for polls in 1..200 {
        block_on_virtual(1, async {
            let made = Made::new().await;
            let engine = made.open().await;
            engine.create_space(SPACE).await.unwrap();
            for key in 0..20 {
                modify(&engine, SPACE, key, PUT).await.unwrap();
            }
            let mut closing = Box::pin(engine.close());
            for _ in 0..polls {
                if (&mut closing).now_or_never().is_some() {
                    break;
                }
                sleep(Nanos(100_000)).await;
            }
            drop(closing);
            sleep(LONG).await;
            assert_eq!(made.holders(), 0, "dropped after {polls} polls");
            let engine = made.open().await;
            for key in 0..20_u64 {
                let read = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
                assert_eq!(read.first(), Some(&7), "{key}");
            }
        });
    }
}

/// Nobody waits for what a task that ended was to do.
#[test]
fn a_kind_that_panics_stops_the_engine_and_loses_nothing() {
    block_on_virtual(1, async {
        let made = Made::new().await;
        let engine = made.open().await;
        engine.create_space(SPACE).await.unwrap();
        modify(&engine, SPACE, 1, PUT).await.unwrap();
        modify(&engine, SPACE, 2, PANIC).await.unwrap();
        let refused = engine.checkpoint().await;
        assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
        let refused = modify(&engine, SPACE, 3, PUT).await;
        assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
        let read = engine.get(SPACE, &1_u64.to_be_bytes()).await.unwrap();
        assert!(read.is_some());
        drop(engine);
        sleep(LONG).await;
        // The program's mistake is in the log, and what else came, too.
        let engine = made.open().await;
        let read = engine.get(SPACE, &1_u64.to_be_bytes()).await.unwrap();
        assert!(read.is_some());
    });
}

/// What makes the state while the engine runs counts as what reads it.
#[test]
fn an_engine_counts_as_much_memory_when_it_is_opened_again() {
    block_on_virtual(1, async {
        let made = Made::new().await;
        let engine = made.open().await;
        for space in (1..40).map(SpaceId) {
            engine.create_space(space).await.unwrap();
            for key in 0..10 {
                modify(&engine, space, key, PUT).await.unwrap();
            }
        }
        engine.checkpoint().await.unwrap();
        let before = engine.figures();
        assert!(before.partitions >= 39, "{before:?}");
        engine.close().await.unwrap();
        let after = made.open().await.figures();
        assert_eq!(after.partitions, before.partitions);
        assert_eq!(after.directory_bytes, before.directory_bytes);
    });
}
