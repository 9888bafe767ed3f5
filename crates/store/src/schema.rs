//! Tables' columns: the types that tables hold, and how their values lie in bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The most columns of a table: attribute numbers are 16 bits, and the last one is taken.
pub const COLUMNS_MAX: usize = 4096;

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AttributeType {
    /// A signed integer of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    Uint(u8),
    /// An IEEE 754 number of 4 or 8 bytes.
    Float(u8),
    /// True or false, 1 byte.
    Bool,
    /// Days since 1970-01-01, 4 bytes.
    Date32,
    /// A time without zone since 1970-01-01 in this unit, 8 bytes.
    Timestamp(TimeUnit),
    /// A decimal number, 16 bytes.
    Decimal128 {
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Bytes, always this many: 1 to 256.
    Bytes(u16),
    /// Text.
    Utf8,
}

/// The most bytes of a [`AttributeType::Bytes`]: a unit of 512 bytes holds at least one value.
pub(crate) const BYTES_MAX: u16 = 256;

/// How values of a fixed size compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    Signed,
    Unsigned,
    Float,
    /// No bounds are kept.
    None,
}

impl AttributeType {
    /// The type that holds values of the Arrow type, if there is one.
    #[must_use]
    pub fn of(data_type: &DataType) -> Option<AttributeType> {
        Some(match data_type {
            DataType::Int8 => AttributeType::Int(1),
            DataType::Int16 => AttributeType::Int(2),
            DataType::Int32 => AttributeType::Int(4),
            DataType::Int64 => AttributeType::Int(8),
            DataType::UInt8 => AttributeType::Uint(1),
            DataType::UInt16 => AttributeType::Uint(2),
            DataType::UInt32 => AttributeType::Uint(4),
            DataType::UInt64 => AttributeType::Uint(8),
            DataType::Float32 => AttributeType::Float(4),
            DataType::Float64 => AttributeType::Float(8),
            DataType::Boolean => AttributeType::Bool,
            DataType::Date32 => AttributeType::Date32,
            DataType::Timestamp(unit, None) => AttributeType::Timestamp(*unit),
            DataType::Decimal128(precision, scale) => {
                let fits = (1..=38).contains(precision) && *scale <= *precision as i8;
                fits.then_some(AttributeType::Decimal128 { precision: *precision, scale: *scale })?
            }
            DataType::FixedSizeBinary(bytes) => {
                let bytes = u16::try_from(*bytes).ok()?;
                (1..=BYTES_MAX).contains(&bytes).then_some(AttributeType::Bytes(bytes))?
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => AttributeType::Utf8,
            _ => return None,
        })
    }

    /// The Arrow type that values are read as.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            AttributeType::Int(1) => DataType::Int8,
            AttributeType::Int(2) => DataType::Int16,
            AttributeType::Int(4) => DataType::Int32,
            AttributeType::Int(_) => DataType::Int64,
            AttributeType::Uint(1) => DataType::UInt8,
            AttributeType::Uint(2) => DataType::UInt16,
            AttributeType::Uint(4) => DataType::UInt32,
            AttributeType::Uint(_) => DataType::UInt64,
            AttributeType::Float(4) => DataType::Float32,
            AttributeType::Float(_) => DataType::Float64,
            AttributeType::Bool => DataType::Boolean,
            AttributeType::Date32 => DataType::Date32,
            AttributeType::Timestamp(unit) => DataType::Timestamp(unit, None),
            AttributeType::Decimal128 { precision, scale } => {
                DataType::Decimal128(precision, scale)
            }
            AttributeType::Bytes(bytes) => DataType::FixedSizeBinary(i32::from(bytes)),
            AttributeType::Utf8 => DataType::Utf8View,
        }
    }

    /// Bytes of a value, when all values have the same.
    #[must_use]
    pub fn width_bytes(self) -> Option<usize> {
        Some(match self {
            AttributeType::Int(bytes)
            | AttributeType::Uint(bytes)
            | AttributeType::Float(bytes) => usize::from(bytes),
            AttributeType::Bool => 1,
            AttributeType::Date32 => 4,
            AttributeType::Timestamp(_) => 8,
            AttributeType::Decimal128 { .. } => 16,
            AttributeType::Bytes(bytes) => usize::from(bytes),
            AttributeType::Utf8 => return None,
        })
    }

    pub(crate) fn ordering(self) -> Ordering {
        match self {
            AttributeType::Uint(_) | AttributeType::Bool => Ordering::Unsigned,
            AttributeType::Float(_) => Ordering::Float,
            AttributeType::Bytes(_) | AttributeType::Utf8 => Ordering::None,
            _ => Ordering::Signed,
        }
    }
}

