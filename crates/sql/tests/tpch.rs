//! All 22 TPC-H queries give the answers that they give over tables in memory.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai::runtime::{block_on_real, block_on_virtual};
use moirai::store::{LoadOptions, PageLayout, Store};
use moirai_sql::arrow::array::RecordBatch;
use moirai_sql::{Database, Format, memory_database, write_batches};
use moirai_workloads::tpch::{Table, query};

async fn load(store: &Arc<Store>, layout: PageLayout, scale_factor: f64) {
    for table in Table::ALL {
        let schema = table.schema();
        let options = LoadOptions::default();
        let mut load = store
            .load(table.name(), &schema, layout, options)
            .await
            .unwrap();
        for batch in table.batches(scale_factor, 8192) {
            load.append(&batch.unwrap()).await.unwrap();
        }
        load.finish().await.unwrap();
    }
}

fn in_memory(scale_factor: f64) -> Database {
    let tables = Table::ALL.map(|table| {
        let batches: Result<Vec<RecordBatch>, _> = table.batches(scale_factor, 8192).collect();
        (table.name().to_owned(), table.schema(), batches.unwrap())
    });
    memory_database(tables).unwrap()
}

/// The rows of an answer as text, sorted: rows that the query leaves equal come in any order.
async fn answer(database: &Database, statement: &str) -> Vec<String> {
    let (schema, batches) = database.query(statement).await.unwrap();
    let mut text = Vec::new();
    write_batches(&mut text, Format::Csv, &schema, &batches).unwrap();
    let mut lines: Vec<String> = String::from_utf8(text)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

async fn check_queries(store: &Arc<Store>, scale_factor: f64, what: &str) {
    let database = Database::new(store).unwrap();
    let memory = in_memory(scale_factor);
    for number in 1..=22 {
        let statement = query(number, scale_factor).unwrap();
        let expected = answer(&memory, &statement).await;
        assert!(!expected.is_empty());
        assert_eq!(
            answer(&database, &statement).await,
            expected,
            "Q{number} on {what}"
        );
    }
}

fn check_simulated(layout: PageLayout, scale_factor: f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vol.toml");
    let devices = ["\"sim:seagate-cheetah-36es\""; 4].join(", ");
    std::fs::write(
        &path,
        format!("devices = [{devices}]\n[quadrangle]\ndepth = 4\n"),
    )
    .unwrap();
    block_on_virtual(1, async {
        let store = moirai::open_store(&format!("volume:{}", path.display()))
            .await
            .unwrap();
        load(&store, layout, scale_factor).await;
        check_queries(&store, scale_factor, &format!("the volume, {layout}")).await;
    });
}

fn check_file(layout: PageLayout, scale_factor: f64) {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("file:{}?size=1GiB", folder.path().join("store").display());
    block_on_real(1, async {
        let store = moirai::open_store(&uri).await.unwrap();
        load(&store, layout, scale_factor).await;
        check_queries(&store, scale_factor, &format!("the file, {layout}")).await;
    });
}

#[test]
fn csm_on_a_simulated_volume() {
    check_simulated(PageLayout::Csm, 0.01);
}

#[test]
fn nsm_on_a_simulated_volume() {
    check_simulated(PageLayout::Nsm, 0.01);
}

#[test]
fn csm_in_a_file() {
    check_file(PageLayout::Csm, 0.01);
}

#[test]
fn nsm_in_a_file() {
    check_file(PageLayout::Nsm, 0.01);
}

#[test]
#[ignore = "takes minutes without optimisation: run by `cargo xtask test --full`"]
fn scale_factor_0_1_on_both_layouts_and_both_devices() {
    for layout in [PageLayout::Csm, PageLayout::Nsm] {
        check_simulated(layout, 0.1);
        check_file(layout, 0.1);
    }
}
