//! Statements that name single rows by their keys, or a few by the beginning of a key or an index: they become operations on the store,
//! without DataFusion, whose planning takes longer than such a statement.
//!
//! Only what is plain is taken: columns, constants that are values of their columns as they are, sums and differences. Everything else,
//! and everything that goes wrong with a value, is left to the other path, whose errors and conversions hold. Each step can say so until
//! something is changed.

pub(crate) mod shape;
pub(crate) mod value;

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Statement as SqlStatement};
use moirai_tables::{
    Datum, Index, Layout, LockWait, Locked, Row, Snapshot, Table, Tables, Transaction,
};

use crate::Result;
use crate::tables::point::shape::{Conditions, Named, Shape};
use crate::tables::point::value::{Operand, Term};
use crate::tables::prepared::Compiled;
use crate::tables::session::Written;

/// Rows of an answer at most; a longer one is computed as it is read.
const ROWS_MAX: usize = 4096;
/// Bytes of a row at most whose fields are set one by one.
const ROW_BYTES_MAX: usize = 1 << 20;

/// A statement on single rows of a table, in which parameters may stand for values.
#[derive(Debug)]
pub(crate) struct PointStatement {
    table: Table,
    act: Act,
}

#[derive(Debug)]
enum Act {
    Select {
        columns: Vec<usize>,
        schema: SchemaRef,
        rows: Rows,
        limit: Option<Operand>,
        lock: Option<LockWait>,
    },
    Insert {
        rows: Vec<Vec<Option<Operand>>>,
    },
    Update {
        keys: Keys,
        set: Vec<(usize, Term)>,
    },
    Delete {
        keys: Keys,
    },
}

/// Which rows are meant.
#[derive(Debug)]
enum Rows {
    Keys(Keys),
    /// Those whose keys begin with these values.
    KeyPrefix(Vec<Operand>),
    /// Those with these values in the first columns of the index of this place.
    IndexPrefix(usize, Vec<Operand>),
}

/// The keys of rows: of columns of the key, the values that they may have together. Each column is in one of these lists.
#[derive(Debug)]
struct Keys(Vec<(Vec<usize>, Vec<Vec<Operand>>)>);

impl PointStatement {
    /// Compiles a statement, if it is one on single rows of a table.
    pub(crate) async fn compile(
        tables: &Arc<Tables>,
        statement: &SqlStatement,
    ) -> Result<Compiled> {
        let Some((named, shape)) = Shape::of(statement) else { return Ok(Compiled::No) };
        let Some(table) = tables.find(&named.name).await? else { return Ok(Compiled::Unknown) };
        Ok(match Act::of(&table, &named, shape) {
            Some(act) => Compiled::Point(Arc::new(PointStatement { table, act })),
            None => Compiled::Unknown,
        })
    }

    /// The table that it was compiled for.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether it changes rows that are there.
    pub(crate) fn changes_rows(&self) -> bool {
        matches!(self.act, Act::Update { .. } | Act::Delete { .. })
    }

    /// Whether it changes rows, or locks them.
    pub(crate) fn is_of_transaction(&self) -> bool {
        !matches!(self.act, Act::Select { lock: None, .. })
    }

    /// Whether it changes rows.
    fn writes(&self) -> bool {
        !matches!(self.act, Act::Select { .. })
    }

