//! The conformance suite that every implementation of the storage interface passes.
//!
//! A test opens its device inside a runtime and calls [`check`]. It panics with what was violated.

#![expect(
    clippy::expect_used,
    reason = "a suite for tests: what goes wrong is to stop the test, with its name"
)]

mod zones;

use std::collections::BTreeSet;
use std::sync::Arc;

use moirai_runtime::random;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
use rand::Rng;

use crate::{Device, Error, IoBuf, Op, Request};

pub use zones::check_zones;

const PROBES: usize = 200;

/// Checks attributes, data and errors of `device`, whose content is overwritten.
///
/// # Panics
/// When the device breaks the contract.
pub async fn check(device: Arc<dyn Device>) {
    check_attributes(&*device);
    check_errors(&*device).await;
    if device.inquiry().keeps_data && !device.inquiry().read_only {
        check_data(&*device).await;
        check_discard(&*device).await;
    }
    check_timing(&*device).await;
    device.flush().await.expect("flush");
}

fn probes(device: &dyn Device, stream: &str) -> Vec<Lbn> {
    let capacity = device.inquiry().capacity.0;
    let mut random = random(stream);
    let mut probes: Vec<Lbn> = (0..PROBES).map(|_| Lbn(random.random_range(0..capacity))).collect();
    probes.extend([Lbn(0), Lbn(capacity - 1)]);
    probes
}

fn check_attributes(device: &dyn Device) {
    let inquiry = device.inquiry();
    let all = inquiry.all_blocks();
    assert!(!all.is_empty() && inquiry.parallelism >= 1 && inquiry.depth >= 1);
    assert!(inquiry.volume_block.0 >= 1 && inquiry.atomic_write.0 >= 1);
    assert!(inquiry.physical_block.0.is_power_of_two());
    assert!(inquiry.discard.is_none_or(|granule| granule.0 >= 1));
    let class_size = inquiry.parallelism as usize * inquiry.depth as usize;

    for lbn in probes(device, "conformance attributes") {
        let ensemble = device.ensemble(lbn).expect("ensemble").blocks;
        assert!(ensemble.contains(lbn), "{ensemble} is not around {lbn}");
        assert!(ensemble.end() <= all.end());
        if ensemble.first > Lbn(0) {
            let below = Lbn(ensemble.first.0 - 1);
            let neighbour = device.ensemble(below).expect("ensemble below").blocks;
            assert_eq!(neighbour.end(), ensemble.first, "ensembles do not tile at {below}");
        }

        let parallel = device.parallel_ensemble(lbn).expect("parallel ensemble");
        assert!(parallel.first <= ensemble.first && ensemble.end() <= parallel.end());
        let members = ensembles_in(device, parallel);
        assert!(members <= inquiry.parallelism as usize, "{members} ensembles in {parallel}");

        let class = device.equivalent(lbn).expect("equivalence class");
        let set: BTreeSet<Lbn> = class.lbns.iter().copied().collect();
        assert!(set.contains(&lbn), "{lbn} is not in its own class");
        assert_eq!(set.len(), class.lbns.len(), "a class names a block twice");
        assert!(set.len() <= class_size && set.len().is_multiple_of(class.parallelism as usize));
        assert_eq!(class.by_column().collect::<BTreeSet<_>>(), set);
        for member in &class.lbns {
            assert!(all.contains(*member));
            let theirs = device.equivalent(*member).expect("class of a member");
            assert_eq!(theirs, class, "{member} and {lbn} disagree about their class");
        }
    }
}

fn ensembles_in(device: &dyn Device, blocks: BlockRange) -> usize {
    let mut count = 0;
    let mut at = blocks.first;
    while at < blocks.end() {
        at = device.ensemble(at).expect("ensemble").blocks.end();
        count += 1;
    }
    assert_eq!(at, blocks.end(), "a parallel ensemble ends inside an ensemble");
    count
}

async fn check_errors(device: &dyn Device) {
    let capacity = device.inquiry().capacity;
    let past = Lbn(capacity.0);
    assert!(device.ensemble(past).is_err());
    assert!(device.parallel_ensemble(past).is_err());
    assert!(device.equivalent(past).is_err());
    for blocks in [
        BlockRange::new(past, BlockCount(1)),
        BlockRange::new(Lbn(capacity.0 - 1), BlockCount(2)),
        BlockRange::new(Lbn(u64::MAX), BlockCount(1)),
    ] {
        let result = device.access(Request::access(Op::Read, blocks)).await;
        assert!(matches!(result, Err(Error::PastEnd { .. })), "{blocks}: {result:?}");
        let result = device.discard(blocks).await;
        assert!(matches!(result, Err(Error::PastEnd { .. })), "discard {blocks}: {result:?}");
        let result = device.write_flushed(blocks.first, IoBuf::zeroed(blocks.count)).await;
        assert!(matches!(result, Err(Error::PastEnd { .. })), "write {blocks}: {result:?}");
    }
    if device.inquiry().read_only {
        let result = device.discard(BlockRange::new(Lbn(0), BlockCount(1))).await;
        assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    }
    let empty = BlockRange::new(Lbn(0), BlockCount::ZERO);
    assert!(device.access(Request::access(Op::Read, empty)).await.is_err());
    let short = Request {
        op: Op::Read,
        blocks: BlockRange::new(Lbn(0), BlockCount(2)),
        data: vec![IoBuf::zeroed(BlockCount(1))],
    };
    assert!(matches!(device.access(short).await, Err(Error::BufferMismatch { .. })));

    // A bad request does not keep the others of its batch from being served.
    let batch = vec![
        Request::access(Op::Read, BlockRange::new(past, BlockCount(1))),
        Request::access(Op::Read, BlockRange::new(Lbn(0), BlockCount(1))),
    ];
    let results = device.submit(batch).await;
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
}

