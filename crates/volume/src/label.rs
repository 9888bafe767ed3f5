//! Labels: what each device of a volume says of itself and of the others. See
//! `docs/formats/volume-label.md`.
//!
//! Two copies at the beginning of a device; a new one is written over the older, and flushed.

use std::sync::Arc;

use moirai_storage::{Device, Error, IoBuf, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::members::MemberState;
use crate::{DiskIndex, LayoutDescription, Level, StripeUnit};

/// What a label begins with.
pub(crate) const LABEL_MAGIC: &[u8; 8] = b"MOIRAIVL";
/// The version of the format of labels and journal.
pub(crate) const LABEL_VERSION: u32 = 1;

/// Blocks of a label.
const LABEL_BLOCKS: BlockCount = BlockCount(8);
/// Blocks of both copies: the journal begins behind them.
pub(crate) const LABELS_BLOCKS: BlockCount = BlockCount(2 * LABEL_BLOCKS.0);
const FIXED_BYTES: usize = 112;
/// Devices of a volume whose states fit a label.
pub(crate) const DISKS_MAX: usize = (4096 - FIXED_BYTES) / 8;

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
    pub(crate) layout: LayoutDescription,
    /// Blocks of the volume.
    pub(crate) capacity: BlockCount,
    pub(crate) journal: BlockRange,
    /// Where the layout begins.
    pub(crate) data: Lbn,
    /// Of each device.
    pub(crate) states: Vec<MemberState>,
}

impl Label {
    fn encode(&self) -> Option<IoBuf> {
        let (kind, numbers) = match self.layout {
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } => (0, [unit.0, 0, 0]),
            LayoutDescription::Stripe { unit: StripeUnit::Track } => (1, [0; 3]),
            LayoutDescription::Quadrangle { depth, block, zone } => {
                let zone = zone.map_or(u64::MAX, |zone| zone as u64);
                (2, [depth.map_or(u64::MAX, u64::from), block.0, zone])
            }
        };
        let mut content = Vec::with_capacity(FIXED_BYTES);
        content.extend_from_slice(&(self.disk.0 as u32).to_le_bytes());
        content.extend_from_slice(&(self.states.len() as u32).to_le_bytes());
        content.extend_from_slice(&self.volume.to_le_bytes());
        content.extend_from_slice(&self.generation.to_le_bytes());
        content.extend_from_slice(&u32::from(self.level.number()).to_le_bytes());
        content.extend_from_slice(&u32::to_le_bytes(kind));
        let places = [self.capacity.0, self.journal.first.0, self.journal.count.0, self.data.0];
        for number in numbers.into_iter().chain(places).chain(self.states.iter().map(number_of)) {
            content.extend_from_slice(&number.to_le_bytes());
        }
        let mut whole = Vec::from(*LABEL_MAGIC);
        whole.extend_from_slice(&LABEL_VERSION.to_le_bytes());
        let mut buffer = IoBuf::zeroed(LABEL_BLOCKS);
        buffer.get_mut(16..16 + content.len())?.copy_from_slice(&content);
        let checksum = crc32c::crc32c(buffer.get(16..)?);
        whole.extend_from_slice(&checksum.to_le_bytes());
        buffer.get_mut(..16)?.copy_from_slice(&whole);
        Some(buffer)
    }

    /// The label in a buffer; `None` when there is none, or it is torn.
    fn decode(buffer: &[u8]) -> Option<Label> {
        let four = |at: usize| buffer.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let eight = |at: usize| buffer.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let is_ours = buffer.get(..8)? == LABEL_MAGIC && four(8)? == LABEL_VERSION;
        if !is_ours || four(12)? != crc32c::crc32c(buffer.get(16..)?) {
            return None;
        }
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
        if disks > DISKS_MAX {
            return None;
        }
        Some(Label {
            volume,
            generation: eight(40)?,
            disk: DiskIndex(four(16)? as usize),
            level: Level::numbered(u8::try_from(four(48)?).ok()?)?,
            layout,
            capacity: BlockCount(eight(80)?),
            journal: BlockRange::new(Lbn(eight(88)?), BlockCount(eight(96)?)),
            data: Lbn(eight(104)?),
            states: (0..disks)
                .map(|disk| eight(FIXED_BYTES + 8 * disk).map(state_of))
                .collect::<Option<_>>()?,
        })
    }

    /// The newest label on `device`; `None` when it has none.
    pub(crate) async fn read(device: &dyn Device) -> Result<Option<Label>> {
        if device.inquiry().capacity < LABELS_BLOCKS {
            return Ok(None);
        }
        let mut newest: Option<Label> = None;
        let mut other_version = None;
        for copy in 0..2 {
            let first = Lbn(copy * LABEL_BLOCKS.0);
            // A copy that cannot be read is as good as torn: the other counts.
            let Ok(buffer) = device.read(BlockRange::new(first, LABEL_BLOCKS)).await else {
                continue;
            };
            let label = Label::decode(&buffer);
            if label.is_none() && buffer.starts_with(LABEL_MAGIC) {
                let version = buffer.get(8..12).and_then(|bytes| bytes.try_into().ok());
                let version = version.map(u32::from_le_bytes);
                other_version =
                    version.filter(|version| *version != LABEL_VERSION).or(other_version);
            }
            newest = newest.into_iter().chain(label).max_by_key(|label| label.generation);
        }
        match (newest, other_version) {
            (None, Some(version)) => Err(Error::Description {
                path: device.inquiry().name.as_str().into(),
                problem: format!(
                    "its label is of version {version}, and this program knows {LABEL_VERSION}: use the \
                     program that made the volume"
                ),
            }),
            (newest, _) => Ok(newest),
        }
    }

    /// Writes the label over the older of the two.
    pub(crate) async fn write(&self, device: &Arc<dyn Device>) -> Result<()> {
        let first = Lbn(self.generation % 2 * LABEL_BLOCKS.0);
        let Some(buffer) = self.encode() else {
            return Err(Error::TooSmall {
                device: device.inquiry().name.clone(),
                have: LABEL_BLOCKS.bytes(),
                need: BlockCount(self.states.len() as u64).bytes(),
            });
        };
        device.write(first, buffer).await?;
        device.flush().await
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
            capacity: BlockCount(12345),
            journal: BlockRange::new(Lbn(16), BlockCount(999)),
            data: Lbn(2048),
            states: (0..disks)
                .map(|disk| match disk {
                    0 => MemberState::Rebuilding(77),
                    1 => MemberState::Failed,
                    _ => MemberState::Ready,
                })
                .collect(),
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
                assert_eq!(Label::decode(&written.encode().unwrap()), Some(written));
            }
        }
        assert!(
            label(LayoutDescription::Stripe { unit: StripeUnit::Track }, 1, DISKS_MAX + 1)
                .encode()
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_no_label(bit in 0usize..4096 * 8) {
            let layout = LayoutDescription::Stripe { unit: StripeUnit::Track };
            let mut buffer = label(layout, 3, 4).encode().unwrap();
            buffer[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Label::decode(&buffer), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_label(bytes in prop::collection::vec(any::<u8>(), 0..4200)) {
            prop_assert_eq!(Label::decode(&bytes), None);
        }
    }
}
