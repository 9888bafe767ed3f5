//! `moirai store`: reads everything in a store, drops what is damaged for ever, and shows where everything lies.

mod backup;
mod map;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use moirai::btree::{Damage, Error, Store};
use moirai::storage::{Metered, Occupant};
use moirai::tables::{Fault, Tables};
use moirai::units::{ByteCount, Lbn};
use moirai::update::{LogWriter, Options};
use moirai::{CreatedTrees, Held, NewFiles, NewTrees, TreesPlace};
use serde::Serialize;

use crate::failure::{Failure, verdict};
use crate::{kv, output, print, progress, run};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read everything in a store, and list what is damaged
    ///
    /// Compares every leaf, all changes that wait for their leaves, the checkpoint and both superblocks with their checksums; then
    /// the order of all rows of tables, and the entries of indexes with the rows. Opening the store reads its log. Writes nothing.
    /// The exit status is 1 when something is damaged.
    Check {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a store to a new one on another device
    ///
    /// The copy is a store like any other: `kv`, `sql`, `store check` and `store restore` take it. It has all trees and tables as
    /// they are now, or none where the copy was interrupted: Ctrl-C removes a new file. A program that has the store open makes
    /// backups while it is in use: see `Snapshot::copy_to` of the library.
    Backup {
        #[command(flatten)]
        place: Place,
        /// Device or file for the copy, as URI; a file gets a size that fits unless it has one
        #[arg(long, value_name = "URI")]
        to: String,
        #[command(flatten)]
        target: backup::Target,
    },
    /// Make a store of a backup
    ///
    /// The devices must be blank. This is `backup` the other way round: the store has the trees and tables of the backup.
    Restore {
        #[command(flatten)]
        place: Place,
        /// Device or file of the backup, as URI
        #[arg(long, value_name = "URI")]
        from: String,
        #[command(flatten)]
        target: backup::Target,
    },
    /// Show where a store lies on its device
    ///
    /// Counts the extents of each tree, and how many boundaries of the device's ensembles they cross: on a disk, how many tracks
    /// they reach beyond. An extent begins with the next track where that costs less than crossing its boundary. Those that
    /// found no room there are avoidable: the device is nearly full. Writes nothing to the store.
    Map {
        #[command(flatten)]
        place: Place,
        /// Draw the first ensembles, as SVG
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        force: output::Force,
        /// Print JSON: a row for each extent
        #[arg(long)]
        json: bool,
    },
    /// Drop what is damaged in a store, and keep the rest
    ///
    /// Without --drop this is `check`. With --drop, each damaged leaf loses its records, and the merges into them; damaged
    /// changes are not made, so that values stay as they were before. The list says of which keys. Trees whose names are
    /// lost get names like lost-7. Indexes that lack entries of the rows that are left are made anew. Try a backup before, and
    /// on a volume `volume scrub`: the other disks may have what one lost.
    Repair {
        #[command(flatten)]
        place: Place,
        /// Drop what is damaged
        #[arg(long)]
        drop: bool,
        /// Open a store with a damaged log: the changes behind the damage are lost
        #[arg(long)]
        force_log_end: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Where a store is.
#[derive(Clone, clap::Args)]
pub(crate) struct Place {
    /// Device or volume of the store, as URI
    #[arg(long, value_name = "URI")]
    pub(crate) store: String,
    /// Device of the log, as URI; repeat for several [default: the end of the --store device]
    #[arg(long, value_name = "URI")]
    pub(crate) log: Vec<String>,
    /// Memory for pending changes and the directory of leaves and pages [default: 64MiB, and 256MiB for `sql`]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteCount>,
}

/// Memory unless `--memory` says another.
const MEMORY: ByteCount = ByteCount(64 << 20);

impl Place {
    /// Runs a command on the store, in virtual time where its devices are simulated.
    pub(crate) fn run(
        &self,
        command: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut uris = vec![self.store.clone()];
        uris.extend_from_slice(&self.log);
        run::in_time(moirai::are_simulated(&uris)?, command)
    }

    pub(crate) fn trees(&self) -> TreesPlace<'_> {
        TreesPlace { data: &self.store, logs: &self.log }
    }

    pub(crate) fn options(&self) -> Options {
        Options { memory: self.memory(), ..Options::default() }
    }

    fn memory(&self) -> ByteCount {
        self.memory.unwrap_or(MEMORY)
    }

    /// An error for a device that has no store.
    pub(crate) async fn check_store(&self) -> Result<(), Failure> {
        match moirai::held(&self.store).await? {
            Held::Store => Ok(()),
            Held::Nothing => Err(Failure::Failed(format!(
                "{} is blank: `table load` and CREATE TABLE make tables",
                self.store
            ))),
            Held::Other(occupant) => Err(self.no_store(&occupant)),
        }
    }

    /// Opens the store for changes, or makes one where its device is blank; with `overwrite`, of a device that holds something else. Where that
    /// fails, files that it has created are removed.
    pub(crate) async fn create(
        &self,
        files: &NewFiles,
        options: Options,
        overwrite: bool,
    ) -> Result<CreatedTrees, Failure> {
        let writer = LogWriter::Append;
        let new = NewTrees { leaf: kv::LEAF, log: None, writer, files, overwrite };
        let created = moirai::create_trees(self.trees(), new, kv::kinds()?, options).await;
        Ok(created.inspect_err(|_| files.remove())?)
    }

    /// The tables, to change them.
    pub(crate) async fn tables(&self) -> Result<Arc<Tables>, Failure> {
        self.check_store().await?;
        Ok(moirai::open_tables(self.trees(), kv::kinds()?, self.options()).await?)
    }

    /// The tables, to read them beside others who do.
    pub(crate) async fn tables_to_read(&self) -> Result<Arc<Tables>, Failure> {
        let options = Options { read_only: true, ..self.options() };
        Ok(moirai::open_tables(self.trees(), kv::kinds()?, options).await?)
    }

    /// The same, with what counts the requests to the device of the data.
    pub(crate) async fn tables_to_read_metered(
        &self,
    ) -> Result<(Arc<Tables>, Arc<Metered>), Failure> {
        self.check_store().await?;
        let options = Options { read_only: true, ..self.options() };
        Ok(moirai::open_tables_metered(self.trees(), kv::kinds()?, options).await?)
    }

    /// The failure of who wants a store where something else is.
    pub(crate) fn no_store(&self, occupant: &Occupant) -> Failure {
        let store = &self.store;
        Failure::Failed(format!(
            "{store} holds {occupant}: name a store, or a blank device for one"
        ))
    }
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    let (place, other) = match command {
        Command::Check { place, .. }
        | Command::Map { place, .. }
        | Command::Repair { place, .. } => (place, None),
        Command::Backup { place, to: other, .. } | Command::Restore { place, from: other, .. } => {
            (place, Some(other.clone()))
        }
    };
    let mut uris = vec![place.store.clone()];
    uris.extend_from_slice(&place.log);
    uris.extend(other);
    run::in_time(moirai::are_simulated(&uris)?, carry_out(command))
}

async fn carry_out(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Check { place, json } => {
            let options = Options { read_only: true, ..Options::default() };
            check(&Tables::over(open(place, options).await?), place.memory(), *json).await
        }
        Command::Backup { place, to, target } => {
            let options = Options { read_only: true, ..Options::default() };
            let to = Place { store: to.clone(), log: Vec::new(), memory: place.memory };
            let source = Tables::over(open(place, options).await?);
            backup::copy((&source, &place.store), &to, target).await
        }
        Command::Restore { place, from, target } => {
            let options = Options { read_only: true, ..Options::default() };
            let from = Place { store: from.clone(), log: Vec::new(), memory: place.memory };
            let source = Tables::over(open(&from, options).await?);
            backup::copy((&source, &from.store), place, target).await
        }
        Command::Map { place, out, force, json } => {
            force.needs_output(out.is_some())?;
            if let Some(out) = out {
                let mut inputs = vec![place.store.as_str()];
                inputs.extend(place.log.iter().map(String::as_str));
                force.check(out, &inputs)?;
            }
            let options = Options { read_only: true, ..Options::default() };
            map::map(&open(place, options).await?, *json, out.as_deref()).await
        }
        Command::Repair { place, drop, force_log_end, json } => {
            let options =
                Options { read_only: !drop, force_log_end: *force_log_end, ..Options::default() };
            let tables = Tables::over(open(place, options).await?);
            if !drop {
                return check(&tables, place.memory(), *json).await;
            }
            repair(tables, place.memory(), *json).await
        }
    }
}

