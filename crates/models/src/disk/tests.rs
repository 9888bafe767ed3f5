//! Tests of the disk: times that follow from the geometry, and the invariants under any requests.

use super::*;
use crate::{CacheSettings, Overheads, ReadAhead, Zone};
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

/// The Atlas 10K with a cache, as its extracted parameters say.
fn cached(change: impl FnOnce(&mut CacheSettings)) -> Disk {
    let mut profile = Profile::built_in("quantum-atlas-10k").unwrap();
    let mut settings = CacheSettings {
        segments: 10,
        segment_blocks: BlockCount(374),
        adaptive: false,
        write_segments: 1,
        read_ahead: ReadAhead::Segment,
        read_ahead_blocks: BlockCount(354),
        resume_on_hit: false,
        read_while_waiting: false,
        hit_on_arriving: true,
        discard_sent: false,
        write_drops_reads: false,
        hit_on_written: true,
        stop_within_sector: false,
        immediate_report: ImmediateReport::None,
        combine_writes: true,
    };
    change(&mut settings);
    profile.electronics.cache = Some(settings);
    Disk::new(profile, Scheduler::Fcfs)
}

fn write(id: RequestId, first: u64, count: u64) -> DiskRequest {
    DiskRequest { direction: Direction::Write, ..request(id, first, count) }
}

fn at_ms(ms: u64) -> Instant {
    Instant { ns: ms * 1_000_000 }
}

/// Sends requests at their times and gives what each took.
fn send(disk: &mut Disk, requests: &[(u64, DiskRequest)]) -> Vec<DiskCompletion> {
    let mut done = Vec::new();
    for (ms, request) in requests {
        while let Some(at) = disk.next_event().filter(|at| *at < at_ms(*ms)) {
            disk.advance(at, &mut done);
        }
        disk.submit(at_ms(*ms), *request);
    }
    done.extend(run(disk));
    done.sort_by_key(|done| done.id);
    done
}

#[test]
fn what_was_read_ahead_is_a_hit_as_long_as_its_segment_lasts() {
    let hits = |change: fn(&mut CacheSettings)| -> Vec<bool> {
        let mut disk = cached(change);
        let far = 9_000_000;
        let requests = [
            (0, request(0, 1000, 8)),
            (50, request(1, 1008, 8)),
            (100, request(2, 1000, 8)),
            (150, request(3, far, 8)),
            (200, request(4, 1300, 8)),
            (250, write(5, far + 100, 8)),
            (300, request(6, 1310, 8)),
            (350, request(7, far + 100, 8)),
        ];
        send(&mut disk, &requests).iter().map(|done| done.cached > BlockCount::ZERO).collect()
    };
    let (yes, no) = (true, false);
    assert_eq!(hits(|_| ()), [no, yes, yes, no, yes, no, yes, yes]);
    let one = |cache: &mut CacheSettings| cache.segments = 1;
    assert_eq!(hits(one), [no, yes, yes, no, no, no, no, no]);
    let nothing_ahead = |cache: &mut CacheSettings| cache.read_ahead = ReadAhead::None;
    assert_eq!(hits(nothing_ahead), [no, no, yes, no, no, no, no, yes]);
    let discard = |cache: &mut CacheSettings| cache.discard_sent = true;
    assert_eq!(hits(discard), [no, yes, no, no, yes, no, yes, yes]);
    let drops = |cache: &mut CacheSettings| cache.write_drops_reads = true;
    assert_eq!(hits(drops), [no, yes, yes, no, yes, no, no, yes]);
    let own = |cache: &mut CacheSettings| cache.hit_on_written = false;
    assert_eq!(hits(own), [no, yes, yes, no, yes, no, yes, no]);
}

#[test]
fn reading_ahead_ends_where_its_policy_says() {
    // Tracks of 334 blocks, cylinders of six.
    let check = |read_ahead, request_first: u64, reached: u64| {
        let make = || cached(|cache| cache.read_ahead = read_ahead);
        let hit = |probe: u64| {
            let mut disk = make();
            let requests = [(0, request(0, request_first, 8)), (100, request(1, probe, 1))];
            send(&mut disk, &requests)[1].cached > BlockCount::ZERO
        };
        assert!(hit(reached - 1) && !hit(reached), "{read_ahead:?} from {request_first}");
    };
    check(ReadAhead::Segment, 100, 108 + 354);
    check(ReadAhead::Track, 100, 334);
    check(ReadAhead::Cylinder, 5 * 334 + 100, 6 * 334);
    check(ReadAhead::NextTrack, 100, 334);
    check(ReadAhead::NextTrack, 330, 338 + 354);
    check(ReadAhead::None, 100, 108);
}

