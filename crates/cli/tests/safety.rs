//! Nothing that belongs to somebody else is overwritten, and nothing comes into being that was not asked for.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{moirai, run, succeed};

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every command that takes a device into use refuses the image, names what it holds, and changes nothing.
fn check_refused(folder: &Path, image: &str, holds: &str) {
    let before = std::fs::read(folder.join(image)).unwrap();
    std::fs::write(folder.join("t.csv"), "a\n1\n").unwrap();
    let uri = format!("file:{image}");
    let store = format!("--store={uri}");
    let device = format!("--device={uri}");
    let raid1 = ["volume", "create", "v.toml", "--level=raid1", "--device=file:o.img?size=8MiB"];
    for command in [
        &["table", "load", &store, "--csv", "t.csv"][..],
        &["kv", &store, "put", "a", "b"],
        &["kv", "--store=file:o.img?size=8MiB", &format!("--log={uri}"), "put", "a", "b"],
        &[&raid1[..], &[&device]].concat(),
        &["volume", "create", "v.toml", &device],
        &["volume", "create", "v.toml", "--part=file:o.img?size=8MiB", &format!("--part={uri}")],
    ] {
        let (status, output, error) = run(folder, command);
        assert_eq!(status, Some(1), "{command:?}: {output}{error}");
        assert!(error.contains(holds) && error.contains("--force"), "{command:?}: {error}");
        assert!(!folder.join("v.toml").exists() && !folder.join("o.img").exists(), "{command:?}");
    }
    for command in
        [&["table", "list", &store][..], &["sql", &store, "select 1"], &["kv", &store, "get", "a"]]
    {
        let (status, _, error) = run(folder, command);
        assert_eq!(status, Some(1), "{command:?}: {error}");
    }
    assert!(std::fs::read(folder.join(image)).unwrap() == before, "{image} was changed");
}

/// A store whose device a RAID took over: the first block is still the store's.
#[test]
fn a_device_that_a_raid_took_over_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.csv"), "a\n1\n").unwrap();
    let load =
        |store, table| run(folder, &["table", "load", store, "--csv=t.csv", "--table", table]);
    assert_eq!(load("--store=file:s?size=16MiB", "one").0, Some(0));
    succeed(folder, &["kv", "--store=file:k?size=16MiB", "put", "a", "b"]);
    for file in ["s", "k"] {
        let file = std::fs::File::options().write(true).open(folder.join(file)).unwrap();
        // Version 1.2 of the md superblock, as mdadm --create writes it.
        file.write_all_at(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0], 4096).unwrap();
    }
    let (status, _, error) = load("--store=file:s", "two");
    assert_eq!((status, error.contains("software RAID")), (Some(1), true), "{error}");
    let (status, _, error) = run(folder, &["kv", "--store=file:k", "put", "a", "c"]);
    assert_eq!((status, error.contains("software RAID")), (Some(1), true), "{error}");
    // Reading harms nothing.
    assert!(succeed(folder, &["table", "list", "--store=file:s"]).contains("one"));
}

/// What a shell leaves of a variable that is not set bounds nothing; and parts have no level.
#[test]
fn options_that_would_do_something_else_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["kv", "--store=file:kv.img?size=16MiB", "put", "a", "b"]);
    for range in [&["--prefix", ""][..], &["--from", ""], &["--from="]] {
        let command = [&["kv", "--store=file:kv.img", "delete"], range].concat();
        let (status, _, error) = run(folder, &command);
        assert_eq!(status, Some(2), "{command:?}: {error}");
    }
    assert_eq!(succeed(folder, &["kv", "--store=file:kv.img", "get", "a"]), "b\n");
    let parts = ["--part=file:a?size=16MiB", "--part=file:b?size=16MiB"];
    for option in ["--level=raid1", "--layout=stripe", "--unit=64KiB", "--depth=2", "--zone=0"] {
        let command = [&["volume", "create", "v.toml", option], &parts[..]].concat();
        let (status, _, error) = run(folder, &command);
        assert_eq!(status, Some(2), "{command:?}: {error}");
    }
    assert_eq!(names(folder), ["kv.img"]);
}

