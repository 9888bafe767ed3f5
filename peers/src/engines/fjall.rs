//! fjall.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Setup, in_groups};
use crate::workload::{BlockingEngine, Key, Outcome, add_to, new_value};

pub(crate) struct Fjall {
    database: Database,
    records: Keyspace,
    sync: bool,
}

impl Fjall {
    pub(crate) fn open(setup: Setup<'_>) -> Outcome<Fjall> {
        let database = Database::builder(setup.folder)
            .cache_size(setup.memory / 2)
            .max_journaling_size((setup.memory * 2).max(64 << 20))
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(setup.memory / 6);
        let records = database.keyspace("records", options)?;
        Ok(Fjall { database, records, sync: setup.sync })
    }
}

impl BlockingEngine for Fjall {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            let mut batch = self.database.batch();
            keys.iter().for_each(|key| batch.insert(&self.records, *key, new_value()));
            Ok(batch.commit()?)
        })?;
        self.records.rotate_memtable_and_wait()?;
        Ok(())
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        let mut batch = self.database.batch();
        for key in keys {
            let mut value = self.records.get(key)?.ok_or("a record is missing")?.to_vec();
            add_to(&mut value, 1);
            batch.insert(&self.records, *key, value);
        }
        let durability = self.sync.then_some(PersistMode::SyncData);
        Ok(batch.durability(durability).commit()?)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        keys.iter()
            .map(|key| Ok(self.records.get(key)?.map(|value| value.to_vec()).unwrap_or_default()))
            .collect()
    }
}
