//! Reading block I/O traces: one reader for the formats that traces are published in.
//!
//! A [`TraceReader`] gives the requests of a trace one by one, in constant memory: it holds one
//! line and the names of the devices. The format is named, or found by [`Format::detect`] from the
//! first lines.
//!
//! | format | columns | address | time |
//! |---|---|---|---|
//! | `disksim` | `time_ms devno blkno bcount flags` | blocks | ms, ordered |
//! | `disksim-validate` | `rw buffer lbn sectors measured_us delay_us` | blocks | delays |
//! | `spc` | `asu,lba,size,opcode,timestamp` and more | blocks | s, held |
//! | `ssdsim` | `time_ns device lba sectors op` | blocks | ns, held |
//! | `ssdsim-us` | `time_us device lba sectors op` | blocks | us, held |
//! | `msr-csv` | `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` | bytes | held |
//! | `blkparse` | `dev cpu seq time pid action rwbs sector + sectors` | blocks | s, held |
//! | `fio-iolog` version 2 | `filename action offset length` | bytes | waits |
//! | `fio-iolog` version 3 | `timestamp_us filename action offset length` | bytes | us, ordered |
//!
//! Blocks are of 512 bytes. Columns are parted by blanks, or by commas where the table has commas.
//! In every format empty lines and lines that begin with `#` are skipped, and a line of more than
//! 4,096 bytes is an error, so that a file of another kind is soon found out.
//!
//! Times are decimals that are converted exactly; past the nanosecond they are rounded to the
//! nearest. Where the table says *ordered*, a time before that of the line before is an error.
//! Where it says *held*, real traces have requests slightly out of order, because several queues
//! were merged: such a request gets the latest time so far.
//!
//! What each format says and leaves out:
//!
//! - `disksim`: the ASCII format of DiskSim. Bit 0 of `flags` is set for a read; the other bits say
//!   who waits for the request, and are not used. DiskSim reads flags as hexadecimal, other
//!   programs write them in decimal: bit 0 is that of the last digit either way.
//! - `disksim-validate`: requests sent to a real drive one at a time. `rw` is `R` or `W`, `buffer`
//!   what the drive's buffer did ([`BufferAction`]). `delay_us` is the time from the completion of
//!   the request *on this line* to the issue of the next, so the reader moves it down by one line:
//!   the first request has no delay, and the last line's is not used. DiskSim does the same
//!   (`iotrace_validate_get_ioreq_event`). [`MeasuredReader`] gives the measured times too.
//! - `spc`: the format of the Storage Performance Council, in which UMass publishes traces of OLTP
//!   and of a search engine. `lba` counts from the start of the application storage unit (ASU),
//!   which is the device. Sizes are in bytes and are rounded up to blocks. Columns after the fifth
//!   are optional and skipped.
//! - `ssdsim`, `ssdsim-us`: what the simulators SSDSim and MQSim read, in whole numbers. `op` is 0
//!   for a write, 1 for a read; lines with other digits, which are commands of simulators derived
//!   from them, are skipped. A trace does not say which of the two units it has.
//! - `msr-csv`: the traces of MSR Cambridge, with or without a header line. `Timestamp` is a
//!   Windows filetime, which counts 100 ns; that of the first record is time 0. The blocks are all
//!   that the bytes touch. The device is `DiskNumber`; `Hostname` and `ResponseTime` are skipped.
//! - `blkparse`: the default output of blkparse; what follows the columns is skipped. The first
//!   action found of `Q` (queued) and `D` (dispatched) is replayed. Other actions are skipped, and
//!   so are discards, and flushes and packet commands, which have no blocks. The summary ends the
//!   trace. Devices are numbered in the order in which their `major,minor` appear.
//! - `fio-iolog`: what fio writes with `write_iolog`. `add`, `open` and `close` only number the
//!   files, which are the devices, in the order in which they appear; `sync`, `datasync` and
//!   `trim` are skipped. Offsets and lengths must be whole blocks. In version 2 all requests
//!   before the first `wait` are at time 0, and each `wait` adds its microseconds, as fio's HOWTO
//!   has it; those under 100 us too, which fio itself discards. Timestamps of version 3 are
//!   microseconds from the start of the run.

mod blkparse;
mod clock;
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

pub use error::{Flaw, TraceError};
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
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next_record(|line| self.parser.line(line))
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
