//! Fields: a row, or some attributes of one, as a value of the engine.
//!
//! Field after field in the order of the columns: the number of the column, then one more than the bytes of its value, or 0 for a
//! null, both in groups of seven bits with the lowest first, and then the value. The columns of the key are not among them. A row
//! without a field of a column has a null there.

/// Fields of a row.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

impl<'a> Fields<'a> {
    /// The fields of a row's value.
    #[must_use]
    pub fn of(value: &'a [u8]) -> Fields<'a> {
        Fields(value)
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a column; `None` for a null, and where there is no field.
    #[must_use]
    pub fn get(mut self, column: usize) -> Option<&'a [u8]> {
        self.find(|(one, _)| *one == column).and_then(|(_, value)| value)
    }
}

/// Each with its column; a null is `None`. It ends early where the bytes are no fields.
impl<'a> Iterator for Fields<'a> {
    type Item = (usize, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        // What is no field stays.
        let mut rest = self.0;
        let column = take_number(&mut rest)?;
        let Some(length) = take_number(&mut rest)?.checked_sub(1) else {
            self.0 = rest;
            return Some((column, None));
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((column, Some(value)))
    }
}

/// Makes fields; columns ascend.
#[derive(Clone, Debug, Default)]
pub struct FieldsBuilder {
    bytes: Vec<u8>,
}

impl FieldsBuilder {
    /// None yet.
    #[must_use]
    pub fn new() -> FieldsBuilder {
        FieldsBuilder::default()
    }

    /// Adds a field, of a column behind those before it.
    pub fn push(&mut self, column: usize, value: Option<&[u8]>) {
        put_number(&mut self.bytes, column);
        put_number(&mut self.bytes, value.map_or(0, |value| value.len() + 1));
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// The fields so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Puts the fields of `newer` in the place of those that a row has, without moving the others where the lengths stay; `both` gives the value
/// of a column from the row's field, if it has one, and the newer one.
pub(crate) fn change(
    row: &mut Vec<u8>,
    newer: &[u8],
    mut both: impl FnMut(Option<&[u8]>, Option<&[u8]>, &mut FieldsBuilder, usize),
) {
    let mut field = FieldsBuilder::new();
    let mut at = 0;
    for (column, value) in Fields::of(newer) {
        field.clear();
        let old = loop {
            let rest = row.get(at..).unwrap_or_default();
            let mut fields = Fields::of(rest);
            match fields.next() {
                Some((one, _)) if one < column => at = row.len() - fields.0.len(),
                Some((one, old)) if one == column => {
                    both(old, value, &mut field, column);
                    break rest.len() - fields.0.len();
                }
                // What is no field is dropped.
                None => {
                    row.truncate(at);
                    both(None, value, &mut field, column);
                    break 0;
                }
                Some(_) => {
                    both(None, value, &mut field, column);
                    break 0;
                }
            }
        };
        match row.get_mut(at..at + old) {
            Some(place) if old == field.bytes.len() => place.copy_from_slice(&field.bytes),
            _ => drop(row.splice(at..at + old, field.bytes.iter().copied())),
        }
        at += field.bytes.len();
    }
}

/// What is left of `older` with the fields of `newer` in the place of its own; `both` gives the value of a column that both have.
pub(crate) fn merged(
    older: &[u8],
    newer: &[u8],
    mut both: impl FnMut(Option<&[u8]>, Option<&[u8]>, &mut FieldsBuilder, usize),
) -> Vec<u8> {
    let mut out = FieldsBuilder::new();
    let (mut olds, mut news) = (Fields::of(older).peekable(), Fields::of(newer).peekable());
    loop {
        match (olds.peek().copied(), news.peek().copied()) {
            (Some((old, value)), Some((new, newer))) if old == new => {
                both(value, newer, &mut out, old);
                olds.next();
                news.next();
            }
            (Some((old, value)), new) if new.is_none_or(|(new, _)| old < new) => {
                out.push(old, value);
                olds.next();
            }
            (_, Some((new, value))) => {
                both(None, value, &mut out, new);
                news.next();
            }
            (_, None) => return out.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = std::collections::BTreeMap<usize, Option<Vec<u8>>>;

    fn row() -> impl Strategy<Value = Row> {
        prop::collection::btree_map(
            0..300usize,
            prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
            0..8,
        )
    }

    fn bytes(row: &Row) -> Vec<u8> {
        let mut builder = FieldsBuilder::new();
        row.iter().for_each(|(column, value)| builder.push(*column, value.as_deref()));
        builder.bytes().to_vec()
    }

    proptest! {
        #[test]
        fn fields_come_back_and_newer_ones_take_the_place_of_older(older in row(), newer in row()) {
            let (old, new) = (bytes(&older), bytes(&newer));
            let read: Row = Fields::of(&old).map(|(column, value)| (column, value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(&read, &older);
            let both = merged(&old, &new, |_, newer, out, column| out.push(column, newer));
            let mut changed = old.clone();
            change(&mut changed, &new, |_, newer, out, column| out.push(column, newer));
            prop_assert_eq!(&changed, &both);
            let mut expected = older;
            expected.extend(newer);
            prop_assert_eq!(both, bytes(&expected));
            for column in 0..300 {
                prop_assert_eq!(Fields::of(&old).get(column), read.get(&column).and_then(|value| value.as_deref()));
            }
        }

        #[test]
        fn any_bytes_are_some_fields(any in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(Fields::of(&any).count() <= any.len());
        }
    }
}
