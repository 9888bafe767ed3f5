//! Space on the data device: what programs may fill, and what is kept for sweeps and checkpoints.
//!
//! ```text
//!  in use | free
//!         | growth: what is pending and staged | room for programs | two partitions | a checkpoint |
//! ```
//!
//! A group that adds something is taken in while there is room for it beside the growth of all that is not applied yet. So
//! sweeps always find the space that they need: to rewrite a partition takes an extent for it, which they keep free, and
//! gives back that of the old blocks. Where there is no room left, everything is applied first, and only then is the store
//! full. Deletes are always taken in.

use std::sync::atomic::Ordering;

use moirai_units::{BlockCount, ByteCount};

use crate::error::Result;
use crate::ids::Seq;
use crate::shared::Shared;
use crate::state::State;

/// A device is full when all is applied, and less than one block in so many is free.
const FULL_SHARE: u64 = 4096;
/// How well blocks are packed varies, and what went in before the device was full for the first time is to go in again. So
/// one block in so many is left free until then.
const SLACK_SHARE: u64 = 128;
/// The part of the memory that what read points keep may take.
const VERSIONS_SHARE: usize = 4;

impl Shared {
    /// Device blocks that rewriting partitions leaves free: for the next checkpoint, while the last one is kept.
    pub(crate) fn checkpoint_reserve(&self) -> BlockCount {
        let more_bytes = ByteCount(self.directory_more_bytes.load(Ordering::Relaxed));
        let next =
            self.directory_blocks.load(Ordering::Relaxed) + BlockCount::holding(more_bytes).0;
        // Its pages, its index and its root each end in the middle of a grain.
        BlockCount(next + next / 8 + 3 * self.layout.division.grain.0)
    }

