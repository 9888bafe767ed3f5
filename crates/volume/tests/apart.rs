//! Volumes whose devices were not always together.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use common::*;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    DiskIndex, Format, LayoutDescription, MemberState, Repair, Scrubbed, StripeUnit, add_disks,
    assemble, format, inspect, replace,
};

async fn made(level: &str, disks: usize) -> Devices {
    made_of(level, blank(disks)).await
}

#[test]
fn sides_that_were_written_apart_are_not_put_together() {
    for (level, disks, one, other) in [
        ("raid1", 2, vec![0], vec![1]),
        ("raid10", 4, vec![0, 2], vec![1, 3]),
        ("raid6", 4, vec![0, 1], vec![2, 3]),
    ] {
        block_on_virtual(1, async {
            let devices = made(level, disks).await;
            write(of(&devices, &one), 1).await;
            write(of(&devices, &other), 2).await;
            let error = read(devices.clone()).await.unwrap_err();
            assert!(error.contains("two separate groups"), "{level}: {error}");
            assert_eq!(read(of(&devices, &one)).await, Ok(1));
            assert_eq!(read(of(&devices, &other)).await, Ok(2));
            // Labels forget openings that are long ago, and not this.
            for _ in 0..20 {
                write(of(&devices, &other), 3).await;
            }
            let error = read(devices.clone()).await.unwrap_err();
            assert!(error.contains("two separate groups"), "{level}: {error}");
        });
    }
}

/// A disk on which an old copy of it was written back holds what it held then: it is none of the volume's any more.
#[test]
fn a_disk_that_went_back_in_time_is_left_out() {
    block_on_virtual(1, async {
        let devices = made("raid1", 2).await;
        write(devices.clone(), 1).await;
        let all = BlockRange::new(Lbn(0), BlockCount(2000));
        let image = devices[0].read(all).await.unwrap();
        for fill in [2, 3] {
            write(devices.clone(), fill).await;
        }
        devices[0].write(Lbn(0), image).await.unwrap();
        for order in [[0, 1], [1, 0]] {
            let devices: Devices = order.iter().map(|disk| Arc::clone(&devices[*disk])).collect();
            let error = assemble("v".into(), devices, false).await.unwrap_err().to_string();
            assert!(error.contains("disk 0 of 2 is missing"), "{error}");
            assert!(error.contains("held before an earlier opening"), "{error}");
        }
        let volume = assemble("v".into(), devices.clone(), true).await.unwrap();
        assert_eq!(volume.state(DiskIndex(0)), MemberState::Failed);
        drop(volume);
        assert_eq!(read(devices.clone()).await, Ok(3));
    });
}

/// A device whose label is damaged counts as missing.
#[test]
fn a_damaged_label_refuses_no_volume() {
    block_on_virtual(1, async {
        let devices = made("raid1", 2).await;
        write(devices.clone(), 7).await;
        // Shorter than the journal.
        let short = of_sizes(&[100]).remove(0);
        let labels = devices[1].read(BlockRange::new(Lbn(0), BlockCount(16))).await.unwrap();
        short.write(Lbn(0), labels).await.unwrap();
        let devices = vec![Arc::clone(&devices[0]), short];
        let error = assemble("v".into(), devices.clone(), false).await.unwrap_err().to_string();
        assert!(error.contains("its label is damaged, or it was larger"), "{error}");
        assert_eq!(read(devices).await, Ok(7));
    });
}

/// A side that took another disk for the one it lacks is still a side of its own.
#[test]
fn a_side_that_replaced_the_other_is_not_put_together_with_it() {
    block_on_virtual(1, async {
        let mut devices = made("raid1", 2).await;
        write(of(&devices, &[0]), 1).await;
        write(of(&devices, &[1]), 2).await;
        devices.extend(blank(1));
        replace("v", &of(&devices, &[1]), DiskIndex(0), Arc::clone(&devices[2])).await.unwrap();
        let volume = assemble("v".into(), of(&devices, &[1, 2]), false).await.unwrap();
        volume.rebuild(None, |_, _| ()).await.unwrap();
        drop(volume);
        for _ in 0..20 {
            write(of(&devices, &[0]), 1).await;
        }
        for named in [&[0, 1][..], &[0, 2], &[0, 1, 2]] {
            let error = read(of(&devices, named)).await.unwrap_err();
            assert!(error.contains("two separate groups"), "{named:?}: {error}");
        }
        assert_eq!(read(of(&devices, &[1, 2])).await, Ok(2));
    });
}

