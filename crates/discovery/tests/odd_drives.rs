//! Boundaries of drives that are put together at random: track orders, sparing schemes, defects, zones, surfaces and caches.
//!
//! `MOIRAI_RUNS` says how many, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use moirai_devices::{Contents, SimulatedDisk, SimulatedOptions};
use moirai_discovery::find_tracks;
use moirai_models::{Profile, Scheduler};
use moirai_runtime::{Random, each_seed, random};
use moirai_storage::Device;
use moirai_units::{BlockCount, Lbn};
use rand::Rng;
use rand::seq::IndexedRandom;

const ORDERS: [&str; 4] = [
    "{ along = \"cylinder\" }",
    "{ along = \"cylinder-serpentine\" }",
    "{ along = \"cylinder-serpentine\", restart = true }",
    "{ along = \"surface-serpentine\", cylinders = 5 }",
];
const CACHES: [&str; 4] = [
    "",
    "cache = { segments = 1, segment_blocks = 256, read_ahead = \"segment\", immediate_report = \"none\" }",
    "cache = { segments = 8, segment_blocks = 512, read_ahead = \"track\", immediate_report = \"none\", resume_on_hit = true, \
     hit_on_arriving = true }",
    "cache = { segments = 3, segment_blocks = 300, read_ahead = \"next-track\", immediate_report = \"none\", discard_sent = true }",
];

/// A drive of a few hundred tracks. Bad sectors and spares are as the sparing scheme has them.
fn profile(random: &mut Random) -> String {
    let heads = *[1_u32, 2, 5, 24].choose(random).unwrap();
    let rpm = random.random_range(4000..16_000);
    let turn_ms = 60e3 / f64::from(rpm);
    let switch_ms: f64 = random.random_range(0.3..1.2);
    let (sparing, kind) = *[
        ("none", 0),
        ("sectors-per-track", 1),
        ("sectors-per-cylinder", 2),
        ("sectors-per-zone", 3),
        ("end-of-disk", 4),
        ("tracks-per-zone", 5),
    ]
    .choose(random)
    .unwrap();
    let mut zones = String::new();
    let (mut sectors, count) = (random.random_range(200..500_u32), random.random_range(1..5));
    for _ in 0..count {
        let cylinders =
            if random.random_bool(0.2) { 1 } else { random.random_range(2..400 / heads + 3) };
        let cylinders = if kind == 5 { cylinders.max(3) } else { cylinders };
        let skew = |ms: f64| (ms / turn_ms * f64::from(sectors)).ceil() as u32 + 2;
        let (spares, unit) = match kind {
            1 => (2, sectors),
            2 => (6, sectors * heads),
            3 => (sectors / 2, sectors * heads * cylinders),
            5 => (2, heads * cylinders),
            _ => (0, u32::MAX),
        };
        let reserved = if random.random_bool(0.3) { random.random_range(1..sectors) } else { 0 };
        let _ = write!(
            zones,
            "    {{ cylinders = {cylinders}, track_sectors = {sectors}, track_skew = {}, cylinder_skew = {}, spares = {spares}, \
             reserved_sectors = {reserved}, origin_sector = {}",
            skew(switch_ms),
            skew(switch_ms + 1.0),
            random.random_range(0..sectors),
        );
        // One bad sector or track in each unit of spares at most, so that there are spares enough.
        let all = if kind == 5 { heads * cylinders } else { sectors * heads * cylinders };
        let mut slipped = BTreeSet::new();
        if random.random_bool(0.6) {
            let most = if kind == 5 { 1 } else { random.random_range(1..40) };
            for _ in 0..most {
                let at = random.random_range(0..all);
                let unit_of = |at: &u32| at / unit;
                if !slipped.iter().any(|other| unit_of(other) == unit_of(&at)) || kind == 0 {
                    slipped.insert(at);
                }
            }
        }
        let slipped: Vec<String> = slipped.iter().map(ToString::to_string).collect();
        let _ = writeln!(zones, ", slipped = [{}] }},", slipped.join(", "));
        sectors = sectors.saturating_sub(random.random_range(0..40)).max(100);
    }
    let known = [
        "heads",
        "rotation_rpm",
        "head_switch_ms",
        "write_settle_ms",
        "zero_latency_read",
        "zero_latency_write",
        "bus_mb_per_s",
        "bus_in_order",
        "overheads",
        "zones",
        "seek",
        "cache",
    ];
    let sources = known.map(|key| format!("{key} = \"interpolated: at random\"\n")).concat();
    format!(
        "name = \"odd\"\ndescription = \"odd\"\nheads = {heads}\nrotation_rpm = {rpm}\nhead_switch_ms = {switch_ms}\n\
         write_settle_ms = 0.5\nzero_latency_read = {}\nzero_latency_write = false\nbus_mb_per_s = {}\nbus_in_order = {}\n\
         overheads = {{ command_ms = {} }}\nseek = {{ formula = \"three-point-curve\", single_ms = {}, average_ms = 5.0, full_ms = 9.0 }}\n\
         track_order = {}\nsparing = {{ scheme = \"{sparing}\" }}\n{}\nzones = [\n{zones}]\n[sources]\n{sources}",
        random.random_bool(0.5),
        [10.0, 40.0, 160.0].choose(random).unwrap(),
        random.random_bool(0.5),
        [0.05, 0.2, 0.6].choose(random).unwrap(),
        switch_ms + 0.5,
        ORDERS.choose(random).unwrap(),
        CACHES.choose(random).unwrap(),
    )
}

#[test]
fn no_wrong_boundary_is_called_certain() {
    let runs = if cfg!(debug_assertions) { 60 } else { 2000 };
    let (certain, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each_seed(runs, async || {
        let text = profile(&mut random("odd drive"));
        // Some have no room for what is reserved.
        let Ok(profile) = Profile::parse(&text) else { return };
        let options = SimulatedOptions {
            name: "odd".to_owned(),
            scheduler: Scheduler::Sptf,
            contents: Contents::Nothing,
            physical_block: BlockCount(1),
            host_bus: None,
        };
        let disk: Arc<dyn Device> = SimulatedDisk::start(profile, options);
        let (mut at, mut truth) = (Lbn(0), BTreeSet::new());
        while at.0 < disk.inquiry().capacity.0 {
            truth.insert(at);
            at = disk.ensemble(at).unwrap().blocks.end();
        }
        // A cache would hold all of the shortest.
        if truth.len() < 40 {
            return;
        }
        let found = find_tracks(&*disk, |_| ()).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let is_sure = |lbn: &&Lbn| found.is_certain(**lbn);
        let sure: BTreeSet<Lbn> = truth.iter().filter(is_sure).copied().collect();
        let ours: BTreeSet<Lbn> = found.firsts.iter().filter(is_sure).copied().collect();
        let wrong: Vec<&Lbn> = ours.symmetric_difference(&sure).take(10).collect();
        assert!(wrong.is_empty(), "{wrong:?} differ\n{text}");
        certain.fetch_add(sure.len(), Relaxed);
        all.fetch_add(truth.len(), Relaxed);
    });
    // Of a single drive much may be in doubt: a few with caches and many slipped sectors come to four fifths.
    let (certain, all) = (certain.into_inner(), all.into_inner());
    assert!(certain * 1000 >= all * 999, "{certain} of {all} boundaries are certain");
}
