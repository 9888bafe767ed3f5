//! Volumes whose devices were not always together.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use futures::future::BoxFuture;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, IoBuf, Request,
    Result as Served,
};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    DiskIndex, Format, LayoutDescription, MemberState, Scrubbed, StripeUnit, Volume, add_disks,
    assemble, format, inspect, replace,
};

type Devices = Vec<Arc<dyn Device>>;

fn blank(count: usize) -> Devices {
    of_sizes(&vec![2000; count])
}

fn of_sizes(blocks: &[u64]) -> Devices {
    let power = Power::on();
    let device = |(disk, blocks): (usize, &u64)| {
        let (capacity, ensemble) = (BlockCount(*blocks), BlockCount(16));
        FaultyDevice::new(format!("disk {disk}"), capacity, ensemble, Arc::clone(&power)) as _
    };
    blocks.iter().enumerate().map(device).collect()
}

async fn made(level: &str, disks: usize) -> Devices {
    made_of(level, blank(disks)).await
}

async fn made_of(level: &str, devices: Devices) -> Devices {
    let unit = StripeUnit::Blocks(BlockCount(8));
    laid_over(level, LayoutDescription::Stripe { unit }, 400, devices).await
}

async fn laid_over(
    level: &str,
    layout: LayoutDescription,
    journal: u64,
    devices: Devices,
) -> Devices {
    let how = Format {
        level: level.parse().unwrap(),
        layout,
        journal: Some(BlockCount(journal)),
        integrity: false,
        is_blank: true,
    };
    format("v", &devices, how, |_, _| ()).await.unwrap();
    devices
}

fn of(devices: &Devices, which: &[usize]) -> Devices {
    devices
        .iter()
        .enumerate()
        .filter(|(i, _)| which.contains(i))
        .map(|(_, d)| Arc::clone(d))
        .collect()
}

/// Opens a volume from `devices` and writes to it.
async fn write(devices: Devices, fill: u8) {
    let volume = assemble("v".into(), devices, true).await.unwrap();
    let volume: &dyn Device = &*volume;
    let mut block = IoBuf::zeroed(BlockCount(1));
    block.fill(fill);
    volume.write(Lbn(3), block).await.unwrap();
    volume.flush().await.unwrap();
}

async fn read(devices: Devices) -> Result<u8, String> {
    let volume = assemble("v".into(), devices, true).await.map_err(|error| error.to_string())?;
    let volume: &dyn Device = &*volume;
    Ok(volume.read(BlockRange::new(Lbn(3), BlockCount(1))).await.unwrap()[0])
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
            assert!(error.contains("apart"), "{level}: {error}");
            assert_eq!(read(of(&devices, &one)).await, Ok(1));
            assert_eq!(read(of(&devices, &other)).await, Ok(2));
            // Labels forget openings that are long ago, and not this.
            for _ in 0..20 {
                write(of(&devices, &other), 3).await;
            }
            let error = read(devices.clone()).await.unwrap_err();
            assert!(error.contains("apart"), "{level}: {error}");
        });
    }
}

