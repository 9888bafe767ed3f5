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

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::sync::{Arc, LazyLock};

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, each_seed, random, sleep, spawn};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn, Nanos};
use moirai_update::{
    DELETE, Durability, Engine, Error, Format, Group, Kind, KindNumber, Kinds, LogWriter,
    Modification, Options, PUT, SpaceId, Value, WholeBlocks,
};
use parking_lot::Mutex;
use rand::Rng;

const SPACE: SpaceId = SpaceId(1);
const ADD: KindNumber = KindNumber(20);
const APPEND: KindNumber = KindNumber(21);
const BLOCK: usize = 512;
/// Physical sectors of one block, and of 4 KiB.
const BLOCKS: BlockCount = BlockCount(1);
const SECTORS: BlockCount = BlockCount(8);
/// What a change takes in the log beside its bytes, at most.
const CHANGE_OVERHEAD_BYTES: usize = 16;

/// Adds to the number that a block begins with; two are one.
struct Add;

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
struct Append;

impl Kind for Append {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        value.bytes.copy_within(8..BLOCK - 4, 12);
        value.bytes[8..12].copy_from_slice(&modification[..4]);
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(Add)).unwrap();
    kinds.register(APPEND, Arc::new(Append)).unwrap();
    kinds
}

/// Blocks as they should be.
type Model = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
struct Change {
    block: u64,
    kind: KindNumber,
    bytes: Vec<u8>,
}

