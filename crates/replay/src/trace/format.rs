//! The formats by name, and finding the one that a trace has.

use std::fmt;
use std::str::FromStr;

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
#[error("`{name}` is not a trace format: use one of {}", Format::ALL.map(Format::name).join(", "))]
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
