//! What the electronics of a drive take and do: overheads, bus, cache policy.

use moirai_units::{BlockCount, Nanos};
use serde::{Deserialize, Serialize};

use crate::Direction;

/// The parameters of a drive's electronics.
#[derive(Clone, Debug, PartialEq)]
pub struct Electronics {
    /// Processing of commands.
    pub overheads: Overheads,
    /// Time for one sector to cross the bus to the host.
    pub bus_sector: Nanos,
    /// The same from the host.
    pub write_bus_sector: Nanos,
    /// Whether the bus sends data in block order only.
    pub bus_in_order: bool,
    /// What part of a read must be in the buffer before its transfer begins: 0 as soon as a sector
    /// is there, 1 when all is.
    pub read_watermark: f64,
    /// Whether the bus is kept through pauses of a read whose transfer has begun; otherwise it is reconnected to.
    pub holds_bus: bool,
    /// A command that is about the drive and not about data, such as translating an address (thesis table 4.2).
    pub diagnostic: Nanos,
    /// The cache; without one, every request goes to the media.
    pub cache: Option<CacheSettings>,
}

/// Time to process a command before its work begins, by its kind and the kind before it (the eight
/// of thesis 4.2.4), and after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Overheads {
    /// A read that finds its data in the cache: until its transfer begins.
    pub read_hit: After,
    /// A read from the media: until the arm moves.
    pub read_miss: After,
    /// A write: until its data are asked for.
    pub write_hit: After,
    /// A write: until the arm moves.
    pub write_miss: After,
    /// Between a read's data in the buffer and their transfer, when the drive had left the bus
    /// meanwhile.
    pub reconnect: Nanos,
    /// Between a read's last byte and its completion.
    pub read_completion: Nanos,
    /// Between a write's end and its completion.
    pub write_completion: Nanos,
    /// From the decoding of a read that misses until the bus is left, and can be reconnected to.
    pub read_disconnect: After,
    /// The same, from the last of a write's data on.
    pub write_disconnect: Nanos,
    /// To reconnect for the completion of a write that is on the media.
    pub write_reconnect: Nanos,
    /// A write waits for the media for at least so long, unless it continues the one before while that is being written.
    pub write_positioning_least: Nanos,
    /// Of a write in another place than the write directly before; `None` where that is like others.
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// A drive that leaves the bus between the command and the data of a write: what takes the place of its overheads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// Until the arm moves.
    pub arm: Nanos,
    /// Until its data are asked for.
    pub data: Nanos,
    /// From the last of its data until the bus is left again.
    pub disconnect: Nanos,
    /// To reconnect for its completion.
    pub reconnect: Nanos,
}

/// An overhead by the direction of the command before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct After {
    /// After a read.
    pub read: Nanos,
    /// After a write.
    pub write: Nanos,
}

impl After {
    /// The same after either.
    #[must_use]
    pub fn either(time: Nanos) -> After {
        After { read: time, write: time }
    }

    /// The overhead after a command of `previous`.
    #[must_use]
    pub fn get(&self, previous: Direction) -> Nanos {
        match previous {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }
}

/// How a drive uses its cache.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// Circular buffers that the cache is divided into.
    pub segments: u32,
    /// Blocks of one.
    pub segment_blocks: BlockCount,
    /// Segments are as long as their data and as many as fit (adaptive), and `segments` times
    /// `segment_blocks` is the size of the whole.
    pub adaptive: bool,
    /// One segment is for writes alone: they take no other, and no read takes or hits it.
    pub separate_write_segment: bool,
    /// Blocks of a write that must be there before its first block is written; all of a shorter one.
    pub write_start_blocks: BlockCount,
    /// Segments that may hold data which are not on the media yet.
    pub write_segments: u32,
    /// How far it reads on after a read.
    pub read_ahead: ReadAhead,
    /// Blocks past the request that reading on may reach; the segment's size at most, but for [`ReadAhead::NextTrack`].
    pub read_ahead_blocks: BlockCount,
    /// Reading on goes on after a hit on a segment that was left.
    pub resume_on_hit: bool,
    /// Sectors of the track that pass while the head waits for a read are kept, too.
    pub read_while_waiting: bool,
    /// A read of the block that is just being read ahead counts as a hit.
    pub hit_on_arriving: bool,
    /// What was sent to the host is given up; what was read ahead stays.
    pub discard_sent: bool,
    /// A write makes the drive give up all that was read.
    pub write_drops_reads: bool,
    /// Reads hit on written data.
    pub hit_on_written: bool,
    /// Reading on is stopped within a sector, and not at its end.
    pub stop_within_sector: bool,
    /// Which writes are reported complete when their data are in the buffer.
    pub immediate_report: ImmediateReport,
    /// A write that goes on where the one before ended joins its segment.
    pub combine_writes: bool,
}

/// Where reading on ends, if no request does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// At once.
    None,
    /// At the end of the track.
    Track,
    /// At the end of the cylinder.
    Cylinder,
    /// When the segment is full.
    Segment,
    /// At the end of the track; a stream that came from the track before goes on to the end of the
    /// next. What follows the request falls off a segment that is shorter than what is read.
    NextTrack,
}

/// Which writes are complete when their data are in the buffer (write-back).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImmediateReport {
    /// None: write-through.
    None,
    /// Those that go on where the write before them ended, while that one is being written.
    Sequential,
    /// All.
    All,
}
