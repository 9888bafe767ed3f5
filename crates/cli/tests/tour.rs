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
    // Blocks 0 to 737 of each disk are its first ensemble, which the volume keeps for its label.
    let behind_the_label = 738 + 1311;
    assert_eq!(
        (mapped["disk"].as_u64(), mapped["disk_lbn"].as_u64()),
        (Some(2), Some(behind_the_label))
    );
    assert_eq!(mapped["equivalent"].as_array().unwrap().len(), 16);

    let store = ["--store", "volume:vol.toml"];
    succeed(folder, &["table", "load", store[0], store[1], "--tpch", "0.001", "--layout", "csm"]);
    let listed = json(&succeed(folder, &["table", "list", store[0], store[1], "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 8);
    let shown = json(&succeed(
        folder,
        &["table", "show", store[0], store[1], "lineitem", "--bounds", "--json"],
    ));
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

/// Options of CSV, standard input, and tables that exist.
#[test]
fn csv_files_are_loaded_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let csv = |text: &str, options: &[&str], statement: &str| {
        std::fs::write(folder.join("t.csv"), text).unwrap();
        let load = ["table", "load", "--store=file:s?size=16MiB", "--replace", "--csv", "t.csv"];
        let (status, _, error) = run(folder, &[&load[..], options].concat());
        match status {
            Some(0) => succeed(folder, &["sql", "--store=file:s", "--format=json", statement]),
            _ => error,
        }
    };
    let all = "select * from t order by 1";
    let found = csv("id,on,none\n1,true,\n2,FALSE,\n", &[], all);
    let expected = serde_json::json!([
        {"id": 1, "on": true, "none": null},
        {"id": 2, "on": false, "none": null},
    ]);
    assert_eq!(json(&found), expected);
    let options = ["--delimiter", ";", "--null", "NA", "--no-header", "--schema", "a:int,b:text"];
    let found = csv("1;x\nNA;NA\n", &options, "select a, b from t order by a");
    assert_eq!(json(&found), serde_json::json!([{"a": 1, "b": "x"}, {"a": null, "b": null}]));
    // The last of many lines counts, too.
    let late = format!("a\n{}x\n", "1\n".repeat(20_000));
    assert_eq!(
        json(&csv(&late, &[], "select max(a) as m from t")),
        serde_json::json!([{"m": "x"}])
    );
    let error = csv("a,b\n1,2\n3,x\n", &["--schema", "a:int,b:int"], all);
    for part in ["t.csv", "line 3", "`b`", "`x`"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(csv("a,a\n1,2\n", &[], all).contains("both named `a`"));
    assert!(csv("a\n\"1\n2\n", &[], all).contains("not closed"));

    let mut load = moirai(folder, &["table", "load", "--store=file:s", "--csv=-", "--table=piped"]);
    let mut load = load.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    load.stdin.take().unwrap().write_all(b"n\n4\n5\n").unwrap();
    assert!(load.wait().unwrap().success());
    let sum = ["sql", "--store=file:s", "--format=csv", "-c", "select sum(n) as s from piped"];
    assert_eq!(succeed(folder, &sum), "s\n9\n");
}

/// Statements from the command line and from files, and how failures end them.
#[test]
fn scripts_of_statements_end_at_the_first_failure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=64MiB", "--tpch", "0.001"]);
    let sql = |rest: &[&str]| {
        let all = [&["sql", "--store=file:s", "--format=csv"][..], rest].concat();
        run(folder, &all)
    };
    let (status, output, _) = sql(&["-c", "select 1 as a; select ';' as b", "-c", "select 3 as c"]);
    assert_eq!((status, output.as_str()), (Some(0), "a\n1\nb\n;\nc\n3\n"));
    std::fs::write(folder.join("f.sql"), "-- two\nselect 1 as a;\nselect nothing;\nselect 2 as b;")
        .unwrap();
    let (status, output, error) = sql(&["-f", "f.sql"]);
    assert_eq!((status, output.as_str()), (Some(1), "a\n1\n"));
    assert!(error.contains("f.sql:3") && !error.contains("public"), "{error}");
    let (status, output, error) = sql(&["-f", "f.sql", "--keep-going"]);
    assert_eq!((status, output.as_str()), (Some(1), "a\n1\nb\n2\n"));
    assert!(error.contains("1 statement failed"), "{error}");
    let (status, output, error) = sql(&["--timing", "-c", "select 1 as a"]);
    assert_eq!((status, output.as_str(), error.contains("ms")), (Some(0), "a\n1\n", true));
}

#[test]
fn standard_input_is_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "file:s.moirai?size=64MiB";
    succeed(folder, &["table", "load", "--store", store, "--tpch", "0.001"]);
    let mut prompt =
        moirai(folder, &["sql", "--store", "file:s.moirai", "--format", "csv", "--keep-going"])
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
    // Answers and nothing else.
    assert_eq!(text, "n\n25\nseven\n7\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("nonsense"));
    assert_eq!(output.status.code(), Some(1));
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
    assert_eq!(figures["rows"].as_array().unwrap().len(), 2 * 11);
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