/// With --force, too, nothing is lost by a command that cannot be carried out.
#[test]
fn force_clears_nothing_before_the_command_is_known_to_be_possible() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = vec![7; 16 << 20];
    std::fs::write(folder.join("used.img"), &content).unwrap();
    std::fs::write(folder.join("t.csv"), "a\n1\n").unwrap();
    let three = [0, 1, 2].map(|disk| format!("--device=file:d{disk}.img?size=16MiB"));
    let raid5 = ["volume", "create", "v.toml", "--level=raid5", &three[0], &three[1], &three[2]];
    succeed(folder, &raid5);
    let used = "--device=file:used.img";
    for command in [
        &["volume", "create", "w.toml", "--force", used, "--level=raid5"][..],
        &["volume", "create", "w.toml", "--force", used, "--device=file:missing/x?size=16MiB"],
        &["volume", "create", "w.toml", "--force", used, "--layout=quadrangle"],
        &[
            "volume",
            "create",
            "w.toml",
            "--force",
            "--part=file:n?size=8MiB",
            "--part=file:used.img",
            "--part=file:used.img",
        ],
        &["volume", "replace", "v.toml", "7", "file:used.img", "--force"],
        &["volume", "replace", "v.toml", "1", "file:used.img", "--force"],
        &[
            "kv",
            "--store=file:used.img",
            "--log=file:missing/x?size=1MiB",
            "--force",
            "put",
            "a",
            "b",
        ],
        &["kv", "--store=file:used.img", "--log-size=1GiB", "--force", "put", "a", "b"],
        &["kv", "--store=file:used.img", "--leaf=128KiB", "--force", "put", "a", "b"],
        &["kv", "--store=file:used.img", "--memory=1KiB", "--force", "put", "a", "b"],
        &["kv", "--store=file:used.img", "--force", "--hex", "put", "zz", "01"],
        &["kv", "--store=file:used.img", "--force", "--hex", "put", "01", "zz"],
        &["kv", "--store=file:used.img", "--force", "--hex", "merge", "zz", "1"],
        &["kv", "--store=file:used.img", "--force", "load", "used.img"],
        &["kv", "--store=file:used.img", "--force", "load", "missing.tsv"],
        &["kv", "--store=file:used.img", "--force", "load", "."],
        &["kv", "--store=file:used.img", "--force", "batch", "missing.tsv"],
        &["kv", "--store=file:used.img", "--force", "restore", "missing.dump"],
        &["kv", "--store=file:used.img", "--force", "put", "a", "--file", "missing"],
        &["table", "load", "--store=file:used.img", "--force", "--csv", "missing.csv"],
        &["table", "load", "--store=file:used.img", "--force", "--csv", "t.csv", "--key", "b"],
        &["volume", "create", "missing/w.toml", "--force", used],
        &["volume", "create", "used.img", "--force", used],
        &["volume", "create", "new.img", "--force", used, "--device=file:new.img?size=16MiB"],
    ] {
        let (status, _, error) = run(folder, command);
        assert!(status != Some(0), "{command:?}: {error}");
        assert!(std::fs::read(folder.join("used.img")).unwrap() == content, "{command:?}: {error}");
    }
    // Too small for a store.
    let content = vec![7; 1500 << 10];
    std::fs::write(folder.join("small.img"), &content).unwrap();
    succeed(folder, &["kv", "--store=file:whole.kv?size=16MiB", "put", "a", "b"]);
    for command in [
        &["kv", "--store=file:small.img", "--force", "put", "a", "b"][..],
        &["store", "restore", "--from=file:whole.kv", "--store=file:small.img", "--force"],
        &["store", "backup", "--store=file:whole.kv", "--to=file:small.img", "--force"],
    ] {
        let (status, _, error) = run(folder, command);
        assert!(status == Some(1) && error.contains("needs"), "{command:?}: {error}");
        assert!(std::fs::read(folder.join("small.img")).unwrap() == content, "{command:?}");
    }
}

