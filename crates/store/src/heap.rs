//! Heap pages: records of any size, in row order. See `docs/formats/heap.md`.
//!
//! A heap holds the rows of an NSM table, or the values of one variable-size attribute. A page is
//! one or more units of 8 KiB; a record that fits no unit has a page of its own.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of all that follows, begun with the magic and the version |
//! | 4 | 4 | table |
//! | 8 | 2 | attribute, or 65535 when the records are rows |
//! | 10 | 2 | records |
//! | 12 | 4 | units of this page |
//! | 16 | 8 | row of the first record |
//! | 24 | 4 | bytes of all records |
//! | 28 | 2 n | where each record ends, from the first one's beginning; 65535 when further |
//! | then | ceil(n / 8) | validity, a bit for each record, set when it is not null; only of nullable attributes |
//! | then | | the records, one after the other |

use arrow_buffer::bit_util;
use moirai_units::{BlockCount, ByteCount};

use crate::checksum::checksum;

/// Begins the checksum of every page.
pub(crate) const HEAP_MAGIC: &[u8; 8] = b"MOIRAIHP";
/// The version of this format.
pub(crate) const HEAP_VERSION: u32 = 1;

/// Bytes before the records' ends.
pub(crate) const HEADER_BYTES: usize = 28;

/// The unit of heap pages.
pub(crate) const UNIT: BlockCount = BlockCount(16);

/// The attribute number of pages that hold rows.
pub(crate) const ROWS: u16 = u16::MAX;

/// Records of a page at most.
const RECORDS_MAX: usize = u16::MAX as usize;

/// Which heap a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapPlace {
    pub(crate) table: u32,
    /// An attribute's number, or [`ROWS`].
    pub(crate) attribute: u16,
    /// Whether records can be null.
    pub(crate) nullable: bool,
}

fn checksum_of(content: &[u8]) -> u32 {
    checksum(HEAP_MAGIC, HEAP_VERSION, 0, content)
}

/// A page that is being filled.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    place: HeapPlace,
    first_row: u64,
    ends: Vec<u32>,
    validity: Vec<bool>,
    records: Vec<u8>,
}

/// A full page.
#[derive(Debug)]
pub(crate) struct BuiltPage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: u32,
    pub(crate) units: u32,
}

fn page_bytes(records: usize, record_bytes: usize, nullable: bool) -> usize {
    let validity_bytes = if nullable { records.div_ceil(8) } else { 0 };
    HEADER_BYTES + 2 * records + validity_bytes + record_bytes
}

impl PageBuilder {
    pub(crate) fn new(place: HeapPlace) -> PageBuilder {
        PageBuilder {
            place,
            first_row: 0,
            ends: Vec::new(),
            validity: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Adds a record, `None` for a null; gives the page before it when that is full.
    pub(crate) fn push(&mut self, record: Option<&[u8]>) -> Option<BuiltPage> {
        let length = record.map_or(0, <[u8]>::len);
        let bytes =
            page_bytes(self.ends.len() + 1, self.records.len() + length, self.place.nullable);
        let fits = bytes <= UNIT.bytes().0 as usize && self.ends.len() < RECORDS_MAX;
        let full = if fits || self.ends.is_empty() { None } else { self.finish() };
        self.records.extend_from_slice(record.unwrap_or(&[]));
        self.ends.push(self.records.len() as u32);
        self.validity.push(record.is_some());
        full
    }

    /// The page of what was added; `None` when nothing was.
    pub(crate) fn finish(&mut self) -> Option<BuiltPage> {
        if self.ends.is_empty() {
            return None;
        }
        let rows = self.ends.len();
        let content_bytes = page_bytes(rows, self.records.len(), self.place.nullable);
        let unit_bytes = UNIT.bytes().0 as usize;
        let units = content_bytes.div_ceil(unit_bytes);
        let mut page = Vec::with_capacity(units * unit_bytes);
        page.extend_from_slice(&[0; 4]);
        page.extend_from_slice(&self.place.table.to_le_bytes());
        page.extend_from_slice(&self.place.attribute.to_le_bytes());
        page.extend_from_slice(&(rows as u16).to_le_bytes());
        page.extend_from_slice(&(units as u32).to_le_bytes());
        page.extend_from_slice(&self.first_row.to_le_bytes());
        page.extend_from_slice(&(self.records.len() as u32).to_le_bytes());
        for end in &self.ends {
            let end = u16::try_from(*end).unwrap_or(u16::MAX);
            page.extend_from_slice(&end.to_le_bytes());
        }
        if self.place.nullable {
            let mut bits = vec![0; rows.div_ceil(8)];
            for (index, _) in self.validity.iter().enumerate().filter(|(_, valid)| **valid) {
                bit_util::set_bit(&mut bits, index);
            }
            page.extend_from_slice(&bits);
        }
        page.extend_from_slice(&self.records);
        page.resize(units * unit_bytes, 0);
        let crc = checksum_of(page.get(4..).unwrap_or(&[]));
        for (to, from) in page.iter_mut().zip(crc.to_le_bytes()) {
            *to = from;
        }
        self.first_row += rows as u64;
        self.ends.clear();
        self.validity.clear();
        self.records.clear();
        Some(BuiltPage { bytes: page, rows: rows as u32, units: units as u32 })
    }

    /// The size of the page that a record of `bytes` needs for itself.
    pub(crate) fn blocks_alone(&self, bytes: usize) -> BlockCount {
        let bytes = page_bytes(1, bytes, self.place.nullable) as u64;
        BlockCount(bytes.div_ceil(UNIT.bytes().0) * UNIT.0)
    }
}

/// The records of a page that passed its checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// Row of the first record.
    pub(crate) first_row: u64,
    ends: &'a [u8],
    validity: Option<&'a [u8]>,
    records: &'a [u8],
    /// Where the records begin in the page.
    records_offset: usize,
}

impl<'a> Page<'a> {
    /// Reads a page; the error says what is wrong with it.
    pub(crate) fn decode(bytes: &'a [u8], place: HeapPlace) -> Result<Page<'a>, &'static str> {
        let too_short = "the page is shorter than its header says";
        let (crc, content) = bytes.split_first_chunk::<4>().ok_or(too_short)?;
        if u32::from_le_bytes(*crc) != checksum_of(content) {
            return Err("the checksum does not match");
        }
        let (table, rest) = content.split_first_chunk::<4>().ok_or(too_short)?;
        let (attribute, rest) = rest.split_first_chunk::<2>().ok_or(too_short)?;
        let (count, rest) = rest.split_first_chunk::<2>().ok_or(too_short)?;
        let (_units, rest) = rest.split_first_chunk::<4>().ok_or(too_short)?;
        let (first_row, rest) = rest.split_first_chunk::<8>().ok_or(too_short)?;
        let (records_bytes, rest) = rest.split_first_chunk::<4>().ok_or(too_short)?;
        let found = (u32::from_le_bytes(*table), u16::from_le_bytes(*attribute));
        if found != (place.table, place.attribute) {
            return Err("the page belongs to another place (misdirected write)");
        }
        let count = usize::from(u16::from_le_bytes(*count));
        let records_bytes = u32::from_le_bytes(*records_bytes) as usize;
        let (ends, rest) = rest.split_at_checked(2 * count).ok_or(too_short)?;
        let validity_bytes = if place.nullable { count.div_ceil(8) } else { 0 };
        let (validity, rest) = rest.split_at_checked(validity_bytes).ok_or(too_short)?;
        Ok(Page {
            first_row: u64::from_le_bytes(*first_row),
            ends,
            validity: place.nullable.then_some(validity),
            records: rest.get(..records_bytes).ok_or(too_short)?,
            records_offset: HEADER_BYTES + 2 * count + validity_bytes,
        })
    }

