//! `INSERT`.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Ident, Insert, ObjectName,
    OnConflictAction, OnInsert, SelectItem, TableObject,
};
use futures::TryStreamExt;
use moirai_tables::{Changes, Index, Snapshot, Table};

use crate::database::read;
use crate::tables::casts::cast_for;
use crate::tables::catalog::StatementTables;
use crate::tables::session::{Session, Written, normal, refused, refused_as, rows_of, table_name};
use crate::tables::syntax::{self, EXCLUDED, ROWS};
use crate::tables::table::external;
use crate::tables::unique::{UniqueValues, named_values, not_unique};
use crate::tables::work::Work;
use crate::using::qualify;
use crate::{Error, Result};

/// What becomes of a row whose key is there, or whose values a unique index has.
pub(crate) enum OnConflict {
    Refuse,
    /// It is left out; where the statement names the key, for its key alone.
    Skip {
        for_key: bool,
    },
    Update(Box<DoUpdate>),
}

fn conflict_of(table: &Table, on: Option<OnInsert>) -> Result<OnConflict> {
    let on = match on {
        None => return Ok(OnConflict::Refuse),
        Some(OnInsert::OnConflict(on)) => on,
        Some(_) => return refused("ON DUPLICATE KEY is MySQL's: write ON CONFLICT DO UPDATE"),
    };
    let key: Vec<String> = key_names(table).map(str::to_owned).collect();
    let for_key = on.conflict_target.is_some();
    match &on.conflict_target {
        None => {}
        Some(ConflictTarget::Columns(columns)) => {
            let mut given: Vec<String> = columns.iter().map(normal).collect();
            let mut wanted = key.clone();
            given.sort();
            wanted.sort();
            if given != wanted {
                return refused(format!(
                    "ON CONFLICT names columns that are not the primary key of `{}`: name ({})",
                    table.name(),
                    key.join(", ")
                ));
            }
        }
        Some(ConflictTarget::OnConstraint(_)) => {
            return refused("constraints have no names: name the columns of the primary key");
        }
    }
    let is_update = matches!(on.action, OnConflictAction::DoUpdate(_));
    let has_unique = table.indexes().iter().any(|index| index.definition().is_unique);
    if key.is_empty() && (is_update || !has_unique) {
        return refused(format!("`{}` has no primary key, so nothing conflicts", table.name()));
    }
    Ok(match on.action {
        OnConflictAction::DoNothing => OnConflict::Skip { for_key },
        OnConflictAction::DoUpdate(update) => OnConflict::Update(Box::new(update)),
    })
}

pub(crate) fn key_names(table: &Table) -> impl Iterator<Item = &str> {
    let name = |column: &usize| table.schema().fields().get(*column).map(|one| one.name().as_str());
    table.definition().key().iter().filter_map(name)
}

/// The column that a name means, which may have the table's before it.
pub(crate) fn column_of(table: &Table, alias: &str, name: &ObjectName) -> Result<usize> {
    let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
    let parts: Vec<String> = parts.unwrap_or_default().into_iter().map(normal).collect();
    let name = match &parts[..] {
        [name] => name,
        [of, name] if of == alias => name,
        _ => return refused_as("42703", format!("`{name}` is no column of `{}`", table.name())),
    };
    match table.schema().index_of(name) {
        Ok(column) => Ok(column),
        Err(_) => {
            let known: Vec<&str> =
                table.schema().fields().iter().map(|field| field.name().as_str()).collect();
            let known = known.join(", ");
            let problem = format!("`{}` has no column `{name}`; it has {known}", table.name());
            refused_as("42703", problem)
        }
    }
}

/// The columns that assignments set, each with its expression.
pub(crate) fn assigned(
    table: &Table,
    alias: &str,
    assignments: Vec<Assignment>,
) -> Result<Vec<(usize, Expr)>> {
    let mut all: Vec<(usize, Expr)> = Vec::with_capacity(assignments.len());
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else {
            return refused("assign to one column at a time");
        };
        let column = column_of(table, alias, &name)?;
        if all.iter().any(|(one, _)| *one == column) {
            return refused_as("42701", format!("column `{name}` is set twice"));
        }
        all.push((column, value));
    }
    Ok(all)
}

