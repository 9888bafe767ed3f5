//! Sweeps that make modifications of other spaces: rows of which an index is kept by `a`. An update is blind, so the entry of
//! the old `a` becomes stale; the sweep that sees old and new deletes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_runtime::{Random, block_on_virtual, each_seed, random, sleep};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{
    Block, BlockFormat, DELETE, Engine, Error, Formats, Group, Kinds, Modification, NewBlocks,
    NotOfFormat, Options, PUT, SpaceFormat, SpaceId, Value, WholeBlocks,
};
use rand::Rng;

use crate::Devices;
use crate::pairs::{BLOCK, Pairs, SET_A, bytes_of, pair_of, pairs};
use crate::scanned;

const ROWS: SpaceId = SpaceId(1);
const INDEX: SpaceId = SpaceId(7);
const KEYS: u64 = 300;

/// Pairs, with an index by `a` in another space.
struct Indexed(SpaceId);

impl Indexed {
    /// With the number of the index's space as parameter.
    fn of(parameters: &[u8]) -> Option<Arc<dyn BlockFormat>> {
        let space = u32::from_le_bytes(parameters.try_into().ok()?);
        Some(Arc::new(Indexed(SpaceId(space))))
    }
}

impl BlockFormat for Indexed {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let old: BTreeMap<[u8; 8], (u64, u64)> = match block {
            Some(block) => pairs(block).ok_or(NotOfFormat)?.into_iter().collect(),
            None => BTreeMap::new(),
        };
        let mut value = Value::default();
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let key: [u8; 8] = of_key[0].key.try_into().map_err(|_| NotOfFormat)?;
            let before = old.get(&key).copied();
            value.set(before.map(bytes_of).as_ref().map(|bytes| &bytes[..]));
            // Each of them may have made an entry.
            let mut stale = Vec::from_iter(before);
            for one in of_key {
                kinds.apply(one.kind, &mut value, one.bytes);
                stale.extend(value.get().and_then(pair_of));
            }
            let now = value.get().and_then(pair_of).map(|(a, _)| a);
            for (a, _) in stale {
                if Some(a) != now {
                    let key = &a.to_be_bytes();
                    new_blocks.emit(self.0, Modification { key, kind: DELETE, bytes: &[] });
                }
            }
        }
        Pairs.apply(low, block, modifications, kinds, new_blocks)
    }

    fn find(
        &self,
        low: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        Pairs.find(low, block, key, value)
    }

    fn units(&self, block_bytes: usize) -> Vec<usize> {
        Pairs.units(block_bytes)
    }

    fn growth_bytes(&self, one: &Modification<'_>, block_bytes: usize) -> usize {
        Pairs.growth_bytes(one, block_bytes)
    }

    /// A delete of the entry before it, and one of its own.
    fn emitted_bytes_max(&self) -> usize {
        2 * (8 + 16)
    }

    fn name(&self) -> &'static str {
        "indexed"
    }

    fn last_key<'a>(&self, low: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        Pairs.last_key(low, block)
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        Pairs.longest(block_bytes)
    }
}

fn formats() -> Formats {
    Formats::of(WholeBlocks).with(Pairs).with_parameters("indexed", Indexed::of)
}

async fn opened(devices: &Devices, memory: u64) -> Result<Engine, Error> {
    opened_with(devices, memory, 0).await
}

async fn opened_with(
    devices: &Devices,
    memory: u64,
    staging_percent: u32,
) -> Result<Engine, Error> {
    let options = Options { memory: ByteCount(memory), ..Options::default() };
    let engine = devices.open_with(formats(), options).await?;
    let format = |name: &str, parameters: &[u8]| SpaceFormat {
        name: name.into(),
        parameters: parameters.into(),
        block_bytes: ByteCount(BLOCK as u64),
        partition_blocks: 8,
        staging_percent,
    };
    engine.create_space_of(ROWS, &format("indexed", &INDEX.0.to_le_bytes())).await?;
    engine.create_space_of(INDEX, &format("pairs", &[])).await?;
    Ok(engine)
}

