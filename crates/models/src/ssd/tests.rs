//! The SSD: its times, and what filling it, whole ensembles and discards do to its flash.

use super::*;
use moirai_units::{ByteCount, Lbn};

fn small() -> SsdProfile {
    SsdProfile::built_in("ssd-slc").unwrap().with_size(ByteCount::mib(16)).unwrap()
}

fn request(id: u64, direction: Direction, first: u64, count: u64) -> DiskRequest {
    DiskRequest { id, direction, blocks: BlockRange::new(Lbn(first), BlockCount(count)) }
}

/// All requests at once, at `at`; the completions by id.
fn serve(ssd: &mut Ssd, at: Instant, requests: &[DiskRequest]) -> Vec<DiskCompletion> {
    let mut done = Vec::new();
    requests.iter().for_each(|request| ssd.submit(at, *request));
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    done.sort_by_key(|done| done.id);
    done
}

fn response(done: &DiskCompletion) -> Nanos {
    assert_eq!(done.parts.total(), done.finished.since(done.issued));
    done.finished.since(done.issued)
}

#[test]
fn built_in_profiles_are_valid() {
    for name in built_in_ssd_names() {
        let profile = SsdProfile::built_in(name).unwrap();
        assert_eq!(profile.file.name, name);
    }
    let profile = SsdProfile::built_in("ssd-slc").unwrap();
    // 8 dies of 1,024 superblocks with 2 x 64 pages of 4 KiB, of which 85 % are seen.
    assert_eq!(profile.ensemble, BlockCount(1024));
    assert_eq!(profile.capacity(), BlockCount(8 * 870 * 1024));
    // An erase is 15 pages of 100 us.
    assert_eq!(profile.switch(), BlockCount(15 * 8));
    for mib in [1, 16, 100, 4096] {
        let sized = profile.with_size(ByteCount::mib(mib)).unwrap();
        assert!(sized.capacity().bytes() >= ByteCount::mib(mib), "{mib}");
        assert!(sized.capacity().bytes() <= ByteCount::mib(mib + 4), "{mib}");
    }
}

/// Whatever is spare, an SSD that was made for a size has it, and not much more.
#[test]
fn sizes_are_kept() {
    for spare in 0..=60 {
        let mut file = SsdProfile::built_in("ssd-slc").unwrap().file;
        file.spare_share = f64::from(spare) / 100.0;
        let profile = SsdProfile::new(file).unwrap();
        for rows in [1, 2, 50, 63, 119, 126, 1023] {
            let size = BlockCount(profile.row(Lbn(0)).count.0 * rows);
            let sized = profile.with_size(size.bytes()).unwrap();
            assert!(sized.capacity() >= size, "{spare} % spare, {rows} rows");
            assert!(u64::from(sized.ensembles_per_die) <= rows + 1, "{spare} % spare, {rows} rows");
        }
    }
    let profile = SsdProfile::built_in("ssd-slc").unwrap();
    for size in [ByteCount(0), ByteCount::mib(20 << 20), ByteCount(u64::MAX)] {
        assert!(profile.with_size(size).is_err(), "{size}");
    }
}

#[test]
fn bad_profiles_name_the_key() {
    let check = |change: fn(&mut SsdProfileFile), key: &str| {
        let mut file = SsdProfile::built_in("ssd-slc").unwrap().file;
        change(&mut file);
        let problem = SsdProfile::new(file).unwrap_err().to_string();
        assert!(problem.contains(&format!("`{key}`")), "{problem}");
    };
    check(|file| file.channels = 0, "channels");
    check(|file| file.page_bytes = 3000, "page_bytes");
    check(|file| file.page_bytes = 256, "page_bytes");
    check(|file| file.program_us = f64::NAN, "program_us");
    check(|file| file.blocks_per_plane = 14, "blocks_per_plane");
    check(|file| file.blocks_per_plane = u32::MAX, "blocks_per_plane");
    check(|file| file.host_mb_per_s = 0.0, "host_mb_per_s");
    check(|file| (file.channels, file.dies_per_channel) = (1000, 1000), "blocks_per_plane");
}

/// The times of Agrawal et al. 2008, table 1: a read takes 25 us in the flash and 100 us on the channel; with our host, 20 us for
/// the command and 16.4 us for 4 KiB at 250 MB/s.
#[test]
fn a_read_takes_flash_channel_and_bus() {
    let mut ssd = Ssd::new(small());
    let unwritten = serve(&mut ssd, Instant::ZERO, &[request(0, Direction::Read, 0, 8)]);
    assert_eq!(response(&unwritten[0]), Nanos(20_000 + 8 * 2048));
    let at = Instant { ns: 1_000_000 };
    let written = serve(&mut ssd, at, &[request(1, Direction::Write, 0, 8)]);
    assert_eq!(response(&written[0]), Nanos(20_000 + 8 * 2048));
    let flushed = at + Nanos(20_000 + 8 * 2048 + 100_000 + 200_000);
    ssd.flush(at, 2);
    assert_eq!(ssd.next_event(), Some(flushed));
    let read = serve(&mut ssd, flushed, &[request(3, Direction::Read, 0, 8)]);
    let read = read.last().unwrap();
    assert_eq!(response(read), Nanos(20_000 + 25_000 + 100_000 + 8 * 2048));
    assert_eq!((read.parts.media, read.parts.queue), (Nanos(125_000), Nanos::ZERO));
}

#[test]
fn what_is_in_the_buffer_is_read_from_it() {
    let mut ssd = Ssd::new(small());
    let both = [request(0, Direction::Write, 0, 8), request(1, Direction::Read, 0, 8)];
    let done = serve(&mut ssd, Instant::ZERO, &both);
    assert_eq!(done[1].cached, BlockCount(8));
    assert!(response(&done[1]) < Nanos(60_000));
}

