//! Work beside other work: no more than so many bytes a second.

use std::num::NonZeroU64;

use moirai_runtime::{now, sleep};
use moirai_units::{ByteCount, Instant, Nanos};

/// Waits until `bytes` that were begun at `began` are no more than so many a second.
pub(crate) async fn pause(began: Instant, bytes: ByteCount, bytes_per_s: Option<NonZeroU64>) {
    if let Some(rate) = bytes_per_s {
        let due_ns = u128::from(bytes.0) * 1_000_000_000 / u128::from(rate.get());
        sleep(Nanos((due_ns as u64).saturating_sub(now().since(began).0))).await;
    }
}
