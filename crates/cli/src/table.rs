//! `moirai table`: list, show, scan and drop tables; `load` is in a module of its own.

mod load;

use std::sync::Arc;

use clap::Subcommand;
use moirai::Held;
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::tables::{KeyBounds, ScanOptions, Snapshot, Table, Tables};
use moirai::units::grouped;
use moirai_sql::arrow::util::display::array_value_to_string;
use moirai_sql::{Database, TableInfo};
use serde::Serialize;

use crate::failure::Failure;
use crate::store::Place;
use crate::{print, progress};

#[derive(Subcommand)]
pub(crate) enum Command {
    Load(Box<load::Arguments>),
    /// List the tables of a store
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the columns of a table
    Show {
        #[command(flatten)]
        place: Place,
        /// Name of the table
        name: String,
        /// Read all columns, for the nulls and the least and the greatest value of each
        #[arg(long)]
        bounds: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Scan a table, all columns or some, and print how much was read and how long it took
    Scan {
        #[command(flatten)]
        place: Place,
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
        #[command(flatten)]
        place: Place,
        /// Name of the table
        name: String,
    },
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(arguments) => load::run(&arguments),
        Command::List { place, json } => place.run(list(&place, json)),
        Command::Show { place, name, bounds, json } => {
            place.run(show(&place, &name, (bounds, json)))
        }
        Command::Scan { place, name, columns, json } => {
            place.run(scan(&place, &name, columns, json))
        }
        Command::Drop { place, name } => place.run(async {
            let tables = place.tables().await?;
            let dropped = tables.drop_table(&name).await;
            tables.close().await?;
            dropped?;
            print::line(format!("dropped {name}"))
        }),
    }
}

/// The tables of a store, to read them; none on a blank device.
async fn opened(place: &Place) -> Result<Option<Arc<Tables>>, Failure> {
    match moirai::held(&place.store).await? {
        Held::Store => Ok(Some(place.tables_to_read().await?)),
        Held::Nothing => {
            let store = &place.store;
            print::note(format!("{store} is blank: no table was loaded into it yet"));
            Ok(None)
        }
        Held::Other(occupant) => Err(place.no_store(&occupant)),
    }
}

/// A table of a store, with a moment to read it at.
async fn table_of(tables: &Arc<Tables>, name: &str) -> Result<(Arc<Snapshot>, Table), Failure> {
    let table = tables.table(name).await?;
    Ok((tables.snapshot().await, table))
}

#[derive(Serialize)]
struct Listed {
    name: String,
    layout: &'static str,
    estimated_rows: u64,
    columns: usize,
    indexes: usize,
    pages: u64,
    /// With indexes, and what waits for pages.
    stored_bytes: u64,
}

