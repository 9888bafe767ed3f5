//! Statements on single rows, which go past DataFusion, do what it would have done.

use moirai::runtime::block_on_virtual;
use moirai_sql::{Database, ScalarValue};
use moirai_tables::Layout;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::{in_layout, run, tables};

/// The answer with the types of its columns, and its rows in order.
async fn typed(database: &Database, statement: &str) -> String {
    match database.query(statement).await {
        Ok((schema, _)) => {
            let types: Vec<String> = schema.fields().iter().map(|one| format!("{one:?}")).collect();
            types.join(" ")
        }
        Err(error) => format!("{error} {}", error.sqlstate()),
    }
}

const TABLE: &str = "CREATE TABLE t (a INT, b TEXT, n BIGINT, small SMALLINT NOT NULL, price DECIMAL(6, 2), note TEXT, since DATE, \
     flag BOOLEAN, x DOUBLE, i INT, j INT, PRIMARY KEY (a, b))";

/// Statements of a run.
const STEPS: u64 = 100;

/// A statement in two ways: as it may go past DataFusion, and as it may not, though it says the same.
fn pair(rng: &mut StdRng) -> (String, String) {
    let pick = |rng: &mut StdRng, all: &[&str]| (*all.choose(rng).unwrap()).to_owned();
    let a = |rng: &mut StdRng| {
        pick(rng, &["1", "2", "3", "4", "2147483648", "1.0", "1.5", "'1'", "NULL", "-1"])
    };
    let b = |rng: &mut StdRng| pick(rng, &["'x'", "'y'", "''", "'it''s'", "7"]);
    let columns = pick(
        rng,
        &[
            "*",
            "n",
            "t.price AS p, a",
            "note, since, flag, x",
            "a, a",
            "n AS b, a",
            "note AS a, n",
            "i, j",
            "small, missing",
            "b AS \"B\", t.n",
        ],
    );
    let tail = pick(
        rng,
        &[
            "",
            " ORDER BY a",
            " ORDER BY b",
            " ORDER BY a, b LIMIT 1",
            " LIMIT 2",
            " LIMIT 0",
            " ORDER BY n",
        ],
    );
    let key = match rng.random_range(0..6) {
        0..3 => format!("a = {} AND {} = b", a(rng), b(rng)),
        3 => format!("a IN ({}, {}) AND (b = {})", a(rng), a(rng), b(rng)),
        4 => format!("(b, a) IN (({}, {}), ('y', 2))", b(rng), a(rng)),
        _ => format!("b IN ({}, 'y') AND a = 1", b(rng)),
    };
    let some = match rng.random_range(0..4) {
        0 => format!("a = {}", a(rng)),
        1 => format!("n = {}", pick(rng, &["10", "11", "10.0", "'10'", "NULL"])),
        2 => "flag = true".to_owned(),
        _ => format!("n = 10 AND note = {}", pick(rng, &["'one'", "'two'"])),
    };
    let value = |rng: &mut StdRng| {
        pick(
            rng,
            &[
                "1",
                "32768",
                "-7",
                "2.25",
                "2.255",
                "100000",
                "NULL",
                "'text'",
                "true",
                "DATE '2026-01-02'",
                "'2026-01-02'",
                "0.5",
            ],
        )
    };
    let term = |rng: &mut StdRng| {
        let column =
            pick(rng, &["n", "small", "price", "t.n", "note", "x", "i", "j", "i + j", "small + i"]);
        match rng.random_range(0..4) {
            0 => value(rng),
            1 => format!("{column} + {}", value(rng)),
            2 => format!("{column} - ({} - small)", value(rng)),
            _ => format!("{} + {column}", value(rng)),
        }
    };
    match rng.random_range(0..10) {
        0..2 => (
            format!("SELECT {columns} FROM t WHERE {key}{tail}"),
            format!("SELECT {columns} FROM t WHERE {key} AND 1 = 1{tail}"),
        ),
        2..4 => (
            format!("SELECT {columns} FROM t WHERE {some}{tail}"),
            format!("SELECT {columns} FROM t WHERE {some} AND 1 = 1{tail}"),
        ),
        4..7 => {
            let target =
                pick(rng, &["n", "small", "price", "note", "since", "flag", "x", "a", "i", "j"]);
            let set = format!("UPDATE t SET {target} = {}, n = {}", term(rng), term(rng));
            (format!("{set} WHERE {key}"), format!("{set} WHERE {key} AND 1 = 1"))
        }
        7 => (format!("DELETE FROM t WHERE {key}"), format!("DELETE FROM t WHERE {key} AND 1 = 1")),
        _ => {
            let (a, b) = (rng.random_range(0..5), b(rng));
            let rest: Vec<String> = (0..2).map(|_| value(rng)).collect();
            let rest = rest.join(", ");
            (
                format!("INSERT INTO t (a, b, small, n, price) VALUES ({a}, {b}, 3, {rest})"),
                format!("INSERT INTO t (a, b, small, n, price) VALUES ({a} + 0, {b}, 3, {rest})"),
            )
        }
    }
}

