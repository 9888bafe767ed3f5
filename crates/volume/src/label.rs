//! Labels: what each device of a volume says of itself and of the others. See
//! `docs/formats/volume-label.md`.
//!
//! Two copies at the beginning of a device; a new one is written over the one that does not count.

use std::sync::Arc;

use moirai_runtime::unique;
use moirai_storage::{Device, Error, IoBuf, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::members::MemberState;
use crate::{DiskIndex, LayoutDescription, Level, StripeUnit};

/// What a label begins with.
pub(crate) const LABEL_MAGIC: &[u8; 8] = b"MOIRAIVL";
/// The version of the format of labels and journal.
pub(crate) const LABEL_VERSION: u32 = 7;

/// Blocks of a label.
const LABEL_BLOCKS: BlockCount = BlockCount(8);
/// Blocks of both copies: the journal begins behind them.
pub(crate) const LABELS_BLOCKS: BlockCount = BlockCount(2 * LABEL_BLOCKS.0);
/// Bytes of a label in each of its blocks. Behind them is a number that all blocks of a label have, and those
/// of no other: blocks of two labels, as a torn write leaves them, are not taken for one.
const BLOCK_CONTENT: usize = 504;
const LABEL_BYTES: usize = BLOCK_CONTENT * LABEL_BLOCKS.0 as usize;
const GROWTH_AT: usize = 112;
const SUMS_AT: usize = GROWTH_AT + 16;
const OPENING_AT: usize = SUMS_AT + 16;
const STRIPES_AT: usize = OPENING_AT + 16;
const DIVISION_AT: usize = STRIPES_AT + 8;
const ZONES_AT: usize = DIVISION_AT + 8;
/// Zones that a label has room for.
pub(crate) const ZONES_MAX: usize = 64;
const FORMER_AT: usize = ZONES_AT + ZONES_MAX * 16;
/// Devices that were replaced, as far as a label remembers them.
const FORMER: usize = 16;
const MEMBERS_AT: usize = FORMER_AT + FORMER * 16;
const MEMBER_BYTES: usize = 24;
/// Devices of a volume that a label has room for.
pub(crate) const DISKS_MAX: usize = (LABEL_BYTES - MEMBERS_AT) / MEMBER_BYTES;

/// The states of devices as numbers; one that is rebuilt has the number of its stripes that are right.
const READY: u64 = u64::MAX;
const FAILED: u64 = u64::MAX - 1;

/// What a device says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) volume: u128,
    /// One more with each change.
    pub(crate) generation: u64,
    /// Which device this is.
    pub(crate) disk: DiskIndex,
    pub(crate) level: Level,
    /// With the depth that was chosen, when none was asked for.
    pub(crate) layout: LayoutDescription,
    /// Stripes of the volume, whichever of its devices was the smallest when it was made.
    pub(crate) stripes: u64,
    /// The checksum of how long the units of each stripe are.
    pub(crate) division: u32,
    /// The quadrangles of each zone, as they were when all devices were there.
    pub(crate) zones: Vec<KnownZone>,
    /// Blocks of the volume.
    pub(crate) capacity: BlockCount,
    pub(crate) journal: BlockRange,
    /// Where the layout begins.
    pub(crate) data: Lbn,
    /// Where the checksums of blocks lie; empty without.
    pub(crate) sums: BlockRange,
    /// How far the data are spread over disks that were added.
    pub(crate) growth: Option<Growth>,
    /// The last time that the volume was opened.
    pub(crate) opening: Option<Opening>,
    /// Of each device.
    pub(crate) members: Vec<MemberLabel>,
    /// Of devices in whose places others are now, the last that was replaced first.
    pub(crate) former: Vec<Took>,
}

/// A device that took part in openings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) id: u64,
    /// The generation of the last opening that is sure to be on its own label.
    pub(crate) opened: u64,
}

/// A volume that grows: stripes are moved in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// The disks that it had.
    pub(crate) from_disks: usize,
    /// Stripes that lie as they will.
    pub(crate) moved: u64,
}

/// A time that a volume was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The generation of its first label.
    pub(crate) generation: u64,
    /// What no other opening has.
    pub(crate) id: u64,
}

/// What quadrangles a zone has: the disks that are there need not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownZone {
    /// Which zone, counted from the rim.
    pub(crate) zone: u32,
    /// Blocks that a track has at least to be used.
    pub(crate) row: u32,
    pub(crate) quadrangles: u64,
}

