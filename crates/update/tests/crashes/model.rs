//! What the blocks should hold: changes, the groups that they come in, and what readers were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use moirai_runtime::{Random, sleep};
use moirai_units::Nanos;
use moirai_update::{
    DELETE, Engine, Error, Group, Kind, KindNumber, Kinds, Modification, PUT, SpaceId, Value,
};
use parking_lot::Mutex;
use rand::Rng;

pub(crate) const SPACE: SpaceId = SpaceId(1);
pub(crate) const ADD: KindNumber = KindNumber(20);
pub(crate) const APPEND: KindNumber = KindNumber(21);
pub(crate) const BLOCK: usize = 512;
/// What a change takes in the log beside its bytes, at most.
pub(crate) const CHANGE_OVERHEAD_BYTES: usize = 16;

/// Adds to the number that a block begins with; two are one.
pub(crate) struct Add;

impl Kind for Add {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let sum = number(&value.bytes).wrapping_add(number(modification));
        value.bytes[..8].copy_from_slice(&sum.to_le_bytes());
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        both.extend_from_slice(&number(older).wrapping_add(number(newer)).to_le_bytes());
        true
    }
}

/// Puts the tags of modifications behind each other, the last of them first: order shows.
pub(crate) struct Append;

impl Kind for Append {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        value.bytes.copy_within(8..BLOCK - 4, 12);
        value.bytes[8..12].copy_from_slice(&modification[..4]);
    }
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

pub(crate) fn kinds() -> Kinds {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(Add)).unwrap();
    kinds.register(APPEND, Arc::new(Append)).unwrap();
    kinds
}

/// Blocks as they should be.
pub(crate) type Model = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) block: u64,
    pub(crate) kind: KindNumber,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn apply(model: &mut Model, group: &[Change]) {
    for change in group {
        let mut value = Value { is_there: true, bytes: vec![0; BLOCK], is_long: false };
        if let Some(block) = model.get(&change.block) {
            value.bytes.clone_from(block);
        }
        kinds().apply(change.kind, &mut value, &change.bytes);
        value.bytes.resize(BLOCK, 0);
        model.insert(change.block, value.bytes);
    }
}

/// Some changes; seldom as many as come to any share of `bytes_max`, which is several segments of the log.
pub(crate) fn any_group(random: &mut Random, blocks: u64, bytes_max: usize) -> Vec<Change> {
    let (count, bytes) = match random.random_range(0..200) {
        0 => (usize::MAX, random.random_range(0..bytes_max)),
        1..20 => (60, bytes_max),
        _ => (random.random_range(1..6), bytes_max),
    };
    let change = |random: &mut Random| {
        let block = random.random_range(0..blocks);
        let (kind, bytes) = match random.random_range(0..20) {
            0 => (PUT, vec![random.random(); random.random_range(1..=BLOCK)]),
            1 => (DELETE, Vec::new()),
            2..10 => (ADD, random.random_range(1..1000_u64).to_le_bytes().to_vec()),
            _ => (APPEND, random.random::<u32>().to_le_bytes().to_vec()),
        };
        Change { block, kind, bytes }
    };
    let mut left = bytes;
    let has_room = |change: &Change| {
        left = left.saturating_sub(change.bytes.len() + CHANGE_OVERHEAD_BYTES);
        left > 0
    };
    let some = (0..count).map(|_| change(random)).take_while(has_room);
    some.collect()
}

pub(crate) fn group_of(changes: &[Change]) -> Group {
    let mut group = Group::new();
    for Change { block, kind, bytes } in changes {
        group.modify(SPACE, Modification { key: &block.to_be_bytes(), kind: *kind, bytes });
    }
    group
}

/// Longer than any log here.
pub(crate) static TOO_LONG: LazyLock<Group> = LazyLock::new(|| {
    let put = Change { block: 0, kind: PUT, bytes: vec![0; BLOCK] };
    group_of(&vec![put; 5000])
});

/// The longest group that the log takes.
pub(crate) async fn group_bytes_max(engine: &Engine) -> usize {
    match engine.commit(&TOO_LONG).await {
        Err(Error::GroupTooLong { most, .. }) => most.0 as usize,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn without_zeros(model: &Model) -> Model {
    let is_set = |block: &Vec<u8>| block.iter().any(|byte| *byte != 0);
    model
        .iter()
        .filter(|(_, block)| is_set(block))
        .map(|(at, block)| (*at, block.clone()))
        .collect()
}

/// The number of groups that make `content`, in their order; the most, where some change nothing.
pub(crate) fn groups_in(content: &Model, base: &Model, groups: &[Vec<Change>]) -> Option<usize> {
    let mut model = base.clone();
    let mut found = (without_zeros(&model) == *content).then_some(0);
    for (index, group) in groups.iter().enumerate() {
        apply(&mut model, group);
        if without_zeros(&model) == *content {
            found = Some(index + 1);
        }
    }
    found
}

/// What readers were shown: blocks, and the content of each.
pub(crate) type Shown = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// Reads blocks, each after a pause, and records those that could be read.
pub(crate) async fn read_some(engine: &Engine, reads: Vec<(u64, Nanos)>, shown: &Shown) {
    for (block, pause) in reads {
        sleep(pause).await;
        if let Ok(read) = engine.get(SPACE, &block.to_be_bytes()).await {
            shown.lock().push((block, read.unwrap()));
        }
    }
}

/// Ingests blocks at random; gives groups that do the same, one for each, since they come in their order.
pub(crate) async fn ingest_some(
    engine: &Engine,
    random: &mut Random,
    blocks: u64,
) -> (Vec<Vec<Change>>, moirai_update::Result<()>) {
    let some: BTreeSet<u64> =
        (0..random.random_range(1..60)).map(|_| random.random_range(0..blocks)).collect();
    let put = |block| {
        let bytes = vec![random.random(); random.random_range(1..=BLOCK)];
        vec![Change { block, kind: PUT, bytes }]
    };
    let mut groups: Vec<Vec<Change>> = some.into_iter().map(put).collect();
    let mut ingest = match engine.ingest(SPACE) {
        Ok(ingest) => ingest,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut done = Ok(());
    for Change { block, bytes, .. } in groups.iter().flatten() {
        done = ingest.push(&block.to_be_bytes(), bytes).await;
        if done.is_err() {
            break;
        }
    }
    if done.is_ok() {
        done = ingest.flush().await;
    }
    // Nothing of the others was taken in.
    if let Err(Error::Full { .. }) = done {
        groups.truncate(ingest.durable() as usize);
    }
    (groups, done)
}

pub(crate) fn any_reads(random: &mut Random, blocks: u64) -> Vec<(u64, Nanos)> {
    let read = |random: &mut Random| {
        (random.random_range(0..blocks), Nanos(random.random_range(0..400_000)))
    };
    (0..random.random_range(0..20)).map(|_| read(random)).collect()
}

/// The least number of groups, in their order, with which each block was at some time what a reader was shown.
pub(crate) fn groups_shown(shown: &Shown, base: &Model, groups: &[Vec<Change>]) -> usize {
    let mut open = std::mem::take(&mut *shown.lock());
    let mut model = base.clone();
    let zeros = vec![0; BLOCK];
    let mut least = 0;
    for count in 0..=groups.len() {
        if let Some(group) = count.checked_sub(1).map(|last| &groups[last]) {
            apply(&mut model, group);
        }
        let before = open.len();
        open.retain(|(block, read)| model.get(block).unwrap_or(&zeros) != read);
        if open.len() < before {
            least = count;
        }
    }
    assert!(open.is_empty(), "readers were shown what no run of the groups makes");
    least
}
