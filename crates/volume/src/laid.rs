//! Layouts, found from what devices say of themselves.

use std::sync::Arc;

use moirai_storage::{Device, Inquiry, Result};
use moirai_units::BlockCount;

use crate::label::{KnownZone, ZONES_MAX};
use crate::quadrangle::{Wanted, quadrangles};
use crate::shape::Shape;
use crate::tracks::Tracks;
use crate::zones::zones_of;
use crate::{LayoutDescription, Level, QuadrangleZone, StripeUnit, stripe};

/// A layout, found from what devices say of themselves.
pub(crate) struct Laid {
    pub(crate) shape: Shape,
    pub(crate) zones: Vec<QuadrangleZone>,
    pub(crate) volume_block: BlockCount,
}

impl Laid {
    /// The message of the error says what does not fit.
    pub(crate) fn over(
        devices: &[Arc<dyn Device>],
        level: Level,
        layout: LayoutDescription,
    ) -> std::result::Result<Laid, String> {
        Laid::with_tracks(devices, Tracks::of, level, layout, &[])
    }

    /// The same, so that other devices in their places, and some of them missing, make no difference but for
    /// how many stripes there are: quadrangles are those that are `known`, when there are any.
    pub(crate) fn kept_on(
        devices: &[Arc<dyn Device>],
        level: Level,
        layout: LayoutDescription,
        known: &[KnownZone],
    ) -> std::result::Result<Laid, String> {
        let tracks = |device: &dyn Device| Ok(Tracks::of(device)?.without_cut_end());
        Laid::with_tracks(devices, tracks, level, layout, known)
    }

    fn with_tracks(
        devices: &[Arc<dyn Device>],
        tracks_of: impl Fn(&dyn Device) -> Result<Tracks>,
        level: Level,
        layout: LayoutDescription,
        known: &[KnownZone],
    ) -> std::result::Result<Laid, String> {
        level.check(devices.len())?;
        let tracks: Vec<Tracks> = devices
            .iter()
            .map(|device| tracks_of(&**device))
            .collect::<Result<_>>()
            .map_err(|error| error.to_string())?;
        check_equal(devices, &tracks)?;
        let inquiries: Vec<&Inquiry> = devices.iter().map(|device| device.inquiry()).collect();
        let blocks = inquiries.iter().map(|inquiry| inquiry.volume_block);
        let of_devices = blocks.max().unwrap_or(BlockCount(1));
        let mut zones = Vec::new();
        let (layout, volume_block) = match layout {
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } => {
                (stripe::fixed(level, &inquiries, unit)?, of_devices)
            }
            LayoutDescription::Stripe { unit: StripeUnit::Track } => {
                (stripe::by_track(level, &tracks), of_devices)
            }
            LayoutDescription::Quadrangle { depth, block, zone } => {
                let wanted = Wanted { depth, block, zone, known };
                let (layout, found) = quadrangles(level, &tracks, wanted)?;
                zones = found;
                (layout, block)
            }
        };
        Ok(Laid { shape: Shape { layout, old: None }, zones, volume_block })
    }

    /// The first `stripes` of it; as it is where it has no more.
    pub(crate) fn limited_to(mut self, stripes: u64) -> Laid {
        self.shape.layout = self.shape.layout.limited_to(stripes);
        self
    }

    /// What a label says of its zones; an error when there is no room for that.
    pub(crate) fn known_zones(&self) -> std::result::Result<Vec<KnownZone>, String> {
        if self.zones.len() > ZONES_MAX {
            let zones = self.zones.len();
            return Err(format!(
                "{zones} zones are too many: labels hold at most {ZONES_MAX}; choose one zone with `zone`"
            ));
        }
        let known = |zone: &QuadrangleZone| KnownZone {
            zone: zone.zone as u32,
            row: zone.dimensions.track.0 as u32,
            quadrangles: zone.quadrangles,
        };
        Ok(self.zones.iter().map(known).collect())
    }
}

/// An error when the devices differ in what a layout depends on.
fn check_equal(devices: &[Arc<dyn Device>], tracks: &[Tracks]) -> std::result::Result<(), String> {
    let lengths = |tracks: &Tracks| -> Vec<BlockCount> {
        zones_of(tracks).iter().map(|zone| zone.ensemble).collect()
    };
    let mut each = devices.iter().zip(tracks.iter().map(lengths));
    let Some((first, of_first)) = each.next() else {
        return Err("key `devices`: a volume has at least one device".into());
    };
    match each.find(|(_, lengths)| *lengths != of_first) {
        None => Ok(()),
        Some((other, _)) => Err(format!(
            "{} and {} have different geometries: a volume takes devices of one kind",
            first.inquiry().name,
            other.inquiry().name
        )),
    }
}
