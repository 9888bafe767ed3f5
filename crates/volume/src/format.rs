//! Formatting devices, so that they know their volume.

use std::sync::Arc;

use futures::future::try_join_all;
use moirai_runtime::unique;
use moirai_storage::{Device, Error, IoBuf, Result, Section};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::journal::record_blocks_max;
use crate::label::{DISKS_MAX, LABELS_BLOCKS, Label, MemberLabel};
use crate::laid::Laid;
use crate::members::{Member, MemberState, Members, Parts};
use crate::ring::SECTORS_MIN;
use crate::sums::{PAGE_BLOCKS, sums_blocks};
use crate::{DiskIndex, LayoutDescription, Level, Volume};

/// The journal on each device, unless stripes are too long for it or the device is small: 8 MiB.
const JOURNAL_BLOCKS: BlockCount = BlockCount(16 << 10);
/// The share of a device that a journal of [`JOURNAL_BLOCKS`] may take: one part in so many.
const JOURNAL_SHARE: u64 = 64;
/// Stripes that the journal holds at least.
const JOURNAL_STRIPES_MIN: u64 = 4;

/// An error when a label has no room for so many disks.
pub(crate) fn check_count(name: &str, disks: usize) -> Result<()> {
    if disks <= DISKS_MAX {
        return Ok(());
    }
    let problem = format!("{disks} devices are too many: a volume has at most {DISKS_MAX}");
    Err(Error::Description { path: name.into(), problem })
}

/// Blocks that the journal needs at least, on each of these devices with units of at most `unit`.
pub(crate) fn journal_blocks_min(devices: &[Arc<dyn Device>], unit: BlockCount) -> BlockCount {
    let sector = devices.iter().map(|device| device.inquiry().physical_block.0).max();
    let sectors = BlockCount(SECTORS_MIN * sector.unwrap_or(1));
    stripes_blocks(devices.len(), unit).max(sectors)
}

/// Blocks that as many stripes take as the journal holds at least.
fn stripes_blocks(disks: usize, unit: BlockCount) -> BlockCount {
    BlockCount(JOURNAL_STRIPES_MIN * record_blocks_max(disks, unit))
}

/// The journal on each of `disks` devices that have `capacity`, with units of at most `unit`.
pub(crate) fn journal_blocks(disks: usize, unit: BlockCount, capacity: BlockCount) -> BlockCount {
    let usual = JOURNAL_BLOCKS.min(BlockCount(capacity.0 / JOURNAL_SHARE));
    // Stripes are longer once disks are added.
    usual.max(BlockCount(2 * stripes_blocks(disks, unit).0))
}

/// Whether the journal takes no more of the devices than it usually does.
pub(crate) fn is_journal_small(disks: usize, unit: BlockCount, capacity: BlockCount) -> bool {
    journal_blocks(disks, unit, capacity).0 <= capacity.0 / JOURNAL_SHARE
}

/// How to format the devices of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// How it survives failures.
    pub level: Level,
    /// How blocks are spread.
    pub layout: LayoutDescription,
    /// Blocks of the journal on each device; when not given 8 MiB, less on devices below 512 MiB, and more where
    /// a few stripes need it.
    pub journal: Option<BlockCount>,
    /// Whether blocks have checksums, so that what a device changed by itself is found when it is read,
    /// and worked out from the others.
    pub integrity: bool,
    /// Whether the devices are known to hold nothing but zeros. Parity fits zeros; other devices are read
    /// and cleared, which takes as long as reading them.
    pub is_blank: bool,
}

/// Where everything lies on devices that are formatted.
pub(crate) struct Formatted {
    journal: BlockRange,
    sums: BlockRange,
    /// Where the layout begins, on each device.
    data: Lbn,
    laid: Laid,
}

