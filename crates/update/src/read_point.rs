//! Read points: the state of an engine at one moment, to be read for as long as somebody likes.

use std::sync::Arc;

use crate::draft::Moment;
use crate::engine::Engine;
use crate::ids::PointNumber;
use crate::reader::Reader;
use crate::shared::Shared;

/// The state of an engine at one moment: all groups that readers saw then, over all spaces, and nothing that came later.
///
/// Groups are not held up by it, nor are sweeps. As nothing is overwritten, what it sees stays on the device until it is
/// dropped, and takes space there; some memory says where that lies. Where others need that space, or it takes a
/// quarter of the memory, the oldest read point ends, and reading it fails with
/// [`Error::PointTooOld`](crate::Error::PointTooOld).
///
/// It ends when it is dropped, and with the engine.
pub struct ReadPoint {
    shared: Arc<Shared>,
    number: PointNumber,
}

impl Engine {
    /// Begins a read point. It waits for a batch of [`Engine::ingest`] that is being written, for [`Engine::clear`], and for
    /// the decision of [`Engine::commit_if`].
    pub async fn read_point(&self) -> ReadPoint {
        let shared = Arc::clone(&self.shared);
        // Both change blocks without a group that says when.
        let alone = shared.ingesting.lock().await;
        let clearing = shared.clearing.lock().await;
        let number = {
            let state = &mut *shared.state();
            state.points.begin(Arc::clone(&state.epoch))
        };
        drop((alone, clearing));
        ReadPoint { shared, number }
    }
}

impl ReadPoint {
    /// Reads what was there.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader { shared: &self.shared, moment: Moment { point: self.number, draft: None } }
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
    /// Ends a read point; sweeps may go on with the space that it gives back.
    pub(crate) fn end_point(&self, number: PointNumber) {
        let ended = self.state().points.end(number);
        if ended.is_some() {
            drop(ended);
            self.sweep_wake.notify_one();
        }
    }

    /// Ends the oldest read point, when that may give something back: who modifies comes first. Tells whether there was one.
    pub(crate) fn end_oldest_point(&self) -> bool {
        let ended = {
            let state = &mut *self.state();
            let oldest = state.points.oldest_of_use(&state.epoch);
            oldest.and_then(|oldest| state.points.end(oldest))
        };
        ended.is_some()
    }
}
