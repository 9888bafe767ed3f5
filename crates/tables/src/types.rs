//! Arrow types: how pages hold their values, and how the catalog writes them.

use std::sync::Arc;

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use moirai_pages::{ColumnType, NumberType};

const fn number(width_bytes: usize, is_signed: bool) -> ColumnType {
    ColumnType::Number(NumberType { width_bytes, is_signed })
}

/// The type that a table holds where rows of `data_type` come: texts and bytes as views, dictionaries as their values.
pub(crate) fn held(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => held(values),
        other => other.clone(),
    }
}

/// What pages hold for a type that [`held`] gives; `None` for one that tables do not hold.
pub(crate) fn column_type(data_type: &DataType) -> Option<ColumnType> {
    Some(match data_type {
        DataType::Boolean | DataType::UInt8 => number(1, false),
        DataType::Int8 => number(1, true),
        DataType::UInt16 | DataType::Float16 => number(2, false),
        DataType::Int16 => number(2, true),
        DataType::UInt32 | DataType::Float32 => number(4, false),
        DataType::Int32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32(..)
        | DataType::Interval(IntervalUnit::YearMonth) => number(4, true),
        DataType::UInt64 | DataType::Float64 | DataType::Interval(IntervalUnit::DayTime) => {
            number(8, false)
        }
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => number(8, true),
        DataType::Decimal128(..) | DataType::Interval(IntervalUnit::MonthDayNano) => {
            number(16, true)
        }
        DataType::Decimal256(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => ColumnType::Text,
        _ => return None,
    })
}

/// Whether the order of what pages hold is that of the values.
pub(crate) fn is_ordered(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal256(..)
            | DataType::Interval(_)
    )
}

/// Whether adding what pages hold adds the values.
pub(crate) fn is_summable(data_type: &DataType) -> bool {
    let is_number = matches!(column_type(data_type), Some(ColumnType::Number(_)));
    is_number && is_ordered(data_type) && *data_type != DataType::Boolean
}

fn unit_number(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn unit_of(number: u8) -> Option<TimeUnit> {
    let units =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    units.get(usize::from(number)).copied()
}

/// Types without anything beside them, by their numbers in the catalog.
const PLAIN: [DataType; 19] = [
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Utf8View,
    DataType::BinaryView,
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Interval(IntervalUnit::DayTime),
    DataType::Interval(IntervalUnit::MonthDayNano),
];

/// Numbers of the others.
const TIME32: u8 = 32;
const TIME64: u8 = 33;
const TIMESTAMP: u8 = 34;
const DURATION: u8 = 35;
const DECIMAL32: u8 = 36;
const DECIMAL64: u8 = 37;
const DECIMAL128: u8 = 38;
const DECIMAL256: u8 = 39;
const FIXED_BYTES: u8 = 40;

/// Appends a type that [`held`] gives: its number, and what it has beside.
pub(crate) fn encode(data_type: &DataType, out: &mut Vec<u8>) {
    if let Some(number) = PLAIN.iter().position(|one| one == data_type) {
        return out.push(number as u8);
    }
    match data_type {
        DataType::Time32(unit) => out.extend([TIME32, unit_number(*unit)]),
        DataType::Time64(unit) => out.extend([TIME64, unit_number(*unit)]),
        DataType::Duration(unit) => out.extend([DURATION, unit_number(*unit)]),
        DataType::Timestamp(unit, zone) => {
            out.extend([TIMESTAMP, unit_number(*unit)]);
            put_text(out, zone.as_deref().unwrap_or_default());
        }
        DataType::Decimal32(precision, scale) => out.extend([DECIMAL32, *precision, *scale as u8]),
        DataType::Decimal64(precision, scale) => out.extend([DECIMAL64, *precision, *scale as u8]),
        DataType::Decimal128(precision, scale) => {
            out.extend([DECIMAL128, *precision, *scale as u8]);
        }
        DataType::Decimal256(precision, scale) => {
            out.extend([DECIMAL256, *precision, *scale as u8]);
        }
        DataType::FixedSizeBinary(bytes) => {
            out.push(FIXED_BYTES);
            out.extend(bytes.to_le_bytes());
        }
        // No table holds it.
        _ => out.push(u8::MAX),
    }
}

/// Takes a type off the front, as [`encode`] writes it.
pub(crate) fn decode(bytes: &mut &[u8]) -> Option<DataType> {
    let number = take_byte(bytes)?;
    if let Some(plain) = PLAIN.get(usize::from(number)) {
        return Some(plain.clone());
    }
    Some(match number {
        TIME32 => DataType::Time32(unit_of(take_byte(bytes)?)?),
        TIME64 => DataType::Time64(unit_of(take_byte(bytes)?)?),
        DURATION => DataType::Duration(unit_of(take_byte(bytes)?)?),
        TIMESTAMP => {
            let unit = unit_of(take_byte(bytes)?)?;
            let zone = take_text(bytes)?;
            DataType::Timestamp(unit, (!zone.is_empty()).then(|| Arc::from(zone)))
        }
        DECIMAL32 => DataType::Decimal32(take_byte(bytes)?, take_byte(bytes)? as i8),
        DECIMAL64 => DataType::Decimal64(take_byte(bytes)?, take_byte(bytes)? as i8),
        DECIMAL128 => DataType::Decimal128(take_byte(bytes)?, take_byte(bytes)? as i8),
        DECIMAL256 => DataType::Decimal256(take_byte(bytes)?, take_byte(bytes)? as i8),
        FIXED_BYTES => {
            let (length, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            DataType::FixedSizeBinary(i32::from_le_bytes(*length))
        }
        _ => return None,
    })
}

/// Appends a text of less than 64 KiB behind its length (2 bytes).
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Takes such a text off the front.
pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (text, rest) = {
        let length = take_u16(bytes)?;
        bytes.split_at_checked(usize::from(length))?
    };
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

pub(crate) fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_le_bytes(*number))
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

pub(crate) fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_back() {
        let zone = Some(Arc::from("Europe/Vienna"));
        let others = [
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Timestamp(TimeUnit::Microsecond, zone),
            DataType::Duration(TimeUnit::Second),
            DataType::Decimal32(9, 2),
            DataType::Decimal64(18, -3),
            DataType::Decimal128(15, 2),
            DataType::Decimal256(70, 10),
            DataType::FixedSizeBinary(300),
        ];
        for data_type in PLAIN.iter().chain(&others) {
            let mut bytes = Vec::new();
            encode(data_type, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(decode(&mut rest).as_ref(), Some(data_type));
            assert!(rest.is_empty() && column_type(data_type).is_some(), "{data_type}");
            assert_eq!(held(data_type), *data_type);
            assert_eq!(decode(&mut &bytes[..bytes.len() - 1]), None);
        }
        for data_type in [DataType::Null, DataType::Utf8] {
            assert_eq!(column_type(&data_type), None);
        }
    }
}
