//! `moirai kv` from and into files: batches, dumps, counts and statistics.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::fs::{read, write};
use std::path::Path;

use common::{moirai, run, succeed};
use serde_json::Value;

const STORE: &str = "--store=file:kv.img?size=64MiB";

fn kv(folder: &Path, arguments: &[&str]) -> String {
    let all: Vec<&str> = ["kv", STORE].iter().chain(arguments).copied().collect();
    succeed(folder, &all)
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let all: Vec<&str> = ["kv", STORE].iter().chain(arguments).copied().collect();
    let (status, _, error) = run(folder, &all);
    assert_ne!(status, Some(0), "{arguments:?}");
    error
}

#[test]
fn batches_change_whole_groups() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder.join("one"), "put\ta\t1\t2\nput\tb\tx\nmerge\tn\t5\nmerge\tn\t-7\ndelete\tb\n")
        .unwrap();
    assert!(kv(folder, &["batch", "one"]).starts_with("5 changes in "));
    assert_eq!(kv(folder, &["scan"]), "a\t1\t2\nn\t-2\n");
    // The second group has a bad line, so it is not there, not even in parts.
    write(folder.join("two"), "put\tc\t3\ndelete\ta\nput\td\t4\nmerge\tn\tx\n").unwrap();
    let error = refused(folder, &["batch", "two", "--group", "2"]);
    assert!(error.contains("line 4: what comes after the key is not an integer"), "{error}");
    assert!(error.contains("at least the first 2 changes are loaded"), "{error}");
    assert_eq!(kv(folder, &["scan"]), "c\t3\nn\t-2\n");
    // Changes of two trees in one group.
    write(folder.join("three"), "put\tred\ta\t1\nput\tblue\tb\t2\ndelete\tdefault\tc\n").unwrap();
    kv(folder, &["batch", "three", "--trees"]);
    assert_eq!(kv(folder, &["--tree", "blue", "scan"]), "b\t2\n");
    assert_eq!(kv(folder, &["scan"]), "n\t-2\n");
    write(folder.join("hex"), "put\t0a\t0d\ndelete\t6e\n").unwrap();
    kv(folder, &["--hex", "batch", "hex"]);
    assert_eq!(kv(folder, &["--hex", "scan"]), "0a\t0d\n");
    write(folder.join("bad"), "get\ta\n").unwrap();
    let error = refused(folder, &["batch", "bad"]);
    assert!(error.contains("`get` is no change: begin with put, delete or merge"), "{error}");
}

/// Records may come through a pipe that has a name.
#[test]
fn pipes_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = "mkfifo pipe && (seq 1000 | sed 's/.*/k&\t&/' > pipe; echo $? > status) & sleep 0.3; \
                  \"$0\" kv --store='file:kv.img?size=64MiB' load pipe";
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_moirai")]).current_dir(folder);
    let output = shell.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("1,000 records in "), "{printed} {output:?}");
    assert_eq!(kv(folder, &["count"]), "1000\n");
}

/// A merge of a batch finds what is committed and what the lines before it change.
#[test]
fn batches_check_what_they_merge_onto() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kv(folder, &["put", "fruit", "apple"]);
    let most = i128::MAX.to_string();
    let second =
        |lines: &str| write(folder.join("lines"), format!("put\ta\t1\nmerge\ta\t2\n{lines}"));
    for (lines, problem) in [
        ("merge\tfruit\t1\n", "line 3: the value of `fruit` is not an integer: `apple`"),
        ("put\tb\tpear\nmerge\tb\t1\n", "line 4: the value of `b` is not an integer: `pear`"),
        ("delete\tfruit\nput\tfruit\tfig\nmerge\tfruit\t1\n", "line 5: the value of `fruit`"),
        (&format!("merge\ta\t{most}\n"), "line 3: the sum of `a` has more than 128 bits"),
    ] {
        second(lines).unwrap();
        let error = refused(folder, &["batch", "lines"]);
        assert!(error.contains(problem), "{error}");
        assert!(error.contains("nothing of it is known to be loaded"), "{error}");
        assert_eq!(kv(folder, &["scan"]), "fruit\tapple\n");
    }
    second("delete\tfruit\nmerge\tfruit\t4\nput\tb\t-7\nmerge\tb\t7\n").unwrap();
    kv(folder, &["batch", "lines", "--group", "2"]);
    assert_eq!(kv(folder, &["scan"]), "a\t3\nb\t0\nfruit\t4\n");
    // Merges of one key: none reads again what those before it left to be applied.
    write(folder.join("lines"), "merge\tcounter\t3\n".repeat(20_000)).unwrap();
    kv(folder, &["batch", "lines"]);
    assert_eq!(kv(folder, &["get", "counter"]), "60000\n");
    write(folder.join("lines"), "delete\tcounter\n").unwrap();
    kv(folder, &["batch", "lines"]);
    // A blind merge onto text changes nothing, and is counted.
    write(folder.join("lines"), "put\tfruit\tapple\nmerge\tfruit\t1\n").unwrap();
    kv(folder, &["batch", "lines", "--blind"]);
    assert_eq!(kv(folder, &["get", "fruit"]), "apple\n");
}

