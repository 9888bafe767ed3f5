//! Zones, as far as they show through the interface: stretches of ensembles of one length, some of
//! them shortened by defects and spares.

use moirai_storage::{Device, Ensemble, Result};
use moirai_units::{BlockCount, BlockRange};

use crate::tracks::Tracks;

/// A stretch of a device in which ensembles that nothing shortens have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The blocks from the first such ensemble to the next zone.
    pub blocks: BlockRange,
    /// Blocks in an ensemble that nothing shortens, N.
    pub ensemble: BlockCount,
    /// How many of those there are.
    pub ensembles: u64,
    /// How many are shorter.
    pub shortened: u64,
    /// The largest delay between two ensembles, H.
    pub switch: BlockCount,
}

/// As many ensembles in a row that are all shorter are another zone and no defects; a stretch of
/// fewer is none.
const ZONE_ENSEMBLES_MIN: usize = 8;

/// The zones of `device`, in block order, those of a single ensemble included. Each ensemble is in one of them.
pub fn zones(device: &dyn Device) -> Result<Vec<Zone>> {
    Tracks::of(device).map(|tracks| all_zones_of(&tracks))
}

/// The zones of a device with these tracks that layouts use: those of a few tracks are left out, unless there is no
/// other.
pub(crate) fn zones_of(tracks: &Tracks) -> Vec<Zone> {
    let mut zones = all_zones_of(tracks);
    if zones.len() > 1 {
        zones.retain(|zone| zone.ensembles >= ZONE_ENSEMBLES_MIN as u64);
    }
    zones
}

fn all_zones_of(tracks: &Tracks) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    // Ensembles that may be shortened ones of the last zone, or the first of the next.
    let mut shorter: Vec<Ensemble> = Vec::new();
    for ensemble in tracks.iter() {
        let count = ensemble.blocks.count;
        match zones.last_mut() {
            Some(zone) if count == zone.ensemble => {
                take_in(zone, &mut shorter);
                extend(zone, &ensemble);
                zone.ensembles += 1;
            }
            Some(zone) if count < zone.ensemble => {
                shorter.push(ensemble);
                if shorter.len() >= ZONE_ENSEMBLES_MIN {
                    begin(&mut zones, &mut shorter);
                }
            }
            // What came before were the first ones of this zone, shortened.
            Some(zone) if zone.ensembles < ZONE_ENSEMBLES_MIN as u64 => {
                take_in(zone, &mut shorter);
                zone.shortened += zone.ensembles;
                zone.ensembles = 1;
                zone.ensemble = count;
                extend(zone, &ensemble);
            }
            last => {
                if let Some(zone) = last {
                    take_in(zone, &mut shorter);
                }
                zones.push(zone_of(&ensemble));
            }
        }
    }
    if let Some(zone) = zones.last_mut() {
        take_in(zone, &mut shorter);
    }
    zones
}

/// Makes a zone of ensembles that are all shorter than those of the zone before: its length is the
/// commonest of theirs, and what comes before the first of that length is still the old zone's.
fn begin(zones: &mut Vec<Zone>, shorter: &mut Vec<Ensemble>) {
    let times = |count| shorter.iter().filter(|other| other.blocks.count == count).count();
    let commonest =
        shorter.iter().map(|one| one.blocks.count).max_by_key(|count| (times(*count), *count));
    let first = shorter.iter().position(|one| Some(one.blocks.count) == commonest).unwrap_or(0);
    let mut rest = shorter.split_off(first);
    if let Some(old) = zones.last_mut() {
        take_in(old, shorter);
    }
    let mut ensembles = rest.drain(..);
    let Some(mut zone) = ensembles.next().as_ref().map(zone_of) else { return };
    for ensemble in ensembles {
        extend(&mut zone, &ensemble);
        *(if ensemble.blocks.count == zone.ensemble {
            &mut zone.ensembles
        } else {
            &mut zone.shortened
        }) += 1;
    }
    zones.push(zone);
}

fn zone_of(ensemble: &Ensemble) -> Zone {
    Zone {
        blocks: ensemble.blocks,
        ensemble: ensemble.blocks.count,
        ensembles: 1,
        shortened: 0,
        switch: ensemble.switch,
    }
}

/// Makes shortened ensembles part of `zone`.
fn take_in(zone: &mut Zone, shorter: &mut Vec<Ensemble>) {
    for ensemble in shorter.drain(..) {
        extend(zone, &ensemble);
        zone.shortened += 1;
    }
}

