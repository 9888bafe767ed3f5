//! The figures of the demo: plain data, for the report and for programs that read JSON.

use serde::Serialize;

/// All figures of one run of the demo, and where it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoFigures {
    /// The TPC-H scale factor; 1 is about 1 GB of raw data.
    pub scale_factor: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The simulated volume in words, like `4 x Seagate Cheetah 36ES, quadrangles of depth 4`.
    pub simulated: String,
    /// The paths of the files that the real runs used, one for each layout.
    pub files: Vec<String>,
    /// The cost of loading, one row for each layout.
    pub load: Vec<LoadRow>,
    /// The cost of the workloads, one row for each layout; the rows of a workload follow each other.
    pub rows: Vec<DemoRow>,
}

/// The cost of storing the tables once in one layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadRow {
    /// `nsm` or `csm`.
    pub layout: String,
    /// The size of the tables on the volume.
    pub stored_mib: f64,
    /// Virtual time to write them to the simulated volume.
    pub simulated_write_ms: f64,
    /// Real time to load them into the file.
    pub file_load_ms: f64,
}

/// The cost of one workload on one layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoRow {
    /// The workload, like `Q6` or `full scan`.
    pub workload: String,
    /// `nsm` or `csm`.
    pub layout: String,
    /// The data read from the volume.
    pub read_mib: f64,
    /// The data written to it, the log's included.
    pub written_mib: f64,
    /// The number of requests.
    pub ios: u64,
    /// Virtual time of the I/O on the simulated volume.
    pub simulated_io_ms: f64,
    /// Media time over the time the mechanisms were busy, 0 to 1: thesis 3.2.4.
    pub disk_efficiency: f64,
    /// Real time from the query to the answer on the file.
    pub file_wall_ms: f64,
}
