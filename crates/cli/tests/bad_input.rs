//! Bad input is a clear error with exit status 1 or 2, and changes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{run, succeed};

/// The command fails with `status`, and the message has all of `parts`.
fn check(folder: &Path, arguments: &[&str], status: i32, parts: &[&str]) {
    let before = snapshot(folder);
    let (found, output, error) = run(folder, arguments);
    let command = arguments.join(" ");
    assert_eq!(found, Some(status), "moirai {command}: {output}{error}");
    for part in parts {
        assert!(error.contains(part), "moirai {command}: no `{part}` in {error}");
    }
    assert!(!error.contains("panicked"), "moirai {command}: {error}");
    assert!(snapshot(folder) == before, "moirai {command} changed a file");
}

/// Names and contents of the small files in `folder`, and sizes of the large ones.
fn snapshot(folder: &Path) -> Vec<(String, u64, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let length = entry.metadata().unwrap().len();
            let content =
                if length < 64 << 20 { std::fs::read(entry.path()).unwrap() } else { vec![] };
            (entry.file_name().to_string_lossy().into_owned(), length, content)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn devices_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let show = |uri, status, parts: &[&str]| check(folder, &["device", "show", uri], status, parts);
    show("tape:x", 2, &["`tape:x`", "no scheme `tape`"]);
    show("nonsense", 2, &["write a scheme"]);
    show("sim:quantum-fireball", 2, &["no profile `quantum-fireball`", "quantum-atlas-10k"]);
    show("file:missing.img", 1, &["there is no file missing.img"]);
    std::fs::write(folder.join("tiny"), [0; 100]).unwrap();
    show("file:tiny", 1, &["tiny has 100 B", "larger size"]);
    std::fs::write(folder.join("drive.toml"), "name = \"x\"\nwheels = 4\n").unwrap();
    show("sim:drive.toml", 1, &["drive.toml", "line 2", "`wheels`"]);
    check(folder, &["device", "frobnicate"], 2, &["frobnicate"]);
}

#[test]
fn volumes_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A MiB is an ensemble of a file, which labels and journal share with no data.
    let small = [0, 1, 2].map(|disk| format!("--device=file:small{disk}.img?size=1MiB"));
    for (level, need) in [("raid0", "needs 2 MiB"), ("raid5", "needs ")] {
        let level = format!("--level={level}");
        let create = ["volume", "create", "v.toml", &level, &small[0], &small[1], &small[2]];
        check(folder, &create, 1, &["small0.img has 1 MiB, but", need, "give a larger size"]);
    }
    let two = ["volume", "create", "v.toml", "--device=sim:quantum-atlas-10k"];
    let other = [&two[..], &["--device=sim:seagate-cheetah-36es"]].concat();
    check(folder, &other, 1, &["v.toml", "different geometries"]);
    check(folder, &[&two[..], &["--depth", "40"]].concat(), 1, &["`depth`", "take at most"]);
    let level = |level: &'static str| [&two[..], &["--level", level]].concat();
    check(folder, &level("raid7"), 2, &["raid7", "raid10"]);
    check(folder, &level("raid6"), 1, &["`level`", "4 devices"]);
    let kept = "--device=sim:quantum-atlas-10k?data=d.img";
    let kept = [&level("raid1")[..], &[kept]].concat();
    check(folder, &kept, 1, &["`labels`", "quantum-atlas-10k keeps no data"]);
    check(
        folder,
        &[&two[..], &["--unit", "7", "--layout=stripe"]].concat(),
        2,
        &["not a multiple"],
    );
    std::fs::write(folder.join("bad.toml"), "devices = []\n\n[quadrangel]\n").unwrap();
    check(folder, &["volume", "show", "bad.toml"], 1, &["bad.toml", "line 3", "`quadrangel`"]);
    check(folder, &["volume", "map", "missing.toml", "0"], 1, &["missing.toml"]);
    succeed(folder, &two);
    check(folder, &two, 1, &["v.toml exists"]);
    check(folder, &["volume", "map", "v.toml", "99999999999"], 1, &["is past the end"]);
}