/// A disk that failed and whose labels are gone, too, is in nobody's way; one that has not failed is missed.
#[test]
fn a_disk_without_a_label_is_as_good_as_missing() {
    block_on_virtual(1, async {
        let mut devices = made("raid5", 3).await;
        devices[1] = blank(1).remove(0);
        let error = assemble("v".into(), devices.clone(), false).await.unwrap_err().to_string();
        assert!(error.contains("disk [1] of 3 is missing"), "{error}");
        assert!(error.contains("disk 0 has no label"), "{error}");
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
        assert!(error.contains("none of its devices has a label"), "{error}");
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
        assert!(error.contains("cannot do without"), "{error}");
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

/// A disk that says how long its tracks are.
#[derive(Debug)]
struct Divided {
    disk: Arc<dyn Device>,
    inquiry: Inquiry,
    /// Where each track ends.
    ends: Vec<u64>,
}

impl Divided {
    /// Tracks as long as `lengths` says; the last ends where the disk does.
    fn over(disk: &Arc<dyn Device>, lengths: impl Iterator<Item = u64>) -> Arc<dyn Device> {
        let capacity = disk.inquiry().capacity;
        let mut ends = vec![0];
        for length in lengths {
            let last = ends[ends.len() - 1];
            if last == capacity.0 {
                break;
            }
            ends.push((last + length).min(capacity.0));
        }
        let capacity = BlockCount(ends[ends.len() - 1]);
        let inquiry = Inquiry { capacity, ..disk.inquiry().clone() };
        Arc::new(Divided { disk: Arc::clone(disk), inquiry, ends })
    }

    /// Tracks of 16 blocks, but for one that a defect has shortened by a block.
    fn shortened(disk: &Arc<dyn Device>, shortened: u64) -> Arc<dyn Device> {
        let tracks = disk.inquiry().capacity.0 / 16;
        Divided::over(disk, (0..tracks).map(|track| 16 - u64::from(track == shortened)))
    }

    /// Tracks of `track` blocks, every eighth `by` shorter.
    fn regular(disk: &Arc<dyn Device>, track: u64, by: u64) -> Arc<dyn Device> {
        Divided::over(disk, (0..).map(|at| if at % 8 == 7 { track - by } else { track }))
    }
}

impl Device for Divided {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Served<Ensemble> {
        let after = self.ends.partition_point(|end| *end <= lbn.0);
        let blocks = BlockRange::between(Lbn(self.ends[after - 1]), Lbn(self.ends[after]));
        Ok(Ensemble { blocks, switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Served<BlockRange> {
        Ok(self.ensemble(lbn)?.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Served<EquivalenceClass> {
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.disk.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        self.disk.flush()
    }
}

#[test]
fn a_disk_with_other_defects_is_not_taken_where_units_are_tracks() {
    block_on_virtual(2, async {
        let made = async |tracks: [u64; 3]| {
            let disks = blank(4);
            let devices: Devices = disks
                .iter()
                .zip(tracks)
                .map(|(disk, track)| Divided::shortened(disk, track))
                .collect();
            let layout = LayoutDescription::Stripe { unit: StripeUnit::Track };
            let level = "raid5".parse().unwrap();
            let journal = Some(BlockCount(400));
            let how = Format { level, layout, journal, integrity: false, is_blank: true };
            format("v", &devices, how, |_, _| ()).await.unwrap();
            (of(&devices, &[0, 2]), Arc::clone(&disks[3]))
        };
        // As large, and divided in another way.
        let (left, disk) = made([40, 50, 60]).await;
        let other = replace("v", &left, DiskIndex(1), Divided::shortened(&disk, 70)).await;
        assert!(other.unwrap_err().to_string().contains("divided otherwise"));
        // The layout is the same without disk 1.
        let (left, disk) = made([40, 40, 60]).await;
        replace("v", &left, DiskIndex(1), Divided::shortened(&disk, 60)).await.unwrap();
    });
}

/// The rows of quadrangles are those that all disks together made best, and remain so without some: here A
/// alone would take longer rows, and B and C alone shorter ones.
#[test]
fn rows_of_quadrangles_stay_when_disks_go() {
    for block in [1, 16] {
        block_on_virtual(9, async {
            let disks = of_sizes(&[80_000, 96_000, 96_000]);
            let devices: Devices = vec![
                Divided::regular(&disks[0], 100, 0),
                Divided::regular(&disks[1], 100, 4),
                Divided::regular(&disks[2], 100, 4),
            ];
            let block = BlockCount(block);
            let layout = LayoutDescription::Quadrangle { depth: None, block, zone: None };
            let devices = laid_over("raid5", layout, 2000, devices).await;
            let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
            let blocks = BlockRange::new(Lbn(0), BlockCount(60_000));
            let mut content = IoBuf::zeroed(blocks.count);
            content.chunks_mut(512).enumerate().for_each(|(lbn, block)| {
                block[..8].copy_from_slice(&(lbn as u64 + 1).to_le_bytes());
            });
            let expected = content.to_vec();
            let device: &dyn Device = &*volume;
            device.write(Lbn(0), content).await.unwrap();
            device.flush().await.unwrap();
            drop(volume);
            for gone in 0..3 {
                let left: Vec<usize> = (0..3).filter(|disk| *disk != gone).collect();
                let there = of(&devices, &left);
                let volume = inspect("v".into(), &there).await.unwrap().volume;
                let device: &dyn Device = &*volume;
                assert!(device.read(blocks).await.unwrap()[..] == expected, "without {gone}");
            }
            // Devices that are divided otherwise, though as many rows are as long.
            let other: Devices = vec![
                Divided::regular(&disks[0], 104, 0),
                Divided::regular(&disks[1], 104, 4),
                Divided::regular(&disks[2], 104, 4),
            ];
            let error = inspect("v".into(), &other).await.err().unwrap().to_string();
            let says = ["divided otherwise", "the devices give"];
            assert!(says.iter().any(|says| error.contains(says)), "{error}");
        });
    }
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
                let scrub = volume.scrub(None, false, |_| ()).await.unwrap_err().to_string();
                assert!(scrub.contains("open it again"), "{scrub}");
                drop(volume);
                let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
                assert_eq!(volume.moved(), None);
                let scrubbed = volume.scrub(None, false, |_| ()).await.unwrap();
                assert_eq!(scrubbed.differing, [], "{level}");
            }
        });
    }
}

/// How far a volume has grown is on its labels later than in its journal: who only looks at it asks that, too.
#[test]
fn what_was_moved_is_known_without_opening() {
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
        let inspected = inspect("v".into(), &devices).await.unwrap().volume;
        let held = (&*inspected as &dyn Device).read(BlockRange::new(Lbn(0), capacity)).await;
        assert!(held.unwrap()[..] == expected[..]);
    });
}

/// A volume without two of its disks: what lay on the others is there, and of what lay on
/// these nothing is made up.
#[test]
fn what_is_left_can_be_read_when_too_many_are_gone() {
    // Of the four disks of RAID 5 a quarter is parity.
    what_is_left_can_be_read("raid5", "cannot do without");
    what_is_left_can_be_read("raid0", "cannot do without");
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
        assert_eq!(volume.scrub(None, false, |_| ()).await.unwrap().differing, []);
        volume.fail(DiskIndex(0));
        for lbn in 0..blocks {
            let block = device.read(BlockRange::new(Lbn(lbn), BlockCount(1))).await.unwrap();
            assert_eq!(block[0], 6 ^ lbn as u8);
        }
    });
}

