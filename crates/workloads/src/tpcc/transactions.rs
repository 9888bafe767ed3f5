//! The five transactions (clauses 2.4 to 2.8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_runtime::{Random, now, random};
use moirai_tables::{
    Datum, Isolation, LockWait, Locked, Result, Row, Transaction, TransactionOptions,
};
use rand::Rng;

use crate::driver::Done;
use crate::tpcc::driver::Kind;
use crate::tpcc::generate::{LOADED_US, Skew};
use crate::tpcc::schema::{DISTRICTS, Database};

/// A terminal: it asks for transactions of one warehouse.
#[derive(Debug)]
pub struct Terminal {
    database: Arc<Database>,
    warehouse: i64,
    district: i64,
    isolation: Isolation,
    skew: Skew,
    random: Random,
}

fn number(number: i64) -> Datum {
    number.into()
}

/// The number in a column of a row; 0 where there is none.
fn int(row: &[Datum], column: usize) -> i64 {
    row.get(column).and_then(Datum::number).unwrap_or(0) as i64
}

fn take(row: Option<Row>) -> Row {
    row.unwrap_or_default()
}

/// The columns of `customer` that the transactions use.
mod customer {
    pub(super) const ID: usize = 2;
    pub(super) const MIDDLE: usize = 4;
    pub(super) const FIRST: usize = 3;
    pub(super) const LAST: usize = 5;
    pub(super) const CREDIT: usize = 13;
    pub(super) const DISCOUNT: usize = 15;
    pub(super) const BALANCE: usize = 16;
    pub(super) const YTD_PAYMENT: usize = 17;
    pub(super) const PAYMENT_CNT: usize = 18;
    pub(super) const DELIVERY_CNT: usize = 19;
    pub(super) const DATA: usize = 20;
}

const WAREHOUSE_TAX: usize = 7;
const WAREHOUSE_YTD: usize = 8;
const DISTRICT_TAX: usize = 8;
const DISTRICT_YTD: usize = 9;
const DISTRICT_NEXT: usize = 10;
const ORDER_CUSTOMER: usize = 3;
const ORDER_CARRIER: usize = 5;
const LINE_ITEM: usize = 4;
const LINE_DELIVERY: usize = 6;
const LINE_AMOUNT: usize = 8;
const STOCK_QUANTITY: usize = 2;
const STOCK_YTD: usize = 13;
const STOCK_ORDERS: usize = 14;
const STOCK_REMOTE: usize = 15;

impl Terminal {
    /// The terminal with a number: those of a warehouse follow each other, and each has a district (clause 2.4.1.1 leaves it open).
    #[must_use]
    pub fn new(database: &Arc<Database>, terminal: u64, isolation: Isolation) -> Terminal {
        let warehouses = database.scale.warehouses;
        let terminal_of = terminal as i64;
        Terminal {
            database: Arc::clone(database),
            warehouse: terminal_of % warehouses + 1,
            district: terminal_of / warehouses % DISTRICTS + 1,
            isolation,
            // The constants of a run are those of all terminals.
            skew: Skew::draw(&mut random("tpcc run")),
            random: random(&format!("tpcc terminal {terminal}")),
        }
    }

    /// The kind of the transaction that comes next (clause 5.2.3): the least shares of the specification, and New-Order for the rest.
    pub(crate) fn draw_kind(&mut self) -> Kind {
        match self.random.random_range(0..100) {
            0..45 => Kind::NewOrder,
            45..88 => Kind::Payment,
            88..92 => Kind::OrderStatus,
            92..96 => Kind::Delivery,
            _ => Kind::StockLevel,
        }
    }