#[test]
fn a_read_of_what_is_being_read_ahead_goes_on_with_it() {
    let mut disk = cached(|_| ());
    disk.submit(Instant::ZERO, request(0, 0, 8));
    let first = run(&mut disk).remove(0);
    // A sector passes in 18 us: half a millisecond later some of the next blocks are there.
    disk.submit(first.finished + Nanos(500_000), request(1, 8, 200));
    let second = run(&mut disk).remove(0);
    assert!(second.cached > BlockCount::ZERO && second.cached < BlockCount(200));
    assert_eq!(second.parts.seek + second.parts.rotation, Nanos::ZERO);
    assert_eq!(second.parts.total(), second.finished.since(second.issued));
}

#[test]
fn writes_reported_at_once_take_the_bus_alone_and_a_flush_waits_for_them() {
    let mut disk = cached(|cache| {
        cache.immediate_report = ImmediateReport::All;
        cache.write_segments = 2;
    });
    disk.submit(Instant::ZERO, write(0, 9_000_000, 8));
    disk.flush(Instant { ns: 1 }, 1);
    disk.flush(at_ms(500), 2);
    let done = run(&mut disk);
    assert_eq!(done.iter().map(|done| done.id).collect::<Vec<_>>(), [0, 1, 2]);
    let parts = done[0].parts;
    assert_eq!(parts.total(), parts.overhead + parts.bus);
    assert_eq!(done[0].finished.ns, 184_000 + 8 * 6_400);
    assert!(done[1].finished.ns > 5_000_000, "a seek and half a turn: {:?}", done[1]);
    assert_eq!(done[2].finished, at_ms(500), "nothing is left to write");
}

#[test]
fn a_write_waits_for_a_segment_when_none_is_free() {
    let finished = |write_segments| {
        let mut disk = cached(|cache| {
            cache.immediate_report = ImmediateReport::All;
            cache.write_segments = write_segments;
            cache.combine_writes = false;
        });
        for id in 0..3 {
            disk.submit(Instant::ZERO, write(id, 9_000_000 - id * 4_000_000, 8));
        }
        run(&mut disk).iter().map(|done| done.finished).max().unwrap()
    };
    assert!(finished(3) < at_ms(1));
    assert!(finished(1) > at_ms(5));
}

#[test]
fn a_read_of_what_is_just_arriving_waits_for_its_command() {
    let mut disk = cached(|cache| cache.hit_on_arriving = true);
    disk.profile.electronics.overheads.read_hit.read = Nanos::from_ms(20.0);
    disk.submit(Instant::ZERO, request(0, 0, 9));
    let first = run(&mut disk).remove(0);
    disk.submit(first.finished, request(1, 9, 9));
    let second = run(&mut disk).remove(0);
    assert_eq!(second.parts.total(), second.finished.since(second.issued), "{second:?}");
    assert!(second.finished.since(second.issued) > Nanos::from_ms(20.0));
}

#[test]
fn a_read_that_waits_takes_no_room_from_writes() {
    let mut disk = cached(|cache| {
        cache.immediate_report = ImmediateReport::All;
        cache.write_segments = 1;
        cache.read_ahead = ReadAhead::None;
    });
    // The read's first block is in the segment that the write left; the rest it waits for.
    let requests = [(0, write(0, 9_000_000, 8)), (100, request(1, 9_000_004, 8))];
    let buffered = [(100, write(2, 1_000, 8))];
    let done = send(&mut disk, &[requests.as_slice(), &buffered].concat());
    let write = done.iter().find(|done| done.id == 2).unwrap();
    assert!(write.finished.since(write.issued) < Nanos::from_ms(1.0), "{write:?}");
}

#[test]
fn a_blocked_write_gets_its_segment_when_the_one_before_is_taken_up() {
    let finished = |second_us: u64| {
        let mut disk = cached(|cache| {
            cache.immediate_report = ImmediateReport::All;
            cache.write_segments = 1;
            cache.combine_writes = false;
        });
        disk.submit(Instant::ZERO, write(0, 9_000_000, 8));
        disk.submit(Instant { ns: second_us * 1000 }, write(1, 1_000, 8));
        run(&mut disk).iter().find(|done| done.id == 1).unwrap().finished
    };
    // The first is taken up after 184 us: having waited for that makes nothing later.
    assert!(finished(100) <= finished(200), "{} and {}", finished(100), finished(200));
}