#[test]
fn points_do_what_planned_statements_do() {
    let runs: u64 = std::env::var("MOIRAI_RUNS").map_or(6, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        let layout = *Layout::ALL.iter().cycle().nth(seed as usize).unwrap();
        block_on_virtual(seed, async {
            let (point, planned) =
                (Database::over(&tables().await), Database::over(&tables().await));
            for database in [&point, &planned] {
                run(database, &in_layout(TABLE, layout)).await;
                run(database, "CREATE INDEX by_n ON t (n, note)").await;
                run(
                    database,
                    "INSERT INTO t VALUES (1, 'x', 10, 1, 1.5, 'one', NULL, true, 0.5, 2000000000, 1), (1, 'y', 10, 2, NULL, 'two', NULL, NULL, 1, 2000000000, 2000000000), \
                     (2, 'x', NULL, 3, 9999.99, NULL, DATE '2026-02-03', false, NULL, -2000000000, NULL), (2, 'y', 9223372036854775807, 4, 0, '', NULL, true, 2, 5, 6)",
                )
                .await;
            }
            let mut rng = StdRng::seed_from_u64(seed);
            let before = planned.point_statements();
            for step in 0..STEPS {
                let (one, other) = pair(&mut rng);
                let place = format!("seed {seed}, {}, step {step}: {one}", layout.name());
                let answers = (run(&point, &one).await, run(&planned, &other).await);
                let lines = |answer: &str| {
                    let mut lines: Vec<String> = answer.split(' ').map(str::to_owned).collect();
                    lines.sort();
                    lines
                };
                assert_eq!(lines(&answers.0), lines(&answers.1), "{place}");
                if one.starts_with("SELECT") {
                    assert_eq!(typed(&point, &one).await, typed(&planned, &other).await, "{place}");
                }
                // What the index has, too.
                for read in
                    ["SELECT * FROM t ORDER BY a, b", "SELECT n, note, a, b FROM t WHERE n = 10"]
                {
                    assert_eq!(run(&point, read).await, run(&planned, read).await, "{place}");
                }
            }
            // Those that look at the index.
            assert_eq!(planned.point_statements() - before, STEPS);
            let points = point.point_statements() - STEPS;
            assert!(points > STEPS / 20, "{points} of {STEPS}");
        });
    }
}

