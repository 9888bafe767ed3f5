//! Which partitions of a batch are rewritten although more could be staged for them.

use std::cmp::Reverse;

use crate::state::partition::staged_blocks;
use crate::sweep::job::{BATCH_PARTITIONS, Job, Member};

/// Marks partitions for rewriting before they have staged all that they may: partitions loaded together fill up
/// together, and rewriting all in one sweep would stall writers.
///
/// A partition that may stage n chunks needs one rewrite in n + 1 sweeps, so each partition with staged data adds
/// 1 / (n + 1) to `due`, which carries over to the next batch. Partitions that would overflow now are always marked;
/// the fullest make up the rest. For example, 64 partitions that have each staged 8 KiB in one chunk, of 64 KiB that
/// they may: n = 8, and a batch rewrites 64 / 9, about seven of them. On return 0 <= `due` <= `BATCH_PARTITIONS`:
/// forced rewrites leave no debt.
pub(super) fn level(jobs: &mut [Job], due: &mut f64) {
    let staged = |one: &Member| staged_blocks(&one.staged).bytes().0 as usize;
    // The bytes that one sweep of the partition stages, judged by its chunks so far.
    let chunk = |one: &Member| staged(one).checked_div(one.staged.len()).unwrap_or(0).max(1);
    let coming = |one: &Member| chunk(one).min(one.sealed.queue.bytes());
    let mut known: Vec<(bool, usize, &mut Job)> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let [one] = &job.members[..] else { continue };
        if one.staged.is_empty() || one.sealed.queue.is_empty() {
            continue;
        }
        let room = one.place.spec().division.staging_bytes();
        // The share of sweeps that find no room.
        *due += 1.0 / (1 + room / chunk(one)) as f64;
        let is_placed = job.is_to_place || staged(one) + coming(one) > room;
        known.push((is_placed, staged(one), job));
    }
    let placed = known.iter().filter(|(is_placed, ..)| *is_placed).count();
    known.sort_by_key(|(is_placed, staged, _)| Reverse((*is_placed, *staged)));
    let more = (*due as usize).clamp(placed, known.len());
    known.into_iter().take(more).for_each(|(_, _, job)| job.is_to_place = true);
    // Forced rewrites leave no debt.
    *due = (*due - more as f64).clamp(0.0, BATCH_PARTITIONS as f64);
}
