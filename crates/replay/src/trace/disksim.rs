//! DiskSim's ASCII format.

use moirai_storage::Op;

use super::clock::Clock;
use super::fields::{Fields, TimeUnit};
use super::{Arrival, Flaw, TraceRequest};

#[derive(Debug, Default)]
pub(super) struct Parser {
    clock: Clock,
}

impl Parser {
    #[inline]
    pub(super) fn line(&mut self, line: &[u8]) -> Result<TraceRequest, Flaw> {
        let mut fields = Fields::by_blanks(line);
        let time = fields.time("time_ms", TimeUnit::Milliseconds)?;
        let at = Arrival::At(self.clock.ordered("time_ms", TimeUnit::Milliseconds, time)?);
        let device = fields.device("devno")?;
        let blocks = fields.blocks("blkno", "bcount")?;
        let op = fields.parse("flags", op, || "a hexadecimal number, with bit 0 set for a read")?;
        fields.end()?;
        Ok(TraceRequest::new(at, device, op, blocks))
    }
}

/// Bit 0 of the flags. It is the last digit's, in hexadecimal as in decimal.
fn op(flags: &[u8]) -> Option<Op> {
    let digits = flags.strip_prefix(b"0x").unwrap_or(flags);
    if digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let last = char::from(*digits.last()?).to_digit(16)?;
    Some(if last & 1 == 1 { Op::Read } else { Op::Write })
}
