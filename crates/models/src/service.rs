//! How the mechanism serves one access: seek, rotation and media for each run of sectors.

use moirai_units::{BlockCount, BlockRange, Instant, Nanos, ServiceParts};

use crate::{Extent, Geometry, Mechanics};

/// Which way data cross the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Off the platter.
    Read,
    /// On to the platter.
    Write,
}

/// Where the arm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// A run of sectors that passed the head in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The first sector's place in the request, counted from 0.
    pub(crate) first: u64,
    pub(crate) sectors: u64,
    /// When the first and the last of them had passed.
    pub(crate) first_passed: Instant,
    pub(crate) last_passed: Instant,
}

/// When data that are to be written come over the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// When the first sector's begin.
    pub(crate) from: Instant,
    /// What each sector takes.
    pub(crate) sector: Nanos,
    /// How many must be there before the first is written.
    pub(crate) start: BlockCount,
    /// How long the head is on its way to the first at least.
    pub(crate) positioning_least: Nanos,
}

/// What serving an access on the media takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) parts: ServiceParts,
    pub(crate) media_end: Instant,
    pub(crate) arm: Arm,
    /// Blocks directly before the first one that passed the head while it waited for that.
    pub(crate) lead: u32,
}

/// Where an extent's first sector is met: picoseconds of waiting, and how many of the extent's
/// sectors lie before the one that is met first.
#[derive(Clone, Copy)]
struct Meeting {
    wait_ps: u64,
    skipped: u32,
}

fn rotate(mechanics: &Mechanics, extent: &Extent, at: Instant, zero_latency: bool) -> Meeting {
    let angle = mechanics.angle_ps(at);
    let start = mechanics.sector_angle_ps(extent.angle_sector, extent.track_sectors);
    let wait_ps = mechanics.turn_ps(angle, start);
    if !zero_latency || wait_ps == 0 {
        return Meeting { wait_ps, skipped: 0 };
    }
    // How far past the first sector the head came down, and the next sector from there.
    let past_ps = mechanics.revolution_ps - wait_ps;
    let next = mechanics.sectors_begun(past_ps, extent.track_sectors);
    if u64::from(next) >= extent.blocks.0 {
        return Meeting { wait_ps, skipped: 0 };
    }
    let next_ps = mechanics.sector_angle_ps(next, extent.track_sectors);
    Meeting { wait_ps: next_ps.saturating_sub(past_ps), skipped: next }
}

fn zero_latency(mechanics: &Mechanics, direction: Direction) -> bool {
    match direction {
        Direction::Read => mechanics.zero_latency_read,
        Direction::Write => mechanics.zero_latency_write,
    }
}

/// Time from `start` until the extent's sectors have passed, less what passing them takes: what SPTF
/// minimises. A head that comes down among the sectors of a zero-latency drive meets one at once, but
/// needs a whole turn for all of them.
pub(crate) fn positioning_time(
    mechanics: &Mechanics,
    arm: Arm,
    start: Instant,
    direction: Direction,
    extent: &Extent,
) -> Nanos {
    let distance = arm.cylinder.abs_diff(extent.cylinder);
    let moved = mechanics.positioning(distance, arm.head != extent.head, direction);
    let moving = moved.seek + moved.head_switch;
    let met = rotate(mechanics, extent, start + moving, zero_latency(mechanics, direction));
    let again_ps = match met.skipped {
        0 => 0,
        _ => mechanics.revolution_ps - mechanics.span_ps(extent.blocks.0, extent.track_sectors),
    };
    moving + Nanos((met.wait_ps + again_ps) / 1000)
}

/// An access for the mechanism.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) direction: Direction,
    pub(crate) blocks: BlockRange,
    /// For a write whose data are still on their way.
    pub(crate) data: Option<Arriving>,
}

