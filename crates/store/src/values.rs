//! Between Arrow arrays and the bytes of values of a fixed size.

use std::cmp::Ordering as Cmp;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::ArrowError;

use crate::schema::{AttributeType, Ordering};

#[cfg(target_endian = "big")]
compile_error!(
    "stores are little-endian, and so are Arrow's buffers on the machines Moirai runs on"
);

/// The value bytes of an array of a fixed-size type; those of nulls have no meaning. Booleans, which Arrow packs
/// into bits, become bytes of 0 or 1.
pub(crate) fn value_bytes(array: &dyn Array, width_bytes: usize) -> Buffer {
    if let Some(booleans) = array.as_boolean_opt() {
        return booleans.values().iter().map(u8::from).collect();
    }
    let data = array.to_data();
    match data.buffers().first() {
        Some(buffer) => {
            buffer.slice_with_length(data.offset() * width_bytes, data.len() * width_bytes)
        }
        None => Buffer::default(),
    }
}

/// An array of `rows` values from their bytes.
pub(crate) fn fixed_array(
    attribute_type: AttributeType,
    rows: usize,
    bytes: MutableBuffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    if attribute_type == AttributeType::Bool {
        let bits = BooleanBuffer::from_iter(bytes.as_slice().iter().map(|byte| *byte != 0));
        return Ok(Arc::new(BooleanArray::new(bits, nulls)));
    }
    let data = ArrayData::builder(attribute_type.arrow())
        .len(rows)
        .add_buffer(bytes.into())
        .nulls(nulls)
        .build()?;
    Ok(make_array(data))
}

/// The least and the greatest value of a run, as bytes, widened to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinMax {
    pub(crate) min: [u8; 16],
    pub(crate) max: [u8; 16],
}

/// The least and the greatest of `values`; `None` when there are none, or a NaN is among them, or
/// the type keeps no bounds.
pub(crate) fn min_max<'a>(
    attribute_type: AttributeType,
    values: impl Iterator<Item = &'a [u8]>,
) -> Option<MinMax> {
    let ordering = attribute_type.ordering();
    if ordering == Ordering::None {
        return None;
    }
    let mut found: Option<(&[u8], &[u8])> = None;
    for value in values {
        if ordering == Ordering::Float && to_f64(value).is_nan() {
            return None;
        }
        found = Some(match found {
            None => (value, value),
            Some((min, max)) => (
                if compare(ordering, value, min) == Cmp::Less { value } else { min },
                if compare(ordering, value, max) == Cmp::Greater { value } else { max },
            ),
        });
    }
    found.map(|(min, max)| MinMax { min: widen(min), max: widen(max) })
}

/// The bounds of both runs.
pub(crate) fn merge(attribute_type: AttributeType, a: MinMax, b: MinMax) -> MinMax {
    let width = attribute_type.width_bytes().unwrap_or(0);
    let ordering = attribute_type.ordering();
    let less = |x: &[u8; 16], y: &[u8; 16]| {
        compare(ordering, x.get(..width).unwrap_or(x), y.get(..width).unwrap_or(y)) == Cmp::Less
    };
    MinMax {
        min: if less(&b.min, &a.min) { b.min } else { a.min },
        max: if less(&a.max, &b.max) { b.max } else { a.max },
    }
}

fn widen(value: &[u8]) -> [u8; 16] {
    let mut wide = [0; 16];
    for (to, from) in wide.iter_mut().zip(value) {
        *to = *from;
    }
    wide
}

fn compare(ordering: Ordering, a: &[u8], b: &[u8]) -> Cmp {
    match ordering {
        Ordering::Signed => to_i128(a).cmp(&to_i128(b)),
        Ordering::Unsigned => to_u128(a).cmp(&to_u128(b)),
        Ordering::Float => to_f64(a).total_cmp(&to_f64(b)),
        Ordering::None => Cmp::Equal,
    }
}

fn to_u128(value: &[u8]) -> u128 {
    u128::from_le_bytes(widen(value))
}

fn to_i128(value: &[u8]) -> i128 {
    let unused_bits = 128 - 8 * value.len().clamp(1, 16) as u32;
    (to_u128(value) as i128) << unused_bits >> unused_bits
}

fn to_f64(value: &[u8]) -> f64 {
    let wide = widen(value);
    let [a, b, c, d, e, f, g, h, ..] = wide;
    if value.len() == 4 {
        f64::from(f32::from_le_bytes([a, b, c, d]))
    } else {
        f64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int32Array};

    fn bounds<'a>(name: &str, values: impl IntoIterator<Item = &'a [u8]>) -> Option<MinMax> {
        min_max(name.parse().unwrap(), values.into_iter())
    }

    #[test]
    fn bounds_follow_the_order_of_the_type() {
        let minus_one = (-1i64).to_le_bytes();
        let one = 1i64.to_le_bytes();
        let signed = bounds("int64", [&minus_one[..], &one]).unwrap();
        assert_eq!(signed.min[..8], minus_one);
        let unsigned = bounds("uint64", [&minus_one[..], &one]).unwrap();
        assert_eq!(unsigned.min[..8], one);
        let (low, high) = ((-2.5f64).to_le_bytes(), 1e9f64.to_le_bytes());
        let floats = bounds("float64", [&high[..], &low]).unwrap();
        assert_eq!((&floats.min[..8], &floats.max[..8]), (&low[..], &high[..]));
        assert_eq!(bounds("float64", [&f64::NAN.to_le_bytes()[..], &low]), None);
        assert_eq!(bounds("int32", []), None);
        let both = merge("int64".parse().unwrap(), signed, unsigned);
        assert_eq!((both.min, both.max), (signed.min, signed.max));
    }

    #[test]
    fn bytes_of_a_sliced_array_are_those_of_the_slice() {
        let array = Int32Array::from(vec![1, 2, 3, 4]).slice(1, 2);
        assert_eq!(value_bytes(&array, 4).as_slice(), [2, 0, 0, 0, 3, 0, 0, 0]);
        let array = Float64Array::from(vec![1.5]);
        assert_eq!(value_bytes(&array, 8).as_slice(), 1.5f64.to_le_bytes());
    }
}