    /// A random number of a stream of its own.
    pub(crate) fn own_random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Runs a transaction of a kind, again and again until it is not in conflict with others; counts how often in `retries`.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn run_kind(&mut self, kind: Kind, retries: &mut u64) -> Result<Done> {
        let read_only = matches!(kind, Kind::OrderStatus | Kind::StockLevel);
        // Clause 3.4.1 allows Stock-Level to read what is committed; one state costs no more.
        let options = TransactionOptions { read_only, ..TransactionOptions::of(self.isolation) };
        let mut tx = self.database.tables.begin_transaction(options);
        // The same input each time.
        let before = self.random.clone();
        loop {
            let done = match kind {
                Kind::NewOrder => self.new_order(&mut tx).await,
                Kind::Payment => self.payment(&mut tx).await,
                Kind::OrderStatus => self.order_status(&mut tx).await,
                Kind::Delivery => self.delivery(&mut tx).await,
                Kind::StockLevel => self.stock_level(&mut tx).await,
            };
            let done = match done {
                Ok(Done::Committed) => tx.commit().await.map(|()| Done::Committed),
                done => done,
            };
            match done {
                Err(error) if error.is_retryable() => {
                    *retries += 1;
                    tx.retry().await;
                    self.random = before.clone();
                }
                done => return done,
            }
        }
    }

    fn now(&self) -> Datum {
        number(LOADED_US + (now().ns / 1000) as i64)
    }

    /// A warehouse that is not this one, if there is another.
    fn other_warehouse(&mut self) -> i64 {
        let count = self.database.scale.warehouses;
        if count == 1 {
            return self.warehouse;
        }
        let other = self.random.random_range(1..count);
        if other < self.warehouse { other } else { other + 1 }
    }

    /// Clause 2.4.2.
    async fn new_order(&mut self, tx: &mut Transaction) -> Result<Done> {
        let database = Arc::clone(&self.database);
        let (tables, scale) = (&database.opened, database.scale);
        let warehouse = self.warehouse;
        let district = self.random.random_range(1..=DISTRICTS);
        let customer = self.skew.customer(&mut self.random, &scale);
        let lines = self.random.random_range(5..=15);
        let is_rolled_back = self.random.random_range(0..100) == 0;
        let mut wanted = Vec::new();
        for line in 0..lines {
            let item = match is_rolled_back && line == lines - 1 {
                true => scale.items + 1,
                false => self.skew.item(&mut self.random, &scale),
            };
            let is_remote = self.random.random_range(0..100) == 0;
            let supply = if is_remote { self.other_warehouse() } else { warehouse };
            wanted.push((item, supply, self.random.random_range(1..=10_i64)));
        }
        // Before anything is read, in the order of the keys: see `crate::tpcc`.
        let stock = wanted.iter().map(|(item, supply, _)| (*supply, *item));
        let stock: Vec<(i64, i64)> = stock.collect::<BTreeSet<_>>().into_iter().collect();
        let keys: Vec<Vec<u8>> = stock
            .iter()
            .map(|(supply, item)| tables.stock.key_of(&[number(*supply), number(*item)]))
            .collect::<Result<_>>()?;
        tx.lock_rows(&tables.stock, &keys, LockWait::Wait).await?;
        let place = [number(warehouse), number(district)];
        let columns = [DISTRICT_TAX, DISTRICT_NEXT];
        let found = take(tx.get_for_update(&tables.district, &place, &columns).await?);
        let (district_tax, order) = (int(&found, 0), int(&found, 1));
        let next = [(DISTRICT_NEXT, number(order + 1))];
        tx.set_fields(&tables.district, &place, &next).await?;
        let of_warehouse =
            tx.get(&tables.warehouse, &[number(warehouse)], &[WAREHOUSE_TAX]).await?;
        let of_customer = [number(warehouse), number(district), number(customer)];
        let columns = [customer::DISCOUNT, customer::LAST, customer::CREDIT];
        let of_customer = take(tx.get(&tables.customer, &of_customer, &columns).await?);
        let is_local = wanted.iter().all(|(_, supply, _)| *supply == warehouse);
        let mut row = Row::from(place.clone());
        row.extend([number(order), number(customer), self.now(), Datum::Null]);
        row.extend([number(lines), number(i64::from(is_local))]);
        tx.put_row(&tables.orders, &row).await?;
        let new_order: Row = place.iter().cloned().chain([number(order)]).collect();
        tx.put_row(&tables.new_order, &new_order).await?;
        // All items at once, and then all of their stock.
        let items: Vec<Vec<u8>> = wanted
            .iter()
            .map(|(item, ..)| tables.item.key_of(&[number(*item)]))
            .collect::<Result<_>>()?;
        let items = tx.snapshot().await?.get_rows(&tables.item, &items, &[3, 2, 4]).await?;
        if items.contains(&None) {
            tx.roll_back();
            return Ok(Done::RolledBack);
        }
        let of_district = STOCK_QUANTITY + district as usize;
        let columns = [STOCK_QUANTITY, of_district];
        let found = tx.snapshot().await?.get_rows(&tables.stock, &keys, &columns).await?;
        let mut stock: BTreeMap<(i64, i64), Row> =
            stock.into_iter().zip(found.into_iter().map(take)).collect();
        let mut total = 0;
        for (line, ((item, supply, quantity), found)) in (1..).zip(wanted.into_iter().zip(items)) {
            let price = int(&take(found), 0);
            let Some(left) = stock.get_mut(&(supply, item)) else { continue };
            let before = int(left, 0);
            let after = before - quantity + if before >= quantity + 10 { 0 } else { 91 };
            if let Some(value) = left.first_mut() {
                *value = number(after);
            }
            let key = [number(supply), number(item)];
            tx.set_fields(&tables.stock, &key, &[(STOCK_QUANTITY, number(after))]).await?;
            let added = [
                (STOCK_YTD, number(quantity)),
                (STOCK_ORDERS, number(1)),
                (STOCK_REMOTE, number(i64::from(supply != warehouse))),
            ];
            tx.add_fields(&tables.stock, &key, &added).await?;
            let amount = quantity * price;
            total += amount;
            let mut row = Row::from(place.clone());
            row.extend([number(order), number(line), number(item), number(supply), Datum::Null]);
            row.extend([number(quantity), number(amount)]);
            row.push(left.get(1).cloned().unwrap_or_default());
            tx.put_row(&tables.order_line, &row).await?;
        }
        // What the terminal shows (clause 2.4.3.3): computed, and shown to nobody.
        let taxes = 10_000 + int(&take(of_warehouse), 0) + district_tax;
        std::hint::black_box(total * (10_000 - int(&of_customer, 0)) * taxes);
        Ok(Done::Committed)
    }

