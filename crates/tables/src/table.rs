//! A table: its definition, its space and its indexes.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use moirai_btree::{Reader, Relation};
use moirai_pages::PageSchema;
use moirai_update::SpaceId;

use crate::definition::{Layout, TableDefinition};
use crate::index::Index;
use crate::{Error, Result};

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
    indexes: Vec<Index>,
    /// The definition, encoded.
    description: Vec<u8>,
}

impl Table {
    /// What the numbers of rows are called, where scans show them: the column behind the others of a table without a key. No column
    /// of a table has this name.
    pub const ROW_NUMBER: &'static str = "\u{0}row number";

    /// A table in a space, whose definition has pages.
    pub(crate) fn of(
        name: &str,
        definition: TableDefinition,
        pages: PageSchema,
        space: SpaceId,
        indexes: Vec<Index>,
    ) -> Table {
        let mut fields: Vec<FieldRef> = definition.schema().fields().iter().cloned().collect();
        if definition.key().is_empty() {
            fields.push(Arc::new(Field::new(Table::ROW_NUMBER, DataType::UInt64, false)));
        }
        let numbered = Arc::new(Schema::new(fields));
        let (name, description) = (name.to_owned(), definition.encode());
        Table(Arc::new(Inner { name, definition, pages, numbered, space, indexes, description }))
    }

    /// The table that a relation of the catalog is.
    fn of_relation(name: &str, relation: &Relation) -> Result<Table> {
        let no_entry = || Error::Entry { name: name.to_owned() };
        let definition = TableDefinition::decode(&relation.description).ok_or_else(no_entry)?;
        Table::in_spaces(name, definition, &relation.spaces)
    }

    /// A table whose first space has its rows, and each other the entries of an index.
    pub(crate) fn in_spaces(
        name: &str,
        definition: TableDefinition,
        spaces: &[SpaceId],
    ) -> Result<Table> {
        let no_entry = || Error::Entry { name: name.to_owned() };
        let (space, others) = spaces.split_first().ok_or_else(no_entry)?;
        if others.len() != definition.indexes().len() {
            return Err(no_entry());
        }
        let indexes = definition.indexes().iter().zip(others);
        let indexes = indexes.map(|(index, space)| Index::of(name, &definition, index, *space));
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        let pages = definition.page_schema().ok_or_else(no_entry)?;
        Ok(Table::of(name, definition, pages, *space, indexes))
    }

    /// What the catalog has of it.
    pub(crate) fn relation(&self) -> (String, Relation) {
        let (spaces, description) = (self.spaces(), self.0.description.clone());
        (self.name().to_owned(), Relation { spaces, description })
    }

    /// Whether this is what the catalog has.
    pub(crate) fn is_relation(&self, relation: &Relation) -> bool {
        let indexes = self.indexes().iter().map(|index| index.entries().space());
        relation.spaces.iter().copied().eq(std::iter::once(self.space()).chain(indexes))
            && relation.description == self.0.description
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

    /// Its indexes.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        &self.0.indexes
    }

    /// Whether it is the same table with the same indexes.
    pub(crate) fn is(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.spaces() == other.spaces()
    }

    /// Its space, and those of its indexes.
    pub(crate) fn spaces(&self) -> Vec<SpaceId> {
        let indexes = self.indexes().iter().map(|index| index.entries().space());
        std::iter::once(self.space()).chain(indexes).collect()
    }

    /// How its rows lie in pages.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.definition().pages.layout
    }

    /// What its pages are; in [`Layout::Nsm`] it says what keys and fields are.
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

/// What the table takes the place of at the end of a load.
#[derive(Clone, Debug)]
pub(crate) enum Replace {
    Nothing,
    /// Any table of its name, or none.
    Any,
    /// This table, while it is as it was.
    Table(Table),
    /// And while it has no rows.
    Empty(Table),
}

/// The table of that name, as a reader sees it.
pub(crate) async fn find_in(reader: Reader<'_>, name: &str) -> Result<Option<Table>> {
    let relation = reader.relation(name).await?;
    relation.map(|relation| Table::of_relation(name, &relation)).transpose()
}
