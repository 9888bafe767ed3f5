//! Random updates on flash: what the update engine writes there, beside overwriting in place.

use std::sync::Arc;

use moirai::btree::{Batch, Tree};
use moirai::create_tables_on;
use moirai::devices::{Contents, SimulatedOptions, SimulatedSsd};
use moirai::runtime::{block_on_virtual, now, random};
use moirai::storage::Device;
use moirai::tables::Tables;
use moirai::units::{BlockCount, BlockRange, ByteCount, Instant, Lbn};
use moirai::update::Options;
use moirai_models::{Direction, DiskRequest, Scheduler, Ssd, SsdCounters, SsdProfile};
use rand::Rng;

use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ssd-updates",
    source: "Moirai's own; the device after Agrawal et al., USENIX ATC 2008",
    summary: "random updates on an SSD that is 80 % full: the update engine and overwriting in place",
    assumptions: &[
        "The SSD is ssd-slc with 512 MiB, whose superblocks, which are erased together, have 512 KiB; and one with as many dies as that \
         has planes, and superblocks of 64 KiB. 15 % of the flash are spare, and up to 17 % with so few superblocks. Its own counters say \
         what was programmed.",
        "In place: 80 % of the SSD are written once, and then pages of 4 KiB at random, each for one record, until twice as \
         many were written as lie there; the second half is measured.",
        "The engine: records of 64 bytes, key and value, in a tree with leaves of 8 KiB that takes half of the SSD when it was \
         loaded; the engine needs the rest of the 80 % for the updates. They come at random in groups of 128, with the log on the same SSD \
         and memory of an eighth of the records. The last of four rounds is measured, each of as many updates as there are records: in the first \
         ones the extents still lie in the order in which they were loaded, and next to nothing is moved.",
        "Asked were a twentieth of the flash bytes of overwriting in place, and 1.2 flash bytes for each of the host's.",
    ],
    takes: "1 min",
    scaling: None,
    run,
};

const SIZE: ByteCount = ByteCount(512 << 20);
const FULL: f64 = 0.8;
/// Of the SSD, for records when they were loaded.
const LOADED: f64 = 0.5;
const RECORD_BYTES: u64 = 64;
const KEY_BYTES: usize = 16;
const GROUP: u64 = 128;
const LEAF: ByteCount = ByteCount(8 << 10);
/// The records in those for which there is memory.
const MEMORY_SHARE: u64 = 8;
/// Rounds of updates; the last is measured.
const ROUNDS: usize = 4;
const AMPLIFICATION: f64 = 1.2;
const HOST_BYTES: &str = "with memory for an eighth of the records the engine writes some 400 bytes for an update; a twentieth of a page and its \
     copies are as many";

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
    rows(context, SIZE, ROUNDS)
}

fn rows(context: &Context, size: ByteCount, rounds: usize) -> Result<Vec<Row>, Failure> {
    let stages = context.stage().split([1.0, 1.0]);
    let mut rows = Vec::new();
    for ((kib, profile), stage) in
        [(512, ssd(size, 2, 64)?), (64, ssd(size, 1, 16)?)].into_iter().zip(stages)
    {
        let [placing, updating] = stage.split([1.0, 9.0]);
        let in_place = placing.called(&format!("{kib} KiB, in place"));
        let placed = profile.clone();
        let in_place = block_on_virtual(context.seed(), async { in_place_of(placed, &in_place) });
        let engine = updating.called(&format!("{kib} KiB, update engine"));
        let engine = block_on_virtual(context.seed(), on_the_engine(profile, rounds, engine))?;
        let row = |what: &str, unit, ours| {
            Row::new(format!("superblocks of {kib} KiB, {what}"), unit, ours)
        };
        let amplification = engine.counters.write_amplification();
        let share = engine.flash_bytes() / in_place.flash_bytes();
        rows.extend([
            row("in place, flash bytes for an update", "B", in_place.flash_bytes()),
            row(
                "in place, flash bytes for each of the host's",
                "",
                in_place.counters.write_amplification(),
            ),
            row("in place", "updates/virtual s", in_place.updates as f64 / in_place.seconds),
            row("engine, part of the SSD in use", "", engine.full),
            row("engine, host bytes for an update", "B", engine.host_bytes()),
            row("engine, flash bytes for an update", "B", engine.flash_bytes()),
            row("engine, flash bytes for each of the host's", "", amplification)
                .judged(Tolerance::AtMost(AMPLIFICATION)),
            row("engine, flash bytes in those in place", "", share).because(HOST_BYTES),
            row("engine", "updates/virtual s", engine.updates as f64 / engine.seconds),
        ]);
    }
    Ok(rows)
}

