//! `moirai model`: the analytic model of the thesis, without a device.

use clap::{Args, Subcommand};
use moirai::units::{BlockCount, ByteCount, Nanos};
use moirai::volume::QuadrangleDimensions;
use moirai_models::analytic::{
    SegmentCost, UnalignedAccess, VideoRound, quadrangle_revolutions, sequential_efficiency,
    switch_probability, transfer_inefficiency, unbounded_quadrangle_revolutions,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

/// The most sectors of a track: what is enumerated grows with their square.
const TRACK_SECTORS_MAX: u64 = 20_000;

#[derive(Subcommand)]
pub(crate) enum Command {
    Access(Access),
    Quadrangle(Quadrangle),
    StartupLatency(StartupLatency),
    WriteCost(WriteCost),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Access(arguments) => arguments.run(),
        Command::Quadrangle(arguments) => arguments.run(),
        Command::StartupLatency(arguments) => arguments.run(),
        Command::WriteCost(arguments) => arguments.run(),
    }
}

fn sectors(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(sectors) if (1..=TRACK_SECTORS_MAX).contains(&sectors) => Ok(sectors),
        _ => Err(format!("a number of sectors from 1 to {TRACK_SECTORS_MAX} is wanted")),
    }
}

/// A number above zero that is finite.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number above 0 is wanted".into()),
    }
}

/// Milliseconds.
fn ms(text: &str) -> Result<f64, String> {
    positive(text).and_then(|ms| if ms <= 1e9 { Ok(ms) } else { Err("at most 1e9 ms".into()) })
}

/// A number of segments, zero included.
fn segments(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number of segments is wanted".into()),
    }
}

