//! Tables in a store: rows of Arrow's types in pages of columns, which take updates, loads and scans.
//!
//! A table is a relation of a store (`moirai_btree::Relation`) in a space of the update engine whose blocks are pages
//! (`moirai_pages`), or in [`Layout::Nsm`] leaves (`moirai_btree::Leaf`). Its rows have a key: some of its columns, or a row number that nobody sees. Changes of rows are modifications
//! of the engine. They wait in its queues and reach the pages in sweeps, and no page is read for them. A [`Snapshot`] shows all
//! changes that were committed before it.
//!
//! ```
//! # use std::sync::Arc;
//! # use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
//! # use arrow_schema::{DataType, Field, Schema};
//! # use moirai_tables::{Changes, ScanOptions, TableDefinition, Tables};
//! # use moirai_update::{Kinds, Options};
//! # use moirai_units::{BlockCount, ByteCount};
//! # moirai_runtime::block_on_virtual(1, async {
//! # let power = moirai_devices::Power::on();
//! # let device = |name: &str, blocks| -> Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
//! #     name.into(), BlockCount(blocks), BlockCount(16), power.clone()) };
//! # let (data, logs) = (device("data", 200_000), [device("log", 10_000)]);
//! # moirai_btree::Store::format(&*data, &logs, moirai_btree::with_leaves(ByteCount(8 << 10))).await?;
//! let tables = Tables::open(data, &logs, Kinds::new(), Options::default()).await?;
//! let schema = Schema::new(vec![
//!     Field::new("id", DataType::Int64, false),
//!     Field::new("fruit", DataType::Utf8View, true),
//! ]);
//! let table = tables.create("stock", TableDefinition::new(schema, &["id"])?).await?;
//!
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![2, 1]));
//! let fruit: ArrayRef = Arc::new(StringViewArray::from(vec![Some("pear"), None]));
//! let mut changes = Changes::new();
//! changes.put(&table, &RecordBatch::try_new(Arc::clone(table.schema()), vec![ids, fruit])?)?;
//! // Row 1 gets a name, and is not read for it.
//! let (one, plum): (ArrayRef, ArrayRef) =
//!     (Arc::new(Int64Array::from(vec![1])), Arc::new(StringViewArray::from(vec!["plum"])));
//! changes.set(&table, &[one], &[(1, plum)], &[])?;
//! tables.commit(&changes).await?;
//!
//! let mut scan = tables.snapshot().await.scan(&table, ScanOptions::default())?;
//! let batch = scan.next().await?.unwrap();
//! let fruit = batch.column(1).as_any().downcast_ref::<StringViewArray>().unwrap();
//! assert_eq!(fruit.iter().collect::<Vec<_>>(), [Some("plum"), Some("pear")]);
//! # Ok::<(), moirai_tables::Error>(())
//! # }).unwrap();
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `types` | Arrow types: how pages hold their values, and how the catalog writes them |
//! | `definition` | what the catalog says of a table |
//! | `tables` | the tables of a store |
//! | `changes` | changes of rows, as modifications of the engine |
//! | `values` | values of Arrow arrays as pages take them |
//! | `rows` | Arrow arrays made of rows, as leaves and the engine's answers have them |
//! | `load` | filling a table |
//! | `snapshot` | reading at one moment: rows by their keys |
//! | `datum` | rows one by one, without Arrow arrays |
//! | `row_changes` | transactions that change rows one by one |
//! | `transaction` | transactions over rows of tables, and over trees |
//! | `scan` | reading ranges of rows |
//! | `filtered` | reading the rows of ranges that a filter keeps |
//! | `index` | secondary indexes: their entries |
//! | `indexing` | making indexes, and dropping them |
//! | `by_index` | reading rows by an index |
//! | `check` | checks of what no checksum tells: the order of rows, indexes against rows |
//! | `copy` | copies of all tables and trees to another store |
//! | `columns` | Arrow arrays made of what pages hold |

mod by_index;
mod changes;
mod check;
mod columns;
mod copy;
mod datum;
mod definition;
mod error;
mod filter_order;
mod filtered;
mod hint;
mod index;
mod indexing;
mod load;
mod row_changes;
mod rows;
mod scan;
mod snapshot;
mod table;
mod tables;
mod transaction;
mod types;
mod values;

pub use by_index::IndexScan;
pub use changes::Changes;
pub use check::Fault;
pub use copy::Copied;
pub use datum::{Datum, Row};
pub use definition::{COLUMNS_MAX, IndexDefinition, Layout, PageOptions, TableDefinition};
pub use error::{Error, Result};
pub use filter_order::FilterOrder;
pub use filtered::{FilteredScan, RowFilter};
pub use index::{Index, key_behind};
pub use load::{Load, LoadOptions};
pub use moirai_pages::KeyBounds;
pub use moirai_transactions::{Isolation, LockWait, TransactionOptions};
pub use scan::{Scan, ScanCounts, ScanOptions};
pub use snapshot::{Snapshot, TableSize};
pub use table::Table;
#[cfg(feature = "canary")]
#[doc(hidden)]
pub use tables::Canary;
pub use tables::{Tables, Turn, Writer};
pub use transaction::{Locked, Transaction};
