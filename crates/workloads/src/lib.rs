//! Workloads: TPC-H data as Arrow batches, and its queries; TPC-C; CH-benCHmark, which is both at once.

pub mod ch;
pub mod tpcc;
pub mod tpch;
