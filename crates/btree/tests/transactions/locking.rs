//! Locks: order, deadlocks, timeouts, savepoints, and what is left behind.

use std::sync::Arc;

use futures::future::{join, join_all};
use moirai_btree::{
    Direction, Error, Isolation, KeyRange, LockWait, Store, Transaction, TransactionOptions, Tree,
};
use moirai_runtime::{block_on_virtual, now, sleep, spawn};
use moirai_units::{ByteCount, Nanos};

use crate::{APPEND, Bench, LEVELS};

async fn opened() -> (Arc<Store>, Tree) {
    let store = Bench::new(ByteCount(8 << 20)).await.open().await;
    let tree = store.tree("test").await.unwrap();
    (store, tree)
}

fn begin(store: &Arc<Store>, level: Isolation) -> Transaction<Arc<Store>> {
    Transaction::begin(Arc::clone(store), TransactionOptions::of(level))
}

fn is_free(store: &Store) -> bool {
    let figures = store.transactions().figures();
    (figures.locks, figures.waiting) == (0, 0)
}

/// Two transactions that lock in opposite order: the younger fails at once, and the older goes on.
#[test]
fn a_deadlock_ends_the_youngest() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        for level in LEVELS {
            let (mut old, mut young) = (begin(&store, level), begin(&store, level));
            old.put(&tree, b"a", b"old").await.unwrap();
            young.put(&tree, b"b", b"young").await.unwrap();
            let began = now();
            let (first, second) =
                join(old.put(&tree, b"b", b"old"), young.put(&tree, b"a", b"young")).await;
            first.unwrap();
            let error = second.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert!(error.to_string().contains("deadlock"), "{error}");
            // Without waiting for a timeout.
            assert!(now().since(began).0 < 1_000_000);
            // Whoever failed has ended: nothing more is done in it.
            let failed = young.get(&tree, b"a").await.unwrap_err();
            assert!(failed.to_string().contains("has failed"), "{failed}");
            old.commit().await.unwrap();
            assert!(is_free(&store));
        }
        assert_eq!(store.transactions().figures().deadlocks, 3);
    });
}

/// Locks are granted in the order in which they were asked for.
#[test]
fn locks_are_granted_in_order() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        let mut first = begin(&store, Isolation::ReadCommitted);
        first.put(&tree, b"k", b"").await.unwrap();
        let tasks: Vec<_> = (0..50_u8)
            .map(|number| {
                let (store, tree) = (Arc::clone(&store), tree.clone());
                spawn(async move {
                    sleep(Nanos(u64::from(number) * 1000)).await;
                    let mut tx = begin(&store, Isolation::ReadCommitted);
                    // One in three only adds.
                    if number % 3 == 0 {
                        tx.merge(&tree, APPEND, b"k", &[number]).await.unwrap();
                    } else {
                        let found = tx.get_for_update(&tree, b"k", LockWait::Wait).await.unwrap();
                        let value = [found.unwrap(), vec![number]].concat();
                        tx.put(&tree, b"k", &value).await.unwrap();
                    }
                    tx.commit().await.unwrap();
                })
            })
            .collect();
        sleep(Nanos(1_000_000)).await;
        first.commit().await.unwrap();
        join_all(tasks).await;
        let value = store.get(&tree, b"k").await.unwrap().unwrap();
        assert_eq!(value, (0..50).collect::<Vec<u8>>());
        assert!(is_free(&store));
    });
}

/// Blind additions to one key do not wait for each other. A transaction that reads the key to change it waits for all of them.
#[test]
fn additions_do_not_wait_for_each_other() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        for level in LEVELS {
            let mut all: Vec<_> = (0..20).map(|_| begin(&store, level)).collect();
            for (number, tx) in all.iter_mut().enumerate() {
                tx.merge(&tree, APPEND, b"hot", &[number as u8]).await.unwrap();
            }
            let mut reader = begin(&store, level);
            let skipped = reader.get_for_update(&tree, b"hot", LockWait::NoWait).await;
            assert!(skipped.unwrap_err().to_string().contains("another transaction"));
            let (read, _) = join(
                reader.get_for_update(&tree, b"hot", LockWait::Wait),
                join_all(all.iter_mut().map(|tx| tx.commit())),
            )
            .await;
            assert_eq!(read.unwrap().unwrap().len(), 20, "{level:?}");
            reader.delete(&tree, b"hot").await.unwrap();
            reader.commit().await.unwrap();
        }
        assert!(is_free(&store));
    });
}

