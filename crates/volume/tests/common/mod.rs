//! Volumes over devices in memory, for tests of what they survive.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{Format, LayoutDescription, StripeUnit, assemble, format};

pub(crate) type Devices = Vec<Arc<dyn Device>>;

pub(crate) fn blank(count: usize) -> Devices {
    of_sizes(&vec![2000; count])
}

pub(crate) fn of_sizes(blocks: &[u64]) -> Devices {
    let power = Power::on();
    let device = |(disk, blocks): (usize, &u64)| {
        let (capacity, ensemble) = (BlockCount(*blocks), BlockCount(16));
        FaultyDevice::new(format!("disk {disk}"), capacity, ensemble, Arc::clone(&power)) as _
    };
    blocks.iter().enumerate().map(device).collect()
}

pub(crate) async fn made_of(level: &str, devices: Devices) -> Devices {
    let unit = StripeUnit::Blocks(BlockCount(8));
    laid_over(level, LayoutDescription::Stripe { unit }, 400, devices).await
}

pub(crate) async fn laid_over(
    level: &str,
    layout: LayoutDescription,
    journal: u64,
    devices: Devices,
) -> Devices {
    let how = Format {
        level: level.parse().unwrap(),
        layout,
        journal: Some(BlockCount(journal)),
        integrity: false,
        is_blank: true,
    };
    format("v", &devices, how, |_, _| ()).await.unwrap();
    devices
}

pub(crate) fn of(devices: &Devices, which: &[usize]) -> Devices {
    devices
        .iter()
        .enumerate()
        .filter(|(i, _)| which.contains(i))
        .map(|(_, d)| Arc::clone(d))
        .collect()
}

/// Opens a volume from `devices` and writes to it.
pub(crate) async fn write(devices: Devices, fill: u8) {
    let volume = assemble("v".into(), devices, true).await.unwrap();
    let volume: &dyn Device = &*volume;
    let mut block = IoBuf::zeroed(BlockCount(1));
    block.fill(fill);
    volume.write(Lbn(3), block).await.unwrap();
    volume.flush().await.unwrap();
}

pub(crate) async fn read(devices: Devices) -> Result<u8, String> {
    let volume = assemble("v".into(), devices, true).await.map_err(|error| error.to_string())?;
    let volume: &dyn Device = &*volume;
    Ok(volume.read(BlockRange::new(Lbn(3), BlockCount(1))).await.unwrap()[0])
}
