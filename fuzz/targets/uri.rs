//! Device URIs, and the values of their parameters.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use moirai_models::Scheduler;
use moirai_storage::{DeviceUri, Result};
use moirai_units::{BlockCount, ByteCount};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    moirai_fuzz::mutate_text(data, size, max_size, seed)
});

fuzz_target!(|text: &str| {
    if let Ok(uri) = text.parse::<DeviceUri>() {
        assert_eq!(uri.to_string(), text);
        let _ = take_all(uri);
    }
    if let Ok(size) = text.parse::<ByteCount>() {
        assert!(!size.to_string().is_empty());
        let _ = BlockCount::holding(size);
    }
    let _ = text.parse::<Scheduler>();
});

fn take_all(mut uri: DeviceUri) -> Result<()> {
    uri.take::<ByteCount>("size")?;
    uri.take::<ByteCount>("ensemble")?;
    uri.take::<bool>("direct")?;
    uri.take::<String>("data")?;
    uri.take::<Scheduler>("scheduler")?;
    uri.finish()
}
