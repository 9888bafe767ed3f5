//! Statements that are killed, or find no room on the device: each is whole or not done at all, and the store goes on.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use common::{moirai, run, succeed};

const STORE: &str = "--store=file:shop.img";
const ROWS: u32 = 20_000;

/// Statements, each of which changes what `state` tells.
const STATEMENTS: [(&str, &str); 11] = [
    ("insert", "INSERT INTO stock SELECT id + 1000000, n, name FROM stock"),
    (
        "upsert",
        "INSERT INTO stock SELECT id + 10000, n, name FROM stock ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1",
    ),
    ("update", "UPDATE stock SET n = n + 7, name = repeat(name, 9)"),
    ("delete", "DELETE FROM stock WHERE id % 3 = 0"),
    ("copy", "COPY stock FROM 'more.csv'"),
    ("create index", "CREATE INDEX by_name ON stock (name, n)"),
    ("drop index", "DROP INDEX by_n"),
    ("truncate", "TRUNCATE stock"),
    ("drop table", "DROP TABLE other"),
    ("create table", "CREATE TABLE another (id INT PRIMARY KEY)"),
    ("create table as", "CREATE TABLE third AS SELECT * FROM stock"),
];

fn make(folder: &Path, size: &str) {
    let store = format!("--store=file:shop.img?size={size}");
    let script = format!(
        "CREATE TABLE stock (id INT PRIMARY KEY, n INT, name TEXT); CREATE INDEX by_n ON stock (n); CREATE TABLE other (id INT); \
         INSERT INTO other VALUES (1); \
         INSERT INTO stock SELECT value, value * 17 % 1000, 'name ' || value FROM generate_series(1, {ROWS})"
    );
    succeed(folder, &["sql", &store, "-c", &script]);
    let more: String =
        (0..ROWS).map(|row| format!("{},{row},more of {row}\n", 5_000_000 + row)).collect();
    std::fs::write(folder.join("more.csv"), format!("id,n,name\n{more}")).unwrap();
}

/// All that the statements change: the tables and their indexes, the rows, and the rows as an index finds them.
fn state(folder: &Path) -> String {
    let sql = |statement: &str| succeed(folder, &["sql", STORE, "--format", "csv", statement]);
    let described = succeed(folder, &["table", "list", STORE, "--json"]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let names: Vec<&str> = described
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table.get("name").unwrap().as_str().unwrap())
        .collect();
    let mut state = names.join(" ");
    for name in names {
        state += &sql(&format!("SELECT count(*) FROM {name}"));
    }
    state += &sql("\\d stock");
    state
        + &sql("SELECT count(*), sum(id), sum(n), sum(length(name)) FROM stock")
        + &sql("SELECT count(*), sum(id) FROM stock WHERE n = 34")
}

/// The store as it was before, in its place again.
fn restore(folder: &Path) {
    std::fs::copy(folder.join("before.img"), folder.join("shop.img")).unwrap();
}

#[test]
fn a_statement_that_is_killed_is_whole_or_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "32MiB");
    std::fs::rename(folder.join("shop.img"), folder.join("before.img")).unwrap();
    restore(folder);
    let before = state(folder);
    let (mut undone, mut whole) = (0, 0);
    for (name, statement) in STATEMENTS {
        restore(folder);
        let began = Instant::now(); // tidy: allow(another process is timed, and killed)
        succeed(folder, &["sql", STORE, statement]);
        let took = began.elapsed();
        let after = state(folder);
        assert_ne!(after, before, "{name} does nothing");
        for percent in [20, 40, 60, 80, 95] {
            restore(folder);
            let mut child = moirai(folder, &["sql", STORE, statement])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(took * percent / 100); // tidy: allow(another process is killed)
            child.kill().unwrap();
            let is_done = child.wait().unwrap().success();
            let found = state(folder);
            match found == after {
                true => whole += 1,
                false => {
                    undone += 1;
                    assert!(!is_done, "{name} was done, and is lost");
                    assert_eq!(found, before, "{name} after {percent} %");
                }
            }
            let check = succeed(folder, &["store", "check", STORE]);
            assert_eq!(check, "nothing is damaged\n", "{name} after {percent} %");
            // And it can be done again.
            if found == before && percent == 60 {
                succeed(folder, &["sql", STORE, statement]);
                assert_eq!(state(folder), after, "{name}, once more");
            }
        }
    }
    eprintln!("{undone} statements were not done, {whole} were whole");
    assert!(undone > STATEMENTS.len(), "kills came too late: {undone} undone, {whole} whole");
}

/// Whether an error says that there is no room.
fn is_without_room(error: &str) -> bool {
    let is_said = error.contains("full") || error.contains("a statement needs room");
    is_said && !error.contains("panicked")
}

/// On a device that has room for little more: what needs more is refused, and changes nothing.
#[test]
fn a_statement_without_room_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "12MiB");
    // Until nothing goes in any more; texts that cannot be made shorter.
    let noise = ["2654435761", "2246822519", "3266489917", "668265263"]
        .map(|factor| format!("to_hex(value * {factor} % 4294967291)"))
        .join(" || ");
    let fill = |from: u32, rows: u32| {
        format!(
            "INSERT INTO stock SELECT value, value % 1000, {noise} FROM generate_series({from}, {})",
            from + rows - 1
        )
    };
    let (mut next, mut rows) = (2_000_000, 20_000);
    while rows > 100 {
        let (status, _, error) = run(folder, &["sql", STORE, &fill(next, rows)]);
        match status {
            Some(0) => next += rows,
            _ => {
                assert!(is_without_room(&error), "{error}");
                rows /= 2;
            }
        }
    }
    std::fs::rename(folder.join("shop.img"), folder.join("before.img")).unwrap();
    restore(folder);
    let before = state(folder);
    let mut refused = Vec::new();
    for (name, statement) in STATEMENTS {
        restore(folder);
        let (status, _, error) = run(folder, &["sql", STORE, statement]);
        if status != Some(0) {
            // COPY is not begun again where its snapshot ends.
            let is_known = is_without_room(&error) || (name == "copy" && error.contains("too old"));
            assert!(is_known, "{name}: {error}");
            assert_eq!(state(folder), before, "{name}");
            refused.push(name);
        }
        let check = succeed(folder, &["store", "check", STORE]);
        assert_eq!(check, "nothing is damaged\n", "{name}");
        if status != Some(0) {
            // A few rows at a time make room, and what was refused goes in then.
            let ranges = (1000..20_000).step_by(2000).chain((2_000_000..next).step_by(2000));
            let deletes = ranges.map(|first| {
                format!("DELETE FROM stock WHERE id >= {first} AND id < {}", first + 2000)
            });
            let deletes: Vec<String> = deletes.collect();
            succeed(folder, &["sql", STORE, "-c", &deletes.join("; ")]);
            succeed(folder, &["sql", STORE, statement]);
        }
    }
    eprintln!("refused: {refused:?}");
    for name in ["insert", "update", "copy"] {
        assert!(refused.contains(&name), "{refused:?}");
    }
}
