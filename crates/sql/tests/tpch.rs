//! All 22 TPC-H queries over tables in each layout, on a file, on a disk and on quadrangles of four: loaded, while changes of a tenth of all
//! rows wait for their pages, and after sweeps. The answers are those of tables in memory.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::sync::Arc;

use moirai::runtime::{block_on_real, block_on_virtual, random, sleep};
use moirai::units::{ByteCount, Nanos};
use moirai::update::{Kinds, Options};
use moirai::{Access, NewFiles, NewTrees, TreesPlace};
use moirai_sql::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use moirai_sql::arrow::compute::{take, take_record_batch};
use moirai_sql::{Answer, Database, Format, memory_database};
use moirai_tables::{Changes, Layout, LoadOptions, TableDefinition, Tables};
use moirai_workloads::tpch::{Table, query};
use rand::Rng;

/// What waits is swept once nothing was changed for so long: an hour, which queries of virtual time do not take.
const IDLE: Nanos = Nanos(3_600_000_000_000);
/// The same where changes are to be swept.
const SOON: Nanos = Nanos(10_000_000);

/// The rows of all tables, and the right answers.
struct Data {
    scale_factor: f64,
    tables: Vec<(Table, Vec<RecordBatch>)>,
    expected: Vec<Vec<String>>,
}

