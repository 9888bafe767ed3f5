//! A load that is killed leaves each table complete or absent, and a store that opens.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::io::{BufRead, BufReader};

use common::{moirai, run, succeed};
use moirai::runtime::{block_on_real, random, sleep};
use moirai::units::Nanos;
use moirai_workloads::tpch::Table;
use rand::Rng;

#[test]
fn kill_9_in_the_middle_of_a_load_twenty_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scale_factor = 0.01;
    block_on_real(20, async {
        let mut random = random("kill");
        let mut tables_seen = Vec::new();
        for round in 0..20 {
            let store = format!("file:s{round}?size=128MiB");
            let layout = ["csm", "nsm", "pax"][round % 3];
            let arguments =
                ["table", "load", "--store", &store, "--tpch", "0.01", "--layout", layout];
            let mut child = moirai(folder, &arguments)
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            // A line is printed for each table that is loaded. The kill falls somewhere behind one of
            // them: by progress and not by the clock, which tells little on a busy machine.
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let printed = lines.by_ref().take(random.random_range(0..8)).count();
            sleep(Nanos(random.random_range(0..150_000_000))).await;
            // SIGKILL.
            child.kill().unwrap();
            child.wait().unwrap();

            let path = folder.join(format!("s{round}"));
            if !path.exists() {
                tables_seen.push(0);
                continue;
            }
            let store = format!("file:s{round}");
            let (status, listed, error) =
                run(folder, &["table", "list", "--store", &store, "--json"]);
            if status != Some(0) {
                // The store itself was not whole yet.
                assert!(printed == 0 && error.contains("name a store"), "round {round}: {error}");
                tables_seen.push(0);
                std::fs::remove_file(path).unwrap();
                continue;
            }
            let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
            let listed = listed.as_array().unwrap().iter();
            let listed: Vec<&str> = listed.map(|table| table["name"].as_str().unwrap()).collect();
            // Tables are loaded in this order, each durable before the next.
            let mut names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
            names.truncate(listed.len());
            assert!(names.iter().all(|name| listed.contains(name)), "round {round}: {listed:?}");
            for (table, name) in Table::ALL.iter().zip(&names) {
                let scanned =
                    succeed(folder, &["table", "scan", "--store", &store, name, "--json"]);
                let scanned: serde_json::Value = serde_json::from_str(&scanned).unwrap();
                let rows = table.rows(scale_factor).unwrap_or(60_175);
                assert_eq!(scanned["rows"].as_u64(), Some(rows), "round {round}: {name}");
            }
            // And the store goes on: what is missing can be loaded.
            if names.is_empty() {
                let (status, _, error) =
                    run(folder, &["table", "load", "--store", &store, "--tpch", "0.001"]);
                assert_eq!(status, Some(0), "round {round}: {error}");
            }
            tables_seen.push(names.len());
            std::fs::remove_file(path).unwrap();
        }
        // The kills fell at different points: some with tables, some before the last.
        assert!(tables_seen.iter().any(|count| *count > 0), "{tables_seen:?}");
        assert!(tables_seen.iter().any(|count| *count < 8), "{tables_seen:?}");
    });
}
