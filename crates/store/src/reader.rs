//! Reads runs of blocks as one batch, cut at the access delay boundaries.

use moirai_storage::{Device, IoBuf, Op, Request};
use moirai_units::BlockRange;

use crate::Result;

/// Whether the data are wanted, or the accesses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Data,
    /// The accesses alone, for experiments on devices that keep no data.
    Access,
}

/// Reads `runs`; a buffer for each, in their order, or none in [`Mode::Access`].
pub(crate) async fn read_runs(
    device: &dyn Device,
    runs: &[BlockRange],
    mode: Mode,
) -> Result<Vec<IoBuf>> {
    let mut batch = Vec::with_capacity(runs.len());
    let mut parts_of_run = Vec::with_capacity(runs.len());
    for run in runs {
        let before = batch.len();
        let mut rest = *run;
        let mut buffer = (mode == Mode::Data).then(|| IoBuf::zeroed(run.count));
        while !rest.is_empty() {
            let boundary = device.ensemble(rest.first)?.blocks.end();
            let (blocks, behind) = rest.split_at(boundary);
            let mut data = Vec::new();
            if let Some(mut head) = buffer.take() {
                if !behind.is_empty() {
                    buffer = Some(head.split_off(blocks.count));
                }
                data.push(head);
            }
            batch.push(Request { op: Op::Read, blocks, data });
            rest = behind;
        }
        parts_of_run.push(batch.len() - before);
    }
    let mut results = device.submit(batch).await.into_iter();
    let mut buffers = Vec::with_capacity(runs.len());
    for parts in parts_of_run {
        let mut whole: Option<IoBuf> = None;
        for result in results.by_ref().take(parts) {
            for part in result?.data {
                match &mut whole {
                    None => whole = Some(part),
                    Some(whole) => whole.join(part),
                }
            }
        }
        buffers.extend(whole);
    }
    Ok(buffers)
}
