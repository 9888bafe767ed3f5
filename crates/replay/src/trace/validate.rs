//! DiskSim's validation format: requests to a real drive, and how long each took.

use std::io::BufRead;
use std::mem;

use moirai_storage::Op;
use moirai_units::{BlockRange, Nanos};

use super::fields::{Fields, TimeUnit};
use super::lines::Lines;
use super::{Arrival, Flaw, TraceError, TraceRequest};

/// What the buffer of a measured drive did with a request, seen from the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferAction {
    /// The drive had the data, or took them, without leaving the bus.
    Hit,
    /// The drive left the bus for its medium.
    Miss,
    /// It left the bus twice.
    Doub,
    /// It left the bus three times.
    Trip,
}

/// One request to a real drive. Each was issued after the one before it had completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// Read or write.
    pub op: Op,
    /// What the drive's buffer did.
    pub buffer: BufferAction,
    /// The blocks accessed; never none.
    pub blocks: BlockRange,
    /// The response time of the drive.
    pub measured: Nanos,
    /// From the completion of the request before to the issue of this one; zero for the first.
    pub delay: Nanos,
}

impl From<MeasuredRequest> for TraceRequest {
    fn from(request: MeasuredRequest) -> TraceRequest {
        let MeasuredRequest { op, blocks, delay, .. } = request;
        TraceRequest::new(Arrival::After(delay), 0, op, blocks)
    }
}

/// Reads the requests of a `disksim-validate` trace with the times measured.
///
/// Ends after the first error, as [`super::TraceReader`] does.
#[derive(Debug)]
pub struct MeasuredReader<R> {
    lines: Lines<R>,
    parser: Parser,
}

impl<R: BufRead> MeasuredReader<R> {
    /// A reader of `reader`, which errors call `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, reader: R) -> Self {
        MeasuredReader { lines: Lines::new(name.into(), reader), parser: Parser::default() }
    }
}

impl<R: BufRead> Iterator for MeasuredReader<R> {
    type Item = Result<MeasuredRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next_record(|line| self.parser.line(line).map(Some))
    }
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// From the line before, whose delay is that until the request on this one. The drives say so:
    /// from one write to the next that continues it, completion to completion, is close to the same
    /// part of a turn with this delay, and spread over it with that on the line itself.
    delay: Nanos,
}

impl Parser {
    pub(super) fn line(&mut self, line: &[u8]) -> Result<MeasuredRequest, Flaw> {
        let mut fields = Fields::by_blanks(line);
        let op = fields.parse("rw", op, || "`R` or `W`")?;
        let buffer = fields.parse("buffer", buffer, || "`Hit`, `Miss`, `Doub` or `Trip`")?;
        let blocks = fields.blocks("lbn", "sectors")?;
        let measured = fields.time("measured_us", TimeUnit::Microseconds)?;
        let delay_after = fields.time("delay_us", TimeUnit::Microseconds)?;
        fields.end()?;
        let delay = mem::replace(&mut self.delay, delay_after);
        Ok(MeasuredRequest { op, buffer, blocks, measured, delay })
    }
}

fn op(word: &[u8]) -> Option<Op> {
    match word {
        b"R" => Some(Op::Read),
        b"W" => Some(Op::Write),
        _ => None,
    }
}

fn buffer(word: &[u8]) -> Option<BufferAction> {
    match word {
        b"Hit" => Some(BufferAction::Hit),
        b"Miss" => Some(BufferAction::Miss),
        b"Doub" => Some(BufferAction::Doub),
        b"Trip" => Some(BufferAction::Trip),
        _ => None,
    }
}
