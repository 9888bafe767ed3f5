//! Answers of SCSI drives.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| moirai_devices::scsi::fuzz(bytes));
