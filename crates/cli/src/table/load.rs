//! `moirai table load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use moirai::NewFiles;
use moirai::runtime::{Interrupts, Stopwatch, is_virtual, now};
use moirai::store::{LoadOptions, PageLayout, Store};
use moirai::units::grouped;
use moirai_sql::{CsvDelimiter, CsvOptions, CsvSchema, Import, read_csv, read_parquet};
use moirai_workloads::tpch;

use crate::failure::Failure;
use crate::{demo, print, progress, run};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutArgument {
    /// Slotted pages of whole rows
    Nsm,
    /// Each attribute apart, on blocks that can be read together
    Csm,
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
    /// Device or volume of the store, as URI
    #[arg(long, value_name = "URI")]
    store: String,
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
    fn layout(&self) -> PageLayout {
        match self.layout {
            LayoutArgument::Nsm => PageLayout::Nsm,
            LayoutArgument::Csm => PageLayout::Csm,
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
        let kind = moirai::store::AttributeType::of(field.data_type());
        format!("{} {}", field.name(), kind.map(|kind| kind.to_string()).unwrap_or_default())
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
    run::on_device(&arguments.store, async {
        let files = NewFiles::new();
        let (store, overwritten) =
            match moirai::create_store(&arguments.store, &files, arguments.force).await {
                Ok(created) => created,
                Err(error) => {
                    files.remove();
                    return Err(error.into());
                }
            };
        match overwritten {
            Some(occupant) => print::note_of_loss(&arguments.store, &occupant),
            None if arguments.force && !store.is_blank().await => {
                return Err(Failure::Usage(
                    "--force is for devices that hold something else, and the store exists: leave --force out".into(),
                ));
            }
            None => {}
        }
        let loading = Loading {
            store: &store,
            layout: arguments.layout(),
            options: LoadOptions { replace: arguments.replace, ..LoadOptions::default() },
            if_not_exists: arguments.if_not_exists,
            interrupts: Interrupts::listen()?,
        };
        let loaded = match (arguments.tpch, file) {
            (Some(scale), _) => loading.tpch(scale).await,
            (_, Some((import, name))) => loading.file(import, &name).await,
            (None, None) => Err(Failure::Usage("name a source".into())),
        };
        if loaded.is_err() && store.table_names().is_empty() {
            // Nothing is in the files that this command created.
            files.remove();
        }
        loaded?;
        print::note_of_memory(&arguments.store);
        Ok(())
    })
}

/// Tables on their way into a store.
struct Loading<'a> {
    store: &'a Arc<Store>,
    layout: PageLayout,
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
    fn exists(&self, name: &str) -> bool {
        self.store.table_names().iter().any(|known| known == name)
    }

    /// What is there of a table whose load has ended early.
    fn left_of(&self, name: &str) -> String {
        match self.exists(name) {
            true => format!("table {name} is as it was"),
            false => format!("nothing of table {name} is left"),
        }
    }

    /// Loads the eight tables. Where one fails, those that this command added are dropped again; Ctrl-C keeps them.
    async fn tpch(&self, scale: f64) -> Result<(), Failure> {
        let names = tpch::Table::ALL.map(|table| table.name());
        if !self.options.replace && !self.if_not_exists {
            // All names are checked before anything is written.
            if let Some(name) = names.iter().find(|name| self.exists(name)) {
                return Err(self.exists_already(name));
            }
        }
        let (mut added, mut replaced) = (Vec::new(), Vec::new());
        let mut complete = Vec::new();
        for table in tpch::Table::ALL {
            let name = table.name();
            let is_new = !self.exists(name);
            let import =
                Import {
                    schema: table.schema(),
                    rows: Some(table.expected_rows(scale)),
                    batches: Box::new(table.batches(scale, moirai::store::BATCH_ROWS).map(
                        |batch| batch.map_err(|error| moirai::store::Error::Arrow(error).into()),
                    )),
                };
            match self.table(import, name).await {
                Ok(Loaded::Interrupted) => {
                    let there =
                        if complete.is_empty() { "none".into() } else { complete.join(", ") };
                    let left = self.left_of(name);
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
        let mut text = format!("{failure}; {}", self.left_of(name));
        for name in added {
            text += &match self.store.drop_table(name).await {
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

    async fn file(&self, import: Import, name: &str) -> Result<(), Failure> {
        if !self.options.replace && !self.if_not_exists && self.exists(name) {
            return Err(self.exists_already(name));
        }
        let loaded = match self.table(import, name).await {
            Ok(loaded) => loaded,
            Err(failure) => return Err(self.undone(failure, name, &[], &[]).await),
        };
        match loaded {
            Loaded::Complete | Loaded::Skipped => Ok(()),
            Loaded::Interrupted => {
                Err(Failure::Interrupted(format!("interrupted: {}", self.left_of(name))))
            }
        }
    }

    fn exists_already(&self, name: &str) -> Failure {
        let error = moirai::store::Error::TableExists { name: name.to_owned() };
        Failure::Failed(format!(
            "{error}: --replace replaces it, --if-not-exists leaves it as it is"
        ))
    }

    async fn table(&self, import: Import, name: &str) -> Result<Loaded, Failure> {
        if self.if_not_exists && self.exists(name) {
            print::note(format!("table {name} exists and is left as it is"));
            return Ok(Loaded::Skipped);
        }
        let (watch, began) = (Stopwatch::start(), now());
        let mut load = self.store.load(name, &import.schema, self.layout, self.options).await?;
        let bar = progress::bar(name, import.rows);
        for batch in import.batches {
            load.append(&batch?).await?;
            bar.set_position(load.rows());
            if self.interrupts.take() {
                bar.finish_and_clear();
                return Ok(Loaded::Interrupted);
            }
        }
        let table = load.finish().await?;
        bar.finish_and_clear();
        let time = match is_virtual() {
            true => format!("{} of virtual time", now().since(began)),
            false => watch.elapsed().to_string(),
        };
        // The table is loaded, whether or not anybody reads of it.
        let _ = print::line(format!(
            "{:10} {:>12} rows  {}  {time}",
            table.name(),
            grouped(table.rows()),
            self.layout
        ));
        Ok(Loaded::Complete)
    }
}
