//! `cargo xtask bench`: the comparison benchmarks, which live in a crate of their own.

use std::ffi::OsString;
use std::path::Path;

use crate::error::Error;
use crate::process;

pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<(), Error> {
    process::run(
        process::cargo(root)
            .args(["run", "--release", "--package", "moirai-bench", "--"])
            .args(args),
    )
}
