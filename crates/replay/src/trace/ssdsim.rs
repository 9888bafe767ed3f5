//! The ASCII format of SSDSim and MQSim, with times in nanoseconds or microseconds.

use moirai_storage::Op;
use moirai_units::Nanos;

use super::clock::Clock;
use super::fields::{Fields, TIME_NS_MAX};
use super::{Arrival, Flaw, TraceRequest};

#[derive(Debug)]
pub(super) struct Parser {
    pub(super) clock: Clock,
    time_column: &'static str,
    unit_ns: u64,
}

impl Parser {
    pub(super) fn nanoseconds() -> Self {
        Parser { clock: Clock::default(), time_column: "time_ns", unit_ns: 1 }
    }

    pub(super) fn microseconds() -> Self {
        Parser { clock: Clock::default(), time_column: "time_us", unit_ns: 1000 }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<TraceRequest>, Flaw> {
        let mut fields = Fields::by_blanks(line);
        let time = fields.number(self.time_column, 0..=TIME_NS_MAX / self.unit_ns)?;
        let device = fields.device("device")?;
        let blocks = fields.blocks("lba", "sectors")?;
        let op = fields.number("op", 0..=9)?;
        fields.end()?;
        let op = match op {
            0 => Op::Write,
            1 => Op::Read,
            _ => return Ok(None),
        };
        let at = Arrival::At(self.clock.held(Nanos(time * self.unit_ns)));
        Ok(Some(TraceRequest::new(at, device, op, blocks)))
    }
}
