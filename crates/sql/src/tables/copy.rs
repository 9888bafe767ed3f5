//! `COPY table FROM file` and `COPY table or query TO file`, of CSV and Parquet files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    CopyOption, CopySource, CopyTarget, Ident, ObjectName, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::TryStreamExt;
use moirai_tables::Table;
use parquet::arrow::ArrowWriter;

use crate::database::read;
use crate::import::read_csv_as;
use crate::tables::catalog::StatementTables;
use crate::tables::insert::{Into, OnConflict, column_of};
use crate::tables::session::{Session, Written, normal, refused, table_name};
use crate::tables::syntax;
use crate::tables::table::external;
use crate::{CsvColumn, CsvDelimiter, CsvOptions, CsvSchema, CsvType, Error, Result, read_parquet};

/// What a `COPY` says.
pub(crate) struct Copy {
    source: CopySource,
    /// Whether the file is written.
    to: bool,
    file: PathBuf,
    is_parquet: bool,
    csv: CsvOptions,
}

/// A file that cannot be written.
fn failed<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error {
    move |problem| Error::File { path: path.to_owned(), problem: problem.to_string() }
}

impl Copy {
    /// The `COPY` that a statement is; `None` for another statement.
    pub(crate) fn parse(statement: &str) -> Result<Option<Copy>> {
        let word = statement.split_whitespace().next().unwrap_or_default();
        if !word.eq_ignore_ascii_case("copy") {
            return Ok(None);
        }
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, statement);
        let mut parsed = parsed.map_err(|error| Error::Refused { problem: error.to_string() })?;
        let (Some(SqlStatement::Copy { source, to, target, options, legacy_options, .. }), true) =
            (parsed.pop(), parsed.is_empty())
        else {
            return refused("write COPY table FROM 'file', or COPY table TO 'file'");
        };
        let CopyTarget::File { filename } = target else {
            return refused("COPY reads and writes files: name one");
        };
        if !legacy_options.is_empty() {
            return refused("options of COPY come as WITH (FORMAT csv, HEADER false)");
        }
        let file = PathBuf::from(filename);
        let is_named = |wanted: &str| file.extension().is_some_and(|one| one == wanted);
        let mut is_parquet = is_named("parquet");
        let mut csv = CsvOptions::default();
        for option in options {
            match option {
                CopyOption::Format(format) => match normal(&format).as_str() {
                    "csv" => is_parquet = false,
                    "parquet" => is_parquet = true,
                    other => {
                        return refused(format!("there is no format {other}: take csv or parquet"));
                    }
                },
                CopyOption::Header(has_header) => csv.has_header = has_header,
                CopyOption::Null(null) => csv.null = Some(null),
                CopyOption::Delimiter(delimiter) => {
                    let byte = u8::try_from(delimiter).ok().and_then(CsvDelimiter::new);
                    let Some(byte) = byte else {
                        return refused(format!(
                            "`{delimiter}` is not a delimiter: take an ASCII character"
                        ));
                    };
                    csv.delimiter = byte;
                }
                other => {
                    return refused(format!(
                        "COPY has no option {other} here: take FORMAT, HEADER, DELIMITER or NULL"
                    ));
                }
            }
        }
        Ok(Some(Copy { source, to, file, is_parquet, csv }))
    }

    /// Whether it changes a table.
    pub(crate) fn writes(&self) -> bool {
        !self.to
    }
}

/// The type in which a column is read of a CSV file: text that is cast, where there is none for it.
fn csv_type(data_type: &DataType) -> CsvType {
    match data_type {
        DataType::Int8 => CsvType::Tinyint,
        DataType::Int16 => CsvType::Smallint,
        DataType::Int32 => CsvType::Integer,
        DataType::Int64 => CsvType::Bigint,
        DataType::Float32 => CsvType::Real,
        DataType::Float64 => CsvType::Double,
        DataType::Boolean => CsvType::Boolean,
        DataType::Date32 => CsvType::Date,
        DataType::Timestamp(unit, None) => CsvType::Timestamp(*unit),
        DataType::Decimal128(precision, scale) => match u8::try_from(*scale) {
            Ok(scale) => CsvType::Decimal { precision: *precision, scale },
            Err(_) => CsvType::Text,
        },
        _ => CsvType::Text,
    }
}

/// The columns of a table that these names mean.
fn columns_of<'n>(table: &Table, names: impl IntoIterator<Item = &'n Ident>) -> Result<Vec<usize>> {
    let name = |one: &Ident| ObjectName::from(vec![one.clone()]);
    names.into_iter().map(|one| column_of(table, table.name(), &name(one))).collect()
}

