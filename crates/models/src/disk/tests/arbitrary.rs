//! The invariants under any requests.

use proptest::prelude::*;

use super::*;
use crate::{CacheSettings, ImmediateReport, ReadAhead};

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
    let flags = prop::collection::vec(any::<bool>(), 10);
    let settings = (1u32..5, 1u64..500, 1u32..3, read_ahead, report, flags).prop_map(
        |(segments, blocks, write_segments, read_ahead, immediate_report, flags)| CacheSettings {
            segments,
            segment_blocks: BlockCount(blocks),
            adaptive: flags[0],
            separate_write_segment: flags[8] && segments > 1,
            write_start_blocks: BlockCount(if flags[9] { 10 } else { 1 }),
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
