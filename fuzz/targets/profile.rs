//! Drive profiles: any text is a profile or an error, and a profile has the disk that it promises.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use moirai_models::Profile;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    moirai_fuzz::mutate_text(data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    match Profile::parse(text) {
        Ok(profile) => moirai_fuzz::check_profile(&profile),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
