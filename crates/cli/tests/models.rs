//! The analytic model, and MEMS stores, by the tool.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use common::{run, succeed};
use serde_json::Value;

fn json(arguments: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<&str> = arguments.split(' ').chain(["--json"]).collect();
    serde_json::from_str(&succeed(folder.path(), &words)).unwrap()
}

/// Thesis table 6.2: d, b and R of seven drives.
#[test]
fn quadrangles_have_the_dimensions_of_table_6_2() {
    let drives = [
        (686, 139, 5, 26, 10),
        (334, 64, 6, 2, 0),
        (528, 99, 6, 5, 3),
        (386, 72, 6, 4, 2),
        (738, 139, 6, 7, 3),
        (390, 59, 7, 5, 0),
        (96, 14, 7, 1, 0),
    ];
    for (track, skew, depth, block, residual) in drives {
        let shown =
            json(&format!("model quadrangle --sectors-per-track {track} --track-skew {skew}"));
        assert_eq!(shown["depth_max"], depth, "{track}");
        assert_eq!(shown["block_sectors"], block, "{track}");
        assert_eq!(shown["width_blocks"], track / block, "{track}");
        assert_eq!(shown["residual_sectors"], residual, "{track}");
    }
}

/// A full track of the Atlas 10K, and table 5.1's 12 % of the Cheetah X15.
#[test]
fn accesses_are_modelled() {
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 0.01, "{value}, {expected}");
    };
    let track = "model access --sectors-per-track 334 --head-switch 64 --request 334";
    let shown = json(&format!("{track} --zero-latency"));
    near(&shown["aligned_revolutions"], 1.0);
    near(&shown["unaligned_revolutions"], 1.61);
    near(&shown["unaligned_exact_revolutions"], 1.69);
    near(&json(track)["aligned_revolutions"], 1.5);
    let cheetah = json("model access --sectors-per-track 386 --head-switch 72 --request 386");
    near(&cheetah["improvement"], 0.12);
    near(&cheetah["improvement_exact"], 0.12);
}

#[test]
fn video_servers_and_file_systems_are_modelled() {
    let video = json("model startup-latency --streams 50 --access-ms 10 --access 250kB --disks 10");
    assert_eq!(video["round_ms"], 500.0);
    assert_eq!(video["startup_latency_ms"], 5500.0);
    assert_eq!(video["stream_mbit_per_s"], 4.0);
    let cost = json("model write-cost --segment 208kB --positioning-ms 5.2 --mb-per-s 40");
    assert_eq!(cost["overall_write_cost"], 2.0);
}

#[test]
fn what_the_model_does_not_hold_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, problem) in [
        ("access --sectors-per-track 10 --head-switch 1 --request 11", "--request 11 is more"),
        ("access --sectors-per-track 0 --head-switch 1 --request 1", "from 1 to 20000"),
        ("quadrangle --sectors-per-track 10 --track-skew 3 --depth 0", "0 is not in"),
        ("quadrangle --sectors-per-track 10 --track-skew 10", "less than a revolution"),
        ("startup-latency --streams 1 --access-ms nan --access 1k", "above 0"),
        ("write-cost --segment 0 --positioning-ms 1 --mb-per-s 1", "above 0"),
    ] {
        let words: Vec<&str> = ["model"].into_iter().chain(arguments.split(' ')).collect();
        let (status, _, error) = run(folder.path(), &words);
        assert_eq!(status, Some(2), "{arguments}: {error}");
        assert!(error.contains(problem), "{arguments}: {error}");
    }
}

#[test]
fn mems_stores_are_listed_and_shown() {
    let listed = json("device list");
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(["mems-g1", "mems-g2", "mems-g3"].iter().all(|name| names.contains(name)));
    let shown = json("device show sim:mems-g2");
    assert_eq!((&shown["parallelism"], &shown["depth"]), (&10.into(), &10.into()));
    assert_eq!(shown["first_ensemble_blocks"], 270);
    assert_eq!(shown["mems"]["cylinders"], 2500);
    let shown = json("device show sim:mems-g2?tips=1280");
    assert_eq!((&shown["parallelism"], &shown["depth"]), (&20.into(), &5.into()));
    let folder = tempfile::tempdir().unwrap();
    let text = succeed(folder.path(), &["device", "show", "sim:mems-g2"]);
    assert!(text.contains("640 of 6400") && text.contains("27, of 10 blocks"), "{text}");
    for (uri, problem) in [
        ("sim:mems-g2?tips=10", "active_tips"),
        ("sim:mems-g2?tip=10", "tip"),
        ("sim:quantum-atlas-10k?tips=640", "tips"),
    ] {
        let (status, _, error) = run(folder.path(), &["device", "show", uri]);
        assert!(status != Some(0) && error.contains(problem), "{uri}: {error}");
    }
    let (_, _, error) = run(folder.path(), &["device", "draw", "sim:mems-g2", "--out", "a.svg"]);
    assert!(error.contains("a MEMS store"), "{error}");
}

/// An imported store is the store of its file.
#[test]
fn mems_stores_are_imported() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/mems");
    let Ok(files) = std::fs::read_dir(data) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut imported = 0;
    for file in files.map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "diskspecs") {
            continue;
        }
        let (file, out) = (file.display().to_string(), format!("{imported}.toml"));
        succeed(folder.path(), &["device", "import", &file, "--out", &out]);
        let show = |uri: &str| {
            let text = succeed(folder.path(), &["device", "show", uri, "--json"]);
            serde_json::from_str::<Value>(&text).unwrap()["mems"].clone()
        };
        let (theirs, ours) = (show(&format!("sim:{file}")), show(&format!("sim:{out}")));
        assert_eq!(theirs, ours);
        assert_ne!(ours, Value::Null);
        let (status, _, error) =
            run(folder.path(), &["device", "import", &file, "--drive", "a", "--out", "b.toml"]);
        assert!(status == Some(2) && error.contains("a MEMS store"), "{error}");
        imported += 1;
    }
    assert!(imported >= 3, "{imported}");
}

#[test]
fn ssds_and_zones_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let listed = json("device list");
    assert!(listed.as_array().unwrap().iter().any(|profile| profile["name"] == "ssd-slc"));
    let shown = json("device show sim:ssd-slc?size=1GiB");
    assert!(shown["capacity_bytes"].as_u64().unwrap() >= 1 << 30);
    // Eight dies with ensembles of 2 planes x 64 pages of 4 KiB.
    assert_eq!((&shown["parallelism"], &shown["first_ensemble_blocks"]), (&8.into(), &1024.into()));
    assert_eq!(shown["ssd"]["page_bytes"], 4096);
    let zoned = json("device show sim:quantum-atlas-10k?zone=1MiB&conventional=4");
    assert_eq!(zoned["first_ensemble_blocks"], 2048);
    for (uri, told) in [
        ("sim:ssd-slc?size=0", "size"),
        ("sim:ssd-slc?tips=3", "tips"),
        ("sim:ssd-slc?zone=1000", "zone"),
        ("sim:ssd-slc?zone=4MiB&open=9&active=8", "open"),
        ("sim:quantum-atlas-10k?zone=1TiB", "zone"),
        ("sim:quantum-atlas-10k?zone=1MiB&data=a.img", "data"),
        ("sim:quantum-atlas-10k?open=3", "open"),
    ] {
        let (status, _, error) = run(folder.path(), &["device", "show", uri]);
        assert!(status != Some(0) && error.contains(told), "{uri}: {error}");
    }
}
