//! fjall.

use std::sync::Mutex;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Setup, counted, in_groups};
use crate::Outcome;
use crate::update::workload::{BlockingEngine, Key, add_to, new_value};

pub(crate) struct Fjall {
    database: Database,
    records: Keyspace,
    durability: PersistMode,
    /// Held from reading what a group changes until it is written.
    turn: Mutex<()>,
}

impl Fjall {
    pub(crate) fn open(setup: Setup<'_>) -> Outcome<Fjall> {
        let database = Database::builder(setup.folder)
            .cache_size(setup.memory / 2)
            .max_journaling_size((setup.memory * 4).max(64 << 20))
            .open()?;
        // It may have five at a time.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(setup.memory / 10);
        let records = database.keyspace("records", options)?;
        let durability = if setup.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        Ok(Fjall { database, records, durability, turn: Mutex::new(()) })
    }
}

impl BlockingEngine for Fjall {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            let mut batch = self.database.batch();
            keys.iter().for_each(|key| batch.insert(&self.records, *key, new_value()));
            Ok(batch.durability(Some(self.durability)).commit()?)
        })?;
        self.records.rotate_memtable_and_wait()?;
        Ok(())
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        let _turn = self.turn.lock().map_err(|_| "another client failed")?;
        let mut batch = self.database.batch();
        for (key, times) in counted(keys) {
            let mut value = self.records.get(key)?.ok_or("a record is missing")?.to_vec();
            add_to(&mut value, times);
            batch.insert(&self.records, key, value);
        }
        Ok(batch.durability(Some(self.durability)).commit()?)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        keys.iter()
            .map(|key| Ok(self.records.get(key)?.map(|value| value.to_vec()).unwrap_or_default()))
            .collect()
    }
}
