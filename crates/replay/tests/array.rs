//! A volume whose drives are stepped directly takes, to the nanosecond, the times of the same volume
//! behind the storage interface.

use std::sync::Arc;

use futures::executor::block_on;
use moirai_devices::{Access, model, open_without_data};
use moirai_replay::trace::{Arrival, TraceError, TraceRequest};
use moirai_replay::{Array, Devices, Options, Replayed, replay};
use moirai_runtime::{block_on_virtual, random};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn};
use moirai_volume::{LayoutDescription, StripeUnit, Volume};
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
