//! The log: groups of entries, one behind the other, on one disk or several, each a ring of segments.
//!
//! `append` only queues a group; the log writer (`crate::log::writer`) writes all groups that are queued.
//!
//! The groups before [`Log::appended`] have numbers; those before [`Log::written`] are in frames on the disks; those before
//! [`Log::flushed`] are durable; those before [`Log::visible`] may be shown to readers. Once the log failed, none of these
//! ends moves: a group that failed never becomes visible.
//!
//! # Why no group waits for ever
//!
//! Groups of programs wait while the log has no room. They leave the segments of [`Log::reserve`] free, and what makes room does
//! not wait for the log:
//!
//! 1. A checkpoint alone frees segments: those before the oldest group that a queue needs. It writes nothing to the log.
//! 2. Sweeps make that group a younger one. A group that waits for room asks for it ([`Log::want`]), and the sweeper then sweeps the
//!    partitions that need any segment but the last ([`Log::to_leave`]). A sweep needs nothing that waiting groups hold.
//! 3. Sweeps log seals, and what they staged or placed. At most two batches of such entries are in flight, each of at most
//!    [`Log::own_bytes_max`], a third of the reserve. The reserve may lack room for them: emitted modifications of other spaces take
//!    room there, too, and the seals of a bulk group may be longer. Then the state takes the entries unlogged, and a checkpoint follows
//!    at once (`sweep::finish`); a bulk group is refused, or tried again after a checkpoint (`sweep::absorb`). So sweeps do not wait.
//! 4. A sweep may lack space on the data device, and its partition then waits with the log that it needs. While it does
//!    (`Shared::is_stuck`), groups fail with [`Error::Full`](crate::Error::Full) instead of waiting.
//! 5. The longest group ([`Log::group_bytes_max`]) finds room once only the reserve and the last segment of each disk are taken.
//!    Segments become free up to that point, since groups are taken in one at a time (`Shared::turn`): no later one comes first.
//!
//! A program that reserved room ([`Engine::reserve`](crate::Engine::reserve)) keeps it until it appends or lets go. It must not wait
//! meanwhile for a group that needs more than is left.

pub(crate) mod batch;
mod filling;
pub(crate) mod frame;
pub(crate) mod placing;
mod readers;
pub(crate) mod replay;
pub(crate) mod segments;
pub(crate) mod used;
pub(crate) mod walk;
pub(crate) mod writer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use moirai_units::{BlockCount, ByteCount, Instant, Nanos};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ids::Seq;
use crate::log::batch::{Batch, Groups};
use crate::log::frame::{FRAME_HEADER_BYTES, Frame};
use crate::log::segments::{LOG_DISKS_MAX, LogDisk, LogWriter, Start};
use crate::log::used::Used;
use crate::options::{Durability, Options};

/// Bytes of a batch of the engine's own entries, however long the log is: a group's length has 32 bits.
const OWN_BYTES_MAX: u64 = 1 << 28;

/// A log is short while at most one segment in so many is in use.
const SHORT_SHARE: usize = 8;

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

