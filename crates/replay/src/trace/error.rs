//! What can be wrong with a trace.

use std::io;

use super::lines::LINE_BYTES_MAX;

/// A trace that cannot be read on. The message names the trace and the line.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that is not of the format.
    #[error("{trace}, line {line_number}, {flaw}")]
    Line {
        /// The trace.
        trace: String,
        /// Counted from 1, as editors do.
        line_number: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },

    /// The operating system failed to read.
    #[error("{trace}, line {line_number}: read failed: {source}")]
    Io {
        /// The trace.
        trace: String,
        /// The line that was being read.
        line_number: u64,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What is wrong with a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A column whose value makes no sense.
    #[error("column `{column}`: `{found}` is not {expected}")]
    Value {
        /// The column's name.
        column: &'static str,
        /// What stands there; the beginning of it, if it is long.
        found: String,
        /// What should.
        expected: String,
    },

    /// A line that is cut short.
    #[error("column `{column}`: the line ends before it; expected {expected}")]
    Missing {
        /// The first column that is not there.
        column: &'static str,
        /// What should stand there.
        expected: String,
    },

    /// More columns than the format has.
    #[error("`{found}` follows the last column: is the format right?")]
    Extra {
        /// The first word too many.
        found: String,
    },

    /// A time before that of the line before, in a format whose traces are in order.
    #[error("column `{column}`: {at} is before {last}, the time of the line before")]
    Backwards {
        /// The column's name.
        column: &'static str,
        /// The time on this line, in the column's unit.
        at: String,
        /// The time on the line before.
        last: String,
    },

    /// More devices than a trace can be expected to have.
    #[error("column `{column}`: the trace names more than {max} devices: is the format right?")]
    Devices {
        /// The column with the name of the device.
        column: &'static str,
        /// How many it may name.
        max: usize,
    },

    /// A line without end.
    #[error("longer than {LINE_BYTES_MAX} bytes: is this a text file, and not a compressed one?")]
    TooLong,
}
