//! The tables of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use moirai_btree::{CatalogChange, Reader, Relation, Store};
use moirai_pages::{PageFormat, PageSchema};
use moirai_storage::Device;
use moirai_update::{Bulk, Formats, Kinds, Options, SpaceId};
use parking_lot::Mutex;

use crate::definition::TableDefinition;
use crate::snapshot::Snapshot;
use crate::{Changes, Error, Result};

/// The tables of a store, beside its trees.
#[derive(Debug)]
pub struct Tables {
    store: Store,
    /// Held by who checks what is there before it writes.
    writing: tokio::sync::Mutex<()>,
    /// Spaces of loads that were given up.
    abandoned: Mutex<Vec<SpaceId>>,
    /// Of tables by their spaces, how many bytes a row takes.
    row_bytes: Mutex<BTreeMap<SpaceId, RowBytes>>,
}

/// How many bytes a row of a table took when some were counted, and how many bytes the table had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowBytes {
    pub(crate) of_row: f64,
    pub(crate) of_table: u64,
}

/// A table of a store.
#[derive(Clone, Debug)]
pub struct Table(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    definition: TableDefinition,
    pages: PageSchema,
    /// The columns, and that of the numbers of rows where there is no key.
    numbered: SchemaRef,
    space: SpaceId,
}

impl Table {
    /// What the numbers of rows are called, where scans show them: the column behind the others of a table without a key. No column
    /// of a table has this name.
    pub const ROW_NUMBER: &'static str = "\u{0}row number";

    /// A table in a space, whose definition has pages.
    fn of(name: &str, definition: TableDefinition, pages: PageSchema, space: SpaceId) -> Table {
        let mut fields: Vec<FieldRef> = definition.schema().fields().iter().cloned().collect();
        if definition.key().is_empty() {
            fields.push(Arc::new(Field::new(Table::ROW_NUMBER, DataType::UInt64, false)));
        }
        let numbered = Arc::new(Schema::new(fields));
        Table(Arc::new(Inner { name: name.to_owned(), definition, pages, numbered, space }))
    }

    /// The table that a relation of the catalog is.
    fn of_relation(name: &str, relation: &Relation) -> Result<Table> {
        let table = || {
            let definition = TableDefinition::decode(&relation.description)?;
            let pages = definition.page_schema()?;
            Some(Table::of(name, definition, pages, *relation.spaces.first()?))
        };
        table().ok_or_else(|| Error::Entry { name: name.to_owned() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is.
    #[must_use]
    pub fn definition(&self) -> &TableDefinition {
        &self.0.definition
    }

    /// Its columns, with the types in which they are held.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.0.definition.schema()
    }

    /// The columns, and that of the numbers of rows where there is no key.
    #[must_use]
    pub fn schema_with_row_numbers(&self) -> &SchemaRef {
        &self.0.numbered
    }

    /// Where the engine keeps it.
    #[must_use]
    pub fn space(&self) -> SpaceId {
        self.0.space
    }

    /// What its pages are.
    pub(crate) fn pages(&self) -> &PageSchema {
        &self.0.pages
    }

    pub(crate) fn rows_refused<T>(&self, problem: String) -> Result<T> {
        Err(Error::Rows { table: self.name().to_owned(), problem })
    }

    pub(crate) fn no_page(&self) -> Error {
        Error::NoPage { table: self.name().to_owned() }
    }
}

impl Tables {
    /// Opens the store on `data` and `logs` with its tables; see [`Store::open`], which needs the same `kinds`, but for those of
    /// rows.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        mut kinds: Kinds,
        options: Options,
    ) -> Result<Arc<Tables>> {
        let formats = Tables::add_to(&mut kinds)?;
        let store = Store::open_with(data, logs, (kinds, formats), options).await?;
        Ok(Tables::over(store))
    }

    /// Adds the kinds of modifications of rows to `kinds`; gives the formats of tables. A store that is opened with both may have
    /// tables.
    ///
    /// # Errors
    /// Where another kind has the number of one of these.
    pub fn add_to(kinds: &mut Kinds) -> moirai_btree::Result<Formats> {
        moirai_pages::register(kinds)?;
        Ok(PageFormat::register(Formats::new()))
    }

    /// The tables of a store that was opened with what [`Tables::add_to`] gives.
    #[must_use]
    pub fn over(store: Store) -> Arc<Tables> {
        let (abandoned, row_bytes) = (Mutex::default(), Mutex::default());
        Arc::new(Tables { store, writing: tokio::sync::Mutex::default(), abandoned, row_bytes })
    }

    /// A turn to read what is there and write what follows from it: nobody else has one until it is dropped.
    pub async fn turn(&self) -> Turn<'_> {
        Turn(self.writing.lock().await)
    }

