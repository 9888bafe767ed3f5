//! Streams of a video server on track-aligned and unaligned requests: thesis 5.6 and figure 5.10.

use moirai::runtime::{Random, block_on_virtual, random};
use moirai::units::{BLOCK_BYTES, BlockCount, BlockRange, Instant, Lbn, Nanos};
use moirai_models::analytic::{VideoRound, scheduled_seek};
use moirai_models::{Direction, Disk, DiskRequest, Profile, Scheduler};
use rand::Rng;

use super::track_requests::Lies;
use crate::context::Stage;
use crate::setting::profile;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "video-streams",
    source: "thesis 5.6.1, 5.6.2 and figure 5.10",
    summary: "streams of 4 Mb/s that ten Atlas 10K II serve with track-aligned and unaligned requests",
    assumptions: &[
        "Soft: rounds of so many requests of a track, at random places of the first zone and all at once, shortest positioning time first, \
         without a cache. A round is met when 99.99 % of the 10,000 rounds take no longer.",
        "The bus and the media overlap, as in the thesis's rounds, whose 70 streams of 264 KB in 0.5 s leave 7.1 ms for each.",
        "Hard: each stream is charged its part of the worst route of seeks over all cylinders (Reddy and Wyllie 1993), its tracks, the head \
         switches between them, and, unaligned, a revolution and one head switch more.",
    ],
    takes: "1 min",
    scaling: Some(Scaling { least: 0.01, shorter: 0.1, what: "the number of rounds" }),
    run,
};

const DISK: &str = "quantum-atlas-10k-ii";
const DISKS: u64 = 10;
const MBIT_PER_S: f64 = 4.0;
const ROUND_S: f64 = 0.5;
const ROUNDS: f64 = 10_000.0;
const MET: f64 = 0.9999;
/// The disk's bandwidth of 40 MB/s has no more.
const STREAMS_MOST: u64 = 80;
/// The thesis's sizes of a request, in KB of 1,000 bytes, with the streams that it gives for them.
const HARD: [(u64, f64, f64); 2] = [(1, 67.0, 36.0), (2, 75.0, 52.0)];
const TENTH: Tolerance = Tolerance::Published(0.1);

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let disk = uncached()?;
    let rounds = (ROUNDS * context.scale()) as usize;
    let stages = context.stage().split([1.0, 1.0]);
    let mut rows = Vec::new();
    for ((lies, called, published), stage) in
        [(Lies::Aligned, "aligned", 70.0), (Lies::Anywhere, "anywhere", 45.0)]
            .into_iter()
            .zip(stages)
    {
        let stage = stage.called(&format!("soft, {called}"));
        let soft = block_on_virtual(context.seed(), async { soft(&disk, lies, rounds, &stage) });
        let row = Row::new(format!("soft, {called}, streams of a disk"), "", soft as f64);
        rows.push(row.beside(published).judged_at_full_scale(TENTH, context));
    }
    for (tracks, aligned, anywhere) in HARD {
        let size_kb = tracks * track(&disk).bytes().0 / 1000;
        for (lies, called, published) in
            [(Lies::Aligned, "aligned", aligned), (Lies::Anywhere, "anywhere", anywhere)]
        {
            let round = hard(&disk, lies, tracks);
            let figure = |what: &str| format!("hard, {size_kb} KB, {called}, {what}");
            let row = Row::new(figure("streams of a disk"), "", round.streams as f64);
            rows.push(row.beside(published).judged(TENTH));
            let latency = round.startup_latency().as_s();
            rows.push(Row::new(figure("start-up latency at worst"), "s", latency));
        }
    }
    Ok(rows)
}

/// The drive with a bus that takes no time and no cache.
fn uncached() -> Result<Profile, Failure> {
    let mut file = profile(DISK)?.file;
    (file.cache, file.bus_mb_per_s) = (None, f64::INFINITY);
    file.sources.remove("cache");
    Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))
}

/// A track of the first zone.
fn track(disk: &Profile) -> BlockCount {
    disk.geometry.track(Lbn(0)).map_or(BlockCount(1), |track| track.blocks.count)
}

/// The most streams whose rounds of one track each are met.
fn soft(disk: &Profile, lies: Lies, rounds: usize, stage: &Stage) -> u64 {
    let is_met = |streams: u64| {
        let mut random = random("places");
        let mut times: Vec<Nanos> =
            (0..rounds).map(|_| round(disk, lies, streams, &mut random)).collect();
        times.sort_unstable();
        let missed = ((1.0 - MET) * rounds as f64).round() as usize;
        times.iter().rev().nth(missed).is_some_and(|time| time.as_s() <= ROUND_S)
    };
    // Rounds of more streams take longer, so the most is found by halving.
    let (mut met, mut missed) = (0, STREAMS_MOST + 1);
    while met + 1 < missed {
        let middle = (met + missed) / 2;
        match is_met(middle) {
            true => met = middle,
            false => missed = middle,
        }
        stage.at(1.0 - (missed - met) as f64 / STREAMS_MOST as f64);
    }
    met
}

/// How long so many requests take that come at once.
fn round(disk: &Profile, lies: Lies, streams: u64, random: &mut Random) -> Nanos {
    let count = track(disk);
    let zone = disk.geometry.zones().next();
    let tracks = zone.map_or(1, |zone| u64::from(zone.cylinders)) * u64::from(disk.file.heads);
    let mut model = Disk::new(disk.clone(), Scheduler::Sptf);
    for id in 0..streams {
        let place = Lbn(random.random_range(0..(tracks - 2) * count.0));
        let first = match lies {
            Lies::Anywhere => place,
            Lies::Aligned => disk.geometry.track(place).map_or(place, |track| track.blocks.first),
        };
        let blocks = BlockRange::new(first, count);
        model.submit(Instant::ZERO, DiskRequest { id, direction: Direction::Read, blocks });
    }
    let (mut end, mut done) = (Instant::ZERO, Vec::new());
    while let Some(next) = model.next_event() {
        end = next;
        model.advance(next, &mut done);
    }
    end.since(Instant::ZERO)
}

/// The round with the most streams that always end in time, with requests of so many tracks.
fn hard(disk: &Profile, lies: Lies, tracks: u64) -> VideoRound {
    let mechanics = &disk.mechanics;
    let revolution = Nanos(mechanics.revolution_ps / 1000);
    let access = |streams: u64| {
        let seek = scheduled_seek(&mechanics.seek, disk.geometry.cylinders(), streams);
        let switches = mechanics.head_switch.0 * (tracks - 1);
        let media = Nanos(revolution.0 * tracks + switches);
        seek + media
            + match lies {
                Lies::Aligned => Nanos::ZERO,
                Lies::Anywhere => revolution + mechanics.head_switch,
            }
    };
    let bits = (tracks * track(disk).0 * BLOCK_BYTES * 8) as f64;
    let time = Nanos((bits / MBIT_PER_S * 1e3) as u64);
    let mut rounds = (1..=STREAMS_MOST).map(|streams| VideoRound {
        streams,
        access: access(streams),
        disks: DISKS,
    });
    let met = rounds.rfind(|round| round.round() <= time);
    met.unwrap_or(VideoRound { streams: 0, access: Nanos::ZERO, disks: DISKS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_as_many_streams_as_the_thesis_says() {
        let outcome = EXPERIMENT.outcome(&Context::new(1)).unwrap();
        assert_eq!(outcome.outside().count(), 0, "{outcome:?}");
        assert_eq!(outcome.rows.iter().filter(|row| row.within == Some(true)).count(), 6);
    }
}
