//! Tests: changes among many partitions take few steps at once.

use std::sync::Arc;

use moirai_extents::{Ensembles, Extents};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::data::checkpoint::format::encode_state;
use crate::data::division::Division;
use crate::data::place::Location;
use crate::encoded::put_modification;
use crate::ids::{PUT, PartitionId, Seq, SpaceId};
use crate::kind::{Kinds, Modification};
use crate::limits::PAGE_PARTITIONS;
use crate::spec::whole_blocks;
use crate::state::State;
use crate::state::directory::Directory;
use crate::state::entry::{Entry, Placed};
use crate::state::partition::Partition;

const SPACE: SpaceId = SpaceId(1);
/// Partitions of a sweep, and the keys of each that are modified.
const SWEPT: u32 = 64;
const QUEUED: u32 = 100;
/// Keys of a partition.
const KEYS: u32 = 1 << 10;

fn key(partition: u32, number: u32) -> [u8; 4] {
    (partition * KEYS + number).to_be_bytes()
}

/// So many partitions without blocks, of which some are sealed and have `queued` modifications that came before, and as many
/// after.
fn state_of(partitions: u32, queued: u32) -> State {
    let data = BlockRange::new(Lbn(16), BlockCount(1 << 20));
    let division = Division {
        grain: BlockCount(1),
        block: BlockCount(16),
        partition_blocks: 32,
        staging: BlockCount(512),
    };
    let specs = whole_blocks(division);
    let spec = Arc::clone(&specs.default);
    let mut state = State::new(specs, Extents::new(data, division.grain, Ensembles::none()));
    state.spaces.insert(SPACE, Directory::new(&spec, PAGE_PARTITIONS));
    for number in 0..partitions {
        let low: Box<[u8]> = if number == 0 { Box::default() } else { key(number, 0).into() };
        state.add(PartitionId(number), Partition::new(SPACE, &spec, low, Seq(0))).unwrap();
    }
    let mut modified = Vec::new();
    for partition in swept(partitions) {
        for number in 0..queued {
            let key = &key(partition, number % QUEUED * (KEYS / QUEUED));
            put_modification(&mut modified, SPACE, Modification { key, kind: PUT, bytes: b"v" });
        }
    }
    let mut seals = Vec::new();
    for partition in swept(partitions) {
        Entry::Seal { partition: PartitionId(partition) }.encode(&mut seals);
    }
    for (seq, group) in (1..).zip([&modified, &seals, &modified]) {
        state.apply(Seq(seq), group, &Kinds::new(), Seq(0)).unwrap();
    }
    state
}

/// Partitions all over the space.
fn swept(partitions: u32) -> impl Iterator<Item = u32> {
    (0..SWEPT).map(move |number| number * (partitions / SWEPT))
}

/// The entries of a sweep that divides each partition.
fn sweep(state: &mut State, partitions: u32) -> Vec<u8> {
    let mut group = Vec::new();
    for number in swept(partitions) {
        let partition = PartitionId(number);
        let low = state.partition(partition).unwrap().low.clone();
        let first = Placed { partition, low, location: Location::default() };
        let second = Placed {
            partition: state.partitions.reserve(),
            low: key(number, KEYS / 2).into(),
            location: Location::default(),
        };
        Entry::Placed { from: vec![partition], into: vec![first, second] }.encode(&mut group);
    }
    group
}

/// Applies a sweep with `steps` at once; gives the most that were taken at once, and how often.
fn apply(state: &mut State, group: &[u8], steps: u64) -> (u64, usize) {
    let (mut most, mut times) = (0, 0);
    let queued = state.queued;
    loop {
        let before = state.steps;
        let end = before.saturating_add(steps);
        let is_done = state.apply_some(Seq(4), group, &Kinds::new(), end).unwrap();
        most = most.max(state.steps - before);
        times += 1;
        // What came since the seals stays, but for that of one partition on its way, and each key has a partition.
        let on_its_way = if is_done { 0 } else { queued / 2 / SWEPT as usize };
        assert!(state.queued + on_its_way >= queued / 2 && state.queued <= queued);
        let of_last = state.partition_of(SPACE, &key(3, 7)).unwrap();
        assert!(*state.partition(of_last).unwrap().low <= key(3, 7)[..]);
        assert_eq!(state.applied, Seq(if is_done { 5 } else { 4 }));
        if is_done {
            return (most, times);
        }
    }
}

