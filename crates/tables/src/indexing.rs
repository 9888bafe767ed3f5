//! Making indexes of tables, and dropping them.

use std::sync::Arc;

use moirai_btree::CatalogChange;
use moirai_update::{Group, SpaceId};

use crate::definition::{Entries, IndexDefinition, TableDefinition};
use crate::index::Index;
use crate::scan::ScanOptions;
use crate::table::Table;
use crate::tables::Tables;
use crate::{Error, Result};

impl Tables {
    /// Makes an index of a table, with the entries of all rows; gives the table as it is from then on. Changes of rows wait meanwhile,
    /// and those that were made with earlier handles are refused.
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::IndexExists`], [`Error::Definition`], [`Error::ColumnType`]; [`Error::NotUnique`] where two rows
    /// have the same values; errors as of [`Tables::create`] and [`crate::Writer::commit`].
    pub async fn create_index(
        self: &Arc<Tables>,
        name: &str,
        index: IndexDefinition,
    ) -> Result<Table> {
        let _defining = self.define().await?;
        if self.table_of_index(&index.name).await?.is_some() {
            return Err(Error::IndexExists { name: index.name });
        }
        let table = self.table(name).await?;
        let definition = table.definition().with_index(index)?;
        definition.check(name)?;
        let place = definition.indexes().len() - 1;
        self.make_index(name, definition, place, table.spaces()).await
    }

    /// Makes an index anew, of the rows that are there: for one that lacks entries. Waits and errors as of [`Tables::create_index`],
    /// and [`Error::NoIndex`].
    pub async fn remake_index(self: &Arc<Tables>, name: &str) -> Result<Table> {
        let _defining = self.define().await?;
        let no_index = || Error::NoIndex { name: name.to_owned() };
        let table = self.table_of_index(name).await?.ok_or_else(no_index)?;
        let definition = table.definition().clone();
        let place = definition.indexes().iter().position(|index| index.name == name);
        let place = place.ok_or_else(no_index)?;
        self.make_index(table.name(), definition, place, table.spaces()).await
    }

    /// Fills a space with the entries of an index, and puts it into the place of another or behind all `spaces` of its table.
    async fn make_index(
        self: &Arc<Tables>,
        name: &str,
        definition: TableDefinition,
        place: usize,
        mut spaces: Vec<SpaceId>,
    ) -> Result<Table> {
        let space = self.begin_index(&definition, place).await?;
        let made = async {
            // The first is that of the rows.
            match spaces.get_mut(place + 1) {
                Some(old) => *old = space,
                None => spaces.push(space),
            }
            let table = Table::in_spaces(name, definition, &spaces)?;
            if let Some(index) = table.indexes().get(place) {
                self.fill_index(&table, index).await?;
                if index.definition().is_unique {
                    self.check_unique(index).await?;
                }
            }
            self.alter(&table).await?;
            Ok(table)
        };
        let made = made.await;
        if made.is_err() {
            self.store.end_space(space).await;
        }
        made
    }

    /// Drops an index.
    ///
    /// # Errors
    /// [`Error::NoIndex`]; errors as of [`Tables::drop_table`].
    pub async fn drop_index(&self, name: &str) -> Result<()> {
        let _defining = self.define().await?;
        let Some(table) = self.table_of_index(name).await? else {
            return Err(Error::NoIndex { name: name.to_owned() });
        };
        let left = table.indexes().iter().filter(|index| index.definition().name != name);
        let left = left.map(|index| index.entries().space());
        let spaces: Vec<SpaceId> = std::iter::once(table.space()).chain(left).collect();
        let definition = table.definition().without_index(name);
        self.alter(&Table::in_spaces(table.name(), definition, &spaces)?).await
    }

    /// The table that has the index called `name`, if there is one. Errors as of [`Tables::table`].
    pub async fn table_of_index(&self, name: &str) -> Result<Option<Table>> {
        for of_table in self.names().await? {
            let Some(table) = self.find(&of_table).await? else { continue };
            if table.definition().indexes().iter().any(|index| index.name == name) {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// Puts a table with other indexes into the place of itself.
    async fn alter(&self, table: &Table) -> Result<()> {
        let (name, relation) = table.relation();
        let relations = vec![(name, Some(relation))];
        self.store.change_relations(CatalogChange { relations, replaces: true }).await?;
        let spaces = table.spaces().into_iter().skip(1).collect();
        self.indexed.lock().insert(table.space(), spaces);
        Ok(())
    }

    /// Puts the entries of all rows of a table into an index that nobody sees yet.
    pub(crate) async fn fill_index(self: &Arc<Tables>, table: &Table, index: &Index) -> Result<()> {
        let snapshot = self.snapshot().await;
        let columns = Some(index.source_columns());
        let mut scan = snapshot.scan(table, ScanOptions { columns, ..ScanOptions::default() })?;
        let (mut group, mut bulk) = (Group::new(), self.store.engine().bulk());
        while let Some(rows) = scan.next().await? {
            group.clear();
            index.put(&mut group, rows.columns())?;
            bulk.add(&group).await?;
        }
        bulk.commit().await?;
        Ok(())
    }

    /// [`Error::NotUnique`] where two entries have the same values.
    pub(crate) async fn check_unique(self: &Arc<Tables>, index: &Index) -> Result<()> {
        let mut scan = self.snapshot().await.scan(index.entries(), ScanOptions::default())?;
        let mut last: Vec<u8> = Vec::new();
        while let Some(rows) = scan.next().await? {
            for mut key in index.entries().keys(rows.columns())? {
                let Some(bytes) = index.prefix_bytes(&key) else { continue };
                key.truncate(bytes);
                if key == last {
                    let index = index.definition().name.clone();
                    return Err(Error::NotUnique { index });
                }
                last = key;
            }
        }
        Ok(())
    }

    /// An empty space for an index of a table.
    pub(crate) async fn begin_index(
        &self,
        table: &TableDefinition,
        index: usize,
    ) -> Result<SpaceId> {
        let entries =
            table.indexes().get(index).map(|index| table.entries_of(index)).transpose()?;
        let format = entries.and_then(|Entries { definition, .. }| {
            Some(definition.space_format(&definition.page_schema()?))
        });
        Ok(self.store.begin_space(format.as_ref()).await?)
    }
}
