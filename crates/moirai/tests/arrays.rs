//! Volumes over simulated disks, whose disks and stripe units are found by the times of reads alone.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "../../discovery/tests/late/mod.rs"]
mod late;
#[path = "../../discovery/tests/odd/mod.rs"]
mod odd;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use late::Late;
use moirai::devices::{Access, open};
use moirai::discovery::{Array, find_array};
use moirai::runtime::{block_on_virtual, each_seed, now, random};
use moirai::storage::Device;
use moirai::units::{BlockCount, Lbn};
use moirai::volume::{LayoutDescription, Level, Rotation, StripeUnit, Volume};
use moirai_models::{Profile, built_in_names};
use rand::Rng;

/// Units that are looked at of each run that was found.
const LOOKED_AT: u64 = 5_000;

/// Of drive time.
const HOUR_S: f64 = 3600.0;

fn drive(name: &str) -> Arc<dyn Device> {
    open(format!("sim:{name}?data=none").parse().unwrap(), Access::Read).unwrap()
}

fn find(name: &str, disks: usize, level: Level, layout: LayoutDescription) -> Array {
    find_behind(|volume| volume, name, disks, level, layout)
}

/// Finds a volume that is seen as `seen` shows it, and compares its units with those that it has.
fn find_behind(
    seen: impl FnOnce(Arc<dyn Device>) -> Arc<dyn Device>,
    name: &str,
    disks: usize,
    level: Level,
    layout: LayoutDescription,
) -> Array {
    let what = format!("{disks} of {name}, {level:?}, {layout:?}");
    block_on_virtual(1, async {
        let devices = (0..disks).map(|_| drive(name)).collect();
        let volume = Volume::new("volume".to_owned(), devices, level, layout).unwrap();
        let began = now();
        let found = find_array(&*seen(Arc::clone(&volume) as _), |_| ()).await.unwrap();
        let elapsed_s = now().since(began).as_s();
        assert!(elapsed_s < HOUR_S, "{what}: {elapsed_s:.0} s");
        let found = found.unwrap_or_else(|| panic!("{what}: it is taken for one disk"));
        assert!(!found.units.is_empty(), "{what}: {found:?}");
        compare(&found, &volume, &what);
        found
    })
}

/// Compares the units that were found with those that the volume has.
fn compare(found: &Array, volume: &Volume, what: &str) {
    let capacity = volume.inquiry().capacity;
    let (mut changes, mut units) = (0, 0);
    let ends = found.units.iter().skip(1).map(|(first, _)| *first).chain([Lbn(capacity.0)]);
    for ((first, unit), end) in found.units.iter().zip(ends) {
        let all = end.since(*first).0.div_ceil(unit.0);
        for index in (0..all).step_by((all / LOOKED_AT).max(1) as usize) {
            let at = *first + BlockCount(index * unit.0);
            if !found.is_certain(at) {
                continue;
            }
            let last = Lbn(at.0 + unit.0.min(end.since(at).0) - 1);
            let disk = |lbn| volume.locate(lbn).unwrap().disk;
            assert_eq!(disk(last), disk(at), "{what}: {at} of {found:?}");
            if last.0 + 1 < end.0 {
                changes += usize::from(disk(Lbn(last.0 + 1)) != disk(at));
                units += 1;
            }
        }
    }
    // Where the parity of this one moves on, neighbours are on one disk.
    match volume.layout().level() {
        Level::Raid5(Rotation::RightAsymmetric) => {
            assert!(changes * 2 > units, "{what}: {changes} of {units} of {found:?}");
        }
        _ => assert_eq!(changes, units, "{what}: {found:?}"),
    }
}

