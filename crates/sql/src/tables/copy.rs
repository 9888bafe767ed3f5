//! `COPY table FROM file` and `COPY table or query TO file`, of CSV and Parquet files.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CopyOption, CopySource, CopyTarget, Ident, ObjectName, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::TryStreamExt;
use moirai_tables::{Snapshot, Table};
use parquet::arrow::ArrowWriter;
use tempfile::NamedTempFile;

use crate::database::read;
use crate::import::read_csv_as;
use crate::output::CsvWriter;
use crate::precedence::regroup;
use crate::script::words;
use crate::tables::catalog::StatementTables;
use crate::tables::insert::{Into, OnConflict, column_of};
use crate::tables::session::{Session, Written, normal, refused, table_name};
use crate::tables::syntax;
use crate::tables::table::external;
use crate::tables::work::Work;
use crate::{CsvColumn, CsvDelimiter, CsvOptions, CsvSchema, CsvType, Error, Result, read_parquet};

/// What a `COPY` says.
#[derive(Clone)]
pub(crate) struct Copy {
    source: CopySource,
    /// Whether the file is written.
    pub(crate) to: bool,
    file: PathBuf,
    is_parquet: bool,
    csv: CsvOptions,
}

const EXISTS: &str = "the file exists: name another one, or remove it before";

/// A file without a name yet, which goes when it is dropped.
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".moirai-copy-");
    // As others are made here, and not for its owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// The error for a file that cannot be written.
fn failed(path: &Path) -> impl Fn(String) -> Error {
    move |problem| Error::File { path: path.to_owned(), problem }
}

