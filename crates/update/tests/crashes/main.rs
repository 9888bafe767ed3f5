//! Random work on devices that lose power, die and are damaged: what was acknowledged is there, once, in its
//! order, and groups are whole.
//!
//! A build for tests runs some hundred seeds, an optimised one 100,000, as `cargo xtask test --full` does.
//! `MOIRAI_RUNS` says another number, and `MOIRAI_SEED` with which to begin. A failure prints what runs it
//! again.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod bench;
mod model;
mod points;
mod steps;

use std::panic::catch_unwind;
use std::sync::Arc;

use moirai_runtime::{block_on_virtual, each_seed, random, sleep, spawn};
use moirai_storage::Device;
use moirai_units::{ByteCount, Lbn, Nanos};
use moirai_update::{
    Canary, Durability, Engine, Error, Format, KindNumber, Kinds, PUT, WholeBlocks,
};
use rand::Rng;

use crate::bench::{Bench, Sectors, devices};
use crate::model::{
    ADD, BLOCK, Change, Model, SPACE, Shown, any_group, any_reads, apply, group_bytes_max,
    group_of, groups_in, groups_shown, ingest_some, kinds, number, read_some, without_zeros,
};
use crate::points::{Points, begin_soon};
use crate::steps::{bulk_some, read_over_a_draft, reserve_some};

/// What happened in random work.
#[derive(Clone, Copy, Default)]
struct Happened {
    /// How often a read point that was held was looked at, and how many ended early.
    checked: u64,
    too_old: u64,
    /// How many partitions were set aside, since they could not be read.
    set_aside: u64,
}

