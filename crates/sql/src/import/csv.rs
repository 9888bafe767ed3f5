//! Reading CSV files.
//!
//! Without a schema a file is read twice: first to tell the columns' types from all values, then for
//! the rows. Input that cannot be read twice, such as a pipe, is copied into a temporary file first.
//! With a schema a file is read once. Neither keeps more than one batch of rows in memory.
//!
//! A column's type is the first of bigint, double, boolean, date, timestamp and text that all its values fit.
//! A column without values is text. As in DuckDB, `007` is a bigint and an integer beyond 64 bits is
//! a double. `true` and `false`, in any case, are booleans.

mod columns;
mod error;
mod records;
mod schema;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use moirai_tables::COLUMNS_MAX;

use self::columns::{Column, column};
pub use self::error::CsvError;
use self::records::{Field, Record, Records};
pub use self::schema::{CsvColumn, CsvSchema, CsvType};
use self::values::Fit;
use super::{BATCH_ROWS, Import};
use crate::Error;

/// The bytes of text after which a batch ends, when it has fewer than [`BATCH_ROWS`] rows.
const BATCH_BYTES: usize = 16 << 20;

/// How a CSV file is written, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// The byte between fields.
    pub delimiter: CsvDelimiter,
    /// Whether the first line names the columns. Without a header and without a schema they are
    /// `column_1`, `column_2` and so on.
    pub has_header: bool,
    /// A text that stands for NULL, as the empty text always does.
    ///
    /// In quotes both are values of a text column, and NULL in a column of another type.
    pub null: Option<String>,
    /// The columns' names and types; told from the file if `None`.
    ///
    /// The names replace those of the header. A name that the header has for another column is an
    /// error, as is another count of columns.
    pub schema: Option<CsvSchema>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            delimiter: CsvDelimiter::default(),
            has_header: true,
            null: None,
            schema: None,
        }
    }
}

/// The byte between the fields of a CSV file: any ASCII character, but no quote and no line break.
///
/// As text a delimiter is the character, or `\t` or `tab` for a tabulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvDelimiter(u8);

impl CsvDelimiter {
    /// The delimiter `byte`, if it can be one.
    #[must_use]
    pub fn new(byte: u8) -> Option<CsvDelimiter> {
        let can_delimit = byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r');
        can_delimit.then_some(CsvDelimiter(byte))
    }

    /// The byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        self.0
    }
}

impl Default for CsvDelimiter {
    fn default() -> Self {
        CsvDelimiter(b',')
    }
}

impl FromStr for CsvDelimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = match text.as_bytes() {
            [byte] => Some(*byte),
            b"\\t" | b"tab" => Some(b'\t'),
            _ => None,
        };
        byte.and_then(CsvDelimiter::new).ok_or_else(|| {
            format!(
                "`{}` is not a delimiter, expected one ASCII character other than a quote or a line break, or `tab`",
                text.escape_default()
            )
        })
    }
}

impl fmt::Display for CsvDelimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\t' => f.write_str("tab"),
            byte => write!(f, "{}", char::from(byte)),
        }
    }
}

/// Opens a CSV file; `-` is standard input.
///
/// # Errors
///
/// Without a schema this reads the whole file and reports each line that cannot be read. With a schema
/// it reports what is wrong with the header only, and the batches report the rest.
pub fn read_csv(path: &Path, options: &CsvOptions) -> crate::Result<Import> {
    if path == Path::new("-") {
        let path = Path::new("standard input");
        return open(path, Input::Stream(Box::new(io::stdin())), options);
    }
    let input = input_of(path).map_err(|error| failure(path, error.into()))?;
    open(path, input, options)
}

/// Opens a CSV file whose columns have the names of its header, if it has one, and the types that `schema_of` gives.
///
/// # Errors
/// As of [`read_csv`] with a schema, and those of `schema_of`.
pub(crate) fn read_csv_as(
    path: &Path,
    mut options: CsvOptions,
    schema_of: impl FnOnce(Option<Vec<String>>) -> crate::Result<CsvSchema>,
) -> crate::Result<Import> {
    let failed = |problem| failure(path, problem);
    let mut names = None;
    let input = match input_of(path).map_err(|error| failed(error.into()))? {
        Input::File(mut file) => {
            if options.has_header {
                let records = Records::new(&file, options.delimiter.0);
                let mut records = records.map_err(|error| failed(error.into()))?;
                let header = records.next().map_err(failed)?.ok_or(CsvError::NoHeader);
                names = Some(header.and_then(names_of).map_err(failed)?);
                file.rewind().map_err(|error| failed(error.into()))?;
            }
            Input::File(file)
        }
        stream => stream,
    };
    options.schema = Some(schema_of(names)?);
    open(path, input, &options)
}

