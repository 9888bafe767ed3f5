//! Costs and gains of quadrangles on one disk: thesis 6.3.2 to 6.3.6.

use std::sync::Arc;

use moirai::devices::Contents;
use moirai::runtime::{Random, block_on_virtual, now, random, sleep};
use moirai::storage::{Device, Op, Request};
use moirai::units::{BlockCount, BlockRange, Lbn, Nanos};
use moirai::volume::{LayoutDescription, Level, QuadrangleDimensions, Volume};
use moirai_models::Profile;
use moirai_models::analytic::{quadrangle_revolutions, unbounded_quadrangle_revolutions};
use rand::Rng;

use crate::context::Stage;
use crate::setting::{drive, profile};
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const SIZES: Experiment = Experiment {
    name: "quadrangle-sizes",
    source: "thesis table 6.2",
    summary: "the deepest quadrangles of seven disks, from sectors a track and track skew",
    assumptions: &[
        "The depth is that of equation 6.8 with b = 1, and b that of equation 6.7 at this depth; \
         equation 6.6 gives other values. H is the track skew in sectors. R is N mod b; the thesis prints \
         N mod w. The Seagate Cheetah 73LP is left out, since its N and H are not published.",
    ],
    takes: "1 s",
    scaling: None,
    run: sizes,
};

pub(super) const RESPONSE: Experiment = Experiment {
    name: "quadrangle-response",
    source: "thesis figure 6.7",
    summary: "time of quadrangle accesses by their size on one Atlas 10K III, without the seek",
    assumptions: &[
        ATLAS,
        "The published values are the thesis's model, the solid lines of the figure: equation 6.5 while the \
         access fits a revolution, equation 6.10 beyond. Equation 6.10 prints K = d b - (d - 1) H; with a \
         plus, as in 6.5, it gives the 10.8 ms of the text for d = 6.",
        "Means of 2,000 accesses to random quadrangles at random times. Subtracted are the seek and the \
         overhead of the first request and the bus time of the last one, which the model leaves out.",
        "In the model an access that begins in the middle continues from the last track to the first without \
         a switch. The drive switches back in 0.6 to 0.8 ms, 92 sectors. Where the bound leaves less time, \
         the drive needs another revolution and the model does not; those rows are not judged.",
        "Past the bound the model waits for the sectors of the first track; the drive reads whichever of the \
         remaining sectors comes first, and loses less.",
    ],
    takes: "1 s",
    scaling: None,
    run: response,
};

pub(super) const EFFICIENCY: Experiment = Experiment {
    name: "quadrangle-efficiency",
    source: "thesis figure 6.3",
    summary: "efficiency of accesses in sequence and across quadrangles on one Atlas 10K III",
    assumptions: &[
        ATLAS,
        "Quadrangles have depth 4. Efficiency is the time in which the sectors pass under the head, divided by \
         the time of the whole access. \"Within 5 percent\" means percentage points, as on the figure's axis: at \
         8 KB the other-major access takes half as long again, and both are below 3 %.",
        "The other-major access in the normal layout is four requests of a quarter each, at random tracks.",
    ],
    takes: "1 s",
    scaling: None,
    run: efficiency,
};

pub(super) const RANDOM: Experiment = Experiment {
    name: "random-access",
    source: "thesis figure 6.4",
    summary: "random accesses of 8 KB: in sequence, across a quadrangle, as random blocks",
    assumptions: &[
        ATLAS,
        "The text gives no numbers for the figure's bars, only the seek of 2.46 ms. Means of 2,000 accesses.",
    ],
    takes: "1 s",
    scaling: None,
    run: random_access,
};

const ATLAS: &str = "Drive: maxtor-atlas-10k-iii, outermost zone: N = 686, H = 139 sectors; \
                     `moirai device show` lists which of its other numbers are published.";

const WAY_BACK: &str = "the drive takes 0.6 to 0.8 ms to switch back to the first track, which the model leaves out, and so another revolution";

const TRACK: u64 = 686;
const SKEW: u64 = 139;
/// Sectors that pass in the 0.8 ms of a switch to the next cylinder; to another head it is 0.6 ms.
const SWITCH_BACK: u64 = 92;
const REVOLUTION_MS: f64 = 6.0;
const SEEK_MS: f64 = 2.46;
const ACCESSES: u64 = 2000;

