//! Stores of named trees.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moirai_storage::Device;
use moirai_transactions::Transactions;
use moirai_units::{BLOCK_BYTES, ByteCount};
use moirai_update::{
    Durability, Engine, Figures, Format, Formats, KindNumber, Kinds, Options, SpaceFormat, SpaceId,
};
use parking_lot::RwLock;

use crate::batch::Batch;
use crate::drop::{Nameless, put};
use crate::leaf::{LEAF_BYTES_MAX, Leaves};
use crate::range::KeyRange;
use crate::reader::Reader;
use crate::scan::{Direction, Scan};
use crate::value::ValueWriter;
use crate::{Error, Result, ValueReader};

/// The tree of trees: from names to spaces.
pub(crate) const CATALOG: SpaceId = SpaceId(1);
/// The longest name of a tree.
const NAME_BYTES_MAX: usize = 100;

/// Which of the stores that this process opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(u64);

impl StoreId {
    fn new() -> StoreId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        StoreId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A tree of a store. The methods of other stores refuse it with [`Error::OtherStore`], and so does the same store once
/// it was opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(crate) store: StoreId,
    pub(crate) space: SpaceId,
    pub(crate) name: Arc<str>,
}

impl Tree {
    /// [`Error::Name`] for a name that no tree can have.
    pub(crate) fn check_name(name: &str) -> Result<()> {
        match name.len() {
            1..=NAME_BYTES_MAX => Ok(()),
            bytes => Err(Error::Name { bytes }),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A store of B+-trees over a data device and one or more log devices.
///
/// Dropped, it ends at once: what was acknowledged is there when it is opened again, from the log.
#[derive(Debug)]
pub struct Store {
    pub(crate) engine: Engine,
    pub(crate) transactions: Arc<Transactions>,
    id: StoreId,
    /// Held by who makes, drops or renames a tree.
    pub(crate) making: tokio::sync::Mutex<Nameless>,
    /// The spaces of trees that were dropped since the store was opened.
    pub(crate) dropped: RwLock<BTreeSet<SpaceId>>,
}

impl Store {
    /// Makes `data` and the devices of a log those of a new store; they lose what they hold. [`Error::LeafBytes`] for leaves
    /// that are no multiple of 512 bytes or longer than 64 KiB, and errors as of [`Engine::format`].
    pub async fn format(data: &dyn Device, logs: &[Arc<dyn Device>], format: Format) -> Result<()> {
        Store::check_format(data, logs, &format)?;
        Ok(Engine::format(data, logs, &Leaves, format).await?)
    }

    /// Checks that [`Store::format`] can make these devices those of a store, and writes nothing. Errors as of that, but for a log
    /// device that is named twice.
    pub fn check_format(
        data: &dyn Device,
        logs: &[Arc<dyn Device>],
        format: &Format,
    ) -> Result<()> {
        let bytes = format.block_bytes.0;
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) || bytes > LEAF_BYTES_MAX as u64 {
            return Err(Error::LeafBytes { bytes });
        }
        Ok(Engine::check_format(data, logs, format)?)
    }

    /// Opens the store on `data` and `logs`, in the order in which they were formatted. The `kinds` must have every
    /// kind of merges that it was given and has not brought to leaves yet; errors as of [`Engine::open`].
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        kinds: Kinds,
        options: Options,
    ) -> Result<Store> {
        Store::open_with(data, logs, (kinds, Formats::new()), options).await
    }

    /// The same with more formats than that of leaves, for a store with relations of these.
    pub async fn open_with(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        (kinds, formats): (Kinds, Formats),
        options: Options,
    ) -> Result<Store> {
        let engine = Engine::open(data, logs, kinds, formats.with(Leaves), options).await?;
        if !options.read_only {
            engine.create_space(CATALOG).await?;
        }
        let (making, dropped) = (tokio::sync::Mutex::default(), RwLock::default());
        let transactions = Transactions::new();
        let store = Store { engine, transactions, id: StoreId::new(), making, dropped };
        if !options.read_only {
            store.clear_nameless().await;
        }
        Ok(store)
    }

    /// Where the engine keeps a tree of this store.
    pub(crate) fn space_of(&self, tree: &Tree) -> Result<SpaceId> {
        self.check_tree(tree)?;
        Ok(tree.space)
    }

    /// Whether a tree is one of this store.
    pub(crate) fn check_tree(&self, tree: &Tree) -> Result<()> {
        self.check_store(tree)?;
        if self.dropped.read().contains(&tree.space) {
            return Err(Error::Dropped { tree: tree.name().to_owned() });
        }
        Ok(())
    }

    /// Whether a tree is one of this store, or was.
    pub(crate) fn check_store(&self, tree: &Tree) -> Result<()> {
        match tree.store == self.id {
            true => Ok(()),
            false => Err(Error::OtherStore { tree: tree.name().to_owned() }),
        }
    }

    /// Reads what is there now.
    #[must_use]
    pub fn now(&self) -> Reader<'_> {
        Reader { store: self, engine: self.engine.now(), has_dropped: false }
    }

    pub(crate) fn tree_in(&self, space: SpaceId, name: &str) -> Tree {
        Tree { store: self.id, space, name: name.into() }
    }

