//! The 22 queries of TPC-H in requests of tracks and in requests of a fixed length, beside random reads, and on RAID 5: thesis 5.7.5 and
//! 5.7.6, figures 5.13, 5.14 and 5.17.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moirai::create_tables_on;
use moirai::devices::Contents;
use moirai::runtime::{block_on_virtual, random, sleep, spawn};
use moirai::storage::Device;
use moirai::tables::{Layout, PageOptions};
use moirai::units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai::update::Options;
use moirai::volume::StripeUnit;
use moirai_sql::Database;
use moirai_workloads::tpch;
use rand::Rng;

use super::raid5_scan::raid5;
use super::store_bed::{DRIVE, LEAF, atlas, data_atlas, load_all, query_s};
use crate::context::Stage;
use crate::setting::WithoutAttributes;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "track-queries",
    source: "thesis 5.7.5 and 5.7.6, figures 5.13, 5.14 and 5.17; Lachesis 5.2",
    summary: "the 22 queries of TPC-H in requests of tracks and of a fixed length: alone, beside random reads, and on RAID 5",
    assumptions: &[
        "The requests are those of our own plans, in tables in rows of 8 KB pages: the thesis replays traces of DB2's plans, which are not \
         public. Ours have no index scans and no nested loops, and one scan at a time in most of them.",
        "TPC-H: scale factor 1 and 77 MB of memory; the thesis has 10 and 768 MB.",
        "Drive: maxtor-atlas-10k-iii, from its outermost track on. `fixed`: row groups of 48 pages, 768 blocks, on a disk that tells no \
         boundaries. `tracks`: row groups of 42 pages, which the store lays between boundaries. Two row groups are under way.",
        "Random reads of 8 KB arrive as a Poisson process, at 25 and at 150 a second, over 10 GB.",
        "RAID 5: four of these drives with 584 sectors in each track, as the thesis has them. `fixed`: stripe units of 512 blocks and row \
         groups of 32 pages; `tracks`: units of a track and row groups of 36 pages. Row groups lie \
         in units in both, and two for each drive are under way.",
        DRIVE,
        "Processors take no virtual time; nor did they in the thesis's replays.",
    ],
    takes: "15 min",
    scaling: Some(Scaling {
        least: 0.02,
        shorter: 0.1,
        what: "the scale factor, the memory, and what random reads reach",
    }),
    run,
};

const MEMORY: f64 = 76.8e6;
/// The random reads go to so many blocks.
const RANDOM_BLOCKS: f64 = 10e9 / 512.0;
const RANDOM_READ: BlockCount = BlockCount(16);
/// Arrivals a second, what they are called, the mean ratio of the thesis, and what is asked for.
const TRAFFIC: [(f64, &str, f64, f64); 3] = [
    (0.0, "no traffic", 0.89, 0.95),
    (25.0, "light traffic", 0.79, 0.9),
    (150.0, "heavy traffic", 0.67, 0.8),
];
/// The mean ratio on RAID 5, and what is asked for.
const RAID: (f64, f64) = (0.75, 0.85);

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    group_pages: u32,
    raid_pages: u32,
    unit: StripeUnit,
    knows_tracks: bool,
}

const FIXED: Variant = Variant {
    name: "fixed",
    group_pages: 48,
    raid_pages: 32,
    unit: StripeUnit::Blocks(BlockCount(512)),
    knows_tracks: false,
};
const TRACKS: Variant = Variant {
    name: "tracks",
    group_pages: 42,
    raid_pages: 36,
    unit: StripeUnit::Track,
    knows_tracks: true,
};

/// Virtual seconds of each query: a column for each traffic, and one for RAID 5.
type Times = Vec<Vec<f64>>;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let all: Vec<u8> = (1..=tpch::QUERIES).collect();
    let mut measured = Vec::new();
    for (index, variant) in [FIXED, TRACKS].into_iter().enumerate() {
        let [single, raid] = context.stage().part(index, 2).split([3.0, 1.0]);
        let single = single.called(variant.name);
        let of = on_a_disk(variant, &all, context.scale(), &single);
        let mut times: Times = block_on_virtual(context.seed(), of)?;
        let raid = raid.called(&format!("{}, RAID 5", variant.name));
        times.push(block_on_virtual(
            context.seed(),
            on_raid(variant, &all, context.scale(), &raid),
        )?);
        measured.push(times);
    }
    let [fixed, tracks] = &measured[..] else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    let of_raid = (f64::NAN, "RAID 5", RAID.0, RAID.1);
    let columns = TRAFFIC.into_iter().chain([of_raid]);
    for ((_, traffic, published, asked), (fixed, tracks)) in columns.zip(fixed.iter().zip(tracks)) {
        let mut ratios = Vec::new();
        for (query, (fixed, tracks)) in (1..).zip(fixed.iter().zip(tracks)) {
            let figure = |name: &str| format!("Q{query}, {traffic}, {name}");
            rows.push(Row::new(figure(FIXED.name), "virtual s", *fixed));
            rows.push(Row::new(figure(TRACKS.name), "virtual s", *tracks));
            // A query of what memory holds takes no time.
            if fixed.min(*tracks) > 0.0 {
                rows.push(Row::new(figure("ratio tracks to fixed"), "", tracks / fixed));
                ratios.push(tracks / fixed);
            }
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let row = Row::new(format!("mean ratio, {traffic}"), "", mean).beside(published);
        rows.push(row.judged_at_full_scale(Tolerance::AtMost(asked), context));
        let best = ratios.into_iter().fold(f64::INFINITY, f64::min);
        rows.push(Row::new(format!("best ratio, {traffic}"), "", best));
    }
    Ok(rows)
}