/// The built-in SSD with other erase blocks, and as many planes in all.
fn ssd(size: ByteCount, planes_per_die: u32, pages_per_block: u32) -> Result<SsdProfile, Failure> {
    let missing = || Failure::Setting("there is no ssd-slc".into());
    let mut file = SsdProfile::built_in("ssd-slc").ok_or_else(missing)?.file;
    let planes = file.dies_per_channel * file.planes_per_die;
    file.dies_per_channel = planes / planes_per_die;
    (file.planes_per_die, file.pages_per_block) = (planes_per_die, pages_per_block);
    SsdProfile::new(file)
        .and_then(|profile| profile.with_size(size))
        .map_err(|problem| Failure::Setting(problem.to_string()))
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
    tables: Arc<Tables>,
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
        let records = (capacity.bytes().0 as f64 * LOADED) as u64 / RECORD_BYTES;
        let memory = ByteCount(records * RECORD_BYTES / MEMORY_SHARE);
        let options = Options { memory, ..Options::default() };
        let tables = create_tables_on(device, LEAF, options).await?;
        let tree = tables.store().tree("records").await?;
        let all = (0..records).map(|number| (key(number), [7; RECORD_BYTES as usize - KEY_BYTES]));
        tables.store().ingest(&tree, all).await?;
        Ok(Bench { ssd, tables, tree, records })
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
            self.tables.store().commit(&batch).await?;
            if group % 256 == 0 {
                stage.at(group as f64 / groups as f64);
            }
        }
        let figures = self.tables.store().figures();
        // The log takes what the data leave.
        let capacity = self.ssd.inquiry().capacity.bytes().0;
        let used = capacity - figures.data_free_bytes;
        Ok(Written {
            updates: groups * GROUP,
            counters: since(before, self.ssd.counters()),
            seconds: now().since(began).as_s(),
            full: used as f64 / capacity as f64,
        })
    }
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (_, low) = key.split_at_mut(8);
    low.copy_from_slice(&number.to_be_bytes());
    key
}

async fn on_the_engine(
    profile: SsdProfile,
    rounds: usize,
    stage: Stage,
) -> Result<Written, Failure> {
    let bench = Bench::new(profile).await?;
    let mut last = None;
    for round in 0..rounds {
        last = Some(bench.update(&stage.part(round, rounds)).await?);
    }
    last.ok_or(Failure::Setting("no rounds".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small SSD: in place a record costs a page and its copies, the engine's several records cost one. The SSD is told what is free
    /// and moves next to nothing; were it not told it would program 1.16 times what is written, and more the larger it is.
    #[test]
    fn large_writes_wear_the_flash_less() {
        let rows = rows(&Context::new(1), ByteCount(64 << 20), 4).unwrap();
        let of = |figure: &str| rows.iter().find(|row| row.figure.contains(figure)).unwrap().ours;
        for kib in ["512 KiB", "64 KiB"] {
            assert!(of(&format!("{kib}, in place, flash bytes for an update")) >= 4096.0);
            let share = of(&format!("{kib}, engine, flash bytes in those in place"));
            assert!(share < 0.25, "{kib}: {share}");
            let moved = of(&format!("{kib}, engine, flash bytes for each of the host's"));
            assert!(moved <= 1.1, "{kib}: {moved}");
        }
    }
}
