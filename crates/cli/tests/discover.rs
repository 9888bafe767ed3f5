//! `moirai discover`: what it finds is what the simulated drive has, and it writes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::fs::{read, read_to_string, remove_file, write};

use common::{run, succeed};

#[test]
fn a_disk_is_found_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let timing =
        ["discover", "sim:hp-c3323a", "--method", "timing", "--boundaries", "found", "--json"];
    let found = succeed(folder, &timing);
    let shown =
        succeed(folder, &["device", "show", "sim:hp-c3323a", "--boundaries", "shown", "--json"]);
    assert!(read_to_string(folder.join("found")).unwrap().lines().count() > 20_000);
    assert!(read(folder.join("found")).unwrap() == read(folder.join("shown")).unwrap());
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (found, shown) = (json(&found), json(&shown));
    for key in ["capacity_bytes", "parallelism"] {
        assert_eq!(found[key], shown[key], "{key}");
    }
    let firsts = |one: &serde_json::Value| {
        let zones = one["zones"].as_array().unwrap();
        zones.iter().map(|zone| zone["first_lbn"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(firsts(&found), firsts(&shown));
    let rpm = |one: &serde_json::Value| one["profile"]["rotation_rpm"].as_f64().unwrap();
    assert!((rpm(&found) / rpm(&shown) - 1.0).abs() < 1e-4);
    assert_eq!((&found["method"], &found["unsure"]), (&"timing".into(), &serde_json::json!([])));
    assert!(found["commands"]["read"].as_u64().unwrap() > 40_000);
    assert!((1.0..600.0).contains(&found["elapsed_device_s"].as_f64().unwrap()));
    // What is there is not overwritten.
    let again = ["discover", "sim:hp-c3323a", "--boundaries", "found"];
    assert_eq!(run(folder, &again).0, Some(1));
}

#[test]
fn a_drive_is_extracted_into_a_profile_that_simulates_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let drive = "sim:ibm-ultrastar-18es";
    let discover =
        ["discover", drive, "--write", "--out", "drive.toml", "--boundaries", "found", "--json"];
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let found = json(&succeed(folder, &discover));
    let again = ["device", "show", "sim:./drive.toml", "--boundaries", "again", "--json"];
    let again = json(&succeed(folder, &again));
    let real = json(&succeed(folder, &["device", "show", drive, "--boundaries", "real", "--json"]));
    assert!(read(folder.join("found")).unwrap() == read(folder.join("real")).unwrap());
    assert!(read(folder.join("again")).unwrap() == read(folder.join("real")).unwrap());
    assert_eq!(
        (&found["method"], &found["unsure"]),
        (&"diagnostic".into(), &serde_json::json!([]))
    );
    for key in ["cylinders", "heads", "cache", "track_order", "sparing"] {
        assert_eq!(found["profile"][key], real["profile"][key], "{key}");
        assert_eq!(again["profile"][key], real["profile"][key], "{key}");
    }
    assert_eq!(found["zones"], real["zones"]);
    assert!(found["commands"]["translate_lbn"].as_u64().unwrap() < 36_911, "thesis table 4.2");
    assert!(found["elapsed_device_s"].as_f64().unwrap() < 120.0);
    // Nothing is written without leave, and what is there is not overwritten.
    let asked = json(&succeed(folder, &["discover", drive, "--json"]));
    assert_eq!(asked["commands"].get("write"), None);
    assert_eq!(run(folder, &discover).0, Some(1));
    let (status, _, error) =
        run(folder, &["discover", "file:drive.toml", "--method", "diagnostic"]);
    assert_eq!((status, error.contains("--method timing")), (Some(1), true), "{error}");
}

#[test]
fn an_array_is_found_kept_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let create = |unit: &str| {
        let mut create = vec!["volume", "create", "v.toml", "--layout", "stripe", "--unit", unit];
        create.extend(["--device", "sim:hp-c3323a?data=none"].repeat(3));
        succeed(folder, &create);
    };
    create("64KiB");
    let found = json(&succeed(folder, &["discover", "volume:v.toml", "--json"]));
    let units = serde_json::json!([{ "first_lbn": 0, "unit_blocks": 128 }]);
    assert_eq!((&found["array"]["disks"], &found["array"]["units"]), (&3.into(), &units));
    assert_eq!((&found["parallelism"], &found["unsure"]), (&3.into(), &serde_json::json!([])));
    assert_eq!(found["zones"][0]["ensemble_blocks"], 128);
    let check = ["device", "check", "volume:v.toml", "--json"];
    assert_eq!(json(&succeed(folder, &check))["holds"], true);
    remove_file(folder.join("v.toml")).unwrap();
    // As large, as it happens.
    create("128KiB");
    let (status, output, _) = run(folder, &check);
    assert_eq!((status, &json(&output)["holds"]), (Some(1), &false.into()), "{output}");
    let difference = json(&output)["differences"][0].to_string();
    assert!(difference.contains("128 KiB") && difference.contains("64 KiB"), "{difference}");
}

