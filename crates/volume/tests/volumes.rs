//! Volumes over real and simulated devices: conformance, refusals, and what the layouts promise.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::sync::Arc;

use moirai_devices::{Access, FaultyDevice, NewFiles, Power, open};
use moirai_runtime::{block_on_real, block_on_virtual};
use moirai_storage::{Device, Inquiry, IoBuf, Op, Request, Section, conformance};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    Concatenation, Description, LayoutDescription, Level, StripeUnit, Volume, lay_out,
};

fn volume(uris: &[String], layout: LayoutDescription) -> Result<Arc<Volume>, String> {
    let devices = uris
        .iter()
        .map(|uri| open(uri.parse().unwrap(), Access::Create(&NewFiles::new())).unwrap())
        .collect();
    Volume::new("volume:test".into(), devices, Level::Raid0, layout)
}

fn cheetahs(count: usize) -> Vec<String> {
    vec!["sim:seagate-cheetah-36es".to_owned(); count]
}

const D4: LayoutDescription =
    LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: Some(0) };

#[test]
fn simulated_volumes_conform() {
    let stripe = |unit| LayoutDescription::Stripe { unit };
    let layouts = [
        D4,
        LayoutDescription::Quadrangle { depth: None, block: BlockCount(4), zone: Some(3) },
        stripe(StripeUnit::Track),
        stripe(StripeUnit::Blocks(BlockCount(128))),
    ];
    for (layout, disks) in layouts.into_iter().zip([4, 3, 2, 5]) {
        block_on_virtual(1, async {
            let volume = volume(&cheetahs(disks), layout).unwrap();
            conformance::check(volume).await;
        });
    }
}

#[test]
fn a_volume_of_files_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let uris: Vec<_> = (0..3)
        .map(|disk| {
            format!(
                "file:{}?size=8MiB&ensemble=64KiB",
                folder.path().join(disk.to_string()).display()
            )
        })
        .collect();
    for layout in [
        LayoutDescription::Stripe { unit: StripeUnit::Track },
        LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(8), zone: Some(0) },
    ] {
        block_on_real(1, async {
            let uris: Vec<_> = uris
                .iter()
                .map(|uri| match Path::new(&uri[5..uri.find('?').unwrap()]).exists() {
                    true => uri.replace("size=8MiB&", ""),
                    false => uri.clone(),
                })
                .collect();
            conformance::check(volume(&uris, layout).unwrap()).await;
        });
    }
}

#[test]
fn devices_one_behind_the_other_conform_and_are_written_across_their_ends() {
    block_on_virtual(1, async {
        let power = Power::on();
        let part = |blocks| {
            let name = format!("part of {blocks}");
            FaultyDevice::new(name, BlockCount(blocks), BlockCount(16), Arc::clone(&power)) as _
        };
        let parts: Vec<Arc<dyn Device>> = vec![part(100), part(90), part(250)];
        // Of the second part more blocks are there than are used.
        let used = [100, 7, 250].map(BlockCount);
        let of = |parts: &[Arc<dyn Device>]| {
            Concatenation::of("all".into(), parts.iter().cloned().zip(used).collect())
        };
        let error = of(&[part(100), part(6), part(250)]).unwrap_err().to_string();
        assert!(error.contains("part of 6"), "{error}");
        let volume = of(&parts).unwrap();
        conformance::check(Arc::clone(&volume) as _).await;
        let device: &dyn Device = &*volume;
        let mut content = IoBuf::zeroed(BlockCount(130));
        content.chunks_mut(512).enumerate().for_each(|(i, block)| block.fill(i as u8));
        device.write(Lbn(90), content).await.unwrap();
        for (part, lbn, expected) in [(0, 99, 9), (1, 0, 10), (1, 6, 16), (2, 0, 17), (2, 112, 129)]
        {
            let block = BlockRange::new(Lbn(lbn), BlockCount(1));
            let part: &Arc<dyn Device> = &parts[part];
            assert_eq!(part.read(block).await.unwrap()[0], expected);
        }
        let read = device.read(BlockRange::new(Lbn(90), BlockCount(130))).await.unwrap();
        assert!(read.chunks(512).enumerate().all(|(i, block)| block[0] == i as u8));
        assert_eq!(volume.part(Lbn(106)).unwrap().1, Lbn(100));
        assert!(volume.part(Lbn(357)).is_none());
    });
}

