//! A simulated disk that serves requests made from bytes.

use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest, Profile, Scheduler};
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

const REQUESTS_MAX: usize = 64;
const REQUEST_BYTES: usize = 6;
/// Far more than so many requests need.
const EVENTS_MAX: usize = 10_000;

/// What is sent where the bytes hold no request: reads from the start, the middle and the end, a
/// sequential one, and writes.
const USUAL: [[u8; REQUEST_BYTES]; 6] = [
    [0, 0, 0, 8, 0, 20],
    [1, 0, 0, 8, 0, 20],
    [0, 128, 0, 16, 1, 24],
    [2, 255, 255, 1, 0, 28],
    [3, 0, 0, 16, 0, 10],
    [2, 0, 0, 255, 1, 30],
];

/// Runs a disk of `profile` until it rests, twice: at one go from request to request, and with a stop
/// half way. The first of `bytes` chooses the scheduler, the others the requests.
pub fn serve(profile: &Profile, bytes: &[u8]) {
    let (scheduler, bytes) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let (given, _) = bytes.as_chunks::<REQUEST_BYTES>();
    let requests = if given.is_empty() { &USUAL } else { given };
    let requests = requests.get(..REQUESTS_MAX).unwrap_or(requests);

    let completions = |stops| {
        let mut run = Run::new(profile.clone(), scheduler_of(scheduler), stops);
        requests.iter().for_each(|request| run.request(*request));
        run.rest();
        run.completions
    };
    let completed = completions(false);
    assert_eq!(completed.len(), requests.len(), "every request completes, and once");
    for done in &completed {
        assert!(done.issued <= done.finished, "{done:?}");
        assert_eq!(done.parts.total(), done.finished.since(done.issued), "{done:?}");
    }
    assert_eq!(completions(true), completed, "with a stop half way");
}

fn scheduler_of(byte: u8) -> Scheduler {
    match byte % 5 {
        0 => Scheduler::Sptf,
        1 => Scheduler::Fcfs,
        2 => Scheduler::CLook,
        3 => Scheduler::Sstf,
        _ => Scheduler::AgedSptf { weight: 0.02 },
    }
}

struct Run {
    disk: Disk,
    stops: bool,
    now: Instant,
    behind_last: Lbn,
    sent: usize,
    completions: Vec<DiskCompletion>,
}

impl Run {
    fn new(profile: Profile, scheduler: Scheduler, stops: bool) -> Run {
        Run {
            disk: Disk::new(profile, scheduler),
            stops,
            now: Instant::ZERO,
            behind_last: Lbn(0),
            sent: 0,
            completions: Vec::new(),
        }
    }

    /// Bit 0 of the first byte makes it sequential, bit 1 a write, bits 2 and 3 a flush, bit 4 lets
    /// the disk come to rest before; then come the place on the disk, the count and the pause.
    fn request(&mut self, [kind, place_high, place_low, count, count_shift, pause]: [u8; 6]) {
        if kind & 16 != 0 {
            self.rest();
        }
        // 17 s at most, in which the disk may read on and on.
        self.advance(self.now + Nanos(1 << (pause % 35)));
        let id = self.sent as u64;
        self.sent += 1;
        if kind & 12 == 12 {
            self.disk.flush(self.now, id);
            return;
        }
        let direction = if kind & 2 != 0 { Direction::Write } else { Direction::Read };
        let blocks = self.blocks(kind & 1 != 0, [place_high, place_low], count, count_shift);
        self.behind_last = blocks.end();
        self.disk.submit(self.now, DiskRequest { id, direction, blocks });
    }

    fn blocks(&self, sequential: bool, place: [u8; 2], count: u8, count_shift: u8) -> BlockRange {
        let capacity = self.disk.profile().geometry.capacity().0;
        assert!(capacity > 0, "a disk without blocks");
        let chosen = (u128::from(capacity) * u128::from(u16::from_be_bytes(place))) >> 16;
        let first = if sequential && self.behind_last.0 < capacity {
            self.behind_last
        } else {
            Lbn(chosen as u64)
        };
        let count = (1 + u64::from(count)) << (count_shift % 4);
        BlockRange::new(first, BlockCount(count.min(capacity - first.0)))
    }

    fn advance(&mut self, to: Instant) {
        if self.stops {
            let half_way = self.now + Nanos(to.since(self.now).0 / 2);
            self.disk.advance(half_way, &mut self.completions);
        }
        self.disk.advance(to, &mut self.completions);
        self.now = to;
    }

    /// Lets time pass until nothing happens any more.
    fn rest(&mut self) {
        for _ in 0..EVENTS_MAX {
            let Some(next) = self.disk.next_event() else { return };
            self.advance(self.now.max(next));
        }
        panic!("the disk does not come to rest: {} waiting", self.disk.queue_length());
    }
}
