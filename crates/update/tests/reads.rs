//! What reading takes: one request, one more where something is staged for what is read, and none of these once
//! readers have paid for a sweep. No request where there is memory to keep what was read.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_real, block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{
    At, Block, Engine, Format, Formats, Group, Kind, KindNumber, Kinds, Modification, Options, PUT,
    Question, SpaceId, Value, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
const ADD: KindNumber = KindNumber(20);
const BLOCK: usize = 4096;
const KEYS: u64 = 512;
/// The key of a block that is told by what it begins with.
const MARKED: u64 = 56;
const MARK: u64 = 1000;

/// Adds to the number at the front.
struct AddToFront;

impl Kind for AddToFront {
    fn apply(&self, value: &mut Value, _: &[u8]) {
        if let Some(front) = value.bytes.first_chunk_mut() {
            *front = (u64::from_le_bytes(*front) + 1).to_le_bytes();
        }
    }
}

async fn modify_all(engine: &Engine, keys: impl Iterator<Item = u64>, kind: KindNumber) {
    for key in keys {
        let mut group = Group::new();
        let number: u64 = if key == MARKED { MARK } else { 0 };
        let key = key.to_be_bytes();
        // A block of zeros would take no room.
        let bytes = [number.to_le_bytes(), [7; 8]].concat();
        group.modify(SPACE, Modification { key: &key, kind, bytes: &bytes });
        engine.commit(&group).await.unwrap();
    }
}

async fn number(engine: &Engine, key: u64) -> u64 {
    let value = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
    u64::from_le_bytes(*value.first_chunk().unwrap())
}

/// An engine whose blocks are written, and that has staged one addition to every eighth of them; with its data device.
async fn staged() -> (Engine, Arc<FaultyDevice>) {
    staged_in(ByteCount(1 << 20)).await
}

/// The same with so much memory.
async fn staged_in(memory: ByteCount) -> (Engine, Arc<FaultyDevice>) {
    let power = Power::on();
    let device = |name: &str, blocks| {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let data = device("data", 40_000);
    let logs = [device("log", 20_000) as Arc<dyn Device>];
    let format =
        Format { block_bytes: ByteCount(BLOCK as u64), partition_blocks: 64, ..Format::default() };
    Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddToFront)).unwrap();
    let options = Options { memory, ..Options::default() };
    let engine =
        Engine::open(Arc::clone(&data) as _, &logs, kinds, Formats::of(WholeBlocks), options)
            .await
            .unwrap();
    engine.create_space(SPACE).await.unwrap();
    modify_all(&engine, 0..KEYS, PUT).await;
    engine.checkpoint().await.unwrap();
    modify_all(&engine, (0..KEYS).step_by(8), ADD).await;
    engine.checkpoint().await.unwrap();
    (engine, data)
}

#[test]
fn reading_takes_two_requests_at_most_and_one_where_nothing_is_staged() {
    block_on_virtual(1, async {
        let (engine, _) = staged().await;
        let before = engine.figures();
        assert!(before.staged_bytes > 0);
        for key in [1, 9, 17, 130, 511] {
            assert_eq!(number(&engine, key).await, 0);
        }
        let alone = engine.figures();
        assert_eq!((alone.reads - before.reads, alone.staged_reads), (5, before.staged_reads));
        for key in [0, 8, 16, 256, 504] {
            assert_eq!(number(&engine, key).await, 1);
        }
        let both = engine.figures();
        assert_eq!((both.reads - alone.reads, both.staged_reads - alone.staged_reads), (10, 5));
    });
}

#[test]
fn lock_time_is_measured_in_real_time_alone() {
    async fn held() -> u64 {
        let (engine, _) = staged().await;
        engine.figures().lock_held_max_ns
    }
    assert_eq!(block_on_virtual(1, held()), 0);
    let held = block_on_real(1, held());
    assert!((1..1_000_000_000).contains(&held), "{held} ns");
}

#[test]
fn what_readers_have_paid_for_is_swept() {
    block_on_virtual(1, async {
        let (engine, _) = staged().await;
        let before = engine.figures();
        // A partition of 64 blocks of 4 KiB: some 70 reads cost as much as writing it.
        for turn in 0..120 {
            assert_eq!(number(&engine, turn % 7 * 8).await, 1);
            sleep(Nanos(1_000_000)).await;
        }
        let after = engine.figures();
        assert_eq!(after.placed - before.placed, 1);
        assert!(after.staged_reads - before.staged_reads < 90);
        assert_eq!(number(&engine, 0).await, 1);
        assert_eq!(engine.figures().staged_reads, after.staged_reads);
        // Others are as they were.
        assert_eq!(number(&engine, 256).await, 1);
        assert_eq!(engine.figures().staged_reads, after.staged_reads + 1);
    });
}