/// Rows of arrays that are cast to the columns of a table.
pub(crate) fn rows_for(table: &Table, arrays: &[ArrayRef]) -> Result<RecordBatch> {
    let fields = table.schema().fields().iter();
    let cast = arrays.iter().zip(fields).map(|(array, field)| cast_for(table.name(), field, array));
    let cast = cast.collect::<Result<Vec<_>>>()?;
    for (array, field) in cast.iter().zip(table.schema().fields()) {
        if !field.is_nullable() && array.logical_null_count() > 0 {
            let (column, table) = (field.name(), table.name());
            let problem = format!("column `{column}` of `{table}` takes no nulls");
            return Err(Error::Rows { problem, sqlstate: "23502" });
        }
    }
    let rows = RecordBatch::try_new(Arc::clone(table.schema()), cast);
    Ok(rows.map_err(DataFusionError::from)?)
}

/// So many rows, or bytes, are loaded into an empty table, and not inserted one by one.
const LOADED_ROWS: usize = 64 << 10;
const LOADED_BYTES: usize = 64 << 20;

/// Where rows go that are inserted.
pub(crate) struct Into {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) table: Table,
    /// How the statement calls it.
    pub(crate) alias: String,
    /// Which columns of the table those of the rows are.
    pub(crate) columns: Vec<usize>,
    pub(crate) on_conflict: OnConflict,
}

/// What a column gets that is not given.
enum Default {
    Value(ScalarValue),
    /// One that may be another for each row.
    Varying(Box<Expr>),
}

impl Session {
    pub(crate) async fn insert(&self, work: &mut Work<'_>, insert: Insert) -> Result<Written> {
        let Insert { table: TableObject::TableName(name), .. } = &insert else {
            return refused("rows are inserted into tables");
        };
        let is_plain = insert.or.is_none()
            && !insert.ignore
            && !insert.overwrite
            && insert.assignments.is_empty()
            && insert.partitioned.is_none()
            && insert.after_columns.is_empty()
            && insert.output.is_none()
            && !insert.replace_into
            && insert.priority.is_none()
            && insert.insert_alias.is_none()
            && insert.settings.is_none()
            && insert.format_clause.is_none()
            && insert.multi_table_insert_type.is_none();
        if !is_plain {
            return refused(
                "this INSERT has a part that is not known here: write INSERT INTO table (columns) VALUES or SELECT, \
                 then ON CONFLICT and RETURNING",
            );
        }
        let name = table_name(name)?;
        let snapshot = Arc::clone(&work.snapshot);
        let table = self.table_at(&snapshot, &name).await?;
        let alias = insert.table_alias.as_ref().map(|alias| normal(&alias.alias));
        let alias = alias.unwrap_or(name);
        let on_conflict = conflict_of(&table, insert.on)?;
        let mut columns = Vec::with_capacity(insert.columns.len());
        for name in &insert.columns {
            let column = column_of(&table, &alias, name)?;
            if columns.contains(&column) {
                return refused_as("42701", format!("column `{name}` is named twice"));
            }
            columns.push(column);
        }
        let rows = match insert.source {
            Some(mut source) => {
                syntax::distinguish_columns(&mut source);
                let context =
                    self.context(StatementTables::of(&snapshot).await.map_err(external)?)?;
                let rows = read(&context, syntax::query_statement(*source)).await?;
                let given = rows.schema().fields().len();
                if columns.is_empty() {
                    // The first ones, as many as there are.
                    columns = (0..given.min(table.schema().fields().len())).collect();
                }
                if given != columns.len() {
                    let named = columns.len();
                    let problem = format!("{named} columns are named, and {given} are given");
                    return refused_as("42601", problem);
                }
                rows
            }
            // DEFAULT VALUES
            None => self.series(&snapshot, 1, Vec::new()).await?,
        };
        let into = Into { snapshot, table, alias, columns, on_conflict };
        self.insert_rows(work, into, rows, insert.returning).await
    }

