//! Queries of TPC-H and TPC-C on one disk, with extents that fit its tracks and with short ones: thesis 5.7.7, figures 5.15 and 5.16,
//! table 5.3.

use std::sync::Arc;

use moirai::devices::Contents;
use moirai::runtime::{block_on_virtual, sleep};
use moirai::storage::{Device, Section};
use moirai::tables::{Layout, PageOptions};
use moirai::units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai::update::Options;
use moirai::{create_tables_on, create_tables_with_logs};
use moirai_sql::Database;
use moirai_workloads::tpcc::{self, RowReads, RunOptions, Scale, new_orders_per_minute};
use moirai_workloads::tpch;

use super::store_bed::{
    DRIVE, LEAF, atlas, data_atlas, load_all, query_beside, query_s, transactions,
};
use crate::context::Stage;
use crate::setting::{WithoutAttributes, drive};
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "track-extents",
    source: "thesis 5.7.7, figures 5.15 and 5.16, table 5.3; Lachesis 5.3",
    summary: "queries of TPC-H and TPC-C on one disk, with extents that fit tracks and with extents of eight pages",
    assumptions: &[
        "Drive: maxtor-atlas-10k-iii, its last 3 GB, where tracks have 422 and 396 sectors; the thesis names 418 and 396. TPC-H and TPC-C are \
         two stores that lie beside each other there, with 64 MB of memory each, as in the thesis. A second drive has TPC-C's log, with \
         durable commits.",
        "Tables in rows, pages of 8 KB. `basic`: row groups of 8 pages, on a disk that tells no boundaries. `tracks`: row groups of 24 \
         pages, which the store lays between boundaries. Two row groups are under way, so that \
         the next request waits at the drive. With one at a time, the drive misses a revolution for each extent of `basic`, since the tables \
         of blocks between them are not read again.",
        "TPC-H: scale factor 1, queries 1, 6, 12 and 14. TPC-C: one warehouse. It reads whole rows before it changes them.",
        "Light traffic is a sixth of what one terminal does beside the query without thinking, as light is to heavy in thesis 5.7.5; for \
         Shore the thesis does not say. Table 5.3: 3,000 transactions in the thesis, 60 s here.",
        "Processors take no virtual time: queries take less than in the thesis, so less time is a larger part. More transactions are done, \
         since changes go to the log and are applied by sweeps.",
        DRIVE,
        "The store always looks up where extents lie, in both variants; looking up takes processor time alone.",
    ],
    takes: "2 min",
    scaling: Some(Scaling {
        least: 0.05,
        shorter: 0.1,
        what: "the scale factor of TPC-H, and its memory",
    }),
    run,
};

/// The part of the drive that is used: that of TPC-H, and that of TPC-C behind it.
const TPCH: BlockCount = BlockCount(2_200_000_000 / 512);
const TPCC: BlockCount = BlockCount(800_000_000 / 512);
const MEMORY: f64 = 64e6;
const TABLES: [tpch::Table; 3] = [tpch::Table::LineItem, tpch::Table::Orders, tpch::Table::Part];
const QUERIES: [u8; 4] = [1, 6, 12, 14];
/// The query of figure 5.16.
const Q12: u8 = 12;
/// Clients, and New-Orders a minute of Basic-Shore and of Lachesis-Shore (table 5.3).
const CLIENTS: [(u64, f64, f64); 5] = [
    (1, 844.0, 842.0),
    (3, 1147.0, 1165.0),
    (5, 1235.0, 1243.0),
    (8, 1237.0, 1246.0),
    (10, 1218.0, 1235.0),
];
const WARM_UP: Nanos = Nanos(10_000_000_000);
const TIME: Nanos = Nanos(60_000_000_000);
/// A pause between runs. In it the stores sweep: they apply pending modifications to their partitions.
const SETTLES: Nanos = Nanos(60_000_000_000);
/// Why transactions gain nothing beside queries.
const BESIDE: &str = "a transaction waits behind two requests of the query, which are three times as long in tracks; the query is over sooner";
/// Light traffic, as a share of heavy.
const LIGHT: f64 = 1.0 / 6.0;

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    group_pages: u32,
    knows_tracks: bool,
}

