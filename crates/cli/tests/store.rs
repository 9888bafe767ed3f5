//! `moirai store`: where a store lies on its device, and its backups.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::{run, succeed};

/// Records in random order, as `kv load` takes them.
fn write_records(path: &Path) {
    let mut text = String::new();
    for number in 0..20_000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
        text += &format!("{key:012}\t{:060}\n", number);
    }
    std::fs::write(path, text).unwrap();
}

/// On a quadrangle volume, a disk, a striped volume and a file.
#[test]
fn no_extent_crosses_a_boundary_that_it_would_better_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_records(&folder.join("records.txt"));
    for (name, layout) in [("quadrangles", "--depth=4"), ("stripes", "--layout=stripe")] {
        let disk = |disk| format!("--device=sim:seagate-cheetah-36es?data={name}-{disk}.img");
        let description = format!("{name}.toml");
        let mut create = vec!["volume", "create", &description, "--level=raid0", layout];
        let disks: Vec<String> = (0..4).map(disk).collect();
        create.extend(disks.iter().map(String::as_str));
        succeed(folder, &create);
    }
    let stores = [
        "volume:quadrangles.toml",
        "sim:quantum-atlas-10k?data=disk.img",
        "volume:stripes.toml",
        "file:store.kv?size=64MiB",
    ];
    for store in stores {
        let memory = ["--memory", "1MiB"];
        succeed(folder, &["kv", "--store", store, memory[0], memory[1], "load", "records.txt"]);
        let store = if store.starts_with("file:") { "file:store.kv" } else { store };
        let json = succeed(folder, &["store", "map", "--store", store, "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = rows.as_array().unwrap();
        let of = |what: &str| rows.iter().filter(|row| row["what"] == what).count();
        assert!(of("leaves") > 5 && of("checkpoint") > 0, "{store}: {json}");
        let mut end = 0;
        for row in rows {
            let number = |name: &str| row[name].as_u64().unwrap();
            assert!(number("first") >= end, "{store}: two extents overlap: {row}");
            end = number("first") + number("blocks");
            assert_eq!(number("boundaries_avoidable"), 0, "{store}: {row}");
        }
        let printed =
            succeed(folder, &["store", "map", "--store", store, "--out", "map.svg", "--force"]);
        assert!(printed.contains("leaves") && printed.contains("default"), "{printed}");
    }
    let again = ["store", "map", "--store", "file:store.kv", "--out"];
    for (out, why) in [("map.svg", "map.svg exists"), ("store.kv", "an input of this command")] {
        let (status, _, error) = run(folder, &[&again[..], &[out]].concat());
        assert!(status == Some(2) && error.contains(why), "{error}");
    }
}

#[test]
fn a_backup_has_all_trees_and_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_records(&folder.join("records.txt"));
    std::fs::write(folder.join("blob"), vec![7; 3_000_000]).unwrap();
    succeed(
        folder,
        &["kv", "--store", "file:a.kv?size=128MiB", "--leaf", "4KiB", "load", "records.txt"],
    );
    let kv = |arguments: &[&str]| {
        succeed(folder, &[&["kv", "--store", "file:a.kv"][..], arguments].concat())
    };
    kv(&["put", "blob", "--file", "blob"]);
    kv(&["--tree", "other", "put", "key", "value"]);
    assert_eq!(kv(&["copy", "default", "copy"]), "20,001 records copied\n");
    assert_eq!(kv(&["count", "--tree", "copy"]).trim(), "20001");
    let (status, _, error) =
        run(folder, &["kv", "--store", "file:a.kv", "copy", "default", "copy"]);
    assert!(status == Some(1) && error.contains("there is a tree `copy` already"), "{error}");

    let backup = ["store", "backup", "--store", "file:a.kv", "--to", "file:b.kv"];
    let printed = succeed(folder, &backup);
    assert!(printed.starts_with("3 trees, 40,003 records, "), "{printed}");
    let (status, _, error) = run(folder, &backup);
    assert!(status == Some(1) && error.contains("holds a store"), "{error}");
    let restore =
        ["store", "restore", "--store", "file:c.kv?size=128MiB", "--from", "file:b.kv", "--json"];
    let summary: serde_json::Value = serde_json::from_str(&succeed(folder, &restore)).unwrap();
    assert_eq!((&summary["trees"], &summary["records"]), (&3.into(), &40_003.into()));
    let dump = |store| succeed(folder, &["kv", "--store", store, "dump"]);
    assert!(dump("file:c.kv") == dump("file:a.kv"));
    // What does not exist is not made.
    let missing = ["store", "backup", "--store", "file:none.kv", "--to", "file:d.kv"];
    let (status, _, error) = run(folder, &missing);
    assert!(status == Some(1) && error.contains("there is no file"), "{error}");
    assert!(!folder.join("none.kv").exists() && !folder.join("d.kv").exists());
}

