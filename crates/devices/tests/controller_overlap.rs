//! The array controller when requests overlap, are given up or fail, and when its cache is tight.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, Either, join, select};
use futures::pin_mut;
use moirai_devices::{Access, ArrayController, WritePolicy, open};
use moirai_runtime::{block_on_virtual, now, sleep};
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf, Op, Request,
    Result,
};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};

const SECOND: Nanos = Nanos(1_000_000_000);
/// Longer than an eighth of the cache of 1 MiB.
const LARGE: u64 = 1000;
const POLICIES: [WritePolicy; 2] = [WritePolicy::Through, WritePolicy::EARLY_DESTAGE];

/// A disk that takes up large writes a second late, or fails them.
#[derive(Debug)]
struct Late {
    disk: Arc<dyn Device>,
    fails: AtomicBool,
}

impl Device for Late {
    fn inquiry(&self) -> &Inquiry {
        self.disk.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.disk.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.disk.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.disk.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async {
            if batch.iter().any(|one| one.op == Op::Write && one.blocks.count.0 == LARGE) {
                sleep(SECOND).await;
                if self.fails.load(Ordering::Relaxed) {
                    return vec![Err(Error::Latched { device: "late".to_owned() })];
                }
            }
            self.disk.submit(batch).await
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.disk.flush()
    }
}

fn range(first: u64, count: u64) -> BlockRange {
    BlockRange::new(Lbn(first), BlockCount(count))
}

fn filled(count: u64, byte: u8) -> IoBuf {
    let mut data = IoBuf::zeroed(BlockCount(count));
    data.fill(byte);
    data
}

async fn first_byte(device: &dyn Device, first: u64) -> u8 {
    *device.read(range(first, 8)).await.unwrap().first().unwrap()
}

/// A controller with 1 MiB over a late disk.
fn late(policy: WritePolicy) -> (Arc<dyn Device>, Arc<Late>) {
    let disk = open("sim:quantum-atlas-10k".parse().unwrap(), Access::Write).unwrap();
    let late = Arc::new(Late { disk, fails: AtomicBool::new(false) });
    (ArrayController::start(Arc::clone(&late) as _, ByteCount::mib(1), policy), late)
}

fn tight(bytes: u64, policy: WritePolicy) -> Arc<dyn Device> {
    let disk = open("sim:quantum-atlas-10k".parse().unwrap(), Access::Write).unwrap();
    ArrayController::start(disk, ByteCount(bytes), policy)
}

/// Fails when `future` takes a minute, instead of waiting for ever.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let minute = sleep(Nanos(60_000_000_000));
    pin_mut!(future, minute);
    match select(future, minute).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("it hangs"),
    }
}

#[test]
fn a_read_without_buffers_leaves_no_zeros_to_later_reads() {
    for policy in POLICIES {
        block_on_virtual(1, async {
            let (device, late) = late(policy);
            late.disk.write(Lbn(0), filled(8, 7)).await.unwrap();
            device.access(Request::access(Op::Read, range(0, 8))).await.unwrap();
            assert_eq!(first_byte(&*device, 0).await, 7);
        });
    }
}

#[test]
fn a_read_that_overtakes_a_large_write_is_not_kept() {
    for policy in POLICIES {
        block_on_virtual(1, async {
            let (device, _) = late(policy);
            let write = device.write(Lbn(0), filled(LARGE, 9));
            let (written, read) = join(write, device.read(range(504, 8))).await;
            written.unwrap();
            assert_eq!(read.unwrap()[0], 0, "the read came first");
            assert_eq!(first_byte(&*device, 504).await, 9);
        });
    }
}

