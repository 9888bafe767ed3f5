//! Where the objects of a policy may lie, and how two objects change places.

use moirai_units::BlockCount;
use moirai_volume::Level;

/// Where an object may lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) arrays: Vec<usize>,
    pub(super) level: &'static str,
    pub(super) unit_blocks: u64,
}

/// Of each object, in the order of the policy.
pub(super) type Choices = Vec<Choice>;

/// Names that [`Choice::level`] may have.
const LEVELS: [&str; 9] = [
    "raid0",
    "raid1",
    "raid10",
    "raid4",
    "raid5",
    "raid5-left-asymmetric",
    "raid5-right-symmetric",
    "raid5-right-asymmetric",
    "raid6",
];

/// With no more arrays than this, an object may lie on any subset of them.
pub(super) const SUBSETS_MAX: usize = 4;

/// `choices` with the arrays of two objects exchanged.
pub(super) fn swapped(choices: &Choices, one: usize, other: usize) -> Option<Choices> {
    let (first, second) = (choices.get(one)?.clone(), choices.get(other)?.clone());
    if first.arrays == second.arrays {
        return None;
    }
    let mut changed = choices.clone();
    changed.get_mut(one)?.arrays = second.arrays;
    changed.get_mut(other)?.arrays = first.arrays;
    Some(changed)
}

/// Sets of `arrays` arrays that an object may lie on: all subsets of few; of many, each alone,
/// neighbours by powers of two, and all.
pub(super) fn groups(arrays: usize) -> Vec<Vec<usize>> {
    if arrays <= SUBSETS_MAX {
        let subset = |mask: usize| (0..arrays).filter(|index| mask >> index & 1 == 1).collect();
        return (1..1 << arrays).map(subset).collect();
    }
    let mut groups = Vec::new();
    let mut size = 1;
    while size < arrays {
        groups
            .extend((0..=arrays - size).step_by(size).map(|first| (first..first + size).collect()));
        size *= 2;
    }
    groups.push((0..arrays).collect());
    groups
}

pub(super) fn level_name(level: Level) -> Option<&'static str> {
    let name = level.to_string();
    LEVELS.into_iter().find(|known| *known == name)
}

/// A size as files have it, like `64KiB`.
pub(super) fn size_text(blocks: BlockCount) -> String {
    match blocks.bytes().0 {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        bytes => bytes.to_string(),
    }
}