#[test]
fn prepared_points_take_parameters() {
    for layout in Layout::ALL {
        block_on_virtual(1, async {
            let store = tables().await;
            let database = Database::over(&store);
            let other = Database::over(&store);
            for statement in [
                "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, s TEXT, d DECIMAL(8, 2))",
                "INSERT INTO t VALUES (1, 10, 'one', 1.5), (2, 20, 'two', 2.5)",
                "PREPARE get AS SELECT n, s, d FROM t WHERE id = $1",
                "PREPARE pay AS UPDATE t SET d = d - $2, n = n + $3 WHERE id = $1",
                "PREPARE more (BIGINT, INT) AS INSERT INTO t (id, n) VALUES ($1, $2)",
                "PREPARE some AS SELECT id FROM t WHERE n > $1",
            ] {
                run(&database, &in_layout(statement, layout)).await;
            }
            let int = |number: i64| ScalarValue::Int64(Some(number));
            let execute = async |name: &str, values: &[ScalarValue]| {
                let mut stream = database.execute(name, values).await?;
                Ok::<_, moirai_sql::Error>(stream.next().await?.map_or(0, |batch| batch.num_rows()))
            };
            let before = database.point_statements();
            assert_eq!(execute("get", &[int(1)]).await.unwrap(), 1);
            assert_eq!(execute("get", &[int(3)]).await.unwrap(), 0);
            assert_eq!(
                execute("pay", &[int(1), ScalarValue::Decimal128(Some(25), 3, 2), int(5)])
                    .await
                    .unwrap(),
                1
            );
            assert_eq!(execute("more", &[int(3), int(30)]).await.unwrap(), 1);
            assert_eq!(database.point_statements() - before, 4);
            // Not on single rows, and values that are not of the columns as they are.
            assert_eq!(execute("some", &[int(15)]).await.unwrap(), 3 - 1);
            assert_eq!(
                execute("get", &[ScalarValue::Utf8(Some("1".to_owned()))]).await.unwrap(),
                1
            );
            assert_eq!(database.point_statements() - before, 4);
            let errors = [
                (execute("get", &[]).await, "42601"),
                (execute("none", &[]).await, "26000"),
                (execute("more", &[int(3), int(1)]).await, "23505"),
                (execute("more", &[int(9), int(1 << 40)]).await, "22003"),
            ];
            for (answer, sqlstate) in errors {
                assert_eq!(answer.unwrap_err().sqlstate(), sqlstate);
            }
            assert_eq!(run(&database, "EXECUTE get (1)").await, "n,s,d 15,one,1.25");
            // A table of the same name is another table.
            run(&other, "DROP TABLE t").await;
            run(
                &other,
                &in_layout("CREATE TABLE t (n TEXT, s INT, id BIGINT PRIMARY KEY, d INT)", layout),
            )
            .await;
            run(&other, "INSERT INTO t VALUES ('new', 5, 1, 6)").await;
            assert_eq!(run(&database, "EXECUTE get (1)").await, "n,s,d new,5,6");
            assert_eq!(run(&database, "EXECUTE get (1)").await, "n,s,d new,5,6");
            assert_eq!(database.point_statements() - before, 4 + 2);
        });
    }
}

