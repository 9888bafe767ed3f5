//! Where the blocks of a drive lie, by translations (thesis 4.2.1, "Layout extraction").
//!
//! An expert system: a few questions find what the layout must be among those that drives are known to have
//! ([`moirai_geometry`]), and many more try to refute it.
//!
//! 1. `defects`: whether the defect lists agree with the translations.
//! 2. `cylinders`: heads, and the runs of cylinders with equally long tracks, by which places there are.
//! 3. `order`: in which order tracks are numbered.
//! 4. `spares`: where blocks leave out sectors that the defect lists do not explain.
//! 5. Here: every answer so far must be as the layout says, and so must those about a sample of tracks, about most
//!    defects, and about some places. Where it is not, a zone was missed, or another layout is tried.

mod cylinders;
mod defects;
mod order;
mod schemes;
mod spares;

use std::collections::BTreeMap;

use moirai_geometry::{Geometry, Place, Sparing, TrackOrder};
use moirai_storage::{Defect, DefectLists, Device, Located, Sector};
use moirai_units::{BlockCount, BlockRange, Lbn, Location};

use crate::drive::{Commands, Drive};
use crate::error::{Error, Result};
use crate::probe::SCATTERED_PART;
use cylinders::Run;
use spares::{Frame, gcd};

/// Tracks whose first block is asked for, at most: of a disk of the thesis, about one of each cylinder.
const TRACKS_ASKED: u64 = 6144;
/// Defects whose neighbours are asked for, at most.
const DEFECTS_ASKED: usize = 2048;
/// Places that are asked for.
const PLACES_ASKED: usize = 128;
/// How far behind a place a block is looked for.
const REACH: u64 = 64;
/// Cylinders of a unit of spares at whose front a zone may begin, at most.
const UNIT_CYLINDERS: u32 = 24;
/// Translations after which a layout counts as unknown: ten times what the drives of the thesis took.
const QUESTIONS_MAX: u64 = 400_000;
/// Defects of a drive, at most, and sectors of bad tracks.
const DEFECTS_MAX: usize = 100_000;
/// How often zones are cut further before the layout counts as unknown.
const ROUNDS_MAX: usize = 64;

/// What is not as a layout says.
enum Refuted {
    /// The first block that is elsewhere.
    Block(Lbn),
    /// A place that the drive does not have, as of a cylinder left out between zones whose tracks are equally long.
    Place(Location),
}

/// What is known of a drive's layout, and the drive to ask.
pub(crate) struct Survey<'s, 'd> {
    drive: &'s mut Drive<'d>,
    capacity: BlockCount,
    heads: u32,
    defects: DefectLists,
    /// Cylinders at which zones begin that are told by their skews alone.
    cuts: Vec<u32>,
    located: BTreeMap<Lbn, Located>,
    sectors: BTreeMap<Location, Option<Sector>>,
}

/// Finds the layout of a drive, without skews, and says what it was asked. What is doubtful of its defect lists
/// [`extract`](crate::extract) says.
///
/// # Errors
/// A device that answers no diagnostic commands, whose layout is none that is known, or that contradicts itself.
pub async fn find_layout(device: &dyn Device) -> Result<(Geometry, Commands)> {
    let Some(mut drive) = Drive::new(device) else {
        return Err(Error::NoDiagnostics { device: device.inquiry().name.clone() });
    };
    let found = layout(&mut drive, &[]).await?;
    Ok((found, drive.commands().clone()))
}

/// Finds the layout of a drive, with zones that begin at the cylinders `cuts`, whatever their addresses say.
pub(crate) async fn layout(drive: &mut Drive<'_>, cuts: &[u32]) -> Result<Geometry> {
    let capacity = drive.capacity().await?;
    let defects = drive.defects().await?;
    let count = defects.primary.len() + defects.grown.len();
    if count > DEFECTS_MAX {
        return Err(drive.contradiction(format!("it lists {count} defects")));
    }
    let (located, sectors) = (BTreeMap::new(), BTreeMap::new());
    let cuts = cuts.to_vec();
    let mut survey = Survey { drive, capacity, heads: 0, defects, cuts, located, sectors };
    survey.heads = survey.count_heads().await?;
    survey.check_defects().await?;
    let mut runs = survey.runs().await?;
    survey.cuts.iter().for_each(|at| cylinders::cut_at(&mut runs, *at));
    let mut orders = survey.orders(&runs).await?;
    let (mut tried, mut refuted) = (0, None);
    while let Some(order) = orders.get(tried).copied() {
        tried += 1;
        match survey.layout_in(order, runs.clone(), &mut orders).await? {
            Ok(geometry) => return Ok(geometry),
            Err(at) => refuted = refuted.max(at),
        }
    }
    let at = refuted.map_or_else(String::new, |lbn| format!(" beyond {lbn}"));
    Err(survey.drive.contradiction(format!("no known layout explains its translations{at}")))
}

