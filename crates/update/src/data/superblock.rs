//! Superblocks: how the data device and the log are divided, and where the last checkpoint lies. See
//! `docs/formats/update-data.md`.

use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};

use crate::codec::{Taker, is_sum};
use crate::damage::Damage;
use crate::data::division::Division;
use crate::data::layout::Layout;
use crate::error::{Error, Result, SUPERBLOCK};
use crate::ids::Seq;
use crate::limits::NAME_BYTES;
use crate::log::segments::{LOG_DISKS_MAX, LogWriter, PHYSICAL_BLOCKS_MAX, Ring, SEGMENTS, Start};

/// What the data device begins with.
pub(crate) const DATA_MAGIC: &[u8; 8] = b"MOIRAIUD";
/// The version of the format of the data device.
pub(crate) const DATA_VERSION: u32 = 17;

const COPY_BLOCKS: BlockCount = BlockCount(8);
/// Blocks of both copies: extents begin behind them.
pub(crate) const SUPERBLOCKS: BlockCount = BlockCount(2 * COPY_BLOCKS.0);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// One more with each change.
    pub(crate) generation: u64,
    /// What no other engine has, and its log says, too: each further disk of it one more.
    pub(crate) id: u64,
    pub(crate) format: [u8; NAME_BYTES],
    pub(crate) layout: Layout,
    /// How long the device was that was formatted.
    pub(crate) capacity: BlockCount,
    /// One for each disk of the log, all with the same writer.
    pub(crate) rings: Vec<Ring>,
    pub(crate) checkpoint: Checkpoint,
}

/// Where a checkpoint lies, and from where the log is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Groups before this one are in it.
    pub(crate) next: Seq,
    /// A frame that was durable when it was taken.
    pub(crate) frame: u64,
    pub(crate) start: Start,
    /// The list of the fragments of its index; no blocks before the first checkpoint.
    pub(crate) root: BlockRange,
    /// Where a copy of that begins; block 0 when there is none.
    pub(crate) root_copy: Lbn,
}

impl Checkpoint {
    /// The root and its copy, as far as there are any.
    pub(crate) fn roots(&self) -> impl Iterator<Item = BlockRange> + use<> {
        let copy = BlockRange::new(self.root_copy, self.root.count);
        let copy = Some(copy).filter(|copy| copy.first != Lbn(0));
        std::iter::once(self.root).chain(copy).filter(|root| !root.is_empty())
    }
}

