//! `kv batch`: files whose lines are changes, committed group by group.

use std::collections::HashMap;
use std::path::Path;

use moirai::btree::{AddDecimal, Store, Tree};

use super::ADD;
use super::load::{Input, Loading, record, split};
use super::text::Text;
use crate::failure::Failure;

/// What to change, and how.
#[derive(clap::Args)]
pub(super) struct Batch {
    #[command(flatten)]
    input: Input,
    /// Each line has the name of a tree before the key, and a tab
    #[arg(long, conflicts_with = "tree")]
    trees: bool,
    /// Merge without reading the values first
    ///
    /// This is faster, and a merge that meets a value that is not an integer changes nothing and fails nothing:
    /// `kv stats` counts it once it is applied to the value on the device.
    #[arg(long, verbatim_doc_comment)]
    blind: bool,
}

impl Batch {
    pub(super) fn file(&self) -> &Path {
        self.input.file()
    }
}

/// Values that a batch has changed or read: a merge finds them here, however often its key comes.
#[derive(Default)]
struct Known {
    /// The values of keys, by the index of their tree; no value where there is none.
    values: HashMap<(usize, Vec<u8>), Option<Vec<u8>>>,
    bytes: usize,
}

impl Known {
    fn set(&mut self, tree: usize, key: &[u8], value: Option<Vec<u8>>) {
        let bytes =
            |value: &Option<Vec<u8>>| key.len() + value.as_ref().map_or(0, Vec::len) + ENTRY_BYTES;
        self.bytes += bytes(&value);
        let before = self.values.insert((tree, key.to_vec()), value);
        self.bytes -= before.map_or(0, |before| bytes(&before));
    }

    /// Forgets all once it is much; what it knows is to be in the store then.
    fn trim(&mut self) {
        if self.bytes > KNOWN_BYTES {
            *self = Known::default();
        }
    }
}

/// Bytes of values that are known at most after a group, beside the memory of the store.
const KNOWN_BYTES: usize = 16 << 20;
/// Bytes of memory that a known value takes beside key and value, about.
const ENTRY_BYTES: usize = 128;

/// A change that a line of a batch asks for.
#[derive(Clone, Copy)]
enum Change {
    Put,
    Delete,
    Merge,
}

/// Makes the changes of a file, whole groups of lines only.
pub(super) async fn batch(
    store: &Store,
    default: &str,
    arguments: &Batch,
    text: Text,
) -> Result<(), Failure> {
    let mut loading = Loading::start(store, &arguments.input, "changes")?;
    let mut trees: Vec<Tree> = Vec::new();
    let mut known = Known::default();
    let mut line = Vec::new();
    while loading.next_line(&mut line)? {
        let parsed = parse(&line, arguments.trees, text);
        let (change, name, key, operand) =
            parsed.map_err(|problem| loading.failed_line(problem))?;
        let name = name.as_deref().unwrap_or(default);
        let index = match trees.iter().position(|tree| tree.name() == name) {
            Some(index) => index,
            None => {
                trees.push(store.tree(name).await.map_err(|error| loading.failed_line(error))?);
                trees.len() - 1
            }
        };
        let Some(tree) = trees.get(index) else { continue };
        if !arguments.blind {
            let value = match change {
                Change::Put => Some(operand.clone()),
                Change::Delete => None,
                Change::Merge => {
                    let value = match known.values.get(&(index, key.clone())) {
                        Some(value) => value.clone(),
                        None => {
                            let read = store.get(tree, &key).await;
                            read.map_err(|error| loading.failed_line(error))?
                        }
                    };
                    let sum = check_merge(value.as_deref(), &key, &operand, text);
                    Some(sum.map_err(|problem| loading.failed_line(problem))?)
                }
            };
            known.set(index, &key, value);
        }
        match change {
            Change::Put => loading.batch.put(tree, &key, &operand),
            Change::Delete => loading.batch.delete(tree, &key),
            Change::Merge => loading.batch.merge(tree, ADD, &key, &operand),
        }
        if loading.commit_group().await? {
            known.trim();
        }
    }
    loading.finish().await
}

/// The sum of a value, which may be none, and `number`; fails where there is none.
pub(super) fn check_merge(
    value: Option<&[u8]>,
    key: &[u8],
    number: &[u8],
    text: Text,
) -> Result<Vec<u8>, String> {
    let value = value.unwrap_or(b"0");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&text.written(bytes)).into_owned();
    if !AddDecimal::is_number(value) {
        let (key, value) = (shown(key), shown(value));
        return Err(format!("the value of `{key}` is not an integer: `{value}`"));
    }
    AddDecimal::sum(value, number).ok_or_else(|| {
        let key = shown(key);
        format!("the sum of `{key}` has more than 128 bits: put a smaller number there")
    })
}

/// What a line of a batch changes: the tree where lines name one, the key, and what comes after it.
type Parsed = (Change, Option<String>, Vec<u8>, Vec<u8>);

fn parse(line: &[u8], has_trees: bool, text: Text) -> Result<Parsed, String> {
    let (verb, rest) = split(line).unwrap_or((line, b""));
    let change = match verb {
        b"put" => Change::Put,
        b"delete" => Change::Delete,
        b"merge" => Change::Merge,
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(format!(
                "`{other}` is no change: begin with put, delete or merge, and a tab"
            ));
        }
    };
    let (tree, rest) = match has_trees {
        true => {
            let (tree, rest) = split(rest).ok_or("there is no tab between tree and key")?;
            let tree = std::str::from_utf8(tree).map_err(|_| "the tree's name is not UTF-8")?;
            (Some(tree.to_owned()), rest)
        }
        false => (None, rest),
    };
    let read = |bytes| text.read_bytes(bytes).map_err(|problem| problem.to_string());
    let (key, operand) = match change {
        Change::Delete => (read(rest)?, Vec::new()),
        Change::Put => record(rest, text)?,
        Change::Merge => {
            let (key, number) = split(rest).ok_or("there is no tab between key and number")?;
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
            let number: i128 = number.ok_or("what comes after the key is not an integer")?;
            (read(key)?, number.to_string().into_bytes())
        }
    };
    Ok((change, tree, key, operand))
}
