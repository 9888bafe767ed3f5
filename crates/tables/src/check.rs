//! Checks of what no checksum tells: the order of rows, and indexes against rows.
//!
//! An index has an entry for each row, and may have others, which count for nothing: those of rows as they once were. So a check looks
//! for the entry of each row, and not the other way round. It compares hashes of 64 bits, sorted: both are read in their own order, and not
//! row by row by the other. A row without an entry is overlooked where another entry has the hash of its own: of a hundred million
//! entries one has it by chance with a probability of 5e-12.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use moirai_units::ByteCount;

use crate::index::Index;
use crate::rows::text_of;
use crate::scan::{Scan, ScanOptions};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::{Error, Result};

/// What is held of a row: the hashes of its entry, of an entry that is found, and of its values.
const BYTES_OF_ROW: u64 = 3 * size_of::<u64>() as u64;

/// So many hashes of wrong rows are remembered; one of these rows is named.
const EXAMINED: usize = 1024;

/// Something of a table that is wrong although its blocks are as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The table.
    pub table: String,
    /// The index, where that is wrong.
    pub index: Option<String>,
    /// What is wrong.
    pub problem: String,
}

impl Snapshot {
    /// Reads all rows of a table, and compares their order and its indexes with them. It uses about `memory` for hashes: where there are
    /// more rows, they and the indexes are read several times. In [`crate::Layout::Nsm`] rows whose keys are below their page are left out.
    ///
    /// # Errors
    /// As of [`moirai_update::Reader`]. A block that is no page of the table is a fault, and not an error.
    pub async fn check(
        self: &Arc<Snapshot>,
        table: &Table,
        memory: ByteCount,
    ) -> Result<Vec<Fault>> {
        let (rows, mut faults) = self.check_rows(table).await?;
        if !faults.is_empty() {
            return Ok(faults);
        }
        let passes = rows.div_ceil((memory.0 / BYTES_OF_ROW).max(1)).max(1);
        for index in table.indexes() {
            let check = IndexCheck { snapshot: self, table, index, passes };
            let problems = check.problems().await.or_else(of_no_page)?;
            let index = index.definition().name.as_str();
            faults.extend(problems.into_iter().map(|problem| fault(table, Some(index), problem)));
        }
        Ok(faults)
    }

    /// Reads all columns; gives the number of rows, and what is wrong with their order.
    async fn check_rows(self: &Arc<Snapshot>, table: &Table) -> Result<(u64, Vec<Fault>)> {
        let columns = (0..table.schema_with_row_numbers().fields().len()).collect();
        let mut scan = self.columns(table, columns)?;
        let (mut rows, mut last, mut disordered) = (0, Vec::new(), 0_u64);
        loop {
            let read = async {
                let Some(batch) = scan.next().await? else { return Ok(None) };
                table.keys(&key_arrays(table, &batch, |column| column)).map(Some)
            };
            let keys = match read.await {
                Ok(Some(keys)) => keys,
                Ok(None) => break,
                Err(error) => {
                    let problems = of_no_page(error)?;
                    let faults = problems.into_iter().map(|problem| fault(table, None, problem));
                    return Ok((rows, faults.collect()));
                }
            };
            for key in keys {
                disordered += u64::from(rows > 0 && key <= last);
                last = key;
                rows += 1;
            }
        }
        let problem = format!("{disordered} of {rows} rows are not in the order of their keys");
        let faults = (disordered > 0).then(|| fault(table, None, problem));
        Ok((rows, faults.into_iter().collect()))
    }

    fn columns(self: &Arc<Snapshot>, table: &Table, columns: Vec<usize>) -> Result<Scan> {
        let options = ScanOptions { columns: Some(columns), ..ScanOptions::default() };
        Arc::clone(self).scan(table, options)
    }
}

fn fault(table: &Table, index: Option<&str>, problem: String) -> Fault {
    Fault { table: table.name().to_owned(), index: index.map(str::to_owned), problem }
}

/// The problem of blocks that are no pages; other errors stay errors.
fn of_no_page(error: Error) -> Result<Vec<String>> {
    match error {
        Error::NoPage { .. } => Ok(vec!["a block is no page of it".to_owned()]),
        error => Err(error),
    }
}

/// The columns of the table's key, of rows that have a column of the table at `place`.
fn key_arrays(table: &Table, rows: &RecordBatch, place: impl Fn(usize) -> usize) -> Vec<ArrayRef> {
    let arrays = table.pages().key().iter().map(|column| rows.columns().get(place(*column)));
    arrays.flatten().cloned().collect()
}

/// A hash that does not depend on the process.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// An index and the rows that it is of.
struct IndexCheck<'a> {
    snapshot: &'a Arc<Snapshot>,
    table: &'a Table,
    index: &'a Index,
    /// How often both are read, each time to compare some of the hashes.
    passes: u64,
}

