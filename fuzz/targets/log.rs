//! The update engine's log, checkpoint and superblock; the first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use moirai_update::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first {
        b'c' => fuzzing::checkpoint(rest),
        b'b' => fuzzing::superblock(rest),
        _ => fuzzing::log(rest),
    }
});
