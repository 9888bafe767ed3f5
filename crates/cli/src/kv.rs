//! `moirai kv`: keys and values in the trees of a store.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use moirai::btree::{AddDecimal, Batch, Direction, KeyRange, Store, Tree};
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::units::{ByteCount, Nanos, grouped};
use moirai::update::{KindNumber, Kinds, LogWriter, Options};
use moirai::{NewFiles, NewTrees, TreesPlace};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress, run};

/// The modification kind of `merge`.
const ADD: KindNumber = KindNumber(17);
/// Records that a scan prints on a terminal unless `--limit` is given.
const SCANNED: u64 = 100;
/// Leaf size of a new store unless `--leaf` is given.
const LEAF: ByteCount = ByteCount(8 << 10);

/// Put, get and scan keys and values in B+-trees that absorb floods of random updates
///
/// The log is on the --log devices, or at the end of the --store device. `put`, `merge` and `load` create a store
/// where each device is blank, which means that its first and last MiB are zeros. A key may be up to a quarter of a
/// leaf less 7 bytes long, and so may a value (2,041 bytes in leaves of 8 KiB).
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Device or volume of the store, as URI
    #[arg(long, value_name = "URI", global = true)]
    store: Option<String>,
    /// Device of the log, as URI; repeat for several [default: the end of the --store device]
    #[arg(long, value_name = "URI", global = true)]
    log: Vec<String>,
    /// Name of the tree
    #[arg(long, value_name = "NAME", default_value = "default", global = true)]
    tree: String,
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
    },
    /// Store a value under a key; a value that is there is replaced
    Put {
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// Value
        #[arg(allow_hyphen_values = true)]
        value: OsString,
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
    /// Delete a key
    Delete {
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
    },
    /// Print the records of a range in key order, one a line: key, tab, value
    Scan {
        /// First key
        #[arg(long)]
        from: Option<OsString>,
        /// Key before which the scan ends
        #[arg(long)]
        to: Option<OsString>,
        /// Scan only the keys with this prefix
        #[arg(long, conflicts_with_all = ["from", "to"])]
        prefix: Option<OsString>,
        /// Scan from the last key to the first
        #[arg(long)]
        reverse: bool,
        /// Number of records at most, 0 for all [default: 100 on a terminal, else all]
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Load the records of a file with a line for each: key, tab, value
    Load {
        /// File to load, `-` for standard input
        file: PathBuf,
        /// Records of a group, which are committed together
        #[arg(long, default_value_t = 1000)]
        group: usize,
        /// Print the number of durable records after each group
        #[arg(long)]
        acknowledge: bool,
    },
    /// Print what the store holds and how much memory and log it uses
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Whether the command creates a store that does not exist.
    fn creates(&self) -> bool {
        matches!(self, Command::Put { .. } | Command::Merge { .. } | Command::Load { .. })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.store.is_none() {
        return Err(Failure::Usage("name the store: --store URI, like --store file:kv.img".into()));
    }
    let mut uris = vec![arguments.store().to_owned()];
    uris.extend_from_slice(&arguments.log);
    run::in_time(moirai::are_simulated(&uris)?, carry_out(arguments))
}

/// An open store, and the files that were created for it.
struct Opened {
    store: Store,
    files: NewFiles,
}

async fn open(arguments: &Arguments) -> Result<Opened, Failure> {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddDecimal)).map_err(moirai::btree::Error::from)?;
    let place = TreesPlace { data: arguments.store(), logs: &arguments.log };
    let options = Options { memory: arguments.memory, ..Options::default() };
    if !arguments.command.creates() {
        arguments.refuse_options_of_new_stores("only `put`, `merge` and `load` create a store")?;
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
    if done.is_err() && files.any() && is_empty(arguments, &store).await {
        // The store that this command created has nothing in it.
        files.remove();
    }
    done
}

/// Whether the command's tree has no record.
async fn is_empty(arguments: &Arguments, store: &Store) -> bool {
    match store.find_tree(&arguments.tree).await {
        Ok(Some(tree)) => {
            let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded };
            matches!(store.scan(&tree, all, Direction::Forward).next().await, Ok(None))
        }
        Ok(None) => true,
        Err(_) => false,
    }
}

