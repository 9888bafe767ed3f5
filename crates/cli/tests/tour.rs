//! The tour of the README, end to end.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::io::Write;
use std::process::Stdio;

use common::{moirai, run, succeed};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_tour_on_a_simulated_volume_with_contents_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["device", "list"]);
    let shown = succeed(folder, &["device", "show", "sim:seagate-cheetah-36es", "--json"]);
    assert_eq!(json(&shown)["first_ensemble_blocks"], 738);

    let devices: Vec<String> =
        (0..4).map(|disk| format!("--device=sim:seagate-cheetah-36es?data=d{disk}.img")).collect();
    let mut create = vec!["volume", "create", "vol.toml", "--depth", "4"];
    create.extend(devices.iter().map(String::as_str));
    succeed(folder, &create);
    let shown = succeed(folder, &["volume", "show", "vol.toml", "--json"]);
    assert_eq!(
        (json(&shown)["parallelism"].as_u64(), json(&shown)["depth"].as_u64()),
        (Some(4), Some(4))
    );
    let mapped = json(&succeed(folder, &["volume", "map", "vol.toml", "5000", "--json"]));
    assert_eq!((mapped["disk"].as_u64(), mapped["disk_lbn"].as_u64()), (Some(2), Some(1311)));
    assert_eq!(mapped["equivalent"].as_array().unwrap().len(), 16);

    let store = ["--store", "volume:vol.toml"];
    succeed(folder, &["table", "load", store[0], store[1], "--tpch", "0.001", "--layout", "csm"]);
    let listed = json(&succeed(folder, &["table", "list", store[0], store[1], "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 8);
    let shown =
        json(&succeed(folder, &["table", "show", store[0], store[1], "lineitem", "--json"]));
    assert_eq!(shown["columns"][7]["max"], "0.08");
    let scan = ["table", "scan", store[0], store[1], "lineitem", "--columns", "l_tax", "--json"];
    let (first, second) = (json(&succeed(folder, &scan)), json(&succeed(folder, &scan)));
    assert_eq!(first["rows"], 6005);
    assert_eq!(first["virtual_ms"], second["virtual_ms"], "virtual time repeats");

    let statement = "select l_returnflag, count(*) as n from lineitem group by 1 order by 1";
    let sql = |format| succeed(folder, &["sql", store[0], store[1], "--format", format, statement]);
    assert!(sql("csv").starts_with("l_returnflag,n\nA,"));
    assert!(sql("table").contains("| l_returnflag | n "));
    assert_eq!(json(&sql("json"))[0]["l_returnflag"], "A");
    let empty = ["sql", store[0], store[1], "--format", "csv", "select 1 as a where false"];
    assert_eq!(succeed(folder, &empty), "a\n");
}

#[test]
fn files_are_loaded_and_what_is_loaded_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(
        folder.join("people.csv"),
        "name,age,born\nAda,36,1815-12-10\nAlan,,1912-06-23\n",
    )
    .unwrap();
    let new = ["--store", "file:s.moirai?size=64MiB"];
    succeed(folder, &["table", "load", new[0], new[1], "--csv", "people.csv", "--layout", "nsm"]);
    let old = ["--store", "file:s.moirai"];
    let load = ["table", "load", old[0], old[1], "--csv", "people.csv", "--table", "again"];
    succeed(folder, &load);
    for table in ["people", "again"] {
        let statement = format!("select * from {table} where age is null");
        let answer = succeed(folder, &["sql", old[0], old[1], "--format", "csv", &statement]);
        assert_eq!(answer, "name,age,born\nAlan,,1912-06-23\n");
    }
    succeed(folder, &["table", "drop", old[0], old[1], "people"]);
    let listed = json(&succeed(folder, &["table", "list", old[0], old[1], "--json"]));
    assert_eq!(listed[0]["name"], "again");
}

#[test]
fn the_prompt_takes_statements_over_several_lines() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "file:s.moirai?size=64MiB";
    succeed(folder, &["table", "load", "--store", store, "--tpch", "0.001"]);
    let mut prompt = moirai(folder, &["sql", "--store", "file:s.moirai", "--format", "csv"])
        .env("XDG_STATE_HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = "select count(*) as n\nfrom nation;\nselect nonsense;\nselect 7 as seven;\n";
    prompt.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = prompt.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("n\n25\n") && text.contains("seven\n7\n"), "{text}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("nonsense"));
    assert!(output.status.success());
}

#[test]
fn the_laboratory_prints_what_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let listed = json(&succeed(folder, &["lab", "list", "--json"]));
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"capsule-scan") && names.contains(&"raid5-scan"), "{names:?}");
    let outcome = succeed(folder, &["lab", "run", "capsule-scan", "--json"]);
    assert_eq!(succeed(folder, &["lab", "run", "capsule-scan", "--json"]), outcome);
    let outcome = json(&outcome);
    let keys: Vec<&String> = outcome.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["experiment", "rows", "scale", "seed", "source"]);
    for row in outcome["rows"].as_array().unwrap() {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["figure", "ours", "published", "ratio", "tolerance", "unit", "within"]);
    }
    let (status, _, error) = run(folder, &["lab", "run", "nothing"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("there are: raid5-scan"), "{error}");
    let (status, _, error) = run(folder, &["lab", "run", "raid5-scan", "--scale", "0.5"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("raid5-scan runs in seconds and has no --scale"), "{error}");
    for scale in ["0", "1.5", "nan"] {
        let (status, _, error) = run(folder, &["lab", "run", "raid5-scan", "--scale", scale]);
        assert_eq!(status, Some(2));
        assert!(error.contains("greater than 0 and at most 1"), "{error}");
    }
    // One figure of this experiment is known to be outside.
    let (status, output, error) = run(folder, &["lab", "run", "quadrangle-efficiency", "--check"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("1 of ") && error.contains("120 KB"), "{error}");
    assert!(output.contains("<= 5") && output.lines().all(|line| line.chars().count() <= 100));
    succeed(folder, &["lab", "run", "raid5-scan", "--check"]);
    let listed = succeed(folder, &["lab", "list"]);
    assert!(listed.contains("21 min") && listed.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_demo_writes_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let figures = json(&succeed(folder, &["demo", "--scale", "0.001", "--dir", "out", "--json"]));
    assert_eq!(figures["rows"].as_array().unwrap().len(), 12);
    let page = std::fs::read_to_string(folder.join("out/report.html")).unwrap();
    assert!(page.contains("1,000 fetches") && page.ends_with("</html>\n"), "{}", page.len());
    assert!(page.contains("out/nsm.moirai") && page.contains("out/csm.moirai"), "{}", page.len());
    let again = ["demo", "--scale", "0.001", "--dir", "out"];
    let (status, _, error) = run(folder, &again);
    assert_eq!(status, Some(2));
    for name in ["out/nsm.moirai", "out/csm.moirai", "out/report.html", "--force"] {
        assert!(error.contains(name), "{error}");
    }
    succeed(folder, &[&again[..], &["--force"]].concat());
}
