//! Read points: the state of an engine at one moment, to be read for as long as somebody likes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::draft::Moment;
use crate::engine::Engine;
use crate::error::Result;
use crate::ids::{PointNumber, Seq};
use crate::long::epoch::Epoch;
use crate::options::Durability;
use crate::reader::Reader;
use crate::shared::Shared;
use crate::state::points::{Ended, Points};

/// The state of an engine at one moment: all groups that readers saw then, over all spaces, and nothing that came later.
///
/// Groups are not held up by it, nor are sweeps. As nothing is overwritten, what it sees stays on the device until it is
/// dropped, and takes space there; some memory says where that lies. Where others need that space, or it takes a
/// quarter of the memory, the oldest read point ends, and reading it fails with
/// [`Error::PointTooOld`](crate::Error::PointTooOld).
///
/// It ends when it is dropped, and when the engine is closed or dropped. Until it is dropped it holds the devices.
pub struct ReadPoint {
    shared: Arc<Shared>,
    number: PointNumber,
    groups_end: Seq,
}

impl Engine {
    /// Begins a read point. It waits for a batch of [`Engine::ingest`] that is being written, for [`Engine::clear`], and for
    /// the decision of [`Engine::commit_if`].
    pub async fn read_point(&self) -> ReadPoint {
        let shared = Arc::clone(&self.shared);
        // Both change blocks without a group that says when.
        let alone = shared.ingesting.lock().await;
        let clearing = shared.clearing.lock().await;
        let (number, groups_end) = {
            let state = &mut *shared.state();
            (state.points.begin(Arc::clone(&state.epoch)), state.applied)
        };
        drop((alone, clearing));
        ReadPoint { shared, number, groups_end }
    }

    /// The number from which on readers see no groups yet ([`Appended::number`](crate::Appended::number)).
    #[must_use]
    pub fn groups_end(&self) -> u64 {
        self.shared.log.visible().0
    }

    /// The number of the next group that is appended.
    #[must_use]
    pub fn groups_appended(&self) -> u64 {
        self.shared.log.appended().0
    }

    /// Returns when readers see the group of this number, which was appended.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped), and they may never see it.
    pub async fn see(&self, number: u64) -> Result<()> {
        self.shared.acknowledged(Seq(number), Durability::Written).await
    }
}

impl ReadPoint {
    /// Reads what was there.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        let moment = Moment { point: self.number, ..Moment::NOW };
        Reader { shared: &self.shared, moment }
    }

    /// The number from which on it sees no groups ([`Appended::number`](crate::Appended::number)).
    #[must_use]
    pub fn groups_end(&self) -> u64 {
        self.groups_end.0
    }

    /// Whether it can still be read.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shared.state().points.epoch(self.number).is_some()
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        self.shared.end_point(self.number);
    }
}

impl std::fmt::Debug for ReadPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadPoint({} of {})", self.number.0, self.shared.data.inquiry().name)
    }
}

impl Shared {
    /// Ends a read point. The sweeper is woken where that frees space: most read points, those of short transactions, kept none.
    pub(crate) fn end_point(&self, number: PointNumber) {
        if self.end_points(|points, _| points.end(number)) == Some(Freed::Space) {
            self.sweep_wake.notify_one();
        }
    }

    /// Ends the oldest read point if read points keep any space: commits come first. Returns whether one ended.
    pub(crate) fn end_oldest_point(&self) -> bool {
        let ended = self.end_points(|points, epoch| {
            points.oldest_of_use(epoch).and_then(|oldest| points.end(oldest))
        });
        ended.is_some()
    }

    /// Ends all read points.
    pub(crate) fn end_all_points(&self) {
        let end = |points: &mut Points, _: &Arc<Epoch>| {
            points.oldest().and_then(|oldest| points.end(oldest))
        };
        while self.end_points(end).is_some() {}
    }

    /// `None` where no read point ended.
    fn end_points(
        &self,
        end: impl FnOnce(&mut Points, &Arc<Epoch>) -> Option<Ended>,
    ) -> Option<Freed> {
        let (ended, freed) = {
            let state = &mut *self.state();
            let ended = end(&mut state.points, &state.epoch)?;
            self.ending.fetch_add(1, Ordering::Relaxed);
            let freed = if ended.kept_space(&state.epoch) { Freed::Space } else { Freed::Nothing };
            (ended, freed)
        };
        // Outside of the lock: there may be much of it.
        drop(ended);
        self.ending.fetch_sub(1, Ordering::Relaxed);
        self.room.notify_waiters();
        Some(freed)
    }
}

/// What the end of a read point gave back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    Space,
    Nothing,
}
