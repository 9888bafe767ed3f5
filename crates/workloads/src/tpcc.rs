//! TPC-C: its nine tables, its five transactions, terminals, and its consistency conditions.
//!
//! "Clause" in here is one of the TPC Benchmark C Standard Specification, revision 5.11, <https://www.tpc.org/tpcc/>. Smaller scales,
//! for tests, have fewer items, customers and orders; clause 4.3 has no such.
//!
//! What a transaction is asked to do ([`inputs`]) and the rows that are there at first ([`Initial`]) are drawn apart from running them, so
//! that other engines can be given the same.
//!
//! Here the transactions run on the library (`moirai_tables::Transaction`): rows by their keys, an index on the last names of customers and
//! one on their orders. Additions to balances and totals are blind. New-Order locks its stock and its district before it reads anything, so that
//! its snapshot shows what the orders before it left.

mod conditions;
mod driver;
pub(crate) mod generate;
pub mod inputs;
mod kinds;
mod load;
mod schema;
mod transactions;

pub use conditions::{CONDITIONS, Condition};
pub use driver::{RunOptions, new_orders_per_minute, run};
pub use kinds::{KINDS, Kind, RowReads};
pub use load::{Initial, load};
pub use schema::{Database, Scale, TABLES, column_names, open};
pub use transactions::Terminal;
