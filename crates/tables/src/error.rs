//! What can go wrong with tables.

use arrow_schema::{ArrowError, DataType};

/// The result of an operation on tables.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on tables.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed, or a device below it.
    #[error(transparent)]
    Store(moirai_btree::Error),

    /// Arrow refused to make an array.
    #[error(transparent)]
    Arrow(#[from] ArrowError),

    /// A row that was to be inserted has the key of another, or its values in a unique index.
    #[error(
        "table `{table}` has a row with the same {what}: update that row, or take other values"
    )]
    RowExists {
        /// The table.
        table: String,
        /// The key, or the index.
        what: String,
    },

    /// There is no such table.
    #[error("there is no table `{name}`; the store has {known}")]
    NoTable {
        /// Its name.
        name: String,
        /// The names of all tables, for people.
        known: String,
    },

    /// There is a table of that name.
    #[error("there is a table `{name}` already: drop or replace it, or take another name")]
    TableExists {
        /// Its name.
        name: String,
    },

    /// A table that was to be replaced has got rows.
    #[error("table `{name}` has got rows meanwhile: nothing is loaded")]
    NotEmpty {
        /// Its name.
        name: String,
    },

    /// A table was dropped or truncated after the program asked for it.
    #[error(
        "table `{table}` was dropped, truncated or filled anew meanwhile: run the statement again, or get the table from the store again"
    )]
    Dropped {
        /// Its name.
        table: String,
    },

    /// A table got or lost an index after the program asked for it.
    #[error(
        "table `{table}` has got or lost an index meanwhile: run the statement again, or get the table from the store again"
    )]
    Altered {
        /// Its name.
        table: String,
    },

    /// There is an index of that name.
    #[error("there is an index `{name}` already: drop it, or take another name")]
    IndexExists {
        /// Its name.
        name: String,
    },

    /// There is no such index.
    #[error("there is no index `{name}`")]
    NoIndex {
        /// Its name.
        name: String,
    },

    /// Two rows have the same values in the columns of an index that is to be unique.
    #[error("index `{index}` would not be unique: several rows have the same values")]
    NotUnique {
        /// Its name.
        index: String,
    },

    /// The catalog has a table that this version does not know.
    #[error("table `{name}`: the catalog's entry is none that this version of Moirai writes")]
    Entry {
        /// Its name.
        name: String,
    },

    /// No table can be so.
    #[error("{problem}")]
    Definition {
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A column has a type that tables do not hold.
    #[error("column `{column}` has type {data_type}, which tables do not hold{hint}")]
    ColumnType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// What to do.
        hint: &'static str,
    },

    /// Rows are given that are not those of the table.
    #[error("table `{table}`: {problem}")]
    Rows {
        /// The table.
        table: String,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A value that is to be put into a column that takes no nulls is one.
    #[error("table `{table}`: column `{column}` takes no nulls")]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },

    /// Two rows of a load, or of a long INSERT, have the same key.
    #[error("table `{table}`: two rows have the key ({key})")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The values of its columns.
        key: String,
    },

    /// Rows of a load have the same keys as others that came long before them.
    #[error(
        "table `{table}`: {count} rows have keys that others have, too; sorted by the key they would be named"
    )]
    DuplicateKeys {
        /// The table.
        table: String,
        /// How many.
        count: u64,
    },

    /// A filter failed.
    #[error(transparent)]
    Filter(Box<dyn std::error::Error + Send + Sync>),

    /// A block of the table is no page of it.
    #[error(
        "table `{table}`: a block is no page of it: check the store, and restore it from a backup"
    )]
    NoPage {
        /// The table.
        table: String,
    },
}

impl Error {
    /// Whether a group has more changes than there is room for.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        use moirai_update::Error::{Full, GroupTooLong};
        let Error::Store(moirai_btree::Error::Update(error)) = self else { return false };
        matches!(error, Full { .. } | GroupTooLong { .. })
    }

    /// The SQLSTATE, as PostgreSQL has it.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::Store(error) => error.sqlstate(),
            Error::RowExists { .. } | Error::NotUnique { .. } | Error::DuplicateKey { .. } => {
                "23505"
            }
            Error::NoTable { .. } => "42P01",
            Error::TableExists { .. } | Error::IndexExists { .. } => "42P07",
            Error::NoIndex { .. } => "42704",
            // Others have changed what the table is; the statement may be run again.
            Error::NotEmpty { .. } | Error::Dropped { .. } | Error::Altered { .. } => "55000",
            Error::Definition { .. } | Error::ColumnType { .. } => "42611",
            Error::Null { .. } => "23502",
            Error::Rows { .. } | Error::Arrow(_) => "22000",
            _ => "58000",
        }
    }

    /// Whether a table is no longer what it was when the program asked for it. Who asks again may succeed.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        matches!(self, Error::NotEmpty { .. } | Error::Dropped { .. } | Error::Altered { .. })
    }

    /// Whether a transaction that failed so may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_retryable())
    }

    /// Whether a snapshot was read that has ended, since changes needed the space of what it kept.
    #[must_use]
    pub fn is_snapshot_ended(&self) -> bool {
        use moirai_update::Error::PointTooOld;
        matches!(self, Error::Store(moirai_btree::Error::Update(PointTooOld { .. })))
    }
}

impl From<moirai_transactions::Error> for Error {
    fn from(error: moirai_transactions::Error) -> Error {
        match error {
            moirai_transactions::Error::Engine(error) => Error::Store(error.into()),
            error => Error::Store(error.into()),
        }
    }
}

impl From<moirai_btree::Error> for Error {
    fn from(error: moirai_btree::Error) -> Error {
        match error {
            moirai_btree::Error::RelationExists { name } => Error::TableExists { name },
            error => Error::Store(error),
        }
    }
}

impl From<moirai_update::Error> for Error {
    fn from(error: moirai_update::Error) -> Error {
        Error::Store(error.into())
    }
}
