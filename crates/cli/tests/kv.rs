//! `moirai kv`: what is put is there, also after the process was killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use common::{moirai, run, succeed};

const STORE: &str = "--store=file:kv.img?size=64MiB";

fn kv(folder: &Path, arguments: &[&str]) -> String {
    let all: Vec<&str> = ["kv", STORE].iter().chain(arguments).copied().collect();
    succeed(folder, &all)
}

#[test]
fn records_are_put_changed_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, _, error) = run(folder, &["kv", STORE, "get", "a"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("there is no file kv.img"), "{error}");
    assert!(!folder.join("kv.img").exists());
    kv(folder, &["put", "fruit", "apple"]);
    kv(folder, &["put", "fruit2", "pear"]);
    kv(folder, &["merge", "count", "5"]);
    kv(folder, &["merge", "count", "-2"]);
    assert_eq!(kv(folder, &["get", "fruit"]), "apple\n");
    assert_eq!(kv(folder, &["get", "count"]), "3\n");
    kv(folder, &["delete", "fruit2"]);
    assert_eq!(kv(folder, &["scan"]), "count\t3\nfruit\tapple\n");
    assert_eq!(kv(folder, &["scan", "--reverse", "--to", "d"]), "count\t3\n");
    let (status, _, error) = run(folder, &["kv", STORE, "get", "fruit2"]);
    assert_eq!((status, error.contains("no key `fruit2`")), (Some(1), true));
    let (_, _, error) = run(folder, &["kv", STORE, "--tree", "other", "scan"]);
    assert!(error.contains("the store has: default"), "{error}");

    let lines: String = (0..20_000).map(|key| format!("key {key:05}\tvalue {key}\n")).collect();
    std::fs::write(folder.join("lines.tsv"), lines).unwrap();
    kv(folder, &["--tree", "lines", "load", "lines.tsv"]);
    assert_eq!(kv(folder, &["--tree", "lines", "get", "key 12345"]), "value 12345\n");
    let scanned = kv(folder, &["--tree", "lines", "scan", "--prefix", "key 123", "--limit", "0"]);
    assert_eq!(scanned.lines().count(), 100);
    let stats = kv(folder, &["stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["trees"][0]["name"], "default");
    assert_eq!(stats["trees"][1]["name"], "lines");
    assert!(stats["leaves"].as_u64().unwrap() > 50);

    std::fs::write(folder.join("bad.tsv"), "a\t1\nb\n").unwrap();
    let (_, _, error) = run(folder, &["kv", STORE, "load", "bad.tsv"]);
    assert!(error.contains("line 2: there is no tab"), "{error}");
    assert_eq!(kv(folder, &["get", "a"]), "1\n");
    // A device that holds something else is left as it is.
    std::fs::write(folder.join("other.img"), vec![7; 1 << 22]).unwrap();
    let (_, _, error) = run(folder, &["kv", "--store=file:other.img", "put", "a", "b"]);
    assert!(error.contains("does not know (at byte 0)") && error.contains("--force"), "{error}");
    let other = ["kv", "--store=file:new.img?size=8MiB", "--log=file:other.img", "put", "a", "b"];
    let (_, _, error) = run(folder, &other);
    assert!(error.contains("other.img holds data"), "{error}");
    assert!(!folder.join("new.img").exists(), "a failed creation leaves no file");
    assert_eq!(std::fs::read(folder.join("other.img")).unwrap(), vec![7; 1 << 22]);
}

/// What is scanned is what is loaded, byte for byte.
#[test]
fn trees_are_renamed_and_dropped_and_ranges_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for tree in ["one", "two"] {
        let lines: String = (0..300).map(|key| format!("{key:03}\t{tree}\n")).collect();
        std::fs::write(folder.join("lines.tsv"), lines).unwrap();
        kv(folder, &["--tree", tree, "load", "lines.tsv"]);
    }
    kv(folder, &["--tree", "one", "delete", "--prefix", "1"]);
    kv(folder, &["--tree", "one", "delete", "--from", "298"]);
    assert_eq!(kv(folder, &["--tree", "one", "count"]), "198\n");
    kv(folder, &["rename", "one", "three"]);
    let refused = |arguments: &[&str], status, text: &str| {
        let all: Vec<&str> = ["kv", STORE].iter().chain(arguments).copied().collect();
        let (found, _, error) = run(folder, &all);
        assert_eq!((found, error.contains(text)), (Some(status), true), "{error}");
    };
    refused(&["rename", "one", "four"], 1, "no tree `one`; the store has: three, two");
    refused(&["rename", "two", "three"], 1, "a tree `three` already");
    refused(&["delete"], 2, "name a key, or a range");
    refused(&["--tree", "two", "drop", "two"], 2, "leave --tree out");
    refused(&["stats", "--tree", "one"], 1, "no tree `one`");
    kv(folder, &["drop", "two"]);
    refused(&["drop", "two"], 1, "no tree `two`; the store has: three");
    assert_eq!(kv(folder, &["--tree", "three", "count"]), "198\n");
    // A tree of the same name is another.
    kv(folder, &["--tree", "two", "put", "a", "b"]);
    assert_eq!(kv(folder, &["--tree", "two", "scan"]), "a\tb\n");
}

#[test]
fn records_of_any_bytes_go_out_and_in() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("raw.tsv"), b"\xff\xfe\tone\r\nplain\t\xfd\n").unwrap();
    kv(folder, &["load", "raw.tsv"]);
    kv(folder, &["--hex", "put", "0a09", "0d0a"]);
    let scanned = kv(folder, &["--hex", "scan"]);
    assert_eq!(scanned, "0a09\t0d0a\n706c61696e\tfd\nfffe\t6f6e650d\n");
    std::fs::write(folder.join("hex.tsv"), &scanned).unwrap();
    kv(folder, &["--tree", "copy", "--hex", "load", "hex.tsv"]);
    assert_eq!(kv(folder, &["--tree", "copy", "--hex", "scan"]), scanned);
    kv(folder, &["--hex", "delete", "fffe"]);
    kv(folder, &["put", "-key", "-value"]);
    assert_eq!(kv(folder, &["get", "-key"]), "-value\n");
    let (status, _, error) = run(folder, &["kv", STORE, "--hex", "get", "0"]);
    assert_eq!((status, error.contains("`0`: Odd number of digits")), (Some(2), true), "{error}");
    // Where nobody looks at it a scan is whole.
    let many: String = (0..150).map(|key| format!("key {key}\tvalue\n")).collect();
    std::fs::write(folder.join("many.tsv"), many).unwrap();
    kv(folder, &["--tree", "many", "load", "many.tsv"]);
    assert_eq!(kv(folder, &["--tree", "many", "scan"]).lines().count(), 150);
    let limited = ["kv", STORE, "--tree", "many", "scan", "--limit", "7"];
    let (_, output, error) = run(folder, &limited);
    assert_eq!((output.lines().count(), error.contains("--limit 0")), (7, true), "{error}");
}

