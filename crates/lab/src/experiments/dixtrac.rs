//! DIXtrac: how long the extraction of a drive takes, and how far the extracted drive is from the real one.

use moirai::devices::Contents;
use moirai::discovery::{DriveFound, Step, extract};
use moirai::runtime::{Random, block_on_virtual, random};
use moirai::storage::Op;
use moirai::units::{BlockCount, BlockRange, Lbn, Nanos};
use moirai_models::{Profile, ProfileFile, built_in_names};
use moirai_replay::trace::{BufferAction, MeasuredRequest};
use moirai_replay::validate::{compare, responses, simulate};
use rand::Rng;

use crate::setting::{drive, profile};
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const TIMES: Experiment = Experiment {
    name: "dixtrac-times",
    source: "thesis tables 4.1 and 4.2",
    summary: "how long the extraction of three drives takes, and how many addresses are translated",
    assumptions: &[
        "The drives are simulated: ibm-ultrastar-18es, quantum-atlas-10k-extracted and seagate-cheetah-4lp. There are no parameters of \
         the thesis's Atlas III. Each diagnostic command takes what table 4.2 prints for a translation.",
        "Their times have no noise, so each is measured once or a few times; the thesis repeats them. The scheduler is found among the \
         processing overheads; the thesis gives it no time.",
    ],
    takes: "1 s",
    scaling: None,
    run: times,
};

pub(super) const VALIDATION: Experiment = Experiment {
    name: "dixtrac-validation",
    source: "thesis 4.4.2, table 4.3; figures 4.2 and 4.3 as means",
    summary: "every built-in drive, extracted and simulated, beside itself: the demerit figure of 5,000 requests",
    assumptions: &[
        "The real drive is simulated, too; what the thesis compares with a real one is here compared with what was extracted from. So \
         the figures show what extraction loses, and not how good the model is.",
        "Two thirds of the requests are reads; sizes are 2 to 12 KB. Of the mixed trace 20 % are sequential, 30 % lie within 500 blocks \
         of the one before, and the others anywhere, as all of the random trace do, which runs without a cache. Between the end of a \
         request and the next one pass 0 to 72 ms; the thesis gives that as the time between arrivals.",
    ],
    takes: "10 s",
    scaling: None,
    run: validation,
};

/// Table 4.1: the drive, the time of a translation in ms (table 4.2), and the times of its steps in s, in the order of
/// [`Step::ALL`]: layout, mechanical overheads, seek curve, processing overheads, cache. Then the translations.
const PUBLISHED: [(&str, f64, [f64; 5], f64); 3] = [
    ("ibm-ultrastar-18es", 2.41, [164.7, 35.8, 45.2, 64.3, 25.6], 36_911.0),
    ("quantum-atlas-10k-extracted", 0.86, [50.1, 18.6, 33.3, 12.7, 12.6], 26_437.0),
    ("seagate-cheetah-4lp", 7.32, [47.6, 16.6, 67.3, 23.0, 12.3], 5245.0),
];

/// No extraction may take longer.
const OTHER_SEARCH: &str =
    "our search asks for other tracks in another order, and the drive is simulated";
const SIMULATED: &str = "the drive is simulated: nothing but what was extracted differs";
const SECONDS_MAX: f64 = 120.0;

/// Table 4.3: the drive, and the demerit figures in ms of the mixed and of the random trace.
const DEMERITS: [(&str, [f64; 2]); 3] = [
    ("ibm-ultrastar-18es", [0.20, 0.07]),
    ("quantum-atlas-10k-extracted", [0.30, 0.19]),
    ("seagate-cheetah-4lp", [0.27, 0.43]),
];

/// Of the mean response time, in percent.
const DEMERIT_PERCENT_MAX: f64 = 1.0;

const REQUESTS: usize = 5000;
/// The longest time between requests, in us, and sizes in blocks.
const DELAY_US_MAX: u64 = 72_000;
const BLOCKS: std::ops::RangeInclusive<u64> = 4..=24;
/// How near local requests are, in blocks.
const LOCAL: u64 = 500;

fn extracted(profile: Profile, seed: u64) -> Result<DriveFound, Failure> {
    block_on_virtual(seed, async {
        let disk = drive(&profile, "drive".into(), Contents::Nothing, None);
        Ok(extract(&*disk, true, |_| ()).await?)
    })
}

