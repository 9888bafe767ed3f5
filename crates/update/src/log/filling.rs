//! Filling the holes of the log's file, before its frames come to them.
//!
//! A new file has holes. A write into one has to find space, and its flush to make that durable: on ext4 a frame of 4 KiB and its flush
//! took 140 us there, and 90 us where something was written before. So the first frame that comes into a hole writes zeros behind itself,
//! and those that follow find no hole.

use moirai_storage::{Device, IoBuf, Result};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

/// The zeros of one write end at a multiple of this: a quarter of a millisecond at 1 GB/s, once for many frames.
const FILLED_BYTES: ByteCount = ByteCount(256 << 10);

/// Where on a disk of the log there is no hole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling(BlockRange);

impl Default for Filling {
    fn default() -> Filling {
        Filling(BlockRange::new(Lbn(0), BlockCount(0)))
    }
}

impl Filling {
    /// How many blocks of zeros to write behind a frame of `frame` blocks, which goes to the first of the blocks `free`. They fill a
    /// hole of the device, and end with `free`, or where the device may hold something.
    pub(crate) fn zeros(
        &mut self,
        device: &dyn Device,
        free: BlockRange,
        frame: BlockCount,
    ) -> BlockCount {
        let (first, end) = (free.first, free.first + frame);
        if self.0.contains(first) && end <= self.0.end() {
            return BlockCount::ZERO;
        }
        let step = BlockCount::holding(FILLED_BYTES).0;
        let goal = Lbn(end.0.next_multiple_of(step)).min(free.end()).max(end);
        let (zeros_end, known) = match (device.data_after(end), device.data_after(Lbn(0))) {
            (Ok(Some(data)), _) if data.first <= end => (end, data.end().min(free.end())),
            (Ok(Some(data)), _) => (data.first.min(goal), data.first.min(goal)),
            // Of a device that knows its holes, the superblock is none.
            (Ok(None), Ok(Some(_))) => (goal, goal),
            _ => (end, goal),
        };
        self.0 = BlockRange::between(first, known.max(end));
        zeros_end.since(end)
    }
}

