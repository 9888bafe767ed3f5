//! `moirai table`: load, list, show, scan, drop.

use moirai::units::grouped;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use futures::StreamExt;
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::storage::{Device, Metered};
use moirai::store::{LoadOptions, PageLayout, ScanOptions, Store, Table};
use moirai_sql::{Import, read_csv, read_parquet};
use moirai_workloads::tpch;
use serde::Serialize;

use crate::failure::Failure;
use crate::{demo, print, progress, run};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArgument {
    /// Slotted pages of whole rows
    Nsm,
    /// Attributes apart from each other, on blocks that are read together
    Csm,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Load tables: TPC-H, a Parquet file or a CSV file
    #[command(group = clap::ArgGroup::new("source").required(true))]
    Load {
        /// The device or volume that the store is on, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// The eight TPC-H tables at this scale factor
        #[arg(long, value_name = "SCALE", group = "source", value_parser = demo::scale_factor)]
        tpch: Option<f64>,
        /// A Parquet file
        #[arg(long, value_name = "FILE", group = "source")]
        parquet: Option<PathBuf>,
        /// A CSV file whose first line names the columns
        #[arg(long, value_name = "FILE", group = "source")]
        csv: Option<PathBuf>,
        /// The table's name; the file's when not given
        #[arg(long, conflicts_with = "tpch")]
        table: Option<String>,
        /// How pages are laid out
        #[arg(long, value_enum, default_value = "csm")]
        layout: LayoutArgument,
    },
    /// List the tables of a store
    List {
        /// The device or volume that the store is on, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a table's columns and what is known of them
    Show {
        /// The device or volume that the store is on, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// The table
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Scan a table, all columns or some, and say what that took
    Scan {
        /// The device or volume that the store is on, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// The table
        name: String,
        /// The columns to read, with commas between; all when not given
        #[arg(long, value_delimiter = ',')]
        columns: Option<Vec<String>>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a table out of a store
    Drop {
        /// The device or volume that the store is on, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// The table
        name: String,
    },
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load { store, tpch, parquet, csv, table, layout } => {
            let layout = match layout {
                LayoutArgument::Nsm => PageLayout::Nsm,
                LayoutArgument::Csm => PageLayout::Csm,
            };
            // A source that cannot be read leaves no store behind.
            let file = match (&parquet, &csv) {
                (Some(path), _) => Some((read_parquet(path)?, path)),
                (_, Some(path)) => Some((read_csv(path)?, path)),
                (None, None) => None,
            };
            run::on_device(&store, async {
                let store = moirai::open_store(&store).await?;
                match (tpch, file) {
                    (Some(scale), _) => load_tpch(&store, scale, layout).await,
                    (_, Some((import, path))) => {
                        load_file(&store, import, path, table, layout).await
                    }
                    (None, None) => Err(Failure::Usage("name a source".into())),
                }
            })
        }
        Command::List { store, json } => run::on_device(&store, list(&store, json)),
        Command::Show { store, name, json } => run::on_device(&store, show(&store, &name, json)),
        Command::Scan { store, name, columns, json } => {
            run::on_device(&store, scan(&store, &name, columns, json))
        }
        Command::Drop { store, name } => run::on_device(&store, async {
            moirai::open_store(&store).await?.drop_table(&name).await?;
            print::line(format!("dropped {name}"))
        }),
    }
}

async fn load_tpch(store: &Arc<Store>, scale: f64, layout: PageLayout) -> Result<(), Failure> {
    // All names are looked at before anything is written.
    let known = store.table_names();
    if let Some(table) = tpch::Table::ALL.iter().find(|t| known.iter().any(|k| k == t.name())) {
        let name = table.name().to_owned();
        return Err(moirai::store::Error::TableExists { name }.into());
    }
    let mut loaded = Vec::new();
    for table in tpch::Table::ALL {
        let import = Import {
            schema: table.schema(),
            rows: Some(table.expected_rows(scale)),
            batches: Box::new(table.batches(scale, moirai::store::BATCH_ROWS)),
        };
        if let Err(failure) = load(store, import, table.name(), layout).await {
            // All eight or none.
            for name in loaded {
                store.drop_table(name).await?;
            }
            return Err(failure);
        }
        loaded.push(table.name());
    }
    print::note_of_memory(&store.device().inquiry().name);
    Ok(())
}

async fn load_file(
    store: &Arc<Store>,
    import: Import,
    path: &Path,
    name: Option<String>,
    layout: PageLayout,
) -> Result<(), Failure> {
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.or_else(stem).unwrap_or_default();
    load(store, import, &name, layout).await?;
    print::note_of_memory(&store.device().inquiry().name);
    Ok(())
}

async fn load(
    store: &Arc<Store>,
    import: Import,
    name: &str,
    layout: PageLayout,
) -> Result<(), Failure> {
    let watch = Stopwatch::start();
    let mut load = store.load(name, &import.schema, layout, LoadOptions::default()).await?;
    let bar = progress::bar(name, import.rows);
    for batch in import.batches {
        let batch = batch.map_err(moirai::store::Error::Arrow)?;
        load.append(&batch).await?;
        bar.set_position(load.rows());
    }
    let table = load.finish().await?;
    bar.finish_and_clear();
    // The table is there, whether anybody reads of it or not.
    let _ = print::line(format!(
        "{:10} {:>12} rows  {layout}  {}",
        table.name(),
        grouped(table.rows()),
        watch.elapsed()
    ));
    Ok(())
}

#[derive(Serialize)]
struct Listed {
    name: String,
    layout: String,
    rows: u64,
    columns: usize,
    pages: u64,
    stored_bytes: u64,
}

async fn list(uri: &str, json: bool) -> Result<(), Failure> {
    let store = moirai::open_store(uri).await?;
    let mut listed = Vec::new();
    for name in store.table_names() {
        let table = store.table(&name)?;
        let size = table.size().await?;
        listed.push(Listed {
            name,
            layout: table.layout().to_string(),
            rows: table.rows(),
            columns: table.attributes().len(),
            pages: size.pages,
            stored_bytes: size.extent_blocks.bytes().0,
        });
    }
    if json {
        return print::json(&listed);
    }
    print::table(
        &[
            ("table", false),
            ("layout", false),
            ("rows", true),
            ("columns", true),
            ("pages", true),
            ("MiB", true),
        ],
        listed
            .into_iter()
            .map(|table| {
                vec![
                    table.name,
                    table.layout,
                    grouped(table.rows),
                    table.columns.to_string(),
                    grouped(table.pages),
                    format!("{:.1}", table.stored_bytes as f64 / (1 << 20) as f64),
                ]
            })
            .collect(),
    )
}

#[derive(Serialize)]
struct ShownTable {
    name: String,
    layout: String,
    rows: u64,
    page_rows: Option<u32>,
    columns: Vec<ShownColumn>,
}

#[derive(Serialize)]
struct ShownColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    nullable: bool,
    nulls: u64,
    min: Option<String>,
    max: Option<String>,
}

async fn show(uri: &str, name: &str, json: bool) -> Result<(), Failure> {
    let store = moirai::open_store(uri).await?;
    let table = store.table(name)?;
    let text = |array: Option<moirai_sql::arrow::array::ArrayRef>| {
        array.and_then(|array| {
            moirai_sql::arrow::util::display::array_value_to_string(&array, 0).ok()
        })
    };
    let columns = table.attributes().iter().enumerate().map(|(index, attribute)| {
        let bounds = table.bounds(index);
        ShownColumn {
            name: attribute.name.clone(),
            kind: attribute.attribute_type.to_string(),
            nullable: attribute.nullable,
            nulls: bounds.as_ref().map_or(0, |bounds| bounds.nulls),
            min: text(bounds.as_ref().and_then(|bounds| bounds.min.clone())),
            max: text(bounds.and_then(|bounds| bounds.max)),
        }
    });
    let shown = ShownTable {
        name: name.to_owned(),
        layout: table.layout().to_string(),
        rows: table.rows(),
        page_rows: table.page_rows(),
        columns: columns.collect(),
    };
    if json {
        return print::json(&shown);
    }
    let pages =
        shown.page_rows.map(|rows| format!(", {rows} rows to an A-page")).unwrap_or_default();
    print::line(format!("{name}: {} rows, {}{pages}", grouped(shown.rows), shown.layout))?;
    print::table(
        &[
            ("column", false),
            ("type", false),
            ("nullable", false),
            ("nulls", true),
            ("min", true),
            ("max", true),
        ],
        shown
            .columns
            .into_iter()
            .map(|column| {
                vec![
                    column.name,
                    column.kind,
                    if column.nullable { "yes" } else { "no" }.into(),
                    grouped(column.nulls),
                    column.min.unwrap_or_default(),
                    column.max.unwrap_or_default(),
                ]
            })
            .collect(),
    )
}

#[derive(Serialize)]
struct Scanned {
    table: String,
    rows: u64,
    ios: u64,
    read_bytes: u64,
    /// Virtual time, on simulated devices.
    virtual_ms: Option<f64>,
    disk_efficiency: Option<f64>,
    wall_ms: f64,
}

async fn scan(
    uri: &str,
    name: &str,
    columns: Option<Vec<String>>,
    json: bool,
) -> Result<(), Failure> {
    let device = Metered::new(moirai::open_device(uri).await?);
    let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await?;
    let table = store.table(name)?;
    let columns = columns.map(|names| column_numbers(&table, &names)).transpose()?;
    device.take();
    let (watch, began) = (Stopwatch::start(), now());
    let options = ScanOptions { columns, ..ScanOptions::default() };
    let mut stream = table.scan(options).await?.stream();
    let bar = progress::bar(name, Some(table.rows()));
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows() as u64;
        bar.set_position(rows);
    }
    bar.finish_and_clear();
    let meter = device.take();
    let scanned = Scanned {
        table: name.to_owned(),
        rows,
        ios: meter.reads,
        read_bytes: meter.read_blocks.bytes().0,
        virtual_ms: is_virtual().then(|| now().since(began).as_ms()),
        disk_efficiency: is_virtual().then(|| meter.parts.efficiency()),
        wall_ms: watch.elapsed().as_ms(),
    };
    if json {
        return print::json(&scanned);
    }
    print::line(format!(
        "{} rows, {} in {} I/Os",
        grouped(scanned.rows),
        meter.read_blocks.bytes(),
        grouped(scanned.ios)
    ))?;
    match (scanned.virtual_ms, scanned.disk_efficiency) {
        (Some(ms), Some(efficiency)) => print::line(format!(
            "virtual I/O time {ms:.3} ms, disk efficiency {:.0} %",
            efficiency * 100.0
        )),
        _ => print::line(format!("{:.3} ms", scanned.wall_ms)),
    }
}

fn column_numbers(table: &Table, names: &[String]) -> Result<Vec<usize>, Failure> {
    let number = |name: &String| {
        let found = table.attributes().iter().position(|attribute| attribute.name == *name);
        found.ok_or_else(|| {
            let known: Vec<&str> = table.attributes().iter().map(|a| a.name.as_str()).collect();
            Failure::Usage(format!(
                "table `{}` has no column `{name}`; it has {}",
                table.name(),
                known.join(", ")
            ))
        })
    };
    names.iter().map(number).collect()
}