/// What CSV text is read from.
enum Input {
    /// A file that can be read again from its start.
    File(File),
    /// What can be read once.
    Stream(Box<dyn Read + Send>),
}

fn input_of(path: &Path) -> io::Result<Input> {
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(if kind.is_file() { Input::File(file) } else { Input::Stream(Box::new(file)) })
}

fn failure(path: &Path, problem: CsvError) -> Error {
    Error::Csv { path: path.to_owned(), problem }
}

fn open(path: &Path, input: Input, options: &CsvOptions) -> crate::Result<Import> {
    let opened = match &options.schema {
        Some(schema) => {
            let input: Box<dyn Read + Send> = match input {
                Input::File(file) => Box::new(file),
                Input::Stream(stream) => stream,
            };
            Rows::open(path, input, schema, true, options).map(|rows| (rows, None))
        }
        None => open_without_schema(path, input, options),
    };
    let (batches, rows) = opened.map_err(|problem| failure(path, problem))?;
    Ok(Import { schema: Arc::clone(&batches.schema), rows, batches: Box::new(batches) })
}

fn open_without_schema(
    path: &Path,
    input: Input,
    options: &CsvOptions,
) -> Result<(Rows, Option<u64>), CsvError> {
    let mut file = match input {
        Input::File(file) => file,
        Input::Stream(mut stream) => {
            let copy = |stream: &mut dyn Read| {
                let mut file = tempfile::tempfile()?;
                io::copy(stream, &mut file)?;
                file.rewind()?;
                Ok(file)
            };
            copy(&mut stream)
                .map_err(|source| CsvError::Copy { folder: std::env::temp_dir(), source })?
        }
    };
    let (schema, rows) = infer(&file, options)?;
    file.rewind()?;
    Ok((Rows::open(path, Box::new(file), &schema, false, options)?, Some(rows)))
}

/// The columns of a file with the narrowest types that all values fit, and the count of rows.
fn infer(file: &File, options: &CsvOptions) -> Result<(CsvSchema, u64), CsvError> {
    let mut records = Records::new(file, options.delimiter.0)?;
    let mut columns = Vec::new();
    if options.has_header {
        let header = records.next()?.ok_or(CsvError::NoHeader)?;
        columns.extend(names_of(header)?.into_iter().map(|name| (name, Fit::ALL)));
    }
    let mut rows = 0;
    while let Some(record) = records.next()? {
        if columns.is_empty() {
            check_column_count(record)?;
            let names = (1..=record.field_count()).map(|number| format!("column_{number}"));
            columns.extend(names.map(|name| (name, Fit::ALL)));
        }
        for ((name, fit), field) in columns.iter_mut().zip(record.fields()) {
            if !stands_for_null(field, options) {
                let found = Fit::of(field.value, *fit);
                *fit = found.ok_or_else(|| misfit(field, name, CsvType::Text))?;
            }
        }
        rows += 1;
    }
    if columns.is_empty() {
        return Err(CsvError::NoColumns);
    }
    let column = |(name, fit): (String, Fit)| CsvColumn {
        name,
        csv_type: fit.csv_type(),
        is_nullable: true,
    };
    Ok((CsvSchema::of(columns.into_iter().map(column).collect()), rows))
}

fn stands_for_null(field: Field<'_>, options: &CsvOptions) -> bool {
    let null = options.null.as_ref();
    field.value.is_empty() || null.is_some_and(|null| null.as_bytes() == field.value)
}

fn misfit(field: Field<'_>, column: &str, csv_type: CsvType) -> CsvError {
    CsvError::Misfit {
        line: field.line,
        column: column.to_owned(),
        value: field.value.to_owned(),
        expected: csv_type.expectation(),
    }
}

fn check_column_count(record: &Record) -> Result<(), CsvError> {
    let found = record.field_count();
    if found > COLUMNS_MAX {
        return Err(CsvError::TooManyColumns { line: record.line, found, most: COLUMNS_MAX });
    }
    Ok(())
}