/// Once no disk is left of those that a disk knew it is still known to be stale, and not when it was written since.
#[test]
fn a_disk_is_stale_also_when_all_that_it_knew_were_replaced() {
    for is_written_apart in [false, true] {
        block_on_virtual(1, async {
            let mut devices = made("raid1", 2).await;
            write(devices.clone(), 1).await;
            write(of(&devices, &[1]), 2).await;
            if is_written_apart {
                write(of(&devices, &[0]), 3).await;
            }
            devices.extend(blank(2));
            for (place, left) in [(0, 1), (1, 2)] {
                write(of(&devices, &[left]), 4).await;
                let new = Arc::clone(&devices[2 + place]);
                replace("v", &of(&devices, &[left]), DiskIndex(place), new).await.unwrap();
                let together = of(&devices, &[left, 2 + place]);
                let volume = assemble("v".into(), together, false).await.unwrap();
                volume.rebuild(None, |_, _| ()).await.unwrap();
            }
            for value in 5..25 {
                write(of(&devices, &[2, 3]), value).await;
            }
            assert_eq!(read(of(&devices, &[1, 2, 3])).await, Ok(24));
            let with_the_first = read(of(&devices, &[0, 2, 3])).await;
            match is_written_apart {
                false => assert_eq!(with_the_first, Ok(24)),
                true => assert!(with_the_first.unwrap_err().contains("two separate groups")),
            }
        });
    }
}

/// The disks of an opening may all be replaced before the next: what they knew of it is remembered.
#[test]
fn disks_that_were_replaced_while_the_volume_served_are_stale() {
    for (level, disks, replaced, left) in
        [("raid1", 2, vec![0], vec![2]), ("raid5", 3, vec![0, 1, 2], vec![3, 4, 5])]
    {
        block_on_virtual(1, async {
            let mut devices = made(level, disks).await;
            write(devices.clone(), 1).await;
            let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
            devices.extend(blank(replaced.len()));
            for disk in &replaced {
                volume.fail(DiskIndex(*disk));
                volume.flush().await.unwrap();
                let new = Arc::clone(&devices[disks + disk]);
                volume.replace(DiskIndex(*disk), new).await.unwrap();
                volume.rebuild(None, |_, _| ()).await.unwrap();
            }
            drop(volume);
            write(of(&devices, &left), 2).await;
            assert_eq!(read(devices).await, Ok(2), "{level}");
        });
    }
}

/// A disk that failed while the volume served, and was opened alone since, knows that opening, too.
#[test]
fn a_disk_that_failed_and_was_opened_alone_is_a_side() {
    block_on_virtual(1, async {
        let devices = made("raid1", 2).await;
        write(devices.clone(), 1).await;
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        volume.fail(DiskIndex(0));
        let mut block = IoBuf::zeroed(BlockCount(1));
        block.fill(2);
        let device: &dyn Device = &*volume;
        device.write(Lbn(3), block).await.unwrap();
        device.flush().await.unwrap();
        drop(volume);
        for _ in 0..20 {
            write(of(&devices, &[0]), 3).await;
            let error = read(devices.clone()).await.unwrap_err();
            assert!(error.contains("two separate groups"), "{error}");
        }
        assert_eq!(read(of(&devices, &[1])).await, Ok(2));
    });
}

/// A side whose last label is lost gives no generation a second time, by which the other would take it for stale.
#[test]
fn a_side_that_lost_a_label_is_still_a_side() {
    block_on_virtual(1, async {
        let devices = made("raid1", 2).await;
        for _ in 0..3 {
            write(devices.clone(), 1).await;
        }
        let labels = BlockRange::new(Lbn(0), BlockCount(16));
        let before = devices[1].read(labels).await.unwrap();
        drop(assemble("v".into(), devices.clone(), false).await.unwrap());
        // As when the power was cut before its label was written.
        devices[1].write(Lbn(0), IoBuf::holding(&before)).await.unwrap();
        write(of(&devices, &[0]), 2).await;
        let generation = |copy: usize| before[copy * 4096 + 40..copy * 4096 + 48].to_vec();
        let newer = u64::from(generation(1) > generation(0));
        devices[1].write(Lbn(8 * newer), IoBuf::zeroed(BlockCount(8))).await.unwrap();
        write(of(&devices, &[1]), 3).await;
        let error = read(devices.clone()).await.unwrap_err();
        assert!(error.contains("two separate groups"), "{error}");
        assert_eq!(read(of(&devices, &[0])).await, Ok(2));
        assert_eq!(read(of(&devices, &[1])).await, Ok(3));
    });
}

