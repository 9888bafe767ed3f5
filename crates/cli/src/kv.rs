//! `moirai kv`: keys and values in the trees of a store.

mod batch;
mod dump;
mod load;
mod stats;
mod text;
mod value;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use moirai::btree::{AddDecimal, Direction, KeyRange, Store, Tree};
use moirai::units::{ByteCount, Nanos};
use moirai::update::{KindNumber, Kinds, LogWriter, Options};
use moirai::{NewFiles, NewTrees, TreesPlace};

use crate::failure::Failure;
use crate::{output, print, run};
use text::Text;

/// The tree of commands that name none.
const TREE: &str = "default";
/// The modification kind of `merge`.
const ADD: KindNumber = KindNumber(17);
/// Records that a scan prints on a terminal unless `--limit` is given.
const SCANNED: u64 = 100;
/// Leaf size of a new store unless `--leaf` is given.
pub(crate) const LEAF: ByteCount = ByteCount(8 << 10);

/// Put, get and scan keys and values in B+-trees that absorb floods of random updates
///
/// The log is on the --log devices, or at the end of the --store device. `put`, `merge`, `load`, `batch` and `restore`
/// create a store where each device is blank: its first and last MiB are zeros, and so is what else of a file is looked
/// at. Commands that only read write nothing, and several of them may read a store at once. A key may be up to a quarter of a
/// leaf less 7 bytes long (2,041 bytes in leaves of 8 KiB), and a value up to 1 GiB.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Device or volume of the store, as URI
    #[arg(long, value_name = "URI", global = true)]
    store: Option<String>,
    /// Device of the log, as URI; repeat for several [default: the end of the --store device]
    #[arg(long, value_name = "URI", global = true)]
    log: Vec<String>,
    /// Name of the tree [default: default; `dump`, `restore` and `stats` take all trees]
    #[arg(long, value_name = "NAME", global = true)]
    tree: Option<String>,
    /// Memory for pending changes and the leaf directory; the rest caches leaves
    #[arg(long, value_name = "SIZE", default_value = "64MiB", global = true)]
    memory: ByteCount,
    /// Leaf size of a new store, a multiple of 512 up to 64KiB [default: 8KiB]
    #[arg(long, value_name = "SIZE", global = true)]
    leaf: Option<ByteCount>,
    /// Log size of a new store without --log [default: an eighth of the device, at most 1GiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "log")]
    log_size: Option<ByteCount>,
    /// Revolutions per minute of the --log disks of a new store: each log record is written where the head is
    #[arg(long, value_name = "RPM", requires = "log", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    log_rpm: Option<u64>,
    /// Give, print and load keys and values in hexadecimal digits
    #[arg(long, global = true)]
    hex: bool,
    /// Create a store on devices that hold something else, whose contents are lost
    #[arg(long, global = true)]
    force: bool,
    /// Open a store with a damaged log: the changes behind the damage are lost
    #[arg(long, global = true)]
    force_log_end: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the value of a key
    Get {
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// Write the bytes of the value as they are, without a line end
        #[arg(long, conflicts_with = "hex")]
        raw: bool,
    },
    /// Store a value under a key; a value that is there is replaced
    Put {
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// Value
        #[arg(allow_hyphen_values = true, required_unless_present = "file")]
        value: Option<OsString>,
        /// Store the content of a file, `-` for standard input, of up to 1 GiB
        #[arg(long, value_name = "PATH", conflicts_with_all = ["value", "hex"])]
        file: Option<PathBuf>,
    },
    /// Add a number to the number under a key; a missing key counts as 0, and a value that is text is refused
    Merge {
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// Number to add, which may be negative
        #[arg(allow_hyphen_values = true)]
        number: i128,
    },
    /// Delete a key, or all keys of a range
    ///
    /// A range goes fast: leaves that are wholly in it are not read, unless they refer to long values.
    Delete {
        /// Key
        #[arg(allow_hyphen_values = true, conflicts_with_all = ["from", "to", "prefix"])]
        key: Option<OsString>,
        #[command(flatten)]
        range: Range,
    },
    /// Drop a tree with all of its records
    Drop {
        /// Name of the tree
        name: String,
    },
    /// Copy a tree to a new one
    ///
    /// The copy is there whole, or not at all.
    Copy {
        /// Name of the tree
        from: String,
        /// Name of the copy
        to: String,
    },
    /// Rename a tree
    Rename {
        /// Name of the tree
        name: String,
        /// Its new name
        to: String,
    },
    /// Print the records of a range in key order, one a line: key, tab, value
    Scan {
        #[command(flatten)]
        range: Range,
        /// Scan from the last key to the first
        #[arg(long)]
        reverse: bool,
        /// Number of records at most, 0 for all [default: 100 on a terminal, else all]
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Count the records of a range
    Count {
        #[command(flatten)]
        range: Range,
        /// Estimate the number from eight leaves at most instead of reading all of them
        #[arg(long)]
        estimate: bool,
    },
    /// Load the records of a file with a line for each: key, tab, value
    Load {
        #[command(flatten)]
        input: load::Input,
        /// Take lines that are sorted by the bytes of their keys, as by `LC_ALL=C sort`: they go into leaves past the log
        ///
        /// This is several times as fast. A line whose key does not come after the key of the line before ends the load; the
        /// lines before it are loaded.
        #[arg(long, conflicts_with_all = ["group", "acknowledge"])]
        sorted: bool,
    },
    /// Put, delete and merge as the lines of a file say, each group of lines whole or not at all
    ///
    /// A line is one of these, with a tab between the fields:
    ///
    ///   put     KEY  VALUE
    ///   delete  KEY
    ///   merge   KEY  NUMBER
    ///
    /// A merge onto a value that is not an integer ends the batch; the groups before are committed.
    #[command(verbatim_doc_comment)]
    Batch(batch::Batch),
    /// Print all records as text that `restore` reads, of one tree or of all
    ///
    /// The text is in the format of Berkeley DB's `db_dump` and LMDB's `mdb_dump`, so it takes any bytes. With --hex, keys
    /// and values are in hexadecimal digits.
    Dump,
    /// Put the records of a dump back into the trees that it names, or into --tree
    ///
    /// Reads what `dump` prints, and the output of Berkeley DB's `db_dump` and LMDB's `mdb_dump`. A value that is there
    /// under a key of the dump is replaced.
    Restore(load::Input),
    /// Print what the store holds, and how much space, memory and log it uses
    Stats {
        /// Count records and bytes instead of estimating them from a few leaves of each tree
        #[arg(long)]
        exact: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A range of keys.
#[derive(clap::Args)]
struct Range {
    /// First key
    #[arg(long)]
    from: Option<OsString>,
    /// Key before which the range ends
    #[arg(long)]
    to: Option<OsString>,
    /// Only the keys with this prefix
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
}

impl Range {
    /// Whether it is of all keys: a text without letters bounds nothing.
    fn is_all(&self) -> bool {
        let bounds = |key: &Option<OsString>| key.as_ref().is_some_and(|key| !key.is_empty());
        !bounds(&self.from) && self.to.is_none() && !bounds(&self.prefix)
    }

    fn keys(&self, text: Text) -> Result<KeyRange, Failure> {
        let key = |key: &Option<OsString>| key.as_ref().map(|key| text.read(key)).transpose();
        Ok(match key(&self.prefix)? {
            Some(prefix) => KeyRange::with_prefix(&prefix),
            None => KeyRange {
                from: key(&self.from)?.map_or(Bound::Unbounded, Bound::Included),
                to: key(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded),
            },
        })
    }
}

impl Command {
    /// Whether the command creates a store that does not exist.
    fn creates(&self) -> bool {
        let changes = matches!(
            self,
            Command::Delete { .. }
                | Command::Drop { .. }
                | Command::Rename { .. }
                | Command::Copy { .. }
        );
        !self.only_reads() && !changes
    }

    /// An error where the command cannot be carried out, as far as can be told before a store is made on what may hold something
    /// else: where keys or values are not in digits, or its file cannot be read or is one of the `devices`.
    fn check(&self, text: Text, devices: &[String]) -> Result<(), Failure> {
        match self {
            Command::Put { key, value, .. } => {
                text.read(key)?;
                value.as_ref().map(|value| text.read(value)).transpose()?;
            }
            Command::Merge { key, .. } => drop(text.read(key)?),
            _ => {}
        }
        let file = match self {
            Command::Load { input, .. } | Command::Restore(input) => input.file(),
            Command::Batch(batch) => batch.file(),
            Command::Put { value: None, file: Some(file), .. } => file,
            _ => return Ok(()),
        };
        if file == Path::new("-") {
            return Ok(());
        }
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        output::keep_inputs(file, &devices)?;
        let problem = match std::fs::metadata(file) {
            Ok(found) if found.is_dir() => "this is a directory".to_owned(),
            // Whoever writes into a pipe is not to lose its reader.
            Ok(found) if !found.is_file() => return Ok(()),
            found => match found.and_then(|_| std::fs::File::open(file)) {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            },
        };
        Err(Failure::Failed(format!("{}: {problem}", file.display())))
    }

    fn only_reads(&self) -> bool {
        matches!(
            self,
            Command::Get { .. }
                | Command::Scan { .. }
                | Command::Count { .. }
                | Command::Dump
                | Command::Stats { .. }
        )
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.store.is_none() {
        return Err(Failure::Usage("name the store: --store URI, like --store file:kv.img".into()));
    }
    if let Command::Delete { key: None, range } = &arguments.command
        && range.is_all()
    {
        let problem =
            "name a key, or a range with --from, --to or --prefix; `drop` deletes a whole tree";
        return Err(Failure::Usage(problem.into()));
    }
    let is_of_one = matches!(
        arguments.command,
        Command::Copy { .. } | Command::Drop { .. } | Command::Rename { .. }
    );
    if is_of_one && arguments.tree.is_some() {
        let problem =
            "`copy`, `drop` and `rename` take names of trees as arguments: leave --tree out";
        return Err(Failure::Usage(problem.into()));
    }
    let mut uris = vec![arguments.store().to_owned()];
    uris.extend_from_slice(&arguments.log);
    arguments.command.check(Text { is_hex: arguments.hex }, &uris)?;
    run::in_time(moirai::are_simulated(&uris)?, carry_out(arguments))
}

/// An open store, and the files that were created for it.
struct Opened {
    store: Store,
    files: NewFiles,
}

/// The kinds of modifications that commands make.
pub(crate) fn kinds() -> Result<Kinds, moirai::btree::Error> {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddDecimal))?;
    Ok(kinds)
}

async fn open(arguments: &Arguments) -> Result<Opened, Failure> {
    let kinds = kinds()?;
    let place = TreesPlace { data: arguments.store(), logs: &arguments.log };
    let options = Options {
        memory: arguments.memory,
        read_only: arguments.command.only_reads(),
        force_log_end: arguments.force_log_end,
        ..Options::default()
    };
    if !arguments.command.creates() {
        arguments.refuse_options_of_new_stores("this command creates none")?;
        let store = moirai::open_trees(place, kinds, options).await?;
        return Ok(Opened { store, files: NewFiles::new() });
    }
    let writer = match arguments.log_rpm {
        Some(rpm) => LogWriter::Trail { rotation: Nanos(60_000_000_000 / rpm) },
        None => LogWriter::Append,
    };
    let files = NewFiles::new();
    let new = NewTrees {
        leaf: arguments.leaf.unwrap_or(LEAF),
        log: arguments.log_size,
        writer,
        files: &files,
        overwrite: arguments.force,
    };
    let created = match moirai::create_trees(place, new, kinds, options).await {
        Ok(created) => created,
        Err(error) => {
            files.remove();
            return Err(error.into());
        }
    };
    if !created.is_new {
        arguments.refuse_options_of_new_stores("the store exists")?;
    }
    for (device, occupant) in &created.overwritten {
        print::note_of_loss(device, occupant);
    }
    print::note_of_memory(arguments.store());
    arguments.log.iter().for_each(|uri| print::note_of_memory(uri));
    Ok(Opened { store: created.store, files })
}

impl Arguments {
    fn tree(&self) -> &str {
        self.tree.as_deref().unwrap_or(TREE)
    }

    fn store(&self) -> &str {
        self.store.as_deref().unwrap_or_default()
    }

    /// An error when an option is given that only has an effect when a store is created.
    fn refuse_options_of_new_stores(&self, because: &str) -> Result<(), Failure> {
        let given = [
            ("--leaf", self.leaf.is_some()),
            ("--log-size", self.log_size.is_some()),
            ("--log-rpm", self.log_rpm.is_some()),
            ("--force", self.force),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::Usage(format!(
                "{option} is for new stores, and {because}: leave {option} out"
            ))),
        }
    }
}

