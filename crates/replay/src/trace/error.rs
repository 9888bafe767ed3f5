//! What can be wrong with a trace.

use std::io;

use super::lines::LINE_BYTES_MAX;

/// A trace that cannot be read further. The message names the trace and the line.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that is not of the format.
    #[error("{trace}, line {line_number}, {flaw}")]
    Line {
        /// The trace.
        trace: String,
        /// Counted from 1, as editors do.
        line_number: u64,
        /// The problem.
        flaw: Flaw,
    },

    /// The operating system failed to read.
    #[error("{trace}, line {line_number}: read failed: {source}")]
    Io {
        /// The trace.
        trace: String,
        /// The line that was being read.
        line_number: u64,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// What is wrong with a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A column with an invalid value.
    #[error("column `{column}`: `{found}` is not {expected}")]
    Value {
        /// The column's name.
        column: &'static str,
        /// The value; only the beginning of a long one.
        found: String,
        /// The values that are valid.
        expected: String,
    },

    /// A line that is cut short.
    #[error("column `{column}` is missing; expected {expected}")]
    Missing {
        /// The first missing column.
        column: &'static str,
        /// The values that are valid.
        expected: String,
    },

    /// More columns than the format has.
    #[error("`{found}` follows the last column: check the format")]
    Extra {
        /// The first word too many.
        found: String,
    },

    /// A time before the time of the previous line, in a format whose traces are ordered by time.
    #[error("column `{column}`: {at} is before {last}, the time of the previous line")]
    Backwards {
        /// The column's name.
        column: &'static str,
        /// The time on this line, in the column's unit.
        at: String,
        /// The time on the previous line.
        last: String,
    },

    /// More devices than a trace can be expected to have.
    #[error("column `{column}`: the trace names more than {max} devices: check the format")]
    Devices {
        /// The column with the name of the device.
        column: &'static str,
        /// How many it may name.
        max: usize,
    },

    /// A line that is too long.
    #[error("longer than {LINE_BYTES_MAX} bytes: decompress the file if it is compressed")]
    TooLong,
}
