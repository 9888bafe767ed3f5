//! Statements that write, and what is there afterwards.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai::btree::{Store, with_leaves};
use moirai::devices::{FaultyDevice, Power};
use moirai::runtime::block_on_virtual;
use moirai::storage::Device;
use moirai::units::{BlockCount, ByteCount};
use moirai::update::{Kinds, Options};
use moirai_sql::{Answer, Database, Format};
use moirai_tables::{Layout, Tables};

async fn tables() -> Arc<Tables> {
    let power = Power::on();
    let device = |name: &str, blocks| -> Arc<dyn Device> {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(8), Arc::clone(&power))
    };
    let (data, logs) = (device("data", 300_000), [device("log", 20_000)]);
    Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await.unwrap();
    Tables::open(data, &logs, Kinds::new(), Options::default()).await.unwrap()
}

/// The answer as CSV, or the message of the error.
async fn run(database: &Database, statement: &str) -> String {
    match database.query(statement).await {
        Ok((schema, batches)) => {
            let mut text = Vec::new();
            let answer = Answer { schema: &schema, batches: &batches };
            answer.write(&mut text, Format::Csv).unwrap();
            String::from_utf8(text).unwrap().trim_end().replace('\n', " ")
        }
        Err(error) => format!("error: {error}"),
    }
}

/// A statement whose new table has this layout, unless it says another.
fn in_layout(statement: &str, layout: Layout) -> String {
    let is_plain = statement.starts_with("CREATE TABLE") && statement.ends_with(')');
    match is_plain && !statement.contains("WITH (") && !statement.contains(" AS ") {
        true => format!("{statement} WITH (layout = '{}')", layout.name()),
        false => statement.to_owned(),
    }
}

/// Runs statements, each with the answer that is expected, over tables of each layout.
fn check(statements: &'static [(&'static str, &'static str)]) {
    for layout in Layout::ALL {
        block_on_virtual(1, async {
            let database = Database::over(&tables().await);
            for (statement, expected) in statements {
                let statement = in_layout(statement, layout);
                assert_eq!(run(&database, &statement).await, *expected, "{statement}");
            }
        });
    }
}

/// What takes more of a row than a quarter of a leaf lies elsewhere.
#[test]
fn long_texts_are_put_and_changed() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT)", ""),
        (
            "INSERT INTO t SELECT value, value, repeat('x', 1000 * value) FROM generate_series(1, 9)",
            "count 9",
        ),
        ("UPDATE t SET n = n + 1", "count 9"),
        ("UPDATE t SET s = repeat('y', 5000 * id) WHERE id > 4", "count 5"),
        (
            "SELECT sum(n) AS n, sum(length(s)) AS length, min(s) > 'x' AS x FROM t",
            "n,length,x 54,185000,true",
        ),
        ("CREATE TABLE u (n INT, s TEXT)", ""),
        ("INSERT INTO u SELECT n, s FROM t", "count 9"),
        ("UPDATE u SET s = s || 'z'", "count 9"),
        (
            "SELECT count(*) AS c, sum(length(s)) AS length FROM u WHERE s LIKE '%z'",
            "c,length 9,185009",
        ),
    ]);
}

#[test]
fn rows_are_inserted_updated_and_deleted() {
    check(&[
        (
            "CREATE TABLE stock (id INT PRIMARY KEY, name TEXT NOT NULL, price DECIMAL(8, 2) DEFAULT 1.5, since DATE)",
            "",
        ),
        (
            "INSERT INTO stock VALUES (2, 'pear', 3, '2026-01-02'), (1, 'apple', 2.25, NULL)",
            "count 2",
        ),
        ("INSERT INTO stock (name, id) VALUES ('plum', 3)", "count 1"),
        (
            "SELECT * FROM stock",
            "id,name,price,since 1,apple,2.25, 2,pear,3.00,2026-01-02 3,plum,1.50,",
        ),
        ("UPDATE stock SET price = price * 2, since = DATE '2026-02-03' WHERE id < 3", "count 2"),
        (
            "SELECT id, price, since FROM stock ORDER BY price",
            "id,price,since 3,1.50, 1,4.50,2026-02-03 2,6.00,2026-02-03",
        ),
        ("DELETE FROM stock WHERE name LIKE 'p%' AND price > 2", "count 1"),
        ("SELECT id FROM stock", "id 1 3"),
        ("DELETE FROM stock", "count 2"),
        ("SELECT count(*) FROM stock", "count(*) 0"),
    ]);
}

