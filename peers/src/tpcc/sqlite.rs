//! SQLite, with its log ahead of its tables: a connection for all who write, since it has one writer at a time, and others for readers.

use std::path::PathBuf;
use std::sync::Mutex;

use moirai::tables::{Datum, Row};
use moirai_workloads::driver::Done;
use moirai_workloads::tpcc::inputs::{CustomerBy, District, Input, NewOrder, Payment};
use moirai_workloads::tpcc::{CONDITIONS, TABLES, column_names};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Transaction, params, params_from_iter};

use super::{Blocking, Setup};
use crate::Outcome;

/// A log of so many pages of 4 KiB, so that not each group copies it into the tables.
const CHECKPOINT_PAGES: i64 = 16_384;
/// Parts of the memory that the writer's cache has, of so many; readers have the rest.
const WRITER_PARTS: (u64, u64) = (3, 4);
/// Readers among whom the rest is divided.
const READERS: u64 = 4;

/// The conditions that are checked: the others join large tables in full, which takes SQLite hours.
const CHECKED: [u32; 6] = [1, 2, 3, 4, 8, 9];

pub(super) struct Sqlite {
    file: PathBuf,
    memory: u64,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

fn open(file: &PathBuf, cache: u64) -> Outcome<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "cache_size", -(cache as i64 / 1024))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The statement that makes a table; `history` has no key.
fn create(table: &str) -> String {
    let (columns, key) = column_names(table);
    let (all, of_key) = (columns.join(", "), columns.get(..key).unwrap_or_default().join(", "));
    match key {
        0 => format!("CREATE TABLE {table} ({all})"),
        _ => format!("CREATE TABLE {table} ({all}, PRIMARY KEY ({of_key})) WITHOUT ROWID"),
    }
}

impl Sqlite {
    pub(super) fn open(setup: Setup<'_>) -> Outcome<Sqlite> {
        let file = setup.folder.join("sqlite");
        let writer = open(&file, setup.memory * WRITER_PARTS.0 / WRITER_PARTS.1)?;
        for table in TABLES {
            writer.execute(&create(table), [])?;
        }
        let (writer, readers) = (Mutex::new(writer), Mutex::default());
        Ok(Sqlite { file, memory: setup.memory, writer, readers })
    }

    /// Runs what only reads: on the writer's connection where that is free.
    fn read(&self, run: impl FnOnce(&Transaction<'_>) -> Outcome<()>) -> Outcome<()> {
        let run_on = |connection: &mut Connection| run_in(connection, run);
        if let Ok(mut writer) = self.writer.try_lock() {
            return run_on(&mut writer);
        }
        let kept = self.readers.lock().map_err(poisoned)?.pop();
        let mut reader = match kept {
            Some(reader) => reader,
            None => {
                let rest = self.memory * (WRITER_PARTS.1 - WRITER_PARTS.0) / WRITER_PARTS.1;
                open(&self.file, rest / READERS)?
            }
        };
        let done = run_on(&mut reader);
        self.readers.lock().map_err(poisoned)?.push(reader);
        done
    }
}

fn poisoned<T>(_: T) -> &'static str {
    "another terminal failed"
}

