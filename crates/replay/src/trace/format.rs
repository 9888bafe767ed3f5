//! The formats by name, and finding the one that a trace has.

use std::fmt;
use std::str::FromStr;

use memchr::memrchr;

use super::TraceReader;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DiskSim's ASCII format.
    DiskSim,
    /// DiskSim's format of requests measured on a real drive.
    DiskSimValidate,
    /// The Storage Performance Council's format.
    Spc,
    /// The format of SSDSim and MQSim, times in nanoseconds.
    SsdSim,
    /// The same with times in microseconds.
    SsdSimMicroseconds,
    /// The traces of MSR Cambridge.
    MsrCsv,
    /// The output of blkparse.
    BlkParse,
    /// The I/O logs of fio, versions 2 and 3.
    FioIolog,
}

/// A name that is no format's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no trace format: write one of {}", Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat {
    name: String,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::DiskSim,
        Format::DiskSimValidate,
        Format::Spc,
        Format::SsdSim,
        Format::SsdSimMicroseconds,
        Format::MsrCsv,
        Format::BlkParse,
        Format::FioIolog,
    ];

    /// What the format is called, on the command line too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::DiskSim => "disksim",
            Format::DiskSimValidate => "disksim-validate",
            Format::Spc => "spc",
            Format::SsdSim => "ssdsim",
            Format::SsdSimMicroseconds => "ssdsim-us",
            Format::MsrCsv => "msr-csv",
            Format::BlkParse => "blkparse",
            Format::FioIolog => "fio-iolog",
        }
    }

    /// The format of a trace that begins with `head`: the only one that can read it. A last line
    /// without its end is left out, unless it is the only one.
    ///
    /// Five columns of whole numbers are taken as `ssdsim`, the most common of those that can be so:
    /// times in nanoseconds. `ssdsim-us` has to be named.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Format> {
        let whole_lines = memrchr(b'\n', head).and_then(|end| head.get(..end));
        let head = whole_lines.unwrap_or(head);
        let mut fitting = Format::ALL
            .into_iter()
            .filter(|format| TraceReader::new("", head, *format).all(|request| request.is_ok()));
        let first = fitting.next()?;
        let rest: Vec<Format> = fitting.collect();
        if rest.is_empty() {
            return Some(first);
        }
        let has_requests = || TraceReader::new("", head, Format::SsdSim).next().is_some();
        (rest.contains(&Format::SsdSim) && has_requests()).then_some(Format::SsdSim)
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat { name: name.into() })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
