//! Requests and what comes back of them.

use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos, ServiceParts};

use crate::{Error, Inquiry, IoBuf, Result};

/// Which way the data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// One access to consecutive blocks, with a scatter/gather list.
#[derive(Debug)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// The blocks accessed; never none.
    pub blocks: BlockRange,
    /// The buffers that the blocks are read into or written from, in order; together exactly as
    /// long as `blocks`. A list without buffers asks for the access alone: a verify, whose data
    /// stay where they are. Devices that keep data refuse a write without them.
    pub data: Vec<IoBuf>,
}

impl Request {
    /// A read of `blocks` into one fresh buffer.
    #[must_use]
    pub fn read(blocks: BlockRange) -> Request {
        Request { op: Op::Read, blocks, data: vec![IoBuf::zeroed(blocks.count)] }
    }

    /// A write of `data` to consecutive blocks from `first` on.
    #[must_use]
    pub fn write(first: Lbn, data: IoBuf) -> Request {
        let blocks = BlockRange::new(first, data.blocks());
        Request { op: Op::Write, blocks, data: vec![data] }
    }

    /// An access that moves no data.
    #[must_use]
    pub fn access(op: Op, blocks: BlockRange) -> Request {
        Request { op, blocks, data: Vec::new() }
    }

    /// Checks the request against the device it is meant for. Every device calls this first.
    pub fn check(&self, inquiry: &Inquiry) -> Result<()> {
        inquiry.check_blocks(self.blocks)?;
        let buffers: BlockCount = self.data.iter().map(IoBuf::blocks).sum();
        let without_data = self.data.is_empty() && (self.op == Op::Read || !inquiry.keeps_data);
        if self.blocks.is_empty() || (buffers != self.blocks.count && !without_data) {
            return Err(Error::BufferMismatch {
                device: inquiry.name.clone(),
                blocks: self.blocks,
                buffers,
            });
        }
        if self.op == Op::Write && inquiry.read_only {
            return Err(Error::ReadOnly { device: inquiry.name.clone() });
        }
        Ok(())
    }
}

/// A request that was carried out.
#[derive(Debug)]
pub struct Completion {
    /// The request's buffers, filled when it was a read.
    pub data: Vec<IoBuf>,
    /// When it happened.
    pub timing: Timing,
}

/// When a request was issued, started and finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timing {
    /// Handed to the device.
    pub issued: Instant,
    /// Taken up by the device.
    pub started: Instant,
    /// Done.
    pub finished: Instant,
    /// Where the time went, when the device is simulated; on a volume, summed over its devices.
    pub parts: Option<ServiceParts>,
}

impl Timing {
    /// From issue to finish.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.finished.since(self.issued)
    }

    /// Both requests taken as one: from the first issue to the last finish, parts summed.
    #[must_use]
    pub fn and(self, other: Timing) -> Timing {
        let parts = match (self.parts, other.parts) {
            (Some(mut parts), Some(others)) => {
                parts += others;
                Some(parts)
            }
            (parts, None) | (None, parts) => parts,
        };
        Timing {
            issued: self.issued.min(other.issued),
            started: self.started.min(other.started),
            finished: self.finished.max(other.finished),
            parts,
        }
    }
}
