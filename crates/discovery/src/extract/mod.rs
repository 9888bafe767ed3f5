//! Everything about a drive that answers diagnostic commands: DIXtrac, step by step (thesis 4.2).
//!
//! Each step leans on those before: the layout says where to put requests, the mechanism when they pass the head, and the cache
//! is looked at last, as it was switched off until then.

mod cache;
mod fields;
mod mechanics;
mod overheads;
mod rig;
mod scheduler;
mod skews;
mod turning;

use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use moirai_geometry::Geometry;
use moirai_runtime::now;
use moirai_storage::{CachePage, CachePages, Device, Op};
use moirai_units::{Instant, Lbn, Nanos};

pub use cache::{CacheFound, ReadAhead, Reported};
pub use fields::{CacheField, CacheFields};
pub use mechanics::SeekPoint;
pub use overheads::{AfterNs, Bus, Overheads};
pub use scheduler::SchedulerKind;

use crate::drive::{Commands, Drive};
use crate::error::{Error, Result};
use crate::layout::layout;
use crate::probe::Prober;
use crate::rotation::{Rotation, rotation};
use cache::{CacheTests, HIT_PART, MISS_PART};
use overheads::{Responses, buffering};
use rig::Rig;
use skews::rebuilt;

/// Blocks of a long read hit.
const LONG_HIT: u64 = 32;
/// What reading ahead is limited to, to see whether that has an effect.
const LIMIT: u16 = 4;

/// What was found out about a drive.
#[derive(Clone, Debug)]
pub struct DriveFound {
    /// Where the blocks lie, with skews.
    pub geometry: Geometry,
    /// How it turns.
    pub rotation: Rotation,
    /// Switching to another head, in ns; `None` with one head.
    pub head_switch_ns: Option<f64>,
    /// The seek curve.
    pub seeks: Vec<SeekPoint>,
    /// What settling adds to a seek before a write, in ns; where writes were allowed.
    pub write_settle_ns: Option<f64>,
    /// Reads take sectors in whatever order they pass.
    pub zero_latency_read: bool,
    /// Writes do; where writes were allowed.
    pub zero_latency_write: Option<bool>,
    /// Overheads of commands.
    pub overheads: Overheads,
    /// The bus.
    pub bus: Bus,
    /// The cache, if there is one.
    pub cache: Option<CacheFound>,
    /// What of the caching page can be changed, and with what effect.
    pub cache_fields: CacheFields,
    /// How requests are ordered.
    pub scheduler: Option<SchedulerKind>,
    /// What is in doubt.
    pub doubts: Vec<String>,
    /// Commands, by name.
    pub commands: Commands,
    /// How long it took the drive.
    pub elapsed: Nanos,
    /// How long each step took.
    pub steps: Vec<(Step, Nanos)>,
}

/// The steps, as in thesis table 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Layout extraction.
    Layout,
    /// Rotation, head switch, skews, write settle.
    Mechanics,
    /// Complete seek curve.
    Seeks,
    /// Command processing overheads, bus, scheduler.
    Overheads,
    /// Cache parameters.
    Cache,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Step; 5] =
        [Step::Layout, Step::Mechanics, Step::Seeks, Step::Overheads, Step::Cache];

    /// A name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Layout => "layout extraction",
            Step::Seeks => "seek curve",
            Step::Mechanics => "mechanical overheads",
            Step::Overheads => "processing overheads",
            Step::Cache => "cache parameters",
        }
    }
}

/// Finds out everything about a drive. With `writes`, blocks are written with what they hold; without, nothing is written, and
/// what needs writes is not found. `progress` is told which step begins.
///
/// # Errors
/// A device that answers no diagnostic commands, whose layout is none that is known, or that contradicts itself; what the
/// device fails with.
pub async fn extract(
    device: &dyn Device,
    writes: bool,
    progress: impl FnMut(Step),
) -> Result<DriveFound> {
    extract_until(device, writes, progress, pending()).await
}

