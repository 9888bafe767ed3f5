//! Transaction blocks: what they see, what they leave, and how they fail.

use std::sync::Arc;

use futures::future::{join, join_all};
use moirai::runtime::{block_on_virtual, now, sleep, spawn};
use moirai::units::Nanos;
use moirai_sql::Database;

use crate::{check, in_layout, run, tables};

/// The state of the error that a statement has.
async fn state(database: &Database, statement: &str) -> &'static str {
    match database.query(statement).await {
        Ok(_) => "00000",
        Err(error) => error.sqlstate(),
    }
}

/// A block reads its own changes, whatever kinds these are, and takes them back to where it is told.
#[test]
fn blocks_see_their_own_changes() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, s TEXT)", ""),
        ("CREATE UNIQUE INDEX by_s ON t (s)", ""),
        ("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')", "count 2"),
        ("BEGIN", ""),
        ("INSERT INTO t VALUES (3, 30, 'c')", "count 1"),
        ("UPDATE t SET n = n + 1 WHERE id <> 2", "count 2"),
        ("SELECT * FROM t ORDER BY id", "id,n,s 1,11,a 2,20,b 3,31,c"),
        ("SAVEPOINT one", ""),
        ("DELETE FROM t WHERE s = 'b'", "count 1"),
        ("UPDATE t SET s = 'b' WHERE id = 3", "count 1"),
        ("SELECT sum(n) AS n, count(*) AS c FROM t", "n,c 42,2"),
        ("SELECT id FROM t WHERE s = 'b'", "id 3"),
        ("SAVEPOINT two", ""),
        (
            "INSERT INTO t SELECT value, value, 'x' || value FROM generate_series(100, 199)",
            "count 100",
        ),
        ("SELECT count(*) AS c FROM t WHERE id >= 150", "c 50"),
        ("ROLLBACK TO two", ""),
        ("SELECT count(*) AS c FROM t", "c 2"),
        ("ROLLBACK TO SAVEPOINT one", ""),
        ("SELECT * FROM t ORDER BY id", "id,n,s 1,11,a 2,20,b 3,31,c"),
        ("RELEASE SAVEPOINT one", ""),
        (
            "INSERT INTO t VALUES (1, 0, 'z') ON CONFLICT (id) DO UPDATE SET n = t.n + 100 RETURNING n",
            "n 111",
        ),
        ("COMMIT", ""),
        ("SELECT * FROM t ORDER BY s DESC", "id,n,s 3,31,c 2,20,b 1,111,a"),
        ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE", ""),
        ("UPDATE t SET n = 0", "count 3"),
        ("ROLLBACK", ""),
        ("SELECT sum(n) AS n FROM t", "n 162"),
    ]);
}