    /// The tree called `name`; it is made when there is none. [`Error::Name`] for an empty one, and for more than 100 bytes.
    pub async fn tree(&self, name: &str) -> Result<Tree> {
        Tree::check_name(name)?;
        if let Some(tree) = self.find_tree(name).await? {
            return Ok(tree);
        }
        let mut nameless = self.making.lock().await;
        if let Some(tree) = self.find_tree(name).await? {
            return Ok(tree);
        }
        let space = match nameless.take(&self.engine, name) {
            Some((space, group)) => {
                self.engine.commit(&group).await?;
                space
            }
            None => {
                let space = self.new_space(None).await?;
                let entry = space.0.to_le_bytes();
                self.engine.modify(CATALOG, put(name.as_bytes(), &entry)).await?;
                space
            }
        };
        Ok(self.tree_in(space, name))
    }

    /// A space of a format, or of leaves, that nothing had; the caller holds [`Store::making`]. A number that was given and not used
    /// is passed over.
    pub(crate) async fn new_space(&self, format: Option<&SpaceFormat>) -> Result<SpaceId> {
        let last = self.engine.spaces().last().map_or(CATALOG.0, |space| space.0);
        let space = SpaceId(last + 1);
        match format {
            Some(format) => self.engine.create_space_of(space, format).await?,
            None => self.engine.create_space(space).await?,
        }
        Ok(space)
    }

    /// Bytes of a leaf.
    #[must_use]
    pub fn leaf_bytes(&self) -> ByteCount {
        self.engine.block_bytes()
    }

    /// The tree called `name`, when there is one.
    pub async fn find_tree(&self, name: &str) -> Result<Option<Tree>> {
        self.now().find_tree(name).await
    }

    /// Whether there is a catalog: a store that was never opened for writing has none.
    pub(crate) fn has_catalog(&self) -> bool {
        self.engine.has_space(CATALOG)
    }

    /// The tree of trees.
    pub(crate) fn catalog(&self) -> Tree {
        self.tree_in(CATALOG, "catalog")
    }

    /// The names of all trees, in their order.
    pub async fn trees(&self) -> Result<Vec<String>> {
        self.now().trees().await
    }

    /// Commits a batch: all of its changes or none. Returns once the batch is as durable as [`Options::durability`] asks.
    /// Batches commit in the order of first poll, but those with long values once these are written. A key or an operand may
    /// be up to a quarter of a leaf less 7 bytes long (2,041 bytes in leaves of 8 KiB), and a value up to 1 GiB. Values longer
    /// than a quarter of a leaf go to blocks of their own before the batch goes to the log.
    ///
    /// # Errors
    /// [`Error::OtherStore`]; errors as of [`Engine::commit`].
    pub async fn commit(&self, batch: &Batch) -> Result<()> {
        Ok(self.engine.commit(batch.group_for(self)?).await?)
    }

    /// Commits a batch like [`Store::commit`], with the stronger of `durability` and [`Options::durability`].
    pub async fn commit_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        Ok(self.engine.commit_with(batch.group_for(self)?, durability).await?)
    }

    /// Puts `value` under `key`, in place of any value there.
    pub async fn put(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(tree, key, value);
        self.commit(&batch).await
    }

    /// A writer for a value of up to 1 GiB, which goes to the device in parts of 1 MiB and is then put under `key`.
    ///
    /// # Errors
    /// As of [`Store::get`].
    pub fn write_value<'a>(&'a self, tree: &Tree, key: &'a [u8]) -> Result<ValueWriter<'a>> {
        let space = self.space_of(tree)?;
        let writer = self.engine.value_writer(space)?;
        Ok(ValueWriter { store: self, space, key, writer })
    }

    /// A reader of parts of the value under `key`: of the value as it is now, whatever is committed meanwhile. Errors as of
    /// [`Store::get`].
    pub async fn read_value(&self, tree: &Tree, key: &[u8]) -> Result<Option<ValueReader>> {
        self.now().read_value(tree, key).await
    }

    /// Deletes `key`.
    pub async fn delete(&self, tree: &Tree, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(tree, key);
        self.commit(&batch).await
    }

    /// Changes the value under `key` as the kind says, without reading it.
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

    /// The value under `key`; [`Error::OtherStore`], and errors as of [`Reader`].
    pub async fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.now().get(tree, key).await
    }

    /// The values under several keys, in the order of `keys`. No commit comes between them: a batch shows in all of the
    /// values or in none. Reads up to 32 leaves at the same time, and each leaf once. Errors as of [`Store::get`].
    pub async fn multi_get<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.now().multi_get(tree, keys).await
    }

    /// Whether there is a value under `key`. Reads nothing where the newest change of `key` is in memory and tells. Errors
    /// as of [`Store::get`].
    pub async fn contains(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        self.now().contains(tree, key).await
    }

    /// Scans the records of a range, from the lowest key up or from the highest down.
    #[must_use]
    pub fn scan<'a>(
        &'a self,
        tree: &Tree,
        range: impl Into<KeyRange>,
        direction: Direction,
    ) -> Scan<'a> {
        self.now().scan(tree, range, direction)
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