/// An error where a device has fewer blocks than `need`, which it tells in whole MiB.
fn check_room(devices: &[Arc<dyn Device>], need: BlockCount) -> Result<()> {
    match devices.iter().map(|device| device.inquiry()).find(|inquiry| inquiry.capacity < need) {
        Some(inquiry) => {
            let (device, have) = (inquiry.name.clone(), inquiry.capacity.bytes());
            let need = BlockCount(need.0.next_multiple_of(2048)).bytes();
            Err(Error::TooSmall { device, have, need })
        }
        None => Ok(()),
    }
}

impl Format {
    /// Where everything would lie on `devices`.
    fn over(&self, name: &str, devices: &[Arc<dyn Device>]) -> Result<Formatted> {
        let bad = |problem: String| Error::Description { path: name.into(), problem };
        check_count(name, devices.len())?;
        let whole = Laid::over(devices, self.level, self.layout).map_err(bad)?;
        let unit = whole.shape.layout.unit_max();
        let needed = journal_blocks_min(devices, unit);
        let smallest = devices.iter().map(|device| device.inquiry().capacity).min();
        let journal = match self.journal {
            // Nothing else would have to fit.
            _ if self.level.failures(devices.len()) == 0 => BlockCount::ZERO,
            None => journal_blocks(devices.len(), unit, smallest.unwrap_or_default()).max(needed),
            Some(journal) if journal >= needed => journal,
            Some(journal) => {
                return Err(bad(format!(
                    "a journal of {journal} does not hold {JOURNAL_STRIPES_MIN} stripes and {SECTORS_MIN} physical \
                     sectors: give the journal {needed}, or take a smaller stripe unit"
                )));
            }
        };
        let journal = BlockRange::new(Lbn(0) + LABELS_BLOCKS, journal);
        if self.integrity && self.level.failures(devices.len()) == 0 {
            let level = self.level;
            return Err(bad(format!(
                "key `integrity`: {level} has no redundancy to repair corrupt blocks from"
            )));
        }
        let sums = match self.integrity {
            true => {
                let first = Lbn(journal.end().0.next_multiple_of(PAGE_BLOCKS.0));
                let longest = devices.iter().map(|device| device.inquiry().capacity).max();
                BlockRange::new(first, sums_blocks(longest.unwrap_or_default()))
            }
            false => BlockRange::new(journal.end(), BlockCount::ZERO),
        };
        // The layout begins at an ensemble's beginning, at the same place of each device.
        let mut data = sums.end();
        let check = |data: Lbn| check_room(devices, BlockCount(data.0) + unit);
        for device in devices {
            check(data)?;
            data = data.max(device.ensemble(Lbn(data.0 - 1))?.blocks.end());
        }
        check(data)?;
        let sections = sections(devices, data)?;
        let laid = Laid::kept_on(&sections, self.level, self.layout, &[]).map_err(bad)?;
        Ok(Formatted { journal, sums, data, laid })
    }

    /// The volume as it would be over `devices` that were formatted. Nothing is read of them, and the
    /// volume keeps nothing on them: this is for who wants to know where blocks lie.
    pub fn lay_out(&self, name: String, devices: Vec<Arc<dyn Device>>) -> Result<Arc<Volume>> {
        let Formatted { data, laid, .. } = self.over(&name, &devices)?;
        let sections = sections(&devices, data)?;
        let member =
            |(whole, data)| Member::new(Parts { whole, data, summed: None }, MemberState::Ready);
        let members = devices.into_iter().zip(sections).map(member).collect();
        Ok(Volume::of(laid, Members::new(name, members), None))
    }
}

