//! The sample traces beside the project, where they are: counts, mix and the format that is found.

use std::fs;
use std::path::PathBuf;

use moirai_replay::trace::{Arrival, Format, MeasuredReader, TraceReader, TraceRequest};
use moirai_storage::Op;
use moirai_units::{Instant, Nanos};

/// The bytes of a sample; `None`, with a word about it, where the samples are not there.
fn sample(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    let bytes = fs::read(&path).ok();
    if bytes.is_none() {
        eprintln!("{} is not there: skipped", path.display());
    }
    bytes
}

/// Reads a sample: so many requests, of which so many are reads.
fn check(
    name: &str,
    format: Format,
    detected: Option<Format>,
    counts: (usize, usize),
) -> Option<Vec<TraceRequest>> {
    let bytes = sample(name)?;
    let head = bytes.get(..8192).unwrap_or(&bytes);
    assert_eq!(Format::detect(name, head).ok(), detected, "{name}");
    let requests: Vec<TraceRequest> = TraceReader::new(name, bytes.as_slice(), format)
        .map(|request| request.unwrap_or_else(|error| panic!("{error}")))
        .collect();
    let reads = requests.iter().filter(|request| request.op == Op::Read).count();
    assert_eq!((requests.len(), reads), counts, "{name}");
    Some(requests)
}

#[test]
fn traces() {
    let known = |format| (format, Some(format));
    let taken_as_ns = |format| (format, Some(Format::SsdSim));
    let check = |name: &str, (format, detected), counts, end_ns: u64| {
        let Some(requests) = check(name, format, detected, counts) else {
            return;
        };
        let last = requests.last().map(|request| request.at);
        assert_eq!(last, Some(Arrival::At(Instant { ns: end_ns })), "{name}");
    };
    let ssdsim = taken_as_ns(Format::SsdSim);
    let ssdsim_us = taken_as_ns(Format::SsdSimMicroseconds);
    check(
        "traces/disksim_ascii_head20000.trace",
        known(Format::DiskSim),
        (20_000, 15_907),
        311_242_248_149,
    );
    check("traces/financial1_head10000.ssdsim.ascii", ssdsim, (10_000, 4077), 259_601_203_125);
    check("traces/websearch_small24783.mqsim.trace", ssdsim, (24_783, 24_779), 60_066_625_000);
    check("traces/tpcc_small6999.mqsim.trace", ssdsim, (6999, 4381), 1_075_002_000);
    // The same 10.8 s; in the second slice three lines more, which are no reads or writes.
    check("traces/hm_1.revised_5000.txt", ssdsim_us, (5000, 1096), 10_808_549_000);
    check("traces/hm_1.revised_001_5000.txt", ssdsim_us, (5000, 1096), 10_808_549_000);
}

#[test]
fn measured_drives() {
    let check = |drive: &str, counts| {
        let name = format!("drives/{drive}/{drive}.trace");
        let format = Format::DiskSimValidate;
        let (Some(requests), Some(bytes)) =
            (check(&name, format, Some(format), counts), sample(&name))
        else {
            return;
        };
        let measured: Vec<_> = MeasuredReader::new(&name, bytes.as_slice())
            .map(|request| request.unwrap_or_else(|error| panic!("{error}")))
            .collect();
        let same: Vec<TraceRequest> = measured.iter().map(|request| (*request).into()).collect();
        let read: Vec<TraceRequest> =
            requests.iter().map(|request| TraceRequest { line: 0, ..*request }).collect();
        assert_eq!(same, read, "{name}");
        assert_eq!(measured[0].delay, Nanos::ZERO, "{name}");
        let mean_ms = measured.iter().map(|request| request.measured).sum::<Nanos>().as_ms()
            / measured.len() as f64;
        assert!((0.5..50.0).contains(&mean_ms), "{name}: {mean_ms} ms");
    };
    check("atlas10k", (10_000, 6569));
    check("barracuda", (10_000, 6511));
    check("cheetah4LP", (10_000, 6639));
    check("dec_rz26", (7980, 5424));
    check("hp_c3323a", (9074, 6113));
}