fn size(text: &str) -> Result<ByteCount, String> {
    match text.parse::<ByteCount>() {
        Ok(size) if size.0 > 0 => Ok(size),
        Ok(_) => Err("a size above 0 is wanted".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// The equations hold for switches of less than a revolution.
fn check_skew(switch: u64, track: u64) -> Result<(), Failure> {
    if switch < track {
        return Ok(());
    }
    let problem = format!(
        "{switch} sectors pass in a switch, and a track has {track}: the model holds for switches of less than a revolution"
    );
    Err(Failure::Usage(problem))
}

/// Prints what is shown as JSON, or as a table of names and values.
fn show(shown: &impl Serialize, json: bool, rows: Vec<(&str, String)>) -> Result<(), Failure> {
    if json {
        return print::json(shown);
    }
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print::table(&[("quantity", false), ("value", true)], rows)
}

/// Expected time of a request on a track, and at a random place (thesis 6.3.4 and appendix A)
///
/// In revolutions, without the seek. A request at a random place may cross a track boundary. With zero-latency access the
/// published form for that (A.12) is approximate: the exact expectation, by enumeration, is beside it.
#[derive(Args)]
pub(crate) struct Access {
    /// N: sectors of a track
    #[arg(long, value_name = "N", value_parser = sectors)]
    sectors_per_track: u64,
    /// H: sectors that pass during a switch between tracks
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(0..=20_000))]
    head_switch: u64,
    /// S: sectors of the request, at most a track
    #[arg(long, value_name = "S", value_parser = sectors)]
    request: u64,
    /// The disk reads sectors in whatever order they pass the head
    #[arg(long)]
    zero_latency: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownAccess {
    aligned_revolutions: f64,
    unaligned_revolutions: f64,
    unaligned_exact_revolutions: f64,
    switch_probability: f64,
    improvement: f64,
    improvement_exact: f64,
}

impl Access {
    fn run(&self) -> Result<(), Failure> {
        let Access { sectors_per_track, head_switch, request, zero_latency, json } = *self;
        check_skew(head_switch, sectors_per_track)?;
        let access = UnalignedAccess::new(sectors_per_track, head_switch, request, zero_latency);
        let access = access.ok_or_else(|| {
            Failure::Usage(format!(
                "--request {request} is more than the {sectors_per_track} sectors of a track, for which the model holds"
            ))
        })?;
        let aligned = access.aligned_revolutions();
        let (closed, exact) = (access.revolutions(), access.exact_revolutions());
        let shown = ShownAccess {
            aligned_revolutions: aligned,
            unaligned_revolutions: closed,
            unaligned_exact_revolutions: exact,
            switch_probability: switch_probability(sectors_per_track, request),
            improvement: closed / aligned - 1.0,
            improvement_exact: exact / aligned - 1.0,
        };
        let revolutions = |number: f64| format!("{number:.4} revolutions");
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        show(
            &shown,
            json,
            vec![
                ("on one track (6.1, 6.2)", revolutions(aligned)),
                ("anywhere, as published (A.12)", revolutions(closed)),
                ("anywhere, enumerated", revolutions(exact)),
                ("crosses a boundary (A.1)", percent(shown.switch_probability)),
                ("longer than aligned, as published", percent(shown.improvement)),
                ("longer than aligned, enumerated", percent(shown.improvement_exact)),
            ],
        )
    }
}

/// Dimensions of a quadrangle, and the expected time of an access to it (thesis 6.3.3 to 6.3.5)
///
/// The deepest quadrangle whose blocks are read in one revolution (6.8 with blocks of one sector), or one of the depth that is
/// given; its longest blocks (6.7), how many of them a track has, and the sectors left over.
#[derive(Args)]
pub(crate) struct Quadrangle {
    /// N: sectors of a track
    #[arg(long, value_name = "N", value_parser = sectors)]
    sectors_per_track: u64,
    /// H: sectors that pass during a switch between tracks
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(0..=20_000))]
    track_skew: u64,
    /// d: tracks, in place of the most that are read in one revolution
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    depth: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownQuadrangle {
    depth_max: u32,
    depth: u32,
    block_sectors: u64,
    width_blocks: u64,
    residual_sectors: u64,
    access_revolutions: f64,
    sequential_efficiency: f64,
    quadrangle_efficiency: f64,
}

impl Quadrangle {
    fn run(&self) -> Result<(), Failure> {
        let Quadrangle { sectors_per_track, track_skew, depth, json } = *self;
        check_skew(track_skew, sectors_per_track)?;
        let (track, switch) = (BlockCount(sectors_per_track), BlockCount(track_skew));
        let depth_max = QuadrangleDimensions::depth_max(track, switch, BlockCount(1));
        let depth = depth.unwrap_or(depth_max);
        // Deeper ones have no block that is read in one revolution.
        let is_bounded = depth <= depth_max;
        let block = match is_bounded {
            true => QuadrangleDimensions::block_max(track, switch, depth),
            false => BlockCount(1),
        };
        if block == BlockCount::ZERO {
            let problem = format!(
                "no quadrangle: {track_skew} sectors pass in a switch, and a track has {sectors_per_track}"
            );
            return Err(Failure::Usage(problem));
        }
        let dimensions = QuadrangleDimensions { track, switch, depth, block };
        let time = match is_bounded {
            true => quadrangle_revolutions,
            false => unbounded_quadrangle_revolutions,
        };
        let access_revolutions = time(track.0, switch.0, block.0, u64::from(depth));
        let shown = ShownQuadrangle {
            depth_max,
            depth,
            block_sectors: block.0,
            width_blocks: dimensions.width(),
            residual_sectors: dimensions.residual().0,
            access_revolutions,
            sequential_efficiency: sequential_efficiency(track.0, switch.0),
            quadrangle_efficiency: 1.0 / access_revolutions,
        };
        let equation = if is_bounded { "(6.5)" } else { "(6.10: more than a revolution)" };
        show(
            &shown,
            json,
            vec![
                ("depth d, at most (6.8)", depth_max.to_string()),
                ("depth d", depth.to_string()),
                ("block b (6.7)", format!("{} sectors", block.0)),
                ("width w", format!("{} blocks", shown.width_blocks)),
                ("residual R", format!("{} sectors", shown.residual_sectors)),
                ("an access", format!("{access_revolutions:.4} revolutions {equation}")),
                ("efficiency in sequence (6.3)", format!("{:.3}", shown.sequential_efficiency)),
                ("efficiency of a quadrangle (6.9)", format!("{:.3}", shown.quadrangle_efficiency)),
            ],
        )
    }
}

/// Round, worst start-up latency and buffer of a video server (thesis 5.6)
#[derive(Args)]
pub(crate) struct StartupLatency {
    /// V: streams of each disk
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    streams: u64,
    /// Time of one access, in milliseconds: what `moirai replay` measures
    #[arg(long, value_name = "MS", value_parser = ms)]
    access_ms: f64,
    /// Size of one access
    #[arg(long, value_name = "SIZE", value_parser = size)]
    access: ByteCount,
    /// D: disks over which the data are spread
    #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disks: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownLatency {
    round_ms: f64,
    startup_latency_ms: f64,
    stream_mbit_per_s: f64,
    buffer_bytes: u64,
}

impl StartupLatency {
    fn run(&self) -> Result<(), Failure> {
        let access = Nanos::from_ms(self.access_ms);
        let round = VideoRound { streams: self.streams, access, disks: self.disks };
        let shown = ShownLatency {
            round_ms: round.round().as_ms(),
            startup_latency_ms: round.startup_latency().as_ms(),
            stream_mbit_per_s: round.stream_mbit_per_s(self.access),
            buffer_bytes: round.buffer(self.access).0,
        };
        show(
            &shown,
            self.json,
            vec![
                ("round", format!("{:.1} ms", shown.round_ms)),
                ("start-up latency, at worst", format!("{:.1} ms", shown.startup_latency_ms)),
                ("bit rate of a stream, at most", format!("{:.2} Mb/s", shown.stream_mbit_per_s)),
                ("buffer of a disk's streams", ByteCount(shown.buffer_bytes).to_string()),
            ],
        )
    }
}

/// Overall write cost of a log-structured file system (thesis 5.5)
///
/// Write cost times transfer inefficiency: the segments that are moved for each that the data fill, and how many times as long as
/// its transfer the access to one takes.
#[derive(Args)]
pub(crate) struct WriteCost {
    /// Size of a segment
    #[arg(long, value_name = "SIZE", value_parser = size)]
    segment: ByteCount,
    /// Average positioning time in milliseconds: seek and rotational latency
    #[arg(long, value_name = "MS", value_parser = ms)]
    positioning_ms: f64,
    /// Bandwidth of the disk, in million bytes a second
    #[arg(long, value_name = "MB", value_parser = positive)]
    mb_per_s: f64,
    /// Segments written with new data
    #[arg(long, value_name = "N", default_value = "1", value_parser = segments)]
    new_written: f64,
    /// Segments read to clean
    #[arg(long, value_name = "N", default_value = "0", value_parser = segments)]
    clean_read: f64,
    /// Segments written with what was live in them
    #[arg(long, value_name = "N", default_value = "0", value_parser = segments)]
    clean_written: f64,
    /// Segments that the data fill
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    data_written: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownCost {
    write_cost: f64,
    transfer_inefficiency: f64,
    overall_write_cost: f64,
}

impl WriteCost {
    fn run(&self) -> Result<(), Failure> {
        let WriteCost { new_written, clean_read, clean_written, data_written, .. } = *self;
        let cost = SegmentCost { new_written, clean_read, clean_written, data_written };
        let positioning = Nanos::from_ms(self.positioning_ms);
        let inefficiency = transfer_inefficiency(positioning, self.mb_per_s, self.segment);
        let shown = ShownCost {
            write_cost: cost.write_cost(),
            transfer_inefficiency: inefficiency,
            overall_write_cost: cost.overall_write_cost(inefficiency),
        };
        show(
            &shown,
            self.json,
            vec![
                ("write cost", format!("{:.3}", shown.write_cost)),
                ("transfer inefficiency", format!("{:.3}", shown.transfer_inefficiency)),
                ("overall write cost", format!("{:.3}", shown.overall_write_cost)),
            ],
        )
    }
}
