//! Where a log ends: at a frame that a crash tore, but not at one that was durable, and not where a device cannot be read.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Medium, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{
    Engine, Error, Format, Formats, Group, Kinds, LOG_LABEL_BLOCKS, LogWriter, Modification,
    Options, PUT, Result, SpaceId, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);
const SEGMENT_BLOCKS: u64 = 16;
const LOG_BLOCKS: u64 = 400;
const TRAIL: LogWriter = LogWriter::Trail { rotation: Nanos(1_000_000) };

struct Made {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    /// Blocks of a physical sector.
    physical: u64,
}

/// A frame as it lies on the log, read as the page of the format says.
#[derive(Clone, Copy, Debug)]
struct Found {
    number: u64,
    first: Lbn,
    blocks: u64,
}

impl Made {
    async fn new(writer: LogWriter) -> Made {
        Made::with_sectors(writer, 1).await
    }

    async fn with_sectors(writer: LogWriter, physical: u64) -> Made {
        let (data, log) = (device("data", 4000, 1), device("log", LOG_BLOCKS * physical, physical));
        let made = Made { data, log, physical };
        let format = Format {
            block_bytes: ByteCount(512),
            partition_blocks: 4,
            segment_bytes: Some(ByteCount(SEGMENT_BLOCKS * physical * BLOCK_BYTES)),
            log: writer,
            ..Format::default()
        };
        Engine::format(&*made.data, &made.logs(), &WholeBlocks, format).await.unwrap();
        made
    }

    fn logs(&self) -> [Arc<dyn Device>; 1] {
        [Arc::clone(&self.log) as _]
    }

    async fn open_with(&self, options: Options) -> Result<Engine> {
        let (data, formats) = (Arc::clone(&self.data) as _, Formats::of(WholeBlocks));
        Engine::open(data, &self.logs(), Kinds::new(), formats, options).await
    }

    async fn open(&self) -> Result<Engine> {
        self.open_with(Options::default()).await
    }

    /// The frames of the log, in the order of their numbers, without the label.
    async fn frames(&self) -> Vec<Found> {
        let first = Lbn(LOG_LABEL_BLOCKS.0);
        let blocks = BlockRange::between(first, Lbn(LOG_BLOCKS * self.physical));
        let bytes = (&*self.log as &dyn Device).read(blocks).await.unwrap();
        let blocks = (first.0..).map(Lbn).zip(bytes.chunks_exact(BLOCK_BYTES as usize));
        let frame = |(first, block): (Lbn, &[u8])| {
            let number = u64::from_le_bytes(block[24..32].try_into().unwrap());
            let bytes = u64::from(u32::from_le_bytes(block[52..56].try_into().unwrap()));
            let blocks = (64 + bytes).div_ceil(BLOCK_BYTES).next_multiple_of(self.physical);
            block.starts_with(b"MOIRAIUL").then_some(Found { number, first, blocks })
        };
        let mut frames: Vec<_> = blocks.filter_map(frame).collect();
        frames.sort_by_key(|frame| frame.number);
        frames
    }
}

fn device(name: &str, blocks: u64, physical: u64) -> Arc<FaultyDevice> {
    let (blocks, ensemble) = (BlockCount(blocks), BlockCount(SEGMENT_BLOCKS));
    let medium = Medium::disk(BlockCount(physical));
    FaultyDevice::on(medium, name.into(), blocks, ensemble, Power::on())
}

async fn put(engine: &Engine, key: u64, bytes: usize) -> Result<()> {
    let (key, bytes) = (key.to_be_bytes(), vec![7; bytes]);
    engine.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &bytes }).await
}

async fn has(engine: &Engine, key: u64) -> bool {
    let read = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
    read.first() == Some(&7)
}

/// Groups 2 to 5, after the space's own.
async fn four_puts(made: &Made, bytes: usize) -> Vec<Found> {
    let engine = made.open().await.unwrap();
    engine.create_space(SPACE).await.unwrap();
    for key in 2..6 {
        put(&engine, key, bytes).await.unwrap();
    }
    drop(engine);
    made.frames().await
}

