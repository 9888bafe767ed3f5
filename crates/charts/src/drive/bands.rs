//! Bands of cylinders, one for each zone that is thick enough to see, and their colours.

use moirai_models::Profile;

use crate::colours::ramp;

/// A drive has at most about as many bands: in thinner ones, the outlines would cover the colours.
const BANDS_MAX: u32 = 400;
/// With more bands, alternating colours would blur into one, so that each colour shows the track length alone.
const ALTERNATING_MAX: usize = 48;
/// The part of the ramp for bands with even numbers: its start, and its length.
const DARK: (f64, f64) = (0.62, 0.38);
/// The part of the ramp for bands with odd numbers.
const LIGHT: (f64, f64) = (0.0, 0.25);

/// A zone, or several neighbouring ones that are too thin to draw apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Band {
    pub(super) first_zone: usize,
    pub(super) last_zone: usize,
    pub(super) first_cylinder: u32,
    /// One past the last cylinder.
    pub(super) end: u32,
    /// Sectors per track of the first zone.
    pub(super) track_sectors: u32,
    pub(super) colour: String,
    /// Whether text on `colour` needs to be light.
    pub(super) is_dark: bool,
}

/// Returns the bands from the rim inwards, with their colours.
pub(super) fn bands(profile: &Profile) -> Vec<Band> {
    let mut bands = merged(profile);
    let sectors = || bands.iter().map(|band| f64::from(band.track_sectors));
    let (least, most) = (sectors().fold(f64::MAX, f64::min), sectors().fold(0.0, f64::max));
    let is_alternating = bands_alternate(&bands);
    for (index, band) in bands.iter_mut().enumerate() {
        let share = match most > least {
            true => (f64::from(band.track_sectors) - least) / (most - least),
            false => 0.6,
        };
        let (start, length) = match (is_alternating, index % 2) {
            (false, _) => (0.0, 1.0),
            (true, 0) => DARK,
            (true, _) => LIGHT,
        };
        let place = start + length * share;
        (band.colour, band.is_dark) = (ramp(place), place > 0.5);
    }
    bands
}

/// Whether the colours of neighbouring `bands` alternate between dark and light.
pub(super) fn bands_alternate(bands: &[Band]) -> bool {
    (2..=ALTERNATING_MAX).contains(&bands.len())
}

fn merged(profile: &Profile) -> Vec<Band> {
    let least = profile.geometry.cylinders() / BANDS_MAX;
    let mut bands: Vec<Band> = Vec::new();
    for (index, zone) in profile.geometry.zones().enumerate() {
        let end = zone.first_cylinder + zone.cylinders;
        match bands.last_mut() {
            Some(band)
                if band.end - band.first_cylinder < least
                    && zone.first_cylinder - band.end < least =>
            {
                (band.last_zone, band.end) = (index, end);
            }
            _ => bands.push(Band {
                first_zone: index,
                last_zone: index,
                first_cylinder: zone.first_cylinder,
                end,
                track_sectors: zone.track_sectors,
                colour: String::new(),
                is_dark: false,
            }),
        }
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_models::{ZoneFile, built_in_names};

    #[test]
    fn bands_merge_zones_too_thin_to_see() {
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
        let Band { first_cylinder, end, track_sectors, .. } = few[1];
        assert_eq!((first_cylinder, end, track_sectors), (2, 3, 4_999));
        let many = bands_of(4_000);
        assert!(many.len() <= 1 + BANDS_MAX as usize, "{}", many.len());
        let last = many.last().unwrap();
        assert_eq!((last.last_zone, last.end), (3_999, 7_999));
    }

    /// The relative luminance of `#rrggbb`, as the Web Content Accessibility Guidelines 2.2 define it.
    fn luminance(colour: &str) -> f64 {
        let part = |from: usize| {
            let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn colours_of_neighbouring_zones_contrast() {
        for name in built_in_names() {
            let bands = bands(&Profile::built_in(name).unwrap());
            for pair in bands.windows(2) {
                let (one, next) = (luminance(&pair[0].colour), luminance(&pair[1].colour));
                let contrast = (one.max(next) + 0.05) / (one.min(next) + 0.05);
                assert!(contrast > 2.0, "{name}: {contrast:.2} between {pair:?}");
            }
        }
    }
}
