//! Statements over tables that take updates.
//!
//! Each statement sees one snapshot. Statements that write are queries whose answers become changes of rows: DataFusion plans what
//! is read, with all that SQL allows there, and no more is changed than the rows that the query gives. The changes of a
//! statement are committed together. Statements that name single rows by their keys go past DataFusion ([`point`]).

mod casts;
mod catalog;
mod change;
mod copy;
mod define;
mod executing;
mod insert;
mod locking;
mod point;
mod predicate;
mod prepared;
mod range;
mod scan;
mod session;
mod syntax;
mod table;
mod transaction;
mod unique;
mod work;

pub(crate) use session::Session;
