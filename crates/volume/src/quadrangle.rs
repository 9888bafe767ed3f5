//! Quadrangle layout: thesis 6.3.3 to 6.3.7 and figure 6.2, for one zone of equal disks.
//!
//! A quadrangle is w x d volume blocks on d consecutive tracks of one disk. Row r of a quadrangle
//! lies on its track r and is turned by r blocks, so that the blocks of a column are each reached
//! from the one above by a head switch alone (figure 6.5). Successive rows of the volume lie on
//! successive disks; each stripe of quadrangles begins one disk further on, so that the blocks
//! p w apart are semi-sequential d by d, and p such runs lie on p different disks:
//!
//! ```text
//!             disk 0     disk 1     disk 2       p = 3, d = 2, w = 2, b = 1
//! stripe 0    0  1       2  3       4  5         equivalence class of 0:
//!             7  6       9  8      11 10           columns {0, 6} {12, 18} {24, 30}
//! stripe 1   16 17      12 13      14 15           rows    {0, 12, 24} {6, 18, 30}
//!            23 22      19 18      21 20
//! stripe 2   26 27      28 29      24 25
//!            33 32      35 34      31 30
//! ```

use moirai_storage::{Ensemble, EquivalenceClass};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{DiskIndex, Location, ZoneRun};

/// A quadrangle's dimensions, in the letters of thesis table 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuadrangleDimensions {
    /// N: sectors on a track.
    pub track: BlockCount,
    /// H: sectors that pass during a head switch.
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

    /// Blocks of the volume in one quadrangle row.
    fn row(&self) -> u64 {
        self.width() * self.block.0
    }
}

/// Quadrangles over one zone of p equal disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quadrangle {
    dimensions: QuadrangleDimensions,
    disks: u64,
    /// The first block of the zone, on each disk.
    zone_first: Lbn,
    /// Stripes of quadrangles; a multiple of the disks, so that every class is whole.
    stripes: u64,
}

/// A row of the volume, taken apart.
struct Row {
    /// Stripe of quadrangles.
    stripe: u64,
    /// Row in the quadrangle.
    row: u64,
    /// Place among the rows that are accessed in parallel.
    turn: u64,
    /// Block within the row.
    within: u64,
}

impl Quadrangle {
    /// Quadrangles of depth `depth` and blocks of `block` over `zone` of `disks` disks. Without a
    /// depth, the deepest is taken. The message of the error says which dimensions are possible.
    pub fn new(
        disks: usize,
        zone: &ZoneRun,
        depth: Option<u32>,
        block: BlockCount,
    ) -> Result<Quadrangle, String> {
        let (track, switch) = (zone.ensemble, zone.switch);
        if block == BlockCount::ZERO || block > track {
            return Err(format!(
                "key `block`: {block} do not lie between 1 and the {} of a track",
                track.0
            ));
        }
        let depth_max = QuadrangleDimensions::depth_max(track, switch, block);
        let dimensions =
            QuadrangleDimensions { track, switch, depth: depth.unwrap_or(depth_max), block };
        if dimensions.depth == 0 || !dimensions.keeps_one_revolution() {
            return Err(format!(
                "key `depth`: {} tracks of {block} each are not read in one revolution of {} \
                 sectors with a switch of {}: the deepest is {depth_max} (thesis equation 6.8)",
                dimensions.depth, track.0, switch.0
            ));
        }
        let disks = disks as u64;
        let stripes = zone.ensembles / u64::from(dimensions.depth) / disks * disks;
        if stripes == 0 {
            return Err(format!(
                "key `zone`: the zone has {} tracks, and {disks} disks at depth {} need {}",
                zone.ensembles,
                dimensions.depth,
                u64::from(dimensions.depth) * disks
            ));
        }
        Ok(Quadrangle { dimensions, disks, zone_first: zone.first, stripes })
    }

    /// The quadrangles' dimensions.
    #[must_use]
    pub fn dimensions(&self) -> &QuadrangleDimensions {
        &self.dimensions
    }

    pub(crate) fn capacity(&self) -> BlockCount {
        BlockCount(self.stripes * self.stripe_blocks())
    }

    fn depth(&self) -> u64 {
        u64::from(self.dimensions.depth)
    }

    /// Blocks that are accessed in parallel: a row on each disk.
    fn parallel_blocks(&self) -> u64 {
        self.dimensions.row() * self.disks
    }

    fn stripe_blocks(&self) -> u64 {
        self.parallel_blocks() * self.depth()
    }

    fn row_of(&self, vlbn: Lbn) -> Row {
        let row = vlbn.0 / self.dimensions.row();
        let parallel_row = row / self.disks;
        Row {
            stripe: parallel_row / self.depth(),
            row: parallel_row % self.depth(),
            turn: row % self.disks,
            within: vlbn.0 % self.dimensions.row(),
        }
    }

    pub(crate) fn locate(&self, vlbn: Lbn) -> Location {
        let Row { stripe, row, turn, within } = self.row_of(vlbn);
        let width = self.dimensions.width();
        let block = self.dimensions.block.0;
        let column = within / block + row;
        // The row is turned by `row` blocks: what runs over its end lies at the track's beginning.
        let (turned, blocks_left) = if column < width {
            (column, width - column)
        } else {
            (column - width, width + row - column)
        };
        let track = stripe * self.depth() + row;
        Location {
            disk: DiskIndex(((turn + stripe) % self.disks) as usize),
            dlbn: self.zone_first
                + BlockCount(track * self.dimensions.track.0 + turned * block + within % block),
            run: BlockCount(blocks_left * block - within % block),
        }
    }

    pub(crate) fn ensemble(&self, vlbn: Lbn) -> Ensemble {
        let row = self.dimensions.row();
        Ensemble {
            blocks: BlockRange::new(Lbn(vlbn.0 / row * row), BlockCount(row)),
            switch: self.dimensions.switch,
        }
    }

