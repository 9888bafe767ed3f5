//! What can go wrong in a store.

use moirai_storage::Occupant;
use moirai_units::{BlockCount, BlockRange};

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),

    /// An Arrow operation failed.
    #[error("column data: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),

    /// A device that holds data other than a table store.
    #[error("{device} holds {occupant}, which is no store of `moirai table`: name another device")]
    NotAStore {
        /// The device.
        device: String,
        /// The data that the device holds.
        occupant: Occupant,
    },

    /// A store of another format version.
    #[error(
        "{device} holds a Moirai store of format {found}, and this program reads format {known}: \
         use the version of Moirai that wrote the store, or load the data into a new store"
    )]
    Version {
        /// The device.
        device: String,
        /// The store's format.
        found: u32,
        /// The format of this program.
        known: u32,
    },

    /// A damaged page, superblock or catalog.
    #[error("{device}: {what} at byte {offset} ({blocks}) is damaged: {problem}")]
    Damaged {
        /// The device.
        device: String,
        /// The damaged object: "page 7 of attribute l_tax of table lineitem".
        what: String,
        /// The place of the object.
        blocks: BlockRange,
        /// The offset of the place, in bytes.
        offset: u64,
        /// The problem.
        problem: String,
    },

    /// The device is full.
    #[error(
        "{device} is full: {needed} more do not fit in its {capacity}; drop a table, or use a larger device (in columns, a table \
         takes an ensemble for each, 1 MiB of a file, and in rows (`--layout nsm`) what it holds)"
    )]
    Full {
        /// The device.
        device: String,
        /// The blocks of the next write.
        needed: BlockCount,
        /// The device's capacity.
        capacity: BlockCount,
    },

    /// There is no such table.
    #[error("there is no table `{name}`; the store has: {known}")]
    NoTable {
        /// The name asked for.
        name: String,
        /// The names of the tables.
        known: String,
    },

    /// A table of that name exists.
    #[error("table `{name}` exists")]
    TableExists {
        /// The name.
        name: String,
    },

    /// A name that is not valid for a table.
    #[error("`{name}` is not a valid table name: take 1 to 255 bytes without control characters")]
    BadName {
        /// The name.
        name: String,
    },

    /// A column of a type that tables do not support.
    #[error("column `{column}` has type {data_type}, which tables do not support")]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type in Arrow.
        data_type: String,
    },

    /// A table without columns, or with too many.
    #[error("a table has 1 to {most} columns, not {found}")]
    ColumnCount {
        /// The number of columns given.
        found: usize,
        /// The highest number of columns.
        most: usize,
    },

    /// A batch whose columns differ from the columns of the table.
    #[error("the batch has columns {found}, but the table has {expected}")]
    SchemaMismatch {
        /// The table's columns.
        expected: String,
        /// The batch's columns.
        found: String,
    },

    /// A load that failed in the middle of a batch.
    #[error(
        "the load of table `{table}` failed in the middle of a batch: abandon the load, and start a new one"
    )]
    BrokenLoad {
        /// The table.
        table: String,
    },

    /// A null in a column that is declared without nulls.
    #[error("column `{column}` is declared without nulls, but row {row} has a null")]
    UnexpectedNull {
        /// The column.
        column: String,
        /// The row.
        row: u64,
    },

    /// A row that is longer than a page can be.
    #[error(
        "row {row} of table `{table}` needs a page of {needed}, but the longest ensemble of the \
         device has {longest}"
    )]
    RowTooLarge {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// The blocks of its page.
        needed: BlockCount,
        /// The longest ensemble.
        longest: BlockCount,
    },

    /// A row id past the end of its table.
    #[error("table `{table}` has no row {row}: it has {rows} rows")]
    NoRow {
        /// The table.
        table: String,
        /// The row asked for.
        row: u64,
        /// Rows of the table.
        rows: u64,
    },

    /// A column index past the end of its table.
    #[error("table `{table}` has no column {column}: it has {columns}")]
    NoColumn {
        /// The table.
        table: String,
        /// The column asked for.
        column: usize,
        /// Columns of the table.
        columns: usize,
    },

    /// A catalog that cannot be encoded so that it can be read back.
    #[error("the catalog cannot be written: {problem}")]
    Unwritable {
        /// The problem.
        problem: String,
    },

    /// A limit of the format.
    #[error("{what} is too large: {problem}")]
    TooLarge {
        /// The object that is too large.
        what: String,
        /// The limit.
        problem: String,
    },
}
