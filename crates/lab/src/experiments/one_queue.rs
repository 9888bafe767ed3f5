//! The baseline of the BOSC paper (6.2): all updates wait in one queue, first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moirai::runtime::{now, spawn};
use moirai::storage::{IoBuf, Op, Request};
use moirai::units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn};
use moirai::update::Modification;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::bosc::{PUT_RECORD, SPACE, Setting, fill, index};
use crate::Failure;
use crate::context::Stage;

/// Memory of the engine, which only logs here.
const LOGGED_MAX: ByteCount = ByteCount(64 << 20);

#[derive(Default)]
struct OneQueue {
    leaves: Mutex<VecDeque<u64>>,
    /// Notified when updates have left the queue.
    left: Notify,
    is_over: AtomicBool,
}

/// Requests per second with one queue, in the order of arrival (6.2), as long as the memory holds. The first `batch`
/// updates at a time are applied to their leaves, in the order of their addresses.
pub(super) async fn in_one_queue(
    setting: Setting,
    batch: usize,
    requests: u64,
    stage: Stage,
) -> Result<f64, Failure> {
    let [loading, running] = stage.split([1.0, 4.0]);
    let memory = ByteCount(setting.memory.0 + LOGGED_MAX.0);
    let index = index(Setting { memory, ..setting }, loading).await?;
    // The engine only logs: its memory is large enough that it sweeps nothing. The leaves below overwrite its data
    // device, which it does not read again.
    let engine = Arc::new(index.open().await?);
    let waiting = Arc::new(OneQueue::default());
    let capacity = (setting.memory.0 / setting.record_bytes as u64) as usize;
    // The memory is full at the beginning.
    let mut before = setting.requests().client("before");
    waiting.leaves.lock().extend(std::iter::repeat_with(|| before.leaf()).take(capacity));
    let all = setting.requests();
    let client = |client: u64| {
        let (engine, waiting, all) = (Arc::clone(&engine), Arc::clone(&waiting), all.clone());
        spawn(async move {
            let mut next = all.client(&format!("client {client}"));
            let mut record = vec![7; setting.record_bytes];
            while !waiting.is_over.load(Ordering::Relaxed) {
                let leaf = next.leaf();
                fill(&mut record, leaf, next.record());
                while waiting.leaves.lock().len() >= capacity {
                    waiting.left.notified().await;
                    if waiting.is_over.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                waiting.leaves.lock().push_back(leaf);
                let key = leaf.to_be_bytes();
                let one = Modification { key: &key, kind: PUT_RECORD, bytes: &record };
                engine.modify(SPACE, one).await?;
            }
            Ok::<(), moirai::update::Error>(())
        })
    };
    let clients: Vec<_> = (0..setting.clients).map(client).collect();
    let blocks = BlockCount(setting.leaf.0 / BLOCK_BYTES);
    let began = now();
    let mut done = 0;
    while done < requests {
        let mut leaves: Vec<u64> = {
            let mut waiting = waiting.leaves.lock();
            let count = batch.min(waiting.len());
            waiting.drain(..count).collect()
        };
        done += leaves.len() as u64;
        running.at(done as f64 / requests as f64);
        waiting.left.notify_waiters();
        leaves.sort_unstable();
        leaves.dedup();
        for op in [Op::Read, Op::Write] {
            let place = |leaf: &u64| BlockRange::new(Lbn(leaf * blocks.0), blocks);
            let requests = leaves.iter().map(|leaf| match op {
                Op::Read => Request::read(place(leaf)),
                Op::Write => {
                    let data = vec![IoBuf::zeroed(blocks)];
                    Request { op, blocks: place(leaf), data }
                }
            });
            for done in index.data.submit(requests.collect()).await {
                done?;
            }
        }
        index.data.flush().await?;
    }
    let per_s = done as f64 / now().since(began).as_s();
    waiting.is_over.store(true, Ordering::Relaxed);
    waiting.left.notify_waiters();
    for client in clients {
        client.await?;
    }
    Ok(per_s)
}
