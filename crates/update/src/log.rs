//! The log: groups of entries, one behind the other, in a ring of segments.
//!
//! Whoever appends goes on at once; a task writes what came meanwhile as frames, and flushes. A frame is begun
//! when the one before is written (with [`Durability::Flushed`]: durable), and so what many programs wait for
//! is one write and one flush.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use moirai_runtime::now;
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::frame::{FRAME_HEADER_BYTES, Frame};
use crate::placing::{Gap, LogWriter, Placing, Segments};
use crate::{Durability, Error, Result, Seq};

/// Where the log lies on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Blocks of a segment; of tracks, those that count.
    pub(crate) segment: BlockCount,
    pub(crate) segments: u32,
    pub(crate) writer: LogWriter,
}

impl Ring {
    pub(crate) fn segment_at(&self, index: u32) -> BlockRange {
        BlockRange::new(Lbn(self.segment.0 * u64::from(index)), self.segment)
    }

    pub(crate) fn after(&self, index: u32) -> u32 {
        (index + 1) % self.segments.max(1)
    }

    /// Segments that only the engine's own entries may take: what frees others must find room.
    fn reserve(&self) -> u64 {
        u64::from(self.segments / 4).max(2)
    }

    /// Bytes that a batch of the engine's own entries may take: there may be two under way.
    pub(crate) fn own_bytes_max(&self) -> usize {
        (self.segment.bytes().0 * self.reserve() / 3) as usize
    }
}

/// What a group may take beside its bytes: its length, a frame's header, and the rest of a device block.
const GROUP_OVERHEAD_BYTES: u64 = 4 + FRAME_HEADER_BYTES as u64 + BLOCK_BYTES;

/// The beginning of a segment in use: from here the log can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) segment: u32,
    /// The number of its first frame.
    pub(crate) number: u64,
    /// The checksum of the frame before that.
    pub(crate) previous: u32,
    /// The first group that begins in it.
    pub(crate) first: Seq,
}

/// How far the log came.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Groups before this one are written.
    written: Seq,
    /// Groups before this one are durable.
    flushed: Seq,
    /// Why it goes no further.
    failed: Option<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Log {
    device: Arc<dyn Device>,
    ring: Ring,
    segments: Arc<Segments>,
    id: u64,
    opening: u32,
    durability: Durability,
    pending: Mutex<Pending>,
    /// The segments in use, the oldest first.
    used: Mutex<VecDeque<Start>>,
    wake: Notify,
    freed: Notify,
    /// Told when there may be room for more.
    room: Arc<Notify>,
    progress: Mutex<Progress>,
    /// Told when it came further. A channel of tokio's would wake who waits in an order that differs from run to run.
    further: Notify,
    bytes_written: AtomicU64,
    bytes_passed: AtomicU64,
    /// The last frame that is durable.
    durable: AtomicU64,
    /// What is free of the last segment.
    left_bytes: AtomicU64,
    /// Bytes of the longest group that waits for room.
    wanted_bytes: AtomicUsize,
}

/// What is to be written.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Where each group begins.
    begins: Vec<usize>,
    /// The first of these groups.
    first: Seq,
    /// Groups before this one are to be flushed.
    to_flush: Seq,
    /// Bytes that all this may take, and what is being written.
    unplaced_bytes: u64,
}

/// Where the writer is.
#[derive(Debug)]
pub(crate) struct Position {
    pub(crate) placing: Placing,
    /// The last frame.
    pub(crate) number: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
}

/// What a log is opened with.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) id: u64,
    pub(crate) opening: u32,
    pub(crate) durability: Durability,
    pub(crate) used: VecDeque<Start>,
    /// The next group.
    pub(crate) next: Seq,
    pub(crate) room: Arc<Notify>,
}

