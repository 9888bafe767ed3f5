//! Values on their way into a column of another type.

use std::sync::Arc;

use datafusion::arrow::array::types::{Float32Type, Float64Type};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field};

use crate::{Error, Result};

/// Types between which values go without being asked for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Null,
    Bool,
    Number,
    Text,
    Bytes,
    Time,
    Other,
}

fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Null => Class::Null,
        DataType::Boolean => Class::Bool,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Class::Bytes,
        DataType::Dictionary(_, values) => class(values),
        one if one.is_temporal() => Class::Time,
        one if one.is_numeric() => Class::Number,
        _ => Class::Other,
    }
}

/// Numbers without what is behind the point, rounded as PostgreSQL does.
fn rounded(
    array: &ArrayRef,
    options: &CastOptions<'_>,
) -> std::result::Result<ArrayRef, datafusion::arrow::error::ArrowError> {
    Ok(match array.data_type() {
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            Arc::new(numbers.unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>();
            Arc::new(numbers.unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Decimal128(..) => {
            cast_with_options(array, &DataType::Decimal128(38, 0), options)?
        }
        DataType::Decimal256(..) => {
            cast_with_options(array, &DataType::Decimal256(76, 0), options)?
        }
        _ => Arc::clone(array),
    })
}

/// An array as a column of table `table` has it.
///
/// # Errors
/// [`Error::Rows`] for values that the column cannot have, and types that are not of its kind.
pub(crate) fn cast_for(table: &str, field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), field.data_type());
    if from == to {
        return Ok(Arc::clone(array));
    }
    let refused = |why: String| {
        let is_of_range = why.contains("too large") || why.contains("Can't cast value");
        let sqlstate = if is_of_range { "22003" } else { "22P02" };
        let problem = format!("column `{}` of `{table}`: {why}", field.name());
        Err(Error::Rows { problem, sqlstate })
    };
    let (of_from, of_to) = (class(from), class(to));
    let is_like =
        of_from == of_to || matches!(of_from, Class::Null | Class::Text) || of_to == Class::Text;
    if !is_like {
        return refused(format!("it is of {to}, and {from} is given: cast it"));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = match of_from == Class::Number && to.is_integer() {
        true => rounded(array, &options).and_then(|array| cast_with_options(&array, to, &options)),
        false => cast_with_options(array, to, &options),
    };
    cast.or_else(|error| refused(error.to_string()))
}
