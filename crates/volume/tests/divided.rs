//! Volumes over disks with other tracks, defects or sizes, and without some of them.

#![expect(clippy::indexing_slicing, reason = "a test stops at what it did not expect")]

mod common;

use std::sync::Arc;

use common::*;
use futures::future::BoxFuture;
use moirai_runtime::block_on_virtual;
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, IoBuf, Request,
    Result as Served,
};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    DiskIndex, Format, LayoutDescription, MemberState, StripeUnit, Volume, add_disks, assemble,
    format, inspect, replace,
};

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
        assert!(other.unwrap_err().to_string().contains("other track boundaries"));
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
            let says = ["other track boundaries", "the devices give"];
            assert!(says.iter().any(|says| error.contains(says)), "{error}");
        });
    }
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
