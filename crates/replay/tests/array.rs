//! A volume whose drives are stepped directly takes, to the nanosecond, the times of the same volume
//! behind the storage interface; and a drive of it that failed is filled again.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use futures::executor::block_on;
use moirai_devices::{Access, model, open_without_data};
use moirai_replay::trace::{Arrival, TraceError, TraceRequest};
use moirai_replay::{Array, Devices, Options, Replayed, Target, replay};
use moirai_runtime::{block_on_virtual, random, seeded};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn};
use moirai_volume::{Layout, LayoutDescription, StripeUnit, Volume};
use rand::Rng;

const DRIVE: &str = "sim:quantum-atlas-10k";

const LEVELS: [(&str, usize); 7] = [
    ("raid0", 3),
    ("raid1", 2),
    ("raid10", 4),
    ("raid4", 4),
    ("raid5", 5),
    ("raid5-right-asymmetric", 3),
    ("raid6", 5),
];

const LAYOUTS: [LayoutDescription; 3] = [
    LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(16)) },
    LayoutDescription::Stripe { unit: StripeUnit::Track },
    LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(2), zone: Some(0) },
];

/// Requests near each other, so that they meet in stripes, and at a rate that makes queues.
fn trace(capacity: BlockCount) -> Vec<Result<TraceRequest, TraceError>> {
    let mut random = random("trace");
    let mut at = Instant::ZERO;
    (0..400)
        .map(|line| {
            at.ns += random.random_range(0..4_000_000);
            let near = random.random_range(0..4) > 0;
            let first = random.random_range(0..if near { 4000 } else { capacity.0 - 1200 });
            let longest = if random.random_range(0..5) == 0 { 1200 } else { 40 };
            let blocks = BlockRange::new(Lbn(first), BlockCount(random.random_range(1..longest)));
            let op = if random.random_range(0..3) == 0 { Op::Write } else { Op::Read };
            Ok(TraceRequest { at: Arrival::At(at), device: 0, op, blocks, line })
        })
        .collect()
}

#[test]
fn drives_stepped_directly_take_the_times_of_the_volume() {
    for (seed, (level, disks)) in (0..).zip(LEVELS) {
        for layout in LAYOUTS {
            let options = Options::default();
            let (mut of_volume, mut of_array): (Vec<Replayed>, Vec<Replayed>) = Default::default();
            let (volume, requests) = block_on_virtual(seed, async {
                let disks = (0..disks)
                    .map(|_| open_without_data(DRIVE.parse().unwrap(), Access::Read).unwrap());
                let level = level.parse().unwrap();
                let volume = Volume::new("v".into(), disks.collect(), level, layout).unwrap();
                let requests = trace(volume.layout().capacity());
                let mut target = Devices::new(vec![Arc::clone(&volume) as _]);
                let each = |replayed: &Replayed| {
                    of_volume.push(*replayed);
                    Ok(())
                };
                replay(&mut target, requests.into_iter(), &options, each).await.unwrap();
                (Arc::clone(&volume), trace(volume.layout().capacity()))
            });
            let drives = (0..disks).map(|_| model(DRIVE.parse().unwrap()).unwrap()).collect();
            let mut target = Array::new("v".into(), volume.layout().clone(), drives);
            let each = |replayed: &Replayed| {
                of_array.push(*replayed);
                Ok(())
            };
            let replayed = block_on(replay(&mut target, requests.into_iter(), &options, each));
            let utilisation = replayed.unwrap().utilisation().unwrap();
            assert!((0.1..=1.0).contains(&utilisation), "{level}, {layout:?}: {utilisation}");

            let times = |all: &mut Vec<Replayed>| {
                all.sort_by_key(|replayed| replayed.request);
                let of = |one: &Replayed| {
                    (
                        one.request,
                        one.done.issued,
                        one.done.started,
                        one.done.finished,
                        one.done.parts,
                    )
                };
                all.iter().map(of).collect::<Vec<_>>()
            };
            for (one, other) in times(&mut of_volume).into_iter().zip(times(&mut of_array)) {
                assert_eq!(one, other, "{level} over {disks}, {layout:?}");
            }
            assert_eq!(of_array.len(), 400);
        }
    }
}

/// 4,000 blocks of each of so many drives.
fn array(level: &str, disks: usize) -> Array {
    let (unit, depth) = (BlockCount(16), BlockCount(4000));
    let layout = Layout::striped(level.parse().unwrap(), disks, unit, depth).unwrap();
    let drives = (0..disks).map(|_| model(DRIVE.parse().unwrap()).unwrap()).collect();
    Array::new("v".into(), layout, drives)
}

