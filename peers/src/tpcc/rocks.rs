//! RocksDB's TransactionDB: a row is a value behind the number of its table and its key, and an entry of an index is a key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use moirai::tables::{Datum, Row};
use moirai_workloads::driver::Done;
use moirai_workloads::tpcc::inputs::{CustomerBy, District, Input, Line, NewOrder, Payment};
use moirai_workloads::tpcc::{TABLES, column_names};
use rocksdb::{
    BlockBasedOptions, Cache, Direction, ErrorKind, IteratorMode, Options, ReadOptions,
    Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, WriteBufferManager,
    WriteOptions,
};

use super::ledger::{LEDGER_TABLES, Ledger};
use super::{Blocking, Setup};
use crate::Outcome;

type Db = TransactionDB;
type Tx<'a> = Transaction<'a, Db>;

const WAREHOUSE: u8 = 0;
const DISTRICT: u8 = 1;
const CUSTOMER: u8 = 2;
const HISTORY: u8 = 3;
const ORDERS: u8 = 4;
const NEW_ORDER: u8 = 5;
const ORDER_LINE: u8 = 6;
const ITEM: u8 = 7;
const STOCK: u8 = 8;
const CUSTOMER_BY_NAME: u8 = 9;
const ORDERS_BY_CUSTOMER: u8 = 10;

/// So many rows are loaded with one commit.
const LOADED_ROWS: usize = 5000;
/// Lines of an order at most.
const LINES_MAX: usize = 15;

pub(super) struct Rocks {
    db: Db,
    /// The key of the next row of `history`, which has none of its own.
    next_history: AtomicI64,
}

/// The key of a row: its table, and numbers whose bytes sort as they do.
fn key(table: u8, numbers: &[i64]) -> Vec<u8> {
    let mut key = vec![table];
    numbers.iter().for_each(|number| key.extend_from_slice(&(*number as u32).to_be_bytes()));
    key
}

/// The last number of a key.
fn last_of(key: &[u8]) -> i64 {
    key.last_chunk().map_or(0, |last| i64::from(u32::from_be_bytes(*last)))
}

fn by_name(of: District, last: &str, rest: Option<(&str, i64)>) -> Vec<u8> {
    let mut key = key(CUSTOMER_BY_NAME, &[of.warehouse, of.district]);
    key.extend_from_slice(last.as_bytes());
    key.push(0);
    if let Some((first, id)) = rest {
        key.extend_from_slice(first.as_bytes());
        key.push(0);
        key.extend_from_slice(&(id as u32).to_be_bytes());
    }
    key
}