/// Random work.
async fn survive(canary: Canary, sectors: Sectors) -> Happened {
    let mut happened = Happened::default();
    let mut random = random("crashes");
    let mut bench = Bench::new(&mut random, sectors).await;
    bench.options.canary = canary;
    // What all groups so far make, in the order in which they were first polled.
    let mut base = Model::new();
    let mut engine = Some(Arc::new(bench.open_at_last(&mut random).await.0));
    let bytes_max = group_bytes_max(engine.as_ref().unwrap()).await;
    for _ in 0..random.random_range(1..5) {
        let running = engine.take().unwrap();
        if random.random_bool(0.8) {
            bench.power.fail_after(random.random_range(0..60));
        }
        let mut groups: Vec<Vec<Change>> = Vec::new();
        let mut tasks = Vec::new();
        let mut durable = 0;
        // Whether some data could not be read for a while: partitions that were swept meanwhile are set aside.
        let mut were_unreadable = false;
        let shown = Shown::default();
        let mut points = Points::default();
        let mut points_amid = Vec::new();
        for _ in 0..random.random_range(1..40) {
            let stepped = reserve_some(&running, &mut random, bench.blocks, bytes_max).await;
            // The longest groups wait until all of the log is free, which it is not while room is reserved.
            let longest = if stepped.is_some() { bytes_max / 8 } else { bytes_max };
            // Some at a time: their order is that in which they were spawned.
            for _ in 0..random.random_range(1..5) {
                let changes = any_group(&mut random, bench.blocks, longest);
                let (engine, group) = (Arc::clone(&running), group_of(&changes));
                groups.push(changes);
                tasks.push(spawn(async move { engine.commit(&group).await }));
            }
            let mut failed = false;
            let first = groups.len() - tasks.len();
            let (engine, shown_now) = (Arc::clone(&running), Arc::clone(&shown));
            let reads = any_reads(&mut random, bench.blocks);
            tasks.push(spawn(async move {
                read_some(&engine, reads, &shown_now).await;
                Ok(())
            }));
            if random.random_bool(0.15) {
                let engine = Arc::clone(&running);
                tasks.push(spawn(async move { engine.checkpoint().await }));
            }
            if random.random_bool(0.1) {
                points_amid.push(begin_soon(&running, &mut random));
            }
            for (index, task) in tasks.drain(..).enumerate() {
                match task.await {
                    // Nothing of it was taken in.
                    Err(Error::Full { .. }) if first + index < groups.len() => {
                        groups[first + index].clear();
                    }
                    done => failed |= done.is_err(),
                }
            }
            if let Some((reserved, changes)) = stepped {
                // Of one that fails nobody knows whether it is there.
                groups.push(changes);
                match reserved.append(&group_of(groups.last().unwrap())) {
                    Ok(appended) => failed |= appended.acknowledged().await.is_err(),
                    Err(_) => failed = true,
                }
            }
            for point in points_amid.drain(..) {
                let there = (&base, &groups[..]);
                points.hold_amid(&mut random, point.await, bench.blocks, there).await;
            }
            if failed || bench.power.is_off() {
                break;
            }
            points.check(&mut random, bench.blocks, false).await;
            if bench.options.durability == Durability::Flushed {
                durable = groups.len();
            }
            match random.random_range(0..17) {
                0 if running.checkpoint().await.is_ok() => {
                    durable = groups.len();
                    let figures = running.figures();
                    let queued = (figures.queued, figures.queued_bytes);
                    assert!(were_unreadable || queued == (0, 0), "{queued:?} after a checkpoint");
                }
                1 if running.barrier().await.is_ok() => durable = groups.len(),
                2 => {
                    let block = random.random_range(0..bench.blocks);
                    let mut model = base.clone();
                    groups.iter().for_each(|group| apply(&mut model, group));
                    // So often that it may be swept for that.
                    for _ in 0..random.random_range(1..40) {
                        if let Ok(read) = running.get(SPACE, &block.to_be_bytes()).await {
                            let expected = model.get(&block).cloned().unwrap_or(vec![0; BLOCK]);
                            assert_eq!(read, Some(expected), "block {block} while it runs");
                        }
                    }
                }
                5 => {
                    let mut model = base.clone();
                    groups.iter().for_each(|group| apply(&mut model, group));
                    points.hold(&mut random, running.read_point().await, &model);
                }
                8 | 9 => {
                    points_amid.push(begin_soon(&running, &mut random));
                    if let Some((changes, done)) =
                        bulk_some(&running, &mut random, bench.blocks).await
                    {
                        groups.push(changes);
                        match done {
                            Ok(()) => durable = groups.len(),
                            Err(_) => break,
                        }
                    }
                }
                6 => points.drop_one(&mut random),
                7 => {
                    let mut model = base.clone();
                    groups.iter().for_each(|group| apply(&mut model, group));
                    read_over_a_draft(&running, &mut random, bench.blocks, &mut model).await;
                }
                3 => sleep(Nanos(random.random_range(0..20_000_000))).await,
                4 => {
                    points_amid.push(begin_soon(&running, &mut random));
                    let (ingested, done) = ingest_some(&running, &mut random, bench.blocks).await;
                    groups.extend(ingested);
                    match done {
                        Ok(()) => durable = groups.len(),
                        // It has not waited for what was written before.
                        Err(Error::Full { .. }) => {}
                        Err(_) => break,
                    }
                }
                10 => {
                    were_unreadable = true;
                    bench.make_unreadable(&mut random);
                }
                11 => bench.data.make_readable(),
                _ => {}
            }
            if bench.power.is_off() {
                break;
            }
        }
        for point in points_amid {
            let there = (&base, &groups[..]);
            points.hold_amid(&mut random, point.await, bench.blocks, there).await;
        }
        points.check(&mut random, bench.blocks, true).await;
        happened.checked += points.checked;
        happened.too_old += points.too_old;
        happened.set_aside += running.figures().set_aside;
        drop(points);
        // An engine that failed goes on to serve reads.
        let reads = any_reads(&mut random, bench.blocks);
        read_some(&running, reads, &shown).await;
        // The process ends, or the power does.
        drop(running);
        let is_kill = !bench.power.is_off() && random.random_bool(0.3);
        sleep(Nanos(10_000_000)).await;
        let is_written = bench.options.durability == Durability::Written;
        let outlives = is_kill && is_written && !bench.power.is_off();
        if outlives {
            // What was written outlives the process.
            bench.power.bring_back();
        } else {
            bench.restart();
        }
        bench.data.make_readable();
        let (opened, was_cut) = bench.open_at_last(&mut random).await;
        let content = bench.content(&opened).await;
        let there = groups_in(&content, &base, &groups);
        let there = there.unwrap_or_else(|| panic!("what is there is no run of the groups"));
        assert!(there >= durable, "{there} groups are there, and {durable} were acknowledged");
        let least = groups_shown(&shown, &base, &groups);
        if !is_written || (outlives && !was_cut) {
            assert!(there >= least, "{there} groups are there, and readers were shown {least}");
        }
        groups.iter().take(there).for_each(|group| apply(&mut base, group));
        engine = Some(Arc::new(opened));
    }
    happened
}

fn runs(plain: u64) -> u64 {
    if cfg!(debug_assertions) { plain } else { 100_000 }
}

#[test]
fn what_was_acknowledged_survives() {
    each_seed(runs(300), async || _ = survive(Canary::None, Sectors::SMALL).await);
}

