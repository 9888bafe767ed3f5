//! Narrow beside wide striping by stripe unit, utilisation, request size and writes: placement figures 5
//! to 10 and 17 to 20.

use moirai::units::ByteCount;

use super::{
    ASSUMPTIONS, LARGE, LARGE_GAP_MS, LARGE_UNIT, Pair, SMALL, Setting, Store, large, poisson,
    small,
};
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    name: "placement-parameters",
    source: "placement paper 3.2.2 and appendix, figures 5 to 10 and 17 to 20",
    summary: "narrow and wide striping by stripe unit, utilisation, request size and writes",
    assumptions: &[
        ASSUMPTIONS[0],
        ASSUMPTIONS[1],
        ASSUMPTIONS[2],
        ASSUMPTIONS[3],
        "Figures 9 and 10 have the times between requests that the appendix gives for its figure of writes, \
         20 and 6 ms: at 17 and 4 ms the destaging of writes alone takes more than the disks have.",
    ],
    takes: "2 min",
    scaling: Some(Scaling { least: 0.05, shorter: 0.2, what: "the simulated time" }),
    run,
};

const SECONDS: f64 = 100.0;
const ARRAYS: usize = 10;
/// Times between requests in the figures of writes.
const WRITES_LARGE_GAP_MS: f64 = 20.0;
const WRITES_SMALL_GAP_MS: f64 = 6.0;

/// Why wide striping does worse with large writes here than in the paper.
const WRITES: &str = "stripe units go to the arrays in turn: a write of 1 MB changes one unit of several stripes, each by \
                      read-modify-write; one array writes two units of a stripe at once";

/// Why figures 10 and 20 differ: what the paper's simulator does in these cases it does not say.
const DESTAGED: &str = "small writes that an array's cache holds go to its disks while its large stream is on, too: narrow striping \
                        does not keep the two apart, and wide striping spreads the large requests";
const BEHIND: &str = "the small requests that wait at all are reads, and under wide striping these wait behind units of 512 KB at any time";
const EVENED: &str = "the load of ten streams of small requests evens out over ten arrays, which outweighs that they meet";

/// A figure of two curves: a parameter with several values.
struct Sweep {
    figure: &'static str,
    values: Vec<(String, Kind)>,
}

enum Kind {
    /// Both streams on each array, in turn.
    Pair(Pair),
    /// One stream on each array.
    Alone { gap_ms: f64, size: ByteCount, unit: ByteCount, writes: f64 },
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let sweeps = sweeps();
    let count = sweeps.len();
    let mut rows = Vec::new();
    for (index, sweep) in sweeps.into_iter().enumerate() {
        let stage = context.stage().part(index, count).called(sweep.figure);
        measure(context, &stage, sweep, &mut rows)?;
    }
    Ok(rows)
}

fn measure(
    context: &Context,
    stage: &Stage,
    sweep: Sweep,
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    let Sweep { figure, values } = sweep;
    let count = values.len();
    for (index, (value, kind)) in values.into_iter().enumerate() {
        let seconds = SECONDS * context.scale();
        let of = |arrays| {
            let setting = Setting::new(arrays, true, seconds, context.seed());
            setting.measure(|array| kind.stores(array))
        };
        let (narrow, wide) = (of(1)?, of(ARRAYS)?);
        stage.at((index + 1) as f64 / count as f64);
        for (letter, prefix, name) in [("a", "L", "large"), ("b", "S", "small")] {
            let (narrow, wide) = (narrow.mean_ms(prefix), wide.mean_ms(prefix));
            if narrow == 0.0 {
                continue;
            }
            let title = format!("figure {figure}{letter}, {name}, {value}: narrow");
            rows.push(Row::new(title, "virtual ms", narrow));
            let row = Row::new(
                format!("figure {figure}{letter}, {name}, {value}: wide to narrow"),
                "",
                wide / narrow,
            );
            let row = match (figure, prefix) {
                ("9", _) | ("20", "L") => row.because(WRITES),
                ("10", "L") => row.because(DESTAGED),
                ("10", _) => row.because(BEHIND),
                ("20", _) => row.because(EVENED),
                _ => row,
            };
            rows.push(match finding(figure, prefix, &value) {
                Some(tolerance) => row.judged_at_full_scale(tolerance, context),
                None => row,
            });
        }
    }
    Ok(())
}

