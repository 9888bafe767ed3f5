//! `cargo xtask bench`: the comparison benchmarks. That of updates is in a workspace of its own, with its peers.

use std::ffi::OsString;
use std::path::Path;

use crate::error::Error;
use crate::process;

const UPDATE: [&str; 7] = [
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
    match args.split_first() {
        Some((first, args)) if first == "update" => {
            // As its own configure script finds it: a flush is of data alone then.
            let flags = ("LIBSQLITE3_FLAGS", "-DHAVE_FDATASYNC=1");
            process::run(process::cargo(root).env(flags.0, flags.1).args(UPDATE).args(args))
        }
        _ => process::run(process::cargo(root).args(OTHERS).args(args)),
    }
}
