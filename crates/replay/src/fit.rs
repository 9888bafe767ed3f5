//! Fitting a drive profile to a measured trace: which of its parameters are slightly off?
//!
//! The second half of the trace is held out: it only tells how good the fitted profile is. The first half is cut
//! into contiguous blocks, which belong to two folds in turn. A parameter is fitted to each fold alone, and both
//! values are tested on the fold that they were not fitted to (two-fold cross-validation; Stone,
//! "Cross-validatory choice and assessment of statistical predictions", J. R. Statist. Soc. B 36(2), 1974).
//! The parameter changes only if the profile comes nearer to the drive there by more than chance; the value that it
//! then gets is fitted to both folds. The parameter with the largest gain changes first, so that no second change
//! explains what one does. In the end each change is tested again, given the others, and taken back if it no
//! longer helps.

mod blocks;
mod parameter;
mod search;

use moirai_models::{Profile, ProfileFile};
use moirai_units::Nanos;

use crate::trace::MeasuredRequest;
use crate::validate::{Comparison, PastEnd, compare, responses, simulate};

pub use blocks::Gain;
pub use parameter::{PARAMETERS, Parameter, UnknownParameter};
use search::{Candidate, Search};

/// What a fit changed and how far that brought it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The profile with the parameters adjusted, and their sources with it.
    pub profile: ProfileFile,
    /// Each adjusted parameter with its value before and after.
    pub changes: Vec<(&'static str, String, String)>,
    /// Each parameter that was tried and left alone, with the gain that did not exceed chance; `None` when no
    /// other value was nearer on the requests that it was fitted to.
    pub left_alone: Vec<(&'static str, Option<Gain>)>,
    /// The comparison on the first half of the trace, which the parameters were fitted to.
    pub fitted: Change,
    /// The comparison on the second half, which was held out.
    pub held_out: Change,
    /// Simulations of the first half that the search took.
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
    /// The trace has requests past the end of the drive.
    #[error(transparent)]
    PastEnd(#[from] PastEnd),
    /// The profile is not valid.
    #[error(transparent)]
    Profile(#[from] moirai_models::ProfileError),
    /// A parameter that the drive does not have.
    #[error("the drive has no `{0}` to fit: leave it out")]
    Absent(&'static str),
    /// Too few requests to learn from and to check with.
    #[error("{0} requests are too few to fit a profile: give a trace of at least 100")]
    TooFew(usize),
}

const REQUESTS_MIN: usize = 100;

/// Adjusts `parameters` of `profile` to the first half of `requests`. Calls `progress` after each parameter with
/// the part of the longest search that is done, 0 to 1.
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
    let mut search = Search::new(profile, first_half, parameters.len())?;
    let mut candidates: Vec<Candidate<'_>> = parameters.iter().map(Candidate::new).collect();
    search.add(&mut candidates, &mut progress);
    search.eliminate(&mut candidates);
    progress(1.0);
    let simulations = search.simulations;
    let mut fitted = search.profile();
    let (mut changes, mut left_alone) = (Vec::new(), Vec::new());
    for Candidate { parameter, gain, .. } in candidates {
        if parameter.changed(profile, &fitted) {
            let (before, after) = (parameter.shown(profile), parameter.shown(&fitted));
            parameter.note_source(&mut fitted);
            changes.push((parameter.name, before, after));
        } else {
            left_alone.push((parameter.name, gain));
        }
    }
    let before = halves(profile, requests)?;
    let after = halves(&fitted, requests)?;
    Ok(Fit {
        profile: fitted,
        changes,
        left_alone,
        fitted: Change { before: before.0, after: after.0 },
        held_out: Change { before: before.1, after: after.1 },
        simulations,
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
