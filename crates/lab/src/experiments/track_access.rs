//! Track-aligned and unaligned requests to one disk: thesis 5.3.1, figures 3.6, 5.1, 5.2 and 5.4 to 5.7, and table 5.1.

use moirai::runtime::{block_on_virtual, random};
use moirai::units::{BLOCK_BYTES, BlockCount, BlockRange, Instant, Lbn};
use moirai_models::analytic::{UnalignedAccess, ordinary_revolutions, zero_latency_revolutions};
use moirai_models::{Direction, Disk, DiskRequest, Profile, Scheduler};
use rand::Rng;

use super::track_requests::{Lies, TrackRequests, first_zone, revolution_ms, track_sectors};
use crate::context::Stage;
use crate::setting::profile;
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "track-access",
    source: "thesis 5.3.1, figures 3.6, 5.1, 5.2, 5.4 to 5.7, table 5.1",
    summary: "track-aligned and unaligned requests to the first zone of five disks: onereq and tworeq",
    assumptions: &[
        "5,000 random requests within the first zone. onereq has one in flight; its head time is the response. tworeq keeps \
         another one queued; its head time is the time between completions.",
        "Disk efficiency is the media time of the sectors divided by the head time of tworeq.",
        "Standard deviations: onereq with a bus that takes no time, as the thesis has it, of the requests that are not in the \
         cache: the first zone is short enough that one of a hundred is.",
        "Pieces of a track: on the Cheetah 36ES, whose first zone has the 738 sectors of figure 5.2; SPTF. As the 14.87 ms of a \
         whole track show (3.2 of seek, 3 of latency, 6 of media, 2.7 of bus), its bus does not overlap the media within a \
         request, and carries the track in 2.7 ms. Eight pieces: the thesis does not say how many.",
        "How long writes of the Atlas 10K II settle is not published: with the profile's 0.4 ms aligned ones take less than the \
         10.0 and 10.2 ms of the text. Judged is the ratio.",
    ],
    takes: "2 s",
    scaling: None,
    run,
};

const REQUESTS: usize = 5_000;
const ATLAS: &str = "quantum-atlas-10k-ii";
/// Why writes take less here.
const SETTLING: &str =
    "how long this drive's writes settle is not published: the profile's 0.4 ms are assumed";
/// Why so much or so little overlaps.
const OVERLAP: &str = "a bus in the order of blocks sends what the head comes down on last; the drive's buffering is not published";
/// A track of the Cheetah 36ES on the bus.
const BUS_MS: f64 = 2.7;
/// What is known of the difference.
const PREDICTION: &str =
    "the model leaves out seeks; the thesis does not say what its prediction has beside it";
/// Within a tenth.
const TENTH: Tolerance = Tolerance::Published(0.1);

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let [atlas_stage, others, table, pieces, turns] =
        context.stage().split([3.0, 3.0, 1.0, 1.0, 1.0]);
    block_on_virtual(context.seed(), async {
        let mut rows = atlas(&atlas_stage)?;
        rows.extend(efficiencies(&others)?);
        rows.extend(predictions(&table)?);
        rows.extend(in_pieces(&pieces)?);
        rows.extend(turning(&turns)?);
        rows.extend(switches());
        Ok(rows)
    })
}

/// Reads and writes of a track on the Atlas 10K II, and how much responses vary.
fn atlas(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let disk = profile(ATLAS)?;
    let track = track_sectors(&disk);
    let mut rows = Vec::new();
    let cases = [
        (Direction::Read, 1, "reads, onereq", None, 0.82),
        (Direction::Read, 2, "reads, tworeq", Some((8.3, None)), 0.68),
        (Direction::Write, 1, "writes, onereq", Some((10.0, Some(13.9))), 0.72),
        (Direction::Write, 2, "writes, tworeq", Some((10.2, Some(13.8))), 0.74),
    ];
    for (index, (direction, depth, what, head, ratio)) in cases.into_iter().enumerate() {
        stage.called(what).at(index as f64 / cases.len() as f64);
        let time = |lies| {
            TrackRequests { direction, lies, blocks: track, depth }.run(&disk, REQUESTS).head_ms
        };
        let (aligned, anywhere) = (time(Lies::Aligned), time(Lies::Anywhere));
        let row = |lies: &str, ours, published: Option<f64>| {
            let row =
                Row::new(format!("Atlas 10K II, {what}, {lies}, head time"), "virtual ms", ours);
            match published {
                Some(published) if direction == Direction::Read => {
                    row.beside(published).judged(TENTH)
                }
                Some(published) => row.beside(published).because(SETTLING),
                None => row,
            }
        };
        rows.push(row("aligned", aligned, head.map(|(aligned, _)| aligned)));
        rows.push(row("anywhere", anywhere, head.and_then(|(_, anywhere)| anywhere)));
        let figure = format!("Atlas 10K II, {what}, aligned to anywhere");
        rows.push(Row::new(figure, "", aligned / anywhere).beside(ratio).judged(TENTH));
    }
    let mut file = disk.file.clone();
    file.bus_mb_per_s = f64::INFINITY;
    let disk = Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))?;
    for (lies, what, published) in
        [(Lies::Aligned, "aligned", 0.4), (Lies::Anywhere, "anywhere", 1.5)]
    {
        let workload = TrackRequests { direction: Direction::Read, lies, blocks: track, depth: 1 };
        let ours = workload.run(&disk, REQUESTS).deviation_ms;
        let figure = format!("Atlas 10K II, reads, {what}, standard deviation");
        let row = Row::new(figure, "virtual ms", ours).beside(published);
        rows.push(
            row.because("the profile's seek curve between its published points is interpolated"),
        );
    }
    Ok(rows)
}

