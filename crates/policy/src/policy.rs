//! Policies: what the objects must survive and achieve, and which disks there are. A TOML file.

use std::collections::BTreeSet;
use std::path::Path;

use moirai_models::Profile;
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};
use moirai_volume::{ControllerWrites, Level};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::file;
use crate::workload::Workload;

/// Disks, the arrays that they are in or may be put in, and the objects to place.
///
/// ```toml
/// [[disks]]
/// profile = "fujitsu-maj3182mc"
/// count = 20
/// cost = 300.0
///
/// [arrays]
/// width = 5
/// cache = "64MiB"
///
/// [[object]]
/// name = "orders"
/// size = "16GiB"
/// goal = { percentile = 95, response_ms = 20.0 }
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The disks that are there, or can be bought.
    pub disks: Vec<Disks>,
    /// How disks are put into arrays.
    #[serde(default)]
    pub arrays: Arrays,
    /// The objects.
    #[serde(rename = "object")]
    pub objects: Vec<Object>,
}

/// Disks of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disks {
    /// A built-in profile, or the path of a profile's file.
    pub profile: String,
    /// How many there are.
    pub count: usize,
    /// What one costs, in any currency.
    #[serde(default)]
    pub cost: f64,
    /// Disks of an array of this kind, where not as [`Arrays::width`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
}

/// Arrays of disks of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Arrays {
    /// Disks of an array.
    #[serde(default = "five")]
    pub width: usize,
    /// The cache of each array's controller; none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// When the controller gives writes to the disks.
    #[serde(default)]
    pub write: ControllerWrites,
    /// Whether all arrays are there already; else a plan may use fewer, and cost less.
    #[serde(default)]
    pub fixed: bool,
}

/// An object to place.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Its name, as the workload has it.
    pub name: String,
    /// Its size.
    pub size: String,
    /// How many disks of an array may fail without loss.
    #[serde(default = "one_failure")]
    pub survives: usize,
    /// The only RAID level allowed, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The only stripe unit allowed, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_unit: Option<String>,
    /// How much it grows in a year: 0.3 is 30 %.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub growth: f64,
    /// What its response times must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

/// A response time or rate that an object must have.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The percentile of response times that `response_ms` bounds; the mean without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// The longest response time at that percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<f64>,
    /// The least requests a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
}

/// The most disks of an array, and of a kind.
pub(crate) const DISKS_MAX: usize = 10_000;

fn five() -> usize {
    5
}

