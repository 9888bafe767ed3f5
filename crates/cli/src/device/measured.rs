//! Measured traces, and the bus that they tell of.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use moirai_replay::trace::{MeasuredReader, MeasuredRequest};
use moirai_replay::validate::bus_sector;

use super::drive::Drive;
use crate::failure::Failure;

/// Reads a trace of a real drive, in the `disksim-validate` format.
pub(super) fn read(path: &Path) -> Result<Vec<MeasuredRequest>, Failure> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|problem| Failure::Failed(format!("opening {name}: {problem}")))?;
    let requests: Vec<MeasuredRequest> =
        MeasuredReader::new(name.clone(), BufReader::new(file)).collect::<Result<_, _>>()?;
    if requests.is_empty() {
        return Err(Failure::Failed(format!("{name}: the trace has no requests")));
    }
    Ok(requests)
}

/// Gives a drive whose file leaves the bus open the one that its trace tells of; what was found.
pub(super) fn find_bus(drive: &mut Drive, requests: &[MeasuredRequest]) -> Option<f64> {
    if !drive.bus_assumed {
        return None;
    }
    let sector = bus_sector(requests)?;
    let rate = 512e3 / sector.0 as f64;
    drive.profile.bus_mb_per_s = rate;
    drive.bus_assumed = false;
    drive.notes.retain(|note| !note.contains("MB/s are assumed"));
    drive.notes.push(format!(
        "the drive's file leaves the bus to the machine; the fastest reads of the trace tell of \
         {rate:.2} MB/s."
    ));
    let source = "extracted: the fastest reads of a measured trace".to_owned();
    drive.profile.sources.insert("bus_mb_per_s".into(), source);
    Some(rate)
}
