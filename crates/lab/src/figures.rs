//! What the demo measured: plain data, for the report and for programs that read JSON.

use serde::Serialize;

/// Everything that one run of the demo measured, and what it ran on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoFigures {
    /// The TPC-H scale factor; 1 is about 1 GB of raw data.
    pub scale_factor: f64,
    /// Where every random choice of the run starts.
    pub seed: u64,
    /// The simulated volume in words, like `4 x Seagate Cheetah 36ES, quadrangles of depth 4`.
    pub simulated: String,
    /// The URI of the file that the real runs used.
    pub file: String,
    /// What loading cost, one row for each layout.
    pub load: Vec<LoadRow>,
    /// What the workloads cost, one row for each layout; the rows of a workload follow each other.
    pub rows: Vec<DemoRow>,
}

/// What it cost to store the tables once in one layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadRow {
    /// `nsm` or `csm`.
    pub layout: String,
    /// What the tables occupy.
    pub stored_mib: f64,
    /// Virtual time to write them to the simulated volume.
    pub simulated_write_ms: f64,
    /// Real time to load them into the file.
    pub file_load_ms: f64,
}

/// What one workload cost on one layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoRow {
    /// What ran, like `Q6` or `full scan`.
    pub workload: String,
    /// `nsm` or `csm`.
    pub layout: String,
    /// What was read from the volume.
    pub read_mib: f64,
    /// The requests that read it.
    pub ios: u64,
    /// Virtual time of the I/O on the simulated volume.
    pub simulated_io_ms: f64,
    /// Media time over the time the mechanisms were busy, 0 to 1: thesis 3.2.4.
    pub disk_efficiency: f64,
    /// Real time from the question to the answer on the file.
    pub file_wall_ms: f64,
}