fn run_in(
    connection: &mut Connection,
    run: impl FnOnce(&Transaction<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let transaction = connection.transaction()?;
    run(&transaction)?;
    Ok(transaction.commit()?)
}

fn value(datum: &Datum) -> Value {
    match (datum.number(), datum.text()) {
        (Some(number), _) => Value::Integer(number as i64),
        (_, Some(text)) => Value::Text(text.to_owned()),
        _ => Value::Null,
    }
}

fn execute(tx: &Transaction<'_>, sql: &str, params: impl Params) -> Outcome<()> {
    tx.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// The first column of the first row, a number.
fn number(tx: &Transaction<'_>, sql: &str, params: impl Params) -> Outcome<Option<i64>> {
    Ok(tx.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

fn customer(tx: &Transaction<'_>, of: District, customer: &CustomerBy) -> Outcome<i64> {
    let name = match customer {
        CustomerBy::Number(number) => return Ok(*number),
        CustomerBy::LastName(name) => name,
    };
    let sql = "SELECT c_id, c_first, c_middle FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first";
    let mut statement = tx.prepare_cached(sql)?;
    let found = statement
        .query_map(params![of.warehouse, of.district, name], |row| row.get::<_, i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(found
        .get(found.len().div_ceil(2).saturating_sub(1))
        .copied()
        .ok_or("nobody has the name")?)
}

/// `false`: an item is not there, and nothing is to be changed.
fn new_order(tx: &Transaction<'_>, order: &NewOrder) -> Outcome<bool> {
    let District { warehouse: w, district: d } = order.place;
    let sql = "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    let (district_tax, id): (i64, i64) =
        tx.prepare_cached(sql)?.query_row([w, d], |row| Ok((row.get(0)?, row.get(1)?)))?;
    execute(
        tx,
        "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?",
        [id + 1, w, d],
    )?;
    let tax = number(tx, "SELECT w_tax FROM warehouse WHERE w_id = ?", [w])?;
    let sql = "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    let discount = number(tx, sql, [w, d, order.customer])?.ok_or("a customer is missing")?;
    let is_local = order.lines.iter().all(|line| line.supply == w);
    let row = params![w, d, id, order.customer, now_us(), order.lines.len() as i64, is_local];
    execute(tx, "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)", row)?;
    execute(tx, "INSERT INTO new_order VALUES (?, ?, ?)", [w, d, id])?;
    let mut total = 0;
    for (line_id, line) in (1_i64..).zip(&order.lines) {
        let sql = "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?";
        let Some(price) = number(tx, sql, [line.item])? else { return Ok(false) };
        let sql = format!(
            "SELECT s_quantity, s_dist_{d:02}, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?"
        );
        let (before, info): (i64, String) = tx
            .prepare_cached(&sql)?
            .query_row([line.supply, line.item], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let more = if before >= line.quantity + 10 { 0 } else { 91 };
        let sql = "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
                   s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?";
        let remote = i64::from(line.supply != w);
        let after = before - line.quantity + more;
        execute(tx, sql, [after, line.quantity, remote, line.supply, line.item])?;
        let amount = line.quantity * price;
        total += amount;
        let sql = "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)";
        let row = params![w, d, id, line_id, line.item, line.supply, line.quantity, amount, info];
        execute(tx, sql, row)?;
    }
    let taxes = 10_000 + tax.unwrap_or(0) + district_tax;
    std::hint::black_box(total * (10_000 - discount) * taxes);
    Ok(true)
}

fn payment(tx: &Transaction<'_>, payment: &Payment) -> Outcome<()> {
    let District { warehouse: w, district: d } = payment.place;
    let District { warehouse: c_w, district: c_d } = payment.of;
    let amount = payment.amount;
    let id = customer(tx, payment.of, &payment.customer)?;
    let name = |sql: &str, params: &[i64]| -> Outcome<String> {
        let mut statement = tx.prepare_cached(sql)?;
        Ok(statement.query_row(params_from_iter(params), |row| row.get(0))?)
    };
    let columns =
        |p: &str| format!("{p}_name, {p}_street_1, {p}_street_2, {p}_city, {p}_state, {p}_zip");
    let sql = format!("SELECT {} FROM warehouse WHERE w_id = ?", columns("w"));
    let of_warehouse = name(&sql, &[w])?;
    let sql = format!("SELECT {} FROM district WHERE d_w_id = ? AND d_id = ?", columns("d"));
    let of_district = name(&sql, &[w, d])?;
    execute(tx, "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", [amount, w])?;
    let sql = "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?";
    execute(tx, sql, [amount, w, d])?;
    let sql = "UPDATE customer SET c_balance = c_balance - ?1, c_ytd_payment = c_ytd_payment + ?1, c_payment_cnt = c_payment_cnt + 1 \
               WHERE c_w_id = ?2 AND c_d_id = ?3 AND c_id = ?4 RETURNING c_credit, c_first, c_last, c_balance";
    let credit: String =
        tx.prepare_cached(sql)?.query_row([amount, c_w, c_d, id], |row| row.get(0))?;
    if credit == "BC" {
        let sql = "UPDATE customer SET c_data = substr(? || c_data, 1, 500) WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
        let front = format!("{id} {c_d} {c_w} {d} {w} {amount} ");
        execute(tx, sql, params![front, c_w, c_d, id])?;
    }
    let data = format!("{of_warehouse}    {of_district}");
    let row = params![id, c_d, c_w, d, w, now_us(), amount, data];
    execute(tx, "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
}

fn order_status(tx: &Transaction<'_>, place: District, by: &CustomerBy) -> Outcome<()> {
    let District { warehouse: w, district: d } = place;
    let id = customer(tx, place, by)?;
    let sql = "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    std::hint::black_box(number(tx, sql, [w, d, id])?);
    let sql = "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
               ORDER BY o_id DESC LIMIT 1";
    let Some(order) = number(tx, sql, [w, d, id])? else { return Ok(()) };
    let sql = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
               WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    let mut statement = tx.prepare_cached(sql)?;
    let lines = statement.query_map([w, d, order], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(3)?, row.get::<_, Option<i64>>(4)?))
    })?;
    std::hint::black_box(lines.collect::<Result<Vec<_>, _>>()?);
    Ok(())
}

fn delivery(tx: &Transaction<'_>, w: i64, carrier: i64) -> Outcome<()> {
    let now = now_us();
    for d in 1..=10 {
        let sql = "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1";
        let Some(order) = number(tx, sql, [w, d])? else { continue };
        let key = [w, d, order];
        execute(
            tx,
            "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            key,
        )?;
        let sql = "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? RETURNING o_c_id";
        let customer: i64 =
            tx.prepare_cached(sql)?.query_row([carrier, w, d, order], |row| row.get(0))?;
        let sql = "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
        let amount = number(tx, sql, key)?.unwrap_or(0);
        let sql = "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
        execute(tx, sql, [now, w, d, order])?;
        let sql = "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                   WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
        execute(tx, sql, [amount, w, d, customer])?;
    }
    Ok(())
}

fn stock_level(tx: &Transaction<'_>, place: District, threshold: i64) -> Outcome<()> {
    let District { warehouse: w, district: d } = place;
    let sql = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    let next = number(tx, sql, [w, d])?.unwrap_or(1);
    let sql = "SELECT count(*) FROM (SELECT DISTINCT ol_i_id FROM order_line \
               WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id >= ?3 AND ol_o_id < ?4) \
               JOIN stock ON s_w_id = ?1 AND s_i_id = ol_i_id WHERE s_quantity < ?5";
    std::hint::black_box(number(tx, sql, [w, d, next - 20, next, threshold])?);
    Ok(())
}

impl Blocking for Sqlite {
    fn load(&self, table: &str, rows: &[Row]) -> Outcome<()> {
        let mut writer = self.writer.lock().map_err(poisoned)?;
        run_in(&mut writer, |tx| {
            let Some(first) = rows.first() else { return Ok(()) };
            let places = vec!["?"; first.len()].join(", ");
            let mut statement =
                tx.prepare_cached(&format!("INSERT INTO {table} VALUES ({places})"))?;
            for row in rows {
                statement.execute(params_from_iter(row.iter().map(value)))?;
            }
            Ok(())
        })
    }

    fn finish_load(&self) -> Outcome<()> {
        let writer = self.writer.lock().map_err(poisoned)?;
        Ok(writer.execute_batch(
            "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
             CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id);
             ANALYZE;",
        )?)
    }

    fn run(&self, input: &Input) -> Outcome<Option<Done>> {
        match input {
            Input::OrderStatus { place, customer } => {
                self.read(|tx| order_status(tx, *place, customer))?;
            }
            Input::StockLevel { place, threshold } => {
                self.read(|tx| stock_level(tx, *place, *threshold))?;
            }
            writes => {
                let mut writer = self.writer.lock().map_err(poisoned)?;
                let tx = writer.transaction()?;
                match writes {
                    Input::NewOrder(order) => {
                        if !new_order(&tx, order)? {
                            tx.rollback()?;
                            return Ok(Some(Done::RolledBack));
                        }
                    }
                    Input::Payment(of) => payment(&tx, of)?,
                    Input::Delivery { warehouse, carrier } => delivery(&tx, *warehouse, *carrier)?,
                    _ => {}
                }
                tx.commit()?;
            }
        }
        Ok(Some(Done::Committed))
    }

    fn check(&self) -> Outcome<()> {
        let writer = self.writer.lock().map_err(poisoned)?;
        for condition in CONDITIONS.iter().filter(|one| CHECKED.contains(&one.number)) {
            let mut statement = writer.prepare(condition.broken)?;
            if statement.exists([])? {
                return Err(format!("condition {} does not hold", condition.number).into());
            }
        }
        Ok(())
    }
}
