//! Stores of named trees.

use std::sync::Arc;

use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, ByteCount};
use moirai_update::{
    DELETE, Engine, Figures, Format, Group, KindNumber, Kinds, Modification, Options, PUT,
    Question, SpaceId,
};

use crate::leaf::{LEAF_BYTES_MAX, Leaves};
use crate::scan::{Direction, KeyRange, Scan};
use crate::{Error, Result};

/// The tree of trees: from names to spaces.
const CATALOG: SpaceId = SpaceId(1);
/// The longest name of a tree.
const NAME_BYTES_MAX: usize = 100;

/// A tree of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(crate) space: SpaceId,
    pub(crate) name: Arc<str>,
}

impl Tree {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether there is a value.
struct IsThere;

impl Question for IsThere {
    type Answer = bool;

    fn of_newest(&self, newest: Modification<'_>) -> Option<bool> {
        match newest.kind {
            PUT => Some(true),
            DELETE => Some(false),
            _ => None,
        }
    }

    fn of_value(&self, value: Option<&[u8]>) -> bool {
        value.is_some()
    }
}

/// Changes that are durable together or not at all, over any trees of a store.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    group: Group,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Puts `value` under `key`, in the place of what was there.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) {
        self.group.modify(tree.space, Modification { key, kind: PUT, bytes: value });
    }

    /// Leaves nothing under `key`.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) {
        self.group.modify(tree.space, Modification { key, kind: DELETE, bytes: &[] });
    }

    /// Changes what is under `key` as the kind says, without reading it.
    pub fn merge(&mut self, tree: &Tree, kind: KindNumber, key: &[u8], operand: &[u8]) {
        self.group.modify(tree.space, Modification { key, kind, bytes: operand });
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.group.clear();
    }
}

/// A store of B+-trees over a data device and one or more log devices.
///
/// Dropped, it ends at once: what was acknowledged is there when it is opened again, from the log.
#[derive(Debug)]
pub struct Store {
    pub(crate) engine: Engine,
    /// Held by who makes a tree.
    making: tokio::sync::Mutex<()>,
}

impl Store {
    /// Makes `data` and the devices of a log those of a new store; they lose what they hold. [`Error::LeafBytes`] for leaves
    /// that are no multiple of 512 bytes or longer than 64 KiB, and errors as of [`Engine::format`].
    pub async fn format(data: &dyn Device, logs: &[Arc<dyn Device>], format: Format) -> Result<()> {
        let bytes = format.block_bytes.0;
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) || bytes > LEAF_BYTES_MAX as u64 {
            return Err(Error::LeafBytes { bytes });
        }
        Ok(Engine::format(data, logs, &Leaves, format).await?)
    }

    /// Opens the store on `data` and `logs`, in the order in which they were formatted. The `kinds` must have every
    /// kind of merges that it was given and has not brought to leaves yet; errors as of [`Engine::open`].
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        kinds: Kinds,
        options: Options,
    ) -> Result<Store> {
        let engine = Engine::open(data, logs, kinds, Arc::new(Leaves), options).await?;
        engine.create_space(CATALOG).await?;
        Ok(Store { engine, making: tokio::sync::Mutex::default() })
    }

    /// The tree called `name`; it is made when there is none. [`Error::Name`] for an empty one, and for more than 100 bytes.
    pub async fn tree(&self, name: &str) -> Result<Tree> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::Name { bytes: name.len() });
        }
        if let Some(tree) = self.find_tree(name).await? {
            return Ok(tree);
        }
        let _alone = self.making.lock().await;
        if let Some(tree) = self.find_tree(name).await? {
            return Ok(tree);
        }
        // A number that was given and not used is passed over.
        let last = self.engine.spaces().last().map_or(CATALOG.0, |space| space.0);
        let space = SpaceId(last + 1);
        self.engine.create_space(space).await?;
        let entry = Modification { key: name.as_bytes(), kind: PUT, bytes: &space.0.to_le_bytes() };
        self.engine.modify(CATALOG, entry).await?;
        Ok(Tree { space, name: name.into() })
    }

    /// The tree called `name`, when there is one.
    pub async fn find_tree(&self, name: &str) -> Result<Option<Tree>> {
        let found = self.engine.get(CATALOG, name.as_bytes()).await?;
        let space = found.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        Ok(space.map(|space| Tree { space: SpaceId(space), name: name.into() }))
    }

    /// The names of all trees, in their order.
    pub async fn trees(&self) -> Result<Vec<String>> {
        let catalog = Tree { space: CATALOG, name: "catalog".into() };
        let mut scan = self.scan(&catalog, KeyRange::all(), Direction::Forward);
        let mut names = Vec::new();
        while let Some((name, _)) = scan.next().await? {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    /// Makes a batch durable, as far as the options say; errors as of [`Engine::commit`]. Keys, values and operands have
    /// a quarter of a leaf, but for 7 bytes, at most.
    pub async fn commit(&self, batch: &Batch) -> Result<()> {
        Ok(self.engine.commit(&batch.group).await?)
    }

    /// Puts `value` under `key`.
    pub async fn put(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(tree, key, value);
        self.commit(&batch).await
    }

    /// Leaves nothing under `key`.
    pub async fn delete(&self, tree: &Tree, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(tree, key);
        self.commit(&batch).await
    }

    /// Changes what is under `key` as the kind says, without reading it.
    pub async fn merge(
        &self,
        tree: &Tree,
        kind: KindNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.merge(tree, kind, key, operand);
        self.commit(&batch).await
    }

    /// The value under `key`; errors as of [`Engine::get`].
    pub async fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.engine.get(tree.space, key).await?)
    }

    /// Whether something is under `key`; nothing is read where the last change of it is in memory and tells.
    pub async fn contains(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Ok(self.engine.query(tree.space, key, &IsThere).await?)
    }

    /// The records of `range`, one after the other.
    #[must_use]
    pub fn scan<'a>(&'a self, tree: &Tree, range: KeyRange, direction: Direction) -> Scan<'a> {
        Scan::new(self, tree.clone(), range, direction)
    }

    /// Returns when all that was committed is durable.
    pub async fn barrier(&self) -> Result<()> {
        Ok(self.engine.barrier().await?)
    }

    /// Brings all that was committed to the data device, so that opening has nothing to replay.
    pub async fn checkpoint(&self) -> Result<()> {
        Ok(self.engine.checkpoint().await?)
    }

    /// Checkpoints, and ends.
    pub async fn close(self) -> Result<()> {
        Ok(self.engine.close().await?)
    }

    /// What it did, and what it holds.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.engine.figures()
    }
}

/// The format for leaves of `leaf` bytes, and else [`Format::default`].
#[must_use]
pub fn with_leaves(leaf: ByteCount) -> Format {
    Format { block_bytes: leaf, ..Format::default() }
}
