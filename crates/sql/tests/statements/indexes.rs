//! Queries that read by key and by index, and what their plans say.

use moirai::runtime::block_on_virtual;
use moirai_sql::Database;

use crate::{check, run, tables};

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
