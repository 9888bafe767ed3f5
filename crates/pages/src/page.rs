//! Pages on their way out.
//!
//! | offset | size | content of unit 0 |
//! |---|---|---|
//! | 0 | 4 | magic: "MPG" and the version |
//! | 4 | 4 | rows |
//! | 8 | 2 | bytes of the last key |
//! | 10 | | the last key |
//! | then | | the minipages of the key's columns, each behind its length in bytes (4) |
//! | then | | those of other columns that have no unit of their own |
//!
//! Each other unit has the minipages of its columns, in their order, each behind its length. A column without a
//! minipage has nulls alone.

use std::cmp::Ordering;

use moirai_encodings::{Numbers, Texts};
use moirai_update::{Block, NotOfFormat};

use crate::fields::FieldsBuilder;
use crate::key;
use crate::number::{number_bytes, wrapped};
use crate::schema::{ColumnType, PageSchema};

/// Magic and version.
pub(crate) const PAGE_MAGIC: [u8; 4] = *b"MPG\x01";
/// Bytes before the last key.
const HEADER_BYTES: usize = 10;

/// What a block of pages holds; some units may not have been read.
#[derive(Clone, Copy, Debug)]
pub struct Page<'s, 'a> {
    pub(crate) schema: &'s PageSchema,
    block: Block<'a>,
}

/// The result of taking something out of a page.
type Result<T> = std::result::Result<T, NotOfFormat>;

/// The columns of a page's key, to be searched.
pub(crate) struct KeyColumns<'a> {
    columns: Vec<(ColumnType, KeyColumn<'a>)>,
    rows: usize,
}

