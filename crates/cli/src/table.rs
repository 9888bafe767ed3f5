//! `moirai table`: list, show, scan and drop tables; `load` is in a module of its own.

mod load;

use std::sync::Arc;

use clap::Subcommand;
use futures::StreamExt;
use moirai::Access;
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::storage::{Device, Metered};
use moirai::store::{ScanOptions, Store, Table};
use moirai::units::grouped;
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress, run};

#[derive(Subcommand)]
pub(crate) enum Command {
    Load(Box<load::Arguments>),
    /// List the tables of a store
    List {
        /// Device or volume of the store, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the columns of a table with their types, nulls and bounds
    Show {
        /// Device or volume of the store, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// Name of the table
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Scan a table, all columns or some, and print how much was read and how long it took
    Scan {
        /// Device or volume of the store, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// Name of the table
        name: String,
        /// Columns to read, separated by commas [default: all]
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        columns: Option<Vec<String>>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Drop a table
    Drop {
        /// Device or volume of the store, as URI
        #[arg(long, value_name = "URI")]
        store: String,
        /// Name of the table
        name: String,
    },
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(arguments) => load::run(&arguments),
        Command::List { store, json } => run::on_device(&store, list(&store, json)),
        Command::Show { store, name, json } => run::on_device(&store, show(&store, &name, json)),
        Command::Scan { store, name, columns, json } => {
            run::on_device(&store, scan(&store, &name, columns, json))
        }
        Command::Drop { store, name } => run::on_device(&store, async {
            moirai::open_store_to_write(&store).await?.drop_table(&name).await?;
            print::line(format!("dropped {name}"))
        }),
    }
}

/// The store of loaded tables at `uri`; for one whose tables take changes the error names the command that lists them.
async fn opened(uri: &str) -> Result<Arc<Store>, Failure> {
    match moirai::open_store(uri).await {
        Err(error @ moirai::store::Error::NotAStore { .. })
            if moirai::has_trees(uri).await.unwrap_or(false) =>
        {
            Err(Failure::Failed(format!("{error}; its tables: moirai sql --store {uri} '\\d'")))
        }
        opened => Ok(opened?),
    }
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
    let store = opened(uri).await?;
    if store.is_blank().await {
        print::note(format!("{uri} is blank: no table was loaded into it yet"));
    }
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
    let store = opened(uri).await?;
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
    let device = Metered::new(moirai::open_device_for(uri, Access::Read).await?);
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
            "{ms:.3} ms of virtual I/O time, disk efficiency {:.0} %; real time {:.3} ms",
            efficiency * 100.0,
            scanned.wall_ms
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
