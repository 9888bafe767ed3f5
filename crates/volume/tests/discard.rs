//! Discarded blocks of volumes: which of them the devices free, and that nothing else changes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join;
use moirai_devices::{Access, FaultyDevice, NewFiles, Power, open};
use moirai_runtime::{block_on_real, block_on_virtual};
use moirai_storage::{Device, IoBuf, Section};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    Concatenation, DiskIndex, Format, LayoutDescription, Repair, StripeUnit, Volume, assemble,
    format,
};

const STRIPED: LayoutDescription =
    LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(16)) };
const QUADRANGLES: LayoutDescription =
    LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(8), zone: Some(0) };

/// Files of 4 MiB.
struct Files {
    folder: tempfile::TempDir,
    devices: Vec<Arc<dyn Device>>,
}

impl Files {
    fn new(count: usize, parameters: &str) -> Files {
        let folder = tempfile::tempdir().unwrap();
        let path = |disk: usize| folder.path().join(disk.to_string());
        let open_one = |disk| {
            let uri = format!("file:{}?size=4MiB&ensemble=64KiB{parameters}", path(disk).display());
            open(uri.parse().unwrap(), Access::Create(&NewFiles::new())).unwrap()
        };
        let devices = (0..count).map(open_one).collect();
        Files { folder, devices }
    }

    /// Blocks that the file system has given each.
    fn allocated(&self) -> Vec<u64> {
        let path = |disk: usize| -> PathBuf { self.folder.path().join(disk.to_string()) };
        (0..self.devices.len()).map(|disk| path(disk).metadata().unwrap().blocks()).collect()
    }
}

/// Writes blocks 0 to 4000 of `device`, discards those from 1001 to 3003, and gives how much smaller each file is.
async fn freed(files: &Files, device: &dyn Device) -> Vec<u64> {
    let mut content = IoBuf::zeroed(BlockCount(4000));
    content.chunks_mut(512).enumerate().for_each(|(lbn, block)| block.fill(lbn as u8 | 1));
    let written = content.to_vec();
    device.write(Lbn(0), content).await.unwrap();
    device.flush().await.unwrap();
    let before = files.allocated();
    device.discard(BlockRange::new(Lbn(1001), BlockCount(2002))).await.unwrap();
    device.flush().await.unwrap();
    let after = files.allocated();
    let back = device.read(BlockRange::new(Lbn(0), BlockCount(4000))).await.unwrap();
    assert_eq!(back[..1001 * 512], written[..1001 * 512]);
    assert_eq!(back[3003 * 512..], written[3003 * 512..]);
    before.iter().zip(after).map(|(before, after)| before - after).collect()
}

async fn formatted(files: &Files, level: &str, integrity: bool) -> Arc<Volume> {
    let level = level.parse().unwrap();
    let how = Format { level, layout: STRIPED, journal: None, integrity, is_blank: true };
    format("v", &files.devices, how, |_, _| ()).await.unwrap();
    assemble("v".into(), files.devices.clone(), true).await.unwrap()
}

#[test]
fn volumes_without_parity_pass_discards_on() {
    block_on_real(1, async {
        // 1992 blocks are whole pages: of them each disk has a part, or all where it is a copy.
        let check = async |level: &str, disks: usize, each: std::ops::RangeInclusive<u64>| {
            let files = Files::new(disks, "");
            let volume = formatted(&files, level, false).await;
            assert_eq!(volume.inquiry().discard, Some(BlockCount(8)), "{level}");
            let freed = freed(&files, &*volume).await;
            assert!(freed.iter().all(|freed| each.contains(freed)), "{level}: {freed:?}");
        };
        check("raid0", 2, 984..=1000).await;
        check("raid1", 2, 1992..=1992).await;
        check("raid10", 4, 984..=1000).await;

        let files = Files::new(3, "");
        let level = "raid0".parse().unwrap();
        let volume = Volume::new("v".into(), files.devices.clone(), level, QUADRANGLES).unwrap();
        let freed = freed(&files, &*volume).await;
        assert_eq!(freed.iter().sum::<u64>(), 1992, "{freed:?}");
    });
}

