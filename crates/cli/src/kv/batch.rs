//! `kv batch`: files whose lines are changes, committed group by group.

use moirai::btree::{AddDecimal, Draft, Reader, Store, Tree};

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

/// A change that a line of a batch asks for.
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
    // The changes of the group, as a merge among them finds them.
    let mut draft = Draft::new();
    let mut line = Vec::new();
    while loading.next_line(&mut line)? {
        let parsed = parse(&line, arguments.trees, text);
        let (change, name, key, operand) =
            parsed.map_err(|problem| loading.failed_line(problem))?;
        let name = name.as_deref().unwrap_or(default);
        let tree = match trees.iter().find(|tree| tree.name() == name) {
            Some(tree) => tree.clone(),
            None => {
                let tree = store.tree(name).await.map_err(|error| loading.failed_line(error))?;
                trees.push(tree.clone());
                tree
            }
        };
        if matches!(change, Change::Merge) && !arguments.blind {
            let checked = check_merge(store.now().over(&draft)?, &tree, &key, &operand, text).await;
            checked.map_err(|problem| loading.failed_line(problem))?;
        }
        match change {
            Change::Put => loading.batch.put(&tree, &key, &operand),
            Change::Delete => loading.batch.delete(&tree, &key),
            Change::Merge => loading.batch.merge(&tree, ADD, &key, &operand),
        }
        if !arguments.blind {
            match change {
                Change::Put => draft.put(&tree, &key, &operand),
                Change::Delete => draft.delete(&tree, &key),
                Change::Merge => draft.merge(&tree, ADD, &key, &operand),
            }
        }
        if loading.commit_group().await? {
            draft.clear();
        }
    }
    loading.finish().await
}

/// Fails where `number` cannot be added to the value of `key`.
pub(super) async fn check_merge(
    reader: Reader<'_>,
    tree: &Tree,
    key: &[u8],
    number: &[u8],
    text: Text,
) -> Result<(), String> {
    let value = reader.get(tree, key).await.map_err(|error| error.to_string())?;
    let Some(value) = value else { return Ok(()) };
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&text.written(bytes)).into_owned();
    if !AddDecimal::is_number(&value) {
        let (key, value) = (shown(key), shown(&value));
        return Err(format!("the value of `{key}` is not an integer: `{value}`"));
    }
    if !AddDecimal::has_sum(&value, number) {
        let key = shown(key);
        return Err(format!(
            "the sum of `{key}` has more than 128 bits: put a smaller number there"
        ));
    }
    Ok(())
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
