//! Replaying traces: the figures that follow from the drive, and every bad trace named by its line.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::fmt::Write;
use std::path::Path;

use common::{run, succeed};
use serde_json::Value;

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    serde_json::from_str(&succeed(folder, &all)).unwrap()
}

/// A hundred reads, 20 ms apart, each 100,000 blocks further on.
fn write_trace(folder: &Path) {
    let mut text = String::new();
    for index in 0..100 {
        writeln!(text, "{}.5 0 {} 16 1", index * 20, index * 100_000).unwrap();
    }
    std::fs::write(folder.join("reads.trace"), text).unwrap();
}

const KEYS: [&str; 8] = [
    "requests",
    "mean_response_ms",
    "p99_response_ms",
    "virtual_s",
    "wall_s",
    "requests_per_wall_s",
    "utilisation",
    "mean_queue_depth",
];

/// Alone and in a volume: a pass over one or two rows, some two hundred microseconds of command, and a seek.
#[test]
fn mems_stores_answer_in_a_millisecond() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut text = String::new();
    for index in 0..100 {
        writeln!(text, "{}.5 0 {} 16 1", index * 20, index * 60_000).unwrap();
    }
    std::fs::write(folder.join("reads.trace"), text).unwrap();
    let create = ["volume", "create", "v.toml", "--layout", "stripe", "--unit", "135KiB"];
    let devices = ["--device", "sim:mems-g2", "--device", "sim:mems-g2"];
    succeed(folder, &[&create[..], &devices].concat());
    for device in ["sim:mems-g2", "sim:mems-g2?tips=1280&scheduler=fcfs", "volume:./v.toml"] {
        let shown = json(folder, &["replay", "--device", device, "--trace", "reads.trace"]);
        assert_eq!(shown["requests"], 100);
        let mean_ms = shown["mean_response_ms"].as_f64().unwrap();
        assert!((0.7..1.3).contains(&mean_ms), "{device}: {mean_ms} ms");
    }
}

#[test]
fn open_and_closed_loop_on_a_drive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trace(folder);
    let replay = |more: &[&str]| {
        let base = ["replay", "--device", "sim:quantum-atlas-10k", "--trace", "reads.trace"];
        json(folder, &[&base, more].concat())
    };
    let open = replay(&[]);
    assert!(KEYS.iter().all(|key| open[key].is_number()), "{open}");
    assert_eq!((open["requests"].as_u64(), open["format"].as_str()), (Some(100), Some("disksim")));
    // 99 gaps of 20 ms and one response.
    let virtual_s = open["virtual_s"].as_f64().unwrap();
    assert!((1.98..2.0).contains(&virtual_s), "{virtual_s}");
    assert_eq!(open["max_queue_depth"], 1);
    let parts: f64 =
        open["parts_ms"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((parts - open["mean_response_ms"].as_f64().unwrap()).abs() < 1e-9);

    let closed = replay(&["--closed", "4"]);
    assert_eq!(closed["max_queue_depth"], 4);
    assert!(closed["virtual_s"].as_f64().unwrap() < 0.8 * virtual_s);
    assert!(closed["utilisation"].as_f64().unwrap() > 0.9);

    let fast = replay(&["--time-scale", "0.1", "--per-request", "out.csv"]);
    assert!(fast["mean_queue_depth"].as_f64() > open["mean_queue_depth"].as_f64());
    let csv = std::fs::read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(csv.lines().count(), 101);
    let columns: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    let number = |index: usize| columns[index].parse::<u64>().unwrap();
    assert_eq!((columns.len(), columns[2], number(4)), (16, "R", 16));
    assert_eq!((9..16).map(number).sum::<u64>(), number(8), "parts of {csv}");
}

#[test]
fn traces_of_several_devices() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("two.spc"), "0,10,4096,r,0.0\n1,10,4096,w,0.01\n1,26,4096,R,0.02\n")
        .unwrap();
    let device = "sim:seagate-cheetah-36es";
    let one = json(folder, &["replay", "--device", device, "--trace", "two.spc"]);
    assert_eq!((one["requests"].as_u64(), one["reads"].as_u64()), (Some(3), Some(2)));
    let arguments = ["replay", "--device", device, "--device", device, "--trace", "two.spc"];
    assert_eq!(json(folder, &arguments)["requests"], 3);
    // Stacked, the second device begins where the first one ends, at block 18.
    succeed(
        folder,
        &["replay", "--device", device, "--trace", "two.spc", "--stack", "--per-request", "s.csv"],
    );
    let csv = std::fs::read_to_string(folder.join("s.csv")).unwrap();
    let lbns: Vec<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').nth(3)).collect();
    assert_eq!(lbns, ["10", "28", "44"]);
}