/// A block sees what it has changed, and others see nothing of it before its end.
#[test]
fn points_are_part_of_transactions() {
    for layout in Layout::ALL {
        block_on_virtual(1, async {
            let store = tables().await;
            let (one, other) = (Database::over(&store), Database::over(&store));
            for statement in [
                "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
                "INSERT INTO t VALUES (1, 10), (2, 20)",
            ] {
                run(&one, &in_layout(statement, layout)).await;
            }
            let steps = [
                (&one, "BEGIN ISOLATION LEVEL REPEATABLE READ", ""),
                (&one, "SELECT n FROM t WHERE id = 2", "n 20"),
                (&one, "UPDATE t SET n = n + 1 WHERE id = 1", "count 1"),
                (&one, "SELECT n FROM t WHERE id = 1", "n 11"),
                (&other, "SELECT n FROM t WHERE id = 1", "n 10"),
                (&other, "SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT", "error: a lock is held"),
                (&other, "UPDATE t SET n = 0 WHERE id = 2", "count 1"),
                (&one, "SELECT n FROM t WHERE id = 2", "n 20"),
                (&one, "SAVEPOINT s", ""),
                (&one, "DELETE FROM t WHERE id = 1", "count 1"),
                (&one, "INSERT INTO t VALUES (3, 30)", "count 1"),
                (&one, "ROLLBACK TO s", ""),
                (&one, "SELECT n FROM t WHERE id IN (1, 3)", "n 11"),
                (&one, "COMMIT", ""),
                (&other, "SELECT n FROM t WHERE id IN (1, 2, 3)", "n 11 0"),
                // A row that is not there is not locked, and nobody waits for one that is not committed.
                (&one, "BEGIN ISOLATION LEVEL SERIALIZABLE", ""),
                (&one, "SELECT n FROM t WHERE id = 1", "n 11"),
                (&other, "BEGIN", ""),
                (&other, "INSERT INTO t VALUES (7, 70)", "count 1"),
                (&one, "UPDATE t SET n = n + 1 WHERE id = 7", "count 0"),
                (&one, "SELECT n FROM t WHERE id = 7 FOR UPDATE NOWAIT", "n"),
                (&other, "COMMIT", ""),
                (&one, "DELETE FROM t WHERE id = 7", "count 0"),
                (&one, "UPDATE t SET n = 12 WHERE id = 1", "count 1"),
                (&other, "INSERT INTO t VALUES (8, 80)", "count 1"),
                (&one, "ROLLBACK", ""),
                (&one, "BEGIN READ ONLY", ""),
                (&one, "UPDATE t SET n = 5 WHERE id = 77", "error"),
                (&one, "SELECT n FROM t WHERE id = 1", "error: current transaction is aborted"),
                (&one, "ROLLBACK", ""),
            ];
            for (database, statement, expected) in steps {
                let answer = run(database, statement).await;
                let is_expected = match expected.starts_with("error") {
                    true => answer.starts_with(expected),
                    false => answer == expected,
                };
                assert!(is_expected, "{}, {statement}: {answer}, not {expected}", layout.name());
            }
            assert!(one.point_statements() > 6);
        });
    }
}

/// Sessions cost little: thousands have a block open at the same time, each with a row that it has changed and locked.
#[test]
fn ten_thousand_sessions_are_open_at_once() {
    const SESSIONS: usize = 10_000;
    block_on_virtual(1, async {
        let store = tables().await;
        let first = Database::over(&store);
        run(&first, "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (layout = 'nsm')").await;
        let rows = format!("INSERT INTO t SELECT value, 0 FROM generate_series(1, {SESSIONS})");
        assert_eq!(run(&first, &rows).await, format!("count {SESSIONS}"));
        let sessions: Vec<Database> = (0..SESSIONS).map(|_| Database::over(&store)).collect();
        let tasks: Vec<_> = (1..)
            .zip(sessions)
            .map(|(id, session)| {
                moirai::runtime::spawn(async move {
                    assert_eq!(run(&session, "BEGIN").await, "");
                    let change = format!("UPDATE t SET n = n + {id} WHERE id = {id}");
                    assert_eq!(run(&session, &change).await, "count 1");
                    session
                })
            })
            .collect();
        let mut sessions = Vec::new();
        for task in tasks {
            sessions.push(task.await);
        }
        // Nothing of it is seen, and every row is locked.
        assert_eq!(run(&first, "SELECT sum(n) AS n FROM t").await, "n 0");
        let locked = "SELECT id FROM t WHERE id IN (1, 5000, 10000) FOR UPDATE SKIP LOCKED";
        assert_eq!(run(&first, locked).await, "id");
        let commits: Vec<_> = sessions
            .into_iter()
            .map(|session| moirai::runtime::spawn(async move { run(&session, "COMMIT").await }))
            .collect();
        for commit in commits {
            assert_eq!(commit.await, "");
        }
        let sum = SESSIONS * (SESSIONS + 1) / 2;
        assert_eq!(run(&first, "SELECT sum(n) AS n FROM t").await, format!("n {sum}"));
    });
}
