//! The Storage Performance Council's trace format, revision 1.0.1.

use moirai_storage::Op;

use super::clock::Clock;
use super::fields::{Fields, TimeUnit};
use super::{Arrival, Flaw, TraceRequest};

#[derive(Debug, Default)]
pub(super) struct Parser {
    pub(super) clock: Clock,
}

impl Parser {
    pub(super) fn line(&mut self, line: &[u8]) -> Result<TraceRequest, Flaw> {
        let mut fields = Fields::by_commas(line);
        let device = fields.device("asu")?;
        let blocks = fields.blocks_holding("lba", "size")?;
        let op = fields.parse("opcode", op, || "`R` or `W`")?;
        let time = fields.time("timestamp", TimeUnit::Seconds)?;
        Ok(TraceRequest::new(Arrival::At(self.clock.held(time)), device, op, blocks))
    }
}

fn op(word: &[u8]) -> Option<Op> {
    match word {
        b"R" | b"r" => Some(Op::Read),
        b"W" | b"w" => Some(Op::Write),
        _ => None,
    }
}
