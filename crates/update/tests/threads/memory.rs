//! A device in memory, for threads of the machine's.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use futures::future::{BoxFuture, join_all};
use moirai_runtime::{blocking, now};
use moirai_storage::{
    Completion, Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, Op, Request,
    Result, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;

/// Lets other tasks run.
pub(crate) async fn step_back() {
    let mut is_back = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_back, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A device in memory that takes no time but that of the threads, and loses at a power cut what was not flushed.
pub(crate) struct Memory {
    inquiry: Inquiry,
    content: Mutex<Content>,
    asked: AtomicU64,
}

#[derive(Default)]
struct Content {
    durable: BTreeMap<u64, Vec<u8>>,
    cached: BTreeMap<u64, Vec<u8>>,
}

impl Memory {
    pub(crate) fn new(name: &str, blocks: u64) -> Arc<Memory> {
        let inquiry = Inquiry {
            name: name.to_owned(),
            capacity: BlockCount(blocks),
            parallelism: 1,
            depth: 1,
            volume_block: BlockCount(1),
            atomic_write: BlockCount(1),
            volatile_cache: true,
            read_only: false,
            keeps_data: true,
            physical_block: BlockCount(1),
            discard: None,
            wants_discards: false,
        };
        Arc::new(Memory { inquiry, content: Mutex::default(), asked: AtomicU64::new(0) })
    }

    pub(crate) fn cut_power(&self) {
        self.content.lock().cached.clear();
    }

    /// Other tasks run meanwhile, or other threads.
    async fn dawdle(&self) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match asked >> 60 {
            0..6 => {}
            6..14 => step_back().await,
            _ => blocking(|| ()).await,
        }
    }

    fn transfer(&self, request: &mut Request) {
        let mut content = self.content.lock();
        let Content { durable, cached } = &mut *content;
        let mut at = request.blocks.first.0;
        for buffer in &mut request.data {
            for block in buffer.chunks_exact_mut(BLOCK_BYTES as usize) {
                match request.op {
                    Op::Read => match cached.get(&at).or(durable.get(&at)) {
                        Some(held) => block.copy_from_slice(held),
                        None => block.fill(0),
                    },
                    Op::Write => drop(cached.insert(at, block.to_vec())),
                }
                at += 1;
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.inquiry.name)
    }
}

impl Device for Memory {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let first = Lbn(lbn.0 / 16 * 16);
        let end = (first + BlockCount(16)).min(self.inquiry.all_blocks().end());
        Ok(Ensemble { blocks: BlockRange::between(first, end), switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        Ok(self.ensemble(lbn)?.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(join_all(batch.into_iter().map(|mut request| async move {
            let issued = now();
            request.check(&self.inquiry)?;
            self.dawdle().await;
            self.transfer(&mut request);
            self.dawdle().await;
            let timing = Timing { issued, started: issued, finished: now(), parts: None };
            Ok(Completion { data: request.data, timing })
        })))
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            self.dawdle().await;
            {
                let mut content = self.content.lock();
                let cached = std::mem::take(&mut content.cached);
                content.durable.extend(cached);
            }
            self.dawdle().await;
            Ok(())
        })
    }
}
