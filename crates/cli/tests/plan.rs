//! From a trace to a plan that is carried out, and what happens when that is killed, or the input is wrong.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::indexing_slicing, reason = "a test stops at what it did not expect")]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::{moirai, run, succeed};
use moirai::runtime::{block_on_real, random, sleep};
use moirai::units::Nanos;
use rand::Rng;

/// A trace in the columns of MSR of two devices: random reads of 8 KiB, and a scan in large reads.
fn write_trace(path: &Path) {
    let mut lines = String::new();
    for index in 0..4000u64 {
        let ticks = index * 100_000;
        let offset = index * 7_919 % 4_000 * 8_192;
        lines += &format!(
            "{ticks},host,0,{},{offset},8192,100\n",
            if index % 3 == 0 { "Write" } else { "Read" }
        );
        if index % 20 == 0 {
            let offset = index / 20 * 262_144 % (24 << 20);
            lines += &format!("{ticks},host,1,Read,{offset},262144,100\n");
        }
    }
    std::fs::write(path, lines).unwrap();
}

const POLICY: &str = r#"
[[disks]]
profile = "seagate-cheetah-36es"
count = 8
cost = 200.0

[arrays]
width = 4
fixed = true

[[object]]
name = "orders"
size = "40MiB"
goal = { percentile = 95, response_ms = 60.0 }

