//! Every layout is a bijection onto its devices, whatever the level, the units, the zones and the
//! defects; and its attributes are what it does.

use std::collections::{BTreeMap, BTreeSet};

use moirai_storage::Ensemble;
use proptest::prelude::*;

use super::*;
use crate::quadrangle::{Wanted, quadrangles};
use crate::stripe;
use crate::tracks::Tracks;

fn any_level() -> impl Strategy<Value = Level> {
    let names = ["raid0", "raid1", "raid10", "raid4", "raid6"].into_iter();
    let rotations = ["", "-left-asymmetric", "-right-symmetric", "-right-asymmetric"];
    let all: Vec<Level> = names
        .map(str::to_owned)
        .chain(rotations.map(|rotation| format!("raid5{rotation}")))
        .map(|name| name.parse().unwrap())
        .collect();
    prop::sample::select(all)
}

/// Disks of one kind, each with defects of its own: tracks by zone, and how much some are shortened.
fn any_disks() -> impl Strategy<Value = Vec<Tracks>> {
    let zones = prop::collection::vec((20u64..40, 10usize..40), 1..4);
    let defects = prop::collection::vec(prop::collection::vec((0usize..90, 1u64..4), 0..4), 2..7);
    (zones, defects, 0u64..4).prop_map(|(mut zones, disks, switch)| {
        zones.sort_unstable_by_key(|(track, _)| std::cmp::Reverse(*track));
        zones.dedup_by_key(|(track, _)| *track);
        let lengths: Vec<u64> =
            zones.iter().flat_map(|(track, tracks)| vec![*track; *tracks]).collect();
        let with_defects = |defects: &Vec<(usize, u64)>| {
            let mut lengths = lengths.clone();
            for (track, by) in defects {
                if let Some(length) = lengths.get_mut(*track) {
                    *length -= by;
                }
            }
            let mut tracks = Tracks::default();
            let mut first = Lbn(0);
            for length in lengths {
                let blocks = BlockRange::new(first, BlockCount(length));
                tracks.push(Ensemble { blocks, switch: BlockCount(switch) });
                first = blocks.end();
            }
            tracks
        };
        disks.iter().map(with_defects).collect()
    })
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Fixed(u64),
    Track,
    Quadrangles(u32, u64),
}

fn any_shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (1u64..50).prop_map(Shape::Fixed),
        Just(Shape::Track),
        (1u32..5, 1u64..4).prop_map(|(depth, block)| Shape::Quadrangles(depth, block)),
    ]
}

/// A layout as asked for, or where that is not possible RAID 0, or units of a track.
fn laid(level: Level, disks: &[Tracks], shape: Shape) -> (Level, Layout) {
    let level = level.check(disks.len()).map_or(Level::Raid0, |()| level);
    let layout = match shape {
        Shape::Fixed(unit) => {
            let end = |disk: &Tracks| disk.iter().last().unwrap().blocks.end().0;
            let smallest = disks.iter().map(end).min().unwrap();
            stripe::fixed_of(level, disks.len(), smallest / unit, BlockCount(unit))
        }
        Shape::Track => stripe::by_track(level, disks),
        Shape::Quadrangles(depth, block) => {
            let wanted =
                Wanted { depth: Some(depth), block: BlockCount(block), zone: None, known: &[] };
            match quadrangles(level, disks, wanted) {
                Ok((layout, _)) => layout,
                Err(_) => stripe::by_track(level, disks),
            }
        }
    };
    (level, layout)
}

proptest! {
    #[test]
    fn every_block_has_places_of_its_own_on_different_disks(
        level in any_level(),
        disks in any_disks(),
        shape in any_shape(),
    ) {
        let (level, layout) = laid(level, &disks, shape);
        let ends: Vec<Lbn> =
            disks.iter().map(|disk| disk.iter().last().unwrap().blocks.end()).collect();
        // What lies on each block of each disk: a block of the volume, or parity of a stripe.
        let mut held: BTreeMap<(DiskIndex, Lbn), (Option<Lbn>, StripeIndex)> = BTreeMap::new();
        for vlbn in (0..layout.capacity().0).map(Lbn) {
            let place = layout.place(vlbn);
            prop_assert_eq!(layout.block_at(place.stripe, place.position, place.offset), vlbn);
            prop_assert!(layout.stripe_blocks(place.stripe).contains(vlbn));
            for copy in 0..level.copies(disks.len()) {
                let disk = layout.disk(place.stripe, Role::Data { position: place.position, copy });
                let dlbn = layout.unit_on(disk, place.stripe) + place.offset;
                prop_assert!(dlbn < ends[disk.0], "{} past the end", dlbn);
                prop_assert!(held.insert((disk, dlbn), (Some(vlbn), place.stripe)).is_none());
            }
            // A run is consecutive on both sides, and within the unit.
            let last = Lbn(vlbn.0 + place.run.0 - 1);
            let end = layout.place(last);
            prop_assert_eq!((end.stripe, end.position), (place.stripe, place.position));
            prop_assert_eq!(end.offset.0, place.offset.0 + place.run.0 - 1);
            prop_assert!(layout.unit_around(vlbn).0.contains(last));
        }
        for stripe in (0..layout.stripes()).map(StripeIndex) {
            for role in [Role::P, Role::Q].into_iter().take(level.parity_units()) {
                let disk = layout.disk(stripe, role);
                for block in 0..layout.unit(stripe).0 {
                    let dlbn = layout.unit_on(disk, stripe) + BlockCount(block);
                    prop_assert!(dlbn < ends[disk.0]);
                    prop_assert!(held.insert((disk, dlbn), (None, stripe)).is_none());
                }
            }
            // Whatever disks fail, each takes one unit of a stripe at most.
            let roles: BTreeSet<String> = (0..disks.len())
                .map(|disk| format!("{:?}", layout.role(stripe, DiskIndex(disk))))
                .collect();
            prop_assert_eq!(roles.len(), disks.len());
        }
    }

    #[test]
    fn classes_are_parallel_in_rows_and_semi_sequential_in_columns(
        level in any_level(),
        disks in any_disks(),
        shape in any_shape(),
    ) {
        let (_, layout) = laid(level, &disks, shape);
        for vlbn in (0..layout.capacity().0).step_by(5).map(Lbn) {
            let class = layout.equivalent(vlbn);
            prop_assert!(class.lbns.contains(&vlbn));
            prop_assert!(class.parallelism <= layout.parallelism());
            prop_assert!(class.lbns.len() <= (layout.parallelism() * layout.depth()) as usize);
            for row in class.lbns.chunks(class.parallelism as usize) {
                let on: BTreeSet<_> = row.iter().map(|lbn| layout.locate(*lbn).disk).collect();
                prop_assert_eq!(on.len(), row.len(), "a row of a class shares a disk");
            }
            let columns: Vec<Lbn> = class.by_column().collect();
            for column in columns.chunks(class.lbns.len() / class.parallelism as usize) {
                for pair in column.windows(2) {
                    let (upper, lower) = (layout.place(pair[0]), layout.place(pair[1]));
                    prop_assert_eq!(layout.locate(pair[0]).disk, layout.locate(pair[1]).disk);
                    // The next track, and a volume block further on it.
                    prop_assert_eq!(lower.stripe.0, upper.stripe.0 + 1);
                    let unit = layout.unit(upper.stripe);
                    let further = (upper.offset + layout.block()).0 % unit.0;
                    prop_assert_eq!(lower.offset.0, further);
                }
            }
            for member in &class.lbns {
                prop_assert_eq!(&layout.equivalent(*member), &class);
            }
        }
    }
}