/// A wide volume over four disks and a narrow one over two of them, as placement section 2 has stores.
#[test]
fn volumes_on_sections_of_the_same_disks_keep_to_them_and_have_layouts_of_their_own() {
    block_on_virtual(1, async {
        let disks: Vec<_> = cheetahs(4)
            .iter()
            .map(|uri| open(uri.parse().unwrap(), Access::Write).unwrap())
            .collect();
        let track = disks[0].ensemble(Lbn(0)).unwrap().blocks.count;
        let made = |disks: &[Arc<dyn Device>], first: u64, tracks: u64, unit| {
            let blocks = BlockRange::new(Lbn(first), BlockCount(tracks * track.0));
            let section =
                |disk: &Arc<dyn Device>| Section::of(Arc::clone(disk), blocks).unwrap() as _;
            let layout = LayoutDescription::Stripe { unit };
            Volume::new(
                "volume:test".into(),
                disks.iter().map(section).collect(),
                Level::Raid0,
                layout,
            )
            .unwrap()
        };
        let wide = made(&disks, 0, 30, StripeUnit::Track);
        // It begins within a track, and so its first ensemble is short.
        let narrow = made(&disks[..2], 30 * track.0 + 5, 20, StripeUnit::Blocks(BlockCount(16)));
        assert_eq!((wide.inquiry().parallelism, narrow.inquiry().parallelism), (4, 2));
        assert_eq!(wide.ensemble(Lbn(1)).unwrap().blocks.count, track);
        conformance::check(Arc::clone(&wide) as _).await;
        conformance::check(Arc::clone(&narrow) as _).await;
        let fill = async |volume: &Arc<Volume>, byte: u8| {
            let all = volume.inquiry().capacity;
            let mut content = IoBuf::zeroed(all);
            content.fill(byte);
            let device: &dyn Device = &**volume;
            device.write(Lbn(0), content).await.unwrap();
        };
        fill(&wide, 1).await;
        fill(&narrow, 2).await;
        for (disk, ends) in [(0, [30 * track.0, 30 * track.0 + 5]), (3, [30 * track.0; 2])] {
            let read = async |lbn: u64| {
                disks[disk].read(BlockRange::new(Lbn(lbn), BlockCount(1))).await.unwrap()[0]
            };
            assert_eq!((read(ends[0] - 1).await, read(ends[0]).await), (1, 0));
            assert_eq!(read(ends[1]).await, if disk == 0 { 2 } else { 0 });
        }
        let past = BlockRange::new(Lbn(5), disks[0].inquiry().capacity);
        assert!(
            Section::of(Arc::clone(&disks[0]), past).unwrap_err().to_string().contains("cheetah")
        );
    });
}

/// A store's data lie in a section of its device, before the log.
#[test]
fn a_section_of_a_volume_has_its_attributes() {
    block_on_virtual(1, async {
        let volume = volume(&cheetahs(4), D4).unwrap();
        for first in [0, 777] {
            let blocks = BlockRange::new(Lbn(first), BlockCount(100_001));
            let section = Section::of(Arc::clone(&volume) as _, blocks).unwrap();
            conformance::check(Arc::clone(&section) as _).await;
            let Inquiry { parallelism, depth, .. } = *section.inquiry();
            assert_eq!((parallelism, depth), (4, 4));
            let (class, there) = (section.equivalent(Lbn(50_000)), Lbn(50_000 + first));
            let of_volume = volume.equivalent(there).unwrap().lbns;
            let moved: Vec<Lbn> =
                class.unwrap().lbns.iter().map(|lbn| *lbn + BlockCount(first)).collect();
            assert_eq!((moved.len(), moved), (16, of_volume));
        }
    });
}

#[test]
fn devices_of_different_geometries_are_refused() {
    block_on_virtual(0, async {
        let uris = ["sim:seagate-cheetah-36es".into(), "sim:quantum-atlas-10k".into()];
        let error = volume(&uris, D4).unwrap_err();
        assert!(error.contains("different geometries"), "{error}");
    });
}

#[test]
fn a_description_is_opened_and_its_errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vol.toml");
    std::fs::write(&path, "devices = [\"sim:quantum-atlas-10k\"]\n[quadrangle]\nzone = 99\n")
        .unwrap();
    block_on_virtual(0, async {
        let laid_out =
            || lay_out(&path, &Description::read(&path).unwrap(), |uri| open(uri, Access::Write));
        let error = laid_out().unwrap_err().to_string();
        assert!(error.contains("vol.toml") && error.contains("no zone 99"), "{error}");
        std::fs::write(&path, "devices = [\"sim:quantum-atlas-10k\"]\n[quadrangle]\n").unwrap();
        let volume = laid_out().unwrap();
        // Thesis table 6.2: a cylinder of the Atlas 10K has six tracks, and they fit a revolution.
        assert_eq!(volume.inquiry().depth, 6);
    });
}

/// Thesis 6.3.2: an equivalence class is read in about one revolution, random blocks are not.
#[test]
fn an_equivalence_class_costs_one_revolution() {
    block_on_virtual(0, async {
        let volume = volume(&cheetahs(4), D4).unwrap();
        let device: &dyn Device = &*volume;
        let batch = |lbns: Vec<Lbn>| {
            let one = |lbn| Request::access(Op::Read, BlockRange::new(lbn, BlockCount(1)));
            lbns.into_iter().map(one).collect::<Vec<_>>()
        };
        let mut class_ns = Vec::new();
        for step in 0..20 {
            let class = device.equivalent(Lbn(100_000 + step * 997)).unwrap();
            let before = moirai_runtime::now();
            device.submit(batch(class.lbns)).await;
            class_ns.push(moirai_runtime::now().since(before).0);
        }
        class_ns.sort_unstable();
        let revolution_ns = 60_000_000_000 / 10_028;
        assert!(class_ns[10] < revolution_ns * 3 / 2, "{class_ns:?}");
    });
}