enum KeyColumn<'a> {
    Numbers(Numbers<'a>),
    Texts(Texts<'a>),
}

/// The key columns of a page, decoded to numbers in the order of the keys, so that many keys are found fast.
pub(crate) struct KeyNumbers {
    /// How many bytes of a key each has, and the number of each row. A column of 16 bytes is two of these.
    columns: Vec<(usize, Vec<u64>)>,
    rows: usize,
}

impl KeyNumbers {
    /// As [`KeyColumns::search`]; `None` for bytes that are no key of these columns.
    pub(crate) fn search(
        &self,
        first: usize,
        key: &[u8],
    ) -> Option<std::result::Result<usize, usize>> {
        let (mut first, mut end, mut rest) = (first, self.rows, key);
        for (width_bytes, numbers) in &self.columns {
            let (bytes, others) = rest.split_at_checked(*width_bytes)?;
            rest = others;
            let wanted = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let count = |first, is_before: fn(&u64, &u64) -> bool| {
                let numbers = numbers.get(first..end).unwrap_or_default();
                count_before(numbers, |number| is_before(number, &wanted))
            };
            first += count(first, u64::lt);
            end = first + count(first, u64::le);
        }
        rest.is_empty().then_some(if first < end { Ok(first) } else { Err(first) })
    }
}

/// How many numbers precede the first for which `is_before` is false. A galloping search: it takes few steps where that is near the
/// front, as with keys that are looked up in their order.
fn count_before(numbers: &[u64], is_before: impl Fn(&u64) -> bool) -> usize {
    let (mut begin, mut step) = (0, 1);
    while numbers.get(begin + step - 1).is_some_and(&is_before) {
        begin += step;
        step *= 2;
    }
    let rest = numbers.get(begin..numbers.len().min(begin + step)).unwrap_or_default();
    begin + rest.partition_point(is_before)
}

/// The minipage behind the first `index` ones, which have their lengths before them; `None` behind the last.
fn minipage(unit: &[u8], index: usize) -> Option<&[u8]> {
    let mut rest = unit;
    let mut at = 0;
    loop {
        let (length, behind) = rest.split_first_chunk()?;
        let (minipage, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        if at == index {
            return (!minipage.is_empty()).then_some(minipage);
        }
        (rest, at) = (behind, at + 1);
    }
}

/// Appends the header of unit 0.
pub(crate) fn put_header(unit: &mut Vec<u8>, rows: usize, last_key: &[u8]) {
    unit.extend(PAGE_MAGIC);
    unit.extend((rows as u32).to_le_bytes());
    unit.extend((last_key.len() as u16).to_le_bytes());
    unit.extend_from_slice(last_key);
}

/// Appends a minipage, which `put` writes, behind its length.
pub(crate) fn put_minipage(unit: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = unit.len();
    unit.extend([0; 4]);
    put(unit);
    let length = (unit.len() - at - 4) as u32;
    if let Some(place) = unit.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

impl<'s, 'a> Page<'s, 'a> {
    /// A block of the table that has this schema.
    #[must_use]
    pub fn of(schema: &'s PageSchema, block: Block<'a>) -> Page<'s, 'a> {
        Page { schema, block }
    }

    /// The bytes of a unit; `None` where it was not read.
    pub(crate) fn unit(&self, unit: usize) -> Option<&'a [u8]> {
        self.block.unit(unit)
    }

    /// The bytes of a unit up to the end of its last minipage; `None` where it was not read. Units are as long as the longest of a
    /// partition: what follows are zeros, which a copy does without.
    pub(crate) fn content(&self, unit: usize) -> Result<Option<&'a [u8]>> {
        let Some(bytes) = self.block.unit(unit) else { return Ok(None) };
        let mut rest = if unit == 0 { self.last_key_and_rest()?.1 } else { bytes };
        for _ in self.schema.columns_of(unit) {
            let Some((length, behind)) = rest.split_first_chunk() else { break };
            rest = behind.get(u32::from_le_bytes(*length) as usize..).ok_or(NotOfFormat)?;
        }
        Ok(bytes.get(..bytes.len() - rest.len()))
    }

    /// Bytes of the units that were read, without the zeros at their ends.
    pub(crate) fn content_bytes(&self) -> Result<usize> {
        let units = 0..self.schema.units();
        units.map(|unit| Ok(self.content(unit)?.map_or(0, <[u8]>::len))).sum()
    }

    /// Unit 0 from the last key on, and the number of rows.
    fn header(&self) -> Result<(&'a [u8], usize)> {
        let unit = self.block.unit(0).ok_or(NotOfFormat)?;
        let (header, rest) = unit.split_first_chunk::<HEADER_BYTES>().ok_or(NotOfFormat)?;
        let [magic @ .., r0, r1, r2, r3, _, _] = *header;
        let rows = u32::from_le_bytes([r0, r1, r2, r3]) as usize;
        (magic == PAGE_MAGIC && rows <= self.schema.rows_max())
            .then_some((rest, rows))
            .ok_or(NotOfFormat)
    }

    /// How many rows it has. Unit 0 was read.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn rows(&self) -> Result<usize> {
        Ok(self.header()?.1)
    }

    /// The last key, and the minipages of the key's columns.
    fn last_key_and_rest(&self) -> Result<(&'a [u8], &'a [u8])> {
        let (rest, _) = self.header()?;
        let length = self.block.unit(0).and_then(|unit| unit.get(8..)?.first_chunk());
        let length = usize::from(u16::from_le_bytes(*length.ok_or(NotOfFormat)?));
        rest.split_at_checked(length).ok_or(NotOfFormat)
    }

    /// Its last key. Unit 0 was read.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn last_key(&self) -> Result<&'a [u8]> {
        Ok(self.last_key_and_rest()?.0)
    }

    /// The minipage of a column; `None` where the page has none, and all is null. Its unit was read.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn minipage(&self, column: usize) -> Result<Option<&'a [u8]>> {
        let unit = self.schema.unit(column).ok_or(NotOfFormat)?;
        let columns = self.schema.columns_of(unit);
        let index = columns.iter().position(|one| *one == column).ok_or(NotOfFormat)?;
        let minipages = match unit {
            0 => self.last_key_and_rest()?.1,
            unit => self.block.unit(unit).ok_or(NotOfFormat)?,
        };
        Ok(minipage(minipages, index))
    }

    /// The same; `None` also where its unit was not read.
    pub(crate) fn minipage_read(&self, column: usize) -> Result<Option<&'a [u8]>> {
        let unit = self.schema.unit(column).ok_or(NotOfFormat)?;
        if self.block.unit(unit).is_none() {
            return Ok(None);
        }
        self.minipage(column)
    }

    /// The columns of its key.
    pub(crate) fn key_columns(&self) -> Result<KeyColumns<'a>> {
        let rows = self.rows()?;
        let mut columns = Vec::with_capacity(self.schema.key().len());
        for column in self.schema.key() {
            let of = self.schema.columns().get(*column).ok_or(NotOfFormat)?.of;
            let minipage = self.minipage(*column)?.ok_or(NotOfFormat)?;
            let (found, column) = match of {
                ColumnType::Number(_) => {
                    let numbers = Numbers::parse(minipage).map_err(|_| NotOfFormat)?;
                    (numbers.rows(), KeyColumn::Numbers(numbers))
                }
                ColumnType::Text => {
                    let texts = Texts::parse(minipage).map_err(|_| NotOfFormat)?;
                    (texts.rows(), KeyColumn::Texts(texts))
                }
            };
            if found != rows {
                return Err(NotOfFormat);
            }
            columns.push((of, column));
        }
        Ok(KeyColumns { columns, rows })
    }

    /// The key and the [fields](crate::Fields) of each row, in the order of the keys. Fields of columns whose unit was not read are left
    /// out.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn all(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let keys = self.key_columns()?;
        let mut key = Vec::new();
        let row = |row| {
            keys.key(row, &mut key)?;
            Ok((key.clone(), self.fields(row)?))
        };
        (0..keys.rows).map(row).collect()
    }

    /// The fields of a row, but for those of columns whose unit was not read.
    pub(crate) fn fields(&self, row: usize) -> Result<Vec<u8>> {
        let (mut fields, mut value) = (FieldsBuilder::new(), Vec::new());
        for column in 0..self.schema.columns().len() {
            let unit = self.schema.unit(column).ok_or(NotOfFormat)?;
            if !self.schema.key().contains(&column) && self.block.unit(unit).is_some() {
                let is_valid = self.value(column, row, &mut value)?;
                fields.push(column, is_valid.then_some(&value));
            }
        }
        Ok(fields.bytes().to_vec())
    }

    /// Makes `value` that of a column in a row; `false` for a null. The column's unit was read.
    pub(crate) fn value(&self, column: usize, row: usize, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let of = self.schema.columns().get(column).ok_or(NotOfFormat)?.of;
        let Some(minipage) = self.minipage(column)? else { return Ok(false) };
        let validity = match of {
            ColumnType::Number(of) => {
                let numbers = Numbers::parse(minipage).map_err(|_| NotOfFormat)?;
                let number: i128 = numbers.get(row).map_err(|_| NotOfFormat)?.ok_or(NotOfFormat)?;
                *value = number_bytes(wrapped(number, of));
                numbers.validity()
            }
            ColumnType::Text => {
                let texts = Texts::parse(minipage).map_err(|_| NotOfFormat)?;
                let text = texts.get(row).map_err(|_| NotOfFormat)?.ok_or(NotOfFormat)?;
                value.extend(text);
                texts.validity()
            }
        };
        let is_valid = validity.is_none_or(|validity| validity.is_valid(row));
        if !is_valid {
            value.clear();
        }
        Ok(is_valid)
    }
}

