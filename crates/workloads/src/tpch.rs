//! TPC-H: its eight tables as streams of record batches, and its 22 queries.
//!
//! "Specification" in here is the TPC Benchmark H Standard Specification, revision 3.0.1,
//! <https://www.tpc.org/tpch/>. The rows are those of its reference generator, dbgen, as the crate
//! `tpchgen` ports it: the same scale factor gives the same rows, always and everywhere.

mod batches;
mod queries;
mod table;

pub use batches::Batches;
pub use queries::{QUERIES, query};
pub use table::{SCALE_FACTOR_MIN, Table};
