//! Keys and indexes whose values are unique.

use crate::check;

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
            "GRANT ALL ON t TO me",
            "error: GRANT ALL is not known here: statements are SELECT, EXPLAIN, CREATE TABLE, CREATE INDEX, DROP, TRUNCATE, INSERT, UPDATE, DELETE, COPY, BEGIN, COMMIT, ROLLBACK, SAVEPOINT, PREPARE and EXECUTE",
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
