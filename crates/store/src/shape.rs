//! The shape of A-pages: how many rows a page has, and which of its slots each attribute takes.
//!
//! An A-page holds all fixed-size attributes of a run of rows (Clotho 3.1). Each attribute has a
//! minipage of one or more *units* (volume blocks), and each unit is a slot of the region that the
//! page lies in, so that the page is one equivalence class and one attribute of neighbouring pages
//! is consecutive (thesis 6.4.2).

use moirai_units::BlockCount;
use serde::{Deserialize, Serialize};

use crate::minipage;
use crate::schema::Attribute;

/// Rows of a page at most, so that a page of narrow attributes stays a page.
pub(crate) const ROWS_MAX: u32 = 8192;

/// Units of a page at most on devices without equivalents, where nothing else bounds them.
const UNITS_MAX: usize = 64;

/// How much less dense than the densest page a smaller one may be, in percent.
const DENSITY_SLACK_PERCENT: u64 = 3;

/// How A-pages of a table are laid out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageShape {
    /// Blocks in a unit.
    pub(crate) unit_blocks: u64,
    /// Rows of a page.
    pub(crate) rows: u32,
    /// The minipages, in slot order.
    pub(crate) minipages: Vec<MinipageShape>,
}

/// The minipage of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MinipageShape {
    /// The attribute's number in the table.
    pub(crate) attribute: usize,
    /// The slot of its first unit.
    pub(crate) first_slot: usize,
    /// Its units.
    pub(crate) units: usize,
    /// Values in each unit but the last.
    pub(crate) unit_values: u32,
}

impl PageShape {
    /// The shape for pages of the fixed-size ones of `attributes` in classes of `class_slots` slots.
    /// `None` when there is no fixed-size attribute.
    ///
    /// Among the row counts at which some minipage is full, the smallest is taken that holds about as
    /// many rows in a slot as any, counting the slots of a class that stay empty.
    pub(crate) fn choose(
        attributes: &[Attribute],
        unit: BlockCount,
        class_slots: usize,
        rows: Option<u32>,
    ) -> Option<PageShape> {
        let fixed = || {
            (0..).zip(attributes).filter_map(|(number, attribute)| {
                let width_bytes = attribute.attribute_type.width_bytes()?;
                Some((number, minipage::unit_values(unit, width_bytes, attribute.nullable)))
            })
        };
        let shape = |rows: u32| {
            let mut next_slot = 0;
            let minipages = fixed()
                .map(|(attribute, unit_values)| {
                    let units = rows.div_ceil(unit_values) as usize;
                    next_slot += units;
                    MinipageShape { attribute, first_slot: next_slot - units, units, unit_values }
                })
                .collect();
            PageShape { unit_blocks: unit.0, rows, minipages }
        };
        let used_slots = |shape: &PageShape| match class_slots {
            1 => shape.slots(),
            slots => shape.slots().div_ceil(slots) * slots,
        };
        if let Some(rows) = rows {
            return fixed().next().map(|_| shape(rows.clamp(1, ROWS_MAX)));
        }
        // The page in which no attribute needs a second unit: no page needs fewer slots.
        let smallest = shape(fixed().map(|(_, unit_values)| unit_values).min()?.min(ROWS_MAX));
        let slots_max = match class_slots {
            1 => UNITS_MAX.max(smallest.slots()),
            _ => used_slots(&smallest),
        };
        let mut candidates: Vec<u32> = fixed()
            .flat_map(|(_, unit_values)| (1..=ROWS_MAX / unit_values).map(move |n| n * unit_values))
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let shapes: Vec<PageShape> = std::iter::once(smallest)
            .chain(candidates.into_iter().map(shape))
            .filter(|shape| shape.slots() <= slots_max)
            .collect();
        // Rows for each slot, scaled so that whole numbers tell them apart.
        let density =
            |shape: &PageShape| u64::from(shape.rows) * 1_000_000 / used_slots(shape).max(1) as u64;
        let densest = shapes.iter().map(density).max()?;
        let enough = densest / 100 * (100 - DENSITY_SLACK_PERCENT);
        let best =
            shapes.into_iter().filter(|shape| density(shape) >= enough).min_by_key(|s| s.rows)?;
        Some(best)
    }

    /// Slots that a page takes.
    pub(crate) fn slots(&self) -> usize {
        self.minipages.iter().map(|minipage| minipage.units).sum()
    }

    pub(crate) fn unit(&self) -> BlockCount {
        BlockCount(self.unit_blocks)
    }

    /// The minipage of `attribute`, when that is of a fixed size.
    pub(crate) fn minipage(&self, attribute: usize) -> Option<&MinipageShape> {
        self.minipages.iter().find(|minipage| minipage.attribute == attribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::AttributeType;

    fn attributes(types: &[&str]) -> Vec<Attribute> {
        types
            .iter()
            .map(|name| Attribute {
                name: (*name).to_owned(),
                attribute_type: name.parse::<AttributeType>().unwrap(),
                nullable: false,
            })
            .collect()
    }

    #[test]
    fn a_class_is_filled_as_well_as_it_can_be() {
        // 16 slots of 512 bytes: 62 values of 8 bytes in each, or 31 of 16.
        let table = attributes(&["int64", "decimal128(15,2)", "utf8", "decimal128(15,2)"]);
        let shape = PageShape::choose(&table, BlockCount(1), 16, None).unwrap();
        // 186 rows: 3 + 6 + 6 slots; 62 rows would take 5 of 16.
        assert_eq!((shape.rows, shape.slots()), (186, 15));
        assert_eq!(shape.minipage(2), None, "text has pages of its own");
        assert_eq!(shape.minipage(3).unwrap().first_slot, 9);
    }

    #[test]
    fn without_classes_pages_are_full() {
        let table = attributes(&["int64", "int32", "decimal128(15,2)", "date32"]);
        let shape = PageShape::choose(&table, BlockCount(8), 1, None).unwrap();
        let full_bytes = u64::from(shape.rows) * (8 + 4 + 16 + 4);
        let page_bytes = shape.slots() as u64 * 4096;
        assert!(full_bytes * 100 > page_bytes * 96, "{shape:?}");
    }

    #[test]
    fn wide_tables_take_several_classes() {
        let table = attributes(&["int64"; 40]);
        let shape = PageShape::choose(&table, BlockCount(1), 16, None).unwrap();
        assert_eq!((shape.rows, shape.slots()), (62, 40));
        assert_eq!(PageShape::choose(&attributes(&["utf8"]), BlockCount(1), 16, None), None);
    }

    /// Thesis 6.4.7: "capsules consisting of 9 pages (each 512 bytes) with a total of 60 records".
    #[test]
    fn the_capsule_of_the_thesis_has_nine_blocks() {
        let widths = [8usize, 32, 15, 16];
        let units: u32 = widths
            .iter()
            .map(|width| 60u32.div_ceil(minipage::unit_values(BlockCount(1), *width, false)))
            .sum();
        assert_eq!(units, 9);
    }
}
