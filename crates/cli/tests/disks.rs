//! Volumes whose devices have labels: disks that fail, go missing, come back, and are replaced.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use common::{moirai, run, succeed};

const QUERY: &str = "select count(*) as n, sum(l_tax) as tax, max(l_comment) as c from lineitem";

/// A volume over files of 64 MiB with a table in it.
fn make(folder: &Path, level: &str, disks: usize) {
    make_with(folder, level, disks, &[]);
}

fn make_with(folder: &Path, level: &str, disks: usize, options: &[&str]) {
    let devices: Vec<String> =
        (0..disks).map(|disk| format!("--device=file:d{disk}.img?size=64MiB")).collect();
    let mut create = vec!["volume", "create", "v.toml", "--level", level];
    create.extend(["--layout", "stripe", "--unit", "64KiB"]);
    create.extend(options);
    create.extend(devices.iter().map(String::as_str));
    succeed(folder, &create);
    succeed(folder, &["table", "load", "--store", "volume:v.toml", "--tpch", "0.002"]);
}

fn answer(folder: &Path) -> String {
    succeed(folder, &["sql", "--store", "volume:v.toml", "--format", "csv", QUERY])
}

fn states(folder: &Path) -> Vec<String> {
    let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let disks = shown["disks"].as_array().unwrap();
    disks.iter().map(|disk| disk["state"].as_str().unwrap().to_owned()).collect()
}

/// What the tool says when it fails.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let (status, _, error) = run(folder, arguments);
    assert!(status == Some(1) || status == Some(2), "{arguments:?}: {error}");
    error
}

#[test]
fn a_failed_disk_is_replaced_and_filled_though_the_filling_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid5", 4);
    let expected = answer(folder);

    succeed(folder, &["volume", "fail", "v.toml", "2"]);
    assert_eq!(states(folder), ["ready", "ready", "failed", "ready"]);
    let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
    assert!(shown.contains("\"survives_failures\": 0"), "{shown}");
    let shown = succeed(folder, &["volume", "show", "v.toml"]);
    assert!(shown.contains("0 failed devices now; 1 failed device once all"), "{shown}");
    assert_eq!(answer(folder), expected);
    let error = refused(folder, &["volume", "fail", "v.toml", "0"]);
    assert!(error.contains("survives 0 further failures now"), "{error}");

    let used = ["volume", "replace", "v.toml", "2", "file:d1.img"];
    let error = refused(folder, &used);
    assert!(error.contains("d1.img"), "{error}");
    // The old device holds something, be it stale.
    let error = refused(folder, &["volume", "replace", "v.toml", "2", "file:d2.img"]);
    assert!(error.contains("--force"), "{error}");
    succeed(folder, &["volume", "replace", "v.toml", "2", "file:d2.img", "--force"]);
    assert_eq!(states(folder)[2], "rebuilding");
    succeed(folder, &["volume", "fail", "v.toml", "2"]);
    let error = refused(folder, &["volume", "replace", "v.toml", "2", "file:./d1.img", "--force"]);
    assert!(error.contains("in use"), "{error}");
    succeed(folder, &["volume", "replace", "v.toml", "2", "file:new.img?size=64MiB"]);
    let described = std::fs::read_to_string(folder.join("v.toml")).unwrap();
    assert!(described.contains("new.img") && !described.contains("d2.img"), "{described}");

    // At 8 MiB/s it takes some seconds, and is killed before.
    let mut rebuild = moirai(folder, &["volume", "rebuild", "v.toml", "--rate", "8MiB"]);
    let mut rebuild = rebuild.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500)); // tidy: allow(another process is killed)
    rebuild.kill().unwrap();
    rebuild.wait().unwrap();
    assert_eq!(states(folder)[2], "rebuilding");
    assert_eq!(answer(folder), expected);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 4]);
    succeed(folder, &["volume", "fail", "v.toml", "0"]);
    assert_eq!(answer(folder), expected);
}

