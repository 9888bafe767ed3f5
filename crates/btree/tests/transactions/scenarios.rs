//! The scenarios of the Hermitage suite (M. Kleppmann, 2014, after Adya's thesis): each level prevents what it promises to.

use std::sync::Arc;

use futures::future::{BoxFuture, join};
use moirai_btree::{
    Direction, Isolation, KeyRange, Result, Store, Transaction, TransactionOptions, Tree,
};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_units::{ByteCount, Nanos};

use crate::{Bench, LEVELS};

type Tx = Transaction<Arc<Store>>;

/// Two rows, 1 with 10 and 2 with 20, and transactions of one level.
struct Rows {
    store: Arc<Store>,
    tree: Tree,
    level: Isolation,
}

impl Rows {
    async fn new(level: Isolation) -> Rows {
        let bench = Bench::new(ByteCount(8 << 20)).await;
        let store = bench.open().await;
        let tree = store.tree("test").await.unwrap();
        store.put(&tree, &[1], &[10]).await.unwrap();
        store.put(&tree, &[2], &[20]).await.unwrap();
        Rows { store, tree, level }
    }

    fn begin(&self) -> Tx {
        Transaction::begin(Arc::clone(&self.store), TransactionOptions::of(self.level))
    }

    async fn get(&self, tx: &mut Tx, key: u8) -> u8 {
        tx.get(&self.tree, &[key]).await.unwrap().unwrap()[0]
    }

    /// `UPDATE test SET value = ...`, which locks the row.
    async fn put(&self, tx: &mut Tx, key: u8, value: u8) -> Result<()> {
        tx.put(&self.tree, &[key], &[value]).await
    }

    /// `SELECT value FROM test WHERE value % 3 = 0`, which reads all rows.
    async fn multiples_of_three(&self, tx: &mut Tx) -> Vec<u8> {
        let mut scan = tx.scan(&self.tree, KeyRange::all(), Direction::Forward).await.unwrap();
        let mut found = Vec::new();
        while let Some((_, value)) = scan.next().await.unwrap() {
            found.extend(value.first().filter(|value| *value % 3 == 0));
        }
        found
    }

    async fn now(&self) -> (u8, u8) {
        let values = self.store.multi_get(&self.tree, &[[1], [2]]).await.unwrap();
        (values[0].as_ref().unwrap()[0], values[1].as_ref().unwrap()[0])
    }
}

/// Commits both; tells whether both could.
async fn both_commit(one: &mut Tx, other: &mut Tx) -> bool {
    let one = one.commit().await.is_ok();
    other.commit().await.is_ok() && one
}

/// Whether a level lets the anomaly happen.
type Scenario = fn(Rows) -> BoxFuture<'static, bool>;

/// Write cycles (dirty write): both change both rows.
fn g0(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        rows.put(&mut one, 1, 11).await.unwrap();
        let second = async {
            rows.put(&mut two, 1, 12).await?;
            rows.put(&mut two, 2, 22).await?;
            two.commit().await
        };
        let first = async {
            sleep(Nanos(1000)).await;
            rows.put(&mut one, 2, 21).await?;
            one.commit().await
        };
        let (second, first) = join(second, first).await;
        first.unwrap();
        second.unwrap();
        rows.now().await != (12, 22)
    })
}

/// Aborted reads.
fn g1a(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        rows.put(&mut one, 1, 101).await.unwrap();
        let before = rows.get(&mut two, 1).await;
        one.roll_back();
        let after = rows.get(&mut two, 1).await;
        two.commit().await.unwrap();
        (before, after) != (10, 10)
    })
}

/// Intermediate reads.
fn g1b(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        rows.put(&mut one, 1, 101).await.unwrap();
        let before = rows.get(&mut two, 1).await;
        rows.put(&mut one, 1, 11).await.unwrap();
        one.commit().await.unwrap();
        let after = rows.get(&mut two, 1).await;
        two.commit().await.unwrap();
        before == 101 || after == 101
    })
}

/// Circular information flow.
fn g1c(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        rows.put(&mut one, 1, 11).await.unwrap();
        rows.put(&mut two, 2, 22).await.unwrap();
        let seen = (rows.get(&mut one, 2).await, rows.get(&mut two, 1).await);
        both_commit(&mut one, &mut two).await && seen == (22, 11)
    })
}

/// A transaction that was observed vanishes.
fn otv(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two, mut three) = (rows.begin(), rows.begin(), rows.begin());
        rows.put(&mut one, 1, 11).await.unwrap();
        rows.put(&mut one, 2, 19).await.unwrap();
        let second = async {
            rows.put(&mut two, 1, 12).await.unwrap();
            sleep(Nanos(1_000_000)).await;
            rows.put(&mut two, 2, 18).await.unwrap();
            two.commit().await
        };
        let third = async {
            sleep(Nanos(1000)).await;
            one.commit().await.unwrap();
            let first = rows.get(&mut three, 1).await;
            sleep(Nanos(10_000_000)).await;
            let second = rows.get(&mut three, 2).await;
            let again = (rows.get(&mut three, 2).await, rows.get(&mut three, 1).await);
            (first, second, again)
        };
        let (second, (first, seen, again)) = join(second, third).await;
        second.unwrap();
        // What was read of the second is not gone when the first row is read again.
        first != 11 || (seen == 18 && again != (18, 12))
    })
}

