//! Fitting a drive profile to a measured trace: which of its numbers are slightly off?
//!
//! A few named parameters are adjusted so that the simulated drive is closer to the measured one on
//! the first half of the trace. The second half, which the search does not see, tells whether the
//! drive was learnt or the trace. The search is a descent along one parameter at a time, with steps
//! that grow after a success and shrink after a failure: the distance is full of small cliffs, where
//! a request just makes its sector or waits a turn, so that slopes are of no use.

mod parameter;

use moirai_models::{Profile, ProfileFile};
use moirai_units::Nanos;

use crate::trace::MeasuredRequest;
use crate::validate::{Comparison, PastEnd, compare, responses, simulate};

pub use parameter::{PARAMETERS, Parameter, UnknownParameter};

/// What a fit changed and how far that brought it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The profile with the parameters adjusted, and their sources with it.
    pub profile: ProfileFile,
    /// Each adjusted parameter with its value before and after.
    pub changes: Vec<(&'static str, String, String)>,
    /// On the first half of the trace, which was fitted.
    pub fitted: Change,
    /// On the second half, which was not.
    pub held_out: Change,
    /// Simulations that the search took.
    pub simulations: u32,
}

/// A comparison before and after.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// With the profile as it was.
    pub before: Comparison,
    /// With the profile as it is now.
    pub after: Comparison,
}

/// A profile that cannot be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The trace has requests that the drive has not.
    #[error(transparent)]
    PastEnd(#[from] PastEnd),
    /// The profile is not valid.
    #[error(transparent)]
    Profile(#[from] moirai_models::ProfileError),
    /// A parameter that the drive does not have.
    #[error("the drive has no `{0}` to fit: leave it out")]
    Absent(&'static str),
    /// Too few requests to learn from and to check with.
    #[error("{0} requests are too few to fit a profile to: 100 are needed")]
    TooFew(usize),
}

const REQUESTS_MIN: usize = 100;

/// How often the search goes over all parameters, at most.
const ROUNDS_MAX: u32 = 8;

/// The part of the distance that a change must take off: less is chance.
const GAIN_MIN: f64 = 0.000_5;

/// Times a step is halved before a parameter is left for the round.
const HALVINGS: u32 = 5;

/// Adjusts `parameters` of `profile` to the first half of `requests`; `progress` hears after each
/// parameter how much of the longest search is done, 0 to 1.
pub fn fit(
    profile: &ProfileFile,
    requests: &[MeasuredRequest],
    parameters: &[Parameter],
    mut progress: impl FnMut(f64),
) -> Result<Fit, FitError> {
    if requests.len() < REQUESTS_MIN {
        return Err(FitError::TooFew(requests.len()));
    }
    if let Some(absent) = parameters.iter().find(|parameter| !parameter.is_of(profile)) {
        return Err(FitError::Absent(absent.name));
    }
    let (first_half, _) = requests.split_at(requests.len() / 2);
    let mut search = Search::new(profile, first_half)?;
    let all = f64::from(ROUNDS_MAX) * parameters.len() as f64;
    let mut steps: Vec<f64> = parameters.iter().map(Parameter::first_step).collect();
    'search: for round in 0..ROUNDS_MAX {
        let before = search.distance;
        for (index, (parameter, step)) in parameters.iter().zip(&mut steps).enumerate() {
            search.descend(parameter, step);
            let done = f64::from(round) * parameters.len() as f64 + index as f64 + 1.0;
            progress(done / all);
        }
        // A thousandth of the distance is less than the second half can tell.
        if search.distance > before * 0.999 {
            break 'search;
        }
    }
    let mut fitted = search.profile;
    let mut changes = Vec::new();
    for parameter in parameters {
        let (before, after) = (parameter.shown(profile), parameter.shown(&fitted));
        if before != after {
            parameter.note_source(&mut fitted);
            changes.push((parameter.name, before, after));
        }
    }
    let before = halves(profile, requests)?;
    let after = halves(&fitted, requests)?;
    Ok(Fit {
        profile: fitted,
        changes,
        fitted: Change { before: before.0, after: after.0 },
        held_out: Change { before: before.1, after: after.1 },
        simulations: search.simulations,
    })
}

/// The comparison on each half of the trace, which is simulated in one go.
fn halves(
    profile: &ProfileFile,
    requests: &[MeasuredRequest],
) -> Result<(Comparison, Comparison), FitError> {
    let simulated = responses(&simulate(Profile::new(profile.clone())?, requests)?);
    let measured: Vec<Nanos> = requests.iter().map(|request| request.measured).collect();
    let half = requests.len() / 2;
    let (measured, simulated) = (measured.split_at(half), simulated.split_at(half));
    Ok((compare(measured.0, simulated.0), compare(measured.1, simulated.1)))
}

struct Search<'a> {
    requests: &'a [MeasuredRequest],
    measured: Vec<Nanos>,
    /// The profile as it was.
    given: &'a ProfileFile,
    profile: ProfileFile,
    distance: f64,
    simulations: u32,
}

impl<'a> Search<'a> {
    fn new(given: &'a ProfileFile, requests: &'a [MeasuredRequest]) -> Result<Self, FitError> {
        let measured = requests.iter().map(|request| request.measured).collect();
        let profile = given.clone();
        let mut search =
            Search { requests, measured, given, profile, distance: f64::INFINITY, simulations: 0 };
        // What fails now fails for good; later it is a step that is not taken.
        simulate(Profile::new(search.profile.clone())?, requests)?;
        search.distance = search.distance_of(&search.profile.clone()).unwrap_or(f64::INFINITY);
        Ok(search)
    }

    /// How far a profile is from the drive, in ms: the distributions, which every request counts
    /// in, and the requests one by one, in which the missed turns count most.
    fn distance_of(&mut self, profile: &ProfileFile) -> Option<f64> {
        self.simulations += 1;
        let profile = Profile::new(profile.clone()).ok()?;
        let simulated = responses(&simulate(profile, self.requests).ok()?);
        let compared = compare(&self.measured, &simulated);
        Some(2.0 * compared.demerit_ms + compared.per_request_rms_ms)
    }

    fn try_value(&mut self, parameter: &Parameter, value: f64) -> bool {
        if !parameter.allows(self.given, value) {
            return false;
        }
        let mut changed = self.profile.clone();
        parameter.set(&mut changed, value);
        let enough = self.distance * (1.0 - GAIN_MIN);
        let nearer = self.distance_of(&changed).filter(|distance| *distance < enough);
        match nearer {
            Some(distance) => {
                (self.profile, self.distance) = (changed, distance);
                true
            }
            None => false,
        }
    }

    /// Moves one parameter as long as that helps.
    fn descend(&mut self, parameter: &Parameter, step: &mut f64) {
        let Some(mut value) = parameter.get(&self.profile) else { return };
        if parameter.choices() > 0 {
            for choice in 0..parameter.choices() {
                let choice = f64::from(choice);
                if choice != value && self.try_value(parameter, choice) {
                    value = choice;
                }
            }
            return;
        }
        let mut failures = 0;
        while failures < HALVINGS {
            let forwards = value + *step;
            if self.try_value(parameter, forwards) {
                (value, *step) = (forwards, *step * 1.5);
                continue;
            }
            let backwards = value - *step;
            if self.try_value(parameter, backwards) {
                (value, *step) = (backwards, -*step * 1.5);
                continue;
            }
            *step /= 2.0;
            failures += 1;
        }
        // The next round looks further again.
        *step = (step.abs() * 8.0).min(parameter.first_step());
    }
}