impl Superblock {
    pub(crate) fn encode(&self) -> IoBuf {
        let mut out = Vec::new();
        let Superblock { generation, id, format, layout, capacity, rings, checkpoint } = self;
        out.extend_from_slice(format);
        let writer = rings.first().map_or(LogWriter::Append, |ring| ring.writer);
        let numbers = [
            *generation,
            *id,
            layout.data.first.0,
            layout.data.count.0,
            layout.division.grain.0,
            layout.division.block.0,
            u64::from(layout.division.partition_blocks),
            layout.division.staging.0,
            match writer {
                LogWriter::Append => 0,
                LogWriter::Trail { rotation } => rotation.0,
            },
            checkpoint.next.0,
            checkpoint.frame,
            checkpoint.start.number,
            u64::from(checkpoint.start.previous),
            checkpoint.start.first.0,
            checkpoint.root.first.0,
            checkpoint.root.count.0,
            checkpoint.root_copy.0,
            rings.len() as u64,
            capacity.0,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        for (disk, ring) in rings.iter().enumerate() {
            let at = checkpoint.start.segment(disk);
            let numbers =
                [ring.segment.0, u64::from(ring.segments), u64::from(at), ring.physical.0];
            for number in numbers {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let mut whole = Vec::from(*DATA_MAGIC);
        whole.extend_from_slice(&DATA_VERSION.to_le_bytes());
        let mut buffer = IoBuf::zeroed(COPY_BLOCKS);
        if let Some(place) = buffer.get_mut(16..16 + out.len()) {
            place.copy_from_slice(&out);
        }
        let checksum = crc32c::crc32c(buffer.get(16..).unwrap_or_default());
        whole.extend_from_slice(&checksum.to_le_bytes());
        if let Some(place) = buffer.get_mut(..16) {
            place.copy_from_slice(&whole);
        }
        buffer
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Superblock> {
        let mut taker = Taker(bytes);
        let is_ours = taker.fixed(8)? == DATA_MAGIC && taker.le32()? == DATA_VERSION;
        if !is_ours || !is_sum(taker.le32()?, crc32c::crc32c(taker.0)) {
            return None;
        }
        let format = taker.fixed(NAME_BYTES)?.try_into().ok()?;
        let mut number = || taker.le64();
        let (generation, id) = (number()?, number()?);
        let layout = Layout {
            data: BlockRange { first: Lbn(number()?), count: BlockCount(number()?) },
            division: Division {
                grain: BlockCount(number()?),
                block: BlockCount(number()?),
                partition_blocks: u32::try_from(number()?).ok()?,
                staging: BlockCount(number()?),
            },
        };
        let writer = match number()? {
            0 => LogWriter::Append,
            rotation => LogWriter::Trail { rotation: Nanos(rotation) },
        };
        if !layout.is_addressable() {
            return None;
        }
        let (next, frame) = (Seq(number()?), number()?);
        let mut start = Start {
            at: [0; LOG_DISKS_MAX],
            number: number()?,
            previous: u32::try_from(number()?).ok()?,
            first: Seq(number()?),
        };
        let root = BlockRange { first: Lbn(number()?), count: BlockCount(number()?) };
        let root_copy = Lbn(number()?);
        let (disks, capacity) = (number()?, BlockCount(number()?));
        let is_counted = |number: u64| (1..u64::MAX >> 1).contains(&number);
        let is_countable = [next.0, start.number, start.first.0].into_iter().all(is_counted);
        if !is_countable || generation.max(capacity.0) >= u64::MAX >> 1 {
            return None;
        }
        let is_near = |number: u64| number < 1 << 62;
        let is_root = [root.first.0, root.count.0, root_copy.0].into_iter().all(is_near);
        if !(1..=LOG_DISKS_MAX as u64).contains(&disks) || !is_root {
            return None;
        }
        let mut rings = Vec::new();
        for disk in 0..disks as usize {
            let segment = BlockCount(number()?);
            let segments = u32::try_from(number()?).ok()?;
            let at = u32::try_from(number()?).ok()?;
            let physical = BlockCount(number()?);
            if !(1..=PHYSICAL_BLOCKS_MAX.0).contains(&physical.0) {
                return None;
            }
            let is_long = (Ring::segment_min(physical).0..1 << 32).contains(&segment.0);
            let is_whole = writer != LogWriter::Append || segment.0.is_multiple_of(physical.0);
            if !is_long || !is_whole || !SEGMENTS.contains(&segments) || at >= segments {
                return None;
            }
            rings.push(Ring { segment, segments, writer, physical });
            start = start.with(disk, at);
        }
        let checkpoint = Checkpoint { next, frame, start, root, root_copy };
        Some(Superblock { generation, id, format, layout, capacity, rings, checkpoint })
    }

    /// The newest superblock of `device`, and which copy is damaged or older.
    pub(crate) async fn read(device: &dyn Device) -> Result<(Superblock, Option<u64>)> {
        let name = || device.inquiry().name.clone();
        let mut newest: Option<Superblock> = None;
        let mut wrong = None;
        let mut unreadable = None;
        let mut other = None;
        for copy in 0..2 {
            let blocks = BlockRange::new(Lbn(copy * COPY_BLOCKS.0), COPY_BLOCKS);
            if blocks.end().0 > device.inquiry().capacity.0 {
                return Err(Error::NotFormatted { device: name(), holds: None });
            }
            match device.read(blocks).await {
                Ok(buffer) => {
                    let found = Superblock::decode(&buffer);
                    if found.is_none() && buffer.starts_with(DATA_MAGIC) {
                        let version = buffer.get(8..12).and_then(|bytes| bytes.try_into().ok());
                        other = version.map(u32::from_le_bytes).or(other);
                    }
                    match (found, &newest) {
                        (Some(found), Some(old)) if old.generation < found.generation => {
                            (newest, wrong) = (Some(found), Some(0));
                        }
                        (Some(found), Some(old)) if found == *old => {}
                        (Some(found), None) => newest = Some(found),
                        _ => wrong = Some(copy),
                    }
                }
                Err(error) => (unreadable, wrong) = (Some(error), Some(copy)),
            }
        }
        let is_damaged = other == Some(DATA_VERSION);
        match (newest, other.filter(|version| *version != DATA_VERSION), unreadable) {
            (Some(newest), _, _) => Ok((newest, wrong)),
            (None, Some(version), _) => {
                Err(Error::Version { device: name(), version, known: DATA_VERSION })
            }
            // Ours, of this version, and not as it was written.
            (None, None, None) if is_damaged => Err(Error::Damaged {
                device: name(),
                what: SUPERBLOCK,
                blocks: BlockRange::new(Lbn(0), SUPERBLOCKS),
            }),
            (None, None, Some(error)) => Err(error.into()),
            (None, None, None) => Err(Error::NotFormatted { device: name(), holds: None }),
        }
    }

    /// The copies on `device` that are neither `current` nor, for the second one, the superblock before it: a crash
    /// between the writes of both leaves that, and the next opening for writing writes it anew.
    pub(crate) async fn damaged_copies(device: &dyn Device, current: &Superblock) -> Vec<Damage> {
        let mut damaged = Vec::new();
        for number in 0..2 {
            let blocks = BlockRange::new(Lbn(number * COPY_BLOCKS.0), COPY_BLOCKS);
            let read = device.read(blocks).await.ok();
            let mut copy = read.and_then(|read| Superblock::decode(&read));
            if let Some(copy) = &mut copy {
                // Who only reads has written nothing of a device that was enlarged.
                copy.layout = copy.layout.grown(device.inquiry().capacity);
            }
            let is_right = copy.is_some_and(|copy| {
                let is_before = copy.id == current.id && copy.generation + 1 == current.generation;
                copy == *current || (number == 1 && is_before)
            });
            if !is_right {
                let device = device.inquiry().name.clone();
                damaged.push(Damage { what: "a superblock", device, blocks, keys: None });
            }
        }
        damaged
    }

    /// Writes both copies, one after the other, durably. What the superblock before this one needs of the log must be kept
    /// until then: a copy that rots later has one beside it that is no older.
    pub(crate) async fn write(&self, device: &dyn Device) -> Result<()> {
        for copy in 0..2 {
            self.write_copy(device, copy).await?;
        }
        Ok(())
    }

    pub(crate) async fn write_copy(&self, device: &dyn Device, copy: u64) -> Result<()> {
        device.write(Lbn(copy * COPY_BLOCKS.0), self.encode()).await?;
        Ok(device.flush().await?)
    }
}
