//! B+-trees whose leaves the update engine keeps: puts, deletes and merges without reading a leaf.
//!
//! Leaves are sorted pages of records (section 5 of the BOSC paper). What the paper's inner nodes say, which leaf has
//! which keys, is the engine's directory: it is in memory, and durable by the engine's log and checkpoints.
//!
//! ```
//! # use moirai_btree::{AddU64, Batch, Direction, KeyRange, Store, with_leaves};
//! # use moirai_update::{KindNumber, Kinds, Options};
//! # use moirai_units::ByteCount;
//! # moirai_runtime::block_on_virtual(1, async {
//! # let power = moirai_devices::Power::on();
//! # let device = |name: &str| -> std::sync::Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
//! #     name.into(), moirai_units::BlockCount(40_000), moirai_units::BlockCount(16), power.clone()) };
//! # let (data, logs) = (device("data"), [device("log")]);
//! const COUNT: KindNumber = KindNumber(16);
//! let mut kinds = Kinds::new();
//! kinds.register(COUNT, std::sync::Arc::new(AddU64))?;
//!
//! Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
//! let store = Store::open(data, &logs, kinds, Options::default()).await?;
//! let words = store.tree("words").await?;
//! let mut batch = Batch::new();
//! for word in ["to", "be", "or", "not", "to", "be"] {
//!     batch.merge(&words, COUNT, word.as_bytes(), &1_u64.to_le_bytes());
//! }
//! store.commit(&batch).await?;
//! assert_eq!(store.get(&words, b"be").await?, Some(2_u64.to_le_bytes().to_vec()));
//!
//! let mut scan = store.scan(&words, KeyRange::all(), Direction::Backward);
//! assert_eq!(scan.next().await?.map(|(word, _)| word), Some(&b"to"[..]));
//! store.close().await?;
//! # Ok::<(), moirai_btree::Error>(())
//! # }).unwrap();
//! ```

mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod leaf;
mod merges;
mod scan;
mod store;

pub use error::{Error, Result};
pub use merges::{AddDecimal, AddU64};
pub use scan::{Direction, KeyRange, Scan};
pub use store::{Batch, Store, Tree, with_leaves};
