//! Requests to the first zone of a disk, on the boundaries of its tracks or anywhere, and what they take.

use moirai::runtime::{Random, random};
use moirai::units::{BlockCount, BlockRange, Instant, Lbn};
use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest, Profile, Scheduler};
use rand::Rng;

/// How requests lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lies {
    Aligned,
    Anywhere,
}

/// Requests to a disk's first zone.
#[derive(Clone, Copy)]
pub(super) struct TrackRequests {
    pub(super) direction: Direction,
    pub(super) lies: Lies,
    /// Blocks of a request.
    pub(super) blocks: u64,
    /// Requests in flight.
    pub(super) depth: usize,
}

/// What a run gives.
pub(super) struct Measured {
    /// The mean time that the head spends on a request.
    pub(super) head_ms: f64,
    /// Of the responses that do not come from the cache.
    pub(super) deviation_ms: f64,
    /// What the same spend on the medium, waiting for the wanted sectors included, on average.
    pub(super) turning_ms: f64,
    /// And on the bus, where nothing else goes on.
    pub(super) bus_ms: f64,
}

impl TrackRequests {
    /// A random place in the first zone.
    fn place(&self, disk: &Profile, random: &mut Random) -> BlockRange {
        let track = track_sectors(disk);
        let tracks = first_zone(disk).0 / track;
        let longest = self.blocks.div_ceil(track);
        let first = match self.lies {
            Lies::Aligned => {
                let track = random.random_range(0..tracks - longest) * track;
                // Where defects or spares shorten tracks, they begin elsewhere.
                disk.geometry.track(Lbn(track)).map_or(Lbn(track), |track| track.blocks.first)
            }
            Lies::Anywhere => Lbn(random.random_range(0..(tracks - longest) * track)),
        };
        BlockRange::new(first, BlockCount(self.blocks))
    }

    pub(super) fn run(&self, disk: &Profile, requests: usize) -> Measured {
        let mut random = random("places");
        let mut model = Disk::new(disk.clone(), Scheduler::Fcfs);
        let mut now = Instant::ZERO;
        let mut submitted = 0;
        let mut submit = |model: &mut Disk, now| {
            submitted += 1;
            let blocks = self.place(disk, &mut random);
            model.submit(now, DiskRequest { id: submitted, direction: self.direction, blocks });
        };
        (0..self.depth).for_each(|_| submit(&mut model, now));
        let mut all: Vec<DiskCompletion> = Vec::with_capacity(requests);
        let mut done = Vec::new();
        while all.len() < requests {
            let Some(next) = model.next_event() else { break };
            now = next;
            model.advance(now, &mut done);
            done.iter().for_each(|_| submit(&mut model, now));
            all.append(&mut done);
        }
        let from_media = all.iter().filter(|one| one.cached == BlockCount::ZERO);
        let from_media: Vec<&DiskCompletion> = from_media.collect();
        let times: Vec<f64> =
            from_media.iter().map(|one| one.finished.since(one.issued).as_ms()).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / count;
        let last = all.last().map_or(Instant::ZERO, |last| last.finished);
        Measured {
            head_ms: last.since(Instant::ZERO).as_ms() / all.len() as f64,
            deviation_ms: variance.sqrt(),
            turning_ms: from_media
                .iter()
                .map(|one| (one.parts.rotation + one.parts.media).as_ms())
                .sum::<f64>()
                / count,
            bus_ms: from_media.iter().map(|one| one.parts.bus.as_ms()).sum::<f64>() / count,
        }
    }
}

pub(super) fn track_sectors(disk: &Profile) -> u64 {
    disk.file.zones.first().map_or(1, |zone| u64::from(zone.track_sectors))
}

/// Blocks of the first zone.
pub(super) fn first_zone(disk: &Profile) -> BlockCount {
    let zone = disk.file.zones.first();
    let tracks = zone.map_or(1, |zone| u64::from(zone.cylinders)) * u64::from(disk.file.heads);
    BlockCount(tracks * track_sectors(disk))
}

pub(super) fn revolution_ms(disk: &Profile) -> f64 {
    disk.mechanics.revolution_ps as f64 / 1e9
}
