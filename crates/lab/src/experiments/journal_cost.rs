//! The cost of closing the write hole: small writes with the journal and without.

use std::sync::Arc;

use futures::future::try_join_all;
use moirai::devices::Contents;
use moirai::runtime::{block_on_virtual, now, random};
use moirai::storage::{Device, IoBuf};
use moirai::units::{BlockCount, Lbn};
use moirai::volume::{Format, LayoutDescription, Level, StripeUnit, Volume, assemble, format};
use rand::Rng;

use crate::context::Stage;
use crate::setting::{drive, profile};
use crate::{Context, Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "journal-cost",
    source: "ours: nothing was published",
    summary: "random 8 KB writes to redundant volumes, with a journal and without",
    assumptions: &[
        "Drives: quantum-atlas-10k without a cache, so that no write waits for a flush. Stripe units of \
         64 KiB. Writers work in a closed loop, each with one write in flight.",
        "The journal closes the write hole. It lies at the rim of the same drives. A record holds the new data \
         and parity and goes to one drive more than may fail. Writes that arrive meanwhile share the next \
         record (group commit).",
        "Checksums that are not in memory are read from the rim before a write, and written when memory evicts \
         them. The 2,000 writes here are the first of a volume and find no checksums in memory.",
    ],
    takes: "5 s",
    scaling: None,
    run,
};

const WRITES: u64 = 2000;
const BLOCKS: BlockCount = BlockCount(16);
const WRITERS: [u64; 3] = [1, 8, 64];
const VOLUMES: [(&str, usize); 3] = [("raid10", 4), ("raid5", 5), ("raid6", 6)];

/// The metadata that a volume keeps beside data and parity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    Journal,
    JournalAndSums,
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (index, (level, disks)) in VOLUMES.into_iter().enumerate() {
        let stages = context.stage().part(index, VOLUMES.len()).split(WRITERS.map(|_| 1.0));
        for (writers, stage) in WRITERS.into_iter().zip(stages) {
            let [first, second, third] =
                stage.called(&format!("{level}, {writers} writers")).split([1.0, 2.0, 3.0]);
            let rate = |kept, stage: Stage| {
                let writes = writes_per_s(level, disks, writers, kept);
                let rate = block_on_virtual(context.seed(), writes);
                stage.at(1.0);
                rate
            };
            let without = rate(Kept::Nothing, first)?;
            let with = rate(Kept::Journal, second)?;
            let sums = rate(Kept::JournalAndSums, third)?;
            let row = |name: &str, unit, ours| {
                Row::new(format!("{level} of {disks}, {writers} writers, {name}"), unit, ours)
            };
            rows.push(row("without a journal", "writes/virtual s", without));
            rows.push(row("with a journal", "writes/virtual s", with));
            rows.push(row("ratio with to without", "", with / without));
            rows.push(row("with journal and checksums", "writes/virtual s", sums));
            rows.push(row("ratio with both to without", "", sums / without));
        }
    }
    Ok(rows)
}

async fn writes_per_s(level: &str, disks: usize, writers: u64, kept: Kept) -> Result<f64, Failure> {
    let level: Level = level.parse().map_err(Failure::Setting)?;
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) };
    let profile = profile("quantum-atlas-10k")?;
    let disk = |index| drive(&profile, format!("disk {index}"), Contents::memory(), None);
    let devices: Vec<_> = (0..disks).map(disk).collect();
    let volume: Arc<Volume> = if kept != Kept::Nothing {
        let integrity = kept == Kept::JournalAndSums;
        let how = Format { level, layout, journal: None, integrity, is_blank: true };
        format("v", &devices, how, |_, _| ()).await?;
        assemble("v".into(), devices, false).await?
    } else {
        Volume::new("v".into(), devices, level, layout).map_err(Failure::Setting)?
    };
    let began = now();
    let writer = |index: u64| {
        let volume = &volume;
        async move {
            let mut random = random(&format!("writer {index}"));
            let device: &dyn Device = &**volume;
            for _ in 0..WRITES / writers {
                let places = volume.inquiry().capacity.0 / BLOCKS.0;
                let first = Lbn(random.random_range(0..places) * BLOCKS.0);
                device.write(first, IoBuf::zeroed(BLOCKS)).await?;
            }
            Ok::<(), Failure>(())
        }
    };
    try_join_all((0..writers).map(writer)).await?;
    Ok((WRITES / writers * writers) as f64 / now().since(began).as_s())
}