    /// The customer that a terminal means: three in five by the last name, of which the one in the middle is taken (clause 2.5.2.2).
    async fn customer(
        &mut self,
        tx: &mut Transaction,
        (warehouse, district): (i64, i64),
    ) -> Result<i64> {
        let database = Arc::clone(&self.database);
        let scale = database.scale;
        if self.random.random_range(0..100) >= 60 {
            return Ok(self.skew.customer(&mut self.random, &scale));
        }
        let name = self.skew.name(&mut self.random, &scale);
        let customers = &database.opened.customer;
        let Some(index) = customers.indexes().first() else {
            return Ok(self.skew.customer(&mut self.random, &scale));
        };
        let values = [number(warehouse), number(district), name.into()];
        let snapshot = tx.snapshot().await?;
        let columns = [customer::ID, customer::FIRST, customer::MIDDLE];
        let found =
            snapshot.rows_by_index((customers, index), &values, &columns, usize::MAX).await?;
        let middle = found.len().div_ceil(2).saturating_sub(1);
        match found.get(middle) {
            Some(row) => Ok(int(row, 0)),
            // At a small scale no customer may have the name.
            None => Ok(self.skew.customer(&mut self.random, &scale)),
        }
    }

    /// Clause 2.5.2.
    async fn payment(&mut self, tx: &mut Transaction) -> Result<Done> {
        let database = Arc::clone(&self.database);
        let tables = &database.opened;
        let warehouse = self.warehouse;
        let district = self.random.random_range(1..=DISTRICTS);
        let is_local = self.random.random_range(0..100) < 85;
        let (of_warehouse, of_district) = match is_local {
            true => (warehouse, district),
            false => (self.other_warehouse(), self.random.random_range(1..=DISTRICTS)),
        };
        let amount = self.random.random_range(100..=500_000_i64);
        let customer_id = self.customer(tx, (of_warehouse, of_district)).await?;
        let found = tx.get(&tables.warehouse, &[number(warehouse)], &[1, 2, 3, 4, 5, 6]).await?;
        let place = [number(warehouse), number(district)];
        let of_place = tx.get(&tables.district, &place, &[2, 3, 4, 5, 6, 7]).await?;
        let key = [number(of_warehouse), number(of_district), number(customer_id)];
        let columns = [customer::CREDIT, customer::FIRST, customer::LAST, customer::BALANCE];
        let of_customer = take(tx.get(&tables.customer, &key, &columns).await?);
        if of_customer.first().and_then(Datum::text) == Some("BC") {
            let data = take(tx.get_for_update(&tables.customer, &key, &[customer::DATA]).await?);
            let old = data.first().and_then(Datum::text).unwrap_or_default();
            let mut new = format!(
                "{customer_id} {of_district} {of_warehouse} {district} {warehouse} {amount} {old}"
            );
            new.truncate(500);
            tx.set_fields(&tables.customer, &key, &[(customer::DATA, new.into())]).await?;
        }
        let added = [
            (customer::BALANCE, number(-amount)),
            (customer::YTD_PAYMENT, number(amount)),
            (customer::PAYMENT_CNT, number(1)),
        ];
        tx.add_fields(&tables.customer, &key, &added).await?;
        let (of_warehouse_name, of_district_name) = (take(found), take(of_place));
        let name = |row: &Row| row.first().and_then(Datum::text).unwrap_or_default().to_owned();
        let data = format!("{}    {}", name(&of_warehouse_name), name(&of_district_name));
        let row = [
            number(customer_id),
            number(of_district),
            number(of_warehouse),
            number(district),
            number(warehouse),
            self.now(),
            number(amount),
            data.into(),
        ];
        tx.append_row(&tables.history, &row).await?;
        // Last: these rows are those that most transactions want.
        tx.add_fields(&tables.district, &place, &[(DISTRICT_YTD, number(amount))]).await?;
        let added = [(WAREHOUSE_YTD, number(amount))];
        tx.add_fields(&tables.warehouse, &[number(warehouse)], &added).await?;
        Ok(Done::Committed)
    }

