//! What a statement on a single row costs in processor time, prepared and as text: figures for docs/transactions.md.
//!
//!     cargo run --release -p moirai-sql --example point -- FILE [LAYOUT]
//!
//! FILE is made anew, of 1 GiB, and FILE.log beside it; all rows fit into memory. Choose one in memory, such that a commit's own writing takes no time.

#![expect(clippy::print_stdout, reason = "it is run by hand")]

use std::error::Error;

use moirai::btree::{Store, with_leaves};
use moirai::devices::{Access, NewFiles};
use moirai::runtime::{Stopwatch, block_on_real};
use moirai::units::ByteCount;
use moirai::update::{Kinds, Options};
use moirai_sql::{Database, ScalarValue};
use moirai_tables::{Layout, Tables};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Failed = Box<dyn Error + Send + Sync>;

const ROWS: i64 = 100_000;
const TIMES: u64 = 50_000;

/// Processor time of this process in microseconds, from Linux, which counts it by hundredths of a second.
fn processor_us() -> Result<u64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = behind.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    Ok((ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) * 10_000)
}

/// Runs something many times, and prints what one takes.
async fn measure(
    name: &str,
    mut act: impl AsyncFnMut(i64) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut rng = StdRng::seed_from_u64(1);
    let (before, watch) = (processor_us()?, Stopwatch::start());
    for _ in 0..TIMES {
        act(rng.random_range(0..ROWS)).await?;
    }
    let each = |us: u64| us as f64 / TIMES as f64;
    let elapsed_us = watch.elapsed().0 / 1000;
    println!(
        "{name:32} {:7.1} us of processor, {:7.1} us elapsed",
        each(processor_us()? - before),
        each(elapsed_us)
    );
    Ok(())
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rest @ ..] = &arguments[..] else { return Err("name FILE [LAYOUT]".into()) };
    let layout = rest.first().map_or(Some(Layout::Nsm), |name| Layout::of_name(name));
    let layout = layout.ok_or("take nsm, csm or pax")?;
    block_on_real(1, async {
        let files = NewFiles::new();
        let open = |path: String, size: &str| {
            let _ = std::fs::remove_file(&path);
            moirai::devices::open(
                format!("file:{path}?size={size}").parse()?,
                Access::Create(&files),
            )
            .map_err(Failed::from)
        };
        let (data, logs) = (open(file.clone(), "1GiB")?, [open(format!("{file}.log"), "256MiB")?]);
        Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
        let options = Options { memory: ByteCount::mib(512), ..Options::default() };
        let tables = Tables::open(data, &logs, Kinds::new(), options).await?;
        let database = Database::over(&tables);
        for statement in [
            format!(
                "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, n INT, d DECIMAL(12, 2)) WITH (layout = '{}')",
                layout.name()
            ),
            format!(
                "INSERT INTO t SELECT value, 'name ' || value, value % 1000, value FROM generate_series(0, {})",
                ROWS - 1
            ),
            "PREPARE get AS SELECT id, name, n, d FROM t WHERE id = $1".to_owned(),
            "PREPARE change AS UPDATE t SET n = n + 1, d = $2 WHERE id = $1".to_owned(),
        ] {
            database.query(&statement).await?;
        }
        let table = tables.table("t").await?;
        measure("library: Snapshot::rows_of", async |id| {
            let key = table.key_of(&[id.into()])?;
            tables.snapshot().await.rows_of(&table, &[key], &[0, 1, 2, 3]).await?;
            Ok(())
        })
        .await?;
        measure("SELECT, prepared, by values", async |id| {
            let mut rows = database.execute("get", &[ScalarValue::Int64(Some(id))]).await?;
            rows.next().await?.ok_or("no row")?;
            Ok(())
        })
        .await?;
        measure("SELECT, prepared, by EXECUTE", async |id| {
            database.query(&format!("EXECUTE get ({id})")).await?;
            Ok(())
        })
        .await?;
        measure("SELECT, as text", async |id| {
            database.query(&format!("SELECT id, name, n, d FROM t WHERE id = {id}")).await?;
            Ok(())
        })
        .await?;
        database.query("BEGIN").await?;
        measure("UPDATE in a block, by values", async |id| {
            let values =
                [ScalarValue::Int64(Some(id)), ScalarValue::Decimal128(Some(id.into()), 12, 2)];
            database.execute("change", &values).await?;
            Ok(())
        })
        .await?;
        database.query("COMMIT").await?;
        measure("UPDATE and commit, by values", async |id| {
            let values =
                [ScalarValue::Int64(Some(id)), ScalarValue::Decimal128(Some(id.into()), 12, 2)];
            database.execute("change", &values).await?;
            Ok(())
        })
        .await?;
        Ok(())
    })
}
