//! What the catalog says of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use moirai_btree::{LEAF_BYTES_MAX, Leaf};
use moirai_pages::{ColumnType, NumberType, PageFormat, PageSchema, Placement};
use moirai_units::ByteCount;
use moirai_update::SpaceFormat;

use crate::types::{self, take_byte, take_text, take_u16, take_u32};
use crate::{Error, Result};

/// Columns of a table at most: pages may have the number of the row beside them.
pub const COLUMNS_MAX: usize = moirai_pages::COLUMNS_MAX - 1;

/// The version of catalog entries of tables.
pub(crate) const TABLE_ENTRY_VERSION: u8 = 4;

/// The longest name of a table, and the longest default of a column.
const NAME_BYTES_MAX: usize = 100;
const DEFAULT_BYTES_MAX: usize = 4096;
/// What the catalog says of a table at most.
const DESCRIPTION_BYTES_MAX: usize = 1 << 20;

/// The numbers of rows of a table without a key.
const ROW_NUMBER: ColumnType = ColumnType::Number(NumberType { width_bytes: 8, is_signed: false });

/// How the rows of a table lie in its pages (Clotho 2 and 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Each attribute by itself: its values in neighbouring pages are consecutive. For scans of some attributes.
    #[default]
    Csm,
    /// Row by row, as the records of a tree. For reading and changing whole rows.
    Nsm,
    /// Page by page, and in each page attribute by attribute.
    Pax,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 3] = [Layout::Csm, Layout::Nsm, Layout::Pax];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layout::Csm => "csm",
            Layout::Nsm => "nsm",
            Layout::Pax => "pax",
        }
    }

    /// The layout of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }
}

/// How long pages are, and how many of them are swept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOptions {
    /// How rows lie in them.
    pub layout: Layout,
    /// Rows of a page at most; with [`Layout::Nsm`] as many as it has room for.
    pub rows_max: u32,
    /// Bytes of a page at most: a multiple of 512, up to 1 MiB, and with [`Layout::Nsm`] up to 64 KiB.
    pub page_bytes: ByteCount,
    /// Pages of a row group at most, 1 to 64: these lie in one extent, and are written together.
    pub group_pages: u32,
    /// How much may be staged for a row group, in percent of its pages.
    pub staging_percent: u32,
}

/// The part of a device that a row group takes at most, and what is not made smaller for it.
const GROUP_SHARE: u64 = 64;
const GROUP_PAGES_MIN: u32 = 4;
const PAGE_BYTES_MIN: ByteCount = ByteCount(64 << 10);

impl PageOptions {
    /// Those of tables in a layout on a device of so many bytes: row groups are shorter where these are few, so that it has room for many.
    #[must_use]
    pub fn for_device(layout: Layout, device: ByteCount) -> PageOptions {
        let mut pages = PageOptions::of(layout);
        let is_long = |pages: &PageOptions| {
            pages.page_bytes.0 * u64::from(pages.group_pages) > device.0 / GROUP_SHARE
        };
        while is_long(&pages) && pages.group_pages > GROUP_PAGES_MIN {
            pages.group_pages = (pages.group_pages / 2).max(GROUP_PAGES_MIN);
        }
        while is_long(&pages) && pages.page_bytes > PAGE_BYTES_MIN {
            pages.page_bytes.0 /= 2;
        }
        pages
    }

    /// Those of tables in a layout, unless others are asked for.
    #[must_use]
    pub fn of(layout: Layout) -> PageOptions {
        let (page_bytes, group_pages) = match layout {
            Layout::Csm | Layout::Pax => (ByteCount(256 << 10), 24),
            Layout::Nsm => (ByteCount(8 << 10), 64),
        };
        PageOptions { layout, rows_max: 2048, page_bytes, group_pages, staging_percent: 50 }
    }
}

impl Default for PageOptions {
    fn default() -> PageOptions {
        PageOptions::of(Layout::Csm)
    }
}

