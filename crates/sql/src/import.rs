//! Reading the files that tables are loaded from.

mod csv;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

pub(crate) use self::csv::read_csv_as;
pub use self::csv::{CsvColumn, CsvDelimiter, CsvError, CsvOptions, CsvSchema, CsvType, read_csv};
use crate::{Error, Result};

const BATCH_ROWS: usize = 8192;

/// A file being read, batch by batch.
pub struct Import {
    /// The schema of the batches.
    pub schema: SchemaRef,
    /// Rows in all, when the file tells.
    pub rows: Option<u64>,
    /// The batches. An error names the file.
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
}

/// Opens a Parquet file.
pub fn read_parquet(path: &Path) -> Result<Import> {
    fn bad<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error + Send + use<E> {
        let path = path.to_owned();
        move |problem| Error::File { path: path.clone(), problem: problem.to_string() }
    }
    let file = File::open(path).map_err(bad(path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(bad(path))?;
    let schema = Arc::clone(builder.schema());
    let rows = builder.metadata().file_metadata().num_rows();
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(bad(path))?;
    let bad_batch = bad(path);
    let batches = reader.map(move |batch| batch.map_err(&bad_batch));
    Ok(Import { schema, rows: u64::try_from(rows).ok(), batches: Box::new(batches) })
}
