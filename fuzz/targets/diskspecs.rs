//! DiskSim's parameter files. The input is one or more files with NULs between them: the first is
//! imported, and those that it sources are the ones whose numbers their names begin with, or else
//! the first again.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use moirai_models::{Profile, diskspecs};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    moirai_fuzz::mutate_text(data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    let files: Vec<&str> = text.split('\0').collect();
    let mut load = |name: &str| {
        let number = name.bytes().next().filter(u8::is_ascii_digit).map_or(0, |digit| digit - b'0');
        let file = files.get(usize::from(number)).or(files.first());
        Ok(file.copied().unwrap_or_default().to_owned())
    };
    match diskspecs::import("0", None, &mut load) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(imported) => {
            if let Ok(profile) = Profile::new(imported.profile) {
                moirai_fuzz::check_profile(&profile);
                moirai_fuzz::serve(&profile, &[]);
            }
        }
    }
});
