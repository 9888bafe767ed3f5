//! Commits in steps, bulk groups, and reads over what is not committed.

use moirai_runtime::Random;
use moirai_update::{Draft, Engine, Error, Modification, Reserved};
use rand::Rng;

use crate::model::{BLOCK, Change, Model, SPACE, any_group, apply, group_of};

/// Now and then, room for a group that is appended later, and the group.
pub(crate) async fn reserve_some(
    engine: &Engine,
    random: &mut Random,
    blocks: u64,
    bytes_max: usize,
) -> Option<(Reserved, Vec<Change>)> {
    if random.random_bool(0.8) {
        return None;
    }
    // Less than all of the log: others wait for what is left.
    let changes = any_group(random, blocks, bytes_max / 4);
    let bytes = group_of(&changes).log_bytes();
    let more = if random.random() { random.random_range(0..100) } else { 0 };
    match engine.reserve(bytes + more).await {
        Ok(reserved) if random.random_bool(0.8) => Some((reserved, changes)),
        // The room is given back.
        Ok(_) => None,
        Err(_) => None,
    }
}

/// Reads blocks as they would be with changes that nobody commits.
pub(crate) async fn read_over_a_draft(
    engine: &Engine,
    random: &mut Random,
    blocks: u64,
    model: &mut Model,
) {
    let changes = any_group(random, blocks, 4096);
    let mut draft = Draft::new();
    for Change { block, kind, bytes } in &changes {
        draft.modify(SPACE, Modification { key: &block.to_be_bytes(), kind: *kind, bytes });
    }
    apply(model, &changes);
    for Change { block, .. } in changes.iter().take(20) {
        match engine.now().over(&draft).get(SPACE, &block.to_be_bytes()).await {
            Ok(read) => {
                let expected = model.get(block).cloned().unwrap_or(vec![0; BLOCK]);
                assert_eq!(read, Some(expected), "block {block} with a draft");
            }
            Err(error) => assert!(matches!(error, Error::Device(_)), "{error}"),
        }
    }
}

/// Commits a group through runs on the device, or drops it; gives its changes when it may be there, and whether it is.
pub(crate) async fn bulk_some(
    engine: &Engine,
    random: &mut Random,
    blocks: u64,
) -> Option<(Vec<Change>, moirai_update::Result<()>)> {
    let mut bulk = engine.bulk();
    let mut taken = Vec::new();
    for _ in 0..random.random_range(1..20) {
        for change in any_group(random, blocks, 2000) {
            let Change { block, kind, bytes } = &change;
            let modification = Modification { key: &block.to_be_bytes(), kind: *kind, bytes };
            if bulk.modify(SPACE, modification).await.is_err() {
                return None;
            }
            taken.push(change);
        }
    }
    let is_dropped = random.random_bool(0.2);
    // A group without modifications makes none of those before it durable.
    if is_dropped || taken.is_empty() {
        return None;
    }
    match bulk.commit().await {
        // Nothing of it was taken in.
        Err(Error::Full { .. } | Error::GroupTooLong { .. }) => None,
        done => Some((taken, done)),
    }
}
