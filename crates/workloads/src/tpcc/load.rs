//! The database as it is at first (clause 4.3.3).

use std::sync::Arc;

use moirai_runtime::{Random, random};
use moirai_tables::{Datum, LoadOptions, PageOptions, Result, Row, Tables};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::tpcc::generate::{LOADED_US, Skew, address, data, digits, letters};
use crate::tpcc::schema::{DISTRICTS, Database, Scale, TABLES, definition, indexes, open};

/// Rows of a batch.
const ROWS: usize = 10_000;

/// A number of a row.
fn number(number: i64) -> Datum {
    number.into()
}

/// Loads all tables, in place of any of their names, into such pages, and makes their indexes. Calls `progress` with the number of rows that are loaded.
///
/// # Errors
/// As of [`Tables::load`] and [`Tables::create_index`].
pub async fn load(
    tables: &Arc<Tables>,
    scale: Scale,
    pages: PageOptions,
    mut progress: impl FnMut(u64),
) -> Result<Database> {
    let (mut initial, mut loaded) = (Initial::new(scale), 0);
    for name in TABLES {
        let definition = definition(name, pages)?;
        let mut load = tables.load(name, definition, LoadOptions { replace: true }).await?;
        let mut batch = Vec::with_capacity(ROWS);
        for part in 0..initial.parts(name) {
            let mut rows = initial.rows(name, part).into_iter();
            loop {
                batch.extend(rows.by_ref().take(ROWS - batch.len()));
                if batch.len() < ROWS {
                    break;
                }
                load.push(&load.table().batch(&batch)?).await?;
                loaded += batch.len() as u64;
                progress(loaded);
                batch.clear();
            }
        }
        load.push(&load.table().batch(&batch)?).await?;
        loaded += batch.len() as u64;
        progress(loaded);
        load.finish().await?;
    }
    for (table, index) in indexes() {
        tables.create_index(table, index).await?;
    }
    open(tables).await
}

/// The rows that are there at first. To be drawn in the order of [`TABLES`] and of their parts, which always gives the same rows.
#[derive(Debug)]
pub struct Initial {
    scale: Scale,
    skew: Skew,
    random: Random,
}

impl Initial {
    /// Those of a database of a size.
    #[must_use]
    pub fn new(scale: Scale) -> Initial {
        let mut random = random("tpcc load");
        Initial { scale, skew: Skew::draw(&mut random), random }
    }

    /// Into how many parts the rows of a table are divided: warehouses, or districts.
    #[must_use]
    pub fn parts(&self, table: &str) -> i64 {
        match table {
            "item" => 1,
            "warehouse" | "stock" => self.scale.warehouses,
            _ => self.scale.warehouses * DISTRICTS,
        }
    }

    /// The rows of a part of a table, in the order of their keys.
    pub fn rows(&mut self, table: &str, part: i64) -> Vec<Row> {
        rows_of(table, part, (&self.scale, &self.skew), &mut self.random)
    }
}

/// The rows of a part of a table. What depends on other tables is drawn from a stream that both have.
fn rows_of(
    table: &str,
    part: i64,
    (scale, skew): (&Scale, &Skew),
    random: &mut Random,
) -> Vec<Row> {
    let (warehouse, district) = (part / DISTRICTS + 1, part % DISTRICTS + 1);
    let place = [number(warehouse), number(district)];
    match table {
        "item" => (1..=scale.items).map(|item| item_row(item, random)).collect(),
        "warehouse" => {
            let mut row = vec![number(part + 1), letters(random, 6, 10).into()];
            row.extend(address(random));
            // What the payments of all customers were: 300,000.00.
            let paid = DISTRICTS * scale.customers * 1000;
            row.extend([number(random.random_range(0..=2000)), number(paid)]);
            vec![row]
        }
        "stock" => (1..=scale.items).map(|item| stock_row(part + 1, item, random)).collect(),
        "district" => {
            let mut row = Row::from(place);
            row.push(letters(random, 6, 10).into());
            row.extend(address(random));
            let tax = random.random_range(0..=2000);
            let paid = scale.customers * 1000;
            row.extend([number(tax), number(paid), number(scale.customers + 1)]);
            vec![row]
        }
        "customer" => (1..=scale.customers)
            .map(|customer| {
                let mut row = Row::from(place.clone());
                row.extend([number(customer), letters(random, 8, 16).into(), "OE".into()]);
                row.push(skew.loaded_name(random, customer, scale).into());
                row.extend(address(random));
                let credit = if random.random_bool(0.1) { "BC" } else { "GC" };
                row.extend([digits(random, 16).into(), number(LOADED_US), credit.into()]);
                row.extend([number(5_000_000), number(random.random_range(0..=5000))]);
                row.extend([number(-1000), number(1000), number(1), number(0)]);
                row.push(letters(random, 300, 500).into());
                row
            })
            .collect(),
        "history" => (1..=scale.customers)
            .map(|customer| {
                let [w, d] = place.clone();
                let data = letters(random, 12, 24).into();
                vec![
                    number(customer),
                    d.clone(),
                    w.clone(),
                    d,
                    w,
                    number(LOADED_US),
                    number(1000),
                    data,
                ]
            })
            .collect(),
        "new_order" => (scale.delivered() + 1..=scale.customers)
            .map(|order| place.iter().cloned().chain([number(order)]).collect())
            .collect(),
        "orders" => orders(part, scale)
            .into_iter()
            .map(|Order { order, customer, lines }| {
                let is_delivered = order <= scale.delivered();
                let carrier = if is_delivered { number(1 + order % 10) } else { Datum::Null };
                let mut row = Row::from(place.clone());
                row.extend([number(order), number(customer), number(LOADED_US), carrier]);
                row.extend([number(lines), number(1)]);
                row
            })
            .collect(),
        _ => orders(part, scale)
            .into_iter()
            .flat_map(|Order { order, lines, .. }| (1..=lines).map(move |line| (order, line)))
            .map(|(order, line)| {
                let is_delivered = order <= scale.delivered();
                let mut row = Row::from(place.clone());
                let item = random.random_range(1..=scale.items);
                row.extend([number(order), number(line), number(item), number(warehouse)]);
                let amount = if is_delivered { 0 } else { random.random_range(1..=999_999) };
                let delivered = if is_delivered { number(LOADED_US) } else { Datum::Null };
                row.extend([delivered, number(5), number(amount)]);
                row.push(letters(random, 24, 24).into());
                row
            })
            .collect(),
    }
}

/// An order that is loaded.
struct Order {
    order: i64,
    customer: i64,
    lines: i64,
}

/// The orders of a district: one of each customer, in random order.
fn orders(part: i64, scale: &Scale) -> Vec<Order> {
    let mut random = random(&format!("tpcc orders {part}"));
    let mut customers: Vec<i64> = (1..=scale.customers).collect();
    customers.shuffle(&mut random);
    let orders = customers.into_iter().zip(1..);
    orders
        .map(|(customer, order)| Order { order, customer, lines: random.random_range(5..=15) })
        .collect()
}

fn item_row(item: i64, random: &mut Random) -> Row {
    let (image, price) = (random.random_range(1..=10_000), random.random_range(100..=10_000));
    let (name, data) = (letters(random, 14, 24), data(random));
    vec![number(item), number(image), name.into(), number(price), data.into()]
}

fn stock_row(warehouse: i64, item: i64, random: &mut Random) -> Row {
    let mut row = vec![number(warehouse), number(item), number(random.random_range(10..=100))];
    row.extend((0..DISTRICTS).map(|_| letters(random, 24, 24).into()));
    row.extend([number(0), number(0), number(0), data(random).into()]);
    row
}