impl Survey<'_, '_> {
    /// The layout with tracks in an order, or else the first block that refuted the last one that was tried. Other orders that
    /// seem likely on the way are added to `orders`.
    async fn layout_in(
        &mut self,
        order: TrackOrder,
        mut runs: Vec<Run>,
        orders: &mut Vec<TrackOrder>,
    ) -> Result<std::result::Result<Geometry, Option<Lbn>>> {
        let mut refuted = None;
        for _ in 0..ROUNDS_MAX {
            let known = runs.clone();
            let frames = self.frames(&runs).await?;
            for frame in &frames {
                frame.ends.iter().for_each(|at| cylinders::cut_at(&mut runs, *at));
            }
            if runs != known {
                continue;
            }
            let Some((geometry, wrong)) = self.fit(order, &frames).await? else { break };
            if wrong.is_none() {
                match self.refute(&geometry).await? {
                    None => return Ok(Ok(self.merged(order, runs, geometry).await?)),
                    // Another scheme may explain that as well.
                    Some(Refuted::Block(lbn)) => refuted = Some(lbn),
                    Some(Refuted::Place(at)) => {
                        let Some(missed) = self.missed_run(&runs, &[at.cylinder]).await? else {
                            return Err(self.drive.contradiction(format!(
                                "it says that it has no cylinder {}, head {}, sector {}, and has others like it",
                                at.cylinder, at.head, at.sector
                            )));
                        };
                        runs = missed;
                    }
                }
                continue;
            }
            refuted = wrong;
            for other in self.orders(&runs).await? {
                if !orders.contains(&other) {
                    orders.push(other);
                }
            }
            // The cut is the best that explains the most.
            let mut cuts = self.cuts(&runs, &geometry, wrong.unwrap_or_default()).await?;
            let mut gaps = runs.clone();
            for at in self.gap_cylinders(order, &frames).await? {
                cylinders::cut_at(&mut gaps, at);
            }
            cuts.push(gaps);
            // Looking for the cuts has shown more of where it is wrong.
            let mut best = (self.refuted_by(&geometry), None);
            for cut in cuts.into_iter().filter(|cut| *cut != runs) {
                let frames = self.frames(&cut).await?;
                let Some((_, wrong)) = self.fit(order, &frames).await? else { continue };
                if reach(wrong) > reach(best.0) {
                    best = (wrong, Some(cut));
                }
            }
            match best.1 {
                Some(cut) => runs = cut,
                None => break,
            }
        }
        Ok(Err(refuted))
    }

    /// The same layout with as few zones as explain all that is known.
    async fn merged(
        &mut self,
        order: TrackOrder,
        mut runs: Vec<Run>,
        mut geometry: Geometry,
    ) -> Result<Geometry> {
        let mut at = 0;
        while let (Some(one), Some(next)) = (runs.get(at).copied(), runs.get(at + 1).copied()) {
            at += 1;
            let is_cut = self.cuts.contains(&next.first);
            if is_cut || one.end != next.first || one.track_sectors != next.track_sectors {
                continue;
            }
            let mut fewer = runs.clone();
            fewer.remove(at);
            if let Some(run) = fewer.get_mut(at - 1) {
                run.end = next.end;
            }
            let frames = self.frames(&fewer).await?;
            if frames.iter().any(|frame| frame.ends.is_some()) {
                continue;
            }
            if let Some((whole, None)) = self.fit(order, &frames).await?
                && self.refute(&whole).await?.is_none()
            {
                (runs, geometry) = (fewer, whole);
                at -= 1;
            }
        }
        Ok(geometry)
    }

    async fn locate(&mut self, lbn: Lbn) -> Result<Located> {
        if let Some(known) = self.located.get(&lbn) {
            return Ok(*known);
        }
        self.check_questions()?;
        let found = self.drive.locate(lbn).await?;
        self.located.insert(lbn, found);
        Ok(found)
    }

    async fn sector(&mut self, at: Location) -> Result<Option<Sector>> {
        if let Some(known) = self.sectors.get(&at) {
            return Ok(*known);
        }
        self.check_questions()?;
        let found = self.drive.sector(at).await?;
        self.sectors.insert(at, found);
        Ok(found)
    }

