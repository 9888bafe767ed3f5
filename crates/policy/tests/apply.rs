//! Plans that are carried out: objects move with their content, also while they are written, and a crash
//! at any write loses nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::sync::Arc;

use moirai_devices::{Access, NewFiles};
use moirai_policy::apply::{Disks, Folder, Moving, apply, go_back, open_object};
use moirai_policy::{Placement, Plan, PlannedArray};
use moirai_runtime::{block_on_real, random, sleep, spawn};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};
use rand::Rng;

const OBJECT_BLOCKS: u64 = 6 << 11;

fn array(name: &str) -> PlannedArray {
    let profile = "seagate-cheetah-36es".into();
    PlannedArray { name: name.into(), profile, disks: 3, cost: 0.0 }
}

/// A plan with `orders` on `arrays`.
fn plan(arrays: &[&str], level: &str, unit: &str) -> Plan {
    Plan {
        name: "plan".into(),
        controller: moirai_policy::Arrays::default(),
        arrays: vec![array("a"), array("b")],
        objects: vec![Placement {
            name: "orders".into(),
            size: (OBJECT_BLOCKS * 512).to_string(),
            arrays: arrays.iter().map(|name| (*name).to_owned()).collect(),
            level: level.into(),
            stripe_unit: unit.into(),
            growth: 0.0,
            goal: None,
        }],
    }
}

fn uris(folder: &Path) -> Vec<Vec<String>> {
    let disk = |array: usize, disk: usize| {
        format!(
            "file:{}?size=64MiB&direct=false",
            folder.join(format!("{array}{disk}.img")).display()
        )
    };
    (0..2).map(|array| (0..3).map(|index| disk(array, index)).collect()).collect()
}