#[test]
fn stores_that_are_none_or_full() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = |uri| ["table", "load", "--store", uri, "--tpch", "0.001"];
    for option in
        [&["--null", "x"][..], &["--delimiter", ";"], &["--no-header"], &["--schema", "a:int"]]
    {
        let command = [&load("file:new?size=64MiB")[..], option].concat();
        check(folder, &command, 2, &[option[0], "cannot be used with"]);
    }
    std::fs::write(folder.join("letter"), vec![b'x'; 1 << 20]).unwrap();
    check(folder, &load("file:letter"), 1, &["letter holds data of a format", "--force"]);
    std::fs::write(folder.join("small"), vec![0; 8192]).unwrap();
    check(folder, &load("file:small"), 1, &["small", "larger device"]);

    std::fs::write(folder.join("sealed"), vec![0; 16 << 20]).unwrap();
    let mut permissions = folder.join("sealed").metadata().unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(folder.join("sealed"), permissions).unwrap();
    check(folder, &load("file:sealed"), 1, &["sealed is read-only"]);

    // Fills up in the middle: the load is undone, what was there before stays.
    std::fs::write(folder.join("full"), vec![0; 4 << 20]).unwrap();
    std::fs::write(folder.join("one.csv"), "a\n7\n").unwrap();
    let one = ["table", "load", "--store", "file:full", "--csv", "one.csv"];
    succeed(folder, &one);
    check(folder, &one, 1, &["table `one` exists", "--replace", "--if-not-exists"]);
    let big = ["table", "load", "--store", "file:full", "--tpch", "0.05"];
    for _ in 0..2 {
        let (status, _, error) = run(folder, &big);
        assert_eq!(status, Some(1));
        assert!(error.contains("full is full") && error.contains("dropped again"), "{error}");
        let listed = succeed(folder, &["table", "list", "--store", "file:full"]);
        assert!(listed.contains("one") && !listed.contains("region"), "{listed}");
    }
    let sum = ["sql", "--store", "file:full", "--format=csv", "select sum(a) as s from one"];
    assert_eq!(succeed(folder, &sum), "s\n7\n");

    check(
        folder,
        &["table", "scan", "--store", "file:full", "nothing"],
        1,
        &["no table `nothing`"],
    );
    // A source that cannot be read leaves no store behind.
    let missing = ["table", "load", "--store", "file:new?size=64MiB", "--csv", "no.csv"];
    check(folder, &missing, 1, &["no.csv"]);
}

/// A store is used by one at a time, and a volume does not take a device twice.
#[test]
fn what_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let twice = "devices = [\"file:x\", \"file:x\"]\n[stripe]\nunit = \"64KiB\"\n";
    std::fs::write(folder.join("twice.toml"), twice).unwrap();
    std::fs::write(folder.join("x"), vec![0; 1 << 20]).unwrap();
    check(folder, &["volume", "show", "twice.toml"], 1, &["/x is named twice"]);
    let held = std::fs::File::options().write(true).open(folder.join("x")).unwrap();
    held.lock().unwrap();
    check(folder, &["table", "list", "--store", "file:x"], 1, &["x is in use by process"]);
}

#[test]
fn statements_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store", "file:s?size=64MiB", "--tpch", "0.001"]);
    let sql = |statement, parts: &[&str]| {
        check(folder, &["sql", "--store", "file:s", statement], 1, parts);
    };
    sql("selekt 1", &["selekt"]);
    sql("select * from nothing", &["nothing"]);
    sql("select nothing from nation", &["nothing"]);
    sql("create view v as select 1", &["not known here"]);
    let scan = ["table", "scan", "--store", "file:s", "nation", "--columns", "n_name,x"];
    check(folder, &scan, 2, &["no column `x`", "n_regionkey"]);
    check(folder, &["table", "load", "--store", "file:s", "--csv", "no.csv"], 1, &["no.csv"]);
    std::fs::write(folder.join("no.parquet"), "PAR?").unwrap();
    check(
        folder,
        &["table", "load", "--store", "file:s", "--parquet", "no.parquet"],
        1,
        &["no.parquet"],
    );
    check(folder, &["demo", "--scale", "0"], 2, &["scale factor lies between"]);
}

/// One flipped bit: the read names the place; other tables and columns are read.
#[test]
fn a_flipped_bit_in_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store", "file:s?size=64MiB", "--tpch", "0.001"]);
    let scan = |table| ["table", "scan", "--store", "file:s", table];
    succeed(folder, &scan("orders"));
    let map = succeed(folder, &["store", "map", "--store", "file:s", "--json"]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let extents = map.as_array().unwrap().iter();
    // One extent has all pages: a bit of its last quarter is of a column, and not of the key.
    let [extent] = &extents.filter(|extent| extent["tree"] == "orders").collect::<Vec<_>>()[..]
    else {
        panic!("{map}")
    };
    let [first, blocks] = ["first", "blocks"].map(|key| extent[key].as_u64().unwrap());
    let at = (first + blocks * 3 / 4) * 512 + 7;
    let file = std::fs::File::options().read(true).write(true).open(folder.join("s")).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    drop(file);

    check(folder, &scan("orders"), 1, &["damaged", "moirai store check"]);
    let (_, _, error) = run(folder, &scan("orders"));
    let lbn = error.split_once("LBN").unwrap().1.trim_start_matches('s').trim_start();
    let lbn: String = lbn.chars().take_while(char::is_ascii_digit).collect();
    assert!((first..first + blocks).contains(&lbn.parse().unwrap()), "the bit at {at}: {error}");
    let column = ["table", "scan", "--store", "file:s", "orders", "--columns", "o_orderkey"];
    succeed(folder, &column);
    succeed(folder, &scan("lineitem"));
    let (status, found, _) = run(folder, &["store", "check", "--store", "file:s"]);
    assert!(status == Some(1) && found.contains("orders"), "{found}");
}
