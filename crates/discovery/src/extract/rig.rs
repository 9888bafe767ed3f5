//! Two commands, the time between them, and what the second one takes at least.
//!
//! The thesis's central technique (4.2.2): of two commands the distance is varied until the second one need not wait for the
//! platter. Here the host waits between them. The second command ends when its block has passed the head, so its end does not
//! depend on the wait until the drive is too late for that turn. At this *threshold* nothing in its response is rotation:
//!
//! ```text
//!   first ends                     second ends                  the same, a turn later
//!       |--- wait ---|--- response ----|                                  |
//!       |------- longest wait -------|-- least response: overhead, moving, one sector, what comes behind it
//! ```

use moirai_geometry::Geometry;
use moirai_storage::Op;
use moirai_units::{Lbn, Location};

use crate::drive::Drive;
use crate::error::Result;
use crate::rotation::Rotation;

/// How well a threshold is known, in ns.
const STEP_NS: f64 = 500.0;
/// What is measured must agree so often, where times have no noise: an answer may have been held up.
const REPEATS: usize = 2;
/// Thresholds of which the median counts, where times are noisy or do not agree; and angles.
const NOISY_REPEATS: usize = 5;
const NOISY_ANGLES: usize = 9;
/// Times with less noise are exact.
const EXACT_NS: f64 = 50.0;

/// A command: what to do with one block, or with several.
pub(super) type Command = (Op, Lbn, u64);

/// A drive whose layout and rotation are known.
pub(super) struct Rig<'r, 'd> {
    pub(super) drive: &'r mut Drive<'d>,
    pub(super) geometry: &'r Geometry,
    pub(super) rotation: Rotation,
    /// Angles are counted from the end of this block.
    origin: Lbn,
    /// The least response of a read, in ns, once it is known.
    pub(super) least_read_ns: f64,
}

impl<'r, 'd> Rig<'r, 'd> {
    pub(super) fn new(
        drive: &'r mut Drive<'d>,
        geometry: &'r Geometry,
        rotation: Rotation,
    ) -> Rig<'r, 'd> {
        Rig {
            drive,
            geometry,
            rotation,
            origin: Lbn(geometry.capacity().0 / 2),
            least_read_ns: 0.0,
        }
    }

    pub(super) fn origin(&self) -> Lbn {
        self.origin
    }

    /// The time of a revolution, in ns.
    pub(super) fn turn_ns(&self) -> f64 {
        self.rotation.period_ns
    }

    /// The time in which one sector of a block's track passes, in ns.
    pub(super) fn sector_ns(&self, lbn: Lbn) -> f64 {
        let sectors = self.geometry.track(lbn).map_or(1, |track| track.sectors);
        self.turn_ns() / f64::from(sectors)
    }

    /// Whether times have no noise to speak of.
    pub(super) fn is_exact(&self) -> bool {
        self.rotation.noise_ns <= EXACT_NS
    }

    /// The least response of `then` after `first`, in ns.
    pub(super) async fn least(&mut self, first: Command, then: Command) -> Result<f64> {
        let mut found = Vec::new();
        while !self.is_settled(&found, REPEATS, NOISY_REPEATS, 2.0 * STEP_NS) {
            found.push(self.threshold(first, then).await?);
        }
        Ok(median(found))
    }

    /// Whether enough was measured: without noise, as much as needs to agree; with noise, or where not all agrees, more.
    fn is_settled(&self, found: &[f64], exact: usize, noisy: usize, within_ns: f64) -> bool {
        let span = |found: &[f64]| {
            let most = found.iter().copied().fold(f64::MIN, f64::max);
            most - found.iter().copied().fold(f64::MAX, f64::min)
        };
        found.len() >= noisy
            || (self.is_exact() && found.len() >= exact && span(found) <= within_ns)
    }

    async fn threshold(&mut self, first: Command, then: Command) -> Result<f64> {
        let turn = self.turn_ns();
        let at_once = self.distance(first, then, 0.0).await?;
        let (mut in_time, mut late) = (0.0, turn);
        while late - in_time > STEP_NS {
            let wait = f64::midpoint(in_time, late);
            let distance = self.distance(first, then, wait).await?;
            if distance - at_once < turn / 2.0 { in_time = wait } else { late = wait }
        }
        Ok(at_once - in_time)
    }

    /// The time between the ends of two commands with a wait between them, in ns.
    async fn distance(&mut self, first: Command, then: Command, wait_ns: f64) -> Result<f64> {
        let first = self.drive.prepare(first.0, first.1, first.2).await?;
        let then = self.drive.prepare(then.0, then.1, then.2).await?;
        let before = self.drive.carry_out(first).await?;
        self.drive.wait(wait_ns).await;
        let after = self.drive.carry_out(then).await?;
        Ok(after.finished.since(before.finished).0 as f64)
    }

    /// When a command ends within a turn, in ns from when a read of a certain block does: from 0 to a turn.
    pub(super) async fn angle(&mut self, command: Command) -> Result<f64> {
        let turn = self.turn_ns();
        let (mut first, mut offsets) = (None, Vec::new());
        while !self.is_settled(&offsets, REPEATS, NOISY_ANGLES, EXACT_NS) {
            let offset = self.angle_once(command).await?;
            let first = *first.get_or_insert(offset);
            offsets.push(self.rotation.wrap(offset - first));
        }
        Ok((first.unwrap_or_default() + median(offsets)).rem_euclid(turn))
    }

    /// The same, measured once: from minus one half of a turn to one half.
    pub(super) async fn angle_once(&mut self, command: Command) -> Result<f64> {
        let request = self.drive.prepare(command.0, command.1, command.2).await?;
        // Each time anew: what the time of a turn is off by would add up.
        let from = self.drive.read(self.origin, 1).await?.finished;
        let done = self.drive.carry_out(request).await?;
        Ok(self.rotation.offset(from, done.finished, 0.0))
    }

    /// An error when more answers came late than are put down to chance.
    pub(super) fn give_up_after(&self, most: u64) -> Result<()> {
        let late = self.drive.late();
        match late <= most {
            true => Ok(()),
            false => Err(self.drive.contradiction(format!(
                "{late} reads took longer than its longest seek and a turn: see that nobody else uses it"
            ))),
        }
    }

    /// A block on a cylinder and head, about so far along the track.
    pub(super) fn block_at(&self, cylinder: u32, head: u32, part: f64) -> Option<Lbn> {
        let zone = self.geometry.zones().find(|zone| {
            (zone.first_cylinder..zone.first_cylinder + zone.cylinders).contains(&cylinder)
        })?;
        let from = (f64::from(zone.track_sectors) * part) as u32;
        let sectors = (from..zone.track_sectors).chain(0..from);
        sectors
            .filter_map(|sector| self.geometry.lbn_at(Location { cylinder, head, sector }))
            .find(|lbn| !self.geometry.is_remapped(*lbn))
    }

    /// The innermost cylinder with blocks on its first head.
    pub(super) fn last_cylinder(&self) -> Option<u32> {
        (0..self.geometry.cylinders()).rev().find(|at| self.block_at(*at, 0, 0.5).is_some())
    }

    /// A cylinder with blocks on its first head, at or behind `cylinder`.
    pub(super) fn cylinder_from(&self, cylinder: u32) -> Option<u32> {
        (cylinder..self.geometry.cylinders()).find(|at| self.block_at(*at, 0, 0.5).is_some())
    }
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
