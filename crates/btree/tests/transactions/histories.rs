//! Random transactions on devices that lose power, and what their history says.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use moirai_btree::{
    Direction, Error, Isolation, LockWait, Result, Store, Transaction, TransactionOptions, Tree,
};
use moirai_devices::Power;
use moirai_runtime::{Random, block_on_virtual, each_seed, now, random, sleep, spawn};
use moirai_transactions::Canary;
use moirai_units::{ByteCount, Nanos};
use rand::Rng;

use crate::verdict::{Key, Outcome, Record, Step, Version, chain, problem};
use crate::{APPEND, Bench};

/// Keys below have lists, to which versions are appended; the others registers.
const LISTS: Key = 5;
const KEYS: Key = 9;

/// How a run goes.
struct Setting {
    store: Arc<Store>,
    tree: Tree,
    level: Isolation,
    versions: Arc<AtomicU64>,
    power: Arc<Power>,
}

fn versions_of(value: Option<&[u8]>) -> Vec<Version> {
    let (versions, rest) = value.unwrap_or_default().as_chunks();
    assert!(rest.is_empty());
    versions.iter().map(|version| Version::from_le_bytes(*version)).collect()
}

/// A running transaction.
struct Running<'a> {
    setting: &'a Setting,
    tx: Transaction<&'a Store>,
    steps: Vec<Step>,
}

impl Running<'_> {
    /// Notes what was read of a key; its own versions are there, in the end, and are not noted.
    fn note_read(&mut self, key: Key, value: Option<&[u8]>) -> Option<Version> {
        let mut versions = versions_of(value);
        let written = |step: &Step| match step {
            Step::Wrote { key: of, version, .. } if *of == key => Some(*version),
            _ => None,
        };
        let own: Vec<Version> = self.steps.iter().filter_map(written).collect();
        if key < LISTS {
            let others = versions.len().checked_sub(own.len());
            assert_eq!(others.map(|others| &versions[others..]), Some(&own[..]), "its own writes");
            versions.truncate(others.unwrap());
        } else if let Some(own) = own.last() {
            assert_eq!(versions, [*own], "its own write");
            return Some(*own);
        }
        let version = versions.last().copied();
        self.steps.push(Step::Read { key, version });
        version
    }

    async fn read(&mut self, key: Key) -> Result<Option<Version>> {
        let value = self.tx.get(&self.setting.tree, &[key]).await?;
        Ok(self.note_read(key, value.as_deref()))
    }

    async fn scan(&mut self, random: &mut Random) -> Result<()> {
        let from = random.random_range(0..KEYS);
        let to = random.random_range(from..=KEYS);
        let direction =
            if random.random_bool(0.5) { Direction::Forward } else { Direction::Backward };
        let mut most = if random.random_bool(0.3) { random.random_range(1..3) } else { usize::MAX };
        let mut found: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
        let mut scan = self.tx.scan(&self.setting.tree, [from]..[to], direction).await?;
        let mut seen = from..to;
        while let Some((key, value)) = scan.next().await? {
            found.insert(key[0], value.to_vec());
            most -= 1;
            if most == 0 {
                match direction {
                    Direction::Forward => seen.end = key[0] + 1,
                    Direction::Backward => seen.start = key[0],
                }
                break;
            }
        }
        drop(scan);
        for key in seen {
            self.note_read(key, found.get(&key).map(|value| &value[..]));
        }
        Ok(())
    }

    async fn write(&mut self, random: &mut Random, key: Key) -> Result<()> {
        let version = self.setting.versions.fetch_add(1, Ordering::Relaxed);
        let bytes = version.to_le_bytes();
        let tree = &self.setting.tree;
        if key < LISTS && random.random_bool(0.5) {
            self.tx.merge(tree, APPEND, &[key], &bytes).await?;
            let wrote = Step::Wrote { key, version, over: None, is_blind: true };
            self.steps.push(wrote);
            return Ok(());
        }
        // Only read committed needs to lock what it reads.
        let locks = self.setting.level == Isolation::ReadCommitted || random.random_bool(0.4);
        let value = match locks {
            true => self.tx.get_for_update(tree, &[key], LockWait::Wait).await?,
            false => self.tx.get(tree, &[key]).await?,
        };
        let over = self.note_read(key, value.as_deref());
        if random.random_bool(0.3) {
            pause(random).await;
        }
        let value = match key < LISTS {
            true => [&value.unwrap_or_default()[..], &bytes].concat(),
            false => bytes.to_vec(),
        };
        self.tx.put(tree, &[key], &value).await?;
        self.steps.push(Step::Wrote { key, version, over, is_blind: false });
        Ok(())
    }

    /// Some steps, of which a part may be taken back.
    async fn go(&mut self, random: &mut Random, is_short: bool) -> Result<()> {
        for _ in 0..random.random_range(1..if is_short { 3 } else { 6 }) {
            let key = random.random_range(0..KEYS);
            match random.random_range(0..10) {
                0..3 => drop(self.read(key).await?),
                3..5 => self.scan(random).await?,
                5..9 => self.write(random, key).await?,
                _ if is_short => {}
                _ => {
                    self.tx.savepoint("s")?;
                    let before = self.steps.len();
                    Box::pin(self.go(random, true)).await?;
                    if random.random_bool(0.6) {
                        self.tx.roll_back_to("s")?;
                        // Of registers written twice the chain would lack one.
                        self.steps.truncate(before);
                    }
                }
            }
            if random.random_bool(0.5) {
                pause(random).await;
            }
        }
        Ok(())
    }
}

