//! TPC-C's consistency conditions: after loading, after runs of all isolation levels, and after crashes at any write.
//!
//! `MOIRAI_RUNS` says how many seeds run, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::print_stdout, reason = "what was measured is for who runs it by hand")]

use std::sync::Arc;

use moirai::btree::{Store, with_leaves};
use moirai::devices::{FaultyDevice, Power};
use moirai::runtime::{block_on_virtual, each_seed, random};
use moirai::storage::Device;
use moirai::units::{BlockCount, ByteCount, Nanos};
use moirai::update::{Kinds, Options};
use moirai_sql::Database;
use moirai_tables::{Isolation, Layout, Tables};
use moirai_workloads::driver::{Figures, Running};
use moirai_workloads::tpcc::{self, CONDITIONS, Kind, RunOptions, Scale, load, open};
use rand::Rng;

const SCALE: Scale = Scale { warehouses: 2, items: 100, customers: 20 };
const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

struct Bench {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

/// A device that transactions fill within some seconds.
const DATA_BLOCKS_FEW: u64 = 10_000;

impl Bench {
    async fn new() -> Bench {
        Bench::with_data(200_000).await
    }

    /// With so many blocks for data.
    async fn with_data(blocks: u64) -> Bench {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(8), Arc::clone(&power))
        };
        let (data, log) = (device("data", blocks), device("log", 20_000));
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await.unwrap();
        Bench { power, data, log }
    }

    async fn open(&self) -> Arc<Tables> {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        // So little that sweeps come amid the transactions.
        let options = Options { memory: ByteCount::mib(8), ..Options::default() };
        Tables::open(Arc::clone(&self.data) as _, &logs, Kinds::new(), options).await.unwrap()
    }
}

/// The numbers of the conditions that are broken.
async fn broken(tables: &Arc<Tables>) -> Vec<u32> {
    let database = Database::over(tables);
    let mut broken = Vec::new();
    for condition in CONDITIONS {
        let (_, rows) = database.query(condition.broken).await.unwrap();
        if rows.iter().any(|batch| batch.num_rows() > 0) {
            broken.push(condition.number);
        }
    }
    broken
}

async fn run(
    tables: &Arc<Tables>,
    isolation: Isolation,
    terminals: u64,
    time: Nanos,
) -> moirai_tables::Result<Figures> {
    let database = Arc::new(open(tables).await?);
    assert_eq!(database.scale, SCALE);
    let options = RunOptions { isolation, ..RunOptions::of(terminals, time) };
    tpcc::run(&database, options, &Arc::new(Running::default())).await
}

#[test]
fn the_conditions_hold_after_runs_of_all_levels() {
    for (level, layout) in LEVELS.into_iter().zip(Layout::ALL) {
        block_on_virtual(1, async {
            let tables = Bench::new().await.open().await;
            load(&tables, SCALE, tables.page_options(layout), |_| {}).await.unwrap();
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "after loading, {layout:?}");
            let figures = run(&tables, level, 12, Nanos(400_000_000)).await.unwrap();
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{level:?}, {layout:?}");
            for (kind, figures) in Kind::ALL.iter().zip(&figures.kinds) {
                assert!(figures.committed > 10, "{kind:?}: {figures:?}");
            }
            let new_orders = &figures.kinds[0];
            assert!(new_orders.rolled_back > 0, "{new_orders:?}");
            println!(
                "{level:?}, {layout:?}: {:.0} transactions/s, retries {:?}",
                figures.per_second(),
                figures.kinds.iter().map(|kind| kind.retries).collect::<Vec<_>>()
            );
            let transactions = tables.store().transactions().figures();
            assert_eq!((transactions.locks, transactions.waiting), (0, 0));
        });
    }
}

/// The same seed gives the same transactions, to the nanosecond.
#[test]
fn runs_are_the_same_each_time() {
    let once = || {
        block_on_virtual(7, async {
            let tables = Bench::new().await.open().await;
            load(&tables, SCALE, tables.page_options(Layout::Nsm), |_| {}).await.unwrap();
            run(&tables, Isolation::Snapshot, 5, Nanos(300_000_000)).await.unwrap()
        })
    };
    assert_eq!(once(), once());
}

