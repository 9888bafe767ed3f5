//! Bulk batches: batches that may be longer than log and memory.

use moirai_update::{DELETE, KindNumber, Modification, PUT};

use crate::Result;
use crate::store::{Store, Tree};

/// A batch that may be longer than the log and than memory, over any trees of a store; see [`Store::bulk`].
///
/// Dropped before [`Bulk::commit`], it leaves nothing, as after a crash.
///
/// ```
/// # use moirai_btree::{Store, with_leaves};
/// # use moirai_update::{Kinds, Options};
/// # use moirai_units::{BlockCount, ByteCount};
/// # moirai_runtime::block_on_virtual(1, async {
/// # let power = moirai_devices::Power::on();
/// # let device = |name: &str, blocks| -> std::sync::Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
/// #     name.into(), BlockCount(blocks), BlockCount(16), power.clone()) };
/// # let (data, logs) = (device("data", 80_000), [device("log", 1000)]);
/// # Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
/// # let options = Options { memory: ByteCount::mib(1), ..Options::default() };
/// # let store = Store::open(data, &logs, Kinds::new(), options).await?;
/// let tree = store.tree("numbers").await?;
/// let mut bulk = store.bulk();
/// // In any order.
/// for number in (0..50_000_u32).rev() {
///     bulk.put(&tree, &number.to_be_bytes(), b"a value of some length").await?;
/// }
/// assert_eq!(store.count(&tree, ..).await?, 0);
/// bulk.commit().await?;
/// assert_eq!(store.count(&tree, ..).await?, 50_000);
/// # Ok::<(), moirai_btree::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a bulk batch counts once it is committed"]
pub struct Bulk<'a> {
    store: &'a Store,
    inner: moirai_update::Bulk<'a>,
}

impl Store {
    /// A batch that may be longer than the log and than memory. Its changes go to the device in sorted runs, and reads see them
    /// once it is committed.
    pub fn bulk(&self) -> Bulk<'_> {
        Bulk { store: self, inner: self.engine.bulk() }
    }
}

impl Bulk<'_> {
    /// Puts `value` under `key`, in place of any value there. Errors as of [`Store::commit`].
    pub async fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(tree, Modification { key, kind: PUT, bytes: value }).await
    }

    /// Deletes `key`. Errors as of [`Store::commit`].
    pub async fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.add(tree, Modification { key, kind: DELETE, bytes: &[] }).await
    }

    /// Changes the value under `key` as the kind says, without reading it. Errors as of [`Store::commit`].
    pub async fn merge(
        &mut self,
        tree: &Tree,
        kind: KindNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        self.add(tree, Modification { key, kind, bytes: operand }).await
    }

    async fn add(&mut self, tree: &Tree, modification: Modification<'_>) -> Result<()> {
        Ok(self.inner.modify(self.store.space_of(tree)?, modification).await?)
    }

    /// The number of changes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Commits the batch: all of its changes or none. Durable when this returns. Errors as of [`moirai_update::Bulk::commit`].
    pub async fn commit(self) -> Result<()> {
        Ok(self.inner.commit().await?)
    }
}