/// What a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefinition {
    schema: SchemaRef,
    key: Vec<usize>,
    /// How its pages are made.
    pub pages: PageOptions,
    /// Of columns, by their numbers, what rows get that come without them, as SQL; nulls, where there is nothing.
    pub defaults: BTreeMap<usize, String>,
    indexes: Vec<IndexDefinition>,
}

/// What an index of a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Its name, which no other index of the store has.
    pub name: String,
    /// The table's columns, in the order of the index.
    pub columns: Vec<usize>,
    /// Whether no two rows are to have the same values there, but for nulls. That is checked when the index is made and by loads; a
    /// [`crate::Transaction`] locks such values, and asks [`crate::Snapshot::conflicts`].
    pub is_unique: bool,
}

/// A column of the entries of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryColumn {
    /// 1 where this column of the table is null, or else 0.
    IsNull(usize),
    /// The value of this column of the table.
    Value(usize),
}

impl EntryColumn {
    /// The column of the table.
    pub(crate) fn column(&self) -> usize {
        match self {
            EntryColumn::IsNull(column) | EntryColumn::Value(column) => *column,
        }
    }

    /// The column of the table whose value it is.
    pub(crate) fn value_of(&self) -> Option<usize> {
        match self {
            EntryColumn::IsNull(_) => None,
            EntryColumn::Value(column) => Some(*column),
        }
    }
}

/// The entries of an index, as rows of a table.
pub(crate) struct Entries {
    pub(crate) definition: TableDefinition,
    pub(crate) columns: Vec<EntryColumn>,
    /// How many of the columns are of the index: the first ones.
    pub(crate) of_index: usize,
}

fn refused<T>(problem: String) -> Result<T> {
    Err(Error::Definition { problem })
}

