//! `UPDATE`, `DELETE` and `TRUNCATE`.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, SelectItem, TableWithJoins, Truncate, Update, UpdateTableFromKind,
};
use futures::TryStreamExt;
use moirai_tables::{Changes, Index, Layout, Snapshot, Table};

use crate::database::read;
use crate::tables::casts::cast_for;
use crate::tables::catalog::StatementTables;
use crate::tables::define::NOTHING;
use crate::tables::insert::{assigned, key_names, rows_for};
use crate::tables::session::{Session, Written, normal, refused, table_name};
use crate::tables::syntax::{self, TARGET};
use crate::tables::table::external;
use crate::tables::unique::{UniqueValues, not_unique};
use crate::tables::work::Work;
use crate::{Error, Result};

/// A table whose rows a statement changes, and how the statement calls it.
pub(crate) struct Target {
    snapshot: Arc<Snapshot>,
    pub(crate) table: Table,
    pub(crate) alias: String,
}

impl Target {
    /// The columns that say which row it is: those of the key, or the row's number.
    pub(crate) fn key_columns(&self) -> Vec<String> {
        let names: Vec<String> = key_names(&self.table).map(str::to_owned).collect();
        if names.is_empty() { vec![Table::ROW_NUMBER.to_owned()] } else { names }
    }

    /// Those of the key, then columns as `value` has them, or all, and then some as they are.
    fn items(
        &self,
        value: impl Fn(usize) -> Option<Expr>,
        has_all: bool,
        before: &[usize],
    ) -> Vec<SelectItem> {
        let keys = self.key_columns().into_iter().enumerate().map(|(part, name)| {
            syntax::item(syntax::column(&self.alias, &name), &format!("key {part}"))
        });
        let fields = self.table.schema().fields().iter().enumerate();
        let values = fields.filter_map(|(column, field)| {
            let there = || has_all.then(|| syntax::column(&self.alias, field.name()));
            let value = value(column).or_else(there)?;
            Some(syntax::item(value, &format!("value {column}")))
        });
        let fields = self.table.schema_with_row_numbers().fields();
        let before = before.iter().filter_map(|column| {
            let value = syntax::column(&self.alias, fields.get(*column)?.name());
            Some(syntax::item(value, &format!("old {column}")))
        });
        keys.chain(values).chain(before).collect()
    }

    /// The rows that a statement changes, as these columns say.
    async fn rows(
        &self,
        session: &Session,
        items: Vec<SelectItem>,
        others: Vec<TableWithJoins>,
        wanted: Option<Expr>,
    ) -> Result<SendableRecordBatchStream> {
        let tables = StatementTables::of(&self.snapshot).await.map_err(external)?;
        let context = session.context(tables.with_target(&self.table))?;
        let mut from = vec![syntax::table(TARGET, &self.alias)?];
        from.extend(others);
        read(&context, syntax::select(items, from, wanted)?).await
    }
}

impl Session {
    pub(crate) async fn target_of(
        &self,
        snapshot: &Arc<Snapshot>,
        from: &TableWithJoins,
    ) -> Result<Target> {
        if !from.joins.is_empty() {
            return refused(
                "only rows of one table can be changed: join others with FROM or USING",
            );
        }
        let Some((name, alias)) = syntax::plain_table(from) else {
            return refused("rows of a table can be changed, and all of it is meant");
        };
        let name = table_name(name)?;
        let alias = match alias {
            None => name.clone(),
            Some(alias) if alias.columns.is_empty() && alias.at.is_none() => normal(&alias.name),
            Some(_) => return refused("the columns of a table that is changed keep their names"),
        };
        let table = self.table_at(snapshot, &name).await?;
        Ok(Target { snapshot: Arc::clone(snapshot), table, alias })
    }