impl Log {
    pub(crate) fn new(opened: Opened) -> Log {
        let Opened { device, segments, id, opening, durability, used, next, room } = opened;
        let progress = Progress { written: next, flushed: next, failed: None };
        Log {
            device,
            ring: segments.ring,
            segments,
            id,
            opening,
            durability,
            pending: Mutex::new(Pending { first: next, ..Pending::default() }),
            used: Mutex::new(used),
            wake: Notify::new(),
            freed: Notify::new(),
            room,
            progress: Mutex::new(progress),
            further: Notify::new(),
            bytes_written: AtomicU64::new(0),
            bytes_passed: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            left_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicUsize::new(0),
        }
    }

    /// The longest group: one that finds room once the log is empty.
    pub(crate) fn group_bytes_max(&self) -> usize {
        let segments = u64::from(self.ring.segments).saturating_sub(self.ring.reserve() + 2).max(1);
        let bytes = segments * self.ring.segment.bytes().0 - GROUP_OVERHEAD_BYTES;
        bytes.min(u64::from(u32::MAX / 2)) as usize
    }

    /// See [`Ring::own_bytes_max`].
    pub(crate) fn own_bytes_max(&self) -> usize {
        self.ring.own_bytes_max()
    }

    /// Segments that could be in use.
    pub(crate) fn segments(&self) -> usize {
        self.ring.segments as usize
    }

    /// Segments in use.
    pub(crate) fn segments_used(&self) -> usize {
        self.used.lock().len()
    }

    /// The last frame that is durable.
    pub(crate) fn durable_frame(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }

    /// Lets go of all who wait: nothing more becomes durable for sure.
    pub(crate) fn fail(&self, why: &Arc<str>) {
        self.progress.lock().failed.get_or_insert_with(|| Arc::clone(why));
        self.further.notify_waiters();
    }

