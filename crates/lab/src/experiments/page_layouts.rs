//! Scans, point queries, updates and bulk inserts of one table in several page layouts on four disks, and scans on a MEMS store: Clotho 7.2,
//! figures 7 and 8.

use std::error::Error;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use moirai::runtime::{block_on_virtual, now, random};
use moirai::tables::{
    Changes, FilterOrder, Layout, LoadOptions, PageOptions, RowFilter, ScanOptions, Table,
    TableDefinition, Tables,
};
use moirai::units::ByteCount;
use moirai::update::Options;
use rand::Rng;

use crate::context::Stage;
use crate::setting::Bed;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-layouts",
    source: "Clotho 7.2, figures 7 and 8",
    summary: "scans by payload and selectivity, point queries, updates and bulk inserts in several page layouts, on four disks; scans on a MEMS store",
    assumptions: &[
        "Drives: four seagate-cheetah-36es, quadrangles, d = 4, b = 1, outermost zone, as Atropos had them. All layouts lie on this \
         volume, as in the paper.",
        "The MEMS store is sim:mems-g2 with 1,024 tips, which reads 16 blocks at once, as in the paper.",
        "Table: 8 million records of 15 random numbers of 8 bytes, which no encoding makes shorter. The records of nsm have the \
         numbers of their attributes beside the values. Memory: 128 MB. The simulation keeps a gigabyte of records in memory at a time.",
        "Processors take no virtual time. Figure 7 has what they do in it, so the times of nsm and pax do not depend on the payload \
         here. The figures' values are not in the paper's text; judged is what the text says of them.",
        "Layout csm has pages of 2,048 records, `csm, 8 KiB` the paper's pages of 8 KB, of 60 records.",
        "A point update reads some attributes of a record and commits new values of them alone. Updates without reading come in groups of \
         1,000, each of one attribute, until the log is empty: in the pages, or staged for them. The log is on the same disks.",
        "dsm is not among our layouts yet.",
    ],
    takes: "4 min",
    scaling: Some(Scaling { least: 0.01, shorter: 0.25, what: "the number of records" }),
    run,
};

const ATTRIBUTES: usize = 15;
const RECORDS: f64 = 8e6;
const MEMORY: f64 = 128e6;
const LEAF: ByteCount = ByteCount(8 << 10);
/// The attribute that the condition is of.
const A2: usize = 1;
/// The attribute that is updated without reading.
const A3: usize = 2;
const PAYLOADS: [usize; 6] = [1, 2, 4, 8, 12, 15];
/// The selectivity of the queries of different payloads.
const SELECTIVITY: f64 = 0.1;
/// Shares of the records, and the same in percent.
const SELECTIVITIES: [(f64, &str); 7] = [
    (1e-6, "0.0001"),
    (1e-5, "0.001"),
    (1e-4, "0.01"),
    (1e-3, "0.1"),
    (0.01, "1"),
    (0.05, "5"),
    (0.2, "20"),
];
/// The payload of the queries of different selectivity.
const PAYLOAD: usize = 4;
const POINT_QUERIES: usize = 500;
const POINT_PAYLOADS: [usize; 3] = [1, 4, 15];
/// One record in so many is updated without reading it, this many with each commit.
const UPDATED_OF: u64 = 40;
const GROUP: u64 = 1000;

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    pages: PageOptions,
}

fn variants() -> [Variant; 4] {
    let of = PageOptions::of;
    // A block of an attribute has 60 values.
    let small = PageOptions { rows_max: 60, page_bytes: LEAF, group_pages: 64, ..of(Layout::Csm) };
    [
        Variant { name: "nsm", pages: of(Layout::Nsm) },
        Variant { name: "pax", pages: of(Layout::Pax) },
        Variant { name: "csm", pages: of(Layout::Csm) },
        Variant { name: "csm, 8 KiB", pages: small },
    ]
}

