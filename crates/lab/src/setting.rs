//! The disks that the experiments and the demo run on.

use std::sync::Arc;

use moirai::devices::{Contents, HostBus, SimulatedDisk, SimulatedOptions};
use moirai::storage::Device;
use moirai::units::BlockCount;
use moirai::volume::{LayoutDescription, Level, Volume};
use moirai_models::{Profile, Scheduler};

use crate::Failure;

/// What thesis 6.4.6 ran on, in words.
pub(crate) const FOUR_CHEETAHS: &str = "4 x Seagate Cheetah 36ES, quadrangles of depth 4";

/// The volume of thesis 6.4.6: four Cheetah 36ES, d = 4, b = 1, outermost zone.
pub(crate) fn four_cheetahs(
    contents: impl Fn() -> Contents,
    host_bus: Option<Arc<HostBus>>,
) -> Result<Arc<dyn Device>, Failure> {
    let profile = Profile::built_in("seagate-cheetah-36es")
        .ok_or_else(|| Failure::Setting("there is no profile of the drive".into()))?;
    let disk = |index| {
        let options = SimulatedOptions {
            name: format!("disk {index}"),
            scheduler: Scheduler::Sptf,
            contents: contents(),
            host_bus: host_bus.clone(),
        };
        SimulatedDisk::start(profile.clone(), options) as Arc<dyn Device>
    };
    let layout =
        LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: Some(0) };
    let volume = Volume::new("four disks".into(), (0..4).map(disk).collect(), Level::Raid0, layout);
    Ok(volume.map_err(Failure::Setting)?)
}
