//! Plans: where objects lie. A TOML file that needs nothing but profiles and the workload to be judged.

use std::collections::BTreeSet;
use std::path::Path;

use moirai_models::{Scheduler, WritePolicy};
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};
use moirai_volume::{ControllerWrites, Level};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file;
use crate::policy::{Arrays, DISKS_MAX, Goal, Policy, profile, resolved};
use crate::system::{ObjectOnArrays, SystemDescription};

/// Arrays of disks, and the objects on them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// The controllers of the arrays.
    #[serde(default)]
    pub controller: Arrays,
    /// The arrays.
    #[serde(rename = "array")]
    pub arrays: Vec<PlannedArray>,
    /// The objects.
    #[serde(rename = "object")]
    pub objects: Vec<Placement>,
}

/// An array of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedArray {
    /// What it is called.
    pub name: String,
    /// The profile of its disks.
    pub profile: String,
    /// How many disks it has.
    pub disks: usize,
    /// What a disk costs.
    #[serde(default)]
    pub cost: f64,
}

/// Where an object lies.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The object's name.
    pub name: String,
    /// Its size.
    pub size: String,
    /// The arrays that it is striped over, in the order of its stripe units.
    pub arrays: Vec<String>,
    /// Its RAID level on each array.
    pub level: String,
    /// Its stripe unit.
    pub stripe_unit: String,
    /// How much it grows in a year.
    #[serde(default)]
    pub growth: f64,
    /// What its response times must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

impl Plan {
    /// Reads and checks the plan in the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or the plan is not possible.
    pub fn read(path: &Path) -> Result<Plan> {
        let mut plan: Plan = file::read(path, "reading the plan")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for array in &mut plan.arrays {
            array.profile = resolved(&array.profile, folder);
        }
        plan.check().map_err(|problem| file::invalid(path, problem))?;
        plan.system().map_err(|problem| file::invalid(path, problem.to_string()))?;
        Ok(plan)
    }

    /// What no plan can have, if anything.
    fn check(&self) -> std::result::Result<(), String> {
        for array in &self.arrays {
            if !(1..=DISKS_MAX).contains(&array.disks) {
                let (name, disks) = (&array.name, array.disks);
                return Err(format!("array `{name}`: {disks} disks are not from 1 to {DISKS_MAX}"));
            }
            if !(array.cost >= 0.0 && array.cost.is_finite()) {
                return Err(format!(
                    "array `{}`: key `cost`: {} is no price",
                    array.name, array.cost
                ));
            }
        }
        for object in &self.objects {
            let problem = |problem: String| format!("object `{}`: {problem}", object.name);
            if !(object.growth >= 0.0 && object.growth.is_finite()) {
                return Err(problem(format!(
                    "key `growth`: {} is no share of the size",
                    object.growth
                )));
            }
            object.goal.as_ref().map_or(Ok(()), Goal::check).map_err(problem)?;
        }
        Ok(())
    }

    /// The plan as TOML, for the file at `path`.
    ///
    /// # Errors
    /// When a value cannot be written.
    pub fn text(&self, path: &Path) -> Result<String> {
        file::text(self, path)
    }

    /// A plan without objects on `arrays` arrays of the disks of `policy`, the cheapest disks first.
    #[must_use]
    pub fn arrays_of(policy: &Policy, name: &str, arrays: usize) -> Plan {
        // Cheap disks come first: a plan that needs few arrays has those.
        let mut kinds: Vec<&crate::policy::Disks> = policy.disks.iter().collect();
        kinds.sort_by(|one, other| one.cost.total_cmp(&other.cost));
        let kinds = kinds.into_iter().flat_map(|disks| {
            let width = disks.width.unwrap_or(policy.arrays.width).max(1);
            std::iter::repeat_n((disks, width), disks.count / width)
        });
        let array =
            |(index, (disks, width)): (usize, (&crate::policy::Disks, usize))| PlannedArray {
                name: format!("array{index}"),
                profile: disks.profile.clone(),
                disks: width,
                cost: disks.cost,
            };
        Plan {
            name: name.to_owned(),
            controller: policy.arrays.clone(),
            arrays: kinds.enumerate().map(array).take(arrays).collect(),
            objects: Vec::new(),
        }
    }

    /// What its disks cost.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.arrays.iter().map(|array| array.cost * array.disks as f64).sum()
    }

    /// The system that the plan describes, at rest.
    ///
    /// # Errors
    /// When a profile, an array, a level or a stripe unit is not there or not possible, or an array
    /// has too little room; the error names it.
    pub fn system(&self) -> Result<SystemDescription> {
        let mismatch = |problem: String| Error::Mismatch(problem);
        let mut names = BTreeSet::new();
        let mut arrays = Vec::with_capacity(self.arrays.len());
        for array in &self.arrays {
            if !names.insert(&array.name) {
                return Err(mismatch(format!("array `{}` is there twice", array.name)));
            }
            let profile = profile(&array.profile).map_err(mismatch)?;
            arrays.push(vec![profile; array.disks]);
        }
        let objects: Vec<ObjectOnArrays> =
            self.objects.iter().map(|object| self.placed(object)).collect::<Result<_>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = objects.iter().find(|object| !names.insert(&object.name)) {
            return Err(mismatch(format!("object `{}` is there twice", twice.name)));
        }
        let cache = match &self.controller.cache {
            None => None,
            Some(size) => {
                let size =
                    size.parse().map_err(|problem| mismatch(format!("key `cache`: {problem}")))?;
                let policy = match self.controller.write {
                    ControllerWrites::Back => WritePolicy::EARLY_DESTAGE,
                    ControllerWrites::Through => WritePolicy::Through,
                };
                Some((size, policy))
            }
        };
        let (scheduler, failed) = (Scheduler::default(), Vec::new());
        let rebuilds = false;
        let system = SystemDescription { arrays, scheduler, cache, objects, failed, rebuilds };
        match system.misfit() {
            Some(problem) => Err(mismatch(problem)),
            None => Ok(system),
        }
    }

    fn placed(&self, object: &Placement) -> Result<ObjectOnArrays> {
        let problem =
            |problem: String| Error::Mismatch(format!("object `{}`: {problem}", object.name));
        let size: ByteCount =
            object.size.parse().map_err(|error| problem(format!("key `size`: {error}")))?;
        let unit: ByteCount = object
            .stripe_unit
            .parse()
            .map_err(|error| problem(format!("key `stripe_unit`: {error}")))?;
        if unit.0 == 0 || !unit.0.is_multiple_of(BLOCK_BYTES) {
            let block = format!("key `stripe_unit`: {unit} is not a multiple of {BLOCK_BYTES} B");
            return Err(problem(block));
        }
        let level: Level =
            object.level.parse().map_err(|error| problem(format!("key `level`: {error}")))?;
        let mut arrays = Vec::with_capacity(object.arrays.len());
        for name in &object.arrays {
            let index = self.arrays.iter().position(|array| array.name == *name);
            let index = index.ok_or_else(|| problem(format!("there is no array `{name}`")))?;
            if arrays.contains(&index) {
                return Err(problem(format!("key `arrays`: `{name}` is there twice")));
            }
            let disks = self.arrays.get(index).map_or(0, |array| array.disks);
            level.check(disks).map_err(problem)?;
            arrays.push(index);
        }
        if arrays.is_empty() {
            return Err(problem("key `arrays`: it lies on no array".into()));
        }
        Ok(ObjectOnArrays {
            name: object.name.clone(),
            size: BlockCount::holding(size),
            arrays,
            level,
            unit: BlockCount::holding(unit),
        })
    }
}
