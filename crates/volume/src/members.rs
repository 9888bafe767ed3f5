//! The devices of a volume: which of them can be used, and how far.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use moirai_storage::{Device, Result};
use moirai_units::Lbn;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::plan::Present;
use crate::sums::Summed;
use crate::{DiskIndex, StripeIndex};

/// The devices of a volume, in their order.
#[derive(Debug)]
pub(crate) struct Members {
    volume: String,
    members: Vec<Member>,
    /// How often the state of a device changed; held while it does, so that nobody sees the one without
    /// the other.
    changes: Mutex<u64>,
    failure: Notify,
    /// Stripes that lie as the volume that grows will, and how many of them durably.
    moved: AtomicU64,
    moved_durably: AtomicU64,
    /// Stripes that somebody works on.
    locks: Mutex<BTreeMap<StripeIndex, Arc<tokio::sync::Mutex<()>>>>,
}

/// A device: all of it, and the part that the layout lies on.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) whole: Arc<dyn Device>,
    pub(crate) data: Arc<dyn Device>,
    /// The data, where their blocks have sums.
    pub(crate) summed: Option<Arc<Summed>>,
}

/// A device that somebody uses, who does not know when another comes in its place: what becomes of the one
/// says nothing of the other.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    device: Arc<dyn Device>,
    disk: DiskIndex,
    replaced: u64,
}

impl Used {
    pub(crate) fn shared(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

impl Deref for Used {
    type Target = dyn Device;

    fn deref(&self) -> &(dyn Device + 'static) {
        &*self.device
    }
}

/// A place for a device in a volume.
#[derive(Debug)]
pub(crate) struct Member {
    /// The device, and how many were in its place before.
    parts: RwLock<(Parts, u64)>,
    /// The stripes before this one are right on the device: all, or some of one that is rebuilt.
    pub(crate) ready: AtomicU64,
    /// How many of them are durable there, and on the labels.
    recorded: AtomicU64,
    /// Whether it failed, and is used no more.
    pub(crate) is_out: AtomicBool,
}

impl Member {
    pub(crate) fn new(parts: Parts, state: MemberState) -> Member {
        let ready = match state {
            MemberState::Failed => 0,
            MemberState::Rebuilding(ready) => ready,
            MemberState::Ready => u64::MAX,
        };
        let is_out = AtomicBool::new(state == MemberState::Failed);
        let (ready, recorded) = (AtomicU64::new(ready), AtomicU64::new(ready));
        Member { parts: RwLock::new((parts, 0)), ready, recorded, is_out }
    }
}

/// What the labels are to say.
pub(crate) struct Recordable {
    /// How many changes it has in it.
    pub(crate) changes: u64,
    pub(crate) states: Vec<MemberState>,
    pub(crate) moved: u64,
}

/// How far a device of a volume can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All that it should hold is right.
    Ready,
    /// What it should hold is written to it: so many stripes until now.
    Rebuilding(u64),
    /// It is used no more.
    Failed,
}

impl Members {
    pub(crate) fn new(volume: String, members: Vec<Member>) -> Members {
        Members {
            volume,
            members,
            changes: Mutex::new(0),
            failure: Notify::new(),
            moved: AtomicU64::new(0),
            moved_durably: AtomicU64::new(0),
            locks: Mutex::default(),
        }
    }

    /// The volume's name.
    pub(crate) fn name(&self) -> &str {
        &self.volume
    }

    /// All of each device.
    pub(crate) fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.all().map(|disk| self.whole(disk).device).collect()
    }

    fn member(&self, disk: DiskIndex) -> &Member {
        match self.members.get(disk.0) {
            Some(member) => member,
            None => panic!("a layout named disk {} of {}", disk.0, self.members.len()),
        }
    }

