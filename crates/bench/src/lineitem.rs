//! TPC-H's `lineitem` in a store of its own, and updates of random rows by their primary key.

use std::error::Error;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array};
use moirai::runtime::{Random, Stopwatch};
use moirai::tables::{Changes, Layout, LoadOptions, ScanOptions, TableDefinition, Tables};
use moirai::units::ByteCount;
use moirai::update::Options;
use moirai::{Access, NewFiles};
use moirai_workloads::tpch::Table;
use rand::Rng;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// `l_orderkey` and `l_linenumber`.
pub(crate) const KEY: [usize; 2] = [0, 3];
pub(crate) const QUANTITY: usize = 4;
pub(crate) const DISCOUNT: usize = 6;
pub(crate) const TAX: usize = 7;
/// Updates of a commit.
pub(crate) const GROUP: u64 = 1000;
pub(crate) const LEAF: ByteCount = ByteCount(8 << 10);

/// The table, loaded, and the keys of its rows.
pub(crate) struct Lineitem {
    pub(crate) tables: Arc<Tables>,
    table: moirai::tables::Table,
    orders: Vec<i64>,
    lines: Vec<i32>,
    /// The file is removed with it.
    _folder: tempfile::TempDir,
}

/// How a store of it is made.
pub(crate) struct StoreOptions {
    pub(crate) scale_factor: f64,
    pub(crate) layout: Layout,
    /// Whether the file is read and written without the page cache.
    pub(crate) is_direct: bool,
    pub(crate) engine: Options,
}

impl Lineitem {
    pub(crate) async fn load(options: StoreOptions) -> Outcome<Lineitem> {
        let StoreOptions { scale_factor, layout, is_direct, engine } = options;
        let folder = tempfile::tempdir()?;
        let bytes = (scale_factor * 4e9) as u64 + (256 << 20);
        let uri = format!(
            "file:{}?size={}MiB&direct={is_direct}",
            folder.path().join("store").display(),
            bytes >> 20
        );
        let device = moirai::open_device_for(&uri, Access::Create(&NewFiles::new())).await?;
        let tables = moirai::create_tables_on(device, LEAF, engine).await?;
        let of = Table::LineItem;
        let mut definition = TableDefinition::new(of.schema(), of.primary_key(scale_factor))?;
        definition.pages = tables.page_options(layout);
        let mut load = tables.load(of.name(), definition, LoadOptions::default()).await?;
        let (mut orders, mut lines) = (Vec::new(), Vec::new());
        for batch in of.batches(scale_factor, 8192) {
            let batch = batch?;
            let [order, line] = KEY.map(|column| batch.column(column));
            orders.extend_from_slice(order.as_primitive::<Int64Type>().values());
            lines.extend_from_slice(line.as_primitive::<Int32Type>().values());
            load.push(&batch).await?;
        }
        let (table, _) = load.finish().await?;
        Ok(Lineitem { tables, table, orders, lines, _folder: folder })
    }

    pub(crate) fn rows(&self) -> usize {
        self.orders.len()
    }

    /// Sets these columns, which are decimals, of [`GROUP`] random rows, in one commit.
    pub(crate) async fn update(&self, random: &mut Random, columns: &[usize]) -> Outcome<()> {
        let (mut orders, mut lines): (Vec<i64>, Vec<i32>) = (Vec::new(), Vec::new());
        for _ in 0..GROUP {
            let place = random.random_range(0..self.orders.len());
            orders.extend(self.orders.get(place));
            lines.extend(self.lines.get(place));
        }
        let keys: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(orders)), Arc::new(Int32Array::from(lines))];
        let mut new = Vec::new();
        for column in columns {
            let values = (0..GROUP).map(|_| i128::from(random_value(random, *column)));
            let values = Decimal128Array::from_iter_values(values);
            new.push((*column, Arc::new(values.with_precision_and_scale(15, 2)?) as ArrayRef));
        }
        let mut changes = Changes::new();
        changes.set(&self.table, &keys, &new, &[])?;
        Ok(self.tables.commit(&changes).await?)
    }

    /// Milliseconds of a scan of one attribute of all rows.
    pub(crate) async fn scan_ms(&self, column: usize) -> Outcome<f64> {
        let watch = Stopwatch::start();
        let options = ScanOptions { columns: Some(vec![column]), ..ScanOptions::default() };
        let mut scan = self.tables.snapshot().await.scan(&self.table, options)?;
        let mut rows = 0;
        while let Some(batch) = scan.next().await? {
            rows += batch.num_rows();
        }
        assert_eq!(rows, self.rows(), "a scan has all rows");
        Ok(watch.elapsed().as_ms())
    }
}

/// A value that a row of `lineitem` may have, in hundredths.
pub(crate) fn random_value(random: &mut Random, column: usize) -> i64 {
    match column {
        QUANTITY => random.random_range(1..=50) * 100,
        // A discount or a tax.
        _ => random.random_range(0..=10),
    }
}
