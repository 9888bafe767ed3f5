//! Disks of any valid profile serve any requests. The input is a profile, a NUL, and requests; see
//! `moirai_fuzz::serve`.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target};
use moirai_models::Profile;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    moirai_fuzz::mutate_text(data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let text = str::from_utf8(parts.next().unwrap_or_default());
    // What is no profile is the target `profile`'s to keep.
    let Some(profile) = text.ok().and_then(|text| Profile::parse(text).ok()) else {
        return Corpus::Reject;
    };
    moirai_fuzz::serve(&profile, parts.next().unwrap_or_default());
    Corpus::Keep
});