async fn open(place: &Place, options: Options) -> Result<Store, Error> {
    let options = Options { memory: place.memory(), ..options };
    moirai::open_trees(place.trees(), kv::kinds()?, options).await
}

/// Lists what is damaged; a failure when something is.
async fn check(tables: &Arc<Tables>, memory: ByteCount, json: bool) -> Result<(), Failure> {
    let bar = progress::clock("checking");
    let damage = tables.store().check().await;
    let mut found = Found::of(tables, memory).await;
    bar.finish_and_clear();
    if !damage.is_empty() {
        // It says why tables cannot be read.
        found.unread.clear();
    }
    let printed = print_damage(&damage, &found.faults, json);
    if !found.unread.is_empty() {
        return verdict(printed, Err(Failure::Failed(found.unread.join("; "))));
    }
    if damage.is_empty() && found.faults.is_empty() {
        printed?;
        return if json { Ok(()) } else { print::line("nothing is damaged") };
    }
    let damaged = Err(Failure::Failed(
        "the store is damaged: restore it from a backup (on a volume, look for a wrong disk first: `moirai volume scrub \
         --help`), or drop what the list names with `moirai store repair --drop`, which keeps all else and rebuilds indexes \
         that lack entries"
            .into(),
    ));
    verdict(printed, damaged)
}

