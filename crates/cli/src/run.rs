//! Under which time a command runs: virtual when its device is simulated, else real.

use std::future::Future;

use moirai::runtime::{block_on_real, block_on_virtual};

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
    // Nothing that runs here draws random numbers.
    let seed = 0;
    if virtual_time { block_on_virtual(seed, command) } else { block_on_real(seed, command) }
}