fn one_failure() -> usize {
    1
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for Arrays {
    fn default() -> Arrays {
        Arrays { width: five(), cache: None, write: ControllerWrites::Back, fixed: false }
    }
}

impl Policy {
    /// Reads and checks the policy in the file at `path`. Paths of profiles are relative to its folder.
    ///
    /// # Errors
    /// When the file cannot be read, or its parts contradict each other.
    pub fn read(path: &Path) -> Result<Policy> {
        let mut policy: Policy = file::read(path, "reading the policy")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for disks in &mut policy.disks {
            disks.profile = resolved(&disks.profile, folder);
        }
        policy.check().map_err(|problem| file::invalid(path, problem))?;
        Ok(policy)
    }

    /// Parses the text of a policy; `path` is what messages call it.
    ///
    /// # Errors
    /// As [`Policy::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Policy> {
        let policy: Policy = file::parse(text, path)?;
        policy.check().map_err(|problem| file::invalid(path, problem))?;
        Ok(policy)
    }

    /// The goals that no plan meets under `workload`, if any: of more requests a second than come, and of objects without a stream. Where
    /// none has one, the names do not agree, which who simulates a plan says.
    pub(crate) fn check_goals(&self, workload: &Workload) -> std::result::Result<(), String> {
        let is_known = |object: &Object| workload.stream(&object.name).is_some();
        if !self.objects.iter().any(is_known) {
            return Ok(());
        }
        for Object { name, goal, .. } in &self.objects {
            let Some(goal) = goal else { continue };
            let Some(stream) = workload.stream(name) else {
                return Err(format!(
                    "object `{name}` has a goal, and the workload has no stream of it: leave the goal out, or give the stream"
                ));
            };
            if let (Some(least), Some(offered)) = (goal.iops, workload.mean_iops(stream))
                && least > offered
            {
                return Err(format!(
                    "object `{name}` wants {least} requests/s, and its stream has {offered:.3} on average: no plan serves \
                     more than come"
                ));
            }
        }
        Ok(())
    }

    /// What contradicts itself or is not possible, if anything.
    pub fn check(&self) -> std::result::Result<(), String> {
        if self.disks.is_empty() || self.disks.iter().all(|disks| disks.count == 0) {
            return Err("key `disks`: there is no disk to place an object on".into());
        }
        for disks in &self.disks {
            profile(&disks.profile)?;
            let width = disks.width.unwrap_or(self.arrays.width);
            if !(1..=DISKS_MAX).contains(&width) {
                return Err(format!(
                    "key `width`: {width} disks of an array are not from 1 to {DISKS_MAX}"
                ));
            }
            if disks.count > DISKS_MAX {
                return Err(format!(
                    "key `count`: {} disks are more than {DISKS_MAX}",
                    disks.count
                ));
            }
            if width > disks.count {
                let (count, profile) = (disks.count, &disks.profile);
                return Err(format!(
                    "disks `{profile}`: {count} are too few for an array of {width}: add disks, or \
                     set `width`"
                ));
            }
            if !(disks.cost >= 0.0 && disks.cost.is_finite()) {
                return Err(format!(
                    "disks `{}`: key `cost`: {} is no price",
                    disks.profile, disks.cost
                ));
            }
        }
        if let Some(cache) = &self.arrays.cache {
            cache
                .parse::<ByteCount>()
                .map_err(|problem| format!("key `arrays.cache`: {problem}"))?;
        }
        if self.objects.is_empty() {
            return Err("there is no object: write a table [[object]]".into());
        }
        let mut names = BTreeSet::new();
        for object in &self.objects {
            if !names.insert(&object.name) {
                return Err(format!("object `{}` is there twice", object.name));
            }
            let problem = |problem| format!("object `{}`: {problem}", object.name);
            object.check().map_err(problem)?;
            self.check_levels(object).map_err(problem)?;
        }
        Ok(())
    }

    /// Checks that some array has a level that the object may have.
    fn check_levels(&self, object: &Object) -> std::result::Result<(), String> {
        let widths: BTreeSet<usize> =
            self.disks.iter().map(|disks| disks.width.unwrap_or(self.arrays.width)).collect();
        if widths.iter().any(|width| !object.levels(*width).is_empty()) {
            return Ok(());
        }
        let widths: Vec<String> = widths.iter().map(usize::to_string).collect();
        let (failures, widths) = (object.survives, widths.join(" or "));
        Err(match &object.level {
            Some(level) => {
                format!(
                    "level {level} is not possible on arrays of {widths} disks, or does not survive {failures} failures"
                )
            }
            None => format!("no level on arrays of {widths} disks survives {failures} failures"),
        })
    }
}

impl Object {
    /// An object that survives one failed disk.
    #[must_use]
    pub fn new(name: impl Into<String>, size: ByteCount) -> Object {
        Object {
            name: name.into(),
            size: size.0.to_string(),
            survives: 1,
            level: None,
            stripe_unit: None,
            growth: 0.0,
            goal: None,
        }
    }

    /// Its size in blocks.
    #[must_use]
    pub fn blocks(&self) -> BlockCount {
        BlockCount::holding(self.size.parse().unwrap_or(ByteCount(BLOCK_BYTES)))
    }

    /// Its only stripe unit, if one is set.
    #[must_use]
    pub fn fixed_unit(&self) -> Option<BlockCount> {
        let unit = self.stripe_unit.as_ref()?.parse().ok()?;
        Some(BlockCount::holding(unit))
    }

    /// The levels that it may have on an array of `width` disks.
    #[must_use]
    pub fn levels(&self, width: usize) -> Vec<Level> {
        let all = ["raid0", "raid10", "raid1", "raid5", "raid6"];
        let named: Vec<Level> = match &self.level {
            Some(level) => level.parse().into_iter().collect(),
            None => all.into_iter().filter_map(|name| name.parse().ok()).collect(),
        };
        let bears =
            |level: &Level| level.check(width).is_ok() && level.failures(width) >= self.survives;
        named.into_iter().filter(bears).collect()
    }

