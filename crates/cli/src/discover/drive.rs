//! A drive that was examined by its diagnostic commands.

use moirai::discovery::{DriveFound, SchedulerKind};
use moirai::storage::Device;
use moirai::volume::zones;
use moirai_models::{Profile, ProfileFile};

use super::{Discovered, Disk, ShownField, ShownStep};
use crate::device::{ShownProfile, ShownZone};
use crate::failure::Failure;

/// A profile as the text of a file.
pub(super) fn text_of(file: &ProfileFile) -> Result<String, Failure> {
    toml::to_string(file).map_err(|error| Failure::Failed(error.to_string()))
}

/// What is shown of a drive whose tracks `device` serves.
pub(super) fn discovered(
    device: &dyn Device,
    found: &DriveFound,
    file: ProfileFile,
) -> Result<Discovered, Failure> {
    let inquiry = device.inquiry();
    let profile = Profile::new(file).map_err(|error| Failure::Failed(error.to_string()))?;
    let scheduler = found.scheduler.map(|kind| match kind {
        SchedulerKind::Fcfs => "fcfs",
        SchedulerKind::CLook => "c-look",
        SchedulerKind::Sstf => "sstf",
        SchedulerKind::Sptf => "sptf",
    });
    let steps = found.steps.iter();
    let steps = steps
        .map(|(step, elapsed)| ShownStep { step: step.name(), elapsed_device_s: elapsed.as_s() });
    let fields = found.cache_fields.named().map(|(field, told)| ShownField {
        field,
        can_be_changed: told.can_set,
        has_effect: told.has_effect,
    });
    Ok(Discovered {
        device: inquiry.name.clone(),
        method: "diagnostic",
        capacity_bytes: inquiry.capacity.bytes().0,
        parallelism: 1,
        zones: zones(device)?.into_iter().map(ShownZone::from).collect(),
        profile: Some(Disk::Drive(Box::new(ShownProfile::from(profile)))),
        scheduler,
        caching_page: fields.into(),
        array: None,
        throughput: None,
        system: None,
        unsure: Vec::new(),
        doubts: found.doubts.clone(),
        kept: None,
        elapsed_device_s: found.elapsed.as_s(),
        steps: steps.collect(),
        commands: found.commands.clone(),
    })
}
