//! `moirai table load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use moirai::runtime::{Interrupts, Stopwatch, ahead, is_virtual, now};
use moirai::tables::{Layout, LoadOptions, TableDefinition, Tables};
use moirai::units::grouped;
use moirai::{CreatedTrees, Held, NewFiles};
use moirai_sql::{CsvDelimiter, CsvOptions, CsvSchema, Import, read_csv, read_parquet, sql_name};
use moirai_workloads::tpch;

use crate::failure::Failure;
use crate::store::Place;
use crate::{demo, print, progress};

/// Rows that TPC-H is made by.
const BATCH_ROWS: usize = 8192;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutArgument {
    /// Each attribute by itself: for scans of some attributes
    Csm,
    /// Whole rows: for reading and changing all of a row
    Nsm,
    /// Page by page, and in each page attribute by attribute
    Pax,
}

/// The other sources: `requires` alone does not refuse an option of CSV files beside them.
const NOT_CSV: [&str; 2] = ["tpch", "parquet"];

/// Load tables: TPC-H, a Parquet file or a CSV file
///
/// The store is created where its device is blank: its first and last MiB are zeros, and so is what else of a file
/// is looked at. A table is there complete or not at all: Ctrl-C, a crash and a full device leave no part of one.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Load the eight TPC-H tables at this scale factor
    #[arg(long, value_name = "SCALE", group = "source", value_parser = demo::scale_factor)]
    tpch: Option<f64>,
    /// Load a Parquet file
    #[arg(long, value_name = "FILE", group = "source")]
    parquet: Option<PathBuf>,
    /// Load a CSV file, `-` for standard input
    #[arg(long, value_name = "FILE", group = "source")]
    csv: Option<PathBuf>,
    /// Name of the table [default: the name of the file]
    #[arg(long, value_name = "NAME", conflicts_with = "tpch")]
    table: Option<String>,
    /// Columns of the key, separated by commas: rows are in its order, and no two have the same [default: the rows are numbered;
    /// tables of TPC-H have the primary keys of the specification, but for partsupp where a small scale factor repeats it]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "tpch")]
    key: Vec<String>,
    /// Layout of the pages
    #[arg(long, value_enum, default_value = "csm")]
    layout: LayoutArgument,
    /// Replace tables that exist, each once the new one is complete
    #[arg(long, conflicts_with = "if_not_exists")]
    replace: bool,
    /// Leave tables that exist as they are
    #[arg(long)]
    if_not_exists: bool,
    /// CSV: columns and types instead of what the values of the file tell, like id:bigint,name:text,born:date; the
    /// types are tinyint, smallint, integer, bigint, real, double, decimal(P,S), boolean, date, timestamp, text
    #[arg(long, value_name = "NAME:TYPE,...", requires = "csv", conflicts_with_all = NOT_CSV)]
    schema: Option<CsvSchema>,
    /// CSV: text that means NULL, as an empty field does
    #[arg(long, value_name = "TEXT", requires = "csv", conflicts_with_all = NOT_CSV)]
    null: Option<String>,
    /// CSV: character between fields, `\t` for a tab [default: ,]
    #[arg(long, value_name = "CHAR", requires = "csv", conflicts_with_all = NOT_CSV)]
    delimiter: Option<CsvDelimiter>,
    /// CSV: the first line is data; columns are called column_1, column_2, ...
    #[arg(long, requires = "csv", conflicts_with_all = NOT_CSV)]
    no_header: bool,
    /// Create the store on a device that holds something else, whose contents are lost
    #[arg(long)]
    force: bool,
}

impl Arguments {
    fn layout(&self) -> Layout {
        match self.layout {
            LayoutArgument::Csm => Layout::Csm,
            LayoutArgument::Nsm => Layout::Nsm,
            LayoutArgument::Pax => Layout::Pax,
        }
    }