#[test]
fn what_was_read_is_kept_in_memory_that_nothing_else_needs() {
    block_on_virtual(1, async {
        let (engine, _) = staged().await;
        let read_all = async |keys: std::ops::Range<u64>| {
            let before = engine.figures();
            for key in keys {
                assert_eq!(number(&engine, key).await, u64::from(key % 8 == 0));
            }
            let after = engine.figures();
            assert!(after.cached_bytes + after.queued_bytes + after.directory_bytes <= 1 << 20);
            (after.reads - before.reads, after.cached_reads - before.cached_reads)
        };
        assert_eq!(read_all(41..48).await, (7, 0));
        assert_eq!(read_all(41..48).await, (0, 7));
        // A block is kept, and what is staged for it is read.
        assert_eq!(read_all(64..65).await, (2, 0));
        assert_eq!(read_all(64..65).await, (1, 1));
        // More than there is room for: each is right, and some are kept.
        let (reads, kept) = read_all(257..512).await;
        // Some of what a filter lets pass is not there.
        assert!((286..300).contains(&reads) && kept == 0, "{reads} and {kept}");
        let (_, kept) = read_all(257..512).await;
        assert!((1..255).contains(&kept), "{kept} were kept");
        // What is modified needs the memory.
        let before = engine.figures();
        modify_all(&engine, (0..10).cycle().take(20_000), ADD).await;
        let after = engine.figures();
        assert!(after.cached_bytes < before.cached_bytes);
        assert!(after.cached_bytes + after.queued_bytes + after.directory_bytes <= 1 << 20);
        engine.checkpoint().await.unwrap();
        assert_eq!((number(&engine, 9).await, number(&engine, 41).await), (2000, 0));
    });
}

/// The sum of the numbers of all blocks, as views show them, and the requests and cached reads that they took.
async fn scanned(engine: &Engine) -> (u64, u64, u64) {
    let (before, mut sum) = (engine.figures(), 0);
    let mut views = engine.now().views(SPACE, At::Key(&[]), 64, |_| true);
    while let Some(view) = views.next().await {
        let number = |block: Block<'_>| u64::from_le_bytes(*block.bytes().first_chunk().unwrap());
        sum += view.unwrap().blocks().map(|(_, block)| number(block)).sum::<u64>();
    }
    let after = engine.figures();
    (sum, after.reads - before.reads, after.cached_reads - before.cached_reads)
}

#[test]
fn views_of_a_space_that_takes_little_of_the_memory_are_kept() {
    block_on_virtual(1, async {
        let (engine, data) = staged_in(ByteCount(8 << 20)).await;
        // There are eight partitions. Each takes one request for its blocks and one for its staged chunk.
        let sum = MARK + KEYS / 8;
        assert_eq!(scanned(&engine).await, (sum, 16, 0));
        assert_eq!(scanned(&engine).await, (sum, 8, 8));
        // A value is found in what a view left.
        let before = engine.figures().reads;
        assert_eq!(number(&engine, 9).await, 0);
        assert_eq!(engine.figures().reads, before);
        // What is rewritten lies elsewhere, and is read anew.
        let placed = engine.figures().placed;
        modify_all(&engine, 0..7, ADD).await;
        engine.checkpoint().await.unwrap();
        for turn in 0..200 {
            assert_eq!(number(&engine, turn % 7).await, 1 + u64::from(turn % 7 == 0));
            sleep(Nanos(1_000_000)).await;
        }
        assert_eq!(engine.figures().placed, placed + 1);
        assert_eq!(scanned(&engine).await, (sum + 7, 8, 7));
        engine.close().await.unwrap();
        drop(data);
        // Two megabytes of blocks are more than half of the room here.
        let (engine, _) = staged_in(ByteCount(1 << 20)).await;
        for _ in 0..2 {
            assert_eq!(scanned(&engine).await.2, 0);
        }
    });
}

#[test]
fn what_cannot_be_swept_for_readers_stops_nothing() {
    block_on_virtual(1, async {
        let (engine, data) = staged().await;
        let before = engine.figures();
        let device: &dyn Device = &*data;
        let mut marked = 0;
        for lbn in (0..device.inquiry().capacity.0).map(Lbn) {
            let block = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
            if block.starts_with(&MARK.to_le_bytes()) {
                data.make_unreadable(lbn);
                marked += 1;
            }
        }
        assert_eq!(marked, 1);
        for turn in 0..200 {
            assert_eq!(number(&engine, turn % 7 * 8).await, 1);
            sleep(Nanos(1_000_000)).await;
        }
        assert_eq!(engine.figures().placed, before.placed);
        modify_all(&engine, 0..6, ADD).await;
        assert_eq!(number(&engine, 0).await, 2);
        assert!(engine.get(SPACE, &MARKED.to_be_bytes()).await.is_err());
    });
}

/// Whether a value was added to, or a number is in it.
struct WasAddedTo;

impl Question for WasAddedTo {
    type Answer = bool;

    fn of_newest(&self, newest: Modification<'_>) -> Option<bool> {
        (newest.kind == ADD).then_some(true)
    }

    fn of_value(&self, value: Option<&[u8]>) -> bool {
        value.and_then(|value| value.first()).is_some_and(|byte| *byte != 0)
    }
}

#[test]
fn what_is_pending_answers_a_question_without_reading() {
    block_on_virtual(1, async {
        let (engine, _) = staged().await;
        let ask = |key: u64| {
            let engine = &engine;
            async move { engine.now().query(SPACE, &key.to_be_bytes(), &WasAddedTo).await.unwrap() }
        };
        modify_all(&engine, std::iter::once(3), ADD).await;
        let before = engine.figures();
        assert!(ask(3).await);
        assert_eq!(engine.figures().reads, before.reads);
        // Staged, and neither.
        assert!(ask(8).await && !ask(9).await);
        assert_eq!(engine.figures().reads, before.reads + 3);
    });
}
