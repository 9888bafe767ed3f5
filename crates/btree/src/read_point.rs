//! Read points: a store as it was at one moment.

use crate::reader::Reader;
use crate::store::Store;

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
/// let before = point.reader();
/// let fruit = before.find_tree("fruit").await?.unwrap();
/// assert_eq!(before.get(&fruit, b"apple").await?, Some(b"3".to_vec()));
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

impl Store {
    /// Reads what was there at a read point of its engine.
    #[must_use]
    pub fn at<'a>(&'a self, point: &'a moirai_update::ReadPoint) -> Reader<'a> {
        Reader { store: self, engine: point.reader(), has_dropped: true }
    }
}

impl ReadPoint<'_> {
    /// Reads what was there.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        self.store.at(&self.point)
    }

    /// Whether it can still be read.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.point.is_live()
    }
}
