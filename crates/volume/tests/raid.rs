//! Every level keeps what was written to it, with all its devices, without some, and past blocks that
//! cannot be read.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops there")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, random};
use moirai_storage::{Device, Error, IoBuf, Op, Request, conformance};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{DiskIndex, LayoutDescription, Level, StripeUnit, Volume};
use rand::{Rng, RngCore};

const LEVELS: [(&str, usize); 12] = [
    ("raid0", 3),
    ("raid1", 2),
    ("raid1", 3),
    ("raid10", 4),
    ("raid10", 6),
    ("raid4", 3),
    ("raid5", 3),
    ("raid5", 5),
    ("raid5-left-asymmetric", 4),
    ("raid5-right-asymmetric", 4),
    ("raid6", 4),
    ("raid6", 6),
];

const LAYOUTS: [LayoutDescription; 3] = [
    LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(8)) },
    LayoutDescription::Stripe { unit: StripeUnit::Track },
    LayoutDescription::Quadrangle { depth: Some(3), block: BlockCount(2), zone: None },
];

fn devices(count: usize) -> Vec<Arc<FaultyDevice>> {
    let power = Power::on();
    (0..count)
        .map(|disk| {
            let name = format!("disk {disk}");
            FaultyDevice::new(name, BlockCount(400), BlockCount(16), Arc::clone(&power))
        })
        .collect()
}

fn volume(devices: &[Arc<FaultyDevice>], level: &str, layout: LayoutDescription) -> Arc<Volume> {
    let devices = devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect();
    Volume::new("volume:test".into(), devices, level.parse().unwrap(), layout).unwrap()
}

/// What a volume is to hold, and random accesses to it.
struct Checked {
    volume: Arc<Volume>,
    content: Vec<u8>,
    random: Random,
}

impl Checked {
    fn new(volume: Arc<Volume>, name: &str) -> Checked {
        let content = vec![0; volume.inquiry().capacity.bytes().0 as usize];
        Checked { volume, content, random: random(name) }
    }

    fn range(&mut self) -> BlockRange {
        let capacity = self.volume.inquiry().capacity.0;
        let count = match self.random.random_range(0..3) {
            0 => self.random.random_range(1..4),
            1 => self.random.random_range(1..60),
            _ => 8 * self.random.random_range(1..9),
        };
        let first = self.random.random_range(0..capacity - count);
        BlockRange::new(Lbn(first), BlockCount(count))
    }

    fn bytes(&mut self, range: BlockRange) -> &mut [u8] {
        &mut self.content[range.first.byte_offset() as usize..range.end().byte_offset() as usize]
    }

    /// Writes a batch whose requests do not overlap.
    async fn write(&mut self) {
        let mut batch: Vec<Request> = Vec::new();
        for _ in 0..self.random.random_range(1..5) {
            let blocks = self.range();
            let apart = |other: &Request| {
                blocks.end() <= other.blocks.first || other.blocks.end() <= blocks.first
            };
            if !batch.iter().all(apart) {
                continue;
            }
            let mut buffer = IoBuf::zeroed(blocks.count);
            self.random.fill_bytes(&mut buffer);
            self.bytes(blocks).copy_from_slice(&buffer);
            let cut = BlockCount(self.random.random_range(0..blocks.count.0));
            let tail = buffer.split_off(cut);
            let data = [buffer, tail].into_iter().filter(|part| !part.is_empty()).collect();
            batch.push(Request { op: Op::Write, blocks, data });
        }
        for result in self.volume.submit(batch).await {
            result.unwrap();
        }
    }

    async fn check_all(&self, what: &str) {
        let volume: &dyn Device = &*self.volume;
        let all = volume.read(self.volume.inquiry().all_blocks()).await.unwrap();
        for (block, (read, expected)) in all.chunks(512).zip(self.content.chunks(512)).enumerate() {
            assert!(read == expected, "{what}: block {block} differs");
        }
    }

    /// A read with a scatter list that is cut anywhere.
    async fn check_one(&mut self, what: &str) {
        let blocks = self.range();
        let cut = BlockCount(self.random.random_range(0..blocks.count.0));
        let parts = [cut, blocks.count - cut].map(IoBuf::zeroed);
        let data = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let results = self.volume.submit(vec![Request { op: Op::Read, blocks, data }]).await;
        let completion = results.into_iter().next().unwrap().unwrap();
        let read: Vec<u8> = completion.data.iter().flat_map(|part| part.to_vec()).collect();
        assert!(read == self.bytes(blocks), "{what}: {blocks} differ");
    }
}

fn in_all(run: impl AsyncFn(&str, usize, LayoutDescription)) {
    for (seed, (level, disks)) in (0..).zip(LEVELS) {
        for layout in LAYOUTS {
            block_on_virtual(seed, run(level, disks, layout));
        }
    }
}

