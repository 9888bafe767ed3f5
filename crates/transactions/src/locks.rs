//! The lock table: which transaction holds which key, and which transactions wait for it.
//!
//! # Invariants
//!
//! 1. Holders of a lock are compatible: all are [`LockMode::Shared`], or there is one.
//! 2. A lock is granted in the order of the requests. A shared request waits behind an exclusive one that came before, so
//!    a stream of shared requests does not starve it. A holder that asks for more goes before all that hold nothing.
//! 3. Nobody waits for itself, by way of others: each request that has to wait looks for a cycle of waiting transactions. The
//!    youngest of the cycle is refused, which is the one that has done the least.
//! 4. A transaction waits for one lock at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use moirai_update::SpaceId;
use tokio::sync::oneshot;

/// The number of a transaction: one more with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionId(pub(crate) u64);

/// What a lock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others may hold the lock in this mode, too. Of a key: modifications that add to its value without reading it. Of a
    /// space: locks of some of its keys.
    Shared,
    /// Nobody else holds the lock.
    Exclusive,
}

/// What is locked: a key, or all keys of a space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockKey {
    pub(crate) space: SpaceId,
    /// `None` stands for all keys of the space.
    pub(crate) key: Option<Arc<[u8]>>,
}

/// The answer to a request for a lock.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The transaction holds the lock.
    Held,
    /// The receiver tells when the transaction holds the lock.
    Wait(oneshot::Receiver<Granted>),
    /// Waiting for it would never end.
    Deadlock,
}

/// What a request that waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    Held,
    /// It was chosen to end a deadlock.
    Deadlock,
}

#[derive(Debug)]
struct Waiter {
    id: TransactionId,
    mode: LockMode,
    sender: oneshot::Sender<Granted>,
}

#[derive(Debug, Default)]
struct Lock {
    holders: BTreeMap<TransactionId, LockMode>,
    /// How many of the holders are exclusive: none or one.
    exclusive: usize,
    waiters: VecDeque<Waiter>,
}

impl Lock {
    /// Whether a transaction may hold the lock beside those that hold it now.
    fn admits(&self, id: TransactionId, mode: LockMode) -> bool {
        let own = self.holders.get(&id);
        let others = self.holders.len() - usize::from(own.is_some());
        let exclusive = self.exclusive - usize::from(own == Some(&LockMode::Exclusive));
        match mode {
            LockMode::Shared => exclusive == 0,
            LockMode::Exclusive => others == 0,
        }
    }

    fn hold(&mut self, id: TransactionId, mode: LockMode) {
        let before = self.holders.insert(id, mode);
        self.exclusive += usize::from(mode == LockMode::Exclusive);
        self.exclusive -= usize::from(before == Some(LockMode::Exclusive));
    }

    /// Whom a waiter waits for: holders, and those before it, whose mode is not compatible with its own.
    fn blockers(&self, id: TransactionId) -> impl Iterator<Item = TransactionId> {
        let place = self.waiters.iter().position(|waiter| waiter.id == id);
        let mode = place.and_then(|place| self.waiters.get(place)).map(|waiter| waiter.mode);
        let is_blocked_by = move |other: LockMode| {
            mode == Some(LockMode::Exclusive) || other == LockMode::Exclusive
        };
        let holders = self.holders.iter().filter(move |(_, held)| is_blocked_by(**held));
        let before = self.waiters.iter().take(place.unwrap_or(0));
        let before = before.filter(move |waiter| is_blocked_by(waiter.mode));
        let all = holders.map(|(holder, _)| *holder).chain(before.map(|waiter| waiter.id));
        all.filter(move |other| *other != id && mode.is_some())
    }
}

/// The locks of a store.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: BTreeMap<LockKey, Lock>,
    /// The lock that a transaction waits for.
    waiting: BTreeMap<TransactionId, LockKey>,
    held: BTreeMap<TransactionId, BTreeSet<LockKey>>,
}

impl Locks {
    /// Takes a lock if it can be had at once; tells whether it could.
    pub(crate) fn try_take(&mut self, id: TransactionId, key: &LockKey, mode: LockMode) -> bool {
        let lock = self.locks.entry(key.clone()).or_default();
        let own = lock.holders.get(&id).copied();
        if own == Some(mode) || own == Some(LockMode::Exclusive) {
            return true;
        }
        // One that holds nothing of it comes after those that wait.
        let is_next = own.is_some() || lock.waiters.is_empty();
        if !(is_next && lock.admits(id, mode)) {
            return false;
        }
        lock.hold(id, mode);
        self.held.entry(id).or_default().insert(key.clone());
        true
    }

