//! Kinds of modifications of rows: what they do to the fields of a row.

use std::sync::Arc;

use moirai_encodings::NumberType;
use moirai_update::{Kind, KindNumber, Kinds, Result, Value};

use crate::fields::{Fields, change, merged};
use crate::number::{number_bytes, number_of, wrapped};

/// Sets fields of a row that is there; the content is the fields. Without a row it is refused.
pub const SET: KindNumber = KindNumber(32);
/// Adds to numbers of a row that is there; the content is a field for each ([`added_field`]). The sum wraps around in the type of
/// the column; a null stays one. Without a row it is refused.
pub const ADD: KindNumber = KindNumber(33);

/// Rows that come as a page, in records that are ingested: see [`encode_rows`](crate::encode_rows). No group has it.
pub const ROWS: KindNumber = KindNumber(34);

/// Registers the kinds of rows.
///
/// # Errors
/// Where another kind has their numbers.
pub fn register(kinds: &mut Kinds) -> Result<()> {
    kinds.register(SET, Arc::new(Set))?;
    kinds.register(ADD, Arc::new(Add))
}

struct Set;
struct Add;

/// What [`ADD`] has as the value of a field: a byte for the type of the column, and the number to add.
#[must_use]
pub fn added_field(of: NumberType, number: i128) -> Vec<u8> {
    let mut field = vec![of.width_bytes as u8 | u8::from(of.is_signed) << 7];
    field.extend(number_bytes(number));
    field
}

/// The type and the number of such a field.
fn field_added(field: &[u8]) -> Option<(NumberType, i128)> {
    let (of, number) = field.split_first()?;
    let of = NumberType { width_bytes: usize::from(of & 127), is_signed: of >> 7 == 1 };
    Some((of, number_of(number)?))
}

/// The sum of a number and what [`ADD`] adds to it, in the number's type; a null where there is none.
pub(crate) fn added(number: Option<&[u8]>, field: Option<&[u8]>) -> Option<Vec<u8>> {
    let (number, (of, other)) = (number_of(number?)?, field_added(field?)?);
    Some(number_bytes(wrapped(number.wrapping_add(other), of)))
}

/// One field that adds as much as two.
fn added_both(older: Option<&[u8]>, newer: Option<&[u8]>) -> Option<Vec<u8>> {
    let ((of, older), (_, newer)) = (field_added(older?)?, field_added(newer?)?);
    Some(added_field(of, wrapped(older.wrapping_add(newer), of)))
}

fn have_same_columns(one: &[u8], other: &[u8]) -> bool {
    Fields::of(one).map(|(column, _)| column).eq(Fields::of(other).map(|(column, _)| column))
}

impl Kind for Set {
    fn fits(&self, value: &Value, _: &[u8]) -> bool {
        value.is_there
    }

    fn apply(&self, value: &mut Value, modification: &[u8]) {
        change(&mut value.bytes, modification, |_, newer, out, column| out.push(column, newer));
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        // Fields of other columns may be of another unit of the page.
        let are_same = have_same_columns(older, newer);
        if are_same {
            both.extend_from_slice(newer);
        }
        are_same
    }
}

impl Kind for Add {
    fn fits(&self, value: &Value, _: &[u8]) -> bool {
        value.is_there
    }

    fn apply(&self, value: &mut Value, modification: &[u8]) {
        change(&mut value.bytes, modification, |older, newer, out, column| {
            out.push(column, added(older, newer).as_deref());
        });
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        let are_same = have_same_columns(older, newer);
        if are_same {
            *both = merged(older, newer, |older, newer, out, column| {
                out.push(column, added_both(older, newer).as_deref());
            });
        }
        are_same
    }
}
