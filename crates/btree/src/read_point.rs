//! Read points: a store as it was at one moment.

use crate::count::Estimate;
use crate::range::KeyRange;
use crate::reads::Reads;
use crate::scan::{Direction, Record, Scan};
use crate::store::{Store, Tree};
use crate::{Result, ValueReader};

/// A store as it was at one moment: all batches that readers saw then, over all trees, and nothing that came later. See
/// [`moirai_update::ReadPoint`] for what it costs. Where others need the space that it keeps, the oldest one ends:
/// reading it fails with [`PointTooOld`](moirai_update::Error::PointTooOld) then.
///
/// ```
/// # use moirai_btree::{Direction, KeyRange, Store, with_leaves};
/// # use moirai_update::{Kinds, Options};
/// # use moirai_units::{BlockCount, ByteCount};
/// # moirai_runtime::block_on_virtual(1, async {
/// # let power = moirai_devices::Power::on();
/// # let device = |name: &str| -> std::sync::Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
/// #     name.into(), BlockCount(40_000), BlockCount(16), power.clone()) };
/// # let (data, logs) = (device("data"), [device("log")]);
/// # Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
/// # let store = Store::open(data, &logs, Kinds::new(), Options::default()).await?;
/// let fruit = store.tree("fruit").await?;
/// store.put(&fruit, b"apple", b"3").await?;
/// let point = store.read_point().await;
/// store.put(&fruit, b"apple", b"2").await?;
/// store.drop_tree("fruit").await?;
///
/// let fruit = point.find_tree("fruit").await?.unwrap();
/// assert_eq!(point.get(&fruit, b"apple").await?, Some(b"3".to_vec()));
/// # Ok::<(), moirai_btree::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ReadPoint<'a> {
    store: &'a Store,
    point: moirai_update::ReadPoint,
}

impl Store {
    /// Begins a read point; waits as [`Engine::read_point`](moirai_update::Engine::read_point) does.
    pub async fn read_point(&self) -> ReadPoint<'_> {
        ReadPoint { store: self, point: self.engine.read_point().await }
    }
}

impl ReadPoint<'_> {
    fn reads(&self) -> Reads<'_> {
        Reads { store: self.store, reader: self.point.reader(), has_dropped: true }
    }

    /// Whether it can still be read.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.point.is_live()
    }

    /// The tree that was called `name`; the tree may have been dropped or renamed since. Of trees that were made since, a read
    /// point shows no records.
    pub async fn find_tree(&self, name: &str) -> Result<Option<Tree>> {
        self.reads().find_tree(name).await
    }

    /// The names of all trees, in their order.
    pub async fn trees(&self) -> Result<Vec<String>> {
        self.reads().trees().await
    }

    /// As [`Store::get`].
    pub async fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reads().get(tree, key).await
    }

    /// As [`Store::multi_get`].
    pub async fn multi_get<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.reads().multi_get(tree, keys).await
    }

    /// As [`Store::contains`].
    pub async fn contains(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        self.reads().contains(tree, key).await
    }

    /// As [`Store::read_value`]; the reader outlives the read point.
    pub async fn read_value(&self, tree: &Tree, key: &[u8]) -> Result<Option<ValueReader>> {
        self.reads().read_value(tree, key).await
    }

    /// As [`Store::scan`], but all of one moment.
    #[must_use]
    pub fn scan(&self, tree: &Tree, range: impl Into<KeyRange>, direction: Direction) -> Scan<'_> {
        self.reads().scan(tree, range, direction)
    }

    /// As [`Store::first`].
    pub async fn first(&self, tree: &Tree) -> Result<Option<Record>> {
        self.reads().end(tree, Direction::Forward).await
    }

    /// As [`Store::last`].
    pub async fn last(&self, tree: &Tree) -> Result<Option<Record>> {
        self.reads().end(tree, Direction::Backward).await
    }

    /// As [`Store::count`], but exact.
    pub async fn count(&self, tree: &Tree, range: impl Into<KeyRange>) -> Result<u64> {
        self.reads().scan(tree, range, Direction::Forward).count().await
    }

    /// As [`Store::measure`], but exact.
    pub async fn measure(&self, tree: &Tree, range: impl Into<KeyRange>) -> Result<Estimate> {
        self.reads().measure(tree, range).await
    }
}
