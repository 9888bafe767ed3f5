//! Fits to traces of simulated drives, whose parameters are known.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use moirai_models::{Profile, ProfileFile};
use moirai_replay::fit::{Fit, PARAMETERS, fit};
use moirai_replay::trace::{BufferAction, MeasuredRequest};
use moirai_replay::validate::{responses, simulate};
use moirai_runtime::{block_on_virtual, random};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};
use rand::Rng;

const REQUESTS: usize = 2000;

/// The part of the requests that take a revolution more or less than in the simulated drive.
const REVOLUTIONS_MISSED: f64 = 0.08;

/// A drive whose bus is fast enough to show what the heads do.
fn drive() -> ProfileFile {
    let drive = Profile::built_in("quantum-atlas-10k-extracted").unwrap().file;
    ProfileFile { bus_mb_per_s: 40.0, ..drive }
}

/// Random and sequential requests of up to two tracks, and how long `drive` takes for them, with noise: up to
/// 0.1 ms, and missed revolutions.
fn measure(drive: &ProfileFile, seed: u64) -> Vec<MeasuredRequest> {
    let mut random = block_on_virtual(seed, async { random("trace") });
    let profile = Profile::new(drive.clone()).unwrap();
    let capacity = profile.geometry.capacity().0;
    let mut next = 0;
    let mut requests: Vec<MeasuredRequest> = (0..REQUESTS)
        .map(|_| {
            let sectors = random.random_range(1..600);
            if random.random_bool(0.8) || next + sectors > capacity {
                next = random.random_range(0..capacity - sectors);
            }
            let blocks = BlockRange::new(Lbn(next), BlockCount(sectors));
            next += sectors;
            MeasuredRequest {
                op: if random.random_bool(0.65) { Op::Read } else { Op::Write },
                buffer: BufferAction::Miss,
                blocks,
                measured: Nanos(0),
                delay: Nanos(random.random_range(10_000_000..40_000_000)),
            }
        })
        .collect();
    let revolution_ns = (60e9 / drive.rotation_rpm) as u64;
    let simulated = responses(&simulate(profile, &requests).unwrap());
    for (request, time) in requests.iter_mut().zip(simulated) {
        let mut ns = time.0 + random.random_range(0..200_000);
        if random.random_bool(REVOLUTIONS_MISSED) && ns > revolution_ns {
            ns = if random.random_bool(0.5) { ns + revolution_ns } else { ns - revolution_ns };
        }
        request.measured = Nanos(ns.saturating_sub(100_000).max(1));
    }
    requests
}

fn fit_all(drive: &ProfileFile, requests: &[MeasuredRequest]) -> Fit {
    let parameters: Vec<_> =
        PARAMETERS.into_iter().filter(|parameter| parameter.is_of(drive)).collect();
    fit(drive, requests, &parameters, |_| ()).unwrap()
}

#[test]
fn fit_changes_nothing_when_the_trace_differs_by_noise() {
    let drive = drive();
    for seed in 1..=2 {
        let fitted = fit_all(&drive, &measure(&drive, seed));
        assert!(fitted.changes.is_empty(), "seed {seed}: {:?}", fitted.changes);
    }
}

#[test]
fn fit_finds_the_one_parameter_that_differs() {
    type Change = fn(&mut ProfileFile);
    let check = |name: &str, expected: f64, slack: f64, change: Change| {
        let mut real = drive();
        change(&mut real);
        // The noise of a single trace may shift what is found by a step of the search, 0.05 ms.
        let mut afters = [7, 8, 9].map(|seed| {
            let fitted = fit_all(&drive(), &measure(&real, seed));
            let found = &fitted.changes;
            assert!(matches!(&found[..], [(only, ..)] if *only == name), "{name}: {found:?}");
            let held_out = fitted.held_out;
            assert!(held_out.after.demerit_ms < held_out.before.demerit_ms * 0.9, "{held_out:?}");
            assert_eq!(fitted.left_alone.len(), PARAMETERS.len() - 1);
            found[0].2.parse::<f64>().unwrap()
        });
        afters.sort_by(f64::total_cmp);
        let median = afters[1];
        assert!((median - expected).abs() < slack, "{name}: {afters:?}, not {expected}");
    };
    let given = drive();
    check("head_switch_ms", given.head_switch_ms + 0.5, 0.05, |file| file.head_switch_ms += 0.5);
    check("bus_mb_per_s", given.bus_mb_per_s * 0.8, 1.0, |file| file.bus_mb_per_s *= 0.8);
    check("seek_ms.shift", given.seek_ms[0].1 + 0.4, 0.05, |file| {
        for (_, ms) in &mut file.seek_ms {
            *ms += 0.4;
        }
    });
}

#[test]
fn fit_finds_the_choice_that_differs() {
    let real = ProfileFile { zero_latency_read: false, ..drive() };
    let found = fit_all(&drive(), &measure(&real, 7)).changes;
    assert_eq!(found, [("zero_latency_read", "true".to_owned(), "false".to_owned())]);
}