/// Virtual seconds, but for point queries.
#[derive(Default)]
struct Measured {
    name: &'static str,
    insert_s: f64,
    /// By payload; where the payload makes no difference, once.
    scans_s: Vec<f64>,
    /// S-scan, SI-scan, and the one that is chosen, by selectivity.
    selective_s: Vec<[f64; 3]>,
    points_ms: Vec<f64>,
    updates_ms: Vec<f64>,
    /// Of one update without reading.
    blind_us: f64,
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let records = (RECORDS * context.scale()) as u64;
    let memory = ByteCount((MEMORY * context.scale()).max(4e6) as u64);
    let [on_disks, on_mems] = context.stage().split([5.0, 1.0]);
    let mut measured = Vec::new();
    let variants = variants();
    for (index, variant) in variants.into_iter().enumerate() {
        let stage = on_disks.part(index, variants.len()).called(variant.name);
        let of = measure(variant, records, memory, &stage);
        measured.push(block_on_virtual(context.seed(), of)?);
    }
    let [nsm, pax, csm, small] = &measured[..] else {
        return Err(Failure::Setting("there are four layouts".to_owned()));
    };
    let mut rows = scan_rows(context, Bed::FourCheetahs, nsm, &[pax, csm, small]);
    rows.extend(scans_on_mems(context, (records, memory), &on_mems)?);
    rows.extend(selective_rows(context, &[csm, small]));
    rows.extend(point_rows("query", |one| &one.points_ms, nsm, &[pax, csm, small]));
    rows.extend(point_rows("update", |one| &one.updates_ms, nsm, &[pax, csm, small]));
    rows.extend(blind_rows(context, nsm, &[pax, csm, small]));
    for one in &measured {
        let seconds = Row::new(format!("bulk insert, {}", one.name), "virtual s", one.insert_s);
        rows.push(seconds);
        if one.name != nsm.name {
            let figure = format!("bulk insert, ratio {} to nsm", one.name);
            // "CSM exhibits ... the same performance as NSM and PAX" (7.2.4).
            let row = Row::new(figure, "", one.insert_s / nsm.insert_s);
            rows.push(row.judged_at_full_scale(Tolerance::AtMost(1.1), context));
        }
    }
    Ok(rows)
}

/// Figure 7b: "the MEMStore performance shows the same results".
fn scans_on_mems(
    context: &Context,
    (records, memory): (u64, ByteCount),
    stage: &Stage,
) -> Result<Vec<Row>, Failure> {
    let mut measured = Vec::new();
    let variants = variants();
    for (index, variant) in variants.into_iter().enumerate() {
        let what = format!("{}{}", Bed::Mems.prefix(), variant.name);
        let stage = stage.part(index, variants.len()).called(&what);
        let of = async {
            let (tables, table, insert_s) =
                loaded(Bed::Mems, variant, records, memory, &stage).await?;
            let scans_s = scans(&tables, &table, variant).await?;
            tables.close().await?;
            Ok::<_, Failure>(Measured {
                name: variant.name,
                insert_s,
                scans_s,
                ..Measured::default()
            })
        };
        measured.push(block_on_virtual(context.seed(), of)?);
    }
    match &measured[..] {
        [nsm, others @ ..] => {
            Ok(scan_rows(context, Bed::Mems, nsm, &others.iter().collect::<Vec<_>>()))
        }
        [] => Ok(Vec::new()),
    }
}