/// Bytes that tell where they belong: a block in the wrong place does not go unnoticed.
fn fill(buffer: &mut [u8], first: Lbn, salt: u64) {
    for (index, block) in buffer.chunks_exact_mut(BLOCK_BYTES as usize).enumerate() {
        let word = ((first.0 + index as u64) ^ (salt << 48)).to_le_bytes();
        for chunk in block.chunks_exact_mut(8) {
            chunk.copy_from_slice(&word);
        }
    }
}

fn filled(blocks: BlockRange, salt: u64) -> IoBuf {
    let mut buffer = IoBuf::zeroed(blocks.count);
    fill(&mut buffer, blocks.first, salt);
    buffer
}

async fn check_data(device: &dyn Device) {
    let inquiry = device.inquiry();
    let unit = inquiry.volume_block.0;
    let longest = 600.min(inquiry.capacity.0 / 8);
    let mut random = random("conformance data");
    for (round, probe) in probes(device, "conformance addresses").into_iter().enumerate() {
        let salt = round as u64 + 1;
        let count = random.random_range(1..=longest);
        let first = probe.0.min(inquiry.capacity.0 - count);
        let blocks = BlockRange::new(Lbn(first), BlockCount(count));

        device.write(blocks.first, filled(blocks, salt)).await.expect("write");
        let back = device.read(blocks).await.expect("read");
        assert_eq!(*back, *filled(blocks, salt), "{blocks} read back differ");

        // The same through a scatter list that is cut anywhere, as part of a batch.
        let cut = BlockCount(random.random_range(0..=count));
        let mut head = IoBuf::zeroed(blocks.count);
        let tail = head.split_off(cut);
        let data: Vec<IoBuf> = [head, tail].into_iter().filter(|b| !b.is_empty()).collect();
        let scattered = Request { op: Op::Read, blocks, data };
        let other = Request::read(BlockRange::new(Lbn(0), BlockCount(unit)));
        let mut results = device.submit(vec![scattered, other]).await;
        results.truncate(1);
        let completion = results.remove(0).expect("scattered read");
        let gathered: Vec<u8> = completion.data.iter().flat_map(|b| b.iter().copied()).collect();
        assert_eq!(gathered, &*filled(blocks, salt), "{blocks} scattered at {cut} differ");
    }

    // A batch of writes all over the device, then read as a batch in another order.
    let step = inquiry.capacity.0 / 40;
    let runs: Vec<BlockRange> = (0..39)
        .map(|index| BlockRange::new(Lbn(index * step), BlockCount(1 + index % step.clamp(1, 9))))
        .collect();
    let writes = runs.iter().map(|run| (run.first, filled(*run, 77))).collect();
    device.batch_write(writes).await.expect("batch write");
    let backwards: Vec<BlockRange> = runs.iter().rev().copied().collect();
    let buffers = device.batch_read(&backwards).await.expect("batch read");
    for (run, buffer) in backwards.iter().zip(buffers) {
        assert_eq!(*buffer, *filled(*run, 77), "{run} of a batch differs");
    }
    for run in runs {
        device.write_flushed(run.first, filled(run, 79)).await.expect("write and flush");
        let back = device.read(run).await.expect("read");
        assert_eq!(*back, *filled(run, 79), "{run} that was written and flushed differs");
    }
}

/// What is discarded can be read, whatever it holds, and written; what is beside it stays.
async fn check_discard(device: &dyn Device) {
    const SALT: u64 = 78;
    let capacity = device.inquiry().capacity.0;
    let mut random = random("conformance discard");
    for round in 0..20 {
        let around = random.random_range(1..=(capacity / 4).min(2000));
        let first = random.random_range(0..=capacity - around);
        let around = BlockRange::new(Lbn(first), BlockCount(around));
        device.write(around.first, filled(around, SALT)).await.expect("write");
        if round % 2 == 0 {
            device.flush().await.expect("flush");
        }
        let skipped = random.random_range(0..around.count.0);
        let count = random.random_range(0..=around.count.0 - skipped);
        let gone = BlockRange::new(around.first + BlockCount(skipped), BlockCount(count));
        device.discard(gone).await.expect("discard");

        let before = BlockRange::between(around.first, gone.first);
        let behind = BlockRange::between(gone.end(), around.end());
        let whole = device.read(around).await.expect("read around what is discarded");
        let block_bytes = BLOCK_BYTES as usize;
        let (kept, rest) = whole.split_at(before.count.0 as usize * block_bytes);
        let (_, other) = rest.split_at(count as usize * block_bytes);
        assert_eq!(*kept, *filled(before, SALT), "{before} before {gone} changed");
        assert_eq!(*other, *filled(behind, SALT), "{behind} behind {gone} changed");

        // Written again it holds that, also when the discard becomes durable later.
        if count > 0 {
            device.write(gone.first, filled(gone, SALT + 1)).await.expect("write again");
            device.flush().await.expect("flush");
            let back = device.read(gone).await.expect("read again");
            assert_eq!(*back, *filled(gone, SALT + 1), "{gone} written again differ");
        }
    }
}

async fn check_timing(device: &dyn Device) {
    let before = moirai_runtime::now();
    let blocks = BlockRange::new(Lbn(0), device.inquiry().volume_block);
    let timing = device.access(Request::access(Op::Read, blocks)).await.expect("read").timing;
    assert!(before <= timing.issued && timing.issued <= timing.started);
    assert!(timing.started <= timing.finished && timing.finished <= moirai_runtime::now());
}
