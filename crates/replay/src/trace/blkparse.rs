//! The default output of blkparse, which prints what blktrace has recorded.

use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Lbn};

use super::clock::Clock;
use super::devices::Devices;
use super::fields::{Fields, LBN_END, TimeUnit};
use super::{Arrival, Flaw, TraceRequest};

#[derive(Debug, Default)]
pub(super) struct Parser {
    pub(super) clock: Clock,
    devices: Devices,
    /// The action that is replayed, once one was seen.
    replayed: Option<Action>,
    /// How far the trace is.
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Queued,
    Dispatched,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Start,
    Events,
    Summary,
}

impl Parser {
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<TraceRequest>, Flaw> {
        let begins_summary = line.starts_with(b"CPU") || line.starts_with(b"Total");
        if self.part == Part::Events && begins_summary {
            self.part = Part::Summary;
        }
        if self.part == Part::Summary {
            return Ok(None);
        }
        let mut fields = Fields::by_blanks(line);
        let name = fields.parse("dev", device_name, || "`major,minor` of a device")?;
        fields.number("cpu", 0..=u64::from(u32::MAX))?;
        fields.number("seq", 0..=u64::MAX)?;
        let time = fields.time("time", TimeUnit::Seconds)?;
        fields.number("pid", 0..=u64::from(u32::MAX))?;
        let action = match fields.text("action", "one or two letters")? {
            b"Q" => Some(Action::Queued),
            b"D" => Some(Action::Dispatched),
            _ => None,
        };
        self.part = Part::Events;
        if action.is_none() || action != self.replayed.or(action) {
            return Ok(None);
        }
        self.replayed = action;
        let op = fields.parse("rwbs", op, || "letters, with `R`, `W`, `D` or `N`")?;
        let (Some(op), Some(blocks)) = (op, blocks(fields)?) else {
            return Ok(None);
        };
        let device = self.devices.number("dev", name)?;
        let at = Arrival::At(self.clock.held(time));
        Ok(Some(TraceRequest::new(at, device, op, blocks)))
    }
}

/// `major,minor`
fn device_name(word: &[u8]) -> Option<&[u8]> {
    let mut parts = word.split(|byte| *byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|p| !p.is_empty() && p.iter().all(u8::is_ascii_digit))
    };
    (is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()).then_some(word)
}

/// The direction in a word like `WS` or `RA`; within, `None` for a discard and for no data at all.
fn op(word: &[u8]) -> Option<Option<Op>> {
    let has = |letter| word.contains(&letter);
    if has(b'D') {
        return Some(None);
    }
    if has(b'R') {
        return Some(Some(Op::Read));
    }
    if has(b'W') {
        return Some(Some(Op::Write));
    }
    has(b'N').then_some(None)
}

/// The blocks in `sector + sectors`. Flushes have none there, or none at all before the name of the
/// process; packet commands have a count of bytes.
fn blocks(mut fields: Fields<'_>) -> Result<Option<BlockRange>, Flaw> {
    let mut ahead = fields;
    let (first, second, third) = (ahead.word(), ahead.word(), ahead.word());
    let is_name = |word: Option<&[u8]>| matches!(word, Some([b'[' | b'(', ..]));
    if is_name(first) || is_name(second) || third == Some(b"0") {
        return Ok(None);
    }
    let lbn = fields.number("sector", 0..=LBN_END - 1)?;
    fields.parse("+", |word| (word == b"+").then_some(()), || "`+`")?;
    let count = fields.number("sectors", 1..=LBN_END - lbn)?;
    Ok(Some(BlockRange::new(Lbn(lbn), BlockCount(count))))
}
