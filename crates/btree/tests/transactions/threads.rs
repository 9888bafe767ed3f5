//! Transactions in several threads.

use std::sync::Arc;

use futures::future::join_all;
use moirai_btree::{
    AddU64, Isolation, LockWait, Store, Transaction, TransactionOptions, with_leaves,
};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_real, spawn};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{KindNumber, Kinds, Options};
use rand::{Rng, SeedableRng};

const ADD: KindNumber = KindNumber(16);
const ACCOUNTS: u64 = 50;
const SESSIONS: u64 = 16;
const TRANSFERS: u64 = if cfg!(debug_assertions) { 100 } else { 2000 };

/// Transfers between accounts, one of three ways each: the sum stays, whoever looks and whenever.
#[test]
fn money_is_neither_made_nor_lost() {
    block_on_real(4, async {
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(8), Power::on())
        };
        let (data, log) = (device("data", 100_000), device("log", 20_000));
        let logs = [log as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
        let mut kinds = Kinds::new();
        kinds.register(ADD, Arc::new(AddU64)).unwrap();
        let store = Arc::new(Store::open(data, &logs, kinds, Options::default()).await.unwrap());
        let tree = store.tree("accounts").await.unwrap();
        let total = ACCOUNTS * 1000;
        for account in 0..ACCOUNTS {
            let balance = 1000_u64.to_le_bytes();
            store.put(&tree, &account.to_be_bytes(), &balance).await.unwrap();
        }
        let sessions = (0..SESSIONS).map(|session| {
            let (store, tree) = (Arc::clone(&store), tree.clone());
            spawn(async move {
                let mut random = Random::seed_from_u64(session);
                let mut done = 0;
                while done < TRANSFERS {
                    let level = match session % 3 {
                        0 => Isolation::ReadCommitted,
                        1 => Isolation::Snapshot,
                        _ => Isolation::Serializable,
                    };
                    let mut tx = Transaction::begin(&*store, TransactionOptions::of(level));
                    let from = random.random_range(0..ACCOUNTS).to_be_bytes();
                    let to = random.random_range(0..ACCOUNTS).to_be_bytes();
                    let is_blind = random.random_bool(0.3);
                    let amount = random.random_range(0..100_u64);
                    let result = async {
                        if is_blind {
                            tx.merge(&tree, ADD, &from, &amount.wrapping_neg().to_le_bytes())
                                .await?;
                            tx.merge(&tree, ADD, &to, &amount.to_le_bytes()).await?;
                        } else {
                            for (key, amount) in [(from, amount.wrapping_neg()), (to, amount)] {
                                let found = match level {
                                    Isolation::ReadCommitted => {
                                        tx.get_for_update(&tree, &key, LockWait::Wait).await?
                                    }
                                    _ => tx.get(&tree, &key).await?,
                                };
                                let balance =
                                    u64::from_le_bytes(found.unwrap().try_into().unwrap());
                                let balance = balance.wrapping_add(amount);
                                tx.put(&tree, &key, &balance.to_le_bytes()).await?;
                            }
                        }
                        tx.commit().await
                    };
                    match result.await {
                        Ok(()) => done += 1,
                        Err(error) if error.is_retryable() => {}
                        Err(error) => panic!("{error}"),
                    }
                    if random.random_bool(0.1) {
                        let options = TransactionOptions { read_only: true, ..Default::default() };
                        let mut tx = store.begin(options);
                        let mut scan =
                            tx.scan(&tree, .., moirai_btree::Direction::Forward).await.unwrap();
                        let mut sum = 0_u64;
                        while let Some((_, value)) = scan.next().await.unwrap() {
                            sum = sum.wrapping_add(u64::from_le_bytes(value.try_into().unwrap()));
                        }
                        assert_eq!(sum, total);
                    }
                }
            })
        });
        join_all(sessions).await;
        let figures = store.transactions().figures();
        println!("{figures:?}");
        assert_eq!((figures.locks, figures.waiting), (0, 0));
        assert_eq!(figures.committed, SESSIONS * TRANSFERS);
    });
}
