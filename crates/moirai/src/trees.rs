//! Stores of trees by URI, with the log on devices of its own or at the end of the data's device.

use std::sync::Arc;

use moirai_btree::{Error, Result, Store, with_leaves};
use moirai_storage::{
    Device, Inquiry, Metered, Occupant, Section, clear_ends, occupant, occupants,
};
use moirai_tables::Tables;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai_update::{Engine, Format, Kinds, LOG_LABEL_BLOCKS, Lengths, LogWriter, Options};
use moirai_volume::Concatenation;

use crate::{Access, NewFiles, open_device_for};

/// Where a store of trees is.
#[derive(Clone, Copy, Debug)]
pub struct TreesPlace<'a> {
    /// The device or volume of the leaves, as URI.
    pub data: &'a str,
    /// The devices of the log; none where the log is at the end of `data`.
    pub logs: &'a [String],
}

/// How a store of trees is made.
#[derive(Clone, Copy, Debug)]
pub struct NewTrees<'a> {
    /// Bytes of a leaf.
    pub leaf: ByteCount,
    /// Bytes of a log at the end of the device; an eighth of the device when not given, 1 GiB at most.
    pub log: Option<ByteCount>,
    /// How the log is written; [`LogWriter::Trail`] is for disks of its own.
    pub writer: LogWriter,
    /// Where files that are created are noted.
    pub files: &'a NewFiles,
    /// Whether devices that hold something else are overwritten.
    pub overwrite: bool,
}

impl<'a> NewTrees<'a> {
    /// With the log at the end of the device, on one that holds nothing else.
    #[must_use]
    pub fn new(leaf: ByteCount, files: &'a NewFiles) -> NewTrees<'a> {
        NewTrees { leaf, log: None, writer: LogWriter::Append, files, overwrite: false }
    }
}

/// A store of trees that was opened or made.
pub struct CreatedTrees {
    /// The store.
    pub store: Store,
    /// Whether it was made now.
    pub is_new: bool,
    /// The devices whose contents are lost, with those contents.
    pub overwritten: Vec<(String, Occupant)>,
}

/// The segments of a log: sixteen or more, of up to 4 MiB each, after the log's label.
const LOG_STEPS: [u64; 2] = [4 << 20, 16 * 512];
/// The longest log at the end of a device, unless a length is given.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// A device that grew by less than this is used as far as before.
const GROWTH_BYTES_MIN: u64 = 1 << 20;
/// The most segments of a log.
const LOG_SEGMENTS_MAX: u64 = 1 << 20;

/// Opens the store of trees at `place`. With [`Options::read_only`] its devices are opened for reading, and other
/// readers may open them, too. Inside a runtime only.
///
/// # Errors
/// [`moirai_update::Error::NotFormatted`] where there is none.
pub async fn open_trees(place: TreesPlace<'_>, kinds: Kinds, options: Options) -> Result<Store> {
    Devices::open_with(place, options).await?.existing(kinds, options).await
}

/// What the device of a store to be holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// A store of trees and tables, whole or damaged.
    Store,
    /// Nothing.
    Nothing,
    /// Something else.
    Other(Occupant),
}

/// What the device that `uri` names holds. Inside a runtime only.
///
/// # Errors
/// Those of opening and reading it.
pub async fn held(uri: &str) -> Result<Held> {
    let device = open_device_for(uri, Access::Read).await.map_err(of_device)?;
    match Engine::lengths(&*device).await {
        Err(moirai_update::Error::NotFormatted { .. }) => {
            let occupant = occupant(&*device).await.map_err(of_device)?;
            Ok(occupant.map_or(Held::Nothing, Held::Other))
        }
        Err(moirai_update::Error::Device(error)) => Err(of_device(error)),
        _ => Ok(Held::Store),
    }
}

/// Opens the store at `place` for its tables. Inside a runtime only. Errors as of [`open_trees`].
pub async fn open_tables(
    place: TreesPlace<'_>,
    kinds: Kinds,
    options: Options,
) -> Result<Arc<Tables>> {
    Ok(Tables::over(open_trees(place, kinds, options).await?))
}