#[test]
fn a_volume_grows_though_that_is_killed_and_a_disk_fails() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid5", 3);
    let expected = answer(folder);
    let capacity = || {
        let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        (shown["capacity_bytes"].as_u64().unwrap(), shown["moved"][0].as_u64())
    };
    let (before, _) = capacity();
    let devices = ["--device", "file:e.img?size=64MiB", "--device", "file:f.img?size=64MiB"];
    let grow = [&["volume", "grow", "v.toml", "--rate", "8MiB"], &devices[..]].concat();
    let mut growing = moirai(folder, &grow).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500)); // tidy: allow(another process is killed)
    growing.kill().unwrap();
    growing.wait().unwrap();
    let (now, moved) = capacity();
    assert!(now == before && moved.is_some(), "{moved:?}");
    assert_eq!(answer(folder), expected);
    let error = refused(folder, &["volume", "scrub", "v.toml"]);
    assert!(error.contains("grow"), "{error}");
    succeed(folder, &["volume", "fail", "v.toml", "1"]);
    assert_eq!(answer(folder), expected);
    succeed(folder, &["volume", "grow", "v.toml"]);
    assert_eq!(capacity(), (2 * before, None));
    succeed(folder, &["volume", "replace", "v.toml", "1", "file:g.img?size=64MiB"]);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 5]);
    assert!(succeed(folder, &["volume", "scrub", "v.toml"]).contains(" 0 stripes differ"));
    assert_eq!(answer(folder), expected);
}

#[test]
fn devices_are_found_in_any_order_and_stale_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid6", 5);
    let expected = answer(folder);
    std::fs::remove_file(folder.join("v.toml")).unwrap();
    let order = [3, 0, 4, 2, 1].map(|disk| format!("--device=file:d{disk}.img"));
    let mut open = vec!["volume", "open", "v.toml"];
    open.extend(order.iter().map(String::as_str));
    succeed(folder, &open);
    assert_eq!(states(folder), ["ready"; 5]);
    assert_eq!(answer(folder), expected);

    // Two disks are away; that must be said, and they are stale when they are back.
    for disk in [1, 3] {
        std::fs::rename(
            folder.join(format!("d{disk}.img")),
            folder.join(format!("away{disk}.img")),
        )
        .unwrap();
    }
    assert_eq!(states(folder), ["ready", "missing", "ready", "missing", "ready"]);
    let error = refused(folder, &["sql", "--store", "volume:v.toml", QUERY]);
    assert!(error.contains("missing") && error.contains("d3.img"), "{error}");
    succeed(folder, &["volume", "open", "v.toml", "--degraded"]);
    assert_eq!(answer(folder), expected);
    succeed(folder, &["table", "drop", "--store", "volume:v.toml", "orders"]);
    for disk in [1, 3] {
        std::fs::rename(
            folder.join(format!("away{disk}.img")),
            folder.join(format!("d{disk}.img")),
        )
        .unwrap();
    }
    assert_eq!(states(folder), ["ready", "failed", "ready", "failed", "ready"]);
    assert_eq!(answer(folder), expected);

    // A new disk has the name of the one whose place it takes, whoever else is away.
    let away = |disk: &str, to: &str| std::fs::rename(folder.join(disk), folder.join(to)).unwrap();
    succeed(folder, &["volume", "replace", "v.toml", "3", "file:new.img?size=64MiB"]);
    succeed(folder, &["volume", "replace", "v.toml", "1", "file:other.img?size=64MiB"]);
    let described = std::fs::read_to_string(folder.join("v.toml")).unwrap();
    let names = ["d0", "other", "d2", "new", "d4"].map(|name| format!("\"file:{name}.img\""));
    assert!(described.contains(&names.join(", ")), "{described}");
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 5]);
    away("d1.img", "stale1.img");
    away("d0.img", "away0.img");
    let error = refused(folder, &["volume", "fail", "v.toml", "0"]);
    assert!(error.contains("missing"), "{error}");
    away("away0.img", "d0.img");
    assert_eq!(answer(folder), expected);
    succeed(folder, &["volume", "fail", "v.toml", "1"]);
    succeed(folder, &["volume", "fail", "v.toml", "3"]);

    // A third disk is too much, and nothing is changed by trying.
    std::fs::rename(folder.join("d0.img"), folder.join("away0.img")).unwrap();
    let error = refused(folder, &["volume", "open", "v.toml", "--degraded"]);
    assert!(error.contains("needs more disks"), "{error}");
    std::fs::rename(folder.join("away0.img"), folder.join("d0.img")).unwrap();
    assert_eq!(answer(folder), expected);
}