/// How long each drive was busy, in the time that `act` takes.
fn busy(array: &mut Array, act: impl FnOnce(&mut Array)) -> Vec<u64> {
    let busy = |array: &Array| -> Vec<u64> {
        array.drives().iter().map(|drive| drive.media_busy().0).collect()
    };
    let before = busy(array);
    act(array);
    busy(array).into_iter().zip(before).map(|(after, before)| after - before).collect()
}

/// A read of all blocks.
fn read_all(array: &mut Array, at: Instant) {
    let blocks = BlockRange::new(Lbn(0), array.devices()[0].1);
    array.submit(at, 0, Op::Read, blocks, 7);
    let mut done = Vec::new();
    array.advance(None, &mut done);
    assert_eq!(done.len(), 1);
}

#[test]
fn a_drive_that_failed_is_filled_from_those_that_hold_its_data() {
    // The drives that hold what drive 1 did.
    let cases: [(&str, usize, &[usize]); 5] = [
        ("raid1", 2, &[0]),
        ("raid10", 4, &[0]),
        ("raid4", 4, &[0, 2, 3]),
        ("raid5", 4, &[0, 2, 3]),
        ("raid6", 5, &[0, 2, 3, 4]),
    ];
    for (level, disks, sources) in cases {
        let mut array = array(level, disks);
        array.fail(1);
        let of_reads = busy(&mut array, |array| read_all(array, Instant::ZERO));
        assert_eq!(of_reads[1], 0, "{level}");
        let began = Instant { ns: 10_000_000_000 };
        let of_filling = busy(&mut array, |array| {
            array.rebuild(began, 1);
            let mut done = Vec::new();
            array.advance(None, &mut done);
            assert_eq!(done.len(), 0, "{level}");
        });
        let rebuilt = array.rebuilt().unwrap();
        assert_eq!((rebuilt.blocks, rebuilt.of), (BlockCount(4000), BlockCount(4000)), "{level}");
        for (drive, ns) in of_filling.iter().enumerate() {
            assert_eq!(*ns > 0, drive == 1 || sources.contains(&drive), "{level}: drive {drive}");
        }
        // A stripe at a time: a unit is read, and then written.
        assert!(rebuilt.elapsed.0 > of_filling[0] + of_filling[1], "{level}: {rebuilt:?}");
        let of_reads = busy(&mut array, |array| read_all(array, began + rebuilt.elapsed));
        assert!(of_reads[1] > 0, "{level}: it is read again");
    }
}

#[test]
fn what_is_lost_is_not_filled() {
    for (level, disks, failed) in [("raid0", 3, vec![1]), ("raid5", 4, vec![1, 2])] {
        let mut array = array(level, disks);
        failed.iter().for_each(|drive| array.fail(*drive));
        array.rebuild(Instant::ZERO, 1);
        assert_eq!(array.rebuilt().unwrap().blocks, BlockCount::ZERO, "{level}");
        let of_reads = busy(&mut array, |array| read_all(array, Instant { ns: 1 }));
        assert_eq!(of_reads[1], 0, "{level}");
    }
    let mut whole = array("raid5", 4);
    whole.rebuild(Instant::ZERO, 1);
    assert_eq!(whole.rebuilt(), None, "a drive that has not failed");
}

#[test]
fn requests_go_on_while_a_drive_is_filled() {
    let response = |is_filled: bool| {
        let mut array = array("raid5", 4);
        array.fail(1);
        if is_filled {
            array.rebuild(Instant::ZERO, 1);
        }
        let (mut sum, mut random, mut done) = (0, seeded(7, "reads beside a rebuild"), Vec::new());
        for ticket in 0..50 {
            let at = Instant { ns: u64::from(ticket) * 20_000_000 };
            let first = Lbn(random.random_range(0..11_000));
            array.submit(at, 0, Op::Read, BlockRange::new(first, BlockCount(8)), ticket);
            while done.is_empty() {
                array.advance(None, &mut done);
            }
            sum += done.drain(..).map(|done| done.finished.since(done.issued).0).sum::<u64>();
        }
        (sum, array.rebuilt())
    };
    let ((alone, none), (beside, rebuilt)) = (response(false), response(true));
    assert_eq!(none, None);
    let rebuilt = rebuilt.unwrap();
    assert!(rebuilt.blocks > BlockCount::ZERO && rebuilt.blocks < rebuilt.of, "{rebuilt:?}");
    assert!(beside > alone, "{beside} ns beside a rebuild, {alone} without");
}