/// Writes a frame with blocks of zeros behind it, and flushes the device where that is wanted.
///
/// # Errors
/// Those of the frame without the zeros, which is written again where both together fail: a file system may have no room for the zeros.
/// Zeros that failed are not tried again. A flush that failed is not lost: a device that knows its holes fails from then on.
pub(crate) async fn write(
    device: &dyn Device,
    first: Lbn,
    (frame, zeros): (IoBuf, BlockCount),
    is_flushed: bool,
) -> Result<()> {
    let write = async |buffer| match is_flushed {
        true => device.write_flushed(first, buffer).await,
        false => device.write(first, buffer).await.map(drop),
    };
    if zeros > BlockCount::ZERO {
        let mut longer = IoBuf::zeroed(frame.blocks() + zeros);
        if let Some(front) = longer.get_mut(..frame.len()) {
            front.copy_from_slice(&frame);
        }
        if write(longer).await.is_ok() {
            return Ok(());
        }
    }
    write(frame).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::{BoxFuture, ready};
    use moirai_devices::{FaultyDevice, Power};
    use moirai_runtime::block_on_virtual;
    use moirai_storage::{
        Completions, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, Op, Request, Section,
    };

    use super::*;

    const SEGMENT: BlockRange = BlockRange { first: Lbn(1000), count: BlockCount(1000) };

    fn device() -> Arc<dyn Device> {
        FaultyDevice::new("log".into(), BlockCount(4000), BlockCount(8), Power::on())
    }

    /// Writes a frame of so many blocks of sevens; gives the blocks that were written.
    async fn write_sevens(filling: &mut Filling, device: &dyn Device, at: u64, blocks: u64) -> u64 {
        let mut frame = IoBuf::zeroed(BlockCount(blocks));
        frame.fill(7);
        let free = BlockRange::between(Lbn(at), SEGMENT.end());
        let zeros = filling.zeros(device, free, BlockCount(blocks));
        write(device, Lbn(at), (frame, zeros), false).await.unwrap();
        let written = BlockRange::new(Lbn(at), BlockCount(blocks) + zeros);
        let read = device.read(written).await.unwrap();
        let (front, behind) = read.split_at((blocks * 512) as usize);
        assert!(front.iter().all(|byte| *byte == 7) && behind.iter().all(|byte| *byte == 0));
        written.count.0
    }

    #[test]
    fn a_hole_is_filled_once_and_data_is_left_alone() {
        block_on_virtual(1, async {
            let device = device();
            device.write(Lbn(0), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            device.write(Lbn(1700), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            let mut filling = Filling::default();
            // Up to multiples of 512 blocks, up to what is there, and to the end of the segment.
            let mut written = Vec::new();
            for (at, blocks) in [(1000, 16), (1016, 8), (1024, 8), (1530, 8), (1538, 8), (1990, 2)]
            {
                written.push(write_sevens(&mut filling, &*device, at, blocks).await);
            }
            assert_eq!(written, [24, 8, 512, 170, 8, 10]);
            // The second time nothing is filled, by whoever comes.
            let mut filling = Filling::default();
            for at in (1000..1700).step_by(100) {
                assert_eq!(write_sevens(&mut filling, &*device, at, 8).await, 8);
            }
        });
    }

    /// As the log of a store in one file.
    #[test]
    fn holes_of_a_section_are_filled() {
        block_on_virtual(1, async {
            let device = device();
            device.write(Lbn(500), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            let section = BlockRange::between(Lbn(500), Lbn(3500));
            let section = Section::of(Arc::clone(&device), section).unwrap();
            device.write(Lbn(500 + 1700), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            let mut filling = Filling::default();
            assert_eq!(write_sevens(&mut filling, &*section, 1530, 8).await, 170);
            assert_eq!(write_sevens(&mut filling, &*section, 1538, 8).await, 8);
        });
    }

    /// A device that has room for so many blocks of a write.
    #[derive(Debug)]
    struct Cramped(Arc<dyn Device>, BlockCount);

    impl Device for Cramped {
        fn inquiry(&self) -> &Inquiry {
            self.0.inquiry()
        }

        fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
            self.0.ensemble(lbn)
        }

        fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
            self.0.parallel_ensemble(lbn)
        }

        fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
            self.0.equivalent(lbn)
        }

        fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
            let is_long = |one: &Request| one.op == Op::Write && one.blocks.count > self.1;
            match batch.iter().any(is_long) {
                true => {
                    let device = self.inquiry().name.clone();
                    Box::pin(ready(vec![Err(Error::ReadOnly { device })]))
                }
                false => self.0.submit(batch),
            }
        }

        fn flush(&self) -> Flushed<'_> {
            self.0.flush()
        }

        fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
            self.0.data_after(from)
        }
    }

    #[test]
    fn a_frame_is_written_where_its_zeros_find_no_room() {
        block_on_virtual(1, async {
            let device = device();
            device.write(Lbn(0), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            let cramped = Cramped(device, BlockCount(16));
            let mut filling = Filling::default();
            for (at, has_zeros) in [(1000, true), (1008, false), (1100, true), (1600, true)] {
                let free = BlockRange::between(Lbn(at), SEGMENT.end());
                let zeros = filling.zeros(&cramped, free, BlockCount(8));
                assert_eq!(zeros > BlockCount(8), has_zeros, "{zeros} at {at}");
                let frame = IoBuf::zeroed(BlockCount(8));
                write(&cramped, Lbn(at), (frame, zeros), at == 1600).await.unwrap();
            }
            let long = IoBuf::zeroed(BlockCount(17));
            assert!(write(&cramped, Lbn(1000), (long, BlockCount::ZERO), false).await.is_err());
        });
    }

    #[test]
    fn a_device_that_knows_no_holes_is_not_filled() {
        block_on_virtual(1, async {
            let device = device();
            assert_eq!(write_sevens(&mut Filling::default(), &*device, 1000, 8).await, 8);
        });
    }
}
