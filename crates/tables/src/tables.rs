//! The tables of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_btree::{CatalogChange, Store};
use moirai_pages::PageFormat;
use moirai_storage::Device;
use moirai_units::ByteCount;
use moirai_update::{At, Bulk, Formats, Kinds, Options, SpaceId};
use parking_lot::Mutex;

use crate::definition::{Layout, PageOptions, TableDefinition};
use crate::rows::{key_text, page_reader, rows_of};
use crate::table::{Replace, Table, find_in};
use crate::{Changes, Error, Result};

/// The tables of a store, beside its trees.
#[derive(Debug)]
pub struct Tables {
    pub(crate) store: Store,
    /// Held by statements that make, change or drop tables.
    writing: tokio::sync::Mutex<()>,
    /// Held for reading by who commits changes of rows, and for writing by who changes what tables are.
    pub(crate) defining: tokio::sync::RwLock<()>,
    /// Of tables by their spaces, the spaces of their indexes, where these have changed since the store was opened.
    pub(crate) indexed: Mutex<BTreeMap<SpaceId, Vec<SpaceId>>>,
    /// Spaces of loads that were given up.
    abandoned: Mutex<Vec<SpaceId>>,
    /// Of tables without a key by their spaces, the number of the next row.
    pub(crate) row_numbers: tokio::sync::Mutex<BTreeMap<SpaceId, u64>>,
    /// Of tables by their spaces, how many bytes a row takes.
    row_bytes: Mutex<BTreeMap<SpaceId, RowBytes>>,
    #[cfg(feature = "canary")]
    canary: Mutex<Canary>,
}

/// A mistake on purpose.
#[cfg(feature = "canary")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Canary {
    /// None.
    #[default]
    None,
    /// Who reads by an index takes entries whose rows have other values by now.
    StaleEntry,
    /// Whoever reads a range of rows gets all rows of its first and its last page.
    WholePages,
}

/// How many bytes a row of a table took when some were counted, and how many bytes the table had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowBytes {
    pub(crate) of_row: f64,
    pub(crate) of_table: u64,
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
        Arc::new(Tables {
            store,
            writing: tokio::sync::Mutex::default(),
            defining: tokio::sync::RwLock::default(),
            indexed: Mutex::default(),
            abandoned: Mutex::default(),
            row_numbers: tokio::sync::Mutex::default(),
            row_bytes: Mutex::default(),
            #[cfg(feature = "canary")]
            canary: Mutex::default(),
        })
    }

    /// A turn to change what tables there are, for statements that read the catalog before: nobody else has one until it is dropped.
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

    /// Makes a mistake from now on.
    #[cfg(feature = "canary")]
    #[doc(hidden)]
    pub fn set_canary(&self, canary: Canary) {
        *self.canary.lock() = canary;
    }

    #[cfg(feature = "canary")]
    pub(crate) fn has_canary(&self, canary: Canary) -> bool {
        *self.canary.lock() == canary
    }

    /// The store: its trees, and what concerns all of it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How pages of new tables are made in this layout, on the device of this store.
    #[must_use]
    pub fn page_options(&self, layout: Layout) -> PageOptions {
        PageOptions::for_device(layout, ByteCount(self.store.engine().figures().data_bytes))
    }

    /// Makes an empty table; durable when it returns.
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Definition`]; errors as of [`Store::begin_space`] and [`Store::change_relations`].
    pub async fn create(&self, name: &str, definition: TableDefinition) -> Result<Table> {
        self.check_new(name).await?;
        let table = self.begin(name, definition).await?;
        self.enter(&table, &Replace::Nothing).await?;
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
        let _defining = self.define().await?;
        Ok(self.store.change_relations(change).await?)
    }

    /// Commits changes of rows: all of them or none.
    ///
    /// # Errors
    /// [`Error::Dropped`], [`Error::Altered`]; errors as of [`moirai_update::Engine::commit`].
    pub async fn commit(&self, changes: &Changes) -> Result<()> {
        let _defining = self.defining.read().await;
        self.check(changes.tables())?;
        Ok(self.store.engine().commit(changes.group()).await?)
    }

    /// A turn to change what tables are: no changes of rows are committed until it is dropped, and those that were appended to the log are
    /// there, also where nobody waits for them.
    pub(crate) async fn define(&self) -> Result<tokio::sync::RwLockWriteGuard<'_, ()>> {
        let defining = self.defining.write().await;
        self.store.barrier().await?;
        Ok(defining)
    }

    /// An error where one of these tables is not as the store has it: it was dropped or truncated, or has other indexes.
    pub(crate) fn check<'t>(&self, tables: impl IntoIterator<Item = &'t Table>) -> Result<()> {
        for table in tables {
            let name = || table.name().to_owned();
            if self.store.is_dropped(table.space()) {
                return Err(Error::Dropped { table: name() });
            }
            let indexed = self.indexed.lock();
            let spaces = table.spaces();
            if indexed.get(&table.space()).is_some_and(|now| Some(&now[..]) != spaces.get(1..)) {
                return Err(Error::Altered { table: name() });
            }
        }
        Ok(())
    }

    /// Changes that are committed together, however many.
    pub fn writer(&self) -> Writer<'_> {
        Writer { tables: self, changed: Vec::new(), bulk: self.store.engine().bulk() }
    }

    /// Removes all rows of a table, at one moment; gives the table as it is from then on, since handles from before are of no use.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::Altered`] where somebody else changed what the table is meanwhile; errors as of [`Tables::create`].
    pub async fn truncate(&self, name: &str) -> Result<Table> {
        let old = self.table(name).await?;
        let table = self.begin(name, old.definition().clone()).await?;
        self.enter(&table, &Replace::Table(old)).await?;
        Ok(table)
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
        let mut spaces =
            vec![self.store.begin_space(Some(&definition.space_format(&pages))).await?];
        for index in 0..definition.indexes().len() {
            match self.begin_index(&definition, index).await {
                Ok(space) => spaces.push(space),
                Err(error) => {
                    self.abandon(spaces);
                    return Err(error);
                }
            }
        }
        Table::in_spaces(name, definition, &spaces).inspect_err(|_| self.abandon(spaces))
    }

    /// Puts a table into the catalog, in the place of one of its name if that may be.
    pub(crate) async fn enter(&self, table: &Table, replace: &Replace) -> Result<()> {
        let _defining = self.define().await?;
        let entered = async {
            if let Replace::Table(old) | Replace::Empty(old) = replace {
                let now = self.table(old.name()).await?;
                if now.spaces() != old.spaces() {
                    return Err(Error::Altered { table: old.name().to_owned() });
                }
                if matches!(replace, Replace::Empty(_)) && !self.is_empty(old).await? {
                    return Err(Error::NotEmpty { name: old.name().to_owned() });
                }
            }
            let (name, relation) = table.relation();
            let relations = vec![(name, Some(relation))];
            let replaces = !matches!(replace, Replace::Nothing);
            Ok(self.store.change_relations(CatalogChange { relations, replaces }).await?)
        };
        entered.await.inspect_err(|_| self.abandon(table.spaces()))
    }

    /// Whether a table has no rows.
    ///
    /// # Errors
    /// [`Error::NoPage`]; errors as of [`moirai_update::Reader`].
    pub async fn is_empty(&self, table: &Table) -> Result<bool> {
        Ok(self.count_rows(table, 1).await? == 0)
    }

    /// The rows that a table has now, all of them or `most` and more.
    pub(crate) async fn count_rows(&self, table: &Table, most: u64) -> Result<u64> {
        let reader = page_reader(table, self.store.engine().now());
        let mut views = reader.views(table.space(), At::Key(&[]), 64, |_| true);
        let mut rows = 0;
        while rows < most
            && let Some(view) = views.next().await.transpose()?
        {
            rows += rows_of(table, &view)?;
        }
        Ok(rows)
    }

    /// Gives up spaces that no table has got: they are cleared before the next one is begun.
    pub(crate) fn abandon(&self, spaces: impl IntoIterator<Item = SpaceId>) {
        self.abandoned.lock().extend(spaces);
    }

    pub(crate) fn row_bytes(&self, space: SpaceId) -> Option<RowBytes> {
        self.row_bytes.lock().get(&space).copied()
    }

    pub(crate) fn note_row_bytes(&self, space: SpaceId, counted: RowBytes) {
        self.row_bytes.lock().insert(space, counted);
    }
}