/// Figure 7a, and figure 8b of the whole record.
fn scan_rows(context: &Context, bed: Bed, nsm: &Measured, others: &[&Measured]) -> Vec<Row> {
    let on = bed.prefix();
    let nsm_s = nsm.scans_s.last().copied().unwrap_or(f64::NAN);
    let mut rows = vec![Row::new(format!("{on}scan, any payload, nsm"), "virtual s", nsm_s)];
    for one in others {
        if let [seconds] = &one.scans_s[..] {
            rows.push(Row::new(
                format!("{on}scan, any payload, {}", one.name),
                "virtual s",
                *seconds,
            ));
            let figure = format!("{on}scan, any payload, ratio {} to nsm", one.name);
            rows.push(Row::new(figure, "", seconds / nsm_s));
            continue;
        }
        for (payload, seconds) in PAYLOADS.into_iter().zip(&one.scans_s) {
            let figure = format!("{on}scan, payload {payload}, {}", one.name);
            rows.push(Row::new(figure, "virtual s", *seconds));
            let figure = format!("{on}scan, payload {payload}, ratio {} to nsm", one.name);
            let row = Row::new(figure, "", seconds / nsm_s);
            // "With increasing projectivity, CSM performance is better than or equal to ... NSM and PAX, when selecting the full
            // record" (7.2.1). Less is read in proportion to the attributes; half of that again for what is not transfer.
            let attributes = payload.max(A2 + 1) as f64 / ATTRIBUTES as f64;
            let tolerance = Tolerance::AtMost((1.5 * attributes).min(1.0));
            rows.push(row.judged_at_full_scale(tolerance, context));
        }
    }
    rows
}

/// Figure 7c.
fn selective_rows(context: &Context, measured: &[&Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in measured {
        for ((selectivity, percent), [together, first, chosen]) in
            SELECTIVITIES.into_iter().zip(&one.selective_s)
        {
            let of = format!("{percent} % of records, {}", one.name);
            rows.push(Row::new(format!("S-scan, {of}"), "virtual s", *together));
            rows.push(Row::new(format!("SI-scan, {of}"), "virtual s", *first));
            let ratio = Row::new(format!("ratio SI-scan to S-scan, {of}"), "", first / together);
            // "SI-scan exhibits better performance at low selectivities, whereas S-scan wins as the selectivity increases" (7.2.1).
            rows.push(match selectivity {
                ..=1e-6 => ratio.judged_at_full_scale(Tolerance::Below(1.0), context),
                0.2.. => ratio.judged_at_full_scale(Tolerance::AtLeast(1.0), context),
                _ => ratio,
            });
            let figure = format!("ratio of the scan that is chosen to the better one, {of}");
            let row = Row::new(figure, "", chosen / together.min(*first));
            rows.push(row.judged_at_full_scale(Tolerance::AtMost(1.1), context));
        }
    }
    rows
}

/// Figure 8a, without the index; and 7.2.3: "its performance is always 22% worse than NSM, regardless of payload".
fn point_rows(
    what: &str,
    of: fn(&Measured) -> &Vec<f64>,
    nsm: &Measured,
    others: &[&Measured],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, payload) in POINT_PAYLOADS.into_iter().enumerate() {
        let of = |one: &Measured| of(one).get(place).copied().unwrap_or(f64::NAN);
        let row = |one: &Measured| {
            let figure = format!("point {what}, payload {payload}, {}", one.name);
            Row::new(figure, "virtual ms", of(one))
        };
        rows.push(row(nsm));
        for one in others {
            rows.push(row(one));
            let figure = format!("point {what}, payload {payload}, ratio {} to nsm", one.name);
            rows.push(Row::new(figure, "", of(one) / of(nsm)));
        }
    }
    rows
}

/// What 7.2.3 hopes for: "partial-record C-pages for updates".
fn blind_rows(context: &Context, nsm: &Measured, others: &[&Measured]) -> Vec<Row> {
    let row = |one: &Measured| {
        Row::new(format!("update without reading, {}", one.name), "virtual us", one.blind_us)
    };
    let mut rows = vec![row(nsm)];
    for one in others {
        rows.push(row(one));
        let figure = format!("update without reading, ratio {} to nsm", one.name);
        let ratio = Row::new(figure, "", one.blind_us / nsm.blind_us);
        rows.push(match one.name {
            "csm" => ratio.judged_at_full_scale(Tolerance::AtMost(1.0), context),
            _ => ratio,
        });
    }
    rows
}

/// Keeps records whose a2 is below a bound.
struct Below(f64);

impl RowFilter for Below {
    fn columns(&self) -> &[usize] {
        &[A2]
    }

