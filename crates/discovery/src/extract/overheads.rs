//! What the electronics take: the eight overheads of thesis 4.2.4, and the bus.
//!
//! From outside only sums show. An overhead before the arm moves and the work after the last byte cannot be told from each
//! other, so the completion of reads counts as part of the overheads, as in the thesis, and that of writes is what it takes
//! more. What a read takes longer when its transfer waits for the bus to be taken again shows by the length of the read.

use moirai_storage::Op;
use moirai_units::Lbn;

use super::rig::Rig;
use crate::error::Result;

/// Blocks of a long write, whose data keep the bus busy.
const LONG_WRITE: u64 = 1024;
/// A block that is read meanwhile ends this part of a turn later, or the bus is too fast to be seen.
const VISIBLE_PART: f64 = 0.05;
/// Times of a block that differ by less are alike.
const ALIKE: f64 = 0.02;
/// What lies so near to whole turns, in parts of one, is put down to the media.
const BY_TURNS: f64 = 0.01;

/// Times by the command before, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AfterNs {
    /// After a read.
    pub read: f64,
    /// After a write, where writes were allowed.
    pub write: Option<f64>,
}

/// The overheads of a drive, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overheads {
    /// Until the transfer of a read hit starts; `None` without a cache.
    pub read_hit: Option<AfterNs>,
    /// Until the arm moves for a read.
    pub read_miss: AfterNs,
    /// Until the drive asks for the data of a write.
    pub write_hit: Option<AfterNs>,
    /// Until the arm moves for a write.
    pub write_miss: Option<AfterNs>,
    /// Between data in the buffer and their transfer.
    pub reconnect: f64,
    /// Between the last byte of a read and its completion; part of the overheads where it can be.
    pub read_completion: f64,
    /// Between the end of a write and its completion.
    pub write_completion: f64,
}

/// The bus of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bus {
    /// The time of one block on it, in ns; `None` where it does not show.
    pub block_ns: Option<f64>,
    /// Data cross it in the order of blocks.
    pub is_in_order: bool,
    /// The part of a read that must be in the buffer before its transfer starts.
    pub watermark: f64,
}

/// What responses say before they are taken apart, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Responses {
    /// The least of a read after a read, and after a write.
    pub(super) read: AfterNs,
    /// The least of a write after a read and after a write.
    pub(super) write: Option<AfterNs>,
    /// How much later than a write of the same block a read ends within a turn.
    pub(super) later_than_write: Option<f64>,
    pub(super) sector: f64,
}

impl Rig<'_, '_> {
    /// The least responses on one track, with the cache switched off.
    pub(super) async fn responses(&mut self, writes: bool) -> Result<Responses> {
        let Some((one, two)) = self.on_a_track() else {
            return Err(self.drive.contradiction("no track holds two blocks".to_owned()));
        };
        let (read, write) = ((Op::Read, one, 1), (Op::Write, one, 1));
        let (then_read, then_write) = ((Op::Read, two, 1), (Op::Write, two, 1));
        let mut found = Responses {
            read: AfterNs { read: self.least(read, then_read).await?, write: None },
            write: None,
            later_than_write: None,
            sector: self.sector_ns(two),
        };
        if writes {
            found.read.write = Some(self.least(write, then_read).await?);
            found.write = Some(AfterNs {
                read: self.least(read, then_write).await?,
                write: Some(self.least(write, then_write).await?),
            });
            let later = self.angle(then_read).await? - self.angle(then_write).await?;
            found.later_than_write = Some(self.rotation.wrap(later));
        }
        Ok(found)
    }

    /// The least of a write behind a seek, after a read and after a write, less the seek, in ns.
    pub(super) async fn writes_behind_seeks(&mut self, responses: &Responses) -> Result<AfterNs> {
        let cylinders = self.geometry.cylinders();
        let distance = (cylinders / 8).max(1);
        let from = self.cylinder_from(cylinders / 4);
        let pair = from.and_then(|from| {
            let to = self.cylinder_from(from + distance)?;
            Some((self.block_at(from, 0, 0.1)?, self.block_at(to, 0, 0.4)?))
        });
        let pair = pair.or_else(|| self.beside().map(|(one, _, two)| (one, two)));
        let pair = pair.or_else(|| self.on_a_track());
        let (one, two) = pair.unwrap_or_default();
        let after = |first: Op, then: Op| ((first, one, 1), (then, two, 1));
        let (first, then) = after(Op::Read, Op::Read);
        // A read seeks as far, and its overhead is known.
        let seek = self.least(first, then).await? - responses.read.read - self.sector_ns(two)
            + responses.sector;
        let (first, then) = after(Op::Read, Op::Write);
        let read = self.least(first, then).await? - seek - self.sector_ns(two);
        let (first, then) = after(Op::Write, Op::Write);
        let write = self.least(first, then).await? - seek - self.sector_ns(two);
        Ok(AfterNs { read, write: Some(write) })
    }

    /// The time of a block on the bus, by what a long transfer of a write makes a read wait that the arm takes first. `None` where it
    /// does not show.
    pub(super) async fn bus_by_writes(&mut self) -> Result<Option<f64>> {
        let Some((one, two)) = self.on_a_track() else { return Ok(None) };
        // The arm takes what is decoded first, so where reads take longer for that the write must come later.
        let overhead_ns = (self.least_read_ns - self.sector_ns(two)).max(0.0);
        for later in [0.0, 0.5, 0.8, 0.95] {
            let ends = self.ends_beside_writes(one, two, later * overhead_ns).await?;
            if let Some(block_ns) = block_of(&ends, self.turn_ns()) {
                return Ok(Some(block_ns));
            }
        }
        Ok(None)
    }

