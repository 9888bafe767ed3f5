//! Boundaries of tracks that were found, beside those that the simulated drives have.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod distant;
mod late;
mod truth;

use std::sync::Arc;

use distant::Distant;
use late::Late;
use moirai_devices::{Access, open};
use moirai_discovery::{Annotated, Error, TrackMap, Tracks, find_tracks};
use moirai_models::built_in_names;
use moirai_runtime::{block_on_virtual, now};
use moirai_storage::Device;
use moirai_units::{Lbn, Nanos};
use truth::{count_certain, firsts};

fn drive(name: &str) -> Arc<dyn Device> {
    open(format!("sim:{name}?data=none").parse().unwrap(), Access::Read).unwrap()
}

/// All other drives that are built in, but for those with many tracks.
#[test]
fn all_boundaries_of_each_drive_are_found() {
    for name in built_in_names() {
        let tracks = block_on_virtual(1, async { firsts(&*drive(name)).len() });
        if tracks > if cfg!(debug_assertions) { 60_000 } else { 200_000 } {
            continue;
        }
        let found = search(name, None);
        assert_eq!(found.certain, found.all, "{name}");
    }
}

/// What was found of a drive, and of how many boundaries that it has this is certain.
struct Found {
    tracks: Tracks,
    certain: usize,
    all: usize,
    /// Of the drive's time.
    elapsed_s: f64,
}

fn search(name: &str, late: Option<(f64, Option<u32>)>) -> Found {
    block_on_virtual(1, async {
        let truth = drive(name);
        let device = match late {
            Some((deviation_us, one_stalls_in)) => {
                Late::over(Arc::clone(&truth), deviation_us, one_stalls_in)
            }
            None => Arc::clone(&truth),
        };
        let began = now();
        let tracks = find_tracks(&*device, |_| ()).await.unwrap();
        let elapsed_s = now().since(began).as_s();
        let all = firsts(&*truth);
        let certain = count_certain(&tracks, &all, name);
        Found { tracks, certain, all: all.len(), elapsed_s }
    })
}

/// The drive of the thesis: it took four hours for 9 GB.
#[test]
fn all_boundaries_of_an_atlas_10k_are_found_within_ten_minutes() {
    let Found { tracks: found, certain, all, elapsed_s } = search("quantum-atlas-10k", None);
    assert_eq!(certain, all);
    assert!(elapsed_s < 600.0, "{elapsed_s:.1} s");
    assert!((found.rotation.period_ns / (60e9 / 10_025.0) - 1.0).abs() < 1e-4);
    block_on_virtual(1, async {
        let truth = drive("quantum-atlas-10k");
        let map = TrackMap::of(&found, truth.inquiry().capacity);
        assert!(map.firsts().eq(found.firsts.iter().copied()));
        assert!(map.memory_bytes() < 500_000, "{} bytes", map.memory_bytes());
        let annotated = Annotated::new(Arc::clone(&truth), map);
        for lbn in (0..truth.inquiry().capacity.0).step_by(99_991).map(Lbn) {
            let (ours, theirs) = (annotated.ensemble(lbn).unwrap(), truth.ensemble(lbn).unwrap());
            assert_eq!(ours.blocks, theirs.blocks);
            let differ = ours.switch.0.abs_diff(theirs.switch.0);
            assert!(
                differ <= 1 || ours.blocks.end() == Lbn(truth.inquiry().capacity.0),
                "{lbn}: {differ}"
            );
        }
    });
}

#[test]
fn late_answers_make_nothing_wrong_certain() {
    for late in [(20.0, None), (20.0, Some(1000))] {
        let Found { certain, all, elapsed_s, .. } = search("quantum-atlas-10k", Some(late));
        assert!(certain * 1000 >= all * 999, "{certain} of {all}");
        assert!(elapsed_s < 600.0, "{elapsed_s:.1} s");
    }
}

#[test]
fn what_takes_as_long_for_each_answer_does_not_turn() {
    for response_ms in [3, 4, 5, 10, 20] {
        block_on_virtual(response_ms, async {
            let response = Nanos(response_ms * 1_000_000);
            let device = Distant::like(drive("quantum-atlas-10k"), response);
            let found = find_tracks(&device, |_| ()).await;
            assert!(matches!(found, Err(Error::NoRotation { .. })), "{response_ms} ms: {found:?}");
        });
    }
}