    /// Why it goes no further, if it does not.
    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.progress.lock().failed.clone()
    }

    /// Bytes of frames written since it was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Bytes of the segments that were taken into use since then.
    pub(crate) fn bytes_passed(&self) -> u64 {
        self.bytes_passed.load(Ordering::Relaxed)
    }

    /// Whether a group of a program finds room.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.fits(bytes, self.ring.reserve())
    }

    /// Says that a group waits for room.
    pub(crate) fn want(&self, bytes: usize) {
        self.wanted_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Whether entries of the engine's own find room.
    pub(crate) fn has_room_for_own(&self, bytes: usize) -> bool {
        self.fits(bytes, 0)
    }

    /// Whether there are segments free, but for `reserve`, or room in the last one, for what is to be written.
    fn fits(&self, bytes: usize, reserve: u64) -> bool {
        let coming = self.pending.lock().unplaced_bytes + bytes as u64 + GROUP_OVERHEAD_BYTES;
        // First, since a segment that is begun meanwhile counts as used then.
        let left = self.left_bytes.load(Ordering::Relaxed);
        let kept = self.segments_used() as u64 + reserve;
        let free = u64::from(self.ring.segments).saturating_sub(kept) * self.ring.segment.bytes().0;
        let is_kept = kept <= u64::from(self.ring.segments);
        is_kept && coming <= free + left
    }

    /// Puts a group behind the others. Called in the order of the numbers.
    pub(crate) fn append(&self, seq: Seq, group: &[u8]) {
        let mut pending = self.pending.lock();
        if pending.begins.is_empty() {
            pending.first = seq;
        }
        let begin = pending.bytes.len();
        pending.begins.push(begin);
        pending.bytes.extend_from_slice(&(group.len() as u32).to_le_bytes());
        pending.bytes.extend_from_slice(group);
        pending.unplaced_bytes += group.len() as u64 + GROUP_OVERHEAD_BYTES;
        // Who still waits says so again.
        self.wanted_bytes.store(0, Ordering::Relaxed);
        drop(pending);
        self.wake.notify_one();
    }

    /// Returns when `seq` is as durable as was asked for.
    pub(crate) async fn acknowledged(&self, seq: Seq) -> std::result::Result<(), Arc<str>> {
        let durability = self.durability;
        self.reached(|progress| match durability {
            Durability::Flushed => progress.flushed > seq,
            Durability::Written => progress.written > seq,
        })
        .await
    }

    /// Returns when all before `seq` is durable.
    pub(crate) async fn flush_before(&self, seq: Seq) -> std::result::Result<(), Arc<str>> {
        {
            let mut pending = self.pending.lock();
            pending.to_flush = pending.to_flush.max(seq);
        }
        self.wake.notify_one();
        self.reached(|progress| progress.flushed >= seq).await
    }

    async fn reached(
        &self,
        is_reached: impl Fn(&Progress) -> bool,
    ) -> std::result::Result<(), Arc<str>> {
        loop {
            let further = self.further.notified();
            {
                let progress = self.progress.lock();
                if is_reached(&progress) {
                    return Ok(());
                }
                if let Some(why) = &progress.failed {
                    return Err(Arc::clone(why));
                }
            }
            further.await;
        }
    }

    /// From where the log must be read to find `oldest` and all that came after.
    pub(crate) fn start_of(&self, oldest: Seq) -> Option<Start> {
        let used = self.used.lock();
        used.iter().rev().find(|start| start.first <= oldest).or(used.front()).copied()
    }

    /// When the log is half full: the groups before this one are in the older half of it. When programs wait
    /// for room: in any segment but the last.
    pub(crate) fn to_leave(&self) -> Option<Seq> {
        let has_room = self.has_room(self.wanted_bytes.load(Ordering::Relaxed));
        let used = self.used.lock();
        let from = match has_room {
            true if used.len() * 2 <= self.segments() => return None,
            true => used.get(used.len() / 2),
            false => used.back(),
        };
        from.map(|start| start.first)
    }

    /// Whether enough segments would be free if no group before `oldest` were needed: a quarter of all, or any
    /// when there is no room.
    pub(crate) fn would_free(&self, oldest: Seq) -> bool {
        let has_room = self.has_room(self.wanted_bytes.load(Ordering::Relaxed));
        let least = if has_room { (self.segments() / 4).max(1) } else { 1 };
        self.used.lock().get(least).is_some_and(|start| start.first <= oldest)
    }

    /// Frees the segments before `start`.
    pub(crate) fn free_before(&self, start: Start) {
        self.used.lock().retain(|used| used.number >= start.number);
        self.freed.notify_one();
    }

    /// Writes what is appended, until `self` fails. One task does this.
    pub(crate) async fn write_all(&self, mut at: Position) {
        loop {
            let (bytes, begins, first, to_flush) = {
                let mut pending = self.pending.lock();
                let begins = std::mem::take(&mut pending.begins);
                (std::mem::take(&mut pending.bytes), begins, pending.first, pending.to_flush)
            };
            let progress = self.progress.lock().clone();
            let flushes = progress.flushed < to_flush;
            if bytes.is_empty() && !flushes {
                self.wake.notified().await;
                continue;
            }
            let end = match begins.is_empty() {
                true => progress.written,
                false => Seq(first.0 + begins.len() as u64),
            };
            if let Err(error) = self.write(&mut at, &bytes, &begins, first, flushes, end).await {
                let why = format!("writing the log failed: {error}").into();
                self.fail(&why);
                return;
            }
            let placed = begins.len() as u64 * (GROUP_OVERHEAD_BYTES - 4) + bytes.len() as u64;
            self.pending.lock().unplaced_bytes -= placed;
            self.room.notify_waiters();
        }
    }

    async fn write(
        &self,
        at: &mut Position,
        bytes: &[u8],
        begins: &[usize],
        first: Seq,
        flushes: bool,
        end: Seq,
    ) -> Result<()> {
        let mut done = 0;
        let mut begun = 0;
        let number = at.number;
        while done < bytes.len() {
            let group = Seq(first.0 + begun as u64);
            let gap = self.room(at, bytes.len() - done, group).await;
            let content = gap.count.bytes().0 as usize - FRAME_HEADER_BYTES;
            let part = bytes.get(done..bytes.len().min(done + content)).unwrap_or_default();
            let part_end = done + part.len();
            // Up to the first group that begins in this frame.
            let next = begins.get(begun).copied().unwrap_or(bytes.len());
            let continued = (next - done).min(part.len());
            self.write_frame(at, gap.at, part, continued, group).await?;
            begun += begins.iter().skip(begun).take_while(|begin| **begin < part_end).count();
            done = part_end;
        }
        let flushes = flushes || (self.durability == Durability::Flushed && done > 0);
        if flushes {
            self.device.flush().await?;
            self.durable.store(at.number, Ordering::Relaxed);
            at.placing.end(now(), at.number == number + 1);
        }
        {
            let mut progress = self.progress.lock();
            progress.written = end;
            if flushes {
                progress.flushed = end;
            }
        }
        self.further.notify_waiters();
        Ok(())
    }

    /// Where the next frame goes, of content of `bytes` or as much as there is room for; goes on to the next segment,
    /// once that is free, when there is no room in this one.
    async fn room(&self, at: &mut Position, bytes: usize, first: Seq) -> Gap {
        loop {
            if let Some(gap) = at.placing.choose(Frame::blocks(bytes), now()) {
                return gap;
            }
            let segment = self.ring.after(at.placing.segment());
            let start = Start { segment, number: at.number + 1, previous: at.checksum, first };
            loop {
                let freed = self.freed.notified();
                if self.begin(start) {
                    break;
                }
                tracing::warn!("the log of {} is full: writes wait", self.device.inquiry().name);
                freed.await;
            }
            at.placing.go_on_to(segment);
        }
    }

    /// Takes a segment into use; false when all are.
    fn begin(&self, start: Start) -> bool {
        let mut used = self.used.lock();
        let is_free = used.len() < self.segments();
        if is_free {
            used.push_back(start);
            let bytes = self.segments.at(start.segment).count.bytes().0;
            self.bytes_passed.fetch_add(bytes, Ordering::Relaxed);
        }
        is_free
    }

    async fn write_frame(
        &self,
        at: &mut Position,
        place: BlockCount,
        content: &[u8],
        continued: usize,
        first: Seq,
    ) -> Result<()> {
        let frame = Frame {
            log: self.id,
            number: at.number + 1,
            first,
            durable: self.durable.load(Ordering::Relaxed),
            previous: at.checksum,
            bytes: content.len() as u32,
            continued: continued as u32,
            opening: self.opening,
        };
        let (buffer, checksum) = frame.encode(content);
        let blocks = buffer.blocks();
        at.placing.begin(place, blocks, now());
        let first = self.segments.at(at.placing.segment()).first + place;
        self.device.write(first, buffer).await?;
        if !self.device.inquiry().volatile_cache {
            at.placing.end(now(), true);
        }
        self.bytes_written.fetch_add(blocks.bytes().0, Ordering::Relaxed);
        at.number += 1;
        at.checksum = checksum;
        self.left_bytes.store(at.placing.left().bytes().0, Ordering::Relaxed);
        Ok(())
    }

    /// Writes a frame without content, so that what was found behind `at` counts no more.
    pub(crate) async fn write_opening(&self, at: &mut Position, next: Seq) -> Result<()> {
        let is_last = self.segments_used() >= self.segments();
        let gap = match at.placing.choose(BlockCount(1), now()) {
            None if is_last => at.placing.any().ok_or_else(|| {
                let log = &self.device.inquiry().name;
                let problem =
                    format!("{log}: the log is full to its last block: it was made too small");
                Error::Options { problem }
            })?,
            _ => self.room(at, 0, next).await,
        };
        self.write_frame(at, gap.at, &[], 0, next).await?;
        self.device.flush().await?;
        at.placing.end(now(), true);
        self.durable.store(at.number, Ordering::Relaxed);
        Ok(())
    }
}
