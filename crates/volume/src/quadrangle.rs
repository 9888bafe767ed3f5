//! Quadrangle layout: thesis 6.3.3 to 6.3.7 and figure 6.2.
//!
//! A quadrangle is w x d volume blocks on d tracks of one disk that follow each other. Row r of it
//! lies on its track r and is turned by r blocks, so that the blocks of a column are each reached
//! from the one above by a head switch alone (figure 6.5). Successive rows of the volume lie on
//! successive disks; each turn of quadrangles begins one disk further on, so that the blocks p w
//! apart are semi-sequential d by d, and p such runs lie on p different disks:
//!
//! ```text
//!             disk 0     disk 1     disk 2       p = 3, d = 2, w = 2, b = 1, no parity
//! turn 0      0  1       2  3       4  5         equivalence class of 0:
//!             7  6       9  8      11 10           columns {0, 6} {12, 18} {24, 30}
//! turn 1     16 17      12 13      14 15           rows    {0, 12, 24} {6, 18, 30}
//!            23 22      19 18      21 20
//! turn 2     26 27      28 29      24 25
//!            33 32      35 34      31 30
//! ```
//!
//! The volume is in all zones, or in one. A track that defects shorten below a row is passed over,
//! and so are tracks at whose end the arm takes too long, as between cylinders: the tracks of every
//! quadrangle are read in one revolution.

use moirai_units::{BlockCount, Lbn};

use crate::label::KnownZone;
use crate::slots::Slots;
use crate::tracks::Tracks;
use crate::zones::{Zone, zones_of};
use crate::{Layout, Level};

/// A quadrangle's dimensions, in the letters of thesis table 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuadrangleDimensions {
    /// N: sectors on the shortest track that is used.
    pub track: BlockCount,
    /// H: sectors that pass while the head goes from one track to the next, at most.
    pub switch: BlockCount,
    /// d: tracks of a quadrangle.
    pub depth: u32,
    /// b: sectors of a volume block.
    pub block: BlockCount,
}

impl QuadrangleDimensions {
    /// The deepest quadrangle that keeps the one-revolution bound with blocks of `block` sectors:
    /// floor((N + H) / (b + H)), equation 6.8.
    #[must_use]
    pub fn depth_max(track: BlockCount, switch: BlockCount, block: BlockCount) -> u32 {
        let depth = (track.0 + switch.0).checked_div(block.0 + switch.0);
        depth.unwrap_or(0).try_into().unwrap_or(u32::MAX)
    }

    /// The largest block for quadrangles of `depth` tracks: floor((N + H) / d) - H, equation 6.7.
    #[must_use]
    pub fn block_max(track: BlockCount, switch: BlockCount, depth: u32) -> BlockCount {
        let each = (track.0 + switch.0).checked_div(u64::from(depth));
        BlockCount(each.unwrap_or(0).saturating_sub(switch.0))
    }

    /// w: volume blocks on a track, floor(N / b).
    #[must_use]
    pub fn width(&self) -> u64 {
        self.track.0 / self.block.0
    }

    /// R: sectors of each track that hold nothing, N - w b.
    ///
    /// The thesis prints N mod w; its figure and its table mean N mod b.
    #[must_use]
    pub fn residual(&self) -> BlockCount {
        BlockCount(self.track.0 - self.width() * self.block.0)
    }

    /// Whether d blocks of b sectors are read in one revolution: equation 6.4.
    #[must_use]
    pub fn keeps_one_revolution(&self) -> bool {
        let depth = u64::from(self.depth);
        depth * self.block.0 + depth.saturating_sub(1) * self.switch.0 <= self.track.0
    }

    /// w b: blocks of a row.
    #[must_use]
    pub fn row(&self) -> BlockCount {
        BlockCount(self.width() * self.block.0)
    }
}

/// The quadrangles of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuadrangleZone {
    /// Which zone of the disks, counted from the rim.
    pub zone: usize,
    /// Their dimensions.
    pub dimensions: QuadrangleDimensions,
    /// How many there are on each disk.
    pub quadrangles: u64,
    /// Tracks of the zone on each disk that are in none.
    pub passed_over: u64,
}