#[test]
fn sections_and_devices_one_behind_the_other_pass_discards_on() {
    block_on_real(1, async {
        let files = Files::new(2, "");
        let section = |disk: usize, first, count| {
            let blocks = BlockRange::new(Lbn(first), BlockCount(count));
            Section::of(Arc::clone(&files.devices[disk]), blocks).unwrap() as Arc<dyn Device>
        };
        let parts = vec![
            (section(0, 80, 2000), BlockCount(1600)),
            (section(1, 800, 4000), BlockCount(4000)),
        ];
        let all = Concatenation::of("all".into(), parts).unwrap();
        // Blocks 1008 to 1600 are in the first part, up to 3000 in the second.
        assert_eq!(freed(&files, &*all).await, [592, 1400]);
        let past = all.discard(BlockRange::new(Lbn(5599), BlockCount(2))).await;
        assert!(past.unwrap_err().to_string().contains("past the end"));
        let section = section(0, 80, 16);
        let past = section.discard(BlockRange::new(Lbn(15), BlockCount(2))).await;
        assert!(past.unwrap_err().to_string().contains("past the end"));
    });
}

#[test]
fn parity_and_checksums_keep_what_they_fit() {
    block_on_real(1, async {
        for (level, disks, integrity) in
            [("raid5", 3, false), ("raid6", 4, false), ("raid1", 2, true)]
        {
            let files = Files::new(disks, "");
            let volume = formatted(&files, level, integrity).await;
            assert_eq!(volume.inquiry().discard, None, "{level}");
            assert_eq!(freed(&files, &*volume).await, vec![0; disks], "{level}");
            let scrubbed = volume.scrub(None, Repair::default(), |_| ()).await.unwrap();
            assert_eq!(scrubbed, Default::default(), "{level}");
        }
    });
}

#[test]
fn copies_stay_equal() {
    block_on_real(1, async {
        let files = Files::new(2, "");
        let volume = formatted(&files, "raid1", false).await;
        freed(&files, &*volume).await;
        let scrubbed = volume.scrub(None, Repair::default(), |_| ()).await.unwrap();
        assert_eq!(scrubbed, Default::default());
        // A copy that is away is not asked.
        volume.fail(DiskIndex(1));
        assert_eq!(freed(&files, &*volume).await, [1992, 0]);

        // Devices that free other blocks than each other would not stay equal.
        let mut files = Files::new(1, "");
        let mut other = Files::new(1, "&physical=16KiB");
        files.devices.append(&mut other.devices);
        let level = "raid1".parse().unwrap();
        let volume = Volume::new("v".into(), files.devices.clone(), level, STRIPED).unwrap();
        assert_eq!(volume.inquiry().discard, None);
        assert_eq!(volume.inquiry().physical_block, BlockCount(32));
    });
}

/// A scrub meets no stripe of which one copy is discarded and the other not yet.
#[test]
fn a_scrub_beside_a_discard_finds_copies_equal() {
    for seed in 0..20 {
        block_on_virtual(seed, async {
            let power = Power::on();
            let device = |disk| {
                let (blocks, ensemble) = (BlockCount(640), BlockCount(16));
                FaultyDevice::new(format!("disk {disk}"), blocks, ensemble, Arc::clone(&power)) as _
            };
            let level = "raid1".parse().unwrap();
            let devices = (0..2).map(device).collect();
            let volume = Volume::new("v".into(), devices, level, STRIPED).unwrap();
            let all = volume.inquiry().all_blocks();
            let device: &dyn Device = &*volume;
            let mut content = IoBuf::zeroed(all.count);
            content.fill(7);
            device.write(all.first, content).await.unwrap();
            let (scrubbed, discarded) =
                join(volume.scrub(None, Repair::default(), |_| ()), device.discard(all)).await;
            discarded.unwrap();
            assert_eq!(scrubbed.unwrap(), Default::default());
            let left = device.read(all).await.unwrap();
            assert!(left.iter().all(|byte| *byte == 0));
        });
    }
}
