//! Drives from DiskSim's parameters: imported, shown, drawn, validated and fitted.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::fmt::Write;
use std::path::Path;

use common::{run, succeed};
use serde_json::Value;

const DRIVE: &str = "# a small drive
disksim_disk TOY_validate {
   Model = source toy.model,
   Bulk sector transfer time = 0.05,
   Allow read hits on write data = 1,
   Max queue length = 1,
   Number of buffer segments = 4,
   Segment size (in blks) = 100,
   Enable caching in buffer = 1,
   Buffer continuous read = 3,
   Maximum read-ahead (blks) = 100,
   Fast write level = 2,
   Combine seq writes = 1,
   Read hit over. after read = 0.2,
   Read miss over. after read = 0.5,
   Preseeking level = 1
}
";

const MODEL: &str = "dm_disk TOY_model {
   Number of data surfaces = 2, Number of cylinders = 100, Block count = 19990,
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation, Seek type = extracted,
      Full seek curve = toy.seek, Add. write settling delay = -0.1,
      Head switch time = 0.5, Rotation speed (in rpms) = 6000, Percent error in rpms = 0.0
   },
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Rangesize for sparing = 1,
      Zones = [ dm_layout_g1_zone {
         First cylinder number = 0, Last cylinder number = 99, Blocks per track = 100,
         Offset of first block = 0.0, Empty space at zone front = 0,
         Skew for track switch = 10.0, Skew for cylinder switch = 20.0,
         Number of spares = 10, slips = [ 500, 333 ], defects = [ 40, 19999 ]
      } ]
   }
}
";

fn write_drive(folder: &Path) {
    std::fs::write(folder.join("toy.diskspecs"), DRIVE).unwrap();
    std::fs::write(folder.join("toy.model"), MODEL).unwrap();
    let seek = "Seek distances measured: 3\n1, 1.0\n10, 3.0\n99, 10.0\n";
    std::fs::write(folder.join("toy.seek"), seek).unwrap();
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    serde_json::from_str(&succeed(folder, &all)).unwrap()
}