/// A power cut destroys whole physical sectors that a write touches, durable blocks in them included.
#[test]
fn what_was_acknowledged_survives_where_power_cuts_destroy_sectors_of_the_log() {
    each_seed(runs(300), async || _ = survive(Canary::None, Sectors::LARGE_OF_LOG).await);
}

/// The data has such sectors, too: those of its extents, staged chunks, checkpoints and superblocks.
#[test]
fn what_was_acknowledged_survives_where_power_cuts_destroy_sectors() {
    each_seed(runs(300), async || _ = survive(Canary::None, Sectors::LARGE).await);
}

/// A partition that was placed while the log had no room is not sealed by the next group, and what was ingested for it was lost.
#[test]
fn what_is_ingested_after_an_unlogged_sweep_is_there() {
    let _ = block_on_virtual(2177, survive(Canary::None, Sectors::LARGE_OF_LOG));
}

/// The first of these tests notices each mistake.
#[test]
fn canaries_are_caught() {
    let all = [Canary::EarlyFrontier, Canary::VersionFreed, Canary::LatePoint, Canary::ExtentTwice];
    for canary in all {
        let is_noticed = |seed| {
            catch_unwind(|| block_on_virtual(seed, survive(canary, Sectors::SMALL))).is_err()
        };
        assert!((0..200).any(is_noticed), "{canary:?}");
    }
}

/// The first of these tests looks at many read points, although many end early in so little memory, and has partitions set
/// aside.
#[test]
fn rare_things_happen() {
    let runs = (0..50).map(|seed| block_on_virtual(seed, survive(Canary::None, Sectors::SMALL)));
    let (mut checked, mut too_old, mut set_aside) = (0, 0, 0);
    for run in runs {
        checked += run.checked;
        too_old += run.too_old;
        set_aside += run.set_aside;
    }
    assert!(checked > 200 && checked > 2 * too_old, "{checked} looks, {too_old} too old");
    assert!(set_aside > 5, "{set_aside} partitions were set aside");
}

/// Whose end of the log is forced before a durable frame: each block is as some of the groups left it, and stays so.
async fn read_forced(mut bench: Bench, groups: &[Vec<Change>]) {
    let engine = match bench.open().await {
        Ok(engine) => engine,
        Err(error) => {
            let is_of_log = matches!(error, Error::LogLost { .. } | Error::LogUnreadable { .. });
            assert!(!is_of_log, "{error}");
            return;
        }
    };
    let mut read = Vec::new();
    for block in 0..bench.blocks {
        let mut model = Model::new();
        let mut versions = vec![vec![0; BLOCK]];
        for group in groups {
            apply(&mut model, group);
            versions.extend(model.get(&block).cloned());
        }
        let found = engine.get(SPACE, &block.to_be_bytes()).await;
        if let Ok(Some(found)) = &found {
            assert!(versions.contains(found), "block {block}");
        }
        read.push(found.ok());
    }
    // And without force from now on, unless the checkpoint found no room.
    let stops = engine.checkpoint().await.is_err();
    drop(engine);
    sleep(Nanos(10_000_000)).await;
    bench.options.force_log_end = stops;
    let engine = match bench.open().await {
        // Further on, where the log came to meanwhile.
        Err(Error::LogUnreadable { .. }) => {
            bench.options.force_log_end = true;
            bench.open().await.unwrap()
        }
        opened => opened.unwrap(),
    };
    for (block, before) in (0..).zip(read) {
        let found = engine.get(SPACE, &u64::to_be_bytes(block)).await;
        assert!(found.is_err() || before.is_none() || found.ok() == before, "block {block}");
    }
}

