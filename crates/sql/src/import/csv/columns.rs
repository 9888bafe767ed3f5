//! Columns of a batch, built from the text of their values.

use std::sync::Arc;

use datafusion::arrow::array::builder::{BooleanBuilder, PrimitiveBuilder, StringViewBuilder};
use datafusion::arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType};
use datafusion::arrow::datatypes::TimeUnit;

use super::schema::CsvType;
use super::values;

/// A column that is being built.
pub(super) trait Column: Send {
    /// Appends the value that `text` is; returns whether it is one of the column's type.
    fn append(&mut self, text: &[u8]) -> bool;
    /// Appends a NULL.
    fn append_null(&mut self);
    /// The values appended since the last call.
    fn finish(&mut self) -> ArrayRef;
}

/// An empty column of this type.
pub(super) fn column(csv_type: CsvType) -> Box<dyn Column> {
    fn of<T, F>(csv_type: CsvType, read: F) -> Box<dyn Column>
    where
        T: ArrowPrimitiveType,
        F: Fn(&[u8]) -> Option<T::Native> + Send + 'static,
    {
        let builder = PrimitiveBuilder::<T>::new().with_data_type(csv_type.arrow());
        Box::new(FixedSize { builder, read })
    }
    let time = |unit| move |text: &[u8]| values::time(text)?.units(unit);
    match csv_type {
        CsvType::Tinyint => of::<Int8Type, _>(csv_type, values::integer),
        CsvType::Smallint => of::<Int16Type, _>(csv_type, values::integer),
        CsvType::Integer => of::<Int32Type, _>(csv_type, values::integer),
        CsvType::Bigint => of::<Int64Type, _>(csv_type, values::integer),
        CsvType::Real => of::<Float32Type, _>(csv_type, values::float),
        CsvType::Double => of::<Float64Type, _>(csv_type, values::float),
        CsvType::Decimal { precision, scale } => {
            of::<Decimal128Type, _>(csv_type, move |text| values::decimal(text, precision, scale))
        }
        CsvType::Boolean => Box::new(Boolean(BooleanBuilder::new())),
        CsvType::Date => of::<Date32Type, _>(csv_type, values::date),
        CsvType::Timestamp(unit @ TimeUnit::Second) => {
            of::<TimestampSecondType, _>(csv_type, time(unit))
        }
        CsvType::Timestamp(unit @ TimeUnit::Millisecond) => {
            of::<TimestampMillisecondType, _>(csv_type, time(unit))
        }
        CsvType::Timestamp(unit @ TimeUnit::Microsecond) => {
            of::<TimestampMicrosecondType, _>(csv_type, time(unit))
        }
        CsvType::Timestamp(unit @ TimeUnit::Nanosecond) => {
            of::<TimestampNanosecondType, _>(csv_type, time(unit))
        }
        CsvType::Text => Box::new(Text(StringViewBuilder::new())),
    }
}

struct FixedSize<T: ArrowPrimitiveType, F> {
    builder: PrimitiveBuilder<T>,
    read: F,
}

impl<T, F> Column for FixedSize<T, F>
where
    T: ArrowPrimitiveType,
    F: Fn(&[u8]) -> Option<T::Native> + Send,
{
    fn append(&mut self, text: &[u8]) -> bool {
        let value = (self.read)(text.trim_ascii());
        if let Some(value) = value {
            self.builder.append_value(value);
        }
        value.is_some()
    }

    fn append_null(&mut self) {
        self.builder.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

struct Boolean(BooleanBuilder);

impl Column for Boolean {
    fn append(&mut self, text: &[u8]) -> bool {
        let value = values::boolean(text.trim_ascii());
        if let Some(value) = value {
            self.0.append_value(value);
        }
        value.is_some()
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

struct Text(StringViewBuilder);

impl Column for Text {
    fn append(&mut self, text: &[u8]) -> bool {
        let text = std::str::from_utf8(text);
        if let Ok(text) = text {
            self.0.append_value(text);
        }
        text.is_ok()
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}
