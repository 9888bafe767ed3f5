//! Answers as people and programs read them.

mod table;

use std::io::Write;
use std::str::FromStr;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::WriterBuilder as JsonWriterBuilder;
use datafusion::arrow::json::writer::{JsonArray, Writer as JsonWriter};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use unicode_width::UnicodeWidthStr;

use self::table::TableWriter;
use crate::{Error, Result};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// A table with lines.
    #[default]
    Table,
    /// Comma-separated values under a line of names; nulls are empty, and empty texts in quotes.
    Csv,
    /// An array of objects; nulls are `null`.
    Json,
    /// A line for each value.
    Expanded,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Format, String> {
        match text {
            "table" => Ok(Format::Table),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            "expanded" => Ok(Format::Expanded),
            _ => Err(format!("`{text}` is not a format: use table, csv, json or expanded")),
        }
    }
}

/// How tables show values: nulls are told from empty texts.
const SHOWN: FormatOptions<'_> = FormatOptions::new().with_null("NULL");

/// Writes comma-separated values so that `COPY` and `moirai table load` read the same again: a null is nothing, or the text for it, and
/// a text that looks so is in quotes.
#[derive(Clone, Debug)]
pub(crate) struct CsvWriter {
    pub(crate) delimiter: u8,
    /// What stands for a null.
    pub(crate) null: String,
}

impl Default for CsvWriter {
    fn default() -> CsvWriter {
        CsvWriter { delimiter: b',', null: String::new() }
    }
}

impl CsvWriter {
    /// Writes the names of columns.
    pub(crate) fn header(&self, target: &mut dyn Write, schema: &SchemaRef) -> Result<()> {
        let names = schema.fields().iter().map(|field| Some(field.name().as_str()));
        self.line(target, names)
    }

    pub(crate) fn rows(&self, target: &mut dyn Write, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter();
        let columns: Vec<ArrayFormatter<'_>> = columns
            .map(|column| ArrayFormatter::try_new(&**column, &FormatOptions::new()))
            .collect::<std::result::Result<_, _>>()
            .map_err(failed)?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut values: Vec<String> = vec![String::new(); columns.len()];
        for row in 0..batch.num_rows() {
            for (value, column) in values.iter_mut().zip(&columns) {
                value.clear();
                column.value(row).write(value).map_err(failed)?;
            }
            let is_null =
                |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let values = values.iter().zip(&nulls);
            self.line(
                target,
                values.map(|(value, nulls)| (!is_null(nulls)).then_some(value.as_str())),
            )?;
        }
        Ok(())
    }

    fn line<'v>(
        &self,
        target: &mut dyn Write,
        values: impl Iterator<Item = Option<&'v str>>,
    ) -> Result<()> {
        for (place, value) in values.enumerate() {
            if place > 0 {
                target.write_all(&[self.delimiter])?;
            }
            let Some(value) = value else {
                target.write_all(self.null.as_bytes())?;
                continue;
            };
            let special =
                |byte: &u8| *byte == self.delimiter || matches!(byte, b'"' | b'\r' | b'\n');
            if value.is_empty() || value == self.null || value.bytes().any(|byte| special(&byte)) {
                write!(target, "\"{}\"", value.replace('"', "\"\""))?;
            } else {
                target.write_all(value.as_bytes())?;
            }
        }
        Ok(writeln!(target)?)
    }
}

/// The answer to a statement, whole.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Names and types of the columns.
    pub schema: &'a SchemaRef,
    /// The rows.
    pub batches: &'a [RecordBatch],
}

impl Answer<'_> {
    /// Writes the answer; nothing of a statement that has none.
    pub fn write(&self, target: &mut Vec<u8>, format: Format) -> Result<()> {
        let mut writer = AnswerWriter::new(self.schema, format)?;
        for batch in self.batches {
            writer.push(batch, target)?;
        }
        writer.finish(target)
    }
}

