//! Workloads: TPC-H data as Arrow batches, and its queries; TPC-C; CH-benCHmark, which is both at once; YCSB.

pub mod ch;
pub mod driver;
pub mod tpcc;
pub mod tpch;
pub mod ycsb;