#[test]
fn a_write_that_waited_for_a_segment_ends_reading_ahead() {
    let mut disk = cached(|cache| {
        cache.immediate_report = ImmediateReport::All;
        (cache.segments, cache.write_segments) = (1, 1);
    });
    disk.submit(Instant::ZERO, request(0, 9_000_000, 8));
    disk.submit(Instant { ns: 1_000 }, write(1, 1_000, 8));
    run(&mut disk);
    let again = send(&mut disk, &[(100, request(2, 9_000_008, 8))]).remove(0);
    assert_eq!(again.cached, BlockCount::ZERO, "the only segment went to the write");
}

#[test]
fn a_partial_hit_elsewhere_seeks_from_where_reading_ahead_took_the_arm() {
    let third = |first: u64, count: u64| {
        let mut disk = cached(|cache| {
            cache.read_ahead = ReadAhead::Segment;
            cache.segment_blocks = BlockCount(120_000);
            cache.read_ahead_blocks = BlockCount(110_000);
            cache.hit_on_arriving = false;
        });
        let requests = [(0, request(0, 9_200_000, 8)), (12, request(1, 9_000_000, 8))];
        send(&mut disk, &requests);
        send(&mut disk, &[(1_800, request(2, first, count))]).remove(0)
    };
    let partial = third(9_200_000, 700);
    let cached = partial.cached.0;
    assert!(cached > 0);
    // What is left of it, asked for alone, hits nothing.
    let miss = third(9_200_000 + cached, 700 - cached);
    assert_eq!(miss.cached, BlockCount::ZERO);
    assert_eq!(partial.parts.seek, miss.parts.seek);
}

#[test]
fn writes_longer_than_a_segment_go_at_the_rate_of_the_media() {
    let time = |report| {
        let mut disk = cached(|cache| cache.immediate_report = report);
        disk.submit(Instant::ZERO, write(0, 0, 200_000));
        run(&mut disk).remove(0).finished
    };
    assert_eq!(time(ImmediateReport::All), time(ImmediateReport::None));
}

