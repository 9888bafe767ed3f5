//! The commands that a simulated drive answers besides reads and writes, from its geometry.

use moirai_models::{BadPlace, CacheSwitches, Geometry};
use moirai_runtime::{now, sleep};
use moirai_storage::{
    Answer, CachePage, CachePages, Defect, DefectLists, Diagnostics, Located, Result, Sector,
    Timing,
};
use moirai_units::{BlockCount, Lbn, Location};

use super::SimulatedDisk;

/// What the caching page says of a drive that reads ahead as far as it likes.
const NO_LIMIT: u16 = u16::MAX;

impl SimulatedDisk {
    /// An answer from the drive's tables, after the time that the drive takes for it.
    fn answer<'a, T: Send>(
        &'a self,
        look: impl FnOnce(&Geometry) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.simulation.check()?;
            let takes = self.simulation.mechanism.state.lock().model.diagnostic();
            sleep(takes).await;
            look(&self.geometry)
        })
    }

    fn cache_pages(&self) -> CachePages {
        let switches = self.simulation.mechanism.state.lock().model.cache_switches();
        let limit = |blocks: BlockCount| u16::try_from(blocks.0).unwrap_or(NO_LIMIT);
        CachePages {
            current: CachePage {
                reads: switches.is_some_and(|switches| switches.reads),
                writes: self.simulation.inquiry.volatile_cache
                    && switches.is_some_and(|switches| switches.writes),
                read_ahead_blocks: switches.map_or(0, |switches| limit(switches.read_ahead_blocks)),
            },
            can_set_reads: switches.is_some(),
            can_set_writes: self.simulation.inquiry.volatile_cache,
            can_set_read_ahead: switches.is_some(),
        }
    }
}

fn defect(place: &BadPlace) -> Defect {
    let Location { cylinder, head, sector } = place.location;
    Defect { cylinder, head, sector: (!place.is_track).then_some(sector) }
}

impl Diagnostics for SimulatedDisk {
    fn capacity(&self) -> Answer<'_, BlockCount> {
        self.answer(|geometry| Ok(geometry.capacity()))
    }

    fn locate(&self, lbn: Lbn) -> Answer<'_, Located> {
        self.answer(move |geometry| {
            let location = geometry.locate(lbn).ok_or_else(|| self.simulation.past_end(lbn))?;
            Ok(Located { location, is_moved: geometry.is_remapped(lbn) })
        })
    }

    fn sector(&self, at: Location) -> Answer<'_, Option<Sector>> {
        self.answer(move |geometry| {
            let holds = geometry.lbn_at(at).map_or(Sector::Reserved, Sector::Block);
            Ok(geometry.has(at).then_some(holds))
        })
    }

    fn defects(&self) -> Answer<'_, DefectLists> {
        self.answer(|geometry| {
            let (slipped, remapped) = geometry.defects();
            Ok(DefectLists {
                primary: slipped.iter().map(defect).collect(),
                grown: remapped.iter().map(defect).collect(),
            })
        })
    }

    fn cache(&self) -> Answer<'_, CachePages> {
        self.answer(|_| Ok(self.cache_pages()))
    }

    fn set_cache(&self, page: CachePage) -> Answer<'_, ()> {
        self.answer(move |_| {
            let read_ahead_blocks = match page.read_ahead_blocks {
                NO_LIMIT => BlockCount(u64::MAX),
                limit => BlockCount(u64::from(limit)),
            };
            let CachePage { reads, writes, .. } = page;
            let switches = CacheSwitches { reads, writes, read_ahead_blocks };
            self.simulation.mechanism.state.lock().model.switch_cache(now(), switches);
            Ok(())
        })
    }

    fn seek(&self, lbn: Lbn) -> Answer<'_, Timing> {
        Box::pin(async move {
            self.simulation.check()?;
            self.track(lbn)?;
            let moved = self.simulation.hand_over(|disk, id| disk.seek(now(), id, lbn));
            self.simulation.mechanism.bell.notify_one();
            let done = moved.await.map_err(|_| self.simulation.is_still())?;
            Ok(Timing {
                issued: done.issued,
                started: done.started,
                finished: done.finished,
                parts: Some(done.parts),
            })
        })
    }
}
