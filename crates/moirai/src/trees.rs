//! Stores of trees by URI: their log on devices of its own, or at the end of theirs.

use std::sync::Arc;

use moirai_btree::{Error, Result, Store, with_leaves};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai_update::{Engine, Format, Kinds, LOG_LABEL_BLOCKS, Lengths, LogWriter, Options};
use moirai_volume::{Section, is_blank};

use crate::open_device;

/// Where a store of trees is.
#[derive(Clone, Copy, Debug)]
pub struct TreesPlace<'a> {
    /// The device or volume of its leaves, as URI.
    pub data: &'a str,
    /// Those of its log; the end of the other when there are none.
    pub logs: &'a [String],
}

/// How a store of trees is made.
#[derive(Clone, Copy, Debug)]
pub struct NewTrees {
    /// Bytes of a leaf.
    pub leaf: ByteCount,
    /// Bytes of a log at the end of the device; an eighth of that when not given, 1 GiB at most.
    pub log: Option<ByteCount>,
    /// How the log is written; [`LogWriter::Trail`] is for disks of its own.
    pub writer: LogWriter,
}

/// A log is of whole segments, sixteen or more of up to 4 MiB, behind its label.
const LOG_STEPS: [u64; 2] = [4 << 20, 16 * 512];
/// A log at the end of a device is so long at the most, unless told otherwise.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// More segments than this a log has not.
const LOG_SEGMENTS_MAX: u64 = 1 << 20;

/// Opens the store of trees at `place`; one is made there with `new` when the first and the last MiB of the device
/// are zeros, and those of logs of their own. Inside a runtime only.
pub async fn open_trees(
    place: TreesPlace<'_>,
    new: Option<NewTrees>,
    kinds: Kinds,
    options: Options,
) -> Result<Store> {
    let device = open_device(place.data).await.map_err(of_device)?;
    let mut own_logs = Vec::new();
    for log in place.logs {
        own_logs.push(open_device(log).await.map_err(of_device)?);
    }
    let lengths = match (Engine::lengths(&*device).await, new) {
        (Ok(lengths), _) => lengths,
        (Err(moirai_update::Error::NotFormatted { .. }), Some(new))
            if is_blank(&*device).await.map_err(of_device)? =>
        {
            for log in &own_logs {
                if !is_blank(&**log).await.map_err(of_device)? {
                    let problem = format!(
                        "{} holds something: name a log's device that holds nothing",
                        log.inquiry().name
                    );
                    return Err(moirai_update::Error::Options { problem }.into());
                }
            }
            if own_logs.is_empty() && new.writer != LogWriter::Append {
                let problem = "a log is written where the head is about to be on disks of its own only: name them";
                return Err(moirai_update::Error::Options { problem: problem.into() }.into());
            }
            let lengths = lengths_of(&*device, new.log);
            if own_logs.is_empty() && lengths.data == BlockCount::ZERO {
                let (name, room) = (&device.inquiry().name, device.inquiry().capacity.bytes());
                let log = lengths.log.bytes();
                let problem =
                    format!("{name}: a log of {log} on a device of {room}: make it shorter");
                return Err(moirai_update::Error::Options { problem }.into());
            }
            let Parts { data, logs } = divided(&device, &own_logs, lengths)?;
            let format = Format { log: new.writer, ..with_leaves(new.leaf) };
            Store::format(&*data, &logs, format).await?;
            lengths
        }
        (Err(error), _) => return Err(error.into()),
    };
    let Parts { data, logs } = divided(&device, &own_logs, lengths)?;
    Store::open(data, &logs, kinds, options).await
}

fn of_device(error: moirai_storage::Error) -> Error {
    moirai_update::Error::from(error).into()
}

/// How long the data on `device` are, and the log behind them.
fn lengths_of(device: &dyn Device, wanted: Option<ByteCount>) -> Lengths {
    let capacity = device.inquiry().capacity;
    let eighth = capacity.bytes().0 / 8;
    let bytes = wanted.map_or(eighth.min(LOG_BYTES_MAX), |wanted| wanted.0);
    let step = LOG_STEPS.into_iter().find(|step| bytes >= 16 * step).unwrap_or(LOG_STEPS[1]);
    let segments = (bytes / step).min(LOG_SEGMENTS_MAX);
    let log = BlockCount::holding(ByteCount(segments * step)) + LOG_LABEL_BLOCKS;
    Lengths { data: BlockCount(capacity.0.saturating_sub(log.0)), log }
}

/// The device of the leaves and those of the log.
struct Parts {
    data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
}

fn divided(
    device: &Arc<dyn Device>,
    own_logs: &[Arc<dyn Device>],
    lengths: Lengths,
) -> Result<Parts> {
    if !own_logs.is_empty() {
        return Ok(Parts { data: Arc::clone(device), logs: own_logs.to_vec() });
    }
    // The device may have grown since.
    let data = BlockRange::new(Lbn(0), lengths.data);
    let log = BlockRange::new(data.end(), lengths.log);
    let inquiry = device.inquiry();
    if log.end() > inquiry.all_blocks().end() {
        let problem = format!(
            "{}: it ends before the log that would be behind the data: name the devices of the log, or a copy that is whole",
            inquiry.name
        );
        return Err(moirai_update::Error::Options { problem }.into());
    }
    let part = |blocks| Section::of(Arc::clone(device), blocks).map_err(of_device);
    Ok(Parts { data: part(data)?, logs: vec![part(log)?] })
}

#[cfg(test)]
mod tests {
    use super::*;

    use moirai_devices::{FaultyDevice, Power};
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
            let Parts { data, logs } = divided(&device, &[], lengths).unwrap();
            Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
            let options = Options::default();
            let store = Store::open(data, &logs, Kinds::new(), options).await.unwrap();
            assert_eq!(store.figures().log_segments, 1 << 20);
            store.tree("one").await.unwrap();
        });
    }
}
