//! Tests of the cache at work: hits, reading ahead, writes reported early.

use super::*;
use crate::{CacheSettings, ImmediateReport, ReadAhead};

/// The Atlas 10K with a cache, as its extracted parameters say.
fn cached(change: impl FnOnce(&mut CacheSettings)) -> Disk {
    let mut profile = Profile::built_in("quantum-atlas-10k").unwrap();
    let mut settings = CacheSettings {
        segments: 10,
        segment_blocks: BlockCount(374),
        adaptive: false,
        separate_write_segment: false,
        write_start_blocks: BlockCount(1),
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
    let check_with = |read_ahead, most: u64, request_first: u64, reached: u64| {
        let make = || {
            cached(|cache| {
                (cache.read_ahead, cache.read_ahead_blocks) = (read_ahead, BlockCount(most));
            })
        };
        let hit = |probe: u64| {
            let mut disk = make();
            let requests = [(0, request(0, request_first, 8)), (100, request(1, probe, 1))];
            send(&mut disk, &requests)[1].cached > BlockCount::ZERO
        };
        assert!(hit(reached - 1) && !hit(reached), "{read_ahead:?} from {request_first}");
        // The segment holds 374 blocks, and those at the end were read last.
        let kept = request_first.max(reached.saturating_sub(374));
        assert!(hit(kept) && (kept == request_first || !hit(kept - 1)), "{read_ahead:?}");
    };
    let check = |read_ahead, request_first, reached| {
        check_with(read_ahead, 354, request_first, reached);
    };
    check(ReadAhead::Segment, 100, 108 + 354);
    check(ReadAhead::Track, 100, 334);
    check(ReadAhead::Cylinder, 5 * 334 + 100, 6 * 334);
    check(ReadAhead::NextTrack, 100, 334);
    check(ReadAhead::NextTrack, 330, 338 + 354);
    check_with(ReadAhead::NextTrack, 668, 330, 3 * 334);
    check_with(ReadAhead::Segment, 668, 100, 108 + 374);
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