/// What is wrong with tables although their blocks are as they were written.
#[derive(Default)]
struct Found {
    faults: Vec<Fault>,
    /// Tables that could not be read, and why.
    unread: Vec<String>,
}

impl Found {
    async fn of(tables: &Arc<Tables>, memory: ByteCount) -> Found {
        let mut found = Found::default();
        let snapshot = tables.snapshot().await;
        let names = snapshot.names().await.unwrap_or_else(|error| {
            found.unread.push(error.to_string());
            Vec::new()
        });
        for name in names {
            let faults = match snapshot.find(&name).await {
                Ok(Some(table)) => snapshot.check(&table, memory).await,
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match faults {
                Ok(faults) => found.faults.extend(faults),
                Err(error) => found.unread.push(format!("table `{name}`: {error}")),
            }
        }
        found
    }
}

/// Drops what is damaged, and makes indexes anew that lack entries of what is left.
async fn repair(tables: Arc<Tables>, memory: ByteCount, json: bool) -> Result<(), Failure> {
    let bar = progress::clock("repairing");
    let dropped = tables.store().drop_damaged().await?;
    let Found { faults, unread: mut left } = Found::of(&tables, memory).await;
    let indexes: BTreeSet<&str> =
        faults.iter().filter_map(|fault| fault.index.as_deref()).collect();
    for index in indexes {
        match tables.remake_index(index).await {
            Ok(_) => {}
            Err(error @ moirai::tables::Error::NotUnique { .. }) => {
                left.push(format!("{error}; change one of these rows, and repair again"));
            }
            Err(error) => left.push(format!("index `{index}` is as it was: {error}")),
        }
    }
    let of_rows = faults.iter().filter(|fault| fault.index.is_none());
    left.extend(of_rows.map(|fault| {
        format!("{}; copy what SELECT reads of it into another table", text_of(fault))
    }));
    bar.finish_and_clear();
    let printed = print_damage(&dropped.damage, &faults, json);
    if !dropped.renamed.is_empty() {
        let names = dropped.renamed.join(", ");
        print::note(format!(
            "the names of these trees were lost, and they are called now: {names}; `moirai kv rename` gives them others"
        ));
    }
    tables.close().await?;
    if !left.is_empty() {
        let left = Failure::Failed(format!("this is left: {}", left.join("; ")));
        return verdict(printed, Err(left));
    }
    printed?;
    match (dropped.damage.is_empty() && faults.is_empty(), json) {
        (true, false) => print::line("nothing is damaged"),
        (false, false) => print::line(
            "what could not be read is dropped, indexes that lacked entries are made anew, and all else can be read; where \
             changes were damaged, the values between these keys may be older",
        ),
        (_, true) => Ok(()),
    }
}

fn text_of(fault: &Fault) -> String {
    let Fault { table, index, problem } = fault;
    match index {
        Some(index) => format!("index `{index}` of table `{table}`: {problem}"),
        None => format!("table `{table}`: {problem}"),
    }
}

#[derive(Default, Serialize)]
struct Row {
    what: &'static str,
    /// The device, the first damaged byte of it, and how many they are; none of a table whose blocks are as they were written.
    device: Option<String>,
    offset: Option<u64>,
    bytes: Option<u64>,
    tree: Option<String>,
    /// The lowest key, and the key before which they end, in hexadecimal digits.
    from_hex: Option<String>,
    to_hex: Option<String>,
    /// Of a table: the index that is wrong, or none where its rows are, and in which way.
    index: Option<String>,
    problem: Option<String>,
}

impl Row {
    fn of_damage(one: &Damage) -> Row {
        Row {
            what: one.what,
            device: Some(one.device.clone()),
            offset: Some(offset(one)),
            bytes: Some(one.blocks.count.bytes().0),
            tree: one.keys.as_ref().and_then(|keys| keys.tree.clone()),
            from_hex: one.keys.as_ref().map(|keys| hex::encode(&keys.from)),
            to_hex: one.keys.as_ref().and_then(|keys| keys.to.as_ref()).map(hex::encode),
            ..Row::default()
        }
    }