/// Predicate-many-preceders: rows appear that were not there.
fn pmp(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        let before = rows.multiples_of_three(&mut one).await;
        rows.put(&mut two, 3, 30).await.unwrap();
        two.commit().await.unwrap();
        let after = rows.multiples_of_three(&mut one).await;
        one.commit().await.unwrap();
        before != after
    })
}

/// Lost update.
fn p4(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        assert_eq!(rows.get(&mut one, 1).await, 10);
        assert_eq!(rows.get(&mut two, 1).await, 10);
        rows.put(&mut one, 1, 11).await.unwrap();
        let second = async {
            rows.put(&mut two, 1, 11).await?;
            two.commit().await
        };
        let (second, first) = join(second, one.commit()).await;
        first.unwrap();
        second.is_ok()
    })
}

/// Read skew.
fn g_single(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        let first = rows.get(&mut one, 1).await;
        rows.put(&mut two, 1, 12).await.unwrap();
        rows.put(&mut two, 2, 18).await.unwrap();
        two.commit().await.unwrap();
        let second = rows.get(&mut one, 2).await;
        one.commit().await.is_ok() && (first, second) != (10, 20)
    })
}

/// Read skew with a write: what was read has changed, and something is written because of it.
fn g_single_write(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        assert_eq!(rows.get(&mut one, 1).await, 10);
        rows.put(&mut two, 1, 12).await.unwrap();
        rows.put(&mut two, 2, 18).await.unwrap();
        two.commit().await.unwrap();
        let is_put = rows.put(&mut one, 2, 0).await.is_ok();
        is_put && one.commit().await.is_ok()
    })
}

/// Write skew.
fn g2_item(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        for tx in [&mut one, &mut two] {
            assert_eq!((rows.get(tx, 1).await, rows.get(tx, 2).await), (10, 20));
        }
        rows.put(&mut one, 1, 11).await.unwrap();
        rows.put(&mut two, 2, 21).await.unwrap();
        both_commit(&mut one, &mut two).await
    })
}

/// Anti-dependency cycles over rows that come.
fn g2(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        assert!(rows.multiples_of_three(&mut one).await.is_empty());
        assert!(rows.multiples_of_three(&mut two).await.is_empty());
        rows.put(&mut one, 3, 30).await.unwrap();
        rows.put(&mut two, 4, 42).await.unwrap();
        both_commit(&mut one, &mut two).await
    })
}

/// A cycle over two transactions that write and one that only reads (Fekete, O'Neil, O'Neil 2004).
fn read_only(rows: Rows) -> BoxFuture<'static, bool> {
    Box::pin(async move {
        let (mut one, mut two) = (rows.begin(), rows.begin());
        assert_eq!((rows.get(&mut two, 1).await, rows.get(&mut two, 2).await), (10, 20));
        assert_eq!(rows.get(&mut one, 2).await, 20);
        rows.put(&mut one, 2, 40).await.unwrap();
        one.commit().await.unwrap();
        let mut reader = rows.begin();
        let seen = (rows.get(&mut reader, 1).await, rows.get(&mut reader, 2).await);
        assert_eq!(seen, (10, 40));
        reader.commit().await.unwrap();
        rows.put(&mut two, 1, 0).await.unwrap();
        two.commit().await.is_ok()
    })
}

/// What may happen at each level: the table of docs/transactions.md.
const SCENARIOS: [(&str, Scenario, [bool; 3]); 12] = [
    ("G0", g0, [false, false, false]),
    ("G1a", g1a, [false, false, false]),
    ("G1b", g1b, [false, false, false]),
    ("G1c", g1c, [false, false, false]),
    ("OTV", otv, [false, false, false]),
    ("PMP", pmp, [true, false, false]),
    ("P4", p4, [true, false, false]),
    ("G-single", g_single, [true, false, false]),
    ("G-single, writing", g_single_write, [true, false, false]),
    ("G2-item", g2_item, [true, true, false]),
    ("G2", g2, [true, true, false]),
    ("read-only", read_only, [true, true, false]),
];

#[test]
fn each_level_prevents_what_it_promises() {
    for (name, scenario, may_happen) in SCENARIOS {
        for (level, may_happen) in LEVELS.into_iter().zip(may_happen) {
            let happens = block_on_virtual(1, async { scenario(Rows::new(level).await).await });
            assert_eq!(happens, may_happen, "{name} with {level:?}");
        }
    }
}

/// The documentation has the table that the test checks.
#[test]
fn the_documentation_has_the_same_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transactions.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (name, _, may_happen) in SCENARIOS {
        let words = may_happen.map(|may| if may { "possible" } else { "prevented" });
        let line = format!("| {name} | {} |", words.join(" | "));
        assert!(text.contains(&line), "docs/transactions.md lacks: {line}");
    }
}
