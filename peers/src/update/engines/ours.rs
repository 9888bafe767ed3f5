//! Moirai: the update engine and its trees.

use std::sync::Arc;

use moirai::btree::{Batch, Store, Tree};
use moirai::units::ByteCount;
use moirai::update::{Durability, Format, Kind, KindNumber, Kinds, Options, Value};
use moirai::{Access, NewFiles};

use super::{LOAD_GROUP, Setup};
use crate::Outcome;
use crate::update::workload::{Engine, Key, Moved, add_to, key, new_value, number_of};

const ADD: KindNumber = KindNumber(16);

/// Adds to the number at the front of a record, and leaves the rest.
struct AddToFront;

impl Kind for AddToFront {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        add_to(&mut value.bytes, number_of(modification));
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        both.extend_from_slice(&number_of(older).wrapping_add(number_of(newer)).to_le_bytes());
        true
    }
}

pub(crate) struct Ours {
    store: Store,
    tree: Tree,
}

impl Ours {
    pub(crate) async fn open(setup: Setup<'_>, format: Format) -> Outcome<Ours> {
        // Leaves that are not quite full, their staging areas, and extents to move to.
        let leaves_mib = setup.records * 64 * 5 / 4 / (1 << 20);
        let data_mib = leaves_mib * (100 + u64::from(format.staging_percent)) / 100 + 512;
        let log_mib = 4 * setup.memory / (1 << 20) + 64;
        let open = |name: &str, mib: u64| {
            let uri = format!("file:{}?size={mib}MiB", setup.folder.join(name).display());
            async move { moirai::open_device_for(&uri, Access::Create(&NewFiles::new())).await }
        };
        let (data, log) = (open("data", data_mib).await?, open("log", log_mib).await?);
        Store::format(&*data, std::slice::from_ref(&log), format).await?;
        let mut kinds = Kinds::new();
        kinds.register(ADD, Arc::new(AddToFront))?;
        let durability = if setup.sync { Durability::Flushed } else { Durability::Written };
        let options = Options { memory: ByteCount(setup.memory), durability, ..Options::default() };
        let store = Store::open(data, &[log], kinds, options).await?;
        let tree = store.tree("records").await?;
        Ok(Ours { store, tree })
    }
}

impl Engine for Ours {
    async fn load(&self, records: u64) -> Outcome<()> {
        let mut batch = Batch::new();
        for number in 0..records {
            batch.put(&self.tree, &key(number, records), &new_value());
            if batch.len() == LOAD_GROUP {
                self.store.commit(&batch).await?;
                batch.clear();
            }
        }
        self.store.commit(&batch).await?;
        Ok(self.store.checkpoint().await?)
    }

    async fn add(&self, keys: Vec<Key>) -> Outcome<()> {
        let mut batch = Batch::new();
        for key in keys {
            batch.merge(&self.tree, ADD, &key, &1_u64.to_le_bytes());
        }
        Ok(self.store.commit(&batch).await?)
    }

    async fn read(&self, keys: Vec<Key>) -> Outcome<Vec<Vec<u8>>> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.store.get(&self.tree, &key).await?.unwrap_or_default());
        }
        Ok(values)
    }

    fn cycles(&self) -> Option<f64> {
        let figures = self.store.figures();
        Some(figures.placed as f64 / figures.partitions.max(1) as f64)
    }

    fn allocated(&self) -> Option<u64> {
        let figures = self.store.figures();
        Some(figures.data_bytes - figures.data_free_bytes)
    }

    fn moved(&self) -> Option<Moved> {
        let figures = self.store.figures();
        Some(Moved {
            logged: figures.log_bytes as f64,
            staged: figures.staged_bytes as f64,
            swept: figures.swept_bytes as f64,
            placed: figures.placed_bytes as f64,
        })
    }
}