/// Reads of a page from each of eight dies take little more than one: two dies share a channel.
#[test]
fn dies_work_side_by_side() {
    let mut ssd = Ssd::new(small());
    let ensemble = ssd.profile().ensemble.0;
    let all = |direction| -> Vec<DiskRequest> {
        (0..8).map(|die| request(die, direction, die * ensemble, 8)).collect()
    };
    let at_once = |ssd: &mut Ssd, at: u64, requests: &[DiskRequest]| {
        let done = serve(ssd, Instant { ns: at }, requests);
        done.iter().map(response).max().unwrap()
    };
    at_once(&mut ssd, 0, &all(Direction::Write));
    let one = at_once(&mut ssd, 1_000_000_000, &all(Direction::Read)[..1]);
    let eight = at_once(&mut ssd, 2_000_000_000, &all(Direction::Read));
    let same_die: Vec<DiskRequest> =
        (0..8).map(|id| request(id, Direction::Write, id * 8, 8)).collect();
    at_once(&mut ssd, 3_000_000_000, &same_die);
    let same_die: Vec<DiskRequest> =
        (0..8).map(|id| request(id, Direction::Read, id * 8, 8)).collect();
    let queued = at_once(&mut ssd, 4_000_000_000, &same_die);
    assert_eq!(one, Nanos(20_000 + 25_000 + 100_000 + 8 * 2048));
    // The second die of each channel waits for the first, and four pages cross the host's bus then.
    assert_eq!(eight, Nanos(20_000 + 25_000 + 200_000 + 4 * 8 * 2048));
    assert!(queued > Nanos(8 * 100_000), "{queued:?}");
}

#[test]
fn a_write_waits_for_room_in_the_buffer() {
    let mut ssd = Ssd::new(small());
    let all = ssd.profile().ensemble.0;
    // 3 x 128 pages on one die of two planes: the buffer has room for 256, and 200 us / 2 are programmed for each.
    let die = ssd.profile().row(Lbn(0)).count.0;
    let requests: Vec<_> = (0..3).map(|at| request(at, Direction::Write, at * die, all)).collect();
    let done = serve(&mut ssd, Instant::ZERO, &requests);
    assert!(response(&done[1]) < Nanos(256 * 8 * 2048 + 30_000));
    assert!(response(&done[2]) > Nanos(128 * 100_000), "{:?}", done[2]);
}

/// Over-writing at random costs more the fuller the SSD is; over-writing whole ensembles costs nothing more.
#[test]
fn random_overwrites_cost_more_as_it_fills() {
    // Large enough to have no more spare than 15 %.
    let profile = SsdProfile::built_in("ssd-slc").unwrap().with_size(ByteCount::mib(256)).unwrap();
    let amplification = |full: f64, whole: bool| {
        let mut ssd = Ssd::new(profile.clone());
        let capacity =
            (profile.capacity().0 as f64 * full) as u64 / profile.ensemble.0 * profile.ensemble.0;
        let mut at = Instant::ZERO;
        let mut write = |ssd: &mut Ssd, first: u64, count: u64| {
            at = at + Nanos(1_000_000_000);
            serve(ssd, at, &[request(0, Direction::Write, first, count)]);
        };
        for first in (0..capacity).step_by(profile.ensemble.0 as usize) {
            write(&mut ssd, first, profile.ensemble.0);
        }
        let before = ssd.counters();
        let unit = if whole { profile.ensemble.0 } else { profile.page_blocks.0 };
        let mut state = 1u64;
        for _ in 0..2 * capacity / unit {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            write(&mut ssd, (state >> 33) % (capacity / unit) * unit, unit);
        }
        let after = ssd.counters();
        let host = after.host.0 - before.host.0;
        (after.programmed.0 - before.programmed.0) as f64 / host as f64
    };
    let (half, full) = (amplification(0.5, false), amplification(1.0, false));
    assert!(half > 1.0 && full > 1.5 * half, "{half} {full}");
    assert_eq!(amplification(1.0, true), 1.0);
}

/// What was taken back is not moved.
#[test]
fn discards_save_copies() {
    let moved = |discard: bool| {
        let mut ssd = Ssd::new(small());
        let capacity = ssd.profile().capacity().0;
        let mut at = Instant::ZERO;
        let mut state = 1u64;
        for turn in 0..4 * capacity / 8 {
            at = at + Nanos(10_000_000);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = (state >> 33) % (capacity / 8) * 8;
            serve(&mut ssd, at, &[request(turn, Direction::Write, first, 8)]);
            if discard {
                ssd.discard(BlockRange::new(Lbn((first + capacity / 2) % capacity), BlockCount(8)));
            }
        }
        ssd.counters().moved.0
    };
    assert!(moved(true) * 2 < moved(false));
}

#[test]
fn a_bus_gives_the_first_free_time() {
    let mut bus = Bus::default();
    let at = |ns| Instant { ns };
    assert_eq!(bus.take(at(100), Nanos(50)), at(150));
    assert_eq!(bus.take(at(0), Nanos(50)), at(50));
    assert_eq!(bus.take(at(0), Nanos(50)), at(100));
    assert_eq!(bus.take(at(0), Nanos(50)), at(200));
    assert_eq!(bus.take(at(400), Nanos(10)), at(410));
    assert_eq!(bus.take(at(0), Nanos(300)), at(710));
    bus.forget_until(at(150));
    assert_eq!(bus.take(at(200), Nanos(100)), at(300));
}
