//! Answers as people and programs read them.

use std::io::Write;
use std::str::FromStr;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::error::DataFusionError;

use crate::Result;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// A table with lines.
    #[default]
    Table,
    /// Comma-separated values under a line of names.
    Csv,
    /// An array of objects.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Format, String> {
        match text {
            "table" => Ok(Format::Table),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            _ => Err(format!("`{text}` is no format: there are table, csv and json")),
        }
    }
}

/// Writes the batches of an answer.
pub fn write_batches(
    target: &mut dyn Write,
    format: Format,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<()> {
    let arrow = |error| DataFusionError::ArrowError(Box::new(error), None);
    match format {
        Format::Table => {
            let text = pretty_format_batches_with_schema(schema.clone(), batches).map_err(arrow)?;
            writeln!(target, "{text}")?;
        }
        Format::Csv => {
            let mut writer = WriterBuilder::new().with_header(true).build(target);
            writer.write(&RecordBatch::new_empty(schema.clone())).map_err(arrow)?;
            for batch in batches {
                writer.write(batch).map_err(arrow)?;
            }
        }
        Format::Json => {
            let mut writer = ArrayWriter::new(&mut *target);
            for batch in batches {
                writer.write(batch).map_err(arrow)?;
            }
            writer.finish().map_err(arrow)?;
            writeln!(target)?;
        }
    }
    Ok(())
}