/// What a label says of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberLabel {
    /// What no other device that was ever in this place has.
    pub(crate) id: u64,
    pub(crate) state: MemberState,
    /// The checksum of where its units lie.
    pub(crate) slots: u32,
    /// See [`Took::opened`]; it has 32 bits.
    pub(crate) opened: u64,
}

impl MemberLabel {
    /// A device that no opening knows.
    pub(crate) fn new(state: MemberState, slots: u32) -> MemberLabel {
        MemberLabel { id: unique(), state, slots, opened: 0 }
    }
}

/// Which of a device's two copies counts: the next label is written over the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy(pub(crate) u64);

/// The label that counts on a device.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) label: Label,
    pub(crate) copy: Copy,
    /// Whether the other copy is not whole, and may have been a later label.
    pub(crate) is_alone: bool,
}

impl Copy {
    pub(crate) fn other(self) -> Copy {
        Copy(1 - self.0)
    }

    fn first_block(self) -> Lbn {
        Lbn(self.0 * LABEL_BLOCKS.0)
    }
}

impl Label {
    /// The label as it is written; `number` is one that no other has.
    fn encode(&self, number: u64) -> Option<IoBuf> {
        let (kind, numbers) = match self.layout {
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } => (0, [unit.0, 0, 0]),
            LayoutDescription::Stripe { unit: StripeUnit::Track } => (1, [0; 3]),
            LayoutDescription::Quadrangle { depth, block, zone } => {
                let zone = zone.map_or(u64::MAX, |zone| zone as u64);
                (2, [depth.map_or(u64::MAX, u64::from), block.0, zone])
            }
        };
        let mut content = Vec::with_capacity(LABEL_BYTES);
        content.extend_from_slice(&(self.disk.0 as u32).to_le_bytes());
        content.extend_from_slice(&(self.members.len() as u32).to_le_bytes());
        content.extend_from_slice(&self.volume.to_le_bytes());
        content.extend_from_slice(&self.generation.to_le_bytes());
        content.extend_from_slice(&u32::from(self.level.number()).to_le_bytes());
        content.extend_from_slice(&u32::to_le_bytes(kind));
        let places = [self.capacity.0, self.journal.first.0, self.journal.count.0, self.data.0];
        let growth = self.growth.map_or([0; 2], |growth| [growth.from_disks as u64, growth.moved]);
        let sums = [self.sums.first.0, self.sums.count.0];
        let opening = self.opening.map_or([0; 2], |opening| [opening.generation, opening.id]);
        let mut zones = [0; ZONES_MAX * 2];
        for (place, known) in zones.chunks_exact_mut(2).zip(&self.zones) {
            let tagged = u64::from(known.zone) << 32 | u64::from(known.row);
            place.copy_from_slice(&[tagged, known.quadrangles]);
        }
        let mut former = [0; FORMER * 2];
        for (place, took) in former.chunks_exact_mut(2).zip(&self.former) {
            place.copy_from_slice(&[took.id, took.opened]);
        }
        let numbers_of = |member: &MemberLabel| {
            let slots = member.opened << 32 | u64::from(member.slots);
            [member.id, number_of(&member.state), slots]
        };
        let members = self.members.iter().flat_map(numbers_of);
        for number in numbers
            .into_iter()
            .chain(places)
            .chain(growth)
            .chain(sums)
            .chain(opening)
            .chain([self.stripes, u64::from(self.division)])
            .chain(zones)
            .chain(former)
            .chain(members)
        {
            content.extend_from_slice(&number.to_le_bytes());
        }
        let mut whole = vec![0; LABEL_BYTES];
        whole.get_mut(16..16 + content.len())?.copy_from_slice(&content);
        let mut buffer = IoBuf::zeroed(LABEL_BLOCKS);
        let blocks = buffer.chunks_exact_mut(BLOCK_BYTES as usize);
        for (block, content) in blocks.zip(whole.chunks_exact(BLOCK_CONTENT)) {
            let (place, behind) = block.split_at_mut_checked(BLOCK_CONTENT)?;
            place.copy_from_slice(content);
            behind.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(buffer.get(16..)?);
        let mut head = Vec::from(*LABEL_MAGIC);
        head.extend_from_slice(&LABEL_VERSION.to_le_bytes());
        head.extend_from_slice(&checksum.to_le_bytes());
        buffer.get_mut(..16)?.copy_from_slice(&head);
        Some(buffer)
    }

