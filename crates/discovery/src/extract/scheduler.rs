//! In which order a drive serves what waits (thesis 4.2.5): requests are laid so that each kind takes another one first.

use moirai_storage::Op;
use moirai_units::Lbn;

use super::rig::Rig;
use crate::error::Result;

/// How a drive orders requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// As they came.
    Fcfs,
    /// The next higher block, and from the last one on again from the lowest.
    CLook,
    /// The nearest cylinder.
    Sstf,
    /// The shortest positioning time, or a variant that minds age.
    Sptf,
}

/// Angles at which a request is laid.
const ANGLES: u32 = 8;
/// Parts of a turn that a request on the near cylinder is late by: the platter has just passed it.
const TRIES: u32 = 24;

impl Rig<'_, '_> {
    /// The kind of scheduler; `None` where the drive is too small to tell.
    pub(super) async fn scheduler(&mut self) -> Result<Option<SchedulerKind>> {
        let cylinders = self.last_cylinder().map_or(0, |last| last + 1);
        let here = self.cylinder_from(cylinders / 2);
        let far = self.cylinder_from(cylinders * 9 / 10);
        let blocks = here.and_then(|here| {
            let below = (0..here).rev().find(|at| self.block_at(*at, 0, 0.5).is_some())?;
            let next = self.cylinder_from(here + 1)?;
            let at = |cylinder: u32| self.block_at(cylinder, 0, 0.5);
            Some((at(here)?, at(next)?, at(below)?, at(far?)?))
        });
        let Some((here, next, below, far)) = blocks.filter(|all| all.1 < all.3) else {
            return Ok(None);
        };
        // Upwards the nearest comes first, for some angle, unless they are served as they came.
        if self.is_always_first(here, far, next).await? {
            return Ok(Some(SchedulerKind::Fcfs));
        }
        // Going up through all blocks, one far above always comes before one just below.
        if self.is_always_first(here, far, below).await? {
            return Ok(Some(SchedulerKind::CLook));
        }
        // Another block of the track costs no seek, but nearly a turn once it has passed; the next cylinder costs a seek.
        // By the nearest cylinder the track comes first always, by positioning time not always.
        let Some(cylinder) = self.geometry.locate(here).map(|at| at.cylinder) else {
            return Ok(None);
        };
        for part in 1..TRIES {
            let on_track = self.block_at(cylinder, 0, f64::from(part) / f64::from(TRIES));
            let beside = self.geometry.locate(next).map(|at| at.cylinder);
            let beside = beside.and_then(|at| {
                self.block_at(at, 0, (0.5 + f64::from(part * 7 % TRIES) / f64::from(TRIES)).fract())
            });
            if let (Some(on_track), Some(beside)) = (on_track.filter(|at| *at != here), beside)
                && self.is_first(here, beside, on_track).await?
            {
                return Ok(Some(SchedulerKind::Sptf));
            }
        }
        Ok(Some(SchedulerKind::Sstf))
    }

    /// Whether `one` is served before the blocks of the track of `other`, wherever those pass.
    async fn is_always_first(&mut self, here: Lbn, one: Lbn, other: Lbn) -> Result<bool> {
        let Some(at) = self.geometry.locate(other) else { return Ok(false) };
        for part in 0..ANGLES {
            let part = f64::from(part) / f64::from(ANGLES);
            let Some(other) = self.block_at(at.cylinder, at.head, part) else { continue };
            if !self.is_first(here, one, other).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// With the head over `here`: whether `one`, which is asked for first, is served before `other`. Asked until it is so twice, as
    /// answers may be held up.
    async fn is_first(&mut self, here: Lbn, one: Lbn, other: Lbn) -> Result<bool> {
        let mut seen = [0_u32; 2];
        loop {
            let both = vec![
                self.drive.prepare(Op::Read, one, 1).await?,
                self.drive.prepare(Op::Read, other, 1).await?,
            ];
            self.drive.read(here, 1).await?;
            let timings = self.drive.submit(both).await?;
            let ends = (timings.first(), timings.get(1));
            let is_first = ends.0.map(|end| end.finished) < ends.1.map(|end| end.finished);
            let [not, first] = &mut seen;
            let count = if is_first { first } else { not };
            *count += 1;
            if *count == 2 {
                return Ok(is_first);
            }
        }
    }
}
