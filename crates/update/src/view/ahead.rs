//! A task reads the views of a scan ahead of it.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai_runtime::{BoundTask, Task, spawn};
use tokio::sync::mpsc;

use super::{At, OwnedAt, View, WantedView};
use crate::draft::Moment;
use crate::error::Result;
use crate::ids::SpaceId;
use crate::read::Wanted;
use crate::shared::Shared;

/// Reads in flight at least: the device is to have one while another's blocks are taken.
const READS_MIN: usize = 2;

/// The views of a scan, in order. A task reads them before the scan asks for them.
pub struct Views {
    views: mpsc::Receiver<Result<View>>,
    ahead_bytes: u64,
    _task: BoundTask<()>,
}

impl Views {
    /// Bytes that are read ahead, about.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// The next one; `None` behind the last, and once the runtime ends.
    pub async fn next(&mut self) -> Option<Result<View>> {
        self.views.recv().await
    }
}

/// Reads in flight. Dropping them cancels the reads.
#[derive(Default)]
struct Reads {
    /// Each with the bytes that it counts for.
    tasks: VecDeque<(usize, BoundTask<Result<View>>)>,
    bytes: usize,
}

impl Reads {
    fn push(&mut self, bytes: usize, task: Task<Result<View>>) {
        self.bytes += bytes;
        self.tasks.push_back((bytes, task.bound()));
    }

    fn pop(&mut self) -> Option<BoundTask<Result<View>>> {
        let (bytes, task) = self.tasks.pop_front()?;
        self.bytes -= bytes;
        Some(task)
    }
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").finish_non_exhaustive()
    }
}

impl WantedView {
    /// The bytes that it counts for among those that are read ahead: those of a view of up to `blocks_max` blocks of its partition,
    /// where it ends with the partition, too.
    fn bytes_ahead(&self, blocks_max: usize) -> usize {
        let Wanted { place, units, .. } = &self.wanted;
        let blocks = blocks_max.min(place.spec().division.partition_blocks as usize).max(1);
        blocks * place.shape().bytes_of(*units).max(1)
    }
}

impl Shared {
    /// Views from `at` on, in its direction, while `goes_on` says so of the key where the next one begins, or ends.
    pub(crate) fn views(
        self: &Arc<Shared>,
        space: SpaceId,
        at: At<'_>,
        (blocks_max, moment): (usize, Moment<'_>),
        goes_on: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Views {
        let (sender, views) = mpsc::channel(1);
        let at = OwnedAt::of(at);
        let shared = Arc::clone(self);
        let Moment { point, units, in_layers, .. } = moment;
        let draft = moment.draft.map(|draft| draft.of_space(space));
        let task = spawn(async move {
            let draft = draft.as_ref();
            let moment = Moment { point, draft, units, in_layers, within: None };
            shared.read_ahead(space, at, (blocks_max, moment), goes_on, sender).await;
        });
        Views { views, ahead_bytes: self.ahead_bytes as u64, _task: task.bound() }
    }

    async fn read_ahead(
        self: Arc<Shared>,
        space: SpaceId,
        at: OwnedAt,
        (blocks_max, moment): (usize, Moment<'_>),
        goes_on: impl Fn(&[u8]) -> bool + Send + 'static,
        sender: mpsc::Sender<Result<View>>,
    ) {
        let mut next = Some(at);
        let mut reads = Reads::default();
        loop {
            while (reads.bytes < self.ahead_bytes || reads.tasks.len() < READS_MIN)
                && let Some(at) = next.take()
            {
                let wanted = self.located(space, at.at(), blocks_max, moment).await;
                if let Ok(Some(wanted)) = &wanted {
                    next = at.behind(wanted).filter(|next| goes_on(next.key()));
                }
                let Some(wanted) = wanted.transpose() else { break };
                let bytes = wanted.as_ref().map_or(0, |wanted| wanted.bytes_ahead(blocks_max));
                let bytes = bytes.min(self.view_bytes_max());
                let shared = Arc::clone(&self);
                let read = async move { shared.read_view(wanted?).await };
                reads.push(bytes, spawn(read));
            }
            let Some(read) = reads.pop() else { return };
            if sender.send(read.await).await.is_err() {
                return;
            }
        }
    }
}
