//! Constants, parameters and sums in statements on single rows, as values of columns.
//!
//! A value is taken where it is one of the column exactly, so that no rule of SQL's conversions is repeated here: every other
//! statement goes to DataFusion.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use moirai_tables::Datum;

use crate::tables::prepared::parameter;

/// Digits that a number of 128 bits always has.
const DIGITS_MAX: u32 = 38;

/// The constant that an expression is.
pub(crate) fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            ScalarValue::Int64(Some(number)) => Some(ScalarValue::Int64(Some(-number))),
            ScalarValue::Decimal128(Some(number), precision, scale) => {
                Some(ScalarValue::Decimal128(Some(-number), precision, scale))
            }
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Number(text, false) => number(text),
            Value::SingleQuotedString(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
            Value::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
            Value::Null => Some(ScalarValue::Null),
            _ => None,
        },
        _ => None,
    }
}

fn number(text: &str) -> Option<ScalarValue> {
    if let Ok(number) = text.parse() {
        return Some(ScalarValue::Int64(Some(number)));
    }
    let (whole, fraction) = text.split_once('.')?;
    let digits = format!("{whole}{fraction}");
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty();
    if !is_plain || digits.len() > DIGITS_MAX as usize {
        return None;
    }
    Some(ScalarValue::Decimal128(
        Some(digits.parse().ok()?),
        digits.len() as u8,
        fraction.len() as i8,
    ))
}

/// The digits behind the point of numbers of a type; `None` for types that are no exact numbers.
pub(crate) fn scale_of(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => u32::try_from(*scale).ok(),
        _ if data_type.is_integer() => Some(0),
        _ => None,
    }
}

/// Whether a column of this type can have a number, which is written without its point.
fn has_range(number: i128, data_type: &DataType) -> bool {
    let digits = |precision: u8| number.unsigned_abs() < 10_u128.pow(precision.into());
    match data_type {
        DataType::Int8 => i8::try_from(number).is_ok(),
        DataType::Int16 => i16::try_from(number).is_ok(),
        DataType::Int32 => i32::try_from(number).is_ok(),
        DataType::Int64 => i64::try_from(number).is_ok(),
        DataType::UInt8 => u8::try_from(number).is_ok(),
        DataType::UInt16 => u16::try_from(number).is_ok(),
        DataType::UInt32 => u32::try_from(number).is_ok(),
        DataType::UInt64 => u64::try_from(number).is_ok(),
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _) => {
            u32::from(*precision) <= DIGITS_MAX && digits(*precision)
        }
        _ => false,
    }
}

/// A number with `from` digits behind the point, with `to` of them.
fn rescaled(number: i128, from: u32, to: u32) -> Option<i128> {
    match from <= to {
        true => number.checked_mul(10_i128.checked_pow(to - from)?),
        false => {
            let unit = 10_i128.checked_pow(from - to)?;
            (number % unit == 0).then_some(number / unit)
        }
    }
}

/// An integer or a decimal, and how many of its digits are behind the point.
fn exact_number(value: &ScalarValue) -> Option<(i128, u32)> {
    let integer = match *value {
        ScalarValue::Int8(number) => number.map(i128::from),
        ScalarValue::Int16(number) => number.map(i128::from),
        ScalarValue::Int32(number) => number.map(i128::from),
        ScalarValue::Int64(number) => number.map(i128::from),
        ScalarValue::UInt8(number) => number.map(i128::from),
        ScalarValue::UInt16(number) => number.map(i128::from),
        ScalarValue::UInt32(number) => number.map(i128::from),
        ScalarValue::UInt64(number) => number.map(i128::from),
        ScalarValue::Decimal128(number, _, scale) => {
            return Some((number?, u32::try_from(scale).ok()?));
        }
        _ => None,
    };
    Some((integer?, 0))
}

/// A constant as a column of this type has it, if it is a value of the column as it is.
pub(crate) fn datum(value: &ScalarValue, data_type: &DataType) -> Option<Datum> {
    if value.is_null() {
        return Some(Datum::Null);
    }
    match (value, data_type) {
        (
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            DataType::Utf8View,
        ) => Some(Datum::Bytes(text.clone().into_bytes())),
        (
            ScalarValue::Binary(Some(bytes))
            | ScalarValue::BinaryView(Some(bytes))
            | ScalarValue::LargeBinary(Some(bytes)),
            DataType::BinaryView,
        ) => Some(Datum::Bytes(bytes.clone())),
        (ScalarValue::Boolean(Some(value)), DataType::Boolean) => {
            Some(Datum::Number((*value).into()))
        }
        (ScalarValue::Date32(Some(days)), DataType::Date32) => Some(Datum::Number((*days).into())),
        (
            ScalarValue::TimestampSecond(Some(time), _)
            | ScalarValue::TimestampMillisecond(Some(time), _)
            | ScalarValue::TimestampMicrosecond(Some(time), _)
            | ScalarValue::TimestampNanosecond(Some(time), _),
            of,
        ) if value.data_type() == *of => Some(Datum::Number((*time).into())),
        _ => {
            let (number, from) = exact_number(value)?;
            let number = rescaled(number, from, scale_of(data_type)?)?;
            has_range(number, data_type).then_some(Datum::Number(number))
        }
    }
}

/// What a statement compares a column with, or assigns to it.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Constant(ScalarValue),
    /// The parameter of this place.
    Parameter(usize),
}

impl Operand {
    pub(crate) fn of(expr: &Expr) -> Option<Operand> {
        if let Expr::Nested(inner) = expr {
            return Operand::of(inner);
        }
        match parameter(expr) {
            Some(number) => Some(Operand::Parameter(number - 1)),
            None => constant(expr).map(Operand::Constant),
        }
    }