/// `a` of each row.
type Model = BTreeMap<u64, u64>;

/// Some rows that are put, changed without being read, or deleted, with the entries of the index that this makes.
fn any_group(random: &mut Random, model: &mut Model, next: &mut u64) -> Group {
    let mut group = Group::new();
    for _ in 0..random.random_range(1..40) {
        let key: u64 = random.random_range(0..KEYS);
        let key_bytes = &key.to_be_bytes();
        let one = |kind, bytes| Modification { key: key_bytes, kind, bytes };
        if random.random_bool(0.1) {
            group.modify(ROWS, one(DELETE, &[]));
            model.remove(&key);
            continue;
        }
        // No other row has it, or had it.
        let a = *next;
        *next += 1;
        match model.contains_key(&key) {
            true => group.modify(ROWS, one(SET_A, &a.to_le_bytes())),
            false => group.modify(ROWS, one(PUT, &bytes_of((a, 0)))),
        }
        model.insert(key, a);
        let (key, bytes) = (&a.to_be_bytes(), &bytes_of((key, 0)));
        group.modify(INDEX, Modification { key, kind: PUT, bytes });
    }
    group
}

async fn rows(engine: &Engine) -> Model {
    let rows = scanned(engine.now(), ROWS).await.unwrap();
    rows.into_iter().map(|(key, (a, _))| (key, a)).collect()
}

/// Every row has its entry. Once all is swept, there is no other.
async fn check(engine: &Engine, model: &Model, is_swept: bool) {
    let index: BTreeMap<u64, u64> = scanned(engine.now(), INDEX)
        .await
        .unwrap()
        .into_iter()
        .map(|(a, (key, _))| (a, key))
        .collect();
    for (key, a) in model {
        assert_eq!(index.get(a), Some(key), "row {key} has no entry");
    }
    assert!(!is_swept || index.len() == model.len(), "{} for {}", index.len(), model.len());
}

/// Sweeps everything that is pending, and what comes of it.
async fn sweep_all(engine: &Engine) -> Result<(), Error> {
    engine.checkpoint().await?;
    engine.checkpoint().await
}

#[test]
fn sweeps_delete_entries_that_blind_updates_made_stale() {
    block_on_virtual(1, async {
        let mut random = random("index");
        let devices = Devices::formatted(20_000, 8000).await;
        let engine = opened(&devices, 1 << 20).await.unwrap();
        let (mut model, mut next) = (Model::new(), 1);
        for turn in 0..40 {
            for _ in 0..20 {
                let group = any_group(&mut random, &mut model, &mut next);
                engine.commit(&group).await.unwrap();
            }
            check(&engine, &model, false).await;
            if turn % 4 == 3 {
                sweep_all(&engine).await.unwrap();
                assert!(rows(&engine).await == model);
                check(&engine, &model, true).await;
            }
        }
        let entries = next - 1;
        assert!(entries > 20 * KEYS, "{entries} entries were made");
        engine.close().await.unwrap();
    });
}

/// What is staged is not combined, so that the sweep that writes the blocks sees each value.
#[test]
fn values_that_were_staged_leave_no_entries() {
    block_on_virtual(1, async {
        let mut random = random("staged index");
        let devices = Devices::formatted(40_000, 8000).await;
        let engine = opened_with(&devices, 1 << 20, 400).await.unwrap();
        let (mut model, mut next) = (Model::new(), 1);
        for _ in 0..12 {
            for _ in 0..20 {
                let group = any_group(&mut random, &mut model, &mut next);
                engine.commit(&group).await.unwrap();
            }
            engine.checkpoint().await.unwrap();
            check(&engine, &model, false).await;
        }
        assert!(engine.figures().staged_bytes > 0, "nothing was staged");
        // What waits is worth rewriting once nobody works.
        for _ in 0..3 {
            sleep(Nanos(600_000_000_000)).await;
            engine.checkpoint().await.unwrap();
        }
        assert!(rows(&engine).await == model);
        check(&engine, &model, true).await;
        engine.close().await.unwrap();
    });
}