/// A statement that fails leaves nothing, and its block takes nothing more until it is rolled back; with PostgreSQL's states.
#[test]
fn blocks_stay_failed_until_they_are_rolled_back() {
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        let steps: &[(&str, &str)] = &[
            ("CREATE TABLE t (id INT PRIMARY KEY, n SMALLINT NOT NULL, u INT)", "00000"),
            ("CREATE UNIQUE INDEX by_u ON t (u)", "00000"),
            ("INSERT INTO t VALUES (1, 10, 1), (2, 20, 2)", "00000"),
            ("COMMIT", "25P01"),
            ("ROLLBACK", "25P01"),
            ("SAVEPOINT s", "25P01"),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "25P01"),
            ("BEGIN", "00000"),
            ("BEGIN", "25001"),
            ("SELECT 1", "25P02"),
            ("ROLLBACK", "00000"),
            ("BEGIN", "00000"),
            ("UPDATE t SET n = n + 1", "00000"),
            ("SAVEPOINT s", "00000"),
            // A batch of which the second row cannot be.
            ("INSERT INTO t VALUES (3, 30, 3), (1, 0, 4)", "23505"),
            ("SELECT 1", "25P02"),
            ("INSERT INTO t VALUES (3, 30, 3)", "25P02"),
            ("RELEASE s", "25P02"),
            ("ROLLBACK TO t", "3B001"),
            ("ROLLBACK TO s", "00000"),
            ("INSERT INTO t VALUES (3, 30, 2)", "23505"),
            ("ROLLBACK TO s", "00000"),
            ("INSERT INTO t VALUES (3, NULL, 3)", "23502"),
            ("ROLLBACK TO s", "00000"),
            ("UPDATE t SET n = 40000", "22003"),
            ("ROLLBACK TO s", "00000"),
            ("UPDATE t SET n = n / (id - id)", "22012"),
            ("ROLLBACK TO s", "00000"),
            ("INSERT INTO t VALUES ('x', 1, 1)", "22P02"),
            ("ROLLBACK TO s", "00000"),
            ("SELECT * FROM nowhere", "42P01"),
            ("ROLLBACK TO s", "00000"),
            ("UPDATE nowhere SET x = 1", "42P01"),
            ("ROLLBACK TO s", "00000"),
            ("SELECT unknown FROM t", "42703"),
            ("ROLLBACK TO s", "00000"),
            ("UPDATE t SET unknown = 1", "42703"),
            ("ROLLBACK TO s", "00000"),
            ("INSERT INTO t (id, n, id) VALUES (5, 5, 5)", "42701"),
            ("ROLLBACK TO s", "00000"),
            ("INSERT INTO t (id, n) VALUES (5)", "42601"),
            ("ROLLBACK TO s", "00000"),
            ("COPY t FRM 'file'", "42601"),
            ("ROLLBACK TO s", "00000"),
            ("SELEC 1", "42601"),
            ("ROLLBACK TO s", "00000"),
            ("RELEASE nothing", "3B001"),
            ("ROLLBACK TO s", "00000"),
            ("CREATE TABLE other (id INT)", "25001"),
            ("ROLLBACK TO s", "00000"),
            ("SET TRANSACTION READ ONLY", "25001"),
            ("ROLLBACK TO s", "00000"),
            ("COMMIT", "00000"),
            ("BEGIN READ ONLY", "00000"),
            ("SELECT * FROM t", "00000"),
            ("DELETE FROM t", "25006"),
            ("COMMIT", "25P02"),
            ("BEGIN", "00000"),
            ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "00000"),
            ("INSERT INTO t VALUES (9, 9, 9)", "25006"),
            ("ROLLBACK AND CHAIN", "00000"),
            ("INSERT INTO t VALUES (9, 9, 9)", "25006"),
            ("ROLLBACK", "00000"),
        ];
        for (statement, expected) in steps {
            assert_eq!(state(&database, statement).await, *expected, "{statement}");
        }
        assert_eq!(run(&database, "SELECT * FROM t ORDER BY id").await, "id,n,u 1,11,1 2,21,2");
    });
}

/// What each level sees of others, between its statements.
#[test]
fn levels_see_what_they_promise() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let (one, two) = (Database::over(&tables), Database::over(&tables));
        run(&one, "CREATE TABLE t (id INT PRIMARY KEY, n INT)").await;
        run(&one, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
        for (level, sees, commits) in [
            ("READ COMMITTED", "n 31", true),
            ("REPEATABLE READ", "n 30", true),
            ("SERIALIZABLE", "n 30", false),
        ] {
            run(&one, &format!("BEGIN ISOLATION LEVEL {level}")).await;
            assert_eq!(run(&one, "SELECT sum(n) AS n FROM t").await, "n 30");
            assert_eq!(run(&two, "UPDATE t SET n = n + 1 WHERE id = 1").await, "count 1");
            assert_eq!(run(&one, "SELECT sum(n) AS n FROM t").await, sees, "{level}");
            // A row that the other one did not change.
            assert_eq!(run(&one, "UPDATE t SET n = n WHERE id = 2").await, "count 1");
            let committed = state(&one, "COMMIT").await;
            assert_eq!(committed, if commits { "00000" } else { "40001" }, "{level}");
            run(&two, "UPDATE t SET n = 10 WHERE id = 1").await;
        }
        // The same row: first committer wins, or what is committed is read again.
        for (level, expected) in
            [("READ COMMITTED", "00000"), ("REPEATABLE READ", "40001"), ("SERIALIZABLE", "40001")]
        {
            run(&one, &format!("BEGIN ISOLATION LEVEL {level}")).await;
            run(&one, "SELECT sum(n) AS n FROM t").await;
            run(&two, "BEGIN").await;
            run(&two, "UPDATE t SET n = n + 1 WHERE id = 1").await;
            let commit = async {
                sleep(Nanos(1_000_000)).await;
                run(&two, "COMMIT").await
            };
            let update = state(&one, "UPDATE t SET n = n + 5 WHERE id = 1");
            let (updated, _) = join(update, commit).await;
            assert_eq!(updated, expected, "{level}");
            run(&one, "COMMIT").await;
            let n = if expected == "00000" { "n 16" } else { "n 11" };
            assert_eq!(run(&two, "SELECT n FROM t WHERE id = 1").await, n, "{level}");
            run(&two, "UPDATE t SET n = 10 WHERE id = 1").await;
        }
    });
}

