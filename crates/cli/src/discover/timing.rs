//! A device that only reads: its tracks, its stripe units, or its throughput, by the times of its answers.

use std::sync::Arc;

use moirai::discovery::{
    Annotated, Array, Commands, Error, Preferences, TrackMap, Tracks, find_array, find_tracks,
    measure, measure_writes,
};
use moirai::runtime::now;
use moirai::storage::{Device, Metered};
use moirai::units::{BlockCount, BlockRange, Instant, Lbn, Nanos};
use moirai::volume::zones;

use super::array::ShownArray;
use super::throughput::{ShownThroughput, ShownWrites};
use super::{Discovered, Disk, Examined, Timed, Unsure, keep_as};
use crate::device::ShownZone;
use crate::failure::Failure;
use crate::kept::kept_of;
use crate::progress;

/// Pieces of data that a file is looked at, at most: one of more is not sparse by intention.
const EXTENTS_MAX: usize = 10_000;
/// Why nothing is written to what turns.
const NO_WRITES: &str = "writes of a disk are measured by diagnostic commands alone";

impl Examined<'_> {
    pub(super) async fn by_times(self) -> Result<Discovered, Failure> {
        // Several searches may ask the device, and only some of them find what they look for.
        let metered = Metered::new(Arc::clone(self.device));
        let device: Arc<dyn Device> = metered.clone();
        let began = now();
        let mut discovered = Examined { device: &device, ..self }.searched().await?;
        discovered.elapsed_device_s = now().since(began).as_s();
        let passed = metered.take();
        let commands = [("read", passed.reads), ("write", passed.writes)];
        discovered.commands = commands.into_iter().filter(|(_, count)| *count > 0).collect();
        Ok(discovered)
    }

    async fn searched(self) -> Result<Discovered, Failure> {
        let bar = progress::shares();
        let device = &**self.device;
        let (began, budget) = (now(), self.arguments.budget);
        let show = |what: &str, at| progress::show_search(&bar, what, at);
        let discovered = match find_array(device, |at| show("stripe units", at)).await {
            Ok(Some(array)) => self.array(array).await?,
            Ok(None) => {
                let tracks = find_tracks(device, |at| show("tracks", at)).await?;
                self.disk(tracks).await?
            }
            Err(Error::NoRotation { .. }) if self.boundaries.is_none() => {
                // Measurements that are too short say nothing, however long the search took.
                let ends = (began + budget).max(now() + Nanos(budget.0 / 2));
                // Half of that for writes, if they are measured.
                let parts = 1 + u64::from(self.arguments.write);
                let reads_end = now() + Nanos(ends.since(now()).0 / parts);
                let reads = |share| progress::show(&bar, "reads", share);
                let found = measure(device, reads_end, reads).await?;
                self.other(&found, ends, |share| progress::show(&bar, "writes", share)).await?
            }
            Err(error) => return Err(error.into()),
        };
        bar.finish_and_clear();
        Ok(discovered)
    }

    /// What is the same of all devices.
    fn discovered(&self) -> Discovered {
        let inquiry = self.device.inquiry();
        Discovered {
            device: inquiry.name.clone(),
            method: "timing",
            capacity_bytes: inquiry.capacity.bytes().0,
            parallelism: 1,
            zones: Vec::new(),
            profile: None,
            scheduler: None,
            caching_page: Vec::new(),
            array: None,
            throughput: None,
            system: None,
            unsure: Vec::new(),
            doubts: Vec::new(),
            kept: None,
            elapsed_device_s: 0.0,
            steps: Vec::new(),
            commands: Commands::new(),
        }
    }

    fn zones(&self, map: TrackMap) -> Result<Vec<ShownZone>, Failure> {
        let annotated = Annotated::new(Arc::clone(self.device), map);
        Ok(zones(&annotated)?.into_iter().map(ShownZone::from).collect())
    }

    fn doubts(&self) -> Vec<String> {
        self.arguments.write.then(|| NO_WRITES.to_owned()).into_iter().collect()
    }

    async fn disk(self, found: Tracks) -> Result<Discovered, Failure> {
        let discovered = self.discovered();
        let map = TrackMap::of(&found, self.device.inquiry().capacity);
        let uri = &self.arguments.uri;
        let mut kept = kept_of(uri, &**self.device, &map, "timing", 1, true).await?;
        kept.unsure = plain(&found.unsure);
        // Also where no angles could be kept, it is a disk.
        kept.rotation_ns = kept.rotation_ns.or(Some(found.rotation.period_ns));
        let discovered = Discovered {
            zones: self.zones(map)?,
            profile: Some(Disk::Timed(Timed {
                rotation_rpm: found.rotation.rpm(),
                tracks: found.firsts.len(),
                noise_us: found.rotation.noise_ns / 1e3,
            })),
            unsure: found.unsure.iter().map(Unsure::from).collect(),
            doubts: self.doubts(),
            ..discovered
        };
        if let Some(file) = self.boundaries {
            file.write(found.firsts.iter().copied().filter(|first| found.is_certain(*first)))?;
        }
        Ok(Discovered { kept: keep_as(&kept, self.out)?, ..discovered })
    }

    async fn array(self, found: Array) -> Result<Discovered, Failure> {
        let capacity = self.device.inquiry().capacity;
        let discovered = self.discovered();
        let mut doubts = self.doubts();
        // Several are two at least.
        let parallelism = found.disks.unwrap_or(2) as u32;
        let array = Some(ShownArray::from(&found));
        let unsure: Vec<Unsure> = found.unsure.iter().map(Unsure::from).collect();
        let Some(map) = found.map(capacity) else {
            doubts.push(
                "there are several disks, and which blocks lie on one does not show: they are copies, or \
                 one behind the other, or their seeks are short; nothing is kept, and no file written"
                    .to_owned(),
            );
            return Ok(Discovered { array, parallelism, unsure, doubts, ..discovered });
        };
        let (uri, device) = (&self.arguments.uri, &**self.device);
        let mut kept = kept_of(uri, device, &map, "timing", parallelism, false).await?;
        kept.rotation_ns = Some(found.rotation.period_ns);
        kept.unsure = plain(&found.unsure);
        let firsts: Vec<Lbn> = map.firsts().filter(|first| found.is_certain(*first)).collect();
        let zones = self.zones(map)?;
        if let Some(file) = self.boundaries {
            file.write(firsts.into_iter())?;
        }
        let kept = keep_as(&kept, self.out)?;
        Ok(Discovered { zones, array, parallelism, unsure, doubts, kept, ..discovered })
    }

    async fn other(
        self,
        found: &Preferences,
        ends: Instant,
        show: impl FnMut(f64),
    ) -> Result<Discovered, Failure> {
        let capacity = self.device.inquiry().capacity;
        let mut discovered = self.discovered();
        if let Some(doubt) = doubt_holes(&**self.device)? {
            discovered.doubts.push(doubt);
        }
        let mut throughput = ShownThroughput::from(found);
        if self.arguments.write {
            let writes = measure_writes(&**self.device, ends, show).await?;
            throughput.writes = Some(ShownWrites::from(&writes));
        }
        let runs = [(0, found.ensemble.0 as u32, 0)];
        let map = TrackMap::from_runs(runs.into_iter(), capacity);
        let (uri, parallelism) = (&self.arguments.uri, found.parallelism);
        let kept = kept_of(uri, &**self.device, &map, "timing", parallelism, false).await?;
        Ok(Discovered {
            kept: keep_as(&kept, self.out)?,
            parallelism,
            zones: vec![ShownZone::whole(capacity, found.ensemble)],
            throughput: Some(throughput),
            ..discovered
        })
    }
}

/// Says what was never written: reads of that reach no device.
fn doubt_holes(device: &dyn Device) -> Result<Option<String>, Failure> {
    let capacity = device.inquiry().capacity;
    let (mut written, mut at) = (BlockCount::ZERO, Lbn(0));
    for _ in 0..EXTENTS_MAX {
        let Some(data) = device.data_after(at)? else {
            at = Lbn(capacity.0);
            break;
        };
        written += data.count;
        at = data.end();
    }
    let has_holes = at == Lbn(capacity.0) && written.0 < capacity.0 / 100 * 99;
    Ok(has_holes.then(|| {
        format!(
            "of {} only {} were ever written, and reads of the rest reach no device: write it all, and measure again",
            capacity.bytes(),
            written.bytes()
        )
    }))
}

fn plain(ranges: &[BlockRange]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.first.0, range.count.0)).collect()
}
