//! redb, with sync alone: what it has not synced is gone when the process ends.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Setup, in_groups};
use crate::Outcome;
use crate::update::workload::{BlockingEngine, Key, VALUE_BYTES, add_to, new_value};

const RECORDS: TableDefinition<'_, &[u8; 16], &[u8; VALUE_BYTES]> = TableDefinition::new("records");

pub(crate) struct Redb {
    database: Database,
}

impl Redb {
    pub(crate) fn open(setup: Setup<'_>) -> Outcome<Redb> {
        let mut options = Database::builder();
        options.set_cache_size(setup.memory as usize);
        Ok(Redb { database: options.create(setup.folder.join("redb"))? })
    }
}

impl BlockingEngine for Redb {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            let write = self.database.begin_write()?;
            {
                let mut table = write.open_table(RECORDS)?;
                for key in keys {
                    table.insert(key, &new_value())?;
                }
            }
            Ok(write.commit()?)
        })
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(RECORDS)?;
            for key in keys {
                let mut value = *table.get(key)?.ok_or("a record is missing")?.value();
                add_to(&mut value, 1);
                table.insert(key, &value)?;
            }
        }
        Ok(write.commit()?)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        keys.iter()
            .map(|key| Ok(table.get(key)?.map(|value| value.value().to_vec()).unwrap_or_default()))
            .collect()
    }
}
