//! Reading the files that tables are loaded from.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::{Error, Result};

const BATCH_ROWS: usize = 8192;

/// Lines of a CSV file that are looked at to tell its columns' types.
const CSV_SAMPLE_LINES: usize = 10_000;

/// A file being read, batch by batch.
pub struct Import {
    /// The schema of the batches.
    pub schema: SchemaRef,
    /// Rows in all, when the file tells.
    pub rows: Option<u64>,
    /// The batches.
    pub batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>,
}

fn bad(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> Error + '_ {
    |problem| Error::File { path: path.to_owned(), problem: problem.to_string() }
}

/// Opens a Parquet file.
pub fn read_parquet(path: &Path) -> Result<Import> {
    let bad = bad(path);
    let file = File::open(path).map_err(|error| bad(&error))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| bad(&error))?;
    let schema = Arc::clone(builder.schema());
    let rows = builder.metadata().file_metadata().num_rows();
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|error| bad(&error))?;
    Ok(Import { schema, rows: u64::try_from(rows).ok(), batches: Box::new(reader) })
}

/// Opens a CSV file whose first line names the columns; their types follow from the lines after it.
pub fn read_csv(path: &Path) -> Result<Import> {
    let bad = bad(path);
    let mut file = File::open(path).map_err(|error| bad(&error))?;
    let format = Format::default().with_header(true);
    let (schema, _) = format
        .infer_schema(BufReader::new(&file), Some(CSV_SAMPLE_LINES))
        .map_err(|error| bad(&error))?;
    file.rewind().map_err(|error| bad(&error))?;
    let schema = Arc::new(schema);
    let reader = ReaderBuilder::new(Arc::clone(&schema))
        .with_header(true)
        .with_batch_size(BATCH_ROWS)
        .build(BufReader::new(file))
        .map_err(|error| bad(&error))?;
    Ok(Import { schema, rows: None, batches: Box::new(reader) })
}