/// Bulk groups make nothing for other spaces, and keep no room in the log for it.
#[test]
fn bulk_groups_leave_the_log_free() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(20_000, 1000).await;
        let engine = opened(&devices, 1 << 20).await.unwrap();
        for turn in 0..60_u64 {
            let mut bulk = engine.bulk();
            for key in 0..KEYS {
                let (key, pair) = (key.to_be_bytes(), bytes_of((turn, key)));
                let put = Modification { key: &key, kind: PUT, bytes: &pair };
                bulk.modify(ROWS, put).await.unwrap();
            }
            // More than one group of the log takes.
            for key in 0..20_000_u64 {
                let put = Modification { key: &key.to_be_bytes(), kind: PUT, bytes: &[1; 16] };
                bulk.modify(INDEX, put).await.unwrap();
            }
            bulk.commit().await.unwrap();
        }
        let mut group = Group::new();
        let one = Modification { key: &7_u64.to_be_bytes(), kind: SET_A, bytes: &[9; 8] };
        group.modify(ROWS, one);
        engine.commit(&group).await.unwrap();
        engine.close().await.unwrap();
    });
}

/// What a sweep made for another space is in the log alone until that is swept: also where memory is too small for all of it at
/// the next opening.
#[test]
fn what_sweeps_made_is_loaded_from_a_log_that_is_longer_than_memory() {
    block_on_virtual(1, async {
        let mut random = random("index of a long log");
        let devices = Devices::formatted(20_000, 8000).await;
        let engine = opened(&devices, 4 << 20).await.unwrap();
        let (mut model, mut next) = (Model::new(), 1);
        for _ in 0..400 {
            let group = any_group(&mut random, &mut model, &mut next);
            engine.commit(&group).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        let pending = engine.figures().queued;
        assert!(pending > 4000, "{pending} came of the sweep");
        drop(engine);
        let engine = opened(&devices, 32 << 10).await.unwrap();
        let loaded = engine.figures();
        assert!(loaded.placed > 0, "all of the log fits in memory");
        sweep_all(&engine).await.unwrap();
        assert!(rows(&engine).await == model);
        check(&engine, &model, true).await;
        engine.close().await.unwrap();
    });
}

async fn survive() {
    let mut random = random("index through power cuts");
    let devices = Devices::formatted(6000, 2000).await;
    let memory = random.random_range(64..256) << 10;
    let (mut model, mut next) = (Model::new(), 1);
    for _ in 0..random.random_range(1..4) {
        let engine = opened(&devices, memory).await.unwrap();
        if random.random_bool(0.8) {
            devices.power.fail_after(random.random_range(0..80));
        }
        let mut after = model.clone();
        for _ in 0..random.random_range(1..60) {
            let group = any_group(&mut random, &mut after, &mut next);
            if engine.commit(&group).await.is_err() {
                break;
            }
            model = after.clone();
            if random.random_bool(0.15) && engine.checkpoint().await.is_err() {
                break;
            }
        }
        drop(engine);
        devices.power.bring_back();
        devices.data.restart();
        devices.log.restart();
        let engine = opened(&devices, memory).await.unwrap();
        let found = rows(&engine).await;
        assert!(found == model || found == after, "neither before nor after");
        model = found;
        check(&engine, &model, false).await;
        sweep_all(&engine).await.unwrap();
        check(&engine, &model, true).await;
        engine.close().await.unwrap();
    }
}

#[test]
fn stale_entries_go_through_power_cuts() {
    each_seed(if cfg!(debug_assertions) { 200 } else { 20_000 }, survive);
}