/// Sessions that change the same rows by statements that are transactions of their own: nothing is lost, and unique values stay so.
#[test]
fn statements_of_many_sessions_are_whole() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        run(&database, "CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT)").await;
        run(&database, "CREATE UNIQUE INDEX by_u ON t (u)").await;
        run(&database, "CREATE TABLE log (who INT, what INT)").await;
        run(&database, "INSERT INTO t SELECT value, 0, value FROM generate_series(1, 10)").await;
        let sessions = (0..12).map(|session| {
            let database = Database::over(&tables);
            spawn(async move {
                let mut inserted = 0;
                for step in 0..12 {
                    let row = 1 + (session * 7 + step * 3) % 10;
                    let update =
                        format!("UPDATE t SET n = n + 1 WHERE id IN ({row}, {})", 11 - row);
                    assert_eq!(run(&database, &update).await, "count 2");
                    let log = format!("INSERT INTO log VALUES ({session}, {step})");
                    assert_eq!(run(&database, &log).await, "count 1");
                    // All want the same values.
                    let insert = format!(
                        "INSERT INTO t VALUES ({}, 0, {})",
                        100 + session * 100 + step,
                        50 + step
                    );
                    match run(&database, &insert).await.as_str() {
                        "count 1" => inserted += 1,
                        refused => assert!(refused.contains("is unique"), "{refused}"),
                    }
                }
                inserted
            })
        });
        let inserted: i32 = join_all(sessions).await.into_iter().sum();
        assert_eq!(inserted, 12);
        assert_eq!(
            run(&database, "SELECT sum(n) AS n, count(*) AS c, count(DISTINCT u) AS u FROM t")
                .await,
            "n,c,u 288,22,22"
        );
        // Rows without a key have numbers of their own.
        assert_eq!(
            run(&database, "SELECT count(*) AS c, count(DISTINCT who * 100 + what) AS d FROM log")
                .await,
            "c,d 144,144"
        );
        let figures = tables.store().transactions().figures();
        assert_eq!((figures.locks, figures.waiting), (0, 0));
    });
}

/// FOR UPDATE waits, fails or passes over, and the rows stay locked to the end.
#[test]
fn rows_are_locked_for_updates() {
    for layout in moirai_tables::Layout::ALL {
        block_on_virtual(1, async move {
            let tables = tables().await;
            let (one, two) = (Database::over(&tables), Database::over(&tables));
            run(&one, &in_layout("CREATE TABLE jobs (id INT PRIMARY KEY, state TEXT)", layout))
                .await;
            run(&one, "INSERT INTO jobs SELECT value, 'new' FROM generate_series(1, 5)").await;
            run(&one, "BEGIN").await;
            let first = "SELECT *, id * 10 AS ten FROM jobs WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
            assert_eq!(run(&one, first).await, "id,state,ten 1,new,10 2,new,20");
            run(&two, "BEGIN").await;
            assert_eq!(run(&two, first).await, "id,state,ten 3,new,30 4,new,40");
            assert_eq!(
                state(&two, "SELECT id FROM jobs j WHERE j.id = 1 FOR UPDATE NOWAIT").await,
                "55P03"
            );
            run(&two, "ROLLBACK").await;
            run(&one, "UPDATE jobs SET state = 'done' WHERE id = 1").await;
            let began = now();
            let wait =
                run(&two, "SELECT id, state FROM jobs WHERE id < 4 ORDER BY id DESC FOR UPDATE");
            let commit = async {
                sleep(Nanos(50_000_000)).await;
                run(&one, "COMMIT").await
            };
            let (rows, _) = join(wait, commit).await;
            assert_eq!(rows, "id,state 3,new 2,new 1,done");
            assert!(now().since(began).0 >= 50_000_000);
            for refused in [
                "SELECT count(*) FROM jobs FOR UPDATE",
                "SELECT DISTINCT id FROM jobs FOR UPDATE",
                "SELECT id FROM jobs FOR SHARE",
                "SELECT a.id FROM jobs a, jobs b FOR UPDATE",
                "INSERT INTO jobs SELECT id + 10, state FROM jobs FOR UPDATE",
            ] {
                assert_ne!(state(&two, refused).await, "00000", "{refused}");
            }
            assert_eq!(tables.store().transactions().figures().locks, 0);
        });
    }
}

