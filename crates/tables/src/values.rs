//! Values of Arrow arrays as pages take them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType};
use moirai_pages::{ColumnSlice, ColumnType, NumberType, Validity, number_of, put_number_bytes};

use crate::types;

#[cfg(target_endian = "big")]
compile_error!(
    "pages are little-endian, and so are Arrow's buffers on the machines Moirai runs on"
);

/// The values of an array.
#[derive(Debug)]
pub(crate) struct ArrayValues {
    of: ColumnType,
    /// The numbers, or all texts without anything between them.
    bytes: Buffer,
    /// Where each text ends.
    ends: Vec<u32>,
    /// Bits of those that are not null; `None` where all are not.
    validity: Option<Buffer>,
}

/// The width of the values of a type that pages hold as bytes of one length.
pub(crate) fn fixed_bytes(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        DataType::Decimal256(..) => Some(32),
        _ => None,
    }
}

impl ArrayValues {
    /// Those of an array, whose type is cast to the one that tables hold.
    pub(crate) fn of(array: &ArrayRef) -> Result<ArrayValues, ArrowError> {
        let held = types::held(array.data_type());
        let cast;
        let array = if *array.data_type() == held {
            array
        } else {
            cast = arrow_cast::cast(array, &held)?;
            &cast
        };
        let Some(of) = types::column_type(&held) else {
            return Err(ArrowError::SchemaError(format!("tables do not hold {held}")));
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let validity = nulls.map(|nulls| nulls.inner().sliced());
        let (bytes, ends) = match (of, array.data_type()) {
            (_, DataType::Boolean) => {
                (array.as_boolean().values().iter().map(u8::from).collect(), Vec::new())
            }
            (_, DataType::Utf8View) => {
                let texts = array.as_string_view();
                gathered(texts.iter().map(|text| text.unwrap_or_default().as_bytes()))
            }
            (_, DataType::BinaryView) => {
                gathered(array.as_binary_view().iter().map(Option::unwrap_or_default))
            }
            (ColumnType::Text, data_type) => {
                let width = fixed_bytes(data_type).unwrap_or(0);
                let ends = (1..=array.len()).map(|row| (row * width) as u32).collect();
                (numbers(array, width), ends)
            }
            (ColumnType::Number(NumberType { width_bytes, .. }), _) => {
                (numbers(array, width_bytes), Vec::new())
            }
        };
        Ok(ArrayValues { of, bytes, ends, validity })
    }

    /// As pages are encoded of them.
    pub(crate) fn slice(&self) -> ColumnSlice<'_> {
        let validity = self.validity.as_ref().map(|bits| Validity::new(bits));
        match self.of {
            ColumnType::Number(_) => ColumnSlice::Numbers { bytes: &self.bytes, validity },
            ColumnType::Text => {
                ColumnSlice::Texts { ends: &self.ends, bytes: &self.bytes, validity }
            }
        }
    }

    /// Makes `value` that of a row, as a field has it; `false` for a null.
    pub(crate) fn field(&self, row: usize, value: &mut Vec<u8>) -> bool {
        value.clear();
        if self.validity.as_ref().is_some_and(|bits| !Validity::new(bits).is_valid(row)) {
            return false;
        }
        match self.of {
            ColumnType::Number(of) => put_number_bytes(self.number(row, of), value),
            ColumnType::Text => {
                let before = row.checked_sub(1).and_then(|before| self.ends.get(before));
                let start = before.map_or(0, |end| *end as usize);
                let end = self.ends.get(row).map_or(start, |end| *end as usize);
                value.extend(self.bytes.get(start..end).unwrap_or_default());
            }
        }
        true
    }

    /// The number of a row.
    fn number(&self, row: usize, of: NumberType) -> i128 {
        let NumberType { width_bytes, is_signed } = of;
        let bytes = self.bytes.get(row * width_bytes..(row + 1) * width_bytes).unwrap_or_default();
        let number = number_of(bytes).unwrap_or(0);
        let is_wide = width_bytes >= 16;
        if is_signed || is_wide { number } else { number & ((1 << (8 * width_bytes)) - 1) }
    }

    /// Its type and number, where it has numbers and the row is not null.
    pub(crate) fn number_at(&self, row: usize) -> Option<(NumberType, i128)> {
        let is_valid = self.validity.as_ref().is_none_or(|bits| Validity::new(bits).is_valid(row));
        match self.of {
            ColumnType::Number(of) if is_valid => Some((of, self.number(row, of))),
            _ => None,
        }
    }
}

/// The values of an array of `width` bytes each.
fn numbers(array: &ArrayRef, width: usize) -> Buffer {
    let data = array.to_data();
    match data.buffers().first() {
        Some(buffer) => buffer.slice_with_length(data.offset() * width, data.len() * width),
        None => Buffer::default(),
    }
}

/// The bytes of all texts, and the offset at which each text ends.
fn gathered<'a>(texts: impl Iterator<Item = &'a [u8]>) -> (Buffer, Vec<u32>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(texts.size_hint().0));
    for text in texts {
        bytes.extend_from_slice(text);
        ends.push(bytes.len() as u32);
    }
    (Buffer::from_vec(bytes), ends)
}