    /// Inserts rows that come.
    pub(crate) async fn insert_rows(
        &self,
        work: &mut Work<'_>,
        into: Into,
        mut rows: SendableRecordBatchStream,
        returning: Option<Vec<SelectItem>>,
    ) -> Result<Written> {
        let Into { snapshot, table, alias, columns, on_conflict } = into;
        let mut inserting = Inserting {
            session: self,
            defaults: self.defaults(&snapshot, &table, &columns).await?,
            snapshot: Arc::clone(&snapshot),
            table: &table,
            alias: &alias,
            columns,
            on_conflict,
            keys: HashSet::new(),
            unique: UniqueValues::default(),
            work,
            rows: 0,
            returned: returning.is_some().then(Vec::new),
        };
        if matches!(inserting.on_conflict, OnConflict::Refuse) {
            inserting.work.refuse_duplicates(&table);
        }
        let is_plain = matches!(inserting.on_conflict, OnConflict::Refuse) && returning.is_none();
        let may_load =
            is_plain && inserting.work.is_alone() && self.tables.is_empty(&table).await?;
        let (mut first, mut count, mut bytes) = (Vec::new(), 0, 0);
        while may_load
            && count < LOADED_ROWS
            && bytes < LOADED_BYTES
            && let Some(batch) = rows.try_next().await?
        {
            count += batch.num_rows();
            bytes += batch.get_array_memory_size();
            first.push(batch);
        }
        if count >= LOADED_ROWS || bytes >= LOADED_BYTES {
            // Rows that others have inserted and not committed would go with the table that is replaced.
            inserting.work.lock_table(&table).await?;
            inserting.snapshot = Arc::clone(&inserting.work.snapshot);
        }
        if (count >= LOADED_ROWS || bytes >= LOADED_BYTES) && self.tables.is_empty(&table).await? {
            let mut load = self.tables.load_into(&table).await?;
            for batch in first {
                load.push(&inserting.whole(&batch).await?).await?;
            }
            while let Some(batch) = rows.try_next().await? {
                load.push(&inserting.whole(&batch).await?).await?;
            }
            let (_, rows) = load.finish().await?;
            return Ok(Written { rows, returned: None });
        }
        for batch in first {
            inserting.add(&batch).await?;
        }
        while let Some(batch) = rows.try_next().await? {
            inserting.add(&batch).await?;
        }
        let Inserting { rows, returned, .. } = inserting;
        let returned = match (returning, returned) {
            (Some(items), Some(rows)) => {
                Some(self.returned((&snapshot, &table), items, &alias, rows).await?)
            }
            _ => None,
        };
        Ok(Written { rows, returned })
    }

    /// As many rows as there are to be, of these columns; of a number where there are none.
    async fn series(
        &self,
        snapshot: &Arc<Snapshot>,
        rows: usize,
        mut items: Vec<SelectItem>,
    ) -> Result<SendableRecordBatchStream> {
        if items.is_empty() {
            items.push(syntax::item(syntax::expression("1")?, "one"));
        }
        let context = self.context(StatementTables::of(snapshot).await.map_err(external)?)?;
        read(&context, syntax::select(items, vec![syntax::series(rows)?], None)?).await
    }

    /// Of each column that is not given, what rows get there; nulls where there is nothing.
    async fn defaults(
        &self,
        snapshot: &Arc<Snapshot>,
        table: &Table,
        given: &[usize],
    ) -> Result<Vec<Option<Default>>> {
        let mut defaults: Vec<Option<Default>> = Vec::new();
        for (column, field) in table.schema().fields().iter().enumerate() {
            let text = table.definition().defaults.get(&column);
            let Some(text) = text.filter(|_| !given.contains(&column)) else {
                defaults.push(None);
                continue;
            };
            let expr = syntax::expression(text)?;
            if syntax::may_vary(&expr) {
                defaults.push(Some(Default::Varying(Box::new(expr))));
                continue;
            }
            let mut rows = self.series(snapshot, 1, vec![syntax::item(expr, "default")]).await?;
            let Some(batch) = rows.try_next().await? else { return refused("no default") };
            let array = cast_for(table.name(), field, batch.column(0))?;
            defaults.push(Some(Default::Value(ScalarValue::try_from_array(&array, 0)?)));
        }
        Ok(defaults)
    }
}

/// Rows on their way into a table.
struct Inserting<'a, 'w> {
    session: &'a Session,
    snapshot: Arc<Snapshot>,
    table: &'a Table,
    alias: &'a str,
    /// Which column of the table each of those that are given is.
    columns: Vec<usize>,
    defaults: Vec<Option<Default>>,
    on_conflict: OnConflict,
    /// The keys that the statement has put, while they are few, and the values in unique indexes.
    keys: HashSet<Vec<u8>>,
    unique: UniqueValues,
    work: &'a mut Work<'w>,
    rows: u64,
    /// The rows as they are now, where they are asked for.
    returned: Option<Vec<RecordBatch>>,
}