/// What of the tracks may stay unused for the sake of deeper quadrangles, in percent; thesis 6.3.7
/// gives as much for tracks with defects.
const UNUSED_PERCENT_MAX: u64 = 5;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) depth: Option<u32>,
    pub(crate) block: BlockCount,
    pub(crate) zone: Option<usize>,
    /// The quadrangles that there were when the volume was made; empty while it is.
    pub(crate) known: &'a [KnownZone],
}

/// Quadrangles over disks with `tracks`. The message of the error says which dimensions are possible.
pub(crate) fn quadrangles(
    level: Level,
    tracks: &[Tracks],
    Wanted { depth, block, zone: wanted_zone, known }: Wanted<'_>,
) -> Result<(Layout, Vec<QuadrangleZone>), String> {
    let mut zones = CommonZone::of(tracks, block);
    if let Some(zone) = wanted_zone {
        let there = zones.len();
        zones.retain(|one| one.index == zone);
        if zones.is_empty() {
            return Err(format!(
                "key `zone`: there is no zone {zone}: the devices have {there} zones"
            ));
        }
    }
    if !known.is_empty() {
        let known_of =
            |zone: &CommonZone<'_>| known.iter().find(|one| one.zone as usize == zone.index);
        zones.retain(|zone| known_of(zone).is_some());
        for zone in &mut zones {
            zone.row = known_of(zone).map_or(zone.row, |one| BlockCount(u64::from(one.row)));
        }
    }
    let longest = zones.iter().map(|zone| zone.track().0).min().unwrap_or(0);
    if block == BlockCount::ZERO || block.0 > longest {
        return Err(format!("key `block`: {block} do not fit a track: take 1 to {longest}"));
    }
    let deepest = zones.iter().map(CommonZone::deepest).min().unwrap_or(0);
    let depth = depth.unwrap_or(deepest);

    let mut slots = vec![Slots::default(); tracks.len()];
    let mut rows = Vec::new();
    let mut found = Vec::new();
    for zone in &zones {
        let filled = zone.filled(depth);
        let quadrangles = filled.iter().map(|disk| disk.quadrangles).min().unwrap_or(0);
        if quadrangles == 0 {
            continue;
        }
        let before = known.iter().find(|one| one.zone as usize == zone.index);
        // Turns that go once round the disks, so that every class is whole.
        let quadrangles = match (before, quadrangles / tracks.len() as u64) {
            (Some(before), _) => quadrangles.min(before.quadrangles),
            (None, 0) => quadrangles,
            (None, rounds) => rounds * tracks.len() as u64,
        };
        let stripes = quadrangles * u64::from(depth);
        for (slots, disk) in slots.iter_mut().zip(&filled) {
            disk.tracks.iter().take(stripes as usize).for_each(|first| slots.push(*first));
        }
        let switch = filled.iter().map(|disk| disk.switch).max().unwrap_or_default();
        let dimensions = QuadrangleDimensions { track: zone.row, switch, depth, block };
        rows.push((stripes, dimensions.row(), switch));
        let all = zone.disks.iter().map(|(_, zone)| zone.ensembles + zone.shortened).min();
        found.push(QuadrangleZone {
            zone: zone.index,
            dimensions,
            quadrangles,
            passed_over: all.unwrap_or(0) - stripes,
        });
    }
    if found.is_empty() {
        return Err(format!(
            "key `depth`: {depth} tracks of {block} each do not fit in one revolution, or the devices \
             have fewer tracks: take at most {deepest} (thesis equation 6.8)"
        ));
    }
    let mut layout = Layout::new(level, true, u64::from(depth), block, slots);
    for (stripes, row, switch) in rows {
        layout.add(stripes, row, switch);
    }
    Ok((layout, found))
}

/// A zone on all disks of the volume.
struct CommonZone<'a> {
    index: usize,
    block: BlockCount,
    /// The tracks of each disk, and the zone as it has it.
    disks: Vec<(&'a Tracks, Zone)>,
    /// Blocks that a track has at least to be used.
    row: BlockCount,
}

/// The quadrangles of a zone of one disk.
#[derive(Default)]
struct Filled {
    /// The first blocks of their tracks.
    tracks: Vec<Lbn>,
    quadrangles: u64,
    /// The largest delay within them.
    switch: BlockCount,
}

