//! Measured traces, and the bus that they tell of.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;

use moirai_replay::trace::{MeasuredReader, MeasuredRequest};
use moirai_replay::validate::bus_sector;

use super::drive::{self, Drive};
use crate::failure::Failure;

/// A simulated drive, and a trace measured on the real one.
#[derive(Args)]
pub(super) struct DriveAndTrace {
    /// Drive: sim:PROFILE, sim:./drive.toml or sim:./drive.diskspecs
    #[arg(long, value_name = "URI")]
    pub(super) device: String,
    /// Trace measured on the real drive
    #[arg(long, value_name = "FILE")]
    pub(super) trace: PathBuf,
}

pub(super) struct Measured {
    pub(super) drive: Drive,
    pub(super) requests: Vec<MeasuredRequest>,
    /// The bus rate in MB/s, where the drive's file leaves it open.
    pub(super) bus_mb_per_s: Option<f64>,
}

impl DriveAndTrace {
    /// What the command reads, as URIs and paths.
    pub(super) fn inputs(&self) -> [&str; 2] {
        [&self.device, self.trace.to_str().unwrap_or_default()]
    }

    pub(super) fn read(&self) -> Result<Measured, Failure> {
        let mut drive = drive::named(&self.device)?;
        let requests = read(&self.trace)?;
        let bus_mb_per_s = find_bus(&mut drive, &requests);
        Ok(Measured { drive, requests, bus_mb_per_s })
    }
}

/// Reads a trace of a real drive, in the `disksim-validate` format.
fn read(path: &Path) -> Result<Vec<MeasuredRequest>, Failure> {
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
fn find_bus(drive: &mut Drive, requests: &[MeasuredRequest]) -> Option<f64> {
    if !drive.bus_assumed {
        return None;
    }
    let sector = bus_sector(requests)?;
    let rate = 512e3 / sector.0 as f64;
    drive.profile.bus_mb_per_s = rate;
    drive.bus_assumed = false;
    drive.notes.retain(|note| !note.contains("MB/s are assumed"));
    drive.notes.push(format!(
        "the drive's file does not give the rate of the bus; the fastest reads of the trace show \
         {rate:.2} MB/s."
    ));
    let source = "extracted: the fastest reads of a measured trace".to_owned();
    drive.profile.sources.insert("bus_mb_per_s".into(), source);
    Some(rate)
}
