//! Zones as the eye can tell them apart, and their shades.

use moirai_models::Profile;

use crate::colours::ramp;

/// Bands are no thinner than this part of the disk, or one zone of a thousand would be nothing but
/// its outline.
const BANDS_MOST: u32 = 400;

/// Neighbouring cylinders with tracks of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    pub(super) first_cylinder: u32,
    /// One past the last cylinder.
    pub(super) end: u32,
    pub(super) track_sectors: u32,
}

/// The zones from the rim inwards; those too thin to see are taken together.
pub(super) fn bands(profile: &Profile) -> Vec<Band> {
    let least = profile.geometry.cylinders() / BANDS_MOST;
    let mut bands: Vec<Band> = Vec::new();
    for zone in profile.geometry.zones() {
        let end = zone.first_cylinder + zone.cylinders;
        match bands.last_mut() {
            Some(band)
                if band.end - band.first_cylinder < least
                    && zone.first_cylinder - band.end < least =>
            {
                band.end = end;
            }
            _ => bands.push(Band {
                first_cylinder: zone.first_cylinder,
                end,
                track_sectors: zone.track_sectors,
            }),
        }
    }
    bands
}

/// What shade of blue tracks of a length have: the longest are darkest.
pub(super) struct Shades {
    least: f64,
    most: f64,
}

impl Shades {
    pub(super) fn new(profile: &Profile) -> Shades {
        let sectors = || profile.geometry.zones().map(|zone| f64::from(zone.track_sectors));
        Shades { least: sectors().fold(f64::MAX, f64::min), most: sectors().fold(0.0, f64::max) }
    }

    /// The shade of tracks of `sectors`; a middle one if all tracks are alike.
    pub(super) fn of(&self, sectors: u32) -> String {
        if self.most <= self.least {
            return ramp(0.6);
        }
        ramp((f64::from(sectors) - self.least) / (self.most - self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_models::ZoneFile;

    #[test]
    fn zones_too_thin_to_see_are_taken_together() {
        let mut file = Profile::built_in("maxtor-atlas-10k-iii").unwrap().file;
        let zone = |index: u32| ZoneFile {
            first_cylinder: Some(2 * index),
            cylinders: 1,
            track_sectors: 5_000 - index,
            ..ZoneFile::default()
        };
        let mut bands_of = |count: u32| {
            file.zones = (0..count).map(zone).collect();
            bands(&Profile::new(file.clone()).unwrap())
        };
        let few = bands_of(3);
        assert_eq!(few.len(), 3);
        assert_eq!(few[1], Band { first_cylinder: 2, end: 3, track_sectors: 4_999 });
        let many = bands_of(4_000);
        assert!(many.len() <= 1 + BANDS_MOST as usize, "{}", many.len());
        assert_eq!(many.last().unwrap().end, 7_999);
    }
}
