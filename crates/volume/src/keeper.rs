//! What a volume keeps on its devices besides data: labels that say which device failed, and the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use moirai_storage::{Device, Error, Result};

use crate::format::clear_for;
use crate::found::{laid_over, parts};
use crate::journal::{Entry, Journal};
use crate::label::{Copy, Label};
use crate::members::{Members, Recordable};
use crate::ring::Sequence;
use crate::shape::Shape;
use crate::{DiskIndex, MemberState};

/// Keeps labels true, and has the journal.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) journal: Journal,
    shape: Shape,
    labels: tokio::sync::Mutex<Labels>,
    /// The failures that the labels know of, as [`Members::changes`] counts them.
    recorded: AtomicU64,
}

/// The newest label, and which copy of it counts on each device.
#[derive(Debug)]
pub(crate) struct Labels {
    newest: Label,
    copies: Vec<Copy>,
    /// Which devices have a label of this opening for sure.
    have: Vec<bool>,
}

impl Keeper {
    pub(crate) fn new(labels: Labels, journal: Journal, shape: Shape) -> Keeper {
        // No label says what the devices are now: the first record is of this opening.
        let recorded = AtomicU64::new(u64::MAX);
        Keeper { journal, shape, labels: tokio::sync::Mutex::new(labels), recorded }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The volume has grown: nothing lies any more as it did before.
    pub(crate) fn end_growth(&mut self) {
        self.shape.old = None;
        let labels = self.labels.get_mut();
        labels.newest.growth = None;
        labels.newest.capacity = self.shape.layout.capacity();
        *self.recorded.get_mut() = u64::MAX;
    }

    /// Makes a record of `entries` durable; see [`Journal::append`].
    pub(crate) async fn append(&self, members: &Members, entries: Vec<Entry>) -> Result<Sequence> {
        self.journal.append(self, members, entries).await
    }

    /// Makes what was placed before `tail` durable, and has the labels say which device failed that;
    /// then the journal may forget it. An error when too few devices are left.
    pub(crate) async fn settle(&self, members: &Members, tail: Sequence) -> Result<()> {
        let moved = members.moved();
        // A device that fails the flush is out, and whether the others suffice `record` says.
        let _: Result<()> = members.flush_all().await;
        members.moved_durably(moved);
        self.record(members).await?;
        self.journal.retire(tail);
        Ok(())
    }

    /// Puts `whole`, which loses what it holds, in the place of a disk that failed.
    pub(crate) async fn replace(
        &self,
        members: &Members,
        disk: DiskIndex,
        whole: Arc<dyn Device>,
    ) -> Result<()> {
        let newest = self.labels.lock().await.newest.clone();
        let mut devices = members.devices();
        if let Some(place) = devices.get_mut(disk.0) {
            *place = Arc::clone(&whole);
        }
        let laid = laid_over(members.name(), &newest, &devices)?;
        if !laid.shape.layout.extends(&self.shape.layout) {
            let problem = format!(
                "{} has other defects than disk {}, or that disk was missing when the volume was opened: \
                 close the volume, then replace the disk",
                whole.inquiry().name,
                disk.0
            );
            return Err(Error::Description { path: members.name().into(), problem });
        }
        let parts = parts(&newest, Arc::clone(&whole))?;
        // Without the lock, which writes wait for.
        clear_for(&newest, &whole).await?;
        let mut labels = self.labels.lock().await;
        if members.state(disk) != MemberState::Failed {
            let problem = format!("another task has replaced disk {}", disk.0);
            return Err(Error::Description { path: members.name().into(), problem });
        }
        // No other label is ever of this generation, whatever becomes of it.
        labels.newest.generation += 1;
        let mut label = Label { disk, ..labels.newest.clone() };
        label.replace(disk, laid.shape.layout.slots_checksum(disk));
        label.write_both(&whole).await?;
        labels.newest = label;
        if let Some(copy) = labels.copies.get_mut(disk.0) {
            *copy = Copy(0);
        }
        if let Some(has) = labels.have.get_mut(disk.0) {
            *has = true;
        }
        self.journal.begin_anew(disk, whole.inquiry().physical_block);
        members.replace(disk, parts);
        drop(labels);
        self.record(members).await
    }

    /// Returns when the labels of all devices in use say which have failed. Nothing that a failed
    /// device has missed may be acknowledged before. An error when too few are left: then the labels
    /// stay as they are, and a device that comes back is as good as it was.
    pub(crate) async fn record(&self, members: &Members) -> Result<()> {
        if self.recorded.load(Ordering::Acquire) == members.changes() {
            return Ok(());
        }
        let mut labels = self.labels.lock().await;
        loop {
            let Recordable { changes, states, moved } = members.recordable();
            if self.recorded.load(Ordering::Acquire) == changes {
                return Ok(());
            }
            if !self.shape.is_whole(&states, moved) {
                return Err(Error::Latched { device: members.name().to_owned() });
            }
            labels.newest.generation += 1;
            let Labels { newest, have, .. } = &mut *labels;
            let opening = newest.opening.map_or(0, |opening| opening.generation);
            for ((member, state), has) in newest.members.iter_mut().zip(states).zip(have) {
                // All labels on which it has not failed are older than the first that says so. Of those still in use that
                // cannot be said: what they go on with apart may begin with the same opening.
                if *has && state == MemberState::Failed && member.state != MemberState::Failed {
                    member.opened = opening;
                }
                member.state = state;
            }
            if let Some(growth) = &mut labels.newest.growth {
                growth.moved = moved;
            }
            let all_written = labels.write(members).await;
            if all_written {
                self.recorded.store(changes, Ordering::Release);
            }
        }
    }
}

impl Labels {
    /// The newest label of an opening that no device knows yet.
    pub(crate) fn new(newest: Label, copies: Vec<Copy>) -> Labels {
        let have = vec![false; copies.len()];
        Labels { newest, copies, have }
    }

    /// Writes the newest label to all devices in use; tells whether they all took it.
    async fn write(&mut self, members: &Members) -> bool {
        let newest = &self.newest;
        let copies = &self.copies;
        let written = join_all(members.in_use().into_iter().map(|disk| async move {
            let label = Label { disk, ..newest.clone() };
            let copy = copies.get(disk.0).map_or(Copy(0), |copy| copy.other());
            let device = members.whole(disk);
            (device.clone(), disk, copy, label.write(device.shared(), copy).await)
        }));
        let mut all_written = true;
        for (device, disk, written, result) in written.await {
            match (result, self.copies.get_mut(disk.0), self.have.get_mut(disk.0)) {
                (Ok(()), Some(copy), Some(has)) => (*copy, *has) = (written, true),
                _ => {
                    members.fail(&device);
                    all_written = false;
                }
            }
        }
        all_written
    }
}
