//! What a volume keeps on its devices besides data: labels that say which device failed, and the journal.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use moirai_storage::{Error, Result};

use crate::journal::{Entry, Journal, Sequence};
use crate::label::Label;
use crate::members::Members;

/// Keeps labels true, and has the journal.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) journal: Journal,
    /// The newest label; that of disk 0.
    label: tokio::sync::Mutex<Label>,
    /// The failures that the label knows of, as [`Members::changes`] counts them.
    recorded: AtomicU64,
}

impl Keeper {
    pub(crate) fn new(label: Label, journal: Journal) -> Keeper {
        Keeper { journal, label: tokio::sync::Mutex::new(label), recorded: AtomicU64::new(0) }
    }

    /// Makes what was placed before `tail` durable, has the labels say which device failed that, and
    /// frees the journal up to there. An error when too few devices are left.
    pub(crate) async fn settle(&self, members: &Members, tail: Sequence) -> Result<()> {
        let flushed = members.flush_all().await;
        if members.in_use().is_empty() {
            return flushed;
        }
        self.record(members).await?;
        self.journal.retire(tail);
        Ok(())
    }

    /// Makes a record of `entries` durable; see [`Journal::append`].
    pub(crate) async fn append(
        &self,
        members: &Members,
        bearable: usize,
        entries: Vec<Entry>,
    ) -> Result<Sequence> {
        self.journal.append(self, members, bearable, entries).await
    }

    /// Returns when the labels of all devices in use say which have failed. Nothing that a failed
    /// device has missed may be acknowledged before.
    pub(crate) async fn record(&self, members: &Members) -> Result<()> {
        if self.recorded.load(Ordering::Acquire) == members.changes() {
            return Ok(());
        }
        let mut label = self.label.lock().await;
        loop {
            let changes = members.changes();
            if self.recorded.load(Ordering::Acquire) == changes {
                return Ok(());
            }
            label.states = members.states();
            label.generation += 1;
            let in_use = members.in_use();
            if in_use.is_empty() {
                return Err(Error::Latched { device: members.name().to_owned() });
            }
            let newest = &*label;
            let written = join_all(in_use.into_iter().map(|disk| async move {
                let label = Label { disk, ..newest.clone() };
                (disk, label.write(members.whole(disk)).await)
            }));
            let mut all_written = true;
            for (disk, result) in written.await {
                if result.is_err() {
                    members.fail(disk);
                    all_written = false;
                }
            }
            if all_written {
                self.recorded.store(changes, Ordering::Release);
            }
        }
    }
}