impl KeyColumns<'_> {
    /// Makes `key` that of a row.
    pub(crate) fn key(&self, row: usize, key: &mut Vec<u8>) -> Result<()> {
        key.clear();
        for (of, column) in &self.columns {
            let is_of = match (of, column) {
                (ColumnType::Number(of_number), KeyColumn::Numbers(numbers)) => {
                    let number: i128 =
                        numbers.get(row).map_err(|_| NotOfFormat)?.ok_or(NotOfFormat)?;
                    key::put_number(key, *of_number, wrapped(number, *of_number));
                    true
                }
                (of, KeyColumn::Texts(texts)) => {
                    let text = texts.get(row).map_err(|_| NotOfFormat)?.ok_or(NotOfFormat)?;
                    key::put(key, *of, text)
                }
                _ => false,
            };
            if !is_of {
                return Err(NotOfFormat);
            }
        }
        Ok(())
    }

    /// The keys as numbers; `None` where a column has texts.
    pub(crate) fn numbers(&self) -> Result<Option<KeyNumbers>> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (of, column) in &self.columns {
            let (ColumnType::Number(of), KeyColumn::Numbers(numbers)) = (of, column) else {
                return Ok(None);
            };
            if of.width_bytes > size_of::<u64>() {
                let mut decoded: Vec<i128> = Vec::with_capacity(self.rows);
                numbers.decode(&mut decoded).map_err(|_| NotOfFormat)?;
                let sign = if of.is_signed { 1 << (u128::BITS - 1) } else { 0 };
                let in_key = |number: &i128| *number as u128 ^ sign;
                let high = decoded.iter().map(|number| (in_key(number) >> u64::BITS) as u64);
                columns.push((size_of::<u64>(), high.collect()));
                let low = decoded.iter().map(|number| in_key(number) as u64);
                columns.push((size_of::<u64>(), low.collect()));
                continue;
            }
            let bits = 8 * of.width_bytes as u32;
            let sign = if of.is_signed { 1 << (bits - 1) } else { 0 };
            let mask = u64::MAX >> (u64::BITS - bits);
            let mut decoded: Vec<u64> = Vec::with_capacity(self.rows);
            numbers.decode(&mut decoded).map_err(|_| NotOfFormat)?;
            // As keys have them.
            decoded.iter_mut().for_each(|number| *number = (*number ^ sign) & mask);
            columns.push((of.width_bytes, decoded));
        }
        Ok(Some(KeyNumbers { columns, rows: self.rows }))
    }

    /// The row with `key` among those from `first` on, or where it would be.
    pub(crate) fn search(
        &self,
        first: usize,
        key: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<std::result::Result<usize, usize>> {
        let (mut first, mut end) = (first, self.rows);
        while first < end {
            let middle = first.midpoint(end);
            self.key(middle, buffer)?;
            match (**buffer).cmp(key) {
                Ordering::Less => first = middle + 1,
                Ordering::Greater => end = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(first))
    }
}

#[cfg(test)]
mod tests {
    use moirai_encodings::{Encoder, NumberType};
    use proptest::prelude::*;

    use super::*;
    use crate::number_bytes;

    const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];

    /// Numbers near both ends of a type, and near 0.
    fn numbers() -> impl Strategy<Value = i128> {
        prop_oneof![-3..4_i128, i128::MIN..i128::MIN + 3, i128::MAX - 3..i128::MAX, any::<i128>()]
    }

    proptest! {
        #[test]
        fn numbers_find_keys_where_bytes_do(
            types in prop::collection::vec((prop::sample::select(&WIDTHS[..]), any::<bool>()), 1..3),
            rows in prop::collection::vec((numbers(), numbers()), 0..100),
            wanted in prop::collection::vec((numbers(), numbers()), 1..20),
        ) {
            let types = types.iter().map(|(width_bytes, is_signed)| {
                // Numbers of 128 bits are signed.
                NumberType { width_bytes: *width_bytes, is_signed: *is_signed || *width_bytes == 16 }
            });
            let types: Vec<NumberType> = types.collect();
            let key_of = |(first, second): &(i128, i128)| {
                let mut key = Vec::new();
                for (of, number) in types.iter().zip([first, second]) {
                    let value = number_bytes(wrapped(*number, *of));
                    assert!(key::put(&mut key, ColumnType::Number(*of), &value));
                }
                key
            };
            let mut rows: Vec<_> = rows.iter().map(|row| (key_of(row), *row)).collect();
            rows.sort();
            rows.dedup_by(|one, other| one.0 == other.0);
            let minipages: Vec<Vec<u8>> = (0..types.len()).map(|column| {
                let of = types[column];
                let bytes: Vec<u8> = rows.iter().flat_map(|(_, row)| {
                    let number = if column == 0 { row.0 } else { row.1 };
                    wrapped(number, of).to_le_bytes()[..of.width_bytes].to_vec()
                }).collect();
                let mut minipage = Vec::new();
                Encoder::new().numbers(&bytes, of, None, &mut minipage);
                minipage
            }).collect();
            let columns = types.iter().zip(&minipages).map(|(of, minipage)| {
                let numbers = Numbers::parse(minipage).unwrap();
                (ColumnType::Number(*of), KeyColumn::Numbers(numbers))
            });
            let keys = KeyColumns { columns: columns.collect(), rows: rows.len() };
            let numbers = keys.numbers().unwrap().unwrap();
            let wanted = wanted.iter().chain(rows.iter().map(|(_, row)| row)).map(key_of);
            for key in wanted {
                for first in [0, rows.len() / 2, rows.len()] {
                    let of_bytes = rows[first..].binary_search_by(|(one, _)| one.cmp(&key));
                    let of_bytes = of_bytes.map(|row| first + row).map_err(|row| first + row);
                    prop_assert_eq!(numbers.search(first, &key), Some(of_bytes));
                    let mut buffer = Vec::new();
                    prop_assert_eq!(keys.search(first, &key, &mut buffer).unwrap(), of_bytes);
                }
                prop_assert_eq!(numbers.search(0, &key[..key.len() - 1]), None);
                prop_assert_eq!(numbers.search(0, &[&key[..], &[0]].concat()), None);
            }
        }
    }
}
