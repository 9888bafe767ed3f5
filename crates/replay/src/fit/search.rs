//! The search for changes to a profile that help on requests that they were not fitted to.

use std::collections::BTreeMap;

use moirai_models::{Profile, ProfileFile};
use moirai_units::Nanos;

use super::FitError;
use super::blocks::{Blocks, Gain, Part};
use super::parameter::Parameter;
use crate::trace::MeasuredRequest;
use crate::validate::{responses, simulate};

/// Simulations for each parameter, at most, before the search tries no more changes.
const SIMULATIONS_MAX: u32 = 60;

/// The part of the distance that a step must take off on the requests that the step is fitted to.
const STEP_GAIN_MIN: f64 = 0.000_5;

/// The smallest steps of a descent, as parts of the first: one for the question whether a change helps, and
/// one for the value to keep.
const STEP_MIN_TO_TRY: f64 = 1.0 / 8.0;
const STEP_MIN_TO_KEEP: f64 = 1.0 / 16.0;

/// A profile and the response times that it has.
#[derive(Clone)]
struct State {
    profile: ProfileFile,
    simulated: Vec<Nanos>,
}

/// Simulated values of one parameter, by their bits; `None` for values that no valid profile has.
type Tried = BTreeMap<u64, Option<State>>;

/// A parameter in the search.
pub(super) struct Candidate<'a> {
    pub(super) parameter: &'a Parameter,
    /// The gain when the parameter was last tried; `None` when no other value was nearer.
    pub(super) gain: Option<Gain>,
    /// The changes that had been made when the parameter was last tried.
    tried_after: Option<u32>,
}

pub(super) struct Search<'a> {
    requests: &'a [MeasuredRequest],
    blocks: Blocks,
    /// The profile as it was.
    given: &'a ProfileFile,
    state: State,
    pub(super) simulations: u32,
    simulations_max: u32,
}

/// The share of the search that is done before changes are tested again.
const ADDING_SHARE: f64 = 0.9;

impl<'a> Candidate<'a> {
    pub(super) fn new(parameter: &'a Parameter) -> Self {
        Candidate { parameter, gain: None, tried_after: None }
    }