/// Arrays of drives that are put together at random: what is found of them is right.
#[test]
fn nothing_wrong_is_found_of_odd_arrays() {
    let runs = if cfg!(debug_assertions) { 4 } else { 60 };
    let [all, arrays, units] = [0; 3].map(AtomicUsize::new);
    each_seed(runs, async || {
        let mut random = random("odd array");
        let text = odd::any_drive(&mut random);
        let Ok(profile) = Profile::parse(&text) else { return };
        let disks = random.random_range(2..7);
        let unit = random.random_range(1..16) * 8;
        let level = match random.random_range(0..3) {
            0 if disks > 2 => Level::Raid5(Rotation::LeftSymmetric),
            1 if disks % 2 == 0 => Level::Raid10,
            _ => Level::Raid0,
        };
        let drive = |_| odd::start(profile.clone());
        let devices = (0..disks).map(drive).collect();
        let volume = Volume::new("volume".to_owned(), devices, level, stripes(unit));
        let Ok(volume) = volume else { return };
        all.fetch_add(1, Relaxed);
        let Ok(Some(found)) = find_array(&*volume, |_| ()).await else { return };
        arrays.fetch_add(1, Relaxed);
        assert!(found.disks <= Some(disks), "{disks} disks, {level:?}, {unit}: {found:?}\n{text}");
        compare(&found, &volume, &text);
        let is_whole = found.disks == Some(disks) && found.units == [(Lbn(0), BlockCount(unit))];
        units.fetch_add(usize::from(is_whole), Relaxed);
    });
    let [all, arrays, units] = [all, arrays, units].map(AtomicUsize::into_inner);
    assert!(arrays * 2 >= all && units * 5 >= all || all < 20, "{units} of {arrays} of {all}");
}

fn stripes(unit: u64) -> LayoutDescription {
    LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(unit)) }
}

#[test]
fn stripe_units_and_disks_come_out() {
    let raid5 = Level::Raid5(Rotation::LeftSymmetric);
    for (name, disks, level, unit) in [
        ("hp-c3323a", 2, Level::Raid0, 128),
        ("seagate-cheetah-36es", 3, Level::Raid0, 16),
        ("quantum-atlas-10k", 4, raid5, 128),
        ("seagate-cheetah-x15", 5, Level::Raid0, 2_048),
        ("hp-c3323a", 2, Level::Raid1, 128),
        ("hp-c3323a", 4, Level::Raid10, 256),
        ("quantum-viking", 5, Level::Raid6, 32),
        // Neighbours that lie on one disk, where parity moves on; a disk of parity does not show.
        ("seagate-cheetah-36es", 4, Level::Raid5(Rotation::RightAsymmetric), 64),
        ("seagate-cheetah-36es", 3, Level::Raid4, 100),
    ] {
        let found = find(name, disks, level, stripes(unit));
        let disks = if level == Level::Raid4 { disks - 1 } else { disks };
        assert_eq!((found.disks, found.unsure.len()), (Some(disks), 0), "{name}: {found:?}");
        let expected = [(Lbn(0), BlockCount(unit))];
        assert_eq!(found.units, expected, "{name}");
    }
}

/// Rows of quadrangles are as long as the tracks of their zone.
#[test]
fn quadrangles_come_out_as_rows() {
    let layout = LayoutDescription::Quadrangle { depth: None, block: BlockCount(1), zone: None };
    let found = find("quantum-atlas-10k", 4, Level::Raid0, layout);
    let rows: Vec<u64> = found.units.iter().map(|(_, unit)| unit.0).collect();
    assert_eq!((found.disks, found.unsure.len()), (Some(4), 0), "{found:?}");
    assert!(rows.len() > 10 && rows.is_sorted_by(|one, next| one > next), "{rows:?}");
}

#[test]
fn late_answers_make_nothing_wrong() {
    for (name, disks) in [("seagate-cheetah-36es", 3), ("quantum-atlas-10k", 4)] {
        let late = |device| Late::over(device, 20.0, Some(100));
        let found = find_behind(late, name, disks, Level::Raid0, stripes(128));
        assert_eq!(found.disks, Some(disks), "{name}: {found:?}");
        assert_eq!(found.units, [(Lbn(0), BlockCount(128))], "{name}");
    }
}

/// Nobody takes one disk for several.
#[test]
fn one_disk_is_one() {
    for name in built_in_names() {
        let found = block_on_virtual(1, async { find_array(&*drive(name), |_| ()).await.unwrap() });
        assert_eq!(found, None, "{name}");
    }
}