    /// Clause 2.6.2.
    async fn order_status(&mut self, tx: &mut Transaction) -> Result<Done> {
        let database = Arc::clone(&self.database);
        let tables = &database.opened;
        let (warehouse, district) = (self.warehouse, self.random.random_range(1..=DISTRICTS));
        let customer_id = self.customer(tx, (warehouse, district)).await?;
        let key = [number(warehouse), number(district), number(customer_id)];
        let columns = [customer::FIRST, customer::MIDDLE, customer::LAST, customer::BALANCE];
        let found = tx.get(&tables.customer, &key, &columns).await?;
        let snapshot = tx.snapshot().await?;
        let Some(index) = tables.orders.indexes().first() else { return Ok(Done::Committed) };
        let columns = [2, 4, ORDER_CARRIER];
        let orders =
            snapshot.rows_by_index((&tables.orders, index), &key, &columns, usize::MAX).await?;
        if let Some(last) = orders.last() {
            let order = number(int(last, 0));
            let prefix = [number(warehouse), number(district), order];
            let prefix = tables.order_line.key_of(&prefix)?;
            let columns = [LINE_ITEM, 5, 7, LINE_AMOUNT, LINE_DELIVERY];
            let place = (&prefix[..], &prefix[..]);
            let lines = snapshot.first_rows(&tables.order_line, place, &columns, 15).await?;
            std::hint::black_box((found, lines));
        }
        Ok(Done::Committed)
    }