/// The same, until `stop` ends. Then the drive's cache is set as it was before; a future that is dropped leaves it switched off, or as a
/// test of it needs it.
///
/// # Errors
/// Those of [`extract`], and [`Error::Stopped`].
pub async fn extract_until(
    device: &dyn Device,
    writes: bool,
    mut progress: impl FnMut(Step),
    stop: impl Future<Output = ()>,
) -> Result<DriveFound> {
    let Some(mut drive) = Drive::new(device) else {
        return Err(Error::NoDiagnostics { device: device.inquiry().name.clone() });
    };
    let began = now();
    let pages = drive.cache().await?;
    let found = {
        let extracted = pin!(extract_with(&mut drive, pages, writes, &mut progress, began));
        match select(extracted, pin!(stop)).await {
            Either::Left((found, _)) => found,
            Either::Right(_) => Err(Error::Stopped { device: device.inquiry().name.clone() }),
        }
    };
    // Whatever happened, the drive is left as it was; what happened first is told first.
    let restored = match can_set(pages) {
        true => drive.set_cache(pages.current).await,
        false => Ok(()),
    };
    match found {
        Err(error) if !matches!(error, Error::Stopped { .. }) => Err(error),
        found => restored.and(found),
    }
}

async fn extract_with(
    drive: &mut Drive<'_>,
    pages: CachePages,
    writes: bool,
    progress: &mut impl FnMut(Step),
    began: Instant,
) -> Result<DriveFound> {
    let device = drive.device();
    let cached = CachePage { reads: pages.can_set_reads || pages.current.reads, ..pages.current };
    let off = CachePage {
        reads: pages.current.reads && !pages.can_set_reads,
        writes: pages.current.writes && !pages.can_set_writes,
        ..pages.current
    };
    let (mut doubts, mut steps) = (Vec::new(), Vec::new());
    if can_set(pages) {
        drive.set_cache(off).await?;
    }
    let is = drive.cache().await?.current;
    if is.reads {
        return Err(drive.contradiction(
            "its read cache cannot be switched off, which hides what its media take".to_owned(),
        ));
    }
    let writes = writes && !is.writes;
    if is.writes {
        doubts.push("its write cache cannot be switched off: writes are not measured".to_owned());
    }
    let mut last = began;
    let mut end_step = |step| {
        let at = now();
        steps.push((step, at.since(last)));
        last = at;
    };
    progress(Step::Layout);
    let mut plain = layout(drive, &[]).await?;
    end_step(Step::Layout);

    progress(Step::Mechanics);
    let rotation = {
        let mut prober = Prober::new(device);
        let rotation = rotation(&mut prober).await?;
        drive.count("read", prober.commands());
        rotation
    };
    if answers_from_cache(drive, rotation.period_ns, writes).await? {
        return Err(drive.contradiction(
            "it says that its cache is off, and answers sooner than its platters turn".to_owned(),
        ));
    }
    // Zones whose addresses go on as if they were one may have other skews.
    let mut cuts = Vec::new();
    let zones = loop {
        match Rig::new(drive, &plain, rotation).zones().await? {
            Ok(zones) => break zones,
            Err(turned) => {
                if cuts.len() >= CUTS_MAX || cuts.contains(&turned.cylinder) {
                    return Err(drive.contradiction(turned.why));
                }
                cuts.push(turned.cylinder);
                plain = match layout(drive, &cuts).await {
                    // That such a zone begins there explains nothing.
                    Err(Error::Contradiction { .. }) => {
                        return Err(drive.contradiction(turned.why));
                    }
                    found => found?,
                };
            }
        }
    };
    let Some(geometry) = rebuilt(&plain, zones) else {
        return Err(drive.contradiction("its zones hold fewer blocks than it has".to_owned()));
    };
    let mut rig = Rig::new(drive, &geometry, rotation);
    let head_switch_ns = rig.head_switch().await?;
    let zero_latency_write = match writes {
        true => Some(rig.is_zero_latency_write().await?),
        false => None,
    };
    let zero_latency_read = match rig.is_zero_latency_read().await? {
        Some(shown) => shown,
        None => {
            let why = "its bus is slower than its media, which hides in which order reads take the sectors of a track: \
                       taken to be as with writes";
            doubts.push(why.to_owned());
            zero_latency_write.unwrap_or(false)
        }
    };
    let responses = rig.responses(writes).await?;
    rig.least_read_ns = responses.read.read;
    let behind_seeks = match writes {
        true => Some(rig.writes_behind_seeks(&responses).await?),
        false => None,
    };
    end_step(Step::Mechanics);

    progress(Step::Seeks);
    let seeks = rig.seeks().await?;
    end_step(Step::Seeks);

    // Nothing takes longer than the longest seek and a turn: what does was held up, and what it was part of is done again.
    let longest = seeks.iter().map(|point| point.1).fold(0.0, f64::max);
    let longest = longest.max(head_switch_ns.unwrap_or(0.0));
    let but_seeks = responses.read.read + LONGEST_TURNS * rotation.period_ns;
    rig.drive.set_longest(longest + but_seeks);

    progress(Step::Overheads);
    let (scheduler, by_turns, by_writes, tails) = loop {
        let late = rig.drive.late();
        let scheduler = rig.scheduler().await?;
        let by_turns = if zero_latency_read { rig.bus_by_turns().await? } else { 0.0 };
        let by_writes = if writes { rig.bus_by_writes().await? } else { None };
        let tails = rig.tails(&responses).await?;
        if rig.drive.late() == late {
            break (scheduler, by_turns, by_writes, tails);
        }
        rig.give_up_after(HELD_UP_MAX)?;
    };
    end_step(Step::Overheads);

    progress(Step::Cache);
    // Where reading ahead is resumed, a read may wait for that one's seek as well.
    rig.drive.set_longest(2.0 * longest + but_seeks);
    let CacheResults { mut cache, fields: cache_fields, hits, doubts: of_cache } = loop {
        let late = rig.drive.late();
        let found = cache_of(&mut rig, pages, cached, writes).await?;
        if rig.drive.late() == late {
            break found;
        }
        rig.drive.set_cache(off).await?;
        rig.give_up_after(HELD_UP_MAX)?;
    };
    end_step(Step::Cache);
    doubts.extend(of_cache.into_iter().map(str::to_owned));
    let sums = Sums { responses, hits, by_turns, by_writes, tails, behind_seeks };
    let (overheads, bus, write_settle_ns) = sums.taken_apart(&mut doubts);
    if let Some(found) = &mut cache {
        // A block that has not passed by the end of the read before it, and is a hit all the same.
        let (hits, sector) = found.hits_behind;
        let behind = overheads.reconnect + overheads.read_completion + bus.block_ns.unwrap_or(0.0);
        found.hits_on_arriving = hits > (behind / sector).floor() as u64;
    }
    // It may have become shorter meanwhile.
    drive.capacity().await?;
    doubts.extend(drive.take_doubts());
    Ok(DriveFound {
        rotation,
        head_switch_ns,
        seeks,
        write_settle_ns,
        zero_latency_read,
        zero_latency_write,
        overheads,
        bus,
        cache,
        cache_fields,
        scheduler,
        doubts,
        commands: drive.commands().clone(),
        elapsed: now().since(began),
        steps,
        geometry,
    })
}