    pub(crate) async fn update(&self, work: &mut Work<'_>, update: Update) -> Result<Written> {
        let is_plain = update.or.is_none()
            && update.order_by.is_empty()
            && update.limit.is_none()
            && update.output.is_none();
        if !is_plain {
            return refused(
                "UPDATE has no ORDER BY, LIMIT, OUTPUT or OR here: choose rows in WHERE",
            );
        }
        let target = self.target_of(&work.snapshot, &update.table).await?;
        let table = &target.table;
        let set = assigned(table, &target.alias, update.assignments)?;
        let key = table.definition().key();
        let changes_key = set.iter().any(|(column, _)| key.contains(column));
        let indexes: Vec<&Index> = table
            .indexes()
            .iter()
            .filter(|index| changes_key || index.has_any(set.iter().map(|(column, _)| *column)))
            .collect();
        // Some fields of a record can be changed where it is not too long, and texts be set that are not too long.
        let is_text = |column: usize| {
            matches!(
                table.schema().field(column).data_type(),
                DataType::Utf8View | DataType::BinaryView
            )
        };
        let is_nsm = table.layout() == Layout::Nsm;
        let puts_rows = is_nsm && set.iter().any(|(column, _)| is_text(*column));
        let may_be_long = is_nsm && (0..table.schema().fields().len()).any(is_text);
        let has_all =
            changes_key || may_be_long || update.returning.is_some() || !indexes.is_empty();
        let has_unique = indexes.iter().any(|index| index.definition().is_unique);
        let before = Before::of(indexes);
        let others = match update.from {
            None => Vec::new(),
            Some(
                UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables),
            ) => tables,
        };
        let value = |column: usize| {
            set.iter().find(|(one, _)| *one == column).map(|(_, value)| value.clone())
        };
        let mut updating = Updating {
            target: &target,
            set: set.iter().map(|(column, _)| *column).collect(),
            has_all,
            puts_rows,
            before,
            unique: UniqueValues::default(),
            // One table alone has each of its rows once.
            touched: (changes_key || !others.is_empty() || has_unique).then(HashSet::new),
            has_new_unique: has_unique && !changes_key,
            to_check: Vec::new(),
            new_rows: changes_key.then(Vec::new),
            work,
            rows: 0,
            returned: update.returning.is_some().then(Vec::new),
        };
        let items = target.items(value, has_all, &updating.before.columns);
        let mut rows = target.rows(self, items, others, update.selection).await?;
        while let Some(batch) = rows.try_next().await? {
            for first in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                let rows = ROWS_AT_ONCE.min(batch.num_rows() - first);
                updating.add(&batch.slice(first, rows)).await?;
            }
        }
        updating.end().await?;
        let Updating { rows, returned, .. } = updating;
        let returned = match (update.returning, returned) {
            (Some(items), Some(rows)) => {
                Some(self.returned((&target.snapshot, table), items, &target.alias, rows).await?)
            }
            _ => None,
        };
        Ok(Written { rows, returned })
    }

    pub(crate) async fn delete(&self, work: &mut Work<'_>, delete: Delete) -> Result<Written> {
        let is_plain = delete.tables.is_empty()
            && delete.order_by.is_empty()
            && delete.limit.is_none()
            && delete.output.is_none();
        let from = match &delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => from,
        };
        let ([from], true) = (&from[..], is_plain) else {
            return refused("write DELETE FROM table, then USING, WHERE and RETURNING");
        };
        let target = self.target_of(&work.snapshot, from).await?;
        let table = &target.table;
        let others = delete.using.unwrap_or_default();
        // Others may find a row several times.
        let mut touched = (!others.is_empty()).then(HashSet::new);
        let before = Before::of(table.indexes().iter().collect());
        let items = target.items(|_| None, delete.returning.is_some(), &before.columns);
        let mut found = target.rows(self, items, others, delete.selection).await?;
        let (mut rows, mut returned) = (0, delete.returning.is_some().then(Vec::new));
        let key_columns = target.key_columns().len();
        while let Some(mut batch) = found.try_next().await? {
            if let Some(touched) = &mut touched {
                let keys = batch.columns().get(..key_columns).unwrap_or_default();
                let keys = table.keys(keys).map_err(external)?;
                let is_first: BooleanArray =
                    keys.into_iter().map(|key| Some(touched.insert(key))).collect();
                batch = filter_record_batch(&batch, &is_first).map_err(DataFusionError::from)?;
            }
            let (keys, rest) = batch.columns().split_at(key_columns);
            let (values, old) = before.split(rest);
            let mut changes = Changes::new();
            before.forget(&mut changes, table, old)?;
            changes.delete(table, keys).map_err(external)?;
            work.add(changes).await?;
            rows += batch.num_rows() as u64;
            if let Some(returned) = &mut returned {
                returned.push(rows_for(table, values)?);
            }
        }
        let returned = match (delete.returning, returned) {
            (Some(items), Some(rows)) => {
                Some(self.returned((&target.snapshot, table), items, &target.alias, rows).await?)
            }
            _ => None,
        };
        Ok(Written { rows, returned })
    }

    pub(crate) async fn truncate(&self, truncate: Truncate) -> Result<Written> {
        let Truncate {
            table_names,
            partitions: None,
            table: _,
            if_exists,
            identity: _,
            cascade: _,
            on_cluster: None,
        } = truncate
        else {
            return refused("tables have no partitions and no clusters: all of it is truncated");
        };
        let [one] = &table_names[..] else { return refused("truncate one table at a time") };
        let name = table_name(&one.name)?;
        if !if_exists || self.tables.find(&name).await.map_err(external)?.is_some() {
            self.tables.truncate(&name).await?;
        }
        Ok(NOTHING)
    }
}