/// Rows that are written together: an answer that fails before them is not begun, and columns of tables are as wide as the first
/// of them.
const WINDOW_ROWS: usize = 10_000;

/// Rows of which the bytes are counted together.
const PART_ROWS: usize = 500;

/// Bytes of rows that are held at most before they are written, about.
const WINDOW_BYTES: usize = 16 << 20;

/// Writes an answer while it comes, with some rows in memory.
#[derive(Debug)]
pub struct AnswerWriter {
    schema: SchemaRef,
    layout: Layout,
    /// Rows that are not written yet.
    window: Vec<RecordBatch>,
    window_rows: usize,
    window_bytes: usize,
    has_rows: bool,
}

/// What the writer of a format keeps from row to row.
#[derive(Debug)]
enum Layout {
    Table(TableWriter),
    Expanded { rows: u64 },
    Csv { has_header: bool },
    Json(Box<JsonWriter<Vec<u8>, JsonArray>>),
}

impl AnswerWriter {
    /// # Errors
    /// Where the format cannot hold such columns.
    pub fn new(schema: &SchemaRef, format: Format) -> Result<AnswerWriter> {
        let layout = match format {
            Format::Table => Layout::Table(TableWriter::default()),
            Format::Expanded => Layout::Expanded { rows: 0 },
            Format::Csv => Layout::Csv { has_header: false },
            Format::Json => {
                refuse_equal_names(schema)?;
                let builder = JsonWriterBuilder::new().with_explicit_nulls(true);
                Layout::Json(Box::new(builder.build(Vec::new())))
            }
        };
        Ok(AnswerWriter {
            schema: SchemaRef::clone(schema),
            layout,
            window: Vec::new(),
            window_rows: 0,
            window_bytes: 0,
            has_rows: false,
        })
    }

    /// Takes rows, and appends to `text` what is written by now.
    pub fn push(&mut self, batch: &RecordBatch, text: &mut Vec<u8>) -> Result<()> {
        let mut first = 0;
        self.has_rows |= batch.num_rows() > 0;
        while first < batch.num_rows() {
            let rows = (batch.num_rows() - first).min(PART_ROWS);
            let part = batch.slice(first, rows);
            self.window_bytes += part.columns().iter().map(bytes_of).sum::<usize>();
            self.window_rows += rows;
            self.window.push(part);
            if self.window_rows >= WINDOW_ROWS || self.window_bytes >= WINDOW_BYTES {
                self.write_window(text)?;
            }
            first += rows;
        }
        Ok(())
    }

    /// Appends the rest to `text`; nothing of a statement that has no answer.
    pub fn finish(mut self, text: &mut Vec<u8>) -> Result<()> {
        if self.schema.fields().is_empty() && !self.has_rows {
            return Ok(());
        }
        self.write_window(text)?;
        match self.layout {
            Layout::Table(table) => table.border(text)?,
            Layout::Expanded { rows: 0 } => writeln!(text, "(0 rows)")?,
            Layout::Expanded { .. } | Layout::Csv { .. } => {}
            Layout::Json(mut json) => {
                json.finish().map_err(failed)?;
                text.append(json.get_mut());
                writeln!(text)?;
            }
        }
        Ok(())
    }

    fn write_window(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let window = std::mem::take(&mut self.window);
        (self.window_rows, self.window_bytes) = (0, 0);
        match &mut self.layout {
            Layout::Table(table) => table.rows(text, &self.schema, &window)?,
            Layout::Expanded { rows } => {
                for batch in &window {
                    write_expanded(text, batch, rows)?;
                }
            }
            Layout::Csv { has_header } => {
                let writer = CsvWriter::default();
                if !std::mem::replace(has_header, true) {
                    writer.header(text, &self.schema)?;
                }
                for batch in &window {
                    writer.rows(text, batch)?;
                }
            }
            Layout::Json(json) => {
                for batch in &window {
                    json.write(batch).map_err(failed)?;
                }
                text.append(json.get_mut());
            }
        }
        Ok(())
    }
}

