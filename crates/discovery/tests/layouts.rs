//! Layouts that are extracted by translations, beside those that simulated drives have.
//!
//! `MOIRAI_RUNS` says of how many random drives, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod odd;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use moirai_discovery::find_layout;
use moirai_models::{Profile, Track};
use moirai_runtime::{each_seed, random};
use moirai_units::Lbn;
use parking_lot::Mutex;

/// Drives with zones beside each other whose tracks are equally long may have a layout that is not found, one in so many at
/// most. Of the others, too, a few are not found: with groups of cylinders longer than zones, or hardly more zones than cylinders.
const NOT_FOUND: usize = 12;
const OTHERS_NOT_FOUND: usize = 400;

#[test]
fn layouts_are_found_and_never_wrong() {
    let runs = if cfg!(debug_assertions) { 150 } else { 2000 };
    let [unknown, others, all, drawn] = [0; 4].map(AtomicUsize::new);
    let last = Mutex::new(String::new());
    each_seed(runs, async || {
        drawn.fetch_add(1, Relaxed);
        let text = odd::any_layout(&mut random("odd layout"));
        // Some have no room for what is reserved, or for what is spare.
        let Ok(profile) = Profile::parse(&text) else { return };
        let truth = profile.geometry.clone();
        let disk = odd::start(profile);
        all.fetch_add(1, Relaxed);
        let found = match find_layout(&*disk).await {
            Ok((found, _)) => found,
            Err(error) => {
                let zones: Vec<u32> = truth.zones().map(|zone| zone.track_sectors).collect();
                let is_alike = zones.windows(2).any(|pair| pair.first() == pair.last());
                if is_alike { &unknown } else { &others }.fetch_add(1, Relaxed);
                *last.lock() = format!("{error}\n{text}");
                return;
            }
        };
        assert_eq!(found.capacity(), truth.capacity(), "{text}");
        let mut at = Lbn(0);
        while let Some(track) = truth.track(at) {
            let ours = found.track(at).unwrap();
            let place = |track: &Track| (track.blocks, track.cylinder, track.head);
            assert_eq!(place(&ours), place(&track), "{text}");
            for lbn in (track.blocks.first.0..track.blocks.end().0).map(Lbn) {
                assert_eq!(found.locate(lbn), truth.locate(lbn), "{lbn}\n{text}");
            }
            at = track.blocks.end();
        }
    });
    let [unknown, others, all, drawn] = [unknown, others, all, drawn].map(AtomicUsize::into_inner);
    // A run of one may draw one that has no room.
    assert!(drawn == 1 || all * 2 > drawn, "of {drawn} layouts that were drawn only {all} can be");
    assert!(
        unknown * NOT_FOUND <= all,
        "of {all} layouts {unknown} are not found: {}",
        last.lock()
    );
    assert!(
        others * OTHERS_NOT_FOUND <= all,
        "of {all} {others} others are not found: {}",
        last.lock()
    );
}