/// The same, with what counts the requests to the device of the data.
pub async fn open_tables_metered(
    place: TreesPlace<'_>,
    kinds: Kinds,
    options: Options,
) -> Result<(Arc<Tables>, Arc<Metered>)> {
    let Devices { data, logs } = Devices::open_with(place, options).await?;
    let metered = Metered::new(data);
    let devices = Devices { data: Arc::clone(&metered) as Arc<dyn Device>, logs };
    Ok((Tables::over(devices.existing(kinds, options).await?), metered))
}

/// Opens the store of trees at `place`, or makes one as `new` says where the devices are blank. Inside a runtime
/// only.
///
/// # Errors
/// [`moirai_storage::Error::Occupied`] where a device holds something else, unless it may be overwritten.
pub async fn create_trees(
    place: TreesPlace<'_>,
    new: NewTrees<'_>,
    kinds: Kinds,
    options: Options,
) -> Result<CreatedTrees> {
    let devices = Devices::open(place, Access::Create(new.files)).await?;
    match Engine::lengths(&*devices.data).await {
        Ok(lengths) => {
            devices.refuse_usurped().await.map_err(of_device)?;
            let store = devices.store(lengths, kinds, options).await?;
            return Ok(CreatedTrees { store, is_new: false, overwritten: Vec::new() });
        }
        Err(moirai_update::Error::NotFormatted { .. }) => {}
        Err(moirai_update::Error::Version { .. } | moirai_update::Error::Damaged { .. })
            if new.overwrite => {}
        Err(error) => return Err(error.into()),
    }
    devices.make(new, kinds, options).await
}

/// Makes a store on `data`, with leaves as long as `leaf`, and opens it for its tables; the log is at the end of the device. Inside
/// a runtime only.
///
/// # Errors
/// [`moirai_storage::Error::Occupied`] where the device holds something.
pub async fn create_tables_on(
    data: Arc<dyn Device>,
    leaf: ByteCount,
    options: Options,
) -> Result<Arc<Tables>> {
    create_tables_with_logs(data, Vec::new(), leaf, options).await
}

/// The same, with a log on devices of its own where `logs` has any.
///
/// # Errors
/// As of [`create_tables_on`].
pub async fn create_tables_with_logs(
    data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
    leaf: ByteCount,
    options: Options,
) -> Result<Arc<Tables>> {
    let files = NewFiles::new();
    let new = NewTrees::new(leaf, &files);
    let made = Devices { data, logs }.make(new, Kinds::new(), options).await?;
    Ok(Tables::over(made.store))
}

fn of_device(error: moirai_storage::Error) -> Error {
    moirai_update::Error::from(error).into()
}

/// The lengths of the data on `device` and of the log after them, which begins with a physical block.
fn lengths_of(device: &dyn Device, wanted: Option<ByteCount>) -> Lengths {
    let Inquiry { capacity, physical_block, .. } = *device.inquiry();
    let eighth = capacity.bytes().0 / 8;
    let bytes = wanted.map_or(eighth.min(LOG_BYTES_MAX), |wanted| wanted.0);
    let step = LOG_STEPS.into_iter().find(|step| bytes >= 16 * step).unwrap_or(LOG_STEPS[1]);
    let segments = (bytes / step).min(LOG_SEGMENTS_MAX);
    let log = BlockCount::holding(ByteCount(segments * step)) + LOG_LABEL_BLOCKS;
    let data = capacity.0.saturating_sub(log.0);
    Lengths { data: BlockCount(data - data % physical_block.0.max(1)), log }
}

/// The devices that a place names.
struct Devices {
    data: Arc<dyn Device>,
    /// None where the log is at the end of `data`.
    logs: Vec<Arc<dyn Device>>,
}

/// The device of the leaves and those of the log.
struct Parts {
    data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
}

impl Devices {
    async fn open(place: TreesPlace<'_>, access: Access<'_>) -> Result<Devices> {
        let data = open_device_for(place.data, access).await.map_err(of_device)?;
        let mut logs = Vec::new();
        for log in place.logs {
            logs.push(open_device_for(log, access).await.map_err(of_device)?);
        }
        Ok(Devices { data, logs })
    }

