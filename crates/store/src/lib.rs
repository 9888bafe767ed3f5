//! Tables on one device or volume: pages, extents, catalog, scans and fetches.
//!
//! A [`Store`] lies on a [`Device`](moirai_storage::Device) and shapes itself to the attributes that
//! the device announces: extents fit its access delay boundaries (Lachesis 4), and the pages of a
//! table in the CSM layout have their attributes on the blocks of one equivalence class (Clotho 3.1
//! and 5.3, thesis 6.4.2 to 6.4.4), so that one copy of the data is read by rows and by columns.
//!
//! | file | subject |
//! |---|---|
//! | `store`, `superblock`, `catalog`, `blob` | what is on the device, and how it is replaced |
//! | `space` | where extents go |
//! | `schema`, `values`, `columns` | between Arrow and bytes |
//! | `shape`, `minipage`, `column_writer` | A-pages |
//! | `heap`, `row`, `heap_writer`, `directory` | pages of rows and of texts |
//! | `bounds` | least and greatest values, by page |
//! | `load`, `table`, `groups`, `read`, `reader`, `scan` | the ways in and out |

mod blob;
mod bounds;
mod catalog;
mod checksum;
mod column_writer;
mod columns;
mod directory;
mod error;
mod groups;
mod heap;
mod heap_writer;
mod load;
mod minipage;
mod read;
mod reader;
mod row;
mod scan;
mod schema;
mod shape;
mod space;
mod store;
mod superblock;
mod table;
mod values;

pub use bounds::PageBounds;
pub use catalog::PageLayout;
pub use error::{Error, Result};
pub use groups::PageMask;
pub use load::{Load, LoadOptions};
pub use scan::{BATCH_ROWS, Scan, ScanOptions};
pub use schema::{Attribute, AttributeType, COLUMNS_MAX};
pub use store::Store;
pub use table::{ColumnBounds, Table, TableSize};