/// A volume with data can become the first part of another, and keeps them.
#[test]
fn a_volume_with_data_becomes_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.csv"), "a\n1\n").unwrap();
    succeed(folder, &["volume", "create", "a.toml", "--device=file:a.img?size=16MiB"]);
    succeed(folder, &["table", "load", "--store=volume:a.toml", "--csv=t.csv"]);
    let create =
        ["volume", "create", "all.toml", "--part=volume:a.toml", "--part=file:b.img?size=16MiB"];
    let (status, _, error) = run(folder, &create);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.contains("which the volume keeps"), "{error}");
    let sum = ["sql", "--store=volume:all.toml", "--format=csv", "select sum(a) as s from t"];
    assert_eq!(succeed(folder, &sum), "s\n1\n");
    // A part that comes later must be blank.
    let (status, _, error) = run(folder, &["volume", "grow", "all.toml", "--part=file:a.img"]);
    assert_eq!((status, error.contains("--force")), (Some(1), true), "{error}");
    succeed(folder, &["volume", "grow", "all.toml", "--part=file:c.img?size=16MiB"]);
    assert_eq!(succeed(folder, &sum), "s\n1\n");
}

/// A disk of a volume that is gone does not come back empty.
#[test]
fn a_missing_member_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disks = [0, 1].map(|disk| format!("--device=sim:quantum-atlas-10k?data=d{disk}.img"));
    succeed(folder, &["volume", "create", "v.toml", &disks[0], &disks[1]]);
    std::fs::remove_file(folder.join("d1.img")).unwrap();
    for command in [
        &["table", "load", "--store=volume:v.toml", "--tpch=0.001"][..],
        &["kv", "--store=volume:v.toml", "put", "a", "b"],
    ] {
        let (status, _, error) = run(folder, command);
        assert!(status != Some(0) && error.contains("d1.img"), "{error}");
        assert!(!folder.join("d1.img").exists());
    }
}

/// Images that the formats' own tools make.
#[test]
fn images_of_file_systems_and_partition_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image =
        |name: &str| std::fs::File::create(folder.join(name)).unwrap().set_len(320 << 20).unwrap();
    let check = |program: &str, arguments: &[&str], holds: &str| {
        image("i.img");
        let mut make = Command::new(program);
        make.args(arguments).arg("i.img").current_dir(folder);
        let Ok(made) = make.stdout(Stdio::null()).stderr(Stdio::null()).status() else {
            // `cargo xtask test` installs it. Every Debian has these two.
            assert!(!["mkfs.ext4", "mkswap"].contains(&program), "{program} is not installed");
            eprintln!("{program} is not installed: its image is not tried");
            return;
        };
        assert!(made.success(), "{program}");
        check_refused(folder, "i.img", holds);
        std::fs::remove_file(folder.join("i.img")).unwrap();
    };
    check("mkfs.ext4", &["-q"], "an ext2, ext3 or ext4 file system");
    check("mkfs.xfs", &["-q"], "an XFS file system");
    check("mkfs.btrfs", &["-q"], "a Btrfs file system");
    check("mkfs.fat", &[], "a FAT file system");
    check("mkswap", &["-q"], "Linux swap space");
    check("sgdisk", &["--new=1:0:0"], "a GPT partition table");
}