impl TableDefinition {
    /// A table with the columns of `schema`, whose key are those called `key`; with none, rows have numbers in the order in which
    /// they come. Texts and bytes are held as Arrow's views, and dictionaries as their values.
    ///
    /// # Errors
    /// [`Error::ColumnType`]; [`Error::Definition`] for no columns, more than 999, two of a name, and a key that cannot be one.
    pub fn new(schema: impl Into<SchemaRef>, key: &[&str]) -> Result<TableDefinition> {
        let schema: SchemaRef = schema.into();
        let count = schema.fields().len();
        if count == 0 || count > COLUMNS_MAX {
            return refused(format!("a table has 1 to {COLUMNS_MAX} columns, and not {count}"));
        }
        let mut fields = Vec::with_capacity(count);
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if schema.fields().iter().take(index).any(|other| other.name() == name) {
                return refused(format!("two columns are called `{name}`: rename one"));
            }
            if name.is_empty() || name.len() > usize::from(u16::MAX) || name.contains('\u{0}') {
                return refused(
                    "a column has a name of 1 to 65535 bytes, without zeros".to_owned(),
                );
            }
            let data_type = types::held(field.data_type());
            if types::column_type(&data_type).is_none() {
                let column = name.clone();
                return Err(Error::ColumnType {
                    column,
                    data_type,
                    hint: ": convert it, or leave it out",
                });
            }
            let is_key = key.contains(&name.as_str());
            if is_key && !types::is_ordered(&data_type) {
                let hint = " in a key: take other columns";
                return Err(Error::ColumnType { column: name.clone(), data_type, hint });
            }
            fields.push(Field::new(name, data_type, field.is_nullable() && !is_key));
        }
        let mut columns = Vec::with_capacity(key.len());
        for name in key {
            match schema.fields().iter().position(|field| field.name() == name) {
                Some(column) if columns.contains(&column) => {
                    return refused(format!("column `{name}` is in the key twice"));
                }
                Some(column) => columns.push(column),
                None => return refused(format!("there is no column `{name}` for the key")),
            }
        }
        let definition = TableDefinition {
            schema: Arc::new(Schema::new(fields)),
            key: columns,
            pages: PageOptions::default(),
            defaults: BTreeMap::new(),
            indexes: Vec::new(),
        };
        match definition.page_schema() {
            Some(_) => Ok(definition),
            None => refused("a key has 16 columns at most: take fewer".to_owned()),
        }
    }

    /// The columns, with the types in which they are held.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of the key, in its order; none where rows have numbers.
    #[must_use]
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The indexes.
    #[must_use]
    pub fn indexes(&self) -> &[IndexDefinition] {
        &self.indexes
    }

    /// The same table with another index.
    ///
    /// # Errors
    /// [`Error::Definition`], [`Error::ColumnType`] for an index that cannot be one.
    pub fn with_index(&self, index: IndexDefinition) -> Result<TableDefinition> {
        let length = index.name.len();
        if !(1..=NAME_BYTES_MAX).contains(&length) {
            return refused(format!(
                "the name of an index cannot have {length} bytes: take 1 to {NAME_BYTES_MAX}"
            ));
        }
        self.entries_of(&index)?;
        let mut definition = self.clone();
        definition.indexes.push(index);
        Ok(definition)
    }

    /// The same table without the index called `name`.
    #[must_use]
    pub fn without_index(&self, name: &str) -> TableDefinition {
        let mut definition = self.clone();
        definition.indexes.retain(|index| index.name != name);
        definition
    }

    /// The entries of an index of the table.
    pub(crate) fn entries_of(&self, index: &IndexDefinition) -> Result<Entries> {
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for column in &index.columns {
            let Some(field) = self.schema.fields().get(*column) else {
                return refused(format!("there is no column {column} for the index"));
            };
            if columns.contains(&EntryColumn::Value(*column)) {
                return refused(format!("column `{}` is in the index twice", field.name()));
            }
            if !types::is_ordered(field.data_type()) {
                let (column, data_type) = (field.name().clone(), field.data_type().clone());
                let hint = " in an index: take other columns";
                return Err(Error::ColumnType { column, data_type, hint });
            }
            if field.is_nullable() {
                columns.push(EntryColumn::IsNull(*column));
                fields.push(Field::new(format!("{column} is null"), DataType::UInt8, false));
            }
            columns.push(EntryColumn::Value(*column));
            fields.push(Field::new(column.to_string(), field.data_type().clone(), false));
        }
        if columns.is_empty() {
            return refused("an index has columns".to_owned());
        }
        let of_index = columns.len();
        let number = self.schema.fields().len();
        let key = if self.key.is_empty() { &[number][..] } else { &self.key[..] };
        for column in key {
            if columns.contains(&EntryColumn::Value(*column)) {
                continue;
            }
            let field = self.schema.fields().get(*column);
            let data_type = field.map_or(DataType::UInt64, |field| field.data_type().clone());
            columns.push(EntryColumn::Value(*column));
            fields.push(Field::new(column.to_string(), data_type, false));
        }
        let definition = TableDefinition {
            schema: Arc::new(Schema::new(fields)),
            key: (0..columns.len()).collect(),
            // Who wants a few rows of a table in leaves wants a few entries.
            pages: match self.pages.layout {
                Layout::Csm | Layout::Pax => PageOptions { layout: Layout::Csm, ..self.pages },
                Layout::Nsm => self.pages,
            },
            defaults: BTreeMap::new(),
            indexes: Vec::new(),
        };
        match definition.page_schema() {
            Some(_) => Ok(Entries { definition, columns, of_index }),
            None => refused(
                "an entry has 16 columns at most: those of the index, one more for each that may be null, and those of \
                 the key"
                    .to_owned(),
            ),
        }
    }

    /// Whether it can be that of a table called `name`.
    ///
    /// # Errors
    /// [`Error::Definition`] where it cannot, and says why.
    pub fn check(&self, name: &str) -> Result<()> {
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            let have = name.len();
            return refused(format!(
                "the name of a table cannot have {have} bytes: take 1 to {NAME_BYTES_MAX}"
            ));
        }
        if self.defaults.values().any(|default| default.len() > DEFAULT_BYTES_MAX) {
            return refused(format!("a default has {DEFAULT_BYTES_MAX} bytes at most"));
        }
        let page_bytes = self.pages.page_bytes.0;
        if self.pages.layout == Layout::Nsm && page_bytes > LEAF_BYTES_MAX as u64 {
            return refused(format!(
                "a page of rows cannot have {page_bytes} bytes: {LEAF_BYTES_MAX} are the most in layout nsm"
            ));
        }
        let described = self.encode().len();
        match described > DESCRIPTION_BYTES_MAX {
            true => refused(format!(
                "the columns and defaults of a table take {described} bytes: {DESCRIPTION_BYTES_MAX} are the most"
            )),
            false => Ok(()),
        }
    }

    /// What its pages are; behind the columns there is one for the number of a row, where there is no key. `None` where there are
    /// no such pages.
    pub(crate) fn page_schema(&self) -> Option<PageSchema> {
        let types = self.schema.fields().iter().map(|field| types::column_type(field.data_type()));
        let mut types = types.collect::<Option<Vec<_>>>()?;
        let mut key = self.key.clone();
        if key.is_empty() {
            key.push(types.len());
            types.push(ROW_NUMBER);
        }
        let placement = match self.pages.layout {
            Layout::Csm | Layout::Nsm => Placement::ByAttribute,
            Layout::Pax => Placement::ByPage,
        };
        PageSchema::placed(&types, &key, self.pages.rows_max, placement)
    }

    /// The format of its space.
    pub(crate) fn space_format(&self, schema: &PageSchema) -> SpaceFormat {
        let PageOptions { layout, page_bytes, group_pages, staging_percent, .. } = self.pages;
        let (name, parameters) = match layout {
            Layout::Csm | Layout::Pax => (PageFormat::NAME, schema.parameters()),
            Layout::Nsm => (Leaf::FORMAT, Vec::new()),
        };
        SpaceFormat {
            name: name.into(),
            parameters: parameters.into(),
            block_bytes: page_bytes,
            partition_blocks: group_pages,
            staging_percent,
        }
    }

    /// As the catalog has it: see `docs/formats/tables.md`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![TABLE_ENTRY_VERSION];
        let PageOptions { layout, rows_max, page_bytes, group_pages, staging_percent } = self.pages;
        let is_layout = |one: &Layout| *one == layout;
        out.push(Layout::ALL.iter().position(is_layout).unwrap_or_default() as u8);
        for number in [rows_max, page_bytes.0 as u32, group_pages, staging_percent] {
            out.extend(number.to_le_bytes());
        }
        out.extend((self.schema.fields().len() as u16).to_le_bytes());
        for field in self.schema.fields() {
            types::put_text(&mut out, field.name());
            out.push(u8::from(field.is_nullable()));
            types::encode(field.data_type(), &mut out);
        }
        out.extend((self.key.len() as u16).to_le_bytes());
        self.key.iter().for_each(|column| out.extend((*column as u16).to_le_bytes()));
        out.extend((self.defaults.len() as u16).to_le_bytes());
        for (column, default) in &self.defaults {
            out.extend((*column as u16).to_le_bytes());
            types::put_text(&mut out, default);
        }
        out.extend((self.indexes.len() as u16).to_le_bytes());
        for IndexDefinition { name, columns, is_unique } in &self.indexes {
            types::put_text(&mut out, name);
            out.push(u8::from(*is_unique));
            out.extend((columns.len() as u16).to_le_bytes());
            columns.iter().for_each(|column| out.extend((*column as u16).to_le_bytes()));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<TableDefinition> {
        let rest = &mut &bytes[..];
        if take_byte(rest)? != TABLE_ENTRY_VERSION {
            return None;
        }
        let pages = PageOptions {
            layout: *Layout::ALL.get(usize::from(take_byte(rest)?))?,
            rows_max: take_u32(rest)?,
            page_bytes: ByteCount(u64::from(take_u32(rest)?)),
            group_pages: take_u32(rest)?,
            staging_percent: take_u32(rest)?,
        };
        let mut fields = Vec::new();
        for _ in 0..take_u16(rest)? {
            let name = take_text(rest)?;
            let is_nullable = take_byte(rest)? == 1;
            fields.push(Field::new(name, types::decode(rest)?, is_nullable));
        }
        let mut key = Vec::new();
        for _ in 0..take_u16(rest)? {
            key.push(usize::from(take_u16(rest)?));
        }
        let mut defaults = BTreeMap::new();
        for _ in 0..take_u16(rest)? {
            defaults.insert(usize::from(take_u16(rest)?), take_text(rest)?.to_owned());
        }
        let mut indexes = Vec::new();
        for _ in 0..take_u16(rest)? {
            let name = take_text(rest)?.to_owned();
            let is_unique = take_byte(rest)? == 1;
            let mut columns = Vec::new();
            for _ in 0..take_u16(rest)? {
                columns.push(usize::from(take_u16(rest)?));
            }
            indexes.push(IndexDefinition { name, columns, is_unique });
        }
        let schema = Arc::new(Schema::new(fields));
        let definition = TableDefinition { schema, key, pages, defaults, indexes };
        (rest.is_empty() && definition.page_schema().is_some()).then_some(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::DataType;

    fn field(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true)
    }

    #[test]
    fn definitions_come_back() {
        let schema = Schema::new(vec![
            field("a", DataType::Utf8),
            field("b", DataType::Decimal128(15, 2)),
            field("c", DataType::Date32),
        ]);
        for (key, layout) in [(&[][..], Layout::Pax), (&["c", "a"], Layout::Nsm)] {
            let mut definition = TableDefinition::new(schema.clone(), key).unwrap();
            definition.pages = PageOptions::of(layout);
            definition.defaults.insert(1, "0.5".to_owned());
            let by_date = IndexDefinition {
                name: "by date".to_owned(),
                columns: vec![2, 1],
                is_unique: true,
            };
            let definition = definition.with_index(by_date).unwrap();
            let bytes = definition.encode();
            assert_eq!(TableDefinition::decode(&bytes), Some(definition.clone()));
            assert_eq!(TableDefinition::decode(&bytes[..bytes.len() - 1]), None);
            let nullable: Vec<bool> =
                definition.schema().fields().iter().map(|field| field.is_nullable()).collect();
            assert_eq!(nullable, if key.is_empty() { [true; 3] } else { [false, true, false] });
        }
    }

    #[test]
    fn what_no_table_is_is_refused() {
        let refused = |fields: Vec<Field>, key: &[&str]| {
            TableDefinition::new(Schema::new(fields), key).unwrap_err().to_string()
        };
        let ints = || vec![field("a", DataType::Int32), field("b", DataType::Float64)];
        assert_eq!(refused(vec![], &[]), "a table has 1 to 999 columns, and not 0");
        assert_eq!(refused(ints(), &["c"]), "there is no column `c` for the key");
        assert_eq!(refused(ints(), &["a", "a"]), "column `a` is in the key twice");
        assert_eq!(
            refused(ints(), &["b"]),
            "column `b` has type Float64, which tables do not hold in a key: take other columns"
        );
        assert_eq!(
            refused(vec![field("a", DataType::Null)], &[]),
            "column `a` has type Null, which tables do not hold: convert it, or leave it out"
        );
        let twice = vec![field("a", DataType::Int32), field("a", DataType::Int64)];
        assert_eq!(refused(twice, &[]), "two columns are called `a`: rename one");
    }
}