/// A block of the log or of the data changes, or cannot be read: every read is right or an error, and a log
/// that lost something durable is not opened.
async fn notice_damage() {
    let mut random = random("damage");
    let sectors = if random.random_bool(0.3) { Sectors::LARGE_OF_LOG } else { Sectors::SMALL };
    let mut bench = Bench::new(&mut random, sectors).await;
    bench.options.durability = Durability::Flushed;
    let engine = bench.open().await.unwrap();
    let bytes_max = group_bytes_max(&engine).await;
    let mut groups = Vec::new();
    for _ in 0..random.random_range(1..120) {
        let changes = any_group(&mut random, bench.blocks, bytes_max);
        match engine.commit(&group_of(&changes)).await {
            Err(Error::Full { .. }) => {}
            done => {
                done.unwrap();
                groups.push(changes);
            }
        }
    }
    if random.random_bool(0.3) {
        let done = engine.checkpoint().await;
        assert!(matches!(done, Ok(()) | Err(Error::Full { .. })), "{done:?}");
    }
    drop(engine);
    sleep(Nanos(10_000_000)).await;
    let log = &bench.logs[random.random_range(0..bench.logs.len())];
    let device = if random.random_bool(0.5) { log } else { &bench.data };
    let blocks = device.inquiry().capacity.0;
    let mut corrupted = Vec::new();
    let mut is_unreadable = false;
    let corrupts = if random.random_bool(0.5) { 0.5 } else { 0.0 };
    for _ in 0..random.random_range(1..40) {
        let lbn = Lbn(random.random_range(0..blocks));
        match random.random_bool(corrupts) {
            true => {
                device.corrupt(lbn);
                corrupted.push(lbn);
            }
            false => {
                device.make_unreadable(lbn);
                is_unreadable = true;
            }
        }
    }
    let engine = match bench.open().await {
        Ok(engine) => engine,
        Err(Error::LogUnreadable { .. }) => {
            bench.options.force_log_end = true;
            bench.open().await.unwrap()
        }
        Err(Error::LogLost { .. }) if random.random_bool(0.5) => {
            bench.options.force_log_end = true;
            read_forced(bench, &groups).await;
            return;
        }
        Err(Error::LogLost { .. }) if !is_unreadable => {
            // Who refuses a log leaves it as it is.
            corrupted.into_iter().for_each(|lbn| device.corrupt(lbn));
            let engine = bench.open().await.unwrap();
            let mut model = Model::new();
            groups.iter().for_each(|group| apply(&mut model, group));
            assert_eq!(bench.content(&engine).await, without_zeros(&model));
            return;
        }
        Err(_) => return,
    };
    if !Arc::ptr_eq(device, &bench.data) {
        // The last frames of a log cannot be told from some that were never whole, unless they cannot be read; what is
        // there is whole groups, up to one of them.
        let content = match bench.try_content(&engine).await {
            // What the frames that are dropped had freed may have been written over, or discarded: those behind a forced end, or
            // the last ones, where they are corrupt.
            Err(Error::Damaged { .. }) if bench.options.force_log_end || !corrupted.is_empty() => {
                drop(engine);
                sleep(Nanos(10_000_000)).await;
                read_forced(bench, &groups).await;
                return;
            }
            content => content.unwrap(),
        };
        let there = groups_in(&content, &Model::new(), &groups);
        let there = there.unwrap_or_else(|| panic!("no run of the groups"));
        if corrupted.is_empty() && !bench.options.force_log_end {
            assert_eq!(there, groups.len(), "groups were lost in silence");
        }
        return;
    }
    let mut model = Model::new();
    groups.iter().for_each(|group| apply(&mut model, group));
    for block in 0..bench.blocks {
        let expected = model.get(&block).cloned().unwrap_or(vec![0; BLOCK]);
        match engine.get(SPACE, &block.to_be_bytes()).await {
            Ok(read) => assert_eq!(read, Some(expected), "block {block}"),
            Err(Error::Damaged { .. } | Error::Device(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn damage_is_noticed() {
    each_seed(runs(200), notice_damage);
}

/// Of an empty store the first sweep makes all of the directory, and the checkpoint after it needs space for that.
#[test]
fn a_first_sweep_leaves_space_for_its_checkpoint() {
    for seed in [1_368_479, 1_512_053, 1_580_378, 1_618_332] {
        block_on_virtual(seed, notice_damage());
    }
}

#[test]
fn a_kind_that_is_not_registered_is_said_and_nothing_lost() {
    block_on_virtual(1, async {
        let mut random = random("kinds");
        let bench = Bench::new(&mut random, Sectors::SMALL).await;
        let engine = bench.open().await.unwrap();
        let one = Change { block: 3, kind: ADD, bytes: 7_u64.to_le_bytes().to_vec() };
        engine.commit(&group_of(std::slice::from_ref(&one))).await.unwrap();
        drop(engine);
        let opened = bench.open_with(Kinds::new()).await;
        assert!(matches!(opened, Err(Error::UnknownKind { number: ADD })));
        let engine = bench.open().await.unwrap();
        let read = engine.get(SPACE, &3_u64.to_be_bytes()).await.unwrap().unwrap();
        assert_eq!(number(&read), 7);
        let unknown = Change { kind: KindNumber(99), ..one };
        let refused = engine.commit(&group_of(&[unknown])).await;
        assert!(matches!(refused, Err(Error::UnknownKind { .. })));
    });
}

/// What is staged is of kinds, too, though the log has forgotten them.
#[test]
fn a_kind_of_what_is_staged_that_is_not_registered_is_said_and_nothing_lost() {
    block_on_virtual(1, async {
        let mut random = random("staged kinds");
        let mut bench = Bench::new(&mut random, Sectors::SMALL).await;
        let format = Format {
            block_bytes: ByteCount(BLOCK as u64),
            partition_blocks: 8,
            segment_bytes: Some(ByteCount(8 * 512)),
            ..Format::default()
        };
        bench.options.memory = ByteCount::mib(1);
        let logs = devices(&bench.logs);
        Engine::format(&*bench.data, &logs, &WholeBlocks, format).await.unwrap();
        let engine = bench.open().await.unwrap();
        // A block of zeros would take no room.
        let bytes = [vec![0; 8], vec![1; BLOCK - 8]].concat();
        let put = |block| Change { block, kind: PUT, bytes: bytes.clone() };
        let all: Vec<Change> = (0..64).map(put).collect();
        for some in all.chunks(2) {
            engine.commit(&group_of(some)).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        let placed = engine.figures().placed;
        let one = Change { block: 3, kind: ADD, bytes: 7_u64.to_le_bytes().to_vec() };
        engine.commit(&group_of(&[one])).await.unwrap();
        engine.checkpoint().await.unwrap();
        assert_eq!(engine.figures().placed, placed, "what was to be staged was placed");
        // More than the log holds, in another partition.
        for _ in 0..1000 {
            engine.commit(&group_of(&[put(63)])).await.unwrap();
        }
        engine.close().await.unwrap();
        let opened = bench.open_with(Kinds::new()).await;
        assert!(matches!(opened, Err(Error::UnknownKind { number: ADD })), "{opened:?}");
        let engine = bench.open().await.unwrap();
        let read = engine.get(SPACE, &3_u64.to_be_bytes()).await.unwrap().unwrap();
        assert_eq!(number(&read), 7);
    });
}

/// A dead log: no new work, reads go on, and the error says why. A full data device likewise.
#[test]
fn an_engine_that_cannot_go_on_says_why_and_serves_reads() {
    block_on_virtual(2, async {
        let mut random = random("dead");
        let mut bench = Bench::new(&mut random, Sectors::SMALL).await;
        bench.options.durability = Durability::Flushed;
        let engine = bench.open().await.unwrap();
        let one = |block: u64| Change { block, kind: ADD, bytes: 7_u64.to_le_bytes().to_vec() };
        engine.commit(&group_of(&[one(3)])).await.unwrap();
        bench.logs.iter().for_each(|log| log.die());
        let refused = engine.commit(&group_of(&[one(4)])).await.unwrap_err().to_string();
        assert!(refused.contains("log failed") && refused.contains("dead"), "{refused}");
        assert!(engine.commit(&group_of(&[one(5)])).await.is_err());
        let read = engine.get(SPACE, &3_u64.to_be_bytes()).await.unwrap().unwrap();
        assert_eq!(number(&read), 7);
        drop(engine);
        bench.logs.iter().for_each(|log| log.revive());
        let engine = bench.open().await.unwrap();
        // More blocks than the device has room for.
        let mut full = None;
        for block in 0..20_000 {
            if let Err(error) = engine.commit(&group_of(&[one(block)])).await {
                full = Some((block, error.to_string()));
                break;
            }
        }
        let (taken, why) = full.unwrap();
        assert!(why.contains("is full"), "{why}");
        // It stays so when it is opened again and again.
        let mut engine = engine;
        for times in 0..1000 {
            if times % 100 > 0 {
                drop(engine);
                engine = bench.open_with(kinds()).await.unwrap();
                continue;
            }
            // Of those that were refused before, nobody knows whether they are there.
            for block in (0..taken).filter(|block| !(3..=5).contains(block)) {
                let read = engine.get(SPACE, &block.to_be_bytes()).await.unwrap().unwrap();
                assert_eq!(number(&read), 7);
            }
            drop(engine);
            engine = bench.open_with(kinds()).await.unwrap();
        }
        // Each opening has taken a block of the log, which made room for itself all the time. What is there can be changed,
        // or the engine says that it is full.
        match engine.commit(&group_of(&[one(0)])).await {
            Ok(()) => assert_eq!(number(&engine.get(SPACE, &[0; 8]).await.unwrap().unwrap()), 14),
            Err(error) => assert!(error.to_string().contains("full"), "{error}"),
        }
    });
}