/// Disk, N, H; and D_max, b and R as published.
const DISKS: [(&str, u64, u64, [u64; 3]); 7] = [
    ("HP C2247", 96, 14, [7, 1, 0]),
    ("IBM Ultrastar 18 ES", 390, 59, [7, 5, 0]),
    ("Quantum Atlas 10K", 334, 64, [6, 2, 0]),
    ("Quantum Atlas 10K II", 528, 99, [6, 5, 3]),
    ("Seagate Cheetah X15", 386, 72, [6, 4, 2]),
    ("Seagate Cheetah 36ES", 738, 139, [6, 7, 3]),
    ("Maxtor Atlas 10K III", 686, 139, [5, 26, 10]),
];

fn sizes(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (index, (disk, track, switch, published)) in DISKS.into_iter().enumerate() {
        context.stage().part(index, DISKS.len()).called(disk);
        let (track, switch) = (BlockCount(track), BlockCount(switch));
        let depth = QuadrangleDimensions::depth_max(track, switch, BlockCount(1));
        let block = QuadrangleDimensions::block_max(track, switch, depth);
        let residual = QuadrangleDimensions { track, switch, depth, block }.residual();
        let ours = [u64::from(depth), block.0, residual.0];
        for ((name, ours), published) in ["D_max", "b", "R"].into_iter().zip(ours).zip(published) {
            let mut row = Row::new(format!("{disk}, {name}"), "", ours as f64);
            // No ratio: some published values are 0.
            row.published = Some(published as f64);
            rows.push(row.judged(Tolerance::Exact));
        }
    }
    Ok(rows)
}

/// One disk, accessed at random in its outermost zone.
struct Bench {
    disk: Arc<dyn Device>,
    tracks: u64,
    random: Random,
}

/// The time of an access, and the part of it that the model leaves out.
#[derive(Clone, Copy, Default)]
struct Times {
    response: Nanos,
    /// The seek and the overhead of the first request, and the bus time of the last one.
    around: Nanos,
}

impl Bench {
    fn new() -> Result<Bench, Failure> {
        let profile = atlas()?;
        let tracks =
            profile.file.zones.first().map_or(0, |zone| zone.cylinders * profile.file.heads);
        Ok(Bench { disk: start(&profile), tracks: tracks.into(), random: random("quadrangles") })
    }

    /// The first block of a random quadrangle.
    fn quadrangle(&mut self, depth: u64) -> Lbn {
        Lbn(self.random.random_range(0..self.tracks / depth) * depth * TRACK)
    }

    async fn timed(&mut self, runs: Vec<BlockRange>) -> Result<Times, Failure> {
        timed(&*self.disk, &mut self.random, runs).await
    }

    /// Mean virtual ms of accesses to `block` sectors on each of `depth` tracks: the response, and the response
    /// less the parts that the model leaves out.
    async fn quadrangles(&mut self, depth: u64, block: u64) -> Result<(f64, f64), Failure> {
        let mut total = Times::default();
        for _ in 0..ACCESSES {
            let first = self.quadrangle(depth);
            let row =
                |row| BlockRange::new(Lbn(first.0 + row * (TRACK + block)), BlockCount(block));
            let times = self.timed((0..depth).map(row).collect()).await?;
            total.response += times.response;
            total.around += times.around;
        }
        Ok(means(total))
    }

    /// The same with requests at random tracks.
    async fn scattered(&mut self, requests: u64, sectors: u64) -> Result<f64, Failure> {
        let mut total = Times::default();
        for _ in 0..ACCESSES {
            let runs = (0..requests)
                .map(|_| BlockRange::new(self.quadrangle(1), BlockCount(sectors)))
                .collect();
            total.response += self.timed(runs).await?.response;
        }
        Ok(means(total).0)
    }
}

fn means(total: Times) -> (f64, f64) {
    let mean = |span: Nanos| span.as_ms() / ACCESSES as f64;
    (mean(total.response), mean(total.response) - mean(total.around))
}

fn atlas() -> Result<Profile, Failure> {
    profile("maxtor-atlas-10k-iii")
}

fn start(profile: &Profile) -> Arc<dyn Device> {
    drive(profile, "atlas".into(), Contents::Nothing, None)
}