async fn on_store(arguments: &Arguments, store: &Store) -> Result<(), Failure> {
    if let Command::Stats { json } = arguments.command {
        return stats(store, json).await;
    }
    let tree = match arguments.command.creates() {
        true => store.tree(&arguments.tree).await?,
        false => find(store, &arguments.tree).await?,
    };
    let text = Text { is_hex: arguments.hex };
    match &arguments.command {
        Command::Get { key } => match store.get(&tree, &text.read(key)?).await? {
            Some(value) => print::bytes_line(&text.written(&value)),
            None => Err(Failure::Failed(format!("there is no key `{}`", key.display()))),
        },
        Command::Put { key, value } => {
            Ok(store.put(&tree, &text.read(key)?, &text.read(value)?).await?)
        }
        Command::Merge { key, number } => {
            let (name, key) = (key, text.read(key)?);
            if let Some(value) = store.get(&tree, &key).await?
                && !AddDecimal::is_number(&value)
            {
                return Err(Failure::Failed(format!(
                    "the value of `{}` is not a number: `{}`",
                    name.display(),
                    String::from_utf8_lossy(&text.written(&value))
                )));
            }
            Ok(store.merge(&tree, ADD, &key, number.to_string().as_bytes()).await?)
        }
        Command::Delete { key } => Ok(store.delete(&tree, &text.read(key)?).await?),
        Command::Scan { from, to, prefix, reverse, limit } => {
            let key = |key: &Option<OsString>| key.as_ref().map(|key| text.read(key)).transpose();
            let range = match key(prefix)? {
                Some(prefix) => KeyRange::with_prefix(&prefix),
                None => KeyRange {
                    from: key(from)?.map_or(Bound::Unbounded, Bound::Included),
                    to: key(to)?.map_or(Bound::Unbounded, Bound::Excluded),
                },
            };
            let direction = if *reverse { Direction::Backward } else { Direction::Forward };
            let is_terminal = std::io::stdout().is_terminal();
            let limit = limit.unwrap_or(if is_terminal { SCANNED } else { 0 });
            scan(store, &tree, range, direction, limit, text).await
        }
        Command::Load { file, group, acknowledge } => {
            let mut loading = Loading {
                store,
                tree: &tree,
                file,
                batch: Batch::new(),
                durable: 0,
                acknowledge: *acknowledge,
            };
            load(&mut loading, (*group).max(1), text).await
        }
        Command::Stats { .. } => Ok(()),
    }
}

/// How keys and values are given and printed.
#[derive(Clone, Copy)]
struct Text {
    is_hex: bool,
}

impl Text {
    fn read(self, text: &OsStr) -> Result<Vec<u8>, Failure> {
        self.read_bytes(text.as_encoded_bytes())
            .map_err(|problem| Failure::Usage(format!("`{}`: {problem}", text.display())))
    }

    fn read_bytes(self, text: &[u8]) -> Result<Vec<u8>, hex::FromHexError> {
        if self.is_hex { hex::decode(text) } else { Ok(text.to_vec()) }
    }

    fn written(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        if self.is_hex { hex::encode(bytes).into_bytes().into() } else { bytes.into() }
    }
}

async fn find(store: &Store, name: &str) -> Result<Tree, Failure> {
    if let Some(tree) = store.find_tree(name).await? {
        return Ok(tree);
    }
    let names = store.trees().await?;
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Failure::Failed(format!("there is no tree `{name}`; the store has: {there}")))
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
            output.flush()?;
            print::note("more records follow: --limit 0 prints all of them");
            return Ok(());
        }
        for part in [&*text.written(key), b"\t", &*text.written(value), b"\n"] {
            output.write_all(part)?;
        }
        printed += 1;
    }
    Ok(output.flush()?)
}

/// The load of a file into a tree.
struct Loading<'a> {
    store: &'a Store,
    tree: &'a Tree,
    file: &'a Path,
    batch: Batch,
    /// Records that are durable.
    durable: u64,
    acknowledge: bool,
}

impl Loading<'_> {
    fn failed(&self, problem: impl std::fmt::Display) -> Failure {
        let (file, durable) = (self.file.display(), grouped(self.durable));
        Failure::Failed(format!(
            "{file}: {problem}; at least the first {durable} records are loaded"
        ))
    }

    /// Commits the batch, and with `--acknowledge` prints how many records are durable.
    async fn commit(&mut self) -> Result<(), Failure> {
        if let Err(error) = self.store.commit(&self.batch).await {
            return Err(self.failed(error));
        }
        self.durable += self.batch.len() as u64;
        self.batch.clear();
        match self.acknowledge {
            // A reader that has gone must not take the rest for loaded.
            true => print::line(self.durable).map_err(|failure| self.failed(failure)),
            false => Ok(()),
        }
    }
}