async fn carry_out(arguments: &Arguments) -> Result<(), Failure> {
    let Opened { store, files } = open(arguments).await?;
    let done = on_store(arguments, &store).await;
    if done.is_err() && !arguments.command.only_reads() {
        // The next command is to know that the store has been full: the checkpoint says so. What failed is told below.
        let _ = store.checkpoint().await;
    }
    if done.is_err() && files.any() && is_empty(&store).await.unwrap_or(false) {
        // The store that this command created has nothing in it.
        files.remove();
    }
    done
}

/// Whether no tree has a record.
async fn is_empty(store: &Store) -> Result<bool, Failure> {
    for name in store.trees().await? {
        if let Some(tree) = store.find_tree(&name).await?
            && store.first(&tree).await?.is_some()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn on_store(arguments: &Arguments, store: &Store) -> Result<(), Failure> {
    let text = Text { is_hex: arguments.hex };
    let tree = async || match arguments.command.creates() {
        true => Ok(store.tree(arguments.tree()).await?),
        false => find(store, arguments.tree()).await,
    };
    match &arguments.command {
        Command::Get { key, raw } => {
            let value = store.read_value(&tree().await?, &text.read(key)?).await?;
            let none = || Failure::Failed(format!("there is no key `{}`", key.display()));
            value::print(&value.ok_or_else(none)?, *raw, text).await
        }
        Command::Put { key, value: Some(value), .. } => {
            Ok(store.put(&tree().await?, &text.read(key)?, &text.read(value)?).await?)
        }
        Command::Put { key, value: None, file } => {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            value::put_file(store, &tree().await?, &text.read(key)?, file).await
        }
        Command::Merge { key, number } => {
            let (key, tree) = (text.read(key)?, tree().await?);
            let number = number.to_string().into_bytes();
            let value = store.get(&tree, &key).await?;
            batch::check_merge(value.as_deref(), &key, &number, text).map_err(Failure::Failed)?;
            Ok(store.merge(&tree, ADD, &key, &number).await?)
        }
        Command::Delete { key: Some(key), .. } => {
            Ok(store.delete(&tree().await?, &text.read(key)?).await?)
        }
        Command::Delete { key: None, range } => {
            Ok(store.delete_range(&tree().await?, range.keys(text)?).await?)
        }
        Command::Drop { name } => match store.drop_tree(name).await? {
            true => Ok(()),
            false => Err(no_tree(store, name).await?),
        },
        Command::Copy { from, to } => {
            find(store, from).await?;
            let records = store.copy_tree(from, to).await?;
            print::line(format!("{} copied", print::counted(records, "record")))
        }
        Command::Rename { name, to } => {
            find(store, name).await?;
            Ok(store.rename_tree(name, to).await?)
        }
        Command::Scan { range, reverse, limit } => {
            let direction = if *reverse { Direction::Backward } else { Direction::Forward };
            let is_terminal = std::io::stdout().is_terminal();
            let limit = limit.unwrap_or(if is_terminal { SCANNED } else { 0 });
            scan(store, &tree().await?, range.keys(text)?, direction, limit, text).await
        }
        Command::Count { range, estimate } => {
            let (range, tree) = (range.keys(text)?, tree().await?);
            print::line(match estimate {
                true => store.estimate(&tree, range).await?.records,
                false => store.count(&tree, range).await?,
            })
        }
        Command::Load { input, sorted: true } => {
            load::load_sorted(store, &tree().await?, input, text).await
        }
        Command::Load { input, sorted: false } => {
            load::load(store, &tree().await?, input, text).await
        }
        Command::Batch(input) => batch::batch(store, arguments.tree(), input, text).await,
        Command::Dump => {
            let tables = store.now().relations().await?;
            if !tables.is_empty() && arguments.tree.is_none() {
                let names: Vec<String> = tables.into_iter().map(|(name, _)| name).collect();
                print::note(format!(
                    "tables of SQL are not in a dump ({}): `moirai store backup` copies them, and COPY writes files of them",
                    names.join(", ")
                ));
            }
            let trees = chosen(store, arguments.tree.as_deref()).await?;
            dump::dump(store, &trees, arguments.hex).await
        }
        Command::Restore(input) => dump::restore(store, arguments.tree.as_deref(), input).await,
        Command::Stats { exact, json } => {
            let trees = chosen(store, arguments.tree.as_deref()).await?;
            stats::stats(store, &trees, *exact, *json).await
        }
    }
}

/// The tree called `name`, or all trees.
async fn chosen(store: &Store, name: Option<&str>) -> Result<Vec<Tree>, Failure> {
    if let Some(name) = name {
        return Ok(vec![find(store, name).await?]);
    }
    let mut trees = Vec::new();
    for name in store.trees().await? {
        trees.push(find(store, &name).await?);
    }
    Ok(trees)
}

async fn find(store: &Store, name: &str) -> Result<Tree, Failure> {
    if let Some(tree) = store.find_tree(name).await? {
        return Ok(tree);
    }
    Err(no_tree(store, name).await?)
}

async fn no_tree(store: &Store, name: &str) -> Result<Failure, Failure> {
    let names = store.trees().await?;
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Ok(Failure::Failed(format!("there is no tree `{name}`; the store has: {there}")))
}

async fn scan(
    store: &Store,
    tree: &Tree,
    range: KeyRange,
    direction: Direction,
    limit: u64,
    text: Text,
) -> Result<(), Failure> {
    let mut scan = store.scan(tree, range, direction);
    let mut output = std::io::BufWriter::new(std::io::stdout());
    let mut printed = 0;
    while let Some((key, value)) = scan.next().await? {
        if limit > 0 && printed == limit {
            output.flush().map_err(print::failed)?;
            print::note("more records follow: --limit 0 prints all of them");
            return Ok(());
        }
        for part in [&*text.written(key), b"\t", &*text.written(value), b"\n"] {
            output.write_all(part).map_err(print::failed)?;
        }
        printed += 1;
    }
    output.flush().map_err(print::failed)
}
