//! Which blocks lie where on the sled (thesis 3.3.1 and 3.3.2, tables 3.3 and 6.3), and which can be accessed together.

use moirai_units::{BlockCount, BlockRange, Lbn};

use super::sled::SledState;

/// The virtual geometry: each block is striped over some tips, and counts as one square's.
///
/// ```text
///   cylinder: all blocks at one position in x      track: one sweep in y with p squares at once
///
///   track 0      track 1      track 2      cylinder 1, track 0 ...
///   0  1  2      15 16 17     18 19 20     33 34 35     rows of p blocks: one pass each
///   3  4  5      12 13 14     21 22 23     30 31 32     every other track runs back
///   6  7  8       9 10 11     24 25 26     27 28 29
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemsLayout {
    /// p, and N_x: squares that are accessed at once.
    pub parallelism: u32,
    /// N_y: tracks of a cylinder.
    pub tracks: u32,
    /// S_x: positions of the sled in x.
    pub cylinders: u32,
    /// S_y: rows of a track.
    pub rows: u32,
    /// Bits of a row in y with the servo burst before it.
    pub row_bits: u32,
    /// Bits of a servo burst.
    pub servo_bits: u32,
    /// Whether every other track runs back: where the tips access data in both directions, the sled then only turns round
    /// between two tracks. Where they access it in one, it goes back for each row of such a track.
    pub reverses: bool,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemsPlace {
    /// Position in x.
    pub cylinder: u32,
    /// Which of the cylinder's tracks.
    pub track: u32,
    /// Row in y, counted from the end at which the first track begins.
    pub row: u32,
    /// Which of the row's blocks.
    pub cell: u32,
}

impl MemsLayout {
    /// S_T: blocks of a track.
    #[must_use]
    pub fn track_blocks(&self) -> BlockCount {
        BlockCount(u64::from(self.parallelism) * u64::from(self.rows))
    }

    /// S_C: blocks of a cylinder.
    #[must_use]
    pub fn cylinder_blocks(&self) -> BlockCount {
        BlockCount(self.track_blocks().0 * u64::from(self.tracks))
    }

    /// All blocks.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        BlockCount(self.cylinder_blocks().0 * u64::from(self.cylinders))
    }

    /// Where a block is.
    #[must_use]
    pub fn place(&self, lbn: Lbn) -> MemsPlace {
        let cylinder = self.cylinder_of(lbn);
        let in_cylinder = lbn.0 % self.cylinder_blocks().0;
        let track = (in_cylinder / self.track_blocks().0) as u32;
        let in_track = in_cylinder % self.track_blocks().0;
        let row = (in_track / u64::from(self.parallelism)) as u32;
        let cell = (in_track % u64::from(self.parallelism)) as u32;
        let row = if self.runs_back(cylinder, track) { self.rows - 1 - row } else { row };
        MemsPlace { cylinder, track, row, cell }
    }

    /// The block at a place.
    #[must_use]
    pub fn lbn(&self, place: MemsPlace) -> Lbn {
        let MemsPlace { cylinder, track, row, cell } = place;
        let row = if self.runs_back(cylinder, track) { self.rows - 1 - row } else { row };
        let rows = u64::from(row) * u64::from(self.parallelism);
        let tracks = u64::from(track) * self.track_blocks().0;
        Lbn(self.first_of(cylinder).0 + tracks + rows + u64::from(cell))
    }

    /// The next one after the last track of a cylinder is the first of the next cylinder.
    fn runs_back(&self, cylinder: u32, track: u32) -> bool {
        let before = u64::from(cylinder) * u64::from(self.tracks) + u64::from(track);
        self.reverses && !before.is_multiple_of(2)
    }

    pub(super) fn cylinder_of(&self, lbn: Lbn) -> u32 {
        (lbn.0 / self.cylinder_blocks().0) as u32
    }

    pub(super) fn first_of(&self, cylinder: u32) -> Lbn {
        Lbn(u64::from(cylinder) * self.cylinder_blocks().0)
    }

    /// The track that a block is on.
    #[must_use]
    pub fn track(&self, lbn: Lbn) -> BlockRange {
        let blocks = self.track_blocks();
        BlockRange::new(Lbn(lbn.0 - lbn.0 % blocks.0), blocks)
    }

    /// The blocks at the same position of the sled, track by track: any p of them are accessed in one pass (thesis 6.1.4).
    /// Their two steps: the place of the block in its track, and the block at that place of each track of the cylinder.
    #[must_use]
    pub fn equivalent(&self, lbn: Lbn) -> Vec<Lbn> {
        let place = self.place(lbn);
        let of_track = |track| {
            (0..self.parallelism).map(move |cell| self.lbn(MemsPlace { track, cell, ..place }))
        };
        (0..self.tracks).flat_map(of_track).collect()
    }

    /// Bits in y of all rows, with the servo bursts at both ends.
    pub(super) fn track_bits(&self) -> i64 {
        i64::from(self.rows) * i64::from(self.row_bits) + i64::from(self.servo_bits)
    }

    /// Where a pass over a row begins and ends, upward or downward. Both directions have a servo burst before them.
    pub(super) fn pass(&self, place: &MemsPlace, is_upward: bool) -> (SledState, SledState) {
        let low = i64::from(place.row) * i64::from(self.row_bits) - self.track_bits() / 2;
        let (row, servo) = (i64::from(self.row_bits), i64::from(self.servo_bits));
        let (start, end) = match is_upward {
            true => (low, low + row),
            false => (low + row + servo, low + servo),
        };
        let at = |y_bits| SledState { cylinder: place.cylinder, y_bits, is_upward };
        (at(start), at(end))
    }

    /// Whether a pass that begins there is over the row of `place`.
    pub(super) fn is_at(&self, place: &MemsPlace, start: &SledState) -> bool {
        self.pass(place, start.is_upward).0 == *start
    }

    /// Where the sled rests: over its middle block, as if it came upward.
    pub(super) fn centre(&self) -> SledState {
        let middle = self.first_of(self.cylinders / 2).0 + self.cylinder_blocks().0 / 2;
        self.pass(&self.place(Lbn(middle)), true).0
    }
}