    /// The part of a disk that the layout lies on.
    ///
    /// # Panics
    /// When the volume has no such disk: layouts only name disks that are there.
    pub(crate) fn device(&self, disk: DiskIndex) -> Used {
        let (parts, replaced) = &*self.member(disk).parts.read();
        Used { device: Arc::clone(&parts.data), disk, replaced: *replaced }
    }

    /// The part of a disk that the layout lies on, where its blocks have sums.
    pub(crate) fn summed(&self, disk: DiskIndex) -> Option<Arc<Summed>> {
        self.member(disk).parts.read().0.summed.clone()
    }

    /// The first block of a disk that the layout lies on.
    pub(crate) fn data_first(&self, disk: DiskIndex) -> Lbn {
        let (parts, _) = &*self.member(disk).parts.read();
        let (whole, data) = (parts.whole.inquiry(), parts.data.inquiry());
        Lbn((whole.capacity - data.capacity).0)
    }

    /// All of a disk.
    pub(crate) fn whole(&self, disk: DiskIndex) -> Used {
        let (parts, replaced) = &*self.member(disk).parts.read();
        Used { device: Arc::clone(&parts.whole), disk, replaced: *replaced }
    }

    /// Whether no other device came in the place of `used`.
    pub(crate) fn is_current(&self, used: &Used) -> bool {
        self.member(used.disk).parts.read().1 == used.replaced
    }

    /// Puts another device, which holds nothing, in the place of one that failed.
    pub(crate) fn replace(&self, disk: DiskIndex, parts: Parts) {
        let mut changes = self.changes.lock();
        let member = self.member(disk);
        {
            let mut place = member.parts.write();
            *place = (parts, place.1 + 1);
        }
        member.ready.store(0, Ordering::Release);
        member.recorded.store(0, Ordering::Release);
        member.is_out.store(false, Ordering::Release);
        *changes += 1;
    }

    /// Notes that the device has failed, if no other is in its place by now.
    pub(crate) fn fail(&self, used: &Used) {
        let mut changes = self.changes.lock();
        if self.is_current(used) && !self.member(used.disk).is_out.swap(true, Ordering::AcqRel) {
            *changes += 1;
            self.failure.notify_waiters();
        }
    }

    /// Rung when a device fails.
    pub(crate) fn failure(&self) -> &Notify {
        &self.failure
    }

    /// Notes that one stripe more is right on a device that is rebuilt.
    pub(crate) fn advance(&self, used: &Used, ready: u64) {
        let _changes = self.changes.lock();
        if self.is_current(used) {
            self.member(used.disk).ready.store(ready, Ordering::Release);
        }
    }

    /// Notes that the first `ready` stripes are durable on the device, so that the labels may say so;
    /// all of them make it ready.
    pub(crate) fn make_durable(&self, used: &Used, ready: u64) {
        let mut changes = self.changes.lock();
        if !self.is_current(used) {
            return;
        }
        let member = self.member(used.disk);
        if ready == u64::MAX {
            member.ready.store(ready, Ordering::Release);
        }
        member.recorded.store(ready, Ordering::Release);
        *changes += 1;
    }

