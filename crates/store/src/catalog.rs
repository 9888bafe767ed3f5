//! The catalog: every table of the store, as JSON in a blob. See `docs/formats/catalog.md`.

use moirai_storage::Inquiry;
use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::minipage::unit_values;
use crate::schema::{Attribute, COLUMNS_MAX};
use crate::shape::{PageShape, ROWS_MAX};
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
        Catalog { version: CATALOG_VERSION, next_table: 1, tables: Vec::new() }
    }
}

impl Catalog {
    /// Checks the numbers against each other and the device: what passes can be read without a
    /// division by zero, an overflow, or blocks that the device does not have. The error names what
    /// is wrong.
    pub(crate) fn check(&self, inquiry: &Inquiry) -> Result<(), String> {
        for table in &self.tables {
            table.check(inquiry).map_err(|problem| format!("table {}: {problem}", table.name))?;
        }
        Ok(())
    }
}

impl TableEntry {
    fn check(&self, inquiry: &Inquiry) -> Result<(), String> {
        let on_device = |first: u64, blocks: u64| {
            blocks > 0 && first.checked_add(blocks).is_some_and(|end| end <= inquiry.capacity.0)
        };
        let all =
            |condition: bool, problem: &str| condition.then_some(()).ok_or(problem.to_owned());
        let columns = self.attributes.len();
        all((1..=COLUMNS_MAX).contains(&columns), "the table has no columns, or too many")?;
        all(self.bounds.len() == columns, "the columns and the bounds differ in number")?;
        all(
            self.bounds.iter().all(|b| b.nulls <= self.rows),
            "a column has more nulls than the table has rows",
        )?;
        for heap in &self.heaps {
            all(
                heap.attribute.is_none_or(|a| a < columns),
                "pages belong to a column that does not exist",
            )?;
            let runs = heap.extents.iter().all(|run| on_device(run.first, run.blocks));
            all(runs, "an extent lies past the end of the device")?;
        }
        let Some(pages) = &self.pages else {
            return Ok(());
        };
        let shape = &pages.shape;
        all(
            shape.unit_blocks == inquiry.volume_block.0,
            "the units are not volume blocks of the device",
        )?;
        all((1..=ROWS_MAX).contains(&shape.rows), "the pages have no rows, or too many")?;
        let mut next_slot = 0;
        for minipage in &shape.minipages {
            let attribute = self.attributes.get(minipage.attribute);
            let values = attribute.and_then(|attribute| {
                let width_bytes = attribute.attribute_type.width_bytes()?;
                Some(unit_values(shape.unit(), width_bytes, attribute.nullable))
            });
            let fits = values == Some(minipage.unit_values)
                && minipage.units == shape.rows.div_ceil(minipage.unit_values.max(1)) as usize
                && minipage.first_slot == next_slot;
            all(fits, "a minipage does not fit its column and its page")?;
            next_slot += minipage.units;
        }
        let mut units = 0u64;
        for extent in &pages.extents {
            let fits = extent.slot_firsts.len() >= next_slot
                && extent.columns.is_multiple_of(shape.unit_blocks)
                && extent.slot_firsts.iter().all(|first| on_device(*first, extent.columns));
            all(fits, "an extent lies past the end of the device, or has too few slots")?;
            units += extent.columns / shape.unit_blocks;
        }
        let needed = self.rows.div_ceil(u64::from(shape.rows));
        all(units >= needed, "the extents hold fewer pages than the rows need")
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

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_units::BlockCount;

    fn catalog() -> serde_json::Value {
        serde_json::json!({
            "version": 1, "next_table": 2,
            "tables": [{
                "id": 1, "name": "t", "layout": "csm", "rows": 100,
                "attributes": [{"name": "a", "type": "int64", "nullable": false}],
                "bounds": [{"nulls": 0, "min": null, "max": null, "by_page": null}],
                "pages": {
                    "shape": {
                        "unit_blocks": 1, "rows": 62,
                        "minipages": [{"attribute": 0, "first_slot": 0, "units": 1, "unit_values": 62}]
                    },
                    "extents": [{"slot_firsts": [500], "columns": 2}]
                },
                "heaps": [{"attribute": null, "extents": [{"first": 10, "blocks": 16}],
                           "directory": {"bytes": 0, "crc": 0, "runs": []}}]
            }]
        })
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let inquiry = Inquiry {
            name: "d".into(),
            capacity: BlockCount(1000),
            parallelism: 1,
            depth: 1,
            volume_block: BlockCount(1),
            atomic_write: BlockCount(1),
            physical_block: BlockCount(1),
            discard: None,
            wants_discards: false,
            volatile_cache: false,
            read_only: false,
            keeps_data: true,
        };
        let check = |pointer: &str, value: serde_json::Value| {
            let mut json = catalog();
            *json.pointer_mut(&format!("/tables/0{pointer}")).unwrap() = value;
            let parsed: Catalog = serde_json::from_value(json).unwrap();
            parsed.check(&inquiry)
        };
        check("/rows", 124.into()).unwrap();
        let huge = serde_json::json!(1u64 << 63);
        for (pointer, value) in [
            ("/rows", 125.into()),
            ("/bounds/0/nulls", 101.into()),
            ("/attributes", serde_json::json!([])),
            ("/pages/shape/unit_blocks", 0.into()),
            ("/pages/shape/rows", 0.into()),
            ("/pages/shape/rows", 9000.into()),
            ("/pages/shape/minipages/0/units", huge.clone()),
            ("/pages/shape/minipages/0/attribute", 1.into()),
            ("/pages/shape/minipages/0/first_slot", 1.into()),
            ("/pages/shape/minipages/0/unit_values", 0.into()),
            ("/pages/extents/0/columns", huge.clone()),
            ("/pages/extents/0/slot_firsts", serde_json::json!([u64::MAX])),
            ("/pages/extents/0/slot_firsts", serde_json::json!([])),
            ("/heaps/0/attribute", 1.into()),
            ("/heaps/0/extents/0/first", huge.clone()),
            ("/heaps/0/extents/0/blocks", huge),
        ] {
            assert!(check(pointer, value.clone()).is_err(), "{pointer} = {value}");
        }
    }
}