/// A session that ends in the middle of a block leaves nothing of it, and others go on.
#[test]
fn what_is_not_committed_is_gone() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let (one, two) = (Database::over(&tables), Database::over(&tables));
        run(&one, "CREATE TABLE t (id INT PRIMARY KEY)").await;
        run(&one, "BEGIN").await;
        run(&one, "INSERT INTO t VALUES (1)").await;
        drop(one);
        assert_eq!(run(&two, "INSERT INTO t VALUES (1)").await, "count 1");
        // A deadlock: one of the two is told, and the other goes on.
        run(&two, "INSERT INTO t VALUES (2)").await;
        run(&two, "CREATE TABLE u (id INT PRIMARY KEY, n INT)").await;
        run(&two, "INSERT INTO u VALUES (1, 0), (2, 0)").await;
        let one = Arc::new(Database::over(&tables));
        run(&one, "BEGIN").await;
        run(&two, "BEGIN").await;
        run(&one, "UPDATE u SET n = 1 WHERE id = 1").await;
        run(&two, "UPDATE u SET n = 2 WHERE id = 2").await;
        let (first, second) = join(
            state(&one, "UPDATE u SET n = 1 WHERE id = 2"),
            state(&two, "UPDATE u SET n = 2 WHERE id = 1"),
        )
        .await;
        assert_eq!((first, second), ("00000", "40P01"));
        assert_eq!(state(&two, "SELECT 1").await, "25P02");
        run(&two, "ROLLBACK").await;
        run(&one, "COMMIT").await;
        assert_eq!(run(&two, "SELECT sum(n) AS n FROM u").await, "n 2");
    });
}

/// What was made, changed or filled after a block's snapshot is not taken for what the snapshot shows.
#[test]
fn tables_that_change_meanwhile_end_blocks() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let (one, two) = (Database::over(&tables), Database::over(&tables));
        for change in [
            "CREATE UNIQUE INDEX by_u ON t (u)",
            "TRUNCATE t",
            "INSERT INTO u SELECT value, value FROM generate_series(1, 100000)",
        ] {
            run(&one, "CREATE TABLE t (id INT PRIMARY KEY, u INT)").await;
            run(&one, "CREATE TABLE u (id INT PRIMARY KEY, u INT)").await;
            run(&one, "INSERT INTO t VALUES (1, 1)").await;
            run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            assert_eq!(run(&one, "SELECT count(*) AS c FROM t").await, "c 1");
            assert!(!run(&two, change).await.starts_with("error"), "{change}");
            let table = if change.contains("INTO u") { "u" } else { "t" };
            let insert = format!("INSERT INTO {table} VALUES (2, 1)");
            let inserted = state(&one, &insert).await;
            let committed = state(&one, "COMMIT").await;
            assert!(
                inserted != "00000" || committed != "00000",
                "{change}: {inserted}, {committed}"
            );
            run(&one, "ROLLBACK").await;
            // By itself it runs again, on what is there now.
            let now = state(&one, &insert).await;
            assert_eq!(now, if change == "TRUNCATE t" { "00000" } else { "23505" }, "{change}");
            run(&one, "DROP TABLE t").await;
            run(&one, "DROP TABLE u").await;
        }
    });
}

