//! Writing long values in parts.

use moirai_update::{Group, Modification, PUT, SpaceId, WrittenValue};

use crate::Result;
use crate::store::Store;

/// Writes a value in parts. Nothing of it is there before [`ValueWriter::put`], and its blocks are free again when the
/// writer is dropped before.
///
/// ```
/// # use moirai_btree::{Store, with_leaves};
/// # use moirai_update::{Kinds, Options};
/// # use moirai_units::{BlockCount, ByteCount};
/// # moirai_runtime::block_on_virtual(1, async {
/// # let power = moirai_devices::Power::on();
/// # let device = |name: &str| -> std::sync::Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
/// #     name.into(), BlockCount(40_000), BlockCount(16), power.clone()) };
/// # let (data, logs) = (device("data"), [device("log")]);
/// # Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
/// # let store = Store::open(data, &logs, Kinds::new(), Options::default()).await?;
/// let files = store.tree("files").await?;
/// let mut writer = store.write_value(&files, b"zeros")?;
/// for _ in 0..100 {
///     writer.write(&[0; 60_000]).await?;
/// }
/// writer.put().await?;
///
/// let reader = store.read_value(&files, b"zeros").await?.unwrap();
/// assert_eq!(reader.length(), ByteCount(6_000_000));
/// assert_eq!(reader.read(5_999_990..7_000_000).await?, [0; 10]);
/// # Ok::<(), moirai_btree::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ValueWriter<'a> {
    pub(crate) store: &'a Store,
    pub(crate) space: SpaceId,
    pub(crate) key: &'a [u8],
    pub(crate) writer: moirai_update::ValueWriter,
}

impl ValueWriter<'_> {
    /// Appends bytes to the value.
    ///
    /// # Errors
    /// [`TooLong`](moirai_update::Error::TooLong) beyond 1 GiB; [`Full`](moirai_update::Error::Full) when the device is;
    /// errors as of [`Store::commit`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.writer.write(bytes).await?)
    }

    /// Puts the value under its key, in place of any value there. Returns once it is as durable as a commit. Errors as of
    /// [`ValueWriter::write`].
    pub async fn put(self) -> Result<()> {
        let mut group = Group::new();
        match self.writer.finish().await? {
            WrittenValue::Short(bytes) => {
                let put = Modification { key: self.key, kind: PUT, bytes: &bytes };
                group.modify(self.space, put);
            }
            WrittenValue::Long(value) => group.put_long(self.space, self.key, &value),
        }
        Ok(self.store.engine.commit(&group).await?)
    }
}
