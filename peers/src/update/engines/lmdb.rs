//! LMDB. It has no cache of its own: what it is given is the memory of the process with its cached files.

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};

use super::{Setup, in_groups};
use crate::Outcome;
use crate::update::workload::{BlockingEngine, Key, add_to, new_value};

pub(crate) struct Lmdb {
    /// There until the process ends: the database borrows it.
    env: &'static Env,
    records: Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    pub(crate) fn open(setup: Setup<'_>) -> Outcome<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size((setup.records * 64 * 8 + (1 << 30)) as usize);
        // Reading around what is read is for scans.
        let mut flags = EnvFlags::NO_READ_AHEAD;
        if !setup.sync {
            flags |= EnvFlags::NO_SYNC;
        }
        // SAFETY: nobody else opens or changes the file, and without sync no crash is survived, nor is it asked.
        let env = unsafe { options.flags(flags).open(setup.folder)? };
        let env: &Env = Box::leak(Box::new(env));
        let made = env.create_databases_and_commit(env.write_txn()?, |opener, write| {
            opener.create_database::<Bytes, Bytes>(write, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        let records = made?.unwrap_commit();
        Ok(Lmdb { env, records })
    }
}

impl BlockingEngine for Lmdb {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            let mut write = self.env.write_txn()?;
            for key in keys {
                self.records.put_with_flags(&mut write, PutFlags::APPEND, key, &new_value())?;
            }
            Ok(write.commit()?)
        })
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        let mut write = self.env.write_txn()?;
        for key in keys {
            let mut value = self.records.get(&write, key)?.ok_or("a record is missing")?.to_vec();
            add_to(&mut value, 1);
            self.records.put(&mut write, key, &value)?;
        }
        Ok(write.commit()?)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        let read = self.env.read_txn()?;
        keys.iter()
            .map(|key| Ok(self.records.get(&read, key)?.map(<[u8]>::to_vec).unwrap_or_default()))
            .collect()
    }
}
