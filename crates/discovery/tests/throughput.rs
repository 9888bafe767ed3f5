//! What is measured of a device that takes as long for each request, however long and however many there are.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_devices::{Access, open};
use moirai_discovery::measure;
use moirai_runtime::{block_on_virtual, now, sleep};
use moirai_storage::{
    Completion, Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
    Timing,
};
use moirai_units::{BlockRange, Lbn, Nanos};
use parking_lot::Mutex;

const RESPONSE: Nanos = Nanos(1_000_000);

#[derive(Default)]
struct Seen {
    in_flight: usize,
    most: usize,
    buffers: BTreeSet<usize>,
}

struct Fixed {
    like: Arc<dyn Device>,
    seen: Mutex<Seen>,
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fixed")
    }
}

impl Device for Fixed {
    fn inquiry(&self) -> &Inquiry {
        self.like.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.like.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.like.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.like.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let issued = now();
            {
                let mut seen = self.seen.lock();
                seen.in_flight += batch.len();
                seen.most = seen.most.max(seen.in_flight);
                let buffers = batch.iter().flat_map(|request| &request.data);
                let addresses: Vec<usize> =
                    buffers.map(|buffer| buffer.as_ptr() as usize).collect();
                seen.buffers.extend(addresses);
            }
            sleep(RESPONSE).await;
            self.seen.lock().in_flight -= batch.len();
            let timing = Timing { issued, started: issued, finished: now(), parts: None };
            batch.into_iter().map(|request| Ok(Completion { data: request.data, timing })).collect()
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.like.flush()
    }
}

#[test]
fn throughput_and_response_times_are_those_of_the_device() {
    let (found, seen) = block_on_virtual(1, async {
        let like = open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Read).unwrap();
        let device = Fixed { like, seen: Mutex::default() };
        let found = measure(&device, Nanos(2_000_000_000), |_| ()).await.unwrap();
        (found, device.seen.into_inner())
    });
    for one in found.by_size.iter().chain(&found.by_depth).chain(&found.by_alignment) {
        // Requests in flight when the time is over do not count: with many at a time, the last millisecond.
        let expected = (one.blocks.bytes().0 * u64::from(one.depth)) as f64 / RESPONSE.as_s();
        assert!((one.bytes_per_s / expected - 1.0).abs() < 0.07, "{one:?} and not {expected}");
        for response in [one.response, one.response_p99] {
            assert!((response.0 as f64 / RESPONSE.0 as f64 - 1.0).abs() < 0.002, "{one:?}");
        }
    }
    // The longer and the more, the better.
    assert_eq!((found.ensemble.bytes().0, found.parallelism), (8 << 20, 128));
    assert_eq!(found.agreeing, (5, 5, 5));
    assert_eq!((seen.most, seen.in_flight), (128, 0), "all were awaited");
    // The memory is that of 8 MiB, in which requests of 4 KiB begin at 128 places and longer ones at its first.
    let span = seen.buffers.last().unwrap() - seen.buffers.first().unwrap();
    assert!(seen.buffers.len() == 128 && span < 8 << 20, "{} of {span}", seen.buffers.len());
}
