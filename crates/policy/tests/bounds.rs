//! Policies and workloads at the bounds of what is possible: they end, and say what is wrong.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use moirai_policy::search::{Options, search};
use moirai_policy::{Judge, Policy, Scenario, Workload};

const FEW: Options = Options { seed: 1, requests: 400, simulations: 6, estimates: 50 };

const POLICY: &str = r#"
[[disks]]
profile = "seagate-cheetah-36es"
count = 4
cost = 100.0

[arrays]
width = 4

[[object]]
name = "orders"
size = "64MiB"
goal = { response_ms = 60.0 }
"#;

const LOAD: &str = "[[stream]]\nobject = \"orders\"\niops = 50.0\nsize = \"8KiB\"\n";

fn policy(text: &str) -> Policy {
    Policy::parse(text, Path::new("policy.toml")).unwrap()
}

fn workload(text: &str) -> Workload {
    Workload::parse(text, Path::new("load.toml")).unwrap()
}

fn refused(policy_text: &str, load: &str) -> String {
    search(&policy(policy_text), &workload(load), &FEW, &mut |_, _| ()).unwrap_err().to_string()
}

#[test]
fn goals_of_what_does_not_come_are_refused() {
    let wanted = POLICY.replace("response_ms = 60.0", "iops = 500.0");
    let error = refused(&wanted, LOAD);
    assert!(error.contains("500 requests/s") && error.contains("50.000 on average"), "{error}");
    let both = format!("{POLICY}\n[[object]]\nname = \"others\"\nsize = \"1MiB\"\n");
    let error = refused(&both, &LOAD.replace("orders", "others"));
    assert!(error.contains("`orders` has a goal") && error.contains("no stream"), "{error}");
}

/// A stream whose requests come so rarely that a run sees none of them.
#[test]
fn a_goal_is_not_met_by_an_object_without_requests() {
    let both = format!(
        "{POLICY}\n[[object]]\nname = \"batch\"\nsize = \"64MiB\"\ngoal = {{ response_ms = 0.001 }}\n"
    );
    let load = format!("{LOAD}\n[[stream]]\nobject = \"batch\"\niops = 1e-6\nsize = \"8KiB\"\n");
    let found = search(&policy(&both), &workload(&load), &FEW, &mut |_, _| ()).unwrap();
    let batch = found[0].judgement.objects.iter().find(|object| object.name == "batch").unwrap();
    assert_eq!((batch.requests, batch.meets_goal), (0, Some(false)));
    assert!(batch.missed.as_ref().unwrap().contains("no request"));
    assert!(!found[0].judgement.meets_goals);
}

/// Two streams that take turns are not judged as if they were on at once, however long each is on.
#[test]
fn streams_that_take_turns_for_hours_are_judged_as_those_for_seconds() {
    let both = format!("{POLICY}\n[[object]]\nname = \"batch\"\nsize = \"64MiB\"\n");
    let both = policy(&both.replace("goal = { response_ms = 60.0 }", ""));
    let load = |period_ms: f64, overlap: f64| {
        workload(&format!(
            "{}on_ms = {period_ms}\noff_ms = {period_ms}\n[[stream]]\nobject = \"batch\"\niops = 250.0\nsize = \"8KiB\"\n\
             follows = \"orders\"\noverlap = {overlap}\n",
            LOAD.replace("50.0", "250.0")
        ))
    };
    let plan = search(&both, &load(1e3, 0.0), &FEW, &mut |_, _| ()).unwrap().swap_remove(0).plan;
    let judged = |period_ms, overlap| {
        let workload = load(period_ms, overlap);
        Judge { workload: &workload, requests: 40_000, seed: 1, runs: 1 }.judge(&plan).unwrap()
    };
    let (seconds, hours, at_once) = (judged(1e3, 0.0), judged(3.6e6, 0.0), judged(1e3, 1.0));
    assert!((hours.cost / seconds.cost - 1.0).abs() < 0.1, "{} {}", hours.cost, seconds.cost);
    assert!(at_once.cost > 1.3 * hours.cost, "{} {}", at_once.cost, hours.cost);
    // Each was on at half of the moments: 20,000 requests less the tenth that is not counted, and what the moments' requests vary.
    for object in &hours.objects {
        assert!((object.requests as f64 / 18_000.0 - 1.0).abs() < 0.15, "{object:?}");
        assert!((object.iops / 125.0 - 1.0).abs() < 0.03, "{object:?}");
    }
}

/// What is on for an hour a day is seen, and its goals are met where the disks are fast enough.
#[test]
fn goals_of_what_is_rarely_on_are_judged() {
    let text = format!(
        "{POLICY}\n[[object]]\nname = \"batch\"\nsize = \"64MiB\"\ngoal = {{ response_ms = 60.0, iops = 2.0 }}\n"
    );
    let load = format!(
        "{LOAD}\n[[stream]]\nobject = \"batch\"\niops = 48.0\nsize = \"8KiB\"\non_ms = 3.6e6\noff_ms = 82.8e6\n"
    );
    for seed in 1..6 {
        let options = Options { seed, ..FEW };
        let found = search(&policy(&text), &workload(&load), &options, &mut |_, _| ()).unwrap();
        let batch = found[0].judgement.objects.iter().find(|object| object.name == "batch");
        let batch = batch.unwrap();
        assert!(found[0].judgement.meets_goals && batch.requests > 20, "{seed}: {batch:?}");
    }
    // Four disks do not bear five times as many as they serve, and that shows in the rate.
    let load = load.replace("48.0", "9600.0");
    let wanted = text.replace("iops = 2.0", "iops = 400.0").replace("response_ms = 60.0, ", "");
    let found = search(&policy(&wanted), &workload(&load), &FEW, &mut |_, _| ()).unwrap();
    assert!(!found[0].judgement.meets_goals, "{:?}", found[0].judgement);
}