    fn of_fault(one: &Fault) -> Row {
        Row {
            what: if one.index.is_some() { "an index" } else { "a table" },
            tree: Some(one.table.clone()),
            index: one.index.clone(),
            problem: Some(one.problem.clone()),
            ..Row::default()
        }
    }
}

/// The first damaged byte.
fn offset(one: &Damage) -> u64 {
    one.blocks.first.since(Lbn(0)).bytes().0
}

fn print_damage(damage: &[Damage], faults: &[Fault], json: bool) -> Result<(), Failure> {
    if json {
        let rows = damage.iter().map(Row::of_damage).chain(faults.iter().map(Row::of_fault));
        return print::json(&rows.collect::<Vec<_>>());
    }
    for fault in faults {
        print::line(text_of(fault))?;
    }
    if damage.is_empty() {
        return Ok(());
    }
    let rows = damage.iter().map(|one| {
        let keys = one.keys.as_ref();
        let tree = keys.map(|keys| keys.tree.clone().unwrap_or_else(|| "unknown".into()));
        let range = keys.map(|keys| match &keys.to {
            Some(to) => format!("{} to before {}", keys.from.escape_ascii(), to.escape_ascii()),
            None => format!("{} and later", keys.from.escape_ascii()),
        });
        let place = format!("{} from byte {}", one.blocks.count.bytes(), offset(one));
        vec![
            one.what.to_owned(),
            tree.unwrap_or_else(|| "-".into()),
            range.unwrap_or_else(|| "-".into()),
            one.device.clone(),
            place,
        ]
    });
    let columns =
        [("damaged", false), ("tree", false), ("keys", false), ("device", false), ("place", false)];
    print::table(&columns, rows.collect())
}