/// Writes labels to `devices`, which lose what they hold. `progress` is told how many blocks of each device
/// are cleared, of how many.
pub async fn format(
    name: &str,
    devices: &[Arc<dyn Device>],
    format: Format,
    mut progress: impl FnMut(BlockCount, BlockCount),
) -> Result<()> {
    let Formatted { journal, sums, data, laid } = format.over(name, devices)?;
    let layout = &laid.shape.layout;
    let member =
        |disk| MemberLabel::new(MemberState::Ready, layout.slots_checksum(DiskIndex(disk)));
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    let label = Label {
        volume: u128::from(unique()) << 64 | u128::from(unique()),
        generation: 1,
        disk: DiskIndex(0),
        level: format.level,
        layout: format.layout.with_depth(layout.depth()),
        stripes: layout.stripes(),
        division: layout.division(),
        zones: laid.known_zones().map_err(bad)?,
        capacity: layout.capacity(),
        journal,
        data,
        sums,
        growth: None,
        opening: None,
        members: (0..devices.len()).map(member).collect(),
        former: Vec::new(),
    };
    try_join_all(devices.iter().map(|device| clear_ends(&**device))).await?;
    // Without labels while they are not what the labels say.
    try_join_all(devices.iter().map(|device| clear(&**device, BlockRange::between(Lbn(0), data))))
        .await?;
    if !format.is_blank && format.level.failures(devices.len()) > 0 {
        let longest =
            devices.iter().map(|device| device.inquiry().capacity).max().unwrap_or_default();
        let mut at = data;
        while at.0 < longest.0 {
            let part = BlockRange::new(at, CLEARED_BLOCKS);
            try_join_all(devices.iter().map(|device| clear(&**device, part))).await?;
            at = part.end();
            progress(BlockCount(at.0).min(longest), longest);
        }
    }
    for (disk, device) in devices.iter().enumerate() {
        device.flush().await?;
        Label { disk: DiskIndex(disk), ..label.clone() }.write_both(device).await?;
    }
    Ok(())
}

/// Blocks that are cleared at once.
const CLEARED_BLOCKS: BlockCount = BlockCount(2048);

/// Makes the first and the last MiB of a device zero, where file systems, partition tables and RAID have signatures.
async fn clear_ends(device: &dyn Device) -> Result<()> {
    let capacity = device.inquiry().capacity;
    let last = Lbn(capacity.0.saturating_sub(CLEARED_BLOCKS.0));
    clear(device, BlockRange::new(Lbn(0), CLEARED_BLOCKS)).await?;
    clear(device, BlockRange::new(last, CLEARED_BLOCKS)).await
}

/// Makes the blocks zero that the device has of `range`. Those that are it are not written, so that a file
/// with holes keeps them.
async fn clear(device: &dyn Device, range: BlockRange) -> Result<()> {
    let end = range.end().min(Lbn(device.inquiry().capacity.0));
    let mut at = range.first;
    while at < end {
        let part = BlockRange::new(at, CLEARED_BLOCKS.min(end.since(at)));
        // What cannot be read is written like what is no zero.
        let read = device.read(part).await;
        if !read.is_ok_and(|content| content.iter().all(|byte| *byte == 0)) {
            device.write(at, IoBuf::zeroed(part.count)).await?;
        }
        at = part.end();
    }
    Ok(())
}

/// Makes `device` the one that `label` says, with nothing left of what it was.
pub(crate) async fn begin(label: &Label, device: &Arc<dyn Device>) -> Result<()> {
    clear_ends(&**device).await?;
    // Without labels while the journal is not empty.
    clear_for(label, device).await?;
    label.write_both(device).await
}

/// Clears all of `device` that lies before the data.
pub(crate) async fn clear_for(label: &Label, device: &Arc<dyn Device>) -> Result<()> {
    clear(&**device, BlockRange::between(Lbn(0), label.data)).await?;
    device.flush().await
}

/// The parts of devices that a layout lies on.
pub(crate) fn sections(devices: &[Arc<dyn Device>], data: Lbn) -> Result<Vec<Arc<dyn Device>>> {
    let section = |device: &Arc<dyn Device>| {
        let behind = device.inquiry().capacity.0.saturating_sub(data.0);
        let blocks = BlockRange::new(data, BlockCount(behind));
        Ok(Section::of(Arc::clone(device), blocks)? as Arc<dyn Device>)
    };
    devices.iter().map(section).collect()
}
