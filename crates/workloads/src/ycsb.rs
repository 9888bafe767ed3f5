//! YCSB: reads, updates, inserts and scans of single records, in six mixes.
//!
//! Cooper, Silberstein, Tam, Ramakrishnan, Sears: Benchmarking cloud serving systems with YCSB. SoCC 2010. "Section" in here is one of it.
//! A record has a key and ten fields of 100 bytes. Keys are numbers that are scattered by a hash, so that those that are asked for most are
//! not neighbours.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::{DataType, Field, Schema};
use moirai_runtime::{Random, random};
use moirai_tables::{
    Datum, Isolation, Layout, LoadOptions, Result, Row, Table, TableDefinition, Tables,
    TransactionOptions,
};
use rand::Rng;

use crate::driver::{Client, Done};

/// What the table is called.
pub const TABLE: &str = "usertable";
/// Fields of a record, and bytes of each.
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Records that a scan reads at most.
const SCANNED_MAX: usize = 100;
/// Terms of a sum that are added; the rest is an integral, which is as good there.
const ZETA_TERMS: u64 = 1_000_000;
/// Rows of a batch of a load.
const ROWS: u64 = 10_000;

/// The share of each operation in a mix (section 4, table 2), and which records are asked for most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// What it is called: a to f.
    pub name: char,
    /// Percent of reads, updates, inserts, scans, and reads with an update of what was read.
    percent: [u32; 5],
    /// Whether the newest records are asked for most.
    is_latest: bool,
}

/// The mixes.
pub const MIXES: [Mix; 6] = [
    Mix { name: 'a', percent: [50, 50, 0, 0, 0], is_latest: false },
    Mix { name: 'b', percent: [95, 5, 0, 0, 0], is_latest: false },
    Mix { name: 'c', percent: [100, 0, 0, 0, 0], is_latest: false },
    Mix { name: 'd', percent: [95, 0, 5, 0, 0], is_latest: true },
    Mix { name: 'e', percent: [0, 0, 5, 95, 0], is_latest: false },
    Mix { name: 'f', percent: [50, 0, 0, 0, 50], is_latest: false },
];

/// Numbers of which the first are drawn most: the chance of number n goes with (n + 1) to the power of minus the skew.
///
/// As Gray, Sundaresan, Englert, Baclawski, Weinberger have it: Quickly generating billion-record synthetic databases. SIGMOD 1994,
/// section 3.2.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: u64,
    skew: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Of so many numbers, with a skew of at least 0 and below 1; 0.99 in YCSB.
    #[must_use]
    pub fn new(count: u64, skew: f64) -> Zipf {
        let zeta = |count: u64| {
            let first: f64 = (1..=count.min(ZETA_TERMS)).map(|n| (n as f64).powf(-skew)).sum();
            let integral = |n: u64| (n as f64 + 0.5).powf(1.0 - skew) / (1.0 - skew);
            first + integral(count.max(ZETA_TERMS)) - integral(ZETA_TERMS)
        };
        let (all, two) = (zeta(count), zeta(count.min(2)));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - skew)) / (1.0 - two / all);
        Zipf { count, skew, zeta: all, eta }
    }

    /// A number below the count.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let uniform: f64 = random.random_range(0.0..1.0);
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.skew) {
            return 1.min(self.count - 1);
        }
        let number = (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - self.skew));
        ((self.count as f64 * number) as u64).min(self.count - 1)
    }
}

/// A loaded table.
#[derive(Clone, Debug)]
pub struct Database {
    tables: Arc<Tables>,
    table: Table,
    zipf: Zipf,
    /// Records that were loaded.
    pub records: u64,
    /// The number of the next record that is inserted.
    next: Arc<AtomicU64>,
    /// The number behind the last record that is there.
    end: Arc<AtomicU64>,
}

/// The key of a record: its number, scattered.
fn key_of(number: u64) -> Datum {
    // The same in every run: the hasher has no keys.
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    format!("user{:020}", hasher.finish()).into()
}

fn field(random: &mut Random) -> Datum {
    let bytes = (0..FIELD_BYTES).map(|_| char::from(random.random_range(b' '..=b'~')));
    bytes.collect::<String>().into()
}

fn row_of(number: u64, random: &mut Random) -> Row {
    std::iter::once(key_of(number)).chain((0..FIELDS).map(|_| field(random))).collect()
}

/// Loads so many records, in place of a table of that name.
///
/// # Errors
/// As of [`Tables::load`].
pub async fn load(
    tables: &Arc<Tables>,
    records: u64,
    layout: Layout,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let fields = (0..FIELDS).map(|field| format!("field{field}"));
    let names = std::iter::once("ycsb_key".to_owned()).chain(fields);
    let fields = names.map(|name| Field::new(name, DataType::Utf8View, false));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let mut definition = TableDefinition::new(schema, &["ycsb_key"])?;
    definition.pages = tables.page_options(layout);
    let mut load = tables.load(TABLE, definition, LoadOptions { replace: true }).await?;
    let mut random = random("ycsb load");
    for first in (0..records).step_by(ROWS as usize) {
        let end = records.min(first + ROWS);
        let rows: Vec<Row> = (first..end).map(|number| row_of(number, &mut random)).collect();
        load.push(&load.table().batch(&rows)?).await?;
        progress(end);
    }
    load.finish().await?;
    Ok(())
}

