//! The types of CSV columns, and schemas that are given as text.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};

/// The type of a CSV column. Tables hold values of each of them.
///
/// A word for a type means the same as in a statement, except `timestamp`: values in nanoseconds end
/// in the year 2262, so that a plain `timestamp` counts microseconds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvType {
    /// An integer of 1 byte.
    Tinyint,
    /// An integer of 2 bytes.
    Smallint,
    /// An integer of 4 bytes.
    Integer,
    /// An integer of 8 bytes.
    Bigint,
    /// A floating-point number of 4 bytes.
    Real,
    /// A floating-point number of 8 bytes.
    Double,
    /// A decimal number of at most 38 digits.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// True or false.
    Boolean,
    /// A date.
    Date,
    /// A time without zone, in units of this length.
    Timestamp(TimeUnit),
    /// Text.
    Text,
}

/// The words for types, as messages list them.
const TYPE_WORDS: &str = "tinyint, smallint, integer, bigint, real, double, decimal(PRECISION,SCALE), boolean, date, \
     timestamp, timestamp(0|3|6|9), text";

const DECIMAL_PRECISION_MAX: u8 = 38;

impl CsvType {
    /// The Arrow type of the column's values.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            CsvType::Tinyint => DataType::Int8,
            CsvType::Smallint => DataType::Int16,
            CsvType::Integer => DataType::Int32,
            CsvType::Bigint => DataType::Int64,
            CsvType::Real => DataType::Float32,
            CsvType::Double => DataType::Float64,
            CsvType::Decimal { precision, scale } => {
                DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            CsvType::Boolean => DataType::Boolean,
            CsvType::Date => DataType::Date32,
            CsvType::Timestamp(unit) => DataType::Timestamp(unit, None),
            CsvType::Text => DataType::Utf8View,
        }
    }

    /// The type with its article, and what its values look like.
    pub(super) fn expectation(self) -> String {
        let integer = |low: i64, high: i64| format!("a {self}, an integer from {low} to {high}");
        match self {
            CsvType::Tinyint => integer(i8::MIN.into(), i8::MAX.into()),
            CsvType::Smallint => integer(i16::MIN.into(), i16::MAX.into()),
            CsvType::Integer => format!("an integer from {} to {}", i32::MIN, i32::MAX),
            CsvType::Bigint => "a bigint, a signed integer of 64 bits".to_owned(),
            CsvType::Real | CsvType::Double => format!("a {self}, a number such as -1.5 or 2e9"),
            CsvType::Decimal { precision, scale } => format!(
                "a {self}, a number of up to {} digits before the point and {scale} after it",
                precision.saturating_sub(scale)
            ),
            CsvType::Boolean => "a boolean, true or false".to_owned(),
            CsvType::Date => "a date, YYYY-MM-DD".to_owned(),
            CsvType::Timestamp(unit) => {
                let fraction = match unit {
                    TimeUnit::Second => "",
                    TimeUnit::Millisecond => ".mmm",
                    TimeUnit::Microsecond => ".uuuuuu",
                    TimeUnit::Nanosecond => ".nnnnnnnnn, from 1677-09-22 to 2262-04-11",
                };
                format!("a {self}, YYYY-MM-DD HH:MM:SS{fraction}")
            }
            CsvType::Text => "text in UTF-8".to_owned(),
        }
    }
}

impl fmt::Display for CsvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CsvType::Tinyint => "tinyint",
            CsvType::Smallint => "smallint",
            CsvType::Integer => "integer",
            CsvType::Bigint => "bigint",
            CsvType::Real => "real",
            CsvType::Double => "double",
            CsvType::Decimal { precision, scale } => {
                return write!(f, "decimal({precision},{scale})");
            }
            CsvType::Boolean => "boolean",
            CsvType::Date => "date",
            CsvType::Timestamp(TimeUnit::Second) => "timestamp(0)",
            CsvType::Timestamp(TimeUnit::Millisecond) => "timestamp(3)",
            CsvType::Timestamp(TimeUnit::Microsecond) => "timestamp",
            CsvType::Timestamp(TimeUnit::Nanosecond) => "timestamp(9)",
            CsvType::Text => "text",
        })
    }
}