#[test]
fn what_is_no_volume_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid1", 2);
    let device = |disk| format!("--device=file:d{disk}.img");
    let (first, second) = (device(0), device(1));
    // They hold something.
    let again = ["volume", "create", "w.toml", "--level", "raid1", &first, &second];
    let error = refused(folder, &again);
    assert!(error.contains("--force") && !folder.join("w.toml").exists(), "{error}");
    // Another file is no disk of a volume, and the tool does not make it one.
    std::fs::write(folder.join("other.img"), vec![0; 1 << 20]).unwrap();
    let error = refused(folder, &["volume", "open", "w.toml", "--device=file:other.img"]);
    assert!(error.contains("volume") && !folder.join("w.toml").exists(), "{error}");
    // Without labels a description is not taken at its word.
    std::fs::write(
        folder.join("w.toml"),
        "devices = [\"file:d0.img\", \"file:d1.img\"]\nlevel = \"raid1\"\n[stripe]\nunit = \"track\"\n",
    )
    .unwrap();
    let error = refused(folder, &["volume", "show", "w.toml"]);
    assert!(error.contains("`labels`"), "{error}");
    let error = refused(folder, &["volume", "fail", "missing.toml", "0"]);
    assert!(error.contains("missing.toml"), "{error}");
    let error = refused(folder, &["volume", "replace", "v.toml", "7", "file:n.img?size=64MiB"]);
    assert!(error.contains("no disk 7"), "{error}");
    let mut small = vec!["volume", "replace", "v.toml", "1", "file:small.img?size=1MiB"];
    succeed(folder, &["volume", "fail", "v.toml", "1"]);
    let error = refused(folder, &small);
    assert!(error.contains("small.img"), "{error}");
    small[4] = "file:large.img?size=80MiB";
    succeed(folder, &small);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 2]);
}

/// A file that was cut short counts as missing, and the message names it.
#[test]
fn a_disk_that_was_cut_short_counts_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid5", 3);
    let expected = answer(folder);
    let cut = std::fs::File::options().write(true).open(folder.join("d1.img")).unwrap();
    cut.set_len(16 << 20).unwrap();
    drop(cut);
    let error = refused(folder, &["sql", "--store=volume:v.toml", "select 1"]);
    assert!(
        error.contains("d1.img (its 16 MiB are less") && error.contains("--degraded"),
        "{error}"
    );
    assert_eq!(states(folder), ["ready", "missing", "ready"]);
    succeed(folder, &["volume", "open", "v.toml", "--degraded"]);
    assert_eq!(answer(folder), expected);
    succeed(folder, &["volume", "replace", "v.toml", "1", "file:n.img?size=64MiB"]);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 3]);
    assert_eq!(answer(folder), expected);
}