    /// What it reads in a snapshot; nothing where another path is to say it.
    pub(crate) async fn read(
        &self,
        snapshot: &Arc<Snapshot>,
        parameters: &[ScalarValue],
    ) -> Result<Option<Written>> {
        let (table, Act::Select { columns, schema, rows, limit, .. }) = (&self.table, &self.act)
        else {
            return Ok(None);
        };
        let Some(most) = most_of(limit.as_ref(), parameters) else { return Ok(None) };
        if !snapshot.shows(table).await? {
            return Ok(None);
        }
        let prefix = |values: &[Operand], of: &[usize]| values_of(table, of, values, parameters);
        let found = match rows {
            Rows::Keys(keys) => {
                let Some(keys) = keys.of(table, parameters)? else { return Ok(None) };
                if keys.len() > most {
                    // Which of them are there is not known.
                    return Ok(None);
                }
                return answer(schema, snapshot.rows_of(table, &keys, columns).await?);
            }
            Rows::KeyPrefix(values) => {
                let Some(values) = prefix(values, table.definition().key()) else {
                    return Ok(None);
                };
                let prefix = table.key_of(&values)?;
                snapshot.first_rows(table, (&prefix, &[]), columns, most).await?
            }
            Rows::IndexPrefix(place, values) => {
                let Some(index) = table.indexes().get(*place) else { return Ok(None) };
                let Some(values) = prefix(values, &index.definition().columns) else {
                    return Ok(None);
                };
                snapshot.rows_by_index((table, index), &values, columns, most).await?
            }
        };
        if found.len() > ROWS_MAX {
            return Ok(None);
        }
        answer(schema, table.batch_with(columns, &found)?)
    }

    /// Carries it out in a transaction; nothing, and nothing is changed, where another path is to do it.
    pub(crate) async fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[ScalarValue],
    ) -> Result<Option<Written>> {
        let table = &self.table;
        if self.writes() {
            // Also where no row would be changed.
            transaction.check_writes()?;
        }
        let rows = match &self.act {
            Act::Select { columns, schema, rows: Rows::Keys(keys), lock: Some(wait), .. } => {
                let Some(keys) = keys.of(table, parameters)? else { return Ok(None) };
                let Some(found) = self.locked(transaction, &keys, *wait).await? else {
                    return Ok(None);
                };
                let rows = found.into_iter().flatten().map(|row| {
                    columns.iter().filter_map(|column| row.get(*column).cloned()).collect()
                });
                return answer(schema, table.batch_with(columns, &rows.collect::<Vec<Row>>())?);
            }
            Act::Select { .. } => return Ok(None),
            Act::Insert { rows } => self.insert(transaction, rows, parameters).await?,
            Act::Update { keys, set } => {
                self.change(transaction, keys, Some(set), parameters).await?
            }
            Act::Delete { keys } => self.change(transaction, keys, None, parameters).await?,
        };
        Ok(rows.map(|rows| Written { rows, returned: None }))
    }

    /// The rows with these keys that are there, locked, with all columns; without those that are to be skipped. Nothing where the table is no
    /// longer what it was. What is not there is not locked.
    async fn locked(
        &self,
        transaction: &mut Transaction,
        keys: &[Vec<u8>],
        wait: LockWait,
    ) -> Result<Option<Vec<Option<Row>>>> {
        let table = &self.table;
        let all: Vec<usize> = (0..table.schema().fields().len()).collect();
        loop {
            let snapshot = transaction.snapshot().await?;
            if !snapshot.shows(table).await? {
                return Ok(None);
            }
            let mut found = snapshot.get_rows(table, keys, &all).await?;
            let there = keys.iter().zip(&found).filter(|(_, row)| row.is_some());
            let there: Vec<Vec<u8>> = there.map(|(key, _)| key.clone()).collect();
            let (are_locked, locked) = transaction.lock_rows(table, &there, wait).await?;
            // Another transaction changed a row before this one had locked it. Under read committed, read all of them again.
            if locked == Locked::Stale {
                continue;
            }
            let mut are_locked = are_locked.into_iter();
            for row in found.iter_mut().filter(|row| row.is_some()) {
                if !are_locked.next().unwrap_or(false) {
                    *row = None;
                }
            }
            return Ok(Some(found));
        }
    }

    /// Whether rows with some of these keys are there, now that they are locked; nothing as for [`PointStatement::locked`].
    async fn has_any(
        &self,
        transaction: &mut Transaction,
        keys: &[Vec<u8>],
    ) -> Result<Option<bool>> {
        let table = &self.table;
        transaction.lock_rows(table, keys, LockWait::Wait).await?;
        let snapshot = transaction.snapshot().await?;
        if !snapshot.shows(table).await? {
            return Ok(None);
        }
        let found = snapshot.get_rows(table, keys, &[]).await?;
        Ok(Some(found.iter().any(Option::is_some)))
    }

    async fn insert(
        &self,
        transaction: &mut Transaction,
        rows: &[Vec<Option<Operand>>],
        parameters: &[ScalarValue],
    ) -> Result<Option<u64>> {
        let (table, mut new) = (&self.table, Vec::with_capacity(rows.len()));
        for row in rows {
            let fields = table.schema().fields().iter().zip(row);
            let row = fields.map(|(field, value)| match value {
                Some(value) => value.datum(parameters, field.data_type()),
                None => Some(Datum::Null),
            });
            match row.collect::<Option<Row>>() {
                Some(row) if takes(table, &row) => new.push(row),
                _ => return Ok(None),
            }
        }
        let of_key = |row: &Row| -> Row {
            table.definition().key().iter().filter_map(|column| row.get(*column).cloned()).collect()
        };
        let mut keys = new
            .iter()
            .map(|row| table.key_of(&of_key(row)))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        // Keys that come twice, or are there, are refused.
        if keys.len() < count || self.has_any(transaction, &keys).await? != Some(false) {
            return Ok(None);
        }
        for row in &new {
            transaction.put_row(table, row).await?;
        }
        Ok(Some(new.len() as u64))
    }

    /// Sets fields of rows, or deletes them; tells how many there were.
    async fn change(
        &self,
        transaction: &mut Transaction,
        keys: &Keys,
        set: Option<&Vec<(usize, Term)>>,
        parameters: &[ScalarValue],
    ) -> Result<Option<u64>> {
        let table = &self.table;
        let is_of = |(column, term): &(usize, Term)| {
            term.is_of(parameters, table.schema().field(*column).data_type())
        };
        if !set.into_iter().flatten().all(is_of) {
            return Ok(None);
        }
        let Some(keys) = keys.of(table, parameters)? else { return Ok(None) };
        let Some(found) = self.locked(transaction, &keys, LockWait::Wait).await? else {
            return Ok(None);
        };
        let mut changes = Vec::new();
        for old in found.into_iter().flatten() {
            let mut new = old.clone();
            for (column, term) in set.into_iter().flatten() {
                let data_type = table.schema().field(*column).data_type();
                let value = term.datum(parameters, &old, data_type);
                match (value, new.get_mut(*column)) {
                    (Some(value), Some(place)) => *place = value,
                    _ => return Ok(None),
                }
            }
            if !takes(table, &new) || !takes(table, &old) {
                return Ok(None);
            }
            changes.push((old, new));
        }
        for (old, new) in &changes {
            match set {
                Some(_) => transaction.replace_row(table, old, new).await?,
                None => transaction.remove_row(table, old).await?,
            }
        }
        Ok(Some(changes.len() as u64))
    }
}

