//! The MEMS store beside the thesis and the equation of its motion. The laboratory has it beside `DiskSim`'s figures.

use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn g(generation: u32) -> MemsProfile {
    MemsProfile::built_in(&format!("mems-g{generation}")).unwrap()
}

/// The store of figures 3.8 and 3.9, with the values of table 3.3.
fn example() -> MemsLayout {
    MemsLayout {
        parallelism: 3,
        tracks: 3,
        cylinders: 3,
        rows: 3,
        row_bits: 90,
        servo_bits: 10,
        reverses: true,
    }
}

fn request(id: u64, direction: Direction, first: u64, count: u64) -> DiskRequest {
    DiskRequest { id, direction, blocks: BlockRange::new(Lbn(first), BlockCount(count)) }
}

/// All that is done when nothing more happens.
fn run(mems: &mut Mems) -> Vec<DiskCompletion> {
    let mut done = Vec::new();
    while let Some(at) = mems.next_event() {
        mems.advance(at, &mut done);
    }
    done
}

#[test]
fn built_in_profiles_are_valid() {
    let capacities: Vec<u64> = built_in_mems_names()
        .map(|name| MemsProfile::built_in(name).unwrap().layout.capacity().0)
        .collect();
    // Those of DiskSim's workloads for them.
    assert_eq!(capacities, [4_400_000, 6_750_000, 11_998_800]);
}

/// Table 6.3.
#[test]
fn g2_has_the_virtual_geometry_of_the_thesis() {
    let layout = g(2).layout;
    assert_eq!((layout.parallelism, layout.tracks), (10, 10));
    assert_eq!((layout.cylinders, layout.rows), (2500, 27));
    assert_eq!((layout.track_blocks().0, layout.cylinder_blocks().0), (270, 2700));
}

/// Figure 3.8: three blocks for each place of a square, one for each cylinder.
#[test]
fn blocks_lie_as_in_figure_3_8() {
    let squares: [[[u64; 3]; 3]; 9] = [
        [[0, 33, 54], [3, 30, 57], [6, 27, 60]],
        [[1, 34, 55], [4, 31, 58], [7, 28, 61]],
        [[2, 35, 56], [5, 32, 59], [8, 29, 62]],
        [[15, 36, 69], [12, 39, 66], [9, 42, 63]],
        [[16, 37, 70], [13, 40, 67], [10, 43, 64]],
        [[17, 38, 71], [14, 41, 68], [11, 44, 65]],
        [[18, 51, 72], [21, 48, 75], [24, 45, 78]],
        [[19, 52, 73], [22, 49, 76], [25, 46, 79]],
        [[20, 53, 74], [23, 50, 77], [26, 47, 80]],
    ];
    let layout = example();
    for (square, rows) in (0..).zip(squares) {
        for (row, cylinders) in (0..).zip(rows) {
            for (cylinder, lbn) in (0..).zip(cylinders) {
                let place = MemsPlace { cylinder, track: square / 3, row, cell: square % 3 };
                assert_eq!(layout.place(Lbn(lbn)), place, "block {lbn}");
                assert_eq!(layout.lbn(place), Lbn(lbn));
            }
        }
    }
}

/// Thesis 6.1.4: a row of the class of block 33 is {33, 34, 35}, a column {33, 36, 51}.
#[test]
fn block_33_has_the_equivalents_of_the_thesis() {
    let class = example().equivalent(Lbn(33));
    let expected = [33, 34, 35, 36, 37, 38, 51, 52, 53];
    assert_eq!(class, expected.map(Lbn));
    let column: Vec<Lbn> = class.iter().step_by(3).copied().collect();
    assert_eq!(column, [33, 36, 51].map(Lbn));
}