const BASIC: Variant = Variant { name: "basic", group_pages: 8, knows_tracks: false };
const TRACKS: Variant = Variant { name: "tracks", group_pages: 24, knows_tracks: true };

/// Of one variant.
struct Measured {
    /// Virtual seconds of each query without, with light, and with heavy traffic.
    queries_s: Vec<[f64; 3]>,
    /// New-Orders a minute by clients, without queries.
    clients: Vec<f64>,
    /// New-Orders a minute of one client beside query 12.
    beside: f64,
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let setting = Setting {
        tpch: context.scale(),
        tpcc: Scale::of(1),
        tpcc_memory: ByteCount(MEMORY as u64),
        warm_up: WARM_UP,
        time: TIME,
    };
    let mut measured = Vec::new();
    for (index, variant) in [BASIC, TRACKS].into_iter().enumerate() {
        let stage = context.stage().part(index, 2).called(variant.name);
        measured.push(block_on_virtual(context.seed(), measure(variant, setting, &stage))?);
    }
    let [basic, tracks] = &measured[..] else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    let traffic = ["no traffic", "light traffic", "heavy traffic"];
    for (place, traffic) in traffic.into_iter().enumerate() {
        let of = |times: &[f64; 3]| times.get(place).copied().unwrap_or(f64::NAN);
        let mut ratios = Vec::new();
        for (query, (basic, tracks)) in
            QUERIES.into_iter().zip(basic.queries_s.iter().zip(&tracks.queries_s))
        {
            let figure = |name: &str| format!("Q{query}, {traffic}, {name}");
            rows.push(Row::new(figure(BASIC.name), "virtual s", of(basic)));
            rows.push(Row::new(figure(TRACKS.name), "virtual s", of(tracks)));
            let ratio = of(tracks) / of(basic);
            ratios.push(ratio);
            let row = Row::new(figure("ratio tracks to basic"), "", ratio);
            rows.push(match place {
                // "between 6% and 15%": less time is a larger part without processors.
                0 => row.judged_at_full_scale(Tolerance::AtMost(0.94), context),
                _ => row,
            });
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let row = Row::new(format!("mean ratio, {traffic}"), "", mean);
        rows.push(match place {
            0 => row,
            1 => row.beside(0.86).judged_at_full_scale(Tolerance::AtMost(0.9), context),
            _ => row.beside(0.68).judged_at_full_scale(Tolerance::AtMost(0.75), context),
        });
    }
    let of = |one: &Measured| one.beside;
    rows.push(
        Row::new(format!("beside Q{Q12}, {}", BASIC.name), "New-Orders/min", of(basic))
            .beside(426.1),
    );
    rows.push(
        Row::new(format!("beside Q{Q12}, {}", TRACKS.name), "New-Orders/min", of(tracks))
            .beside(456.7),
    );
    let ratio = of(tracks) / of(basic);
    let row = Row::new(format!("ratio tracks to basic, beside Q{Q12}"), "", ratio);
    let row = row.because(BESIDE);
    rows.push(row.beside(456.7 / 426.1).judged_at_full_scale(Tolerance::Published(0.1), context));
    for ((clients, of_basic, of_tracks), (basic, tracks)) in
        CLIENTS.into_iter().zip(basic.clients.iter().zip(&tracks.clients))
    {
        let figure = |name: &str| format!("{clients} clients, {name}");
        rows.push(Row::new(figure(BASIC.name), "New-Orders/min", *basic).beside(of_basic));
        rows.push(Row::new(figure(TRACKS.name), "New-Orders/min", *tracks).beside(of_tracks));
        let row = Row::new(figure("ratio tracks to basic"), "", tracks / basic);
        rows.push(
            row.beside(of_tracks / of_basic)
                .judged_at_full_scale(Tolerance::AtLeast(0.98), context),
        );
    }
    Ok(rows)
}

/// How large a run is, and how long it takes.
#[derive(Clone, Copy)]
struct Setting {
    tpch: f64,
    tpcc: Scale,
    tpcc_memory: ByteCount,
    warm_up: Nanos,
    time: Nanos,
}

async fn measure(variant: Variant, setting: Setting, stage: &Stage) -> Result<Measured, Failure> {
    let [loading, querying, transacting] = stage.split([3.0, 4.0, 3.0]);
    let Setting { tpch: scale, tpcc, tpcc_memory, warm_up, time } = setting;
    let disk = data_atlas()?;
    let log = drive(&atlas()?, "log".into(), Contents::memory(), None);
    let first = BlockCount(disk.inquiry().capacity.0 - (TPCH + TPCC).0);
    let part = |first: BlockCount, count| -> Result<Arc<dyn Device>, Failure> {
        let part = Section::of(Arc::clone(&disk), BlockRange::new(Lbn(first.0), count))?;
        Ok(if variant.knows_tracks { part } else { Arc::new(WithoutAttributes(part)) })
    };
    let read_ahead = ByteCount(2 * u64::from(variant.group_pages) * LEAF.0);
    let options = |memory| Options { memory, read_ahead, ..Options::default() };
    let memory = ByteCount((MEMORY * scale).max(8e6) as u64);
    let tables = create_tables_on(part(first, TPCH)?, LEAF, options(memory)).await?;
    let of_tpcc = part(first + TPCH, TPCC)?;
    let of_tpcc = create_tables_with_logs(of_tpcc, vec![log], LEAF, options(tpcc_memory)).await?;
    let rows = PageOptions::of(Layout::Nsm);
    let pages = PageOptions { page_bytes: LEAF, group_pages: variant.group_pages, ..rows };
    load_all(&tables, &TABLES, pages, scale, &loading).await?;
    let terminals = Arc::new(tpcc::load(&of_tpcc, tpcc, pages, |_| {}).await?);
    of_tpcc.store().checkpoint().await?;
    let database = Database::over(&tables);
    let (mut queries_s, mut beside) = (Vec::new(), f64::NAN);
    let heavy = RunOptions { warm_up, reads: RowReads::WholeChanged, ..RunOptions::of(1, time) };
    sleep(SETTLES).await;
    for query in QUERIES {
        queries_s.push([query_s(&database, query, scale).await?; 3]);
    }
    let queries = QUERIES.into_iter().zip(&mut queries_s).enumerate();
    for (index, (query, [_, light_s, heavy_s])) in queries {
        let of = (&database, query, scale);
        let (seconds, figures) = query_beside(of, &terminals, heavy).await?;
        *heavy_s = seconds;
        sleep(SETTLES).await;
        let light = RunOptions { rate: Some(figures.per_second() * LIGHT), ..heavy };
        *light_s = query_beside(of, &terminals, light).await?.0;
        sleep(SETTLES).await;
        if query == Q12 {
            beside = new_orders_per_minute(&figures);
        }
        querying.at((index + 1) as f64 / QUERIES.len() as f64);
    }
    let mut clients = Vec::new();
    for (index, (count, ..)) in CLIENTS.into_iter().enumerate() {
        let figures = transactions(&terminals, RunOptions { terminals: count, ..heavy }).await?;
        clients.push(new_orders_per_minute(&figures));
        transacting.at((index + 1) as f64 / CLIENTS.len() as f64);
    }
    drop((database, terminals));
    tables.close().await?;
    of_tpcc.close().await?;
    Ok(Measured { queries_s, clients, beside })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fiftieth of the data, beside transactions of which few find their rows in memory.
    #[test]
    fn queries_are_faster_in_tracks_beside_transactions() {
        let second = Nanos(1_000_000_000);
        let setting = Setting {
            tpch: 0.02,
            tpcc: Scale { warehouses: 1, items: 10_000, customers: 150 },
            tpcc_memory: ByteCount(1_000_000),
            warm_up: second,
            time: second,
        };
        let stage = Context::new(1).stage();
        let [basic, tracks] = [BASIC, TRACKS]
            .map(|variant| block_on_virtual(1, measure(variant, setting, &stage)).unwrap());
        for (basic, tracks) in basic.queries_s.iter().zip(&tracks.queries_s) {
            assert!(basic[2] > basic[0] && tracks[2] > tracks[0], "{basic:?} {tracks:?}");
            assert!(tracks[2] < 0.9 * basic[2], "{basic:?} {tracks:?}");
        }
    }
}