    /// The place in the order of the search, the largest first, after so many changes; `None` when there is
    /// nothing to try.
    fn rank(&self, changes: u32) -> Option<f64> {
        let Some(tried_after) = self.tried_after else { return Some(f64::INFINITY) };
        match self.gain.filter(Gain::counts) {
            Some(gain) => Some(gain.ms),
            None => (tried_after < changes).then_some(0.0),
        }
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(
        given: &'a ProfileFile,
        requests: &'a [MeasuredRequest],
        parameters: usize,
    ) -> Result<Self, FitError> {
        // What fails now fails for good; later it is a step that is not taken.
        let simulated = responses(&simulate(Profile::new(given.clone())?, requests)?);
        Ok(Search {
            requests,
            blocks: Blocks::new(requests.iter().map(|request| request.measured).collect()),
            given,
            state: State { profile: given.clone(), simulated },
            simulations: 1,
            simulations_max: SIMULATIONS_MAX * parameters as u32,
        })
    }

    /// The profile as it is now.
    pub(super) fn profile(self) -> ProfileFile {
        self.state.profile
    }

    /// Changes one parameter after the other, the one with the largest gain first.
    ///
    /// Another parameter's change seldom makes a gain larger. So after a change the search tries those
    /// parameters again whose last gain is still the largest, and the others before it ends
    /// (Minoux, "Accelerated greedy algorithms for maximizing submodular set functions", 1978).
    pub(super) fn add(&mut self, candidates: &mut [Candidate<'_>], mut progress: impl FnMut(f64)) {
        let mut changes = 0;
        loop {
            let ranked = candidates.iter_mut().filter_map(|c| Some((c.rank(changes)?, c)));
            let Some((_, first)) = ranked.max_by(|(a, _), (b, _)| a.total_cmp(b)) else { break };
            let base = self.state.clone();
            if first.tried_after == Some(changes) {
                // The gain is that of values fitted to one fold; the value to keep is fitted to both.
                self.state = self.descend(&base, first.parameter, Part::All, &mut Tried::new());
                first.gain = None;
                changes += u32::from(first.parameter.changed(&base.profile, &self.state.profile));
            } else if self.simulations < self.simulations_max {
                first.gain = self.cross_validate(&base, first.parameter);
                first.tried_after = Some(changes);
                let share = f64::from(self.simulations) / f64::from(self.simulations_max);
                progress(share.min(1.0) * ADDING_SHARE);
            } else {
                break;
            }
        }
        progress(ADDING_SHARE);
    }

    /// Takes back each change whose gain the other changes have reduced to chance, the smallest gain first.
    pub(super) fn eliminate(&mut self, candidates: &mut [Candidate<'_>]) {
        loop {
            let mut least: Option<(Gain, State, &mut Candidate<'_>)> = None;
            for candidate in &mut *candidates {
                let parameter = candidate.parameter;
                let before = parameter.get(self.given);
                let Some(before) =
                    before.filter(|_| parameter.changed(self.given, &self.state.profile))
                else {
                    continue;
                };
                let mut profile = self.state.profile.clone();
                parameter.set(&mut profile, before);
                let Some(without) = self.state_of(profile) else { continue };
                let gain = self.cross_validate(&without, parameter).unwrap_or(Gain::NONE);
                if !gain.counts() && least.as_ref().is_none_or(|(least, ..)| gain.ms < least.ms) {
                    least = Some((gain, without, candidate));
                }
            }
            let Some((gain, without, candidate)) = least else { return };
            candidate.gain = Some(gain);
            self.state = without;
        }
    }

    /// The gain of fitting one parameter, on requests that it is not fitted to: it is fitted to each fold,
    /// and what is simulated for the other fold then counts. `None` when neither fit moves it.
    fn cross_validate(&mut self, base: &State, parameter: &Parameter) -> Option<Gain> {
        let mut tried = Tried::new();
        let from_1 = self.descend(base, parameter, Part::Fold(1), &mut tried);
        let from_0 = self.descend(base, parameter, Part::Fold(0), &mut tried);
        let after = self.blocks.join(&from_1.simulated, &from_0.simulated);
        let moved = [&from_0, &from_1].iter().any(|s| parameter.changed(&base.profile, &s.profile));
        moved.then(|| self.blocks.gain(&base.simulated, &after))
    }

    /// Moves one parameter as long as that helps on a part of the requests.
    fn descend(
        &mut self,
        base: &State,
        parameter: &Parameter,
        part: Part,
        tried: &mut Tried,
    ) -> State {
        let Some(mut value) = parameter.get(&base.profile) else { return base.clone() };
        let mut best = base.clone();
        let mut best_ms = self.blocks.distance_ms(&best.simulated, part);
        let mut nearer = |value: f64| {
            let Some(state) = self.with_value(base, parameter, value, tried) else { return false };
            let ms = self.blocks.distance_ms(&state.simulated, part);
            if ms >= best_ms * (1.0 - STEP_GAIN_MIN) {
                return false;
            }
            (best, best_ms) = (state, ms);
            true
        };
        for choice in (0..parameter.choices()).map(f64::from) {
            if choice != value && nearer(choice) {
                value = choice;
            }
        }
        if parameter.choices() > 0 {
            return best;
        }
        let mut step = parameter.first_step();
        let step_min = step * if part == Part::All { STEP_MIN_TO_KEEP } else { STEP_MIN_TO_TRY };
        while step.abs() >= step_min {
            if nearer(value + step) {
                (value, step) = (value + step, step * 2.0);
            } else if nearer(value - step) {
                (value, step) = (value - step, step * -2.0);
            } else {
                step /= 2.0;
            }
        }
        best
    }

    /// A state with one parameter at another value; `None` when it may not have that.
    fn with_value(
        &mut self,
        base: &State,
        parameter: &Parameter,
        value: f64,
        tried: &mut Tried,
    ) -> Option<State> {
        if !parameter.allows(self.given, value) {
            return None;
        }
        if let Some(state) = tried.get(&value.to_bits()) {
            return state.clone();
        }
        let mut profile = base.profile.clone();
        parameter.set(&mut profile, value);
        let state = self.state_of(profile);
        tried.insert(value.to_bits(), state.clone());
        state
    }

    /// Simulates a profile; `None` when it is not valid.
    fn state_of(&mut self, profile: ProfileFile) -> Option<State> {
        self.simulations += 1;
        let valid = Profile::new(profile.clone()).ok()?;
        let simulated = responses(&simulate(valid, self.requests).ok()?);
        Some(State { profile, simulated })
    }
}