proptest! {
    #[test]
    fn classes_and_tracks_partition_the_blocks(
        (parallelism, tracks) in (1..5_u32, 1..5_u32),
        (cylinders, rows) in (1..5_u32, 1..6_u32),
        reverses: bool,
    ) {
        let (row_bits, servo_bits) = (90, 10);
        let layout =
            MemsLayout { parallelism, tracks, cylinders, rows, row_bits, servo_bits, reverses };
        for lbn in (0..layout.capacity().0).map(Lbn) {
            prop_assert_eq!(layout.lbn(layout.place(lbn)), lbn);
            prop_assert!(layout.track(lbn).contains(lbn));
            let class = layout.equivalent(lbn);
            prop_assert_eq!(class.len() as u32, parallelism * tracks);
            prop_assert!(class.contains(&lbn));
            prop_assert!(class.iter().all(|other| layout.equivalent(*other) == class));
        }
    }
}

/// The motion by its equation, in small steps: where the sled is after `time`, with full force one way until `change`
/// and then the other.
fn moved(sled: &Sled, axis: usize, from: f64, speed: f64, forces: &[(f64, f64)]) -> (f64, f64) {
    let (acceleration, half) = (sled.acceleration[axis], sled.half_way_m[axis]);
    let (mut x, mut v) = (from, speed);
    for (force, time) in forces {
        let steps = 20_000;
        let step = time / f64::from(steps);
        for _ in 0..steps {
            // Leapfrog.
            let pull = |x: f64| acceleration * (force - sled.spring_factor * x / half);
            v += pull(x) * step / 2.0;
            x += v * step;
            v += pull(x) * step / 2.0;
        }
    }
    (x, v)
}

#[test]
fn seeks_and_turns_follow_the_equation_of_motion() {
    for spring_factor in [0.0, 0.75] {
        let sled = Sled { spring_factor, settle_s: 0.0, ..g(2).sled };
        for (from, to) in [(-40e-6, 45e-6), (30e-6, 31e-6), (-10e-6, 20e-6), (0.0, 50e-6)] {
            let time = sled.seek_x_s(from, to);
            // Where the forces change is not known here: it is where the end is reached at rest.
            let (mut low, mut high) = (0.0, time);
            for _ in 0..60 {
                let change = (low + high) / 2.0;
                let forces = [(1.0, change), (-1.0, time - change)];
                match moved(&sled, 0, from, 0.0, &forces).1 > 0.0 {
                    true => high = change,
                    false => low = change,
                }
            }
            let (x, v) = moved(&sled, 0, from, 0.0, &[(1.0, low), (-1.0, time - low)]);
            assert!((x - to).abs() < 1e-9 && v.abs() < 1e-4, "{from} to {to}: {x}, {v}");
            let back = sled.seek_x_s(to, from);
            assert!((back - time).abs() < 1e-9, "{from} to {to}: {time} and {back} back");
        }
        for at in [-45e-6, 0.0, 45e-6] {
            let time = sled.turnaround_s(at, true);
            let (x, v) = moved(&sled, 1, at, sled.speed, &[(-1.0, time)]);
            assert!((x - at).abs() < 1e-9 && (v + sled.speed).abs() < 1e-6, "at {at}: {x}, {v}");
        }
    }
}

/// Table 3.2, with the 640 tips of table 6.3: an average random seek of 0.56 ms, and 38 MB/s in sequence.
#[test]
fn g2_seeks_and_streams_as_the_thesis_says() {
    let profile = g(2);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut lbn = || Lbn(random.random_range(0..profile.layout.capacity().0));
    let (mut total_ms, mut from) = (0.0, profile.layout.centre());
    for _ in 0..20_000 {
        let (seek, _, end) = profile.seek_to(&from, lbn());
        total_ms += seek.as_ms();
        from = end;
    }
    let seek_ms = total_ms / 20_000.0;
    assert!((seek_ms / 0.56 - 1.0).abs() < 0.05, "{seek_ms} ms");
    let mut mems = Mems::new(profile, Scheduler::Fcfs);
    let blocks = 270_000;
    mems.submit(Instant::ZERO, request(0, Direction::Read, 0, blocks));
    let done = run(&mut mems);
    let mb_per_s = blocks as f64 * 512.0 / done[0].finished.since(Instant::ZERO).as_s() / 1e6;
    assert!((mb_per_s / 38.0 - 1.0).abs() < 0.05, "{mb_per_s} MB/s");
}

