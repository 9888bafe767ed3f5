//! Reading block I/O traces: one reader for the formats that traces are published in.
//!
//! A [`TraceReader`] gives the requests of a trace one by one, in constant memory: it holds one
//! line and the names of the devices. The format is named, or found by [`Format::detect`] from the
//! first lines.
//!
#![doc = include_str!("../../../../docs/traces.md")]

mod blkparse;
mod clock;
mod detect;
mod devices;
mod disksim;
mod error;
mod fields;
mod fio;
mod format;
mod lines;
mod msr;
mod spc;
mod ssdsim;
mod validate;

use std::io::BufRead;

use moirai_storage::Op;
use moirai_units::{BlockRange, Instant, Nanos};

pub use detect::{Closest, Undetected};
pub use error::{Flaw, TraceError};
pub(crate) use fields::TIME_NS_MAX;
pub use format::{Format, UnknownFormat};
pub use lines::LINE_BYTES_MAX;
pub use validate::{BufferAction, MeasuredReader, MeasuredRequest};

use lines::Lines;

/// When a request of a trace is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At a time of the trace's clock, whatever became of the requests before.
    At(Instant),
    /// This long after the completion of the request before; the first, after the start.
    After(Nanos),
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it is issued. One trace has one kind of arrival.
    pub at: Arrival,
    /// Which of the trace's devices it goes to.
    pub device: u32,
    /// Read or write.
    pub op: Op,
    /// The blocks accessed; never none. A count of bytes up to their end fits 64 bits.
    pub blocks: BlockRange,
    /// The line that it stands on, counted from 1; 0 when it was not read from one.
    pub line: u64,
}

impl TraceRequest {
    /// A request that was not read from a line.
    #[must_use]
    pub fn new(at: Arrival, device: u32, op: Op, blocks: BlockRange) -> TraceRequest {
        TraceRequest { at, device, op, blocks, line: 0 }
    }
}

/// Reads the requests of a trace, one line at a time.
///
/// Ends after the first error: what follows a line that is not understood is not to be trusted.
#[derive(Debug)]
pub struct TraceReader<R> {
    lines: Lines<R>,
    parser: Parser,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of `reader`, which errors call `name`. It is fast on a reader with a large buffer.
    #[must_use]
    pub fn new(name: impl Into<String>, reader: R, format: Format) -> Self {
        TraceReader { lines: Lines::new(name.into(), reader), parser: Parser::new(format) }
    }

    /// Requests so far that came with an earlier time than one before them, for which the later time counts. In formats whose times
    /// must ascend they are an error.
    #[must_use]
    pub fn backwards(&self) -> u64 {
        self.parser.backwards()
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut request = self.lines.next_record(|line| self.parser.line(line))?;
        if let Ok(request) = &mut request {
            request.line = self.lines.line_number();
        }
        Some(request)
    }
}

/// The state of reading one format.
#[derive(Debug)]
enum Parser {
    DiskSim(disksim::Parser),
    Validate(validate::Parser),
    Spc(spc::Parser),
    SsdSim(ssdsim::Parser),
    Msr(msr::Parser),
    BlkParse(blkparse::Parser),
    Fio(fio::Parser),
}

impl Parser {
    fn new(format: Format) -> Parser {
        match format {
            Format::DiskSim => Parser::DiskSim(disksim::Parser::default()),
            Format::DiskSimValidate => Parser::Validate(validate::Parser::default()),
            Format::Spc => Parser::Spc(spc::Parser::default()),
            Format::SsdSim => Parser::SsdSim(ssdsim::Parser::nanoseconds()),
            Format::SsdSimMicroseconds => Parser::SsdSim(ssdsim::Parser::microseconds()),
            Format::MsrCsv => Parser::Msr(msr::Parser::default()),
            Format::BlkParse => Parser::BlkParse(blkparse::Parser::default()),
            Format::FioIolog => Parser::Fio(fio::Parser::default()),
        }
    }

    fn backwards(&self) -> u64 {
        match self {
            Parser::DiskSim(_) | Parser::Validate(_) | Parser::Fio(_) => 0,
            Parser::Spc(spc::Parser { clock })
            | Parser::SsdSim(ssdsim::Parser { clock, .. })
            | Parser::Msr(msr::Parser { clock, .. })
            | Parser::BlkParse(blkparse::Parser { clock, .. }) => clock.backwards(),
        }
    }

    /// The request on a line; `None` for a line that is none.
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRequest>, Flaw> {
        match self {
            Parser::DiskSim(parser) => parser.line(line).map(Some),
            Parser::Validate(parser) => parser.line(line).map(|measured| Some(measured.into())),
            Parser::Spc(parser) => parser.line(line).map(Some),
            Parser::SsdSim(parser) => parser.line(line),
            Parser::Msr(parser) => parser.line(line),
            Parser::BlkParse(parser) => parser.line(line),
            Parser::Fio(parser) => parser.line(line),
        }
    }
}