#[test]
fn an_imported_drive_is_the_drive_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_drive(folder);
    let (status, output, error) =
        run(folder, &["device", "import", "toy.diskspecs", "--out", "toy.toml"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(output.contains("toy, 9.8 MiB, 6000 rpm, 1 zones"), "{output}");
    assert!(error.contains("`Preseeking level` is 1"), "{error}");
    let show = |uri| json(folder, &["device", "show", uri]);
    let (from_file, from_profile) = (show("sim:toy.diskspecs"), show("sim:toy.toml"));
    assert_eq!(from_file["zones"], from_profile["zones"]);
    // 200 tracks of 100 sectors, less 10 spares that the slips use.
    assert_eq!(from_profile["capacity_bytes"], 19_990 * 512);
    assert_eq!(from_profile["volatile_cache"], true);
    succeed(folder, &["device", "draw", "sim:toy.toml", "--out", "toy.svg"]);
    let svg = std::fs::read_to_string(folder.join("toy.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("TOY"), "{svg}");
    let (status, _, error) =
        run(folder, &["device", "import", "toy.diskspecs", "--out", "toy.toml"]);
    assert!(status == Some(2) && error.contains("--force"), "{error}");
    // As part of a simulation's file, with a slower bus.
    let parv =
        "disksim_bus BUS0 { Read block transfer time = 0.1, Write block transfer time = 0.1 }
        source toy.diskspecs
        instantiate [ disk0 ] as TOY_validate
        topology disksim_bus bus0 [ disksim_disk disk0 [] ]
        disksim_pf Proc { Number of processors = 1 }\n";
    std::fs::write(folder.join("toy.parv"), parv).unwrap();
    let toml = succeed(folder, &["device", "import", "toy.parv"]);
    assert!(toml.contains("bus_mb_per_s = 5.12\n"), "{toml}");
}

#[test]
fn bad_parameter_files_are_named_by_line_and_parameter() {
    let check = |file: &str, from: &str, to: &str, parts: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_drive(folder);
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(folder.join(file), text.replacen(from, to, 1)).unwrap();
        let (status, _, error) = run(folder, &["device", "show", "sim:toy.diskspecs"]);
        assert_eq!(status, Some(1), "{error}");
        for part in parts {
            assert!(error.contains(part), "no `{part}` in {error}");
        }
        assert!(!error.contains("panicked"), "{error}");
    };
    let specs = |from, to, parts| check("toy.diskspecs", from, to, parts);
    let model = |from, to, parts| check("toy.model", from, to, parts);
    specs("source toy.model", "source none.model", &["line 3", "none.model"]);
    specs("= 0.05,", "= fast,", &["line 4", "Bulk sector transfer time", "`fast`"]);
    specs("= 4,", "= -4,", &["line 7", "Number of buffer segments", "-4"]);
    specs("Preseeking level = 1\n}", "Preseeking level", &["toy.diskspecs, line 16"]);
    specs("disksim_disk", "disksim_bus", &["no `disksim_disk`"]);
    model("= 6000", "= 0", &["toy.model, line 6", "Rotation speed (in rpms)"]);
    model("dm_mech_g1", "dm_mech_g7", &["line 3", "dm_mech_g7"]);
    model("scheme used = 9", "scheme used = 99", &["line 9", "Sparing scheme used", "99"]);
    model("slips = [ 500, 333 ]", "slips = [ 500, x ]", &["slips", "`x`"]);
    model("Zones = [", "Zones = 5, x = [", &["line 10", "Zones"]);
    model("cylinder number = 99", "cylinder number = -9", &["Last cylinder number"]);
    check("toy.seek", "10, 3.0", "1, 3.0", &["toy.seek", "line 3", "distance 1"]);
    check("toy.seek", "10, 3.0", "10; 3.0", &["toy.seek", "line 3"]);
    check("toy.model", "toy.seek", "none.seek", &["line 5", "Full seek curve", "none.seek"]);
}

/// A trace as a drive would have measured that is slower than `toy` by half a millisecond.
fn write_measured(folder: &Path) {
    let mut trace = String::new();
    for index in 0..400u64 {
        let (lbn, delay_us) = (index * 7919 % 19_000, 5000 + index * 313 % 4000);
        let measured_us = 4000 + lbn % 9000;
        writeln!(trace, "R Miss {lbn} 4 {measured_us}.0 {delay_us}.0").unwrap();
    }
    std::fs::write(folder.join("toy.trace"), trace).unwrap();
}

#[test]
fn a_drive_is_validated_against_a_trace_and_fitted_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_drive(folder);
    write_measured(folder);
    let validate = |drive: &str| {
        let device = format!("sim:{drive}");
        json(
            folder,
            &[
                "device",
                "validate",
                "--device",
                &device,
                "--trace",
                "toy.trace",
                "--svg",
                "cdf.svg",
                "--force",
            ],
        )
    };
    let before = validate("toy.diskspecs");
    let keys = [
        "measured_mean_ms",
        "simulated_mean_ms",
        "demerit_ms",
        "per_request_rms_ms",
        "correlation",
    ];
    assert_eq!(before["requests"], 400);
    assert!(keys.iter().all(|key| before[key].is_number()), "{before}");
    assert!(std::fs::read_to_string(folder.join("cdf.svg")).unwrap().starts_with("<svg"));
    let fitted = json(
        folder,
        &[
            "device",
            "fit",
            "--device",
            "sim:toy.diskspecs",
            "--trace",
            "toy.trace",
            "--out",
            "fit.toml",
            "--parameters",
            "overheads.read_miss_after_read_ms,seek_ms.shift",
        ],
    );
    assert!(fitted["changes"].as_array().is_some_and(|changes| changes.len() <= 2), "{fitted}");
    let after = validate("fit.toml");
    assert!(after["demerit_ms"].as_f64() < before["demerit_ms"].as_f64(), "{before} {after}");
    let toml = std::fs::read_to_string(folder.join("fit.toml")).unwrap();
    assert!(toml.contains("fitted to a measured trace"), "{toml}");

    let check = |arguments: &[&str], status: i32, part: &str| {
        let (found, _, error) = run(folder, arguments);
        assert_eq!(found, Some(status), "{error}");
        assert!(error.contains(part) && !error.contains("panicked"), "{error}");
    };
    std::fs::write(folder.join("bad.trace"), "R Hit 5 4 1.0 2.0\nR Hot 5 4 1.0 2.0\n").unwrap();
    let device = "sim:toy.diskspecs";
    let validate = |trace| ["device", "validate", "--device", device, "--trace", trace];
    check(&validate("bad.trace"), 1, "line 2, column `buffer`");
    std::fs::write(folder.join("far.trace"), "R Hit 99999 4 1.0 2.0\n").unwrap();
    check(&validate("far.trace"), 1, "past the drive's end");
    check(
        &["device", "fit", "--device", device, "--trace", "far.trace", "--out", "x.toml"],
        1,
        "too few",
    );
    check(
        &[
            "device",
            "fit",
            "--device",
            device,
            "--trace",
            "t",
            "--out",
            "x",
            "--parameters",
            "colour",
        ],
        2,
        "no parameter `colour`",
    );
}

#[test]
fn a_drive_of_disksims_schedules_as_its_file_says_and_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_drive(folder);
    let path = folder.join("toy.diskspecs");
    let text = std::fs::read_to_string(&path).unwrap();
    let scheduler = "Preseeking level = 1,\n Scheduler = disksim_ioqueue { Scheduling policy = 1 }";
    std::fs::write(&path, text.replace("Preseeking level = 1", scheduler)).unwrap();
    let mut trace = String::new();
    for index in 0..300u64 {
        writeln!(trace, "0.0 0 {} 4 1", index * 7919 % 19_000).unwrap();
    }
    std::fs::write(folder.join("burst.trace"), trace).unwrap();
    let mean = |device: &str| {
        json(folder, &["replay", "--device", device, "--trace", "burst.trace"])["mean_response_ms"]
            .clone()
    };
    assert_eq!(mean("sim:toy.diskspecs"), mean("sim:toy.diskspecs?scheduler=fcfs"));
    assert_ne!(mean("sim:toy.diskspecs"), mean("sim:toy.diskspecs?scheduler=sptf"));
    let (_, _, error) =
        run(folder, &["replay", "--device", "sim:toy.diskspecs", "--trace", "burst.trace"]);
    assert!(error.contains("`Preseeking level` is 1"), "{error}");
    assert!(error.contains("does not give") && !error.contains("`Combine seq writes`"));
}

