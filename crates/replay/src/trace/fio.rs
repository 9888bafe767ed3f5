//! The I/O logs of fio, versions 2 and 3.

use moirai_storage::Op;

use super::clock::Clock;
use super::devices::Devices;
use super::fields::{Fields, TimeUnit, flaw};
use super::{Arrival, Flaw, TraceRequest};

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// From the first line.
    version: Option<Version>,
    clock: Clock,
    files: Devices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Time passes in `wait` actions.
    Two,
    /// Every action has a timestamp.
    Three,
}

enum Action {
    /// To add, open or close a file.
    File,
    Access(Op),
    /// To synchronise or trim.
    Skipped,
    Wait,
}

impl Parser {
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<TraceRequest>, Flaw> {
        let Some(version) = self.version else {
            self.version = Some(header(line)?);
            return Ok(None);
        };
        let mut fields = Fields::by_blanks(line);
        if version == Version::Three {
            let time = fields.time("timestamp_us", TimeUnit::Microseconds)?;
            self.clock.ordered("timestamp_us", TimeUnit::Microseconds, time)?;
        }
        let file = fields.text("filename", "the name of a file")?;
        let action = fields.parse("action", |word| action(word, version), || actions(version))?;
        let device = self.files.number("filename", file)?;
        match action {
            Action::File => fields.end()?,
            Action::Skipped => {}
            Action::Wait => self.clock.wait(fields.time("offset", TimeUnit::Microseconds)?),
            Action::Access(op) => {
                let blocks = fields.blocks_whole("offset", "length")?;
                fields.end()?;
                let at = Arrival::At(self.clock.now());
                return Ok(Some(TraceRequest::new(at, device, op, blocks)));
            }
        }
        Ok(None)
    }
}

fn header(line: &[u8]) -> Result<Version, Flaw> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Ok(Version::Two),
        b"fio version 3 iolog" => Ok(Version::Three),
        other => {
            Err(flaw("header", Some(other), &"`fio version 2 iolog` or `fio version 3 iolog`"))
        }
    }
}

fn action(word: &[u8], version: Version) -> Option<Action> {
    match word {
        b"add" | b"open" | b"close" => Some(Action::File),
        b"read" => Some(Action::Access(Op::Read)),
        b"write" => Some(Action::Access(Op::Write)),
        b"sync" | b"datasync" | b"trim" => Some(Action::Skipped),
        b"wait" => (version == Version::Two).then_some(Action::Wait),
        _ => None,
    }
}

fn actions(version: Version) -> &'static str {
    match version {
        Version::Two => "one of add, open, close, read, write, sync, datasync, trim, wait",
        Version::Three => "one of add, open, close, read, write, sync, datasync, trim",
    }
}
