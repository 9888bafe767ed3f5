//! What tables there are, for people.

use datafusion::arrow::datatypes::DataType;
use moirai_tables::{IndexDefinition, KeyBounds, Snapshot, Table};

use crate::Result;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// How its values lie.
    pub layout: String,
    /// About how many rows it has.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<ColumnInfo>,
    /// Its indexes.
    pub indexes: Vec<IndexInfo>,
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// The names of its columns, in their order.
    pub columns: Vec<String>,
    /// Whether no two rows have the same values there.
    pub is_unique: bool,
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
    /// What a table is at a moment. Errors as of [`Snapshot::estimate_rows`].
    pub async fn of(snapshot: &Snapshot, table: &Table) -> Result<TableInfo> {
        let definition = table.definition();
        let columns =
            table.schema().fields().iter().enumerate().map(|(column, field)| ColumnInfo {
                name: field.name().clone(),
                data_type: sql_name(field.data_type()),
                is_nullable: field.is_nullable(),
                is_key: definition.key().contains(&column),
                default: definition.defaults.get(&column).cloned(),
            });
        let index = |index: &IndexDefinition| {
            let fields = table.schema().fields();
            let names = index.columns.iter().filter_map(|column| fields.get(*column));
            IndexInfo {
                name: index.name.clone(),
                columns: names.map(|field| field.name().clone()).collect(),
                is_unique: index.is_unique,
            }
        };
        Ok(TableInfo {
            name: table.name().to_owned(),
            layout: table.layout().name().to_owned(),
            rows: snapshot.estimate_rows(table, KeyBounds::default()).await?,
            columns: columns.collect(),
            indexes: definition.indexes().iter().map(index).collect(),
        })
    }
}

/// A type as CREATE TABLE takes it, where it does.
#[must_use]
pub fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8View => "TEXT",
        DataType::BinaryView => "BYTEA",
        DataType::Date32 => "DATE",
        DataType::Decimal128(digits, scale) => return format!("DECIMAL({digits}, {scale})"),
        other => return other.to_string(),
    };
    name.to_owned()
}