/// Writers beside changes of tables and loads wait, and go on.
#[test]
fn statements_go_on_beside_changes_of_tables() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        run(&database, "CREATE TABLE t (id INT PRIMARY KEY, u INT)").await;
        let writers = (0..4).map(|writer| {
            let database = Database::over(&tables);
            async move {
                for step in 0..20 {
                    let id = 1_000_000 + writer * 1000 + step;
                    let insert = format!("INSERT INTO t VALUES ({id}, {id})");
                    assert_eq!(run(&database, &insert).await, "count 1");
                }
            }
        });
        let others = async {
            let database = Database::over(&tables);
            let load = "INSERT INTO t SELECT value, value FROM generate_series(1, 80000)";
            assert_eq!(run(&database, load).await, "count 80000");
            assert_eq!(run(&database, "CREATE INDEX by_u ON t (u)").await, "");
            assert_eq!(run(&database, "DROP INDEX by_u").await, "");
        };
        join(join_all(writers), others).await;
        assert_eq!(run(&database, "SELECT count(*) AS c FROM t").await, "c 80080");
    });
}

/// What users of PostgreSQL expect of errors, waiting and modes.
#[test]
fn blocks_are_as_postgresql_has_them() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let (one, two) = (Database::over(&tables), Database::over(&tables));
        run(&one, "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)").await;
        run(&one, "INSERT INTO t VALUES (1, 2), (2, 1)").await;
        // An answer that fails as it comes.
        run(&one, "BEGIN").await;
        run(&one, "INSERT INTO t VALUES (3, 3)").await;
        assert_eq!(state(&one, "SELECT 1 / (id - 2) FROM t").await, "22012");
        assert_eq!(state(&one, "COMMIT").await, "25P02");
        assert_eq!(run(&one, "SELECT count(*) AS c FROM t").await, "c 2");
        // A chained block is a new one.
        run(&one, "BEGIN").await;
        assert_eq!(state(&one, "SELECT nothing").await, "42703");
        assert_eq!(state(&one, "COMMIT AND CHAIN").await, "25P02");
        assert_eq!(state(&one, "SELECT 1").await, "00000");
        run(&one, "ROLLBACK").await;
        // Places in ORDER BY are those of the columns that are asked for.
        run(&one, "BEGIN").await;
        let first = "SELECT n, id FROM t ORDER BY 1 LIMIT 1 FOR UPDATE";
        assert_eq!(run(&one, first).await, "n,id 1,2");
        let nested = "SELECT id FROM t WHERE id IN (SELECT id FROM t FOR UPDATE) FOR UPDATE";
        assert_eq!(state(&one, nested).await, "0A000");
        run(&one, "ROLLBACK").await;
        run(&one, "BEGIN").await;
        run(&one, "SAVEPOINT s").await;
        assert_eq!(state(&one, "SET TRANSACTION READ ONLY").await, "25001");
        run(&one, "ROLLBACK").await;
        assert_eq!(state(&one, "UPDATE t SET n = NULL WHERE id = 1").await, "23502");
        // Who inserts a row that another one is deleting waits for that.
        run(&one, "BEGIN").await;
        run(&one, "DELETE FROM t WHERE id = 1").await;
        let commit = async {
            sleep(Nanos(1_000_000)).await;
            run(&one, "COMMIT").await
        };
        let (inserted, _) = join(run(&two, "INSERT INTO t VALUES (1, 7)"), commit).await;
        assert_eq!(inserted, "count 1");
        // The modes of a session are those of its statements.
        run(&two, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await;
        assert_eq!(state(&two, "DELETE FROM t").await, "25006");
        run(&two, "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE").await;
        assert_eq!(state(&two, "DELETE FROM t").await, "00000");
    });
}