/// Whether a row has values where it must, and is not so long that its fields are not set one by one.
fn takes(table: &Table, row: &Row) -> bool {
    let bytes = |value: &Datum| if let Datum::Bytes(bytes) = value { bytes.len() } else { 0 };
    let is_whole = row
        .iter()
        .zip(table.schema().fields())
        .all(|(value, field)| *value != Datum::Null || field.is_nullable());
    is_whole
        && (table.layout() != Layout::Nsm || row.iter().map(bytes).sum::<usize>() <= ROW_BYTES_MAX)
}

/// A batch with the names that the statement gives its columns.
fn answer(schema: &SchemaRef, rows: RecordBatch) -> Result<Option<Written>> {
    let rows = RecordBatch::try_new(Arc::clone(schema), rows.columns().to_vec());
    let rows = rows.map_err(DataFusionError::from)?;
    Ok(Some(Written { rows: rows.num_rows() as u64, returned: Some(vec![rows]) }))
}

/// How many rows a statement reads at most: one more than it may answer here, where it has no limit.
fn most_of(limit: Option<&Operand>, parameters: &[ScalarValue]) -> Option<usize> {
    let Some(limit) = limit else { return Some(ROWS_MAX + 1) };
    if !limit.is_integer(parameters) {
        return None;
    }
    match limit.datum(parameters, &DataType::UInt64)? {
        Datum::Number(limit) => usize::try_from(limit).ok().filter(|limit| *limit <= ROWS_MAX),
        _ => None,
    }
}