#[test]
fn what_was_discovered_is_kept_served_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    // A drive of the same name that is another one afterwards.
    let profile =
        |name: &str| succeed(folder, &["discover", name, "--write", "--out", "drive.toml"]);
    profile("sim:hp-c2247");
    let kept = json(&succeed(folder, &["discover", "sim:drive.toml", "--json"]));
    assert!(
        kept["kept"].as_str().unwrap().starts_with(folder.join("data").to_str().unwrap()),
        "{kept}"
    );
    let check = ["device", "check", "sim:drive.toml", "--json"];
    let checked = json(&succeed(folder, &check));
    assert_eq!(
        (&checked["holds"], &checked["differences"]),
        (&true.into(), &serde_json::json!([]))
    );
    let listed = json(&succeed(folder, &["device", "list", "--discovered", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let text = read_to_string(folder.join("drive.toml")).unwrap();
    write(folder.join("drive.toml"), text.replacen("track_skew = 14", "track_skew = 15", 1))
        .unwrap();
    let (status, output, error) = run(folder, &check);
    assert_eq!((status, &json(&output)["holds"]), (Some(1), &false.into()), "{output} {error}");
    remove_file(folder.join("drive.toml")).unwrap();
    profile("sim:hp-c3323a");
    assert_eq!(run(folder, &check).0, Some(1), "a drive of another size");
    let (status, _, error) = run(folder, &["device", "check", "sim:quantum-viking"]);
    assert_eq!((status, error.contains("moirai discover")), (Some(1), true), "{error}");

    // A file has the ensembles that its profile says.
    write(folder.join("file"), vec![7; 64 << 20]).unwrap();
    succeed(folder, &["discover", "file:file", "--budget", "2s", "--out", "file.device"]);
    let with = "file:file?profile=file.device";
    let found = json(&succeed(folder, &["device", "show", with, "--json"]));
    let listed = json(&succeed(folder, &["device", "list", "--discovered", "--json"]));
    let of_file = listed.as_array().unwrap().iter().find(|one| one["method"] == "timing").unwrap();
    assert_eq!(found["first_ensemble_blocks"], of_file["first_ensemble_blocks"]);
    write(folder.join("other"), vec![7; 1 << 20]).unwrap();
    let (status, _, error) = run(folder, &["device", "show", "file:other?profile=file.device"]);
    assert_eq!((status, error.contains("discover the device again")), (Some(1), true), "{error}");
    let text = read_to_string(folder.join("file.device")).unwrap();
    write(folder.join("file.device"), text.replacen("timing", "timinG", 1)).unwrap();
    let (status, _, error) = run(folder, &["device", "show", with]);
    assert_eq!((status, error.contains("checksum")), (Some(1), true), "{error}");
}

#[test]
fn a_file_is_measured_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder.join("file"), vec![7; 64 << 20]).unwrap();
    let found = succeed(folder, &["discover", "file:file", "--budget", "2s", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let throughput = &found["throughput"];
    assert!(throughput["ensemble_bytes"].as_u64().unwrap() >= 4096, "{found}");
    assert!(found["parallelism"].as_u64().unwrap() >= 1, "{found}");
    assert!(throughput["by_size"].as_array().unwrap().len() > 5, "{found}");
    let written = read(folder.join("file")).unwrap();
    assert!(written.len() == 64 << 20 && written.iter().all(|byte| *byte == 7));
    assert_eq!(found["commands"].get("write"), None);
    // With leave to write, what the blocks hold is written.
    let numbers: Vec<u8> = (0..8 << 20_u64).flat_map(u64::to_le_bytes).collect();
    write(folder.join("file"), &numbers).unwrap();
    let found = succeed(folder, &["discover", "file:file", "--budget", "2s", "--write", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert!(found["commands"]["write"].as_u64().unwrap() > 50, "{found}");
    let writes = &found["throughput"]["writes"];
    assert!(writes["flush_ms"].as_f64().unwrap() > 0.0, "{found}");
    assert!(writes["by_depth"].as_array().unwrap().len() == 6, "{found}");
    assert!(read(folder.join("file")).unwrap() == numbers);
    let (status, _, error) = run(folder, &["discover", "file:file", "--budget", "soon"]);
    assert_eq!((status, error.contains("30s")), (Some(2), true), "{error}");
}
