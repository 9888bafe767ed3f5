//! `moirai workload`: TPC-C loaded, run, killed and checked, CH-benCHmark, YCSB; and transactions of the tool.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{moirai, run, succeed};
use serde_json::Value;

/// What is run on a loaded warehouse, and killed amid it, leaves a database on which all twelve conditions hold.
#[test]
fn the_conditions_hold_after_a_run_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = ["--store", "file:tpcc.kv", "--memory", "32MiB"];
    let tpcc = |verb: &str, more: &[&str]| -> Vec<String> {
        let words = ["workload", "tpcc", verb].into_iter().chain(store).chain(more.iter().copied());
        words.map(str::to_owned).collect()
    };
    let load = ["workload", "tpcc", "load", "--store", "file:tpcc.kv?size=512MiB"];
    succeed(folder, &load);
    let options = ["--warm-up", "1", "--seconds", "2", "--page", "run.html", "--json"];
    let ask = tpcc("run", &[&["--terminals", "4"][..], &options].concat());
    let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
    let report: Value = serde_json::from_str(&succeed(folder, &ask)).unwrap();
    assert_eq!(report["warehouses"], 1);
    assert!(report["transactions_per_s"].as_f64().unwrap() > 1.0, "{report}");
    assert_eq!(report["kinds"].as_array().unwrap().len(), 5);
    assert!((1.9..3.0).contains(&report["seconds"].as_f64().unwrap()), "{report}");
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("transactions a second") && page.contains("new_order"), "{page}");
    let long = tpcc("run", &["--terminals", "4", "--seconds", "60"]);
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let mut running =
        moirai(folder, &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3)); // tidy: allow(until the other process is amid its run)
    running.kill().unwrap();
    running.wait().unwrap();
    let check = tpcc("check", &["--json"]);
    let check: Vec<&str> = check.iter().map(String::as_str).collect();
    let conditions: Value = serde_json::from_str(&succeed(folder, &check)).unwrap();
    let conditions = conditions.as_array().unwrap();
    assert_eq!(conditions.len(), 12);
    assert!(conditions.iter().all(|one| one["holds"] == true), "{conditions:?}");
    // A row that breaks conditions is found.
    succeed(folder, &["sql", "--store", "file:tpcc.kv", "UPDATE warehouse SET w_ytd = 0"]);
    let (status, table, error) =
        run(folder, &["workload", "tpcc", "check", "--store", "file:tpcc.kv"]);
    assert_eq!(status, Some(1), "{table}");
    assert!(error.contains("2 of 12 conditions do not hold"), "{error}");
}

/// All queries of CH-benCHmark run beside terminals, and the conditions hold afterwards.
#[test]
fn queries_run_beside_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["workload", "ch", "load", "--store", "file:ch.kv?size=1GiB"]);
    let run_it = ["workload", "ch", "run", "--store=file:ch.kv", "--memory=128MiB"];
    // The queries of a debug build leave few cores to the transactions.
    let more = ["--terminals=2", "--streams=2", "--rate=20", "--seconds=8", "--json"];
    let both = [&run_it[..], &more].concat();
    let report: Value = serde_json::from_str(&succeed(folder, &both)).unwrap();
    let rate = report["transactions_per_s"].as_f64().unwrap();
    assert!(rate > 0.0 && rate < 21.0, "{report}");
    assert!(!report["queries"].as_array().unwrap().is_empty(), "{report}");
    let alone = [&run_it[..], &["--terminals=0", "--streams=1", "--seconds=3"]].concat();
    assert!(succeed(folder, &alone).contains("queries/h"));
    succeed(folder, &["workload", "tpcc", "check", "--store", "file:ch.kv"]);
    let (status, _, error) = run(folder, &["workload", "ch", "run", "--store", "file:none.kv"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("none.kv"), "{error}");
}

#[test]
fn mixes_of_ycsb_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let of = |verb: &str| ["workload", "ycsb", verb].map(str::to_owned).to_vec();
    let ask = |verb: &str, more: &[&str]| -> Vec<String> {
        of(verb).into_iter().chain(more.iter().map(|one| (*one).to_owned())).collect()
    };
    let call = |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run(folder, &words)
    };
    let (status, _, error) = call(ask("run", &["--store=file:y.kv?size=64MiB"]));
    assert_eq!(status, Some(1), "{error}");
    let (status, _, error) = call(ask("load", &["--store=file:y.kv?size=64MiB", "--records=5000"]));
    assert_eq!(status, Some(0), "{error}");
    for (mix, kinds) in [
        ("a", &["read", "update"][..]),
        ("b", &["read", "update"]),
        ("c", &["read"]),
        ("d", &["read", "insert"]),
        ("e", &["insert", "scan"]),
        ("f", &["read", "read-update"]),
    ] {
        let more = ["--store=file:y.kv", "--records=5000", "--seconds=1", "--json", "--mix", mix];
        let (status, report, error) = call(ask("run", &more));
        assert_eq!(status, Some(0), "{error}");
        let report: Value = serde_json::from_str(&report).unwrap();
        let all = report["kinds"].as_array().unwrap().iter();
        let run = all.filter(|kind| kind["committed"].as_u64().unwrap() > 0);
        let run: Vec<&str> = run.map(|kind| kind["kind"].as_str().unwrap()).collect();
        assert!(!run.is_empty() && run.iter().all(|kind| kinds.contains(kind)), "{mix}: {run:?}");
    }
    let (status, _, error) = call(ask("run", &["--store=file:y.kv", "--skew=1"]));
    assert_eq!(status, Some(2));
    assert!(error.contains("below 1"), "{error}");
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["sql", "--store", "file:a.kv?size=32MiB", "CREATE TABLE t (id INT)"]);
    let run_it = ["workload", "tpcc", "run", "--store", "file:a.kv"];
    let (status, _, error) = run(folder, &run_it);
    assert_eq!(status, Some(1));
    assert!(error.contains("workload tpcc load"), "{error}");
    let level = [&run_it[..], &["--isolation", "none"]].concat();
    let (status, _, error) = run(folder, &level);
    assert_eq!(status, Some(2));
    assert!(error.contains("read-committed, snapshot or serializable"), "{error}");
    let none = ["workload", "tpcc", "load", "--store", "file:a.kv", "--warehouses", "0"];
    assert_eq!(run(folder, &none).0, Some(2));
}

/// A script with a block that is not committed says so, and leaves nothing.
#[test]
fn open_blocks_are_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "--store=file:a.kv";
    succeed(
        folder,
        &["sql", "--store=file:a.kv?size=32MiB", "CREATE TABLE t (id INT PRIMARY KEY)"],
    );
    succeed(folder, &["sql", store, "BEGIN; INSERT INTO t VALUES (1); COMMIT"]);
    let (status, _, error) = run(folder, &["sql", store, "BEGIN; INSERT INTO t VALUES (2)"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.contains("write COMMIT"), "{error}");
    let ids = ["sql", store, "--format", "csv", "SELECT id FROM t"];
    assert_eq!(succeed(folder, &ids), "id\n1\n");
}