#[test]
fn a_volume_is_as_large_as_it_was_made_also_without_its_smallest_disk() {
    block_on_virtual(5, async {
        let mut devices = made_of("raid5", of_sizes(&[2000, 1500, 1800])).await;
        let capacity = |devices: Devices| async {
            let volume = assemble("v".into(), devices, true).await.unwrap();
            volume.inquiry().capacity
        };
        let before = capacity(devices.clone()).await;
        write(of(&devices, &[0, 2]), 9).await;
        assert_eq!(capacity(of(&devices, &[0, 2])).await, before);
        let [small, new]: [Arc<dyn Device>; 2] = of_sizes(&[1400, 3000]).try_into().unwrap();
        let there = of(&devices, &[0, 2]);
        let error = replace("v", &there, DiskIndex(1), small).await.unwrap_err().to_string();
        assert!(error.contains("smaller"), "{error}");
        replace("v", &there, DiskIndex(1), Arc::clone(&new)).await.unwrap();
        devices[1] = new;
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        volume.rebuild(None, |_, _| ()).await.unwrap();
        drop(volume);
        let added = of_sizes(&[1501]);
        add_disks("v", &devices, &added).await.unwrap();
        devices.extend(added);
        let volume = assemble("v".into(), devices.clone(), false).await.unwrap();
        volume.grow(None, |_, _| ()).await.unwrap();
        drop(volume);
        assert_eq!(capacity(of(&devices, &[0, 1, 3])).await.0 * 2, before.0 * 3);
        assert_eq!(read(of(&devices, &[0, 1, 3])).await, Ok(9));
    });
}