impl fmt::Display for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeType::Int(bytes) => write!(f, "int{}", bytes * 8),
            AttributeType::Uint(bytes) => write!(f, "uint{}", bytes * 8),
            AttributeType::Float(bytes) => write!(f, "float{}", bytes * 8),
            AttributeType::Bool => f.write_str("bool"),
            AttributeType::Date32 => f.write_str("date32"),
            AttributeType::Timestamp(unit) => {
                let unit = match unit {
                    TimeUnit::Second => "s",
                    TimeUnit::Millisecond => "ms",
                    TimeUnit::Microsecond => "us",
                    TimeUnit::Nanosecond => "ns",
                };
                write!(f, "timestamp({unit})")
            }
            AttributeType::Decimal128 { precision, scale } => {
                write!(f, "decimal128({precision},{scale})")
            }
            AttributeType::Bytes(bytes) => write!(f, "bytes({bytes})"),
            AttributeType::Utf8 => f.write_str("utf8"),
        }
    }
}

impl FromStr for AttributeType {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || format!("`{text}` is not an attribute type");
        if let Some(inner) = text.strip_prefix("decimal128(").and_then(|t| t.strip_suffix(')')) {
            let (precision, scale) = inner.split_once(',').ok_or_else(unknown)?;
            let precision: u8 = precision.parse().map_err(|_| unknown())?;
            let scale: i8 = scale.parse().map_err(|_| unknown())?;
            if !(1..=38).contains(&precision) || scale > precision as i8 {
                return Err(unknown());
            }
            return Ok(AttributeType::Decimal128 { precision, scale });
        }
        if let Some(inner) = text.strip_prefix("bytes(").and_then(|t| t.strip_suffix(')')) {
            let bytes: u16 = inner.parse().map_err(|_| unknown())?;
            let fits = (1..=BYTES_MAX).contains(&bytes);
            return fits.then_some(AttributeType::Bytes(bytes)).ok_or_else(unknown);
        }
        Ok(match text {
            "int8" => AttributeType::Int(1),
            "int16" => AttributeType::Int(2),
            "int32" => AttributeType::Int(4),
            "int64" => AttributeType::Int(8),
            "uint8" => AttributeType::Uint(1),
            "uint16" => AttributeType::Uint(2),
            "uint32" => AttributeType::Uint(4),
            "uint64" => AttributeType::Uint(8),
            "float32" => AttributeType::Float(4),
            "float64" => AttributeType::Float(8),
            "bool" => AttributeType::Bool,
            "date32" => AttributeType::Date32,
            "timestamp(s)" => AttributeType::Timestamp(TimeUnit::Second),
            "timestamp(ms)" => AttributeType::Timestamp(TimeUnit::Millisecond),
            "timestamp(us)" => AttributeType::Timestamp(TimeUnit::Microsecond),
            "timestamp(ns)" => AttributeType::Timestamp(TimeUnit::Nanosecond),
            "utf8" => AttributeType::Utf8,
            _ => return Err(unknown()),
        })
    }
}

impl TryFrom<String> for AttributeType {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<AttributeType> for String {
    fn from(attribute_type: AttributeType) -> String {
        attribute_type.to_string()
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub attribute_type: AttributeType,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

/// The attributes that hold what `schema` describes.
pub(crate) fn attributes_of(schema: &Schema) -> Result<Vec<Attribute>> {
    let found = schema.fields().len();
    if found == 0 || found > COLUMNS_MAX {
        return Err(Error::ColumnCount { found, most: COLUMNS_MAX });
    }
    schema
        .fields()
        .iter()
        .map(|field| {
            let attribute_type =
                AttributeType::of(field.data_type()).ok_or_else(|| Error::UnsupportedType {
                    column: field.name().clone(),
                    data_type: field.data_type().to_string(),
                })?;
            Ok(Attribute {
                name: field.name().clone(),
                attribute_type,
                nullable: field.is_nullable(),
            })
        })
        .collect()
}

/// The schema of the batches that a table of these attributes is read as.
pub(crate) fn schema_of(attributes: &[Attribute]) -> SchemaRef {
    let field = |attribute: &Attribute| {
        let data_type = attribute.attribute_type.arrow();
        Field::new(&attribute.name, data_type, attribute.nullable)
    };
    Arc::new(Schema::new(attributes.iter().map(field).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_through_their_names_and_through_arrow() {
        for name in [
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float32",
            "float64",
            "bool",
            "date32",
            "timestamp(s)",
            "timestamp(ms)",
            "timestamp(us)",
            "timestamp(ns)",
            "decimal128(15,2)",
            "decimal128(38,-3)",
            "bytes(15)",
            "utf8",
        ] {
            let parsed: AttributeType = name.parse().unwrap();
            assert_eq!(parsed.to_string(), name);
            assert_eq!(AttributeType::of(&parsed.arrow()), Some(parsed));
        }
        for name in [
            "",
            "int7",
            "decimal128(0,0)",
            "decimal128(39,0)",
            "decimal128(2,3)",
            "bytes(0)",
            "bytes(999)",
        ] {
            assert!(name.parse::<AttributeType>().is_err(), "{name}");
        }
    }
}
