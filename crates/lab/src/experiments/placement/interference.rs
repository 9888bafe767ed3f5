//! Streams that share an array in narrow striping and are on together, more or less: placement figure 11.

use super::{ASSUMPTIONS, Pair, Setting};
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    name: "placement-correlation",
    source: "placement paper 3.3, figure 11",
    summary: "narrow and wide striping when the streams of an array are on together",
    assumptions: &ASSUMPTIONS,
    takes: "20 s",
    scaling: Some(Scaling { least: 0.05, shorter: 0.4, what: "the simulated time" }),
    run,
};

const CORRELATIONS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const ARRAYS: usize = 10;
const SECONDS: f64 = 100.0;
/// "Wide-striping performing better for correlation values higher than 0.25."
const BETTER_FROM: f64 = 0.25;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (index, correlation) in CORRELATIONS.into_iter().enumerate() {
        let stage = context.stage().part(index, CORRELATIONS.len());
        let stage = stage.called(&format!("correlation {correlation}"));
        let pair = Pair { correlation, ..Pair::default() };
        let of = |arrays| {
            let seconds = SECONDS * context.scale();
            Setting::new(arrays, true, seconds, context.seed()).measure(|array| pair.stores(array))
        };
        let (narrow, wide) = (of(1)?, of(ARRAYS)?);
        stage.at(1.0);
        for (prefix, name) in [("L", "large"), ("S", "small")] {
            let (narrow, wide) = (narrow.mean_ms(prefix), wide.mean_ms(prefix));
            let title =
                |what: &str| format!("figure 11, {name}, correlation {correlation}: {what}");
            rows.push(Row::new(title("narrow"), "virtual ms", narrow));
            let row = Row::new(title("wide to narrow"), "", wide / narrow);
            let is_judged = correlation > BETTER_FROM;
            rows.push(match is_judged {
                true => row.judged_at_full_scale(Tolerance::Below(1.0), context),
                false => row,
            });
        }
    }
    Ok(rows)
}
