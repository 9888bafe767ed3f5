//! Disks that fail, and are filled, while their volume serves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use common::*;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, Lbn, Nanos};
use moirai_volume::{DiskIndex, assemble};

/// A disk that was filled while the volume served may be left with one that has older records alone: these undo nothing.
#[test]
fn older_records_undo_nothing_after_a_disk_was_filled() {
    for (level, disks) in [("raid1", 2), ("raid5", 3), ("raid6", 4), ("raid10", 4)] {
        let pairs = (0..disks).flat_map(|failed| (0..disks).map(move |lost| (failed, lost)));
        for (failed, lost) in pairs.filter(|(failed, lost)| failed != lost) {
            for writes in 1..=5 {
                let found = block_on_virtual(
                    1,
                    filled_while_it_serves(level, disks, (failed, lost), writes),
                );
                assert_eq!(found, Ok(writes), "{level}, {failed} failed, {lost} is lost");
            }
        }
    }
}

/// What is read of a block that was written so often, after one disk failed and was replaced, and another was lost.
async fn filled_while_it_serves(
    level: &str,
    disks: usize,
    (failed, lost): (usize, usize),
    writes: u8,
) -> Result<u8, String> {
    let mut devices = made_of(level, blank(disks)).await;
    devices.extend(blank(1));
    let there: Vec<usize> = (0..disks).collect();
    write(of(&devices, &there), u8::MAX).await;
    let volume = assemble("v".into(), of(&devices, &there), true).await.unwrap();
    for fill in 1..=writes {
        let mut block = IoBuf::zeroed(BlockCount(1));
        block.fill(fill);
        let device: &dyn Device = &*volume;
        device.write(Lbn(3), block).await.unwrap();
    }
    volume.flush().await.unwrap();
    volume.fail(DiskIndex(failed));
    volume.replace(DiskIndex(failed), Arc::clone(&devices[disks])).await.unwrap();
    volume.rebuild(None, |_, _| ()).await.unwrap();
    drop(volume);
    let left: Vec<usize> = (0..=disks).filter(|disk| ![failed, lost].contains(disk)).collect();
    read(of(&devices, &left)).await
}

/// A disk that failed a flush which nobody waited for any more has lost what later flushes would answer for.
#[test]
fn a_flush_that_was_given_up_fails_the_next() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str| {
            FaultyDevice::new(name.into(), BlockCount(2000), BlockCount(16), Arc::clone(&power))
        };
        let disks = [device("one"), device("other")];
        let devices = disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn Device>).collect();
        let devices = made_of("raid0", devices).await;
        let volume = assemble("v".into(), devices, false).await.unwrap();
        let device: &dyn Device = &*volume;
        device.write(Lbn(0), IoBuf::zeroed(BlockCount(32))).await.unwrap();
        disks[1].die();
        let mut given_up = volume.flush();
        let first = poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context))).await;
        assert!(first.is_pending());
        drop(given_up);
        sleep(Nanos(10_000_000)).await;
        disks[1].revive();
        assert!(volume.flush().await.is_err());
        assert!(volume.flush().await.is_err());
    });
}