impl Inserting<'_, '_> {
    /// Rows with all columns, of those that are given.
    async fn whole(&self, given: &RecordBatch) -> Result<RecordBatch> {
        let (table, count) = (self.table, given.num_rows());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.defaults.len());
        for (column, default) in self.defaults.iter().enumerate() {
            let given_at = self.columns.iter().position(|one| *one == column);
            arrays.push(match (given_at, default) {
                (Some(at), _) => Arc::clone(given.column(at)),
                (None, None) => new_null_array(table.schema().field(column).data_type(), count),
                (None, Some(Default::Value(value))) => value.to_array_of_size(count)?,
                (None, Some(Default::Varying(expr))) => {
                    let items = vec![syntax::item((**expr).clone(), "default")];
                    let rows = self.session.series(&self.snapshot, count, items).await?;
                    let schema = rows.schema();
                    let batches: Vec<RecordBatch> = rows.try_collect().await?;
                    let all = datafusion::arrow::compute::concat_batches(&schema, &batches);
                    Arc::clone(all.map_err(DataFusionError::from)?.column(0))
                }
            });
        }
        rows_for(table, &arrays)
    }

    async fn add(&mut self, given: &RecordBatch) -> Result<()> {
        let (table, count) = (self.table, given.num_rows());
        let mut rows = self.whole(given).await?;
        if table.definition().key().is_empty() {
            let first = self.session.tables.row_numbers(table, count as u64).await;
            rows = table.numbered(&rows, first.map_err(external)?).map_err(external)?;
        }
        // Waits for transactions that delete or insert such rows, before a row is refused.
        let mut wanted = Changes::new();
        wanted.put(table, &rows).map_err(external)?;
        self.work.lock(&wanted).await?;
        let (fresh, conflicts) = self.divided(&rows).await?;
        if conflicts.num_rows() > 0
            && let OnConflict::Update(update) = &self.on_conflict
        {
            let update = update.clone();
            self.update(&conflicts, *update).await?;
        }
        match fresh.num_rows() == count {
            true => self.put_changes(fresh, wanted).await,
            false => self.put(fresh).await,
        }
    }

    /// Puts rows, with their numbers where the table has no key.
    async fn put(&mut self, rows: RecordBatch) -> Result<()> {
        let mut changes = Changes::new();
        changes.put(self.table, &rows).map_err(external)?;
        self.put_changes(rows, changes).await
    }

    /// Puts rows by these changes.
    async fn put_changes(&mut self, rows: RecordBatch, changes: Changes) -> Result<()> {
        let table = self.table;
        self.work.add(changes).await?;
        if self.work.finds_duplicates() {
            self.keys = HashSet::new();
        }
        let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
        self.pass(rows.project(&columns).map_err(DataFusionError::from)?);
        Ok(())
    }

    /// Refuses rows whose values another one has in a unique index.
    async fn check_unique(&mut self, rows: &RecordBatch) -> Result<()> {
        let table = self.table;
        for index in table.indexes().iter().filter(|index| index.definition().is_unique) {
            let taken = self.unique.taken(&self.snapshot, (table, index), rows, None).await?;
            if let Some(first) = taken.iter().position(|is_taken| *is_taken) {
                return Err(not_unique(table, index, &rows.slice(first, 1))?);
            }
        }
        Ok(())
    }

    fn pass(&mut self, rows: RecordBatch) {
        self.rows += rows.num_rows() as u64;
        if let Some(returned) = &mut self.returned {
            returned.push(rows);
        }
    }

    fn keys_of(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        let key = self.table.definition().key();
        key.iter().map(|column| Arc::clone(rows.column(*column))).collect()
    }

    /// Rows that are new, and those whose keys are there. Others are left out, or refused.
    async fn divided(&mut self, rows: &RecordBatch) -> Result<(RecordBatch, RecordBatch)> {
        let (table, count) = (self.table, rows.num_rows());
        let has_key = !table.definition().key().is_empty();
        let (mut lacks, mut keys) = (vec![true; count], Vec::new());
        if has_key {
            let columns = self.keys_of(rows);
            lacks = self.snapshot.lacks(table, &columns).await.map_err(external)?;
            keys = table.keys(&columns).map_err(external)?;
        }
        let unique: Vec<&Index> =
            table.indexes().iter().filter(|index| index.definition().is_unique).collect();
        // Of each index, what the snapshot has.
        let mut taken = Vec::with_capacity(unique.len());
        for index in &unique {
            let identities = index.identities(rows).map_err(external)?;
            let conflicts = self.snapshot.conflicts(table, index, rows, |_| false).await;
            taken.push((conflicts.map_err(external)?, identities));
        }
        let finds_duplicates = self.work.finds_duplicates();
        // What is left out counts for nothing: no later row conflicts with it.
        let (mut is_new, mut is_there) = (vec![false; count], vec![false; count]);
        for row in 0..count {
            let key = keys.get(row);
            let is_put = key.is_some_and(|key| self.keys.contains(key));
            if is_put || lacks.get(row) == Some(&false) {
                match &self.on_conflict {
                    OnConflict::Refuse => return Err(self.duplicate(&rows.slice(row, 1))?),
                    OnConflict::Skip { .. } => continue,
                    OnConflict::Update(_) if is_put => {
                        let problem = format!(
                            "ON CONFLICT DO UPDATE meets a row of `{}` twice: give each key once",
                            table.name()
                        );
                        return Err(Error::Rows { problem, sqlstate: "21000" });
                    }
                    OnConflict::Update(_) => {
                        self.keys.extend(key.cloned());
                        set(&mut is_there, row);
                        continue;
                    }
                }
            }
            let conflict = unique.iter().zip(&taken).find(|(index, (conflicts, identities))| {
                let identity = identities.get(row).and_then(Option::as_ref);
                conflicts.get(row) == Some(&true)
                    || identity.is_some_and(|identity| self.unique.contains(index, identity))
            });
            match (conflict, &self.on_conflict) {
                (None, _) => {}
                (Some(_), OnConflict::Skip { for_key: false }) => continue,
                (Some((index, _)), _) => {
                    return Err(not_unique(table, index, &rows.slice(row, 1))?);
                }
            }
            self.keys.extend(key.filter(|_| !finds_duplicates).cloned());
            for (index, (_, identities)) in unique.iter().zip(&taken) {
                if let Some(identity) = identities.get(row).and_then(Option::as_ref) {
                    self.unique.insert(index, identity.clone());
                }
            }
            set(&mut is_new, row);
        }
        let of = |wanted: Vec<bool>| {
            filter_record_batch(rows, &BooleanArray::from(wanted)).map_err(DataFusionError::from)
        };
        Ok((of(is_new)?, of(is_there)?))
    }

    fn duplicate(&self, rows: &RecordBatch) -> Result<Error> {
        let key = named_values(self.table, self.table.definition().key(), rows)?;
        let problem = format!("`{}` has a row with {key} already", self.table.name());
        Ok(Error::Rows { problem, sqlstate: "23505" })
    }

    /// Changes the rows that are there, where `DO UPDATE` says so.
    async fn update(&mut self, rows: &RecordBatch, update: DoUpdate) -> Result<()> {
        let (table, alias) = (self.table, self.alias);
        let mut set = assigned(table, alias, update.assignments)?;
        if set.iter().any(|(column, _)| table.definition().key().contains(column)) {
            return refused("ON CONFLICT DO UPDATE does not change keys");
        }
        let mut wanted = update.selection;
        // A name without a table is that of the row that is there.
        for expr in set.iter_mut().map(|(_, value)| value).chain(&mut wanted) {
            let columns = table.schema().fields().iter().map(|field| field.name().clone());
            qualify(expr, alias, columns);
        }
        let all: Vec<usize> = (0..table.schema().fields().len()).collect();
        let there = self.snapshot.rows(table, &self.keys_of(rows), &all).await.map_err(external)?;
        let tables = StatementTables::of(&self.snapshot).await.map_err(external)?;
        let tables = tables
            .with(ROWS, rows_of(table.schema(), vec![there])?)
            .with(EXCLUDED, rows_of(table.schema(), vec![rows.clone()])?);
        let context = self.session.context(tables)?;
        let fields = table.schema().fields().iter().enumerate();
        let items = fields.map(|(column, field)| {
            let value = set.iter().find(|(one, _)| *one == column).map(|(_, value)| value.clone());
            let value = value.unwrap_or_else(|| syntax::column(alias, field.name()));
            syntax::item(value, &format!("value {column}"))
        });
        // Behind them the rows as they are.
        let fields = table.schema().fields().iter().enumerate();
        let items = items.chain(fields.map(|(column, field)| {
            syntax::item(syntax::column(alias, field.name()), &format!("old {column}"))
        }));
        let excluded = "excluded";
        let joined = key_names(table)
            .map(|name| syntax::equal(syntax::column(alias, name), syntax::column(excluded, name)));
        let from = vec![syntax::table(ROWS, alias)?, syntax::table(EXCLUDED, excluded)?];
        let query = syntax::select(items.collect(), from, syntax::all_of(joined.chain(wanted)))?;
        let batches: Vec<RecordBatch> = read(&context, query).await?.try_collect().await?;
        for batch in batches {
            let (new, old) = batch.columns().split_at(table.schema().fields().len());
            let (new, old) = (rows_for(table, new)?, rows_for(table, old)?);
            let mut changes = Changes::new();
            for index in table.indexes() {
                changes.forget(table, index, &index.sources(&old)).map_err(external)?;
            }
            self.work.add(changes).await?;
            self.check_unique(&new).await?;
            self.put(new).await?;
        }
        Ok(())
    }
}

fn set(marks: &mut [bool], row: usize) {
    if let Some(mark) = marks.get_mut(row) {
        *mark = true;
    }
}
