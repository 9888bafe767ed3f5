//! What can go wrong in a store.

use moirai_units::{BlockCount, BlockRange, Lbn};

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),

    /// Arrow could not do what was asked.
    #[error("column data: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),

    /// Something else lies where a store would be.
    #[error(
        "{device} holds no Moirai store, and is not empty: at {at} lie bytes of something else. \
         Name another device, or overwrite its first {clear_bytes} bytes with zeros to give it up"
    )]
    NotAStore {
        /// The device.
        device: String,
        /// Where a superblock was expected.
        at: Lbn,
        /// The bytes that hold the superblocks.
        clear_bytes: u64,
    },

    /// A store of another format.
    #[error(
        "{device} holds a Moirai store of format {found}, and this program reads format {known}: \
         use the version that wrote it, or load the data anew"
    )]
    Version {
        /// The device.
        device: String,
        /// The store's format.
        found: u32,
        /// The format of this program.
        known: u32,
    },

    /// A page, superblock or catalog that is not what was written.
    #[error("{device}: {what} at byte {offset} ({blocks}) is damaged: {problem}")]
    Damaged {
        /// The device.
        device: String,
        /// What was read: "page 7 of attribute l_tax of table lineitem".
        what: String,
        /// Where it lies.
        blocks: BlockRange,
        /// The same in bytes.
        offset: u64,
        /// What is wrong with it.
        problem: String,
    },

    /// No room.
    #[error("{device} is full: no room for {needed} more, of {capacity} in all")]
    Full {
        /// The device.
        device: String,
        /// What was to be written next.
        needed: BlockCount,
        /// The device's capacity.
        capacity: BlockCount,
    },

    /// There is no such table.
    #[error("there is no table `{name}`; there are: {known}")]
    NoTable {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },

    /// A table of that name is there.
    #[error("there is a table `{name}` already: drop it first, or choose another name")]
    TableExists {
        /// The name.
        name: String,
    },

    /// A name that cannot be one.
    #[error("`{name}` cannot be a table's name: 1 to 255 bytes, no control characters")]
    BadName {
        /// The name.
        name: String,
    },

    /// A column of a type that tables do not hold.
    #[error("column `{column}` has type {data_type}, which tables do not hold yet")]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type in Arrow.
        data_type: String,
    },

    /// A table without columns, or with too many.
    #[error("a table has 1 to {most} columns, and this one {found}")]
    ColumnCount {
        /// How many were given.
        found: usize,
        /// The most there can be.
        most: usize,
    },

    /// A batch that does not fit the table it is loaded into.
    #[error("the batch has columns {found}, and the table {expected}")]
    SchemaMismatch {
        /// The table's columns.
        expected: String,
        /// The batch's columns.
        found: String,
    },

    /// A load that failed in the middle of a batch.
    #[error("the load of table `{table}` failed in the middle of a batch: drop it and begin anew")]
    BrokenLoad {
        /// The table.
        table: String,
    },

    /// A null where there must be none.
    #[error("column `{column}` is declared without nulls and has one in row {row}")]
    UnexpectedNull {
        /// The column.
        column: String,
        /// The row.
        row: u64,
    },

    /// A row that fits no page.
    #[error(
        "row {row} of table `{table}` needs a page of {needed}, and no run of blocks without a \
         boundary is longer than {longest}"
    )]
    RowTooLarge {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// What it needs.
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

    /// A catalog that could not be read back, and so is not written.
    #[error("the catalog cannot be written: {problem}")]
    Unwritable {
        /// What is wrong with it.
        problem: String,
    },

    /// A limit of the format.
    #[error("{what} is too large: {problem}")]
    TooLarge {
        /// What has grown too large.
        what: String,
        /// Which limit.
        problem: String,
    },
}