async fn load(loading: &mut Loading<'_>, group: usize, text: Text) -> Result<(), Failure> {
    let file = loading.file;
    let mut reader: Box<dyn BufRead + Send> = match file.to_str() {
        Some("-") => Box::new(BufReader::new(std::io::stdin())),
        _ => {
            let opened = std::fs::File::open(file);
            Box::new(BufReader::new(opened.map_err(|problem| loading.failed(problem))?))
        }
    };
    let (watch, began) = (Stopwatch::start(), now());
    let bar = progress::bar("loading", None);
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(|problem| loading.failed(problem))? == 0 {
            break;
        }
        number += 1;
        let record = line.strip_suffix(b"\n").unwrap_or(&line);
        let tab = record.iter().position(|byte| *byte == b'\t');
        let Some((key, value)) = tab.and_then(|tab| record.split_at_checked(tab)) else {
            loading.commit().await?;
            return Err(loading.failed(format!("line {number} has no tab between key and value")));
        };
        let value = value.strip_prefix(b"\t").unwrap_or(value);
        let (key, value) = match (text.read_bytes(key), text.read_bytes(value)) {
            (Ok(key), Ok(value)) => (key, value),
            (Err(problem), _) | (_, Err(problem)) => {
                loading.commit().await?;
                return Err(loading.failed(format!("line {number}: {problem}")));
            }
        };
        loading.batch.put(loading.tree, &key, &value);
        if loading.batch.len() >= group {
            loading.commit().await?;
            bar.set_position(number);
        }
    }
    if !loading.batch.is_empty() {
        loading.commit().await?;
    }
    let checkpointed = loading.store.checkpoint().await;
    checkpointed.map_err(|error| loading.failed(error))?;
    bar.finish_and_clear();
    let real_s = watch.elapsed().as_s();
    let rate = |seconds: f64| grouped((number as f64 / seconds.max(1e-9)) as u64);
    let records = grouped(number);
    if is_virtual() {
        let virtual_s = now().since(began).as_s();
        return print::line(format!(
            "{records} records in {virtual_s:.1} s of virtual time, {} a second (real time {real_s:.1} s)",
            rate(virtual_s)
        ));
    }
    print::line(format!("{records} records in {real_s:.1} s, {} a second", rate(real_s)))
}

#[derive(Serialize)]
struct Stats {
    trees: Vec<String>,
    leaves: u64,
    partitions: u64,
    pending_changes: u64,
    pending_bytes: u64,
    directory_bytes: u64,
    data_bytes: u64,
    data_free_bytes: u64,
    set_aside: u64,
    log_segments: u64,
    log_segments_used: u64,
    replayed_bytes: u64,
    refused_merges: u64,
}

async fn stats(store: &Store, json: bool) -> Result<(), Failure> {
    let trees = store.trees().await?;
    let figures = store.figures();
    let stats = Stats {
        trees,
        leaves: figures.blocks,
        partitions: figures.partitions,
        pending_changes: figures.queued,
        pending_bytes: figures.queued_bytes,
        directory_bytes: figures.directory_bytes,
        data_bytes: figures.data_bytes,
        data_free_bytes: figures.data_free_bytes,
        set_aside: figures.set_aside,
        log_segments: figures.log_segments,
        log_segments_used: figures.log_segments_used,
        replayed_bytes: figures.replayed_bytes,
        refused_merges: figures.refused,
    };
    if json {
        return print::json(&stats);
    }
    let facts = [
        ("trees", stats.trees.join(", ")),
        (
            "leaves",
            format!("{} in {} partitions", grouped(stats.leaves), grouped(stats.partitions)),
        ),
        ("directory", format!("{} of memory", ByteCount(stats.directory_bytes))),
        (
            "pending",
            format!(
                "{} changes, {} of memory",
                grouped(stats.pending_changes),
                ByteCount(stats.pending_bytes)
            ),
        ),
        (
            "space",
            format!(
                "{} of {} are free",
                ByteCount(stats.data_free_bytes),
                ByteCount(stats.data_bytes)
            ),
        ),
        ("log", format!("{} of {} segments in use", stats.log_segments_used, stats.log_segments)),
        (
            "replayed",
            format!("{} of log when the store was opened", ByteCount(stats.replayed_bytes)),
        ),
        (
            "refused merges",
            format!("{} met a value that is not a number", grouped(stats.refused_merges)),
        ),
        ("set aside", format!("{} partitions, which could not be read", grouped(stats.set_aside))),
    ];
    let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
    print::table(&[("store", false), ("", false)], facts.into_iter().map(row).collect())
}
