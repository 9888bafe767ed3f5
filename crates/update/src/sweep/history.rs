//! Histories: what was sealed of a partition and came before read points, as a chunk for their readers. See `state::points`.

use std::sync::Arc;

use moirai_storage::IoBuf;

use crate::error::Result;
use crate::shared::Shared;
use crate::state::chunk::Chunk;
use crate::state::partition::Staged;
use crate::sweep::job::{Job, Member};

impl Shared {
    /// Writes the histories of a job's partitions, which is carried out: readers need them once it counts.
    pub(super) async fn write_histories(&self, job: &mut Job) -> Result<()> {
        for member in &mut job.members {
            member.history = self.write_history(member).await?;
        }
        Ok(())
    }

    /// Writes the history of a partition, if it has one. Where there is no space beside what sweeps need, the oldest read point
    /// ends.
    async fn write_history(&self, member: &Member) -> Result<Option<Arc<Staged>>> {
        let Member { sealed, covered, .. } = member;
        loop {
            let live = self.glance().points.between(*covered, sealed.points);
            let history = sealed.queue.history(&live);
            let Some(oldest) = live.first().filter(|_| !history.is_empty()) else {
                return Ok(None);
            };
            let blocks = self.blocks_for_chunk(member, 0).await;
            let (chunk, bytes, _) =
                Chunk::of(&[], &history, &blocks, &self.kinds, &*member.place.spec().format);
            let reserve = self.reserve() + self.growth();
            if let Some(extent) = self.extents.take(chunk.length(), reserve) {
                self.data.write(extent.first(), IoBuf::holding(&bytes)).await?;
                self.counts.history_bytes.add(chunk.length().bytes().0);
                return Ok(Some(Arc::new(Staged { chunk, extent })));
            }
            if !self.end_oldest_point() {
                self.end_point(*oldest);
            }
        }
    }

    /// Bytes of memory that it takes to write the longest history of a job, about.
    pub(super) fn history_working_bytes(&self, job: &Job) -> usize {
        let state = self.glance();
        let bytes = |one: &Member| match state.points.between(one.covered, one.sealed.points)[..] {
            [] => 0,
            // The modifications with their marks, which may be as long; where they lie in their order; and their chunk twice.
            _ => 9 * one.sealed.queue.bytes(),
        };
        job.members.iter().map(bytes).max().unwrap_or_default()
    }
}