/// A group is durable once it is full, whether or not more lines come; and who stops listening is told.
#[test]
fn what_is_acknowledged_does_not_wait_for_the_next_line() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["kv", STORE, "load", "-", "--group", "2", "--acknowledge"];
    let start = || {
        let mut load = moirai(folder.path(), &load);
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        load.spawn().unwrap()
    };
    let mut child = start();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a\t1\nb\t2\n").unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert_eq!(first, "2\n");
    drop(output);
    input.write_all(b"c\t3\nd\t4\ne\t5\n").unwrap();
    drop(input);
    let ended = child.wait_with_output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("at least the first 4 records are loaded"), "{error}");
}

/// A merge reads first, and refuses a value that is text.
#[test]
fn merge_refuses_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kv(folder, &["put", "fruit", "apple"]);
    let (status, _, error) = run(folder, &["kv", STORE, "merge", "fruit", "5"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("`fruit` is not an integer: `apple`"), "{error}");
    assert_eq!(kv(folder, &["get", "fruit"]), "apple\n");
    let stats: serde_json::Value = serde_json::from_str(&kv(folder, &["stats", "--json"])).unwrap();
    assert_eq!(stats["refused_merges"], 0);
}

/// An option without effect is an error.
#[test]
fn options_of_new_stores_are_refused_where_the_store_exists() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kv(folder, &["put", "a", "b"]);
    for option in ["--leaf=4KiB", "--log-size=1MiB", "--force"] {
        for command in [&["put", "a", "c"][..], &["get", "a"]] {
            let all = [&["kv", STORE, option][..], command].concat();
            let (status, _, error) = run(folder, &all);
            let name = option.split('=').next().unwrap();
            assert_eq!((status, error.contains(name)), (Some(2), true), "{option}: {error}");
        }
    }
    assert_eq!(kv(folder, &["get", "a"]), "b\n");
}

/// With --force a store takes the place of what was there, which is named.
#[test]
fn force_overwrites_and_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut content = vec![0; 8 << 20];
    content[0x1_0040..][..8].copy_from_slice(b"_BHRfS_M");
    std::fs::write(folder.join("used.img"), content).unwrap();
    let put = ["kv", "--store=file:used.img", "put", "a", "b"];
    let (status, _, error) = run(folder, &put);
    assert_eq!((status, error.contains("a Btrfs file system")), (Some(1), true), "{error}");
    let forced = ["kv", "--store=file:used.img", "--force", "put", "a", "b"];
    let (status, _, error) = run(folder, &forced);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.contains("held a Btrfs file system") && error.contains("overwritten"), "{error}");
    assert_eq!(succeed(folder, &["kv", "--store=file:used.img", "get", "a"]), "b\n");
}

