//! Keys: the values of a row's key columns as bytes whose order is that of the values.
//!
//! A number is big-endian and as wide as its type, with the sign bit turned where it is signed. A text has each byte 0 followed by 255, and ends with two
//! bytes 0: no text is the beginning of another then. So the keys of a table compare column by column.

use moirai_encodings::NumberType;

use crate::number::{number_of, put_number_bytes, wrapped};
use crate::schema::{ColumnType, PageSchema};

/// Appends a value of a key, which is that of a field. Tells whether it is one of the type.
pub(crate) fn put(key: &mut Vec<u8>, of: ColumnType, value: &[u8]) -> bool {
    match of {
        ColumnType::Number(of) => {
            let Some(number) = number_of(value).filter(|number| wrapped(*number, of) == *number)
            else {
                return false;
            };
            put_number(key, of, number);
            true
        }
        ColumnType::Text => {
            for byte in value {
                key.push(*byte);
                if *byte == 0 {
                    key.push(0xff);
                }
            }
            key.extend([0, 0]);
            true
        }
    }
}

/// Appends a number of a key.
pub(crate) fn put_number(key: &mut Vec<u8>, of: NumberType, number: i128) {
    let (first, bytes) = (key.len(), number.to_be_bytes());
    key.extend_from_slice(bytes.get(16 - of.width_bytes..).unwrap_or_default());
    if of.is_signed
        && let Some(byte) = key.get_mut(first)
    {
        *byte ^= 0x80;
    }
}

/// Takes a value of a key off its front, as [`put`] takes it.
fn take<'a>(key: &'a [u8], of: ColumnType, value: &mut Vec<u8>) -> Option<&'a [u8]> {
    value.clear();
    match of {
        ColumnType::Number(of) => {
            let (bytes, rest) = key.split_at_checked(of.width_bytes)?;
            let turned = if of.is_signed { 1 << (8 * of.width_bytes - 1) } else { 0 };
            let number = bytes.iter().fold(0, |number, byte| number << 8 | i128::from(*byte));
            put_number_bytes(wrapped(number ^ turned, of), value);
            Some(rest)
        }
        ColumnType::Text => {
            let mut rest = key;
            loop {
                let (byte, next) = rest.split_first()?;
                rest = next;
                if *byte == 0 {
                    let (mark, next) = rest.split_first()?;
                    rest = next;
                    match mark {
                        0 => return Some(rest),
                        0xff => {}
                        _ => return None,
                    }
                }
                value.push(*byte);
            }
        }
    }
}

/// Takes keys apart, and puts them together.
#[derive(Debug)]
pub struct KeyReader<'a> {
    schema: &'a PageSchema,
    /// The values of a key that was taken apart, in the order of the key's columns.
    values: Vec<Vec<u8>>,
}

impl<'a> KeyReader<'a> {
    /// Of keys of a table.
    #[must_use]
    pub fn new(schema: &'a PageSchema) -> KeyReader<'a> {
        KeyReader { schema, values: vec![Vec::new(); schema.key().len()] }
    }

    /// The values of a key's columns, in the order of the key; `None` for bytes that are no key of the table.
    pub fn read(&mut self, key: &[u8]) -> Option<&[Vec<u8>]> {
        let mut rest = key;
        for (column, value) in self.schema.key().iter().zip(&mut self.values) {
            rest = take(rest, self.schema.columns().get(*column)?.of, value)?;
        }
        rest.is_empty().then_some(&self.values)
    }

    /// The key of these values, in the order of the key's columns; `None` where one is not of its column's type, or one is
    /// missing.
    pub fn key<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
        let mut values = values.into_iter();
        let mut count = 0;
        let key = self.prefix(values.by_ref().inspect(|_| count += 1))?;
        (count == self.schema.key().len()).then_some(key)
    }

    /// What the keys of all rows begin with that have these values in the first columns of the key; `None` where one is not of
    /// its column's type, or there are too many.
    pub fn prefix<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        let mut columns = self.schema.key().iter();
        for value in values {
            let of = self.schema.columns().get(*columns.next()?)?.of;
            put(&mut key, of, value).then_some(())?;
        }
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number_bytes;
    use proptest::prelude::*;

    const INT: ColumnType = ColumnType::Number(NumberType { width_bytes: 4, is_signed: true });
    const UINT: ColumnType = ColumnType::Number(NumberType { width_bytes: 2, is_signed: false });

    proptest! {
        #[test]
        fn keys_have_the_order_of_their_values_and_come_back(
            keys in prop::collection::vec((prop::collection::vec(prop_oneof![Just(0), Just(255), 1..4u8], 0..4), -3..3i32, 250..260u16), 2),
        ) {
            let schema = PageSchema::new(&[INT, ColumnType::Text, UINT], &[1, 0, 2], 10).unwrap();
            let mut reader = KeyReader::new(&schema);
            let encoded: Vec<Vec<u8>> = keys.iter().map(|(text, int, uint)| {
                let (int, uint) = (number_bytes(i128::from(*int)), number_bytes(i128::from(*uint)));
                let key = reader.key([&text[..], &int, &uint]).unwrap();
                let values = reader.read(&key).unwrap();
                assert_eq!(values, [text.clone(), int, uint]);
                key
            }).collect();
            prop_assert_eq!(keys[0].cmp(&keys[1]), encoded[0].cmp(&encoded[1]));
            let mut longer = encoded[0].clone();
            longer.push(0);
            prop_assert!(reader.read(&longer).is_none());
            prop_assert!(reader.read(&longer[..longer.len() - 2]).is_none());
        }
    }
}