    /// The file to load, opened, with the name of its table.
    fn file(&self) -> Result<Option<(Import, String)>, Failure> {
        let (import, path) = match (&self.parquet, &self.csv) {
            (Some(path), _) => (read_parquet(path)?, path),
            (_, Some(path)) => {
                let mut options =
                    CsvOptions { has_header: !self.no_header, ..CsvOptions::default() };
                options.null.clone_from(&self.null);
                options.schema.clone_from(&self.schema);
                options.delimiter = self.delimiter.unwrap_or_default();
                let clock = progress::clock("reading the types of the columns");
                let import = read_csv(path, &options);
                clock.finish_and_clear();
                let import = import?;
                if self.schema.is_none() {
                    note_types(&import);
                }
                (import, path)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some((import, self.name_of(path)?)))
    }

    fn name_of(&self, path: &Path) -> Result<String, Failure> {
        if let Some(name) = &self.table {
            return Ok(name.clone());
        }
        if path == Path::new("-") {
            return Err(Failure::Usage(
                "a table from standard input needs a name: --table NAME".into(),
            ));
        }
        Ok(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default())
    }
}

/// Notes the types that were told from the values of a CSV file.
fn note_types(import: &Import) {
    let column = |field: &std::sync::Arc<moirai_sql::arrow::datatypes::Field>| {
        format!("{} {}", field.name(), sql_name(field.data_type()).to_lowercase())
    };
    let columns: Vec<String> = import.schema.fields().iter().map(column).collect();
    print::note(format!(
        "types told from the values: {}; --schema sets others",
        columns.join(", ")
    ));
    if let [only] = columns.as_slice()
        && only.contains([';', '\t', '|'])
    {
        print::note("there is one column: --delimiter names the character between fields");
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A source that cannot be read leaves no store behind.
    let file = arguments.file()?;
    if let Some((import, name)) = &file
        && !arguments.if_not_exists
    {
        // Nor one of which no table can be made.
        definition(import, &arguments.key)?.check(name)?;
    }
    arguments.place.run(async {
        load(arguments, file).await?;
        print::note_of_memory(&arguments.place.store);
        Ok(())
    })
}

fn definition(import: &Import, key: &[String]) -> Result<TableDefinition, Failure> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    Ok(TableDefinition::new(import.schema.clone(), &key)?)
}

/// Loads into the store, which is made where its device is blank. Files that were created for it are removed where it has no table
/// at the end.
async fn load(arguments: &Arguments, file: Option<(Import, String)>) -> Result<(), Failure> {
    let (place, files) = (&arguments.place, NewFiles::new());
    if !arguments.replace && !arguments.if_not_exists {
        let names = match &file {
            Some((_, name)) => vec![name.as_str()],
            None => tpch::Table::ALL.map(|table| table.name()).to_vec(),
        };
        refuse_existing(place, &names).await?;
    }
    let interrupts = Interrupts::listen()?;
    let created = place.create(&files, place.options(), arguments.force).await?;
    let CreatedTrees { store, is_new, overwritten } = created;
    for (device, occupant) in &overwritten {
        print::note_of_loss(device, occupant);
    }
    if arguments.force && !is_new {
        return Err(Failure::Usage(
            "--force is for devices that hold something else, and the store exists: leave --force out".into(),
        ));
    }
    let tables = Tables::over(store);
    let loading = Loading {
        tables: &tables,
        layout: arguments.layout(),
        options: LoadOptions { replace: arguments.replace },
        if_not_exists: arguments.if_not_exists,
        interrupts,
    };
    let loaded = match (arguments.tpch, file) {
        (Some(scale), _) => loading.tpch(scale).await,
        (_, Some((import, name))) => loading.file(import, &name, &arguments.key).await,
        (None, None) => Err(Failure::Usage("name a source".into())),
    };
    let is_empty = tables.names().await.is_ok_and(|names| names.is_empty());
    let closed = tables.close().await;
    if loaded.is_err() && is_empty {
        files.remove();
    }
    loaded?;
    Ok(closed?)
}

/// An error where a store has one of these tables. It is opened to be read alone: what is refused changes nothing.
async fn refuse_existing(place: &Place, names: &[&str]) -> Result<(), Failure> {
    // Whatever else is wrong is told by who makes the store.
    if !moirai::held(&place.store).await.is_ok_and(|held| held == Held::Store) {
        return Ok(());
    }
    let tables = place.tables_to_read().await?;
    for name in names {
        if tables.find(name).await?.is_some() {
            return Err(Failure::Failed(format!(
                "table `{name}` exists: --replace replaces it, --if-not-exists leaves it as it is"
            )));
        }
    }
    Ok(())
}

/// Tables on their way into a store.
struct Loading<'a> {
    tables: &'a Arc<Tables>,
    layout: Layout,
    options: LoadOptions,
    if_not_exists: bool,
    interrupts: Interrupts,
}

/// How the load of a table ended.
enum Loaded {
    Complete,
    /// The table existed, and was left as it was.
    Skipped,
    /// The user pressed Ctrl-C; no part of the table is left.
    Interrupted,
}