async fn list(place: &Place, json: bool) -> Result<(), Failure> {
    let mut listed = Vec::new();
    if let Some(tables) = opened(place).await? {
        for name in tables.names().await? {
            let (snapshot, table) = table_of(&tables, &name).await?;
            let size = snapshot.size(&table).await?;
            listed.push(Listed {
                name,
                layout: table.layout().name(),
                estimated_rows: snapshot.estimate_rows(&table, KeyBounds::default()).await?,
                columns: table.schema().fields().len(),
                indexes: table.indexes().len(),
                pages: size.pages,
                stored_bytes: size.stored.0,
            });
        }
    }
    if json {
        return print::json(&listed);
    }
    print::table(
        &[
            ("table", false),
            ("layout", false),
            ("rows, about", true),
            ("columns", true),
            ("indexes", true),
            ("pages", true),
            ("MiB", true),
        ],
        listed
            .into_iter()
            .map(|table| {
                vec![
                    table.name,
                    table.layout.to_owned(),
                    grouped(table.estimated_rows),
                    table.columns.to_string(),
                    table.indexes.to_string(),
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
    estimated_rows: u64,
    columns: Vec<ShownColumn>,
}

#[derive(Serialize)]
struct ShownColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    nullable: bool,
    key: bool,
    default: Option<String>,
    /// These three where they are asked for.
    nulls: Option<u64>,
    min: Option<String>,
    max: Option<String>,
}

/// The nulls of a column, and its least and greatest value.
async fn bounds_of(
    database: &Database,
    table: &str,
    column: &str,
) -> Result<[Option<String>; 3], Failure> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (table, column) = (quoted(table), quoted(column));
    let statement =
        format!("SELECT count(*) - count({column}), min({column}), max({column}) FROM {table}");
    let (_, batches) = database.query(&statement).await?;
    let value = |at: usize| {
        let array = batches.first().map(|batch| batch.column(at))?;
        (!array.is_null(0)).then(|| array_value_to_string(array, 0).ok())?
    };
    Ok([0, 1, 2].map(value))
}

async fn show(place: &Place, name: &str, (bounds, json): (bool, bool)) -> Result<(), Failure> {
    let Some(tables) = opened(place).await? else {
        return Err(Failure::Failed(format!("there is no table `{name}`")));
    };
    let (snapshot, table) = table_of(&tables, name).await?;
    let TableInfo { layout, rows, columns, .. } = TableInfo::of(&snapshot, &table).await?;
    let database = Database::over(&tables);
    let mut shown = ShownTable {
        name: name.to_owned(),
        layout,
        estimated_rows: rows,
        columns: Vec::with_capacity(columns.len()),
    };
    let bar = progress::clock("reading columns");
    for column in columns {
        let of_column = match bounds {
            true => bounds_of(&database, name, &column.name).await,
            false => Ok(Default::default()),
        };
        let [nulls, min, max] = of_column.inspect_err(|_| bar.finish_and_clear())?;
        shown.columns.push(ShownColumn {
            name: column.name,
            kind: column.data_type,
            nullable: column.is_nullable,
            key: column.is_key,
            default: column.default,
            nulls: nulls.and_then(|nulls| nulls.parse().ok()),
            min,
            max,
        });
    }
    bar.finish_and_clear();
    if json {
        return print::json(&shown);
    }
    print::line(format!(
        "{name}: about {} rows, layout {}",
        grouped(shown.estimated_rows),
        shown.layout
    ))?;
    let mut heads = vec![("column", false), ("type", false), ("nulls", false), ("key", false)];
    heads.push(("default", false));
    if bounds {
        heads.extend([("null rows", true), ("min", true), ("max", true)]);
    }
    let row = |column: ShownColumn| {
        let mut row = vec![
            column.name,
            column.kind,
            if column.nullable { "" } else { "not null" }.to_owned(),
            if column.key { "key" } else { "" }.to_owned(),
            column.default.unwrap_or_default(),
        ];
        if bounds {
            row.push(grouped(column.nulls.unwrap_or_default()));
            row.extend([column.min.unwrap_or_default(), column.max.unwrap_or_default()]);
        }
        row
    };
    print::table(&heads, shown.columns.into_iter().map(row).collect())
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
    place: &Place,
    name: &str,
    columns: Option<Vec<String>>,
    json: bool,
) -> Result<(), Failure> {
    let (tables, device) = place.tables_to_read_metered().await?;
    let (snapshot, table) = table_of(&tables, name).await?;
    let columns = columns.map(|names| column_numbers(&table, &names)).transpose()?;
    let expected = snapshot.estimate_rows(&table, KeyBounds::default()).await?;
    device.take();
    let (watch, began) = (Stopwatch::start(), now());
    let mut scan = snapshot.scan(&table, ScanOptions { columns, ..ScanOptions::default() })?;
    let bar = progress::bar(name, Some(expected));
    let mut rows = 0;
    while let Some(batch) = scan.next().await? {
        rows += batch.num_rows() as u64;
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
    let fields = table.schema().fields();
    let number = |name: &String| {
        let found = fields.iter().position(|field| field.name() == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            Failure::Usage(format!(
                "table `{}` has no column `{name}`; it has {}",
                table.name(),
                known.join(", ")
            ))
        })
    };
    names.iter().map(number).collect()
}