    pub(crate) fn parallel_ensemble(&self, vlbn: Lbn) -> BlockRange {
        let parallel = self.parallel_blocks();
        BlockRange::new(Lbn(vlbn.0 / parallel * parallel), BlockCount(parallel))
    }

    pub(crate) fn equivalent(&self, vlbn: Lbn) -> EquivalenceClass {
        // p stripes, in each of which the class has one column of a quadrangle.
        let region = self.stripe_blocks() * self.disks;
        let first = vlbn.0 / region * region + vlbn.0 % self.parallel_blocks();
        let member =
            |stripe, row| Lbn(first + stripe * self.stripe_blocks() + row * self.parallel_blocks());
        EquivalenceClass {
            lbns: (0..self.depth())
                .flat_map(|row| (0..self.disks).map(move |stripe| member(stripe, row)))
                .collect(),
            parallelism: self.disks as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn zone(track: u64, switch: u64, tracks: u64) -> ZoneRun {
        ZoneRun {
            first: Lbn(1000),
            ensemble: BlockCount(track),
            ensembles: tracks,
            switch: BlockCount(switch),
        }
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
        let layout = Quadrangle::new(3, &zone(2, 0, 6), Some(2), BlockCount(1)).unwrap();
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
                assert_eq!(location.dlbn.0, 1000 + track as u64 * 2 + column as u64 % 2, "{vlbn}");
            }
        }
        let class = layout.equivalent(Lbn(18));
        assert_eq!(class.lbns, [0, 12, 24, 6, 18, 30].map(Lbn));
        assert_eq!(class.by_column().collect::<Vec<_>>(), [0, 6, 12, 18, 24, 30].map(Lbn));
    }

    /// Thesis 6.3.7: b = 2, p = 1: VLBNs 0, 10, 20, 30 lie at DLBNs 0, 24, 48, 72.
    #[test]
    fn a_single_quadrangle_is_as_in_the_thesis() {
        let zone = ZoneRun { first: Lbn(0), ..zone(22, 3, 4) };
        let layout = Quadrangle::new(1, &zone, Some(4), BlockCount(2)).unwrap();
        assert_eq!(layout.dimensions().width(), 11);
        // The figure numbers volume blocks and has w = 10 of them in a row; here w = 11 fit.
        for row in 0..4 {
            assert_eq!(layout.locate(Lbn(row * 11 * 2)).dlbn, Lbn(row * 24));
        }
    }

    #[test]
    fn impossible_dimensions_say_what_is_possible() {
        let error = Quadrangle::new(4, &zone(738, 139, 1000), Some(7), BlockCount(1)).unwrap_err();
        assert!(error.contains("the deepest is 6"), "{error}");
        let error = Quadrangle::new(4, &zone(738, 139, 12), Some(4), BlockCount(1)).unwrap_err();
        assert!(error.contains("need 16"), "{error}");
        assert!(Quadrangle::new(4, &zone(738, 139, 99), None, BlockCount(0)).is_err());
        let deepest = Quadrangle::new(4, &zone(738, 139, 99), None, BlockCount(1)).unwrap();
        assert_eq!(deepest.dimensions().depth, 6);
    }

    proptest! {
        #[test]
        fn the_layout_is_a_bijection_and_its_runs_and_classes_hold(
            disks in 1usize..5,
            depth in 1u32..5,
            block in 1u64..4,
            track in 12u64..40,
            tracks in 20u64..60,
        ) {
            let zone = zone(track, 1, tracks);
            let layout = Quadrangle::new(disks, &zone, Some(depth), BlockCount(block));
            prop_assume!(layout.is_ok());
            let layout = layout.unwrap();
            let capacity = layout.capacity().0;
            let mut used = BTreeSet::new();
            for vlbn in (0..capacity).map(Lbn) {
                let location = layout.locate(vlbn);
                prop_assert!(used.insert((location.disk, location.dlbn)), "{} twice", vlbn);
                prop_assert!(location.dlbn >= zone.first);
                prop_assert!(location.dlbn.0 < zone.first.0 + track * tracks);
                let last = Lbn(vlbn.0 + location.run.0 - 1);
                prop_assert!(layout.ensemble(vlbn).blocks.contains(last));
                let end = layout.locate(last);
                prop_assert_eq!((end.disk, end.dlbn.0), (location.disk, location.dlbn.0 + location.run.0 - 1));
            }
            for vlbn in (0..capacity).step_by(7).map(Lbn) {
                let class = layout.equivalent(vlbn);
                prop_assert!(class.lbns.contains(&vlbn));
                for row in class.lbns.chunks(disks) {
                    let on: BTreeSet<_> = row.iter().map(|lbn| layout.locate(*lbn).disk).collect();
                    prop_assert_eq!(on.len(), disks, "a row of a class shares a disk");
                }
                let column: Vec<_> = class.by_column().take(depth as usize).collect();
                for pair in column.windows(2) {
                    let (upper, lower) = (layout.locate(pair[0]), layout.locate(pair[1]));
                    prop_assert_eq!(upper.disk, lower.disk);
                    // One track further, and one block, which the switch makes room for.
                    let upper_sector = (upper.dlbn.0 - zone.first.0) % track / block;
                    let lower_sector = (lower.dlbn.0 - zone.first.0) % track / block;
                    let width = layout.dimensions().width();
                    prop_assert_eq!(lower_sector, (upper_sector + 1) % width);
                    prop_assert_eq!(
                        (lower.dlbn.0 - zone.first.0) / track,
                        (upper.dlbn.0 - zone.first.0) / track + 1
                    );
                }
            }
        }
    }
}