/// A backup that is killed in between has all trees or none, and what has none is not taken for a backup.
#[test]
fn a_backup_that_is_killed_is_whole_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines: String = (0..200_000).map(|number| format!("{number:08}\tvalue\n")).collect();
    std::fs::write(folder.join("lines.txt"), lines).unwrap();
    succeed(folder, &["kv", "--store", "file:a.kv?size=128MiB", "load", "--sorted", "lines.txt"]);
    let mut killed = 0;
    for blocks in [0, 64, 256, 1024, 4096, 8192, 12_288] {
        let mut child = common::moirai(
            folder,
            &["store", "backup", "--store", "file:a.kv", "--to", "file:b.kv"],
        )
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
        // Once its file takes so many blocks of 512 bytes.
        let taken = || std::fs::metadata(folder.join("b.kv")).map_or(0, |file| file.blocks() + 1);
        while taken() <= blocks && child.try_wait().unwrap().is_none() {
            std::thread::yield_now(); // tidy: allow(a test waits for a process)
        }
        child.kill().unwrap();
        let is_done = child.wait().unwrap().success();
        let restore =
            ["store", "restore", "--store", "file:c.kv?size=128MiB", "--from", "file:b.kv"];
        let (status, printed, error) = run(folder, &restore);
        match status {
            Some(0) => assert!(printed.starts_with("1 tree, 200,000 records, "), "{printed}"),
            _ => {
                killed += 1;
                assert!(!is_done && !error.contains("panicked"), "{error}");
            }
        }
        for left in ["b.kv", "c.kv"] {
            drop(std::fs::remove_file(folder.join(left)));
        }
    }
    assert!(killed > 0, "each of them was done before it was killed");
}

#[test]
fn what_is_no_store_of_keys_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut image = vec![0; 1 << 20];
    image[..16].copy_from_slice(b"SQLite format 3\0");
    std::fs::write(folder.join("t.img"), image).unwrap();
    let (status, _, error) = run(folder, &["store", "check", "--store", "file:t.img"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("holds a SQLite database"), "{error}");
}

/// A device that was enlarged has superblocks that say so only once somebody writes; until then nothing is damaged either.
#[test]
fn an_enlarged_device_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["kv", "--store=file:a.img?size=64MiB", "put", "a", "1"]);
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("a.img")).unwrap();
    file.set_len(128 << 20).unwrap();
    let check = ["store", "check", "--store=file:a.img"];
    assert_eq!(succeed(folder, &check), "nothing is damaged\n");
    succeed(folder, &["kv", "--store=file:a.img", "put", "b", "2"]);
    assert_eq!(succeed(folder, &check), "nothing is damaged\n");
    // A copy that is damaged is found, in a device that was enlarged, too.
    file.set_len(160 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 200).unwrap();
    let (status, output, _) = run(folder, &check);
    assert_eq!((status, output.matches("a superblock").count()), (Some(1), 1), "{output}");
}

/// Whatever extent of a table and its index is damaged: a repair leaves rows and index that agree.
#[test]
fn a_repair_makes_indexes_anew_that_lack_entries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "--store=file:shop.img";
    let script = "CREATE TABLE stock (id INT PRIMARY KEY, n INT); CREATE INDEX by_n ON stock (n); \
                  INSERT INTO stock SELECT value, value * 17 % 1000 FROM generate_series(1, 20000)";
    succeed(folder, &["sql", "--store=file:shop.img?size=32MiB", "-c", script]);
    let json = succeed(folder, &["store", "map", store, "--json"]);
    let map: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of_table = |row: &&serde_json::Value| row["tree"] == "stock";
    let extents: Vec<u64> = map
        .as_array()
        .unwrap()
        .iter()
        .filter(of_table)
        .map(|row| row["first"].as_u64().unwrap() * 512)
        .collect();
    std::fs::copy(folder.join("shop.img"), folder.join("whole.img")).unwrap();
    let (mut rows_lost, mut made_anew) = (0, 0);
    for offset in extents {
        std::fs::copy(folder.join("whole.img"), folder.join("shop.img")).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(folder.join("shop.img")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"damage", offset + 4).unwrap();
        assert_eq!(run(folder, &["store", "check", store]).0, Some(1), "byte {offset}");
        let (status, said, error) = run(folder, &["store", "repair", store, "--drop"]);
        assert_eq!(status, Some(0), "byte {offset}: {error}");
        made_anew += u32::from(said.contains("index `by_n` of table `stock`"));
        assert_eq!(succeed(folder, &["store", "check", store]), "nothing is damaged\n");
        let count = |condition: &str| -> u32 {
            let query = format!("SELECT count(*) AS n FROM stock WHERE {condition}");
            let answer = succeed(folder, &["sql", store, "--format", "csv", &query]);
            answer.trim_start_matches("n\n").trim().parse().unwrap()
        };
        rows_lost += u32::from(count("true") < 20_000);
        // By the index, and by all rows.
        assert_eq!(count("n = 34"), count("n + 0 = 34"), "byte {offset}");
    }
    assert!(rows_lost > 0 && made_anew > 0, "{rows_lost} lost rows, {made_anew} made anew");
}