/// Each condition notices what breaks it.
#[test]
fn broken_conditions_are_noticed() {
    let breaks: [(u32, &str); 12] = [
        (1, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2"),
        (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3"),
        (3, "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 2 AND no_o_id = 16"),
        (
            4,
            "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 3 AND ol_number = 1",
        ),
        (5, "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 20"),
        (
            6,
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 20",
        ),
        (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 2 AND ol_o_id = 1"),
        (8, "UPDATE history SET h_amount = 11 WHERE h_w_id = 1 AND h_c_id = 5 AND h_d_id = 5"),
        (9, "UPDATE district SET d_ytd = 0 WHERE d_w_id = 1 AND d_id = 3"),
        (10, "UPDATE customer SET c_balance = 0 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
        (11, "DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 4 AND o_id = 20"),
        (12, "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
    ];
    block_on_virtual(1, async {
        let tables = Bench::new().await.open().await;
        load(&tables, SCALE, tables.page_options(Layout::Csm), |_| {}).await.unwrap();
        let database = Database::over(&tables);
        for (number, statement) in breaks {
            database.query("BEGIN").await.unwrap();
            database.query(statement).await.unwrap();
            let broken = CONDITIONS.iter().find(|condition| condition.number == number).unwrap();
            let (_, rows) = database.query(broken.broken).await.unwrap();
            assert!(rows.iter().any(|batch| batch.num_rows() > 0), "condition {number}");
            database.query("ROLLBACK").await.unwrap();
        }
        assert_eq!(self::broken(&tables).await, Vec::<u32>::new());
    });
}

/// The power fails at any write, several times.
#[test]
fn the_conditions_hold_after_crashes() {
    let runs = if cfg!(debug_assertions) { 6 } else { 200 };
    each_seed(runs, async || {
        let mut random = random("tpcc crashes");
        let bench = Bench::new().await;
        let tables = bench.open().await;
        let layout = Layout::ALL[random.random_range(0..Layout::ALL.len())];
        load(&tables, SCALE, tables.page_options(layout), |_| {}).await.unwrap();
        drop(tables);
        for _ in 0..random.random_range(1..4) {
            let tables = bench.open().await;
            bench.power.fail_after(random.random_range(0..300));
            let level = LEVELS[random.random_range(0..LEVELS.len())];
            let run = run(&tables, level, 8, Nanos(2_000_000_000)).await;
            assert!(run.is_ok() || bench.power.is_off(), "{run:?}");
            drop(tables);
            bench.power.bring_back();
            bench.data.restart();
            bench.log.restart();
            let tables = bench.open().await;
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{level:?}, {layout:?}");
            drop(tables);
        }
    });
}

/// A device dies amid the transactions: that of the log, or that of the data.
#[test]
fn the_conditions_hold_after_a_device_died() {
    for (dies, level) in ["log", "data"].into_iter().cycle().zip(LEVELS) {
        block_on_virtual(1, async {
            let bench = Bench::new().await;
            let tables = bench.open().await;
            load(&tables, SCALE, tables.page_options(Layout::Nsm), |_| {}).await.unwrap();
            let device = if dies == "log" { &bench.log } else { &bench.data };
            let dying = async {
                moirai::runtime::sleep(Nanos(150_000_000)).await;
                device.die();
            };
            let (run, ()) = futures::join!(run(&tables, level, 8, Nanos(2_000_000_000)), dying);
            assert!(run.is_err(), "{run:?}");
            // Without its log a store takes no changes; without the device of the data it goes on as long as nothing is read of it.
            let again = self::run(&tables, level, 2, Nanos(100_000_000)).await;
            assert!(again.is_err() || dies == "data", "{again:?}");
            drop(tables);
            device.revive();
            bench.data.restart();
            bench.log.restart();
            let tables = bench.open().await;
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{dies}, {level:?}");
            let run = self::run(&tables, level, 8, Nanos(100_000_000)).await.unwrap();
            assert!(run.per_second() > 0.0);
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{dies}, {level:?}");
        });
    }
}

/// The device of the data fills amid the transactions, which fail then. What is there can be read and is whole, before and after the store
/// is opened again.
#[test]
fn the_conditions_hold_after_the_device_filled() {
    // Filling it takes a minute without optimisation.
    let few = if cfg!(debug_assertions) { 1 } else { 3 };
    for (level, layout) in LEVELS.into_iter().zip([Layout::Nsm, Layout::Csm, Layout::Pax]).take(few)
    {
        block_on_virtual(1, async {
            let bench = Bench::with_data(DATA_BLOCKS_FEW).await;
            let tables = bench.open().await;
            load(&tables, SCALE, tables.page_options(layout), |_| {}).await.unwrap();
            let mut error = None;
            for _ in 0..200 {
                if let Err(full) = run(&tables, level, 8, Nanos(1_000_000_000)).await {
                    error = Some(full);
                    break;
                }
            }
            let error = error.unwrap();
            assert_eq!(error.sqlstate(), "53100", "{error}");
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{level:?}, {layout:?}");
            tables.close().await.unwrap();
            let tables = bench.open().await;
            assert_eq!(broken(&tables).await, Vec::<u32>::new(), "{level:?}, {layout:?}, opened");
        });
    }
}