#[test]
fn a_simulated_volume_is_drawn_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disk = ["--device", "sim:quantum-atlas-10k"];
    let create = ["volume", "create", "v.toml", "--level", "raid5", "--depth", "4"];
    succeed(folder, &[&create[..], &disk, &disk, &disk].concat());
    succeed(folder, &["volume", "draw", "v.toml", "--out", "v.svg", "--at", "5000"]);
    let picture = std::fs::read_to_string(folder.join("v.svg")).unwrap();
    // Every block of the access is marked once, and one of the three disks has the parity.
    let mapped = succeed(folder, &["volume", "map", "v.toml", "5000", "--json"]);
    let mapped: serde_json::Value = serde_json::from_str(&mapped).unwrap();
    let access = mapped["equivalent"].as_array().unwrap().len();
    assert_eq!(picture.matches("fill=\"#c96a12\"").count(), access);
    assert_eq!(picture.matches(">P<").count(), access);
    let over = ["volume", "draw", "v.toml", "--out", "v.toml"];
    assert!(refused(folder, &over).contains("would overwrite it"));

    let bench = ["volume", "bench", "v.toml", "--requests", "50", "--json"];
    let (first, second) = (succeed(folder, &bench), succeed(folder, &bench));
    assert_eq!(first, second, "virtual time repeats");
    let measured: serde_json::Value = serde_json::from_str(&first).unwrap();
    let mb_per_s = |index: usize| measured["measured"][index]["mb_per_s"].as_f64().unwrap();
    // Three disks with tracks of 334 blocks in 6 ms and a head switch each: 70 MB/s at the most.
    assert!((45.0..75.0).contains(&mb_per_s(0)), "{first}");
    assert!(mb_per_s(0) > 20.0 * mb_per_s(2), "{first}");
}

/// Parity fits what is on the devices, whatever was there before.
#[test]
fn devices_that_hold_something_are_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for disk in 0..3 {
        let content: Vec<u8> = (0..64 << 20).map(|at: u32| (at >> 9) as u8 ^ disk).collect();
        std::fs::write(folder.join(format!("d{disk}.img")), content).unwrap();
    }
    let devices = [0, 1, 2].map(|disk| format!("--device=file:d{disk}.img"));
    let mut create = vec!["volume", "create", "v.toml", "--level", "raid5", "--layout", "stripe"];
    create.extend(devices.iter().map(String::as_str));
    assert!(refused(folder, &create).contains("--force"));
    create.push("--force");
    succeed(folder, &create);
    assert!(succeed(folder, &["volume", "scrub", "v.toml"]).contains(" 0 stripes differ"));
}

#[test]
fn arrays_are_put_one_behind_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = |name: &str, level: &str, disks: &[&str]| {
        let devices = disks.iter().map(|disk| format!("--device=file:{disk}.img?size=40MiB"));
        let devices: Vec<String> = devices.collect();
        let mut create = vec!["volume", "create", name, "--level", level];
        create.extend(["--layout", "stripe", "--unit", "64KiB"]);
        create.extend(devices.iter().map(String::as_str));
        succeed(folder, &create);
    };
    array("a.toml", "raid5", &["a0", "a1", "a2"]);
    array("b.toml", "raid1", &["b0", "b1"]);
    let create = ["volume", "create", "v.toml", "--part", "volume:a.toml", "--part"];
    let error = refused(folder, &[&create[..], &["volume:a.toml"]].concat());
    assert!(error.contains("already"), "{error}");
    succeed(folder, &[&create[..], &["volume:b.toml"]].concat());
    let capacity = || {
        let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let parts = shown["parts"].as_array().unwrap().clone();
        let bytes = |value: &serde_json::Value| value["capacity_bytes"].as_u64().unwrap();
        assert_eq!(parts.iter().map(bytes).sum::<u64>(), bytes(&shown));
        bytes(&shown)
    };
    let before = capacity();
    // More than the first part holds.
    let load = ["table", "load", "--store", "volume:v.toml", "--tpch", "0.08", "--layout", "nsm"];
    succeed(folder, &load);
    let expected = answer(folder);
    succeed(folder, &["volume", "fail", "a.toml", "0"]);
    succeed(folder, &["volume", "fail", "b.toml", "1"]);
    assert_eq!(answer(folder), expected);
    // A table more does not fit, before an array more is there.
    array("c.toml", "raid0", &["c0", "c1", "c2"]);
    succeed(folder, &["volume", "grow", "v.toml", "--part", "volume:c.toml"]);
    assert!(capacity() > before + (110 << 20));
    assert_eq!(answer(folder), expected);
    let error = refused(folder, &["volume", "map", "v.toml", "5"]);
    assert!(error.contains("volume:a.toml"), "{error}");
    let error = refused(folder, &["volume", "grow", "a.toml", "--part", "volume:b.toml"]);
    assert!(error.contains("--part"), "{error}");
    // A part that grows moves none behind it.
    succeed(folder, &["volume", "replace", "a.toml", "0", "file:a3.img?size=40MiB"]);
    succeed(folder, &["volume", "rebuild", "a.toml"]);
    let before = capacity();
    succeed(folder, &["volume", "grow", "a.toml", "--device", "file:a4.img?size=40MiB"]);
    assert_eq!((capacity(), answer(folder)), (before, expected));
    let itself = "[[part]]\nuri = \"volume:self.toml\"\nblocks = 9\n";
    std::fs::write(folder.join("self.toml"), itself).unwrap();
    let error = refused(folder, &["volume", "show", "self.toml"]);
    assert!(error.contains("contains itself"), "{error}");
}

