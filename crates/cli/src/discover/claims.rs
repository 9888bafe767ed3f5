//! What the system says of the device that a file lies on, beside what was measured.

use std::path::Path;

use moirai::devices::SystemSays;
use moirai::storage::DeviceUri;
use moirai::units::ByteCount;
use serde::Serialize;

use super::Discovered;
use super::array::ShownArray;
use crate::device::ShownZone;
use crate::failure::Failure;
use crate::print;

#[derive(Default, Serialize)]
pub(super) struct Claims {
    device: String,
    rotational: Option<bool>,
    logical_block_bytes: Option<u64>,
    physical_block_bytes: Option<u64>,
    minimum_io_bytes: Option<u64>,
    optimal_io_bytes: Option<u64>,
    chunk_bytes: Option<u64>,
    maximum_io_bytes: Option<u64>,
    discard_bytes: Option<u64>,
    atomic_write_bytes: Option<u64>,
    direct_io_bytes: Option<u64>,
    requests: Option<u64>,
    zones: Option<String>,
    open_zones_max: Option<u64>,
    actuators: Option<usize>,
    array_level: Option<String>,
    array_disks: Option<u64>,
    array_chunk_bytes: Option<u64>,
    below: Vec<String>,
    /// Where that and the measurement disagree.
    doubts: Vec<String>,
}

/// What was found that the system says something of, too.
struct Seen {
    turns: bool,
    /// Of what does not turn: bytes beyond which requests gain little.
    ensemble: Option<u64>,
    /// Of one disk: bytes of its longest track.
    track: Option<u64>,
    parallelism: u32,
    disks: Option<usize>,
    /// Of an array all of whose units are alike.
    unit: Option<u64>,
}

impl Claims {
    /// What the system says of the device that `uri` lies on.
    pub(super) fn of(uri: &str) -> Result<Option<Claims>, Failure> {
        let uri: DeviceUri = uri.parse()?;
        if !matches!(uri.scheme.as_str(), "file" | "block") {
            return Ok(None);
        }
        let says = SystemSays::of(Path::new(&uri.target))?;
        Ok(says.map(|says| {
            let bytes = |count: Option<ByteCount>| count.map(|count| count.0);
            Claims {
                rotational: says.is_rotational,
                logical_block_bytes: bytes(says.logical_block),
                physical_block_bytes: bytes(says.physical_block),
                minimum_io_bytes: bytes(says.minimum_io),
                optimal_io_bytes: bytes(says.optimal_io),
                chunk_bytes: bytes(says.chunk),
                maximum_io_bytes: bytes(says.maximum_io),
                discard_bytes: bytes(says.discard),
                atomic_write_bytes: bytes(says.atomic_write),
                direct_io_bytes: bytes(says.direct_io),
                requests: says.requests,
                zones: says.zones,
                open_zones_max: says.open_zones_max,
                actuators: says.actuators,
                array_level: says.array.as_ref().map(|array| array.level.clone()),
                array_disks: says.array.as_ref().map(|array| array.disks),
                array_chunk_bytes: bytes(says.array.and_then(|array| array.chunk)),
                below: says.below,
                device: says.name,
                doubts: Vec::new(),
            }
        }))
    }

    /// Compares it with what was found.
    pub(super) fn doubt(&mut self, found: &Discovered) {
        self.doubts = self.doubts_of(&Seen {
            turns: found.profile.is_some() || found.array.is_some(),
            ensemble: found.throughput.as_ref().map(|throughput| throughput.ensemble_bytes),
            track: found
                .profile
                .as_ref()
                .and_then(|_| found.zones.iter().map(ShownZone::ensemble_bytes).max()),
            parallelism: found.parallelism,
            disks: found.array.as_ref().and_then(ShownArray::disks),
            unit: found.array.as_ref().and_then(ShownArray::unit_bytes),
        });
    }

