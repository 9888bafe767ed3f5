//! RAID levels: which disk of a stripe holds which of its units. Pure arithmetic.
//!
//! A *stripe* is a unit on each disk. Its data units are numbered by *position*, in the order of the
//! volume's blocks; a mirrored unit has *copies*; the others hold parity. The *turn* of a stripe says
//! how far its roles are moved along the disks.

use std::fmt;
use std::str::FromStr;

use crate::DiskIndex;

/// How a volume survives the failure of disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// RAID 0: not at all.
    #[default]
    Raid0,
    /// RAID 1: every disk is a copy.
    Raid1,
    /// RAID 1+0: stripes over pairs of disks; the disks 2 i and 2 i + 1 are copies.
    Raid10,
    /// RAID 4: parity on the last disk.
    Raid4,
    /// RAID 5: parity on another disk in each stripe.
    Raid5(Rotation),
    /// RAID 6: two parities, P and Q, on other disks in each stripe, left-symmetric.
    Raid6,
}

/// Where RAID 5 puts parity and data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rotation {
    /// Parity goes from the last disk to the first; data begin behind it.
    #[default]
    LeftSymmetric,
    /// Parity goes from the last disk to the first; data begin at disk 0.
    LeftAsymmetric,
    /// Parity goes from the first disk to the last; data begin behind it.
    RightSymmetric,
    /// Parity goes from the first disk to the last; data begin at disk 0.
    RightAsymmetric,
}

/// What a disk holds of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A data unit.
    Data {
        /// Which, in the order of the volume's blocks.
        position: usize,
        /// Which copy of it.
        copy: usize,
    },
    /// P: the sum of the data units.
    P,
    /// Q: their sum with weights.
    Q,
}

/// In the order of their numbers on disk, which stay.
const NAMES: [(&str, Level); 9] = [
    ("raid0", Level::Raid0),
    ("raid1", Level::Raid1),
    ("raid10", Level::Raid10),
    ("raid4", Level::Raid4),
    ("raid5", Level::Raid5(Rotation::LeftSymmetric)),
    ("raid5-left-asymmetric", Level::Raid5(Rotation::LeftAsymmetric)),
    ("raid5-right-symmetric", Level::Raid5(Rotation::RightSymmetric)),
    ("raid5-right-asymmetric", Level::Raid5(Rotation::RightAsymmetric)),
    ("raid6", Level::Raid6),
];

impl Level {
    /// Its number on disk.
    pub(crate) fn number(self) -> u8 {
        (0..).zip(NAMES).find(|(_, (_, level))| *level == self).map_or(0, |(number, _)| number)
    }

    /// The level with this number on disk.
    pub(crate) fn numbered(number: u8) -> Option<Level> {
        NAMES.get(usize::from(number)).map(|(_, level)| *level)
    }

    /// Units of data in a stripe over `disks` disks.
    #[must_use]
    pub fn data_units(self, disks: usize) -> usize {
        match self {
            Level::Raid0 => disks,
            Level::Raid1 => 1,
            Level::Raid10 => disks / 2,
            Level::Raid4 | Level::Raid5(_) => disks.saturating_sub(1),
            Level::Raid6 => disks.saturating_sub(2),
        }
    }

    /// Copies of each data unit.
    #[must_use]
    pub fn copies(self, disks: usize) -> usize {
        match self {
            Level::Raid1 => disks,
            Level::Raid10 => 2,
            _ => 1,
        }
    }

    /// Units of parity in a stripe.
    #[must_use]
    pub fn parity_units(self) -> usize {
        match self {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
            Level::Raid4 | Level::Raid5(_) => 1,
            Level::Raid6 => 2,
        }
    }

    /// How many disks may fail, whichever they are, without a block being lost.
    #[must_use]
    pub fn failures(self, disks: usize) -> usize {
        (self.copies(disks) - 1).max(self.parity_units())
    }

    /// An error that says what is wrong when the level is not possible over `disks` disks.
    pub fn check(self, disks: usize) -> Result<(), String> {
        let least = match self {
            Level::Raid0 => 1,
            Level::Raid1 | Level::Raid10 => 2,
            Level::Raid4 | Level::Raid5(_) => 3,
            Level::Raid6 => 4,
        };
        if disks < least {
            return Err(format!("key `level`: {self} takes {least} devices or more, not {disks}"));
        }
        if self == Level::Raid10 && !disks.is_multiple_of(2) {
            return Err(format!("key `level`: {self} takes pairs of devices, not {disks}"));
        }
        Ok(())
    }

    /// Whether every position comes to lie on every disk when the turn goes round, with `moved`
    /// data units also where parity does not move them.
    #[must_use]
    pub fn goes_round(self, moved: bool) -> bool {
        match self {
            Level::Raid1 | Level::Raid6 => true,
            Level::Raid5(rotation) => {
                matches!(rotation, Rotation::LeftSymmetric | Rotation::RightSymmetric)
            }
            Level::Raid0 | Level::Raid10 => moved,
            Level::Raid4 => false,
        }
    }