#[test]
fn a_volume_does_without_its_smallest_disk_whatever_its_layout() {
    // The smallest ends with half an ensemble; with almost a whole one, and so few others that shorter rows
    // would hold more.
    for (level, gone, mut sizes, smallest) in [
        ("raid5", 1, [2000, 1800, 1900, 2500], 1512),
        ("raid10", 0, [2000, 1800, 1900, 2500], 1519),
        ("raid6", 1, [660, 671, 690, 900], 655),
        ("raid1", 2, [687, 671, 660, 900], 655),
        ("raid5", 0, [687, 671, 660, 703], 656),
    ] {
        sizes[gone] = smallest;
        for layout in [
            LayoutDescription::Stripe { unit: StripeUnit::Track },
            LayoutDescription::Quadrangle { depth: None, block: BlockCount(3), zone: None },
            LayoutDescription::Quadrangle { depth: Some(2), block: BlockCount(1), zone: None },
        ] {
            block_on_virtual(8, async {
                let devices = laid_over(level, layout, 400, of_sizes(&sizes)).await;
                write(devices.clone(), 5).await;
                let quadrangles = |volume: &Volume| -> Vec<(u32, u64)> {
                    let zones = volume.quadrangles().iter();
                    zones.map(|zone| (zone.dimensions.depth, zone.quadrangles)).collect()
                };
                let whole = assemble("v".into(), devices.clone(), false).await.unwrap();
                let (before, zones) = (whole.inquiry().capacity, quadrangles(&whole));
                drop(whole);
                let others: Vec<usize> = (0..4).filter(|disk| *disk != gone).collect();
                let there = of(&devices, &others);
                let inspected = inspect("v".into(), &there).await.unwrap().volume;
                assert_eq!(quadrangles(&inspected), zones);
                let volume = assemble("v".into(), there.clone(), true).await.unwrap();
                assert_eq!((volume.inquiry().capacity, quadrangles(&volume)), (before, zones));
                drop(volume);
                assert_eq!(read(there.clone()).await, Ok(5));
                let [new]: [Arc<dyn Device>; 1] = of_sizes(&[3000]).try_into().unwrap();
                replace("v", &there, DiskIndex(gone), Arc::clone(&new)).await.unwrap();
                let mut all = there;
                all.push(new);
                let volume = assemble("v".into(), all.clone(), false).await.unwrap();
                volume.rebuild(None, |_, _| ()).await.unwrap();
                assert_eq!(volume.state(DiskIndex(gone)), MemberState::Ready);
                assert_eq!(volume.inquiry().capacity, before);
                drop(volume);
                let lacking = (gone + 1) % 4;
                let left: Vec<usize> = others.into_iter().filter(|disk| *disk != lacking).collect();
                let mut left = of(&devices, &left);
                left.push(all.pop().unwrap());
                assert_eq!(read(left).await, Ok(5), "{level} {layout:?}");
            });
        }
    }
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
        let unit = StripeUnit::Blocks(BlockCount(8));
        let how = Format {
            level: "raid5".parse().unwrap(),
            layout: LayoutDescription::Stripe { unit },
            journal: Some(BlockCount(400)),
            integrity: true,
            is_blank: true,
        };
        format("v", &devices, how, |_, _| ()).await.unwrap();
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
        volume.rebuild(None, |_, _| ()).await.unwrap();
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
        assert_eq!(volume.scrub(None, false, |_| ()).await.unwrap().lost.len(), 1);
        // What is written anew is there again.
        let stripe = BlockRange::new(Lbn(1000 / 24 * 24), BlockCount(24));
        device.write(stripe.first, IoBuf::zeroed(stripe.count)).await.unwrap();
        let read = device.read(stripe).await.unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
        assert_eq!(volume.scrub(None, false, |_| ()).await.unwrap(), Scrubbed::default());
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
        let scrubbed = volume.scrub(None, false, |_| ()).await.unwrap();
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
