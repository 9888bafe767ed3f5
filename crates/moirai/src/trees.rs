//! Stores of trees by URI: their log on devices of its own, or at the end of theirs.

use std::sync::Arc;

use moirai_btree::{Error, Result, Store, with_leaves};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai_update::{Engine, Kinds, LOG_LABEL_BLOCKS, Options};
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
}

/// A log is of whole segments, sixteen or more of up to 4 MiB, behind its label.
const LOG_STEPS: [u64; 2] = [4 << 20, 16 * 512];
/// A log at the end of a device is so long at the most, unless told otherwise.
const LOG_BYTES_MAX: u64 = 1 << 30;

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
    let had = Engine::log_blocks(&*device).await;
    let log_blocks = match (had, new) {
        (Ok(blocks), _) => blocks,
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
            let blocks = match own_logs.is_empty() {
                true => log_blocks_of(&*device, new.log),
                false => BlockCount::ZERO,
            };
            let Parts { data, logs } = divided(&device, &own_logs, blocks)?;
            Store::format(&*data, &logs, with_leaves(new.leaf)).await?;
            blocks
        }
        (Err(error), _) => return Err(error.into()),
    };
    let Parts { data, logs } = divided(&device, &own_logs, log_blocks)?;
    Store::open(data, &logs, kinds, options).await
}

fn of_device(error: moirai_storage::Error) -> Error {
    moirai_update::Error::from(error).into()
}

/// How long a log at the end of `device` is.
fn log_blocks_of(device: &dyn Device, wanted: Option<ByteCount>) -> BlockCount {
    let eighth = device.inquiry().capacity.bytes().0 / 8;
    let bytes = wanted.map_or(eighth.min(LOG_BYTES_MAX), |wanted| wanted.0);
    let step = LOG_STEPS.into_iter().find(|step| bytes >= 16 * step).unwrap_or(LOG_STEPS[1]);
    BlockCount::holding(ByteCount(bytes / step * step)) + LOG_LABEL_BLOCKS
}

/// The device of the leaves and those of the log.
struct Parts {
    data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
}

fn divided(
    device: &Arc<dyn Device>,
    own_logs: &[Arc<dyn Device>],
    log: BlockCount,
) -> Result<Parts> {
    if !own_logs.is_empty() {
        return Ok(Parts { data: Arc::clone(device), logs: own_logs.to_vec() });
    }
    let end = Lbn(device.inquiry().capacity.0);
    let first = Lbn(end.0.saturating_sub(log.0));
    let part = |from, to| {
        Section::of(Arc::clone(device), BlockRange::between(from, to)).map_err(of_device)
    };
    Ok(Parts { data: part(Lbn(0), first)?, logs: vec![part(first, end)?] })
}