    /// The disk that has `role` in a stripe of the given turn, of `disks`. With `moved`, the data
    /// units of levels without parity move on by one in each turn.
    #[must_use]
    pub fn disk(self, disks: usize, turn: u64, moved: bool, role: Role) -> DiskIndex {
        let units = self.data_units(disks);
        let turn = |round: usize| (turn % round.max(1) as u64) as usize;
        let parity = || match self {
            Level::Raid5(Rotation::RightSymmetric | Rotation::RightAsymmetric) => turn(disks),
            Level::Raid5(_) | Level::Raid6 => disks - 1 - turn(disks),
            _ => disks - 1,
        };
        let disk = match (self, role) {
            (_, Role::P) => parity(),
            (_, Role::Q) => (parity() + 1) % disks,
            (Level::Raid0, Role::Data { position, .. }) => {
                let by = if moved { turn(disks) } else { 0 };
                (position + by) % disks
            }
            (Level::Raid1, Role::Data { copy, .. }) => copy,
            (Level::Raid10, Role::Data { position, copy }) => {
                let by = if moved { turn(units) } else { 0 };
                (position + by) % units * 2 + copy
            }
            (Level::Raid4, Role::Data { position, .. }) => position,
            (
                Level::Raid5(Rotation::LeftSymmetric | Rotation::RightSymmetric),
                Role::Data { position, .. },
            ) => (parity() + 1 + position) % disks,
            (Level::Raid5(_), Role::Data { position, .. }) => {
                position + usize::from(position >= parity())
            }
            (Level::Raid6, Role::Data { position, .. }) => (parity() + 2 + position) % disks,
        };
        DiskIndex(disk)
    }

    /// What `disk` holds in a stripe of the given turn: the inverse of [`Level::disk`].
    #[must_use]
    pub fn role(self, disks: usize, turn: u64, moved: bool, disk: DiskIndex) -> Role {
        let is_of = |role: &Role| self.disk(disks, turn, moved, *role) == disk;
        let parity = [Role::P, Role::Q].into_iter().take(self.parity_units());
        let copies = 0..self.copies(disks);
        let data = (0..self.data_units(disks))
            .flat_map(|position| copies.clone().map(move |copy| Role::Data { position, copy }));
        data.chain(parity).find(is_of).unwrap_or(Role::P)
    }

    /// The copy that is read when all are there, so that stripes beside each other are read from
    /// different disks.
    #[must_use]
    pub fn preferred_copy(self, disks: usize, turn: u64, moved: bool) -> usize {
        let turns = if moved { self.data_units(disks) as u64 } else { 1 };
        (turn / turns % self.copies(disks) as u64) as usize
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, level)| level == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let level = NAMES.iter().find(|(name, _)| *name == text);
        level.map(|(_, level)| *level).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a level: write one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all_levels() -> impl Iterator<Item = Level> {
        NAMES.iter().map(|(_, level)| *level)
    }

    fn line(level: Level, disks: usize, turn: u64) -> String {
        let name = |disk| match level.role(disks, turn, false, DiskIndex(disk)) {
            Role::Data { position, .. } => position.to_string(),
            Role::P => "P".into(),
            Role::Q => "Q".into(),
        };
        (0..disks).map(name).collect::<Vec<_>>().join(" ")
    }

    /// The pictures of the SNIA dictionary of RAID layouts (and of Linux's `md`).
    #[test]
    fn raid_5_and_6_rotate_as_everywhere() {
        let lines = |level: &str| {
            (0..4).map(|turn| line(level.parse().unwrap(), 4, turn)).collect::<Vec<_>>()
        };
        assert_eq!(lines("raid5"), ["0 1 2 P", "1 2 P 0", "2 P 0 1", "P 0 1 2"]);
        assert_eq!(lines("raid5-left-asymmetric"), ["0 1 2 P", "0 1 P 2", "0 P 1 2", "P 0 1 2"]);
        assert_eq!(lines("raid5-right-symmetric"), ["P 0 1 2", "2 P 0 1", "1 2 P 0", "0 1 2 P"]);
        assert_eq!(lines("raid5-right-asymmetric"), ["P 0 1 2", "0 P 1 2", "0 1 P 2", "0 1 2 P"]);
        assert_eq!(lines("raid4"), ["0 1 2 P"; 4]);
        assert_eq!(lines("raid6"), ["Q 0 1 P", "0 1 P Q", "1 P Q 0", "P Q 0 1"]);
    }

    #[test]
    fn disks_and_roles_are_inverse_and_every_role_is_there_once() {
        for level in all_levels() {
            for disks in (2..8).filter(|disks| level.check(*disks).is_ok()) {
                for (turn, moved) in (0..9).flat_map(|turn| [(turn, false), (turn, true)]) {
                    let roles: Vec<Role> = (0..disks)
                        .map(|disk| level.role(disks, turn, moved, DiskIndex(disk)))
                        .collect();
                    for (disk, role) in roles.iter().enumerate() {
                        assert_eq!(level.disk(disks, turn, moved, *role), DiskIndex(disk));
                    }
                    let count =
                        |wanted: fn(&Role) -> bool| roles.iter().filter(|r| wanted(r)).count();
                    let data = level.data_units(disks) * level.copies(disks);
                    assert_eq!(count(|role| matches!(role, Role::Data { .. })), data);
                    assert_eq!(
                        count(|role| !matches!(role, Role::Data { .. })),
                        level.parity_units()
                    );
                }
            }
        }
    }

    /// So that the blocks of an equivalence class lie on different disks.
    #[test]
    fn where_roles_go_round_a_position_is_read_from_every_disk() {
        for level in all_levels() {
            for disks in (2..8).filter(|disks| level.check(*disks).is_ok()) {
                for moved in [false, true].into_iter().filter(|moved| level.goes_round(*moved)) {
                    for position in 0..level.data_units(disks) {
                        let read = |turn| {
                            let copy = level.preferred_copy(disks, turn, moved);
                            level.disk(disks, turn, moved, Role::Data { position, copy })
                        };
                        let met: BTreeSet<_> = (0..disks as u64).map(read).collect();
                        assert_eq!(met.len(), disks, "{level} over {disks}, position {position}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_read_back_and_impossible_levels_say_what_they_need() {
        for level in all_levels() {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("raid7".parse::<Level>().unwrap_err().contains("raid10"));
        assert!(Level::Raid6.check(3).unwrap_err().contains("4 devices"));
        assert!(Level::Raid10.check(5).unwrap_err().contains("pairs"));
    }
}
