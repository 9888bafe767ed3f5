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
use moirai::{NewTrees, TreesPlace};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress, run};

/// What `merge` does.
const ADD: KindNumber = KindNumber(17);
/// Records that a scan prints on a terminal, unless told otherwise.
const SCANNED: u64 = 100;

/// Keys and values in B+-trees that take floods of random updates
///
/// A store is a device, and its log others, or the end of the same. It is made on a device whose first and last MiB
/// are zeros, when something is first put there. Keys and values have a quarter of a leaf at most, but for 7 bytes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The device or volume that the store is on, as URI
    #[arg(long, value_name = "URI")]
    store: String,
    /// A device of the log, as URI; several share it when this is given again; the end of the store's when not given
    #[arg(long, value_name = "URI")]
    log: Vec<String>,
    /// The tree
    #[arg(long, value_name = "NAME", default_value = "default")]
    tree: String,
    /// Memory for changes that are not in their leaves yet, and for what says where leaves lie; what these leave keeps
    /// leaves that were read
    #[arg(long, default_value = "64MiB")]
    memory: ByteCount,
    /// When the store is made: bytes of a leaf, a multiple of 512 up to 64KiB
    #[arg(long, default_value = "8KiB")]
    leaf: ByteCount,
    /// When the store is made, and without `--log`: bytes of a log at the end of its device; an eighth of it when not
    /// given, 1 GiB at most
    #[arg(long, value_name = "SIZE", conflicts_with = "log")]
    log_size: Option<ByteCount>,
    /// When the store is made: the log's devices are disks, or the beginnings of disks, that turn so often a minute, and
    /// each write goes where the head is about to be
    #[arg(long, value_name = "RPM", requires = "log", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    log_rpm: Option<u64>,
    /// Keys and values are in hexadecimal digits: given, printed and loaded
    #[arg(long)]
    hex: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the value under a key
    Get {
        /// The key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
    },
    /// Put a value under a key, in the place of what was there
    Put {
        /// The key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// The value
        #[arg(allow_hyphen_values = true)]
        value: OsString,
    },
    /// Add a number to the one under a key, without reading it; nothing, and what is no number, is 0
    Merge {
        /// The key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
        /// The number, which may be negative
        #[arg(allow_hyphen_values = true)]
        number: i128,
    },
    /// Leave nothing under a key
    Delete {
        /// The key
        #[arg(allow_hyphen_values = true)]
        key: OsString,
    },
    /// Print the records of a range, a line each: key, tab, value; as they are, or with --hex
    Scan {
        /// The first key
        #[arg(long)]
        from: Option<OsString>,
        /// The key before which it ends
        #[arg(long)]
        to: Option<OsString>,
        /// Only keys that begin so
        #[arg(long, conflicts_with_all = ["from", "to"])]
        prefix: Option<OsString>,
        /// From the last key to the first
        #[arg(long)]
        reverse: bool,
        /// Records at most; 0: all. When not given all, but on a terminal 100
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Put the records of a file: lines of key, tab, value, as they are or with --hex
    Load {
        /// The file; `-`: standard input
        file: PathBuf,
        /// Records that are made durable together
        #[arg(long, default_value_t = 1000)]
        group: usize,
        /// Print how many records are durable, after each group
        #[arg(long)]
        acknowledge: bool,
    },
    /// Say what the store holds
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut uris = vec![arguments.store.clone()];
    uris.extend_from_slice(&arguments.log);
    run::in_time(moirai::are_simulated(&uris)?, carry_out(arguments))
}

async fn open(arguments: &Arguments, may_make: bool) -> Result<Store, Failure> {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddDecimal)).map_err(moirai::btree::Error::from)?;
    let place = TreesPlace { data: &arguments.store, logs: &arguments.log };
    let writer = match arguments.log_rpm {
        Some(rpm) => LogWriter::Trail { rotation: Nanos(60_000_000_000 / rpm) },
        None => LogWriter::Append,
    };
    let new = NewTrees { leaf: arguments.leaf, log: arguments.log_size, writer };
    let options = Options { memory: arguments.memory, ..Options::default() };
    Ok(moirai::open_trees(place, may_make.then_some(new), kinds, options).await?)
}