/// An opening that fails, because a label reaches one disk and not another, is no side: nothing was served.
#[test]
fn an_opening_that_failed_half_way_leaves_no_side() {
    let mut failed = 0;
    for writes in 0..20 {
        block_on_virtual(writes, async {
            let power = Power::on();
            let disk = |index| {
                let (capacity, ensemble) = (BlockCount(2000), BlockCount(16));
                FaultyDevice::new(format!("disk {index}"), capacity, ensemble, Arc::clone(&power))
            };
            let disks: Vec<Arc<FaultyDevice>> = (0..3).map(disk).collect();
            let devices: Devices = disks.iter().map(|disk| Arc::clone(disk) as _).collect();
            let devices = made_of("raid5", devices).await;
            power.fail_after(writes);
            let opened = assemble("v".into(), of(&devices, &[1, 2]), true).await;
            if opened.is_ok() {
                return;
            }
            failed += 1;
            power.bring_back();
            disks.iter().for_each(|disk| disk.restart());
            let opened = assemble("v".into(), of(&devices, &[0, 2]), true).await;
            let Ok(volume) = opened else {
                // That the first is gone is on the label of the third, and then it was needed.
                return;
            };
            drop(volume);
            write(of(&devices, &[0, 2]), 5).await;
            assert_eq!(read(devices).await, Ok(5), "after {writes} writes");
        });
    }
    assert!(failed > 2);
}

/// A disk that failed and whose labels are gone, too, is in nobody's way; one that has not failed is missed.
#[test]
fn a_disk_without_a_label_is_as_good_as_missing() {
    block_on_virtual(1, async {
        let mut devices = made("raid5", 3).await;
        devices[1] = blank(1).remove(0);
        let error = assemble("v".into(), devices.clone(), false).await.unwrap_err().to_string();
        assert!(error.contains("disk 1 of 3 is missing"), "{error}");
        assert!(error.contains("disk 0 (no volume label can be read)"), "{error}");
        write(devices.clone(), 7).await;
        let opened = assemble("v".into(), devices.clone(), false).await.unwrap();
        assert_eq!(opened.state(DiskIndex(1)), MemberState::Failed);
        drop(opened);
        let new = blank(1).remove(0);
        replace("v", &devices, DiskIndex(1), Arc::clone(&new)).await.unwrap();
        devices.push(new);
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        volume.rebuild(None, |_, _| ()).await.unwrap();
        drop(volume);
        assert_eq!(read(of(&devices, &[2, 3])).await, Ok(7));
        let error = assemble("v".into(), blank(2), false).await.unwrap_err().to_string();
        assert!(error.contains("none of the devices can be used"), "{error}");
    });
}

#[test]
fn a_side_that_was_left_behind_is_stale_and_no_reason_to_refuse() {
    block_on_virtual(1, async {
        let devices = made("raid6", 5).await;
        write(of(&devices, &[0, 1, 2, 3, 4]), 1).await;
        write(of(&devices, &[0, 2, 4]), 2).await;
        write(of(&devices, &[0, 2, 4]), 3).await;
        assert_eq!(read(devices).await, Ok(3));
    });
}

/// Each disk of RAID 1+0 has one other with the same: any one of each pair is enough.
#[test]
fn one_of_each_pair_is_enough_for_all_that_was_flushed() {
    for seed in 0..40 {
        block_on_virtual(seed, async {
            let devices = made("raid10", 6).await;
            for fill in 1..=9 {
                let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
                let volume: &dyn Device = &*volume;
                for again in 0..seed % 5 + 1 {
                    let mut block = IoBuf::zeroed(BlockCount(1));
                    block.fill(fill + again as u8 * 10);
                    volume.write(Lbn(3), block).await.unwrap();
                }
                volume.flush().await.unwrap();
            }
            let left: Vec<usize> =
                (0..3).map(|pair| pair * 2 + (seed >> pair & 1) as usize).collect();
            assert_eq!(read(of(&devices, &left)).await, Ok(9 + (seed % 5) as u8 * 10));
        });
    }
}