[[object]]
name = "reports"
size = "40MiB"
growth = 0.5
"#;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// A policy, a workload from a trace, and a plan, in `folder`.
fn plan(folder: &Path) {
    write_trace(&folder.join("trace.csv"));
    std::fs::write(folder.join("policy.toml"), POLICY).unwrap();
    let names = ["--name", "0=orders", "--name", "1=reports"];
    let mut arguments = vec!["plan", "characterise", "trace.csv", "--out", "load.toml", "--json"];
    arguments.extend(names);
    let characterised = json(&succeed(folder, &arguments));
    assert_eq!(characterised["requests"], 4200);
    let reads = characterised["streams"][0]["read_iops"].as_f64().unwrap();
    let writes = characterised["streams"][0]["write_iops"].as_f64().unwrap();
    assert!((reads / writes - 2.0).abs() < 0.01, "{characterised}");
    // The scan goes on where it was, but for its wrap around.
    assert!(characterised["streams"][1]["mean_run"].as_f64().unwrap() > 50.0, "{characterised}");
    let made = ["plan", "make", "policy.toml", "--workload", "load.toml", "--out", "plan.toml"];
    let rest = ["--page", "plan.html", "--requests", "2000", "--simulations", "12", "--json"];
    let made = json(&succeed(folder, &[&made[..], &rest[..]].concat()));
    let plans = made["plans"].as_array().unwrap();
    let names: Vec<&str> = plans.iter().map(|plan| plan["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"wide") && names.contains(&"narrow") && names.contains(&"planned"),
        "{names:?}"
    );
    for plan in plans {
        assert_eq!(
            (plan["meets_goals"].as_bool(), plan["price"].as_f64()),
            (Some(true), Some(1600.0))
        );
        let object = &plan["objects"][0];
        assert!(
            object["mean_response_ms"].as_f64() < object["p95_response_ms"].as_f64(),
            "{object}"
        );
        assert!(object["stripe_unit_bytes"].as_u64().unwrap() >= 4096);
        assert_eq!(plan["disk_utilisation"].as_array().unwrap().len(), 8);
    }
    let page = std::fs::read_to_string(folder.join("plan.html")).unwrap();
    assert!(page.contains("orders") && page.contains("wide") && !page.contains("http"), "{page}");
}

/// A plan for two objects on arrays of files, with `orders` on the arrays that `on` names.
fn plan_on(folder: &Path, name: &str, on: &str, level: &str) {
    let text = format!(
        "name = \"{name}\"\n[[array]]\nname = \"a\"\nprofile = \"seagate-cheetah-36es\"\ndisks = 3\n\
         [[array]]\nname = \"b\"\nprofile = \"seagate-cheetah-36es\"\ndisks = 3\n\
         [[object]]\nname = \"orders\"\nsize = \"24MiB\"\narrays = [{on}]\nlevel = \"{level}\"\n\
         stripe_unit = \"64KiB\"\n"
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

fn apply<'a>(plan: &'a str, devices: &'a [String]) -> Vec<&'a str> {
    let mut arguments = vec!["plan", "apply", plan, "--to", "placed", "--json"];
    arguments.extend(devices.iter().flat_map(|device| ["--device", device.as_str()]));
    arguments
}

#[test]
fn a_trace_becomes_a_plan_on_simulated_disks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    plan(folder);
    let simulated = ["plan", "simulate", "plan.toml", "--workload", "load.toml", "--what-if"];
    let simulated = json(&succeed(
        folder,
        &[&simulated[..], &["--requests", "2000", "--runs", "3", "--json"]].concat(),
    ));
    assert!(simulated["plans"][0]["cost_confidence"].as_f64().unwrap() > 0.0);
    let scenarios: Vec<&str> = simulated["what_if"]
        .as_array()
        .unwrap()
        .iter()
        .map(|scenario| scenario["scenario"].as_str().unwrap())
        .collect();
    assert!(scenarios.iter().any(|words| words.contains("has failed")), "{scenarios:?}");
    assert!(scenarios.contains(&"a year passes"), "{scenarios:?}");
    let rebuilt = simulated["what_if"].as_array().unwrap();
    let rebuilt = rebuilt.iter().find(|scenario| scenario["rebuild"].is_object()).unwrap();
    assert!(rebuilt["scenario"].as_str().unwrap().ends_with("is rebuilt"), "{rebuilt}");
    let of = |key: &str| rebuilt["rebuild"][key].as_f64().unwrap();
    assert!(of("mb_per_s") > 0.0 && of("hours") > 0.0, "{rebuilt}");
    let traced =
        ["plan", "simulate", "plan.toml", "--trace", "trace.csv", "--requests", "4200", "--json"];
    let of_trace = |more: &[&str]| json(&succeed(folder, &[&traced[..], more].concat()));
    let as_it_is = of_trace(&[]);
    assert!(as_it_is["plans"][0]["cost"].as_f64().unwrap() > 0.0);
    let names = ["--name", "0=orders", "--name", "1=reports"];
    assert_eq!(of_trace(&names), as_it_is);
    // At a fourth of the pace.
    let slow = of_trace(&["--time-scale", "orders=4", "--time-scale", "reports=4"]);
    for object in 0..2 {
        let rate = |of: &serde_json::Value| of["plans"][0]["objects"][object]["iops"].as_f64();
        let ratio = rate(&as_it_is).unwrap() / rate(&slow).unwrap();
        assert!((ratio - 4.0).abs() < 0.2, "{ratio}");
    }
    let compare = ["plan", "compare", "plan.toml", "plan.toml", "--requests", "500", "--json"];
    let compared = json(&succeed(
        folder,
        &[&compare[..], &["--runs", "1", "--workload", "load.toml"]].concat(),
    ));
    assert_eq!(compared["plans"][0]["cost"], compared["plans"][1]["cost"]);
    let (status, _, error) = run(folder, &compare);
    assert!(status == Some(2) && error.contains("--workload"), "{error}");
    let watched = ["plan", "watch", "plan.toml", "--workload", "load.toml", "--trace", "trace.csv"];
    let short = ["--requests", "2000", "--json"];
    let watched = json(&succeed(folder, &[&watched[..], &names[..], &short[..]].concat()));
    assert_eq!(watched["fits"], true, "{watched}");
    succeed(folder, &["plan", "apply", "plan.toml", "--to", "placed"]);
    succeed(folder, &["kv", "--store", "volume:placed/orders.toml", "put", "fruit", "apple"]);
    let shown = succeed(folder, &["volume", "show", "placed/orders.toml"]);
    assert!(shown.contains("volume:placed/.orders.0"), "{shown}");
    let got = succeed(folder, &["kv", "--store", "volume:placed/orders.toml", "get", "fruit"]);
    assert_eq!(got.trim(), "apple");
}

/// What a volume's labels take depends on the tracks where its sections begin.
#[test]
fn the_second_object_has_room_as_the_first_has() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = |name| {
        format!("[[array]]\nname = \"{name}\"\nprofile = \"seagate-cheetah-36es\"\ndisks = 4\n")
    };
    let object = |name, level, unit| {
        format!(
            "[[object]]\nname = \"{name}\"\nsize = \"40MiB\"\narrays = [\"a\", \"b\"]\nlevel = \"{level}\"\n\
             stripe_unit = \"{unit}\"\n"
        )
    };
    let (orders, reports) =
        (object("orders", "raid10", "8KiB"), object("reports", "raid5", "64KiB"));
    let plan = format!("name = \"plan\"\n{}{}{orders}{reports}", array("a"), array("b"));
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
    succeed(folder, &["plan", "apply", "plan.toml", "--to", "placed"]);
    let shown = succeed(folder, &["volume", "show", "placed/reports.toml"]);
    assert!(shown.contains("reports.toml: 40 MiB"), "{shown}");
}

/// `MOIRAI_KILLS` says how often.
#[test]
fn a_move_that_is_killed_loses_nothing() {
    let kills = std::env::var("MOIRAI_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let devices: Vec<String> = (0..6).map(|disk| format!("file:d{disk}.img?size=128MiB")).collect();
    plan_on(folder, "first", "\"a\"", "raid5");
    plan_on(folder, "second", "\"b\"", "raid5");
    plan_on(folder, "both", "\"a\", \"b\"", "raid5");
    succeed(folder, &apply("first.toml", &devices));
    let store = "volume:placed/orders.toml";
    let records: String = (0..2000).map(|key| format!("key{key:06}\tvalue{}\n", key * 7)).collect();
    std::fs::write(folder.join("records"), records).unwrap();
    succeed(folder, &["kv", "--store", store, "--memory", "16MiB", "load", "records"]);
    let dump = succeed(folder, &["kv", "--store", store, "dump"]);
    assert!(dump.len() > 20_000);
    block_on_real(1, async {
        let mut random = random("kills");
        let mut begun = 0;
        for kill in 0..kills {
            let target = ["second.toml", "both.toml", "first.toml"][kill % 3];
            let mut child = moirai(folder, &apply(target, &[]))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Until the move has begun, and a little longer.
            let state = folder.join("placed/placement.toml");
            let is_moving =
                || std::fs::read_to_string(&state).is_ok_and(|text| text.contains("[moving]"));
            while !is_moving() && child.try_wait().unwrap().is_none() {
                sleep(Nanos(1_000_000)).await;
            }
            begun += usize::from(is_moving());
            sleep(Nanos(random.random_range(0..60_000_000))).await;
            // SIGKILL, or too late.
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(succeed(folder, &["kv", "--store", store, "dump"]), dump, "kill {kill}");
            if random.random_range(0..3) == 0 {
                succeed(folder, &["plan", "apply", "--to", "placed", "--back"]);
                assert_eq!(succeed(folder, &["kv", "--store", store, "dump"]), dump, "kill {kill}");
            }
            succeed(folder, &apply(target, &[]));
            assert_eq!(succeed(folder, &["kv", "--store", store, "dump"]), dump, "kill {kill}");
        }
        assert!(begun * 2 >= kills, "{begun} of {kills} fell into a move");
    });
}

#[test]
fn a_folder_goes_on_with_a_disk_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let devices: Vec<String> = (0..6).map(|disk| format!("file:d{disk}.img?size=128MiB")).collect();
    for on in ["a", "b"] {
        plan_on(folder, on, &format!("\"{on}\""), "raid5");
        let path = folder.join(format!("{on}.toml"));
        let orders = std::fs::read_to_string(&path).unwrap();
        let (arrays, orders) = orders.split_at(orders.find("[[object]]").unwrap());
        let reports = orders.replace("orders", "reports").replace("\"b\"", "\"a\"");
        std::fs::write(&path, format!("{arrays}{orders}{reports}")).unwrap();
    }
    let applied = json(&succeed(folder, &apply("a.toml", &devices)));
    let store = "volume:placed/orders.toml";
    succeed(folder, &["kv", "--store", store, "put", "fruit", "apple"]);
    std::fs::remove_file(folder.join("d1.img")).unwrap();
    let replace = |object: usize, options: &str| {
        let object = &applied["objects"][object];
        let section = &object["sections"][0];
        let (first, blocks) = (&section["first_block"], &section["blocks"]);
        let volume = format!("placed/.{}.0.0.toml", object["name"].as_str().unwrap());
        let device = format!("file:new.img?{options}section={first}+{blocks}");
        succeed(folder, &["volume", "replace", &volume, "1", &device]);
        succeed(folder, &["volume", "rebuild", &volume]);
    };
    replace(0, "size=128MiB&");
    let (status, _, error) = run(folder, &apply("b.toml", &[]));
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("`orders` and `reports` have different disks in array 0"), "{error}");
    replace(1, "");
    succeed(folder, &apply("b.toml", &[]));
    let got = succeed(folder, &["kv", "--store", store, "get", "fruit"]);
    assert_eq!(got.trim(), "apple");
    succeed(folder, &apply("a.toml", &[]));
    let path = folder.join("placed/.orders.2.0.toml");
    let described = std::fs::read_to_string(&path).unwrap();
    // A name that was left there by a replacement of two disks is told.
    let more = described.replace("devices = [", "devices = [\"file:left.img\", ");
    std::fs::write(&path, more).unwrap();
    let (status, _, error) = run(folder, &apply("b.toml", &[]));
    assert!(status == Some(1) && error.contains("take those out that are gone"), "{error}");
    std::fs::write(&path, &described).unwrap();
    assert!(described.contains("new.img") && !described.contains("d1.img"), "{described}");
    let got = succeed(folder, &["kv", "--store", store, "get", "fruit"]);
    assert_eq!(got.trim(), "apple");
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trace(&folder.join("trace.csv"));
    let check = |policy: &str, load: &str, named: &str| {
        std::fs::write(folder.join("p.toml"), policy).unwrap();
        std::fs::write(folder.join("w.toml"), load).unwrap();
        let (status, _, error) =
            run(folder, &["plan", "make", "p.toml", "--workload", "w.toml", "--requests", "500"]);
        assert_ne!(status, Some(0), "{named}");
        assert!(error.contains(named), "{named}: {error}");
    };
    let load = "[[stream]]\nobject = \"orders\"\niops = 50.0\nsize = \"8KiB\"\n";
    check(&POLICY.replace("count = 8", "count = 3"), load, "3 are too few for an array of 4");
    check(&POLICY.replace("size = \"40MiB\"", "size = \"900GiB\""), load, "the objects do not fit");
    check(
        &POLICY.replace("survives", "x").replace("growth", "grwoth"),
        load,
        "unknown field `grwoth`",
    );
    check(&POLICY.replace("40MiB", "40 apples"), load, "`size`");
    check(POLICY, &load.replace("iops", "concurrency = 2\niops"), "contradict");
    check(POLICY, &load.replace("orders", "nobody"), "names must agree");
    // The disks cannot seek in a tenth of a millisecond: the goal, what is had, and what would help.
    let strict = POLICY.replace("response_ms = 60.0", "response_ms = 0.1");
    check(&strict, load, "`orders` wants 95 % of the requests within 0.1 ms and has");
    check(&strict, load, "add disks");
    // Times that run backwards, and a gap.
    let times = [0, 20_000_000, 10_000_000, 990_000_000];
    let lines = times.map(|ticks| format!("{ticks},host,0,Read,8192,8192,100\n"));
    std::fs::write(folder.join("backwards.csv"), lines.concat()).unwrap();
    plan_on(folder, "only", "\"a\"", "raid5");
    let simulated = ["plan", "simulate", "only.toml", "--trace", "backwards.csv"];
    for command in [&["plan", "characterise", "backwards.csv"][..], &simulated] {
        let (status, _, notes) = run(folder, command);
        assert_eq!(status, Some(0), "{notes}");
        assert!(notes.contains("1 request came with an earlier time"), "{notes}");
    }
    let (_, _, notes) = run(folder, &["plan", "characterise", "backwards.csv"]);
    assert!(notes.contains("a gap of 97.0 s"), "{notes}");
    // A plan whose object is too short for what is asked of it no longer fits.
    std::fs::write(folder.join("w.toml"), load).unwrap();
    let watch = ["plan", "watch", "only.toml", "--workload", "w.toml", "--trace", "trace.csv"];
    let names = ["--name", "0=orders", "--name", "1=reports", "--requests", "500"];
    let (status, shown, _) = run(folder, &[&watch[..], &names[..]].concat());
    assert_eq!(status, Some(1), "{shown}");
    assert!(
        shown.contains("`orders`: requests reach up to") && shown.contains("24 MiB"),
        "{shown}"
    );
    // Of a trace: past the end of an object, and a device that is no object.
    let simulate = |trace: &str| run(folder, &["plan", "simulate", "only.toml", "--trace", trace]);
    let (status, _, error) = simulate("trace.csv");
    assert!(status == Some(1) && error.contains("line"), "{error}");
    for (option, value, named) in [
        ("--name", "0=nobody", "the plan has no object `nobody`"),
        ("--time-scale", "nobody=2", "the plan has no object `nobody`"),
        ("--time-scale", "orders=0", "0 is not from 0.001 to 1000"),
    ] {
        let simulate = ["plan", "simulate", "only.toml", "--trace", "trace.csv", option, value];
        let (status, _, error) = run(folder, &simulate);
        assert!(status == Some(2) && error.contains(named), "{error}");
    }
    // What cannot be carried out leaves nothing behind.
    for (name, replaced) in [("a/b", "orders"), ("full", "24MiB")] {
        let text = std::fs::read_to_string(folder.join("only.toml")).unwrap();
        // All of the disks, which leaves no room for labels.
        let other = if name == "full" { "73345138688" } else { name };
        std::fs::write(folder.join("not.toml"), text.replace(replaced, other)).unwrap();
        let (status, _, error) = run(folder, &["plan", "apply", "not.toml", "--to", "y"]);
        assert_eq!(status, Some(1), "{error}");
        let left: Vec<_> = std::fs::read_dir(folder.join("y")).unwrap().collect();
        let names: Vec<_> = left.iter().map(|one| one.as_ref().unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == ".lock"), "{error}: {names:?}");
    }
    let (status, _, error) =
        run(folder, &["plan", "apply", "only.toml", "--to", "x", "--device", "file:d?size=1MiB"]);
    assert!(status == Some(2) && error.contains("6 disks"), "{error}");
}
