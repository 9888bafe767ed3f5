//! Running other programs, with their output going straight to the terminal.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::error::Error;

/// The cargo that started this program, at the workspace root. A `cargo` found on the path could
/// belong to another toolchain and would build everything a second time.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// Runs `command` to its end; a status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command
        .status()
        .map_err(|source| Error::Start { command: command_line(command), source })?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Failed { command: command_line(command), status })
    }
}

/// The command as one would type it: the program without its folder, then the arguments.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().starts_with("`sh -c exit 3` failed"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(matches!(error, Error::Start { .. }), "{error}");
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }
}