fn apply(model: &mut Model, group: &[Change]) {
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
fn any_group(random: &mut Random, blocks: u64, bytes_max: usize) -> Vec<Change> {
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

fn group_of(changes: &[Change]) -> Group {
    let mut group = Group::new();
    for Change { block, kind, bytes } in changes {
        group.modify(SPACE, Modification { key: &block.to_be_bytes(), kind: *kind, bytes });
    }
    group
}

/// Longer than any log here.
static TOO_LONG: LazyLock<Group> = LazyLock::new(|| {
    let put = Change { block: 0, kind: PUT, bytes: vec![0; BLOCK] };
    group_of(&vec![put; 5000])
});

/// The longest group that the log takes.
async fn group_bytes_max(engine: &Engine) -> usize {
    match engine.commit(&TOO_LONG).await {
        Err(Error::GroupTooLong { most, .. }) => most.0 as usize,
        other => panic!("{other:?}"),
    }
}

fn devices(logs: &[Arc<FaultyDevice>]) -> Vec<Arc<dyn Device>> {
    logs.iter().map(|log| Arc::clone(log) as _).collect()
}

/// Less than the log takes, mostly.
fn any_memory(random: &mut Random) -> ByteCount {
    let kib = if random.random_bool(0.3) { 30..200 } else { 4..30 };
    ByteCount(random.random_range(kib) << 10)
}

struct Bench {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    logs: Vec<Arc<FaultyDevice>>,
    options: Options,
    blocks: u64,
}

impl Bench {
    /// With logs of such physical sectors: their segments are longer.
    async fn new(random: &mut Random, physical: BlockCount) -> Bench {
        let power = Power::on();
        // Where tracks are long they begin anywhere in sectors.
        let (track, lengths, segments) = match physical {
            BLOCKS => (BlockCount(16), 130..600, 8..30),
            _ => (BlockCount(70), 450..1200, 32..60),
        };
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let log_device = |blocks| {
            let (name, blocks, power) = ("log".into(), BlockCount(blocks), Arc::clone(&power));
            FaultyDevice::with_physical_block(name, blocks, track, physical, power)
        };
        // Mostly one; their sizes differ.
        let disks = random.random_range(1..5_u64).saturating_sub(1).max(1);
        let log = |_| log_device(random.random_range(lengths.clone()));
        let logs: Vec<_> = (0..disks).map(log).collect();
        let data = device("data", random.random_range(1200..6000));
        let format = Format {
            block_bytes: ByteCount(BLOCK as u64),
            partition_blocks: random.random_range(1..12),
            staging_percent: [0, 50, 100, 300][random.random_range(0..4)],
            segment_bytes: Some(ByteCount(512 * random.random_range(segments))),
            log: match random.random_range(0..3) {
                0 => LogWriter::Trail { rotation: Nanos(random.random_range(1000..10_000_000)) },
                _ => LogWriter::Append,
            },
        };
        Engine::format(&*data, &devices(&logs), &WholeBlocks, format).await.unwrap();
        let durability = [Durability::Flushed, Durability::Written][random.random_range(0..2)];
        let memory = any_memory(random);
        let log_wait = Nanos([0, 200_000, 2_000_000][random.random_range(0..3)]);
        let options = Options { memory, durability, log_wait, ..Options::default() };
        Bench { power, data, logs, options, blocks: random.random_range(1..200) }
    }

    async fn open(&self) -> moirai_update::Result<Engine> {
        let engine = self.open_with(kinds()).await?;
        engine.create_space(SPACE).await?;
        Ok(engine)
    }

    async fn open_with(&self, kinds: Kinds) -> moirai_update::Result<Engine> {
        let (data, logs) = (Arc::clone(&self.data), devices(&self.logs));
        Engine::open(data, &logs, kinds, Arc::new(WholeBlocks), self.options).await
    }

    /// Opens it, though the power may fail meanwhile, again and again; tells whether it did.
    async fn open_at_last(&mut self, random: &mut Random) -> (Engine, bool) {
        let mut was_cut = false;
        loop {
            // What is pending may be more than there is memory for by now.
            self.options.memory = any_memory(random);
            if random.random_bool(0.3) {
                self.power.fail_after(random.random_range(0..20));
            }
            match self.open().await {
                Ok(engine) if !self.power.is_off() => {
                    self.power.bring_back();
                    return (engine, was_cut);
                }
                Err(error) if !self.power.is_off() => panic!("cannot be opened: {error}"),
                _ => self.restart(),
            }
            was_cut = true;
        }
    }

    fn restart(&self) {
        self.power.bring_back();
        self.data.restart();
        self.logs.iter().for_each(|log| log.restart());
    }

    async fn content(&self, engine: &Engine) -> Model {
        let mut model = Model::new();
        for block in 0..self.blocks {
            let read = engine.get(SPACE, &block.to_be_bytes()).await.unwrap();
            let read = read.unwrap();
            assert_eq!(read.len(), BLOCK);
            if read.iter().any(|byte| *byte != 0) {
                model.insert(block, read);
            }
        }
        model
    }
}

fn without_zeros(model: &Model) -> Model {
    let is_set = |block: &Vec<u8>| block.iter().any(|byte| *byte != 0);
    model
        .iter()
        .filter(|(_, block)| is_set(block))
        .map(|(at, block)| (*at, block.clone()))
        .collect()
}

/// The number of groups that make `content`, in their order; the most, where some change nothing.
fn groups_in(content: &Model, base: &Model, groups: &[Vec<Change>]) -> Option<usize> {
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
type Shown = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// Reads blocks, each after a pause, and records those that could be read.
async fn read_some(engine: &Engine, reads: Vec<(u64, Nanos)>, shown: &Shown) {
    for (block, pause) in reads {
        sleep(pause).await;
        if let Ok(read) = engine.get(SPACE, &block.to_be_bytes()).await {
            shown.lock().push((block, read.unwrap()));
        }
    }
}

/// Ingests blocks at random; gives groups that do the same, one for each, since they come in their order.
async fn ingest_some(
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
        done = Ok(());
    }
    (groups, done)
}

fn any_reads(random: &mut Random, blocks: u64) -> Vec<(u64, Nanos)> {
    let read = |random: &mut Random| {
        (random.random_range(0..blocks), Nanos(random.random_range(0..400_000)))
    };
    (0..random.random_range(0..20)).map(|_| read(random)).collect()
}

/// The least number of groups, in their order, with which each block was at some time what a reader was shown.
fn groups_shown(shown: &Shown, base: &Model, groups: &[Vec<Change>]) -> usize {
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

async fn survive(canary: bool, physical: BlockCount) {
    let mut random = random("crashes");
    let mut bench = Bench::new(&mut random, physical).await;
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
        let shown = Shown::default();
        for _ in 0..random.random_range(1..40) {
            // Some at a time: their order is that in which they were spawned.
            for _ in 0..random.random_range(1..5) {
                let changes = any_group(&mut random, bench.blocks, bytes_max);
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
            for (index, task) in tasks.drain(..).enumerate() {
                match task.await {
                    // Nothing of it was taken in.
                    Err(Error::Full { .. }) if first + index < groups.len() => {
                        groups[first + index].clear();
                    }
                    done => failed |= done.is_err(),
                }
            }
            if failed || bench.power.is_off() {
                break;
            }
            if bench.options.durability == Durability::Flushed {
                durable = groups.len();
            }
            match random.random_range(0..12) {
                0 if running.checkpoint().await.is_ok() => {
                    durable = groups.len();
                    let figures = running.figures();
                    assert_eq!(
                        (figures.queued, figures.queued_bytes),
                        (0, 0),
                        "after a checkpoint"
                    );
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
                3 => sleep(Nanos(random.random_range(0..20_000_000))).await,
                4 => {
                    let (ingested, done) = ingest_some(&running, &mut random, bench.blocks).await;
                    groups.extend(ingested);
                    if done.is_err() {
                        break;
                    }
                    durable = groups.len();
                }
                _ => {}
            }
            if bench.power.is_off() {
                break;
            }
        }
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
}

fn runs(plain: u64) -> u64 {
    if cfg!(debug_assertions) { plain } else { 100_000 }
}

#[test]
fn what_was_acknowledged_survives() {
    each_seed(runs(300), async || survive(false, BLOCKS).await);
}

/// A power cut destroys whole physical sectors that a write touches, durable blocks in them included.
#[test]
fn what_was_acknowledged_survives_where_power_cuts_destroy_sectors_of_the_log() {
    each_seed(runs(300), async || survive(false, SECTORS).await);
}

/// A partition that was placed while the log had no room is not sealed by the next group, and what was ingested for it was lost.
#[test]
fn what_is_ingested_after_an_unlogged_sweep_is_there() {
    block_on_virtual(2177, survive(false, SECTORS));
}

/// The first of these tests notices when a frontier is a group early.
#[test]
fn a_frontier_that_is_early_is_caught() {
    let is_noticed = |seed| catch_unwind(|| block_on_virtual(seed, survive(true, BLOCKS))).is_err();
    assert!((0..200).any(is_noticed));
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
    let physical = if random.random_bool(0.3) { SECTORS } else { BLOCKS };
    let mut bench = Bench::new(&mut random, physical).await;
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
        engine.checkpoint().await.unwrap();
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
        let content = bench.content(&engine).await;
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

#[test]
fn a_kind_that_is_not_registered_is_said_and_nothing_lost() {
    block_on_virtual(1, async {
        let mut random = random("kinds");
        let bench = Bench::new(&mut random, BLOCKS).await;
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
        let mut bench = Bench::new(&mut random, BLOCKS).await;
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
        let mut bench = Bench::new(&mut random, BLOCKS).await;
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
