//! SQLite, with its log ahead of its tables, and a connection for all clients: it has one writer at a time.

use std::sync::Mutex;

use rusqlite::{Connection, params};

use super::{Setup, in_groups};
use crate::Outcome;
use crate::update::workload::{BlockingEngine, Key, VALUE_BYTES, new_value};

pub(crate) struct Sqlite(Mutex<Connection>);

impl Sqlite {
    pub(crate) fn open(setup: Setup<'_>) -> Outcome<Sqlite> {
        let connection = Connection::open(setup.folder.join("sqlite"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", if setup.sync { "full" } else { "off" })?;
        // A log of 256 MiB, so that not each group copies it into the tables.
        connection.pragma_update(None, "wal_autocheckpoint", 65_536)?;
        connection.pragma_update(None, "cache_size", -(setup.memory as i64 / 1024))?;
        connection.execute(
            "CREATE TABLE records (key BLOB PRIMARY KEY, number INTEGER, rest BLOB) WITHOUT ROWID",
            [],
        )?;
        Ok(Sqlite(Mutex::new(connection)))
    }

    fn transaction(&self, keys: &[Key], sql: &str, with_rest: bool) -> Outcome<()> {
        let mut connection = self.0.lock().map_err(|_| "another client failed")?;
        let transaction = connection.transaction()?;
        {
            let mut statement = transaction.prepare_cached(sql)?;
            let rest = &new_value()[8..];
            for key in keys {
                let changed = if with_rest {
                    statement.execute(params![key, rest])?
                } else {
                    statement.execute([key])?
                };
                if changed != 1 {
                    return Err("a record is missing".into());
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

impl BlockingEngine for Sqlite {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            self.transaction(keys, "INSERT INTO records VALUES (?, 0, ?)", true)
        })
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        self.transaction(keys, "UPDATE records SET number = number + 1 WHERE key = ?", false)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        let connection = self.0.lock().map_err(|_| "another client failed")?;
        let mut statement =
            connection.prepare_cached("SELECT number, rest FROM records WHERE key = ?")?;
        keys.iter()
            .map(|key| {
                Ok(statement.query_row([key], |row| {
                    let mut value = Vec::with_capacity(VALUE_BYTES);
                    value.extend_from_slice(&row.get::<_, i64>(0)?.to_le_bytes());
                    value.extend_from_slice(row.get_ref(1)?.as_blob()?);
                    Ok(value)
                })?)
            })
            .collect()
    }
}