impl Copy {
    /// The `COPY` that a statement is; `None` for another statement.
    pub(crate) fn parse(statement: &str) -> Result<Option<Copy>> {
        if !words(statement).next().is_some_and(|word| word.eq_ignore_ascii_case("copy")) {
            return Ok(None);
        }
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, statement);
        let mut parsed = parsed.map_err(|error| syntax::syntax_error(&error))?;
        parsed.iter_mut().for_each(regroup);
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
        let has_format = options.iter().any(|option| matches!(option, CopyOption::Format(_)));
        let is_known = ["csv", "tsv", "txt", "parquet"]
            .iter()
            .any(|known| file.extension().is_some_and(|one| one == *known));
        if !has_format && !is_known {
            let file = file.display();
            return refused(format!("{file}: name its format: WITH (FORMAT csv), or parquet"));
        }
        let is_named = |wanted: &str| file.extension().is_some_and(|one| one == wanted);
        let mut is_parquet = is_named("parquet");
        let mut csv = CsvOptions::default();
        let mut of_csv = false;
        for option in options {
            of_csv |= !matches!(option, CopyOption::Format(_));
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
        if is_parquet && of_csv {
            return refused(
                "HEADER, DELIMITER and NULL are of CSV files, and this one is of Parquet",
            );
        }
        let is_special =
            |byte: u8| byte == csv.delimiter.byte() || matches!(byte, b'"' | b'\r' | b'\n');
        if csv.null.as_ref().is_some_and(|null| null.bytes().any(is_special)) {
            return refused(
                "the text of NULL has the delimiter, a quote or the end of a line: take another",
            );
        }
        Ok(Some(Copy { source, to, file, is_parquet, csv }))
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
    let mut columns = Vec::new();
    for name in names {
        let column = column_of(table, table.name(), &ObjectName::from(vec![name.clone()]))?;
        if columns.contains(&column) {
            return refused(format!("column `{name}` is named twice"));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The bytes that texts of hexadecimal digits are, as `COPY TO` writes them; they may begin with `\x`.
fn bytes_of(array: &ArrayRef) -> std::result::Result<ArrayRef, DataFusionError> {
    let bytes = |text: &str| -> Option<Vec<u8>> {
        let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
        let (pairs, []) = digits.as_chunks::<2>() else { return None };
        let byte = |pair: &[u8; 2]| {
            // A number may have a sign, and a byte has none.
            let pair = Some(pair).filter(|pair| pair.iter().all(u8::is_ascii_hexdigit))?;
            u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
        };
        pairs.iter().map(byte).collect()
    };
    let texts = array.as_string_view().iter().map(|text| {
        text.map(|text| {
            bytes(text).ok_or_else(|| {
                DataFusionError::Execution(format!("`{text}` is no bytes in hexadecimal digits"))
            })
        })
        .transpose()
    });
    let all = texts.collect::<std::result::Result<Vec<Option<Vec<u8>>>, _>>()?;
    Ok(Arc::new(BinaryViewArray::from_iter(all)))
}

impl Session {
    /// Inserts the rows of a file. The table is locked first: the file may be a pipe, so that nothing is begun again.
    pub(crate) async fn copy_from(&self, work: &mut Work<'_>, copy: Copy) -> Result<Written> {
        let Copy { source: CopySource::Table { table_name: name, columns: named }, .. } = &copy
        else {
            return refused("rows of a file go into a table: COPY table FROM 'file'");
        };
        let name = table_name(name)?;
        let table = self.table_at(&work.snapshot, &name).await?;
        work.lock_table(&table).await?;
        let table = self.table_at(&work.snapshot, &name).await?;
        let snapshot = Arc::clone(&work.snapshot);
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
                        if let ([name], 2..) = (&names[..], table.schema().fields().len())
                            && let Some(other) = [';', '\t', '|'].iter().find(|one| name.contains(**one))
                        {
                            return refused(format!(
                                "{}: the header `{name}` is one column: name the delimiter, as in WITH (DELIMITER '{other}')",
                                copy.file.display()
                            ));
                        }
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
        let is_bytes = |column: &usize| {
            let data_type = table.schema().fields().get(*column).map(|field| field.data_type());
            matches!(data_type, Some(DataType::BinaryView | DataType::FixedSizeBinary(_)))
        };
        // Text is all that a CSV file has for them.
        let of_bytes: Vec<bool> =
            columns.iter().map(|column| !copy.is_parquet && is_bytes(column)).collect();
        let field = |(field, is_bytes): (&FieldRef, &bool)| match is_bytes {
            true => field.as_ref().clone().with_data_type(DataType::BinaryView),
            false => field.as_ref().clone(),
        };
        let fields: Vec<Field> = import.schema.fields().iter().zip(&of_bytes).map(field).collect();
        let schema = Arc::new(Schema::new(fields));
        let of_batch = Arc::clone(&schema);
        let batches = import.batches.map(move |batch| {
            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let arrays = batch.columns().iter().zip(&of_bytes);
            let arrays = arrays.map(|(array, is_bytes)| match is_bytes {
                true => bytes_of(array),
                false => Ok(Arc::clone(array)),
            });
            let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(RecordBatch::try_new(Arc::clone(&of_batch), arrays)?)
        });
        let rows: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches)));
        let on_conflict = OnConflict::Refuse;
        let into = Into { snapshot, table, alias: name, columns, on_conflict };
        self.insert_rows(work, into, rows, None).await
    }

    pub(crate) async fn copy_to(&self, snapshot: Arc<Snapshot>, copy: Copy) -> Result<Written> {
        let query = match copy.source {
            CopySource::Query(query) => *query,
            CopySource::Table { table_name, columns } => syntax::query_of(table_name, columns)?,
        };
        let mut statement = SqlStatement::Query(Box::new(query));
        syntax::refuse_locks(&mut statement)?;
        let context = self.context(StatementTables::of(&snapshot).await.map_err(external)?)?;
        let mut batches = read(&context, Statement::Statement(Box::new(statement))).await?;
        let failed = failed(&copy.file);
        // Nothing is overwritten.
        if copy.file.try_exists().map_err(|error| failed(error.to_string()))? {
            return Err(failed(EXISTS.to_owned()));
        }
        // It gets its name when it is whole.
        let folder = copy.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let new = new_file(folder.unwrap_or(Path::new(".")));
        let new = new.map_err(|error| failed(error.to_string()))?;
        let mut target = BufWriter::new(new);
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
            let writer = CsvWriter { delimiter: delimiter.byte(), null: null.unwrap_or_default() };
            if has_header {
                writer.header(&mut target, &schema)?;
            }
            while let Some(batch) = batches.try_next().await? {
                if let [alone] = batch.columns()
                    && writer.null.is_empty()
                    && alone.logical_null_count() > 0
                {
                    return refused(
                        "a null alone would be an empty line, which is no row: name a text for it, as in WITH (NULL 'NA')",
                    );
                }
                rows += batch.num_rows() as u64;
                writer.rows(&mut target, &batch)?;
            }
        }
        let new = target.into_inner().map_err(|error| failed(error.to_string()))?;
        new.as_file().sync_all().map_err(|error| failed(error.to_string()))?;
        new.persist_noclobber(&copy.file).map_err(|error| match error.error.kind() {
            std::io::ErrorKind::AlreadyExists => failed(EXISTS.to_owned()),
            _ => failed(error.error.to_string()),
        })?;
        Ok(Written { rows, returned: None })
    }
}