#[test]
fn a_disk_that_is_only_away_is_not_given_up_for_one_that_failed() {
    block_on_virtual(1, async {
        let devices = made("raid5", 4).await;
        write(of(&devices, &[0, 2, 3]), 7).await;
        let there = of(&devices, &[0, 3]);
        let [new, other]: [Arc<dyn Device>; 2] = blank(2).try_into().unwrap();
        let error = replace("v", &there, DiskIndex(2), new).await.unwrap_err().to_string();
        assert!(error.contains("disk 2 cannot be replaced"), "{error}");
        replace("v", &of(&devices, &[0, 2, 3]), DiskIndex(1), Arc::clone(&other)).await.unwrap();
        let mut all = of(&devices, &[0, 2, 3]);
        all.push(other);
        let volume = assemble("v".into(), all.clone(), false).await.unwrap();
        volume.rebuild(None, |_, _| ()).await.unwrap();
        assert_eq!(volume.state(DiskIndex(1)), MemberState::Ready);
        drop(volume);
        assert_eq!(read(of(&all, &[1, 2, 3])).await, Ok(7));
    });
}

#[test]
fn a_volume_grows_twice_and_each_block_keeps_what_it_held() {
    for (level, disks, first, second) in [
        ("raid5", 3, 1, 2),
        ("raid6", 4, 2, 1),
        ("raid4", 3, 1, 1),
        ("raid1", 2, 1, 1),
        ("raid10", 2, 2, 4),
    ] {
        block_on_virtual(3, async {
            let mut devices = made(level, disks).await;
            let mut expected: Vec<u8> = Vec::new();
            for added in [first, second, 0] {
                let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
                let capacity = volume.inquiry().capacity;
                let device: &dyn Device = &*volume;
                let all = BlockRange::new(Lbn(0), capacity);
                let held = device.read(all).await.unwrap();
                assert_eq!(&held[..expected.len()], expected, "{level}");
                assert!(held[expected.len()..].iter().all(|byte| *byte == 0), "{level}");
                let mut content = IoBuf::zeroed(capacity);
                content.iter_mut().enumerate().for_each(|(i, b)| *b = (i / 512 * 7 + i) as u8);
                expected = content.to_vec();
                device.write(Lbn(0), content).await.unwrap();
                drop(volume);
                if added == 0 {
                    break;
                }
                let new = blank(added);
                add_disks("v", &devices, &new).await.unwrap();
                devices.extend(new);
                let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
                assert_eq!(volume.moved().unwrap().0, 0);
                volume.grow(None, |_, _| ()).await.unwrap();
                let held = (&*volume as &dyn Device).read(all).await.unwrap();
                assert_eq!(held[..], expected, "{level}");
                let scrub =
                    volume.scrub(None, Repair::default(), |_| ()).await.unwrap_err().to_string();
                assert!(scrub.contains("reopen the volume"), "{scrub}");
                drop(volume);
                let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
                assert_eq!(volume.moved(), None);
                let scrubbed = volume.scrub(None, Repair::default(), |_| ()).await.unwrap();
                assert_eq!(scrubbed.differing, [], "{level}");
            }
        });
    }
}