#[test]
fn volumes_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trace(folder);
    let disk = ["--device", "sim:seagate-cheetah-36es"];
    let create = ["volume", "create", "vol.toml", "--layout", "stripe"];
    succeed(folder, &[&create[..], &disk, &disk, &["--controller", "16MiB"]].concat());
    let volume = json(folder, &["replay", "--device", "volume:vol.toml", "--trace", "reads.trace"]);
    assert!(volume["mean_response_ms"].as_f64().unwrap() > 1.0, "{volume}");
    let again = json(folder, &["replay", "--device", "volume:vol.toml", "--trace", "reads.trace"]);
    assert_eq!(volume["mean_response_ms"], again["mean_response_ms"]);

    let file = "file:small.img?size=1MiB";
    std::fs::write(folder.join("w.trace"), "0.0 0 8 8 0\n").unwrap();
    let (status, _, error) = run(folder, &["replay", "--device", file, "--trace", "w.trace"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("--yes-destroy-data") && !folder.join("small.img").exists(), "{error}");
    let arguments = ["replay", "--device", file, "--trace", "w.trace", "--yes-destroy-data"];
    assert_eq!(json(folder, &arguments)["requests"], 1);
    let arguments =
        ["replay", "--device", file, "--trace", "reads.trace", "--wrap", "--closed", "2"];
    assert_eq!(json(folder, &arguments)["requests"], 100);
}

#[test]
fn bad_traces_are_named_by_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let check = |text: &str, more: &[&str], parts: &[&str]| {
        std::fs::write(folder.join("bad.trace"), text).unwrap();
        let base = ["replay", "--device", "sim:quantum-atlas-10k", "--trace", "bad.trace"];
        let (status, output, error) = run(folder, &[&base, more].concat());
        assert!(status == Some(1) || status == Some(2), "{text}: {output}");
        for part in parts {
            assert!(error.contains(part), "{text}: no `{part}` in {error}");
        }
        assert!(!error.contains("panicked"), "{error}");
    };
    let disksim = &["--format", "disksim"][..];
    check("1.0 0 5 8 1\n2.0 0 -5 8 1\n", disksim, &["bad.trace", "line 2", "`-5`"]);
    check("1.0 0 5 8 1\n2.0 0 5\n", disksim, &["line 2", "`bcount` is missing"]);
    check("1.0 0 5 8 1\n0.5 0 5 8 1\n", disksim, &["line 2", "is before"]);
    check("\u{0}\u{1}binary", disksim, &["line 1"]);
    check("hello world\n", &[], &["no known format", "--format"]);
    check("1.0 0 17938980 8 1\n", disksim, &["request 1", "past the end of the device", "--wrap"]);
    check("1.0 0 5 8 1\n", &["--format", "tape"], &["`tape` is not a trace format"]);
}

#[test]
fn an_empty_trace_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.trace"), "").unwrap();
    let arguments = [
        "replay",
        "--device",
        "sim:quantum-atlas-10k",
        "--trace",
        "empty.trace",
        "--format",
        "disksim",
    ];
    assert_eq!(json(folder.path(), &arguments)["requests"], 0);
}

#[test]
fn nothing_that_is_read_or_kept_is_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trace(folder);
    std::fs::write(folder.join("kept.img"), vec![7; 1 << 20]).unwrap();
    std::fs::write(folder.join("two.trace"), "0.0 0 0 8 1\n1.0 1 0 8 0\n").unwrap();
    let refuse = |arguments: &[&str], kept: &str, part: &str| {
        let before = std::fs::read(folder.join(kept)).unwrap();
        let (status, _, error) = run(folder, arguments);
        assert!(status.is_some_and(|status| status > 0), "{arguments:?}");
        assert!(error.contains(part) && !error.contains("panicked"), "no `{part}` in {error}");
        assert!(std::fs::read(folder.join(kept)).unwrap() == before, "{kept} after {arguments:?}");
    };
    let drive = ["replay", "--device", "sim:hp-c2247"];
    let both = ["--device", "file:kept.img", "--trace", "two.trace", "--yes-destroy-data"];
    refuse(&[&drive[..], &both].concat(), "kept.img", "virtual time");
    let onto_itself = ["--trace", "reads.trace", "--per-request", "./reads.trace"];
    refuse(&[&drive[..], &onto_itself].concat(), "reads.trace", "would overwrite it");
    let several = ["--device", "sim:hp-c2247", "--trace", "two.trace", "--stack"];
    refuse(&[&drive[..], &several].concat(), "two.trace", "--stack");
}

#[test]
fn a_trace_through_a_pipe_arrives_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for index in 0..20_000 {
        writeln!(text, "{index}.5 0 {} 16 1", index * 100).unwrap();
    }
    std::fs::write(folder.path().join("long.trace"), text).unwrap();
    let piped = |more: &str| {
        let tool = env!("CARGO_BIN_EXE_moirai");
        let line = format!(
            "cat long.trace | {tool} replay --device sim:quantum-atlas-10k --trace /dev/stdin \
             --json {more}"
        );
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(line).current_dir(folder.path()).output().unwrap()
    };
    let figures: Value = serde_json::from_slice(&piped("").stdout).unwrap();
    assert_eq!(figures["requests"], 20_000);
    let twice = piped("--stack");
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(twice.status.code() == Some(2) && error.contains("reads the trace twice"), "{error}");
}