    /// Records in the page.
    pub(crate) fn count(&self) -> usize {
        self.ends.len() / 2
    }

    fn end(&self, index: usize) -> usize {
        // Only the last record of a page of several units can end further than two bytes tell.
        if index + 1 == self.count() {
            return self.records.len();
        }
        match self.ends.get(2 * index..2 * index + 2) {
            Some([low, high]) => usize::from(u16::from_le_bytes([*low, *high])),
            _ => 0,
        }
    }

    /// Where record `index` lies in the page's bytes; empty when the page is not what it says.
    pub(crate) fn span(&self, index: usize) -> std::ops::Range<usize> {
        let start = if index == 0 { 0 } else { self.end(index - 1) };
        let end = self.end(index).clamp(start, self.records.len().max(start));
        self.records_offset + start..self.records_offset + end
    }

    /// The bytes of record `index`.
    pub(crate) fn record(&self, index: usize) -> &'a [u8] {
        let span = self.span(index);
        let records = span.start - self.records_offset..span.end - self.records_offset;
        self.records.get(records).unwrap_or(&[])
    }

    /// Whether record `index` is not null.
    pub(crate) fn is_valid(&self, index: usize) -> bool {
        self.validity.is_none_or(|bits| index < bits.len() * 8 && bit_util::get_bit(bits, index))
    }
}

/// The size of a page of `units` units.
pub(crate) fn page_size(units: u32) -> ByteCount {
    ByteCount(u64::from(units) * UNIT.bytes().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(nullable: bool) -> HeapPlace {
        HeapPlace { table: 3, attribute: 1, nullable }
    }

    proptest! {
        #[test]
        fn pages_round_trip_and_flipped_bits_are_found(
            nullable in any::<bool>(),
            records in prop::collection::vec(prop::option::weighted(0.9, 0usize..300), 1..400),
            long in prop::option::of(8000usize..200_000),
            flip in any::<prop::sample::Index>(),
        ) {
            let mut records: Vec<Option<Vec<u8>>> = records
                .into_iter()
                .enumerate()
                .map(|(row, length)| match length {
                    None if nullable => None,
                    length => Some(vec![row as u8; length.unwrap_or(0)]),
                })
                .collect();
            if let Some(length) = long {
                records.insert(records.len() / 2, Some(vec![9; length]));
            }
            let mut builder = PageBuilder::new(place(nullable));
            let mut pages: Vec<BuiltPage> = Vec::new();
            for record in &records {
                pages.extend(builder.push(record.as_deref()));
            }
            pages.extend(builder.finish());
            let mut back = Vec::new();
            for built in &mut pages {
                prop_assert_eq!(built.bytes.len() as u64, page_size(built.units).0);
                let page = Page::decode(&built.bytes, place(nullable)).unwrap();
                prop_assert_eq!(page.first_row, back.len() as u64);
                prop_assert_eq!(page.count(), built.rows as usize);
                for index in 0..page.count() {
                    let record = page.is_valid(index).then(|| page.record(index).to_vec());
                    prop_assert_eq!(&built.bytes[page.span(index)], record.as_deref().unwrap_or(&[]));
                    back.push(record);
                }
                let at = flip.index(built.bytes.len());
                built.bytes[at] ^= 1;
                prop_assert!(Page::decode(&built.bytes, place(nullable)).is_err());
            }
            prop_assert_eq!(back, records);
        }

        #[test]
        fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
            prop_assert!(Page::decode(&bytes, place(true)).is_err());
        }
    }
}