/// Bytes of a column's values, about.
fn bytes_of(column: &ArrayRef) -> usize {
    // Views that are slices still have all of their buffers.
    match (column.as_string_view_opt(), column.as_binary_view_opt()) {
        (Some(texts), _) => texts.total_buffer_bytes_used(),
        (_, Some(bytes)) => bytes.total_buffer_bytes_used(),
        (None, None) => column.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

fn refuse_equal_names(schema: &SchemaRef) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for field in schema.fields() {
        let name = field.name();
        if !seen.insert(name) {
            return Err(DataFusionError::Plan(format!(
                "the answer has two columns `{name}`, which an object cannot hold: name them with AS"
            ))
            .into());
        }
    }
    Ok(())
}

/// What shows the values of a batch.
fn formatters(batch: &RecordBatch) -> Result<Vec<ArrayFormatter<'_>>> {
    let columns = batch.columns().iter();
    let formatters = columns.map(|column| ArrayFormatter::try_new(&**column, &SHOWN));
    formatters.collect::<std::result::Result<_, _>>().map_err(failed)
}

/// Writes rows with a line for each value, after `rows` others.
fn write_expanded(target: &mut dyn Write, batch: &RecordBatch, rows: &mut u64) -> Result<()> {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let columns = formatters(batch)?;
    for row in 0..batch.num_rows() {
        *rows += 1;
        writeln!(target, "-[ RECORD {rows} ]")?;
        for (name, column) in names.iter().zip(&columns) {
            target.write_all(name.as_bytes())?;
            pad(target, b" ", width - name.width() + 1)?;
            writeln!(target, "| {}", column.value(row))?;
        }
    }
    Ok(())
}

/// Writes a byte several times; a width in a format has a limit.
fn pad(target: &mut dyn Write, byte: &[u8; 1], times: usize) -> Result<()> {
    Ok(target.write_all(&byte.repeat(times))?)
}