/// Opens the disks. Where they were dropped before, requests in flight may keep them for a while.
async fn open_disks(folder: &Path) -> Disks {
    let files = NewFiles::new();
    for _ in 0..1000 {
        let open =
            |uri: &String| moirai_devices::open(uri.parse().unwrap(), Access::Create(&files));
        let all = |array: &Vec<String>| array.iter().map(open).collect::<Result<_, _>>();
        match uris(folder).iter().map(all).collect::<Result<Disks, _>>() {
            Ok(disks) => return disks,
            Err(moirai_storage::Error::InUse { .. }) => sleep(Nanos(1_000_000)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disks stay in use");
}

/// The content of block `lbn` after so many changes.
fn content(lbn: u64, version: u64) -> Vec<u8> {
    let bytes = (lbn * 1_000_003 + version).to_le_bytes();
    bytes.iter().copied().cycle().take(512).collect()
}

async fn fill(device: &Arc<dyn Device>, version: u64) {
    for first in (0..OBJECT_BLOCKS).step_by(256) {
        let data: Vec<u8> = (first..first + 256).flat_map(|lbn| content(lbn, version)).collect();
        device.write(Lbn(first), IoBuf::holding(&data)).await.unwrap();
    }
    device.flush().await.unwrap();
}

async fn check(device: &Arc<dyn Device>, version: impl Fn(u64) -> u64) {
    for first in (0..OBJECT_BLOCKS).step_by(256) {
        let data = device.read(BlockRange::new(Lbn(first), BlockCount(256))).await.unwrap();
        for (lbn, block) in (first..).zip(data.chunks(512)) {
            assert_eq!(block, content(lbn, version(lbn)), "block {lbn}");
        }
    }
}

#[test]
fn an_object_moves_from_array_to_array_and_over_both_with_its_content() {
    let folder = tempfile::tempdir().unwrap();
    block_on_real(1, async {
        let disks = open_disks(folder.path()).await;
        let mut placed =
            Folder::open(folder.path(), &plan(&["a"], "raid5", "64KiB"), &uris(folder.path()))
                .unwrap();
        let first = plan(&["a"], "raid5", "64KiB");
        apply(&mut placed, &first, &disks, false, &mut |_| ()).await.unwrap();
        let orders = open_object(&placed, "orders", &disks).await.unwrap();
        fill(&orders, 1).await;
        drop(orders);
        for next in [plan(&["b"], "raid0", "4KiB"), plan(&["a", "b"], "raid5", "32KiB"), first] {
            apply(&mut placed, &next, &disks, false, &mut |_| ()).await.unwrap();
            let placed = Folder::read(folder.path()).unwrap();
            assert!(placed.moving().is_none());
            let orders = open_object(&placed, "orders", &disks).await.unwrap();
            check(&orders, |_| 1).await;
        }
        // The description of the object, of its volume, and the folder's state: of former places none is left.
        let left: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        assert_eq!(left.len(), 3, "{left:?}");
    });
}

#[test]
fn writes_while_an_object_moves_are_in_its_new_place() {
    let folder = tempfile::tempdir().unwrap();
    block_on_real(2, async {
        let disks = open_disks(folder.path()).await;
        let (old, new) = (Arc::clone(&disks[0][0]), Arc::clone(&disks[1][0]));
        fill(&old, 1).await;
        let moving = Moving::new(Arc::clone(&old), Arc::clone(&new), BlockCount(OBJECT_BLOCKS));
        // Several writers, half of whose writes meet in the same few blocks.
        let writers: Vec<_> = (0..8_u64)
            .map(|writer| {
                let served: Arc<dyn Device> = moving.clone();
                spawn(async move {
                    let mut random = random(&format!("writer {writer}"));
                    for round in 0..200 {
                        let count = random.random_range(1..32);
                        let hot = random.random::<bool>();
                        let end = if hot { 64 } else { OBJECT_BLOCKS - count };
                        let first = random.random_range(0..end);
                        let version = 2 + writer * 1000 + round;
                        let data: Vec<u8> =
                            (first..first + count).flat_map(|lbn| content(lbn, version)).collect();
                        served.write(Lbn(first), IoBuf::holding(&data)).await.unwrap();
                    }
                    served.flush().await.unwrap();
                })
            })
            .collect();
        moving.copy(|_| ()).await.unwrap();
        moving.compare(|_| ()).await.unwrap();
        for writer in writers {
            writer.await;
        }
        moving.compare(|_| ()).await.unwrap();
        let all = BlockRange::new(Lbn(0), BlockCount(OBJECT_BLOCKS));
        assert!(old.read(all).await.unwrap()[..] == new.read(all).await.unwrap()[..]);
    });
}

/// The move is dropped at one of the points that it reports, and the folder opened as the next program
/// would.
#[test]
fn a_move_that_is_cut_off_goes_on_or_back() {
    let runs = std::env::var("MOIRAI_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for run in 0..runs {
        let folder = tempfile::tempdir().unwrap();
        block_on_real(run, async {
            let uris = uris(folder.path());
            let mut random = random("cut");
            {
                let disks = open_disks(folder.path()).await;
                let mut placed =
                    Folder::open(folder.path(), &plan(&["a"], "raid5", "64KiB"), &uris).unwrap();
                apply(&mut placed, &plan(&["a"], "raid5", "64KiB"), &disks, false, &mut |_| ())
                    .await
                    .unwrap();
                let orders = open_object(&placed, "orders", &disks).await.unwrap();
                fill(&orders, 7).await;
            }
            let target = match random.random::<bool>() {
                true => plan(&["b"], "raid5", "64KiB"),
                false => plan(&["a", "b"], "raid5", "16KiB"),
            };
            {
                let disks = open_disks(folder.path()).await;
                let mut placed =
                    Folder::open(folder.path(), &plan(&["a"], "raid5", "64KiB"), &uris).unwrap();
                let mut left = random.random_range(0..16);
                let cut = futures::future::poll_fn(|_| std::task::Poll::Pending::<()>);
                let stop = tokio::sync::Notify::new();
                let mut report = |_| {
                    if left == 0 {
                        stop.notify_one();
                    }
                    left -= 1;
                };
                let moved = apply(&mut placed, &target, &disks, false, &mut report);
                // A dropped future ends between two operations, as a killed program does.
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    _ = moved => {}
                    () = cut => {}
                }
            }
            let disks = open_disks(folder.path()).await;
            let mut placed =
                Folder::open(folder.path(), &plan(&["a"], "raid5", "64KiB"), &uris).unwrap();
            let goes_back = random.random::<bool>();
            if goes_back {
                let was_moving = placed.moving().is_some();
                assert_eq!(go_back(&mut placed).unwrap().is_some(), was_moving);
                let orders = open_object(&placed, "orders", &disks).await.unwrap();
                check(&orders, |_| 7).await;
            }
            apply(&mut placed, &target, &disks, false, &mut |_| ()).await.unwrap();
            let orders = open_object(&placed, "orders", &disks).await.unwrap();
            check(&orders, |_| 7).await;
        });
    }
}