/// Any bytes, in both formats, into another store.
#[test]
fn a_dump_restores_every_tree() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let all: String = (0..=255).map(|byte| format!("put\t{byte:02x}\t{byte:02x}5c0a\n")).collect();
    write(folder.join("all"), all).unwrap();
    kv(folder, &["--hex", "batch", "all"]);
    kv(folder, &["--tree", "tab\there \u{e9}", "put", "k", ""]);
    for hex in [&["--hex"][..], &[]] {
        let dumped = kv(folder, &[hex, &["dump"]].concat());
        assert!(dumped.is_ascii());
        write(folder.join("dump"), &dumped).unwrap();
        let other = "--store=file:other.img?size=64MiB";
        succeed(folder, &["kv", other, "--force", "restore", "dump"]);
        let again = succeed(folder, &[&["kv", other], hex, &["dump"]].concat());
        assert_eq!(again, dumped);
        std::fs::remove_file(folder.join("other.img")).unwrap();
        // A part of it is told from the whole.
        write(folder.join("part"), &dumped[..dumped.len() - 9]).unwrap();
        let error = refused(folder, &["--tree", "part", "restore", "part"]);
        assert!(error.contains("DATA=END") || error.contains("several trees"), "{error}");
    }
    let one = kv(folder, &["--tree", "tab\there \u{e9}", "dump"]);
    write(folder.join("one"), &one[..one.len() - 9]).unwrap();
    let error = refused(folder, &["--tree", "one", "restore", "one"]);
    assert!(error.contains("ends before DATA=END: it is incomplete"), "{error}");
}

/// As `mdb_dump` of LMDB 0.9 and `db_dump` of Berkeley DB 5.3 write them.
#[test]
fn dumps_of_other_databases_are_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lmdb = "VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1048576\nmaxreaders=126\n\
                db_pagesize=4096\nHEADER=END\n 6b6579\n 76616c7565\nDATA=END\n";
    let berkeley = "VERSION=3\nformat=print\ntype=btree\ndb_pagesize=4096\nHEADER=END\n \
                    a\\09b\n back\\\\slash \\ff\n \n empty key\nDATA=END\n";
    write(folder.join("lmdb"), lmdb).unwrap();
    write(folder.join("berkeley"), berkeley).unwrap();
    assert!(kv(folder, &["restore", "lmdb"]).starts_with("1 record in "));
    assert_eq!(kv(folder, &["get", "key"]), "value\n");
    kv(folder, &["--tree", "b", "restore", "berkeley"]);
    let scanned = kv(folder, &["--hex", "--tree", "b", "scan"]);
    assert_eq!(scanned, "\t656d707479206b6579\n610962\t6261636b5c736c61736820ff\n");
    write(folder.join("several"), lmdb.replace("mapsize", "duplicates=1\nmapsize")).unwrap();
    let error = refused(folder, &["restore", "several"]);
    assert!(error.contains("line 4: a dump with several values for a key"), "{error}");
    write(folder.join("text"), "just text\n").unwrap();
    let error = refused(folder, &["restore", "text"]);
    assert!(error.contains("line 1: a dump has a line of the form name=value here"), "{error}");
}

