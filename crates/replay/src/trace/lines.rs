//! The lines of a trace, without a copy where the reader's buffer holds them whole.

use std::io::{self, BufRead};
use std::mem;

use memchr::memchr;

use super::{Flaw, TraceError};

/// The longest line of a trace, in bytes.
pub const LINE_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Lines<R> {
    trace: String,
    reader: R,
    /// Lines begun, hence the number of the current one.
    line_number: u64,
    /// What of the reader's buffer the current line takes up.
    taken: usize,
    /// The current line, where the reader's buffer ends within it.
    carried: Vec<u8>,
    failed: bool,
}

enum Fault {
    Io(io::Error),
    Flaw(Flaw),
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(trace: String, reader: R) -> Self {
        Lines { trace, reader, line_number: 0, taken: 0, carried: Vec::new(), failed: false }
    }

    /// The number of the line read last, counted from 1.
    #[inline]
    pub(super) fn line_number(&self) -> u64 {
        self.line_number
    }

    /// What `parse` finds on the next line on which it finds something. Nothing after an error.
    #[inline]
    pub(super) fn next_record<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<Option<T>, Flaw>,
    ) -> Option<Result<T, TraceError>> {
        if self.failed {
            return None;
        }
        loop {
            let parsed = match self.next_line() {
                Ok(None) => return None,
                Ok(Some(line)) if is_skipped(line) => continue,
                Ok(Some(line)) => parse(line).map_err(Fault::Flaw),
                Err(fault) => Err(fault),
            };
            match parsed {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(fault) => return Some(Err(self.fail(fault))),
            }
        }
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> TraceError {
        self.failed = true;
        let (trace, line_number) = (self.trace.clone(), self.line_number);
        match fault {
            Fault::Io(source) => TraceError::Io { trace, line_number, source },
            Fault::Flaw(flaw) => TraceError::Line { trace, line_number, flaw },
        }
    }

    /// The next line without its line feed; `None` at the end.
    #[inline]
    fn next_line(&mut self) -> Result<Option<&[u8]>, Fault> {
        self.reader.consume(mem::take(&mut self.taken));
        self.carried.clear();
        self.line_number += 1;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Fault::Io(error)),
            };
            let feed = memchr(b'\n', buffer);
            let length = feed.unwrap_or(buffer.len());
            let at_end = buffer.is_empty();
            if self.carried.len() + length > LINE_BYTES_MAX {
                return Err(Fault::Flaw(Flaw::TooLong));
            }
            if self.carried.is_empty() && at_end {
                return Ok(None);
            }
            if self.carried.is_empty() && feed.is_some() {
                self.taken = length + 1;
                return Ok(self.reader.fill_buf().map_err(Fault::Io)?.get(..length));
            }
            self.carried.extend(buffer.iter().take(length));
            self.reader.consume(length + usize::from(feed.is_some()));
            if feed.is_some() || at_end {
                return Ok(Some(&self.carried));
            }
        }
    }
}

/// Comments and empty lines.
pub(super) fn is_skipped(line: &[u8]) -> bool {
    line.first() == Some(&b'#') || line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lengths(text: &[u8], buffer_bytes: usize) -> Vec<Result<usize, String>> {
        let mut lines = Lines::new("t".into(), BufReader::with_capacity(buffer_bytes, text));
        std::iter::from_fn(|| lines.next_record(|line| Ok(Some(line.len()))))
            .map(|length| length.map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn lines_are_the_same_for_every_buffer() {
        let text = b"one\n\n# two\n  \nthree\r\nfour five six";
        for buffer_bytes in 1..40 {
            assert_eq!(lengths(text, buffer_bytes), [Ok(3), Ok(6), Ok(13)], "{buffer_bytes}");
        }
    }

    #[test]
    fn a_line_too_long_is_an_error_and_the_end() {
        let long = "line 2, longer than 4096 bytes: decompress the file if it is compressed";
        for buffer_bytes in [7, 4096, 10_000] {
            let check = |bytes: usize, expected: &[Result<usize, String>]| {
                let text = [b"a\n".to_vec(), vec![b'x'; bytes], b"\nb".to_vec()].concat();
                assert_eq!(lengths(&text, buffer_bytes), expected, "{buffer_bytes}");
            };
            check(LINE_BYTES_MAX, &[Ok(1), Ok(LINE_BYTES_MAX), Ok(1)]);
            check(LINE_BYTES_MAX + 1, &[Ok(1), Err(format!("t, {long}"))]);
        }
    }
}
