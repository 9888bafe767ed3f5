//! Columns of a page, taken apart and put together.

use std::ops::Range;

use moirai_encodings::{Encoder, NumberType, Numbers, TEXT_BYTES_MAX, Texts, Validity};
use moirai_update::NotOfFormat;

use crate::key;
use crate::number::{number_bytes, number_of, wrapped};
use crate::schema::ColumnType;

/// The values of a column in some rows.
#[derive(Clone, Debug)]
pub struct Values {
    of: ColumnType,
    content: Content,
    /// Bit i mod 8 of byte i / 8 is set when row i is not null.
    validity: Vec<u8>,
    rows: usize,
}

/// The values of a column; those of nulls may be any.
#[derive(Clone, Copy, Debug)]
pub enum ValuesContent<'a> {
    /// Numbers of up to 64 bits, signed ones with their sign.
    Numbers(&'a [u64]),
    /// Numbers of which some are wider.
    Wide(&'a [i128]),
    /// Texts, the first of which begins at 0.
    Texts {
        /// Where each ends.
        ends: &'a [u32],
        /// All of them.
        bytes: &'a [u8],
    },
}

#[derive(Clone, Debug)]
enum Content {
    /// Numbers of up to 64 bits, signed ones with their sign. A null has the number before it.
    Narrow(Vec<u64>),
    Wide(Vec<i128>),
    Texts {
        ends: Vec<u32>,
        bytes: Vec<u8>,
    },
}

/// A number of a type as 64 bits; `None` where it needs more.
fn narrowed(number: i128, of: NumberType) -> Option<u64> {
    match of.is_signed {
        true => i64::try_from(number).ok().map(|number| number as u64),
        false => u64::try_from(number).ok(),
    }
}

impl Values {
    /// How many there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which are not null.
    #[must_use]
    pub fn validity(&self) -> Validity<'_> {
        Validity::new(&self.validity)
    }

    /// The values themselves, those of nulls included.
    #[must_use]
    pub fn content(&self) -> ValuesContent<'_> {
        match &self.content {
            Content::Narrow(numbers) => ValuesContent::Numbers(numbers),
            Content::Wide(numbers) => ValuesContent::Wide(numbers),
            Content::Texts { ends, bytes } => ValuesContent::Texts { ends, bytes },
        }
    }

    /// The value of a row, as that of a field; `None` for a null.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<Vec<u8>> {
        if !self.is_valid(row) {
            return None;
        }
        let mut value = Vec::new();
        self.put_value(row, &mut value);
        Some(value)
    }

    /// The rows of a minipage.
    pub(crate) fn rows_of(minipage: &[u8]) -> Result<usize, NotOfFormat> {
        moirai_encodings::rows_of(minipage).map_err(|_| NotOfFormat)
    }

    /// None yet.
    pub(crate) fn new(of: ColumnType) -> Values {
        let content = match of {
            ColumnType::Number(_) => Content::Narrow(Vec::new()),
            ColumnType::Text => Content::Texts { ends: Vec::new(), bytes: Vec::new() },
        };
        Values { of, content, validity: Vec::new(), rows: 0 }
    }

    /// Those of a minipage of `rows` rows; nulls where there is none.
    pub(crate) fn decode(
        of: ColumnType,
        minipage: Option<&[u8]>,
        rows: usize,
    ) -> Result<Values, NotOfFormat> {
        let mut values = Values::new(of);
        let Some(minipage) = minipage else {
            (0..rows).for_each(|_| values.push(None));
            return Ok(values);
        };
        let validity = match &mut values.content {
            Content::Narrow(numbers) => {
                let read = Numbers::parse(minipage).map_err(|_| NotOfFormat)?;
                if read.is_wide() {
                    let mut wide = Vec::new();
                    read.decode(&mut wide).map_err(|_| NotOfFormat)?;
                    values.content = Content::Wide(wide);
                } else {
                    read.decode(numbers).map_err(|_| NotOfFormat)?;
                }
                values.rows = read.rows();
                read.validity()
            }
            Content::Texts { ends, bytes } => {
                let read = Texts::parse(minipage).map_err(|_| NotOfFormat)?;
                let mut ranges = Vec::with_capacity(read.rows());
                read.ranges(&mut ranges).map_err(|_| NotOfFormat)?;
                let length: usize =
                    ranges.iter().map(|range| range.end.saturating_sub(range.start) as usize).sum();
                // A dictionary may stand for more than it has bytes.
                if length > TEXT_BYTES_MAX {
                    return Err(NotOfFormat);
                }
                bytes.reserve_exact(length);
                for Range { start, end } in ranges {
                    let text = read.bytes().get(start as usize..end as usize);
                    bytes.extend_from_slice(text.ok_or(NotOfFormat)?);
                    ends.push(bytes.len() as u32);
                }
                values.rows = read.rows();
                read.validity()
            }
            Content::Wide(_) => None,
        };
        match validity {
            Some(validity) => values.validity.extend_from_slice(validity.bits()),
            None => values.validity.resize(rows.div_ceil(8), 0xff),
        }
        (values.rows == rows).then_some(values).ok_or(NotOfFormat)
    }

    fn is_valid(&self, row: usize) -> bool {
        Validity::new(&self.validity).is_valid(row)
    }

    fn note(&mut self, is_valid: bool) {
        if self.rows.is_multiple_of(8) {
            self.validity.truncate(self.rows / 8);
            self.validity.push(0);
        }
        if let Some(byte) = self.validity.get_mut(self.rows / 8) {
            *byte = *byte & !(1 << (self.rows % 8)) | u8::from(is_valid) << (self.rows % 8);
        }
        self.rows += 1;
    }

    /// The number that a value is in this column; `None` for a null, and for bytes that are no number.
    fn number(&self, value: Option<&[u8]>) -> Option<i128> {
        match self.of {
            ColumnType::Number(of) => Some(wrapped(number_of(value?)?, of)),
            ColumnType::Text => None,
        }
    }

    /// The type of its numbers.
    fn number_type(&self) -> NumberType {
        match self.of {
            ColumnType::Number(of) => of,
            ColumnType::Text => NumberType { width_bytes: 16, is_signed: true },
        }
    }

    /// Bytes of the texts of some rows.
    pub(crate) fn texts_bytes(&self, rows: &Range<usize>) -> usize {
        let Content::Texts { ends, .. } = &self.content else { return 0 };
        let end_before = |row: usize| row.checked_sub(1).and_then(|before| ends.get(before));
        let [start, end] = [rows.start, rows.end].map(|row| end_before(row).copied().unwrap_or(0));
        end.saturating_sub(start) as usize
    }

    /// Makes room for numbers of more than 64 bits.
    fn widen(&mut self) {
        if let Content::Narrow(numbers) = &self.content {
            let wide = numbers.iter().map(|number| i128::from(*number as i64));
            self.content = Content::Wide(wide.collect());
        }
    }

    /// Adds the value of a row.
    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        let (number, of) = (self.number(value), self.number_type());
        let narrow = number.map(|number| narrowed(number, of));
        if narrow == Some(None) {
            self.widen();
        }
        let is_valid = match &mut self.content {
            Content::Narrow(numbers) => {
                let number = narrow.flatten().or_else(|| numbers.last().copied());
                numbers.push(number.unwrap_or(0));
                narrow.is_some()
            }
            Content::Wide(numbers) => {
                numbers.push(number.or_else(|| numbers.last().copied()).unwrap_or(0));
                number.is_some()
            }
            Content::Texts { ends, bytes } => {
                bytes.extend_from_slice(value.unwrap_or_default());
                ends.push(bytes.len() as u32);
                value.is_some()
            }
        };
        self.note(is_valid);
    }

    /// Adds rows of another column of the same type.
    pub(crate) fn append(&mut self, other: &Values, rows: Range<usize>) {
        if matches!(other.content, Content::Wide(_)) {
            self.widen();
        }
        match (&mut self.content, &other.content) {
            (Content::Narrow(to), Content::Narrow(from)) => {
                to.extend_from_slice(from.get(rows.clone()).unwrap_or_default());
            }
            (Content::Wide(to), Content::Wide(from)) => {
                to.extend_from_slice(from.get(rows.clone()).unwrap_or_default());
            }
            (Content::Wide(to), Content::Narrow(from)) => {
                let from = from.get(rows.clone()).unwrap_or_default();
                to.extend(from.iter().map(|number| i128::from(*number as i64)));
            }
            (Content::Texts { ends, bytes }, Content::Texts { ends: from, bytes: all }) => {
                let before = rows.start.checked_sub(1).and_then(|before| from.get(before));
                let start = before.copied().unwrap_or(0);
                let shift = bytes.len() as u32;
                for end in from.get(rows.clone()).unwrap_or_default() {
                    ends.push(end - start + shift);
                }
                let end = ends.last().copied().unwrap_or(0) - shift + start;
                bytes.extend_from_slice(all.get(start as usize..end as usize).unwrap_or_default());
            }
            _ => {}
        }
        for row in rows {
            self.note(other.is_valid(row));
        }
    }

    /// Makes the value of each of some rows, which ascend, another.
    pub(crate) fn set<'a>(&mut self, changes: impl Iterator<Item = (usize, Option<&'a [u8]>)>) {
        if let Content::Texts { .. } = self.content {
            let old = std::mem::replace(self, Values::new(self.of));
            let mut next = 0;
            for (row, value) in changes {
                self.append(&old, next..row);
                self.push(value);
                next = row + 1;
            }
            self.append(&old, next..old.rows);
            return;
        }
        let of = self.number_type();
        for (row, value) in changes {
            let number = self.number(value);
            if number.is_some_and(|number| narrowed(number, of).is_none()) {
                self.widen();
            }
            match &mut self.content {
                Content::Narrow(numbers) => {
                    let number = number.and_then(|number| narrowed(number, of));
                    let to = numbers.get_mut(row).zip(number);
                    to.into_iter().for_each(|(to, number)| *to = number);
                }
                Content::Wide(numbers) => {
                    let to = numbers.get_mut(row).zip(number);
                    to.into_iter().for_each(|(to, number)| *to = number);
                }
                Content::Texts { .. } => {}
            }
            if let Some(byte) = self.validity.get_mut(row / 8) {
                *byte = *byte & !(1 << (row % 8)) | u8::from(number.is_some()) << (row % 8);
            }
        }
    }

    /// Appends the value of a row to a key.
    pub(crate) fn put_key(&self, row: usize, value: &mut Vec<u8>, key: &mut Vec<u8>) {
        self.put_value(row, value);
        key::put(key, self.of, value);
    }

    /// Makes `value` that of a row.
    fn put_value(&self, row: usize, value: &mut Vec<u8>) {
        value.clear();
        match &self.content {
            Content::Narrow(numbers) => {
                let number = numbers.get(row).copied().unwrap_or(0) as i64;
                *value = number_bytes(wrapped(i128::from(number), self.number_type()));
            }
            Content::Wide(numbers) => {
                *value = number_bytes(numbers.get(row).copied().unwrap_or(0));
            }
            Content::Texts { ends, bytes } => {
                let before = row.checked_sub(1).and_then(|before| ends.get(before));
                let start = before.copied().unwrap_or(0) as usize;
                let end = ends.get(row).copied().unwrap_or(0) as usize;
                value.extend_from_slice(bytes.get(start..end).unwrap_or_default());
            }
        }
    }

    /// Appends the minipage of some rows.
    pub(crate) fn encode(&self, rows: Range<usize>, encoder: &mut Encoder, out: &mut Vec<u8>) {
        let bits = self.validity.get(rows.start / 8..).unwrap_or_default();
        let shifted: Vec<u8>;
        let bits = match rows.start % 8 {
            0 => bits,
            shift => {
                let next = bits.iter().skip(1).chain([&0]);
                let pairs = bits.iter().zip(next);
                shifted = pairs.map(|(one, next)| one >> shift | next << (8 - shift)).collect();
                &shifted
            }
        };
        let validity = Some(Validity::new(bits));
        match &self.content {
            Content::Narrow(numbers) => {
                let numbers = numbers.get(rows).unwrap_or_default();
                encoder.numbers64(numbers, self.number_type().is_signed, validity, out);
            }
            Content::Wide(numbers) => {
                let numbers = numbers.get(rows).unwrap_or_default();
                let bytes: Vec<u8> =
                    numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                let of = NumberType { width_bytes: 16, is_signed: true };
                encoder.numbers(&bytes, of, validity, out);
            }
            Content::Texts { ends, bytes } => {
                let before = rows.start.checked_sub(1).and_then(|before| ends.get(before));
                let start = before.copied().unwrap_or(0);
                let ends: Vec<u32> =
                    ends.get(rows).unwrap_or_default().iter().map(|end| end - start).collect();
                let length = ends.last().copied().unwrap_or(0);
                let bytes = bytes.get(start as usize..(start + length) as usize);
                encoder.texts(&ends, bytes.unwrap_or_default(), validity, out);
            }
        }
    }
}