/// Times a batch that arrives at a random angle of the platters.
async fn timed(
    device: &dyn Device,
    random: &mut Random,
    runs: Vec<BlockRange>,
) -> Result<Times, Failure> {
    sleep(Nanos(random.random_range(0..20_000_000))).await;
    let began = now();
    let batch = runs.into_iter().map(|run| Request::access(Op::Read, run)).collect();
    let (mut first, mut last) = (None, (began, Nanos::ZERO));
    for result in device.submit(batch).await {
        let timing = result?.timing;
        let before = timing.parts.map_or(Nanos::ZERO, |parts| parts.seek + parts.overhead);
        let earlier = first.is_none_or(|(finished, _)| timing.finished < finished);
        first = if earlier { Some((timing.finished, before)) } else { first };
        if timing.finished > last.0 {
            last = (timing.finished, timing.parts.map_or(Nanos::ZERO, |parts| parts.bus));
        }
    }
    let before = first.map_or(Nanos::ZERO, |(_, before)| before);
    Ok(Times { response: now().since(began), around: before + last.1 })
}

/// The thesis's model of a quadrangle access, seek left out.
fn model_ms(depth: u64, block: u64) -> f64 {
    let span = depth * block + (depth - 1) * SKEW;
    let revolutions = match span <= TRACK {
        true => quadrangle_revolutions(TRACK, SKEW, block, depth),
        false => unbounded_quadrangle_revolutions(TRACK, SKEW, block, depth),
    };
    revolutions * REVOLUTION_MS
}

fn response(context: &Context) -> Result<Vec<Row>, Failure> {
    const TOLERANCE: Tolerance = Tolerance::Published(0.15);
    const DEPTH_MAX: u64 = 6;
    block_on_virtual(context.seed(), async {
        let mut bench = Bench::new()?;
        let mut rows = Vec::new();
        for depth in 1..=DEPTH_MAX {
            let stage = context.stage().part(depth as usize - 1, DEPTH_MAX as usize);
            stage.called(&format!("quadrangles, d = {depth}"));
            // The largest block that fits a revolution, with the switch back and without, and a larger one.
            let most = |revolution: u64| ((revolution + SKEW) / depth).saturating_sub(SKEW);
            let (most, with_way_back) = (most(TRACK), most(TRACK - SWITCH_BACK));
            let past = most + most / 4;
            let mut blocks = vec![1, with_way_back / 2, with_way_back, most, most + 1, past];
            blocks.retain(|block| (1..=TRACK).contains(block));
            blocks.sort_unstable();
            blocks.dedup();
            for block in blocks {
                let (_, ms) = bench.quadrangles(depth, block).await?;
                let kib = (depth * block) as f64 / 2.0;
                let fits = if block <= most { "" } else { ", past the bound" };
                let figure = format!("d = {depth}, {block} sectors a track, {kib} KB{fits}");
                let row = Row::new(figure, "virtual ms", ms).beside(model_ms(depth, block));
                let counts = depth == 1 || block <= with_way_back || block > most;
                rows.push(if counts { row.judged(TOLERANCE) } else { row.because(WAY_BACK) });
            }
        }
        Ok(rows)
    })
}

fn efficiency(context: &Context) -> Result<Vec<Row>, Failure> {
    const DEPTH: u64 = 4;
    const POINTS: f64 = 5.0;
    const KIB: [u64; 9] = [8, 32, 64, 96, 120, 136, 192, 256, 340];
    block_on_virtual(context.seed(), async {
        let mut bench = Bench::new()?;
        let mut rows = Vec::new();
        for (index, kib) in KIB.into_iter().enumerate() {
            context.stage().part(index, KIB.len()).called(&format!("accesses of {kib} KB"));
            let sectors = kib * 2;
            let percent = |ms: f64| sectors as f64 / TRACK as f64 * REVOLUTION_MS / ms * 100.0;
            let sequential = percent(bench.quadrangles(1, sectors).await?.0);
            let other = percent(bench.quadrangles(DEPTH, sectors / DEPTH).await?.0);
            let normal = percent(bench.scattered(DEPTH, sectors / DEPTH).await?);
            let row = |name: &str, ours| Row::new(format!("{kib} KB, {name}"), "%", ours);
            rows.push(row("sequential", sequential));
            rows.push(row("other-major, quadrangles", other));
            rows.push(row("other-major, normal", normal));
            let loss = row("sequential less other-major, quadrangles", sequential - other);
            let is_judged = kib < 124;
            rows.push(if is_judged { loss.judged(Tolerance::AtMost(POINTS)) } else { loss });
            let gain = row("other-major, quadrangles less normal", other - normal);
            rows.push(gain.judged(Tolerance::Above(0.0)));
        }
        Ok(rows)
    })
}

