//! The least and the greatest value of each attribute in each page, for scans to skip pages.
//!
//! As a blob: for each page a byte of flags (1: the bounds are known, 2: there are nulls, 4: there
//! are values that are not null), then the least and the greatest value in the attribute's width.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{MutableBuffer, NullBuffer};

use crate::Result;
use crate::catalog::AttributeBounds;
use crate::schema::{AttributeType, Ordering};
use crate::values::{self, MinMax};

const KNOWN: u8 = 1;
const HAS_NULLS: u8 = 2;
const HAS_VALUES: u8 = 4;

/// Gathers the bounds of an attribute while its pages are written.
#[derive(Debug)]
pub(crate) struct BoundsBuilder {
    attribute_type: AttributeType,
    nulls: u64,
    /// Of the whole table; `None` once a page's are unknown.
    all: Option<MinMax>,
    all_known: bool,
    pages: Vec<u8>,
}

impl BoundsBuilder {
    pub(crate) fn new(attribute_type: AttributeType) -> BoundsBuilder {
        BoundsBuilder { attribute_type, nulls: 0, all: None, all_known: true, pages: Vec::new() }
    }

    /// Bytes of a bound; `None` for types that keep none.
    fn width_bytes(&self) -> Option<usize> {
        let keeps_bounds = self.attribute_type.ordering() != Ordering::None;
        self.attribute_type.width_bytes().filter(|_| keeps_bounds)
    }

    /// Counts nulls of the table.
    pub(crate) fn add_nulls(&mut self, nulls: usize) {
        self.nulls += nulls as u64;
    }

    /// Adds a page of `rows` rows, `nulls` of them null, with the others' `values`.
    pub(crate) fn add_page<'a>(
        &mut self,
        rows: usize,
        nulls: usize,
        values: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(width) = self.width_bytes() else {
            return;
        };
        let page = values::min_max(self.attribute_type, values);
        let has_values = rows > nulls;
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        self.pages.push(
            flag(page.is_some(), KNOWN) | flag(nulls > 0, HAS_NULLS) | flag(has_values, HAS_VALUES),
        );
        let bounds = page.unwrap_or(MinMax { min: [0; 16], max: [0; 16] });
        self.pages.extend(bounds.min.iter().take(width));
        self.pages.extend(bounds.max.iter().take(width));
        match (page, self.all) {
            (Some(page), Some(all)) => {
                self.all = Some(values::merge(self.attribute_type, all, page));
            }
            (Some(page), None) => self.all = Some(page),
            (None, _) => self.all_known &= !has_values,
        }
    }

    /// What the catalog keeps, without the pages, and the pages' blob.
    pub(crate) fn finish(self) -> (AttributeBounds, Vec<u8>) {
        let width = self.width_bytes().unwrap_or(0);
        let all = self.all.filter(|_| self.all_known);
        let hex = |bytes: &[u8; 16]| {
            bytes.iter().take(width).map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let bounds = AttributeBounds {
            nulls: self.nulls,
            min: all.map(|all| hex(&all.min)),
            max: all.map(|all| hex(&all.max)),
            by_page: None,
        };
        (bounds, self.pages)
    }
}

/// Bounds of an attribute, one entry for each page.
#[derive(Clone, Debug)]
pub struct PageBounds {
    /// The least values; null where unknown.
    pub min: ArrayRef,
    /// The greatest values; null where unknown.
    pub max: ArrayRef,
    /// For each page: whether it has nulls.
    pub has_nulls: Vec<bool>,
    /// For each page: whether it has values that are not null.
    pub has_values: Vec<bool>,
}

impl PageBounds {
    /// Reads the pages' blob.
    pub(crate) fn decode(attribute_type: AttributeType, blob: &[u8]) -> Result<PageBounds> {
        let width = attribute_type.width_bytes().unwrap_or(0);
        let pages = blob.chunks_exact(1 + 2 * width);
        let mut min = MutableBuffer::with_capacity(blob.len() / 2);
        let mut max = MutableBuffer::with_capacity(blob.len() / 2);
        let (mut known, mut has_nulls, mut has_values) = (Vec::new(), Vec::new(), Vec::new());
        for page in pages {
            let (flags, bounds) =
                page.split_first().map_or((0, page), |(flags, rest)| (*flags, rest));
            let (low, high) = bounds.split_at_checked(width).unwrap_or((bounds, bounds));
            min.extend_from_slice(low);
            max.extend_from_slice(high);
            known.push(flags & KNOWN != 0);
            has_nulls.push(flags & HAS_NULLS != 0);
            has_values.push(flags & HAS_VALUES != 0);
        }
        let rows = known.len();
        let known = NullBuffer::from(known);
        Ok(PageBounds {
            min: values::fixed_array(attribute_type, rows, min, Some(known.clone()))?,
            max: values::fixed_array(attribute_type, rows, max, Some(known))?,
            has_nulls,
            has_values,
        })
    }

    /// Pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.min.len()
    }
}

/// A bound of the catalog as an array of one value; `None` when it is not known, or no bound.
pub(crate) fn bound_array(attribute_type: AttributeType, hex: Option<&String>) -> Option<ArrayRef> {
    let hex = hex?;
    let width = attribute_type.width_bytes()?;
    let mut bytes = MutableBuffer::with_capacity(width);
    for index in 0..width {
        let digits = hex.get(2 * index..2 * index + 2)?;
        bytes.extend_from_slice(&[u8::from_str_radix(digits, 16).ok()?]);
    }
    values::fixed_array(attribute_type, 1, bytes, None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, cast::AsArray, types::Int32Type};

    #[test]
    fn bounds_round_trip_with_what_is_not_known() {
        let int: AttributeType = "int32".parse().unwrap();
        let mut builder = BoundsBuilder::new(int);
        let values = [5i32, -3, 8].map(i32::to_le_bytes);
        builder.add_nulls(3);
        builder.add_page(4, 1, values.iter().map(|v| &v[..]));
        builder.add_page(2, 2, std::iter::empty());
        let (all, blob) = builder.finish();
        let pages = PageBounds::decode(int, &blob).unwrap();
        assert_eq!(pages.min.as_primitive::<Int32Type>().value(0), -3);
        assert_eq!(pages.max.as_primitive::<Int32Type>().value(0), 8);
        assert!(pages.min.is_null(1) && pages.max.is_null(1));
        assert_eq!((pages.has_nulls, pages.has_values), (vec![true, true], vec![true, false]));
        assert_eq!(all.nulls, 3);
        let max = bound_array(int, all.max.as_ref()).unwrap();
        assert_eq!(max.as_primitive::<Int32Type>().value(0), 8);
        assert!(bound_array(int, Some(&"xyz".to_owned())).is_none());
    }
}