#[test]
fn sweep_applied_in_pieces_is_as_applied_at_once() {
    const PARTITIONS: u32 = 1 << 12;
    let (mut one, mut other) = (state_of(PARTITIONS, QUEUED), state_of(PARTITIONS, QUEUED));
    let group = sweep(&mut one, PARTITIONS);
    assert_eq!(group, sweep(&mut other, PARTITIONS));
    assert_eq!(apply(&mut one, &group, u64::MAX).1, 1);
    assert!(apply(&mut other, &group, 1).1 >= SWEPT as usize);
    assert_eq!(encode_state(&one), encode_state(&other));
    assert_eq!((one.queued, one.queued_bytes), (other.queued, other.queued_bytes));
    assert_eq!((one.oldest(), one.blocks), (other.oldest(), other.blocks));
}

#[test]
fn group_applied_in_pieces_is_as_applied_at_once() {
    const PARTITIONS: u32 = 1 << 8;
    const COUNT: u32 = 1000;
    let mut group = Vec::new();
    for number in 0..COUNT {
        // In partitions all over the space, and several of each key.
        let key = key(number * 37 % PARTITIONS, number % 3);
        let bytes = &number.to_le_bytes();
        put_modification(&mut group, SPACE, Modification { key: &key, kind: PUT, bytes });
    }
    let mut one = state_of(PARTITIONS, QUEUED);
    assert!(one.apply_some(Seq(4), &group, &Kinds::new(), u64::MAX).unwrap());
    for steps in [1, 5, 32, 33, 1 << 7] {
        let mut other = state_of(PARTITIONS, QUEUED);
        let (queued, mut times) = (other.queued, 1);
        while !other.apply_some(Seq(4), &group, &Kinds::new(), other.steps + steps).unwrap() {
            assert_eq!((other.applied, other.queued), (Seq(4), queued + times * steps as usize));
            times += 1;
        }
        assert_eq!((other.applied, times), (Seq(5), COUNT.div_ceil(steps as u32) as usize));
        assert_eq!((one.queued, one.queued_bytes), (other.queued, other.queued_bytes));
        for number in 0..PARTITIONS {
            let waiting = |state: &State| {
                let partition = state.partition(PartitionId(number)).unwrap();
                let all = partition.active.iter();
                all.map(|one| (one.key.to_vec(), one.bytes.to_vec())).collect::<Vec<_>>()
            };
            assert_eq!(waiting(&one), waiting(&other), "partition {number}, {steps} steps");
        }
    }
}

#[test]
fn sweep_among_a_million_partitions_takes_few_steps_at_once() {
    const PARTITIONS: u32 = 1 << 20;
    const STEPS: u64 = 1 << 11;
    let mut state = state_of(PARTITIONS, QUEUED);
    let group = sweep(&mut state, PARTITIONS);
    let (most, times) = apply(&mut state, &group, STEPS);
    // The last entry may go over it: three partitions that change, and what came for one.
    assert!(most < STEPS + 4 * 32 + u64::from(QUEUED), "{most} steps");
    assert!(times > 1);
    assert_eq!(state.partitions.len(), (PARTITIONS + SWEPT) as usize);
}

#[test]
fn long_queues_are_divided_in_few_steps_at_once() {
    const STEPS: u64 = 1 << 8;
    let mut state = state_of(SWEPT, 1 << 12);
    let group = sweep(&mut state, SWEPT);
    let (most, _) = apply(&mut state, &group, STEPS);
    // A piece of a queue may go over it, and the partitions that change.
    assert!(most < STEPS + 4 * 32 + u64::from(QUEUED), "{most} steps");
}