/// The names in a header: UTF-8, not empty, and each for one column.
fn names_of(header: &Record) -> Result<Vec<String>, CsvError> {
    check_column_count(header)?;
    let mut columns = BTreeMap::new();
    let mut names = Vec::new();
    for (field, column) in header.fields().zip(1..) {
        let line = field.line;
        let name = std::str::from_utf8(field.value).map_err(|_| CsvError::NameEncoding {
            line,
            column,
            name: field.value.to_owned(),
        })?;
        if name.is_empty() {
            return Err(CsvError::EmptyName { line, column });
        }
        if let Some(first) = columns.insert(name, column) {
            let name = name.to_owned();
            return Err(CsvError::DuplicateName { line, name, first, second: column });
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Checks a header against the schema that was given.
fn check_header(header: &Record, schema: &CsvSchema) -> Result<(), CsvError> {
    let (found, expected) = (header.field_count(), schema.columns().len());
    if found != expected {
        return Err(CsvError::SchemaWidth { line: header.line, found, expected });
    }
    let of_schema: BTreeMap<&[u8], usize> =
        schema.columns().iter().map(|column| column.name.as_bytes()).zip(1..).collect();
    for (field, found) in header.fields().zip(1..) {
        if let Some(&expected) = of_schema.get(field.value).filter(|&&place| place != found) {
            let name = String::from_utf8_lossy(field.value).into_owned();
            return Err(CsvError::SchemaOrder { line: field.line, name, found, expected });
        }
    }
    Ok(())
}

/// The rows of a CSV file, batch by batch. After an error there are no more.
struct Rows {
    path: PathBuf,
    schema: SchemaRef,
    records: Records<Box<dyn Read + Send>>,
    columns: Vec<(CsvColumn, Box<dyn Column>)>,
    options: CsvOptions,
    is_done: bool,
}

impl Rows {
    /// The rows of `input`, whose columns are those of `schema`. A schema that was given rather than
    /// inferred is checked against the header.
    fn open(
        path: &Path,
        input: Box<dyn Read + Send>,
        schema: &CsvSchema,
        is_given: bool,
        options: &CsvOptions,
    ) -> Result<Rows, CsvError> {
        let mut records = Records::new(input, options.delimiter.0)?;
        if options.has_header {
            let header = records.next()?.ok_or(CsvError::NoHeader)?;
            if is_given {
                check_header(header, schema)?;
            }
        } else if is_given {
            records.expect_width(schema.columns().len());
            // A wrong count is reported before the first batch, as that of a header is.
            records.peek().map_err(|problem| match problem {
                CsvError::FieldCount { line, found, expected } => {
                    CsvError::SchemaWidth { line, found, expected }
                }
                other => other,
            })?;
        }
        let columns = schema.columns().iter().map(|c| (c.clone(), column(c.csv_type)));
        Ok(Rows {
            path: path.to_owned(),
            schema: Arc::new(schema.arrow()),
            records,
            columns: columns.collect(),
            options: options.clone(),
            is_done: false,
        })
    }

    /// The next batch; `None` if there are no more rows.
    fn read(&mut self) -> Result<Option<RecordBatch>, CsvError> {
        let Rows { records, columns, options, .. } = self;
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS
            && bytes < BATCH_BYTES
            && let Some(record) = records.next()?
        {
            for ((described, column), field) in columns.iter_mut().zip(record.fields()) {
                append(described, &mut **column, field, options)?;
            }
            rows += 1;
            bytes += record.size_bytes();
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays: Vec<ArrayRef> = columns.iter_mut().map(|(_, column)| column.finish()).collect();
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?))
    }
}

/// Appends the value or the NULL of `field`.
fn append(
    described: &CsvColumn,
    column: &mut dyn Column,
    field: Field<'_>,
    options: &CsvOptions,
) -> Result<(), CsvError> {
    let CsvColumn { name, csv_type, is_nullable } = described;
    let is_quoted_text = field.is_quoted && *csv_type == CsvType::Text;
    if stands_for_null(field, options) && !is_quoted_text {
        if !is_nullable {
            return Err(CsvError::UnexpectedNull { line: field.line, column: name.clone() });
        }
        column.append_null();
    } else if !column.append(field.value) {
        return Err(misfit(field, name, *csv_type));
    }
    Ok(())
}

impl Iterator for Rows {
    type Item = crate::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let batch = self.read().transpose();
        self.is_done = !matches!(batch, Some(Ok(_)));
        batch.map(|batch| batch.map_err(|problem| failure(&self.path, problem)))
    }
}

#[cfg(test)]
mod tests;