async fn pause(random: &mut Random) {
    sleep(Nanos(random.random_range(0..400_000))).await;
}

/// A session: transactions one after another, until the store fails.
async fn session(setting: Setting, name: String, transactions: usize) -> Vec<Record> {
    let mut random = random(&name);
    let mut records = Vec::new();
    for _ in 0..transactions {
        let began = now();
        let tx = setting.store.begin(TransactionOptions::of(setting.level));
        let mut running = Running { setting: &setting, tx, steps: Vec::new() };
        let done = running.go(&mut random, false).await;
        let done = match done {
            Ok(()) if random.random_bool(0.1) => {
                running.tx.roll_back();
                None
            }
            Ok(()) => Some(running.tx.commit().await),
            Err(error) => {
                running.tx.roll_back();
                Some(Err(error))
            }
        };
        let (outcome, goes_on) = match done {
            Some(Ok(())) => (Outcome::Committed, true),
            None => (Outcome::RolledBack, true),
            Some(Err(error)) if error.is_retryable() => (Outcome::RolledBack, true),
            // Without power the store stops, and reads fail.
            Some(Err(Error::Update(_))) if setting.power.is_off() => (Outcome::Unknown, false),
            Some(Err(error)) => panic!("{error}"),
        };
        records.push(Record { began, ended: now(), steps: running.steps, outcome });
        if !goes_on {
            break;
        }
    }
    records
}

/// Random transactions; gives how many were committed, and how many there were.
async fn run(level: Isolation, canary: Canary) -> (usize, usize) {
    let mut random = random("transactions");
    let bench = Bench::new(ByteCount(8 << 20)).await;
    let versions = Arc::new(AtomicU64::new(1));
    let mut all = Vec::new();
    for round in 0..random.random_range(1..4) {
        let store = bench.open().await;
        store.transactions().set_canary(canary);
        let tree = store.tree("t").await.unwrap();
        if random.random_bool(0.6) {
            bench.power.fail_after(random.random_range(0..60));
        }
        let tasks: Vec<_> = (0..random.random_range(2..7))
            .map(|session_number| {
                let setting = Setting {
                    store: Arc::clone(&store),
                    tree: tree.clone(),
                    level,
                    versions: Arc::clone(&versions),
                    power: Arc::clone(&bench.power),
                };
                let count = random.random_range(1..9);
                spawn(session(setting, format!("{round} {session_number}"), count))
            })
            .collect();
        for records in join_all(tasks).await {
            all.extend(records);
        }
        drop(store);
        bench.power.bring_back();
        bench.data.restart();
        bench.log.restart();
    }
    let store = bench.open().await;
    let tree = store.tree("t").await.unwrap();
    let mut order = BTreeMap::new();
    for key in 0..KEYS {
        let value = store.get(&tree, &[key]).await.unwrap();
        let versions = versions_of(value.as_deref());
        let versions = if key < LISTS { versions } else { chain(&all, versions.last().copied()) };
        order.insert(key, versions);
    }
    if let Some(problem) = problem(&all, &order, level) {
        panic!("{level:?} breaks its promise: {problem}");
    }
    let committed = all.iter().filter(|record| record.outcome == Outcome::Committed).count();
    (committed, all.len())
}

fn runs() -> u64 {
    if cfg!(debug_assertions) { 300 } else { 100_000 }
}

/// Runs all seeds; of all transactions at least such a share is committed.
fn check(level: Isolation, share: f64) {
    let (committed, all) = (AtomicU64::new(0), AtomicU64::new(0));
    each_seed(runs(), async || {
        let (some, of) = run(level, Canary::None).await;
        committed.fetch_add(some as u64, Ordering::Relaxed);
        all.fetch_add(of as u64, Ordering::Relaxed);
    });
    let (committed, all) = (committed.into_inner(), all.into_inner());
    println!("{level:?}: {committed} of {all} transactions were committed");
    // One seed alone may be cut off at once.
    assert!(all < 1000 || committed as f64 >= share * all as f64, "{committed} of {all}");
}

#[test]
fn read_committed_keeps_its_promises() {
    check(Isolation::ReadCommitted, 0.5);
}

#[test]
fn snapshots_keep_their_promises() {
    check(Isolation::Snapshot, 0.3);
}

#[test]
fn serializable_transactions_keep_their_promises() {
    check(Isolation::Serializable, 0.3);
}

/// The histories of planted mistakes are found out.
#[test]
fn planted_mistakes_are_noticed() {
    let is_noticed = |level, canary| {
        (0..2000).any(|seed| {
            let done = catch_unwind(|| block_on_virtual(seed, run(level, canary)));
            // No other failure counts.
            done.is_err_and(|panic| {
                let text = panic.downcast_ref::<String>().map_or("", |text| text);
                text.contains("breaks its promise")
            })
        })
    };
    // Serializable transactions are validated, and would only run in vain more often.
    for level in [Isolation::ReadCommitted, Isolation::Snapshot] {
        assert!(is_noticed(level, Canary::LostLock), "a lost lock, {level:?}");
    }
    for level in [Isolation::Snapshot, Isolation::Serializable] {
        assert!(is_noticed(level, Canary::LatePoint), "a read point too new, {level:?}");
    }
    let no_ranges = is_noticed(Isolation::Serializable, Canary::NoRanges);
    assert!(no_ranges, "validation without ranges");
}
