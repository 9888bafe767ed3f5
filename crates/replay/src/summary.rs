//! What a replay says in figures, in memory that does not grow with the trace.

use hdrhistogram::Histogram;
use moirai_units::{Instant, Nanos, ServiceParts};

use crate::target::Done;

/// Figures of a replay, gathered request by request.
#[derive(Clone, Debug)]
pub struct Summary {
    responses: Histogram<u64>,
    response_sum_ns: u128,
    response_max: Nanos,
    parts: ServiceParts,
    /// Requests whose device told where their time went.
    parted: u64,
    reads: u64,
    sectors: u64,
    under_way: u32,
    under_way_max: u32,
    first_issued: Option<Instant>,
    last_finished: Instant,
    utilisation: Option<f64>,
}

/// Response times are kept to three digits, and up to a day: longer ones count as that.
const SIGNIFICANT_DIGITS: u8 = 3;
const LONGEST_NS: u64 = 86_400_000_000_000;

impl Default for Summary {
    #[expect(clippy::expect_used, reason = "bounds and digits that a histogram can have")]
    fn default() -> Summary {
        Summary {
            responses: Histogram::new_with_max(LONGEST_NS, SIGNIFICANT_DIGITS)
                .expect("a histogram of three digits"),
            response_sum_ns: 0,
            response_max: Nanos::ZERO,
            parts: ServiceParts::default(),
            parted: 0,
            reads: 0,
            sectors: 0,
            under_way: 0,
            under_way_max: 0,
            first_issued: None,
            last_finished: Instant::ZERO,
            utilisation: None,
        }
    }
}

impl Summary {
    pub(crate) fn issued(&mut self, at: Instant, is_read: bool, sectors: u64) {
        self.first_issued.get_or_insert(at);
        self.reads += u64::from(is_read);
        self.sectors += sectors;
        self.under_way += 1;
        self.under_way_max = self.under_way_max.max(self.under_way);
    }

    pub(crate) fn done(&mut self, done: &Done) {
        let response = done.finished.since(done.issued);
        self.response_max = self.response_max.max(response);
        let response = response.0;
        self.responses.saturating_record(response);
        self.response_sum_ns += u128::from(response);
        self.under_way -= 1;
        self.last_finished = self.last_finished.max(done.finished);
        if let Some(parts) = done.parts {
            self.parts += parts;
            self.parted += 1;
        }
    }

    /// Notes that `drives` worked for `busy`, and until `until` where that is after the last finish.
    pub(crate) fn worked(&mut self, busy: Nanos, drives: usize, until: Option<Instant>) {
        let Some(first) = self.first_issued else { return };
        let end = until.unwrap_or(self.last_finished).max(self.last_finished);
        let span = end.since(first).0 as f64 * drives as f64;
        self.utilisation = (span > 0.0).then(|| busy.0 as f64 / span);
    }

    /// The part of the time that the mechanisms work for requests, on average over the drives;
    /// `None` where nobody knows. The time is from the first issue to the last finish, or to the
    /// end of work on the media that goes on after it, for writes that were reported early. So it
    /// is never above 1.
    #[must_use]
    pub fn utilisation(&self) -> Option<f64> {
        self.utilisation
    }

    /// Requests that are done.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.responses.len()
    }

    /// Requests that read.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Blocks accessed.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.sectors
    }

    /// The mean response time.
    #[must_use]
    pub fn mean_response_ms(&self) -> f64 {
        self.response_sum_ns as f64 / 1e6 / self.requests().max(1) as f64
    }

    /// The response time that `percent` of the requests do not exceed.
    #[must_use]
    pub fn response_percentile_ms(&self, percent: f64) -> f64 {
        // What the histogram gives is the top of a range of times.
        let top = self.responses.value_at_percentile(percent);
        top.min(self.response_max.0) as f64 / 1e6
    }

    /// The longest response time.
    #[must_use]
    pub fn max_response_ms(&self) -> f64 {
        self.response_max.as_ms()
    }

    /// Mean parts of the response time, in the order and by the names of [`ServiceParts`]; `None`
    /// when the devices do not tell.
    #[must_use]
    pub fn mean_parts_ms(&self) -> Option<[(&'static str, f64); 7]> {
        let mean = |part: Nanos| part.as_ms() / self.parted as f64;
        let ServiceParts { queue, overhead, seek, head_switch, rotation, media, bus } = self.parts;
        (self.parted > 0).then(|| {
            [
                ("queue", mean(queue)),
                ("overhead", mean(overhead)),
                ("seek", mean(seek)),
                ("head_switch", mean(head_switch)),
                ("rotation", mean(rotation)),
                ("media", mean(media)),
                ("bus", mean(bus)),
            ]
        })
    }

    /// From the first issue to the last finish.
    #[must_use]
    pub fn span(&self) -> Nanos {
        self.first_issued.map_or(Nanos::ZERO, |first| self.last_finished.since(first))
    }

    /// Requests under way, on average over the time (Little's law).
    #[must_use]
    pub fn mean_under_way(&self) -> f64 {
        self.response_sum_ns as f64 / (self.span().0 as f64).max(1.0)
    }

    /// The most requests that were under way at once.
    #[must_use]
    pub fn max_under_way(&self) -> u32 {
        self.under_way_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_response_time_is_above_the_longest() {
        let mut summary = Summary::default();
        for ns in [1_000_001, 123_456_789] {
            let finished = Instant { ns };
            summary.issued(Instant::ZERO, true, 1);
            let (issued, started) = (Instant::ZERO, Instant::ZERO);
            summary.done(&Done { ticket: 0, issued, started, finished, parts: None });
        }
        assert_eq!(summary.max_response_ms(), 123.456_789);
        for percent in [99.0, 99.9, 100.0] {
            assert_eq!(summary.response_percentile_ms(percent), 123.456_789);
        }
    }
}
