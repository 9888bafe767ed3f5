//! The five transactions (clauses 2.4 to 2.8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_runtime::now;
use moirai_tables::{
    Datum, Isolation, LockWait, Locked, Result, Row, Table, Transaction, TransactionOptions,
};

use crate::driver::Done;
use crate::tpcc::generate::LOADED_US;
use crate::tpcc::inputs::{CustomerBy, District, Input, Inputs, Line, NewOrder, Payment};
use crate::tpcc::kinds::RowReads;
use crate::tpcc::schema::{DISTRICTS, Database};

/// A terminal: it asks for transactions of one warehouse.
#[derive(Debug)]
pub struct Terminal {
    database: Arc<Database>,
    isolation: Isolation,
    reads: RowReads,
    pub(crate) inputs: Inputs,
}

fn number(number: i64) -> Datum {
    number.into()
}

/// The number in a column of a row; 0 where there is none.
fn int(row: &[Datum], column: usize) -> i64 {
    row.get(column).and_then(Datum::number).unwrap_or(0) as i64
}

/// The time, as rows have it: microseconds since 1970.
fn time_now() -> Datum {
    number(LOADED_US + (now().ns / 1000) as i64)
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
    /// The terminal with a number, as of [`Inputs::new`].
    #[must_use]
    pub fn new(database: &Arc<Database>, terminal: u64, isolation: Isolation) -> Terminal {
        let inputs = Inputs::new(database.scale, terminal);
        let reads = RowReads::default();
        Terminal { database: Arc::clone(database), isolation, reads, inputs }
    }

    /// The same, whose transactions read this of rows.
    #[must_use]
    pub fn reading(self, reads: RowReads) -> Terminal {
        Terminal { reads, ..self }
    }

    /// The columns to read of a row that is about to be changed: those that are needed come first.
    fn of_changed(&self, table: &Table, needed: &[usize]) -> Vec<usize> {
        let others = match self.reads {
            RowReads::Needed => 0..0,
            RowReads::WholeChanged => 0..table.schema().fields().len(),
        };
        needed.iter().copied().chain(others.filter(|column| !needed.contains(column))).collect()
    }

    /// Runs a transaction, again and again until it is not in conflict with others; counts how often in `retries`.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn run_input(&self, input: &Input, retries: &mut u64) -> Result<Done> {
        let read_only = matches!(input, Input::OrderStatus { .. } | Input::StockLevel { .. });
        // Clause 3.4.1 allows Stock-Level to read what is committed; one state costs no more.
        let options = TransactionOptions { read_only, ..TransactionOptions::of(self.isolation) };
        let mut tx = self.database.tables.begin_transaction(options);
        loop {
            let done = match input {
                Input::NewOrder(order) => self.new_order(&mut tx, order).await,
                Input::Payment(payment) => self.payment(&mut tx, payment).await,
                Input::OrderStatus { place, customer } => {
                    self.order_status(&mut tx, *place, customer).await
                }
                Input::Delivery { warehouse, carrier } => {
                    self.delivery(&mut tx, *warehouse, *carrier).await
                }
                Input::StockLevel { place, threshold } => {
                    self.stock_level(&mut tx, *place, *threshold).await
                }
            };
            let done = match done {
                Ok(Done::Committed) => tx.commit().await.map(|()| Done::Committed),
                done => done,
            };
            match done {
                Err(error) if error.is_retryable() => {
                    *retries += 1;
                    tx.retry().await;
                }
                done => return done,
            }
        }
    }

    /// Clause 2.4.2.
    async fn new_order(&self, tx: &mut Transaction, order: &NewOrder) -> Result<Done> {
        let tables = &self.database.opened;
        let District { warehouse, district } = order.place;
        // Before anything is read, in the order of the keys: see `crate::tpcc`.
        let stock = order.lines.iter().map(|line| (line.supply, line.item));
        let stock: Vec<(i64, i64)> = stock.collect::<BTreeSet<_>>().into_iter().collect();
        let keys: Vec<Vec<u8>> = stock
            .iter()
            .map(|(supply, item)| tables.stock.key_of(&[number(*supply), number(*item)]))
            .collect::<Result<_>>()?;
        tx.lock_rows(&tables.stock, &keys, LockWait::Wait).await?;
        let place = [number(warehouse), number(district)];
        let columns = self.of_changed(&tables.district, &[DISTRICT_TAX, DISTRICT_NEXT]);
        let found = take(tx.get_for_update(&tables.district, &place, &columns).await?);
        let (district_tax, order_id) = (int(&found, 0), int(&found, 1));
        let next = [(DISTRICT_NEXT, number(order_id + 1))];
        tx.set_fields(&tables.district, &place, &next).await?;
        let of_warehouse =
            tx.get(&tables.warehouse, &[number(warehouse)], &[WAREHOUSE_TAX]).await?;
        let of_customer = [number(warehouse), number(district), number(order.customer)];
        let columns = [customer::DISCOUNT, customer::LAST, customer::CREDIT];
        let of_customer = take(tx.get(&tables.customer, &of_customer, &columns).await?);
        let is_local = order.lines.iter().all(|line| line.supply == warehouse);
        let mut row = Row::from(place.clone());
        row.extend([number(order_id), number(order.customer), time_now(), Datum::Null]);
        row.extend([number(order.lines.len() as i64), number(i64::from(is_local))]);
        tx.put_row(&tables.orders, &row).await?;
        let new_order: Row = place.iter().cloned().chain([number(order_id)]).collect();
        tx.put_row(&tables.new_order, &new_order).await?;
        // All items at once, and then all of their stock.
        let items: Vec<Vec<u8>> = order
            .lines
            .iter()
            .map(|line| tables.item.key_of(&[number(line.item)]))
            .collect::<Result<_>>()?;
        let items = tx.snapshot().await?.get_rows(&tables.item, &items, &[3, 2, 4]).await?;
        if items.contains(&None) {
            tx.roll_back();
            return Ok(Done::RolledBack);
        }
        let of_district = STOCK_QUANTITY + district as usize;
        let columns = self.of_changed(&tables.stock, &[STOCK_QUANTITY, of_district]);
        let found = tx.snapshot().await?.get_rows(&tables.stock, &keys, &columns).await?;
        let mut stock: BTreeMap<(i64, i64), Row> =
            stock.into_iter().zip(found.into_iter().map(take)).collect();
        let mut total = 0;
        for (line_id, (line, found)) in (1..).zip(order.lines.iter().zip(items)) {
            let Line { item, supply, quantity } = *line;
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
            row.extend([
                number(order_id),
                number(line_id),
                number(item),
                number(supply),
                Datum::Null,
            ]);
            row.extend([number(quantity), number(amount)]);
            row.push(left.get(1).cloned().unwrap_or_default());
            tx.put_row(&tables.order_line, &row).await?;
        }
        // What the terminal shows (clause 2.4.3.3): computed, and shown to nobody.
        let taxes = 10_000 + int(&take(of_warehouse), 0) + district_tax;
        std::hint::black_box(total * (10_000 - int(&of_customer, 0)) * taxes);
        Ok(Done::Committed)
    }

    /// The number of the customer who is meant.
    async fn customer(
        &self,
        tx: &mut Transaction,
        District { warehouse, district }: District,
        customer: &CustomerBy,
    ) -> Result<i64> {
        let name = match customer {
            CustomerBy::Number(number) => return Ok(*number),
            CustomerBy::LastName(name) => name,
        };
        let customers = &self.database.opened.customer;
        let Some(index) = customers.indexes().first() else { return Ok(1) };
        let values = [number(warehouse), number(district), name.as_str().into()];
        let snapshot = tx.snapshot().await?;
        let columns = [customer::ID, customer::FIRST, customer::MIDDLE];
        let found =
            snapshot.rows_by_index((customers, index), &values, &columns, usize::MAX).await?;
        // Each name that is drawn was loaded into each district.
        Ok(found.get(found.len().div_ceil(2).saturating_sub(1)).map_or(1, |row| int(row, 0)))
    }

    /// Clause 2.5.2.
    async fn payment(&self, tx: &mut Transaction, payment: &Payment) -> Result<Done> {
        let tables = &self.database.opened;
        let District { warehouse, district } = payment.place;
        let District { warehouse: of_warehouse, district: of_district } = payment.of;
        let amount = payment.amount;
        let customer_id = self.customer(tx, payment.of, &payment.customer).await?;
        let columns = self.of_changed(&tables.warehouse, &[1, 2, 3, 4, 5, 6]);
        let found = tx.get(&tables.warehouse, &[number(warehouse)], &columns).await?;
        let place = [number(warehouse), number(district)];
        let columns = self.of_changed(&tables.district, &[2, 3, 4, 5, 6, 7]);
        let of_place = tx.get(&tables.district, &place, &columns).await?;
        let key = [number(of_warehouse), number(of_district), number(customer_id)];
        let columns = [customer::CREDIT, customer::FIRST, customer::LAST, customer::BALANCE];
        let columns = self.of_changed(&tables.customer, &columns);
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
            time_now(),
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
    async fn order_status(
        &self,
        tx: &mut Transaction,
        place: District,
        customer: &CustomerBy,
    ) -> Result<Done> {
        let tables = &self.database.opened;
        let District { warehouse, district } = place;
        let customer_id = self.customer(tx, place, customer).await?;
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
    async fn delivery(&self, tx: &mut Transaction, warehouse: i64, carrier: i64) -> Result<Done> {
        let tables = &self.database.opened;
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
            let columns = self.of_changed(&tables.orders, &[ORDER_CUSTOMER]);
            let of_order = take(tx.get(&tables.orders, &key, &columns).await?);
            let set = [(ORDER_CARRIER, number(carrier))];
            tx.set_fields(&tables.orders, &key, &set).await?;
            let prefix = tables.order_line.key_of(&key)?;
            let place = (&prefix[..], &prefix[..]);
            let columns = self.of_changed(&tables.order_line, &[3, LINE_AMOUNT]);
            let snapshot = tx.snapshot().await?;
            let lines = snapshot.first_rows(&tables.order_line, place, &columns, 15).await?;
            let now = time_now();
            let mut amount = 0;
            for line in &lines {
                let of_line: Row = key.iter().cloned().chain([number(int(line, 0))]).collect();
                let set = [(LINE_DELIVERY, now.clone())];
                tx.set_fields(&tables.order_line, &of_line, &set).await?;
                amount += int(line, 1);
            }
            let of_customer = [number(warehouse), number(district), number(int(&of_order, 0))];
            let columns = self.of_changed(&tables.customer, &[]);
            if !columns.is_empty() {
                tx.get(&tables.customer, &of_customer, &columns).await?;
            }
            let added = [(customer::BALANCE, number(amount)), (customer::DELIVERY_CNT, number(1))];
            tx.add_fields(&tables.customer, &of_customer, &added).await?;
        }
        Ok(Done::Committed)
    }

    /// Clause 2.8.2: how many items of the last 20 orders of the district are scarce.
    async fn stock_level(
        &self,
        tx: &mut Transaction,
        District { warehouse, district }: District,
        threshold: i64,
    ) -> Result<Done> {
        let tables = &self.database.opened;
        let place = [number(warehouse), number(district)];
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
            .map(|item| tables.stock.key_of(&[number(warehouse), number(*item)]))
            .collect::<Result<_>>()?;
        let stock = snapshot.get_rows(&tables.stock, &keys, &[STOCK_QUANTITY]).await?;
        let scarce = stock.iter().flatten().filter(|row| int(row, 0) < threshold).count();
        std::hint::black_box(scarce);
        Ok(Done::Committed)
    }
}