/// Rows that are updated together: a batch may have all that wait for a partition.
const ROWS_AT_ONCE: usize = 4096;

/// The same rows, without the texts of others that their columns share buffers with.
fn without_others(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| {
        let texts = column.as_string_view_opt().map(|texts| Arc::new(texts.gc()) as ArrayRef);
        let bytes = column.as_binary_view_opt().map(|bytes| Arc::new(bytes.gc()) as ArrayRef);
        texts.or(bytes).unwrap_or_else(|| Arc::clone(column))
    });
    let columns = columns.collect();
    Ok(RecordBatch::try_new(rows.schema(), columns).map_err(DataFusionError::from)?)
}

/// Rows with their numbers behind them, where the table has no key: `keys` are these then.
fn with_numbers(table: &Table, rows: &RecordBatch, keys: &[ArrayRef]) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    if table.definition().key().is_empty() {
        columns.extend_from_slice(keys);
    }
    let schema = Arc::clone(table.schema_with_row_numbers());
    Ok(RecordBatch::try_new(schema, columns).map_err(DataFusionError::from)?)
}

/// What is read of rows to delete the entries that indexes have of them.
struct Before<'a> {
    indexes: Vec<&'a Index>,
    /// The columns of rows as they are.
    columns: Vec<usize>,
}

impl<'a> Before<'a> {
    fn of(indexes: Vec<&'a Index>) -> Before<'a> {
        let mut columns: Vec<usize> =
            indexes.iter().flat_map(|index| index.source_columns()).collect();
        columns.sort_unstable();
        columns.dedup();
        Before { indexes, columns }
    }

    /// What is before these columns, and these.
    fn split<'r>(&self, arrays: &'r [ArrayRef]) -> (&'r [ArrayRef], &'r [ArrayRef]) {
        arrays.split_at(arrays.len().saturating_sub(self.columns.len()))
    }

    /// Columns of indexes that are not set, and none of the key, with their values.
    fn others(&self, set: &[usize], table: &Table, old: &[ArrayRef]) -> Vec<(usize, ArrayRef)> {
        let (key, fields) = (table.definition().key(), table.schema().fields().len());
        let columns = self.columns.iter().copied().zip(old.iter().cloned());
        let is_other =
            |column: &usize| !set.contains(column) && !key.contains(column) && *column < fields;
        columns.filter(|(column, _)| is_other(column)).collect()
    }

    fn forget(&self, changes: &mut Changes, table: &Table, old: &[ArrayRef]) -> Result<()> {
        for index in &self.indexes {
            let place = |column: &usize| self.columns.iter().position(|one| one == column);
            let array = |column: &usize| old.get(place(column)?).cloned();
            let sources: Vec<ArrayRef> = index.source_columns().iter().filter_map(array).collect();
            changes.forget(table, index, &sources).map_err(external)?;
        }
        Ok(())
    }
}

/// Rows that are being updated.
struct Updating<'a, 'w> {
    target: &'a Target,
    /// The columns that are set.
    set: Vec<usize>,
    /// Whether rows come with all columns, or with those alone.
    has_all: bool,
    /// Whether rows are put whole.
    puts_rows: bool,
    /// Of the indexes that have columns which are set.
    before: Before<'a>,
    unique: UniqueValues,
    /// Whether values of unique indexes change, and the keys do not.
    has_new_unique: bool,
    /// Rows with a value of a unique index that others had, by the places of the indexes: some of these others may still
    /// come and leave it.
    to_check: Vec<(usize, RecordBatch)>,
    /// The keys of the rows, where they are needed.
    touched: Option<HashSet<Vec<u8>>>,
    /// The rows as they are to be, where their keys change.
    new_rows: Option<Vec<RecordBatch>>,
    work: &'a mut Work<'w>,
    rows: u64,
    returned: Option<Vec<RecordBatch>>,
}