/// What aligned requests of a track gain on each disk, and the size with which others are as efficient.
fn efficiencies(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let disks = [
        (ATLAS, "Atlas 10K II", 1.48),
        ("quantum-atlas-10k", "Atlas 10K", 1.47),
        ("maxtor-atlas-10k-iii", "Atlas 10K III", 1.40),
        ("seagate-cheetah-x15", "Cheetah X15", 1.08),
        ("ibm-ultrastar-18es", "Ultrastar 18ES", 1.06),
    ];
    for (index, (name, called, gain)) in disks.into_iter().enumerate() {
        stage.called(called).at(index as f64 / disks.len() as f64);
        let disk = profile(name)?;
        let track = track_sectors(&disk);
        let efficiency = |lies, tracks: u64| {
            let blocks = track * tracks;
            let workload = TrackRequests { direction: Direction::Read, lies, blocks, depth: 2 };
            tracks as f64 * revolution_ms(&disk) / workload.run(&disk, REQUESTS).head_ms
        };
        let (aligned, anywhere) = (efficiency(Lies::Aligned, 1), efficiency(Lies::Anywhere, 1));
        if name == ATLAS {
            let row = Row::new("Atlas 10K II, efficiency of an aligned track", "", aligned);
            rows.push(row.beside(0.73).judged(TENTH));
            let four = efficiency(Lies::Anywhere, 4);
            let row = Row::new("Atlas 10K II, efficiency of four tracks anywhere", "", four);
            rows.push(row.beside(0.75).judged(TENTH));
        }
        let figure = format!("{called}, efficiency aligned to anywhere");
        rows.push(Row::new(figure, "", aligned / anywhere).beside(gain).judged(TENTH));
    }
    Ok(rows)
}

/// Table 5.1: what requests anywhere take more than aligned ones, by the model and on the simulated disk.
fn predictions(stage: &Stage) -> Result<Vec<Row>, Failure> {
    stage.called("table 5.1").at(0.0);
    let mut rows = Vec::new();
    for (name, called, track, switch, is_zero_latency, published) in [
        ("quantum-atlas-10k", "Atlas 10K", 334, 64, true, [(334, 0.53, 0.47), (268, 0.44, 0.41)]),
        (
            "seagate-cheetah-x15",
            "Cheetah X15",
            386,
            74,
            false,
            [(386, 0.12, 0.08), (309, 0.10, 0.07)],
        ),
    ] {
        let disk = profile(name)?;
        for (blocks, analytic, measured) in published {
            let figure =
                |what: &str| format!("{called}, {blocks} sectors, anywhere to aligned, {what}");
            let model = UnalignedAccess::new(track, switch, blocks, is_zero_latency);
            let more = |revolutions: fn(&UnalignedAccess) -> f64| {
                model.map_or(f64::NAN, |model| revolutions(&model) / model.aligned_revolutions())
            };
            let closed = Row::new(figure("A.12"), "", more(UnalignedAccess::revolutions));
            rows.push(closed.beside(1.0 + analytic).because(PREDICTION));
            let exact =
                Row::new(figure("enumerated"), "", more(UnalignedAccess::exact_revolutions));
            rows.push(exact.beside(1.0 + analytic).because(PREDICTION));
            let time = |lies| {
                let workload = TrackRequests { direction: Direction::Read, lies, blocks, depth: 2 };
                workload.run(&disk, REQUESTS).head_ms
            };
            let simulated = time(Lies::Anywhere) / time(Lies::Aligned);
            let row = Row::new(figure("simulated"), "", simulated);
            rows.push(row.beside(1.0 + measured).judged(TENTH));
        }
    }
    Ok(rows)
}

