//! Commits in steps beside commits that depend on what they find.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use futures::FutureExt;
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep, spawn};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{
    Engine, Error, Format, Formats, Group, Kinds, Modification, Options, PUT, SpaceId, WholeBlocks,
};

const SPACE: SpaceId = SpaceId(1);

async fn opened() -> Arc<Engine> {
    opened_on(40_000).await
}

/// With so many blocks for data.
async fn opened_on(blocks: u64) -> Arc<Engine> {
    opened_with(blocks, Options::default()).await
}

async fn opened_with(blocks: u64, options: Options) -> Arc<Engine> {
    let power = Power::on();
    let device = |name: &str, blocks| -> Arc<dyn Device> {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let (data, logs) = (device("data", blocks), [device("log", 1000)]);
    let format = Format {
        block_bytes: ByteCount(512),
        segment_bytes: Some(ByteCount(8 << 10)),
        ..Format::default()
    };
    Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
    let formats = Formats::of(WholeBlocks);
    let engine = Engine::open(data, &logs, Kinds::new(), formats, options).await.unwrap();
    engine.create_space(SPACE).await.unwrap();
    Arc::new(engine)
}

fn put(key: u8, value: u8) -> Group {
    let mut group = Group::new();
    group.modify(SPACE, Modification { key: &[key], kind: PUT, bytes: &[value] });
    group
}

async fn first_byte(engine: &Engine, key: u8) -> u8 {
    engine.get(SPACE, &[key]).await.unwrap().unwrap().first().copied().unwrap()
}

#[test]
fn groups_have_numbers_in_the_order_of_their_appends() {
    block_on_virtual(1, async {
        let engine = opened().await;
        let (one, other) = (put(1, 1), put(1, 2));
        let first = engine.reserve(one.log_bytes()).await.unwrap();
        let second = engine.reserve(other.log_bytes()).await.unwrap();
        // Appended the other way round, without waiting; commits go on meanwhile.
        engine.commit(&put(2, 7)).await.unwrap();
        let second = second.append(&other).unwrap();
        let first = first.append(&one).unwrap();
        assert!(first.number() > second.number());
        first.acknowledged().await.unwrap();
        assert_eq!((first_byte(&engine, 1).await, first_byte(&engine, 2).await), (1, 7));
        second.acknowledged().await.unwrap();
    });
}

#[test]
fn what_does_not_fit_is_refused_and_its_room_given_back() {
    block_on_virtual(1, async {
        let engine = opened().await;
        let group = put(1, 1);
        let too_small = engine.reserve(group.log_bytes() - 1).await.unwrap().append(&group);
        assert!(matches!(too_small, Err(Error::RoomTooSmall { .. })), "{too_small:?}");
        let mut unknown = Group::new();
        let space = SpaceId(9);
        unknown.modify(space, Modification { key: &[1], kind: PUT, bytes: &[1] });
        let refused = engine.reserve(unknown.log_bytes()).await.unwrap().append(&unknown);
        assert!(matches!(refused, Err(Error::NoSpace { space: SpaceId(9) })), "{refused:?}");
        assert!(matches!(engine.reserve(1 << 30).await, Err(Error::GroupTooLong { .. })));
        // All of the log but for what sweeps need can be reserved, again and again.
        let Err(Error::GroupTooLong { most, .. }) = engine.reserve(1 << 30).await else {
            panic!("a log of a gibibyte");
        };
        for _ in 0..100 {
            drop(engine.reserve(most.0 as usize).await.unwrap());
        }
        assert_eq!(first_byte(&engine, 1).await, 0);
    });
}

#[test]
fn who_decides_waits_for_room_that_is_reserved() {
    block_on_virtual(1, async {
        let engine = opened().await;
        let reserved = engine.reserve(put(1, 1).log_bytes()).await.unwrap();
        let deciding = Arc::clone(&engine);
        let mut decided = spawn(async move {
            let found = &mut 0;
            let is_committed = deciding.commit_if(async || {
                *found = first_byte(&deciding, 1).await;
                Ok::<_, Error>(Some(put(1, *found + 1)))
            });
            assert!(is_committed.await.unwrap());
            *found
        });
        sleep(Nanos(1_000_000_000)).await;
        assert!((&mut decided).now_or_never().is_none());
        // Others wait behind it, and not for it.
        let mut behind = Box::pin(engine.reserve(10));
        assert!((&mut behind).now_or_never().is_none());
        reserved.append(&put(1, 5)).unwrap().acknowledged().await.unwrap();
        assert_eq!(decided.await, 5);
        drop(behind.await.unwrap());
        assert_eq!(first_byte(&engine, 1).await, 6);
    });
}

/// Who holds room may still write long values and commit.
#[test]
fn who_holds_room_goes_on_while_somebody_wants_to_decide() {
    block_on_virtual(1, async {
        let engine = opened().await;
        let reserved = engine.reserve(put(1, 1).log_bytes()).await.unwrap();
        let deciding = Arc::clone(&engine);
        let mut decided = spawn(async move {
            deciding.commit_if(async || Ok::<_, Error>(Some(put(3, 3)))).await.unwrap()
        });
        sleep(Nanos(1_000_000)).await;
        engine.commit(&put(2, 2)).await.unwrap();
        drop(engine.read_point().await);
        let prepared = engine.prepare(&put(1, 1)).await.unwrap();
        assert!((&mut decided).now_or_never().is_none());
        reserved.append(&prepared).unwrap().acknowledged().await.unwrap();
        assert!(decided.await);
        // Room is for others again.
        drop(engine.reserve(10).await.unwrap());
    });
}

#[test]
fn a_closed_engine_takes_nothing_in_and_nobody_waits_for_it() {
    block_on_virtual(1, async {
        let engine = opened().await;
        engine.commit(&put(1, 1)).await.unwrap();
        let early = engine.reserve(100).await.unwrap();
        let late = engine.reserve(100).await.unwrap();
        let point = engine.read_point().await;
        let appended = early.append(&put(1, 2)).unwrap();
        Arc::into_inner(engine).unwrap().close().await.unwrap();
        // It was taken in before the engine closed.
        appended.acknowledged().await.unwrap();
        assert!(matches!(late.append(&put(1, 3)), Err(Error::Stopped { .. })));
        assert!(!point.is_live());
        let read = point.reader().get(SPACE, &[1]).await;
        assert!(matches!(read, Err(Error::PointTooOld { .. })), "{read:?}");

        let engine = opened().await;
        let reserved = engine.reserve(100).await.unwrap();
        let appended = reserved.append(&put(1, 2)).unwrap();
        drop(engine);
        assert!(matches!(appended.acknowledged().await, Err(Error::Stopped { .. })));
    });
}

/// One whose part was lost is never committed without it.
#[test]
fn a_bulk_group_that_lost_a_part_takes_nothing_more() {
    block_on_virtual(1, async {
        let engine = opened_on(6000).await;
        let mut bulk = engine.bulk();
        let one = |key: &'static [u8]| Modification { key, kind: PUT, bytes: &[1] };
        let refused = bulk.modify(SpaceId(0), one(&[1])).await;
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        // An eighth of the memory, 8 MiB, goes to the device, which has 3 MB.
        let mut refused = Ok(());
        for _ in 0..400_000 {
            refused = bulk.modify(SPACE, one(b"a key")).await;
            if refused.is_err() {
                break;
            }
        }
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        let refused = bulk.modify(SPACE, one(&[2])).await;
        assert!(matches!(refused, Err(Error::BulkBroken)), "{refused:?}");
        let refused = bulk.commit().await;
        assert!(matches!(refused, Err(Error::BulkBroken)), "{refused:?}");
        assert_eq!(first_byte(&engine, 1).await, 0);
        // A space that there is not: the group goes on without the modification.
        let engine = opened().await;
        let mut bulk = engine.bulk();
        let refused = bulk.modify(SpaceId(9), one(&[1])).await;
        assert!(matches!(refused, Err(Error::NoSpace { space: SpaceId(9) })), "{refused:?}");
        bulk.modify(SPACE, one(b"a key")).await.unwrap();
        bulk.commit().await.unwrap();
        engine.commit(&put(1, 1)).await.unwrap();
    });
}

/// Duplicates within a run, in two runs, and in two slices of one partition; the group leaves nothing, and works without them.
#[test]
fn bulk_groups_refuse_duplicates_where_they_are_asked_to() {
    block_on_virtual(1, async {
        let options = Options { memory: ByteCount(64 << 10), ..Options::default() };
        let engine = opened_with(40_000, options).await;
        let key = |number: u64| number.to_be_bytes();
        let bulk_of = async |numbers: &[u64], refuses: bool| {
            let mut bulk = engine.bulk();
            if refuses {
                bulk.refuse_duplicates(SPACE);
            }
            for number in numbers {
                let put = Modification { key: &key(*number), kind: PUT, bytes: &[7; 60] };
                bulk.modify(SPACE, put).await.unwrap();
            }
            bulk.commit().await
        };
        let all: Vec<u64> = (0..1000).collect();
        for (again, place) in [(1, 2), (1, 1000), (999, 0), (500, 600)] {
            let mut with_duplicate = all.clone();
            with_duplicate.insert(place, again);
            let refused = bulk_of(&with_duplicate, true).await.unwrap_err();
            let Error::DuplicateKey { space: SPACE, key: found } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(found[..], key(again));
            for number in [0, again, 999] {
                let value = engine.get(SPACE, &key(number)).await.unwrap();
                assert!(value.is_none_or(|value| !value.contains(&7)), "{number} is there");
            }
        }
        bulk_of(&all, true).await.unwrap();
        // What is there already is no duplicate of the group.
        bulk_of(&[7, 8], true).await.unwrap();
        bulk_of(&[7, 7], false).await.unwrap();
        assert!(engine.get(SPACE, &key(999)).await.unwrap().unwrap().contains(&7));
        assert!(engine.check().await.is_empty());
    });
}