#[test]
fn every_level_conforms() {
    in_all(async |level, disks, layout| {
        conformance::check(volume(&devices(disks), level, layout)).await;
    });
}

#[test]
fn data_survive_as_many_failures_as_the_level_says() {
    in_all(async |level, disks, layout| {
        let devices = devices(disks);
        let volume = volume(&devices, level, layout);
        let failures = level.parse::<Level>().unwrap().failures(disks);
        let mut checked = Checked::new(Arc::clone(&volume), "data survive");
        for failed in 0..=failures {
            let what = format!("{level} over {disks}, {layout:?}, {failed} failed");
            for _ in 0..12 {
                checked.write().await;
                checked.check_one(&what).await;
            }
            checked.check_all(&what).await;
            if failed < failures {
                // One fails as somebody says, the next by itself.
                let disk = (failed * 2 + 1) % disks;
                match failed % 2 {
                    0 => volume.fail(DiskIndex(disk)),
                    _ => devices[disk].die(),
                }
                checked.check_all(&what).await;
            }
        }
        assert_eq!(volume.failed().len(), failures, "{level} over {disks}");
    });
}

#[test]
fn a_failure_too_many_loses_what_lay_there_and_nothing_else() {
    in_all(async |level, disks, layout| {
        let level: Level = level.parse().unwrap();
        let failures = level.failures(disks);
        if failures == 0 {
            return;
        }
        let devices = devices(disks);
        let volume = volume(&devices, &level.to_string(), layout);
        let mut checked = Checked::new(Arc::clone(&volume), "a failure too many");
        for _ in 0..12 {
            checked.write().await;
        }
        // RAID 1+0 may lose a disk of each pair; both of the first are too many.
        let failed: Vec<DiskIndex> = (0..=failures).map(DiskIndex).collect();
        failed.iter().for_each(|disk| volume.fail(*disk));
        let mut lost = 0;
        for block in (0..volume.inquiry().capacity.0).map(Lbn) {
            let place = volume.layout().place(block);
            let copies = 0..level.copies(disks);
            let is_there = copies.clone().any(|copy| {
                let role = moirai_volume::Role::Data { position: place.position, copy };
                !failed.contains(&volume.layout().disk(place.stripe, role))
            });
            let device: &dyn Device = &*volume;
            let blocks = BlockRange::new(block, BlockCount(1));
            match device.read(blocks).await {
                Ok(read) => {
                    assert!(is_there, "{level}: {block} cannot be there");
                    assert!(*read == *checked.bytes(blocks), "{level}: {block} differs");
                }
                Err(Error::Lost { blocks, why, .. }) => {
                    assert!(!is_there && blocks.first == block, "{level}: {block} is not lost");
                    assert!(why.contains("disk 0"), "{why}");
                    lost += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(lost > 0, "{level} over {disks}");
        // Writes that go together fail together.
        let lost = (0..volume.inquiry().capacity.0 - 1).map(Lbn).find(|block| {
            let stripe = |block: Lbn| volume.layout().place(block).stripe;
            let copies = 0..level.copies(disks);
            let is_lost = |block: Lbn| {
                let place = volume.layout().place(block);
                copies.clone().all(|copy| {
                    let role = moirai_volume::Role::Data { position: place.position, copy };
                    failed.contains(&volume.layout().disk(place.stripe, role))
                })
            };
            let next = *block + BlockCount(1);
            stripe(*block) == stripe(next) && is_lost(*block) && is_lost(next)
        });
        let Some(lost) = lost else { return };
        let write = |block| Request {
            op: Op::Write,
            blocks: BlockRange::new(block, BlockCount(1)),
            data: vec![IoBuf::zeroed(BlockCount(1))],
        };
        let results = volume.submit(vec![write(lost), write(lost + BlockCount(1))]).await;
        assert!(results.iter().all(Result::is_err), "{level}: {results:?}");
    });
}

#[test]
fn blocks_that_cannot_be_read_are_worked_out_and_written_again() {
    in_all(async |level, disks, layout| {
        if level == "raid0" {
            return;
        }
        let devices = devices(disks);
        let volume = volume(&devices, level, layout);
        let mut checked = Checked::new(Arc::clone(&volume), "unreadable");
        for _ in 0..12 {
            checked.write().await;
        }
        // One block of one disk in each stripe of 16 blocks, so that never two of a stripe are.
        for block in (3..400).step_by(16) {
            devices[block / 16 % disks].make_unreadable(Lbn(block as u64));
        }
        for _ in 0..6 {
            checked.write().await;
            checked.check_one(level).await;
        }
        checked.check_all(level).await;
        assert!(volume.failed().is_empty());
        // What was read is readable on its own disk again.
        for block in (0..volume.inquiry().capacity.0).map(Lbn) {
            let location = volume.locate(block).unwrap();
            let device: &dyn Device = &*devices[location.disk.0];
            device.read(BlockRange::new(location.dlbn, BlockCount(1))).await.unwrap();
        }
    });
}