/// Changes a byte of a device behind the volume's back.
fn corrupt(device: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(device).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn a_scrub_finds_what_changed_behind_the_volumes_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (level, disks) in [("raid5", 3), ("raid6", 4), ("raid1", 2)] {
        make(folder, level, disks);
        assert!(succeed(folder, &["volume", "scrub", "v.toml"]).contains(" 0 stripes differ"));
        corrupt(&folder.join("d1.img"), 20 << 20);
        let (status, found, error) = run(folder, &["volume", "scrub", "v.toml", "--json"]);
        assert!(status == Some(1) && error.contains("--repair"), "{error}");
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["differing_stripes"], 1);
        succeed(folder, &["volume", "scrub", "v.toml", "--repair"]);
        assert!(succeed(folder, &["volume", "scrub", "v.toml"]).contains(" 0 stripes differ"));
        for file in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

/// Without checksums a scrub cannot tell which disk is wrong; reading without each disk in turn does, and changes nothing.
#[test]
fn a_wrong_disk_is_found_by_reading_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid5", 3);
    let expected = answer(folder);
    for at in (2 << 20..60 << 20).step_by(4096) {
        corrupt(&folder.join("d1.img"), at);
    }
    let contents =
        || ["d0.img", "d1.img", "d2.img"].map(|disk| std::fs::read(folder.join(disk)).unwrap());
    let query = |store: &str| run(folder, &["sql", "--store", store, "--format", "csv", QUERY]);
    assert_eq!(query("volume:v.toml").0, Some(1));
    let before = contents();
    for wrong in ["volume:v.toml?without=0", "volume:v.toml?without=2"] {
        let (status, found, _) = query(wrong);
        assert!(status == Some(1) && found.is_empty(), "{wrong}: {found}");
    }
    let (status, found, error) = query("volume:v.toml?without=1");
    assert!(status == Some(0) && found == expected, "{error}");

    let error = refused(folder, &["table", "drop", "--store", "volume:v.toml?without=1", "region"]);
    assert!(error.contains("read"), "{error}");
    for (disks, problem) in [("7", "no disk 7"), ("x", "`x`"), ("0,1", "lost")] {
        let (status, _, error) = query(&format!("volume:v.toml?without={disks}"));
        assert!(status != Some(0) && error.contains(problem), "{disks}: {error}");
    }
    assert!(contents() == before, "reading without a disk writes nothing");
    assert_eq!(states(folder), ["ready", "ready", "ready"]);

    succeed(folder, &["volume", "fail", "v.toml", "1"]);
    succeed(folder, &["volume", "replace", "v.toml", "1", "file:new.img?size=64MiB"]);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(answer(folder), expected);
    assert!(succeed(folder, &["volume", "scrub", "v.toml"]).contains(" 0 stripes differ"));
}