#[test]
fn keys_are_unique() {
    check(&[
        ("CREATE TABLE t (a INT, b TEXT, v INT, PRIMARY KEY (b, a))", ""),
        ("INSERT INTO t VALUES (1, 'x', 10), (1, 'y', 20)", "count 2"),
        (
            "INSERT INTO t VALUES (2, 'x', 30), (1, 'x', 40)",
            "error: `t` has a row with b=x, a=1 already",
        ),
        (
            "INSERT INTO t VALUES (3, 'x', 30), (3, 'x', 40)",
            "error: `t` has a row with b=x, a=3 already",
        ),
        ("SELECT count(*) FROM t", "count(*) 2"),
        ("INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2) ON CONFLICT DO NOTHING", "count 1"),
        ("SELECT a, b, v FROM t ORDER BY b, a", "a,b,v 1,x,10 2,x,2 1,y,20"),
        (
            "INSERT INTO t AS have VALUES (1, 'x', 5), (9, 'z', 90) ON CONFLICT (a, b) DO UPDATE SET v = v + excluded.v, \
             a = have.a",
            "error: ON CONFLICT DO UPDATE does not change keys",
        ),
        (
            "INSERT INTO t AS have VALUES (1, 'x', 5), (9, 'z', 90), (2, 'x', 1) ON CONFLICT (a, b) DO UPDATE \
             SET v = v + excluded.v WHERE have.v > 5",
            "count 2",
        ),
        ("SELECT a, b, v FROM t", "a,b,v 1,x,15 2,x,2 1,y,20 9,z,90"),
        (
            "INSERT INTO t VALUES (1, 'x', 5) ON CONFLICT (a) DO NOTHING",
            "error: ON CONFLICT names columns that are not the primary key of `t`: name (b, a)",
        ),
        ("INSERT INTO t VALUES (1, NULL, 5)", "error: column `b` of `t` takes no nulls"),
        ("UPDATE t SET a = a + 1 WHERE b = 'x'", "count 2"),
        ("SELECT a, b, v FROM t", "a,b,v 2,x,15 3,x,2 1,y,20 9,z,90"),
        (
            "UPDATE t SET b = 'x', a = 3 WHERE b = 'z'",
            "error: two rows of `t` would have the same key",
        ),
        ("UPDATE t SET a = 7 WHERE b = 'x'", "error: two rows of `t` would have the same key"),
        ("SELECT a, b, v FROM t WHERE b = 'x' AND a > 2", "a,b,v 3,x,2"),
    ]);
}

/// DataFusion 55.2 would delete all rows here: it passes on no filters that are subqueries.
#[test]
fn no_more_rows_are_changed_than_a_subquery_says() {
    check(&[
        ("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)", ""),
        ("INSERT INTO t SELECT value, value % 3 FROM generate_series(1, 1000)", "count 1000"),
        ("CREATE TABLE u (id BIGINT, w INT)", ""),
        ("INSERT INTO u VALUES (5, 50), (6, 60), (7, NULL)", "count 3"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM u WHERE w IS NULL)", "count 1"),
        ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND w = 60)", "count 1"),
        ("SELECT count(*), sum(id) FROM t", "count(*),sum(t.id) 998,500487"),
        ("UPDATE t SET v = u.w FROM u WHERE u.id = t.id", "count 1"),
        ("UPDATE t SET v = (SELECT max(w) FROM u) WHERE id = (SELECT min(id) FROM t)", "count 1"),
        ("SELECT id, v FROM t WHERE v > 2 ORDER BY id", "id,v 1,60 5,50"),
        ("DELETE FROM t USING u WHERE u.id = t.id", "count 1"),
        ("INSERT INTO u VALUES (8, 1), (8, 2)", "count 2"),
        (
            "UPDATE t SET v = u.w FROM u WHERE u.id = t.id",
            "error: a row of `t` is met twice: let FROM have one row for each",
        ),
        ("SELECT v FROM t WHERE id = 8", "v 2"),
    ]);
}

#[test]
fn tables_without_a_key_have_rows_in_the_order_in_which_they_came() {
    check(&[
        ("CREATE TABLE log (word TEXT)", ""),
        ("INSERT INTO log VALUES ('b'), ('a'), ('b')", "count 3"),
        ("INSERT INTO log SELECT word || word FROM log", "count 3"),
        ("SELECT * FROM log", "word b a b bb aa bb"),
        ("UPDATE log SET word = 'c' WHERE word = 'a'", "count 1"),
        ("DELETE FROM log WHERE word = 'bb'", "count 2"),
        ("INSERT INTO log VALUES ('d')", "count 1"),
        ("SELECT * FROM log", "word b c b aa d"),
        ("TRUNCATE TABLE log", ""),
        ("INSERT INTO log VALUES ('e')", "count 1"),
        ("SELECT * FROM log", "word e"),
        (
            "INSERT INTO log VALUES ('e') ON CONFLICT DO NOTHING",
            "error: `log` has no primary key, so nothing conflicts",
        ),
    ]);
}

#[test]
fn returning_shows_rows_as_they_are_now() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 7)", ""),
        ("INSERT INTO t (id) VALUES (2), (1) RETURNING id, v + 1 AS w", "id,w 2,8 1,8"),
        ("UPDATE t SET v = v + id WHERE id = 2 RETURNING *", "id,v 2,9"),
        ("UPDATE t SET id = id + 10 RETURNING id AS new", "new 11 12"),
        ("INSERT INTO t VALUES (11, 0) ON CONFLICT DO UPDATE SET v = -v RETURNING t.v", "v -7"),
        ("DELETE FROM t WHERE id = 99 RETURNING id", "id"),
        ("DELETE FROM t AS gone WHERE v > 0 RETURNING gone.id", "id 12"),
        ("SELECT * FROM t", "id,v 11,-7"),
    ]);
}