#[test]
fn requests_and_units_larger_than_what_they_are_of_are_refused() {
    let error = refused(POLICY, &LOAD.replace("8KiB", "1000GiB"));
    assert!(error.contains("`orders`") && error.contains("larger than the object"), "{error}");
    let error = refused(&POLICY.replace("size =", "stripe_unit = \"16383PiB\"\nsize ="), LOAD);
    assert!(error.contains("is larger than a disk of array 0"), "{error}");
}

#[test]
fn requests_that_come_once_in_an_age_and_periods_of_all_lengths_end() {
    let rare = LOAD.replace("50.0", "1e-6");
    let without_goal = POLICY.replace("goal = { response_ms = 60.0 }", "");
    let options = Options { requests: 100_000, simulations: 4, ..FEW };
    search(&policy(&without_goal), &workload(&rare), &options, &mut |_, _| ()).unwrap();
    let far_apart = format!(
        "{LOAD}on_ms = 5.0\noff_ms = 5.0\n[[stream]]\nobject = \"other\"\niops = 1.0\nsize = \"8KiB\"\n\
         on_ms = 2.6e9\noff_ms = 2.6e9\n"
    );
    search(&policy(POLICY), &workload(&far_apart), &FEW, &mut |_, _| ()).unwrap();
}

#[test]
fn arrays_without_objects_are_not_bought() {
    let kinds = POLICY.replace(
        "[arrays]",
        "[[disks]]\nprofile = \"ibm-ultrastar-18es\"\ncount = 12\ncost = 1.0\n\n[arrays]",
    );
    let kinds = kinds.replace("goal = { response_ms = 60.0 }", "");
    for found in search(&policy(&kinds), &workload(LOAD), &FEW, &mut |_, _| ()).unwrap() {
        let used = &found.plan.objects[0].arrays;
        let arrays: Vec<&String> = found.plan.arrays.iter().map(|array| &array.name).collect();
        assert_eq!(arrays, used.iter().collect::<Vec<_>>());
        let disks = found.plan.arrays.iter().map(|array| array.cost * array.disks as f64);
        assert_eq!(found.judgement.price, disks.sum::<f64>());
        assert!(found.judgement.disk_utilisation.iter().all(|disk| used.contains(&disk.array)));
    }
}

#[test]
fn no_more_arrays_are_taken_than_a_goal_needs() {
    let of = |disks: usize| {
        let text = POLICY.replace("count = 4", &format!("count = {disks}"));
        policy(&text.replace("64MiB", "64GiB").replace("60.0", "14.0"))
    };
    let load = workload(&LOAD.replace("50.0", "1000.0"));
    let options = Options { requests: 4_000, simulations: 24, ..FEW };
    let best = |disks| search(&of(disks), &load, &options, &mut |_, _| ()).unwrap().swap_remove(0);
    let found = best(40);
    let arrays = found.plan.arrays.len();
    assert!(found.judgement.meets_goals && (2..10).contains(&arrays), "{found:?}");
    assert!(best(4 * arrays).judgement.meets_goals);
    assert!(!best(4 * (arrays - 1)).judgement.meets_goals, "{arrays} arrays are one too many");
}

/// Four disks can mirror in pairs, five cannot.
#[test]
fn an_object_lies_where_its_level_is_possible() {
    let widths = POLICY
        .replace("cost = 100.0", "width = 4")
        .replace(
            "[arrays]",
            "[[disks]]\nprofile = \"seagate-cheetah-36es\"\ncount = 5\nwidth = 5\n\n[arrays]",
        )
        .replace("size =", "level = \"raid10\"\nsize =")
        .replace("goal = { response_ms = 60.0 }", "");
    let second =
        format!("{widths}\n[[object]]\nname = \"b\"\nsize = \"64MiB\"\nlevel = \"raid10\"\n");
    let found = search(&policy(&second), &workload(LOAD), &FEW, &mut |_, _| ()).unwrap();
    for object in &found[0].plan.objects {
        let array = found[0].plan.arrays.iter().find(|array| array.name == object.arrays[0]);
        assert_eq!(array.unwrap().disks, 4);
    }
}

/// Requests beside a rebuild are those that come while it lasts.
#[test]
fn a_disk_that_is_rebuilt_is_no_better_than_one_that_is_whole() {
    let (policy, workload) = (policy(POLICY), workload(&LOAD.replace("50.0", "150.0")));
    let plan = search(&policy, &workload, &FEW, &mut |_, _| ()).unwrap().swap_remove(0).plan;
    let judge = Judge { workload: &workload, requests: 20_000, seed: 1, runs: 1 };
    let whole = judge.judge(&plan).unwrap();
    let array = plan.arrays[0].name.clone();
    let rebuilt = Scenario::FailedDisk { array, disk: 1, is_rebuilt: true };
    let rebuilt = judge.judge_in(&plan, &rebuilt).unwrap();
    let counted = |judgement: &moirai_policy::Judgement| judgement.objects[0].requests;
    assert!(counted(&rebuilt) > 0 && counted(&rebuilt) < counted(&whole) / 10);
    assert!(rebuilt.cost > whole.cost, "{} {}", rebuilt.cost, whole.cost);
    let rates = [&whole, &rebuilt].map(|judgement| judgement.objects[0].iops);
    assert!(rates[1] > rates[0] / 2.0 && rates[1] < rates[0] * 2.0, "{rates:?}");
}