/// Signatures of formats without a tool at hand, and of our own stores.
#[test]
fn databases_and_other_stores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let check = |content: &[u8], at: u64, holds: &str| {
        let file = std::fs::File::create(folder.join("i.img")).unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(content, at).unwrap();
        check_refused(folder, "i.img", holds);
    };
    check(b"SQLite format 3\0", 0, "a SQLite database");
    check(b"DUCK", 8, "a DuckDB database");
    check(b"PAR1", 0, "a Parquet file");
    check(b"CD001", 0x8001, "an ISO 9660 image");
    check(&[0xfc, 0x4e, 0x2b, 0xa9], 4096, "a member of a Linux software RAID");
    check(b"LABELONE", 512, "an LVM physical volume");
    check(b"LUKS\xba\xbe", 0, "a LUKS-encrypted volume");
    check(b"x", (16 << 20) - 1, "does not know (at byte 16777215)");

    std::fs::write(folder.join("t.csv"), "a\n1\n").unwrap();
    // With --force, and what is lost is named.
    std::fs::write(folder.join("k"), vec![0; 16 << 20]).unwrap();
    let file = std::fs::File::options().write(true).open(folder.join("k")).unwrap();
    file.write_all_at(b"SQLite format 3\0", 0).unwrap();
    let load = ["table", "load", "--store=file:k", "--csv", "t.csv", "--force"];
    let (status, _, error) = run(folder, &load);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.contains("held a SQLite database"), "{error}");
    assert!(succeed(folder, &["table", "list", "--store=file:k"]).contains(" t "));
    // Trees and tables share a store, which --force is not for.
    succeed(folder, &["kv", "--store=file:k", "put", "a", "b"]);
    let (status, _, error) = run(folder, &[&load[..], &["--table", "u"]].concat());
    assert!(status == Some(2) && error.contains("leave --force out"), "{error}");
    assert_eq!(succeed(folder, &["kv", "--store=file:k", "get", "a"]), "b\n");
}

/// Between the first and the last MiB a file is looked at where it has no holes.
#[test]
fn data_in_the_middle_of_a_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image = std::fs::File::create(folder.join("m.img")).unwrap();
    image.set_len(16 << 20).unwrap();
    image.write_all_at(b"x", 9 << 20).unwrap();
    check_refused(folder, "m.img", "does not know (at byte 9437184)");
}

/// Disks of a striped volume have labels: none is blank to other commands, whether it holds data of the volume yet or not.
#[test]
fn disks_of_a_striped_volume_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let device = |disk| format!("--device=file:u{disk}?size=64MiB");
    succeed(folder, &["volume", "create", "v.toml", &device(1), &device(2), &device(3)]);
    for disk in ["u1", "u2", "u3"] {
        for command in [
            &["volume", "create", "w.toml", &format!("--device=file:{disk}")][..],
            &["kv", &format!("--store=file:{disk}"), "put", "a", "b"],
            &["table", "load", &format!("--store=file:{disk}"), "--tpch=0.001"],
        ] {
            let (status, _, error) = run(folder, command);
            assert_eq!(status, Some(1), "{disk}: {error}");
            assert!(error.contains("a disk of a volume of Moirai"), "{disk}: {error}");
        }
    }
    succeed(folder, &["kv", "--store=volume:v.toml", "put", "a", "b"]);
    // In any order, and not without one of them.
    let again = ["u3", "u1", "u2"].map(|disk| format!("--device=file:{disk}"));
    succeed(folder, &["volume", "open", "again.toml", &again[0], &again[1], &again[2]]);
    assert_eq!(succeed(folder, &["kv", "--store=volume:again.toml", "get", "a"]), "b\n");
    std::fs::rename(folder.join("u2"), folder.join("away")).unwrap();
    let (status, _, error) = run(folder, &["kv", "--store=volume:v.toml", "get", "a"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("disks [1] of 3 are missing") && error.contains("u2"), "{error}");
}

/// A volume that was described by hand may have no labels: then what its disks hold between their ends protects them.
#[test]
fn disks_without_labels_that_hold_data_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for disk in ["u1", "u2", "u3"] {
        std::fs::File::create(folder.join(disk)).unwrap().set_len(64 << 20).unwrap();
    }
    let description =
        "devices = [\"file:u1\", \"file:u2\", \"file:u3\"]\n[stripe]\nunit = \"1MiB\"\n";
    std::fs::write(folder.join("v.toml"), description).unwrap();
    let lines: String = (0..20_000).map(|key| format!("key {key}\tvalue {key}\n")).collect();
    std::fs::write(folder.join("lines.tsv"), lines).unwrap();
    succeed(folder, &["kv", "--store=volume:v.toml", "load", "lines.tsv"]);
    let mut has_blank_ends = false;
    for disk in ["u1", "u2", "u3"] {
        let content = std::fs::read(folder.join(disk)).unwrap();
        let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if is_blank(&content) {
            continue;
        }
        has_blank_ends |= is_blank(&content[..1 << 20]) && is_blank(&content[63 << 20..]);
        let create = &["volume", "create", "w.toml", &format!("--device=file:{disk}")];
        let (status, _, error) = run(folder, create);
        assert_eq!(status, Some(1), "{disk}: {error}");
        assert!(error.contains("which would be lost"), "{disk}: {error}");
        let put = &["kv", &format!("--store=file:{disk}"), "put", "a", "b"];
        let (status, _, error) = run(folder, put);
        assert_eq!(status, Some(1), "{disk}: {error}");
    }
    assert!(has_blank_ends, "the ends of each disk tell that it holds something");
    let count = succeed(folder, &["kv", "--store=volume:v.toml", "count"]);
    assert_eq!(count.trim(), "20000");
}