/// Serves `access` from `start` on, with the arm where it is; tells the runs of sectors to `passed`.
///
/// Times are cut to whole nanoseconds after each phase, so that a head is never late for the sector
/// that follows the one it has just passed.
pub(crate) fn serve(
    geometry: &Geometry,
    mechanics: &Mechanics,
    arm: Arm,
    start: Instant,
    access: Access,
    mut passed: impl FnMut(Run),
) -> Service {
    let Access { direction, mut blocks, data } = access;
    let zero_latency = zero_latency(mechanics, direction);
    let mut service = Service { media_end: start, arm, ..Service::default() };
    let mut sectors_before = 0u64;
    while let Some(extent) = geometry.extent(blocks).filter(|_| !blocks.is_empty()) {
        let distance = service.arm.cylinder.abs_diff(extent.cylinder);
        let moved = mechanics.positioning(distance, service.arm.head != extent.head, direction);
        let there = service.media_end + moved.seek + moved.head_switch;
        let span_ps = |sectors: u64| mechanics.span_ps(sectors, extent.track_sectors);
        let arrival = data.map_or(there, |data| {
            // Every sector must have come when the head meets it; both go on at an even pace, so the
            // first and the last decide.
            let last = extent.blocks.0 - 1;
            let come = |index: u64| data.from + Nanos(data.sector.0 * (sectors_before + index + 1));
            let for_last = come(last).ns.saturating_sub(span_ps(last) / 1000);
            let there = there.max(come(0)).max(Instant { ns: for_last });
            if sectors_before > 0 {
                return there;
            }
            let begun = data.start.min(access.blocks.count).0.saturating_sub(1);
            there.max(come(begun)).max(start + data.positioning_least)
        });
        let met = rotate(mechanics, &extent, arrival, zero_latency);
        let at = |ps: u64| arrival + Nanos(ps / 1000);
        if sectors_before == 0 {
            let waited = mechanics.sectors_begun(met.wait_ps, extent.track_sectors);
            service.lead = extent.lead.min(waited.saturating_sub(1));
        }

        let skipped = u64::from(met.skipped);
        let tail = extent.blocks.0 - skipped;
        let mut end_ps = met.wait_ps + span_ps(tail);
        passed(Run {
            first: sectors_before + skipped,
            sectors: tail,
            first_passed: at(met.wait_ps + span_ps(1)),
            last_passed: at(end_ps),
        });
        if skipped > 0 {
            // The head meets the extent's first sectors last: one turn after it passed them.
            let head_start_ps = met.wait_ps + mechanics.revolution_ps - span_ps(skipped);
            end_ps = head_start_ps + span_ps(skipped);
            passed(Run {
                first: sectors_before,
                sectors: skipped,
                first_passed: at(head_start_ps + span_ps(1)),
                last_passed: at(end_ps),
            });
        }

        let media = Nanos(span_ps(extent.blocks.0) / 1000);
        let turning = at(end_ps).since(arrival);
        service.parts.seek += moved.seek;
        service.parts.head_switch += moved.head_switch;
        service.parts.bus += arrival.since(there);
        service.parts.media += media;
        service.parts.rotation += turning - media;
        service.media_end = at(end_ps);
        service.arm = Arm { cylinder: extent.cylinder, head: extent.head };
        sectors_before += extent.blocks.0;
        blocks = BlockRange::between(blocks.first + extent.blocks, blocks.end());
    }
    service
}

/// How far reading straight on gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed {
    /// Blocks that had passed.
    pub(crate) blocks: BlockCount,
    /// From when and where reading goes on, as if it had not been looked at.
    pub(crate) resume: Instant,
    pub(crate) resume_arm: Arm,
    /// When and where the head can leave: when the sector or the seek under way is over.
    pub(crate) leave: Instant,
    pub(crate) leave_arm: Arm,
}

/// Reads `blocks` in order from `start` on, up to the time `until`.
pub(crate) fn stream(
    geometry: &Geometry,
    mechanics: &Mechanics,
    arm: Arm,
    start: Instant,
    mut blocks: BlockRange,
    until: Instant,
) -> Streamed {
    let mut streamed = Streamed {
        blocks: BlockCount::ZERO,
        resume: start,
        resume_arm: arm,
        leave: start,
        leave_arm: arm,
    };
    while let Some(extent) = geometry.extent(blocks).filter(|_| !blocks.is_empty()) {
        if streamed.leave >= until {
            break;
        }
        let from = streamed.leave_arm;
        let distance = from.cylinder.abs_diff(extent.cylinder);
        let moved = mechanics.positioning(distance, from.head != extent.head, Direction::Read);
        let there = streamed.leave + moved.seek + moved.head_switch;
        streamed.leave = there;
        streamed.leave_arm = Arm { cylinder: extent.cylinder, head: extent.head };
        if there >= until {
            break;
        }
        streamed.resume = there;
        streamed.resume_arm = streamed.leave_arm;
        let met = rotate(mechanics, &extent, there, false);
        let span = |sectors: u64| met.wait_ps + mechanics.span_ps(sectors, extent.track_sectors);
        let after = |sectors: u64| there + Nanos(span(sectors) / 1000);
        let turned_ps = until.since(there).0.saturating_mul(1000);
        if turned_ps < met.wait_ps {
            streamed.leave = until;
            break;
        }
        let mut whole = extent.blocks.0;
        if after(whole) > until {
            let into_ps = turned_ps - met.wait_ps;
            whole = u64::from(mechanics.sectors_begun(into_ps, extent.track_sectors));
            if after(whole) > until {
                whole -= 1;
            }
        }
        streamed.blocks += BlockCount(whole);
        streamed.resume = after(whole);
        if whole < extent.blocks.0 {
            streamed.leave = after(whole + 1);
            break;
        }
        streamed.leave = streamed.resume;
        blocks = BlockRange::between(blocks.first + extent.blocks, blocks.end());
    }
    streamed
}
