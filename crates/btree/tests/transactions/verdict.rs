//! What a history of transactions says of their isolation: a check in the manner of Elle (Kingsbury and Alvaro, VLDB 2020).
//!
//! Each write makes a version with a number of its own, and the order of a key's versions is known: a list has them all, and the
//! writer of a register had read the one before. Transactions then depend on each other (Adya's thesis, 3.1):
//!
//! - *ww*: one wrote the version after the other's;
//! - *wr*: one read the other's version;
//! - *rw*: the other wrote the version after the one that was read;
//! - *time*: one had ended before the other began.
//!
//! A level forbids cycles: read committed those of ww, wr and time; serializable all; snapshot all but those in which two rw follow
//! each other (Fekete et al. 2005). With time, these are the strict forms of the levels.

use std::collections::{BTreeMap, BTreeSet};

use moirai_btree::Isolation;
use moirai_units::Instant;

pub(crate) type Key = u8;
pub(crate) type Version = u64;

/// What a transaction did.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Read a version; none where there was no value.
    Read { key: Key, version: Option<Version> },
    /// Wrote a version, over that one; of a list it is not always known.
    Wrote { key: Key, version: Version, over: Option<Version>, is_blind: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    RolledBack,
    /// The store failed while it was committed.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) steps: Vec<Step>,
    pub(crate) outcome: Outcome,
}

/// How a transaction depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ww,
    /// The later write did not read, so its snapshot may be older than the earlier one's commit.
    WwBlind,
    Wr,
    Rw,
    Time,
}

/// What is wrong with a history in which the keys have these versions, in their order.
pub(crate) fn problem(
    all: &[Record],
    order: &BTreeMap<Key, Vec<Version>>,
    level: Isolation,
) -> Option<String> {
    let there: BTreeSet<Version> = order.values().flatten().copied().collect();
    let mut writers: BTreeMap<Version, usize> = BTreeMap::new();
    let mut counted = Vec::new();
    for (index, record) in all.iter().enumerate() {
        let written: Vec<Version> = record.steps.iter().filter_map(written).collect();
        writers.extend(written.iter().map(|version| (*version, index)));
        let found = written.iter().filter(|version| there.contains(version)).count();
        let is_committed = match record.outcome {
            Outcome::Committed => true,
            Outcome::RolledBack => false,
            Outcome::Unknown => found > 0,
        };
        if is_committed && found < written.len() {
            return Some(format!("{found} of the writes of {index} are there: {record:?}"));
        }
        if !is_committed && found > 0 {
            return Some(format!("a write of {index} is there, which was rolled back: {record:?}"));
        }
        counted.push(is_committed);
    }
    let mut edges: BTreeMap<usize, BTreeSet<(usize, Edge)>> = BTreeMap::new();
    let mut add = |from: usize, to: usize, edge: Edge| {
        if from != to && counted[from] && counted[to] {
            edges.entry(from).or_default().insert((to, edge));
        }
    };
    let blind: BTreeSet<Version> = all
        .iter()
        .flat_map(|record| &record.steps)
        .filter_map(|step| match step {
            Step::Wrote { version, is_blind: true, .. } => Some(*version),
            _ => None,
        })
        .collect();
    for versions in order.values() {
        for pair in versions.windows(2) {
            let edge = if blind.contains(&pair[1]) { Edge::WwBlind } else { Edge::Ww };
            add(writers[&pair[0]], writers[&pair[1]], edge);
        }
    }
    for (index, record) in all.iter().enumerate() {
        for step in &record.steps {
            let Step::Read { key, version } = step else { continue };
            let versions = order.get(key).map_or(&[][..], |versions| versions);
            let next = match version {
                None => versions.first(),
                Some(version) => {
                    let Some(place) = versions.iter().position(|one| one == version) else {
                        if !counted[index] {
                            continue;
                        }
                        return Some(format!("{index} read {version} of {key}, which is gone"));
                    };
                    let writer = writers[version];
                    let next = versions.get(place + 1);
                    if next.is_some_and(|next| writers[next] == writer) && writer != index {
                        return Some(format!("{index} read {version} of {key}, a middle write"));
                    }
                    add(writer, index, Edge::Wr);
                    next
                }
            };
            if let Some(next) = next {
                add(index, writers[next], Edge::Rw);
            }
        }
    }
    for (from, one) in all.iter().enumerate() {
        for (to, other) in all.iter().enumerate() {
            // One of which nobody knows whether it committed may have done so when the store was opened again.
            if one.outcome != Outcome::Unknown && one.ended < other.began {
                add(from, to, Edge::Time);
            }
        }
    }
    let next = |from: usize| -> Vec<usize> {
        let of = |from: usize| edges.get(&from).into_iter().flatten().copied();
        let mut next = Vec::new();
        for (to, edge) in of(from) {
            let is_counted = level == Isolation::Serializable || edge != Edge::Rw;
            next.extend(is_counted.then_some(to));
            // The first one's commit is before the snapshot of the second, and that before the commit of the third.
            if level == Isolation::Snapshot && !matches!(edge, Edge::Rw | Edge::WwBlind) {
                let rw = of(to).filter(|(_, edge)| *edge == Edge::Rw);
                next.extend(rw.map(|(third, _)| third));
            }
        }
        next
    };
    let cycle = cycle(all.len(), next)?;
    let records: Vec<String> =
        cycle.iter().map(|index| format!("{index}: {:?}", all[*index])).collect();
    Some(format!("a cycle of {cycle:?}:\n{}\nversions {order:?}", records.join("\n")))
}