/// Whether answers come before the platter can have brought the block: to reads of one that was read just before, or of the next
/// one, or to writes, where these are allowed.
async fn answers_from_cache(drive: &mut Drive<'_>, turn_ns: f64, writes: bool) -> Result<bool> {
    let capacity = drive.device().inquiry().capacity;
    let mut kinds = vec![(Op::Read, 0), (Op::Read, 1)];
    kinds.extend(writes.then_some((Op::Write, 0)));
    for (op, further) in kinds {
        let mut is_prompt = true;
        for part in 1..=3 {
            let first = Lbn(capacity.0 * part / 4);
            let next = Lbn((first.0 + further).min(capacity.0 - 1));
            let command = drive.prepare(op, next, 1).await?;
            drive.read(first, 1).await?;
            drive.wait((1.0 - MISS_PART) * turn_ns).await;
            // A defect or a track's end may lie between in one place, and not in all.
            let answered = drive.carry_out(command).await?.response().0 as f64;
            is_prompt &= answered < HIT_PART * turn_ns;
        }
        if is_prompt {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether anything of the cache can be set.
fn can_set(pages: CachePages) -> bool {
    pages.can_set_reads || pages.can_set_writes || pages.can_set_read_ahead
}

/// What was found of a cache.
struct CacheResults {
    cache: Option<CacheFound>,
    fields: CacheFields,
    hits: Hits,
    doubts: Vec<&'static str>,
}

/// Looks at the cache, which is switched off until then.
async fn cache_of(
    rig: &mut Rig<'_, '_>,
    pages: CachePages,
    cached: CachePage,
    writes: bool,
) -> Result<CacheResults> {
    let mut tests = CacheTests::new(rig).await?;
    let stays = CachePage { writes: pages.current.writes && !pages.can_set_writes, ..cached };
    let mut fields = CacheFields::of(pages);
    if can_set(pages) {
        tests.rig.drive.set_cache(stays).await?;
    }
    let writing = CachePage { writes: pages.can_set_writes || pages.current.writes, ..cached };
    let mut doubts = Vec::new();
    let mut cache = tests.reads().await?;
    // `answers_from_cache` showed that no read hits while RCD is set.
    fields.reads.tried(cache.is_some());
    let mut hits = Hits::default();
    if let Some(found) = &mut cache {
        hits.after_read = tests.hit_ns(None, 1).await?;
        let most = if found.discards_sent { tests.ahead / 2 } else { found.segment_blocks / 4 };
        hits.long_blocks = LONG_HIT.min(most).max(2);
        hits.long = tests.hit_ns(None, hits.long_blocks).await?;
        // What reads no further ahead than the limit shows nothing of it.
        if pages.can_set_read_ahead && tests.ahead > u64::from(LIMIT) {
            let limited = CachePage { read_ahead_blocks: LIMIT, ..stays };
            if tests.rig.drive.set_cache(limited).await.is_ok() {
                fields.read_ahead.tried(tests.is_limited_to_less().await?);
            } else {
                // It refuses so small a limit; one that is gone refuses this as well.
                tests.rig.drive.set_cache(stays).await?;
            }
        }
        if writes {
            tests.rig.drive.set_cache(writing).await?;
            tests.writes(found).await?;
            fields.writes.tried(found.reported.is_some_and(|reported| reported != Reported::None));
            hits.after_write = tests.hit_ns(Some(Op::Write), 1).await?;
            if hits.after_write.is_none() {
                hits.after_write = tests.written_hit_ns().await?;
            }
            if found.reported == Some(Reported::All) {
                hits.write = Some(AfterNs {
                    read: tests.write_hit_ns(Op::Read).await?,
                    write: Some(tests.write_hit_ns(Op::Write).await?),
                });
            }
        }
    }
    let reported = cache.and_then(|found| found.reported);
    if reported == Some(Reported::Sequential) {
        doubts.push("whether a write that goes on where the one before ended joins its segment was not looked at");
    }
    if cache.is_none() && writes && pages.can_set_writes {
        tests.rig.drive.set_cache(writing).await?;
        let reports = tests.reports().await? != Reported::None;
        fields.writes.tried(reports);
        if reports {
            doubts.push("no read is answered from its cache, and writes are reported before they are on the media: that cache is left out");
        }
    }
    if tests.is_limited && cache.is_some() {
        doubts.push("it has too few cylinders without defects to look at its cache well: that may hold more");
    }
    Ok(CacheResults { cache, fields, hits, doubts })
}

/// Zones that are told from each other by their skews alone, at most.
const CUTS_MAX: usize = 6;
/// Turns that an access may take besides its seek.
const LONGEST_TURNS: f64 = 1.5;
/// So many reads may be held up before the drive counts as one that cannot be measured.
const HELD_UP_MAX: u64 = 40;

/// What answers from the cache take, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    after_read: Option<f64>,
    after_write: Option<f64>,
    long: Option<f64>,
    long_blocks: u64,
    write: Option<AfterNs>,
}

/// What was measured, before it is taken apart.
struct Sums {
    responses: Responses,
    hits: Hits,
    by_turns: f64,
    by_writes: Option<f64>,
    tails: Vec<(u64, f64)>,
    /// The least of writes behind a seek, less the seek.
    behind_seeks: Option<AfterNs>,
}

/// Less than that is no time on a bus, in ns.
const BUS_NS_MIN: f64 = 30.0;

impl Sums {
    /// Overheads, the bus, and what settling adds.
    fn taken_apart(&self, doubts: &mut Vec<String>) -> (Overheads, Bus, Option<f64>) {
        let Sums { responses, hits, .. } = self;
        let by_hits = match (hits.after_read, hits.long) {
            (Some(short), Some(long)) => Some((long - short) / (hits.long_blocks - 1) as f64),
            _ => None,
        };
        let by_turns = (self.by_turns > BUS_NS_MIN).then_some(self.by_turns);
        let block_ns = by_hits.or(self.by_writes).or(by_turns);
        if block_ns.is_none() {
            doubts.push(
                "the rate of the bus does not show: no cache answers, and a long transfer delays nothing that was seen"
                    .to_owned(),
            );
        }
        let block = block_ns.unwrap_or(0.0);
        let is_in_order = by_turns.is_some() || block_ns.is_none() || self.by_turns == 0.0;
        let (watermark, reconnect) = buffering(&self.tails, responses.sector, block);
        // What follows the last sector of a read, and of a write: their difference shows, and no more.
        let behind_write = responses.later_than_write.map(|later| block + reconnect - later);
        let mut read_completion = behind_write.map_or(0.0, |write| (-write).max(0.0));
        // A hit takes its completion, too; what that has no room for is before the transfer.
        let least_hit = hits.after_read.into_iter().chain(hits.after_write).reduce(f64::min);
        let room = least_hit.map_or(f64::INFINITY, |hit| (hit - block).max(0.0));
        let reconnect = reconnect + (read_completion - room).max(0.0);
        read_completion = read_completion.min(room);
        let write_completion = behind_write.map_or(0.0, |write| write.max(0.0));
        let behind_read = block + reconnect + read_completion;
        let sector = responses.sector;
        let less = |ns: f64, behind: f64| (ns - sector - behind).max(0.0);
        let read_miss = AfterNs {
            read: less(responses.read.read, behind_read),
            write: responses.read.write.map(|ns| less(ns, behind_read)),
        };
        let read_hit = hits.after_read.map(|ns| {
            let hit = |ns: f64| (ns - block - read_completion).max(0.0);
            AfterNs { read: hit(ns), write: hits.after_write.map(hit) }
        });
        let write_hit = hits.write.map(|write| {
            let hit = |ns: f64| (ns - block - write_completion).max(0.0);
            AfterNs { read: hit(write.read), write: write.write.map(hit) }
        });
        let (write_miss, settle) = self.write_misses(write_hit, block, write_completion);
        // Of writes that are never reported at once, what shows is when the head has their data.
        let on_track = responses.write.map(|write| {
            let data = |ns: f64| (ns - sector - write_completion - block).max(0.0);
            AfterNs { read: data(write.read), write: write.write.map(data) }
        });
        let overheads = Overheads {
            read_hit,
            read_miss,
            write_hit: write_hit.or(on_track),
            write_miss,
            reconnect,
            read_completion,
            write_completion,
        };
        (overheads, Bus { block_ns, is_in_order, watermark }, settle)
    }

    /// Overheads of writes until the arm moves, and what settling adds. On the track the head may wait for the data and not the
    /// other way round; behind a seek the data are there, but it settles, too.
    fn write_misses(
        &self,
        write_hit: Option<AfterNs>,
        block: f64,
        completion: f64,
    ) -> (Option<AfterNs>, Option<f64>) {
        let (Some(on_track), Some(behind)) = (self.responses.write, self.behind_seeks) else {
            return (None, None);
        };
        let least = |ns: f64| ns - self.responses.sector - completion;
        // The overhead, where the head does not wait for data: where those come is known of writes that are reported at once.
        let shown = |ns: f64, hit: Option<f64>| {
            let data = hit? + block;
            (least(ns) > data + MASKED_NS).then_some(least(ns))
        };
        let after_write = on_track.write.unwrap_or(on_track.read);
        let hit_after_write = write_hit.and_then(|hit| hit.write);
        let (read, write) = (
            shown(on_track.read, write_hit.map(|hit| hit.read)),
            shown(after_write, hit_after_write),
        );
        let (with_read, with_write) =
            (behind.read - completion, behind.write.unwrap_or(behind.read) - completion);
        // Where neither shows, the arm is taken to move when the drive asks for the data.
        let settle = match (read, write) {
            (Some(miss), _) => with_read - miss,
            (None, Some(miss)) => with_write - miss,
            (None, None) => {
                let miss = write_hit.map_or(least(on_track.read) - block, |hit| hit.read);
                with_read - miss
            }
        };
        let misses = AfterNs {
            read: (with_read - settle).max(0.0),
            write: Some((with_write - settle).max(0.0)),
        };
        (Some(misses), Some(settle))
    }
}

/// A head that waits for less than this longer than for data does not wait for data, in ns.
const MASKED_NS: f64 = 1500.0;