/// The table of a store, of whose records some are asked for more than others. Those that runs have inserted before are not asked for.
///
/// # Errors
/// [`moirai_tables::Error::NoTable`].
pub async fn open(tables: &Arc<Tables>, records: u64, skew: f64) -> Result<Database> {
    let table = tables.table(TABLE).await?;
    let (zipf, end) = (Zipf::new(records.max(1), skew), || Arc::new(AtomicU64::new(records)));
    Ok(Database { tables: Arc::clone(tables), table, zipf, records, next: end(), end: end() })
}

impl Database {
    /// Whether all records were loaded.
    ///
    /// # Errors
    /// As of [`moirai_tables::Snapshot::get_rows`].
    pub async fn is_whole(&self) -> Result<bool> {
        let key = self.table.key_of(&[key_of(self.records.saturating_sub(1))])?;
        let last = self.tables.snapshot().await.get_rows(&self.table, &[key], &[]).await?;
        Ok(last.iter().all(Option::is_some))
    }
}

/// Who asks for records.
#[derive(Debug)]
pub struct User {
    database: Database,
    mix: Mix,
    random: Random,
}

impl User {
    /// The user with a number.
    #[must_use]
    pub fn new(database: &Database, mix: Mix, number: u64) -> User {
        let random = random(&format!("ycsb user {number}"));
        User { database: database.clone(), mix, random }
    }

    /// The number of a record that is there.
    fn number(&mut self) -> u64 {
        let drawn = self.database.zipf.draw(&mut self.random);
        match self.mix.is_latest {
            true => (self.database.end.load(Ordering::Relaxed) - 1).saturating_sub(drawn),
            false => drawn,
        }
    }

    async fn once(&mut self, kind: usize) -> Result<()> {
        let Database { tables, table, next, end, .. } = self.database.clone();
        let all: Vec<usize> = (0..=FIELDS).collect();
        let snapshot = async || tables.snapshot().await;
        match kind {
            0 => {
                let key = table.key_of(&[key_of(self.number())])?;
                snapshot().await.get_rows(&table, &[key], &all).await?;
            }
            3 => {
                let from = table.key_of(&[key_of(self.number())])?;
                let most = self.random.random_range(1..=SCANNED_MAX);
                snapshot().await.first_rows(&table, (&[], &from), &all, most).await?;
            }
            _ => {
                let options = TransactionOptions::of(Isolation::ReadCommitted);
                let mut tx = tables.begin_transaction(options);
                let mut inserted = 0;
                let set = [(self.random.random_range(1..=FIELDS), field(&mut self.random))];
                match kind {
                    2 => {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        tx.put_row(&table, &row_of(number, &mut self.random)).await?;
                        inserted = number + 1;
                    }
                    1 => tx.set_fields(&table, &[key_of(self.number())], &set).await?,
                    _ => {
                        let key = [key_of(self.number())];
                        tx.get_for_update(&table, &key, &all).await?;
                        tx.set_fields(&table, &key, &set).await?;
                    }
                }
                tx.commit().await?;
                end.fetch_max(inserted, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Client for User {
    type Error = moirai_tables::Error;

    const KINDS: &'static [&'static str] = &["read", "update", "insert", "scan", "read-update"];

    fn next_kind(&mut self) -> usize {
        let mut left = self.random.random_range(0..100);
        for (kind, percent) in self.mix.percent.into_iter().enumerate() {
            match left < percent {
                true => return kind,
                false => left -= percent,
            }
        }
        0
    }

    async fn run(&mut self, kind: usize, _: &mut u64) -> Result<Done> {
        self.once(kind).await.map(|()| Done::Committed)
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a thousand numbers with a skew of 0.99 the first has one in the sum of 1 / n^0.99, the second one in twice as many.
    #[test]
    fn the_first_numbers_are_drawn_as_often_as_their_chances_say() {
        let (zipf, mut random) = (Zipf::new(1000, 0.99), moirai_runtime::seeded(1, "zipf"));
        let mut counts = vec![0_u32; 1000];
        for _ in 0..1_000_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let sum: f64 = (1..=1000).map(|n| f64::from(n).powf(-0.99)).sum();
        let share = |number: usize| f64::from(counts[number]) / 1_000_000.0 * sum;
        assert!((share(0) - 1.0).abs() < 0.02, "{}", share(0));
        assert!((share(1) - 0.5_f64.powf(0.99)).abs() < 0.02, "{}", share(1));
        // The approximation of the others is good in sum.
        let first: u32 = counts.iter().take(100).sum();
        let expected: f64 = (1..=100).map(|n| f64::from(n).powf(-0.99)).sum::<f64>() / sum;
        let is_near = (f64::from(first) / 1_000_000.0 - expected).abs() < 0.03;
        assert!(is_near, "{first} of the first hundred, {expected}");
        let even = Zipf::new(10, 0.0);
        let drawn: Vec<u64> = (0..1000).map(|_| even.draw(&mut random)).collect();
        assert!((0..10).all(|number| drawn.contains(&number)));
    }
}