/// A track in pieces that are queued together, on a disk without zero-latency access (figure 5.2).
fn in_pieces(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let mut file = profile("seagate-cheetah-36es")?.file;
    let track = file.zones.first().map_or(1, |zone| u64::from(zone.track_sectors));
    file.read_watermark = 1.0;
    file.bus_mb_per_s = track as f64 * BLOCK_BYTES as f64 / 1e3 / BUS_MS;
    let disk = Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))?;
    let tracks = first_zone(&disk).0 / track;
    let response_ms = |pieces: u64| {
        let mut random = random("pieces");
        let mut model = Disk::new(disk.clone(), Scheduler::Sptf);
        let (mut now, mut done) = (Instant::ZERO, Vec::new());
        let mut total_ms = 0.0;
        for _ in 0..1000 {
            let first = random.random_range(0..tracks) * track;
            let began = now;
            for piece in 0..pieces {
                let (from, to) = (track * piece / pieces, track * (piece + 1) / pieces);
                let blocks = BlockRange::new(Lbn(first + from), BlockCount(to - from));
                model.submit(now, DiskRequest { id: piece, direction: Direction::Read, blocks });
            }
            while let Some(next) = model.next_event() {
                now = next;
                model.advance(now, &mut done);
            }
            total_ms += now.since(began).as_ms();
        }
        total_ms / 1000.0
    };
    stage.called("pieces of a track").at(0.0);
    let whole = Row::new("Cheetah 36ES, a track with one request", "virtual ms", response_ms(1));
    let eight = Row::new("Cheetah 36ES, a track in eight", "virtual ms", response_ms(8));
    Ok(vec![whole.beside(14.87).judged(TENTH), eight.beside(11.33).judged(TENTH)])
}

/// What requests within a track take on the medium, beside the equations that figure 3.6 draws, and what of their transfer overlaps
/// (figure 5.5).
fn turning(stage: &Stage) -> Result<Vec<Row>, Failure> {
    stage.called("parts of a track").at(0.0);
    let mut rows = Vec::new();
    for (name, called) in [(ATLAS, "Atlas 10K II"), ("seagate-cheetah-x15", "Cheetah X15")] {
        let disk = profile(name)?;
        let expected = if disk.mechanics.zero_latency_read {
            zero_latency_revolutions
        } else {
            ordinary_revolutions
        };
        let track = track_sectors(&disk);
        for quarters in 1..=4 {
            let blocks = track * quarters / 4;
            let (direction, lies) = (Direction::Read, Lies::Aligned);
            let measured = TrackRequests { direction, lies, blocks, depth: 1 }.run(&disk, REQUESTS);
            let figure = format!("{called}, {} % of a track, latency and transfer", quarters * 25);
            let row = Row::new(figure, "revolutions", measured.turning_ms / revolution_ms(&disk));
            rows.push(row.beside(expected(track, blocks)).judged(TENTH));
            if quarters == 4 && name == ATLAS {
                let bus_ms = BlockCount(track).bytes().0 as f64 / 1e3 / disk.file.bus_mb_per_s;
                let figure = "Atlas 10K II, aligned reads, onereq, share of the bus that overlaps";
                let row = Row::new(figure, "", 1.0 - measured.bus_ms / bus_ms);
                rows.push(row.beside(0.03).because(OVERLAP));
            }
        }
    }
    Ok(rows)
}

/// Figure 5.7: what requests of a track anywhere take more than aligned ones, by what a switch takes of a revolution.
fn switches() -> Vec<Row> {
    let more = |part: u64, published: f64| {
        // As long as the first zone's track of the Atlas 10K II.
        let track = 528;
        let model = UnalignedAccess::new(track, track / part, track, true);
        let more =
            model.map_or(f64::NAN, |model| model.revolutions() / model.aligned_revolutions());
        let figure = format!("a switch of 1:{part} of a revolution, anywhere to aligned, A.12");
        Row::new(figure, "", more).beside(published).judged(TENTH)
    };
    vec![more(5, 1.55), more(4, 1.60)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_requests_gain_what_the_thesis_says() {
        let outcome = EXPERIMENT.outcome(&Context::new(1)).unwrap();
        assert_eq!(outcome.outside().count(), 0, "{outcome:?}");
    }
}
