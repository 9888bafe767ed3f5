//! Tests of the disk: times that follow from the geometry, and the invariants under any requests.

use super::*;
use crate::Zone;
use moirai_units::{BlockCount, Lbn};
use proptest::prelude::*;

fn request(id: RequestId, first: u64, count: u64) -> DiskRequest {
    DiskRequest {
        id,
        direction: Direction::Read,
        blocks: BlockRange::new(Lbn(first), BlockCount(count)),
    }
}

fn run(disk: &mut Disk) -> Vec<DiskCompletion> {
    let mut completions = Vec::new();
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut completions);
    }
    completions
}

fn atlas(scheduler: Scheduler) -> Disk {
    Disk::new(Profile::built_in("quantum-atlas-10k").unwrap(), scheduler)
}

/// The disk with the bus and command processing taken away: what is left is mechanics.
fn bare(name: &str) -> Disk {
    let mut profile = Profile::built_in(name).unwrap();
    profile.command_overhead = Nanos::ZERO;
    profile.bus_sector = Nanos::ZERO;
    Disk::new(profile, Scheduler::Sptf)
}

fn revolution_ns(disk: &Disk) -> u64 {
    disk.profile.mechanics.revolution_ps / 1000
}

#[test]
fn a_whole_track_takes_one_revolution_wherever_the_head_comes_down() {
    let mut disk = bare("quantum-atlas-10k");
    let revolution = revolution_ns(&disk);
    for at_ns in [0, 1, 1_000_000, 4_321_987] {
        disk.submit(Instant { ns: at_ns + 100_000_000 * (1 + at_ns) }, request(0, 0, 334));
        let done = run(&mut disk).remove(0);
        let took = done.finished.since(done.issued).0;
        // The head waits for the next sector boundary at most.
        let sector = revolution / 334 + 1;
        assert!((revolution - 1..=revolution + sector).contains(&took), "{took} ns");
        assert!(done.parts.rotation.0 <= sector);
    }
}

#[test]
fn a_disk_without_zero_latency_waits_for_the_first_sector() {
    let mut disk = bare("seagate-cheetah-36es");
    let revolution = revolution_ns(&disk);
    let mut total = 0;
    for step in 0..100u64 {
        let at = Instant { ns: 1_000_000_000 * (step + 1) + step * revolution / 100 };
        disk.submit(at, request(0, 0, 738));
        let done = run(&mut disk).remove(0);
        total += done.finished.since(done.issued).0;
    }
    // Equation 6.2: one and a half revolutions on average; the times above are no even sample.
    let average = total as f64 / 100.0 / revolution as f64;
    assert!((1.3..1.7).contains(&average), "{average}");
}

#[test]
fn sequential_tracks_lose_the_skew_or_with_zero_latency_the_switch_alone() {
    let check = |name: &str, lost_ns: fn(&Zone, &Disk) -> f64| {
        let mut disk = bare(name);
        let zone = disk.profile.geometry.zones()[0].clone();
        let tracks = 400;
        for track in 0..tracks {
            let sectors = u64::from(zone.track_sectors);
            disk.submit(Instant::ZERO, request(track, track * sectors, sectors));
        }
        let end = run(&mut disk).last().unwrap().finished.ns as f64;
        let expected = tracks as f64 * (revolution_ns(&disk) as f64 + lost_ns(&zone, &disk));
        assert!((end / expected - 1.0).abs() < 0.015, "{name}: {end} against {expected}");
    };
    // Equation 6.3 before the approximation: N sectors in the time of N + H.
    check("seagate-cheetah-36es", |zone, disk| {
        revolution_ns(disk) as f64 * f64::from(zone.track_skew) / f64::from(zone.track_sectors)
    });
    // The head reads on wherever it comes down: three head switches and a seek in a cylinder.
    check("maxtor-atlas-10k-iii", |_, disk| {
        let mechanics = &disk.profile.mechanics;
        (3.0 * mechanics.head_switch.0 as f64 + mechanics.seek.time(1).0 as f64) / 4.0
    });
}