/// How far a volume has grown is on its labels later than in its journal: who only looks at it gets errors for what may
/// lie here or there, and no block of another place.
#[test]
fn what_may_have_been_moved_is_lost_without_opening() {
    block_on_virtual(1, async {
        let mut devices = made("raid5", 3).await;
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        let capacity = volume.inquiry().capacity;
        let mut content = IoBuf::zeroed(capacity);
        content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8 | 1));
        let device: &dyn Device = &*volume;
        let expected = content.to_vec();
        device.write(Lbn(0), content).await.unwrap();
        device.flush().await.unwrap();
        drop(volume);
        let new = blank(1);
        add_disks("v", &devices, &new).await.unwrap();
        devices.extend(new);
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        let reached = AtomicU64::new(0);
        {
            let mut growing = pin!(volume.grow(None, |moved, _| reached.store(moved, Relaxed)));
            poll_fn(|cx| {
                assert!(growing.as_mut().poll(cx).is_pending(), "it is to be stopped on the way");
                if reached.load(Relaxed) >= 20 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        drop(volume);
        // Where all are there the journal says how far; without two of them that is as much as it has room for.
        let lost = |devices: Devices| {
            let expected = &expected;
            async move {
                let inspected = inspect("v".into(), &devices).await.unwrap().volume;
                let device: &dyn Device = &*inspected;
                let mut lost = 0;
                for (lbn, block) in (0..).zip(expected.chunks_exact(512)) {
                    match device.read(BlockRange::new(Lbn(lbn), BlockCount(1))).await {
                        Ok(held) => assert!(held[..] == *block, "block {lbn}"),
                        Err(_) => lost += 1,
                    }
                }
                lost
            }
        };
        let all = lost(devices.clone()).await;
        assert!(all > 0 && all < capacity.0, "{all} of {capacity}");
        let few = lost(of(&devices, &[0, 1, 3])).await;
        assert_eq!(few, all);
        let fewer = lost(of(&devices, &[0, 1])).await;
        assert!(fewer > all && fewer < capacity.0, "{fewer} of {capacity}");
    });
}

/// A volume without two of its disks: what lay on the others is there, and of what lay on
/// these nothing is made up.
#[test]
fn what_is_left_can_be_read_when_too_many_are_gone() {
    // Of the four disks of RAID 5 a quarter is parity.
    what_is_left_can_be_read("raid5", "raid5 needs more disks");
    what_is_left_can_be_read("raid0", "raid0 needs more disks");
}

fn what_is_left_can_be_read(level: &str, problem: &str) {
    block_on_virtual(1, async {
        let devices = made(level, 4).await;
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        let blocks = volume.inquiry().capacity;
        let device: &dyn Device = &*volume;
        let mut content = IoBuf::zeroed(blocks);
        content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8 | 1));
        device.write(Lbn(0), content).await.unwrap();
        device.flush().await.unwrap();
        drop(volume);
        let left = of(&devices, &[1, 2]);
        let refused = assemble("v".into(), left.clone(), true).await.unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");

        let volume = inspect("v".into(), &left).await.unwrap().volume;
        let device: &dyn Device = &*volume;
        let mut lost = 0;
        for lbn in 0..blocks.0 {
            let read = device.read(BlockRange::new(Lbn(lbn), BlockCount(1))).await;
            match volume.locate(Lbn(lbn)).unwrap().disk.0 {
                1 | 2 => assert_eq!(read.unwrap()[0], lbn as u8 | 1),
                _ => {
                    lost += 1;
                    let error = read.unwrap_err().to_string();
                    assert!(error.contains(&Lbn(lbn).to_string()), "{error}");
                }
            }
        }
        assert_eq!(lost * 2, blocks.0);
        let error = device.write(Lbn(0), IoBuf::zeroed(BlockCount(1))).await.unwrap_err();
        assert!(error.to_string().contains("read"), "{error}");
    });
}

#[test]
fn spares_take_the_places_of_disks_that_fail_while_the_volume_serves() {
    block_on_virtual(5, async {
        let devices = made("raid5", 4).await;
        let volume = assemble("v".into(), devices, false).await.unwrap();
        let blocks = volume.inquiry().capacity.0;
        let device: &dyn Device = &*volume;
        let mut taken = Vec::new();
        let spares = volume.keep_whole(blank(2), None, |disk, _| taken.push(disk));
        let work = async {
            for round in 1..=6u8 {
                for lbn in 0..blocks {
                    let mut block = IoBuf::zeroed(BlockCount(1));
                    block.fill(round ^ lbn as u8);
                    device.write(Lbn(lbn), block).await.unwrap();
                    if lbn == blocks / 2 && (round == 2 || round == 5) {
                        volume.fail(DiskIndex(usize::from(round) / 2));
                    }
                }
                device.flush().await.unwrap();
            }
        };
        let (spares, ()) = futures::join!(spares, work);
        spares.unwrap();
        assert_eq!(taken, [DiskIndex(1), DiskIndex(2)]);
        assert_eq!(volume.failed(), []);
        assert_eq!(volume.scrub(None, Repair::default(), |_| ()).await.unwrap().differing, []);
        volume.fail(DiskIndex(0));
        for lbn in 0..blocks {
            let block = device.read(BlockRange::new(Lbn(lbn), BlockCount(1))).await.unwrap();
            assert_eq!(block[0], 6 ^ lbn as u8);
        }
    });
}

