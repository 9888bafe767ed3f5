//! What tables there are, for people.

use moirai_store::{Attribute, Store};
use moirai_tables::{KeyBounds, Snapshot, Table};

use crate::Result;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// How its values lie.
    pub layout: String,
    /// How many rows it has, about where it takes updates.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<ColumnInfo>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: String,
    /// Whether it may be null.
    pub is_nullable: bool,
    /// Whether it is one of the key's.
    pub is_key: bool,
    /// What rows get that come without it, as SQL.
    pub default: Option<String>,
}

impl TableInfo {
    pub(crate) fn of_loaded(store: &Store, name: &str) -> Result<TableInfo> {
        let table = store.table(name)?;
        let column = |attribute: &Attribute| ColumnInfo {
            name: attribute.name.clone(),
            data_type: attribute.attribute_type.to_string(),
            is_nullable: attribute.nullable,
            is_key: false,
            default: None,
        };
        Ok(TableInfo {
            name: name.to_owned(),
            layout: table.layout().to_string(),
            rows: table.rows(),
            columns: table.attributes().iter().map(column).collect(),
        })
    }

    pub(crate) async fn of(snapshot: &Snapshot, table: &Table) -> Result<TableInfo> {
        let definition = table.definition();
        let columns =
            table.schema().fields().iter().enumerate().map(|(column, field)| ColumnInfo {
                name: field.name().clone(),
                data_type: field.data_type().to_string(),
                is_nullable: field.is_nullable(),
                is_key: definition.key().contains(&column),
                default: definition.defaults.get(&column).cloned(),
            });
        Ok(TableInfo {
            name: table.name().to_owned(),
            layout: "csm".to_owned(),
            rows: snapshot.estimate_rows(table, KeyBounds::default()).await?,
            columns: columns.collect(),
        })
    }
}
