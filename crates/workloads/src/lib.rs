//! Workloads: TPC-H data as Arrow batches, and its queries.

pub mod tpch;