    /// How often the state of a device changed.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    pub(crate) fn state(&self, disk: DiskIndex) -> MemberState {
        let member = self.member(disk);
        match (member.is_out.load(Ordering::Acquire), member.ready.load(Ordering::Acquire)) {
            (true, _) => MemberState::Failed,
            (false, u64::MAX) => MemberState::Ready,
            (false, ready) => MemberState::Rebuilding(ready),
        }
    }

    /// What the labels are to say.
    pub(crate) fn recordable(&self) -> Recordable {
        let changes = self.changes.lock();
        let state =
            |disk| match (self.state(disk), self.member(disk).recorded.load(Ordering::Acquire)) {
                (MemberState::Failed, _) => MemberState::Failed,
                (_, u64::MAX) => MemberState::Ready,
                (_, recorded) => MemberState::Rebuilding(recorded),
            };
        let states = self.all().map(state).collect();
        let moved = self.moved_durably.load(Ordering::Acquire);
        Recordable { changes: *changes, states, moved }
    }

    /// Stripes that were moved to where they lie in a volume that has grown.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Acquire)
    }

    /// Notes that the first `stripes` were moved.
    pub(crate) fn move_to(&self, stripes: u64) {
        self.moved.fetch_max(stripes, Ordering::AcqRel);
    }

    /// Notes that the first `stripes` were moved durably, so that the labels may say so.
    pub(crate) fn moved_durably(&self, stripes: u64) {
        let mut changes = self.changes.lock();
        if self.moved_durably.fetch_max(stripes, Ordering::AcqRel) < stripes {
            *changes += 1;
        }
    }

    pub(crate) fn has_failed(&self, disk: DiskIndex) -> bool {
        self.member(disk).is_out.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = DiskIndex> {
        (0..self.members.len()).map(DiskIndex)
    }

    pub(crate) fn failed(&self) -> Vec<DiskIndex> {
        self.all().filter(|disk| self.has_failed(*disk)).collect()
    }

    pub(crate) fn in_use(&self) -> Vec<DiskIndex> {
        self.all().filter(|disk| !self.has_failed(*disk)).collect()
    }

    /// Flushes all devices in use; those that fail it are out. Gives the first error.
    pub(crate) async fn flush_all(&self) -> Result<()> {
        let flushes = self
            .in_use()
            .into_iter()
            .map(|disk| self.device(disk))
            .map(|device| async move { (device.flush().await, device) });
        let mut first_error = Ok(());
        for (result, device) in join_all(flushes).await {
            if result.is_err() {
                self.fail(&device);
                first_error = first_error.and(result);
            }
        }
        first_error
    }

    /// The names of the devices that failed.
    pub(crate) fn failed_names(&self) -> String {
        // For a disk that is missing the device of another stands in.
        let stands_in = |disk: DiskIndex| {
            let device = self.whole(disk).device;
            let others = self.all().filter(|other| *other != disk);
            others.into_iter().any(|other| Arc::ptr_eq(&self.whole(other).device, &device))
        };
        let name = |disk: DiskIndex| match stands_in(disk) {
            true => format!("disk {} (missing)", disk.0),
            false => format!("disk {} ({})", disk.0, self.device(disk).inquiry().name),
        };
        self.failed().into_iter().map(name).collect::<Vec<_>>().join(" and ")
    }

    /// Waits until nobody else works on `stripe`.
    pub(crate) async fn lock(&self, stripe: StripeIndex) -> StripeLock<'_> {
        let lock = Arc::clone(self.locks.lock().entry(stripe).or_default());
        let guard = Arc::clone(&lock).lock_owned().await;
        StripeLock { members: self, stripe, guard: Some(guard) }
    }
}

impl Present for Members {
    fn is_present(&self, disk: DiskIndex, stripe: StripeIndex) -> bool {
        let member = self.member(disk);
        !self.has_failed(disk) && stripe.0 < member.ready.load(Ordering::Acquire)
    }
}

/// The right to work on a stripe, until it is dropped.
pub(crate) struct StripeLock<'a> {
    members: &'a Members,
    stripe: StripeIndex,
    guard: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Drop for StripeLock<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.members.locks.lock();
        // Nobody else waits for it: the map has the only reference.
        if locks.get(&self.stripe).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.stripe);
        }
    }
}

/// The members, but for disks that could not be read.
pub(crate) struct Without<'a> {
    pub(crate) members: &'a Members,
    pub(crate) unreadable: &'a [DiskIndex],
}

impl Present for Without<'_> {
    fn is_present(&self, disk: DiskIndex, stripe: StripeIndex) -> bool {
        self.members.is_present(disk, stripe)
    }

    fn is_readable(&self, disk: DiskIndex, stripe: StripeIndex) -> bool {
        self.is_present(disk, stripe) && !self.unreadable.contains(&disk)
    }
}
