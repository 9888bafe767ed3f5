//! How the mechanism serves one request: seek, rotation and media on each track it touches.

use moirai_units::{BlockRange, Instant, Lbn, Nanos, ServiceParts};

use crate::{Geometry, Mechanics, Track};

/// Which way data cross the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The wanted sectors of one track.
#[derive(Clone, Copy, Debug)]
struct Piece {
    track: Track,
    first_sector: u32,
    sectors: u32,
}

/// A run of sectors that passed the head in one go, for the bus to send on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The sector's place in the request, counted from 0.
    pub(crate) first: u64,
    pub(crate) sectors: u64,
    /// When the first and the last of them had passed.
    pub(crate) first_passed: Instant,
    pub(crate) last_passed: Instant,
}

/// What serving a request on the media takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) parts: ServiceParts,
    pub(crate) media_end: Instant,
    pub(crate) arm: Arm,
}

/// The arm movement before a track, and when it is over.
struct Positioning {
    seek: Nanos,
    head_switch: Nanos,
    arrival: Instant,
}

fn pieces(geometry: &Geometry, blocks: BlockRange) -> impl Iterator<Item = Piece> + '_ {
    let mut at: Lbn = blocks.first;
    std::iter::from_fn(move || {
        if at >= blocks.end() {
            return None;
        }
        let track = geometry.track(at)?;
        let end = track.blocks.end().min(blocks.end());
        let piece = Piece {
            track,
            first_sector: (track.origin_sector + at.since(track.blocks.first).0 as u32)
                % track.sectors,
            sectors: end.since(at).0 as u32,
        };
        at = end;
        Some(piece)
    })
}

fn move_arm(
    mechanics: &Mechanics,
    from: Arm,
    to: &Track,
    start: Instant,
    direction: Direction,
) -> Positioning {
    let distance = from.cylinder.abs_diff(to.cylinder);
    let (mut seek, mut head_switch) = (Nanos::ZERO, Nanos::ZERO);
    if distance > 0 {
        // The head is switched while the arm moves.
        seek = mechanics.seek.time(distance);
    } else if from.head != to.head {
        head_switch = mechanics.head_switch;
    }
    if direction == Direction::Write && (seek, head_switch) != (Nanos::ZERO, Nanos::ZERO) {
        seek += mechanics.write_settle;
    }
    Positioning { seek, head_switch, arrival: start + seek + head_switch }
}

/// Picoseconds from `arrival` until the first wanted sector begins, and how many of the piece's
/// sectors lie before that one.
fn rotate(mechanics: &Mechanics, piece: &Piece, arrival: Instant) -> (u64, u32) {
    let angle = mechanics.angle_ps(arrival);
    let start = mechanics.sector_angle_ps(piece.first_sector, piece.track.sectors);
    let wait_ps = mechanics.turn_ps(angle, start);
    if !mechanics.zero_latency || wait_ps == 0 {
        return (wait_ps, 0);
    }
    // How far past the piece's first sector the head came down, and the next sector from there.
    let past_ps = mechanics.revolution_ps - wait_ps;
    let next = sectors_begun(mechanics, piece.track.sectors, past_ps);
    if next >= piece.sectors {
        return (wait_ps, 0);
    }
    let next_ps = mechanics.sector_angle_ps(next, piece.track.sectors);
    (next_ps.saturating_sub(past_ps), next)
}

/// The sector boundary at or after `ps` picoseconds of turning.
fn sectors_begun(mechanics: &Mechanics, track_sectors: u32, ps: u64) -> u32 {
    let product = u128::from(ps) * u128::from(track_sectors);
    product.div_ceil(u128::from(mechanics.revolution_ps)) as u32
}

/// Time from `start` until the first wanted sector is under the head: what SPTF minimises.
pub(crate) fn positioning_time(
    geometry: &Geometry,
    mechanics: &Mechanics,
    arm: Arm,
    start: Instant,
    direction: Direction,
    blocks: BlockRange,
) -> Nanos {
    let Some(piece) = pieces(geometry, blocks).next() else {
        return Nanos::ZERO;
    };
    let moved = move_arm(mechanics, arm, &piece.track, start, direction);
    let (wait_ps, _) = rotate(mechanics, &piece, moved.arrival);
    moved.seek + moved.head_switch + Nanos(wait_ps / 1000)
}

/// Serves `blocks` from `start` on, with the arm where it is; tells the runs of sectors to `passed`.
///
/// Times are cut to whole nanoseconds after each phase, so that a head is never late for the sector
/// that follows the one it has just passed.
pub(crate) fn serve(
    geometry: &Geometry,
    mechanics: &Mechanics,
    arm: Arm,
    start: Instant,
    direction: Direction,
    blocks: BlockRange,
    mut passed: impl FnMut(Run),
) -> Service {
    let mut service = Service { media_end: start, arm, ..Service::default() };
    let mut sectors_before = 0u64;
    for piece in pieces(geometry, blocks) {
        let moved = move_arm(mechanics, service.arm, &piece.track, service.media_end, direction);
        let (wait_ps, skipped) = rotate(mechanics, &piece, moved.arrival);
        let span_ps = |sectors: u32| mechanics.sector_angle_ps(sectors, piece.track.sectors);
        let at = |ps: u64| moved.arrival + Nanos(ps / 1000);

        let tail = piece.sectors - skipped;
        let tail_end_ps = wait_ps + span_ps(tail);
        passed(Run {
            first: sectors_before + u64::from(skipped),
            sectors: u64::from(tail),
            first_passed: at(wait_ps + span_ps(1)),
            last_passed: at(tail_end_ps),
        });
        let mut end_ps = tail_end_ps;
        if skipped > 0 {
            // The head meets the piece's first sectors last: one turn after it passed them.
            let head_start_ps = wait_ps + mechanics.revolution_ps - span_ps(skipped);
            end_ps = head_start_ps + span_ps(skipped);
            passed(Run {
                first: sectors_before,
                sectors: u64::from(skipped),
                first_passed: at(head_start_ps + span_ps(1)),
                last_passed: at(end_ps),
            });
        }

        let media = Nanos(span_ps(piece.sectors) / 1000);
        let turning = at(end_ps).since(moved.arrival);
        service.parts.seek += moved.seek;
        service.parts.head_switch += moved.head_switch;
        service.parts.media += media;
        service.parts.rotation += turning - media;
        service.media_end = at(end_ps);
        service.arm = Arm { cylinder: piece.track.cylinder, head: piece.track.head };
        sectors_before += u64::from(piece.sectors);
    }
    service
}
