//! Read points that are held while groups come: what they show stays as it was.

use std::sync::Arc;

use moirai_runtime::{Random, Task, sleep, spawn};
use moirai_units::Nanos;
use moirai_update::{Engine, Error, ReadPoint};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::model::{BLOCK, Change, Model, SPACE, groups_in, without_zeros};

/// The most that are held.
const HELD_MAX: usize = 6;

/// A read point, and what it has to show.
struct Held {
    point: ReadPoint,
    expected: Model,
}

/// Read points of one run of the engine.
#[derive(Default)]
pub(crate) struct Points {
    held: Vec<Held>,
    /// How often what one showed was looked at.
    pub(crate) checked: u64,
    /// How many ended because others needed the space.
    pub(crate) too_old: u64,
}

/// The blocks that a read point shows which are not zeros, of those asked for; `None` when it is too old, or a device fails.
async fn content(point: &ReadPoint, blocks: &[u64]) -> Result<Model, Error> {
    let keys: Vec<[u8; 8]> = blocks.iter().map(|block| block.to_be_bytes()).collect();
    let mut read = Vec::new();
    // Half of them by themselves.
    let (alone, together) = keys.split_at(keys.len() / 2);
    for key in alone {
        read.push(point.reader().get(SPACE, key).await?);
    }
    let together: Vec<&[u8]> = together.iter().map(|key| &key[..]).collect();
    read.extend(point.reader().get_many(SPACE, &together).await?);
    let mut model = Model::new();
    for (block, read) in blocks.iter().zip(read) {
        let read = read.unwrap();
        assert_eq!(read.len(), BLOCK);
        model.insert(*block, read);
    }
    Ok(without_zeros(&model))
}

fn all_blocks(random: &mut Random, blocks: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..blocks).collect();
    all.shuffle(random);
    all
}

/// Begins a read point in a moment, while others work.
pub(crate) fn begin_soon(engine: &Arc<Engine>, random: &mut Random) -> Task<ReadPoint> {
    let engine = Arc::clone(engine);
    let pause = Nanos(random.random_range(0..2_000_000));
    spawn(async move {
        sleep(pause).await;
        engine.read_point().await
    })
}

impl Points {
    /// Holds a read point that was begun while nothing was going on.
    pub(crate) fn hold(&mut self, random: &mut Random, point: ReadPoint, expected: &Model) {
        if self.held.len() == HELD_MAX {
            self.drop_one(random);
        }
        self.held.push(Held { point, expected: without_zeros(expected) });
    }

    pub(crate) fn drop_one(&mut self, random: &mut Random) {
        if !self.held.is_empty() {
            self.held.swap_remove(random.random_range(0..self.held.len()));
        }
    }

    /// Holds one that was begun while `groups` came, and shows some of them.
    pub(crate) async fn hold_amid(
        &mut self,
        random: &mut Random,
        point: ReadPoint,
        blocks: u64,
        (base, groups): (&Model, &[Vec<Change>]),
    ) {
        match content(&point, &all_blocks(random, blocks)).await {
            Ok(content) => {
                let there = groups_in(&content, base, groups);
                assert!(there.is_some(), "a read point shows no run of the groups");
                self.hold(random, point, &content);
            }
            Err(Error::PointTooOld { .. }) => self.too_old += 1,
            // The power is off.
            Err(error) => assert!(matches!(error, Error::Device(_)), "{error}"),
        }
    }

    /// Looks at some blocks of one of them, or at all blocks of all of them.
    pub(crate) async fn check(&mut self, random: &mut Random, blocks: u64, is_all: bool) {
        let mut asked = all_blocks(random, blocks);
        if !is_all {
            asked.truncate(8);
        }
        let mut at = if is_all { 0 } else { random.random_range(0..self.held.len().max(1)) };
        while let Some(Held { point, expected }) = self.held.get(at) {
            match content(point, &asked).await {
                Ok(content) => {
                    let mut expected = expected.clone();
                    expected.retain(|block, _| asked.contains(block));
                    assert!(content == expected, "{point:?} shows another state than before");
                    self.checked += 1;
                    at += 1;
                }
                Err(Error::PointTooOld { .. }) => {
                    assert!(!point.is_live());
                    self.held.swap_remove(at);
                    self.too_old += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Device(_)), "{error}");
                    return;
                }
            }
            if !is_all {
                return;
            }
        }
    }
}
