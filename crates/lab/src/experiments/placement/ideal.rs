//! Narrow striping without interference beside wide striping, by the number of arrays: placement
//! figures 2, 4 and 16.

use moirai_policy::Stream;

use super::{
    ASSUMPTIONS, LARGE, LARGE_GAP_MS, LARGE_UNIT, Pair, SMALL, SMALL_GAP_MS, Setting, large,
    poisson, small,
};
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    name: "placement-arrays",
    source: "placement paper 3.2, figures 2, 4 and 16",
    summary: "narrow and wide striping over 1 to 10 arrays, without interference in narrow striping",
    assumptions: &ASSUMPTIONS,
    takes: "40 s",
    scaling: Some(Scaling { least: 0.05, shorter: 0.3, what: "the simulated time" }),
    run,
};

const ARRAYS: [usize; 5] = [2, 4, 6, 8, 10];
const SECONDS: f64 = 120.0;
/// One array has few requests: it is simulated so many times as long.
const NARROW_SECONDS: f64 = 8.0;
/// Figure 2: "response times that are 10-20% worse than narrow striping".
const CLOSED_LOSS: f64 = 1.15;
/// Large and small requests in flight of a closed loop.
const LARGE_LOOP: u32 = 2;
const SMALL_LOOP: u32 = 4;
/// Figure 4: "approximately the transfer time of a stripe unit": 512 KB at 39.16 MB/s.
const UNIT_TRANSFER_MS: f64 = 512.0 / 1024.0 / 39.16 * 1000.0;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let seconds = SECONDS * context.scale();
    let mut rows = Vec::new();
    let [narrow_stage, wide_stage] = context.stage().split([8.0, 30.0]);
    let narrow_stage = narrow_stage.called("one array");
    let one = Measurements::of(1, seconds * NARROW_SECONDS, context.seed())?;
    narrow_stage.at(1.0);
    rows.push(Row::new("one array, figure 4: utilisation", "", one.utilisation));
    for (index, arrays) in ARRAYS.into_iter().enumerate() {
        let stage = wide_stage.part(index, ARRAYS.len()).called(&format!("{arrays} arrays"));
        let wide = Measurements::of(arrays, seconds, context.seed())?;
        stage.at(1.0);
        let ratio = |figure: &str, wide: f64, narrow: f64| {
            Row::new(format!("{figure}, {arrays} arrays: wide to narrow"), "", wide / narrow)
        };
        let closed = Tolerance::Near { value: CLOSED_LOSS, share: 0.1 };
        rows.push(
            ratio("figure 2a, large requests", wide.closed.0, one.closed.0)
                .beside(CLOSED_LOSS)
                .judged_at_full_scale(closed, context),
        );
        rows.push(
            ratio("figure 2b, small requests", wide.closed.1, one.closed.1)
                .beside(CLOSED_LOSS)
                .judged_at_full_scale(closed, context),
        );
        let alike = Tolerance::Near { value: 1.0, share: 0.15 };
        rows.push(
            ratio("figure 4a, large requests", wide.pair.0, one.pair.0)
                .beside(1.0)
                .because(
                    "the stores of an array fill its disks, so that arms travel far between them",
                )
                .judged_at_full_scale(alike, context),
        );
        let longer = format!("figure 4b, small requests, {arrays} arrays: wide is longer by");
        let longer =
            Row::new(longer, "virtual ms", wide.pair.1 - one.pair.1).beside(UNIT_TRANSFER_MS);
        let longer = longer.judged_at_full_scale(Tolerance::Published(0.3), context);
        rows.push(match arrays {
            2 => longer.because("of two arrays only one other stream of large requests interferes"),
            _ => longer,
        });
        rows.push(
            ratio("figure 16a, large requests", wide.alike.0, one.alike.0)
                .beside(1.0)
                .judged_at_full_scale(alike, context),
        );
        rows.push(
            ratio("figure 16b, small requests", wide.alike.1, one.alike.1)
                .beside(1.0)
                .judged_at_full_scale(alike, context),
        );
    }
    Ok(rows)
}

/// The mean response times of large and of small requests in a wide system.
struct Measurements {
    closed: (f64, f64),
    pair: (f64, f64),
    alike: (f64, f64),
    utilisation: f64,
}

impl Measurements {
    fn of(arrays: usize, seconds: f64, seed: u64) -> Result<Measurements, Failure> {
        let setting = Setting::new(arrays, true, seconds, seed);
        let closed = |most, size| move |name| Stream::closed(name, most, size);
        let large_loop = setting
            .measure(|array| vec![large(array, closed(LARGE_LOOP, LARGE), LARGE_UNIT, 1)])?;
        let small_loop =
            setting.measure(|array| vec![small(array, closed(SMALL_LOOP, SMALL), SMALL, 1)])?;
        let pair = setting.measure(|array| Pair::default().stores(array))?;
        let large_open = setting
            .measure(|array| vec![large(array, poisson(LARGE_GAP_MS, LARGE), LARGE_UNIT, 1)])?;
        let small_open =
            setting.measure(|array| vec![small(array, poisson(SMALL_GAP_MS, SMALL), SMALL, 1)])?;
        Ok(Measurements {
            closed: (large_loop.mean_ms("L"), small_loop.mean_ms("S")),
            pair: (pair.mean_ms("L"), pair.mean_ms("S")),
            alike: (large_open.mean_ms("L"), small_open.mean_ms("S")),
            utilisation: pair.utilisation(),
        })
    }
}