    /// The label in a buffer; `None` when there is none, or it is torn.
    fn decode(buffer: &[u8]) -> Option<Label> {
        let four = |at: usize| buffer.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let is_ours = buffer.get(..8)? == LABEL_MAGIC && four(8)? == LABEL_VERSION;
        if !is_ours || four(12)? != crc32c::crc32c(buffer.get(16..)?) {
            return None;
        }
        let mut whole = Vec::with_capacity(LABEL_BYTES);
        for block in buffer.chunks_exact(BLOCK_BYTES as usize) {
            whole.extend_from_slice(block.get(..BLOCK_CONTENT)?);
        }
        Label::of(&whole)
    }

    /// The label in the contents of its blocks.
    fn of(buffer: &[u8]) -> Option<Label> {
        let four = |at: usize| buffer.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let eight = |at: usize| buffer.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let volume = u128::from_le_bytes(buffer.get(24..40)?.try_into().ok()?);
        let numbers = [eight(56)?, eight(64)?, eight(72)?];
        let layout = match (four(52)?, numbers) {
            (0, [unit, ..]) => {
                LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(unit)) }
            }
            (1, _) => LayoutDescription::Stripe { unit: StripeUnit::Track },
            (2, [depth, block, zone]) => LayoutDescription::Quadrangle {
                depth: u32::try_from(depth).ok(),
                block: BlockCount(block),
                zone: usize::try_from(zone).ok().filter(|zone| *zone != usize::MAX),
            },
            _ => return None,
        };
        let disks = four(20)? as usize;
        let disk = four(16)? as usize;
        if disks > DISKS_MAX || disk >= disks {
            return None;
        }
        let (from_disks, moved) = (usize::try_from(eight(GROWTH_AT)?).ok()?, eight(GROWTH_AT + 8)?);
        if from_disks >= disks {
            return None;
        }
        let growth = (from_disks > 0).then_some(Growth { from_disks, moved });
        let opening = Opening { generation: eight(OPENING_AT)?, id: eight(OPENING_AT + 8)? };
        let member = |index: usize| {
            let at = MEMBERS_AT + index * MEMBER_BYTES;
            let (id, state, slots) = (eight(at)?, state_of(eight(at + 8)?), eight(at + 16)?);
            Some(MemberLabel { id, state, slots: slots as u32, opened: slots >> 32 })
        };
        let took = |index: usize| {
            let at = FORMER_AT + index * 16;
            Some(Took { id: eight(at)?, opened: eight(at + 8)? })
        };
        let zone = |index: usize| {
            let (tagged, quadrangles) =
                (eight(ZONES_AT + index * 16)?, eight(ZONES_AT + index * 16 + 8)?);
            Some(KnownZone { zone: (tagged >> 32) as u32, row: tagged as u32, quadrangles })
        };
        Some(Label {
            volume,
            generation: eight(40)?,
            disk: DiskIndex(disk),
            level: Level::numbered(u8::try_from(four(48)?).ok()?)?,
            layout,
            stripes: eight(STRIPES_AT)?,
            division: u32::try_from(eight(DIVISION_AT)?).ok()?,
            zones: (0..ZONES_MAX).filter_map(zone).filter(|zone| zone.quadrangles > 0).collect(),
            capacity: BlockCount(eight(80)?),
            journal: BlockRange::new(Lbn(eight(88)?), BlockCount(eight(96)?)),
            data: Lbn(eight(104)?),
            sums: BlockRange::new(Lbn(eight(SUMS_AT)?), BlockCount(eight(SUMS_AT + 8)?)),
            growth,
            opening: (opening.generation > 0).then_some(opening),
            members: (0..disks).map(member).collect::<Option<_>>()?,
            former: (0..FORMER).filter_map(took).filter(|took| took.opened > 0).collect(),
        })
    }

    /// The newest label on `device`; `None` when it has none.
    pub(crate) async fn read(device: &dyn Device) -> Result<Option<Newest>> {
        if device.inquiry().capacity < LABELS_BLOCKS {
            return Ok(None);
        }
        let mut newest: Option<Newest> = None;
        let mut other_version = None;
        for copy in [Copy(0), Copy(1)] {
            let blocks = BlockRange::new(copy.first_block(), LABEL_BLOCKS);
            // A copy that cannot be read is as good as torn: the other counts.
            let Ok(buffer) = device.read(blocks).await else { continue };
            match Label::decode(&buffer) {
                Some(label) => {
                    newest = match newest {
                        Some(old) if old.label.generation >= label.generation => {
                            Some(Newest { is_alone: false, ..old })
                        }
                        old => Some(Newest { label, copy, is_alone: old.is_none() }),
                    };
                }
                None if buffer.starts_with(LABEL_MAGIC) => {
                    let version = buffer.get(8..12).and_then(|bytes| bytes.try_into().ok());
                    let version = version.map(u32::from_le_bytes);
                    let other = version.filter(|version| *version != LABEL_VERSION);
                    other_version = other.or(other_version);
                }
                None => {}
            }
        }
        match (newest, other_version) {
            (None, Some(version)) => Err(Error::Description {
                path: device.inquiry().name.as_str().into(),
                problem: format!(
                    "the label has version {version}, and this program reads version {LABEL_VERSION}: \
                     use the program that created the volume"
                ),
            }),
            (newest, _) => Ok(newest),
        }
    }

    /// Whether all of it lies on a device of `capacity`.
    pub(crate) fn fits(&self, capacity: BlockCount) -> bool {
        let journal_end = self.journal.first.0.checked_add(self.journal.count.0);
        let sums_end = self.sums.first.0.checked_add(self.sums.count.0);
        let sums_fit = sums_end.is_some_and(|end| end <= self.data.0)
            && journal_end.is_some_and(|end| end <= self.sums.first.0);
        self.journal.first.0 >= LABELS_BLOCKS.0
            && (sums_fit || self.sums.is_empty())
            && journal_end.is_some_and(|end| end <= self.data.0)
            && self.data.0 < capacity.0
    }

    /// The block after the last stripe, where the units have one length.
    pub(crate) fn end(&self) -> Option<u64> {
        let LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } = self.layout else {
            return None;
        };
        self.stripes.checked_mul(unit.0)?.checked_add(self.data.0)
    }

    /// Writes the label over one of the two copies, durably.
    pub(crate) async fn write(&self, device: &Arc<dyn Device>, copy: Copy) -> Result<()> {
        let Some(buffer) = self.encode(unique()) else {
            return Err(Error::TooSmall {
                device: device.inquiry().name.clone(),
                have: LABEL_BLOCKS.bytes(),
                need: BlockCount(self.members.len() as u64).bytes(),
            });
        };
        device.write(copy.first_block(), buffer).await?;
        device.flush().await
    }

    /// Writes both copies, durably.
    pub(crate) async fn write_both(&self, device: &Arc<dyn Device>) -> Result<()> {
        self.write(device, Copy(0)).await?;
        self.write(device, Copy(1)).await
    }

    /// Whether the volume was opened as `other` says before it was opened as this label says, or then.
    pub(crate) fn follows(&self, other: &Label) -> bool {
        let Some(theirs) = other.opening else { return true };
        // Generations only rise on a device, and nothing is served before an opening is on the labels of all devices
        // that it uses. So one of these that took part in an opening of ours of a later generation had theirs before.
        let took_part = |one: &MemberLabel| {
            one.state != MemberState::Failed && self.opened_with(one.id) >= theirs.generation
        };
        self.opening == other.opening || other.members.iter().any(took_part)
    }

    /// The generation of the last opening that a device took part in for sure; 0 when none is known.
    fn opened_with(&self, id: u64) -> u64 {
        let members = self.members.iter().map(|member| (member.id, member.opened));
        let mut all = members.chain(self.former.iter().map(|took| (took.id, took.opened)));
        all.find(|(other, _)| *other == id).map_or(0, |(_, opened)| opened)
    }

    /// Another device is in the place of `disk`, and to be filled.
    pub(crate) fn replace(&mut self, disk: DiskIndex, slots: u32) {
        let Some(member) = self.members.get_mut(disk.0) else { return };
        if member.opened > 0 {
            self.former.insert(0, Took { id: member.id, opened: member.opened });
            self.former.truncate(FORMER);
        }
        *member = MemberLabel::new(MemberState::Rebuilding(0), slots);
    }

    /// Notes that the volume is opened.
    pub(crate) fn open(&mut self, id: u64) {
        self.opening = Some(Opening { generation: self.generation + 1, id });
    }
}