/// A lock that does not come in time is an error, after which the transaction goes on; so does one whose wait was dropped.
#[test]
fn waiting_ends_by_timeout_and_by_dropping() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        let mut holder = begin(&store, Isolation::Serializable);
        holder.put(&tree, b"k", b"1").await.unwrap();
        let options =
            TransactionOptions { lock_timeout: Some(Nanos(5_000_000)), ..Default::default() };
        let mut waiter = store.begin(options);
        waiter.put(&tree, b"other", b"2").await.unwrap();
        let began = now();
        let error = waiter.put(&tree, b"k", b"2").await.unwrap_err();
        assert_eq!(now().since(began), Nanos(5_000_000), "{error}");
        {
            let put = waiter.put(&tree, b"k", b"2");
            futures::pin_mut!(put);
            assert!(futures::poll!(put).is_pending());
        }
        assert_eq!(store.transactions().figures().waiting, 0);
        holder.commit().await.unwrap();
        waiter.put(&tree, b"k", b"2").await.unwrap();
        waiter.commit().await.unwrap();
        assert_eq!(store.get(&tree, b"k").await.unwrap().unwrap(), b"2");
        assert!(is_free(&store));
    });
}

/// Savepoints bring back what was there, in any nesting, and locks and reads stay.
#[test]
fn savepoints_bring_changes_back() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        store.put(&tree, b"a", b"0").await.unwrap();
        let mut tx = store.begin(TransactionOptions::default());
        tx.put(&tree, b"a", b"1").await.unwrap();
        tx.savepoint("s").unwrap();
        tx.put(&tree, b"a", b"2").await.unwrap();
        tx.insert(&tree, b"b", b"2").await.unwrap();
        tx.savepoint("s").unwrap();
        tx.merge(&tree, APPEND, b"a", b"3").await.unwrap();
        tx.delete(&tree, b"b").await.unwrap();
        assert_eq!(tx.get(&tree, b"a").await.unwrap().unwrap(), b"23");
        // The later one of that name, twice; then the earlier one.
        for _ in 0..2 {
            tx.roll_back_to("s").unwrap();
            assert_eq!(tx.get(&tree, b"a").await.unwrap().unwrap(), b"2");
            assert_eq!(tx.get(&tree, b"b").await.unwrap().unwrap(), b"2");
        }
        tx.release_savepoint("s").unwrap();
        tx.roll_back_to("s").unwrap();
        assert_eq!(tx.get(&tree, b"a").await.unwrap().unwrap(), b"1");
        assert!(!tx.contains(&tree, b"b").await.unwrap());
        let unknown = tx.roll_back_to("t").unwrap_err();
        assert!(unknown.to_string().contains("`t`"), "{unknown}");
        let exists = tx.insert(&tree, b"a", b"9").await.unwrap_err();
        assert!(matches!(exists, Error::KeyExists { .. }));
        tx.commit().await.unwrap();
        assert_eq!(store.get(&tree, b"a").await.unwrap().unwrap(), b"1");
        assert_eq!(store.count(&tree, ..).await.unwrap(), 1);
    });
}

/// What only reads waits for nobody, changes nothing, and sees one state for as long as it lasts.
#[test]
fn read_only_transactions_take_no_locks() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        store.put(&tree, b"a", b"0").await.unwrap();
        let mut writer = begin(&store, Isolation::Serializable);
        writer.put(&tree, b"a", b"1").await.unwrap();
        let mut reader =
            store.begin(TransactionOptions { read_only: true, ..TransactionOptions::default() });
        assert_eq!(reader.get(&tree, b"a").await.unwrap().unwrap(), b"0");
        writer.commit().await.unwrap();
        let mut scan = reader.scan(&tree, KeyRange::all(), Direction::Backward).await.unwrap();
        assert_eq!(scan.next().await.unwrap(), Some((&b"a"[..], &b"0"[..])));
        drop(scan);
        let refused = reader.put(&tree, b"a", b"2").await.unwrap_err();
        assert!(refused.to_string().contains("read-only"));
        reader.commit().await.unwrap();
    });
}