#[test]
fn only_what_continues_a_write_under_way_is_reported_early() {
    let early = |second_first: u64, second_ms: u64| {
        let mut disk = cached(|cache| cache.immediate_report = ImmediateReport::Sequential);
        let requests = [(0, write(0, 1_000, 16)), (second_ms, write(1, second_first, 16))];
        let second = send(&mut disk, &requests).into_iter().find(|done| done.id == 1).unwrap();
        second.finished.since(second.issued) == Nanos(184_000 + 16 * 6_400)
    };
    assert!(early(1_016, 1));
    assert!(!early(1_016, 100), "the one before is on the media");
    assert!(!early(1_000, 1), "the same blocks again");
    assert!(!early(2_000, 1), "elsewhere");
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
fn sequential_writes_join_and_lose_no_revolution() {
    let mut disk = cached(|cache| cache.immediate_report = ImmediateReport::Sequential);
    let revolution = revolution_ns(&disk);
    for id in 0..4 {
        disk.submit(Instant { ns: id * 100_000 }, write(id, 1000 + id * 16, 16));
    }
    let done = run(&mut disk);
    let media = disk.media_busy().0;
    assert!(done.len() == 4 && media < 2 * revolution, "{media} of {revolution}");
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

/// Requests over the disk, some of them close to the one before.
fn any_requests() -> impl Strategy<Value = Vec<(u64, u64, bool, u64)>> {
    let one = (0u64..17_900_000, 1u64..2000, any::<bool>(), 0u64..30_000_000, 0u64..3);
    prop::collection::vec(one, 1..40).prop_map(|requests| {
        let mut end = 0;
        requests
            .into_iter()
            .map(|(first, count, write, gap, near)| {
                let first = if near > 0 { end + (near - 1) * (first % 50) } else { first };
                let first = first.min(17_900_000);
                end = first + count;
                (first, count, write, gap)
            })
            .collect()
    })
}

fn any_scheduler() -> impl Strategy<Value = Scheduler> {
    prop_oneof![
        Just(Scheduler::Fcfs),
        Just(Scheduler::CLook),
        Just(Scheduler::Sstf),
        Just(Scheduler::Sptf),
        Just(Scheduler::AgedSptf { weight: 0.3 }),
    ]
}

fn any_cache() -> impl Strategy<Value = Option<CacheSettings>> {
    let read_ahead = prop_oneof![
        Just(ReadAhead::None),
        Just(ReadAhead::Track),
        Just(ReadAhead::Cylinder),
        Just(ReadAhead::Segment),
        Just(ReadAhead::NextTrack),
    ];
    let report = prop_oneof![
        Just(ImmediateReport::None),
        Just(ImmediateReport::Sequential),
        Just(ImmediateReport::All),
    ];
    let flags = prop::collection::vec(any::<bool>(), 8);
    let settings = (1u32..5, 1u64..500, 1u32..3, read_ahead, report, flags).prop_map(
        |(segments, blocks, write_segments, read_ahead, immediate_report, flags)| CacheSettings {
            segments,
            segment_blocks: BlockCount(blocks),
            adaptive: flags[0],
            write_segments: write_segments.min(segments),
            read_ahead,
            read_ahead_blocks: BlockCount(blocks),
            resume_on_hit: flags[1],
            read_while_waiting: flags[2],
            hit_on_arriving: flags[3],
            discard_sent: flags[4],
            write_drops_reads: flags[5],
            hit_on_written: flags[6],
            stop_within_sector: flags[7],
            immediate_report,
            combine_writes: flags[1] || flags[2],
        },
    );
    prop::option::of(settings)
}

fn run_one_decision(disk: &mut Disk) {
    let at = disk.next_event().unwrap();
    disk.advance(at, &mut Vec::new());
}

proptest! {
    /// Looking outwards from the arm finds what looking at all of them finds.
    #[test]
    fn sptf_is_the_shortest_of_all(
        firsts in prop::collection::vec(0u64..17_900_000, 2..60),
        start_ns in 0u64..20_000_000,
    ) {
        let mut disk = atlas(Scheduler::Sptf);
        let start = Instant { ns: start_ns };
        for (id, first) in firsts.iter().enumerate() {
            disk.submit(start, request(id as u64, *first, 8));
        }
        let first_done = run(&mut disk).into_iter().min_by_key(|done| done.started).unwrap();
        let Profile { geometry, mechanics, .. } = disk.profile();
        let time = |first: u64| {
            let extent = geometry.extent(BlockRange::new(Lbn(first), BlockCount(8))).unwrap();
            let at = first_done.started;
            service::positioning_time(mechanics, Arm::default(), at, Direction::Read, &extent)
        };
        let best = firsts.iter().map(|first| time(*first)).min().unwrap();
        prop_assert_eq!(time(firsts[first_done.id as usize]), best);
    }

    /// Over the phases of a turn: a single one can come down just behind the sector it wants. Within
    /// a track: skews fit one rate.
    #[test]
    fn a_doubled_media_rate_makes_no_request_slower(track in 0u64..50_000, from in 0u64..200, count in 1u64..29) {
        let mean = |rate: u64| {
            let mut profile = Profile::built_in("quantum-atlas-10k").unwrap();
            let slow_ps = profile.mechanics.revolution_ps;
            profile.mechanics.revolution_ps /= rate;
            let blocks = profile.geometry.track(Lbn(track * 300)).unwrap().blocks;
            let first = blocks.first.0 + from;
            let phases = 64;
            let total: u64 = (0..phases).map(|phase| {
                let mut disk = Disk::new(profile.clone(), Scheduler::Fcfs);
                let at = Instant { ns: phase * slow_ps / 1000 / phases };
                disk.submit(at, request(0, first, count));
                let done = run(&mut disk).remove(0);
                done.finished.since(done.issued).0
            }).sum();
            total / phases
        };
        prop_assert!(mean(2) <= mean(1));
    }

    /// Invariants 1, 3 and 4, whatever is asked.
    #[test]
    fn any_requests_are_each_served_once_and_their_times_add_up(
        requests in any_requests(),
        scheduler in any_scheduler(),
        cache in any_cache(),
        pause_ns in 1u64..5_000_000,
    ) {
        let make = || {
            let mut profile = Profile::built_in("quantum-atlas-10k").unwrap();
            profile.electronics.cache = cache.clone();
            Disk::new(profile, scheduler)
        };
        let (mut by_event, mut by_clock) = (make(), make());
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
        let uncached = done.iter().filter(|_| cache.is_none());
        let mut busy: Vec<_> = uncached.map(|completion| {
            let parts = completion.parts;
            let mechanism = parts.seek + parts.head_switch + parts.rotation + parts.media;
            (completion.started, completion.started + mechanism)
        }).collect();
        busy.sort_unstable();
        prop_assert!(busy.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