fn written(step: &Step) -> Option<Version> {
    match step {
        Step::Wrote { version, .. } => Some(*version),
        Step::Read { .. } => None,
    }
}

/// A cycle of a graph of so many nodes.
fn cycle(nodes: usize, next: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::No; nodes];
    for first in 0..nodes {
        if seen[first] != Seen::No {
            continue;
        }
        seen[first] = Seen::OnTheWay;
        let mut way = vec![(first, next(first))];
        while let Some((node, rest)) = way.last_mut() {
            let node = *node;
            match rest.pop() {
                Some(next) if seen[next] == Seen::OnTheWay => {
                    let nodes = way.iter().map(|(node, _)| *node);
                    return Some(nodes.skip_while(|node| *node != next).collect());
                }
                Some(found) if seen[found] == Seen::No => {
                    seen[found] = Seen::OnTheWay;
                    way.push((found, next(found)));
                }
                Some(_) => {}
                None => {
                    seen[node] = Seen::Done;
                    way.pop();
                }
            }
        }
    }
    None
}

/// The order of a register's versions, from the last one back.
pub(crate) fn chain(all: &[Record], last: Option<Version>) -> Vec<Version> {
    let steps = all.iter().flat_map(|record| &record.steps);
    let over: BTreeMap<Version, Option<Version>> = steps
        .filter_map(|step| match step {
            Step::Wrote { version, over, .. } => Some((*version, *over)),
            Step::Read { .. } => None,
        })
        .collect();
    let mut versions: Vec<Version> =
        std::iter::successors(last, |version| over.get(version).copied().flatten()).collect();
    versions.reverse();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(began: u64, ended: u64, steps: Vec<Step>) -> Record {
        let at = |ns| Instant { ns };
        Record { began: at(began), ended: at(ended), steps, outcome: Outcome::Committed }
    }

    fn read(key: Key, version: Option<Version>) -> Step {
        Step::Read { key, version }
    }

    fn wrote(key: Key, version: Version, over: Option<Version>) -> Step {
        Step::Wrote { key, version, over, is_blind: false }
    }

    fn may(all: &[Record], order: &[(Key, &[Version])]) -> [bool; 3] {
        let order = order.iter().map(|(key, versions)| (*key, versions.to_vec())).collect();
        crate::LEVELS.map(|level| problem(all, &order, level).is_none())
    }

    /// The anomalies of the levels, as histories.
    #[test]
    fn anomalies_are_told_apart() {
        // Write skew.
        let one = record(0, 9, vec![read(1, None), wrote(2, 12, None)]);
        let two = record(0, 9, vec![read(2, None), wrote(1, 11, None)]);
        assert_eq!(may(&[one, two], &[(1, &[11]), (2, &[12])]), [true, true, false]);
        // Read skew.
        let one = record(0, 9, vec![read(1, None), read(2, Some(22))]);
        let two = record(0, 9, vec![wrote(1, 21, None), wrote(2, 22, None)]);
        assert_eq!(may(&[one, two], &[(1, &[21]), (2, &[22])]), [true, false, false]);
        // Circular information flow.
        let one = record(0, 9, vec![wrote(1, 11, None), read(2, Some(22))]);
        let two = record(0, 9, vec![wrote(2, 22, None), read(1, Some(11))]);
        assert_eq!(may(&[one, two], &[(1, &[11]), (2, &[22])]), [false; 3]);
        // A lost update: the version is not in the chain.
        let one = record(0, 9, vec![read(1, None), wrote(1, 11, None)]);
        let two = record(0, 9, vec![read(1, None), wrote(1, 21, None)]);
        let all = [one, two];
        let order = chain(&all, Some(21));
        assert_eq!(may(&all, &[(1, &order)]), [false; 3]);
        // What was committed before is not seen.
        let one = record(0, 3, vec![wrote(1, 11, None)]);
        let two = record(5, 9, vec![read(1, None)]);
        assert_eq!(may(&[one.clone(), two], &[(1, &[11])]), [true, false, false]);
        let two = record(2, 9, vec![read(1, None)]);
        assert_eq!(may(&[one, two], &[(1, &[11])]), [true; 3]);
    }
}