    fn check(&self) -> std::result::Result<(), String> {
        let size: ByteCount =
            self.size.parse().map_err(|problem| format!("key `size`: {problem}"))?;
        if size.0 < BLOCK_BYTES {
            return Err(format!("key `size`: {size} is less than a block of {BLOCK_BYTES} B"));
        }
        if let Some(level) = &self.level {
            level.parse::<Level>().map_err(|problem| format!("key `level`: {problem}"))?;
        }
        if let Some(unit) = &self.stripe_unit {
            let unit: ByteCount =
                unit.parse().map_err(|problem| format!("key `stripe_unit`: {problem}"))?;
            if unit.0 == 0 || !unit.0.is_multiple_of(BLOCK_BYTES) {
                return Err(format!(
                    "key `stripe_unit`: {unit} is not a multiple of {BLOCK_BYTES} B"
                ));
            }
        }
        if !(self.growth >= 0.0 && self.growth.is_finite()) {
            return Err(format!("key `growth`: {} is no share of the size", self.growth));
        }
        self.goal.as_ref().map_or(Ok(()), Goal::check)
    }
}

impl Goal {
    /// What is wrong with the goal, if anything.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let Goal { percentile, response_ms, iops } = *self;
        if response_ms.is_none() && iops.is_none() {
            return Err("key `goal`: give `response_ms`, `iops` or both".into());
        }
        if percentile.is_some_and(|percent| !(percent > 0.0 && percent < 100.0)) {
            return Err("key `goal.percentile`: a percentile is above 0 and below 100".into());
        }
        if percentile.is_some() && response_ms.is_none() {
            return Err("key `goal.percentile`: without `response_ms` it bounds nothing".into());
        }
        if [response_ms, iops]
            .into_iter()
            .flatten()
            .any(|value| !(value > 0.0 && value.is_finite()))
        {
            return Err("key `goal`: `response_ms` and `iops` are above 0".into());
        }
        Ok(())
    }
}

/// The name of a built-in profile, or the absolute path of a profile's file named in a file of `folder`.
pub(crate) fn resolved(name: &str, folder: &Path) -> String {
    if Profile::built_in(name).is_some() {
        return name.to_owned();
    }
    let path = folder.join(name);
    std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
}

/// The profile called `name`, or in the file at the path `name`.
pub(crate) fn profile(name: &str) -> std::result::Result<Profile, String> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok(profile);
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        format!("profile `{name}` is neither built in nor a file that can be read: {error}")
    })?;
    Profile::parse(&text).map_err(|error| format!("profile `{name}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: &str = "[[disks]]\nprofile = \"fujitsu-maj3182mc\"\ncount = 10\n";

    fn problem(text: &str) -> String {
        Policy::parse(text, Path::new("p.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_that_is_not_possible_names_the_object_and_the_key() {
        for (object, named) in [
            ("size = \"1GiB\"\nsurvives = 5", "no level on arrays of 5 disks survives 5 failures"),
            ("size = \"1GiB\"\nlevel = \"raid10\"", "raid10 is not possible on arrays of 5 disks"),
            ("size = \"1 cubit\"", "`size`"),
            ("size = \"1GiB\"\ngoal = {}", "`goal`"),
            (
                "size = \"1GiB\"\ngoal = { percentile = 101, response_ms = 1.0 }",
                "`goal.percentile`",
            ),
            ("size = \"1GiB\"\nstripe_unit = \"100\"", "`stripe_unit`"),
            ("size = \"1GiB\"\nsise = \"2GiB\"", "unknown field `sise`"),
        ] {
            let problem = problem(&format!("{DISKS}[[object]]\nname = \"a\"\n{object}\n"));
            assert!(problem.starts_with("p.toml") && problem.contains(named), "{problem}");
        }
        let few = DISKS.replace("count = 10", "count = 3");
        let few = problem(&format!("{few}[[object]]\nname = \"a\"\nsize = \"1GiB\"\n"));
        assert!(few.contains("3 are too few for an array of 5"), "{few}");
        let unknown = DISKS.replace("fujitsu-maj3182mc", "no-such-disk");
        let unknown = problem(&format!("{unknown}[[object]]\nname = \"a\"\nsize = \"1GiB\"\n"));
        assert!(unknown.contains("`no-such-disk`"), "{unknown}");
    }

    #[test]
    fn levels_are_those_that_survive_and_fit() {
        let names = |survives: usize, width: usize| -> Vec<String> {
            let object = Object { survives, ..Object::new("a", ByteCount::mib(1)) };
            object.levels(width).iter().map(Level::to_string).collect()
        };
        assert_eq!(names(1, 5), ["raid1", "raid5", "raid6"]);
        assert_eq!(names(1, 4), ["raid10", "raid1", "raid5", "raid6"]);
        assert_eq!(names(2, 6), ["raid1", "raid6"]);
        assert_eq!(names(0, 2), ["raid0", "raid10", "raid1"]);
    }
}
