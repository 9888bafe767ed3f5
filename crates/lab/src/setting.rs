//! The disks that the experiments and the demo run on.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai::Access;
use moirai::devices::{Contents, HostBus, SimulatedDisk, SimulatedOptions};
use moirai::storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Request,
};
use moirai::units::{BlockCount, BlockRange, Lbn};
use moirai::volume::{LayoutDescription, Level, Volume};
use moirai_models::{Profile, Scheduler};

use crate::Failure;

/// What thesis 6.4.6 ran on, in words.
pub(crate) const FOUR_CHEETAHS: &str = "4 x Seagate Cheetah 36ES, quadrangles of depth 4";

/// The built-in profile called `name`.
pub(crate) fn profile(name: &str) -> Result<Profile, Failure> {
    Profile::built_in(name)
        .ok_or_else(|| Failure::Setting(format!("there is no profile of the drive {name}")))
}

/// A drive at rest, which takes the nearest request first.
pub(crate) fn drive(
    profile: &Profile,
    name: String,
    contents: Contents,
    host_bus: Option<Arc<HostBus>>,
) -> Arc<dyn Device> {
    scheduled_drive(profile, name, contents, (Scheduler::Sptf, host_bus))
}

/// A drive at rest, with a scheduler.
pub(crate) fn scheduled_drive(
    profile: &Profile,
    name: String,
    contents: Contents,
    (scheduler, host_bus): (Scheduler, Option<Arc<HostBus>>),
) -> Arc<dyn Device> {
    let options =
        SimulatedOptions { name, scheduler, contents, physical_block: BlockCount(1), host_bus };
    SimulatedDisk::start(profile.clone(), options)
}

/// The volume of thesis 6.4.6: four Cheetah 36ES, d = 4, b = 1, outermost zone.
pub(crate) fn four_cheetahs(
    contents: impl Fn() -> Contents,
    host_bus: Option<Arc<HostBus>>,
) -> Result<Arc<dyn Device>, Failure> {
    let profile = profile("seagate-cheetah-36es")?;
    let disk = |index| drive(&profile, format!("disk {index}"), contents(), host_bus.clone());
    let layout =
        LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: Some(0) };
    let disks = (0..4).map(disk).collect();
    let volume = Volume::new("four disks".into(), disks, Level::Raid0, layout);
    Ok(volume.map_err(Failure::Setting)?)
}

/// Clotho's MEMS store (6, "Experimental setup"): a G2 whose tips read 16 blocks at once.
pub(crate) fn mems_store() -> Result<Arc<dyn Device>, Failure> {
    Ok(moirai::devices::open("sim:mems-g2?tips=1024".parse()?, Access::Write)?)
}

/// What a store of an experiment of Clotho's lies on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bed {
    FourCheetahs,
    Mems,
}

impl Bed {
    pub(crate) fn device(self) -> Result<Arc<dyn Device>, Failure> {
        match self {
            Bed::FourCheetahs => four_cheetahs(Contents::memory, None),
            Bed::Mems => mems_store(),
        }
    }

    /// What figures on it begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Bed::FourCheetahs => "",
            Bed::Mems => "MEMS, ",
        }
    }
}

/// A device whose attributes are not told, as with the usual interface of disks.
#[derive(Debug)]
pub(crate) struct WithoutAttributes(pub(crate) Arc<dyn Device>);

type Known<T> = moirai::storage::Result<T>;

impl Device for WithoutAttributes {
    fn inquiry(&self) -> &Inquiry {
        self.0.inquiry()
    }

    fn ensemble(&self, _: Lbn) -> Known<Ensemble> {
        Ok(Ensemble { blocks: self.inquiry().all_blocks(), switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, _: Lbn) -> Known<BlockRange> {
        Ok(self.inquiry().all_blocks())
    }

    fn equivalent(&self, lbn: Lbn) -> Known<EquivalenceClass> {
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.0.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        self.0.flush()
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        self.0.discard(blocks)
    }
}