#[test]
fn tables_are_made_of_queries_and_dropped() {
    check(&[
        (
            "CREATE TABLE t AS SELECT value AS id, value * 2 AS v FROM generate_series(1, 5)",
            "count 5",
        ),
        (
            "CREATE TABLE t (id INT)",
            "error: there is a table `t` already: drop or replace it, or take another name",
        ),
        ("CREATE TABLE IF NOT EXISTS t (id INT)", ""),
        ("CREATE OR REPLACE TABLE t AS SELECT id FROM t WHERE v > 4", "count 3"),
        ("SELECT * FROM t", "id 3 4 5"),
        ("CREATE TABLE \"Odd, name\" (\"A b\" BOOLEAN, z TIMESTAMP WITH TIME ZONE)", ""),
        (
            "INSERT INTO \"Odd, name\" VALUES (true, '2026-01-01T00:00:00Z'), (NULL, NULL)",
            "count 2",
        ),
        ("SELECT * FROM public.\"Odd, name\" WHERE \"A b\"", "A b,z true,2026-01-01T00:00:00Z"),
        ("DROP TABLE t", ""),
        ("DROP TABLE IF EXISTS t", ""),
        ("DROP TABLE t", "error: there is no table `t`; the store has Odd, name"),
        ("INSERT INTO t VALUES (1)", "error: there is no table `t`; the store has Odd, name"),
        (
            "CREATE TABLE u (id INT UNIQUE)",
            "error: column `id` has `UNIQUE`: columns have NULL, NOT NULL, DEFAULT and PRIMARY KEY (hint: CREATE UNIQUE INDEX name ON table (columns) comes after CREATE TABLE)",
        ),
        (
            "CREATE TABLE u (id INT) WITH (layout = 'x')",
            "error: there is no layout `x`: take one of csm, nsm, pax",
        ),
        (
            "CREATE TABLE u (id FLOAT PRIMARY KEY)",
            "error: column `id` has type Float32, which tables do not hold in a key: take other columns",
        ),
    ]);
}

/// A value that a column cannot have changes nothing.
#[test]
fn a_statement_that_fails_changes_nothing() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, v TINYINT)", ""),
        ("INSERT INTO t VALUES (1, 1), (2, 2)", "count 2"),
        (
            "INSERT INTO t VALUES (3, 3), (4, 400)",
            "error: column `v` of `t`: Cast error: Can't cast value 400 to type Int8",
        ),
        (
            "UPDATE t SET v = v * 100",
            "error: column `v` of `t`: Cast error: Can't cast value 200 to type Int8",
        ),
        ("UPDATE t SET w = 1", "error: `t` has no column `w`; it has id, v"),
        ("INSERT INTO t (id, v) VALUES (5)", "error: 2 columns are named, and 1 are given"),
        ("SELECT * FROM t", "id,v 1,1 2,2"),
    ]);
}

/// What a statement says is planned, and never printed and read again.
#[test]
fn texts_with_quotes_stay_as_they_are() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, name TEXT DEFAULT 'it''s')", ""),
        ("INSERT INTO t VALUES (1, 'a''''b'), (2, 'x\\'), (3, 'plain')", "count 3"),
        ("SELECT id, name FROM t WHERE name = 'a''''b'", "id,name 1,a''b"),
        ("DELETE FROM t WHERE name = 'x\\'' OR 1=1 --'", "count 0"),
        ("UPDATE t SET name = 'y\\' WHERE name = 'x\\'", "count 1"),
        ("UPDATE t SET id = - -7 WHERE id = 3 RETURNING id", "id 7"),
        ("INSERT INTO t (id) VALUES (9) RETURNING name", "name it's"),
        ("SELECT count(*) FROM t", "count(*) 4"),
    ]);
}

/// Subqueries see the table as it was, whatever its alias is.
#[test]
fn subqueries_see_the_table_itself() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)", ""),
        ("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)", "count 3"),
        (
            "INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET v = (SELECT count(*) FROM t) RETURNING v",
            "v 3",
        ),
        ("INSERT INTO t VALUES (4, 0) RETURNING (SELECT max(id) FROM t) AS m", "m 3"),
        ("UPDATE t AS x SET v = (SELECT sum(id) FROM t) WHERE x.id = 2 RETURNING x.v", "v 10"),
        ("CREATE TABLE log (word TEXT)", ""),
        ("INSERT INTO log VALUES ('a'), ('b'), ('a')", "count 3"),
        ("DELETE FROM log WHERE word IN (SELECT * FROM log WHERE word > 'a')", "count 1"),
        ("SELECT * FROM log", "word a a"),
    ]);
}

/// Parts of a statement that would narrow it are refused, and not passed over.
#[test]
fn no_more_is_done_than_was_said() {
    check(&[
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT)", ""),
        ("INSERT INTO t VALUES (1, 2), (2, 1), (3, 3)", "count 3"),
        (
            "DELETE FROM t TABLESAMPLE (10 PERCENT)",
            "error: rows of a table can be changed, and all of it is meant",
        ),
        (
            "DELETE FROM t AS x (b, a) WHERE x.a = 2",
            "error: the columns of a table that is changed keep their names",
        ),
        (
            "SELECT * FROM t FOR UPDATE",
            "error: rows are not locked by FOR UPDATE or FOR SHARE: leave it out",
        ),
        ("UPDATE t SET u.b = 1", "error: `u.b` is no column of `t`"),
        (
            "CREATE TABLE u (a INT PRIMARY KEY, b INT PRIMARY KEY)",
            "error: a table has one PRIMARY KEY: name its columns together",
        ),
        (
            "CREATE TABLE u (a VARCHAR(3))",
            "error: the length of VARCHAR(3) would not be checked: take TEXT",
        ),
        ("SELECT count(*) FROM t", "count(*) 3"),
    ]);
}

