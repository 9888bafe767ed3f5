//! What can go wrong with a statement.

use std::path::PathBuf;

use datafusion::error::DataFusionError;

use crate::CsvError;

/// The result of a statement.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed statement, or a file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// DataFusion refused or failed the statement.
    #[error("{}", message_of(.0))]
    Statement(#[from] DataFusionError),
    /// A statement that is not known, or names what is not there.
    #[error("{problem}")]
    Refused {
        /// What is wrong, and what to write.
        problem: String,
        /// The SQLSTATE.
        sqlstate: &'static str,
    },
    /// A statement that the session's transaction does not allow.
    #[error("{problem}")]
    Transaction {
        /// What is wrong, and what to write.
        problem: String,
        /// The SQLSTATE.
        sqlstate: &'static str,
    },
    /// Rows that a table cannot have.
    #[error("{problem}")]
    Rows {
        /// What is wrong.
        problem: String,
        /// The SQLSTATE.
        sqlstate: &'static str,
    },
    /// The tables of a store refused, or the store failed.
    #[error(transparent)]
    Tables(#[from] moirai_tables::Error),
    /// There is no room for all changes of a statement.
    #[error(
        "{0}; a statement needs room for all of its changes at once: where these are many, change fewer rows with each, or \
         TRUNCATE the table"
    )]
    NoRoom(Box<Error>),
    /// A file that cannot be loaded.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A CSV file that cannot be loaded.
    #[error("{path}: {problem}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// The problem and its place.
        problem: CsvError,
    },
    /// The answer cannot be written.
    #[error("writing the answer failed: {0}")]
    Output(#[from] std::io::Error),
}

impl Error {
    /// Whether there is no room for all changes of a statement.
    pub(crate) fn is_too_large(&self) -> bool {
        self.of_tables().is_some_and(moirai_tables::Error::is_too_large)
    }

    /// Whether the snapshot that a statement reads has ended.
    pub(crate) fn is_snapshot_ended(&self) -> bool {
        self.of_tables().is_some_and(moirai_tables::Error::is_snapshot_ended)
    }

    /// The SQLSTATE, as PostgreSQL has it.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::Transaction { sqlstate, .. }
            | Error::Rows { sqlstate, .. }
            | Error::Refused { sqlstate, .. } => sqlstate,
            Error::NoRoom(_) => "53100",
            Error::File { .. } | Error::Output(_) => "58030",
            Error::Csv { .. } => "22P04",
            Error::Tables(error) => error.sqlstate(),
            Error::Statement(error) => match self.of_tables() {
                Some(error) => error.sqlstate(),
                None => sqlstate_of(error),
            },
        }
    }

    /// Whether a transaction that failed so may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.of_tables().is_some_and(moirai_tables::Error::is_retryable)
    }

    /// Whether a table is no longer what it was when the statement began.
    pub(crate) fn is_outdated(&self) -> bool {
        self.of_tables().is_some_and(moirai_tables::Error::is_outdated)
    }

    /// The error of the tables that it comes from.
    fn of_tables(&self) -> Option<&moirai_tables::Error> {
        match self {
            Error::Tables(error) => Some(error),
            Error::Statement(error) => match error.find_root() {
                // Ours come wrapped where they went through a plan.
                DataFusionError::External(inner) => inner
                    .downcast_ref()
                    .or_else(|| inner.downcast_ref::<Error>().and_then(Error::of_tables)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the statement itself is wrong, and nothing was done.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Refused { .. })
            || matches!(
                self,
                Error::Statement(error) if matches!(
                    error.find_root(),
                    DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..)
                )
            )
    }
}

/// Parts of DataFusion's messages, and the states that they stand for.
const STATES: [(&str, &str); 8] = [
    ("divide by zero", "22012"),
    ("overflow", "22003"),
    ("out of range", "22003"),
    ("too large", "22003"),
    ("Can't cast value", "22003"),
    ("Cannot cast", "22P02"),
    ("parse", "22P02"),
    ("No function matches", "42883"),
];

/// The state of an error of DataFusion's own.
fn sqlstate_of(error: &DataFusionError) -> &'static str {
    use datafusion::common::SchemaError;
    let text = || error.to_string().to_lowercase();
    let state = || {
        let text = text();
        STATES.iter().find(|(part, _)| text.contains(&part.to_lowercase())).map(|(_, state)| *state)
    };
    match error.find_root() {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::External(inner) => {
            inner.downcast_ref::<Error>().map_or("58000", Error::sqlstate)
        }
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42701",
        },
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::Plan(_) if text().contains("not found") => "42P01",
        DataFusionError::Plan(_) => state().unwrap_or("42601"),
        DataFusionError::ResourcesExhausted(_) => "53200",
        _ => state().unwrap_or("22000"),
    }
}

/// Parts of DataFusion's messages, and what to do.
const HINTS: [(&str, &str); 4] = [
    ("Ambiguous reference", "name the table, too, as in `t.column`"),
    ("not found", "names are in lower case unless they are in double quotes, as in \"People\""),
    (
        "Can't cast value",
        "it is too large for its type: cast an operand to a wider one, like decimal(38, 0)",
    ),
    (
        "out of range",
        "it is too large for its type: cast an operand to a wider one, like decimal(38, 0)",
    ),
];

/// The message without DataFusion's request to report a bug, when the cause is a store's error, and without the
/// names of the catalog and the schema that all tables are in.
fn message_of(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::External(inner) => inner.to_string(),
        DataFusionError::SQL(problem, _) => problem.to_string(),
        // Without the request to report a bug: the usual cause is a function that does not take the column's type.
        DataFusionError::Internal(problem) => problem.clone(),
        root => {
            let text = root.strip_backtrace().replace("datafusion.public.", "");
            // What is before lists the same functions, and calls it a bug.
            if let Some((_, functions)) = text.split_once("No function matches") {
                return format!("no function matches{functions}");
            }
            match HINTS.iter().find(|(part, _)| text.contains(part)) {
                Some((_, hint)) => format!("{text} ({hint})"),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_snapshot_is_known_by_any_way() {
        use moirai::update::Error::PointTooOld;
        let ended = || moirai_tables::Error::from(PointTooOld { device: "disk".into() });
        let by_table = DataFusionError::External(Box::new(ended()));
        let by_plan = DataFusionError::from(Error::Tables(ended()));
        for error in [Error::Tables(ended()), by_table.into(), by_plan.into()] {
            assert!(error.is_snapshot_ended(), "{error:?}");
            assert!(!error.is_too_large(), "{error:?}");
        }
    }

    #[test]
    fn a_function_that_takes_other_types_is_no_bug() {
        let text = "Internal error: sum(Decimal).\nThis issue was likely caused by a bug. No function matches the given \
                    name and argument types 'sum(Utf8View)'.";
        let message = message_of(&DataFusionError::Plan(text.into()));
        assert_eq!(
            message,
            "no function matches the given name and argument types 'sum(Utf8View)'."
        );
    }
}
