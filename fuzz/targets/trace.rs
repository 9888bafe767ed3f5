//! Trace readers. The first byte chooses the format, `0` for the first one; what is read must not
//! depend on the reader's buffer.
#![no_main]

use std::fmt::Debug;
use std::io::{BufRead, BufReader};

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use moirai_replay::trace::{Format, MeasuredReader, TraceError, TraceReader};
use moirai_units::{BLOCK_BYTES, BlockRange};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    moirai_fuzz::mutate_text(data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, trace)) = bytes.split_first() else { return };
    let number = usize::from(first.wrapping_sub(b'0')) % (Format::ALL.len() + 1);
    match Format::ALL.get(number) {
        Some(format) => compare(trace, |reader| {
            read(TraceReader::new("t", reader, *format), |request| request.blocks)
        }),
        None => compare(trace, |reader| {
            read(MeasuredReader::new("t", reader), |request| request.blocks)
        }),
    }
    let _ = Format::detect("t", trace);
});

fn compare(trace: &[u8], read: impl Fn(&mut dyn BufRead) -> Vec<String>) {
    let whole = read(&mut &*trace);
    for capacity in [1, 7, 64] {
        assert_eq!(read(&mut BufReader::with_capacity(capacity, trace)), whole, "{capacity}");
    }
}

/// All requests as text, and the error that ends them.
fn read<T: Debug>(
    reader: impl Iterator<Item = Result<T, TraceError>>,
    blocks: impl Fn(&T) -> BlockRange,
) -> Vec<String> {
    let mut has_failed = false;
    reader
        .map(|request| {
            assert!(!has_failed, "nothing is read after an error");
            match request {
                Ok(request) => {
                    let blocks = blocks(&request);
                    assert!(!blocks.is_empty(), "{request:?}");
                    assert!(blocks.end().0 <= u64::MAX / BLOCK_BYTES, "{request:?}");
                    format!("{request:?}")
                }
                Err(error) => {
                    has_failed = true;
                    error.to_string()
                }
            }
        })
        .collect()
}