/// The rows of an answer, sorted: those that the query leaves equal come in any order.
async fn answer(database: &Database, statement: &str) -> Vec<String> {
    let (schema, batches) = database.query(statement).await.unwrap();
    let mut text = Vec::new();
    Answer { schema: &schema, batches: &batches }.write(&mut text, Format::Csv).unwrap();
    let mut lines: Vec<String> =
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn answers(database: &Database, scale_factor: f64) -> Vec<Vec<String>> {
    let mut answers = Vec::new();
    for number in 1..=22 {
        answers.push(answer(database, &query(number, scale_factor).unwrap()).await);
    }
    answers
}

impl Data {
    fn new(scale_factor: f64) -> Data {
        let tables: Vec<(Table, Vec<RecordBatch>)> = Table::ALL
            .into_iter()
            .map(|table| {
                let batches: Result<Vec<RecordBatch>, _> =
                    table.batches(scale_factor, 8192).collect();
                (table, batches.unwrap())
            })
            .collect();
        let in_memory = tables
            .iter()
            .map(|(table, batches)| (table.name().to_owned(), table.schema(), batches.clone()));
        let expected = block_on_virtual(1, async {
            answers(&memory_database(in_memory).unwrap(), scale_factor).await
        });
        // A line names the columns. Few rows match in small tables.
        let answered = expected.iter().filter(|answer| answer.len() > 1).count();
        assert!(answered >= 18, "{answered} of 22");
        Data { scale_factor, tables, expected }
    }

    async fn load(&self, tables: &Arc<Tables>, layout: Layout) {
        for (table, batches) in &self.tables {
            let mut definition =
                TableDefinition::new(table.schema(), table.primary_key(self.scale_factor)).unwrap();
            definition.pages = tables.page_options(layout);
            let options = LoadOptions::default();
            let mut load = tables.load(table.name(), definition, options).await.unwrap();
            for batch in batches {
                load.push(batch).await.unwrap();
            }
            load.finish().await.unwrap();
        }
    }

    /// Changes a tenth of all rows, and makes them what they were: some get other values and then their own, the others are deleted
    /// and put again.
    async fn disturb(&self, tables: &Arc<Tables>) {
        let mut random = random("changed rows");
        for (table, batches) in &self.tables {
            let table = tables.table(table.name()).await.unwrap();
            let key = table.definition().key();
            for batch in batches {
                let picked = (0..batch.num_rows() as u32).filter(|_| random.random_bool(0.1));
                let picked = UInt32Array::from_iter_values(picked);
                let rows = take_record_batch(batch, &picked).unwrap();
                let (set, put) = (rows.slice(0, rows.num_rows() / 2), rows.num_rows() / 2);
                let put = rows.slice(put, rows.num_rows() - put);
                let keys = |rows: &RecordBatch| -> Vec<ArrayRef> {
                    key.iter().map(|column| Arc::clone(rows.column(*column))).collect()
                };
                let others = |rows: &RecordBatch| -> Vec<(usize, ArrayRef)> {
                    let others = (0..rows.num_columns()).filter(|column| !key.contains(column));
                    others.map(|column| (column, Arc::clone(rows.column(column)))).collect()
                };
                let reversed = UInt32Array::from_iter_values((0..set.num_rows() as u32).rev());
                let wrong = others(&set)
                    .into_iter()
                    .map(|(column, array)| (column, take(&array, &reversed, None).unwrap()))
                    .collect::<Vec<_>>();
                let mut changes = Changes::new();
                changes.set(&table, &keys(&set), &wrong, &[]).unwrap();
                changes.delete(&table, &keys(&put)).unwrap();
                tables.commit(&changes).await.unwrap();
                changes.clear();
                changes.set(&table, &keys(&set), &others(&set), &[]).unwrap();
                changes.put(&table, &put).unwrap();
                tables.commit(&changes).await.unwrap();
            }
        }
    }

    async fn check(&self, tables: &Arc<Tables>, state: &str) {
        let found = answers(&Database::over(tables), self.scale_factor).await;
        for (index, (found, expected)) in found.iter().zip(&self.expected).enumerate() {
            assert_eq!(found, expected, "Q{}, {state}", index + 1);
        }
    }

    /// All states of tables in a layout on the device that `uri` names.
    async fn check_states(&self, layout: Layout, uri: &str) {
        let (files, options) =
            (NewFiles::new(), Options { idle: Some(IDLE), ..Options::default() });
        let tables = match uri.starts_with("file:") {
            true => {
                let new = NewTrees::new(ByteCount(8 << 10), &files);
                let place = TreesPlace { data: uri, logs: &[] };
                let made = moirai::create_trees(place, new, Kinds::new(), options).await.unwrap();
                Tables::over(made.store)
            }
            false => {
                let device = moirai::open_device_for(uri, Access::Write).await.unwrap();
                moirai::create_tables_on(device, ByteCount(8 << 10), options).await.unwrap()
            }
        };
        let name = layout.name();
        self.load(&tables, layout).await;
        self.check(&tables, &format!("{name} on {uri}, loaded")).await;
        self.disturb(&tables).await;
        assert!(tables.store().figures().queued > 0, "nothing waits");
        self.check(&tables, &format!("{name} on {uri}, changes pending")).await;
        let tables = match uri.starts_with("file:") {
            true => {
                tables.close().await.unwrap();
                let place = TreesPlace { data: uri, logs: &[] };
                let options = Options { idle: Some(SOON), ..options };
                moirai::open_tables(place, Kinds::new(), options).await.unwrap()
            }
            false => tables,
        };
        let placed = tables.store().figures().placed;
        for _ in 0..100 {
            sleep(if uri.starts_with("file:") { SOON } else { IDLE }).await;
        }
        tables.store().checkpoint().await.unwrap();
        assert!(tables.store().figures().placed > placed, "nothing was swept");
        self.check(&tables, &format!("{name} on {uri}, swept")).await;
        assert!(tables.store().check().await.is_empty());
    }

    /// The same on a device of each kind; on simulated ones in virtual time.
    fn check_on(&self, layout: Layout, device: &str, folder: &Path) {
        let path = folder.join(format!("{}-{device}", layout.name()));
        match device {
            "file" => {
                let uri = format!("file:{}?size=2GiB", path.display());
                block_on_real(1, self.check_states(layout, &uri));
                std::fs::remove_file(path).unwrap();
            }
            "disk" => block_on_virtual(1, self.check_states(layout, "sim:seagate-cheetah-36es")),
            _ => {
                let disk = "\"sim:seagate-cheetah-36es\"";
                let description = format!(
                    "devices = [{disk}, {disk}, {disk}, {disk}]\n[quadrangle]\ndepth = 4\nzone = 0\n"
                );
                std::fs::write(&path, description).unwrap();
                let uri = format!("volume:{}", path.display());
                block_on_virtual(1, self.check_states(layout, &uri));
            }
        }
    }
}

#[test]
fn each_layout_gives_the_answers_of_memory() {
    let (data, folder) = (Data::new(0.01), tempfile::tempdir().unwrap());
    for (layout, device) in Layout::ALL.into_iter().zip(["volume", "file", "disk"]) {
        data.check_on(layout, device, folder.path());
    }
}

#[test]
#[ignore = "takes an hour without optimisation: run by `cargo xtask test --full`"]
fn each_layout_on_each_device_gives_the_answers_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    for scale_factor in [0.01, 0.1] {
        let data = Data::new(scale_factor);
        for layout in Layout::ALL {
            for device in ["volume", "file", "disk"] {
                data.check_on(layout, device, folder.path());
            }
        }
    }
}