    fn doubts_of(&self, seen: &Seen) -> Vec<String> {
        let mut doubts = Vec::new();
        match (self.rotational, seen.turns) {
            (Some(true), false) => {
                doubts.push("it is said to turn, and no rotation shows".to_owned());
            }
            (Some(false), true) => {
                doubts.push("it is said not to turn, and a rotation shows".to_owned());
            }
            _ => {}
        }
        let physical = self.physical_block_bytes.unwrap_or(512);
        if let Some(optimal) = self.optimal_io_bytes.filter(|optimal| optimal % physical != 0) {
            doubts.push(format!(
                "the optimal size of {optimal} bytes is no multiple of the physical block: it is passed over"
            ));
        } else if let (Some(optimal), Some(ensemble)) = (self.optimal_io_bytes, seen.ensemble)
            && optimal > 2 * ensemble
        {
            doubts.push(format!(
                "the optimal size is said to be {}, and reads beyond {} gain under 5 %",
                ByteCount(optimal),
                ByteCount(ensemble)
            ));
        }
        if let (Some(optimal), Some(track)) = (self.optimal_io_bytes, seen.track)
            && optimal > 2 * track
        {
            doubts.push(format!(
                "the optimal size is said to be {}, and its tracks have up to {}",
                ByteCount(optimal),
                ByteCount(track)
            ));
        }
        if let Some(requests) = self.requests.filter(|most| u64::from(seen.parallelism) > *most) {
            doubts.push(format!(
                "{requests} requests may wait for it, and {} at a time bring more",
                seen.parallelism
            ));
        }
        if let (Some(said), Some(seen)) = (self.array_disks, seen.disks)
            && said != seen as u64
        {
            doubts.push(format!("it is said to have {said} disks, and {seen} show"));
        }
        if let (Some(said), Some(seen)) = (self.array_chunk_bytes, seen.unit)
            && said != seen
        {
            doubts.push(format!(
                "its disks are said to have {} of a stripe each, and {} show",
                ByteCount(said),
                ByteCount(seen)
            ));
        }
        doubts
    }

    pub(super) fn print(&self) -> Result<(), Failure> {
        let size = |name, bytes: Option<u64>| Some((name, ByteCount(bytes?).to_string()));
        let facts = [
            self.rotational.map(|turns| ("turns", if turns { "yes" } else { "no" }.to_owned())),
            size("logical block", self.logical_block_bytes),
            size("physical block", self.physical_block_bytes),
            size("minimum request", self.minimum_io_bytes),
            size("optimal request", self.optimal_io_bytes),
            size(if self.zones.is_some() { "zone" } else { "chunk" }, self.chunk_bytes),
            size("longest request", self.maximum_io_bytes),
            size("unit of discards", self.discard_bytes),
            size("atomic write", self.atomic_write_bytes),
            size("alignment of direct I/O", self.direct_io_bytes),
            self.requests.map(|requests| ("requests that wait", requests.to_string())),
            self.zones.clone().map(|zones| ("zones", zones)),
            self.actuators.map(|count| ("actuators", count.to_string())),
            self.array_level.clone().map(|level| ("array", level)),
            self.array_disks.map(|disks| ("disks of the array", disks.to_string())),
            size("chunk of the array", self.array_chunk_bytes),
            (!self.below.is_empty()).then(|| ("lies on", self.below.join(", "))),
        ];
        print::line(format!("\nThe system says of {}:", self.device))?;
        let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
        print::table(
            &[("claim", false), ("value", false)],
            facts.into_iter().flatten().map(row).collect(),
        )?;
        self.doubts.iter().try_for_each(|doubt| print::line(format!("Doubtful: {doubt}.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_doubted_where_it_does_not_show() {
        let seen = |turns, ensemble| Seen {
            turns,
            ensemble,
            track: None,
            parallelism: 1,
            disks: None,
            unit: None,
        };
        let none: [String; 0] = [];
        let disk = Claims { rotational: Some(true), ..Claims::default() };
        assert_eq!(disk.doubts_of(&seen(true, None)), none);
        assert_eq!(disk.doubts_of(&seen(false, Some(1 << 20))).len(), 1);
        // A claim of some enclosures: no multiple of anything.
        let optimal_io_bytes = Some(33_553_920);
        let flash =
            Claims { optimal_io_bytes, physical_block_bytes: Some(4096), ..Claims::default() };
        assert!(flash.doubts_of(&seen(false, Some(1 << 20)))[0].contains("passed over"));
        // On a disk with blocks of 512 bytes it is 65,535 of them.
        let disk = Claims { optimal_io_bytes, ..disk };
        let seen_track = |track| Seen { track: Some(track), ..seen(true, None) };
        assert!(disk.doubts_of(&seen_track(512 << 10))[0].contains("tracks have up to 512 KiB"));
        assert_eq!(disk.doubts_of(&seen_track(32 << 20)), none);
        let array = Claims {
            array_disks: Some(4),
            array_chunk_bytes: Some(512 << 10),
            requests: Some(64),
            ..Claims::default()
        };
        let as_said =
            Seen { disks: Some(4), unit: Some(512 << 10), parallelism: 64, ..seen(true, None) };
        assert_eq!(array.doubts_of(&as_said), none);
        let other =
            Seen { disks: Some(3), unit: Some(64 << 10), parallelism: 128, ..seen(true, None) };
        assert_eq!(array.doubts_of(&other).len(), 3, "{:?}", array.doubts_of(&other));
    }
}