#[test]
fn values_keep_their_digits_and_kinds() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(20, 2), w DECIMAL(38, 0), since DATE)", ""),
        (
            "INSERT INTO t VALUES (1, 12345678901234567.89, 123456789012345678901234567890, '2026-01-01')",
            "count 1",
        ),
        ("SELECT d, w FROM t", "d,w 12345678901234567.89,123456789012345678901234567890"),
        ("UPDATE t SET id = 2.7", "count 1"),
        ("SELECT id FROM t", "id 3"),
        (
            "UPDATE t SET since = 5",
            "error: column `since` of `t`: it is of Date32, and Int64 is given: cast it",
        ),
        ("CREATE TABLE u AS SELECT id FROM t", "count 1"),
        ("INSERT INTO u VALUES (NULL)", "count 1"),
        ("CREATE TABLE k (id BIGINT PRIMARY KEY) ", ""),
        ("INSERT INTO k SELECT value FROM generate_series(5, 1, -1)", "count 5"),
        ("SELECT * FROM k WHERE id BETWEEN 2 AND 3", "id 2 3"),
        ("SELECT * FROM k WHERE id > 3.5 AND id < 9000000000", "id 4 5"),
    ]);
}

/// Where the first page of a row group was emptied, rows that come there later are found by ranges of keys.
#[test]
fn ranges_find_rows_where_others_were_deleted() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        for (statement, expected) in [
            ("CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (page_rows = 8)", ""),
            ("INSERT INTO t SELECT value, value FROM generate_series(1, 100)", "count 100"),
            ("", ""),
            ("DELETE FROM t WHERE id <= 8", "count 8"),
            ("", ""),
            ("INSERT INTO t VALUES (3, 0)", "count 1"),
            ("SELECT * FROM t WHERE id < 5", "id,v 3,0"),
            ("UPDATE t SET v = 1 WHERE id < 7", "count 1"),
            ("SELECT * FROM t WHERE id >= 6 AND id < 10", "id,v 9,9"),
            ("", ""),
            ("SELECT * FROM t WHERE id < 10", "id,v 3,1 9,9"),
        ] {
            if statement.is_empty() {
                tables.store().checkpoint().await.unwrap();
            } else {
                assert_eq!(run(&database, statement).await, expected, "{statement}");
            }
        }
    });
}

#[test]
fn two_rows_of_a_query_with_one_key_make_no_table() {
    check(&[
        (
            "CREATE TABLE d (id BIGINT, PRIMARY KEY (id)) AS SELECT value % 100000 FROM generate_series(1, 200000)",
            "error: table `d`: 100000 rows have keys that others have, too; sorted by the key they would be named",
        ),
        (
            "SELECT * FROM d",
            "error: Error during planning: table 'd' not found (names are in lower case unless they are in double quotes, as in \"People\")",
        ),
    ]);
}

#[test]
fn indexes_find_rows_and_keep_values_apart() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, v INT)", ""),
        (
            "INSERT INTO t VALUES (1, 'b', 10), (2, 'a', 20), (3, NULL, 30), (4, NULL, 40)",
            "count 4",
        ),
        ("CREATE UNIQUE INDEX by_name ON t (name)", ""),
        (
            "CREATE INDEX by_name ON t (v)",
            "error: there is an index `by_name` already: drop it, or take another name",
        ),
        ("CREATE INDEX IF NOT EXISTS by_name ON t (v)", ""),
        ("CREATE INDEX i ON t (nothing)", "error: `t` has no column `nothing`; it has id, name, v"),
        (
            "CREATE INDEX i ON t (v DESC)",
            "error: an index ascends, and has nulls last: it is read both ways",
        ),
        (
            "INSERT INTO t VALUES (5, 'c', 1), (6, 'c', 2)",
            "error: `t` has another row with name=c, and index `by_name` is unique",
        ),
        (
            "INSERT INTO t VALUES (5, 'a', 1)",
            "error: `t` has another row with name=a, and index `by_name` is unique",
        ),
        ("INSERT INTO t VALUES (5, 'a', 1), (6, 'd', 2) ON CONFLICT DO NOTHING", "count 1"),
        ("INSERT INTO t VALUES (7, NULL, 3)", "count 1"),
        (
            "UPDATE t SET name = 'b' WHERE id = 2",
            "error: `t` has another row with name=b, and index `by_name` is unique",
        ),
        ("UPDATE t SET name = 'e' WHERE id = 1", "count 1"),
        ("UPDATE t SET name = 'b' WHERE id = 2", "count 1"),
        ("UPDATE t SET name = name, v = v + 1 WHERE id = 2 RETURNING v", "v 21"),
        ("DELETE FROM t WHERE name = 'e'", "count 1"),
        ("INSERT INTO t VALUES (1, 'e', 11)", "count 1"),
        (
            "INSERT INTO t VALUES (1, 'f', 12) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            "count 1",
        ),
        ("INSERT INTO t VALUES (9, 'e', 13)", "count 1"),
        // A key may change, and the row keeps its values.
        ("UPDATE t SET id = 20 WHERE id = 2", "count 1"),
        ("SELECT id FROM t WHERE name = 'b'", "id 20"),
        (
            "SELECT id, name, v FROM t ORDER BY id",
            "id,name,v 1,f,11 3,,30 4,,40 6,d,2 7,,3 9,e,13 20,b,21",
        ),
        ("CREATE UNIQUE INDEX by_v ON t (v)", ""),
        ("DROP INDEX by_v", ""),
        ("UPDATE t SET v = 1", "count 7"),
        (
            "CREATE UNIQUE INDEX by_v ON t (v)",
            "error: index `by_v` would not be unique: several rows have the same values",
        ),
        ("DROP INDEX by_v", "error: there is no index `by_v`"),
        ("DROP INDEX IF EXISTS by_v", ""),
        ("DROP TABLE t", ""),
        // Rows with numbers have indexes, too.
        ("CREATE TABLE t (name TEXT)", ""),
        ("CREATE UNIQUE INDEX by_name ON t (name)", ""),
        ("INSERT INTO t VALUES ('x'), ('y')", "count 2"),
        (
            "INSERT INTO t VALUES ('x')",
            "error: `t` has another row with name=x, and index `by_name` is unique",
        ),
        ("TRUNCATE t", ""),
        ("INSERT INTO t VALUES ('x')", "count 1"),
    ]);
}