#[test]
fn what_a_drive_does_not_have_or_take_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_drive(folder);
    write_measured(folder);
    let refuse = |arguments: &[&str], part: &str| {
        let (status, _, error) = run(folder, arguments);
        assert!(status.is_some_and(|status| status > 0), "{arguments:?}");
        assert!(error.contains(part) && !error.contains("panicked"), "no `{part}` in {error}");
    };
    let draw = |uri, out| ["device", "draw", uri, "--out", out];
    refuse(&draw("sim:toy.diskspecs?bogus=1", "toy.svg"), "bogus");
    refuse(&draw("sim:toy.diskspecs", "toy.diskspecs"), "would overwrite it");
    assert!(std::fs::read_to_string(folder.join("toy.diskspecs")).unwrap() == DRIVE);
    let fit = ["device", "fit", "--device", "sim:quantum-atlas-10k", "--trace", "toy.trace"];
    let absent = ["--out", "f.toml", "--parameters", "cache.read_ahead"];
    refuse(&[&fit[..], &absent].concat(), "cache.read_ahead");
}

#[test]
fn seek_curves_in_all_of_disksims_ways() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_drive(folder);
    let points = std::fs::read_to_string(folder.join("toy.seek")).unwrap();
    let show = || json(folder, &["device", "show", "sim:toy.diskspecs"]);
    let plain = show();
    // With the deviation of the measured times behind them.
    std::fs::write(folder.join("toy.seek"), points.replace("10, 3.0", "10, 3.0, 0.02")).unwrap();
    assert_eq!(show()["profile"]["average_seek_ms"], plain["profile"]["average_seek_ms"]);
    // HP's formula, whose division may lie behind the last cylinder.
    let hpl = "Seek type = hpl, HPL seek equation values = [ 12000, 1.0, 0.5, 2.0, 0.01, -1 ],";
    std::fs::write(folder.join("toy.model"), MODEL.replace("Seek type = extracted,", hpl)).unwrap();
    let average = show()["profile"]["average_seek_ms"].as_f64().unwrap();
    let expected = 1.0 + 0.5 * 33f64.sqrt();
    assert!((average - expected).abs() < 0.001, "{average}");
}

#[test]
fn files_that_source_each_other_over_and_over_end() {
    let folder = tempfile::tempdir().unwrap();
    for depth in 0..9 {
        let text = format!("source bomb{}.diskspecs\n", depth + 1).repeat(12);
        std::fs::write(folder.path().join(format!("bomb{depth}.diskspecs")), text).unwrap();
    }
    std::fs::write(folder.path().join("bomb9.diskspecs"), "").unwrap();
    let (status, _, error) = run(folder.path(), &["device", "import", "bomb0.diskspecs"]);
    assert!(status == Some(1) && error.contains("more than 1000 files"), "{error}");
}