fn times(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let stages = context.stage().split(PUBLISHED.map(|_| 1.0));
    for ((name, translation_ms, published, translations), stage) in
        PUBLISHED.into_iter().zip(stages)
    {
        let file = profile(name)?.file;
        let file = ProfileFile { diagnostic_ms: Some(translation_ms), ..file };
        let real = Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))?;
        let found = extracted(real, context.seed())?;
        for (step, published) in Step::ALL.into_iter().zip(published) {
            let took = found.steps.iter().find(|(other, _)| *other == step);
            let ours = took.map_or(0.0, |(_, time)| time.as_s());
            rows.push(
                Row::new(format!("{name}, {}", step.name()), "s", ours)
                    .beside(published)
                    .because(OTHER_SEARCH),
            );
        }
        let all: f64 = published.iter().sum();
        let total = Row::new(format!("{name}, all"), "s", found.elapsed.as_s())
            .beside(all)
            .because(OTHER_SEARCH);
        rows.push(total.judged(Tolerance::AtMost(SECONDS_MAX)));
        let count = |command| found.commands.get(command).copied().unwrap_or(0) as f64;
        let ours = count("translate_lbn") + count("translate_place");
        let row = Row::new(format!("{name}, translations"), "", ours).beside(translations);
        rows.push(row.because(OTHER_SEARCH));
        stage.at(1.0);
    }
    Ok(rows)
}

fn validation(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let count = built_in_names().count();
    for (index, name) in built_in_names().enumerate() {
        let real = profile(name)?;
        let found = extracted(real.clone(), context.seed())?;
        let file = moirai::drive_profile(&found, name.to_owned());
        let ours = Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))?;
        let published = DEMERITS.iter().find(|(drive, _)| *drive == name).map(|(_, ms)| *ms);
        for (at, (trace, is_mixed)) in [("mixed", true), ("random", false)].into_iter().enumerate()
        {
            let requests = block_on_virtual(context.seed(), async {
                requests(real.geometry.capacity(), is_mixed, &mut random(trace))
            });
            let times = |mut profile: Profile| {
                if !is_mixed {
                    profile.electronics.cache = None;
                }
                let done = simulate(profile, &requests);
                let done = done.map_err(|error| Failure::Setting(error.to_string()))?;
                Ok::<_, Failure>(responses(&done))
            };
            let compared = compare(&times(real.clone())?, &times(ours.clone())?);
            let demerit = Row::new(format!("{name}, {trace}, demerit"), "ms", compared.demerit_ms);
            let published = published.and_then(|ms| ms.get(at).copied());
            rows.push(match published {
                Some(published) => demerit.beside(published).because(SIMULATED),
                None => demerit,
            });
            let percent = 100.0 * compared.demerit_ms / compared.measured_mean_ms;
            let part = Row::new(format!("{name}, {trace}, of the mean"), "%", percent);
            rows.push(part.judged(Tolerance::AtMost(DEMERIT_PERCENT_MAX)));
        }
        context.stage().part(index, count).at(1.0);
    }
    Ok(rows)
}

/// Requests anywhere on a disk, or a mix of such, of sequential ones and of ones nearby.
fn requests(capacity: BlockCount, is_mixed: bool, random: &mut Random) -> Vec<MeasuredRequest> {
    let mut end = 0;
    let mut requests = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let count = random.random_range(BLOCKS);
        let last = capacity.0 - count;
        let first = match random.random_range(0..10) {
            0..2 if is_mixed => end,
            2..5 if is_mixed => (end + random.random_range(0..2 * LOCAL)).saturating_sub(LOCAL),
            _ => random.random_range(0..=last),
        };
        let first = first.min(last);
        end = first + count;
        requests.push(MeasuredRequest {
            delay: Nanos(random.random_range(0..DELAY_US_MAX) * 1000),
            buffer: BufferAction::Miss,
            op: if random.random_ratio(2, 3) { Op::Read } else { Op::Write },
            blocks: BlockRange::new(Lbn(first), BlockCount(count)),
            measured: Nanos::ZERO,
        });
    }
    requests
}
