//! The time that a command runs in: virtual when its devices are simulated, else real; and the files it creates.

use std::future::Future;

use moirai::NewFiles;
use moirai::runtime::{block_on_real, block_on_virtual_with_files};

use crate::failure::Failure;

/// Runs `command`, which works on the device that `uri` names, in virtual time when that is simulated.
pub(crate) fn on_device<T, F>(uri: &str, command: F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    in_time(moirai::is_simulated(uri)?, command)
}

/// Runs `command` in virtual time, or in real time.
pub(crate) fn in_time<F: Future>(is_virtual: bool, command: F) -> F::Output {
    let seed = 0;
    match is_virtual {
        true => block_on_virtual_with_files(seed, command),
        false => block_on_real(seed, command),
    }
}

/// Runs a command that may create files; one that fails leaves none of them.
pub(crate) fn creating<T>(
    command: impl FnOnce(&NewFiles) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let files = NewFiles::new();
    let done = command(&files);
    if done.is_err() {
        files.remove();
    }
    done
}