    /// Asks for a lock.
    pub(crate) fn ask(&mut self, id: TransactionId, key: &LockKey, mode: LockMode) -> Answer {
        if self.try_take(id, key, mode) {
            return Answer::Held;
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(lock) = self.locks.get_mut(key) {
            let holds = |waiter: &Waiter| lock.holders.contains_key(&waiter.id);
            let place = match lock.holders.contains_key(&id) {
                true => lock.waiters.iter().take_while(|waiter| holds(waiter)).count(),
                false => lock.waiters.len(),
            };
            lock.waiters.insert(place, Waiter { id, mode, sender });
        }
        self.waiting.insert(id, key.clone());
        self.end_deadlocks(id, receiver)
    }

    /// Refuses transactions until no cycle of waiting transactions has `id` in it.
    fn end_deadlocks(
        &mut self,
        id: TransactionId,
        mut receiver: oneshot::Receiver<Granted>,
    ) -> Answer {
        while let Some(cycle) = self.cycle(id) {
            let youngest = cycle.into_iter().max().unwrap_or(id);
            if youngest == id {
                self.stop_waiting(id);
                return Answer::Deadlock;
            }
            if let Some(waiter) = self.stop_waiting(youngest) {
                // One that no longer waits is told when it releases its locks.
                let _ = waiter.sender.send(Granted::Deadlock);
            }
            // It may have been the one that was in the way.
            if receiver.try_recv() == Ok(Granted::Held) {
                return Answer::Held;
            }
        }
        Answer::Wait(receiver)
    }

    /// A cycle of transactions that wait for each other, `id` among them.
    fn cycle(&self, id: TransactionId) -> Option<Vec<TransactionId>> {
        let blockers = |id: TransactionId| -> Vec<TransactionId> {
            let lock = self.waiting.get(&id).and_then(|key| self.locks.get(key));
            lock.map(|lock| lock.blockers(id).collect()).unwrap_or_default()
        };
        let mut seen = BTreeSet::new();
        // The way from `id`: each transaction, and those it waits for that are still to be looked at.
        let mut way = vec![(id, blockers(id))];
        while let Some((_, next)) = way.last_mut() {
            match next.pop() {
                Some(next) if next == id => {
                    return Some(way.into_iter().map(|(id, _)| id).collect());
                }
                Some(next) if seen.insert(next) => way.push((next, blockers(next))),
                Some(_) => {}
                None => drop(way.pop()),
            }
        }
        None
    }

    /// Takes a transaction out of the queue that it waits in.
    fn stop_waiting(&mut self, id: TransactionId) -> Option<Waiter> {
        let key = self.waiting.remove(&id)?;
        let lock = self.locks.get_mut(&key)?;
        let place = lock.waiters.iter().position(|waiter| waiter.id == id)?;
        let waiter = lock.waiters.remove(place);
        self.grant(&key);
        waiter
    }

    /// A transaction no longer waits, whatever it was told meanwhile.
    pub(crate) fn give_up(&mut self, id: TransactionId) {
        self.stop_waiting(id);
    }

    /// Releases some of the locks of a transaction, or all.
    pub(crate) fn release(&mut self, id: TransactionId, which: impl Fn(&LockKey) -> bool) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let gone: Vec<LockKey> = held.extract_if(.., |key| which(key)).collect();
        if held.is_empty() {
            self.held.remove(&id);
        }
        for key in gone {
            if let Some(lock) = self.locks.get_mut(&key)
                && lock.holders.remove(&id) == Some(LockMode::Exclusive)
            {
                lock.exclusive -= 1;
            }
            self.grant(&key);
        }
    }

