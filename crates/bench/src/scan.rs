//! Scans into Arrow batches, on one core, the file in the page cache and direct I/O off.
//!
//! The floor is what one core copies: bytes go from the page cache to a buffer, are checksummed, and
//! go to the batch, so that about three passes over memory are needed. That is of numbers that no encoding makes shorter; of those
//! that take 10 bits fewer bytes are read, and the core unpacks them.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use moirai::runtime::{Stopwatch, block_on_real, random};
use moirai::tables::{Layout, LoadOptions, ScanOptions, TableDefinition, Tables};
use moirai::units::ByteCount;
use moirai::update::Options;
use moirai::{Access, NewFiles};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rand::Rng;

use crate::{median, pin_to_one_core};

const COLUMNS: usize = 4;
const BATCH_ROWS: usize = 8192;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the columns hold: 64 bits of noise, or numbers below 1024.
const VALUES: [(&str, u32); 2] = [("64 bits of noise", 64), ("numbers below 1024", 10)];

pub(crate) fn run(rows: u64, runs: usize) -> Outcome<()> {
    pin_to_one_core()?;
    for (name, bits) in VALUES {
        println!("{name}:");
        run_with(bits, rows, runs)?;
    }
    Ok(())
}

fn run_with(bits: u32, rows: u64, runs: usize) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let parquet = folder.path().join("table.parquet");
    let store_uri = |layout: Layout| {
        let size_mib = rows * 60 / (1 << 20) * 2 + 64;
        let path = folder.path().join(layout.name());
        format!("file:{}?size={size_mib}MiB&direct=false", path.display())
    };
    block_on_real(1, async {
        let mut peers: Vec<(String, Vec<f64>)> = Vec::new();
        for layout in Layout::ALL {
            let files = NewFiles::new();
            let access = Access::Create(&files);
            let device = moirai::open_device_for(&store_uri(layout), access).await?;
            let options = Options::default();
            let tables = moirai::create_tables_on(device, ByteCount(8 << 10), options).await?;
            load(&tables, layout, (bits, rows)).await?;
            let mut seconds = Vec::new();
            for _ in 0..=runs {
                let watch = Stopwatch::start();
                assert_eq!(scan_table(&tables).await?, rows);
                seconds.push(watch.elapsed().as_s());
            }
            tables.close().await?;
            peers.push((layout.name().to_owned(), seconds));
        }
        write_parquet(&parquet, (bits, rows))?;
        let mut seconds = Vec::new();
        for _ in 0..=runs {
            let watch = Stopwatch::start();
            assert_eq!(scan_parquet(&parquet).await?, rows);
            seconds.push(watch.elapsed().as_s());
        }
        peers.push(("parquet, plain, uncompressed".into(), seconds));
        report(rows, &mut peers);
        Ok(())
    })
}

fn report(rows: u64, peers: &mut [(String, Vec<f64>)]) {
    let bytes = rows as f64 * 8.0 * COLUMNS as f64;
    println!(
        "{rows} rows of four int64, {:.0} MB of attribute bytes, one core, cached file",
        bytes / 1e6
    );
    println!("{:30} {:>10} {:>10} {:>12}", "", "median s", "GB/s", "of csm");
    let mut csm = None;
    for (name, seconds) in peers {
        // The first run warms the cache.
        seconds.remove(0);
        let median = median(seconds);
        let rate = bytes / median / 1e9;
        let of_csm = rate / *csm.get_or_insert(rate);
        println!("{name:30} {median:>10.3} {rate:>10.2} {of_csm:>12.2}");
    }
}

fn schema() -> SchemaRef {
    let field = |column| Field::new(format!("a{column}"), DataType::Int64, false);
    Arc::new(Schema::new((1..=COLUMNS).map(field).collect::<Vec<_>>()))
}

fn batches((bits, rows): (u32, u64)) -> impl Iterator<Item = RecordBatch> {
    let mut random = random("scan benchmark");
    (0..rows.div_ceil(BATCH_ROWS as u64)).filter_map(move |batch| {
        let count = BATCH_ROWS.min((rows - batch * BATCH_ROWS as u64) as usize);
        let column = |_| -> ArrayRef {
            let number = |_| (random.random::<u64>() >> (64 - bits)) as i64;
            Arc::new(Int64Array::from_iter_values((0..count).map(number)))
        };
        RecordBatch::try_new(schema(), (0..COLUMNS).map(column).collect()).ok()
    })
}

async fn load(tables: &Arc<Tables>, layout: Layout, values: (u32, u64)) -> Outcome<()> {
    let mut definition = TableDefinition::new(schema(), &[])?;
    definition.pages = tables.page_options(layout);
    let mut load = tables.load("t", definition, LoadOptions::default()).await?;
    for batch in batches(values) {
        load.push(&batch).await?;
    }
    load.finish().await?;
    Ok(())
}

async fn scan_table(tables: &Arc<Tables>) -> Outcome<u64> {
    let table = tables.table("t").await?;
    let mut scan = tables.snapshot().await.scan(&table, ScanOptions::default())?;
    let mut rows = 0;
    while let Some(batch) = scan.next().await? {
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

fn write_parquet(path: &Path, values: (u32, u64)) -> Outcome<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema(), Some(properties))?;
    for batch in batches(values) {
        writer.write(&batch)?;
    }
    writer.close()?;
    Ok(())
}

async fn scan_parquet(path: &Path) -> Outcome<u64> {
    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config(config);
    let path = path.to_string_lossy();
    let frame = context.read_parquet(&*path, ParquetReadOptions::default()).await?;
    let mut stream = frame.execute_stream().await?;
    let mut rows = 0;
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}
