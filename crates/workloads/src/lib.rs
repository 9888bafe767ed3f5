//! Workloads: TPC-H data as Arrow batches, and its queries; TPC-C.

pub mod tpcc;
pub mod tpch;
