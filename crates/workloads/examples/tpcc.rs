//! TPC-C on a file in real time, for profiles: a program of little else.
//!
//!     cargo run --release -p moirai-workloads --example tpcc -- FILE WAREHOUSES MEMORY_MIB TERMINALS SECONDS [LAYOUT]
//!
//! FILE is made anew, of 4 GiB.

#![expect(clippy::print_stdout, reason = "it is run by hand")]

use std::error::Error;
use std::sync::Arc;

use moirai_btree::{Store, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{Stopwatch, block_on_real};
use moirai_storage::Device;
use moirai_tables::{Layout, Tables};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{Kinds, Options};
use moirai_workloads::driver::Running;
use moirai_workloads::tpcc::{Kind, RunOptions, Scale, load, run};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, warehouses, memory_mib, terminals, seconds, rest @ ..] = &arguments[..] else {
        return Err("name FILE WAREHOUSES MEMORY_MIB TERMINALS SECONDS [LAYOUT]".into());
    };
    let layout = rest.first().map_or(Some(Layout::Nsm), |name| Layout::of_name(name));
    let layout = layout.ok_or("take nsm, csm or pax")?;
    let (warehouses, memory_mib): (i64, u64) = (warehouses.parse()?, memory_mib.parse()?);
    let (terminals, seconds): (u64, u64) = (terminals.parse()?, seconds.parse()?);
    block_on_real(1, async {
        let files = NewFiles::new();
        let open = |path: String, size: &str| -> Result<Arc<dyn Device>, Box<dyn Error>> {
            let _ = std::fs::remove_file(&path);
            let uri = format!("file:{path}?size={size}");
            Ok(moirai_devices::open(uri.parse()?, Access::Create(&files))?)
        };
        let data = open(file.clone(), "4GiB")?;
        let logs = [open(format!("{file}.log"), "256MiB")?];
        Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
        let options = Options { memory: ByteCount::mib(memory_mib), ..Options::default() };
        let tables = Tables::open(data, &logs, Kinds::new(), options).await?;
        let watch = Stopwatch::start();
        let database = Arc::new(
            load(&tables, Scale::of(warehouses), tables.page_options(layout), |_| {}).await?,
        );
        println!("loaded in {:.1} s", watch.elapsed().as_s());
        let time = Nanos(seconds * 1_000_000_000);
        let options = RunOptions::of(terminals, time);
        let figures = run(&database, options, &Arc::new(Running::default())).await?;
        println!("{:.0} transactions/s", figures.per_second());
        for (kind, of_kind) in Kind::ALL.iter().zip(&figures.kinds) {
            let (p50, p999) = (of_kind.percentile(0.5).as_ms(), of_kind.percentile(0.999).as_ms());
            println!("{:14} {:8} {p50:8.2} {p999:8.2} ms", kind.name(), of_kind.committed);
        }
        Ok(())
    })
}