#[test]
fn a_large_write_that_fails_or_is_given_up_loses_no_older_one() {
    for fails in [true, false] {
        block_on_virtual(1, async {
            let (device, late) = late(WritePolicy::EARLY_DESTAGE);
            late.fails.store(fails, Ordering::Relaxed);
            device.write(Lbn(100), filled(8, 5)).await.unwrap();
            let given_up = if fails { Nanos(60_000_000_000) } else { Nanos(500_000_000) };
            {
                let (write, time) = (device.write(Lbn(0), filled(LARGE, 9)), sleep(given_up));
                pin_mut!(write, time);
                match select(write, time).await {
                    Either::Left((written, _)) => assert!(fails && written.is_err()),
                    Either::Right(_) => assert!(!fails),
                }
            }
            // Nothing of it is left that others would wait for.
            soon(device.write(Lbn(200), filled(8, 6))).await.unwrap();
            soon(device.flush()).await.unwrap();
            for (first, byte) in [(100, 5), (200, 6)] {
                assert_eq!(first_byte(&*device, first).await, byte);
                assert_eq!(first_byte(&*late.disk, first).await, byte);
            }
        });
    }
}

#[test]
fn a_write_back_does_not_get_before_a_large_write_under_way() {
    block_on_virtual(1, async {
        let (device, late) = late(WritePolicy::EARLY_DESTAGE);
        let small = async {
            device.write(Lbn(500), filled(8, 5)).await.unwrap();
            device.flush().await.unwrap();
        };
        let (written, ()) = soon(join(device.write(Lbn(0), filled(LARGE, 9)), small)).await;
        written.unwrap();
        assert_eq!(first_byte(&*device, 500).await, first_byte(&*late.disk, 500).await);
        assert_eq!(first_byte(&*device, 500).await, 5, "it was acknowledged last");
    });
}

#[test]
fn a_flush_ends_while_others_go_on_writing() {
    block_on_virtual(1, async {
        let device = tight(1 << 20, WritePolicy::EARLY_DESTAGE);
        let ended = AtomicBool::new(false);
        let writer = async {
            for index in 0..10_000 {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                device.write(Lbn(index * 63_352 % 17_000_000), filled(8, 1)).await.unwrap();
                sleep(Nanos(1_000_000)).await;
            }
        };
        let flusher = async {
            sleep(Nanos(20_000_000)).await;
            let before = now();
            device.flush().await.unwrap();
            ended.store(true, Ordering::Relaxed);
            now().since(before)
        };
        let ((), took) = join(writer, flusher).await;
        assert!(took < SECOND, "{took}");
    });
}

#[test]
fn a_cache_that_may_be_dirty_up_to_its_end_makes_room() {
    block_on_virtual(1, async {
        let device = tight(1 << 20, WritePolicy::Back { high: 1.0, low: 0.5 });
        for index in 0..40 {
            soon(device.write(Lbn(index * 10_000), filled(240, 1))).await.unwrap();
        }
    });
}

#[test]
fn requests_of_more_lines_than_the_cache_has_go_past_it() {
    block_on_virtual(1, async {
        let device = tight(4096, WritePolicy::EARLY_DESTAGE);
        soon(device.write(Lbn(0), filled(8, 1))).await.unwrap();
        soon(device.write(Lbn(4), filled(8, 2))).await.unwrap();
        assert_eq!(first_byte(&*device, 0).await, 1);
        assert_eq!(first_byte(&*device, 4).await, 2);
    });
}

#[test]
fn a_write_that_waits_to_go_past_was_issued_when_it_came() {
    block_on_virtual(1, async {
        let (device, _) = late(WritePolicy::EARLY_DESTAGE);
        device.write(Lbn(100), filled(8, 5)).await.unwrap();
        let before = now();
        // Not as long as the writes that come late, whose second would be the device's.
        let blocks = range(0, 600);
        let request = Request { op: Op::Write, blocks, data: vec![filled(600, 9)] };
        let timing = device.access(request).await.unwrap().timing;
        assert_eq!((timing.issued, timing.finished), (before, now()));
        assert_eq!(timing.parts.unwrap().total(), timing.response());
    });
}
