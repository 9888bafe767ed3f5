//! The parameters of a profile that can be fitted, by name.

use std::fmt;
use std::str::FromStr;

use moirai_models::{CacheFile, OverheadsFile, ProfileFile, ReadAhead};

/// A parameter that can be fitted.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// Its name: the key in the profile, or what is done to the key's values.
    pub name: &'static str,
    /// The key whose source says that it was fitted.
    source: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A number, with the step that a search begins with.
    Number(f64, fn(&mut ProfileFile) -> &mut f64),
    /// One of the eight overheads.
    Overhead(fn(&mut OverheadsFile) -> &mut Option<f64>),
    Flag(fn(&mut ProfileFile) -> &mut bool),
    CacheFlag(fn(&mut CacheFile) -> &mut bool),
    ReadAhead,
    /// All points of the seek curve moved alike, so that the first has the value.
    SeekShift,
    /// The seek curve stretched from its first point on, so that its last point takes the value longer than
    /// its first.
    SeekStretch,
}

/// A name of no parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no parameter `{name}` to fit: use one of {known}")]
pub struct UnknownParameter {
    name: String,
    known: String,
}

const FITTED: &str = "; fitted to a measured trace";

const READ_AHEADS: [(ReadAhead, &str); 5] = [
    (ReadAhead::None, "none"),
    (ReadAhead::Track, "track"),
    (ReadAhead::Cylinder, "cylinder"),
    (ReadAhead::Segment, "segment"),
    (ReadAhead::NextTrack, "next-track"),
];

/// Steps to begin with: a tenth of a millisecond where times are wanted, a thousandth of the rate.
const STEP_MS: f64 = 0.1;
const STEP_RPM: f64 = 5.0;
const STEP_MB_PER_S: f64 = 0.2;

/// How far a fit may take a time, in ms, and the rates, as a part of them: a parameter is to be slightly
/// off, and a search that goes further mends with it what something else is to blame for.
const TIME_SLACK_MS: f64 = 2.0;
const ROTATION_SLACK: f64 = 0.01;
const BUS_SLACK: f64 = 0.5;

/// All parameters that can be fitted, the choices first: they are the larger steps.
pub const PARAMETERS: [Parameter; 24] = [
    flag("zero_latency_read", "zero_latency_read", |file| &mut file.zero_latency_read),
    flag("zero_latency_write", "zero_latency_write", |file| &mut file.zero_latency_write),
    Parameter { name: "cache.read_ahead", source: "cache", kind: Kind::ReadAhead },
    cache_flag("cache.adaptive", |cache| &mut cache.adaptive),
    cache_flag("cache.read_while_waiting", |cache| &mut cache.read_while_waiting),
    cache_flag("cache.hit_on_arriving", |cache| &mut cache.hit_on_arriving),
    cache_flag("cache.discard_sent", |cache| &mut cache.discard_sent),
    cache_flag("cache.write_drops_reads", |cache| &mut cache.write_drops_reads),
    cache_flag("cache.hit_on_written", |cache| &mut cache.hit_on_written),
    number("bus_mb_per_s", "bus_mb_per_s", STEP_MB_PER_S, |file| &mut file.bus_mb_per_s),
    overhead("overheads.read_hit_after_read_ms", |given| &mut given.read_hit_after_read_ms),
    overhead("overheads.read_hit_after_write_ms", |given| &mut given.read_hit_after_write_ms),
    overhead("overheads.read_miss_after_read_ms", |given| &mut given.read_miss_after_read_ms),
    overhead("overheads.read_miss_after_write_ms", |given| &mut given.read_miss_after_write_ms),
    overhead("overheads.write_hit_after_read_ms", |given| &mut given.write_hit_after_read_ms),
    overhead("overheads.write_hit_after_write_ms", |given| &mut given.write_hit_after_write_ms),
    overhead("overheads.write_miss_after_read_ms", |given| &mut given.write_miss_after_read_ms),
    overhead("overheads.write_miss_after_write_ms", |given| &mut given.write_miss_after_write_ms),
    number("overheads.read_completion_ms", "overheads", STEP_MS, |file| {
        &mut file.overheads.read_completion_ms
    }),
    number("write_settle_ms", "write_settle_ms", STEP_MS, |file| &mut file.write_settle_ms),
    number("head_switch_ms", "head_switch_ms", STEP_MS, |file| &mut file.head_switch_ms),
    Parameter { name: "seek_ms.shift", source: "seek_ms", kind: Kind::SeekShift },
    Parameter { name: "seek_ms.stretch", source: "seek_ms", kind: Kind::SeekStretch },
    number("rotation_rpm", "rotation_rpm", STEP_RPM, |file| &mut file.rotation_rpm),
];

const fn number(
    name: &'static str,
    source: &'static str,
    first_step: f64,
    field: fn(&mut ProfileFile) -> &mut f64,
) -> Parameter {
    Parameter { name, source, kind: Kind::Number(first_step, field) }
}

const fn overhead(
    name: &'static str,
    field: fn(&mut OverheadsFile) -> &mut Option<f64>,
) -> Parameter {
    Parameter { name, source: "overheads", kind: Kind::Overhead(field) }
}

const fn flag(
    name: &'static str,
    source: &'static str,
    field: fn(&mut ProfileFile) -> &mut bool,
) -> Parameter {
    Parameter { name, source, kind: Kind::Flag(field) }
}

