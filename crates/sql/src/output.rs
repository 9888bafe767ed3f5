//! Answers as people and programs read them.

use std::io::Write;
use std::str::FromStr;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::JsonArray;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::error::DataFusionError;

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
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Format, String> {
        match text {
            "table" => Ok(Format::Table),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            _ => Err(format!("`{text}` is not a format: use table, csv or json")),
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

/// The answer to a statement.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Names and types of the columns.
    pub schema: &'a SchemaRef,
    /// The rows.
    pub batches: &'a [RecordBatch],
}

fn failed(error: ArrowError) -> Error {
    DataFusionError::ArrowError(Box::new(error), None).into()
}

impl Answer<'_> {
    /// Writes the answer; nothing of a statement that has none.
    pub fn write(&self, target: &mut dyn Write, format: Format) -> Result<()> {
        let Answer { schema, batches } = *self;
        if schema.fields().is_empty() && batches.is_empty() {
            return Ok(());
        }
        match format {
            Format::Table => {
                // An answer without rows has a table, too.
                let empty = [RecordBatch::new_empty(schema.clone())];
                let batches = if batches.is_empty() { &empty } else { batches };
                let text = pretty_format_batches_with_options(batches, &SHOWN).map_err(failed)?;
                writeln!(target, "{text}")?;
            }
            Format::Csv => {
                let writer = CsvWriter::default();
                writer.header(target, schema)?;
                for batch in batches {
                    writer.rows(target, batch)?;
                }
            }
            Format::Json => {
                let names = schema.fields().iter().map(|field| field.name());
                let mut seen = std::collections::BTreeSet::new();
                for name in names {
                    if !seen.insert(name) {
                        return Err(DataFusionError::Plan(format!(
                            "the answer has two columns `{name}`, which an object cannot hold: name them with AS"
                        ))
                        .into());
                    }
                }
                let builder = datafusion::arrow::json::WriterBuilder::new();
                let builder = builder.with_explicit_nulls(true);
                let mut writer = builder.build::<_, JsonArray>(&mut *target);
                for batch in batches {
                    writer.write(batch).map_err(failed)?;
                }
                writer.finish().map_err(failed)?;
                drop(writer);
                writeln!(target)?;
            }
        }
        Ok(())
    }

    /// Writes the answer with a line for each value.
    pub fn write_expanded(&self, target: &mut dyn Write) -> Result<()> {
        let names: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut number = 0_u64;
        for batch in self.batches {
            let columns = batch.columns().iter();
            let columns: Vec<ArrayFormatter<'_>> = columns
                .map(|column| ArrayFormatter::try_new(&**column, &SHOWN))
                .collect::<std::result::Result<_, _>>()
                .map_err(failed)?;
            for row in 0..batch.num_rows() {
                number += 1;
                writeln!(target, "-[ RECORD {number} ]")?;
                for (name, column) in names.iter().zip(&columns) {
                    writeln!(target, "{name:width$} | {}", column.value(row))?;
                }
            }
        }
        if number == 0 {
            writeln!(target, "(0 rows)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};

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
        let mut text = Vec::new();
        let schema = answer().schema();
        let batches = [answer()];
        Answer { schema: &schema, batches: &batches }.write_expanded(&mut text).unwrap();
        let expected =
            "-[ RECORD 1 ]\na    | 1\nname | \n-[ RECORD 2 ]\na    | NULL\nname | NULL\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