impl FromStr for CsvType {
    type Err = String;

    /// The type that `text` names, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not a type (the types are {TYPE_WORDS})");
        let lower = text.to_ascii_lowercase();
        let (word, arguments) = match lower.split_once('(') {
            Some((word, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(unknown)?;
                let numbers = inner.split(',').map(|number| number.trim().parse::<u8>());
                (word, numbers.collect::<Result<Vec<u8>, _>>().map_err(|_| unknown())?)
            }
            None => (lower.as_str(), Vec::new()),
        };
        let words: Vec<&str> = word.split_whitespace().collect();
        Ok(match (words.join(" ").as_str(), arguments.as_slice()) {
            ("tinyint" | "int1", []) => CsvType::Tinyint,
            ("smallint" | "int2", []) => CsvType::Smallint,
            ("int" | "integer" | "int4", []) => CsvType::Integer,
            ("bigint" | "int8", []) => CsvType::Bigint,
            ("real" | "float" | "float4", []) => CsvType::Real,
            ("double" | "double precision" | "float8", []) => CsvType::Double,
            ("decimal" | "numeric", [precision]) => decimal_type(*precision, 0)?,
            ("decimal" | "numeric", [precision, scale]) => decimal_type(*precision, *scale)?,
            ("decimal" | "numeric", []) => {
                return Err(format!(
                    "`{text}` needs its digits in all and after the point, such as decimal(15,2)"
                ));
            }
            ("boolean" | "bool", []) => CsvType::Boolean,
            ("date", []) => CsvType::Date,
            ("timestamp", [] | [6]) => CsvType::Timestamp(TimeUnit::Microsecond),
            ("timestamp", [0]) => CsvType::Timestamp(TimeUnit::Second),
            ("timestamp", [3]) => CsvType::Timestamp(TimeUnit::Millisecond),
            ("timestamp", [9]) => CsvType::Timestamp(TimeUnit::Nanosecond),
            ("text" | "varchar" | "string", []) => CsvType::Text,
            _ => return Err(unknown()),
        })
    }
}

fn decimal_type(precision: u8, scale: u8) -> Result<CsvType, String> {
    if !(1..=DECIMAL_PRECISION_MAX).contains(&precision) || scale > precision {
        return Err(format!(
            "decimal({precision},{scale}) does not exist: a decimal has 1 to {DECIMAL_PRECISION_MAX} \
             digits, and no more after the point than in all"
        ));
    }
    Ok(CsvType::Decimal { precision, scale })
}

/// A column of a [`CsvSchema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumn {
    /// The column's name.
    pub name: String,
    /// The type of the column's values.
    pub csv_type: CsvType,
    /// Whether the column may have NULLs.
    pub is_nullable: bool,
}

/// The names and types of a CSV file's columns, in the order of the file.
///
/// As text a schema is `NAME:TYPE,NAME:TYPE not null,...`. A name has no comma and no quote; its case
/// counts. The case of a type does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvSchema {
    columns: Vec<CsvColumn>,
}

impl CsvSchema {
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[CsvColumn] {
        &self.columns
    }

    pub(crate) fn of(columns: Vec<CsvColumn>) -> CsvSchema {
        CsvSchema { columns }
    }

    /// The schema of the batches.
    pub(super) fn arrow(&self) -> Schema {
        let field = |column: &CsvColumn| {
            Field::new(&column.name, column.csv_type.arrow(), column.is_nullable)
        };
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }
}

impl FromStr for CsvSchema {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut names = BTreeSet::new();
        let mut columns = Vec::new();
        for part in split_outside_parentheses(text) {
            let column = column_of(part.trim())?;
            if !names.insert(column.name.clone()) {
                return Err(format!("the schema names column `{}` twice", column.name));
            }
            columns.push(column);
        }
        Ok(CsvSchema { columns })
    }
}

