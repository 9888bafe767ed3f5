//! The experiments on testbeds, simulated: placement figures 3 and 14, and table 3.

use moirai::units::ByteCount;
use moirai_policy::{SizeDistribution, Stream};

use super::{ASSUMPTIONS, Measured, Setting, Store};
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    name: "placement-testbed",
    source: "placement paper 3.2.1 and 3.5, figures 3 and 14, table 3",
    summary: "narrow and wide striping over two arrays, closed loops, and transactions beside a scan",
    assumptions: &[
        "The testbeds are simulated with the drives of section 3, fujitsu-maj3182mc; theirs were an IBM FAStT-700 with \
         18 GB disks and SSA disks of 9 GB. Stores have 2 GB, as theirs; those of table 3 have 8 GB.",
        ASSUMPTIONS[2],
        ASSUMPTIONS[3],
        "Figure 14: two arrays with a large and a small store each.",
        "Table 3: 7+p arrays with stripe units of 64 KB. TPC-C is 30 clients that read and write 8 KB at random places, \
         two thirds reads; its rate stands for its transactions. The scan reads one request after the other.",
    ],
    takes: "10 s",
    scaling: Some(Scaling { least: 0.05, shorter: 0.3, what: "the simulated time" }),
    run,
};

const SECONDS: f64 = 60.0;
const ARRAYS: usize = 2;
const STORE: ByteCount = ByteCount(2 << 30);
/// Mean request and stripe unit of figures 3 and 14.
const LARGE: (ByteCount, ByteCount) = (ByteCount(512 << 10), ByteCount(256 << 10));
const SMALL: (ByteCount, ByteCount) = (ByteCount(8 << 10), ByteCount(8 << 10));
const LOOPS: [u32; 3] = [1, 2, 4];
/// "The response time in the wide-striped system is about 10-15% higher."
const FIGURE_3: f64 = 1.125;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let seconds = SECONDS * context.scale();
    let mut rows = Vec::new();
    let [figure_3, figure_14, table_3] = context.stage().split([2.0, 3.0, 2.0]);
    let figure_3 = figure_3.called("figure 3");
    let both = |stores: &dyn Fn(usize) -> Vec<Store>| {
        let of = |is_wide| Setting::new(ARRAYS, is_wide, seconds, context.seed()).measure(stores);
        Ok::<(Measured, Measured), Failure>((of(false)?, of(true)?))
    };
    for most in LOOPS {
        for (prefix, name, (size, unit)) in [("L", "large", LARGE), ("S", "small", SMALL)] {
            let (narrow, wide) = both(&|array| vec![looped(prefix, array, most, size, unit)])?;
            let ratio = wide.mean_ms(prefix) / narrow.mean_ms(prefix);
            let figure = format!("figure 3, {name}, {most} in flight: wide to narrow");
            rows.push(
                Row::new(figure, "", ratio).beside(FIGURE_3).judged_at_full_scale(
                    Tolerance::Near { value: FIGURE_3, share: 0.15 },
                    context,
                ),
            );
        }
    }
    figure_3.at(1.0);
    let figure_14 = figure_14.called("figure 14");
    for large in LOOPS {
        for small in LOOPS {
            let (narrow, wide) = both(&|array| {
                vec![
                    looped("L", array, large, LARGE.0, LARGE.1),
                    looped("S", array, small, SMALL.0, SMALL.1),
                ]
            })?;
            for (prefix, name) in [("L", "large"), ("S", "small")] {
                let ratio = wide.mean_ms(prefix) / narrow.mean_ms(prefix);
                let figure = format!(
                    "figure 14, {name}, {large} large and {small} small in flight: wide to narrow"
                );
                rows.push(Row::new(figure, "", ratio).beside(FIGURE_3).judged_at_full_scale(
                    Tolerance::Near { value: FIGURE_3, share: 0.2 },
                    context,
                ));
            }
        }
    }
    figure_14.at(1.0);
    let table_3 = table_3.called("table 3");
    for (size, name, published) in [
        (ByteCount(896 << 10), "896 KB", (20.09 / 25.43, 1.33)),
        (ByteCount(7 << 20), "7 MB", (36.86 / 29.45, 0.82)),
    ] {
        let of = |is_wide| transactions_and_scan(is_wide, size, seconds, context.seed());
        let (narrow, wide) = (of(false)?, of(true)?);
        let rate = |measured: &Measured, name: &str| measured.iops(name);
        let side = |published: f64| match published > 1.0 {
            true => Tolerance::Above(1.0),
            false => Tolerance::Below(1.0),
        };
        rows.push(Row::new(
            format!("table 3, scan of {name}, narrow"),
            "MB/s",
            rate(&narrow, "scan") * size.0 as f64 / 1e6,
        ));
        for (what, title, published) in
            [("scan", "scan", published.0), ("TPC-C", "TPC-C beside it", published.1)]
        {
            let ratio = rate(&wide, what) / rate(&narrow, what);
            rows.push(
                Row::new(format!("table 3, {title}, {name}: wide to narrow"), "", ratio)
                    .beside(published)
                    .because("clients without think time keep every disk busy, theirs did not")
                    .judged_at_full_scale(side(published), context),
            );
        }
    }
    table_3.at(1.0);
    Ok(rows)
}

fn looped(prefix: &str, array: usize, most: u32, size: ByteCount, unit: ByteCount) -> Store {
    let mut stream = Stream::closed(format!("{prefix}{array}"), most, size);
    stream.align = Some(unit.0.to_string());
    Store { stream, unit, size: STORE }
}

fn transactions_and_scan(
    is_wide: bool,
    size: ByteCount,
    seconds: f64,
    seed: u64,
) -> Result<Measured, Failure> {
    let unit = ByteCount(64 << 10);
    let store = ByteCount(8 << 30);
    let mut transactions = Stream::closed("TPC-C", 30, ByteCount(8 << 10));
    (transactions.reads, transactions.sizes) = (2.0 / 3.0, SizeDistribution::Fixed);
    transactions.align = Some((8 << 10).to_string());
    let mut scan = Stream::closed("scan", 1, size);
    (scan.sequential, scan.sizes) = (1.0, SizeDistribution::Fixed);
    let arrays = |own: usize| if is_wide { vec![0, 1] } else { vec![own] };
    let mut setting = Setting::new(ARRAYS, is_wide, seconds, seed);
    setting.disks = 8;
    setting.measure_placed(vec![
        (Store { stream: transactions, unit, size: store }, arrays(0)),
        (Store { stream: scan, unit, size: store }, arrays(1)),
    ])
}
