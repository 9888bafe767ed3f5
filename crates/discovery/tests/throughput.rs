//! What is measured of a device that takes as long for each request, however long and however many there are.

mod distant;

use distant::Distant;
use moirai_devices::{Access, open};
use moirai_discovery::measure;
use moirai_runtime::{block_on_virtual, now};
use moirai_units::Nanos;

const RESPONSE: Nanos = Nanos(3_000_000);
const BUDGET: Nanos = Nanos(1_000_000_000);

#[test]
fn throughput_and_response_times_are_those_of_the_device() {
    let found = block_on_virtual(1, async {
        let like = open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Read).unwrap();
        let device = Distant::like(like, RESPONSE);
        measure(&device, now() + Nanos(6_000_000_000), |_| ()).await.unwrap()
    });
    for one in found.by_size.iter().chain(&found.by_depth).chain(&found.by_alignment) {
        // Answers vary by a fiftieth; and requests in flight when the time is over do not count, of 18 times 128 up to one time.
        let expected = (one.blocks.bytes().0 * u64::from(one.depth)) as f64 / RESPONSE.as_s();
        let share = one.bytes_per_s / expected;
        assert!((0.92..=1.06).contains(&share), "{one:?} and not {expected}");
        assert!((3.0..3.06).contains(&one.response.as_ms()), "{one:?}");
        assert!(one.response <= one.response_p99 && one.response_p99.as_ms() < 3.07, "{one:?}");
    }
    // The longer and the more, the better.
    assert_eq!((found.ensemble.bytes().0, found.parallelism), (8 << 20, 128));
    assert_eq!(found.agreeing, (5, 5, 5));
}

/// Each of the 110 measurements ends up to a request too late: together they would take a third longer.
#[test]
fn measurements_take_the_time_that_they_have() {
    let took = block_on_virtual(1, async {
        let like = open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Read).unwrap();
        let device = Distant::like(like, RESPONSE);
        let began = now();
        measure(&device, began + BUDGET, |_| ()).await.unwrap();
        now().since(began)
    });
    assert!((BUDGET..BUDGET + RESPONSE + RESPONSE).contains(&took), "{took}");
}