impl Loading<'_> {
    async fn exists(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.tables.find(name).await?.is_some())
    }

    /// What is there of a table whose load has ended early.
    async fn left_of(&self, name: &str) -> String {
        match self.exists(name).await {
            Ok(true) => format!("table {name} is as it was"),
            Ok(false) => format!("nothing of table {name} is left"),
            Err(error) => format!("what is left of table {name} is not known: {error}"),
        }
    }

    /// Loads the eight tables. Where one fails, those that this command added are dropped again; Ctrl-C keeps them.
    async fn tpch(&self, scale: f64) -> Result<(), Failure> {
        let (mut added, mut replaced) = (Vec::new(), Vec::new());
        let mut complete = Vec::new();
        for table in tpch::Table::ALL {
            let name = table.name();
            let is_new = !self.exists(name).await?;
            let batches = table.batches(scale, BATCH_ROWS);
            let batches = batches
                .map(|batch| batch.map_err(|error| moirai::tables::Error::Arrow(error).into()));
            let import = Import {
                schema: table.schema(),
                rows: Some(table.expected_rows(scale)),
                batches: Box::new(batches),
            };
            let key = table.primary_key(scale);
            match self.table(import, name, key).await {
                Ok(Loaded::Interrupted) => {
                    let there =
                        if complete.is_empty() { "none".into() } else { complete.join(", ") };
                    let left = self.left_of(name).await;
                    let others = match self.options.replace {
                        true => "",
                        false => "--if-not-exists loads the others, ",
                    };
                    return Err(Failure::Interrupted(format!(
                        "interrupted: {left}; loaded: {there}; {others}--replace loads all tables again"
                    )));
                }
                Ok(Loaded::Complete) if is_new => added.push(name),
                Ok(Loaded::Complete) => replaced.push(name),
                Ok(Loaded::Skipped) => {}
                Err(failure) => return Err(self.undone(failure, name, &added, &replaced).await),
            }
            complete.push(name);
        }
        Ok(())
    }

    /// Drops the tables that this command added, and says so in the failure of table `name`.
    async fn undone(
        &self,
        failure: Failure,
        name: &str,
        added: &[&str],
        replaced: &[&str],
    ) -> Failure {
        let mut text = format!("{failure}; {}", self.left_of(name).await);
        for name in added {
            text += &match self.tables.drop_table(name).await {
                Ok(()) => format!(", table {name} is dropped again"),
                Err(problem) => {
                    format!(", table {name} stays, because dropping it failed: {problem}")
                }
            };
        }
        if !replaced.is_empty() {
            text += &format!("; replaced already: {}", replaced.join(", "));
        }
        Failure::Failed(text)
    }

    async fn file(&self, import: Import, name: &str, key: &[String]) -> Result<(), Failure> {
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let loaded = match self.table(import, name, &key).await {
            Ok(loaded) => loaded,
            Err(failure) => return Err(self.undone(failure, name, &[], &[]).await),
        };
        match loaded {
            Loaded::Complete | Loaded::Skipped => Ok(()),
            Loaded::Interrupted => {
                Err(Failure::Interrupted(format!("interrupted: {}", self.left_of(name).await)))
            }
        }
    }

    async fn table(&self, import: Import, name: &str, key: &[&str]) -> Result<Loaded, Failure> {
        if self.if_not_exists && self.exists(name).await? {
            print::note(format!("table {name} exists and is left as it is"));
            return Ok(Loaded::Skipped);
        }
        let (watch, began) = (Stopwatch::start(), now());
        let mut definition = TableDefinition::new(import.schema, key)?;
        definition.pages = self.tables.page_options(self.layout);
        let mut load = self.tables.load(name, definition, self.options).await?;
        let bar = progress::bar(name, import.rows);
        let mut batches = ahead(import.batches);
        while let Some(batch) = batches.next().await {
            load.push(&batch?).await?;
            bar.set_position(load.rows());
            if self.interrupts.take() {
                bar.finish_and_clear();
                return Ok(Loaded::Interrupted);
            }
        }
        let (table, rows) = load.finish().await?;
        bar.finish_and_clear();
        let time = match is_virtual() {
            true => format!("{} of virtual time", now().since(began)),
            false => watch.elapsed().to_string(),
        };
        // The table is loaded, whether or not anybody reads of it.
        let _ = print::line(format!(
            "{:10} {:>12} rows  {}  {time}",
            table.name(),
            grouped(rows),
            self.layout.name()
        ));
        Ok(Loaded::Complete)
    }
}
