//! Striping: units of a fixed size, or of exactly one ensemble of the devices.

use std::sync::Arc;

use moirai_storage::{Device, Ensemble, EquivalenceClass, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{DiskIndex, Location, StripeUnit};

/// Stripe units of p equal devices in turn.
///
/// Stripe i is unit i of every device, so that its blocks are p times those of one device. That
/// holds with units of different sizes too, and so the stripe around a block of the volume is found
/// by asking one device for the unit around the block's p-th part.
#[derive(Clone, Debug)]
pub struct Stripe {
    devices: Vec<Arc<dyn Device>>,
    unit: StripeUnit,
    capacity: BlockCount,
}

/// The unit of one device, and which of its stripe's blocks is asked for.
struct Place {
    unit: Ensemble,
    disk: u64,
    within: BlockCount,
}

impl Stripe {
    /// Stripes over `devices`, which have the same geometry; `None` when they have no whole
    /// stripe, or the unit is no multiple of their volume block.
    #[must_use]
    pub fn new(devices: Vec<Arc<dyn Device>>, unit: StripeUnit) -> Option<Stripe> {
        let inquiry = devices.first()?.inquiry();
        let each = inquiry.capacity;
        if let StripeUnit::Blocks(blocks) = unit
            && !blocks.0.is_multiple_of(inquiry.volume_block.0)
        {
            return None;
        }
        let used = match unit {
            StripeUnit::Track => each.0,
            StripeUnit::Blocks(blocks) => each.0.checked_div(blocks.0)? * blocks.0,
        };
        let capacity = BlockCount(used * devices.len() as u64);
        (used > 0).then_some(Stripe { devices, unit, capacity })
    }

    pub(crate) fn capacity(&self) -> BlockCount {
        self.capacity
    }

    pub(crate) fn volume_block(&self) -> BlockCount {
        let of_device = self.devices.first().map(|device| device.inquiry().volume_block);
        of_device.unwrap_or(BlockCount(1))
    }

    fn width(&self) -> u64 {
        self.devices.len() as u64
    }

    fn unit_around(&self, dlbn: Lbn) -> Result<Ensemble> {
        match (self.unit, self.devices.first()) {
            (StripeUnit::Track, Some(device)) => device.ensemble(dlbn),
            (StripeUnit::Track, None) => unreachable!("a stripe layout has devices"),
            (StripeUnit::Blocks(blocks), _) => Ok(Ensemble {
                blocks: BlockRange::new(Lbn(dlbn.0 / blocks.0 * blocks.0), blocks),
                switch: BlockCount::ZERO,
            }),
        }
    }

    fn place(&self, vlbn: Lbn) -> Result<Place> {
        let unit = self.unit_around(Lbn(vlbn.0 / self.width()))?;
        let in_stripe = vlbn.0 - unit.blocks.first.0 * self.width();
        Ok(Place {
            unit,
            disk: in_stripe / unit.blocks.count.0,
            within: BlockCount(in_stripe % unit.blocks.count.0),
        })
    }

    pub(crate) fn locate(&self, vlbn: Lbn) -> Result<Location> {
        let place = self.place(vlbn)?;
        Ok(Location {
            disk: DiskIndex(place.disk as usize),
            dlbn: place.unit.blocks.first + place.within,
            run: place.unit.blocks.count - place.within,
        })
    }

    pub(crate) fn ensemble(&self, vlbn: Lbn) -> Result<Ensemble> {
        let place = self.place(vlbn)?;
        Ok(Ensemble {
            blocks: BlockRange::new(Lbn(vlbn.0 - place.within.0), place.unit.blocks.count),
            switch: place.unit.switch,
        })
    }

    pub(crate) fn parallel_ensemble(&self, vlbn: Lbn) -> Result<BlockRange> {
        let unit = self.place(vlbn)?.unit.blocks;
        Ok(BlockRange::new(
            Lbn(unit.first.0 * self.width()),
            BlockCount(unit.count.0 * self.width()),
        ))
    }

    pub(crate) fn equivalent(&self, vlbn: Lbn) -> Result<EquivalenceClass> {
        let place = self.place(vlbn)?;
        let stripe = Lbn(place.unit.blocks.first.0 * self.width());
        let unit = place.unit.blocks.count.0;
        Ok(EquivalenceClass {
            lbns: (0..self.width())
                .map(|disk| stripe + BlockCount(disk * unit) + place.within)
                .collect(),
            parallelism: self.devices.len() as u32,
        })
    }
}
