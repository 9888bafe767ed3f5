//! Reading and writing TOML files.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Reads the TOML file at `path`; unknown keys and wrong types are named with their line.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, action: &'static str) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        action,
        source,
    })?;
    parse(&text, path)
}

/// Parses the text of the file at `path`.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T> {
    toml::from_str(text).map_err(|error| invalid(path, error.to_string().trim_end()))
}

/// The TOML text of `value`, for the file at `path`.
pub(crate) fn text<T: Serialize>(value: &T, path: &Path) -> Result<String> {
    toml::to_string(value).map_err(|error| invalid(path, error.to_string()))
}

/// An error of the file at `path`.
pub(crate) fn invalid(path: &Path, problem: impl Into<String>) -> Error {
    Error::Invalid { path: path.to_owned(), problem: problem.into() }
}
