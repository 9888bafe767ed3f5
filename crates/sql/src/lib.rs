//! SQL over the tables of a store, through DataFusion.
//!
//! A [`Database`] is a DataFusion session in which every table of a store is registered. A scan of
//! such a table reads the wanted columns only, skips the pages whose bounds rule the filters out,
//! and tells the planner row counts and bounds.

mod database;
mod error;
mod import;
mod listing;
mod output;
mod overflow;
mod precedence;
mod prune;
mod scan_exec;
mod script;
mod table;
mod tables;
mod using;
mod yielding;

pub use database::{AnswerStream, Database, memory_database};
pub use datafusion::arrow;
pub use error::{Error, Result};
pub use import::{
    CsvColumn, CsvDelimiter, CsvError, CsvOptions, CsvSchema, CsvType, Import, read_csv,
    read_parquet,
};
pub use listing::{ColumnInfo, IndexInfo, TableInfo};
pub use output::{Answer, AnswerWriter, Format};
pub use script::{Need, Script, need};
