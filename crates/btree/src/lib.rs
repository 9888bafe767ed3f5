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
//! let values = store.multi_get(&words, &["not", "that", "to"]).await?;
//! assert_eq!(values.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
//!
//! // A scan is a position that moves both ways.
//! let mut scan = store.scan(&words, KeyRange::all(), Direction::Backward);
//! assert_eq!(scan.next().await?.map(|(word, _)| word), Some(&b"to"[..]));
//! scan.seek(b"no");
//! assert_eq!(scan.next().await?.map(|(word, _)| word), Some(&b"be"[..]));
//! assert_eq!(scan.prev().await?.map(|(word, _)| word), Some(&b"be"[..]));
//! assert_eq!(scan.prev().await?.map(|(word, _)| word), Some(&b"not"[..]));
//!
//! // Ranges are Rust's, or prefixes; a scan is also a stream.
//! use futures::TryStreamExt;
//! let scan = store.scan(&words, "be".."or", Direction::Forward);
//! let records: Vec<_> = scan.into_stream().try_collect().await?;
//! assert_eq!(records.len(), 2);
//! assert_eq!(store.count(&words, "not"..).await?, 3);
//! assert_eq!(store.count(&words, KeyRange::with_prefix(b"n")).await?, 1);
//!
//! // Compare and swap, which no other commit comes between: a lock, for one.
//! let locks = store.tree("locks").await?;
//! assert!(store.compare_and_swap(&locks, b"tree", None, Some(b"me")).await?.is_ok());
//! let refused = store.compare_and_swap(&locks, b"tree", None, Some(b"you")).await?;
//! assert_eq!(refused.unwrap_err().0.as_deref(), Some(&b"me"[..]));
//! let (key, _) = store.pop_first(&words).await?.unwrap();
//! assert_eq!(key, b"be");
//! store.close().await?;
//! # Ok::<(), moirai_btree::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Runtimes
//!
//! A store works in any tokio runtime, of one thread or several, with timers and I/O (`enable_all`). Its tasks, which
//! write the log and sweep, run in the runtime that it was opened in, so that must be driven while the store is in use.
//! A program without a runtime blocks on each call with `moirai_runtime::wait`, whose runtime in the background keeps
//! those tasks going between calls:
//!
//! ```
//! # use moirai_btree::{Direction, KeyRange, Store, with_leaves};
//! # use moirai_devices::{Access, NewFiles};
//! # use moirai_update::{Kinds, Options};
//! # use moirai_units::ByteCount;
//! use moirai_runtime::wait;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (folder, files) = (tempfile::tempdir()?, NewFiles::new());
//! # let open = |name, size| {
//! #     let uri = format!("file:{}?size={size}", folder.path().join(name).display());
//! #     moirai_devices::open(uri.parse()?, Access::Create(&files))
//! # };
//! let (data, logs) = (open("data", "64MiB")?, [open("log", "1MiB")?]);
//! wait(Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))))?;
//! let store = wait(Store::open(data, &logs, Kinds::new(), Options::default()))?;
//! let words = wait(store.tree("words"))?;
//! wait(store.put(&words, b"to be", b"or not to be"))?;
//!
//! let mut scan = store.scan(&words, KeyRange::all(), Direction::Forward);
//! while let Some((key, value)) = wait(scan.next())? {
//!     assert_eq!((key, value), (&b"to be"[..], &b"or not to be"[..]));
//! }
//! wait(store.close())?;
//! # Ok(())
//! # }
//! ```
//!
//! Outside of both an operation fails with [`moirai_storage::Error::NoRuntime`]. Dropping a store needs no runtime.

mod atomic;
mod batch;
mod bulk;
mod check;
mod copy;
mod count;
mod draft;
mod drop;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod ingest;
mod leaf;
mod map;
mod merges;
mod range;
mod read_point;
mod reader;
mod relation;
mod scan;
mod store;
mod transaction;
mod value;

pub use atomic::CurrentValue;
pub use batch::Batch;
pub use bulk::Bulk;
pub use check::{Damage, DamagedKeys, Dropped};
pub use copy::Copied;
pub use count::Estimate;
pub use draft::Draft;
pub use error::{Error, Result};
pub use ingest::Ingest;
pub use leaf::{LEAF_BYTES_MAX, Leaf};
pub use map::Mapped;
pub use merges::{AddDecimal, AddU64};
pub use moirai_transactions::{Isolation, LockWait, TransactionOptions};
pub use moirai_update::ValueReader;
pub use range::KeyRange;
pub use read_point::ReadPoint;
pub use reader::Reader;
pub use relation::{CatalogChange, Relation};
pub use scan::{Direction, Record, Scan};
pub use store::{Store, Tree, with_leaves};
pub use transaction::{Transaction, TransactionScan};
pub use value::ValueWriter;
