//! The catalog: every table of the store, as JSON in a blob. See `docs/formats/catalog.md`.

use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::schema::Attribute;
use crate::shape::PageShape;
use crate::space::{ColumnExtent, RunExtent};

/// The version of the catalog's shape.
pub(crate) const CATALOG_VERSION: u32 = 1;

/// How pages of a table are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageLayout {
    /// Slotted pages of whole rows.
    Nsm,
    /// A-pages: the attributes of a page apart from each other (Clotho 3.1).
    Csm,
}

impl std::fmt::Display for PageLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PageLayout::Nsm => "nsm",
            PageLayout::Csm => "csm",
        })
    }
}

/// All tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Catalog {
    pub(crate) version: u32,
    /// The number of the next table; numbers are not used again.
    pub(crate) next_table: u32,
    pub(crate) tables: Vec<TableEntry>,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog {
            version: CATALOG_VERSION,
            next_table: 1,
            tables: Vec::new(),
        }
    }
}

/// A table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableEntry {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) layout: PageLayout,
    pub(crate) rows: u64,
    pub(crate) attributes: Vec<Attribute>,
    /// What is known of each attribute's values.
    pub(crate) bounds: Vec<AttributeBounds>,
    /// The pages of fixed-size attributes, of a CSM table that has such.
    pub(crate) pages: Option<ColumnPages>,
    /// The pages of whole rows, or of variable-size attributes.
    pub(crate) heaps: Vec<HeapEntry>,
}

/// A-pages: page n is the n-th unit of columns, extent after extent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnPages {
    pub(crate) shape: PageShape,
    pub(crate) extents: Vec<ColumnExtent>,
}

/// Heap pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeapEntry {
    /// The variable-size attribute whose values these are; rows when there is none.
    pub(crate) attribute: Option<usize>,
    pub(crate) extents: Vec<RunExtent>,
    /// Rows and units of each page.
    pub(crate) directory: BlobRef,
}

/// What is known of an attribute's values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttributeBounds {
    pub(crate) nulls: u64,
    /// The least and the greatest value, when known: little-endian bytes, in hexadecimal.
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    /// The same of each page; see [`crate::bounds`].
    pub(crate) by_page: Option<BlobRef>,
}
