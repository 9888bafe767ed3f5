//! Statements that write, and what is there afterwards.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::print_stdout, reason = "what was measured is for who runs it by hand")]

mod copies;
mod filters;
mod indexes;
mod points;
mod transactions;
mod unique;

use std::sync::Arc;

use moirai::btree::{Store, with_leaves};
use moirai::devices::{FaultyDevice, Power};
use moirai::runtime::block_on_virtual;
use moirai::storage::Device;
use moirai::units::{BlockCount, ByteCount};
use moirai::update::{Kinds, Options};
use moirai_sql::{Answer, Database, Format};
use moirai_tables::{Layout, Tables};

pub(crate) async fn tables() -> Arc<Tables> {
    let power = Power::on();
    let device = |name: &str, blocks| -> Arc<dyn Device> {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(8), Arc::clone(&power))
    };
    let (data, logs) = (device("data", 300_000), [device("log", 20_000)]);
    Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await.unwrap();
    Tables::open(data, &logs, Kinds::new(), Options::default()).await.unwrap()
}

/// The answer as CSV, or the message of the error.
pub(crate) async fn run(database: &Database, statement: &str) -> String {
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
pub(crate) fn in_layout(statement: &str, layout: Layout) -> String {
    let is_plain = statement.starts_with("CREATE TABLE") && statement.ends_with(')');
    match is_plain && !statement.contains("WITH (") && !statement.contains(" AS ") {
        true => format!("{statement} WITH (layout = '{}')", layout.name()),
        false => statement.to_owned(),
    }
}

/// Runs statements, each with the answer that is expected, over tables of each layout.
pub(crate) fn check(statements: &'static [(&'static str, &'static str)]) {
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

/// No field of a record of more than 16 MiB can be set by itself: it is written whole.
#[test]
fn fields_of_very_long_rows_are_changed() {
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        for (statement, expected) in [
            ("CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT) WITH (layout = 'nsm')", ""),
            ("CREATE INDEX by_n ON t (n)", ""),
            ("INSERT INTO t VALUES (1, 0, repeat('x', 17000000)), (2, 0, 'short')", "count 2"),
            ("UPDATE t SET n = n + 1", "count 2"),
            ("SELECT id, n, length(s) AS l FROM t", "id,n,l 1,1,17000000 2,1,5"),
            ("SELECT id FROM t WHERE n = 1", "id 1 2"),
        ] {
            assert_eq!(run(&database, statement).await, expected, "{statement}");
        }
    });
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
        ("SELECT * FROM t FOR SHARE", "error: rows are locked for changes alone: write FOR UPDATE"),
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

/// A statement may change more of one partition than memory holds, and an INSERT finds rows with the same key among all of its own.
#[test]
fn large_changes_of_one_partition() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (layout = 'csm', group_pages = 24)", ""),
        ("CREATE UNIQUE INDEX by_s ON t (s)", ""),
        (
            "INSERT INTO t SELECT value, repeat('x', 2000) || value FROM generate_series(1, 40000)",
            "count 40000",
        ),
        ("DELETE FROM t", "count 40000"),
        ("SELECT count(*) AS n FROM t", "n 0"),
        // Of the index, whose entries are deleted with them, more is for one partition than of the table.
        (
            "INSERT INTO t SELECT value + 50000, repeat('x', 2000) || value FROM generate_series(1, 40000, 100)",
            "count 400",
        ),
        ("SELECT id FROM t WHERE s = repeat('x', 2000) || 201", "id 50201"),
        ("SELECT id FROM t WHERE s = repeat('x', 2000) || 202", "id"),
        ("SELECT count(*) AS n FROM t WHERE s >= 'x'", "n 400"),
        ("DROP TABLE t", ""),
        ("CREATE TABLE u (id INT PRIMARY KEY, s TEXT)", ""),
        ("INSERT INTO u VALUES (0, 'first')", "count 1"),
        (
            "INSERT INTO u SELECT value, repeat('x', 2000) FROM generate_series(1, 20000)",
            "count 20000",
        ),
        (
            "INSERT INTO u SELECT 100000 + value % 29000, repeat('x', 1500) FROM generate_series(1, 30000)",
            "error: table `u`: two rows have the key (100001)",
        ),
        ("SELECT count(*) AS n, max(id) AS m FROM u", "n,m 20001,20000"),
    ]);
}