#[test]
fn the_plan_takes_an_index_where_few_rows_are_wanted() {
    check(&[
        (
            "CREATE TABLE t AS SELECT value AS id, value % 1000 AS part, value * 2 AS v FROM generate_series(1, 200000)",
            "count 200000",
        ),
        ("CREATE INDEX by_part ON t (part, v)", ""),
        (
            "SELECT id, v FROM t WHERE part = 7 AND v < 5000 ORDER BY id",
            "id,v 7,14 1007,2014 2007,4014",
        ),
        ("SELECT count(*) FROM t WHERE part = 7", "count(*) 200"),
        (
            "SELECT count(*), min(id), max(id) FROM t WHERE part >= 998",
            "count(*),min(t.id),max(t.id) 400,998,199999",
        ),
        ("UPDATE t SET part = 5000 WHERE part = 7", "count 200"),
        ("SELECT count(*) FROM t WHERE part = 7", "count(*) 0"),
        ("SELECT count(*), sum(v) FROM t WHERE part = 5000", "count(*),sum(t.v) 200,39802800"),
    ]);
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        for statement in [
            "CREATE TABLE t AS SELECT value AS id, value % 1000 AS part FROM generate_series(1, 200000)",
            "CREATE INDEX by_part ON t (part)",
        ] {
            run(&database, statement).await;
        }
        let plan = run(&database, "EXPLAIN SELECT id FROM t WHERE part = 7").await;
        assert!(plan.contains("by index by_part"), "{plan}");
        let plan = run(&database, "EXPLAIN SELECT id FROM t WHERE part > 7").await;
        assert!(!plan.contains("by index"), "{plan}");
    });
}

#[test]
fn lists_of_keys_are_read_by_key() {
    const MADE: &str =
        "CREATE TABLE t (a INT, b TEXT, v INT, PRIMARY KEY (a, b)) WITH (page_rows = 8)";
    check(&[
        (MADE, ""),
        (
            "INSERT INTO t SELECT value / 10, concat('b', value % 10), value FROM generate_series(0, 999)",
            "count 1000",
        ),
        ("SELECT v FROM t WHERE a = 7 AND b IN ('b1', 'b5', 'b1', 'x', NULL)", "v 71 75"),
        ("SELECT v FROM t WHERE b = 'b3' AND (a = 9 OR 2 = a)", "v 23 93"),
        ("SELECT v FROM t WHERE a IN (99, 1, 1000) AND v % 10 = 4", "v 14 994"),
        ("SELECT v FROM t WHERE a IN (1, 2, 3) AND a > 1 AND a < 3 AND b = 'b0'", "v 20"),
        ("SELECT v FROM t WHERE a IN (1, 2) AND a = 3", "v"),
        ("SELECT v FROM t WHERE a > 5 AND a < 5", "v"),
        ("SELECT v FROM t WHERE a NOT IN (1, 2) AND a < 4 AND b = 'b9'", "v 9 39"),
        ("SELECT a, b FROM t WHERE a >= 98 ORDER BY a, b LIMIT 3", "a,b 98,b0 98,b1 98,b2"),
        ("SELECT a, b FROM t ORDER BY a DESC, b LIMIT 2", "a,b 99,b0 99,b1"),
        ("DELETE FROM t WHERE a = 7 AND b IN ('b1', 'b5')", "count 2"),
        ("SELECT count(*) FROM t WHERE a = 7", "count(*) 8"),
    ]);
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        run(&database, MADE).await;
        run(&database, "INSERT INTO t SELECT value, 'b', value FROM generate_series(0, 999)").await;
        let plan = |statement: &'static str| {
            let database = &database;
            async move { run(database, &format!("EXPLAIN {statement}")).await }
        };
        let by_key =
            plan("SELECT v FROM t WHERE a = 7 AND b IN ('b1', 'b5', 'b6', 'b7', 'b8')").await;
        assert!(by_key.contains("by key"), "{by_key}");
        // Rows come in the order of the key.
        let sorted = plan("SELECT a, b FROM t ORDER BY a, b").await;
        assert!(!sorted.contains("SortExec"), "{sorted}");
        let other = plan("SELECT a, b FROM t ORDER BY b, a").await;
        assert!(other.contains("SortExec"), "{other}");
    });
}