async fn carry_out(arguments: &Arguments) -> Result<(), Failure> {
    let changes = matches!(
        arguments.command,
        Command::Put { .. } | Command::Merge { .. } | Command::Load { .. }
    );
    let store = open(arguments, changes).await?;
    if changes {
        let uris = std::iter::once(&arguments.store).chain(&arguments.log);
        uris.for_each(|uri| print::note_of_memory(uri));
    }
    if let Command::Stats { json } = arguments.command {
        return stats(&store, json).await;
    }
    let tree = match changes {
        true => store.tree(&arguments.tree).await?,
        false => find(&store, &arguments.tree).await?,
    };
    let text = Text { is_hex: arguments.hex };
    match &arguments.command {
        Command::Get { key } => match store.get(&tree, &text.read(key)?).await? {
            Some(value) => print::bytes_line(&text.written(&value)),
            None => Err(Failure::Failed(format!("there is nothing under `{}`", key.display()))),
        },
        Command::Put { key, value } => {
            Ok(store.put(&tree, &text.read(key)?, &text.read(value)?).await?)
        }
        Command::Merge { key, number } => {
            let number = number.to_string();
            Ok(store.merge(&tree, ADD, &text.read(key)?, number.as_bytes()).await?)
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
            scan(&store, &tree, range, direction, limit, text).await
        }
        Command::Load { file, group, acknowledge } => {
            let mut loading = Loading {
                store: &store,
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
    Err(Failure::Failed(format!("there is no tree `{name}`; there are: {there}")))
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
            print::notes(&[format!(
                "there are more: --limit 0 prints all, and --limit {} more",
                limit * 10
            )]);
            return Ok(());
        }
        for part in [&*text.written(key), b"\t", &*text.written(value), b"\n"] {
            output.write_all(part)?;
        }
        printed += 1;
    }
    Ok(output.flush()?)
}

/// A file on its way into a tree.
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
        Failure::Failed(format!("{file}: {problem}; the first {durable} records are loaded"))
    }

    /// Makes what came durable, and says so when that is wanted.
    async fn commit(&mut self) -> Result<(), Failure> {
        if let Err(error) = self.store.commit(&self.batch).await {
            return Err(self.failed(error));
        }
        self.durable += self.batch.len() as u64;
        self.batch.clear();
        match self.acknowledge {
            // Who no longer hears what is durable must not take the rest for loaded.
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
    let seconds = match is_virtual() {
        true => now().since(began).as_s(),
        false => watch.elapsed().as_s(),
    };
    print::line(format!(
        "{} records in {seconds:.1} s, {} a second",
        grouped(number),
        grouped((number as f64 / seconds.max(1e-9)) as u64)
    ))
}

#[derive(Serialize)]
struct Stats {
    trees: Vec<String>,
    leaves: u64,
    partitions: u64,
    pending_changes: u64,
    pending_bytes: u64,
    directory_bytes: u64,
    extents: u64,
    extents_free: u64,
    log_segments: u64,
    log_segments_used: u64,
    replayed_bytes: u64,
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
        extents: figures.extents,
        extents_free: figures.extents_free,
        log_segments: figures.log_segments,
        log_segments_used: figures.log_segments_used,
        replayed_bytes: figures.replayed_bytes,
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
            "extents",
            format!("{} of {} are free", grouped(stats.extents_free), grouped(stats.extents)),
        ),
        ("log", format!("{} of {} segments in use", stats.log_segments_used, stats.log_segments)),
        ("replayed", format!("{} when it was opened", ByteCount(stats.replayed_bytes))),
    ];
    let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
    print::table(&[("store", false), ("", false)], facts.into_iter().map(row).collect())
}
