//! The traces of MSR Cambridge: comma-separated, times as Windows filetimes.

use moirai_storage::Op;
use moirai_units::Nanos;

use super::clock::Clock;
use super::fields::{Fields, TIME_NS_MAX};
use super::{Arrival, Flaw, TraceRequest};

/// The unit of a filetime.
const TICK_NS: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct Parser {
    pub(super) clock: Clock,
    /// The filetime of the first record: time 0.
    origin: Option<u64>,
}

impl Parser {
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<TraceRequest>, Flaw> {
        if self.origin.is_none() && line.trim_ascii_start().starts_with(b"Timestamp") {
            return Ok(None);
        }
        let mut fields = Fields::by_commas(line);
        let latest =
            self.origin.map_or(u64::MAX, |origin| origin.saturating_add(TIME_NS_MAX / TICK_NS));
        let ticks = fields.number("Timestamp", 0..=latest)?;
        fields.text("Hostname", "the name of a server")?;
        let device = fields.device("DiskNumber")?;
        let op = fields.parse("Type", op, || "`Read` or `Write`")?;
        let blocks = fields.blocks_touched("Offset", "Size")?;
        fields.number("ResponseTime", 0..=u64::MAX)?;
        fields.end()?;
        let at = match ticks.checked_sub(*self.origin.get_or_insert(ticks)) {
            Some(elapsed) => self.clock.held(Nanos(elapsed * TICK_NS)),
            None => self.clock.held_before_start(),
        };
        Ok(Some(TraceRequest::new(Arrival::At(at), device, op, blocks)))
    }
}

fn op(word: &[u8]) -> Option<Op> {
    if word.eq_ignore_ascii_case(b"Read") {
        return Some(Op::Read);
    }
    word.eq_ignore_ascii_case(b"Write").then_some(Op::Write)
}
