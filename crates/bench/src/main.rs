//! Benchmarks with peers in the same run: ratios and medians, never a verdict.

mod scan;

use clap::{Parser, Subcommand};

/// Benchmarks of Moirai beside its peers. These machines are noisy: look at the ratios.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Scan four int64 columns from a cached file on one core: CSM, NSM, Parquet
    Scan {
        /// Rows of the table, 32 bytes each
        #[arg(long, default_value_t = 8_000_000)]
        rows: u64,
        /// Runs of each; the median counts
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let default = Benchmark::Scan { rows: 8_000_000, runs: 7 };
    match Arguments::parse().benchmark.unwrap_or(default) {
        Benchmark::Scan { rows, runs } => scan::run(rows, runs),
    }
}