/// With checksums nothing wrong is read, and a scrub puts it right without being told which is wrong.
#[test]
fn checksums_find_which_device_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (level, disks) in [("raid5", 3), ("raid1", 2)] {
        make_with(folder, level, disks, &["--integrity"]);
        let expected = answer(folder);
        // A stretch in which catalog and table lie, of one device: labels and journal are before it.
        for at in (10 << 20..14 << 20).step_by(4096) {
            corrupt(&folder.join("d1.img"), at);
        }
        assert_eq!(answer(folder), expected);
        let found = succeed(folder, &["volume", "scrub", "v.toml", "--json"]);
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert!(found["restored_units"].as_u64().unwrap() >= 30, "{found}");
        assert_eq!(found["differing_stripes"], 0);
        let found = succeed(folder, &["volume", "scrub", "v.toml"]);
        assert!(found.contains(" 0 units rewritten, 0 stripes differ"), "{found}");
        succeed(folder, &["volume", "fail", "v.toml", "0"]);
        assert_eq!(answer(folder), expected);
        for file in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
    let raid0 = ["volume", "create", "v.toml", "--integrity", "--device"];
    let error = refused(folder, &[&raid0[..], &["file:x.img?size=64MiB"]].concat());
    assert!(error.contains("`integrity`"), "{error}");
}

/// A disk failed, and another was overwritten in part: more than RAID 5 survives. The blocks are named, and can be
/// given up; then the volume serves everything again.
#[test]
fn lost_blocks_are_named_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_with(folder, "raid5", 3, &["--integrity"]);
    let shown = succeed(folder, &["volume", "show", "v.toml"]);
    assert!(shown.contains("of each block"), "{shown}");
    succeed(folder, &["volume", "fail", "v.toml", "0"]);
    let shown = succeed(folder, &["volume", "show", "v.toml"]);
    assert!(
        shown.lines().any(|line| line.contains("failed") && line.contains("d0.img")),
        "{shown}"
    );
    for at in (40 << 20..42 << 20).step_by(65536) {
        corrupt(&folder.join("d1.img"), at);
    }
    succeed(folder, &["volume", "replace", "v.toml", "0", "file:new.img?size=64MiB"]);
    let (status, told, error) = run(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(status, Some(1), "{error}");
    assert!(told.contains("lost: ") && error.contains("--clear-lost"), "{told} {error}");
    assert_eq!(states(folder), ["ready"; 3]);
    let scrub = |options: &[&str]| {
        let (status, found, _) =
            run(folder, &[&["volume", "scrub", "v.toml", "--json"], options].concat());
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        (
            status,
            found["lost"].as_array().unwrap().len(),
            found["cleared"].as_array().unwrap().len(),
        )
    };
    // 32 blocks of the second disk, and as many of the first that only they could have told, but for those of parity.
    let (status, lost, cleared) = scrub(&[]);
    assert!(status == Some(1) && (32..=64).contains(&lost) && cleared == 0, "{lost}");
    assert_eq!(scrub(&["--clear-lost"]), (Some(0), 0, lost));
    assert_eq!(scrub(&[]), (Some(0), 0, 0));
    succeed(folder, &["volume", "fail", "v.toml", "2"]);
    answer(folder);
}

#[test]
fn a_spare_takes_the_place_of_a_failed_disk() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_with(folder, "raid5", 3, &["--spare", "file:spare.img?size=64MiB"]);
    let expected = answer(folder);
    succeed(folder, &["volume", "fail", "v.toml", "1"]);
    let done = succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert!(done.contains("spare.img?size=64MiB takes the place of disk 1"), "{done}");
    let described = std::fs::read_to_string(folder.join("v.toml")).unwrap();
    let devices = "devices = [\"file:d0.img\", \"file:spare.img\", \"file:d2.img\"]";
    assert!(described.contains(devices) && !described.contains("spares"), "{described}");
    assert_eq!(states(folder), ["ready"; 3]);
    succeed(folder, &["volume", "fail", "v.toml", "2"]);
    assert_eq!(answer(folder), expected);
    // There is no other.
    let error = refused(folder, &["volume", "rebuild", "v.toml"]);
    assert!(error.contains("disk 2"), "{error}");
}