impl<'a> Updating<'a, '_> {
    async fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let table = &self.target.table;
        let (keys, rest) = batch.columns().split_at(self.target.key_columns().len());
        let (values, old) = self.before.split(rest);
        if let Some(touched) = &mut self.touched {
            for key in table.keys(keys).map_err(external)? {
                if !touched.insert(key) {
                    let problem = format!(
                        "a row of `{}` is met twice: let FROM have one row for each",
                        table.name()
                    );
                    return Err(Error::Rows { problem, sqlstate: "21000" });
                }
            }
        }
        let mut changes = Changes::new();
        let whole = if self.has_all { Some(rows_for(table, values)?) } else { None };
        self.before.forget(&mut changes, table, old)?;
        if let (true, Some(rows)) = (self.has_new_unique, &whole) {
            self.note_taken(&with_numbers(table, rows, keys)?).await?;
        }
        match (&mut self.new_rows, &whole) {
            (Some(new_rows), Some(rows)) => {
                changes.delete(table, keys).map_err(external)?;
                new_rows.push(rows.clone());
            }
            (None, Some(rows)) if self.puts_rows || !table.takes_fields(rows) => {
                changes.put(table, &with_numbers(table, rows, keys)?).map_err(external)?;
            }
            _ => {
                // They come in the order of the columns.
                let mut columns = self.set.clone();
                columns.sort_unstable();
                let mut set: Vec<(usize, ArrayRef)> = Vec::with_capacity(columns.len());
                for (index, column) in columns.into_iter().enumerate() {
                    let field = table.schema().field(column);
                    let array = match &whole {
                        Some(rows) => Some(Arc::clone(rows.column(column))),
                        None => match values.get(index) {
                            Some(array) => Some(cast_for(table.name(), field, array)?),
                            None => None,
                        },
                    };
                    set.extend(array.map(|array| (column, array)));
                }
                let known = self.before.others(&self.set, table, old);
                changes.set(table, keys, &set, &known).map_err(external)?;
            }
        }
        self.work.add(changes).await?;
        self.rows += batch.num_rows() as u64;
        if let Some(returned) = &mut self.returned {
            returned.extend(whole);
        }
        Ok(())
    }

    /// The unique indexes that have columns which are set, with their places.
    fn unique_indexes(&self) -> impl Iterator<Item = (usize, &'a Index)> {
        let indexes = self.before.indexes.iter().copied().enumerate();
        indexes.filter(|(_, index)| index.definition().is_unique)
    }

    /// Keeps rows with values that others have by now, to look at them again at the end.
    async fn note_taken(&mut self, rows: &RecordBatch) -> Result<()> {
        let (table, snapshot) = (&self.target.table, &self.target.snapshot);
        let mut to_check = Vec::new();
        let mut unique = std::mem::take(&mut self.unique);
        for (place, index) in self.unique_indexes() {
            let left = self.touched.as_ref();
            let taken = unique.taken(snapshot, (table, index), rows, left).await?;
            if taken.contains(&true) {
                let taken = BooleanArray::from(taken);
                let rows = filter_record_batch(rows, &taken).map_err(DataFusionError::from)?;
                to_check.push((place, without_others(&rows)?));
            }
        }
        self.unique = unique;
        self.to_check.append(&mut to_check);
        Ok(())
    }

    /// Refuses rows with values that others have in a unique index. Call it once all rows are in `touched`: their old values no
    /// longer count.
    async fn check_unique(&mut self, index: &Index, rows: &RecordBatch) -> Result<()> {
        let (table, snapshot) = (&self.target.table, &self.target.snapshot);
        let left = self.touched.as_ref();
        let taken = self.unique.taken(snapshot, (table, index), rows, left).await?;
        match taken.iter().position(|is_taken| *is_taken) {
            Some(first) => Err(not_unique(table, index, &rows.slice(first, 1))?),
            None => Ok(()),
        }
    }

    /// Ends the statement: what needs all of its rows.
    async fn end(&mut self) -> Result<()> {
        for (place, rows) in std::mem::take(&mut self.to_check) {
            if let Some(index) = self.before.indexes.get(place).copied() {
                self.check_unique(index, &rows).await?;
            }
        }
        self.put_new_rows().await
    }

    /// Puts rows whose keys have changed, where no other row has these.
    async fn put_new_rows(&mut self) -> Result<()> {
        let table = &self.target.table;
        let mut new = HashSet::new();
        for rows in self.new_rows.take().into_iter().flatten() {
            let columns = table.definition().key().iter();
            let columns: Vec<ArrayRef> =
                columns.map(|column| Arc::clone(rows.column(*column))).collect();
            let lacks = self.target.snapshot.lacks(table, &columns).await.map_err(external)?;
            let keys = table.keys(&columns).map_err(external)?;
            for (key, lacks) in keys.into_iter().zip(lacks) {
                let is_left = self.touched.as_ref().is_some_and(|touched| touched.contains(&key));
                if !(lacks || is_left) || !new.insert(key) {
                    let problem = format!("two rows of `{}` would have the same key", table.name());
                    return Err(Error::Rows { problem, sqlstate: "23505" });
                }
            }
            let unique: Vec<&Index> = self.unique_indexes().map(|(_, index)| index).collect();
            for index in unique {
                self.check_unique(index, &rows).await?;
            }
            let table = &self.target.table;
            let mut changes = Changes::new();
            changes.put(table, &rows).map_err(external)?;
            self.work.add(changes).await?;
        }
        Ok(())
    }
}
