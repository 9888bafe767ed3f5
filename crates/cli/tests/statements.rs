//! `moirai sql` on tables that take changes, beside keys and values.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{moirai, run, succeed};

const STORE: &str = "--store=file:shop.img";

fn sql(folder: &Path, statements: &str) -> String {
    succeed(folder, &["sql", STORE, "--format", "csv", statements])
}

fn made(folder: &Path) {
    let store = "--store=file:shop.img?size=128MiB";
    let create = "CREATE TABLE stock (id INT PRIMARY KEY, name TEXT, price DECIMAL(8, 2))";
    succeed(folder, &["sql", store, create]);
}

#[test]
fn tables_and_trees_lie_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    let insert = "INSERT INTO stock VALUES (1, 'apple', 0.40), (2, 'pear', 0.55)";
    assert_eq!(sql(folder, insert), "count\n2\n");
    succeed(folder, &["kv", STORE, "put", "opened", "today"]);
    let update = "UPDATE stock SET price = price * 2 WHERE name = 'pear' RETURNING id, price";
    assert_eq!(sql(folder, update), "id,price\n2,1.10\n");
    assert_eq!(succeed(folder, &["kv", STORE, "get", "opened"]), "today\n");
    assert_eq!(sql(folder, "SELECT * FROM stock"), "id,name,price\n1,apple,0.40\n2,pear,1.10\n");
    assert_eq!(succeed(folder, &["store", "check", STORE]), "nothing is damaged\n");
    let map = succeed(folder, &["store", "map", STORE]);
    assert!(map.contains("stock"), "{map}");
    let described = sql(folder, "\\d stock");
    assert!(described.contains("price") && described.contains("key"), "{described}");
    assert!(succeed(folder, &["table", "list", STORE]).contains("stock"));
    // Several may read at once.
    assert!(succeed(folder, &["sql", STORE, "--read-only", "\\d"]).contains("stock"));
}

#[test]
fn a_backup_has_tables_and_trees() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    sql(folder, "INSERT INTO stock VALUES (1, 'apple', 0.40), (2, 'pear', 0.55)");
    sql(folder, "CREATE TABLE notes (text TEXT)");
    sql(folder, "INSERT INTO notes VALUES ('b'), ('a')");
    succeed(folder, &["kv", STORE, "put", "opened", "today"]);
    let said = succeed(folder, &["store", "backup", STORE, "--to=file:copy.img"]);
    assert_eq!(said, "2 tables, 4 rows; 1 tree, 1 record, 11 B\n");
    let copy = "--store=file:copy.img";
    let read = |statement| succeed(folder, &["sql", copy, "--format", "csv", statement]);
    assert_eq!(read("SELECT * FROM stock"), "id,name,price\n1,apple,0.40\n2,pear,0.55\n");
    assert_eq!(read("SELECT * FROM notes"), "text\nb\na\n");
    assert_eq!(succeed(folder, &["kv", copy, "get", "opened"]), "today\n");
    // It takes changes, as the store does.
    assert_eq!(read("UPDATE stock SET price = 1 WHERE id = 1 RETURNING price"), "price\n1.00\n");
    let (status, _, error) = run(folder, &["store", "backup", STORE, "--to=file:copy.img"]);
    assert_eq!(status, Some(1), "{error}");
}

#[test]
fn a_store_is_made_only_where_a_size_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, _, error) = run(folder, &["sql", STORE, "CREATE TABLE t (id INT)"]);
    assert_ne!(status, Some(0));
    assert!(error.contains("shop.img"), "{error}");
    assert!(!folder.join("shop.img").exists());
    made(folder);
    // It is left as it is when it is there.
    let (status, _, error) =
        run(folder, &["sql", "--store=file:shop.img?size=128MiB", "SELECT * FROM nothing"]);
    assert_ne!(status, Some(0));
    assert!(error.contains("nothing"), "{error}");
    let (status, _, error) = run(folder, &["sql", STORE, "--read-only", "DELETE FROM stock"]);
    assert_ne!(status, Some(0));
    assert!(error.contains("read"), "{error}");
}

/// What was acknowledged is there after a kill, and each statement whole or not at all.
#[test]
fn statements_are_whole_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    let mut acknowledged = 0;
    for round in 0..4 {
        let mut child = moirai(folder, &["sql", STORE, "--format", "csv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let write = move || {
            for number in 0..400 {
                let first = round * 10_000 + number * 10;
                let values: Vec<String> =
                    (first..first + 10).map(|id| format!("({id}, 'x', {round})")).collect();
                let text = format!("INSERT INTO stock VALUES {};\n", values.join(", "));
                if std::io::Write::write_all(&mut input, text.as_bytes()).is_err() {
                    return;
                }
            }
        };
        let writer = std::thread::spawn(write); // tidy: allow(a test feeds a process)
        std::thread::sleep(Duration::from_millis(700)); // tidy: allow(another process is killed)
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        acknowledged += String::from_utf8(output.stdout).unwrap().matches("10\n").count();
    }
    let rows: usize = sql(folder, "SELECT count(*) AS n FROM stock")
        .trim_start_matches("n\n")
        .trim()
        .parse()
        .unwrap();
    assert!(rows.is_multiple_of(10), "{rows}");
    assert!(rows / 10 >= acknowledged, "{rows} rows, {acknowledged} statements were acknowledged");
    assert_eq!(succeed(folder, &["store", "check", STORE]), "nothing is damaged\n");
}