fn failed(error: ArrowError) -> Error {
    DataFusionError::ArrowError(Box::new(error), None).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use datafusion::arrow::array::{
        BinaryViewArray, Int64Array, RecordBatchOptions, StringArray, StringViewArray,
    };

    fn answer() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
        RecordBatch::try_from_iter([("a", numbers), ("name", texts)]).unwrap()
    }

    fn written(format: Format, batches: &[RecordBatch]) -> String {
        let mut text = Vec::new();
        Answer { schema: &answer().schema(), batches }.write(&mut text, format).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn nulls_show_in_tables_and_have_keys_in_json() {
        let table = written(Format::Table, &[answer()]);
        assert!(table.contains("| NULL | NULL |") && table.contains("| 1    |      |"), "{table}");
        let json: serde_json::Value =
            serde_json::from_str(&written(Format::Json, &[answer()])).unwrap();
        assert_eq!(json, serde_json::json!([{"a": 1, "name": ""}, {"a": null, "name": null}]));
        assert_eq!(written(Format::Csv, &[answer()]), "a,name\n1,\"\"\n,\n");
    }

    #[test]
    fn json_refuses_two_columns_of_one_name() {
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let schema = answer().schema().field(0).clone();
        let schema: SchemaRef =
            Arc::new(datafusion::arrow::datatypes::Schema::new(vec![schema.clone(), schema]));
        let batch = RecordBatch::try_new(schema.clone(), vec![number.clone(), number]).unwrap();
        let answer = Answer { schema: &schema, batches: &[batch] };
        let error = answer.write(&mut Vec::new(), Format::Json).unwrap_err().to_string();
        assert!(error.contains("two columns `a`"), "{error}");
    }

    #[test]
    fn answers_without_rows_have_columns() {
        assert!(written(Format::Table, &[]).contains("| a | name |"));
        assert_eq!(written(Format::Csv, &[]), "a,name\n");
        assert_eq!(written(Format::Json, &[]), "[]\n");
    }

    #[test]
    fn expanded_answers_have_a_line_for_each_value() {
        let expected =
            "-[ RECORD 1 ]\na    | 1\nname | \n-[ RECORD 2 ]\na    | NULL\nname | NULL\n";
        assert_eq!(written(Format::Expanded, &[answer()]), expected);
        assert_eq!(written(Format::Expanded, &[]), "(0 rows)\n");
    }

    /// Windows change nothing but where wide values stand.
    #[test]
    fn long_answers_are_written_while_they_come() {
        let rows = 3 * WINDOW_ROWS + 7;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        for format in [Format::Csv, Format::Json, Format::Expanded, Format::Table] {
            let mut writer = AnswerWriter::new(&batch.schema(), format).unwrap();
            let mut text = Vec::new();
            writer.push(&batch.slice(0, 5), &mut text).unwrap();
            assert!(text.is_empty(), "{format:?}");
            writer.push(&batch.slice(5, rows - 5), &mut text).unwrap();
            assert!(!text.is_empty(), "{format:?}");
            writer.finish(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let numbers: Vec<usize> = text
                .split(|c: char| !c.is_ascii_digit())
                .filter(|digits| !digits.is_empty())
                .map(|digits| digits.parse().unwrap())
                .collect();
            match format {
                // A number of the record, and one of the row.
                Format::Expanded => {
                    assert!(numbers.chunks(2).enumerate().all(|(n, pair)| pair == [n + 1, n]))
                }
                _ => assert!(numbers.iter().copied().eq(0..rows), "{format:?}"),
            }
        }
    }

    #[test]
    fn long_texts_are_written_soon() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(40_000); 1000]));
        let bytes = vec![vec![7; 40_000]; 1000];
        let bytes: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(bytes));
        for values in [texts, bytes] {
            let batch = RecordBatch::try_from_iter([("t", values)]).unwrap();
            for format in [Format::Csv, Format::Json, Format::Expanded, Format::Table] {
                let mut writer = AnswerWriter::new(&batch.schema(), format).unwrap();
                let mut text = Vec::new();
                writer.push(&batch, &mut text).unwrap();
                assert!(text.len() >= 1000 * 40_000, "{format:?}");
                let before = text.len();
                writer.finish(&mut text).unwrap();
                assert!(text.len() < before + 2000, "{format:?}");
            }
        }
    }

    #[test]
    fn answers_without_columns_are_whole() {
        let rows = RecordBatchOptions::new().with_row_count(Some(WINDOW_ROWS + 1));
        let schema = SchemaRef::new(datafusion::arrow::datatypes::Schema::empty());
        let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &rows).unwrap();
        let json: serde_json::Value =
            serde_json::from_str(&written_of(&batch, Format::Json)).unwrap();
        assert_eq!(json.as_array().unwrap().len(), WINDOW_ROWS + 1);
        let table = written_of(&batch, Format::Table);
        assert_eq!(table.lines().filter(|line| *line == "+").count(), 3);
    }

    fn written_of(batch: &RecordBatch, format: Format) -> String {
        let mut text = Vec::new();
        let answer = Answer { schema: &batch.schema(), batches: std::slice::from_ref(batch) };
        answer.write(&mut text, format).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn tables_keep_lines_and_wide_letters_in_their_columns() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a\nbc", "日本"]));
        let more: ArrayRef = Arc::new(StringArray::from(vec!["x", "yz"]));
        let batch = RecordBatch::try_from_iter([("t", texts), ("more", more)]).unwrap();
        let expected = "\
+------+------+
| t    | more |
+------+------+
| a    | x    |
| bc   |      |
| 日本 | yz   |
+------+------+
";
        assert_eq!(written_of(&batch, Format::Table), expected);
    }
}
