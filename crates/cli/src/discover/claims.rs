//! What the system says of the device that a file lies on, beside what was measured.

use std::path::Path;

use moirai::devices::SystemSays;
use moirai::storage::DeviceUri;
use moirai::units::ByteCount;
use serde::Serialize;

use super::Discovered;
use crate::failure::Failure;
use crate::print;

#[derive(Serialize)]
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
        match (self.rotational, &found.profile) {
            (Some(true), None) => {
                self.doubts.push("it is said to turn, and no rotation shows".to_owned());
            }
            (Some(false), Some(_)) => {
                self.doubts.push("it is said not to turn, and a rotation shows".to_owned());
            }
            _ => {}
        }
        let physical = self.physical_block_bytes.unwrap_or(512);
        if let Some(optimal) = self.optimal_io_bytes.filter(|optimal| optimal % physical != 0) {
            self.doubts.push(format!(
                "the optimal size of {optimal} bytes is no multiple of the physical block: it is passed over"
            ));
        } else if let (Some(optimal), Some(throughput)) = (self.optimal_io_bytes, &found.throughput)
            && optimal > 2 * throughput.ensemble_bytes
        {
            self.doubts.push(format!(
                "the optimal size is said to be {}, and reads beyond {} gain under 5 %",
                ByteCount(optimal),
                ByteCount(throughput.ensemble_bytes)
            ));
        }
    }

    pub(super) fn print(&self) -> Result<(), Failure> {
        let size = |name, bytes: Option<u64>| Some((name, ByteCount(bytes?).to_string()));
        let facts = [
            self.rotational.map(|turns| ("turns", if turns { "yes" } else { "no" }.to_owned())),
            size("logical block", self.logical_block_bytes),
            size("physical block", self.physical_block_bytes),
            size("minimum request", self.minimum_io_bytes),
            size("optimal request", self.optimal_io_bytes),
            size("chunk", self.chunk_bytes),
            size("longest request", self.maximum_io_bytes),
            size("unit of discards", self.discard_bytes),
            size("atomic write", self.atomic_write_bytes),
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
