//! Balanced and skewed streams of several servers: placement figures 12 and 13.

use moirai::runtime::seeded;
use moirai::units::{BlockCount, ByteCount};
use moirai_models::WritePolicy;
use moirai_policy::{Stream, TraceSource, Workload, choose};

use super::traces::{self, TRACES, Trace, TracedStream, TracedStreams};
use super::{ARRAY_DISKS, ASSUMPTIONS, CACHE, Measured, Setting, Store};
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    name: "placement-skew",
    source: "placement paper 3.4, table 2, figures 12 and 13",
    summary: "narrow and wide striping of 48 streams on four arrays, balanced and with half of them faster",
    assumptions: &[
        ASSUMPTIONS[0],
        ASSUMPTIONS[3],
        "The traces of table 2 are not part of the laboratory: `--traces FOLDER` takes those of a user, for as long as the \
         shortest of them lasts. Without them streams are generated with the table's rates, sizes and shares of writes: 39 of \
         the OLTP traces and 9 of the web searches, as the paper keeps; a trace's rate is divided over its streams \
         by 1, 1/2, 1/3, ... Arrivals are Poisson, so streams are less bursty than the traces.",
        "Stripe units are 64 KB: the paper gives none for its traces, and with half of the mean request, 8 KB, the \
         searches alone take more than the disks have. Generated stores have 4 GB each. The cache writes through.",
    ],
    takes: "15 s",
    scaling: Some(Scaling { least: 0.05, shorter: 0.3, what: "the simulated time" }),
    run,
};

const ARRAYS: usize = 4;
const STORE: ByteCount = ByteCount(4 << 30);
const UNIT: ByteCount = ByteCount(64 << 10);
const SECONDS: f64 = 400.0;
/// Gaps of the streams on the first two partitions are multiplied with this.
const FASTER: f64 = 0.75;
/// What counts as comparable and as similar.
const ALIKE: Tolerance = Tolerance::Near { value: 1.0, share: 0.15 };
const PARTITION_TRIES: usize = 10_000;
const IMBALANCE_MAX: f64 = 0.01;

/// Where requests come from.
enum Streams {
    Generated(Workload),
    Traced(TracedStreams),
}

impl Streams {
    /// Write-weighted requests of each.
    fn loads(&self) -> Vec<f64> {
        match self {
            Streams::Generated(workload) => {
                let load = |stream: &Stream| choose::write_weighted_iops(workload, stream);
                workload.streams.iter().map(load).collect()
            }
            Streams::Traced(traced) => traced.streams.iter().map(TracedStream::load).collect(),
        }
    }

    /// Simulates them, each on the arrays that `arrays` says, with the gaps of each multiplied by its `scale`.
    fn measure(
        &self,
        setting: &Setting,
        arrays: impl Fn(usize) -> Vec<usize>,
        scale: impl Fn(usize) -> f64,
    ) -> Result<Measured, Failure> {
        match self {
            Streams::Generated(workload) => {
                let placed = workload.streams.iter().enumerate().map(|(index, stream)| {
                    let mut stream = stream.clone();
                    stream.grow(1.0 / scale(index));
                    (Store { stream, unit: UNIT, size: STORE }, arrays(index))
                });
                setting.measure_placed(placed.collect())
            }
            Streams::Traced(traced) => {
                let object = |(index, stream): (usize, &TracedStream)| {
                    let size =
                        BlockCount(stream.size.0.next_multiple_of(BlockCount::holding(UNIT).0));
                    Setting::object(stream.name.clone(), size, UNIT, arrays(index))
                };
                let objects = traced.streams.iter().enumerate().map(object).collect();
                let scales: Vec<f64> = (0..traced.streams.len()).map(scale).collect();
                let requests = traced.requests_until_one_ends(&scales);
                let count = requests.len() as f64;
                setting.simulate(objects, &mut TraceSource::new(requests, &scales), count)
            }
        }
    }
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let streams = match context.traces() {
        None => Streams::Generated(Workload { streams: generated() }),
        Some(folder) => {
            let traced = traces::read(folder, context.scale())?;
            for (index, trace) in TRACES.iter().enumerate() {
                let (reads, writes) = traced.rates(index);
                for (what, ours, published) in
                    [("reads", reads, trace.reads), ("writes", writes, trace.writes)]
                {
                    let figure = format!("table 2, {}, {what} of the streams kept", trace.name);
                    rows.push(Row::new(figure, "/s", ours).beside(published));
                }
            }
            Streams::Traced(traced)
        }
    };
    let loads = streams.loads();
    let mut random = seeded(context.seed(), "partition");
    let (partition, imbalance) =
        choose::greedy_partition(&loads, ARRAYS, IMBALANCE_MAX, PARTITION_TRIES, &mut random);
    rows.push(
        Row::new("imbalance of the greedy partition", "share of the mean", imbalance)
            .judged(Tolerance::Below(IMBALANCE_MAX)),
    );
    let of = |index: usize| partition.get(index).copied().unwrap_or(0);
    let stages = context.stage().split([1.0, 1.0]);
    for (stage, (figure, faster)) in stages.into_iter().zip([("12", 1.0), ("13", FASTER)]) {
        let stage = stage.called(&format!("figure {figure}"));
        let measure = |is_wide| {
            let seconds = SECONDS * context.scale();
            let mut setting = Setting::new(ARRAYS, is_wide, seconds, context.seed());
            setting.cache = Some((CACHE, WritePolicy::Through));
            let arrays = |index| if is_wide { (0..ARRAYS).collect() } else { vec![of(index)] };
            let scale = |index| if of(index) < ARRAYS / 2 { faster } else { 1.0 };
            streams.measure(&setting, arrays, scale)
        };
        let narrow = measure(false)?;
        stage.at(0.5);
        let wide = measure(true)?;
        stage.at(1.0);
        add_rows(context, figure, &partition, (&narrow, &wide), &mut rows);
    }
    Ok(rows)
}

