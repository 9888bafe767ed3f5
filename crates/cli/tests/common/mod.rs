//! Running the tool.

use std::path::Path;
use std::process::{Command, Output};

/// The tool, to be run in `folder`.
pub(crate) fn moirai(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moirai"));
    // What is discovered is kept beside the test's own files.
    command.current_dir(folder).env("XDG_DATA_HOME", folder.join("data")).args(arguments);
    command
}

/// Runs the tool; gives its exit status, standard output and standard error.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = moirai(folder, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Runs the tool, which must succeed; gives its standard output.
pub(crate) fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let (status, output, error) = run(folder, arguments);
    assert_eq!(status, Some(0), "moirai {}: {error}{output}", arguments.join(" "));
    output
}