#[test]
fn sorted_lines_are_loaded_and_the_first_unsorted_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kv(folder, &["put", "b", "old"]);
    write(folder.join("sorted"), "a\t1\nb\t2\nb b\t3\n").unwrap();
    assert!(kv(folder, &["load", "--sorted", "sorted"]).starts_with("3 records in "));
    assert_eq!(kv(folder, &["scan"]), "a\t1\nb\t2\nb b\t3\n");
    for (lines, bad) in [("c\t4\nd\t5\nc\t6\ne\t7\n", "c"), ("c\t4\nd\t5\nd\t6\n", "d")] {
        write(folder.join("unsorted"), lines).unwrap();
        let error = refused(folder, &["load", "--sorted", "unsorted"]);
        let named = format!("unsorted: line 3: key `{bad}` does not come after key `d` before it");
        assert!(error.contains(&named), "{error}");
        assert!(error.contains("at least the first 2 records are loaded"), "{error}");
        assert_eq!(kv(folder, &["scan", "--from", "c"]), "c\t4\nd\t5\n");
    }
    write(folder.join("bad"), "f\t1\nno tab\n").unwrap();
    let error = refused(folder, &["load", "--sorted", "bad"]);
    assert!(error.contains("line 2: there is no tab between key and value"), "{error}");
    assert_eq!(kv(folder, &["get", "f"]), "1\n");
    let error = refused(folder, &["load", "--sorted", "--acknowledge", "sorted"]);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn counts_and_statistics_agree() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines: String = (0..20_000).map(|key| format!("key {key:05}\tvalue {key:05}\n")).collect();
    write(folder.join("lines"), lines).unwrap();
    kv(folder, &["load", "lines"]);
    kv(folder, &["--tree", "other", "put", "a", "b"]);
    assert_eq!(kv(folder, &["count"]), "20000\n");
    assert_eq!(kv(folder, &["count", "--prefix", "key 01"]), "1000\n");
    assert_eq!(kv(folder, &["count", "--from", "key 01000", "--to", "key 01500"]), "500\n");
    let about: u64 = kv(folder, &["count", "--estimate"]).trim().parse().unwrap();
    assert!((15_000..25_000).contains(&about), "{about}");
    let stats = |exact: &[&str]| -> Value {
        serde_json::from_str(&kv(folder, &[&["stats", "--json"], exact].concat())).unwrap()
    };
    let (exact, about) = (stats(&["--exact"]), stats(&[]));
    let number = |stats: &Value, name: &str| stats[name].as_u64().unwrap();
    assert_eq!(number(&exact, "records"), 20_001);
    assert_eq!(number(&exact, "live_bytes"), 20_000 * 20 + 2);
    assert_eq!(exact["trees"][0]["name"], "default");
    assert_eq!(number(&exact["trees"][1], "records"), 1);
    assert!((300_000..500_000).contains(&number(&about, "live_bytes")), "{about}");
    // Data, an eighth of the device for the log, and the superblocks.
    let (used, device) = (number(&exact, "used_bytes"), number(&exact, "device_bytes"));
    assert!((63 << 20..=64 << 20).contains(&device), "{device}");
    assert!((8 << 20..10 << 20).contains(&used), "{used}");
    assert!(number(&exact, "memory_bytes") > 0);
    let human = kv(folder, &["stats", "--exact"]);
    assert!(human.contains("20 000") || human.contains("20,000"), "{human}");
}

/// Commands that only read share a store, also one whose file is read-only.
#[test]
fn reading_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kv(folder, &["put", "a", "1"]);
    let path = folder.join("kv.img");
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    let before = read(&path).unwrap();
    assert_eq!(kv(folder, &["get", "a"]), "1\n");
    assert_eq!(kv(folder, &["scan"]), "a\t1\n");
    assert_eq!(kv(folder, &["count"]), "1\n");
    kv(folder, &["stats"]);
    assert!(kv(folder, &["dump"]).contains("\n a\n 1\n"));
    assert!(read(&path).unwrap() == before);
}

