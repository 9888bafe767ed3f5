//! Drives that are put together at random, extracted, and simulated beside themselves.
//!
//! `MOIRAI_RUNS` says how many, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "../../discovery/tests/odd/mod.rs"]
mod odd;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use moirai::discovery::{Error, extract};
use moirai::runtime::{each_seed, random};
use moirai::units::{BlockCount, BlockRange, Instant, Lbn, Nanos};
use moirai_models::{Direction, Disk, DiskRequest, Profile, Scheduler};
use rand::Rng;

const REQUESTS: usize = 600;

/// Response times of requests that follow each other, some at once and some after a while, in ms.
fn responses(profile: Profile) -> Vec<f64> {
    let capacity = profile.geometry.capacity().0;
    let mut random = random("requests");
    let mut disk = Disk::new(profile, Scheduler::Fcfs);
    let (mut now, mut end, mut done, mut times) = (Instant::ZERO, 0_u64, Vec::new(), Vec::new());
    for id in 0..REQUESTS as u64 {
        let count = random.random_range(1..24).min(capacity);
        let first = match random.random_range(0..10) {
            0..3 => end,
            3..5 => (end + random.random_range(0..400)).saturating_sub(200),
            _ => random.random_range(0..capacity),
        };
        let first = first.min(capacity - count);
        end = first + count;
        now = now + Nanos(random.random_range(0..40_000_000));
        let direction = if random.random_ratio(2, 3) { Direction::Read } else { Direction::Write };
        let blocks = BlockRange::new(Lbn(first), BlockCount(count));
        disk.submit(now, DiskRequest { id, direction, blocks });
        while done.is_empty() {
            disk.advance(disk.next_event().unwrap(), &mut done);
        }
        for one in done.drain(..) {
            now = one.finished;
            times.push(one.finished.since(one.issued).as_ms());
        }
    }
    times
}

/// What is asked of all drives together, in percent: how many are found, and of those, how many answer as the real ones do, to 2 % of
/// the mean. Not all can: layouts with zones that are alike are not always found, caches of disks with few cylinders are not seen
/// well, and some overheads hide each other.
const FOUND_PERCENT: usize = 80;
const NEAR_PERCENT: usize = 80;
const NEAR_PART: f64 = 0.02;

#[test]
fn most_drives_that_are_extracted_answer_as_the_real_ones() {
    let runs = if cfg!(debug_assertions) { 100 } else { 1000 };
    let [drawn, all, found, near] = [0; 4].map(AtomicUsize::new);
    each_seed(runs, async || {
        drawn.fetch_add(1, Relaxed);
        let text = odd::any_drive(&mut random("odd drive"));
        let Ok(real) = Profile::parse(&text) else { return };
        all.fetch_add(1, Relaxed);
        let disk = odd::start(real.clone());
        let extracted = match extract(&*disk, true, |_| ()).await {
            Ok(extracted) => extracted,
            Err(Error::Contradiction { .. }) => return,
            Err(error) => panic!("{error}\n{text}"),
        };
        found.fetch_add(1, Relaxed);
        let profile = Profile::new(moirai::drive_profile(&extracted, "odd".to_owned()));
        let ours = profile.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (theirs, ours) = (responses(real), responses(ours));
        let mean = theirs.iter().sum::<f64>() / theirs.len() as f64;
        let sorted = |mut times: Vec<f64>| {
            times.sort_unstable_by(f64::total_cmp);
            times
        };
        let distances = sorted(theirs).into_iter().zip(sorted(ours)).map(|(a, b)| (a - b).powi(2));
        let demerit = (distances.sum::<f64>() / REQUESTS as f64).sqrt();
        near.fetch_add(usize::from(demerit <= NEAR_PART * mean), Relaxed);
    });
    let [drawn, all, found, near] = [drawn, all, found, near].map(AtomicUsize::into_inner);
    // A run of one may draw one that has no room.
    assert!(drawn == 1 || all * 2 > drawn, "of {drawn} drives that were drawn only {all} can be");
    let counted = format!("{near} of {found} that were found, of {all}");
    assert!(found * 100 >= all * FOUND_PERCENT, "{counted}");
    assert!(near * 100 >= found * NEAR_PERCENT, "{counted}");
}
