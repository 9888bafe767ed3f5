//! Filling the holes of the log's file, before its frames come to them.
//!
//! A new file has holes. A write into one has to find space, and its flush to make that durable: on ext4 a frame of 4 KiB and its flush
//! took 140 us there, and 90 us where something was written before. So the first frame that comes into a hole writes zeros behind itself,
//! and those that follow find no hole.

use moirai_storage::{Device, IoBuf};
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
    /// The frame that goes to the first of these free blocks, with zeros behind it where the device has a hole there. They end with the
    /// free blocks, and where the device may hold something.
    pub(crate) fn filled(&mut self, device: &dyn Device, free: BlockRange, frame: IoBuf) -> IoBuf {
        let (first, end) = (free.first, free.first + frame.blocks());
        if self.0.contains(first) && end <= self.0.end() {
            return frame;
        }
        let step = BlockCount::holding(FILLED_BYTES).0;
        let goal = Lbn(end.0.next_multiple_of(step)).min(free.end()).max(end);
        let (zeros, known) = match (device.data_after(end), device.data_after(Lbn(0))) {
            (Ok(Some(data)), _) if data.first <= end => (end, data.end().min(free.end())),
            (Ok(Some(data)), _) => (data.first.min(goal), data.first.min(goal)),
            // Of a device that knows its holes, the superblock is none.
            (Ok(None), Ok(Some(_))) => (goal, goal),
            _ => (end, goal),
        };
        self.0 = BlockRange::between(first, known.max(end));
        if zeros == end {
            return frame;
        }
        let mut longer = IoBuf::zeroed(zeros.since(first));
        if let Some(front) = longer.get_mut(..frame.len()) {
            front.copy_from_slice(&frame);
        }
        longer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use moirai_devices::{FaultyDevice, Power};
    use moirai_runtime::block_on_virtual;

    use super::*;

    const SEGMENT: BlockRange = BlockRange { first: Lbn(1000), count: BlockCount(1000) };

    fn device() -> Arc<dyn Device> {
        FaultyDevice::new("log".into(), BlockCount(4000), BlockCount(8), Power::on())
    }

    /// Writes a frame of so many blocks of sevens; gives the blocks that were written.
    async fn write(filling: &mut Filling, device: &dyn Device, at: u64, blocks: u64) -> u64 {
        let mut frame = IoBuf::zeroed(BlockCount(blocks));
        frame.fill(7);
        let filled = filling.filled(device, BlockRange::between(Lbn(at), SEGMENT.end()), frame);
        let (front, zeros) = filled.split_at((blocks * 512) as usize);
        assert!(front.iter().all(|byte| *byte == 7) && zeros.iter().all(|byte| *byte == 0));
        let written = filled.blocks().0;
        device.write(Lbn(at), filled).await.unwrap();
        written
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
                written.push(write(&mut filling, &*device, at, blocks).await);
            }
            assert_eq!(written, [24, 8, 512, 170, 8, 10]);
            // The second time nothing is filled, by whoever comes.
            let mut filling = Filling::default();
            for at in (1000..1700).step_by(100) {
                assert_eq!(write(&mut filling, &*device, at, 8).await, 8);
            }
        });
    }

    #[test]
    fn a_device_that_knows_no_holes_is_not_filled() {
        block_on_virtual(1, async {
            let device = device();
            assert_eq!(write(&mut Filling::default(), &*device, 1000, 8).await, 8);
        });
    }
}