impl<'a> CommonZone<'a> {
    /// The zones that all disks have.
    fn of(tracks: &'a [Tracks], block: BlockCount) -> Vec<CommonZone<'a>> {
        let each: Vec<Vec<Zone>> = tracks.iter().map(zones_of).collect();
        let count = each.iter().map(Vec::len).min().unwrap_or(0);
        (0..count)
            .map(|index| {
                let zone = |zones: &Vec<Zone>| zones.get(index).copied();
                let disks = tracks.iter().zip(each.iter().filter_map(zone)).collect();
                let mut zone = CommonZone { index, block, disks, row: BlockCount::ZERO };
                zone.row = zone.best_row();
                zone
            })
            .collect()
    }

    /// N: a track that nothing shortens.
    fn track(&self) -> BlockCount {
        self.disks.iter().map(|(_, zone)| zone.ensemble).max().unwrap_or_default()
    }

    /// The length of row that holds the most: a shorter one wastes some of each track, and a longer
    /// one all of those that are shorter.
    fn best_row(&self) -> BlockCount {
        let lengths = |(tracks, zone): &(&Tracks, Zone)| {
            let mut lengths: Vec<u64> =
                tracks.within(zone.blocks).map(|track| track.blocks.count.0).collect();
            lengths.sort_unstable();
            lengths
        };
        let disks: Vec<Vec<u64>> = self.disks.iter().map(lengths).collect();
        let mut candidates: Vec<u64> = disks.iter().flatten().copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        let holds = |row: &u64| {
            let fitting = |lengths: &Vec<u64>| lengths.len() - lengths.partition_point(|l| l < row);
            let tracks = disks.iter().map(fitting).min().unwrap_or(0) as u64;
            tracks * (row.checked_div(self.block.0).unwrap_or(0) * self.block.0)
        };
        BlockCount(candidates.into_iter().max_by_key(|row| (holds(row), *row)).unwrap_or(0))
    }

    /// The deepest quadrangles that leave few tracks unused.
    fn deepest(&self) -> u32 {
        let switches = self.disks.iter().flat_map(|(tracks, zone)| tracks.within(zone.blocks));
        let least = switches.map(|track| track.switch).min().unwrap_or_default();
        let bound = QuadrangleDimensions::depth_max(self.track(), least, self.block);
        let fits = |depth: &u32| {
            self.disks.iter().zip(self.filled(*depth)).all(|((tracks, zone), filled)| {
                let usable = |track: &_| self.takes(track);
                let usable = tracks.within(zone.blocks).filter(usable).count() as u64;
                filled.quadrangles * u64::from(*depth) * 100 >= usable * (100 - UNUSED_PERCENT_MAX)
            })
        };
        (1..=bound).rev().find(fits).unwrap_or(0)
    }

    fn takes(&self, track: &moirai_storage::Ensemble) -> bool {
        track.blocks.count >= self.row
    }

    /// Quadrangles of `depth` tracks on each disk.
    fn filled(&self, depth: u32) -> Vec<Filled> {
        self.disks.iter().map(|(tracks, zone)| self.fill(tracks, zone, depth as usize)).collect()
    }

    /// Takes tracks in their order, and lets go of the first ones where a quadrangle would take more
    /// than a revolution.
    fn fill(&self, tracks: &Tracks, zone: &Zone, depth: usize) -> Filled {
        let revolution = zone.ensemble.0;
        let mut filled = Filled::default();
        // First blocks, and the sectors that pass between the track before and this.
        let mut quadrangle: Vec<(Lbn, u64)> = Vec::new();
        let mut passed = 0;
        for track in tracks.within(zone.blocks) {
            if self.takes(&track) && depth > 0 {
                quadrangle.push((track.blocks.first, passed % revolution));
                while self.span(&quadrangle) > revolution {
                    quadrangle.remove(0);
                }
                passed = 0;
            }
            passed += track.blocks.count.0 + track.switch.0;
            if quadrangle.len() == depth && depth > 0 {
                let switches = quadrangle.iter().skip(1).map(|(_, switch)| BlockCount(*switch));
                filled.switch = switches.fold(filled.switch, BlockCount::max);
                filled.tracks.extend(quadrangle.drain(..).map(|(first, _)| first));
                filled.quadrangles += 1;
            }
        }
        filled
    }

    /// Sectors that pass while a block of each track is read: equation 6.4.
    fn span(&self, quadrangle: &[(Lbn, u64)]) -> u64 {
        let switches: u64 = quadrangle.iter().skip(1).map(|(_, switch)| switch).sum();
        quadrangle.len() as u64 * self.block.0 + switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskIndex;
    use moirai_storage::Ensemble;
    use moirai_units::BlockRange;

    fn tracks(lengths: &[u64], switch: u64) -> Tracks {
        let mut tracks = Tracks::default();
        let mut first = Lbn(0);
        for length in lengths {
            let blocks = BlockRange::new(first, BlockCount(*length));
            tracks.push(Ensemble { blocks, switch: BlockCount(switch) });
            first = blocks.end();
        }
        tracks
    }

    fn plain(track: u64, switch: u64, count: usize) -> Tracks {
        tracks(&vec![track; count], switch)
    }

    fn wanted(depth: Option<u32>, block: u64) -> Wanted<'static> {
        Wanted { depth, block: BlockCount(block), zone: None, known: &[] }
    }

    fn laid(
        tracks: &[Tracks],
        wanted: Wanted<'_>,
    ) -> Result<(Layout, Vec<QuadrangleZone>), String> {
        quadrangles(Level::Raid0, tracks, wanted)
    }

    /// Thesis table 6.2 from N and H; the design's list of inputs.
    #[test]
    fn table_6_2_follows_from_n_and_h() {
        let check = |track, switch, depth, block, residual| {
            let (track, switch) = (BlockCount(track), BlockCount(switch));
            let deepest = QuadrangleDimensions::depth_max(track, switch, BlockCount(1));
            let largest = QuadrangleDimensions::block_max(track, switch, deepest);
            let dimensions = QuadrangleDimensions { track, switch, depth: deepest, block: largest };
            let found = (deepest, largest.0, dimensions.residual().0);
            assert_eq!(found, (depth, block, residual), "N = {track}, H = {switch}");
            assert!(dimensions.keeps_one_revolution());
        };
        check(96, 14, 7, 1, 0); // HP C2247
        check(390, 59, 7, 5, 0); // IBM Ultrastar 18 ES
        check(334, 64, 6, 2, 0); // Quantum Atlas 10K
        check(528, 99, 6, 5, 3); // Quantum Atlas 10K II
        check(386, 72, 6, 4, 2); // Seagate Cheetah X15
        check(738, 139, 6, 7, 3); // Seagate Cheetah 36ES
        check(686, 139, 5, 26, 10); // Maxtor Atlas 10K III
        // "With H = 136, D_max = 6" (thesis 6.3.6).
        let deepest =
            QuadrangleDimensions::depth_max(BlockCount(686), BlockCount(136), BlockCount(1));
        assert_eq!(deepest, 6);
    }

    /// The picture at the head of this file.
    #[test]
    fn the_picture_tells_the_truth() {
        let disks = vec![plain(2, 0, 6); 3];
        let (layout, _) = laid(&disks, wanted(Some(2), 1)).unwrap();
        let picture = [
            [0, 1, 2, 3, 4, 5],
            [7, 6, 9, 8, 11, 10],
            [16, 17, 12, 13, 14, 15],
            [23, 22, 19, 18, 21, 20],
            [26, 27, 28, 29, 24, 25],
            [33, 32, 35, 34, 31, 30],
        ];
        for (track, line) in picture.iter().enumerate() {
            for (column, vlbn) in line.iter().enumerate() {
                let location = layout.locate(Lbn(*vlbn));
                assert_eq!(location.disk, DiskIndex(column / 2), "{vlbn}");
                assert_eq!(location.dlbn.0, track as u64 * 2 + column as u64 % 2, "{vlbn}");
            }
        }
        let class = layout.equivalent(Lbn(18));
        assert_eq!(class.lbns, [0, 12, 24, 6, 18, 30].map(Lbn));
        assert_eq!(class.by_column().collect::<Vec<_>>(), [0, 6, 12, 18, 24, 30].map(Lbn));
    }

    /// Thesis 6.3.7: b = 2, p = 1: VLBNs 0, 10, 20, 30 lie at DLBNs 0, 24, 48, 72.
    #[test]
    fn a_single_quadrangle_is_as_in_the_thesis() {
        let (layout, zones) = laid(&[plain(22, 3, 4)], wanted(Some(4), 2)).unwrap();
        assert_eq!(zones[0].dimensions.width(), 11);
        // The figure numbers volume blocks and has w = 10 of them in a row; here w = 11 fit.
        for row in 0..4 {
            assert_eq!(layout.locate(Lbn(row * 11 * 2)).dlbn, Lbn(row * 24));
        }
    }

    #[test]
    fn impossible_dimensions_say_what_is_possible() {
        let disks = vec![plain(738, 139, 1000); 4];
        let error = laid(&disks, wanted(Some(7), 1)).unwrap_err();
        assert!(error.contains("take at most 6"), "{error}");
        assert!(laid(&disks, wanted(None, 0)).unwrap_err().contains("`block`"));
        assert!(laid(&disks, wanted(None, 739)).unwrap_err().contains("`block`"));
        let (deepest, _) = laid(&disks, wanted(None, 1)).unwrap();
        assert_eq!(deepest.depth(), 6);
        let zone = Wanted { zone: Some(1), ..wanted(None, 1) };
        assert!(laid(&disks, zone).unwrap_err().contains("no zone 1"));
    }

    #[test]
    fn shortened_tracks_are_passed_over_unless_the_residual_makes_up_for_it() {
        // Rows of 9 blocks of 11 sectors leave 1 of 100 sectors; track 3 is short by 1, track 5 by 2.
        let lengths = [100, 100, 100, 99, 100, 98, 100, 100, 100, 100];
        let disks = [tracks(&lengths, 5), plain(100, 5, 10)];
        let (layout, zones) = laid(&disks, wanted(Some(3), 11)).unwrap();
        assert_eq!((zones[0].quadrangles, zones[0].passed_over), (2, 4));
        assert_eq!(zones[0].dimensions.row(), BlockCount(99));
        // The short track is in the second row of tracks; of the other disk nothing is passed over.
        let starts = |disk| {
            (0..6)
                .map(|row| layout.unit_on(DiskIndex(disk), crate::StripeIndex(row)).0)
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(0), [0, 100, 200, 300, 399, 597]);
        assert_eq!(starts(1), (0..6).map(|row| row * 100).collect::<Vec<_>>());
    }

    #[test]
    fn quadrangles_do_not_reach_over_a_cylinder_that_takes_too_long() {
        // Cylinders of four tracks of 100 sectors: 20 to the next track, 60 to the next cylinder.
        let mut cylinders = Tracks::default();
        for track in 0..40 {
            let switch = if track % 4 == 3 { 60 } else { 20 };
            let blocks = BlockRange::new(Lbn(track * 100), BlockCount(100));
            cylinders.push(Ensemble { blocks, switch: BlockCount(switch) });
        }
        // Four tracks take 4 + 60 sectors; five would take 5 + 120.
        let (layout, zones) = laid(&[cylinders.clone()], wanted(None, 1)).unwrap();
        assert_eq!((layout.depth(), zones[0].passed_over), (4, 0));
        assert_eq!(zones[0].dimensions.switch, BlockCount(20));
        // Three tracks of each cylinder, or three across the boundary: 3 + 80 is less than a turn.
        let (_, zones) = laid(&[cylinders], wanted(Some(3), 1)).unwrap();
        assert_eq!((zones[0].quadrangles, zones[0].dimensions.switch), (13, BlockCount(60)));
    }

    #[test]
    fn a_volume_in_all_zones_takes_the_width_of_each() {
        let lengths = [vec![100; 12], vec![90; 12]].concat();
        let (layout, zones) = laid(&vec![tracks(&lengths, 10); 2], wanted(Some(3), 4)).unwrap();
        let widths: Vec<_> = zones.iter().map(|zone| zone.dimensions.width()).collect();
        assert_eq!(widths, [25, 22]);
        assert_eq!(layout.capacity(), BlockCount(2 * 12 * (100 + 88)));
        assert_eq!(layout.unit_around(Lbn(2 * 12 * 100)).0.count, BlockCount(88));
        assert_eq!(layout.locate(Lbn(2 * 12 * 100)).dlbn, Lbn(1200));
    }
}
