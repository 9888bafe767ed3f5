//! Loads TPC-H's tables, and scans them: how long it takes, and how many bytes they have.
//!
//!     cargo run --release -p moirai-tables --example tpch -- FOLDER [SCALE [MEMORY_MIB]]

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use moirai_btree::{Store, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{BusyTime, Stopwatch, block_on_real, use_one_heap};
use moirai_storage::Device;
use moirai_tables::{LoadOptions, ScanOptions, TableDefinition, Tables};
use moirai_units::ByteCount;
use moirai_update::{ExtentUse, Kinds, Options};
use moirai_workloads::tpch::Table;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn device(folder: &Path, name: &str, size: ByteCount) -> Outcome<Arc<dyn Device>> {
    let path = folder.join(name);
    drop(std::fs::remove_file(&path));
    let uri = format!("file:{}?size={}MiB&direct=false", path.display(), size.0 >> 20);
    Ok(moirai_devices::open(uri.parse()?, Access::Create(&NewFiles::new()))?)
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let scale = arguments.next().map_or(Ok(0.1), |text| text.parse::<f64>())?;
    let memory = arguments.next().map_or(Ok(256), |text| text.parse::<u64>())?;
    let folder = Path::new(&folder);
    let data = device(folder, "data.img", ByteCount((scale * 1e9) as u64 + (1 << 30)))?;
    let logs = [device(folder, "log.img", ByteCount(256 << 20))?];
    Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
    let options = Options { memory: ByteCount(memory << 20), ..Options::default() };
    let tables = Tables::open(data, &logs, Kinds::new(), options).await?;
    let (all, busy) = (Stopwatch::start(), BusyTime::start());
    for table in Table::ALL {
        let watch = Stopwatch::start();
        let definition = TableDefinition::new(table.schema(), table.primary_key(scale))?;
        let mut load = tables.load(table.name(), definition, LoadOptions::default()).await?;
        for batch in table.batches(scale, 8192) {
            load.push(&batch?).await?;
        }
        let (made, rows) = load.finish().await?;
        let of_table = |one: &moirai_update::ExtentInUse| matches!(one.used_for, ExtentUse::Blocks(space) if space == made.space());
        let map = tables.store().engine().map().await;
        let used: u64 =
            map.iter().filter(|one| of_table(one)).map(|one| one.blocks.count.bytes().0).sum();
        let seconds = watch.elapsed().as_s();
        println!(
            "{:10} {rows:>10} rows {:>8.1} MB {seconds:>7.2} s",
            table.name(),
            used as f64 / 1e6
        );
    }
    let busy = busy.map_or(0.0, |busy| busy.elapsed().as_s());
    println!("all in {:.2} s, {busy:.2} s of processors", all.elapsed().as_s());
    let lineitem = tables.table("lineitem").await?;
    let snapshot = tables.snapshot().await;
    for (what, columns) in [
        ("rows alone", vec![]),
        ("two int64", vec![1, 2]),
        ("four decimals", vec![4, 5, 6, 7]),
        ("three dates", vec![10, 11, 12]),
        ("two flags", vec![8, 9]),
        ("key", vec![0, 3]),
        ("l_comment", vec![15]),
        ("all", (0..16).collect()),
    ] {
        let (mut runs, mut bytes) = (Vec::new(), 0);
        for _ in 0..5 {
            let watch = Stopwatch::start();
            let options = ScanOptions { columns: Some(columns.clone()), ..ScanOptions::default() };
            let mut scan = Arc::clone(&snapshot).scan(&lineitem, options)?;
            bytes = 0;
            while let Some(batch) = scan.next().await? {
                bytes += batch.get_array_memory_size();
            }
            runs.push(watch.elapsed().as_s());
        }
        runs.sort_by(f64::total_cmp);
        let seconds = runs.get(2).copied().unwrap_or(1.0);
        println!(
            "scan of {what}: {seconds:.3} s, {:.2} GB/s of arrays",
            bytes as f64 / seconds / 1e9
        );
    }
    for file in ["data.img", "log.img"] {
        std::fs::remove_file(folder.join(file))?;
    }
    Ok(())
}

fn main() -> Outcome {
    use_one_heap();
    block_on_real(1, run())
}