/// The last frame may be one that a crash tore. All others were durable, as the next frame says, also when that is an
/// opening.
#[test]
fn a_log_may_lose_its_last_frame_and_no_other() {
    let cases =
        [LogWriter::Append, TRAIL].into_iter().flat_map(|one| (0..7).map(move |at| (one, at)));
    for (writer, damaged) in cases {
        block_on_virtual(1, async {
            let made = Made::new(writer).await;
            let _ = four_puts(&made, 400).await;
            drop(made.open().await.unwrap());
            let frames = made.frames().await;
            // An opening, the space, four puts, an opening.
            assert_eq!(frames.len(), 7);
            made.log.corrupt(frames[damaged].first);
            match made.open().await {
                Ok(engine) => {
                    assert_eq!(damaged, 6, "{writer:?}");
                    assert!(has(&engine, 5).await);
                }
                Err(Error::LogLost { frame, .. }) => {
                    assert!(damaged < 6, "{writer:?}");
                    assert_eq!(frame, frames[damaged].number);
                    what_is_forced(&made, damaged).await;
                }
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// A forced end leaves the groups before it, and is one for good.
async fn what_is_forced(made: &Made, damaged: usize) {
    let forced = Options { force_log_end: true, ..Options::default() };
    drop(made.open_with(forced).await.unwrap());
    for reopened in 0..2 {
        let engine = made.open().await.unwrap();
        // The frame of the space is the second.
        assert_eq!(engine.spaces().is_empty(), damaged < 2 && reopened == 0);
        engine.create_space(SPACE).await.unwrap();
        for key in 2..6 {
            assert_eq!(has(&engine, key).await, (key as usize) < damaged);
        }
        if reopened == 1 {
            put(&engine, 9, 400).await.unwrap();
            assert!(has(&engine, 9).await);
        }
    }
    assert!(has(&made.open().await.unwrap(), 9).await);
}

/// The frame after it, which says that it was durable, is two segments on.
#[test]
fn a_lost_frame_that_fills_a_segment_is_missed() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let engine = made.open().await.unwrap();
        engine.create_space(SPACE).await.unwrap();
        let mut long = Group::new();
        for key in 0..40_u64 {
            let key = key.to_be_bytes();
            long.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[7; 500] });
        }
        engine.commit(&long).await.unwrap();
        put(&engine, 50, 500).await.unwrap();
        drop(engine);
        let frames = made.frames().await;
        let whole = frames.iter().find(|frame| frame.blocks == SEGMENT_BLOCKS).unwrap();
        made.log.corrupt(whole.first);
        let opened = made.open().await;
        let is_missed =
            matches!(opened, Err(Error::LogLost { frame, .. }) if frame == whole.number);
        assert!(is_missed, "{opened:?}");
    });
}

/// What cannot be read may be readable another time: opening leaves it as it is, unless the end is forced there.
#[test]
fn a_log_does_not_end_where_it_cannot_be_read() {
    // The first and the last block of a frame.
    let cases = [(LogWriter::Append, 500, 0), (LogWriter::Append, 500, 1), (TRAIL, 400, 0)];
    for (writer, bytes, block) in cases {
        block_on_virtual(1, async {
            let made = Made::new(writer).await;
            let frames = four_puts(&made, bytes).await;
            let last = frames.last().unwrap();
            assert_eq!(last.blocks, if bytes == 500 { 2 } else { 1 });
            let lbn = last.first + BlockCount(block);
            made.log.make_unreadable(lbn);
            for _ in 0..2 {
                let refused = made.open().await;
                let Err(Error::LogUnreadable { device, offset, frame, group }) = refused else {
                    panic!("{writer:?}: {refused:?}");
                };
                assert_eq!((device.as_str(), offset), ("log", lbn.0 * BLOCK_BYTES));
                assert_eq!((frame, group), (last.number, 5));
            }
            let forced = Options { force_log_end: true, ..Options::default() };
            let engine = made.open_with(forced).await.unwrap();
            assert!(has(&engine, 4).await && !has(&engine, 5).await);
            put(&engine, 6, 500).await.unwrap();
            drop(engine);
            let engine = made.open().await.unwrap();
            assert!(has(&engine, 6).await && !has(&engine, 5).await);
        });
    }
}

/// The next frame would begin in front of it, or in the segment that has room.
#[test]
fn what_cannot_be_read_after_the_end_of_the_log_is_cleared() {
    block_on_virtual(1, async {
        let made = Made::new(LogWriter::Append).await;
        let frames = four_puts(&made, 500).await;
        let last = frames.last().unwrap();
        let end = last.first + BlockCount(last.blocks);
        let next = Lbn(LOG_LABEL_BLOCKS.0 + SEGMENT_BLOCKS);
        for lbn in [end + BlockCount(1), next] {
            made.log.make_unreadable(lbn);
            let engine = made.open().await.unwrap();
            assert!(has(&engine, 5).await);
            drop(engine);
            let block = BlockRange::new(lbn, BlockCount(1));
            (&*made.log as &dyn Device).read(block).await.unwrap();
        }
    });
}

/// Frames share no physical sector, also on a copy of the log whose device has others.
#[test]
fn frames_fill_physical_sectors_of_the_device_that_was_formatted() {
    for physical in [1, 8, 32] {
        block_on_virtual(1, async {
            let mut made = Made::with_sectors(LogWriter::Append, physical).await;
            let engine = made.open().await.unwrap();
            engine.create_space(SPACE).await.unwrap();
            for key in 0..40 {
                put(&engine, key, 500).await.unwrap();
            }
            drop(engine);
            let capacity = BlockCount(LOG_BLOCKS * physical);
            let log: &dyn Device = &*made.log;
            let whole = log.read(BlockRange::new(Lbn(0), capacity)).await.unwrap();
            made.log = device("copy", capacity.0, 1);
            (&*made.log as &dyn Device).write(Lbn(0), whole).await.unwrap();
            let engine = made.open().await.unwrap();
            for key in 0..40 {
                assert!(has(&engine, key).await);
            }
            put(&engine, 40, 500).await.unwrap();
            let frames = made.frames().await;
            // Two openings, the space, and a put each.
            assert_eq!(frames.len(), 44);
            let mut end = LOG_LABEL_BLOCKS.0.next_multiple_of(physical);
            for frame in frames {
                assert_eq!(frame.first.0 % physical, 0);
                // Segments of 16 sectors; where one has no room for all of a frame it goes on in the next.
                assert_eq!(frame.first.0, end, "{frame:?}");
                end += frame.blocks;
            }
        });
    }
}