impl Session {
    pub(crate) async fn copy(&self, copy: Copy) -> Result<Written> {
        if copy.to { self.copy_to(copy).await } else { self.copy_from(copy).await }
    }

    async fn copy_from(&self, copy: Copy) -> Result<Written> {
        let Copy { source: CopySource::Table { table_name: name, columns: named }, .. } = &copy
        else {
            return refused("rows of a file go into a table: COPY table FROM 'file'");
        };
        let name = table_name(name)?;
        let (snapshot, table) = self.target(&name).await?;
        let mut columns = columns_of(&table, named)?;
        let import = if copy.is_parquet {
            let import = read_parquet(&copy.file)?;
            if named.is_empty() {
                let names = import.schema.fields().iter();
                let names: Vec<Ident> =
                    names.map(|field| Ident::with_quote('"', field.name())).collect();
                columns = columns_of(&table, &names)?;
            }
            import
        } else {
            read_csv_as(&copy.file, copy.csv.clone(), |header| {
                if named.is_empty() {
                    let all = || Ok((0..table.schema().fields().len()).collect());
                    let quoted = |name: &String| Ident::with_quote('"', name);
                    columns = header.map_or_else(all, |names| {
                        let names: Vec<Ident> = names.iter().map(quoted).collect();
                        columns_of(&table, &names)
                    })?;
                }
                let column = |column: &usize| {
                    let field = table.schema().fields().get(*column)?;
                    let (name, csv_type) = (field.name().clone(), csv_type(field.data_type()));
                    Some(CsvColumn { name, csv_type, is_nullable: true })
                };
                Ok(CsvSchema::of(columns.iter().filter_map(column).collect()))
            })?
        };
        let given = import.schema.fields().len();
        if given != columns.len() {
            let named = columns.len();
            return refused(format!("{named} columns are named, and the file has {given}"));
        }
        let batches = import
            .batches
            .map(|batch| batch.map_err(|error| DataFusionError::External(Box::new(error))));
        let rows: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(import.schema, futures::stream::iter(batches)));
        let on_conflict = OnConflict::Refuse;
        let into = Into { snapshot, table, alias: name, columns, on_conflict };
        self.insert_rows(into, rows, None).await
    }

    async fn copy_to(&self, copy: Copy) -> Result<Written> {
        let query = match copy.source {
            CopySource::Query(query) => *query,
            CopySource::Table { table_name, columns } => syntax::query_of(table_name, columns)?,
        };
        let snapshot = self.tables.snapshot().await;
        let context = self.context(StatementTables::of(&snapshot).await.map_err(external)?)?;
        let mut batches = read(&context, syntax::query_statement(query)).await?;
        // Nothing is overwritten.
        let file = File::create_new(&copy.file).map_err(failed(&copy.file))?;
        let mut target = BufWriter::new(file);
        let written = async {
            let failed = failed(&copy.file);
            let mut rows = 0;
            let schema = batches.schema();
            if copy.is_parquet {
                let writer = ArrowWriter::try_new(&mut target, schema, None);
                let mut writer = writer.map_err(|error| failed(error.to_string()))?;
                while let Some(batch) = batches.try_next().await? {
                    rows += batch.num_rows() as u64;
                    writer.write(&batch).map_err(|error| failed(error.to_string()))?;
                }
                writer.close().map_err(|error| failed(error.to_string()))?;
            } else {
                let CsvOptions { delimiter, has_header, null, .. } = copy.csv;
                let builder = WriterBuilder::new()
                    .with_header(has_header)
                    .with_delimiter(delimiter.byte())
                    .with_null(null.unwrap_or_default());
                let mut writer = builder.build(&mut target);
                let empty = RecordBatch::new_empty(schema);
                writer.write(&empty).map_err(|error| failed(error.to_string()))?;
                while let Some(batch) = batches.try_next().await? {
                    rows += batch.num_rows() as u64;
                    writer.write(&batch).map_err(|error| failed(error.to_string()))?;
                }
            }
            target.flush().map_err(|error| failed(error.to_string()))?;
            target.get_ref().sync_all().map_err(|error| failed(error.to_string()))?;
            Ok(rows)
        };
        let rows = written.await.inspect_err(|_: &Error| {
            // What is there of it is of no use.
            drop(std::fs::remove_file(&copy.file));
        })?;
        Ok(Written { rows, returned: None })
    }
}