#[test]
fn reading_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let volume = "devices = [\"sim:quantum-atlas-10k?data=d0.img\", \"file:d1.img\"]\n[stripe]\nunit = \"64KiB\"\n";
    let simulated = volume.replace("file:d1.img", "sim:quantum-atlas-10k?data=d1.img");
    std::fs::write(folder.join("v.toml"), simulated).unwrap();
    let before = names(folder);
    for store in [
        "volume:v.toml",
        "sim:quantum-atlas-10k?data=typo.img",
        "file:typo.img",
        "file:typo.img?size=8MiB",
    ] {
        let store_option = format!("--store={store}");
        for command in [
            &["table", "list", &store_option][..],
            &["table", "show", &store_option, "t"],
            &["table", "scan", &store_option, "t"],
            &["table", "drop", &store_option, "t"],
            &["sql", &store_option, "select 1"],
            &["kv", &store_option, "get", "a"],
            &["kv", &store_option, "delete", "a"],
            &["kv", &store_option, "scan"],
            &["kv", &store_option, "stats"],
            &["device", "show", store],
        ] {
            let (status, _, error) = run(folder, command);
            assert!(status == Some(1) || status == Some(2), "{command:?}: {error}");
            assert!(error.contains("there is no"), "{command:?}: {error}");
            assert_eq!(names(folder), before, "{command:?}");
        }
    }
    for command in [
        &["volume", "show", "v.toml"][..],
        &["volume", "map", "v.toml", "0"],
        &["volume", "bench", "v.toml"],
    ] {
        assert!(run(folder, command).0 != Some(0), "{command:?}");
        assert_eq!(names(folder), before, "{command:?}");
    }
}

#[test]
fn a_failed_creation_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("bad.csv"), "a,a\n1,2\n").unwrap();
    std::fs::write(folder.join("late.csv"), "a\n1\nx\n").unwrap();
    std::fs::write(folder.join("used.img"), vec![1; 8 << 20]).unwrap();
    let before = names(folder);
    let new = "--store=file:new.img?size=8MiB";
    for command in [
        &["table", "load", new, "--csv", "bad.csv"][..],
        &["table", "load", new, "--csv", "late.csv", "--schema", "a:bigint"],
        &["table", "load", new, "--tpch", "0.1"],
        &["kv", new, "--log=file:used.img", "put", "a", "b"],
        &["kv", new, "--log-size=16MiB", "put", "a", "b"],
        &["kv", new, "load", "missing.tsv"],
        &["kv", new, "--hex", "put", "0", "0"],
        &["volume", "create", "v.toml", "--device=file:n0.img?size=8MiB", "--device=file:used.img"],
        &["volume", "create", "v.toml", "--level=raid5", "--device=file:n0.img?size=64MiB"],
        &["volume", "create", "v.toml", "--device=sim:quantum-atlas-10k?data=n.img", "--depth=99"],
    ] {
        let (status, _, error) = run(folder, command);
        assert!(status != Some(0), "{command:?}: {error}");
        assert_eq!(names(folder), before, "{command:?}: {error}");
    }
}

