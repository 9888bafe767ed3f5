//! What a volume keeps on its devices besides data: labels that say which device failed, and the journal.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use moirai_storage::{Error, Result};

use crate::journal::{Entry, Journal, Sequence};
use crate::label::{Copy, Label};
use crate::members::Members;
use crate::plan::Plan;
use crate::{DiskIndex, Layout, MemberState, StripeIndex};

/// Keeps labels true, and has the journal.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) journal: Journal,
    labels: tokio::sync::Mutex<Labels>,
    /// The failures that the labels know of, as [`Members::changes`] counts them.
    recorded: AtomicU64,
}

/// The newest label, and which copy of it counts on each device.
#[derive(Debug)]
pub(crate) struct Labels {
    pub(crate) newest: Label,
    pub(crate) copies: Vec<Copy>,
}

/// Whether every block of the volume is on a device that is ready, or can be worked out from those.
/// Stripes of one turn after the other say all: their roles go round.
pub(crate) fn is_whole(layout: &Layout, states: &[MemberState]) -> bool {
    let turns = (layout.disks() as u64).min(layout.stripes() / u64::from(layout.depth()).max(1));
    (0..turns.max(1)).all(|turn| {
        let stripe = StripeIndex(turn * u64::from(layout.depth()));
        Plan::default().read_data(layout, &Ready(states), stripe).is_ok()
    })
}

/// The disks that are ready, and no others.
struct Ready<'a>(&'a [MemberState]);

impl crate::plan::Present for Ready<'_> {
    fn is_present(&self, disk: DiskIndex, _: StripeIndex) -> bool {
        self.0.get(disk.0) == Some(&MemberState::Ready)
    }
}

impl Keeper {
    pub(crate) fn new(labels: Labels, journal: Journal) -> Keeper {
        // No label says what the devices are now: the first record is of this opening.
        let recorded = AtomicU64::new(u64::MAX);
        Keeper { journal, labels: tokio::sync::Mutex::new(labels), recorded }
    }

    /// Makes a record of `entries` durable; see [`Journal::append`].
    pub(crate) async fn append(
        &self,
        layout: &Layout,
        members: &Members,
        entries: Vec<Entry>,
    ) -> Result<Sequence> {
        self.journal.append(self, layout, members, entries).await
    }

    /// Makes what was placed before `tail` durable, and has the labels say which device failed that;
    /// then the journal may forget it. An error when too few devices are left.
    pub(crate) async fn settle(
        &self,
        layout: &Layout,
        members: &Members,
        tail: Sequence,
    ) -> Result<()> {
        // A device that fails the flush is out, and whether the others suffice `record` says.
        let _: Result<()> = members.flush_all().await;
        self.record(layout, members).await?;
        self.journal.retire(tail);
        Ok(())
    }

    /// Returns when the labels of all devices in use say which have failed. Nothing that a failed
    /// device has missed may be acknowledged before. An error when too few are left: then the labels
    /// stay as they are, and a device that comes back is as good as it was.
    pub(crate) async fn record(&self, layout: &Layout, members: &Members) -> Result<()> {
        if self.recorded.load(Ordering::Acquire) == members.changes() {
            return Ok(());
        }
        let mut labels = self.labels.lock().await;
        loop {
            let (changes, states) = members.states();
            if self.recorded.load(Ordering::Acquire) == changes {
                return Ok(());
            }
            if !is_whole(layout, &states) {
                return Err(Error::Latched { device: members.name().to_owned() });
            }
            labels.newest.generation += 1;
            for (member, state) in labels.newest.members.iter_mut().zip(states) {
                member.state = state;
            }
            let all_written = labels.write(members).await;
            if all_written {
                self.recorded.store(changes, Ordering::Release);
            }
        }
    }
}

impl Labels {
    /// Writes the newest label to all devices in use; tells whether they all took it.
    async fn write(&mut self, members: &Members) -> bool {
        let newest = &self.newest;
        let copies = &self.copies;
        let written = join_all(members.in_use().into_iter().map(|disk| async move {
            let label = Label { disk, ..newest.clone() };
            let copy = copies.get(disk.0).map_or(Copy(0), |copy| copy.other());
            (disk, copy, label.write(members.whole(disk), copy).await)
        }));
        let mut all_written = true;
        for (disk, written, result) in written.await {
            match (result, self.copies.get_mut(disk.0)) {
                (Ok(()), Some(copy)) => *copy = written,
                _ => {
                    members.fail(disk);
                    all_written = false;
                }
            }
        }
        all_written
    }
}