const fn cache_flag(name: &'static str, field: fn(&mut CacheFile) -> &mut bool) -> Parameter {
    Parameter { name, source: "cache", kind: Kind::CacheFlag(field) }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Parameter {
    type Err = UnknownParameter;

    fn from_str(name: &str) -> Result<Parameter, UnknownParameter> {
        let found = PARAMETERS.iter().find(|parameter| parameter.name == name);
        found.copied().ok_or_else(|| UnknownParameter {
            name: name.to_owned(),
            known: PARAMETERS.map(|parameter| parameter.name).join(", "),
        })
    }
}

impl Parameter {
    /// Whether a profile has it.
    #[must_use]
    pub fn is_of(&self, profile: &ProfileFile) -> bool {
        self.get(profile).is_some()
    }

    /// Values it can have, when it is a choice; 0 for a number.
    pub(super) fn choices(&self) -> u32 {
        match self.kind {
            Kind::Flag(_) | Kind::CacheFlag(_) => 2,
            Kind::ReadAhead => READ_AHEADS.len() as u32,
            _ => 0,
        }
    }

    pub(super) fn first_step(&self) -> f64 {
        match self.kind {
            Kind::Number(step, _) => step,
            _ => STEP_MS,
        }
    }

    /// Its value in a profile; `None` when the profile has no such thing.
    pub(super) fn get(&self, profile: &ProfileFile) -> Option<f64> {
        let mut profile = profile.clone();
        match self.kind {
            Kind::Number(_, field) => Some(*field(&mut profile)),
            Kind::Overhead(field) => {
                let command_ms = profile.overheads.command_ms;
                Some(field(&mut profile.overheads).unwrap_or(command_ms))
            }
            Kind::Flag(field) => Some(f64::from(*field(&mut profile))),
            Kind::CacheFlag(field) => profile.cache.as_mut().map(|cache| f64::from(*field(cache))),
            Kind::ReadAhead => {
                let policy = profile.cache.as_ref()?.read_ahead;
                READ_AHEADS
                    .iter()
                    .zip(0u32..)
                    .find_map(|((known, _), index)| (*known == policy).then_some(f64::from(index)))
            }
            Kind::SeekShift => profile.seek_ms.first().map(|(_, ms)| *ms),
            Kind::SeekStretch if profile.seek_ms.len() > 1 => {
                let (first, last) = (profile.seek_ms.first()?, profile.seek_ms.last()?);
                Some(last.1 - first.1).filter(|span_ms| *span_ms > 0.0)
            }
            Kind::SeekStretch => None,
        }
    }

    /// Whether `value` is one that the parameter may be given, when `profile` is how it was before the
    /// fit.
    pub(super) fn allows(&self, profile: &ProfileFile, value: f64) -> bool {
        let Some(before) = self.get(profile) else { return false };
        let slack = match self.kind {
            Kind::Flag(_) | Kind::CacheFlag(_) | Kind::ReadAhead => return true,
            Kind::Number(..) if self.name == "rotation_rpm" => before * ROTATION_SLACK,
            Kind::Number(..) if self.name == "bus_mb_per_s" => before * BUS_SLACK,
            _ => TIME_SLACK_MS,
        };
        // Settling may be negative in a profile where reads wait longer, but no fit makes it so.
        (before - slack..=before + slack).contains(&value) && value >= before.min(0.0)
    }

    pub(super) fn set(&self, profile: &mut ProfileFile, value: f64) {
        let before = self.get(profile).unwrap_or(value);
        match self.kind {
            Kind::Number(_, field) => *field(profile) = value,
            Kind::Overhead(field) => *field(&mut profile.overheads) = Some(value),
            Kind::Flag(field) => *field(profile) = value > 0.5,
            Kind::CacheFlag(field) => {
                if let Some(cache) = &mut profile.cache {
                    *field(cache) = value > 0.5;
                }
            }
            Kind::ReadAhead => {
                if let (Some(cache), Some((policy, _))) =
                    (&mut profile.cache, READ_AHEADS.get(value as usize))
                {
                    cache.read_ahead = *policy;
                }
            }
            Kind::SeekShift => {
                for (_, ms) in &mut profile.seek_ms {
                    *ms += value - before;
                }
            }
            Kind::SeekStretch => {
                let first = profile.seek_ms.first().map_or(0.0, |(_, ms)| *ms);
                for (_, ms) in &mut profile.seek_ms {
                    *ms = first + (*ms - first) * value / before;
                }
            }
        }
    }

    /// Whether two profiles differ in it, as far as it is shown.
    pub(super) fn changed(&self, before: &ProfileFile, after: &ProfileFile) -> bool {
        self.shown(before) != self.shown(after)
    }

    /// The value for people.
    pub(super) fn shown(&self, profile: &ProfileFile) -> String {
        match (self.kind, self.get(profile)) {
            (_, None) => "-".into(),
            (Kind::ReadAhead, Some(value)) => {
                READ_AHEADS.get(value as usize).map_or_else(String::new, |(_, name)| (*name).into())
            }
            (Kind::Flag(_) | Kind::CacheFlag(_), Some(value)) => (value > 0.5).to_string(),
            (_, Some(value)) => format!("{value:.4}"),
        }
    }

    pub(super) fn note_source(&self, profile: &mut ProfileFile) {
        let source = profile.sources.entry(self.source.to_owned()).or_default();
        let kinds = ["published: ", "interpolated: "];
        if let Some(kind) = kinds.iter().find(|kind| source.starts_with(**kind)) {
            *source = source.replacen(kind, "extracted: ", 1);
        } else if source.is_empty() {
            *source = "extracted: not given before".into();
        }
        if !source.ends_with(FITTED) {
            source.push_str(FITTED);
        }
    }
}
