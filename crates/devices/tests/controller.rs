//! The array controller: it conforms, takes writes at once, and loses none of them.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{Access, ArrayController, WritePolicy, open};
use moirai_runtime::{block_on_virtual, now, random};
use moirai_storage::{Device, IoBuf, conformance};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use rand::Rng;

fn controller(size_kib: u64, policy: WritePolicy) -> (Arc<dyn Device>, Arc<dyn Device>) {
    let disk = open("sim:quantum-atlas-10k".parse().unwrap(), Access::Write).unwrap();
    let size = ByteCount(size_kib << 10);
    (ArrayController::start(Arc::clone(&disk), size, policy), disk)
}

#[test]
fn controllers_conform() {
    for policy in [WritePolicy::Through, WritePolicy::EARLY_DESTAGE] {
        for size_kib in [64, 4096] {
            block_on_virtual(1, async {
                conformance::check(controller(size_kib, policy).0).await;
            });
        }
    }
}

#[test]
fn writes_back_take_no_time_until_the_cache_is_full_of_them() {
    block_on_virtual(1, async {
        let (device, _) = controller(1024, WritePolicy::EARLY_DESTAGE);
        let mut slowest = Nanos::ZERO;
        for index in 0..100 {
            let before = now();
            device.write(Lbn(index * 50_000), IoBuf::zeroed(BlockCount(8))).await.unwrap();
            slowest = slowest.max(now().since(before));
        }
        assert_eq!(slowest, Nanos::ZERO, "100 lines of 256");
        for index in 100..600 {
            device.write(Lbn(index * 25_000), IoBuf::zeroed(BlockCount(8))).await.unwrap();
        }
        // Some 350 writes must have reached the disk, at a few milliseconds each.
        assert!(now().ns > 500_000_000, "{}", now());
    });
}

#[test]
fn a_read_again_takes_no_time_and_a_write_through_takes_the_disks() {
    block_on_virtual(1, async {
        let (device, _) = controller(1024, WritePolicy::Through);
        let blocks = BlockRange::new(Lbn(777), BlockCount(20));
        device.read(blocks).await.unwrap();
        let once = now();
        device.read(blocks).await.unwrap();
        assert_eq!(now(), once);
        device.write(blocks.first, IoBuf::zeroed(blocks.count)).await.unwrap();
        assert!(now().since(once) > Nanos(500_000));
        let written = now();
        device.read(blocks).await.unwrap();
        assert_eq!(now(), written, "the cache has what was written");
    });
}

/// Random reads and writes of a small space through a smaller cache, against a model of it; after a
/// flush the disk itself has all.
#[test]
fn what_was_written_is_read_and_after_a_flush_on_the_disk() {
    for policy in [WritePolicy::Through, WritePolicy::Back { high: 0.3, low: 0.1 }] {
        for seed in 0..8 {
            block_on_virtual(seed, async move {
                let (device, disk) = controller(64, policy);
                let blocks = 400u64;
                let mut model = vec![0u8; blocks as usize];
                let mut random = random("requests");
                for step in 0..600u32 {
                    let first = random.random_range(0..blocks - 1);
                    let count = random.random_range(1..=(blocks - first).min(30));
                    let range = BlockRange::new(Lbn(first), BlockCount(count));
                    if random.random_bool(0.5) {
                        let mut data = IoBuf::zeroed(range.count);
                        data.fill(step as u8);
                        model[first as usize..(first + count) as usize].fill(step as u8);
                        device.write(range.first, data).await.unwrap();
                    } else {
                        check(&*device, range, &model).await;
                    }
                }
                device.flush().await.unwrap();
                check(&*disk, BlockRange::new(Lbn(0), BlockCount(blocks)), &model).await;
            });
        }
    }
}

async fn check(device: &dyn Device, range: BlockRange, model: &[u8]) {
    let data = device.read(range).await.unwrap();
    for (block, bytes) in data.chunks(512).enumerate() {
        let lbn = range.first.0 as usize + block;
        assert!(bytes.iter().all(|byte| model.get(lbn) == Some(byte)), "block {lbn} of {range}");
    }
}