    /// Gives a lock to those who wait for it, as far as they may have it.
    fn grant(&mut self, key: &LockKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        while let Some(first) = lock.waiters.front()
            && lock.admits(first.id, first.mode)
            && let Some(Waiter { id, mode, sender }) = lock.waiters.pop_front()
        {
            self.waiting.remove(&id);
            lock.hold(id, mode);
            self.held.entry(id).or_default().insert(key.clone());
            // One that no longer waits releases it with its other locks.
            let _ = sender.send(Granted::Held);
        }
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            self.locks.remove(key);
        }
    }

    /// How many keys of a space a transaction has locked.
    pub(crate) fn held_of(&self, id: TransactionId, space: SpaceId) -> usize {
        let of_keys = |key: &&LockKey| key.space == space && key.key.is_some();
        self.held.get(&id).map_or(0, |held| held.iter().filter(of_keys).count())
    }

    /// How many locks are held.
    pub(crate) fn held(&self) -> usize {
        self.held.values().map(BTreeSet::len).sum()
    }

    /// How many transactions wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A transaction of the model: what it waits for.
    #[derive(Debug, Default)]
    struct Model {
        waiting: BTreeMap<TransactionId, (LockKey, LockMode, oneshot::Receiver<Granted>)>,
        /// Requests in the order in which they came, without those that were given up.
        asked: Vec<(LockKey, TransactionId, LockMode)>,
    }

    fn check(locks: &Locks, model: &Model) {
        for (key, lock) in &locks.locks {
            let exclusive = lock.holders.values().filter(|mode| **mode == LockMode::Exclusive);
            assert_eq!(exclusive.count(), lock.exclusive);
            assert!(lock.exclusive == 0 || lock.holders.len() == 1, "incompatible: {lock:?}");
            assert!(!lock.holders.is_empty(), "nobody holds {key:?}: {lock:?}");
            // The first one could not have it.
            if let Some(first) = lock.waiters.front() {
                assert!(!lock.admits(first.id, first.mode), "{lock:?}");
            }
            // Those that hold nothing wait in the order in which they asked.
            let waiters = lock.waiters.iter().filter(|one| !lock.holders.contains_key(&one.id));
            let waiting: Vec<TransactionId> = waiters.map(|waiter| waiter.id).collect();
            let asked = model.asked.iter().filter(|(of, id, _)| {
                of == key && !lock.holders.contains_key(id) && model.waiting.contains_key(id)
            });
            assert_eq!(waiting, asked.map(|(_, id, _)| *id).collect::<Vec<_>>());
        }
        for id in model.waiting.keys() {
            assert_eq!(locks.cycle(*id), None, "a deadlock that was not ended");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// Whatever is asked for and released: holders are compatible, waiters wait in order and for a reason, no cycle is left, and
        /// once all transactions ended, nothing is.
        #[test]
        fn locks_are_kept(
            steps in prop::collection::vec((0_u64..6, 0_u8..4, any::<bool>(), 0_u8..10), 1..120),
        ) {
            let (mut locks, mut model) = (Locks::default(), Model::default());
            for (id, key, is_exclusive, what) in steps {
                let id = TransactionId(id);
                let key = LockKey { space: SpaceId(1), key: Some(Arc::from([key])) };
                let mode = if is_exclusive { LockMode::Exclusive } else { LockMode::Shared };
                match what {
                    // It ends, also while it waits.
                    0 => {
                        locks.give_up(id);
                        locks.release(id, |_| true);
                        model.waiting.remove(&id);
                        model.asked.retain(|(_, of, _)| *of != id);
                    }
                    1 if model.waiting.contains_key(&id) => {
                        locks.give_up(id);
                        model.waiting.remove(&id);
                        model.asked.retain(|(_, of, _)| *of != id);
                    }
                    _ if model.waiting.contains_key(&id) => {}
                    2 => drop(locks.try_take(id, &key, mode)),
                    _ => match locks.ask(id, &key, mode) {
                        Answer::Held => prop_assert!(locks.held[&id].contains(&key)),
                        Answer::Wait(receiver) => {
                            model.asked.push((key.clone(), id, mode));
                            model.waiting.insert(id, (key, mode, receiver));
                        }
                        Answer::Deadlock => {
                            // It is the youngest of them, and ends.
                            locks.release(id, |_| true);
                        }
                    },
                }
                // Who was told something goes on, or ends.
                loop {
                    let told = model.waiting.iter_mut().find_map(|(id, (_, _, receiver))| {
                        receiver.try_recv().ok().map(|granted| (*id, granted))
                    });
                    let Some((id, granted)) = told else { break };
                    let (key, _, _) = model.waiting.remove(&id).unwrap();
                    model.asked.retain(|(_, of, _)| *of != id);
                    match granted {
                        Granted::Held => prop_assert!(locks.held[&id].contains(&key)),
                        Granted::Deadlock => locks.release(id, |_| true),
                    }
                }
                check(&locks, &model);
            }
            for id in (0..6).map(TransactionId) {
                locks.give_up(id);
                locks.release(id, |_| true);
            }
            prop_assert!(locks.locks.is_empty() && locks.waiting.is_empty() && locks.held.is_empty());
        }
    }
}