    fn value<'v>(&'v self, parameters: &'v [ScalarValue]) -> Option<&'v ScalarValue> {
        match self {
            Operand::Constant(value) => Some(value),
            Operand::Parameter(place) => parameters.get(*place),
        }
    }

    /// Whether it is an integer.
    pub(crate) fn is_integer(&self, parameters: &[ScalarValue]) -> bool {
        self.value(parameters).is_some_and(|value| value.data_type().is_integer())
    }

    /// As a column of this type has it.
    pub(crate) fn datum(&self, parameters: &[ScalarValue], data_type: &DataType) -> Option<Datum> {
        datum(self.value(parameters)?, data_type)
    }
}

/// What a column is set to.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    Operand(Operand),
    /// A column of the row, with its type.
    Column(usize, DataType),
    Sum(Box<Term>, Box<Term>),
    Difference(Box<Term>, Box<Term>),
}

/// An intermediate result that may be outside of what DataFusion computes with.
const NOT_HERE: Option<Datum> = None;

impl Term {
    /// The term that an expression is: an operand, or sums and differences of operands and columns with exact numbers.
    pub(crate) fn of(
        expr: &Expr,
        column: &impl Fn(&Expr) -> Option<(usize, DataType)>,
    ) -> Option<Term> {
        if let Some(operand) = Operand::of(expr) {
            return Some(Term::Operand(operand));
        }
        match expr {
            Expr::Nested(inner) => Term::of(inner, column),
            Expr::BinaryOp { left, op, right } => {
                let sides = (Box::new(Term::of(left, column)?), Box::new(Term::of(right, column)?));
                match op {
                    BinaryOperator::Plus => Some(Term::Sum(sides.0, sides.1)),
                    BinaryOperator::Minus => Some(Term::Difference(sides.0, sides.1)),
                    _ => None,
                }
            }
            other => {
                let (column, data_type) = column(other)?;
                let is_signed = data_type.is_signed_integer() || data_type.is_decimal();
                (is_signed && scale_of(&data_type).is_some())
                    .then_some(Term::Column(column, data_type))
            }
        }
    }

    /// The value for a column of this type, of a row with all columns; `None` where DataFusion is to say what it is, or why there is none.
    pub(crate) fn datum(
        &self,
        parameters: &[ScalarValue],
        row: &[Datum],
        data_type: &DataType,
    ) -> Option<Datum> {
        if let Term::Operand(operand) = self {
            return operand.datum(parameters, data_type);
        }
        let scale = scale_of(data_type)?;
        match self.number(parameters, row, scale)? {
            Some(number) if has_range(number, data_type) => Some(Datum::Number(number)),
            Some(_) => NOT_HERE,
            None => Some(Datum::Null),
        }
    }

    /// Whether it is of this type whatever the row has, which may be missing.
    pub(crate) fn is_of(&self, parameters: &[ScalarValue], data_type: &DataType) -> bool {
        match (self, scale_of(data_type)) {
            (Term::Operand(operand), _) => operand.datum(parameters, data_type).is_some(),
            (_, None) => false,
            (Term::Column(..), Some(_)) => true,
            (Term::Sum(..) | Term::Difference(..), Some(scale)) => {
                self.is_sum(parameters, scale) && self.is_wide(parameters)
            }
        }
    }

    /// Whether all operands are numbers with at most so many digits behind the point, and no sum is narrower than 64 bits: DataFusion
    /// refuses one that is too large for its type, also where the column that gets it is wider.
    fn is_sum(&self, parameters: &[ScalarValue], scale: u32) -> bool {
        match self {
            Term::Column(..) => true,
            Term::Operand(operand) => {
                let number = operand.value(parameters).and_then(exact_number);
                number.is_some_and(|(number, from)| rescaled(number, from, scale).is_some())
            }
            Term::Sum(left, right) | Term::Difference(left, right) => {
                self.is_wide(parameters)
                    && left.is_sum(parameters, scale)
                    && right.is_sum(parameters, scale)
            }
        }
    }

    /// Whether it is computed with 64 bits or more.
    fn is_wide(&self, parameters: &[ScalarValue]) -> bool {
        let is_wide = |of: &DataType| *of == DataType::Int64 || of.is_decimal();
        match self {
            Term::Column(_, of) => is_wide(of),
            Term::Operand(operand) => {
                operand.value(parameters).is_some_and(|value| is_wide(&value.data_type()))
            }
            Term::Sum(left, right) | Term::Difference(left, right) => {
                left.is_wide(parameters) || right.is_wide(parameters)
            }
        }
    }

    /// The number with so many digits behind the point; nothing for a null.
    fn number(
        &self,
        parameters: &[ScalarValue],
        row: &[Datum],
        scale: u32,
    ) -> Option<Option<i128>> {
        let both = |left: &Term, right: &Term, act: fn(i128, i128) -> Option<i128>| {
            let sides =
                (left.number(parameters, row, scale)?, right.number(parameters, row, scale)?);
            let (Some(left), Some(right)) = sides else { return Some(None) };
            let number = act(left, right)?;
            // DataFusion refuses it where it is beyond its type.
            i64::try_from(number).ok()?;
            Some(Some(number))
        };
        match self {
            Term::Operand(operand) => {
                let value = operand.value(parameters)?;
                if value.is_null() {
                    return Some(None);
                }
                let (number, from) = exact_number(value)?;
                Some(Some(rescaled(number, from, scale)?))
            }
            Term::Column(column, of) => match row.get(*column)? {
                Datum::Null => Some(None),
                Datum::Number(number) => Some(Some(rescaled(*number, scale_of(of)?, scale)?)),
                Datum::Bytes(_) => None,
            },
            Term::Sum(left, right) => both(left, right, i128::checked_add),
            Term::Difference(left, right) => both(left, right, i128::checked_sub),
        }
    }
}
