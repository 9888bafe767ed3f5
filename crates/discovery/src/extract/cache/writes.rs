//! What a cache does with writes.

use futures::join;
use moirai_storage::{Op, Timing};
use moirai_units::Lbn;

use super::{At, CacheFound, CacheTests, HIT_PART};
use crate::error::Result;

/// Writes at a time.
const WRITES: u64 = 160;

/// Which writes are complete when their data are in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// None.
    None,
    /// Those that go on where the one before ended.
    Sequential,
    /// All.
    All,
}

impl CacheTests<'_, '_, '_> {
    /// What a hit on data takes that were just written, in ns.
    pub(in crate::extract) async fn written_hit_ns(&mut self) -> Result<Option<f64>> {
        let first = self.fresh(At::CylinderFront).await?;
        self.rig.drive.access(Op::Write, first, 1).await?;
        self.settle().await;
        self.wait_for(first).await;
        let response = self.rig.drive.read(first, 1).await?.response().0 as f64;
        Ok((response < HIT_PART * self.rig.turn_ns()).then_some(response))
    }

    /// What a write takes that is reported at once, in ns: after a read, and after a write.
    pub(in crate::extract) async fn write_hit_ns(&mut self, before: Op) -> Result<f64> {
        let first = self.fresh(At::CylinderFront).await?;
        let other = self.fresh(At::CylinderFront).await?;
        let write = self.rig.drive.prepare(Op::Write, first, 1).await?;
        self.rig.drive.access(before, other, 1).await?;
        self.settle().await;
        Ok(self.rig.drive.carry_out(write).await?.response().0 as f64)
    }

    /// Which writes are reported at once.
    pub(in crate::extract) async fn reports(&mut self) -> Result<Reported> {
        let most = HIT_PART * self.rig.turn_ns();
        let is_prompt = |ns: u64| (ns as f64) < most;
        let first = self.fresh(At::CylinderFront).await?;
        let write = self.rig.drive.prepare(Op::Write, first, 1).await?;
        self.wait_for(first).await;
        let alone = self.rig.drive.carry_out(write).await?.response().0;
        self.settle().await;
        let second = self.fresh(At::CylinderFront).await?;
        let pair = vec![
            self.rig.drive.prepare(Op::Write, second, 1).await?,
            self.rig.drive.prepare(Op::Write, Lbn(second.0 + 1), 1).await?,
        ];
        self.wait_for(second).await;
        let pair = self.rig.drive.submit(pair).await?;
        self.settle().await;
        let goes_on = pair.get(1).is_some_and(|timing| is_prompt(timing.response().0));
        Ok(match (is_prompt(alone), goes_on) {
            (true, _) => Reported::All,
            (false, true) => Reported::Sequential,
            (false, false) => Reported::None,
        })
    }

    /// What the cache does with writes.
    pub(in crate::extract) async fn writes(&mut self, found: &mut CacheFound) -> Result<()> {
        let alone = self.fresh(At::CylinderFront).await?;
        self.rig.drive.access(Op::Write, alone, 1).await?;
        self.settle().await;
        found.hits_on_written = Some(self.hits(alone).await?);
        let reported = self.reports().await?;
        found.reported = Some(reported);
        let read = self.fresh(At::CylinderFront).await?;
        let other = self.fresh(At::CylinderFront).await?;
        self.rig.drive.read(read, 1).await?;
        self.settle().await;
        self.rig.drive.access(Op::Write, other, 1).await?;
        self.settle().await;
        found.write_drops_reads = Some(!self.hits(Lbn(read.0 + self.further)).await?);
        // Those that are only reported where they go on with the one before come one by one.
        if reported != Reported::All {
            return Ok(());
        }
        let mut apart = Vec::new();
        for _ in 0..WRITES {
            apart.push(self.fresh(At::CylinderFront).await?);
        }
        // A batch must not have a block twice.
        apart.sort_unstable();
        apart.dedup();
        let at_once = self.taken_while_seeking(&apart).await?;
        let at_once = at_once.min(self.taken_while_seeking(&apart).await?);
        found.write_segments = Some(at_once.max(1));
        let most = (at_once + 8).min(WRITES);
        let Some(front) = self.fresh_with_room(At::CylinderFront, most).await? else {
            return Ok(());
        };
        let row = (0..most).map(|at| Lbn(front.0 + at));
        let in_a_row = self.taken_while_seeking(&row.collect::<Vec<_>>()).await?;
        found.combines_writes = Some(in_a_row > at_once);
        Ok(())
    }

    /// How many writes are reported while the arm moves, and the mechanism takes none.
    async fn taken_while_seeking(&mut self, blocks: &[Lbn]) -> Result<u64> {
        let mut writes = Vec::with_capacity(blocks.len());
        for block in blocks {
            writes.push(self.rig.drive.prepare(Op::Write, *block, 1).await?);
        }
        let (near, far) = (Lbn(0), Lbn(self.rig.geometry.capacity().0 - 1));
        self.rig.drive.seek(near).await?;
        self.settle().await;
        let device = self.rig.drive.device();
        let seek = async {
            match device.diagnostics() {
                Some(diagnostics) => diagnostics.seek(far).await,
                None => Ok(Timing::default()),
            }
        };
        let start = self.rig.least_read_ns;
        let later = async {
            self.rig.drive.wait(start).await;
            self.rig.drive.submit(writes).await
        };
        let (sought, taken) = join!(seek, later);
        self.rig.drive.count("seek", 1);
        let until = sought?.finished;
        self.rig.drive.flush().await?;
        let taken = taken?.iter().filter(|timing| timing.finished < until).count();
        Ok(taken as u64)
    }
}