/// Values of columns, none of which is a null.
fn values_of(
    table: &Table,
    columns: &[usize],
    values: &[Operand],
    parameters: &[ScalarValue],
) -> Option<Row> {
    let value = |(column, value): (&usize, &Operand)| {
        let datum = value.datum(parameters, table.schema().field(*column).data_type())?;
        (datum != Datum::Null).then_some(datum)
    };
    columns.iter().zip(values).map(value).collect()
}

impl Keys {
    /// The lists of values where they are of all columns of the key and of no others.
    fn of_conditions(
        table: &Table,
        conditions: &[(Vec<usize>, Vec<Vec<Operand>>)],
    ) -> Option<Keys> {
        let mut named: Vec<usize> =
            conditions.iter().flat_map(|(columns, _)| columns).copied().collect();
        let mut key = table.definition().key().to_vec();
        named.sort_unstable();
        key.sort_unstable();
        (named == key && !key.is_empty()).then(|| Keys(conditions.to_vec()))
    }

    /// The keys, in their order.
    fn of(&self, table: &Table, parameters: &[ScalarValue]) -> Result<Option<Vec<Vec<u8>>>> {
        let key = table.definition().key();
        let mut rows: Vec<Row> = vec![vec![Datum::Null; key.len()]];
        for (columns, lists) in &self.0 {
            let mut longer = Vec::with_capacity(rows.len() * lists.len());
            for values in lists {
                let Some(values) = values_of(table, columns, values, parameters) else {
                    return Ok(None);
                };
                for row in &rows {
                    let mut row = row.clone();
                    for (column, value) in columns.iter().zip(&values) {
                        let place = key.iter().position(|one| one == column);
                        if let Some(place) = place.and_then(|place| row.get_mut(place)) {
                            place.clone_from(value);
                        }
                    }
                    longer.push(row);
                }
            }
            rows = longer;
        }
        let mut keys =
            rows.iter().map(|row| table.key_of(row)).collect::<std::result::Result<Vec<_>, _>>()?;
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(keys))
    }
}

impl Act {
    fn of(table: &Table, named: &Named, shape: Shape) -> Option<Act> {
        let column = |name: &String| table.schema().index_of(name).ok();
        let columns_of = |conditions: Conditions| {
            let of = |(names, values): (Vec<String>, _)| {
                Some((names.iter().map(column).collect::<Option<Vec<usize>>>()?, values))
            };
            conditions.into_iter().map(of).collect::<Option<Vec<_>>>()
        };
        match shape {
            Shape::Select { items, conditions, order, limit, lock } => {
                // ORDER BY means columns of the answer before those of the table.
                let is_other =
                    |(column, alias): &(String, String)| column != alias && order.contains(alias);
                if items.iter().flatten().any(is_other) {
                    return None;
                }
                let (columns, schema) = answer_of(table, items)?;
                let order = order.iter().map(column).collect::<Option<Vec<_>>>()?;
                let conditions = columns_of(conditions)?;
                let rows = Rows::of(table, &conditions, &order)?;
                if lock.is_some() && (limit.is_some() || !matches!(rows, Rows::Keys(_))) {
                    return None;
                }
                Some(Act::Select { columns, schema, rows, limit, lock })
            }
            Shape::Insert { columns, rows } => {
                let definition = table.definition();
                let fields = table.schema().fields().len();
                let columns = match columns.is_empty() {
                    true => (0..fields).collect(),
                    false => columns.iter().map(column).collect::<Option<Vec<_>>>()?,
                };
                let has_unique = table.indexes().iter().any(|index| index.definition().is_unique);
                if definition.key().is_empty() || has_unique || !definition.defaults.is_empty() {
                    return None;
                }
                let row = |values: Vec<Operand>| {
                    let mut row = vec![None; fields];
                    if values.len() != columns.len() {
                        return None;
                    }
                    for (column, value) in columns.iter().zip(values) {
                        // One that is named twice is refused.
                        if row.get_mut(*column)?.replace(value).is_some() {
                            return None;
                        }
                    }
                    Some(row)
                };
                Some(Act::Insert { rows: rows.into_iter().map(row).collect::<Option<Vec<_>>>()? })
            }
            Shape::Update { set, conditions } => {
                let keys = Keys::of_conditions(table, &columns_of(conditions)?)?;
                let of = |expr: &Expr| {
                    let column = column(&named.column(expr)?)?;
                    Some((column, table.schema().field(column).data_type().clone()))
                };
                let term =
                    |(name, value): &(String, Expr)| Some((column(name)?, Term::of(value, &of)?));
                let set = set.iter().map(term).collect::<Option<Vec<_>>>()?;
                let is_fixed = |column: usize| {
                    let is_unique = |index: &Index| {
                        index.definition().is_unique && index.has_any(std::iter::once(column))
                    };
                    table.definition().key().contains(&column)
                        || table.indexes().iter().any(is_unique)
                };
                let mut columns: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
                columns.sort_unstable();
                let is_twice =
                    columns.windows(2).any(|pair| matches!(pair, [one, next] if one == next));
                let is_refused = is_twice || columns.into_iter().any(is_fixed);
                (!is_refused).then_some(Act::Update { keys, set })
            }
            Shape::Delete { conditions } => {
                Some(Act::Delete { keys: Keys::of_conditions(table, &columns_of(conditions)?)? })
            }
        }
    }
}

