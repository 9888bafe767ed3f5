//! Which stripes a picture shows when a volume has too many for one picture.

use std::collections::BTreeSet;
use std::ops::Range;

/// Stripes that a picture shows, apart from single ones that fill a gap.
pub(super) const STRIPES_MAX: usize = 64;

/// Chooses the stripes of a picture from `stripes`: all of them if the picture has room.
///
/// Otherwise the choice is the stripe `at`, its neighbours, and the first and last stripes of each group of `depth`
/// stripes that share their roles, so that a reader sees where groups begin and end. The result is in order, and no
/// gap in it is a single stripe, because the row that stands for the gap would take the same room.
#[must_use]
pub fn stripes_to_draw(stripes: Range<u64>, depth: u64, at: u64) -> Vec<u64> {
    if stripes.end.saturating_sub(stripes.start) <= STRIPES_MAX as u64 {
        return stripes.collect();
    }
    let mut chosen = BTreeSet::new();
    let candidates =
        (at.saturating_sub(1)..=at.saturating_add(1)).chain(by_group(&stripes, depth.max(1)));
    for stripe in candidates.filter(|stripe| stripes.contains(stripe)) {
        if chosen.len() == STRIPES_MAX {
            break;
        }
        chosen.insert(stripe);
    }
    let fills_a_gap = |stripe: &u64| !chosen.contains(stripe) && chosen.contains(&(stripe + 1));
    let fillers: Vec<u64> = chosen.iter().map(|stripe| stripe + 1).filter(fills_a_gap).collect();
    chosen.extend(fillers);
    chosen.into_iter().collect()
}

/// The stripes by priority: the first and the last of each group, then the second and the last but one, and so on.
/// Groups alternate between the start and the end of `stripes`.
fn by_group(stripes: &Range<u64>, depth: u64) -> impl Iterator<Item = u64> {
    let (first, last) = (stripes.start / depth, stripes.end.saturating_sub(1) / depth);
    let bounds = stripes.clone();
    let count = last - first + 1;
    (0..depth.div_ceil(2)).flat_map(move |row| {
        let bounds = bounds.clone();
        let groups = (0..count.div_ceil(2)).flat_map(move |index| [first + index, last - index]);
        groups.flat_map(move |group| {
            let start = (group * depth).max(bounds.start);
            let end = ((group + 1) * depth).min(bounds.end);
            [start.saturating_add(row), end.saturating_sub(row + 1)]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_takes_all_stripes_that_fit() {
        assert_eq!(stripes_to_draw(8..72, 4, 9), (8..72).collect::<Vec<_>>());
    }

    #[test]
    fn selection_of_deep_quadrangles_keeps_the_ends_of_each_and_the_access() {
        let chosen = stripes_to_draw(0..3_996, 999, 1_500);
        assert!(chosen.len() <= STRIPES_MAX, "{}", chosen.len());
        assert!(chosen.len() > STRIPES_MAX - 8, "{}", chosen.len());
        for stripe in [0, 1, 997, 998, 999, 1_499, 1_500, 1_501, 1_997, 1_998, 2_997, 3_994, 3_995]
        {
            assert!(chosen.contains(&stripe), "{stripe} in {chosen:?}");
        }
        assert!(chosen.is_sorted());
    }

    #[test]
    fn selection_of_many_groups_keeps_both_ends() {
        let chosen = stripes_to_draw(0..1_000, 1, 500);
        assert!(chosen.len() <= STRIPES_MAX, "{}", chosen.len());
        assert_eq!((chosen[0], *chosen.last().unwrap()), (0, 999));
        assert!(chosen.contains(&500));
    }

    #[test]
    fn selection_leaves_no_gap_of_a_single_stripe() {
        for depth in 1..40 {
            for end in [65, 70, 300] {
                for at in [0, 33, end - 1] {
                    let chosen = stripes_to_draw(0..end, depth, at);
                    assert!(chosen.contains(&at) && chosen.len() <= STRIPES_MAX + STRIPES_MAX / 2);
                    let gap_of_one = chosen.windows(2).find(|pair| pair[1] - pair[0] == 2);
                    assert_eq!(gap_of_one, None, "depth {depth}, {end} stripes, at {at}");
                }
            }
        }
    }
}
