//! What the disk does when it is read and written in a row.

use std::path::Path;
use std::sync::Arc;

use moirai::runtime::{Random, Stopwatch, spawn};
use moirai::storage::{Device, IoBuf, Op, Request};
use moirai::units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai::{Access, NewFiles};
use rand::{RngCore, SeedableRng};

use crate::Outcome;

/// So many bytes are written, and then read.
const BYTES: ByteCount = ByteCount(1 << 30);
/// Of so many a request.
const REQUEST: ByteCount = ByteCount(4 << 20);

/// Bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    pub(crate) written_per_s: f64,
    pub(crate) read_per_s: f64,
}

/// Requests under way at a time.
const REQUESTS: u64 = 4;

/// Measures the disk of `folder`, past the cache.
pub(crate) async fn measure(folder: &Path) -> Outcome<Bandwidth> {
    let folder = tempfile::tempdir_in(folder)?;
    let uri = format!("file:{}?size={}", folder.path().join("file").display(), BYTES.0);
    let device = moirai::open_device_for(&uri, Access::Create(&NewFiles::new())).await?;
    // The first time makes room, which is not what is asked.
    in_a_row(&device, Op::Write).await?;
    let written_per_s = in_a_row(&device, Op::Write).await?;
    let read_per_s = in_a_row(&device, Op::Read).await?;
    Ok(Bandwidth { written_per_s, read_per_s })
}

/// Bytes a second in a row, some requests at a time.
async fn in_a_row(device: &Arc<dyn Device>, op: Op) -> Outcome<f64> {
    let mut random = Random::seed_from_u64(1);
    let count = BlockCount::holding(REQUEST);
    let buffers: Vec<IoBuf> = (0..REQUESTS)
        .map(|_| {
            let mut buffer = IoBuf::zeroed(count);
            random.fill_bytes(&mut buffer);
            buffer
        })
        .collect();
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..)
        .zip(buffers)
        .map(|(first, buffer)| {
            let device = Arc::clone(device);
            spawn(async move {
                let mut data = vec![buffer];
                for index in (first..BYTES.0 / REQUEST.0).step_by(REQUESTS as usize) {
                    let blocks = BlockRange::new(Lbn(index * count.0), count);
                    data = device.access(Request { op, blocks, data }).await?.data;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    device.flush().await?;
    Ok(BYTES.0 as f64 / watch.elapsed().as_s())
}