impl IndexCheck<'_> {
    async fn problems(&self) -> Result<Vec<String>> {
        let (mut missing, mut examples, mut shared) = (0_u64, Vec::new(), Vec::<u64>::new());
        for pass in 0..self.passes {
            let (of_rows, values) = self.hashes_of_rows(pass).await?;
            let of_entries = self.hashes_of_entries(pass).await?;
            let without = of_rows.iter().filter(|hash| of_entries.binary_search(hash).is_err());
            for hash in without {
                missing += 1;
                if examples.len() < EXAMINED {
                    examples.push(*hash);
                }
            }
            let same = values.windows(2).filter(|pair| pair.first() == pair.last());
            shared.extend(same.filter_map(|pair| pair.first()));
            shared.dedup();
            shared.truncate(EXAMINED);
        }
        examples.sort_unstable();
        shared.sort_unstable();
        let mut problems = Vec::new();
        if missing == 0 && shared.is_empty() {
            return Ok(problems);
        }
        let (without_entry, several) = self.rows_of(&examples, &shared).await?;
        if let Some(key) = without_entry {
            problems.push(format!(
                "{missing} rows have no entry in it, for example the row with the key ({key})"
            ));
        }
        if let Some([one, other]) = several {
            problems.push(format!(
                "it is unique, but the rows with the keys ({one}) and ({other}) have the same values"
            ));
        }
        Ok(problems)
    }

    fn rows(&self) -> Result<Scan> {
        self.snapshot.columns(self.table, self.index.source_columns())
    }

    /// Sorted hashes of the entries that rows have, and of their values where these are to be unique: those of a pass.
    async fn hashes_of_rows(&self, pass: u64) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut entries, mut values) = (Vec::new(), Vec::new());
        let is_of_pass = |hash: &u64| hash % self.passes == pass;
        let mut scan = self.rows()?;
        while let Some(rows) = scan.next().await? {
            let mut keys = self.index.keys(rows.columns())?;
            for row in 0..rows.num_rows() {
                let key = keys.key(row)?;
                entries.extend(Some(hash(&key)).filter(is_of_pass));
                let value = self.unique_value(&key).map(hash);
                values.extend(value.filter(is_of_pass));
            }
        }
        entries.sort_unstable();
        values.sort_unstable();
        Ok((entries, values))
    }

    async fn hashes_of_entries(&self, pass: u64) -> Result<Vec<u64>> {
        let mut hashes = Vec::new();
        let entries = self.index.entries();
        let mut scan = Arc::clone(self.snapshot).scan(entries, ScanOptions::default())?;
        while let Some(rows) = scan.next().await? {
            let keys = entries.keys(rows.columns())?;
            let of_keys = keys.iter().map(|key| hash(key));
            hashes.extend(of_keys.filter(|hash| hash % self.passes == pass));
        }
        hashes.sort_unstable();
        Ok(hashes)
    }

    /// The bytes of an entry's key that no other row may have; none where the index is not unique, and where one of its columns is
    /// null.
    fn unique_value<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let is_unique = self.index.definition().is_unique;
        let bytes = is_unique.then(|| self.index.prefix_bytes(key)).flatten()?;
        key.get(..bytes)
    }

    /// Reads the rows once more: the key of one whose entry has one of these hashes, and the keys of two with the same values, of which
    /// the hash is given.
    async fn rows_of(
        &self,
        entries: &[u64],
        values: &[u64],
    ) -> Result<(Option<String>, Option<[String; 2]>)> {
        let columns = self.index.source_columns();
        let place = |column| columns.iter().position(|one| *one == column).unwrap_or(columns.len());
        let (mut without_entry, mut several) = (None, None);
        let mut seen: BTreeMap<Vec<u8>, String> = BTreeMap::new();
        let mut scan = self.rows()?;
        while let Some(rows) = scan.next().await? {
            let mut keys = self.index.keys(rows.columns())?;
            let arrays = key_arrays(self.table, &rows, place);
            for row in 0..rows.num_rows() {
                let key = keys.key(row)?;
                if without_entry.is_none() && entries.binary_search(&hash(&key)).is_ok() {
                    without_entry = Some(text_of(&arrays, row));
                }
                let Some(value) = self.unique_value(&key) else { continue };
                if several.is_none() && values.binary_search(&hash(value)).is_ok() {
                    let of_row = text_of(&arrays, row);
                    match seen.get(value) {
                        Some(other) => several = Some([other.clone(), of_row]),
                        None => drop(seen.insert(value.to_vec(), of_row)),
                    }
                }
            }
        }
        Ok((without_entry, several))
    }
}
