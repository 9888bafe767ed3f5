//! Transactions over trees: what each isolation level prevents, in scenarios and in random histories with crashes.
//!
//! `MOIRAI_RUNS` says how many seeds run, and `MOIRAI_SEED` with which to begin. A failure prints what runs it again.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]
#![expect(clippy::print_stdout, reason = "what was measured is for who runs it by hand")]

mod histories;
mod locking;
mod scenarios;
mod threads;
mod verdict;

use std::sync::Arc;

use moirai_btree::{Isolation, Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{Kind, KindNumber, Kinds, Options, Value};

/// Appends the operand to the value.
const APPEND: KindNumber = KindNumber(20);

const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

struct Append;

impl Kind for Append {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        value.is_there = true;
        value.bytes.extend_from_slice(modification);
    }
}

struct Bench {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    memory: ByteCount,
}

impl Bench {
    async fn new(memory: ByteCount) -> Bench {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let (data, log) = (device("data", 60_000), device("log", 4000));
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
        Bench { power, data, log, memory }
    }

    async fn open(&self) -> Arc<Store> {
        let mut kinds = Kinds::new();
        kinds.register(APPEND, Arc::new(Append)).unwrap();
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        let options =
            Options { memory: self.memory, idle: Some(Nanos(5_000_000)), ..Options::default() };
        Arc::new(Store::open(Arc::clone(&self.data) as _, &logs, kinds, options).await.unwrap())
    }
}
