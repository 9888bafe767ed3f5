//! Tests of what a drive spends on leaving the bus and coming back (`DiskSim`'s manual, 3.3.2), with the HP C2247A's parameters.

use super::*;

/// Of the outermost zone, 5,400 rpm and 96 sectors.
const SECTOR: Nanos = Nanos(115_740);
const WRITE_BUS: Nanos = Nanos(186_860);
/// Issue times of a turn that are tried, and how far apart they are.
const PHASES: u64 = 1112;
const STEP: Nanos = Nanos(10_000);

fn drive(change: impl Fn(&mut Profile)) -> Disk {
    let mut profile = Profile::built_in("hp-c2247").unwrap();
    profile.electronics.write_bus_sector = WRITE_BUS;
    change(&mut profile);
    Disk::new(profile, Scheduler::Fcfs)
}

fn write(id: RequestId, first: u64, count: u64) -> DiskRequest {
    DiskRequest { direction: Direction::Write, ..request(id, first, count) }
}

/// Sends `second` some time after `first` is done, at all phases of a turn; the shortest response.
fn shortest(change: impl Fn(&mut Profile), first: DiskRequest, second: DiskRequest) -> Nanos {
    let response = |phase: u64| {
        let mut disk = drive(&change);
        disk.submit(Instant::ZERO, first);
        let done = run(&mut disk).remove(0);
        let at = done.finished + Nanos(50_000_000 + phase * STEP.0);
        disk.submit(at, second);
        run(&mut disk).remove(0).finished.since(at)
    };
    (0..PHASES).map(response).min().unwrap()
}

#[track_caller]
fn check(found: Nanos, expected_us: f64) {
    let expected = expected_us * 1e3;
    let late = found.0 as f64 - expected;
    assert!((-1e3..=STEP.0 as f64 + 1e3).contains(&late), "{found:?}, expected {expected_us} us");
}

/// After 823.91 us the arm may move, which takes 600 at least; data come from 849.10 on. Ten sectors are in the buffer before the first is
/// written, and at the end the drive comes back, 162.49, and completes, 50.45.
#[test]
fn a_write_waits_for_its_data_and_the_least_positioning() {
    for (count, start_us) in
        [(1, 1423.91), (2, 1423.91), (6, 849.1 + 6.0 * 186.86), (10, 2717.7), (16, 2717.7)]
    {
        let found = shortest(|_| (), write(0, 0, 1), write(1, 1, count));
        check(found, start_us + count as f64 * SECTOR.0 as f64 / 1e3 + 162.49 + 50.45);
    }
    let plain = |profile: &mut Profile| {
        profile.electronics.overheads.write_positioning_least = Nanos::ZERO;
        profile.electronics.overheads.write_reconnect = Nanos::ZERO;
    };
    // Then the one sector must be there, and the bus is left, 165.65, when it has been written.
    let found = shortest(plain, write(0, 0, 1), write(1, 1, 1));
    check(found, 849.1 + 186.86 + 165.65 + 50.45);
}

/// A write elsewhere directly after a write: the drive leaves the bus before the data, which come from 1,304.48 us on, and comes back
/// in 128.83 at its end.
#[test]
fn a_write_apart_from_the_one_before_leaves_the_bus_twice() {
    for count in [1, 4, 10] {
        let data_us = 1304.48 + 186.86 * count as f64;
        let media_us = data_us.max(892.44 + 600.0) + count as f64 * 115.74;
        let found = shortest(|_| (), write(0, 0, 1), write(1, 20, count));
        // The bus is left 134.37 after the data.
        check(found, media_us.max(data_us + 134.37) + 128.83 + 50.45);
    }
    // One that goes on where the other ended is like others, as the test before has it.
}

/// Of a read's sectors the watermark counts whole ones, and one at least.
#[test]
fn a_read_comes_back_to_the_bus_at_its_watermark() {
    let bus_us = 51.2;
    for (count, wanted) in [(1, 1), (3, 2), (4, 3), (7, 5)] {
        let found = shortest(|_| (), write(0, 50, 1), request(1, 0, count));
        let watermark_us = 558.21 + wanted as f64 * 115.74 + 187.68 + bus_us * count as f64;
        let last_us = 558.21 + count as f64 * 115.74 + bus_us;
        check(found, watermark_us.max(last_us) + 56.65);
    }
}

/// Writes have a segment of their own: they drive nothing out, and are not read from it.
#[test]
fn a_separate_segment_is_for_writes_alone() {
    let hits = |separate: bool| -> Vec<bool> {
        let mut disk = drive(|profile| {
            let cache = profile.electronics.cache.as_mut().unwrap();
            cache.separate_write_segment = separate;
        });
        let requests = [
            request(0, 0, 8),
            write(1, 5000, 8),
            write(2, 9000, 8),
            request(3, 0, 8),
            request(4, 9000, 8),
        ];
        let mut cached = |request| {
            disk.submit(disk.media_free + Nanos(100_000_000), request);
            run(&mut disk).remove(0).cached > BlockCount::ZERO
        };
        let [_, _, _, of_read, of_written] = requests.map(&mut cached);
        vec![of_read, of_written]
    };
    assert_eq!(hits(true), [true, false]);
    assert_eq!(hits(false), [false, true]);
}

/// Of a read whose first blocks are there, a drive that keeps the bus sends each of the others as it comes; one that left the bus comes
/// back at its watermark.
#[test]
fn a_partial_hit_keeps_the_bus() {
    let end = |holds: bool| {
        let mut disk = drive(|profile| profile.electronics.holds_bus = holds);
        disk.submit(Instant::ZERO, request(0, 0, 8));
        let first = run(&mut disk).remove(0).finished;
        // The 128 blocks behind it were read ahead.
        disk.submit(first + Nanos(100_000_000), request(1, 130, 12));
        let done = run(&mut disk).remove(0);
        assert_eq!(done.cached, BlockCount(6));
        (done.finished, disk.media_free)
    };
    let (held, media_end) = end(true);
    assert_eq!(held, media_end + Nanos(51_200 + 56_650));
    assert!(end(false).0 > held);
}
