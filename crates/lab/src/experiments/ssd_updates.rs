//! Random updates on flash: what the update engine writes there, beside overwriting in place.

use std::sync::Arc;

use moirai::btree::{Batch, Store, Tree, with_leaves};
use moirai::devices::{Contents, SimulatedOptions, SimulatedSsd};
use moirai::runtime::{block_on_virtual, now, random};
use moirai::storage::Device;
use moirai::units::{BlockCount, BlockRange, ByteCount, Instant, Lbn};
use moirai::update::{Kinds, Options};
use moirai_models::{Direction, DiskRequest, Scheduler, Ssd, SsdCounters, SsdProfile};
use rand::Rng;

use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ssd-updates",
    source: "Moirai's own; the device after Agrawal et al., USENIX ATC 2008",
    summary: "random updates on an SSD that is 80 % full: the update engine and overwriting in place",
    assumptions: &[
        "The SSD is ssd-slc with 2 GiB: 15 % of its flash are spare, pages of 4 KiB are mapped, garbage is collected from the \
         superblock with the least valid pages. Its own counters say what was programmed.",
        "In place: 80 % of the SSD are written once, and then pages of 4 KiB at random, each for one record, until twice as \
         many were written as lie there; the second half is measured.",
        "The engine: records of 64 bytes, key and value, in a tree with leaves of 8 KiB that takes 55 % of the SSD when it was \
         loaded; updates at random in groups of 128, log on the same SSD, memory of 1/64 of the records. They go on until \
         as many were made as there are records, and are measured for the same again; the rest of the 80 % is what the engine \
         needs for them.",
    ],
    takes: "5 min",
    scaling: Some(Scaling { least: 0.05, what: "the SSD and the memory" }),
    run,
};

const SIZE: ByteCount = ByteCount(2 << 30);
const FULL: f64 = 0.8;
/// Of the SSD, for records when they were loaded.
const LOADED: f64 = 0.55;
const RECORD_BYTES: u64 = 64;
const KEY_BYTES: usize = 16;
const GROUP: u64 = 128;
const LEAF: ByteCount = ByteCount(8 << 10);
/// Records to a byte of memory.
const MEMORY_SHARE: u64 = 64;
/// The part of the flash bytes of overwriting in place that the engine may write.
const OF_IN_PLACE: f64 = 1.0 / 20.0;
const AMPLIFICATION: f64 = 1.2;

/// What was written for updates.
#[derive(Clone, Copy, Debug)]
struct Written {
    updates: u64,
    counters: SsdCounters,
    seconds: f64,
    /// The part of the SSD that is in use.
    full: f64,
}

impl Written {
    fn flash_bytes(&self) -> f64 {
        self.counters.programmed.bytes().0 as f64 / self.updates as f64
    }

    fn host_bytes(&self) -> f64 {
        self.counters.host.bytes().0 as f64 / self.updates as f64
    }
}

fn since(before: SsdCounters, after: SsdCounters) -> SsdCounters {
    SsdCounters {
        host: after.host - before.host,
        programmed: after.programmed - before.programmed,
        moved: after.moved - before.moved,
        erased: after.erased - before.erased,
    }
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let size = ByteCount((SIZE.0 as f64 * context.scale()) as u64);
    let profile = SsdProfile::built_in("ssd-slc").and_then(|ssd| ssd.with_size(size).ok());
    let profile = profile.ok_or(Failure::Setting("there is no ssd-slc of this size".into()))?;
    let [placing, updating] = context.stage().split([1.0, 9.0]);
    let engine = updating.called("update engine");
    let engine = block_on_virtual(context.seed(), on_the_engine(profile.clone(), engine))?;
    let in_place = placing.called("in place");
    let in_place = block_on_virtual(context.seed(), async { in_place_of(profile, &in_place) });
    let share = engine.flash_bytes() / in_place.flash_bytes();
    let amplification = engine.counters.write_amplification();
    Ok(vec![
        Row::new("in place, flash bytes for an update", "B", in_place.flash_bytes()),
        Row::new(
            "in place, flash bytes for each of the host's",
            "",
            in_place.counters.write_amplification(),
        ),
        Row::new("in place, updates", "1/virtual s", in_place.updates as f64 / in_place.seconds),
        Row::new("engine, part of the SSD in use", "", engine.full),
        Row::new("engine, host bytes for an update", "B", engine.host_bytes()),
        Row::new("engine, flash bytes for an update", "B", engine.flash_bytes()),
        Row::new("engine, flash bytes for each of the host's", "", amplification)
            .judged(Tolerance::AtMost(AMPLIFICATION)),
        Row::new("engine, flash bytes in those in place", "", share)
            .judged(Tolerance::AtMost(OF_IN_PLACE)),
        Row::new("engine, updates", "1/virtual s", engine.updates as f64 / engine.seconds),
    ])
}