    /// Clause 2.7.4: of each district the oldest order that is not delivered, in one transaction.
    async fn delivery(&mut self, tx: &mut Transaction) -> Result<Done> {
        let database = Arc::clone(&self.database);
        let tables = &database.opened;
        let (warehouse, carrier) = (self.warehouse, self.random.random_range(1..=10_i64));
        for district in 1..=DISTRICTS {
            let prefix = tables.new_order.key_of(&[number(warehouse), number(district)])?;
            let order = loop {
                let place = (&prefix[..], &prefix[..]);
                let snapshot = tx.snapshot().await?;
                let oldest = snapshot.first_rows(&tables.new_order, place, &[2], 1).await?;
                let Some(oldest) = oldest.first() else { break None };
                let key = [number(warehouse), number(district), number(int(oldest, 0))];
                let locked = tables.new_order.key_of(&key)?;
                let locked = tx.lock_rows(&tables.new_order, &[locked], LockWait::Wait).await?;
                // Another one has delivered it meanwhile.
                if locked.1 == Locked::Current {
                    break Some(key);
                }
            };
            let Some(key) = order else { continue };
            tx.delete_row(&tables.new_order, &key).await?;
            let of_order = take(tx.get(&tables.orders, &key, &[ORDER_CUSTOMER]).await?);
            let set = [(ORDER_CARRIER, number(carrier))];
            tx.set_fields(&tables.orders, &key, &set).await?;
            let prefix = tables.order_line.key_of(&key)?;
            let place = (&prefix[..], &prefix[..]);
            let columns = [3, LINE_AMOUNT];
            let snapshot = tx.snapshot().await?;
            let lines = snapshot.first_rows(&tables.order_line, place, &columns, 15).await?;
            let now = self.now();
            let mut amount = 0;
            for line in &lines {
                let of_line: Row = key.iter().cloned().chain([number(int(line, 0))]).collect();
                let set = [(LINE_DELIVERY, now.clone())];
                tx.set_fields(&tables.order_line, &of_line, &set).await?;
                amount += int(line, 1);
            }
            let of_customer = [number(warehouse), number(district), number(int(&of_order, 0))];
            let added = [(customer::BALANCE, number(amount)), (customer::DELIVERY_CNT, number(1))];
            tx.add_fields(&tables.customer, &of_customer, &added).await?;
        }
        Ok(Done::Committed)
    }

    /// Clause 2.8.2: how many items of the last 20 orders of the district are scarce.
    async fn stock_level(&mut self, tx: &mut Transaction) -> Result<Done> {
        let database = Arc::clone(&self.database);
        let tables = &database.opened;
        let place = [number(self.warehouse), number(self.district)];
        let threshold = self.random.random_range(10..=20_i64);
        let found = take(tx.get(&tables.district, &place, &[DISTRICT_NEXT]).await?);
        let next = int(&found, 0);
        let prefix = tables.order_line.key_of(&place)?;
        let first: Row = place.iter().cloned().chain([number((next - 20).max(1))]).collect();
        let first = tables.order_line.key_of(&first)?;
        let snapshot = tx.snapshot().await?;
        let place = (&prefix[..], &first[..]);
        let lines = snapshot.first_rows(&tables.order_line, place, &[LINE_ITEM], 20 * 15).await?;
        let items: BTreeSet<i64> = lines.iter().map(|line| int(line, 0)).collect();
        let keys: Vec<Vec<u8>> = items
            .iter()
            .map(|item| tables.stock.key_of(&[number(self.warehouse), number(*item)]))
            .collect::<Result<_>>()?;
        let stock = snapshot.get_rows(&tables.stock, &keys, &[STOCK_QUANTITY]).await?;
        let scarce = stock.iter().flatten().filter(|row| int(row, 0) < threshold).count();
        std::hint::black_box(scarce);
        Ok(Done::Committed)
    }
}