/// The history is empty once nobody needs it, and transactions that were dropped leave nothing.
#[test]
fn nothing_is_left_behind() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        let mut old = begin(&store, Isolation::Serializable);
        assert!(!old.contains(&tree, b"a").await.unwrap());
        for number in 0..100_u8 {
            let mut tx = begin(&store, Isolation::Serializable);
            tx.put(&tree, &[number], b"").await.unwrap();
            match number % 3 {
                0 => drop(tx),
                1 => tx.roll_back(),
                _ => tx.commit().await.unwrap(),
            }
        }
        let figures = store.transactions().figures();
        assert_eq!((figures.committed, figures.history_groups), (33, 33));
        drop(old);
        let mut tx = begin(&store, Isolation::Serializable);
        tx.put(&tree, b"a", b"").await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.transactions().figures().history_groups, 0);
        assert!(is_free(&store));
    });
}

/// A transaction that locks many keys of a tree locks the tree; others wait for it, as they would for each key.
#[test]
fn many_locks_become_one() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        let mut large = begin(&store, Isolation::ReadCommitted);
        for number in 0..45_000_u32 {
            large.put(&tree, &number.to_be_bytes(), b"large").await.unwrap();
        }
        let locks = store.transactions().figures().locks;
        assert!(locks < 20_001, "{locks} locks");
        let mut other = begin(&store, Isolation::ReadCommitted);
        let waited = async {
            other.put(&tree, b"another key", b"").await.unwrap();
            assert_eq!(store.get(&tree, &7_u32.to_be_bytes()).await.unwrap().unwrap(), b"large");
            other.commit().await.unwrap();
        };
        let (committed, ()) = join(large.commit(), waited).await;
        committed.unwrap();
        assert!(is_free(&store));
    });
}

/// One that takes too much memory fails, and the store goes on.
#[test]
fn a_transaction_keeps_to_its_memory() {
    block_on_virtual(1, async {
        let (store, tree) = opened().await;
        let mut tx = store.begin(TransactionOptions { memory_bytes: 10_000, ..Default::default() });
        let mut error = None;
        for number in 0..1000_u32 {
            if let Err(failed) = tx.put(&tree, &number.to_be_bytes(), b"value").await {
                error = Some(failed);
                break;
            }
        }
        assert!(error.unwrap().to_string().contains("more than 10000 bytes"));
        assert!(tx.commit().await.is_err());
        assert_eq!(store.count(&tree, ..).await.unwrap(), 0);
        assert!(is_free(&store));
    });
}

/// A hundred sessions that lock ten rows in random orders: deadlocks all the time, and all get on.
#[test]
fn a_storm_of_deadlocks_goes_on() {
    block_on_virtual(1, async {
        let rate = async |is_sorted: bool| {
            let (store, tree) = opened().await;
            let began = now();
            let tasks = (0..100_u8).map(|session| {
                let (store, tree) = (Arc::clone(&store), tree.clone());
                async move {
                    let mut random = moirai_runtime::random(&format!("storm {session}"));
                    for _ in 0..10 {
                        let mut keys = rand::seq::index::sample(&mut random, 10, 3).into_vec();
                        if is_sorted {
                            keys.sort_unstable();
                        }
                        let options = TransactionOptions::of(Isolation::ReadCommitted);
                        let run = store.run(options, async |tx| {
                            for key in &keys {
                                let key = [*key as u8];
                                let read = tx.get_for_update(&tree, &key, LockWait::Wait).await?;
                                let count = read.map_or(0, |value| value[0]);
                                sleep(Nanos(10_000)).await;
                                tx.put(&tree, &key, &[count.wrapping_add(1)]).await?;
                            }
                            Ok(())
                        });
                        run.await.unwrap();
                    }
                }
            });
            join_all(tasks).await;
            let sum: u64 = {
                let keys: Vec<[u8; 1]> = (0..10).map(|key| [key]).collect();
                let values = store.multi_get(&tree, &keys).await.unwrap();
                values.into_iter().map(|value| u64::from(value.unwrap()[0])).sum()
            };
            // 3,000 additions, each key modulo 256.
            assert_eq!(sum % 256, 3000 % 256);
            assert!(is_free(&store));
            let figures = store.transactions().figures();
            (figures.committed as f64 / now().since(began).as_s(), figures.deadlocks)
        };
        let (calm, none) = rate(true).await;
        let (storm, deadlocks) = rate(false).await;
        println!("{storm:.0} transactions/s with {deadlocks} deadlocks, {calm:.0} without");
        assert_eq!(none, 0);
        assert!(deadlocks > 100, "{deadlocks} deadlocks");
        assert!(storm >= calm / 10.0, "{storm} of {calm} transactions a second");
    });
}