#[test]
fn files_are_copied_into_tables_and_out_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let csv = path("in.csv");
    std::fs::write(&csv, "code,id,price\n007,1,0.50\n\"a \"\"q\"\", b\",2,\n").unwrap();
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        let create = "CREATE TABLE t (id INT PRIMARY KEY, code TEXT, price DECIMAL(8, 2), at TIME DEFAULT '12:00:00')";
        assert_eq!(run(&database, create).await, "");
        let from = format!("COPY t FROM '{csv}'");
        assert_eq!(run(&database, &from).await, "count 2");
        let all = "id,code,price,at 1,007,0.50,12:00:00 2,\"a \"\"q\"\", b\",,12:00:00";
        assert_eq!(run(&database, "SELECT * FROM t").await, all);
        assert_eq!(run(&database, &from).await, "error: `t` has a row with id=1 already");
        for (out, options) in [
            ("out.csv", ""),
            ("out.parquet", ""),
            ("semi.txt", " WITH (FORMAT csv, DELIMITER ';', NULL 'NA')"),
        ] {
            let out = path(out);
            let to = format!("COPY t TO '{out}'{options}");
            assert_eq!(run(&database, &to).await, "count 2", "{to}");
            assert!(run(&database, &to).await.contains("exists"), "{to}");
            assert_eq!(run(&database, "TRUNCATE t").await, "");
            assert_eq!(run(&database, &format!("COPY t FROM '{out}'{options}")).await, "count 2");
            assert_eq!(run(&database, "SELECT * FROM t").await, all, "{to}");
        }
        let text = std::fs::read_to_string(path("semi.txt")).unwrap();
        assert_eq!(
            text,
            "id;code;price;at\n1;007;0.50;12:00:00\n2;\"a \"\"q\"\", b\";NA;12:00:00\n"
        );
        let some = path("some.csv");
        let to = format!("COPY (SELECT id FROM t WHERE price > 0) TO '{some}' WITH (HEADER false)");
        assert_eq!(run(&database, &to).await, "count 1");
        assert_eq!(std::fs::read_to_string(&some).unwrap(), "1\n");
        // Nothing is left of what fails, in the table and of a file.
        std::fs::write(&some, "id,code\n5,x\ny,z\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert!(error.contains("line 3") && error.contains("id"), "{error}");
        std::fs::write(&some, "id,nothing\n5,x\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert_eq!(error, "error: `t` has no column `nothing`; it has id, code, price, at");
        assert_eq!(run(&database, "SELECT count(*) AS n FROM t").await, "n 2");
        let out = path("none.csv");
        let failing = format!("COPY (SELECT CAST(code AS INT) FROM t) TO '{out}'");
        assert!(run(&database, &failing).await.starts_with("error"));
        assert!(!std::path::Path::new(&out).exists());
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert!(names.flatten().all(|name| !name.file_name().to_str().unwrap().starts_with('.')));
        let error = run(&database, &format!("COPY t TO '{}'", path("t.json"))).await;
        assert!(error.contains("FORMAT csv"), "{error}");
        std::fs::write(&some, "id;code\n5;x\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert!(error.contains("DELIMITER ';'"), "{error}");
        let error = run(&database, "COPY t FROM STDIN").await;
        assert!(error.contains("name one"), "{error}");
    });
}

/// Rows that come into an empty table in large numbers are loaded, all or none.
#[test]
fn many_rows_are_loaded() {
    check(&[
        ("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)", ""),
        ("CREATE INDEX by_v ON t (v)", ""),
        ("INSERT INTO t SELECT value, 5 FROM generate_series(1, 10)", "count 10"),
        ("DELETE FROM t", "count 10"),
        (
            "INSERT INTO t SELECT value % 100000, 1 FROM generate_series(1, 200000)",
            "error: table `t`: 100000 rows have keys that others have, too; sorted by the key they would be named",
        ),
        ("SELECT count(*) AS n FROM t", "n 0"),
        ("INSERT INTO t SELECT value, value % 7 FROM generate_series(1, 200000)", "count 200000"),
        ("SELECT count(*) AS n, sum(id) AS s FROM t WHERE v = 3", "n,s 28572,2857242858"),
        ("UPDATE t SET v = 100 WHERE id = 77", "count 1"),
        ("SELECT id FROM t WHERE v = 100", "id 77"),
        ("INSERT INTO t SELECT value, 1 FROM generate_series(200001, 300000)", "count 100000"),
        ("SELECT count(*) AS n FROM t", "n 300000"),
    ]);
}

#[test]
fn explain_analyze_tells_what_a_scan_read() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        let create = "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b TEXT) WITH (page_rows = 100)";
        run(&database, create).await;
        let insert = "INSERT INTO t SELECT value, value * 1000, concat('text ', value) FROM generate_series(1, 1000)";
        run(&database, insert).await;
        tables.store().checkpoint().await.unwrap();
        run(&database, "UPDATE t SET a = 0 WHERE id = 500").await;
        let of_a = run(&database, "EXPLAIN ANALYZE SELECT sum(a) FROM t").await;
        assert!(of_a.contains("output_rows=1.00 K") || of_a.contains("output_rows=1000"), "{of_a}");
        assert!(of_a.contains("changed_pages=1,"), "{of_a}");
        let of_b = run(&database, "EXPLAIN ANALYZE SELECT max(b) FROM t").await;
        assert!(of_b.contains("changed_pages=0,"), "{of_b}");
        assert!(of_b.contains("bytes_read="), "{of_b}");
    });
}