    fn keep(&self, rows: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> {
        let a2 = rows.column(0).as_primitive::<Float64Type>();
        Ok(BooleanArray::from_unary(a2, |value| value < self.0))
    }
}

/// Loads a table, and queries it.
async fn measure(
    variant: Variant,
    records: u64,
    memory: ByteCount,
    stage: &Stage,
) -> Result<Measured, Failure> {
    let Variant { name, pages } = variant;
    let (tables, table, insert_s) =
        loaded(Bed::FourCheetahs, variant, records, memory, stage).await?;
    let scans_s = scans(&tables, &table, variant).await?;
    stage.at(0.6);
    let mut selective_s = Vec::new();
    if pages.layout == Layout::Csm {
        for (selectivity, _) in SELECTIVITIES {
            let mut seconds = [0.0; 3];
            let orders = [FilterOrder::Together, FilterOrder::First, FilterOrder::Chosen];
            for (seconds, order) in seconds.iter_mut().zip(orders) {
                *seconds = scan(&tables, &table, (PAYLOAD, selectivity), order).await?;
            }
            selective_s.push(seconds);
        }
    }
    stage.at(0.9);
    let mut points_ms = Vec::new();
    let mut updates_ms = Vec::new();
    for payload in POINT_PAYLOADS {
        points_ms.push(points(&tables, &table, (payload, false), records).await?);
    }
    for payload in POINT_PAYLOADS {
        updates_ms.push(points(&tables, &table, (payload, true), records).await?);
    }
    let blind_us = update_blindly(&tables, &table, records).await?;
    tables.close().await?;
    Ok(Measured { name, insert_s, scans_s, selective_s, points_ms, updates_ms, blind_us })
}

/// A store with the table, and the virtual seconds that loading it took.
async fn loaded(
    bed: Bed,
    variant: Variant,
    records: u64,
    memory: ByteCount,
    stage: &Stage,
) -> Result<(Arc<Tables>, Table, f64), Failure> {
    // No scan is to find what another has read.
    let cache = ByteCount(0);
    let options = Options { memory, cache, idle: None, ..Options::default() };
    let tables = moirai::create_tables_on(bed.device()?, LEAF, options).await?;
    let began = now();
    let table = load(&tables, variant.pages, records, stage).await?;
    tables.store().checkpoint().await?;
    let insert_s = now().since(began).as_s();
    Ok((tables, table, insert_s))
}

/// Virtual seconds of a scan by payload, once where that makes no difference.
async fn scans(tables: &Arc<Tables>, table: &Table, variant: Variant) -> Result<Vec<f64>, Failure> {
    let payloads = match variant.pages.layout {
        Layout::Csm => &PAYLOADS[..],
        Layout::Nsm | Layout::Pax => &[ATTRIBUTES],
    };
    let mut scans_s = Vec::new();
    for payload in payloads {
        scans_s.push(scan(tables, table, (*payload, SELECTIVITY), FilterOrder::Together).await?);
    }
    Ok(scans_s)
}

async fn load(
    tables: &Arc<Tables>,
    pages: PageOptions,
    records: u64,
    stage: &Stage,
) -> Result<Table, Failure> {
    const BATCH: u64 = 8192;
    let attributes =
        (1..=ATTRIBUTES).map(|n| Field::new(format!("a{n}"), DataType::Float64, false));
    let mut definition = TableDefinition::new(Schema::new(attributes.collect::<Vec<_>>()), &[])?;
    definition.pages = pages;
    let mut load = tables.load("r", definition, LoadOptions::default()).await?;
    let (mut random, mut done) = (random("records"), 0);
    while done < records {
        let count = BATCH.min(records - done);
        let mut column = || -> ArrayRef {
            Arc::new(Float64Array::from_iter_values((0..count).map(|_| random.random::<f64>())))
        };
        let columns = (0..ATTRIBUTES).map(|_| column()).collect();
        load.push(&RecordBatch::try_new(Arc::clone(load.table().schema()), columns)?).await?;
        done += count;
        stage.at(0.4 * done as f64 / records as f64);
    }
    Ok(load.finish().await?.0)
}

/// Virtual seconds of a query of some attributes of a share of the records.
async fn scan(
    tables: &Arc<Tables>,
    table: &Table,
    (payload, selectivity): (usize, f64),
    order: FilterOrder,
) -> Result<f64, Failure> {
    let options = ScanOptions { columns: Some((0..payload).collect()), ..ScanOptions::default() };
    let began = now();
    let snapshot = tables.snapshot().await;
    let mut scan = snapshot.filtered_scan(table, options, Arc::new(Below(selectivity)), order)?;
    while scan.next().await?.is_some() {}
    Ok(now().since(began).as_s())
}

/// Mean virtual milliseconds of reading some attributes of one record, and of updating them where that is asked for.
async fn points(
    tables: &Arc<Tables>,
    table: &Table,
    (payload, updates): (usize, bool),
    records: u64,
) -> Result<f64, Failure> {
    let mut random = random(&format!("points of {payload}, {updates}"));
    let columns: Vec<usize> = (0..payload).collect();
    let mut total_ms = 0.0;
    for _ in 0..POINT_QUERIES {
        let number: ArrayRef = Arc::new(UInt64Array::from(vec![random.random_range(0..records)]));
        let began = now();
        let key = std::slice::from_ref(&number);
        let rows = tables.snapshot().await.rows(table, key, &columns).await?;
        if rows.num_rows() != 1 {
            let (what, store) = ("a point query".to_owned(), "four disks".to_owned());
            return Err(Failure::Differs { what, store });
        }
        if updates {
            let value = |column: &ArrayRef| -> ArrayRef {
                let column = column.as_primitive::<Float64Type>();
                Arc::new(column.unary::<_, Float64Type>(|value| 1.0 - value))
            };
            let values = rows.columns().iter().map(value).enumerate();
            let mut changes = Changes::new();
            changes.set(table, key, &values.collect::<Vec<_>>(), &[])?;
            tables.commit(&changes).await?;
        }
        total_ms += now().since(began).as_ms();
    }
    Ok(total_ms / POINT_QUERIES as f64)
}

/// Virtual microseconds of each of many updates of one attribute, until the log is empty.
async fn update_blindly(tables: &Arc<Tables>, table: &Table, records: u64) -> Result<f64, Failure> {
    let mut random = random("updates");
    let groups = (records / UPDATED_OF / GROUP).max(1);
    let began = now();
    for _ in 0..groups {
        let mut column = || (0..GROUP).map(|_| random.random_range(0..records)).collect::<Vec<_>>();
        let numbers: ArrayRef = Arc::new(UInt64Array::from(column()));
        let values = column().into_iter().map(|number| number as f64 / records as f64);
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
        let mut changes = Changes::new();
        changes.set(table, &[numbers], &[(A3, values)], &[])?;
        tables.commit(&changes).await?;
    }
    tables.store().checkpoint().await?;
    Ok(now().since(began).as_s() * 1e6 / (groups * GROUP) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small table shows the same directions: less is read where fewer attributes are.
    #[test]
    fn csm_reads_what_is_asked_for() {
        let rows = EXPERIMENT.outcome(&Context::new(1).scaled(0.01)).unwrap().rows;
        let of = |figure: &str| rows.iter().find(|row| row.figure == figure).unwrap().ours;
        let ratio = |payload| of(&format!("scan, payload {payload}, ratio csm to nsm"));
        assert!(ratio(1) < ratio(4) && ratio(4) < ratio(15), "{rows:?}");
        assert!(ratio(1) < 0.5, "{rows:?}");
        let on_mems = |payload| of(&format!("MEMS, scan, payload {payload}, ratio csm to nsm"));
        assert!(
            on_mems(1) < on_mems(4) && on_mems(4) < on_mems(15) && on_mems(1) < 0.5,
            "{rows:?}"
        );
    }
}
