//! All 22 TPC-H queries through `moirai sql` give the answers that they give over tables in memory.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::path::Path;

use common::succeed;
use moirai::runtime::block_on_real;
use moirai_sql::arrow::array::RecordBatch;
use moirai_sql::{Answer, Database, Format, memory_database};
use moirai_workloads::tpch::{Table, query};

fn in_memory(scale_factor: f64) -> Database {
    let tables = Table::ALL.map(|table| {
        let batches: Result<Vec<RecordBatch>, _> = table.batches(scale_factor, 8192).collect();
        (table.name().to_owned(), table.schema(), batches.unwrap())
    });
    memory_database(tables).unwrap()
}

/// The lines of an answer, sorted: rows that the query leaves equal come in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// For each query: the statement, and the answer over tables in memory as CSV.
fn expected_answers(scale_factor: f64) -> Vec<(String, String)> {
    block_on_real(1, async {
        let memory = in_memory(scale_factor);
        let mut answers = Vec::new();
        for number in 1..=22 {
            let statement = query(number, scale_factor).unwrap();
            let (schema, batches) = memory.query(&statement).await.unwrap();
            let mut text = Vec::new();
            Answer { schema: &schema, batches: &batches }.write(&mut text, Format::Csv).unwrap();
            answers.push((statement, String::from_utf8(text).unwrap()));
        }
        answers
    })
}

fn check(folder: &Path, store: &str, layout: &str, scale: &str, expected: &[(String, String)]) {
    succeed(folder, &["table", "load", "--store", store, "--tpch", scale, "--layout", layout]);
    let opened = store.split('?').next().unwrap();
    for (index, (statement, expected)) in expected.iter().enumerate() {
        let answer = succeed(folder, &["sql", "--store", opened, "--format", "csv", statement]);
        assert_eq!(sorted(&answer), sorted(expected), "Q{} on {opened}, {layout}", index + 1);
    }
}

#[test]
fn the_tool_gives_the_answers_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scale = "0.01";
    let expected = expected_answers(scale.parse().unwrap());
    let answered = expected.iter().filter(|(_, answer)| answer.lines().count() > 1).count();
    assert!(answered >= 18, "{answered} of 22");
    let devices =
        [0, 1, 2, 3].map(|disk| format!("--device=sim:seagate-cheetah-36es?data={disk}.img"));
    let mut create = vec!["volume", "create", "v.toml", "--depth=4"];
    create.extend(devices.iter().map(String::as_str));
    succeed(folder, &create);
    check(folder, "volume:v.toml", "csm", scale, &expected);
    check(folder, "file:s?size=1GiB", "nsm", scale, &expected);
}