fn random_access(context: &Context) -> Result<Vec<Row>, Failure> {
    const SECTORS: u64 = 16;
    block_on_virtual(context.seed(), async {
        let mut bench = Bench::new()?;
        let [first, deep, deeper] = context.stage().split([1.0, 2.0, 2.0]);
        first.called("8 KB in sequence");
        let (normal, without_seek) = bench.quadrangles(1, SECTORS).await?;
        let seek = Row::new("seek and overhead", "virtual ms", normal - without_seek);
        let mut rows = vec![
            seek.beside(SEEK_MS).judged(Tolerance::Published(0.15)),
            Row::new("normal, 8 KB in sequence", "virtual ms", normal),
        ];
        for (depth, stage) in [(2, deep), (4, deeper)] {
            let stage: Stage = stage.called(&format!("8 KB, d = {depth}"));
            let scattered = bench.scattered(depth, SECTORS / depth).await?;
            stage.at(0.5);
            let quadrangle = in_volume(depth as u32, BlockCount(SECTORS / depth)).await?;
            rows.push(Row::new(
                format!("d = {depth}, normal: {depth} random blocks"),
                "virtual ms",
                scattered,
            ));
            rows.push(Row::new(
                format!("d = {depth}, across a quadrangle"),
                "virtual ms",
                quadrangle,
            ));
            let name = format!("d = {depth}, quadrangle to random blocks");
            let ratio = Row::new(name, "", quadrangle / scattered);
            rows.push(ratio.judged(Tolerance::Below(1.0)));
            let bound = SEEK_MS + REVOLUTION_MS + 1.0;
            let name = format!("d = {depth}, quadrangle within a seek and a revolution");
            let bounded = Row::new(name, "virtual ms", quadrangle);
            rows.push(bounded.judged(Tolerance::Below(bound)));
        }
        Ok(rows)
    })
}

/// Mean virtual ms of accesses to whole equivalence classes of a volume of one disk.
async fn in_volume(depth: u32, block: BlockCount) -> Result<f64, Failure> {
    let layout = LayoutDescription::Quadrangle { depth: Some(depth), block, zone: Some(0) };
    let disks = vec![start(&atlas()?)];
    let volume =
        Volume::new("one disk".into(), disks, Level::Raid0, layout).map_err(Failure::Setting)?;
    let mut random = random("classes");
    let mut total = Times::default();
    let capacity = volume.inquiry().capacity;
    for _ in 0..ACCESSES {
        let lbn = Lbn(random.random_range(0..capacity.0 / block.0) * block.0);
        let class = volume.equivalent(lbn)?;
        let runs = class.lbns.iter().map(|lbn| BlockRange::new(*lbn, block)).collect();
        total.response += timed(&*volume, &mut random, runs).await?.response;
    }
    Ok(means(total).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that a drive with the published switch of 0.6 ms, which takes the nearest block first,
    /// cannot reproduce: see the assumptions.
    const MISSED: [&str; 2] = [
        "d = 6, 1 sectors a track, 3 KB, past the bound",
        "120 KB, sequential less other-major, quadrangles",
    ];

    #[test]
    fn judged_figures_are_as_published() {
        for experiment in [SIZES, RESPONSE, EFFICIENCY, RANDOM] {
            let outcome = experiment.outcome(&Context::new(1)).unwrap();
            assert!(outcome.rows.iter().filter(|row| row.within == Some(true)).count() >= 5);
            for row in outcome.rows.iter().filter(|row| row.within == Some(false)) {
                assert!(MISSED.contains(&row.figure.as_str()), "{row:?}");
            }
        }
    }

    /// The step of figure 6.7: a deeper access, or a longer one, takes another revolution.
    #[test]
    fn past_the_bound_an_access_takes_another_revolution() {
        block_on_virtual(1, async {
            let mut bench = Bench::new().unwrap();
            let (_, five) = bench.quadrangles(5, 1).await.unwrap();
            let (_, six) = bench.quadrangles(6, 1).await.unwrap();
            assert!(five < 6.0 && six > 1.6 * five, "{five} {six}");
            let (_, within) = bench.quadrangles(4, 50).await.unwrap();
            let (_, past) = bench.quadrangles(4, 68).await.unwrap();
            assert!(within < 6.0 && past > 1.5 * within, "{within} {past}");
        });
    }
}
