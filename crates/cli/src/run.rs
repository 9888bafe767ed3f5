//! Under which time a command runs: virtual when its device is simulated, else real.

use std::future::Future;

use moirai::runtime::{block_on_real, block_on_virtual_with_files};

use crate::failure::Failure;

/// Runs `command`, which works on the device that `uri` names, in the time that fits that.
pub(crate) fn on_device<T, F>(uri: &str, command: F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    in_time(moirai::is_simulated(uri)?, command)
}

/// Runs `command` in virtual time, or in real time.
pub(crate) fn in_time<F: Future>(virtual_time: bool, command: F) -> F::Output {
    let seed = 0;
    match virtual_time {
        true => block_on_virtual_with_files(seed, command),
        false => block_on_real(seed, command),
    }
}