/// The columns of an answer, and its schema.
fn answer_of(
    table: &Table,
    items: Vec<Option<(String, String)>>,
) -> Option<(Vec<usize>, SchemaRef)> {
    let all = table.schema().fields();
    let (mut columns, mut fields) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            None => {
                columns.extend(0..all.len());
                fields.extend(all.iter().map(|field| Field::clone(field)));
            }
            Some((name, alias)) => {
                let column = table.schema().index_of(&name).ok()?;
                columns.push(column);
                fields.push(table.schema().field(column).clone().with_name(alias));
            }
        }
    }
    // DataFusion refuses names that come twice.
    let mut names: Vec<&String> = fields.iter().map(Field::name).collect();
    names.sort_unstable();
    let is_twice = names.windows(2).any(|pair| matches!(pair, [one, next] if one == next));
    (!is_twice).then(|| (columns, Arc::new(Schema::new(fields))))
}

impl Rows {
    fn of(
        table: &Table,
        conditions: &[(Vec<usize>, Vec<Vec<Operand>>)],
        order: &[usize],
    ) -> Option<Rows> {
        let key = table.definition().key();
        if let Some(keys) = Keys::of_conditions(table, conditions) {
            return key.starts_with(order).then_some(Rows::Keys(keys));
        }
        // Each of the others has one value.
        let mut values = Vec::with_capacity(conditions.len());
        for (columns, lists) in conditions {
            let ([column], [list]) = (&columns[..], &lists[..]) else { return None };
            let [value] = &list[..] else { return None };
            values.push((*column, value));
        }
        let prefix = |columns: &[usize]| {
            let first = columns.get(..values.len())?;
            let value = |column: &usize| {
                let mut all = values.iter().filter(|(one, _)| one == column);
                all.next().map(|(_, value)| (*value).clone())
            };
            first.iter().map(value).collect::<Option<Vec<Operand>>>()
        };
        // What is left of the order when columns with one value are left out.
        let rest: Vec<usize> = order
            .iter()
            .copied()
            .filter(|column| values.iter().all(|(one, _)| one != column))
            .collect();
        let behind = key.get(values.len()..).unwrap_or_default();
        if let Some(values) = prefix(key).filter(|_| behind.starts_with(&rest)) {
            return Some(Rows::KeyPrefix(values));
        }
        let indexes = table.indexes().iter().enumerate();
        let mut by_index = indexes.filter_map(|(place, index)| {
            let columns = &index.definition().columns;
            let values = prefix(columns)?;
            let behind = columns.get(values.len()..).unwrap_or_default();
            behind.starts_with(&rest).then_some((place, values))
        });
        let (place, values) = by_index.next()?;
        Some(Rows::IndexPrefix(place, values))
    }
}
