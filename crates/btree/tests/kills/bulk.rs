//! A process that is killed amid groups longer than its log and memory: each group is there whole, or not at all.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use moirai_btree::{Direction, KeyRange, Store, Tree, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{block_on_real, random};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{Kinds, Options};
use rand::Rng;

use crate::{FOLDER, kill_after, runs, variable};

/// Records, of which each group changes all: more than the log takes, and than the memory.
const RECORDS: u64 = 1 << 16;
const LOG: ByteCount = ByteCount(1 << 20);
const MEMORY: ByteCount = ByteCount(1 << 20);
/// Odd, so that its multiples come to each record once, in an order that looks random.
const STEP: u64 = 0x9e37_79b9;
const ACKNOWLEDGED: &str = "acknowledged";

async fn open(folder: &Path, access: Access<'_>) -> (Store, Tree) {
    let device = |name: &str, size: ByteCount| {
        let uri = format!("file:{}?size={}", folder.join(name).display(), size.0);
        moirai_devices::open(uri.parse().unwrap(), access).unwrap()
    };
    let (data, logs) = (device("data", ByteCount::mib(64)), [device("log", LOG)]);
    if matches!(access, Access::Create(_)) {
        Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
    }
    let options = Options { memory: MEMORY, ..Options::default() };
    let store = Store::open(data, &logs, Kinds::new(), options).await.unwrap();
    let tree = store.tree("records").await.unwrap();
    (store, tree)
}

/// Gives all records the number of the round, as one group, and then those of the next.
async fn load(folder: &Path) {
    let (store, tree) = open(folder, Access::Write).await;
    let mut acknowledged = File::create(folder.join(ACKNOWLEDGED)).unwrap();
    let first = store.get(&tree, &0_u64.to_be_bytes()).await.unwrap();
    for round in first.map_or(0, number) + 1.. {
        let mut bulk = store.bulk();
        for record in 0..RECORDS {
            let key = record.wrapping_mul(STEP) % RECORDS;
            bulk.put(&tree, &key.to_be_bytes(), &round.to_be_bytes()).await.unwrap();
        }
        bulk.commit().await.unwrap();
        acknowledged.write_all(&round.to_be_bytes()).unwrap();
    }
}

fn number(bytes: Vec<u8>) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// The round that all records have.
async fn round_of(folder: &Path) -> u64 {
    let (store, tree) = open(folder, Access::Write).await;
    let mut scan = store.scan(&tree, KeyRange::all(), Direction::Forward);
    let (mut records, mut round) = (0, None);
    while let Some((_, value)) = scan.next().await.unwrap() {
        let found = number(value.to_vec());
        assert_eq!(*round.get_or_insert(found), found, "a part of a group is there");
        records += 1;
    }
    drop(scan);
    assert!(records == 0 || records == RECORDS, "{records} records");
    assert_eq!(store.check().await, []);
    store.close().await.unwrap();
    round.unwrap_or(0)
}

#[test]
#[ignore = "it is what the other test starts and kills"]
fn the_process_that_is_killed() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        block_on_real(0, load(Path::new(&folder)));
    }
}

#[test]
fn a_killed_process_leaves_whole_groups() {
    let runs = runs(4, 50);
    let folder = tempfile::tempdir().unwrap();
    let kills = async {
        let mut random = random("bulk kills");
        let files = NewFiles::new();
        open(folder.path(), Access::Create(&files)).await.0.close().await.unwrap();
        let mut round = 0;
        for _ in 0..runs {
            let wait = Nanos(random.random_range(20_000_000..1_500_000_000));
            kill_after(wait, "bulk::the_process_that_is_killed", folder.path()).await;
            let told = std::fs::read(folder.path().join(ACKNOWLEDGED)).unwrap_or_default();
            let told = told.chunks_exact(8).next_back().map_or(round, |last| number(last.to_vec()));
            round = round_of(folder.path()).await;
            assert!(round == told || round == told + 1, "round {round}, {told} was acknowledged");
        }
        assert!(round > 0, "no group was committed");
    };
    block_on_real(variable("MOIRAI_SEED").unwrap_or(0), kills);
}
