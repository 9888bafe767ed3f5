//! Values of all types that tables hold, and arrays of them.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    Float64Array, PrimitiveArray, StringViewArray,
};
use arrow_schema::{DataType, TimeUnit};
use moirai_runtime::Random;
use rand::Rng;

/// A value, in the order of its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(i128),
    Bytes(Vec<u8>),
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: &[Option<Value>],
    narrow: impl Fn(i128) -> T::Native,
) -> ArrayRef {
    let number = |value: &Option<Value>| match value {
        Some(Value::Number(number)) => Some(narrow(*number)),
        _ => None,
    };
    let array = PrimitiveArray::<T>::from_iter(values.iter().map(number));
    Arc::new(array.with_data_type(data_type.clone()))
}

/// An array of a type with these values.
pub(crate) fn array_of(data_type: &DataType, values: &[Option<Value>]) -> ArrayRef {
    let bytes = |value: &'_ Option<Value>| match value {
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        _ => None,
    };
    let number = |value: &Option<Value>| match value {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| number(value).map(|one| one != 0)),
        )),
        DataType::Int8 => primitive::<Int8Type>(data_type, values, |one| one as i8),
        DataType::Int16 => primitive::<Int16Type>(data_type, values, |one| one as i16),
        DataType::Int32 => primitive::<Int32Type>(data_type, values, |one| one as i32),
        DataType::Int64 => primitive::<Int64Type>(data_type, values, |one| one as i64),
        DataType::UInt8 => primitive::<UInt8Type>(data_type, values, |one| one as u8),
        DataType::UInt16 => primitive::<UInt16Type>(data_type, values, |one| one as u16),
        DataType::UInt32 => primitive::<UInt32Type>(data_type, values, |one| one as u32),
        DataType::UInt64 => primitive::<UInt64Type>(data_type, values, |one| one as u64),
        DataType::Date32 => primitive::<Date32Type>(data_type, values, |one| one as i32),
        DataType::Timestamp(..) => {
            primitive::<TimestampMicrosecondType>(data_type, values, |one| one as i64)
        }
        DataType::Decimal128(..) => primitive::<Decimal128Type>(data_type, values, |one| one),
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            values.iter().map(|value| number(value).map(|one| f64::from_bits(one as u64))),
        )),
        DataType::FixedSizeBinary(width) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(bytes), *width)
                .unwrap(),
        ),
        DataType::BinaryView => {
            let all: Vec<Option<Vec<u8>>> = values.iter().map(bytes).collect();
            Arc::new(BinaryViewArray::from_iter(all))
        }
        _ => {
            let all =
                values.iter().map(|one| bytes(one).map(|one| String::from_utf8(one).unwrap()));
            Arc::new(StringViewArray::from_iter(all))
        }
    }
}

const UTC: &str = "+00:00";

pub(crate) fn any_type(random: &mut Random) -> DataType {
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        DataType::Decimal128(38, 2),
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::FixedSizeBinary(5),
        DataType::Float64,
    ];
    types[random.random_range(0..types.len())].clone()
}

/// The least and the greatest number of a type.
fn limits(data_type: &DataType) -> (i128, i128) {
    let signed = |bits: u32| (-(1 << (bits - 1)), (1 << (bits - 1)) - 1);
    let unsigned = |bits: u32| (0, (1 << bits) - 1);
    match data_type {
        DataType::Boolean => (0, 1),
        DataType::Int8 => signed(8),
        DataType::Int16 => signed(16),
        DataType::Int32 | DataType::Date32 => signed(32),
        DataType::UInt8 => unsigned(8),
        DataType::UInt16 => unsigned(16),
        DataType::UInt32 => unsigned(32),
        DataType::UInt64 | DataType::Float64 => unsigned(64),
        DataType::Decimal128(..) => (-10_i128.pow(37), 10_i128.pow(37)),
        _ => signed(64),
    }
}

/// A value of a type: of keys there are few.
pub(crate) fn any_value(random: &mut Random, data_type: &DataType, is_key: bool) -> Value {
    match data_type {
        DataType::Utf8View | DataType::BinaryView if is_key => {
            Value::Bytes(vec![[0, b'a'][random.random_range(0..2)]; random.random_range(0..6)])
        }
        DataType::Utf8View | DataType::BinaryView => {
            let most = [4, 40, 200][random.random_range(0..3)];
            let length = random.random_range(0..most);
            Value::Bytes((0..length).map(|_| random.random_range(b'a'..b'd')).collect())
        }
        DataType::FixedSizeBinary(width) => {
            let bytes = (0..*width).map(|_| random.random_range(0..if is_key { 2 } else { 255 }));
            Value::Bytes(bytes.collect())
        }
        _ => {
            let (least, greatest) = limits(data_type);
            let number = match random.random_range(0..4) {
                0 if !is_key => random.random_range(least..=greatest),
                _ => random.random_range(least.max(-9)..=greatest.min(9)),
            };
            Value::Number(number)
        }
    }
}

/// The number of a type with the same lowest bits.
pub(crate) fn wrapped(data_type: &DataType, number: i128) -> i128 {
    match data_type {
        DataType::Int32 => i128::from(number as i32),
        DataType::UInt8 => i128::from(number as u8),
        _ => i128::from(number as i64),
    }
}
