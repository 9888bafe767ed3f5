//! Where a store lies on its device, as `moirai store map` shows it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

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
fn no_extent_crosses_a_boundary_that_it_need_not() {
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
            assert_eq!(number("boundaries_crossed"), number("boundaries_needed"), "{store}: {row}");
        }
        let printed =
            succeed(folder, &["store", "map", "--store", store, "--out", "map.svg", "--force"]);
        assert!(printed.contains("leaves") && printed.contains("default"), "{printed}");
    }
    let again = ["store", "map", "--store", "file:store.kv", "--out"];
    for (out, why) in [("map.svg", "map.svg exists"), ("store.kv", "is an input of this command")] {
        let (status, _, error) = run(folder, &[&again[..], &[out]].concat());
        assert!(status == Some(2) && error.contains(why), "{error}");
    }
}