/// RAID 5 whose blocks have checksums.
async fn format_with_checksums(devices: &Devices) {
    let how = Format {
        level: "raid5".parse().unwrap(),
        layout: LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(8)) },
        journal: Some(BlockCount(400)),
        integrity: true,
        is_blank: true,
    };
    format("v", devices, how, |_, _| ()).await.unwrap();
}

/// A block that cannot be read while another disk is filled: with checksums that block and what only it
/// could have told are lost, and nothing else.
#[test]
fn a_disk_is_filled_past_what_is_lost() {
    block_on_virtual(6, async {
        let power = Power::on();
        let device = |disk| {
            let (capacity, ensemble) = (BlockCount(2000), BlockCount(16));
            FaultyDevice::new(format!("disk {disk}"), capacity, ensemble, Arc::clone(&power))
        };
        let faulty: Vec<Arc<FaultyDevice>> = (0..4).map(device).collect();
        let devices: Devices = faulty.iter().map(|device| Arc::clone(device) as _).collect();
        format_with_checksums(&devices).await;
        let volume = assemble("v".into(), devices, false).await.unwrap();
        let blocks = volume.inquiry().capacity;
        let device: &dyn Device = &*volume;
        let mut content = IoBuf::zeroed(blocks);
        content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8 | 1));
        device.write(Lbn(0), content).await.unwrap();
        device.flush().await.unwrap();
        let bad = volume.locate(Lbn(1000)).unwrap();
        faulty[bad.disk.0].make_unreadable(bad.dlbn);
        let filled = DiskIndex((bad.disk.0 + 1) % 4);
        volume.fail(filled);
        device.flush().await.unwrap();
        volume.replace(filled, blank(1).remove(0)).await.unwrap();
        let told = volume.rebuild(None, |_, _| ()).await.unwrap();
        assert_eq!(volume.state(filled), MemberState::Ready);
        let mut lost = Vec::new();
        for lbn in (0..blocks.0).map(Lbn) {
            match device.read(BlockRange::new(lbn, BlockCount(1))).await {
                Ok(block) => assert!(block.iter().all(|byte| *byte == lbn.0 as u8 | 1), "{lbn}"),
                Err(_) => lost.push(lbn),
            }
        }
        let at = |lbn: &Lbn| volume.locate(*lbn).unwrap();
        assert!(lost.contains(&Lbn(1000)) && lost.len() <= 2, "{lost:?}");
        assert!(lost.iter().all(|lbn| at(lbn).dlbn == bad.dlbn), "{lost:?}");
        let blocks: Vec<Lbn> =
            told.iter().flat_map(|range| (range.first.0..range.end().0).map(Lbn)).collect();
        assert_eq!(blocks, lost);
        assert_eq!(volume.scrub(None, Repair::default(), |_| ()).await.unwrap().lost, told);
        // What is written anew is there again.
        let stripe = BlockRange::new(Lbn(1000 / 24 * 24), BlockCount(24));
        device.write(stripe.first, IoBuf::zeroed(stripe.count)).await.unwrap();
        let read = device.read(stripe).await.unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
        assert_eq!(
            volume.scrub(None, Repair::default(), |_| ()).await.unwrap(),
            Scrubbed::default()
        );
    });
}

