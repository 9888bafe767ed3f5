//! `moirai kv`: keys and values in the trees of a store.

use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use moirai::btree::{AddDecimal, Batch, Direction, KeyRange, Store, Tree};
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::units::{ByteCount, grouped};
use moirai::update::{KindNumber, Kinds, Options};
use moirai::{NewTrees, TreesPlace};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress, run};

/// What `merge` does.
const ADD: KindNumber = KindNumber(17);
/// Records that are printed by a scan, unless told otherwise.
const SCANNED: u64 = 100;

/// Keys and values in B+-trees that take floods of random updates
///
/// A store is a device, and its log others, or the end of the same. It is made on a device whose first and last MiB
/// are zeros, when something is first put there.
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
    #[arg(long, value_name = "SIZE")]
    log_size: Option<ByteCount>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the value under a key
    Get {
        /// The key
        key: String,
    },
    /// Put a value under a key, in the place of what was there
    Put {
        /// The key
        key: String,
        /// The value
        value: String,
    },
    /// Add a number to the one under a key, without reading it; nothing is 0
    Merge {
        /// The key
        key: String,
        /// The number, which may be negative
        #[arg(allow_hyphen_values = true)]
        number: i128,
    },
    /// Leave nothing under a key
    Delete {
        /// The key
        key: String,
    },
    /// Print the records of a range, a line each: key, tab, value
    Scan {
        /// The first key
        #[arg(long)]
        from: Option<String>,
        /// The key before which it ends
        #[arg(long)]
        to: Option<String>,
        /// Only keys that begin so
        #[arg(long, conflicts_with_all = ["from", "to"])]
        prefix: Option<String>,
        /// From the last key to the first
        #[arg(long)]
        reverse: bool,
        /// Records at most; 0: all
        #[arg(long, default_value_t = SCANNED)]
        limit: u64,
    },
    /// Put the records of a file: lines of key, tab, value
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
    let new = NewTrees { leaf: arguments.leaf, log: arguments.log_size };
    let options = Options { memory: arguments.memory, ..Options::default() };
    Ok(moirai::open_trees(place, may_make.then_some(new), kinds, options).await?)
}

async fn carry_out(arguments: &Arguments) -> Result<(), Failure> {
    let changes = matches!(
        arguments.command,
        Command::Put { .. } | Command::Merge { .. } | Command::Load { .. }
    );
    let store = open(arguments, changes).await?;
    if let Command::Stats { json } = arguments.command {
        return stats(&store, json).await;
    }
    let tree = match changes {
        true => store.tree(&arguments.tree).await?,
        false => find(&store, &arguments.tree).await?,
    };
    match &arguments.command {
        Command::Get { key } => match store.get(&tree, key.as_bytes()).await? {
            Some(value) => print::line(String::from_utf8_lossy(&value)),
            None => Err(Failure::Failed(format!("there is nothing under `{key}`"))),
        },
        Command::Put { key, value } => {
            Ok(store.put(&tree, key.as_bytes(), value.as_bytes()).await?)
        }
        Command::Merge { key, number } => {
            let number = number.to_string();
            Ok(store.merge(&tree, ADD, key.as_bytes(), number.as_bytes()).await?)
        }
        Command::Delete { key } => Ok(store.delete(&tree, key.as_bytes()).await?),
        Command::Scan { from, to, prefix, reverse, limit } => {
            let range = match prefix {
                Some(prefix) => KeyRange::with_prefix(prefix.as_bytes()),
                None => KeyRange {
                    from: from
                        .as_ref()
                        .map_or(Bound::Unbounded, |key| Bound::Included(key.as_bytes().into())),
                    to: to
                        .as_ref()
                        .map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_bytes().into())),
                },
            };
            let direction = if *reverse { Direction::Backward } else { Direction::Forward };
            scan(&store, &tree, range, direction, *limit).await
        }
        Command::Load { file, group, acknowledge } => {
            load(&store, &tree, file, (*group).max(1), *acknowledge).await
        }
        Command::Stats { .. } => Ok(()),
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
) -> Result<(), Failure> {
    let mut scan = store.scan(tree, range, direction);
    let mut printed = 0;
    while let Some((key, value)) = scan.next().await? {
        if limit > 0 && printed == limit {
            return print::line(format!(
                "... and more: --limit 0 prints all, and --limit {} more",
                limit * 10
            ));
        }
        print::line(format!(
            "{}\t{}",
            String::from_utf8_lossy(key),
            String::from_utf8_lossy(value)
        ))?;
        printed += 1;
    }
    Ok(())
}

async fn load(
    store: &Store,
    tree: &Tree,
    file: &Path,
    group: usize,
    acknowledge: bool,
) -> Result<(), Failure> {
    let failed =
        |problem: std::io::Error| Failure::Failed(format!("{}: {problem}", file.display()));
    let mut reader: Box<dyn BufRead + Send> = match file.to_str() {
        Some("-") => Box::new(BufReader::new(std::io::stdin())),
        _ => Box::new(BufReader::new(std::fs::File::open(file).map_err(failed)?)),
    };
    let (watch, began) = (Stopwatch::start(), now());
    let bar = progress::bar("loading", None);
    let mut batch = Batch::new();
    let mut line = Vec::new();
    let mut records = 0_u64;
    loop {
        line.clear();
        let is_end = reader.read_until(b'\n', &mut line).map_err(failed)? == 0;
        if is_end || batch.len() >= group {
            store.commit(&batch).await?;
            batch.clear();
            bar.set_position(records);
            if acknowledge {
                print::line(records)?;
            }
        }
        if is_end {
            break;
        }
        records += 1;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let Some(tab) = text.iter().position(|byte| *byte == b'\t') else {
            store.commit(&batch).await?;
            return Err(Failure::Failed(format!(
                "{}: line {records} has no tab between key and value; the lines before it are loaded",
                file.display()
            )));
        };
        let (key, value) = text.split_at(tab);
        batch.put(tree, key, value.strip_prefix(b"\t").unwrap_or(value));
    }
    store.checkpoint().await?;
    bar.finish_and_clear();
    let seconds = match is_virtual() {
        true => now().since(began).as_s(),
        false => watch.elapsed().as_s(),
    };
    print::line(format!(
        "{} records in {seconds:.1} s, {} a second",
        grouped(records),
        grouped((records as f64 / seconds.max(1e-9)) as u64)
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
