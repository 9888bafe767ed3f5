//! RocksDB, with its merge operator and without.

use std::sync::Mutex;

use rocksdb::{
    BlockBasedOptions, Cache, DB, MergeOperands, Options, WriteBatch, WriteBufferManager,
    WriteOptions,
};

use super::{Setup, counted, in_groups};
use crate::Outcome;
use crate::update::workload::{BlockingEngine, Key, add_to, new_value, number_of};

pub(crate) struct Rocks {
    db: DB,
    merges: bool,
    sync: bool,
    /// Held from reading what a group changes until it is written.
    turn: Mutex<()>,
}

fn add(_: &[u8], value: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let sum = operands.iter().map(number_of).fold(0, u64::wrapping_add);
    let mut value = value.map_or_else(|| vec![0; 8], <[u8]>::to_vec);
    add_to(&mut value, sum);
    Some(value)
}

impl Rocks {
    pub(crate) fn open(setup: Setup<'_>, merges: bool) -> Outcome<Rocks> {
        // One budget for blocks and memtables. Of these there are three; who merges reads nothing for its updates, and
        // gives them five sixths of it, the other half.
        let cache = Cache::new_lru_cache(setup.memory as usize);
        let memtables = setup.memory as usize * if merges { 5 } else { 3 } / 6;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
            memtables, false, cache,
        ));
        options.set_write_buffer_size(memtables / 3);
        options.set_max_write_buffer_number(3);
        options.increase_parallelism(2);
        options.set_use_direct_io_for_flush_and_compaction(true);
        options.set_merge_operator_associative("add", add);
        let db = DB::open(&options, setup.folder)?;
        Ok(Rocks { db, merges, sync: setup.sync, turn: Mutex::new(()) })
    }

    fn commit(&self, batch: WriteBatch, sync: bool) -> Outcome<()> {
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        Ok(self.db.write_opt(batch, &options)?)
    }
}

impl BlockingEngine for Rocks {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()> {
        in_groups(records, |keys| {
            let mut batch = WriteBatch::default();
            keys.iter().for_each(|key| batch.put(key, new_value()));
            self.commit(batch, self.sync)
        })?;
        self.db.flush()?;
        Ok(())
    }

    fn add(&self, keys: &[Key]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        if self.merges {
            keys.iter().for_each(|key| batch.merge(key, 1_u64.to_le_bytes()));
            return self.commit(batch, self.sync);
        }
        let _turn = self.turn.lock().map_err(|_| "another client failed")?;
        for (key, times) in counted(keys) {
            let mut value = self.db.get(key)?.ok_or("a record is missing")?;
            add_to(&mut value, times);
            batch.put(key, value);
        }
        self.commit(batch, self.sync)
    }

    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>> {
        keys.iter().map(|key| Ok(self.db.get(key)?.unwrap_or_default())).collect()
    }
}