/// Blocks that two disks of RAID 5 changed: they are lost, and some of their rows cannot be written in part, until they are
/// cleared. Then the volume is as good as a new one, and every other block is what it was.
#[test]
fn lost_blocks_are_cleared() {
    block_on_virtual(8, async {
        let devices = blank(4);
        format_with_checksums(&devices).await;
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        let device: &dyn Device = &*volume;
        let blocks = volume.inquiry().capacity;
        let mut content = IoBuf::zeroed(blocks);
        content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8 | 1));
        device.write(Lbn(0), content).await.unwrap();
        device.flush().await.unwrap();
        // Two data blocks of one row, and one of a row of which another disk is gone for good.
        let at = |lbn: u64| volume.locate(Lbn(lbn)).unwrap();
        let (first, second, third) = (240, 248, 1001);
        assert_eq!(at(first).dlbn, at(second).dlbn);
        for lbn in [first, second, third] {
            devices[at(lbn).disk.0]
                .write(at(lbn).dlbn, IoBuf::zeroed(BlockCount(1)))
                .await
                .unwrap();
        }
        let replaced = DiskIndex((at(third).disk.0 + 1) % 4);
        volume.fail(replaced);
        device.flush().await.unwrap();
        volume.replace(replaced, blank(1).remove(0)).await.unwrap();
        let lost = volume.rebuild(None, |_, _| ()).await.unwrap();
        let is_lost = |lbn: u64| lost.iter().any(|range| range.contains(Lbn(lbn)));
        assert!([first, second, third].into_iter().all(is_lost), "{lost:?}");
        let part = |lbn: u64| device.write(Lbn(lbn), IoBuf::zeroed(BlockCount(1)));
        let error = part(first).await.unwrap_err().to_string();
        assert!(error.contains("--clear-lost"), "{error}");
        let clear = Repair { differing: false, lost: true };
        let scrubbed = volume.scrub(None, clear, |_| ()).await.unwrap();
        assert_eq!((scrubbed.lost, scrubbed.cleared), (Vec::new(), lost.clone()));
        assert_eq!(volume.scrub(None, clear, |_| ()).await.unwrap(), Scrubbed::default());
        // Any disk may fail again: parity is right.
        volume.fail(DiskIndex(at(first).disk.0));
        let read = device.read(BlockRange::new(Lbn(0), blocks)).await.unwrap();
        for (lbn, block) in (0..).zip(read.chunks(512)) {
            let expected = if is_lost(lbn) { 0 } else { lbn as u8 | 1 };
            assert!(block.iter().all(|byte| *byte == expected), "{lbn}");
        }
        part(second).await.unwrap();
    });
}

#[test]
fn blocks_that_cannot_be_read_in_other_rows_of_a_stripe_are_worked_out() {
    block_on_virtual(7, async {
        let power = Power::on();
        let device = |disk| {
            let (capacity, ensemble) = (BlockCount(2000), BlockCount(16));
            FaultyDevice::new(format!("disk {disk}"), capacity, ensemble, Arc::clone(&power))
        };
        let faulty: Vec<Arc<FaultyDevice>> = (0..4).map(device).collect();
        let devices: Devices = faulty.iter().map(|device| Arc::clone(device) as _).collect();
        let devices = made_of("raid5", devices).await;
        let volume = assemble("v".into(), devices, false).await.unwrap();
        let device: &dyn Device = &*volume;
        let stripe = BlockRange::new(Lbn(240), BlockCount(24));
        let mut content = IoBuf::zeroed(stripe.count);
        content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8));
        let expected = content.to_vec();
        device.write(stripe.first, content).await.unwrap();
        for lbn in [241, 250, 261] {
            let bad = volume.locate(Lbn(lbn)).unwrap();
            faulty[bad.disk.0].make_unreadable(bad.dlbn);
        }
        assert_eq!(device.read(stripe).await.unwrap()[..], expected);
        for lbn in [242, 251, 262] {
            let bad = volume.locate(Lbn(lbn)).unwrap();
            faulty[bad.disk.0].make_unreadable(bad.dlbn);
        }
        let scrubbed = volume.scrub(None, Repair::default(), |_| ()).await.unwrap();
        assert_eq!((scrubbed.restored_units, scrubbed.lost.len()), (3, 0));
        assert_eq!(device.read(stripe).await.unwrap()[..], expected);
        // A write of the third unit reads the others, or the old content and the parity.
        let unit = |lbn: u64| volume.locate(Lbn(lbn)).unwrap();
        let data = [240, 248, 256].map(|lbn| unit(lbn).disk.0);
        let parity = (0..4).find(|disk| !data.contains(disk)).unwrap();
        faulty[unit(241).disk.0].make_unreadable(unit(241).dlbn);
        faulty[parity].make_unreadable(unit(242).dlbn);
        let mut unit = IoBuf::zeroed(BlockCount(8));
        unit.fill(77);
        device.write(Lbn(248), unit).await.unwrap();
        let read = device.read(stripe).await.unwrap();
        assert_eq!((&read[..4096], &read[8192..]), (&expected[..4096], &expected[8192..]));
        assert!(read[4096..8192].iter().all(|byte| *byte == 77));
    });
}