#[test]
fn paths_of_a_description_are_relative_to_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, elsewhere) = (folder.path(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.join("sub")).unwrap();
    let devices = [0, 1].map(|disk| format!("--device=sim:quantum-atlas-10k?data=sub/d{disk}.img"));
    succeed(folder, &["volume", "create", "sub/v.toml", &devices[0], &devices[1]]);
    let text = std::fs::read_to_string(folder.join("sub/v.toml")).unwrap();
    assert!(text.contains("data=d0.img") && !text.contains("sub/"), "{text}");
    let store = format!("volume:{}", folder.join("sub/v.toml").display());
    succeed(elsewhere.path(), &["table", "load", "--store", &store, "--tpch", "0.001"]);
    assert!(succeed(folder, &["table", "list", "--store=volume:sub/v.toml"]).contains("lineitem"));
    assert!(
        succeed(&folder.join("sub"), &["table", "list", "--store=volume:v.toml"])
            .contains("lineitem")
    );
    assert!(names(elsewhere.path()).is_empty());
    assert_eq!(names(folder), ["sub"]);
}

#[test]
fn output_files_are_not_overwritten_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let drive = "sim:quantum-atlas-10k";
    succeed(folder, &["volume", "create", "v.toml", "--device", drive]);
    std::fs::write(folder.join("trace"), "0.0 0 100 4 1\n").unwrap();
    std::fs::write(folder.join("m.trace"), "R Miss 5 4 9000.0 2.0\n".repeat(50)).unwrap();
    let measured = ["--device", drive, "--trace", "m.trace"];
    for command in [
        &["device", "draw", drive, "--out", "precious"][..],
        &["volume", "draw", "v.toml", "--out", "precious"],
        &["replay", "--device", drive, "--trace", "trace", "--per-request", "precious"],
        &[&["device", "validate", "--svg", "precious"][..], &measured].concat(),
        &[&["device", "validate", "--per-request", "precious"][..], &measured].concat(),
    ] {
        std::fs::write(folder.join("precious"), "mine").unwrap();
        let (status, _, error) = run(folder, command);
        assert_eq!(status, Some(2), "{command:?}: {error}");
        assert!(error.contains("precious exists") && error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(folder.join("precious")).unwrap(), "mine");
        succeed(folder, &[command, &["--force"]].concat());
        assert_ne!(
            std::fs::read_to_string(folder.join("precious")).unwrap(),
            "mine",
            "{command:?}"
        );
    }
}

#[test]
fn several_readers_share_a_store_and_a_writer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=32MiB", "--tpch", "0.001"]);
    readers_share(folder, "file:s", "s");
}

/// The disks of a striped volume have labels that opening does not write.
#[test]
fn several_readers_share_a_store_on_a_striped_volume() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let device = |disk| format!("--device=file:u{disk}?size=32MiB");
    succeed(folder, &["volume", "create", "v.toml", &device(1), &device(2)]);
    succeed(folder, &["table", "load", "--store=volume:v.toml", "--tpch", "0.001"]);
    readers_share(folder, "volume:v.toml", "u1");
}

/// Two read `store` at the same time, and who wants to change it is told who uses `file`.
fn readers_share(folder: &Path, store: &str, file: &str) {
    let store = format!("--store={store}");
    // A reader that holds the store open while it waits for statements.
    let mut reader = moirai(folder, &["sql", &store, "--read-only", "--format=csv"]);
    let mut reader =
        reader.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = reader.stdin.take().unwrap();
    let mut output = std::io::BufReader::new(reader.stdout.take().unwrap());
    let mut ask = || {
        use std::io::{BufRead, Write};
        input.write_all(b"select count(*) as n from nation;\n").unwrap();
        let mut lines = String::new();
        output.read_line(&mut lines).unwrap();
        output.read_line(&mut lines).unwrap();
        lines
    };
    assert_eq!(ask(), "n\n25\n");
    let count = ["sql", &store, "--format=csv", "select count(*) as n from region"];
    assert_eq!(succeed(folder, &count), "n\n5\n");
    let (status, _, error) = run(folder, &["table", "drop", &store, "nation"]);
    assert_eq!(status, Some(1));
    let holder = format!("{file} is in use by process {} (moirai)", reader.id());
    assert!(error.contains(&holder), "{error}");
    assert_eq!(ask(), "n\n25\n");
    drop(input);
    assert!(reader.wait().unwrap().success());
    succeed(folder, &["table", "drop", &store, "nation"]);
}