    /// What a read of `two` after one of `one` takes beside writes that come later, by their blocks; fewer where the disk is small.
    async fn ends_beside_writes(
        &mut self,
        one: Lbn,
        two: Lbn,
        later_ns: f64,
    ) -> Result<Vec<(f64, f64)>> {
        let capacity = self.geometry.capacity().0;
        let is_behind = two.0 > capacity / 2;
        let far = if is_behind { 0 } else { capacity.saturating_sub(4 * LONG_WRITE) };
        let mut ends = Vec::new();
        for count in [1, 2, 3, 4] {
            let count = (count * LONG_WRITE).min(capacity / 8).max(1);
            // A batch must not have a block twice.
            if (far..far + count).contains(&two.0) {
                break;
            }
            let mut least = f64::INFINITY;
            for _ in 0..2 {
                let write = self.drive.prepare(Op::Write, Lbn(far), count).await?;
                self.drive.read(one, 1).await?;
                let read = self.drive.read_beside(two, later_ns, write).await?;
                least = least.min(read.response().0 as f64);
            }
            ends.push((count as f64, least));
        }
        Ok(ends)
    }

    /// The time of a block on the bus, by whole tracks that a drive reads from wherever the head comes down, in ns, if its bus
    /// sends in the order of blocks: what passes last is sent with all that waits for it. Nothing where it does not.
    pub(super) async fn bus_by_turns(&mut self) -> Result<f64> {
        let Some((first, count)) = self.whole_track() else { return Ok(0.0) };
        let sector = self.sector_ns(first);
        let later = count / 2;
        let mut ends = Vec::new();
        for wait in [0.0, later as f64 * sector] {
            let mut end = f64::INFINITY;
            for _ in 0..2 {
                let before = self.drive.read(first, 1).await?;
                self.drive.wait(wait).await;
                let whole = self.drive.read(first, count).await?;
                end = end.min(whole.finished.since(before.finished).0 as f64);
            }
            ends.push(end);
        }
        let (Some(one), Some(two)) = (ends.first(), ends.get(1)) else { return Ok(0.0) };
        // Each sector that the head comes down later ends the read by a sector later, less what is sent with the others.
        Ok(sector - (two - one) / later as f64)
    }

    /// By how much more than one of a block a long read ends behind its last sector, in ns, for some lengths in blocks.
    pub(super) async fn tails(&mut self, responses: &Responses) -> Result<Vec<(u64, f64)>> {
        let Some((track, count)) = self.whole_track() else { return Ok(Vec::new()) };
        let sector = self.sector_ns(track);
        // From the end of the track's first block the drive is in time for this one, and for none before it: it is read in order.
        let lead = (responses.read.read / sector).ceil() as u64 + 1;
        let mut tails = Vec::new();
        for part in [0, 1, 4, 8, 12, 16] {
            let blocks = (count.saturating_sub(lead) * part / 16).max(1);
            if lead + blocks > count {
                break;
            }
            let mut distance = f64::INFINITY;
            for _ in 0..2 {
                let before = self.drive.read(track, 1).await?;
                let long = self.drive.read(Lbn(track.0 + lead), blocks).await?;
                distance = distance.min(long.finished.since(before.finished).0 as f64);
            }
            tails.push((blocks, distance - (lead + blocks - 1) as f64 * sector));
        }
        Ok(tails)
    }
}

/// The time of a block on the bus, where reads end later by the time of the further blocks: by as much for each, and not by turns, as those
/// do that wait for the platter.
fn block_of(ends: &[(f64, f64)], turn: f64) -> Option<f64> {
    let steps: Vec<(f64, f64)> = ends
        .iter()
        .zip(ends.iter().skip(1))
        .map(|(one, other)| (other.0 - one.0, other.1 - one.1))
        .filter(|(blocks, later)| *blocks > 0.0 && *later > VISIBLE_PART * turn)
        .collect();
    let &[.., (of_before, before), (of_last, last)] = steps.as_slice() else { return None };
    let (block_ns, other_ns) = (last / of_last, before / of_before);
    let is_by_turns = |later: f64| (later / turn - (later / turn).round()).abs() <= BY_TURNS;
    let are_alike = (other_ns / block_ns - 1.0).abs() < ALIKE;
    (are_alike && !(is_by_turns(before) && is_by_turns(last))).then_some(block_ns)
}

/// The part of a read that must be in the buffer, and the time to take the bus again, that explain how long reads end.
pub(super) fn buffering(tails: &[(u64, f64)], sector: f64, block: f64) -> (f64, f64) {
    let mut best = (f64::MAX, 0.0, 0.0);
    for watermark in 0..=WATERMARKS {
        let watermark = f64::from(watermark) / f64::from(WATERMARKS);
        for reconnect in 0..RECONNECTS {
            let reconnect = f64::from(reconnect) * RECONNECT_NS;
            let end = |blocks: u64| {
                let passing = (blocks - 1) as f64 * sector;
                let wanted = (watermark * blocks as f64).ceil().max(1.0) - 1.0;
                let sent = wanted * sector + reconnect + blocks as f64 * block;
                let in_order = (passing + block).max(blocks as f64 * block);
                sent.max(in_order) - passing
            };
            let off: f64 =
                tails.iter().map(|(blocks, ns)| (end(*blocks) - end(1) - ns).abs()).sum();
            if off < best.0 - 1.0 {
                best = (off, watermark, reconnect);
            }
        }
    }
    (best.1, best.2)
}

/// Watermarks that are tried, from 0 to 1; and times to take the bus, in steps in ns.
const WATERMARKS: u32 = 100;
const RECONNECTS: u32 = 500;
const RECONNECT_NS: f64 = 2000.0;