/// What the paper says of a point, as a bound of the ratio of wide to narrow.
fn finding(figure: &str, prefix: &str, value: &str) -> Option<Tolerance> {
    Some(match (figure, prefix, value) {
        // "Narrow striping outperforms wide striping for a 64KB stripe unit size."
        ("5", "L", "64 KB") => Tolerance::Above(1.0),
        // "Wide striping outperforms narrow striping at high utilization levels."
        ("6", "L", "11 ms") => Tolerance::Below(1.0),
        // "Small requests see uniformly worse performance."
        ("6" | "7" | "8", "S", _) => Tolerance::Above(1.0),
        // "At low inter-arrival times, large requests see maximum interference."
        ("7", "L", "2 ms") => Tolerance::Above(1.0),
        // "Wide striping to outperform narrow striping."
        ("9", "L", "90 %") => Tolerance::Below(1.0),
        // "As the percentage of writes is increased beyond 70%, wide striping outperforms."
        ("9", "S", "90 %") => Tolerance::Below(1.0),
        ("9", "S", "10 %") => Tolerance::Above(1.0),
        // "Large requests see queue interference in a wide-striped system", and small ones "comparable performance at high
        // write percentages".
        ("10", "L", "90 %") => Tolerance::Above(1.0),
        ("10", "S", "90 %") => Tolerance::Near { value: 1.0, share: 0.2 },
        // "Narrow and wide striping give comparable performance", 512 KB and more.
        ("17", "L", "512 KB" | "1024 KB" | "2048 KB") => {
            Tolerance::Near { value: 1.0, share: 0.15 }
        }
        ("17", "L", "128 KB") => Tolerance::Above(1.0),
        // "As we increase the percentage of writes", wide striping has "higher response times", with small requests, too.
        ("20", "L", "90 %") => Tolerance::Above(1.0),
        ("20", "S", "90 %") => Tolerance::Above(1.0),
        ("18" | "19", _, _) => Tolerance::Near { value: 1.0, share: 0.2 },
        _ => return None,
    })
}

fn kb(kb: u64) -> ByteCount {
    ByteCount(kb << 10)
}

fn sweeps() -> Vec<Sweep> {
    let pair = |change: &dyn Fn(&mut Pair)| {
        let mut pair = Pair::default();
        change(&mut pair);
        Kind::Pair(pair)
    };
    let writing = |change: &dyn Fn(&mut Pair)| {
        pair(&|pair| {
            (pair.large_gap_ms, pair.small_gap_ms) = (WRITES_LARGE_GAP_MS, WRITES_SMALL_GAP_MS);
            change(pair);
        })
    };
    let alone = |gap_ms, size, unit, writes| Kind::Alone { gap_ms, size, unit, writes };
    let sweep = |figure, values: Vec<(String, Kind)>| Sweep { figure, values };
    let shares = [0.1, 0.3, 0.5, 0.7, 0.9];
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let units = [64, 128, 256, 512, 1024, 2048];
    vec![
        sweep(
            "5",
            units
                .map(|unit| (format!("{unit} KB"), pair(&|pair| pair.large_unit = kb(unit))))
                .into(),
        ),
        sweep(
            "6",
            [11.0, 13.0, 15.0, 17.0, 20.0]
                .map(|gap| (format!("{gap} ms"), pair(&|pair| pair.large_gap_ms = gap)))
                .into(),
        ),
        sweep(
            "7",
            [2.0, 3.0, 4.0, 5.0, 7.0]
                .map(|gap| (format!("{gap} ms"), pair(&|pair| pair.small_gap_ms = gap)))
                .into(),
        ),
        sweep(
            "8",
            [64, 128, 256, 512, 1024, 2048]
                .map(|size| {
                    let both =
                        |pair: &mut Pair| (pair.large, pair.large_unit) = (kb(size), kb(size / 2));
                    (format!("{size} KB"), pair(&both))
                })
                .into(),
        ),
        sweep(
            "9",
            shares.map(|share| (percent(share), writing(&|pair| pair.large_writes = share))).into(),
        ),
        sweep(
            "10",
            shares.map(|share| (percent(share), writing(&|pair| pair.small_writes = share))).into(),
        ),
        sweep(
            "17",
            [128, 256, 512, 1024, 2048]
                .map(|unit| (format!("{unit} KB"), alone(LARGE_GAP_MS, LARGE, kb(unit), 0.0)))
                .into(),
        ),
        sweep(
            "18",
            [14.0, 16.0, 18.0, 20.0]
                .map(|gap| (format!("{gap} ms"), alone(gap, LARGE, LARGE_UNIT, 0.0)))
                .into_iter()
                .chain(
                    [3.0, 5.0, 7.0].map(|gap| (format!("{gap} ms"), alone(gap, SMALL, SMALL, 0.0))),
                )
                .collect(),
        ),
        sweep(
            "19",
            [64, 256, 1024, 2048]
                .map(|size| {
                    (format!("{size} KB"), alone(LARGE_GAP_MS, kb(size), kb(size / 2), 0.0))
                })
                .into(),
        ),
        sweep(
            "20",
            shares
                .map(|share| (percent(share), alone(WRITES_LARGE_GAP_MS, LARGE, LARGE_UNIT, share)))
                .into_iter()
                .chain(
                    shares.map(|share| {
                        (percent(share), alone(WRITES_SMALL_GAP_MS, SMALL, SMALL, share))
                    }),
                )
                .collect(),
        ),
    ]
}

impl Kind {
    fn stores(&self, array: usize) -> Vec<Store> {
        match self {
            Kind::Pair(pair) => pair.stores(array),
            Kind::Alone { gap_ms, size, unit, writes } => {
                let mut store = match *size == SMALL {
                    true => small(array, poisson(*gap_ms, *size), *unit, 1),
                    false => large(array, poisson(*gap_ms, *size), *unit, 1),
                };
                store.stream.reads = 1.0 - writes;
                vec![store]
            }
        }
    }
}
