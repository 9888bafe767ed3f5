//! Finding the format that a trace has, or why it seems to have none.

use memchr::memrchr;

use super::lines::is_skipped;
use super::{Flaw, Format, TraceError, TraceReader};

/// Why no format was found for a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undetected {
    /// The file is empty.
    #[error("{trace}: the file is empty")]
    Empty {
        /// The trace.
        trace: String,
    },

    /// The first lines hold no requests.
    #[error(
        "{trace}: the first lines are comments or empty, and show no format; give the format with \
         --format: {}", names(&Format::ALL)
    )]
    Comments {
        /// The trace.
        trace: String,
    },

    /// More than one format can read the trace.
    #[error(
        "{trace}: the first lines fit several formats; give the right one with --format: {}",
        names(formats)
    )]
    Several {
        /// The trace.
        trace: String,
        /// The formats.
        formats: Vec<Format>,
    },

    /// No format can read the trace.
    #[error(
        "{trace}: the first lines fit no known format; give the format with --format: {}{}",
        names(&Format::ALL), described(.closest.as_ref())
    )]
    Unknown {
        /// The trace.
        trace: String,
        /// The closest format, if one is closest.
        closest: Option<Closest>,
    },
}

/// The format that reads most of a trace, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closest {
    /// The format; `None` when all formats end there in the same way.
    pub format: Option<Format>,
    /// The line, counted from 1.
    pub line_number: u64,
    /// The problem on that line.
    pub flaw: Flaw,
}

fn names(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

fn described(closest: Option<&Closest>) -> String {
    let Some(Closest { format, line_number, flaw }) = closest else { return String::new() };
    match format {
        Some(format) => format!(". The closest format is {format}: line {line_number}, {flaw}"),
        None => format!(". All formats fail at line {line_number}, {flaw}"),
    }
}

impl Format {
    /// The format of a trace that begins with `head`: the only one that can read it. A last line
    /// without its end is left out, unless it is the only one that says something.
    ///
    /// Five columns of whole numbers are taken as `ssdsim`, the most common of those that can be so:
    /// times in nanoseconds. `ssdsim-us` has to be named. When there is none, the error, which calls
    /// the trace `name`, says why.
    pub fn detect(name: &str, head: &[u8]) -> Result<Format, Undetected> {
        let trace = name.to_owned();
        if head.is_empty() {
            return Err(Undetected::Empty { trace });
        }
        let whole_lines = memrchr(b'\n', head).and_then(|end| head.get(..end));
        let says_nothing = |text: &[u8]| text.split(|byte| *byte == b'\n').all(is_skipped);
        let head = whole_lines.filter(|lines| !says_nothing(lines)).unwrap_or(head);
        if says_nothing(head) {
            return Err(Undetected::Comments { trace });
        }
        let (mut fitting, mut failing) = (Vec::new(), Vec::new());
        for format in Format::ALL {
            match first_flaw(format, head) {
                None => fitting.push(format),
                Some((line_number, flaw)) => failing.push((format, line_number, flaw)),
            }
        }
        let has_requests = || TraceReader::new("", head, Format::SsdSim).next().is_some();
        match fitting.as_slice() {
            [] => Err(Undetected::Unknown { trace, closest: closest(failing) }),
            [only] => Ok(*only),
            several if several.contains(&Format::SsdSim) && has_requests() => Ok(Format::SsdSim),
            _ => Err(Undetected::Several { trace, formats: fitting }),
        }
    }

    /// Columns in their order, as flaws call them.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Format::DiskSim => &["time_ms", "devno", "blkno", "bcount", "flags"],
            Format::DiskSimValidate => {
                &["rw", "buffer", "lbn", "sectors", "measured_us", "delay_us"]
            }
            Format::Spc => &["asu", "lba", "size", "opcode", "timestamp"],
            Format::SsdSim => &["time_ns", "device", "lba", "sectors", "op"],
            Format::SsdSimMicroseconds => &["time_us", "device", "lba", "sectors", "op"],
            Format::MsrCsv => {
                &["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"]
            }
            Format::BlkParse => {
                &["dev", "cpu", "seq", "time", "pid", "action", "rwbs", "sector", "+", "sectors"]
            }
            Format::FioIolog => &["timestamp_us", "filename", "action", "offset", "length"],
        }
    }
}

/// Where `format` fails to read `head`.
fn first_flaw(format: Format, head: &[u8]) -> Option<(u64, Flaw)> {
    match TraceReader::new("", head, format).find_map(Result::err)? {
        TraceError::Line { line_number, flaw, .. } => Some((line_number, flaw)),
        // Memory is read without fail.
        TraceError::Io { .. } => None,
    }
}

/// The format that read most lines, and of those the one that read most columns of the next line.
/// With as many in several it is `ssdsim`, which is preferred where both fit, or the first.
fn closest(failing: Vec<(Format, u64, Flaw)>) -> Option<Closest> {
    let progress = |(format, line_number, flaw): &(Format, u64, Flaw)| {
        let columns = format.columns();
        let read = match flaw {
            Flaw::Value { column, .. }
            | Flaw::Missing { column, .. }
            | Flaw::Backwards { column, .. }
            | Flaw::Devices { column, .. } => columns.iter().position(|name| name == column),
            Flaw::Extra { .. } => Some(columns.len()),
            Flaw::TooLong => None,
        };
        (*line_number, read.unwrap_or(0))
    };
    let most = failing.iter().map(progress).max()?;
    let least = failing.iter().map(progress).min()?;
    let mut furthest = failing.into_iter().filter(|failed| progress(failed) == most);
    let first = furthest.next()?;
    let (format, line_number, flaw) =
        furthest.find(|(format, ..)| *format == Format::SsdSim).unwrap_or(first);
    if most > least {
        return Some(Closest { format: Some(format), line_number, flaw });
    }
    // All the same: that the line is too long says something, that no first column fits does not.
    (flaw == Flaw::TooLong).then_some(Closest { format: None, line_number, flaw })
}
