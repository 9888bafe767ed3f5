//! The devices of a volume: which of them can be used, and how far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moirai_storage::Device;
use parking_lot::Mutex;

use crate::plan::Present;
use crate::{DiskIndex, StripeIndex};

/// The devices of a volume, in their order.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Member>,
    /// Stripes that somebody works on.
    locks: Mutex<BTreeMap<StripeIndex, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Debug)]
struct Member {
    device: Arc<dyn Device>,
    /// The stripes before this one are right on the device: all or, when it failed, none.
    ready: AtomicU64,
}

impl Members {
    pub(crate) fn new(devices: Vec<Arc<dyn Device>>) -> Members {
        let member = |device| Member { device, ready: AtomicU64::new(u64::MAX) };
        Members {
            members: devices.into_iter().map(member).collect(),
            locks: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn devices(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Device>> {
        self.members.iter().map(|member| &member.device)
    }

    /// # Panics
    /// When the volume has no such disk: layouts only name disks that are there.
    pub(crate) fn device(&self, disk: DiskIndex) -> &dyn Device {
        match self.members.get(disk.0) {
            Some(member) => &*member.device,
            None => panic!("a layout named disk {} of {}", disk.0, self.members.len()),
        }
    }

    /// Notes that the device has failed; tells whether it was in use until now.
    pub(crate) fn fail(&self, disk: DiskIndex) -> bool {
        self.members.get(disk.0).is_some_and(|member| member.ready.swap(0, Ordering::AcqRel) > 0)
    }

    pub(crate) fn has_failed(&self, disk: DiskIndex) -> bool {
        self.members.get(disk.0).is_none_or(|member| member.ready.load(Ordering::Acquire) == 0)
    }

    pub(crate) fn failed(&self) -> Vec<DiskIndex> {
        (0..self.members.len()).map(DiskIndex).filter(|disk| self.has_failed(*disk)).collect()
    }

    /// The names of the devices that failed.
    pub(crate) fn failed_names(&self) -> String {
        let name =
            |disk: DiskIndex| format!("disk {} ({})", disk.0, self.device(disk).inquiry().name);
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
        let member = self.members.get(disk.0);
        member.is_some_and(|member| stripe.0 < member.ready.load(Ordering::Acquire))
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
