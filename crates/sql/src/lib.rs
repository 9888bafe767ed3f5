//! SQL over the tables of a store, through DataFusion.
//!
//! A [`Database`] is a DataFusion session over the tables of a store. A scan reads the wanted columns only, by ranges of the key or
//! of an index where filters say some, and tells the planner about how many rows there are. Statements that change rows are planned
//! here, and each is carried out whole or not at all.

mod database;
mod error;
mod import;
mod listing;
mod output;
mod overflow;
mod precedence;
mod script;
mod tables;
mod using;
mod yielding;

pub use database::{AnswerStream, Database, memory_database};
pub use datafusion::arrow;
pub use datafusion::common::ScalarValue;
pub use error::{Error, Result};
pub use import::{
    CsvColumn, CsvDelimiter, CsvError, CsvOptions, CsvSchema, CsvType, Import, read_csv,
    read_parquet,
};
pub use listing::{ColumnInfo, IndexInfo, TableInfo, sql_name};
pub use output::{Answer, AnswerWriter, Format};
pub use script::{Need, Script, need, syntax_error};
