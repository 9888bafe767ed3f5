//! Rows that are ingested: whole pages, made by whoever loads a table, as records whose key is that of the first row.
//!
//! The content of such a record is the length of each unit (4 bytes), and then the units. A sweep writes the page as it is where it
//! comes behind all rows that are there; that is what a load by ascending keys does. Rows among others are put one by one instead.

use moirai_encodings::{Encoder, NumberType, TEXT_BYTES_MAX, Validity};
use moirai_update::{At, Reader, Result, SpaceId, UnitSet};

use crate::key;
use crate::number::{number_of, wrapped};
use crate::page::{put_header, put_minipage};
use crate::schema::{ColumnType, PageSchema};

/// The values of a column in some rows, as Arrow arrays have them.
#[derive(Clone, Copy, Debug)]
pub enum ColumnSlice<'a> {
    /// Numbers, little-endian, each as wide as its type.
    Numbers {
        /// The numbers.
        bytes: &'a [u8],
        /// Which are not null; `None` where all are not.
        validity: Option<Validity<'a>>,
    },
    /// Texts.
    Texts {
        /// Where the text of each row ends in `bytes`; the first begins at 0.
        ends: &'a [u32],
        /// All texts.
        bytes: &'a [u8],
        /// Which are not null; `None` where all are not.
        validity: Option<Validity<'a>>,
    },
}

impl ColumnSlice<'_> {
    /// The rows of a column of this type; `None` for another.
    fn rows(&self, of: ColumnType) -> Option<usize> {
        match (self, of) {
            (ColumnSlice::Numbers { bytes, .. }, ColumnType::Number(of)) => {
                Some(bytes.len() / of.width_bytes)
            }
            (ColumnSlice::Texts { ends, .. }, ColumnType::Text) => Some(ends.len()),
            _ => None,
        }
    }

    /// Appends the value of a row to a key.
    fn put_key(&self, row: usize, of: ColumnType, key: &mut Vec<u8>) -> Option<()> {
        match (self, of) {
            (ColumnSlice::Numbers { bytes, .. }, ColumnType::Number(of)) => {
                let NumberType { width_bytes, .. } = of;
                let number = bytes.get(row * width_bytes..(row + 1) * width_bytes)?;
                key::put_number(key, of, wrapped(number_of(number)?, of));
                Some(())
            }
            (ColumnSlice::Texts { ends, bytes, .. }, ColumnType::Text) => {
                let before = row.checked_sub(1).and_then(|before| ends.get(before));
                let text =
                    bytes.get(before.map_or(0, |end| *end as usize)..*ends.get(row)? as usize)?;
                key::put(key, ColumnType::Text, text).then_some(())
            }
            _ => None,
        }
    }

    fn encode(&self, of: ColumnType, encoder: &mut Encoder, out: &mut Vec<u8>) {
        match (self, of) {
            (ColumnSlice::Numbers { bytes, validity }, ColumnType::Number(of)) => {
                encoder.numbers(bytes, of, *validity, out);
            }
            (ColumnSlice::Texts { ends, bytes, validity }, _) => {
                encoder.texts(ends, bytes, *validity, out);
            }
            (ColumnSlice::Numbers { .. }, ColumnType::Text) => {}
        }
    }
}

/// The key of a row, whose columns are these; `None` where they are not those of the table.
#[must_use]
pub fn key_of_row(schema: &PageSchema, columns: &[ColumnSlice<'_>], row: usize) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    put_key_of_row(schema, columns, row, &mut key).map(|()| key)
}

/// Appends the key of a row to `key`.
fn put_key_of_row(
    schema: &PageSchema,
    columns: &[ColumnSlice<'_>],
    row: usize,
    key: &mut Vec<u8>,
) -> Option<()> {
    for column in schema.key() {
        let of = schema.columns().get(*column)?.of;
        columns.get(*column)?.put_key(row, of, key)?;
    }
    Some(())
}

/// Whether the keys of the first `rows` rows ascend, all of them different; `None` as of [`key_of_row`].
#[must_use]
pub fn do_keys_ascend(
    schema: &PageSchema,
    columns: &[ColumnSlice<'_>],
    rows: usize,
) -> Option<bool> {
    let (mut before, mut key) = (Vec::new(), Vec::new());
    for row in 0..rows {
        key.clear();
        put_key_of_row(schema, columns, row, &mut key)?;
        if row > 0 && before >= key {
            return Some(false);
        }
        std::mem::swap(&mut before, &mut key);
    }
    Some(true)
}

/// Appends the content of a record of [`ROWS`](crate::ROWS) to `out`: a page of all rows of these columns, which ascend by key and
/// are no more than a page has, with [`TEXT_BYTES_MAX`] of texts in a column at most. Gives the bytes that the page takes of a
/// block; `None` for columns that are not those of the table.
pub fn encode_rows(
    schema: &PageSchema,
    columns: &[ColumnSlice<'_>],
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let types = schema.columns().iter().map(|column| column.of);
    let mut rows = columns.iter().zip(types).map(|(column, of)| column.rows(of));
    let count = rows.next()??;
    let are_texts_short = columns.iter().all(|column| match column {
        ColumnSlice::Texts { bytes, .. } => bytes.len() <= TEXT_BYTES_MAX,
        ColumnSlice::Numbers { .. } => true,
    });
    let are_rows = (1..=schema.rows_max()).contains(&count)
        && are_texts_short
        && columns.len() == schema.columns().len()
        && rows.all(|rows| rows == Some(count));
    let last = are_rows.then(|| key_of_row(schema, columns, count - 1))??;
    let lengths = out.len();
    let mut page_bytes = 0;
    out.resize(lengths + 4 * schema.units(), 0);
    for unit in 0..schema.units() {
        let first = out.len();
        if unit == 0 {
            put_header(out, count, &last);
        }
        for column in schema.columns_of(unit) {
            let of = schema.columns().get(*column)?.of;
            let values = columns.get(*column)?;
            put_minipage(out, |out| values.encode(of, encoder, out));
        }
        let length = out.len() - first;
        page_bytes += length.max(1).next_multiple_of(512);
        let place = out.get_mut(lengths + 4 * unit..lengths + 4 * unit + 4)?;
        place.copy_from_slice(&(length as u32).to_le_bytes());
    }
    Some(page_bytes)
}

/// Whether a key is in the last block of a table, or would be. Rows from there on may be ingested as [`ROWS`](crate::ROWS): no block begins
/// after the key. That is not enough while rows after the key are pending, or others may add some: the queues are not looked at.
///
/// # Errors
/// As of [`Reader`].
pub async fn is_in_last_block(reader: Reader<'_>, space: SpaceId, key: &[u8]) -> Result<bool> {
    let view =
        reader.units(UnitSet::one(0)).in_layers(UnitSet::NONE).view(space, At::Last, 1).await?;
    let low = view.as_ref().and_then(|view| view.layers().last());
    Ok(low.is_none_or(|last| last.low <= key))
}

/// The units of such a record's content; `None` for what is none.
pub(crate) fn units_of(schema: &PageSchema, content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (lengths, mut rest) = content.split_at_checked(4 * schema.units())?;
    let (lengths, _) = lengths.as_chunks();
    let mut units = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (unit, behind) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        units.push(unit.to_vec());
        rest = behind;
    }
    rest.is_empty().then_some(units)
}