    /// Checkpoints and ends, unless others have it, too.
    ///
    /// # Errors
    /// As of [`Store::close`].
    pub async fn close(self: Arc<Tables>) -> Result<()> {
        match Arc::try_unwrap(self) {
            Ok(tables) => Ok(tables.store.close().await?),
            Err(_) => Ok(()),
        }
    }

    /// The store: its trees, and what concerns all of it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes an empty table; durable when it returns.
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Definition`]; errors as of [`Store::begin_space`] and [`Store::change_relations`].
    pub async fn create(&self, name: &str, definition: TableDefinition) -> Result<Table> {
        self.check_new(name).await?;
        let table = self.begin(name, definition).await?;
        self.enter(&table, false).await?;
        Ok(table)
    }

    /// The table called `name`.
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::Entry`]; errors as of [`Reader::relation`].
    pub async fn table(&self, name: &str) -> Result<Table> {
        match self.find(name).await? {
            Some(table) => Ok(table),
            None => Err(self.no_table(name).await?),
        }
    }

    /// The error for a table that is not there.
    async fn no_table(&self, name: &str) -> Result<Error> {
        let names = self.names().await?;
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Ok(Error::NoTable { name: name.to_owned(), known })
    }

    /// The table called `name`, if there is one. Errors as of [`Tables::table`].
    pub async fn find(&self, name: &str) -> Result<Option<Table>> {
        find_in(self.store.now(), name).await
    }

    /// The names of all tables, in their order. Errors as of [`Reader::relations`].
    pub async fn names(&self) -> Result<Vec<String>> {
        let all = self.store.now().relations().await?;
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    /// Drops a table. Durable when it returns, and its space is free once nobody reads it any more.
    ///
    /// # Errors
    /// [`Error::NoTable`]; errors as of [`Store::change_relations`].
    pub async fn drop_table(&self, name: &str) -> Result<()> {
        if self.store.now().relation(name).await?.is_none() {
            return Err(self.no_table(name).await?);
        }
        let relations = vec![(name.to_owned(), None)];
        let change = CatalogChange { relations, ..CatalogChange::default() };
        Ok(self.store.change_relations(change).await?)
    }

    /// Commits changes of rows: all of them or none.
    ///
    /// # Errors
    /// [`Error::Dropped`]; errors as of [`moirai_update::Engine::commit`].
    pub async fn commit(&self, changes: &Changes) -> Result<()> {
        self.check(changes)?;
        Ok(self.store.engine().commit(changes.group()).await?)
    }

    /// [`Error::Dropped`] for changes of tables that were dropped or truncated.
    fn check(&self, changes: &Changes) -> Result<()> {
        match changes.tables().find(|table| self.store.is_dropped(table.space())) {
            Some(table) => Err(Error::Dropped { table: table.name().to_owned() }),
            None => Ok(()),
        }
    }

    /// Changes that are committed together, however many.
    pub fn writer(&self) -> Writer<'_> {
        Writer { tables: self, bulk: self.store.engine().bulk() }
    }

    /// Removes all rows of a table, at one moment; gives the table as it is from then on, since handles from before are of no use.
    ///
    /// # Errors
    /// [`Error::NoTable`]; errors as of [`Tables::create`].
    pub async fn truncate(&self, name: &str) -> Result<Table> {
        let definition = self.table(name).await?.definition().clone();
        let table = self.begin(name, definition).await?;
        self.enter(&table, true).await?;
        Ok(table)
    }

    /// Begins to read at this moment.
    pub async fn snapshot(self: &Arc<Tables>) -> Arc<Snapshot> {
        let point = self.store.engine().read_point().await;
        Arc::new(Snapshot::new(Arc::clone(self), point))
    }

    /// [`Error::TableExists`] where there is a table of that name.
    pub(crate) async fn check_new(&self, name: &str) -> Result<()> {
        match self.store.now().relation(name).await? {
            Some(_) => Err(Error::TableExists { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// An empty table that the catalog does not have yet.
    pub(crate) async fn begin(&self, name: &str, definition: TableDefinition) -> Result<Table> {
        definition.check(name)?;
        let abandoned = std::mem::take(&mut *self.abandoned.lock());
        for space in abandoned {
            self.store.end_space(space).await;
        }
        let Some(pages) = definition.page_schema() else {
            let problem = "a page has 1 to 1048576 rows".to_owned();
            return Err(Error::Definition { problem });
        };
        let space = self.store.begin_space(Some(&definition.space_format(&pages))).await?;
        Ok(Table::of(name, definition, pages, space))
    }

    /// Puts a table into the catalog, in the place of one of its name if that may be.
    pub(crate) async fn enter(&self, table: &Table, replaces: bool) -> Result<()> {
        let relation =
            Relation { spaces: vec![table.space()], description: table.definition().encode() };
        let relations = vec![(table.name().to_owned(), Some(relation))];
        let change = CatalogChange { relations, replaces };
        let entered = self.store.change_relations(change).await;
        if entered.is_err() {
            self.abandon(table.space());
        }
        Ok(entered?)
    }

    /// Gives up a space that no table has got: it is cleared before the next one is begun.
    pub(crate) fn abandon(&self, space: SpaceId) {
        self.abandoned.lock().push(space);
    }

    pub(crate) fn row_bytes(&self, space: SpaceId) -> Option<RowBytes> {
        self.row_bytes.lock().get(&space).copied()
    }

    pub(crate) fn note_row_bytes(&self, space: SpaceId, counted: RowBytes) {
        self.row_bytes.lock().insert(space, counted);
    }
}

/// A turn to write; see [`Tables::turn`].
#[derive(Debug)]
pub struct Turn<'a>(
    #[expect(dead_code, reason = "held until it is dropped")] tokio::sync::MutexGuard<'a, ()>,
);

/// Changes that are committed together, however many: those that log and memory do not hold go to the device in sorted runs. See
/// [`Bulk`].
#[must_use = "changes count once they are committed"]
#[derive(Debug)]
pub struct Writer<'a> {
    tables: &'a Tables,
    bulk: Bulk<'a>,
}

impl Writer<'_> {
    /// Adds changes, which come after those before them.
    ///
    /// # Errors
    /// [`Error::Dropped`]; errors as of [`Bulk::modify`].
    pub async fn add(&mut self, changes: &Changes) -> Result<()> {
        self.tables.check(changes)?;
        Ok(self.bulk.add(changes.group()).await?)
    }

    /// Commits all changes or none. Durable when it returns. Errors as of [`Bulk::commit`].
    pub async fn commit(self) -> Result<()> {
        Ok(self.bulk.commit().await?)
    }
}

pub(crate) async fn find_in(reader: Reader<'_>, name: &str) -> Result<Option<Table>> {
    let relation = reader.relation(name).await?;
    relation.map(|relation| Table::of_relation(name, &relation)).transpose()
}