/// Any p blocks of a class that are asked for together take one pass; others take one each.
#[test]
fn equivalents_take_one_pass() {
    let time = |lbns: &[Lbn]| {
        let mut mems = Mems::new(g(2), Scheduler::Sptf);
        for (id, lbn) in (0..).zip(lbns) {
            mems.submit(Instant::ZERO, request(id, Direction::Read, lbn.0, 1));
        }
        run(&mut mems).iter().map(|one| one.finished).max().unwrap()
    };
    let class = g(2).layout.equivalent(Lbn(1_000_000));
    let one = time(&class[..1]);
    let column: Vec<Lbn> = class.iter().step_by(10).copied().collect();
    // The last of them crosses the bus behind the others.
    assert_eq!(time(&column), Instant { ns: one.ns + 9 * 5120 });
    let mixed = [class[0], class[13], class[99], class[45]];
    assert_eq!(time(&mixed), Instant { ns: one.ns + 3 * 5120 });
    // More than the power budget allows: another pass.
    assert!(time(&class[..11]).ns > one.ns + g(2).pass.0);
    let elsewhere = [class[0], Lbn(class[0].0 + 10)];
    assert!(time(&elsewhere).ns >= one.ns + g(2).pass.0);
}

proptest! {
    #[test]
    fn parts_add_up_and_steps_do_not_matter(
        wanted in prop::collection::vec((0..4_000_000_u64, 1..600_u64, any::<bool>(), 0..3_000_000_u64), 1..30),
        scheduler in prop::sample::select(vec![
            Scheduler::Fcfs, Scheduler::CLook, Scheduler::Sstf, Scheduler::Sptf,
            Scheduler::AgedSptf { weight: 0.1 },
        ]),
        generation in 1..4_u32,
        step_ns in 1_000..5_000_000_u64,
    ) {
        let all = |step: Option<u64>| {
            let mut mems = Mems::new(g(generation), scheduler);
            let (mut now, mut done) = (Instant::ZERO, Vec::new());
            for (id, (first, count, is_read, gap)) in (0..).zip(&wanted) {
                let next = Instant { ns: now.ns + gap };
                while let Some(step) = step.filter(|step| now.ns + step < next.ns) {
                    now.ns += step;
                    mems.advance(now, &mut done);
                }
                now = next;
                let direction = if *is_read { Direction::Read } else { Direction::Write };
                mems.submit(now, request(id, direction, *first, *count));
            }
            done.append(&mut run(&mut mems));
            done
        };
        let at_once = all(None);
        prop_assert_eq!(at_once.len(), wanted.len());
        for one in &at_once {
            prop_assert_eq!(one.parts.total(), one.finished.since(one.issued));
        }
        prop_assert_eq!(&at_once, &all(Some(step_ns)));
    }
}

/// DiskSim's own files are what the built-in profiles are of.
#[test]
fn disksims_files_are_the_built_in_profiles() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/mems");
    for generation in 1..=3 {
        let Ok(text) = std::fs::read_to_string(format!("{folder}/mems.g{generation}.diskspecs"))
        else {
            return;
        };
        let mut load = |_: &str| Ok(text.clone());
        let imported = crate::diskspecs::import_mems("mems.diskspecs", &mut load).unwrap();
        let (mut file, scheduler) = imported.unwrap();
        assert_eq!(scheduler, Some(Scheduler::Fcfs));
        let built_in = g(generation).file;
        if generation == 2 {
            assert_eq!(file.active_tips, 1280);
            file.active_tips = built_in.active_tips;
        }
        let MemsProfileFile { name, description, sources, .. } = built_in.clone();
        assert!((file.bus_mb_per_s - built_in.bus_mb_per_s).abs() < 1e-9);
        let bus_mb_per_s = built_in.bus_mb_per_s;
        assert_eq!(MemsProfileFile { name, description, sources, bus_mb_per_s, ..file }, built_in);
    }
}

