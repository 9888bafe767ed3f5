//! What can be wrong with a CSV file.

use std::fmt;
use std::path::PathBuf;

use super::records::RECORD_BYTES_MAX;

/// Why a CSV file cannot be read. Lines and columns are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),

    /// Input that cannot be read twice could not be copied.
    #[error(
        "copying the input into a temporary file in {folder} failed: {source} (hint: TMPDIR names another folder; with a schema no copy is made)"
    )]
    Copy {
        /// The folder of temporary files.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },

    /// The file has no line at all.
    #[error("the file is empty, expected a line of column names")]
    NoHeader,

    /// The file has neither column names nor rows, and no schema is given.
    #[error("the file is empty, so it has no columns (hint: give a schema)")]
    NoColumns,

    /// The file has more columns than a table may have.
    #[error("line {line} has {found} fields, and a table has at most {most} columns")]
    TooManyColumns {
        /// The line.
        line: u64,
        /// Its fields.
        found: usize,
        /// The most columns of a table.
        most: usize,
    },

    /// A column's name in the header is empty.
    #[error("line {line}: column {column} has no name (hint: name it there or in a schema)")]
    EmptyName {
        /// The line of the header.
        line: u64,
        /// The column.
        column: usize,
    },

    /// Two columns have the same name.
    #[error(
        "line {line}: columns {first} and {second} are both named `{name}` (hint: rename one there or in a schema)"
    )]
    DuplicateName {
        /// The line of the header.
        line: u64,
        /// The name.
        name: String,
        /// The first column of that name.
        first: usize,
        /// The second one.
        second: usize,
    },

    /// A column's name is not UTF-8.
    #[error("line {line}: the name of column {column} is not UTF-8: `{}`", Excerpt(.name))]
    NameEncoding {
        /// The line of the header.
        line: u64,
        /// The column.
        column: usize,
        /// The name.
        name: Vec<u8>,
    },

    /// The schema names another count of columns than the file has.
    #[error("line {line} has {}, and the schema has {}", Count(*.found, "field"), Count(*.expected, "column"))]
    SchemaWidth {
        /// The line of the header, or of the first row.
        line: u64,
        /// Its fields.
        found: usize,
        /// The schema's columns.
        expected: usize,
    },

    /// The schema and the header name the same column at different places.
    #[error(
        "line {line}: `{name}` is column {found}, and the schema has it as column {expected} (hint: list the columns in the order of the file)"
    )]
    SchemaOrder {
        /// The line of the header.
        line: u64,
        /// The column's name.
        name: String,
        /// Its place in the header.
        found: usize,
        /// Its place in the schema.
        expected: usize,
    },

    /// A record has more or fewer fields than there are columns.
    #[error("line {line} has {}, expected {expected}", Count(*.found, "field"))]
    FieldCount {
        /// The line that the record begins on.
        line: u64,
        /// Its fields.
        found: usize,
        /// The file's columns.
        expected: usize,
    },

    /// The file ends within quotes.
    #[error("line {line}: the quote that opens here is not closed")]
    UnclosedQuote {
        /// The line of the opening quote.
        line: u64,
    },

    /// A field goes on after its closing quote.
    #[error(
        "line {line}: text follows the closing quote of field {column} (hint: a quote within a quoted field is written twice)"
    )]
    TextAfterQuote {
        /// The line of the closing quote.
        line: u64,
        /// The field's column.
        column: usize,
    },

    /// A record is too long to be kept in memory.
    #[error("line {line}: the record that begins here is longer than {} MiB (hint: a quote may not be closed)", RECORD_BYTES_MAX >> 20)]
    RecordTooLong {
        /// The line that the record begins on.
        line: u64,
    },

    /// A value is none of its column's type.
    #[error("line {line}, column `{column}`: `{}` is not {expected}", Excerpt(.value))]
    Misfit {
        /// The line that the field begins on.
        line: u64,
        /// The column's name.
        column: String,
        /// The value.
        value: Vec<u8>,
        /// The column's type, and what its values look like.
        expected: String,
    },

    /// A column that the schema says `not null` of has no value.
    #[error("line {line}, column `{column}`: no value, and the schema says `not null`")]
    UnexpectedNull {
        /// The line that the field begins on.
        line: u64,
        /// The column's name.
        column: String,
    },

    /// The batches could not be made.
    #[error(transparent)]
    Arrow(#[from] datafusion::arrow::error::ArrowError),
}

/// Characters of a value that a message shows.
const EXCERPT_CHARS: usize = 60;

/// The beginning of a value, on one line.
struct Excerpt<'a>(&'a [u8]);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No character has more than 4 bytes.
        let is_long = self.0.len() > EXCERPT_CHARS * 4;
        let head = self.0.get(..EXCERPT_CHARS * 4).unwrap_or(self.0);
        let text = String::from_utf8_lossy(head);
        for character in text.chars().take(EXCERPT_CHARS) {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        if is_long || text.chars().nth(EXCERPT_CHARS).is_some() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

/// A count and what is counted.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == 1 { "" } else { "s" })
    }
}