impl Progress {
    fn visible(&self, durability: Durability) -> Seq {
        match durability {
            Durability::Flushed => self.flushed,
            Durability::Written => self.written,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) disks: Vec<LogDisk>,
    pub(crate) opening: u32,
    pub(crate) durability: Durability,
    /// See [`Options::log_wait`].
    pub(crate) wait: Nanos,
    /// Segments of all disks, and what counts of the shortest.
    segments: u32,
    segment: BlockCount,
    /// What a group may take beside its bytes: its length, a frame's header, and the rest of a physical sector.
    group_overhead_bytes: u64,
    pending: Mutex<Pending>,
    used: Mutex<Used>,
    pub(crate) wake: Notify,
    pub(crate) freed: Notify,
    /// Told when there may be room for more.
    room: Arc<Notify>,
    progress: Mutex<Progress>,
    /// Told when it came further. A channel of tokio's would wake who waits in an order that differs from run to run.
    further: Notify,
    bytes_written: AtomicU64,
    bytes_passed: AtomicU64,
    /// See [`Log::visible`].
    visible: AtomicU64,
    /// The last frame that is durable.
    durable: AtomicU64,
    /// Contents of so many bytes find room in the last segments.
    left_bytes: AtomicU64,
    /// Bytes of the longest group that waits for room.
    wanted_bytes: AtomicUsize,
    /// Bytes of memory of groups, and of the frames that are being written.
    groups_bytes: AtomicUsize,
    frames_bytes: AtomicUsize,
}

/// What is to be written.
#[derive(Debug, Default)]
struct Pending {
    groups: Groups,
    /// When the first of these came.
    since: Instant,
    /// Groups that the writer took, and the state does not have yet, the oldest first.
    unapplied: VecDeque<Arc<Groups>>,
    /// Groups before this one are to be flushed.
    to_flush: Seq,
    /// Bytes that all this may take, and what is being written.
    unplaced_bytes: u64,
}

/// What a log is opened with.
pub(crate) struct Opened {
    pub(crate) disks: Vec<LogDisk>,
    pub(crate) opening: u32,
    pub(crate) used: VecDeque<Start>,
    /// The next group.
    pub(crate) next: Seq,
    /// The last frame, which is durable.
    pub(crate) frame: u64,
    pub(crate) room: Arc<Notify>,
}

impl Log {
    pub(crate) fn new(opened: Opened, options: &Options) -> Log {
        let Opened { disks, opening, used, next, frame, room } = opened;
        let rings = || disks.iter().map(|disk| disk.segments.ring);
        let progress = Progress { written: next, flushed: next, failed: None };
        Log {
            segments: rings().map(|ring| ring.segments).sum(),
            segment: rings().map(|ring| ring.segment).min().unwrap_or_default(),
            group_overhead_bytes: 4
                + FRAME_HEADER_BYTES as u64
                + rings().map(|ring| ring.physical.bytes().0).max().unwrap_or_default(),
            disks,
            opening,
            durability: options.durability,
            wait: options.log_wait,
            pending: Mutex::new(Pending { groups: Groups::from(next), ..Pending::default() }),
            used: Mutex::new(Used::new(used)),
            wake: Notify::new(),
            freed: Notify::new(),
            room,
            progress: Mutex::new(progress),
            further: Notify::new(),
            bytes_written: AtomicU64::new(0),
            bytes_passed: AtomicU64::new(0),
            visible: AtomicU64::new(next.0),
            durable: AtomicU64::new(frame),
            left_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicUsize::new(0),
            groups_bytes: AtomicUsize::new(0),
            frames_bytes: AtomicUsize::new(0),
        }
    }

    /// Segments that only the engine's own entries may take: what frees others must find room.
    fn reserve(&self) -> u64 {
        u64::from(self.segments / 4).max(2)
    }

    /// The longest group: one that finds room once the log is empty.
    pub(crate) fn group_bytes_max(&self) -> usize {
        self.bytes_beside(self.reserve())
    }

    /// The same of the engine's own entries.
    pub(crate) fn own_group_bytes_max(&self) -> usize {
        self.bytes_beside(0)
    }

    /// Bytes of a group that finds room once no segment is in use but these.
    fn bytes_beside(&self, segments: u64) -> usize {
        let taken = segments + 1 + self.disks.len() as u64;
        let segments = u64::from(self.segments).saturating_sub(taken).max(1);
        let bytes = segments * Frame::content_bytes(self.segment) - self.group_overhead_bytes;
        bytes.min(u64::from(u32::MAX / 2)) as usize
    }

    /// Bytes that a batch of the engine's own entries may take: there may be two under way.
    pub(crate) fn own_bytes_max(&self) -> usize {
        (self.segment.bytes().0 * self.reserve() / 3).min(OWN_BYTES_MAX) as usize
    }

    /// Segments that could be in use.
    pub(crate) fn segments(&self) -> usize {
        self.segments as usize
    }

    /// Bytes of all segments.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.segments.blocks().bytes().0).sum()
    }

    /// Segments in use.
    pub(crate) fn segments_used(&self) -> usize {
        self.used.lock().starts.len() + self.disks.len() - 1
    }

    /// Whether frames lie where the head was.
    pub(crate) fn is_trail(&self) -> bool {
        self.disks.iter().any(|disk| disk.segments.ring.writer != LogWriter::Append)
    }