/// One page for each update, one at a time.
fn in_place_of(profile: SsdProfile, stage: &Stage) -> Written {
    let page = profile.page_blocks;
    let pages = (profile.capacity().0 as f64 * FULL) as u64 / page.0;
    let mut random = random("pages");
    let mut ssd = Ssd::new(profile);
    let (mut now, mut done) = (Instant::ZERO, Vec::new());
    let mut write = |ssd: &mut Ssd, number: u64| {
        let blocks = BlockRange::new(Lbn(number * page.0), page);
        ssd.submit(now, DiskRequest { id: 0, direction: Direction::Write, blocks });
        while let Some(next) = ssd.next_event() {
            ssd.advance(next, &mut done);
        }
        now = done.drain(..).map(|done| done.finished).max().unwrap_or(now);
        now
    };
    for number in 0..pages {
        write(&mut ssd, number);
    }
    let mut half = |ssd: &mut Ssd, at: f64| {
        let mut end = Instant::ZERO;
        for _ in 0..pages {
            end = write(ssd, random.random_range(0..pages));
        }
        stage.at(at);
        end
    };
    let began = half(&mut ssd, 0.5);
    let before = ssd.counters();
    let ended = half(&mut ssd, 1.0);
    Written {
        updates: pages,
        counters: since(before, ssd.counters()),
        seconds: ended.since(began).as_s(),
        full: FULL,
    }
}

struct Bench {
    ssd: Arc<SimulatedSsd>,
    store: Store,
    tree: Tree,
    records: u64,
}

impl Bench {
    async fn new(profile: SsdProfile) -> Result<Bench, Failure> {
        let capacity = profile.capacity();
        let options = SimulatedOptions {
            name: "ssd".into(),
            scheduler: Scheduler::Fcfs,
            contents: Contents::memory(),
            physical_block: BlockCount(1),
            host_bus: None,
        };
        let ssd = SimulatedSsd::start(profile, options);
        let device: Arc<dyn Device> = Arc::clone(&ssd) as Arc<dyn Device>;
        Store::format(&*device, &[], with_leaves(LEAF)).await?;
        let records = (capacity.bytes().0 as f64 * LOADED) as u64 / RECORD_BYTES;
        let memory = ByteCount(records * RECORD_BYTES / MEMORY_SHARE);
        let options = Options { memory, ..Options::default() };
        let store = Store::open(device, &[], Kinds::new(), options).await?;
        let tree = store.tree("records").await?;
        let all = (0..records).map(|number| (key(number), [7; RECORD_BYTES as usize - KEY_BYTES]));
        store.ingest(&tree, all).await?;
        Ok(Bench { ssd, store, tree, records })
    }

    /// As many updates as there are records; what was written meanwhile.
    async fn update(&self, stage: &Stage) -> Result<Written, Failure> {
        let mut random = random("records");
        let (before, began) = (self.ssd.counters(), now());
        let groups = self.records / GROUP;
        for group in 0..groups {
            let mut batch = Batch::new();
            for _ in 0..GROUP {
                let mut value = [0; RECORD_BYTES as usize - KEY_BYTES];
                random.fill(&mut value[..]);
                batch.put(&self.tree, &key(random.random_range(0..self.records)), &value);
            }
            self.store.commit(&batch).await?;
            if group % 256 == 0 {
                stage.at(group as f64 / groups as f64);
            }
        }
        let figures = self.store.figures();
        let used = figures.data_bytes - figures.data_free_bytes;
        Ok(Written {
            updates: groups * GROUP,
            counters: since(before, self.ssd.counters()),
            seconds: now().since(began).as_s(),
            full: used as f64 / self.ssd.inquiry().capacity.bytes().0 as f64,
        })
    }
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (_, low) = key.split_at_mut(8);
    low.copy_from_slice(&number.to_be_bytes());
    key
}

async fn on_the_engine(profile: SsdProfile, stage: Stage) -> Result<Written, Failure> {
    let bench = Bench::new(profile).await?;
    let [warming, measuring] = stage.split([1.0, 1.0]);
    bench.update(&warming.called("update engine, first updates")).await?;
    bench.update(&measuring.called("update engine")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_writes_a_twentieth() {
        let outcome = EXPERIMENT.outcome(&Context::new(1).scaled(0.05)).unwrap();
        assert_eq!(outcome.outside().count(), 0, "{outcome:?}");
        assert_eq!(outcome.rows.iter().filter(|row| row.within == Some(true)).count(), 2);
    }
}