/// Even with --force nothing is written over the devices of the command itself, whatever they are called.
#[test]
fn outputs_are_no_devices_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disks = [0, 1, 2].map(|disk| format!("--device=file:d{disk}.img?size=16MiB"));
    let raid5 = ["volume", "create", "v.toml", "--level=raid5", &disks[0], &disks[1], &disks[2]];
    succeed(folder, &raid5);
    succeed(folder, &["volume", "create", "outer.toml", "--part=volume:v.toml"]);
    succeed(folder, &["kv", "--store=volume:outer.toml", "put", "a", "b"]);
    succeed(folder, &["kv", "--store=file:x.kv?size=16MiB", "put", "a", "b"]);
    std::fs::hard_link(folder.join("x.kv"), folder.join("hard")).unwrap();
    std::os::unix::fs::symlink("x.kv", folder.join("soft")).unwrap();
    for command in [
        &["volume", "draw", "v.toml", "--out", "d1.img"][..],
        &["volume", "draw", "outer.toml", "--out", "d1.img"],
        &["volume", "draw", "outer.toml", "--out", "v.toml"],
        &["store", "map", "--store=volume:outer.toml", "--out", "d2.img"],
        &["store", "map", "--store=file:x.kv", "--out", "hard"],
        &["store", "map", "--store=file:x.kv", "--out", "soft"],
    ] {
        let (status, _, error) = run(folder, &[command, &["--force"]].concat());
        assert_eq!(status, Some(2), "{command:?}: {error}");
        assert!(error.contains("an input of this command"), "{command:?}: {error}");
    }
    for store in ["--store=volume:outer.toml", "--store=file:x.kv"] {
        assert_eq!(succeed(folder, &["kv", store, "get", "a"]), "b\n");
    }
}

/// Standard output that takes nothing is named, and whether the change was made.
#[test]
fn a_full_standard_output_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("lines"), "put\ta\tb\n").unwrap();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for (command, told) in [
        (&["kv", "--store=file:k?size=16MiB", "batch", "lines"][..], "the only change is loaded"),
        (&["kv", "--store=file:k", "get", "a"], "No space left"),
        (&["kv", "--store=file:k", "scan"], "No space left"),
        (&["kv", "--store=file:k", "dump"], "No space left"),
    ] {
        let mut tool = moirai(folder, command);
        let output = tool.stdout(full()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("writing standard output") && error.contains(told), "{error}");
    }
}

/// Whoever reads standard output or standard error may go away.
#[test]
fn closed_pipes_are_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let tool = env!("CARGO_BIN_EXE_moirai");
        // The reader is gone before the tool writes.
        let script = format!("(sleep 0.3; {tool} {arguments}; echo $? >&3) 3>status 2>&1 | true");
        let mut shell = Command::new("sh");
        assert!(shell.arg("-c").arg(script).current_dir(folder.path()).status().unwrap().success());
        std::fs::read_to_string(folder.path().join("status")).unwrap().trim().to_owned()
    };
    assert_eq!(run("device show nonsense"), "2");
    assert_eq!(run("volume show missing.toml"), "1");
    assert_eq!(run("device import missing.diskspecs"), "1");
    assert_eq!(run("lab list"), "0");
}

/// Of several commands that create the same store at once one wins, and nobody removes its file.
#[test]
fn creating_at_once_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for round in 0..10 {
        let store = format!("--store=file:s{round}?size=8MiB");
        let putters: Vec<_> = (0..4)
            .map(|key| {
                let key = format!("key{key}");
                let mut put = moirai(folder, &["kv", &store, "put", &key, "value"]);
                put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        let won: Vec<bool> =
            putters.into_iter().map(|mut put| put.wait().unwrap().success()).collect();
        // Whoever said that it was done, was.
        for (key, _) in won.iter().enumerate().filter(|(_, won)| **won) {
            let key = format!("key{key}");
            assert_eq!(succeed(folder, &["kv", &store, "get", &key]), "value\n", "{round} {won:?}");
        }
        assert!(won.contains(&true), "{round}");
    }
}
