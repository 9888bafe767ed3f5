//! Boundaries of drives that are put together at random: track orders, sparing schemes, defects, zones, surfaces and caches.
//!
//! `MOIRAI_RUNS` says how many, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod late;
mod odd;
mod truth;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use late::Late;
use moirai_discovery::{find_array, find_tracks};
use moirai_models::Profile;
use moirai_runtime::{block_on_virtual, each_seed, random};
use odd::profile;
use truth::{count_certain, firsts};

#[test]
fn no_wrong_boundary_is_called_certain() {
    let runs = if cfg!(debug_assertions) { 60 } else { 2000 };
    let [certain, all, looked_at, drawn] = [0; 4].map(AtomicUsize::new);
    each_seed(runs, async || {
        drawn.fetch_add(1, Relaxed);
        let text = profile(&mut random("odd drive"));
        // Some have no room for what is reserved.
        let Ok(profile) = Profile::parse(&text) else { return };
        let disk = odd::start(profile);
        let truth = firsts(&*disk);
        // A cache would hold all of the shortest.
        if truth.len() < 40 {
            return;
        }
        looked_at.fetch_add(1, Relaxed);
        let array = find_array(&*disk, |_| ()).await;
        let array = array.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(array.is_none(), "it is taken for several disks: {array:?}\n{text}");
        let found = find_tracks(&*disk, |_| ()).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{text}"));
        certain.fetch_add(count_certain(&found, &truth, &text), Relaxed);
        all.fetch_add(truth.len(), Relaxed);
    });
    // Of a single drive much may be in doubt: a few with caches and many slipped sectors come to four fifths. A tenth have up to 400 of
    // these, among which a boundary may look as one does that a moved block makes: of 2,000 drives' 99.84 % are certain.
    let (certain, all) = (certain.into_inner(), all.into_inner());
    let (looked_at, drawn) = (looked_at.into_inner(), drawn.into_inner());
    // A run of one may draw one that has no room.
    assert!(
        drawn == 1 || looked_at * 2 > drawn,
        "of {drawn} drives only {looked_at} are looked at"
    );
    assert!(certain * 1000 >= all * 995, "{certain} of {all} boundaries are certain");
}

/// With noise of 20 us, and one read in a thousand held up. Where a zone ends is in doubt then: the next track may go on where it ended.
#[test]
fn no_wrong_boundary_is_called_certain_where_times_are_noisy() {
    let runs = if cfg!(debug_assertions) { 60 } else { 2000 };
    let [certain, all] = [0; 2].map(AtomicUsize::new);
    each_seed(runs, async || {
        let text = profile(&mut random("odd drive"));
        let Ok(profile) = Profile::parse(&text) else { return };
        let disk = odd::start(profile);
        let truth = firsts(&*disk);
        if !(40..6000).contains(&truth.len()) {
            return;
        }
        let late = Late::over(Arc::clone(&disk), 20.0, Some(1000));
        let found = find_tracks(&*late, |_| ()).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{text}"));
        certain.fetch_add(count_certain(&found, &truth, &text), Relaxed);
        all.fetch_add(truth.len(), Relaxed);
    });
    let (certain, all) = (certain.into_inner(), all.into_inner());
    assert!(certain * 100 >= all * 95, "{certain} of {all} boundaries are certain");
}

#[test]
fn a_block_at_the_end_of_another_track_makes_no_wrong_boundary_certain() {
    // The last block of a cylinder's last track but one is on the last sector of the next: it passes just before that one's first.
    let remapped: Vec<String> = [100, 250, 700]
        .map(|cylinder| format!("[{}, {}]", 600 * cylinder + 299, 600 * cylinder + 599))
        .into();
    let text = odd::plain(&[
        ("heads", "2"),
        ("sparing", "{ scheme = \"sectors-per-cylinder\" }"),
        (
            "zones",
            &format!(
                "[{{ cylinders = 1000, track_sectors = 300, track_skew = 50, cylinder_skew = 60, spares = 10, remapped = [{}] }}]",
                remapped.join(", ")
            ),
        ),
    ]);
    block_on_virtual(1, async {
        let disk = odd::start(Profile::parse(&text).unwrap());
        let found = find_tracks(&*disk, |_| ()).await.unwrap();
        for first in found.firsts.iter().filter(|first| found.is_certain(**first)) {
            assert_eq!(disk.ensemble(*first).unwrap().blocks.first, *first);
        }
        assert!(found.firsts.iter().filter(|first| found.is_certain(**first)).count() > 1900);
    });
}