#[test]
fn indexes_may_share_columns() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, c INT, d INT, e INT)", ""),
        ("CREATE INDEX i ON t (c, d)", ""),
        ("CREATE UNIQUE INDEX j ON t (d, e, id)", ""),
        (
            "INSERT INTO t SELECT value, 1, value % 10, 3 FROM generate_series(1, 1000)",
            "count 1000",
        ),
        ("UPDATE t SET c = 2 WHERE d = 4", "count 100"),
        ("UPDATE t SET e = 5 WHERE c = 2 AND d = 4 AND id < 100", "count 10"),
        ("SELECT count(*) AS n, max(e) AS e FROM t WHERE c = 2 AND d = 4", "n,e 100,5"),
        ("SELECT id FROM t WHERE d = 4 AND e = 5 AND id < 20", "id 4 14"),
    ]);
}

/// Rows that are left out count for nothing.
#[test]
fn rows_that_are_left_out_conflict_with_no_other() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, u TEXT, v INT)", ""),
        ("CREATE UNIQUE INDEX by_u ON t (u)", ""),
        ("CREATE UNIQUE INDEX by_v ON t (v)", ""),
        ("INSERT INTO t VALUES (1, 'x', 1)", "count 1"),
        ("INSERT INTO t VALUES (2, 'x', 2), (2, 'y', 3) ON CONFLICT DO NOTHING", "count 1"),
        ("INSERT INTO t VALUES (3, 'z', 1), (4, 'z', 4) ON CONFLICT DO NOTHING", "count 1"),
        ("SELECT * FROM t", "id,u,v 1,x,1 2,y,3 4,z,4"),
        // The key is named: other values may not be the same.
        (
            "INSERT INTO t VALUES (5, 'x', 5) ON CONFLICT (id) DO NOTHING",
            "error: `t` has another row with u=x, and index `by_u` is unique",
        ),
        ("INSERT INTO t VALUES (4, 'w', 6) ON CONFLICT (id) DO NOTHING", "count 0"),
        ("CREATE TABLE words (word TEXT)", ""),
        (
            "INSERT INTO words VALUES ('a') ON CONFLICT DO NOTHING",
            "error: `words` has no primary key, so nothing conflicts",
        ),
        ("CREATE UNIQUE INDEX by_word ON words (word)", ""),
        ("INSERT INTO words VALUES ('a'), ('b'), ('a') ON CONFLICT DO NOTHING", "count 2"),
        ("INSERT INTO words VALUES ('c'), ('b') ON CONFLICT DO NOTHING", "count 1"),
        ("SELECT * FROM words", "word a b c"),
    ]);
}

#[test]
fn what_is_copied_out_is_the_same_when_it_is_copied_in() {
    let folder = tempfile::tempdir().unwrap();
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        for (name, columns, rows) in [
            (
                "t",
                "id INT PRIMARY KEY, a TEXT, b BYTEA",
                "(1, '', x'00ff'), (2, NULL, NULL), (3, 'NA', x''), (4, 'a\nb', x'61')",
            ),
            ("u", "a TEXT NOT NULL", "(''), ('x'), ('\"')"),
        ] {
            let file = folder.path().join(format!("{name}.csv"));
            let file = file.to_str().unwrap();
            for options in ["", " WITH (NULL 'NA')", " WITH (HEADER false, DELIMITER '|')"] {
                for copy in [name.to_owned(), format!("{name}_copy")] {
                    run(&database, &format!("DROP TABLE IF EXISTS {copy}")).await;
                    assert_eq!(
                        run(&database, &format!("CREATE TABLE {copy} ({columns})")).await,
                        ""
                    );
                }
                let inserted = run(&database, &format!("INSERT INTO {name} VALUES {rows}")).await;
                assert!(inserted.starts_with("count"), "{inserted}");
                let out = run(&database, &format!("COPY {name} TO '{file}'{options}")).await;
                assert!(out.starts_with("count"), "{out}");
                let back = format!("COPY {name}_copy FROM '{file}'{options}");
                assert_eq!(run(&database, &back).await, out, "{back}");
                let select = |of: &str| format!("SELECT * FROM {of}");
                let [one, other] = [
                    run(&database, &select(name)).await,
                    run(&database, &select(&format!("{name}_copy"))).await,
                ];
                assert_eq!(one, other, "{back}");
                std::fs::remove_file(file).unwrap();
            }
        }
        let lone = folder.path().join("lone.csv");
        let lone = lone.to_str().unwrap();
        let error = run(&database, &format!("COPY (SELECT a FROM t) TO '{lone}'")).await;
        assert!(error.contains("NULL 'NA'"), "{error}");
        assert!(!std::path::Path::new(lone).exists());
        let commented = format!("-- out\nCOPY(SELECT a FROM u) TO '{lone}'");
        assert_eq!(run(&database, &commented).await, "count 3");
        let twice = run(&database, &format!("COPY u (a, a) FROM '{lone}'")).await;
        assert!(twice.contains("named twice"), "{twice}");
    });
}

