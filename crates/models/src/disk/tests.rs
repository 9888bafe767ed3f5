//! Tests of the disk: times that follow from the geometry, and the order of each scheduler.

mod arbitrary;
mod cache;
mod disconnects;

use super::*;
use crate::{Overheads, Zone};
use moirai_units::{BlockCount, Lbn};

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
    profile.electronics.overheads = Overheads::default();
    profile.electronics.bus_sector = Nanos::ZERO;
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
        let zone = disk.profile.geometry.zones().next().unwrap().clone();
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
        profile.electronics.bus_in_order = in_order;
        let mut disk = Disk::new(profile, Scheduler::Sptf);
        disk.submit(Instant { ns: 2_500_000 }, request(0, 0, 334));
        run(&mut disk).remove(0).parts.bus
    };
    let one_track = Nanos(334 * 6_400);
    assert!(bus(true) > Nanos(one_track.0 / 3), "{}", bus(true));
    assert!(bus(false) < Nanos(one_track.0 / 100), "{}", bus(false));
}

#[test]
fn sptf_counts_the_turn_that_a_zero_latency_read_from_its_middle_takes() {
    // One track is read whole from wherever the head comes down; eight sectors elsewhere on it come
    // sooner than a request that the head is in the middle of.
    let mut disk = bare("quantum-atlas-10k");
    let sector = revolution_ns(&disk) / 334;
    let start = Instant { ns: revolution_ns(&disk) * 1000 + sector * 24 };
    for (id, first) in [(0, 20), (1, 100)] {
        disk.submit(start, request(id, first, 8));
    }
    assert_eq!(run(&mut disk).iter().map(|done| done.id).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn every_scheduler_has_its_order() {
    let order = |scheduler| {
        let mut disk = atlas(scheduler);
        // The first is taken up at once; the rest wait for it.
        let firsts = [9_000_000, 15_000_000, 1_000, 9_100_000, 8_999_000, 17_000_000];
        disk.submit(Instant::ZERO, request(0, firsts[0], 8));
        run_one_decision(&mut disk);
        for (id, first) in firsts.iter().enumerate().skip(1) {
            let at = Instant { ns: 1_000_000 + 10_000 * id as u64 };
            disk.submit(at, request(id as u64, *first, 8));
        }
        run(&mut disk).iter().map(|done| done.id).collect::<Vec<_>>()
    };
    assert_eq!(order(Scheduler::Fcfs), [0, 1, 2, 3, 4, 5]);
    assert_eq!(order(Scheduler::CLook), [0, 3, 1, 5, 2, 4]);
    assert_eq!(order(Scheduler::Sstf), [0, 4, 3, 1, 5, 2]);
    // With much weight on age it is first come, first served.
    assert_eq!(order(Scheduler::AgedSptf { weight: 1e6 }), [0, 1, 2, 3, 4, 5]);
    assert_eq!(order(Scheduler::AgedSptf { weight: 0.0 }), order(Scheduler::Sptf));
}

fn run_one_decision(disk: &mut Disk) {
    let at = disk.next_event().unwrap();
    disk.advance(at, &mut Vec::new());
}