fn number_of(state: &MemberState) -> u64 {
    match state {
        MemberState::Ready => READY,
        MemberState::Rebuilding(ready) => *ready,
        MemberState::Failed => FAILED,
    }
}

fn state_of(number: u64) -> MemberState {
    match number {
        READY => MemberState::Ready,
        FAILED => MemberState::Failed,
        ready => MemberState::Rebuilding(ready),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(layout: LayoutDescription, generation: u64, disks: usize) -> Label {
        Label {
            volume: 0x1234_5678_9abc_def0_0fed_cba9_8765_4321,
            generation,
            disk: DiskIndex(disks - 1),
            level: Level::Raid6,
            layout,
            stripes: 678,
            division: 0x8765_4321,
            zones: vec![KnownZone { zone: 3, row: 99, quadrangles: 77 }; disks % 3],
            capacity: BlockCount(12345),
            journal: BlockRange::new(Lbn(16), BlockCount(999)),
            data: Lbn(2048),
            sums: BlockRange::new(Lbn(1016), BlockCount(80)),
            growth: (disks > 2).then_some(Growth { from_disks: disks - 1, moved: 33 }),
            opening: Some(Opening { generation: 10, id: 3 }),
            members: (0..disks as u64)
                .map(|disk| {
                    let state = match disk {
                        0 => MemberState::Rebuilding(77),
                        1 => MemberState::Failed,
                        _ => MemberState::Ready,
                    };
                    let slots = disk as u32;
                    MemberLabel { id: disk * 1000, state, slots, opened: disk % 3 }
                })
                .collect(),
            former: (1..=disks as u64 % 7).map(|id| Took { id, opened: 9 - id }).collect(),
        }
    }

    #[test]
    fn labels_round_trip() {
        for layout in [
            LayoutDescription::Stripe { unit: StripeUnit::Track },
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) },
            LayoutDescription::Quadrangle { depth: None, block: BlockCount(16), zone: Some(2) },
            LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: None },
        ] {
            for disks in [2, 5, DISKS_MAX] {
                let written = label(layout, 7, disks);
                assert_eq!(Label::decode(&written.encode(7).unwrap()), Some(written));
            }
        }
        assert!(
            label(LayoutDescription::Stripe { unit: StripeUnit::Track }, 1, DISKS_MAX + 1)
                .encode(7)
                .is_none()
        );
    }

    /// As when a write of the one was torn, and then a write of the other in the same place.
    #[test]
    fn blocks_of_two_labels_are_no_label() {
        let one = label(LayoutDescription::Stripe { unit: StripeUnit::Track }, 20, 3);
        let mut other = one.clone();
        other.open(222);
        let (one, other) = (one.encode(1).unwrap(), other.encode(2).unwrap());
        for blocks in 1..LABEL_BLOCKS.0 {
            let (of_one, of_other) = one.split_at((blocks * BLOCK_BYTES) as usize);
            let mixed = [of_one, &other[of_one.len()..]].concat();
            assert_eq!(mixed.len(), of_one.len() + of_other.len());
            assert_eq!(Label::decode(&mixed), None);
        }
    }

    #[test]
    fn a_label_follows_those_of_openings_before_it() {
        let mut old = label(LayoutDescription::Stripe { unit: StripeUnit::Track }, 20, 3);
        old.opening = None;
        let mut one = old.clone();
        one.open(111);
        let mut other = old.clone();
        other.open(222);
        assert!(one.follows(&old) && one.follows(&one) && !one.follows(&other));
        let mut next = one.clone();
        next.generation = 30;
        next.open(333);
        assert!(!next.follows(&one));
        // The second of them had failed when it was opened so: it says nothing.
        next.members[1].opened = 25;
        next.members[2].opened = 20;
        assert!(!next.follows(&one));
        next.members[2].opened = 21;
        assert!(next.follows(&one) && !one.follows(&next));
        moirai_runtime::block_on_virtual(1, async {
            next.replace(DiskIndex(2), 0);
            assert!(next.follows(&one) && !one.follows(&next));
            for opened in 30..30 + FORMER as u64 {
                next.members[1].opened = opened;
                next.replace(DiskIndex(1), 0);
            }
            assert!(!next.follows(&one));
        });
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_no_label(bit in 0usize..4096 * 8) {
            let layout = LayoutDescription::Stripe { unit: StripeUnit::Track };
            let mut buffer = label(layout, 3, 4).encode(7).unwrap();
            buffer[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Label::decode(&buffer), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_label(bytes in prop::collection::vec(any::<u8>(), 0..4200)) {
            prop_assert_eq!(Label::decode(&bytes), None);
        }
    }
}