fn options(scale: f64, group_pages: u32) -> Options {
    Options {
        memory: ByteCount((MEMORY * scale).max(8e6) as u64),
        read_ahead: ByteCount(2 * u64::from(group_pages) * LEAF.0),
        idle: None,
        ..Options::default()
    }
}

fn pages(group_pages: u32) -> PageOptions {
    PageOptions { page_bytes: LEAF, group_pages, ..PageOptions::of(Layout::Nsm) }
}

/// The queries on one disk, with each traffic.
async fn on_a_disk(
    variant: Variant,
    which: &[u8],
    scale: f64,
    stage: &Stage,
) -> Result<Times, Failure> {
    let [loading, querying] = stage.split([1.0, 5.0]);
    let disk = data_atlas()?;
    let told: Arc<dyn Device> = match variant.knows_tracks {
        true => Arc::clone(&disk),
        false => Arc::new(WithoutAttributes(Arc::clone(&disk))),
    };
    let options = options(scale, variant.group_pages);
    let tables = create_tables_on(told, LEAF, options).await?;
    load_all(&tables, &tpch::Table::ALL, pages(variant.group_pages), scale, &loading).await?;
    let database = Database::over(&tables);
    let mut times = Vec::new();
    for (index, (per_s, ..)) in TRAFFIC.into_iter().enumerate() {
        let blocks = (RANDOM_BLOCKS * scale) as u64;
        let traffic = Traffic::start(&disk, blocks, per_s);
        let of = queries(&database, which, scale, &querying.part(index, TRAFFIC.len())).await;
        traffic.stop();
        times.push(of?);
    }
    drop(database);
    tables.close().await?;
    Ok(times)
}

async fn on_raid(
    variant: Variant,
    which: &[u8],
    scale: f64,
    stage: &Stage,
) -> Result<Vec<f64>, Failure> {
    let [loading, querying] = stage.split([1.0, 2.0]);
    // Row groups lie in stripe units in both.
    let data: Arc<dyn Device> = raid5(atlas()?, variant.unit, Contents::memory)?;
    let options = options(scale, variant.raid_pages);
    let tables = create_tables_on(data, LEAF, options).await?;
    load_all(&tables, &tpch::Table::ALL, pages(variant.raid_pages), scale, &loading).await?;
    let database = Database::over(&tables);
    let times = queries(&database, which, scale, &querying).await?;
    drop(database);
    tables.close().await?;
    Ok(times)
}

/// Virtual seconds of each query, one after the other.
async fn queries(
    database: &Database,
    which: &[u8],
    scale: f64,
    stage: &Stage,
) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::new();
    for (index, query) in which.iter().enumerate() {
        times.push(query_s(database, *query, scale).await?);
        stage.at((index + 1) as f64 / which.len() as f64);
    }
    Ok(times)
}

/// Random reads that arrive until they are stopped.
struct Traffic(Arc<AtomicBool>);

impl Traffic {
    /// So many a second, of the first `blocks` of a disk.
    fn start(disk: &Arc<dyn Device>, blocks: u64, per_s: f64) -> Traffic {
        let is_over = Arc::new(AtomicBool::new(per_s <= 0.0));
        let (disk, over) = (Arc::clone(disk), Arc::clone(&is_over));
        let mut random = random(&format!("random reads, {per_s} a second"));
        spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let uniform: f64 = random.random_range(f64::EPSILON..1.0);
                sleep(Nanos::from_ms(-uniform.ln() * 1000.0 / per_s)).await;
                let place = random.random_range(0..blocks / RANDOM_READ.0) * RANDOM_READ.0;
                let disk = Arc::clone(&disk);
                // What they read is for nobody.
                spawn(async move {
                    disk.read(BlockRange::new(Lbn(place), RANDOM_READ)).await.map(drop)
                });
            }
        });
        Traffic(is_over)
    }

    fn stop(self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fiftieth of the data: random reads make scans slower, and stripe units of tracks make them faster.
    #[test]
    fn scans_suffer_from_random_reads_and_gain_by_tracks() {
        let stage = Context::new(1).stage();
        // The first one reads tables of blocks, too.
        let twice = [6, 6];
        for variant in [FIXED, TRACKS] {
            let times = on_a_disk(variant, &twice, 0.02, &stage);
            let times = block_on_virtual(1, times).unwrap();
            assert!(times[2][1] > times[0][1], "{times:?}");
        }
        let [fixed, tracks] = [FIXED, TRACKS]
            .map(|variant| block_on_virtual(1, on_raid(variant, &twice, 0.02, &stage)).unwrap());
        assert!(tracks[1] < 0.85 * fixed[1], "{fixed:?} {tracks:?}");
    }
}