#[test]
fn a_store_lies_on_simulated_disks_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = "--store=sim:seagate-cheetah-36es?data=kv.img";
    let log = "--log=sim:seagate-cheetah-36es?data=log.img";
    succeed(folder.path(), &["kv", store, log, "put", "a", "b"]);
    assert_eq!(succeed(folder.path(), &["kv", store, log, "get", "a"]), "b\n");
}

/// Appended, each record waits for a turn of the disk, since its place has just passed the head; 10,000 turns a minute.
#[test]
fn a_log_on_a_disk_is_written_where_the_head_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines: String = (0..500).map(|key| format!("key {key}\tvalue\n")).collect();
    std::fs::write(folder.join("lines.tsv"), lines).unwrap();
    let drive = |name: &str| format!("sim:seagate-cheetah-36es?data={name}.img");
    let [append_s, trail_s] =
        [("append", None), ("trail", Some("--log-rpm=10000"))].map(|(name, rpm)| {
            let store = format!("--store={}", drive(&format!("{name}-kv")));
            let log = format!("--log={}", drive(&format!("{name}-log")));
            let with = |rest: &[&str]| {
                let all: Vec<&str> = ["kv", &store, &log].iter().chain(rest).copied().collect();
                succeed(folder, &all)
            };
            let load: Vec<&str> =
                rpm.into_iter().chain(["load", "lines.tsv", "--group=1"]).collect();
            let loaded = with(&load);
            assert_eq!(with(&["get", "key 123"]), "value\n");
            let words: Vec<&str> = loaded.split(' ').collect();
            words[3].parse::<f64>().unwrap()
        });
    let turns_s = 500.0 * 0.006;
    assert!(append_s > 0.9 * turns_s, "{append_s} s");
    assert!(trail_s < 0.5 * turns_s, "{trail_s} s");
    let (status, _, error) = run(folder, &["kv", STORE, "--log-rpm=10000", "put", "a", "b"]);
    assert_eq!((status, error.contains("--log <URI>")), (Some(2), true), "{error}");
}

#[test]
fn a_log_may_lie_on_several_devices() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [one, other] = ["--log=file:one.img?size=1MiB", "--log=file:other.img?size=2MiB"];
    let with = |logs: &[&str], rest: &[&'static str]| {
        let all: Vec<String> =
            ["kv", STORE].iter().chain(logs).chain(rest).map(ToString::to_string).collect();
        run(folder, &all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(with(&[one, other], &["put", "a", "b"]).0, Some(0));
    assert_eq!(with(&[one, other], &["get", "a"]).1, "b\n");
    let (status, _, error) = with(&[other, one], &["get", "a"]);
    assert_eq!((status, error.contains("in the same order")), (Some(1), true), "{error}");
    let (status, _, error) = with(&[one], &["get", "a"]);
    assert_eq!((status, error.contains("2 devices, but 1 are named")), (Some(1), true), "{error}");
}

/// Kills a process that loads, `times` times, and looks whether all is there that it said was durable.
fn kill_and_look(times: u64) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "--store=file:kv.img?size=256MiB";
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut acknowledged = 0;
    for round in 0..times {
        let load = ["kv", store, "--memory", "1MiB", "load", "-", "--group", "50", "--acknowledge"];
        let mut child =
            moirai(folder, &load).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let lines: Vec<(String, u64)> = (0..40_000_u64)
            .map(|line| {
                let mixed = (round * 40_000 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (format!("key {:04}", mixed >> 50), round << 32 | line)
            })
            .collect();
        let text: String = lines.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
        // It takes them until it is killed.
        let feeding = std::thread::spawn(move || drop(input.write_all(text.as_bytes()))); // tidy: allow(a test feeds a process)
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let until = 1 + round % 7 * 30;
        let mut durable = 0;
        for line in output.by_ref() {
            durable = line.unwrap().parse().unwrap_or(durable);
            if durable / 50 >= until {
                break;
            }
        }
        child.kill().unwrap();
        for line in output {
            durable = line.unwrap().parse().unwrap_or(durable);
        }
        child.wait().unwrap();
        feeding.join().unwrap();
        acknowledged += durable;
        for (key, value) in &lines[..durable as usize] {
            expected.insert(key.clone(), *value);
        }
        let scanned = succeed(folder, &["kv", store, "scan", "--limit", "0"]);
        let found: BTreeMap<&str, u64> = scanned
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .map(|(key, value)| (key, value.parse().unwrap()))
            .collect();
        for (key, value) in &expected {
            let there = found.get(key.as_str());
            assert!(
                there.is_some_and(|there| there >= value),
                "round {round}: {key} {there:?} {value}"
            );
        }
        // What was not acknowledged and is there counts from now on.
        expected = found.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    }
    assert!(acknowledged > 0);
}

#[test]
fn what_was_acknowledged_outlives_the_process() {
    kill_and_look(10);
}

#[test]
#[ignore = "a minute; `cargo xtask test --full` runs it"]
fn what_was_acknowledged_outlives_a_hundred_processes() {
    kill_and_look(100);
}