#[test]
fn bad_profiles_are_refused() {
    let change = |change: fn(&mut MemsProfileFile)| {
        let mut file = g(2).file;
        change(&mut file);
        MemsProfile::new(file).unwrap_err().to_string()
    };
    assert!(change(|file| file.active_tips = 63).contains("`active_tips`"));
    assert!(change(|file| file.active_tips = 6401).contains("`active_tips`"));
    assert!(change(|file| file.spring_factor = 1.0).contains("`spring_factor`"));
    assert!(change(|file| file.sled_nm = [1e5, 50.0]).contains("`sled_nm`"));
    assert!(change(|file| file.bit_nm = f64::NAN).contains("`bit_nm`"));
    assert!(change(|file| file.sled_nm = [268_435_456.0; 2]).contains("`sled_nm`"));
    assert!(change(|file| file.tips = 1 << 29).contains("`tips`"));
    assert!(change(|file| file.tip_sector_bits = 0).contains("`tip_sector_bits`"));
    assert!(MemsProfile::parse("kind = \"disk\"").is_err());
}

/// Another power budget is another number of tracks, of the same blocks.
#[test]
fn all_tips_are_used_with_any_power_budget() {
    for (tips, parallelism, tracks) in [(640, 10, 10), (700, 10, 10), (1280, 20, 5), (3201, 50, 2)]
    {
        let layout = g(2).with_active_tips(tips).unwrap().layout;
        assert_eq!((layout.parallelism, layout.tracks), (parallelism, tracks), "{tips} tips");
        assert_eq!(layout.capacity().0, 6_750_000);
    }
}

/// One that rests takes its time to start, at first and after a pause, and not in between.
#[test]
fn a_sled_at_rest_starts_first() {
    let mut mems = Mems::new(g(2), Scheduler::Fcfs);
    let mut seek = |at_ms: f64| {
        mems.submit(
            Instant::ZERO + Nanos::from_ms(at_ms),
            request(0, Direction::Read, 3_375_000, 1),
        );
        run(&mut mems)[0].parts.seek
    };
    let first = seek(0.0);
    assert!(first >= Nanos::from_ms(0.5));
    assert!(seek(5.0) < Nanos::from_ms(0.5));
    assert_eq!(seek(500.0), first);
    let mut file = g(2).file;
    file.inactive_after_ms = 0.0;
    let mut mems = Mems::new(MemsProfile::new(file).unwrap(), Scheduler::Fcfs);
    mems.submit(Instant::ZERO, request(0, Direction::Read, 0, 2700));
    let parts = run(&mut mems)[0].parts;
    assert!(parts.seek < Nanos::from_ms(4.0), "it rests amid a request: {parts:?}");
}

/// In sequence the sled seeks little, where tracks run as the tips access data.
#[test]
fn a_cylinder_is_read_mostly_in_passes() {
    for (generation, reversed_tracks) in [(1, false), (2, true), (3, true)] {
        let file = MemsProfileFile { reversed_tracks, ..g(generation).file };
        let profile = MemsProfile::new(file).unwrap();
        let blocks = profile.layout.cylinder_blocks().0;
        let mut mems = Mems::new(profile, Scheduler::Fcfs);
        mems.submit(Instant::ZERO, request(0, Direction::Read, 0, blocks));
        let parts = run(&mut mems)[0].parts;
        assert!(parts.seek.0 < parts.media.0 / 5, "G{generation}: {parts:?}");
    }
}

/// Writes that the buffer has no room for hold up no read.
#[test]
fn reads_do_not_wait_for_the_data_of_all_writes() {
    let mut mems = Mems::new(g(2), Scheduler::Sptf);
    for id in 0..100 {
        mems.submit(Instant::ZERO, request(id, Direction::Write, 60_000 * id, 2048));
    }
    mems.submit(Instant::ZERO, request(100, Direction::Read, 3_375_000, 1));
    let done = run(&mut mems);
    assert_eq!(done.len(), 101);
    let read = done.iter().find(|one| one.id == 100).unwrap();
    assert!(read.finished < Instant::ZERO + Nanos::from_ms(20.0), "{read:?}");
}
