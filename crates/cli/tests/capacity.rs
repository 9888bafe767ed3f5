//! What a volume uses of its devices when the command line says nothing about the layout.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::path::Path;

use common::{run, succeed};

const LEVELS: [&str; 6] = ["raid0", "raid1", "raid10", "raid4", "raid5", "raid6"];

/// Devices of data in a stripe over `disks`; `None` where the level is not possible.
fn data_devices(level: &str, disks: usize) -> Option<usize> {
    match level {
        "raid0" => Some(disks),
        "raid1" => (disks >= 2).then_some(1),
        "raid10" => (disks >= 2 && disks.is_multiple_of(2)).then_some(disks / 2),
        "raid4" | "raid5" => (disks >= 3).then_some(disks - 1),
        _ => (disks >= 4).then_some(disks - 2),
    }
}

/// Makes a volume of files of these sizes; gives its capacity in bytes, its layout and what was noted.
fn made(folder: &Path, level: &str, sizes_mib: &[u64]) -> (u64, String, String) {
    let mut create =
        vec!["volume".into(), "create".into(), "v.toml".into(), format!("--level={level}")];
    for (disk, size) in sizes_mib.iter().enumerate() {
        create.push(format!("--device=file:d{disk}.img?size={size}MiB"));
    }
    let (status, _, notes) = run(folder, &create.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(status, Some(0), "{level} {sizes_mib:?}: {notes}");
    let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    std::fs::remove_file(folder.join("v.toml")).unwrap();
    for disk in 0..sizes_mib.len() {
        std::fs::remove_file(folder.join(format!("d{disk}.img"))).unwrap();
    }
    let layout = shown.get("layout").unwrap().as_str().unwrap().to_owned();
    (shown.get("capacity_bytes").unwrap().as_u64().unwrap(), layout, notes)
}

/// 2 to 8 files of a gigabyte: 95 % or more of what the level could give, in stripes.
#[test]
fn files_of_one_size_are_used() {
    let folder = tempfile::tempdir().unwrap();
    for level in LEVELS {
        for disks in 2..=8 {
            let Some(data) = data_devices(level, disks) else { continue };
            let (capacity, layout, notes) = made(folder.path(), level, &vec![1024; disks]);
            let percent = capacity as f64 / (data as f64 * 1024.0 * f64::from(1 << 20)) * 100.0;
            eprintln!("{level:7} {disks} x 1 GiB  {percent:5.1} %");
            assert_eq!(layout, "stripe");
            assert!(percent >= 95.0, "{level} {disks}: {percent}");
            assert!(notes.is_empty(), "{notes}");
        }
    }
}

/// A volume uses files of different sizes up to the size of the smallest. The command notes how much stays unused.
#[test]
fn files_of_different_sizes_are_used_up_to_the_smallest() {
    let folder = tempfile::tempdir().unwrap();
    for level in LEVELS {
        for disks in 2..=8 {
            let Some(data) = data_devices(level, disks) else { continue };
            let sizes: Vec<u64> = (0..disks as u64).map(|disk| 1024 + 256 * disk).collect();
            let (capacity, _, notes) = made(folder.path(), level, &sizes);
            let percent = capacity as f64 / (data as f64 * 1024.0 * f64::from(1 << 20)) * 100.0;
            eprintln!(
                "{level:7} {disks} x 1 to {} GiB  {percent:5.1} % of the smallest",
                1.0 + 0.25 * (disks - 1) as f64
            );
            assert!(percent >= 95.0, "{level} {disks}: {percent}");
            assert!(notes.contains("differ in size") && notes.contains("--part"), "{notes}");
        }
    }
}

/// On small devices labels and the journal take much of the room. The command notes that.
#[test]
fn what_takes_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, notes) = made(folder.path(), "raid5", &[8; 8]);
    assert!(notes.contains("labels and the journal") && notes.contains("--unit"), "{notes}");
}

/// Disks lose time between tracks: quadrangles, of a depth that keeps one revolution (thesis 6.3.3, table 6.2).
#[test]
fn disks_get_quadrangles_of_the_depth_of_table_6_2() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (drive, depth) in [("quantum-atlas-10k", 6), ("seagate-cheetah-36es", 6)] {
        for level in ["raid0", "raid5"] {
            let device = format!("--device=sim:{drive}");
            let level = format!("--level={level}");
            let create = ["volume", "create", "v.toml", &level, &device, &device, &device];
            let (status, _, notes) = run(folder, &create);
            assert_eq!(status, Some(0), "{notes}");
            let shown = succeed(folder, &["volume", "show", "v.toml", "--json"]);
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            std::fs::remove_file(folder.join("v.toml")).unwrap();
            assert_eq!(shown.get("layout").unwrap(), "quadrangle");
            let number = |key: &str| shown.get(key).unwrap().as_f64().unwrap();
            let share = if level.ends_with("raid5") { 2.0 / 3.0 } else { 1.0 };
            let percent = number("capacity_bytes") / number("raw_capacity_bytes") / share * 100.0;
            eprintln!("{drive} {level}: d = {}, {percent:.1} %", number("depth"));
            assert_eq!(number("depth"), f64::from(depth), "{drive}");
            assert!(
                percent >= 95.0 || notes.contains("--depth"),
                "{drive} {level}: {percent} {notes}"
            );
        }
    }
}

/// Without a delay between ensembles no depth is better than another: quadrangles of files must be asked for whole.
#[test]
fn quadrangles_of_files_need_a_depth() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let create =
        ["volume", "create", "v.toml", "--device=file:a.img?size=64MiB", "--layout=quadrangle"];
    let (status, _, error) = run(folder, &create);
    assert_eq!(status, Some(2));
    assert!(error.contains("--layout") && error.contains("--depth"), "{error}");
    assert!(!folder.join("a.img").exists());
    succeed(folder, &[&create[..], &["--depth=4"]].concat());
}
