//! The boundaries that a simulated drive has, beside those that were found.

use std::collections::BTreeSet;

use moirai_discovery::Tracks;
use moirai_storage::Device;
use moirai_units::Lbn;

/// The first blocks of all tracks.
pub(crate) fn firsts(disk: &dyn Device) -> BTreeSet<Lbn> {
    let (mut at, mut firsts) = (Lbn(0), BTreeSet::new());
    while at.0 < disk.inquiry().capacity.0 {
        firsts.insert(at);
        at = disk.ensemble(at).unwrap().blocks.end();
    }
    firsts
}

/// How many boundaries are certain, none of which may be wrong.
pub(crate) fn count_certain(found: &Tracks, truth: &BTreeSet<Lbn>, name: &str) -> usize {
    let is_sure = |lbn: &&Lbn| found.is_certain(**lbn);
    let sure: BTreeSet<Lbn> = truth.iter().filter(is_sure).copied().collect();
    let ours: BTreeSet<Lbn> = found.firsts.iter().filter(is_sure).copied().collect();
    let wrong: Vec<&Lbn> = ours.symmetric_difference(&sure).take(10).collect();
    assert!(wrong.is_empty(), "{wrong:?} differ\n{name}");
    let is_apart = found.unsure.is_sorted_by(|one, next| one.end() <= next.first);
    assert!(is_apart, "ranges overlap: {:?}\n{name}", found.unsure);
    sure.len()
}