#[test]
fn devices_that_are_divided_otherwise_than_before_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut create = vec!["volume", "create", "v.toml", "--level", "raid5", "--unit", "track"];
    let names =
        ["a", "b", "c"].map(|name| format!("--device=file:{name}.img?size=64MiB&ensemble=64KiB"));
    create.extend(names.iter().map(String::as_str));
    succeed(folder, &create);
    let open = |ensemble: &str| {
        let names = ["a", "b", "c"].map(|name| format!("--device=file:{name}.img{ensemble}"));
        let mut open = vec!["volume", "open", "again.toml"];
        open.extend(names.iter().map(String::as_str));
        run(folder, &open)
    };
    let (status, _, error) = open("");
    assert_eq!(status, Some(1));
    assert!(error.contains("other track boundaries"), "{error}");
    assert!(!folder.join("again.toml").exists());
    assert_eq!(open("?ensemble=64KiB").0, Some(0));
    assert!(open("?ensemble=64KiB").2.contains("open it without --device"));
}

/// The default layout, over a file that ends just before an ensemble does: without it rows come out as long.
#[test]
fn the_smallest_disk_of_a_quadrangle_volume_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut create = vec!["volume", "create", "v.toml", "--level", "raid5"];
    let sizes = ["65532KiB", "128MiB", "128MiB"];
    let names: Vec<String> =
        (0..3).map(|disk| format!("--device=file:d{disk}.img?size={}", sizes[disk])).collect();
    create.extend(names.iter().map(String::as_str));
    succeed(folder, &create);
    succeed(folder, &["volume", "fail", "v.toml", "0"]);
    std::fs::remove_file(folder.join("d0.img")).unwrap();
    succeed(folder, &["volume", "show", "v.toml"]);
    succeed(folder, &["volume", "open", "v.toml"]);
    succeed(folder, &["volume", "replace", "v.toml", "0", "file:new.img?size=96MiB"]);
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 3]);
}

/// Labels are told from others also where time is virtual: numbers that no other has are so from command to command.
#[test]
fn simulated_disks_that_were_written_apart_are_not_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [a, b] = ["a", "b"].map(|name| format!("--device=sim:hp-c2247?data={name}.img"));
    let raid1 = ["--level", "raid1", "--layout", "stripe", "--unit", "64KiB"];
    let create = ["volume", "create", "v.toml"];
    succeed(folder, &[&create[..], &raid1, &[&a, &b]].concat());
    for (side, device) in [("a.toml", &a), ("b.toml", &b)] {
        succeed(folder, &["volume", "open", side, device, "--degraded"]);
        let store = format!("volume:{side}");
        succeed(folder, &["kv", "--store", &store, "put", "fruit", side]);
    }
    let error = refused(folder, &["kv", "--store", "volume:v.toml", "get", "fruit"]);
    assert!(error.contains("two separate groups"), "{error}");
    assert_eq!(succeed(folder, &["kv", "--store", "volume:b.toml", "get", "fruit"]), "b.toml\n");
}

#[test]
fn a_disk_whose_labels_are_gone_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder, "raid5", 3);
    let expected = answer(folder);
    let file = std::fs::File::options().write(true).open(folder.join("d1.img")).unwrap();
    file.write_all_at(&[0; 64 << 10], 0).unwrap();
    drop(file);
    let error = refused(folder, &["volume", "rebuild", "v.toml"]);
    assert!(error.contains("file:d1.img (no volume label can be read)"), "{error}");
    succeed(folder, &["volume", "open", "v.toml", "--degraded"]);
    assert_eq!(answer(folder), expected);
    succeed(folder, &["volume", "replace", "v.toml", "1", "file:new.img?size=64MiB"]);
    let described = std::fs::read_to_string(folder.join("v.toml")).unwrap();
    assert!(described.contains("new.img") && !described.contains("d1.img"), "{described}");
    succeed(folder, &["volume", "rebuild", "v.toml"]);
    assert_eq!(states(folder), ["ready"; 3]);
    assert_eq!(answer(folder), expected);
}
