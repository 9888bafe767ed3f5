//! `cargo xtask bench`: the comparison benchmarks. Those of updates and of TPC-C are in a workspace of their own, with their peers.

use std::ffi::OsString;
use std::path::Path;

use crate::error::Error;
use crate::process;

/// Benchmarks in the workspace of the peers.
const WITH_PEERS: [&str; 2] = ["update", "tpcc"];
const PEERS: [&str; 7] = [
    "run",
    "--release",
    "--manifest-path",
    "peers/Cargo.toml",
    "--target-dir",
    "target/peers",
    "--",
];
const OTHERS: [&str; 5] = ["run", "--release", "--package", "moirai-bench", "--"];

pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<(), Error> {
    match args.first() {
        Some(first) if WITH_PEERS.iter().any(|name| first == name) => {
            // As its own configure script finds it: a flush is of data alone then.
            let flags = ("LIBSQLITE3_FLAGS", "-DHAVE_FDATASYNC=1");
            process::run(process::cargo(root).env(flags.0, flags.1).args(PEERS).args(args))
        }
        _ => process::run(process::cargo(root).args(OTHERS).args(args)),
    }
}