/// The column that `part`, a `NAME:TYPE`, describes.
fn column_of(part: &str) -> Result<CsvColumn, String> {
    let (name, described) = part
        .rsplit_once(':')
        .ok_or_else(|| format!("`{part}` is not NAME:TYPE (the types are {TYPE_WORDS})"))?;
    let name = name.trim();
    if name.is_empty() {
        return Err(format!("`{part}` names no column, expected NAME:TYPE"));
    }
    if name.contains('"') {
        return Err(format!("column name {name}: write the name without quotes"));
    }
    let words: Vec<&str> = described.split_whitespace().collect();
    let (words, is_nullable) = match words.as_slice() {
        [words @ .., not, null]
            if not.eq_ignore_ascii_case("not") && null.eq_ignore_ascii_case("null") =>
        {
            (words, false)
        }
        words => (words, true),
    };
    let csv_type =
        words.join(" ").parse().map_err(|problem| format!("column `{name}`: {problem}"))?;
    Ok(CsvColumn { name: name.to_owned(), csv_type, is_nullable })
}

/// The parts of `text` between commas, where those in parentheses do not count.
fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i64;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth <= 0
    })
}

#[cfg(test)]
mod tests {
    use moirai::store::AttributeType;

    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        let schema: CsvSchema = text.parse()?;
        let column = |column: &CsvColumn| {
            let null = if column.is_nullable { "" } else { " not null" };
            format!("{}={}{null}", column.name, column.csv_type)
        };
        Ok(schema.columns().iter().map(column).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn schemas_parse() {
        let check = |text: &str, expected: &str| assert_eq!(parsed(text).as_deref(), Ok(expected));
        check("a:bigint", "a=bigint");
        check("a:BIGINT NOT  NULL , b : Text", "a=bigint not null b=text");
        check("a:decimal(15, 2),b:numeric (3) not null", "a=decimal(15,2) b=decimal(3,0) not null");
        check(
            "a:int,b:int8,c:int1,d:int2,e:int4",
            "a=integer b=bigint c=tinyint d=smallint e=integer",
        );
        check("a:float,b:float8,c:double  precision", "a=real b=double c=double");
        check(
            "a:timestamp,b:timestamp(0),c:timestamp(9)",
            "a=timestamp b=timestamp(0) c=timestamp(9)",
        );
        check("a:varchar,b:string,c:date", "a=text b=text c=date");
        check("a:bool,b:BOOLEAN", "a=boolean b=boolean");
        check("x:y:date", "x:y=date");
    }

    #[test]
    fn wrong_schemas_say_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let found = parsed(text).unwrap_err();
            assert!(found.starts_with(expected), "{text}: {found}");
        };
        let types = format!("(the types are {TYPE_WORDS})");
        check("a:blob", &format!("column `a`: `blob` is not a type {types}"));
        check("a:", &format!("column `a`: `` is not a type {types}"));
        check("a", &format!("`a` is not NAME:TYPE {types}"));
        check("", &format!("`` is not NAME:TYPE {types}"));
        check("a:int,", &format!("`` is not NAME:TYPE {types}"));
        check(":int", "`:int` names no column, expected NAME:TYPE");
        check("\"a\":int", "column name \"a\": write the name without quotes");
        check("a:int,a:text", "the schema names column `a` twice");
        check("a:decimal", "column `a`: `decimal` needs its digits");
        check("a:decimal(39,0)", "column `a`: decimal(39,0) does not exist: a decimal has 1 to 38");
        check("a:decimal(0)", "column `a`: decimal(0,0) does not exist");
        check("a:decimal(3,4)", "column `a`: decimal(3,4) does not exist");
        check("a:decimal(3,4", "column `a`: `decimal(3,4` is not a type");
        check("a:decimal(1,2,3)", "column `a`: `decimal(1,2,3)` is not a type");
        check("a:varchar(20)", "column `a`: `varchar(20)` is not a type");
        check("a:int8(4)", "column `a`: `int8(4)` is not a type");
    }

    #[test]
    fn tables_hold_every_type() {
        for text in [
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "real",
            "double",
            "decimal(1,0)",
            "decimal(38,38)",
            "date",
            "timestamp(0)",
            "timestamp(3)",
            "timestamp",
            "timestamp(9)",
            "text",
        ] {
            let csv_type: CsvType = text.parse().unwrap();
            assert_eq!(csv_type.to_string(), text);
            assert!(AttributeType::of(&csv_type.arrow()).is_some(), "{text}");
        }
    }
}
