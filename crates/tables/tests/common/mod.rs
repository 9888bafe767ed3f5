//! A store of tables on two devices that fail when they are told to.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_storage::Device;
use moirai_tables::{Error, Tables};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Kinds, Options};

pub(crate) struct Devices {
    pub(crate) data: Arc<FaultyDevice>,
    pub(crate) log: Arc<FaultyDevice>,
}

impl Devices {
    /// Devices with so many blocks for data and for the log, and a new store on them.
    pub(crate) async fn formatted(power: &Arc<Power>, data: u64, log: u64) -> Devices {
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(1), Arc::clone(power))
        };
        let devices = Devices { data: device("data", data), log: device("log", log) };
        let logs = [Arc::clone(&devices.log) as Arc<dyn Device>];
        Store::format(&*devices.data, &logs, with_leaves(ByteCount(2048))).await.unwrap();
        devices
    }

    pub(crate) async fn open(&self, options: Options) -> Result<Arc<Tables>, Error> {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        Tables::open(Arc::clone(&self.data) as _, &logs, Kinds::new(), options).await
    }
}