/// A turn to change what tables there are; see [`Tables::turn`].
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
    /// The tables that it changes.
    changed: Vec<Table>,
    bulk: Bulk<'a>,
}

impl<'a> Writer<'a> {
    /// The tables that it changes.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.changed.iter()
    }

    /// Adds changes, which come after those before them. Errors as of [`Bulk::modify`].
    pub async fn add(&mut self, changes: &Changes) -> Result<()> {
        for table in changes.tables() {
            if self.changed.iter().all(|one| one.spaces() != table.spaces()) {
                self.changed.push(table.clone());
            }
        }
        Ok(self.bulk.add(changes.group()).await?)
    }

    /// Has the commit refuse two rows with the same key ([`Error::DuplicateKey`]): what puts new rows of this table need not remember
    /// all of their keys.
    pub fn refuse_duplicates(&mut self, table: &Table) {
        self.bulk.refuse_duplicates(table.space());
    }

    /// Commits all changes or none. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Dropped`], [`Error::Altered`]; errors as of [`Bulk::commit`].
    pub async fn commit(self) -> Result<()> {
        let _defining = self.tables.defining.read().await;
        let (changed, bulk) = self.checked()?;
        bulk.commit().await.map_err(|error| named(&changed, error.into()))
    }

    /// The tables, which are what they were, and the changes. The caller keeps them so.
    pub(crate) fn checked(self) -> Result<(Vec<Table>, Bulk<'a>)> {
        self.tables.check(&self.changed)?;
        Ok((self.changed, self.bulk))
    }
}

/// An error of a commit, which names the table and the key that has two rows.
pub(crate) fn named(changed: &[Table], error: Error) -> Error {
    let Error::Store(moirai_btree::Error::Update(moirai_update::Error::DuplicateKey {
        space,
        key,
    })) = &error
    else {
        return error;
    };
    let Some(table) = changed.iter().find(|table| table.space() == *space) else { return error };
    let key = key_text(table, key);
    Error::DuplicateKey { table: table.name().to_owned(), key }
}