    /// An error when the drive was asked more than any layout takes.
    fn check_questions(&self) -> Result<()> {
        match self.drive.asked() < QUESTIONS_MAX {
            true => Ok(()),
            false => Err(self
                .drive
                .contradiction(format!("{QUESTIONS_MAX} translations show no layout"))),
        }
    }

    fn last(&self) -> Lbn {
        Lbn(self.capacity.0 - 1)
    }

    /// The zones of equally long tracks, with their blocks.
    async fn frames(&mut self, runs: &[Run]) -> Result<Vec<Frame>> {
        let mut firsts = Vec::with_capacity(runs.len() + 1);
        for run in runs {
            let from = firsts.last().copied().unwrap_or(Lbn(0));
            firsts.push(self.first_from(from, run.first).await?);
        }
        let ends = firsts.iter().copied().skip(1).chain([Lbn(self.capacity.0)]);
        let spans = firsts.iter().zip(ends).map(|(first, end)| BlockRange::between(*first, end));
        let mut frames = Vec::with_capacity(runs.len());
        for (run, blocks) in runs.iter().zip(spans) {
            frames.push(self.with_spare_cylinders(Frame::new(*run, blocks)).await?);
        }
        Ok(frames)
    }

    /// The first block from `from` on that lies on `cylinder` or behind it. Blocks of a zone lie behind all of the zones
    /// before, moved ones too.
    async fn first_from(&mut self, from: Lbn, cylinder: u32) -> Result<Lbn> {
        let (mut low, mut high) = (from.0, self.capacity.0);
        while low < high {
            let middle = u64::midpoint(low, high);
            match self.locate(Lbn(middle)).await?.location.cylinder >= cylinder {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(Lbn(low))
    }

    /// Asks further, to refute a layout.
    async fn refute(&mut self, geometry: &Geometry) -> Result<Option<Refuted>> {
        let mut asked: Vec<Lbn> = Vec::new();
        for blocks in geometry.zone_blocks().filter(|blocks| !blocks.is_empty()) {
            asked.extend([blocks.first, Lbn(blocks.end().0 - 1)]);
        }
        let cylinders: u64 = geometry.zones().map(|zone| u64::from(zone.cylinders)).sum();
        let tracks = cylinders * u64::from(self.heads);
        // A step that shares no factor with the heads passes over all of them in turn.
        let step = if tracks <= TRACKS_ASKED { 1 } else { tracks / TRACKS_ASKED + 1 };
        let step = (step..).find(|step| gcd(*step, u64::from(self.heads)) == 1).unwrap_or(step);
        for (zone, of) in geometry.zones().enumerate() {
            let sectors = u64::from(of.track_sectors);
            let tracks = u64::from(of.cylinders) * u64::from(self.heads);
            let firsts = (0..tracks).step_by(step as usize);
            asked.extend(
                firsts.filter_map(|track| {
                    block_from(geometry, Place { zone, sector: track * sectors })
                }),
            );
        }
        let bad = self.defects.primary.iter().chain(&self.defects.grown);
        for defect in bad.take(DEFECTS_ASKED).copied().collect::<Vec<_>>() {
            let Some(lbn) = near(geometry, defect) else { continue };
            let Some(track) = geometry.track(lbn) else { continue };
            asked.extend([lbn, track.blocks.first, track.blocks.end()]);
        }
        asked.retain(|lbn| lbn.0 < self.capacity.0);
        asked.sort_unstable();
        asked.dedup();
        for lbn in asked {
            let told = self.locate(lbn).await?;
            if !agrees(geometry, lbn, told) {
                return Ok(Some(Refuted::Block(lbn)));
            }
        }
        let mut part = 0.0;
        for _ in 0..PLACES_ASKED {
            part = (part + SCATTERED_PART) % 1.0;
            let Some(at) = place_at(geometry, part) else { continue };
            let holds = geometry.lbn_at(at).map_or(Sector::Reserved, Sector::Block);
            let told = self.sector(at).await?;
            if told.is_none() {
                return Ok(Some(Refuted::Place(at)));
            }
            if told != Some(holds) {
                return Err(self.drive.contradiction(format!(
                    "it says of cylinder {}, head {}, sector {} that there is {told:?}, and of blocks nearby that there is \
                     {holds:?}",
                    at.cylinder, at.head, at.sector
                )));
            }
        }
        Ok(None)
    }

    /// The first of what is known that a layout does not say.
    fn refuted_by(&self, geometry: &Geometry) -> Option<Lbn> {
        let mut wrong = self.located.iter().filter(|(lbn, told)| !agrees(geometry, **lbn, **told));
        wrong.next().map(|(lbn, _)| *lbn)
    }

    /// Runs of cylinders with one more cut where a layout begins to be wrong: behind the last block that it is right about.
    async fn cuts(
        &mut self,
        runs: &[Run],
        geometry: &Geometry,
        wrong: Lbn,
    ) -> Result<Vec<Vec<Run>>> {
        let right = self.located.range(..wrong).rev();
        let mut right = right
            .filter(|(lbn, told)| agrees(geometry, **lbn, **told))
            .map(|(lbn, _)| *lbn)
            .next()
            .unwrap_or(Lbn(0));
        let mut wrong = wrong;
        while wrong.0 - right.0 > 1 {
            let middle = Lbn(u64::midpoint(right.0, wrong.0));
            let told = self.locate(middle).await?;
            if agrees(geometry, middle, told) { right = middle } else { wrong = middle }
        }
        let told = self.locate(wrong).await?.location.cylinder;
        let expected = geometry.locate(wrong).map_or(told, |at| at.cylinder);
        let before = self.locate(right).await?.location.cylinder;
        let mut cylinders = vec![told, expected, before, before + 1];
        // The first spares of the next zone, by which it shows, are at the end of a unit.
        let unit = match geometry.sparing() {
            Sparing::SectorsPerCylinders { cylinders } => cylinders,
            _ => 1,
        };
        let reached = match geometry.order() {
            TrackOrder::SurfaceSerpentine { .. } => unit * self.heads,
            _ => unit,
        };
        cylinders.extend((1..=reached.min(UNIT_CYLINDERS)).map(|back| told.saturating_sub(back)));
        cylinders.sort_unstable();
        cylinders.dedup();
        if let Some(missed) = self.missed_run(runs, &cylinders).await? {
            return Ok(vec![missed]);
        }
        // Along surfaces the first group may be all of the first zone.
        if let TrackOrder::SurfaceSerpentine { cylinders: group } = geometry.order() {
            let run = runs.iter().find(|run| (run.first..run.end).contains(&told));
            cylinders.extend(run.map(|run| run.first + group));
        }
        let mut cuts = Vec::new();
        for at in cylinders {
            let mut cut = runs.to_vec();
            cylinders::cut_at(&mut cut, at);
            // An earlier cut behind this one may have been wrong.
            let mut moved = cut.clone();
            if cylinders::merge_behind(&mut moved, at) {
                cuts.push(moved);
            }
            cuts.push(cut);
        }
        Ok(cuts)
    }
}

/// How far a layout explains what is known: up to the first block that it is wrong about.
fn reach(wrong: Option<Lbn>) -> u64 {
    wrong.map_or(u64::MAX, |lbn| lbn.0)
}

/// Whether a block is where a layout says.
fn agrees(geometry: &Geometry, lbn: Lbn, told: Located) -> bool {
    geometry.locate(lbn) == Some(told.location) && geometry.is_remapped(lbn) == told.is_moved
}

/// The block at a defect, or the first behind it.
fn near(geometry: &Geometry, defect: Defect) -> Option<Lbn> {
    let Defect { cylinder, head, sector } = defect;
    let at = Location { cylinder, head, sector: sector.unwrap_or(0) };
    block_from(geometry, geometry.place(at)?)
}

/// The first block at a place or behind it.
fn block_from(geometry: &Geometry, place: Place) -> Option<Lbn> {
    (place.sector..place.sector + REACH)
        .find_map(|sector| geometry.lbn_at(geometry.location(Place { sector, ..place })?))
}

/// A place so far into the disk, by cylinders; head and sector follow from further digits of `part`.
fn place_at(geometry: &Geometry, part: f64) -> Option<Location> {
    let cylinder = (f64::from(geometry.cylinders()) * part) as u32;
    let zone = geometry.zones().find(|zone| {
        (zone.first_cylinder..zone.first_cylinder + zone.cylinders).contains(&cylinder)
    })?;
    let head = (part * 1009.0).fract() * f64::from(geometry.heads());
    let sector = (part * 10_007.0).fract() * f64::from(zone.track_sectors);
    Some(Location { cylinder, head: head as u32, sector: sector as u32 })
}

/// The sectors of a single zone in the order of their tracks, without spares or defects.
fn plain(heads: u32, order: TrackOrder, frame: &Frame) -> Option<Geometry> {
    Geometry::new(heads, order, Sparing::None, vec![frame.zone()], None).ok()
}