    /// Those of a store that is there, to read or to change it.
    async fn open_with(place: TreesPlace<'_>, options: Options) -> Result<Devices> {
        let access = if options.read_only { Access::Read } else { Access::Write };
        let devices = Devices::open(place, access).await?;
        if !options.read_only {
            devices.refuse_usurped().await.map_err(of_device)?;
        }
        Ok(devices)
    }

    /// The store that is there.
    async fn existing(self, kinds: Kinds, options: Options) -> Result<Store> {
        match Engine::lengths(&*self.data).await {
            Ok(lengths) => self.store(lengths, kinds, options).await,
            Err(moirai_update::Error::NotFormatted { device, .. }) => {
                let holds = occupant(&*self.data).await.map_err(of_device)?;
                Err(moirai_update::Error::NotFormatted { device, holds }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A new store.
    async fn make(self, new: NewTrees<'_>, kinds: Kinds, options: Options) -> Result<CreatedTrees> {
        if !new.overwrite {
            self.occupants(false).await.map_err(of_device)?;
        }
        let lengths = self.new_lengths(&new)?;
        let Parts { data, logs } = self.divided(lengths)?;
        let format = Format { log: new.writer, ..with_leaves(new.leaf) };
        // What cannot become a store keeps what it holds.
        Store::check_format(&*data, &logs, &format)?;
        options.check()?;
        let overwritten = self.make_blank(new.overwrite).await.map_err(of_device)?;
        Store::format(&*data, &logs, format).await?;
        let store = self.store(lengths, kinds, options).await?;
        Ok(CreatedTrees { store, is_new: true, overwritten })
    }

    /// An error when a RAID or a pool took over one of the devices.
    async fn refuse_usurped(&self) -> moirai_storage::Result<()> {
        for device in [&self.data].into_iter().chain(&self.logs) {
            crate::refuse_usurped(&**device).await?;
        }
        Ok(())
    }

    /// The store, with or without tables.
    async fn store(&self, lengths: Lengths, mut kinds: Kinds, options: Options) -> Result<Store> {
        let Parts { data, logs } = self.divided(lengths)?;
        let formats = Tables::add_to(&mut kinds)?;
        Store::open_with(data, &logs, (kinds, formats), options).await
    }

    /// The lengths of data and log in a new store; an error when it cannot be made so.
    fn new_lengths(&self, new: &NewTrees<'_>) -> Result<Lengths> {
        if self.logs.is_empty() && new.writer != LogWriter::Append {
            return Err(refused(
                "a log written where the disk head is needs log devices: name at least one".into(),
            ));
        }
        let lengths = lengths_of(&*self.data, new.log);
        if self.logs.is_empty() && lengths.data == BlockCount::ZERO {
            let inquiry = self.data.inquiry();
            return Err(refused(format!(
                "{}: a log of {} does not fit on a device of {}: give a shorter log",
                inquiry.name,
                lengths.log.bytes(),
                inquiry.capacity.bytes()
            )));
        }
        Ok(lengths)
    }

    /// Clears the devices that hold something, when they may be overwritten; gives what they held.
    async fn make_blank(&self, overwrite: bool) -> moirai_storage::Result<Vec<(String, Occupant)>> {
        let mut overwritten = Vec::new();
        for (device, occupant) in self.occupants(overwrite).await? {
            clear_ends(&*device).await?;
            overwritten.push((device.inquiry().name.clone(), occupant));
        }
        Ok(overwritten)
    }

    /// What they hold; an error unless it may be overwritten.
    async fn occupants(
        &self,
        overwrite: bool,
    ) -> moirai_storage::Result<Vec<(Arc<dyn Device>, Occupant)>> {
        let devices: Vec<Arc<dyn Device>> =
            [&self.data].into_iter().chain(&self.logs).map(Arc::clone).collect();
        let found = occupants(&devices, overwrite).await?.into_iter();
        Ok(found.filter_map(|(index, what)| Some((devices.get(index)?.clone(), what))).collect())
    }

    fn divided(&self, lengths: Lengths) -> Result<Parts> {
        if !self.logs.is_empty() {
            return Ok(Parts { data: Arc::clone(&self.data), logs: self.logs.clone() });
        }
        let data = BlockRange::new(Lbn(0), lengths.data);
        let log = BlockRange::new(data.end(), lengths.log);
        let inquiry = self.data.inquiry();
        if log.end() > inquiry.all_blocks().end() {
            return Err(refused(format!(
                "{}: the device ends before the log, which comes after the data: name the devices of the log, or \
                 a complete copy of the device",
                inquiry.name
            )));
        }
        let part = |blocks| Section::of(Arc::clone(&self.data), blocks).map_err(of_device);
        let logs: Vec<Arc<dyn Device>> = vec![part(log)?];
        let Some(grown) = grown_after(inquiry, log.end()) else {
            return Ok(Parts { data: part(data)?, logs });
        };
        let parts: Vec<(Arc<dyn Device>, BlockCount)> =
            vec![(part(data)?, data.count), (part(grown)?, grown.count)];
        let data = Concatenation::of(inquiry.name.clone(), parts).map_err(of_device)?;
        Ok(Parts { data, logs })
    }
}

/// Whole physical blocks after the log, of a device that has grown since the store was made. They hold data, too.
fn grown_after(inquiry: &Inquiry, log_end: Lbn) -> Option<BlockRange> {
    let physical = inquiry.physical_block.0.max(1);
    let end = inquiry.capacity.0 / physical * physical;
    let first = log_end.0.next_multiple_of(physical);
    let grown = BlockRange::new(Lbn(first), BlockCount(end.checked_sub(first)?));
    (grown.count.bytes().0 >= GROWTH_BYTES_MIN).then_some(grown)
}

fn refused(problem: String) -> Error {
    moirai_update::Error::Options { problem }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use moirai_devices::{FaultyDevice, Medium, Power};
    use moirai_runtime::block_on_virtual;

    /// A log has segments of 4 MiB at the most, and not more of them than its format counts: of one that was to be longer
    /// the rest is left to the data.
    #[test]
    fn a_log_is_as_long_as_its_format_allows() {
        block_on_virtual(1, async {
            let capacity = BlockCount::holding(ByteCount(8 << 40));
            let device: Arc<dyn Device> =
                FaultyDevice::new("large".into(), capacity, BlockCount(16), Power::on());
            let lengths = lengths_of(&*device, Some(ByteCount(5 << 40)));
            assert_eq!(lengths.log, BlockCount::holding(ByteCount(4 << 40)) + LOG_LABEL_BLOCKS);
            assert_eq!(lengths.data + lengths.log, capacity);
            let devices = Devices { data: device, logs: Vec::new() };
            let Parts { data, logs } = devices.divided(lengths).unwrap();
            Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
            let options = Options::default();
            let store = Store::open(data, &logs, Kinds::new(), options).await.unwrap();
            assert_eq!(store.figures().log_segments, 1 << 20);
            store.tree("one").await.unwrap();
        });
    }

    /// Whatever the sectors: a log may end behind the last whole one.
    #[test]
    fn devices_are_divided_whatever_their_sectors_are() {
        block_on_virtual(1, async {
            for capacity in 195_200..195_400 {
                for sector in [1, 8, 16, 64, 128] {
                    let device: Arc<dyn Device> = FaultyDevice::on(
                        Medium::disk(BlockCount(sector)),
                        "data".into(),
                        BlockCount(capacity),
                        BlockCount(16),
                        Power::on(),
                    );
                    let lengths = lengths_of(&*device, None);
                    let devices = Devices { data: device, logs: Vec::new() };
                    let Parts { data, logs } = devices.divided(lengths).unwrap();
                    let of_logs: BlockCount = logs.iter().map(|log| log.inquiry().capacity).sum();
                    let all = data.inquiry().capacity + of_logs;
                    assert!(all <= BlockCount(capacity), "{capacity}, {sector}");
                }
            }
        });
    }
}