/// The first CREATE makes the store of what is blank, and nothing else does.
#[test]
fn a_blank_device_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let members = ["a", "b", "c"].map(|name| format!("--device=file:{name}.img?size=128MiB"));
    let [a, b, c] = &members;
    succeed(folder, &["volume", "create", "v.toml", "--level=raid5", a, b, c]);
    let volume = "--store=volume:v.toml";
    let (status, _, error) = run(folder, &["sql", volume, "INSERT INTO t VALUES (1)"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("CREATE TABLE comes first"), "{error}");
    for (statement, problem) in [
        ("CREATE VIEW v AS SELECT 1", "CREATE TABLE comes first"),
        ("CREATE INDEX i ON t (a)", "CREATE TABLE comes first"),
        ("CREATE TABLE", "Expected: identifier"),
        ("CREATE TABLE t (id INT", "Expected: ',' or ')'"),
    ] {
        let (status, _, error) = run(folder, &["sql", volume, statement]);
        assert_eq!(status, Some(1), "{statement}");
        assert!(error.contains(problem), "{error}");
    }
    let script = "-- the first\nDROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    assert!(succeed(folder, &["sql", volume, "-c", script]).contains("2"));
    assert!(succeed(folder, &["sql", volume, "SELECT count(*) AS n FROM t"]).contains("2"));
    // A file that was made for it.
    std::fs::File::create(folder.join("blank.img")).unwrap().set_len(128 << 20).unwrap();
    succeed(folder, &["sql", "--store=file:blank.img", "-c", script]);
    // What a simulated disk keeps its data in.
    let disk = "--store=sim:quantum-atlas-10k?data=q.img";
    succeed(folder, &["sql", disk, "-c", script]);
    assert!(succeed(folder, &["sql", disk, "SELECT max(id) AS n FROM t"]).contains("2"));
    // One that is too small is none, and can be made anew.
    let create = "CREATE TABLE t (id INT PRIMARY KEY)";
    let (status, _, error) = run(folder, &["sql", "--store=file:small.img?size=1MiB", create]);
    assert_eq!(status, Some(1));
    assert!(error.contains("larger device") && !folder.join("small.img").exists(), "{error}");
    succeed(folder, &["sql", "--store=file:small.img?size=4MiB", create]);
    // Reading makes nothing.
    let new = "--store=file:new.img?size=128MiB";
    let mut child = moirai(folder, &["sql", new]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"select 1;").unwrap();
    assert!(child.wait().unwrap().success());
    let (status, _, _) = run(folder, &["sql", new, "--file=nothing.sql"]);
    assert_eq!(status, Some(1));
    assert!(!folder.join("new.img").exists());
}

#[test]
fn a_dump_says_that_it_has_no_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    succeed(folder, &["kv", STORE, "put", "opened", "today"]);
    let (status, dump, error) = run(folder, &["kv", STORE, "dump"]);
    assert_eq!(status, Some(0));
    assert!(dump.contains("opened") && error.contains("stock"), "{error}");
    let (status, _, error) = run(folder, &["sql", STORE, "-c", "CREATE VIEW v AS SELECT 1"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("CREATE VIEW is not known here"), "{error}");
}

/// Rows are printed while the statement still computes, and a closed pipe ends the statement.
#[test]
fn long_answers_do_not_wait_for_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    let wide = "SELECT repeat('x', 70000) AS x";
    for format in ["table", "expanded"] {
        let shown = succeed(folder, &["sql", STORE, "--format", format, wide]);
        assert!(shown.contains(&"x".repeat(70_000)) && shown.len() < 80_000, "{}", shown.len());
    }
    let cut = "SELECT 1 / (20000 - value) AS a FROM generate_series(1, 30000); SELECT 2 AS b";
    let arguments = ["sql", STORE, "--keep-going", "--format", "json", "-c", cut];
    let (status, output, _) = run(folder, &arguments);
    assert_eq!((status, output.lines().last()), (Some(1), Some("[{\"b\":2}]")));
    // Rows that came before the error are on a line of their own; where it came first there are none.
    let before = output.lines().rev().nth(1);
    assert!(before.is_none_or(|rows| rows.starts_with("[{\"a\":0},{\"a\":0},")), "{output}");
    let pairs = "SELECT a.value AS a, b.value AS b FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    for format in ["csv", "json", "table", "expanded"] {
        let mut command = moirai(folder, &["sql", STORE, "--format", format, pairs]);
        let mut statement = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // All of it would take days.
        let mut beginning = [0; 100];
        statement.stdout.take().unwrap().read_exact(&mut beginning).unwrap();
        let ended = statement.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), &*error), (Some(0), ""), "{format}");
    }
}
