//! Rows of NSM pages as bytes: validity bits, fixed-size values, then texts with their lengths.
//!
//! The validity bits, one for each nullable attribute in order, come first and fill whole bytes; a
//! null takes the room of its value, zeros, or of an empty text. A text's length is a LEB128 number.

use crate::columns::Input;
use crate::schema::Attribute;

/// How rows of a table are written.
#[derive(Clone, Debug)]
pub(crate) struct RowFormat {
    fields: Vec<Field>,
    validity_bytes: usize,
    /// Validity bits and fixed-size values together.
    fixed_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    place: Place,
    validity_bit: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Offset in the row, and width.
    Fixed(usize, usize),
    /// Which of the row's texts.
    Text(usize),
}

impl RowFormat {
    pub(crate) fn new(attributes: &[Attribute]) -> RowFormat {
        let validity_bytes = attributes.iter().filter(|a| a.nullable).count().div_ceil(8);
        let (mut offset, mut texts, mut bits) = (validity_bytes, 0, 0);
        let fields = attributes
            .iter()
            .map(|attribute| {
                let place = match attribute.attribute_type.width_bytes() {
                    Some(width) => {
                        offset += width;
                        Place::Fixed(offset - width, width)
                    }
                    None => {
                        texts += 1;
                        Place::Text(texts - 1)
                    }
                };
                bits += usize::from(attribute.nullable);
                Field { place, validity_bit: attribute.nullable.then(|| bits - 1) }
            })
            .collect();
        RowFormat { fields, validity_bytes, fixed_bytes: offset }
    }

    /// Writes row `row` of `columns` into `bytes`, which is emptied first.
    pub(crate) fn encode(&self, columns: &[Input], row: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.resize(self.fixed_bytes, 0);
        for (field, column) in self.fields.iter().zip(columns) {
            let value = column.value(row);
            if let (Some(bit), true) = (field.validity_bit, value.is_some())
                && let Some(byte) = bytes.get_mut(bit / 8)
            {
                *byte |= 1 << (bit % 8);
            }
            match field.place {
                Place::Fixed(offset, width) => {
                    if let (Some(value), Some(target)) =
                        (value, bytes.get_mut(offset..offset + width))
                    {
                        target.copy_from_slice(value);
                    }
                }
                Place::Text(_) => {
                    let value = value.unwrap_or(&[]);
                    push_length(bytes, value.len());
                    bytes.extend_from_slice(value);
                }
            }
        }
    }

    /// The size of a row without texts; `None` when the table has texts.
    pub(crate) fn fixed_size(&self) -> Option<usize> {
        let has_texts = self.fields.iter().any(|field| matches!(field.place, Place::Text(_)));
        (!has_texts).then_some(self.fixed_bytes)
    }

    /// Takes a row apart: gives `each` the values of `wanted` attributes, which ascend. The error
    /// says what is wrong with the row.
    pub(crate) fn decode<'a>(
        &self,
        row: &'a [u8],
        wanted: &[usize],
        mut each: impl FnMut(usize, Option<&'a [u8]>) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let too_short = "a row is shorter than its columns";
        let validity = row.get(..self.validity_bytes).ok_or(too_short)?;
        let mut rest = row.get(self.fixed_bytes..).ok_or(too_short)?;
        let mut next_text = 0;
        for (index, attribute) in wanted.iter().enumerate() {
            let field = self.fields.get(*attribute).ok_or("the table has fewer columns")?;
            let value = match field.place {
                Place::Fixed(offset, width) => row.get(offset..offset + width).ok_or(too_short)?,
                Place::Text(text) => loop {
                    let (length, behind) = take_length(rest).ok_or(too_short)?;
                    let (value, behind) = behind.split_at_checked(length).ok_or(too_short)?;
                    rest = behind;
                    next_text += 1;
                    if next_text > text {
                        break value;
                    }
                },
            };
            let is_valid = field.validity_bit.is_none_or(|bit| {
                validity.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
            });
            each(index, is_valid.then_some(value))?;
        }
        Ok(())
    }
}

fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0usize;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((length, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::inputs;
    use arrow_array::{Int32Array, RecordBatch, StringViewArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn attribute(name: &str, kind: &str, nullable: bool) -> Attribute {
        Attribute { name: name.into(), attribute_type: kind.parse().unwrap(), nullable }
    }

    proptest! {
        #[test]
        fn rows_round_trip_for_any_projection(
            number in prop::option::of(any::<i32>()),
            first in prop::option::of(".{0,300}"),
            second in ".{0,20}",
            mask in 0u8..8,
        ) {
            let attributes = [
                attribute("a", "utf8", true),
                attribute("b", "int32", true),
                attribute("c", "utf8", false),
            ];
            let schema = crate::schema::schema_of(&attributes);
            let batch = RecordBatch::try_new(schema, vec![
                Arc::new(StringViewArray::from(vec![first.as_deref()])),
                Arc::new(Int32Array::from(vec![number])),
                Arc::new(StringViewArray::from(vec![second.as_str()])),
            ]).unwrap();
            let columns = inputs(&attributes, &batch, 0).unwrap();
            let format = RowFormat::new(&attributes);
            let mut row = Vec::new();
            format.encode(&columns, 0, &mut row);
            let wanted: Vec<usize> = (0..3).filter(|bit| mask >> bit & 1 == 1).collect();
            let mut seen = Vec::new();
            format.decode(&row, &wanted, |index, value| {
                seen.push((wanted[index], value.map(<[u8]>::to_vec)));
                Ok(())
            }).unwrap();
            let expected: Vec<_> = wanted
                .iter()
                .map(|attribute| (*attribute, columns[*attribute].value(0).map(<[u8]>::to_vec)))
                .collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let format = RowFormat::new(&[
                attribute("a", "utf8", true), attribute("b", "int64", false), attribute("c", "utf8", false),
            ]);
            let _ = format.decode(&bytes, &[0, 1, 2], |_, _| Ok(()));
        }
    }
}