#[test]
fn semi_sequential_blocks_are_read_in_one_revolution() {
    // Thesis 6.3.5: d = 4 blocks of b = 1, each one sector further on the next track.
    let mut disk = bare("seagate-cheetah-36es");
    let revolution = revolution_ns(&disk);
    for start_ns in (0..60).map(|step| 1_000_000_000 * (step + 1) + step * 97_003) {
        for row in 0..4 {
            disk.submit(Instant { ns: start_ns }, request(row, row * 738 + row, 1));
        }
        let done = run(&mut disk);
        let end = done.iter().map(|completion| completion.finished.ns).max().unwrap();
        let limit = revolution + disk.profile.mechanics.seek.time(1).0;
        assert!(end - start_ns <= limit, "{} ns", end - start_ns);
    }
}

#[test]
fn sptf_takes_the_nearest_request_first_and_fcfs_the_oldest() {
    let order = |scheduler| {
        let mut disk = atlas(scheduler);
        for (id, first) in [(0, 15_000_000), (1, 1_000), (2, 9_000_000)] {
            disk.submit(Instant::ZERO, request(id, first, 8));
        }
        run(&mut disk).iter().map(|done| done.id).collect::<Vec<_>>()
    };
    assert_eq!(order(Scheduler::Fcfs), [0, 1, 2]);
    assert_eq!(order(Scheduler::Sptf), [1, 2, 0]);
}

#[test]
fn in_order_bus_delivery_overlaps_little_with_a_zero_latency_read() {
    // Thesis 5.3.1: a track read from the middle crosses the bus after its first block was read.
    let bus = |in_order| {
        let mut profile = Profile::built_in("quantum-atlas-10k").unwrap();
        profile.bus_in_order = in_order;
        let mut disk = Disk::new(profile, Scheduler::Sptf);
        disk.submit(Instant { ns: 2_500_000 }, request(0, 0, 334));
        run(&mut disk).remove(0).parts.bus
    };
    let one_track = Nanos(334 * 6_400);
    assert!(bus(true) > Nanos(one_track.0 / 3), "{}", bus(true));
    assert!(bus(false) < Nanos(one_track.0 / 100), "{}", bus(false));
}

proptest! {
    /// Invariants 1, 3 and 4, whatever is asked.
    #[test]
    fn any_requests_are_each_served_once_and_their_times_add_up(
        requests in prop::collection::vec((0u64..17_900_000, 1u64..2000, any::<bool>(), 0u64..30_000_000), 1..40),
        fcfs in any::<bool>(),
        pause_ns in 1u64..5_000_000,
    ) {
        let scheduler = if fcfs { Scheduler::Fcfs } else { Scheduler::Sptf };
        let (mut by_event, mut by_clock) = (atlas(scheduler), atlas(scheduler));
        let (mut done, mut done_by_clock) = (Vec::new(), Vec::new());
        let mut now = Instant::ZERO;
        for (id, (first, count, write, gap)) in requests.iter().enumerate() {
            let request = DiskRequest {
                direction: if *write { Direction::Write } else { Direction::Read },
                ..request(id as u64, *first, *count)
            };
            let next = now + Nanos(*gap);
            while let Some(at) = by_event.next_event().filter(|at| *at < next) {
                by_event.advance(at, &mut done);
            }
            now = next;
            by_clock.advance(Instant { ns: now.ns.saturating_sub(1) }, &mut done_by_clock);
            by_event.submit(now, request);
            by_clock.submit(now, request);
        }
        done.extend(run(&mut by_event));
        while by_clock.next_event().is_some() {
            now = now + Nanos(pause_ns);
            by_clock.advance(now, &mut done_by_clock);
        }
        prop_assert_eq!(&done, &done_by_clock);

        let mut ids: Vec<_> = done.iter().map(|completion| completion.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
        for completion in &done {
            prop_assert_eq!(completion.parts.total(), completion.finished.since(completion.issued));
        }
        let mut busy: Vec<_> = done.iter().map(|completion| {
            let parts = completion.parts;
            let mechanism = parts.seek + parts.head_switch + parts.rotation + parts.media;
            (completion.started, completion.started + mechanism)
        }).collect();
        busy.sort_unstable();
        prop_assert!(busy.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