fn add_rows(
    context: &Context,
    figure: &str,
    partition: &[usize],
    (narrow, wide): (&Measured, &Measured),
    rows: &mut Vec<Row>,
) {
    // Each stream counts alike, as in the figures, which have a bar for each.
    let mean = |measured: &Measured,
                loaded: Option<bool>,
                value: &dyn Fn(&moirai_policy::Response) -> f64| {
        let of = measured.responses.iter().zip(partition);
        let chosen: Vec<f64> = of
            .filter(|(_, partition)| {
                loaded.is_none_or(|loaded| (**partition < ARRAYS / 2) == loaded)
            })
            .map(|(response, _)| value(response))
            .collect();
        chosen.iter().sum::<f64>() / chosen.len().max(1) as f64
    };
    for (loaded, which) in [
        (None, "all streams"),
        (Some(true), "streams of partitions 0 and 1"),
        (Some(false), "streams of 2 and 3"),
    ] {
        for (what, percentile) in [("mean", None), ("95th percentile", Some(95.0))] {
            let value = |response: &moirai_policy::Response| match percentile {
                Some(percent) => response.percentile_ms(percent),
                None => response.mean_ms(),
            };
            let ratio = mean(wide, loaded, &value) / mean(narrow, loaded, &value);
            let row =
                Row::new(format!("figure {figure}, {which}, {what}: wide to narrow"), "", ratio);
            rows.push(match (figure, loaded) {
                // "Wide striping yields average response times that are comparable."
                ("12", _) => row.beside(1.0).judged_at_full_scale(ALIKE, context),
                // "Wide striping outperforms narrow striping for streams on the first two partitions."
                ("13", Some(true)) => row.judged_at_full_scale(Tolerance::Below(1.0), context),
                // "Their performance on the remaining two partitions is similar."
                ("13", Some(false)) => row
                    .beside(1.0)
                    .because(
                        "wide striping gives the arrays of these streams a part of the added load",
                    )
                    .judged_at_full_scale(ALIKE, context),
                _ => row,
            });
        }
    }
    let spread = |measured: &Measured| {
        let all: Vec<f64> = measured.utilisations.concat();
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
        (mean, (squares / all.len().max(1) as f64).sqrt())
    };
    debug_assert_eq!(wide.utilisations.concat().len(), ARRAYS * ARRAY_DISKS);
    let ((narrow_mean, narrow_spread), (wide_mean, wide_spread)) = (spread(narrow), spread(wide));
    rows.push(Row::new(format!("figure {figure}c, utilisation, narrow"), "", narrow_mean));
    rows.push(Row::new(format!("figure {figure}c, utilisation, wide"), "", wide_mean));
    rows.push(
        Row::new(
            format!("figure {figure}c, deviation of disks' utilisation: wide to narrow"),
            "",
            wide_spread / narrow_spread.max(1e-9),
        )
        .judged_at_full_scale(Tolerance::Below(1.0), context),
    );
}

/// Streams like those that are left of the traces of table 2.
fn generated() -> Vec<Stream> {
    let mut streams = Vec::new();
    for Trace { name, reads, writes, mean_bytes, kept, .. } in TRACES {
        let harmonic: f64 = (1..=kept).map(|rank| 1.0 / rank as f64).sum();
        for rank in 1..=kept {
            let share = 1.0 / rank as f64 / harmonic;
            let name = format!("{name}, {rank}");
            let mut stream = Stream::open(name, (reads + writes) * share, ByteCount(mean_bytes));
            stream.reads = reads / (reads + writes);
            streams.push(stream);
        }
    }
    streams
}