    /// Keeps space for what the next checkpoint says of something that a sweep writes: the directory will be so many bytes longer
    /// for it. To be called before space for it is taken: the first sweep of an empty store may make all of the directory.
    pub(crate) fn grow_directory(&self, bytes: usize) {
        self.directory_more_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Keeps no space any more for so many bytes of something that was not written after all.
    pub(crate) fn shrink_directory(&self, bytes: usize) {
        self.directory_more_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// All that was swept is in the directory.
    pub(crate) fn note_swept(&self) {
        self.note_directory();
        self.directory_more_bytes.store(0, Ordering::Relaxed);
    }

    /// Device blocks that programs cannot fill: for the next checkpoint, and to rewrite any partition, so that deletes
    /// can be applied to a full device.
    pub(crate) fn reserve(&self) -> BlockCount {
        let (held, next) =
            (self.checkpoint_blocks.load(Ordering::Relaxed), self.checkpoint_reserve());
        // Two checkpoints of this length, however long the last one was.
        let checkpoints = (2 * next.0).saturating_sub(held).max(next.0);
        let partition = self.partition_blocks_max.load(Ordering::Relaxed);
        BlockCount(checkpoints + 2 * partition)
    }

    /// Whether enough is free to keep two partitions of so many device blocks free, too.
    pub(crate) fn has_room_for_partition(&self, blocks: BlockCount) -> bool {
        let longest = self.partition_blocks_max.load(Ordering::Relaxed);
        let more = 2 * blocks.0.saturating_sub(longest);
        more == 0 || self.extents.free().0 >= self.reserve().0 + more
    }

    /// Remembers how long the next checkpoint may be, and what the maps take of the memory.
    pub(crate) fn note_directory(&self) {
        let (bytes, maps_bytes) = {
            let state = self.state();
            (ByteCount(state.directory_bytes as u64), state.maps_bytes())
        };
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        let maps_bytes = maps_bytes + self.extents.memory_bytes() + kept_bytes;
        self.maps_bytes.store(maps_bytes, Ordering::Relaxed);
        self.directory_blocks.store(BlockCount::holding(bytes).0, Ordering::Relaxed);
    }

    /// Device blocks that applying what is pending and staged may take beside those that it frees.
    pub(crate) fn growth(&self) -> BlockCount {
        self.growth_with(&self.glance(), 0)
    }

    /// The same with so many bytes more.
    fn growth_with(&self, state: &State, more: usize) -> BlockCount {
        let bytes = state.waiting_bytes() + (state.reserved_bytes + more) as u64;
        // Blocks have some bytes more to each modification, and are seldom quite full.
        BlockCount::holding(ByteCount(bytes + bytes / 4))
    }

    /// Device blocks for what programs have not filled yet.
    fn room(&self, state: &State) -> u64 {
        let slack = if state.was_full { 0 } else { self.extents.capacity().0 / SLACK_SHARE };
        self.extents.free().0.saturating_sub(self.reserve().0 + slack)
    }

    /// Whether a group that adds so many bytes finds space on the data device once it is applied.
    pub(crate) fn has_space(&self, state: &State, added_bytes: usize) -> bool {
        // The last bit is not worth the sweeps that would fill it.
        let least = match state.waiting_bytes() {
            0 => self.extents.capacity().0 / FULL_SHARE,
            _ => 0,
        };
        let fits = self.growth_with(state, added_bytes).0.max(least) <= self.room(state);
        added_bytes == 0 || (fits && !self.is_stuck.load(Ordering::Relaxed))
    }

    /// Whether the device is full: sweeps have applied everything that they can, almost no space is free, and no read point
    /// keeps any.
    pub(crate) fn is_full(&self, state: &State) -> bool {
        let is_applied = state.waiting_bytes() == 0 && !self.is_sweeping.load(Ordering::Relaxed);
        let is_stuck = self.is_stuck.load(Ordering::Relaxed);
        (is_stuck || is_applied) && !self.do_points_keep(state)
    }

    /// Whether read points keep something, or something that one kept is about to be free.
    pub(crate) fn do_points_keep(&self, state: &State) -> bool {
        let is_ending = self.ending.load(Ordering::Relaxed) > 0;
        is_ending || state.points.oldest_of_use(&state.epoch).is_some()
    }

    /// Whether sweeps have found no space for the group that waits.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_space_refused.load(Ordering::Relaxed)
    }

    /// Has sweeps rewrite partitions until half of the space that is free is enough for what is not applied yet and a group
    /// that adds so many bytes.
    pub(crate) fn want_space(&self, added_bytes: usize) {
        self.space_wanted_bytes.store(added_bytes, Ordering::Relaxed);
    }

    pub(crate) fn is_space_wanted(&self, state: &State) -> bool {
        let wanted_bytes = self.space_wanted_bytes.load(Ordering::Relaxed);
        if wanted_bytes == 0 {
            return false;
        }
        let is_wanted = self.growth_with(state, wanted_bytes).0 > self.room(state) / 2;
        if !is_wanted {
            self.space_wanted_bytes.store(0, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Whether a group waits for space, and what is applied.
    pub(crate) fn wanted_space(&self) -> Option<Seq> {
        let state = self.state();
        (self.space_wanted_bytes.load(Ordering::Relaxed) > 0).then_some(state.applied)
    }

    /// Tells a group that waits for space that sweeps find no more of it: all is applied, or is for partitions that are set
    /// aside. Returns whether there was such a group, given [`Shared::wanted_space`] before sweeps looked.
    pub(crate) async fn refuse_space(&self, wanted: Option<Seq>) -> Result<bool> {
        let Some(applied) = wanted else {
            // One that came meanwhile is looked after next.
            return Ok(self.space_wanted_bytes.load(Ordering::Relaxed) > 0);
        };
        let (unapplied_bytes, applied_now) = {
            let state = self.state();
            (state.unapplied.bytes, state.applied)
        };
        // Groups before it may be on their way to the log, or came since, and delete something.
        if unapplied_bytes > 0 || applied_now != applied {
            self.all_visible().await?;
            return Ok(true);
        }
        if self.end_oldest_point() || self.ending.load(Ordering::Relaxed) > 0 {
            return Ok(true);
        }
        self.space_wanted_bytes.store(0, Ordering::Relaxed);
        self.is_space_refused.store(true, Ordering::Relaxed);
        self.room.notify_waiters();
        Ok(true)
    }

    /// Ends the oldest read points where what they keep takes too much memory; and where more than so many free blocks are
    /// wanted, until there are.
    pub(crate) fn shorten_history(&self, wanted_beyond: Option<BlockCount>) {
        if let Some(free) = wanted_beyond {
            // Several may share what they keep.
            while self.extents.free() <= free && self.end_oldest_point() {}
        }
        let most = self.memory_bytes / VERSIONS_SHARE;
        while self.glance().points.memory_bytes() > most && self.end_oldest_point() {}
        // Blocks of long values may be kept by others than read points: one of these for each sweep shows whether it helps.
        if self.glance().epoch.memory_bytes() > most {
            self.end_oldest_point();
        }
    }

    /// Says whether partitions wait for space, and nothing can be done for them.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        if self.is_stuck.swap(is_stuck, Ordering::Relaxed) != is_stuck {
            self.room.notify_waiters();
        }
    }
}