    /// The disks' names.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> =
            self.disks.iter().map(|disk| disk.device.inquiry().name.as_str()).collect();
        names.join(", ")
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
        self.fits(bytes, self.reserve())
    }

    /// Says that a group waits for room.
    pub(crate) fn want(&self, bytes: usize) {
        self.wanted_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Whether entries of the engine's own find room.
    pub(crate) fn has_room_for_own(&self, bytes: usize) -> bool {
        // A group's length has 32 bits.
        bytes <= u32::MAX as usize / 2 && self.fits(bytes, 0)
    }

    /// Whether there are segments free, but for `reserve`, or room in the last ones, for what is to be written.
    fn fits(&self, bytes: usize, reserve: u64) -> bool {
        let coming = self.pending.lock().unplaced_bytes + bytes as u64 + self.group_overhead_bytes;
        // First, since a segment that is begun meanwhile counts as used then.
        let left = self.left_bytes.load(Ordering::Relaxed);
        let kept = self.segments_used() as u64 + reserve;
        let segments = u64::from(self.segments);
        let free = segments.saturating_sub(kept) * Frame::content_bytes(self.segment);
        kept <= segments && coming <= free + left
    }

    /// Keeps room for a group that is to come.
    pub(crate) fn hold(&self, bytes: usize) {
        self.pending.lock().unplaced_bytes += bytes as u64 + self.group_overhead_bytes;
    }

    /// Keeps it no longer.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.pending.lock().unplaced_bytes -= bytes as u64 + self.group_overhead_bytes;
        self.room.notify_waiters();
    }

    /// Numbers a group and puts it behind the others.
    pub(crate) fn append(&self, group: &[u8], at: Instant) -> Seq {
        let mut pending = self.pending.lock();
        if pending.groups.is_empty() {
            pending.since = at;
        }
        let seq = pending.groups.push(group);
        pending.unplaced_bytes += group.len() as u64 + self.group_overhead_bytes;
        self.note_groups(&pending);
        // Who still waits says so again.
        self.wanted_bytes.store(0, Ordering::Relaxed);
        drop(pending);
        self.wake.notify_one();
        seq
    }

    /// Bytes of memory of what is to be written, what is being written, and groups that the state may lack.
    pub(crate) fn memory_bytes(&self) -> usize {
        let groups = self.groups_bytes.load(Ordering::Relaxed);
        groups + self.frames_bytes.load(Ordering::Relaxed)
    }

    fn note_groups(&self, pending: &Pending) {
        let taken = pending.unapplied.iter().map(|groups| groups.memory_bytes());
        let bytes = pending.groups.memory_bytes() + taken.sum::<usize>();
        self.groups_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Groups before this one are appended.
    pub(crate) fn appended(&self) -> Seq {
        self.pending.lock().groups.end()
    }

    /// Groups before this one may be shown to readers: durable ones, or with [`Durability::Written`] written ones.
    pub(crate) fn visible(&self) -> Seq {
        Seq(self.visible.load(Ordering::Acquire))
    }

    /// The visible groups from `seq` on, up to some later one. `seq` is visible.
    pub(crate) fn unapplied(&self, seq: Seq) -> Option<Arc<Groups>> {
        let mut pending = self.pending.lock();
        let mut is_passed = false;
        while pending.unapplied.pop_front_if(|groups| groups.end() <= seq).is_some() {
            is_passed = true;
        }
        if is_passed {
            self.note_groups(&pending);
        }
        pending.unapplied.front().cloned()
    }

    /// Returns when all before `seq` is visible.
    pub(crate) async fn visible_before(&self, seq: Seq) -> std::result::Result<(), Arc<str>> {
        let durability = self.durability;
        self.reached(|progress| progress.visible(durability) >= seq).await
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
        let starts = &self.used.lock().starts;
        starts.iter().rev().find(|start| start.first <= oldest).or(starts.front()).copied()
    }

    /// When the log is half full: the groups before this one are in the older half of it. When programs wait
    /// for room, or the log is to be short: in any segment but the last.
    pub(crate) fn to_leave(&self, is_to_be_short: bool) -> Option<Seq> {
        let has_room = self.has_room(self.wanted_bytes.load(Ordering::Relaxed));
        let is_long = self.is_long(is_to_be_short);
        let starts = &self.used.lock().starts;
        let from = if has_room && !is_long {
            None
        } else if has_room && !is_to_be_short {
            starts.get(starts.len() / 2)
        } else {
            starts.back()
        };
        from.map(|start| start.first)
    }

    /// Whether more than half of the segments are in use, or more than one in [`SHORT_SHARE`] when the log is to be short.
    pub(crate) fn is_long(&self, is_to_be_short: bool) -> bool {
        if !is_to_be_short {
            return self.segments_used() * 2 > self.segments();
        }
        self.segments_used() > (self.segments() / SHORT_SHARE).max(self.disks.len() + 1)
    }

    /// Whether enough segments would be free if no group before `oldest` were needed: a quarter of all, or any
    /// when there is no room.
    pub(crate) fn would_free(&self, oldest: Seq) -> bool {
        let has_room = self.has_room(self.wanted_bytes.load(Ordering::Relaxed));
        let starts = &self.used.lock().starts;
        let least = if has_room { (self.segments() / 4).min(starts.len() / 2).max(1) } else { 1 };
        starts.get(least).is_some_and(|start| start.first <= oldest)
    }

    /// Frees the segments before `start`.
    pub(crate) fn free_before(&self, start: Start) {
        self.used.lock().starts.retain(|used| used.number >= start.number);
        self.freed.notify_one();
    }

    /// Whether there are free segments to give back to a device.
    pub(crate) fn has_discardable(&self) -> bool {
        self.used.lock().has_discardable(&self.disks)
    }

    /// Gives some free segments back to their device, about `most` bytes; tells whether there were any.
    pub(crate) async fn discard_some(&self, most: ByteCount) -> bool {
        let Some(free) = self.used.lock().take_discardable(&self.disks, most) else { return false };
        if let Some(LogDisk { device, .. }) = self.disks.get(free.disk)
            && let Err(error) = device.discard(free.blocks).await
        {
            let name = &device.inquiry().name;
            tracing::debug!("{name}: free segments of the log were not given back: {error}");
        }
        self.used.lock().discarded(free);
        self.freed.notify_one();
        true
    }

    /// Since when the oldest group waits that is to be written, if there is one.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let pending = self.pending.lock();
        (!pending.groups.is_empty()).then_some(pending.since)
    }

    /// What is to be written, by who writes it.
    pub(crate) fn take(&self) -> Batch {
        let mut pending = self.pending.lock();
        let none = Groups::from(pending.groups.end());
        let groups = Arc::new(std::mem::replace(&mut pending.groups, none));
        pending.unapplied.push_back(Arc::clone(&groups));
        Batch::new(groups)
    }

    /// Groups before this one are to be flushed; all of them were appended.
    pub(crate) fn to_flush(&self) -> Seq {
        self.pending.lock().to_flush
    }

    /// Groups before this one are durable.
    pub(crate) fn flushed(&self) -> Seq {
        self.progress.lock().flushed
    }

    /// The segment of `disk` behind `segment`, when that is free.
    pub(crate) fn next_free(&self, disk: usize, segment: u32) -> Option<u32> {
        let ring = &self.disks.get(disk)?.segments.ring;
        self.used.lock().next_free(disk, segment, ring)
    }

    /// Takes a segment of `disk` into use, which is free: by the frame `number`, behind that of checksum `previous`.
    pub(crate) fn begin(&self, disk: usize, segment: u32, number: u64, previous: u32, first: Seq) {
        let Some(segments) = self.disks.get(disk).map(|disk| &disk.segments) else { return };
        let mut used = self.used.lock();
        let at = used.starts.back().map_or([0; LOG_DISKS_MAX], |last| last.at);
        let start = Start { at, number, previous, first }.with(disk, segment);
        used.begin(disk, segment, start, &segments.ring);
        let bytes = segments.at(segment).count.bytes().0;
        self.bytes_passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A frame of so many blocks goes to a disk; contents of `left_bytes` find room in the last segments then.
    pub(crate) fn count_frame(&self, blocks: BlockCount, left_bytes: u64) {
        self.frames_bytes.fetch_add(blocks.bytes().0 as usize, Ordering::Relaxed);
        self.bytes_written.fetch_add(blocks.bytes().0, Ordering::Relaxed);
        self.left_bytes.store(left_bytes, Ordering::Relaxed);
    }

    /// A frame of so many blocks was written.
    pub(crate) fn frame_written(&self, blocks: BlockCount) {
        self.frames_bytes.fetch_sub(blocks.bytes().0 as usize, Ordering::Relaxed);
    }

    /// A batch has its places.
    pub(crate) fn placed(&self, batch: &Batch) {
        let bytes = batch.groups() as u64 * (self.group_overhead_bytes - 4) + batch.len() as u64;
        self.pending.lock().unplaced_bytes -= bytes;
        self.room.notify_waiters();
    }

    /// Groups before `end` are written, all up to the frame `durable` is durable.
    pub(crate) fn advance(&self, written: Seq, flushed: Option<(Seq, u64)>) {
        {
            let mut progress = self.progress.lock();
            // Who waited was told that these failed.
            if progress.failed.is_some() {
                return;
            }
            progress.written = written;
            if let Some((end, frame)) = flushed {
                progress.flushed = end;
                self.durable.store(frame, Ordering::Relaxed);
            }
            self.visible.store(progress.visible(self.durability).0, Ordering::Release);
        }
        self.further.notify_waiters();
        // Groups that wait for memory count what is not visible yet.
        self.room.notify_waiters();
    }

    /// Groups before this one are written.
    pub(crate) fn written(&self) -> Seq {
        self.progress.lock().written
    }
}