/// Numbers and texts: seven bits to a byte, the lowest first, and a text's length before it.
fn encode(row: &[Datum]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(row.len() * 8);
    let put = |bytes: &mut Vec<u8>, mut number: u64| {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    for datum in row {
        match (datum.number(), datum.text()) {
            // Zigzag; the lowest bit tells numbers from texts, and 0 is null.
            (Some(number), _) => {
                let number = number as i64;
                put(&mut bytes, ((number << 1 ^ number >> 63) as u64 + 1) << 1);
            }
            (_, Some(text)) => {
                put(&mut bytes, (text.len() as u64) << 1 | 1);
                bytes.extend_from_slice(text.as_bytes());
            }
            _ => bytes.push(0),
        }
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Outcome<Row> {
    let mut row = Row::with_capacity(24);
    while !bytes.is_empty() {
        let (mut number, mut shift) = (0_u64, 0);
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        row.push(match (number, number & 1) {
            (0, _) => Datum::Null,
            (_, 0) => {
                let zigzag = (number >> 1) - 1;
                Datum::from((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
            }
            _ => {
                let length = (number >> 1) as usize;
                let (text, rest) = bytes.split_at_checked(length).ok_or("a row is cut")?;
                bytes = rest;
                Datum::from(std::str::from_utf8(text)?)
            }
        });
    }
    Ok(row)
}

/// A row that has to be there.
fn row(bytes: Option<Vec<u8>>) -> Outcome<Row> {
    decode(&bytes.ok_or("a row is missing")?)
}

fn int(row: &[Datum], column: usize) -> i64 {
    row.get(column).and_then(Datum::number).unwrap_or(0) as i64
}

fn text(row: &[Datum], column: usize) -> &str {
    row.get(column).and_then(Datum::text).unwrap_or_default()
}

fn set(row: &mut Row, column: usize, datum: Datum) {
    if let Some(place) = row.get_mut(column) {
        *place = datum;
    }
}

fn add(row: &mut Row, column: usize, more: i64) {
    let sum = int(row, column) + more;
    set(row, column, sum.into());
}

/// Microseconds since 1970.
fn now_us() -> Datum {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Datum::from(since.map_or(0, |since| since.as_micros() as i64))
}

impl Rocks {
    pub(super) fn open(setup: Setup<'_>) -> Outcome<Rocks> {
        // One budget for blocks and memtables, of which there are three with half of it.
        let cache = Cache::new_lru_cache(setup.memory as usize);
        let memtables = setup.memory as usize / 2;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
            memtables, false, cache,
        ));
        options.set_write_buffer_size(memtables / 3);
        options.set_max_write_buffer_number(3);
        options.increase_parallelism(2);
        options.set_use_direct_io_for_flush_and_compaction(true);
        // Its log files are written over, as ours and SQLite's are: of a file that grows each flush writes what the file system knows of it, too.
        options.set_recycle_log_file_num(3);
        let db = Db::open(&options, &TransactionDBOptions::default(), setup.folder.join("rocks"))?;
        Ok(Rocks { db, next_history: AtomicI64::new(0) })
    }

    fn begin(&self) -> Tx<'_> {
        let (mut write, mut options) = (WriteOptions::default(), TransactionOptions::default());
        write.set_sync(true);
        options.set_deadlock_detect(true);
        self.db.transaction_opt(&write, &options)
    }

    /// The numbers of customers with a last name, in the order of their first names; keys of an index end with what they point to.
    fn customer(&self, tx: &Tx<'_>, of: District, by: &CustomerBy) -> Outcome<i64> {
        let name = match by {
            CustomerBy::Number(number) => return Ok(*number),
            CustomerBy::LastName(name) => name,
        };
        let found = scan(tx, &by_name(of, name, None), &[], usize::MAX)?;
        let middle = found.get(found.len().div_ceil(2).saturating_sub(1));
        Ok(middle.map(|(key, _)| last_of(key)).ok_or("nobody has the name")?)
    }

    fn new_order(&self, tx: &Tx<'_>, order: &NewOrder) -> Outcome<bool> {
        let District { warehouse: w, district: d } = order.place;
        // Items first, and then all locks in the order of the keys.
        let mut prices = Vec::with_capacity(LINES_MAX);
        let items = order.lines.iter().map(|line| key(ITEM, &[line.item]));
        for item in tx.multi_get(items) {
            let Some(item) = item? else { return Ok(false) };
            prices.push(int(&decode(&item)?, 3));
        }
        let wanted: BTreeSet<(i64, i64)> =
            order.lines.iter().map(|line| (line.supply, line.item)).collect();
        let mut stock = BTreeMap::new();
        for (supply, item) in wanted {
            let found = row(tx.get_for_update(key(STOCK, &[supply, item]), true)?)?;
            stock.insert((supply, item), found);
        }
        let place = key(DISTRICT, &[w, d]);
        let mut of_district = row(tx.get_for_update(&place, true)?)?;
        let id = int(&of_district, 10);
        add(&mut of_district, 10, 1);
        tx.put(&place, encode(&of_district))?;
        let of_warehouse = row(tx.get(key(WAREHOUSE, &[w]))?)?;
        let of_customer = row(tx.get(key(CUSTOMER, &[w, d, order.customer]))?)?;
        let is_local = order.lines.iter().all(|line| line.supply == w);
        let count = order.lines.len() as i64;
        let mut new: Row = [w, d, id, order.customer].map(Datum::from).into();
        new.extend([now_us(), Datum::Null, count.into(), i64::from(is_local).into()]);
        tx.put(key(ORDERS, &[w, d, id]), encode(&new))?;
        tx.put(key(ORDERS_BY_CUSTOMER, &[w, d, order.customer, id]), [])?;
        tx.put(key(NEW_ORDER, &[w, d, id]), [])?;
        let mut total = 0;
        for (line_id, (line, price)) in (1..).zip(order.lines.iter().zip(prices)) {
            let Line { item, supply, quantity } = *line;
            let Some(left) = stock.get_mut(&(supply, item)) else { continue };
            let more = if int(left, 2) >= quantity + 10 { 0 } else { 91 };
            add(left, 2, more - quantity);
            add(left, 13, quantity);
            add(left, 14, 1);
            add(left, 15, i64::from(supply != w));
            let amount = quantity * price;
            total += amount;
            let mut new: Row = [w, d, id, line_id, item, supply].map(Datum::from).into();
            let info = text(left, 2 + d as usize).into();
            new.extend([Datum::Null, quantity.into(), amount.into(), info]);
            tx.put(key(ORDER_LINE, &[w, d, id, line_id]), encode(&new))?;
        }
        for ((supply, item), row) in stock {
            tx.put(key(STOCK, &[supply, item]), encode(&row))?;
        }
        let taxes = 10_000 + int(&of_warehouse, 7) + int(&of_district, 8);
        std::hint::black_box(total * (10_000 - int(&of_customer, 15)) * taxes);
        Ok(true)
    }

    fn payment(&self, tx: &Tx<'_>, payment: &Payment) -> Outcome<()> {
        let District { warehouse: w, district: d } = payment.place;
        let District { warehouse: c_w, district: c_d } = payment.of;
        let amount = payment.amount;
        let id = self.customer(tx, payment.of, &payment.customer)?;
        let customer_key = key(CUSTOMER, &[c_w, c_d, id]);
        let mut customer = row(tx.get_for_update(&customer_key, true)?)?;
        add(&mut customer, 16, -amount);
        add(&mut customer, 17, amount);
        add(&mut customer, 18, 1);
        if text(&customer, 13) == "BC" {
            let mut data = format!("{id} {c_d} {c_w} {d} {w} {amount} {}", text(&customer, 20));
            data.truncate(500);
            set(&mut customer, 20, data.into());
        }
        tx.put(&customer_key, encode(&customer))?;
        // Last: these rows are those that most transactions want.
        let place = key(DISTRICT, &[w, d]);
        let mut of_district = row(tx.get_for_update(&place, true)?)?;
        add(&mut of_district, 9, amount);
        tx.put(&place, encode(&of_district))?;
        let place = key(WAREHOUSE, &[w]);
        let mut of_warehouse = row(tx.get_for_update(&place, true)?)?;
        add(&mut of_warehouse, 8, amount);
        tx.put(&place, encode(&of_warehouse))?;
        let data = format!("{}    {}", text(&of_warehouse, 1), text(&of_district, 2));
        let mut paid: Row = [id, c_d, c_w, d, w].map(Datum::from).into();
        paid.extend([now_us(), amount.into(), data.into()]);
        let number = self.next_history.fetch_add(1, Ordering::Relaxed);
        Ok(tx.put(key(HISTORY, &[number]), encode(&paid))?)
    }

    fn order_status(&self, tx: &Tx<'_>, place: District, by: &CustomerBy) -> Outcome<()> {
        let District { warehouse: w, district: d } = place;
        let id = self.customer(tx, place, by)?;
        let customer = row(tx.get(key(CUSTOMER, &[w, d, id]))?)?;
        let prefix = key(ORDERS_BY_CUSTOMER, &[w, d, id]);
        let end = end_of(&prefix);
        let mut last = tx.iterator(IteratorMode::From(&end, Direction::Reverse));
        let Some((entry, _)) = last.next().transpose()? else { return Ok(()) };
        if !entry.starts_with(&prefix) {
            return Ok(());
        }
        let order = last_of(&entry);
        let of_order = row(tx.get(key(ORDERS, &[w, d, order]))?)?;
        let lines = scan(tx, &key(ORDER_LINE, &[w, d, order]), &[], LINES_MAX)?;
        let lines = lines.iter().map(|(_, line)| decode(line)).collect::<Outcome<Vec<_>>>()?;
        std::hint::black_box((customer, of_order, lines));
        Ok(())
    }

    fn delivery(&self, tx: &Tx<'_>, w: i64, carrier: i64) -> Outcome<()> {
        for d in 1..=10 {
            let order = loop {
                let oldest = scan(tx, &key(NEW_ORDER, &[w, d]), &[], 1)?;
                let Some((oldest, _)) = oldest.first() else { break None };
                // Another one may have delivered it meanwhile.
                if tx.get_for_update(oldest, true)?.is_some() {
                    tx.delete(oldest)?;
                    break Some(last_of(oldest));
                }
            };
            let Some(order) = order else { continue };
            let order_key = key(ORDERS, &[w, d, order]);
            let mut of_order = row(tx.get_for_update(&order_key, true)?)?;
            set(&mut of_order, 5, carrier.into());
            tx.put(&order_key, encode(&of_order))?;
            let mut amount = 0;
            for (line_key, line) in scan(tx, &key(ORDER_LINE, &[w, d, order]), &[], LINES_MAX)? {
                let mut line = decode(&line)?;
                amount += int(&line, 8);
                set(&mut line, 6, now_us());
                tx.put(&line_key, encode(&line))?;
            }
            let customer_key = key(CUSTOMER, &[w, d, int(&of_order, 3)]);
            let mut customer = row(tx.get_for_update(&customer_key, true)?)?;
            add(&mut customer, 16, amount);
            add(&mut customer, 19, 1);
            tx.put(&customer_key, encode(&customer))?;
        }
        Ok(())
    }

    fn stock_level(&self, tx: &Tx<'_>, place: District, threshold: i64) -> Outcome<()> {
        let District { warehouse: w, district: d } = place;
        let next = int(&row(tx.get(key(DISTRICT, &[w, d]))?)?, 10);
        let from = key(ORDER_LINE, &[w, d, (next - 20).max(1)]);
        let lines = scan(tx, &key(ORDER_LINE, &[w, d]), &from, 20 * LINES_MAX)?;
        let mut items = BTreeSet::new();
        for (_, line) in &lines {
            items.insert(int(&decode(line)?, 4));
        }
        let mut scarce = 0;
        for stock in tx.multi_get(items.iter().map(|item| key(STOCK, &[w, *item]))) {
            scarce += u32::from(int(&row(stock?)?, 2) < threshold);
        }
        std::hint::black_box(scarce);
        Ok(())
    }

    fn run_in(&self, tx: &Tx<'_>, input: &Input) -> Outcome<Done> {
        match input {
            Input::NewOrder(order) => {
                if !self.new_order(tx, order)? {
                    tx.rollback()?;
                    return Ok(Done::RolledBack);
                }
            }
            Input::Payment(payment) => self.payment(tx, payment)?,
            Input::OrderStatus { place, customer } => self.order_status(tx, *place, customer)?,
            Input::Delivery { warehouse, carrier } => self.delivery(tx, *warehouse, *carrier)?,
            Input::StockLevel { place, threshold } => self.stock_level(tx, *place, *threshold)?,
        }
        Ok(Done::Committed)
    }

    /// Calls `each` with the rows of a table with keys that begin with numbers.
    fn each_row(&self, table: u8, numbers: &[i64], mut each: impl FnMut(&[Datum])) -> Outcome<()> {
        let prefix = key(table, numbers);
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(end_of(&prefix));
        let from = IteratorMode::From(&prefix, Direction::Forward);
        for found in self.db.iterator_opt(from, options) {
            each(&decode(&found?.1)?);
        }
        Ok(())
    }
}

/// The first key behind all that begin with a prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

type Pair = (Box<[u8]>, Box<[u8]>);

/// What there is with a prefix, from a key on or all of it, up to so many.
fn scan(tx: &Tx<'_>, prefix: &[u8], from: &[u8], most: usize) -> Outcome<Vec<Pair>> {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(end_of(prefix));
    let from = if from.is_empty() { prefix } else { from };
    let found = tx.iterator_opt(IteratorMode::From(from, Direction::Forward), options);
    Ok(found.take(most).collect::<Result<_, _>>()?)
}

impl Blocking for Rocks {
    fn load(&self, table: &str, rows: &[Row]) -> Outcome<()> {
        let number = TABLES.iter().position(|name| *name == table).ok_or("no such table")? as u8;
        let (_, key_columns) = column_names(table);
        for rows in rows.chunks(LOADED_ROWS) {
            let tx = self.db.transaction();
            for row in rows {
                let mut of_key: Vec<i64> =
                    (0..key_columns).map(|column| int(row, column)).collect();
                if table == "history" {
                    of_key.push(self.next_history.fetch_add(1, Ordering::Relaxed));
                }
                // All that it has is in its key.
                let value = if table == "new_order" { Vec::new() } else { encode(row) };
                tx.put(key(number, &of_key), value)?;
                match table {
                    "customer" => {
                        let of = District { warehouse: int(row, 0), district: int(row, 1) };
                        let rest = (text(row, 3), int(row, 2));
                        tx.put(by_name(of, text(row, 5), Some(rest)), [])?;
                    }
                    "orders" => {
                        let entry = [int(row, 0), int(row, 1), int(row, 3), int(row, 2)];
                        tx.put(key(ORDERS_BY_CUSTOMER, &entry), [])?;
                    }
                    _ => {}
                }
            }
            tx.commit()?;
        }
        Ok(())
    }

    fn finish_load(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }

    fn run(&self, input: &Input) -> Outcome<Option<Done>> {
        let tx = self.begin();
        let done = self.run_in(&tx, input).and_then(|done| {
            if done == Done::Committed {
                tx.commit()?;
            }
            Ok(done)
        });
        match done {
            Ok(done) => Ok(Some(done)),
            Err(error) => match error.downcast_ref::<rocksdb::Error>().map(rocksdb::Error::kind) {
                Some(ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Conditions 1, 2, 4 and 9.
    fn check(&self) -> Outcome<()> {
        let mut ledger = Ledger::default();
        for (table, columns) in LEDGER_TABLES {
            let number = TABLES.iter().position(|name| *name == table).unwrap_or_default();
            self.each_row(number as u8, &[], |row| {
                let row = columns.iter().map(|column| row.get(*column).cloned());
                ledger.take(table, &row.map(Option::unwrap_or_default).collect::<Row>());
            })?;
        }
        ledger.check()
    }
}