/// A leaf that rotted is found, told with its keys, and dropped only when told.
#[test]
fn damage_is_found_and_dropped_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines: String = (0..20_000).map(|key| format!("key {key:05}\tvalue {key:05}\n")).collect();
    write(folder.join("lines"), lines).unwrap();
    kv(folder, &["load", "lines"]);
    let place = "--store=file:kv.img";
    assert_eq!(succeed(folder, &["store", "check", place]), "nothing is damaged\n");
    let mut bytes = read(folder.join("kv.img")).unwrap();
    let at = bytes.windows(11).position(|window| window == b"value 12345").unwrap();
    bytes[at] = b'V';
    write(folder.join("kv.img"), &bytes).unwrap();
    for command in [&["store", "check", place][..], &["store", "repair", place]] {
        let (status, listed, error) = run(folder, command);
        assert_eq!(status, Some(1), "{error}");
        let is_told = |part: &str| listed.contains(part);
        assert!(is_told("a leaf") && is_told("default") && is_told("kv.img"), "{listed}");
        assert!(is_told("key 12") && error.contains("repair --drop"), "{listed}{error}");
    }
    assert!(read(folder.join("kv.img")).unwrap() == bytes, "neither of them writes");
    let (_, _, error) = run(folder, &["kv", place, "get", "key 12345"]);
    assert!(error.contains("a block at") && error.contains("is damaged"), "{error}");
    let dropped = succeed(folder, &["store", "repair", place, "--drop", "--json"]);
    let dropped: Value = serde_json::from_str(&dropped).unwrap();
    assert_eq!((&dropped[0]["what"], &dropped[0]["bytes"]), (&"a leaf".into(), &8192.into()));
    assert_eq!(succeed(folder, &["store", "check", place]), "nothing is damaged\n");
    let left: u64 = kv(folder, &["count"]).trim().parse().unwrap();
    // A leaf of 8 KiB with records of 20 bytes and some more each.
    assert!((20_000 - 8192 / 20..20_000 - 100).contains(&left), "{left}");
    kv(folder, &["put", "key 12345", "again"]);
    assert_eq!(kv(folder, &["get", "key 12345"]), "again\n");
}

/// A frame of the log rotted that others follow: no command drops what came since unless it is told, and then it says so.
#[test]
fn a_damaged_log_is_opened_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (key, value) in [("a", "first value"), ("b", "second value"), ("c", "third value")] {
        kv(folder, &["put", key, value]);
    }
    let mut bytes = read(folder.join("kv.img")).unwrap();
    let at = bytes.windows(12).position(|window| window == b"second value").unwrap();
    bytes[at] = b'S';
    write(folder.join("kv.img"), &bytes).unwrap();
    for arguments in [&["get", "a"][..], &["put", "d", "x"]] {
        let error = refused(folder, arguments);
        assert!(error.contains("durable frame") && error.contains("--force-log-end"), "{error}");
    }
    assert!(read(folder.join("kv.img")).unwrap() == bytes, "who is refused writes nothing");
    let forced = ["kv", STORE, "--force-log-end", "scan"];
    let (status, listed, error) = run(folder, &forced);
    assert_eq!((status, &listed[..]), (Some(0), "a\tfirst value\n"), "{error}");
    assert!(error.contains("later are dropped"), "{error}");
    // Who writes makes it so for good.
    let dropped = ["store", "repair", "--store=file:kv.img", "--drop", "--force-log-end"];
    succeed(folder, &dropped);
    kv(folder, &["put", "d", "x"]);
    assert_eq!(kv(folder, &["scan"]), "a\tfirst value\nd\tx\n");
}

/// With bytes of every value, and longer than a leaf.
#[test]
fn a_file_is_stored_and_written_back_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(folder.join("in"), &content).unwrap();
    let kv = |arguments: &[&str]| {
        let arguments = [&["kv", "--store", "file:s?size=64MiB"], arguments].concat();
        moirai(folder, &arguments).output().unwrap()
    };
    assert!(kv(&["put", "k", "--file", "in"]).status.success());
    let output = kv(&["get", "k", "--raw"]);
    assert!(output.status.success() && output.stdout == content);
    // A file that is not there stores nothing.
    assert_eq!(kv(&["put", "other", "--file", "none"]).status.code(), Some(1));
    assert_eq!(kv(&["get", "other"]).status.code(), Some(1));
}
