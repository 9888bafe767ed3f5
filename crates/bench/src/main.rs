//! Benchmarks with peers in the same run: ratios and medians, never a verdict.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod lineitem;
mod replay;
mod rows;
mod scan;
mod tpch;
mod updated;

use clap::{Parser, Subcommand};
use moirai::units::ByteCount;

/// As in the tool.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks of Moirai beside its peers. These machines are noisy: look at the ratios.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Scan four int64 columns from a cached file on one core: all layouts, Parquet
    Scan {
        /// Rows of the table, 32 bytes each
        #[arg(long, default_value_t = 8_000_000)]
        rows: u64,
        /// Runs of each; the median counts
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
    /// Run the 22 queries of TPC-H: Moirai, DataFusion over Parquet and over memory, DuckDB where Python has it
    Tpch {
        /// Scale factor; 1 is about 1 GB of raw data
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Warm runs of each; the median counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Scan an attribute of TPC-H's lineitem with pending and with concurrent updates of it
    Updated {
        /// Scale factor; 1 is 6 million rows
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// How many updates are pending
        #[arg(long, default_value_t = 500_000)]
        pending: u64,
        /// Updates per second during the scans
        #[arg(long, default_value_t = 200_000)]
        rate: u64,
        /// Seconds of concurrent updates
        #[arg(long, default_value_t = 20.0)]
        seconds: f64,
        /// Memory of the store
        #[arg(long, default_value = "256MiB")]
        memory: ByteCount,
        /// Runs of each; the median counts
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
    /// Update rows of TPC-H's lineitem by primary key: in columns, in rows, as records of a tree; and with SQLite, DuckDB and
    /// PostgreSQL where Python has them
    Rows {
        /// Scale factor; 1 is 6 million rows
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Seconds of updates before anything counts
        #[arg(long, default_value_t = 20.0)]
        warm: f64,
        /// Seconds of updates that count
        #[arg(long, default_value_t = 40.0)]
        seconds: f64,
        /// Memory of a store; of SQLite's and PostgreSQL's cache, too
        #[arg(long, default_value = "64MiB")]
        memory: ByteCount,
    },
    /// Replay random reads onto a simulated Atlas 10K: requests a second, and once, twice, four times
    /// as many
    Replay {
        /// Requests of the smallest trace
        #[arg(long, default_value_t = 1_000_000)]
        requests: u64,
        /// Runs of each; the median counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Arguments::parse().benchmark {
        Some(Benchmark::Scan { rows, runs }) => scan::run(rows, runs),
        Some(Benchmark::Tpch { scale, runs }) => tpch::run(scale, runs),
        Some(Benchmark::Updated { scale, pending, rate, seconds, memory, runs }) => {
            let (scale_factor, rate_per_s) = (scale, rate);
            updated::run(&updated::Settings {
                scale_factor,
                pending,
                rate_per_s,
                seconds,
                memory,
                runs,
            })
        }
        Some(Benchmark::Rows { scale, warm, seconds, memory }) => {
            rows::run(&rows::Settings { scale_factor: scale, warm_s: warm, seconds, memory })
        }
        Some(Benchmark::Replay { requests, runs }) => replay::run(requests, runs),
        None => {
            replay::run(1_000_000, 3)?;
            println!();
            scan::run(8_000_000, 7)
        }
    }
}

fn pin_to_one_core() -> Result<(), Box<dyn std::error::Error>> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(0);
    rustix::thread::sched_setaffinity(None, &cores)?;
    Ok(())
}

/// The value that half of them do not exceed.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