fn extend(zone: &mut Zone, ensemble: &Ensemble) {
    zone.blocks = BlockRange::between(zone.blocks.first, ensemble.blocks.end());
    zone.switch = zone.switch.max(ensemble.switch);
}

impl Tracks {
    /// Without the last one where that is shorter than others of its zone: the device may end in its middle, and a larger one would
    /// not.
    pub(crate) fn without_cut_end(mut self) -> Tracks {
        let whole = zones_of(&self).last().map(|zone| zone.ensemble);
        if let Some(whole) = whole {
            self.drop_shorter_end(whole);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_units::Lbn;

    /// The zones of a device with tracks of these lengths: (first block, N, tracks of N, shortened).
    fn found(lengths: &[u64]) -> Vec<(u64, u64, u64, u64)> {
        let mut tracks = Tracks::default();
        let mut first = Lbn(0);
        for length in lengths {
            let blocks = BlockRange::new(first, BlockCount(*length));
            tracks.push(Ensemble { blocks, switch: BlockCount(1) });
            first = blocks.end();
        }
        let told =
            |zone: &Zone| (zone.blocks.first.0, zone.ensemble.0, zone.ensembles, zone.shortened);
        let zones = zones_of(&tracks);
        assert!(zones.windows(2).all(|pair| pair[0].blocks.end() <= pair[1].blocks.first));
        zones.iter().map(told).collect()
    }

    #[test]
    fn a_zone_goes_on_over_shortened_tracks() {
        let outer = [vec![100; 20], vec![99], vec![100; 3], vec![97, 99], vec![100; 20]].concat();
        assert_eq!(found(&outer), [(0, 100, 43, 3)]);
        // A spare at the end of each cylinder of four tracks, and of each of one track in two.
        assert_eq!(found(&[100, 100, 100, 98].repeat(10)), [(0, 100, 30, 10)]);
        assert_eq!(found(&[100, 98].repeat(20)), [(0, 100, 20, 20)]);
    }

    #[test]
    fn zones_begin_where_tracks_become_shorter_or_longer_for_good() {
        let both = [vec![100; 20], vec![90; 20]].concat();
        assert_eq!(found(&both), [(0, 100, 20, 0), (2000, 90, 20, 0)]);
        // The outer zone ends, and the inner one begins, with shortened tracks.
        let ends = [vec![100; 20], vec![99, 88], vec![90; 20]].concat();
        assert_eq!(found(&ends), [(0, 100, 20, 2), (2187, 90, 20, 0)]);
        // Serpentine surfaces: the zones of the next surface begin longer again.
        let longer = [vec![90; 20], vec![99], vec![100; 20], vec![90; 20]].concat();
        let zones = found(&longer);
        assert_eq!(zones.iter().map(|zone| zone.1).collect::<Vec<_>>(), [90, 100, 90]);
    }

    /// Every track is in a zone, also one that no layout uses.
    #[test]
    fn a_zone_of_a_single_track_is_told() {
        let lengths = [vec![100; 20], vec![120], vec![90; 20], vec![50]].concat();
        let mut tracks = Tracks::default();
        let mut first = Lbn(0);
        for length in lengths {
            let blocks = BlockRange::new(first, BlockCount(length));
            tracks.push(Ensemble { blocks, switch: BlockCount(1) });
            first = blocks.end();
        }
        let told = |zone: &Zone| (zone.ensemble.0, zone.ensembles, zone.shortened);
        let all: Vec<_> = all_zones_of(&tracks).iter().map(told).collect();
        assert_eq!(all.iter().map(|zone| zone.1 + zone.2).sum::<u64>(), 42, "{all:?}");
        assert!(all.contains(&(120, 1, 0)), "{all:?}");
        assert!(zones_of(&tracks).iter().all(|zone| zone.ensembles >= 8));
    }

    #[test]
    fn few_tracks_are_no_zone_unless_there_is_nothing_else() {
        assert_eq!(found(&[64, 64, 64, 10]), [(0, 64, 3, 1)]);
        let zones = found(&[vec![100; 20], vec![5; 3]].concat());
        assert_eq!(zones, [(0, 100, 20, 3)]);
        assert_eq!(found(&[vec![50], vec![100; 20]].concat()), [(0, 100, 20, 1)]);
    }
}