/// Values may change hands within a statement.
#[test]
fn rows_that_change_leave_their_unique_values() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, u INT)", ""),
        ("CREATE UNIQUE INDEX by_u ON t (u)", ""),
        ("INSERT INTO t VALUES (1, 1), (2, 2), (3, 7)", "count 3"),
        ("UPDATE t SET u = 3 - u WHERE id < 3", "count 2"),
        ("SELECT * FROM t", "id,u 1,2 2,1 3,7"),
        ("UPDATE t SET u = u + 1 WHERE id < 3", "count 2"),
        (
            "UPDATE t SET u = 7 WHERE id = 1",
            "error: `t` has another row with u=7, and index `by_u` is unique",
        ),
        ("UPDATE t SET u = 9", "error: `t` has another row with u=9, and index `by_u` is unique"),
        ("SELECT id FROM t WHERE u = 3", "id 1"),
        ("UPDATE t SET id = 4 - id WHERE id <> 2", "count 2"),
        ("SELECT * FROM t", "id,u 1,7 2,2 3,3"),
        ("CREATE TABLE keyless (u INT)", ""),
        ("CREATE UNIQUE INDEX u_of_keyless ON keyless (u)", ""),
        ("INSERT INTO keyless VALUES (1), (2)", "count 2"),
        ("UPDATE keyless SET u = 3 - u", "count 2"),
        ("SELECT u FROM keyless ORDER BY u", "u 1 2"),
        (
            "SELECT CAST('x' AS DATE FORMAT 'YYYY')",
            "error: This feature is not implemented: CAST with format is not supported: 'YYYY'",
        ),
        (
            "BEGIN",
            "error: BEGIN is not known here: statements are SELECT, EXPLAIN, CREATE TABLE, CREATE INDEX, DROP, TRUNCATE, INSERT, UPDATE, DELETE and COPY; each is a transaction of its own",
        ),
    ]);
}

/// Rows of several batches exchange values, and two that would have the same are found.
#[test]
fn unique_values_move_between_batches() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT)", ""),
        ("CREATE UNIQUE INDEX by_u ON t (u)", ""),
        ("CREATE UNIQUE INDEX by_v ON t (v)", ""),
        (
            "INSERT INTO t SELECT value, value, value + 1 FROM generate_series(1, 20000)",
            "count 20000",
        ),
        ("UPDATE t SET u = 20001 - u, v = v + 1", "count 20000"),
        (
            "SELECT count(*) AS n, sum(u) AS s FROM t WHERE u = 20001 - id AND v = id + 2",
            "n,s 20000,200010000",
        ),
        (
            "UPDATE t SET u = CASE WHEN id = 20000 THEN 20000 ELSE u + 1 END WHERE id IN (2, 20000)",
            "error: `t` has another row with u=20000, and index `by_u` is unique",
        ),
        (
            "UPDATE t SET u = (id % 19999) + 30000",
            "error: `t` has another row with u=30001, and index `by_u` is unique",
        ),
        ("SELECT id FROM t WHERE u = 20000", "id 1"),
        // Few values in a wide range: each is looked for by itself.
        ("UPDATE t SET u = u + 1 - 2 * (id % 2) WHERE id IN (1, 2, 19999, 20000)", "count 4"),
        (
            "INSERT INTO t VALUES (20001, 0, 0), (20002, 19999, 1)",
            "error: `t` has another row with u=19999, and index `by_u` is unique",
        ),
        (
            "SELECT id, u FROM t WHERE u IN (1, 2, 19999, 20000) ORDER BY id",
            "id,u 1,19999 2,20000 19999,1 20000,2",
        ),
    ]);
}

#[test]
fn and_is_not_a_part_of_distinct_from() {
    check(&[
        ("CREATE TABLE o (id INT PRIMARY KEY, done BOOLEAN, paid BOOLEAN, n INT)", ""),
        (
            "INSERT INTO o VALUES (1, true, false, 1), (2, false, true, NULL), (3, false, false, 3), (4, true, true, 4)",
            "count 4",
        ),
        ("SELECT id FROM o WHERE done IS NOT DISTINCT FROM false AND paid", "id 2"),
        ("SELECT true IS DISTINCT FROM true OR true AS a", "a true"),
        ("SELECT false IS NOT DISTINCT FROM false AND false AS a", "a false"),
        (
            "SELECT a.id FROM o a JOIN o b ON a.n IS NOT DISTINCT FROM b.n AND a.id = b.id ORDER BY 1",
            "id 1 2 3 4",
        ),
        (
            "SELECT id FROM o WHERE id IN (SELECT id FROM o WHERE n IS DISTINCT FROM 3 AND paid) ORDER BY 1",
            "id 2 4",
        ),
        (
            "UPDATE o SET n = 100 WHERE done IS NOT DISTINCT FROM false AND paid RETURNING id",
            "id 2",
        ),
        ("DELETE FROM o WHERE done IS NOT DISTINCT FROM false AND paid RETURNING id", "id 2"),
        ("SELECT id FROM o", "id 1 3 4"),
    ]);
}

/// A DELETE that cannot be done at once says so, and goes in parts.
#[test]
fn large_deletes_need_room() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (layout = 'csm', group_pages = 24)", ""),
        ("CREATE UNIQUE INDEX by_s ON t (s)", ""),
        (
            "INSERT INTO t SELECT value, repeat('x', 2000) || value FROM generate_series(1, 40000)",
            "count 40000",
        ),
        (
            "DELETE FROM t",
            "error: a bulk group has 32.0 MiB for one run of blocks, and memory takes 32 MiB: split the group, or open the store with \
             more memory; a statement needs room for all of its changes at once: where these are many, change fewer rows with each, or \
             TRUNCATE the table",
        ),
        ("DELETE FROM t WHERE id <= 5000", "count 5000"),
        ("SELECT count(*) AS n FROM t", "n 35000"),
        ("TRUNCATE t", ""),
        ("SELECT count(*) AS n FROM t", "n 0"),
    ]);
}