/// A statement of more changes than memory takes, given up in the middle of it: it is there or not, and others see it so.
#[test]
fn a_large_statement_that_is_given_up_is_whole() {
    // Gives how long the statement took, and whether it was there in the end.
    let given_up_after = |wait: Option<Nanos>| {
        block_on_virtual(1, async {
            let tables = tables().await;
            let database = Database::over(&tables);
            run(&database, "CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT)").await;
            let load =
                "INSERT INTO t SELECT value, 0, repeat('x', 900) FROM generate_series(1, 70000)";
            assert_eq!(run(&database, load).await, "count 70000");
            let began = now();
            {
                let large = Database::over(&tables);
                let update = run(&large, "UPDATE t SET n = n + 1, s = repeat('y', 900)");
                let waited = sleep(wait.unwrap_or(Nanos(u64::MAX / 2)));
                futures::pin_mut!(update, waited);
                futures::future::select(update, waited).await;
            }
            let took = now().since(began);
            // It waits for what may still come.
            let add = "UPDATE t SET n = n + 10 WHERE id IN (1, 70000)";
            assert_eq!(run(&database, add).await, "count 2");
            let sums = run(&database, "SELECT min(n) AS a, max(n) AS b, sum(n) AS s FROM t").await;
            let is_there = sums == "a,b,s 1,11,70020";
            assert!(is_there || sums == "a,b,s 0,10,20", "{wait:?}: {sums}");
            let figures = tables.store().transactions().figures();
            assert_eq!((figures.locks, figures.waiting), (0, 0));
            (took, is_there)
        })
    };
    let (took, is_there) = given_up_after(None);
    assert!(is_there);
    let outcomes = [2, 50, 80, 90, 95, 98, 99].map(|percent| {
        let wait = Nanos(took.0 * percent / 100);
        let (waited, is_there) = given_up_after(Some(wait));
        assert_eq!(waited, wait);
        is_there
    });
    println!("{took} uncut; there after being given up: {outcomes:?}");
    assert_eq!(outcomes.first(), Some(&false));
}

/// Statements with parameters, of all kinds, and what is refused of them.
#[test]
fn statements_are_prepared_and_executed() {
    check(&[
        ("CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT)", ""),
        ("PREPARE put AS INSERT INTO t VALUES ($1, $2, $3)", ""),
        ("EXECUTE put(1, 10, 'a''b')", "count 1"),
        ("EXECUTE put(2, -20, NULL)", "count 1"),
        ("EXECUTE put(3, 10 + 20, 'c' || 'd')", "count 1"),
        ("PREPARE add (INT, INT) AS UPDATE t SET n = n - $2 * 2 WHERE id = $1", ""),
        ("EXECUTE add('1', 3 - 1)", "count 1"),
        ("PREPARE find AS SELECT id, n, $2 AS x FROM t WHERE n > $1 ORDER BY id LIMIT $3", ""),
        ("EXECUTE find(-100, 7, 2)", "id,n,x 1,6,7 2,-20,7"),
        ("BEGIN", ""),
        ("PREPARE lock AS SELECT s FROM t WHERE id = $1 FOR UPDATE", ""),
        ("EXECUTE lock(3)", "s cd"),
        ("PREPARE drop_it AS DELETE FROM t WHERE id IN ($1, $2) RETURNING id", ""),
        ("EXECUTE drop_it(1, 3)", "id 1 3"),
        ("ROLLBACK", ""),
        ("SELECT count(*) AS c FROM t", "c 3"),
        (
            "PREPARE put AS SELECT 1",
            "error: there is a prepared statement `put` already: DEALLOCATE it",
        ),
        ("EXECUTE put(1, 2)", "error: `put` takes 3 parameters, and 2 are given"),
        ("EXECUTE put(4, n, 'x')", "error: parameter $2 is no constant: EXECUTE takes values"),
        (
            "EXECUTE put(4, (SELECT 1), 'x')",
            "error: parameter $2 is no constant: EXECUTE takes values",
        ),
        (
            "PREPARE made AS CREATE TABLE u (id INT)",
            "error: SELECT, INSERT, UPDATE and DELETE can be prepared",
        ),
        ("DEALLOCATE put", ""),
        ("EXECUTE put(1, 2, 'x')", "error: there is no prepared statement `put`"),
        ("DEALLOCATE ALL", ""),
        ("DEALLOCATE find", "error: there is no prepared statement `find`"),
    ]);
}
