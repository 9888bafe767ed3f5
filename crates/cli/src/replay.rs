//! `moirai replay`: a trace of block I/O onto devices.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use moirai::devices::{NamedDrive, NamedModel};
use moirai::storage::{DeviceUri, Op};
use moirai::units::{ByteCount, grouped};
use moirai::volume::Description;
use moirai::{Access, NewFiles};
use moirai_replay::trace::{Format, TraceError, TraceReader, TraceRequest};
use moirai_replay::{Array, Devices, Drives, Options, Replayed, Summary, replay, stack};
use serde::Serialize;

use crate::failure::Failure;
use crate::{output, print, progress, run};

/// Replay a trace of block I/O onto one device, or each of the trace's devices onto a device of its own
///
/// Requests are issued at the trace's times (open loop), or so that N of them are always in flight (--closed N).
/// Simulated drives, and volumes of simulated drives alone, are stepped directly, at up to some million requests a
/// second; other devices are reached through the storage interface.
///
/// Formats: disksim, disksim-validate, spc, ssdsim (times in ns), ssdsim-us, msr-csv, blkparse, fio-iolog. With
/// `auto` the first lines decide; five columns of whole numbers count as ssdsim.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Device, as URI. One device takes all requests of the trace; of several, each takes those of one of the trace's
    /// devices, in their order
    #[arg(long = "device", value_name = "URI", required = true)]
    devices: Vec<String>,
    /// Trace to replay
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace, or auto
    #[arg(long, default_value = "auto")]
    format: String,
    /// Keep N requests in flight and ignore the trace's times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "time_scale")]
    closed: Option<u32>,
    /// Multiply the trace's times: 0.5 is twice as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    time_scale: f64,
    /// Wrap requests past the end of the device around to its start
    #[arg(long)]
    wrap: bool,
    /// Put the trace's devices one after the other on the one device; reads the trace twice
    #[arg(long, conflicts_with = "wrap")]
    stack: bool,
    /// CSV file to write each request's times and their parts into
    #[arg(long, value_name = "FILE")]
    per_request: Option<PathBuf>,
    #[command(flatten)]
    force: output::Force,
    /// Replay writes onto files, which destroys what they hold
    #[arg(long)]
    yes_destroy_data: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale >= 0.0 => Ok(scale),
        _ => Err("write a number of 0 or more".into()),
    }
}

#[derive(Serialize)]
struct Shown {
    devices: Vec<String>,
    trace: String,
    format: &'static str,
    requests: u64,
    reads: u64,
    bytes: u64,
    mean_response_ms: f64,
    p50_response_ms: f64,
    p95_response_ms: f64,
    p99_response_ms: f64,
    p999_response_ms: f64,
    max_response_ms: f64,
    /// Where the mean response time goes, for devices that know.
    parts_ms: Option<std::collections::BTreeMap<&'static str, f64>>,
    /// The part of the time that the mechanisms work, on average over the drives.
    utilisation: Option<f64>,
    mean_queue_depth: f64,
    max_queue_depth: u32,
    requests_per_virtual_s: f64,
    virtual_s: f64,
    /// Whether that was virtual time; of files it was real.
    is_virtual: bool,
    wall_s: f64,
    requests_per_wall_s: f64,
}

/// Bytes of a trace read at once, and looked at to find its format.
const READ_BYTES: usize = 256 << 10;

pub(crate) fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path)
        .map_err(|problem| Failure::Failed(format!("opening {}: {problem}", path.display())))?;
    Ok(BufReader::with_capacity(READ_BYTES, file))
}

/// Opens the trace at `path`, and finds its format where that is `auto`.
pub(crate) fn open_trace(
    path: &Path,
    format: &str,
) -> Result<(TraceReader<BufReader<File>>, Format), Failure> {
    let mut reader = open(path)?;
    let name = path.display().to_string();
    let format = match format {
        "auto" => {
            let head = reader
                .fill_buf()
                .map_err(|problem| Failure::Failed(format!("reading {name}: {problem}")))?;
            Format::detect(&name, head).map_err(|problem| Failure::Failed(problem.to_string()))?
        }
        given => given.parse().map_err(|problem| Failure::Usage(format!("{problem}")))?,
    };
    Ok((TraceReader::new(name, reader, format), format))
}

fn trace(arguments: &Arguments) -> Result<(TraceReader<BufReader<File>>, Format), Failure> {
    open_trace(&arguments.trace, &arguments.format)
}

/// Opens the trace for a look at all of it before the replay, which a pipe gives only once.
fn trace_before(
    arguments: &Arguments,
    reason: &str,
) -> Result<TraceReader<BufReader<File>>, Failure> {
    if !arguments.trace.is_file() {
        let trace = arguments.trace.display();
        let problem = format!("{trace} is not a file, and {reason} reads the trace twice");
        return Err(Failure::Usage(problem));
    }
    Ok(trace(arguments)?.0)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.force.needs_output(arguments.per_request.is_some())?;
    if let Some(path) = &arguments.per_request {
        let trace = arguments.trace.display().to_string();
        let inputs = arguments.devices.iter().chain([&trace]).map(String::as_str);
        arguments.force.check(path, &inputs.collect::<Vec<_>>())?;
    }
    if arguments.stack && arguments.devices.len() > 1 {
        let problem = "--stack puts the trace's devices on one device: give one --device";
        return Err(Failure::Usage(problem.into()));
    }
    let uris: Vec<DeviceUri> =
        arguments.devices.iter().map(|uri| uri.parse()).collect::<Result<_, _>>()?;
    let simulated = moirai::are_simulated(&arguments.devices)?;
    let mut all_drives = true;
    for uri in &uris {
        match drive(uri)? {
            Some(drive) => print::notes(&drive.notes),
            None => all_drives = false,
        }
    }
    let options = Options {
        closed: arguments.closed,
        time_scale: arguments.time_scale,
        wrap: arguments.wrap,
        stacked_at: match arguments.stack {
            true => stack(trace_before(arguments, "--stack")?)?,
            false => Vec::new(),
        },
    };
    if !simulated && !arguments.yes_destroy_data {
        refuse_writes(arguments, trace_before(arguments, "a look for writes")?)?;
    }
    let (requests, format) = trace(arguments)?;
    let bar = progress::spinner("replaying");
    let mut requests = with_progress(requests, &bar);
    let mut csv = match &arguments.per_request {
        Some(path) => Some(PerRequest::create(path)?),
        None => None,
    };
    let each = |replayed: &Replayed| csv.as_mut().map_or(Ok(()), |csv| csv.write(replayed));
    let watch = moirai::runtime::Stopwatch::start();
    let summary = if all_drives {
        let drives = arguments.devices.iter().zip(uris);
        let drives = drives.map(|(name, uri)| Ok((name.clone(), moirai::devices::model(uri)?)));
        let mut target = Drives::new(drives.collect::<Result<_, Failure>>()?);
        run::in_time(true, async {
            Ok::<_, Failure>(replay(&mut target, &mut requests, &options, each).await?)
        })?
    } else if let [uri] = uris.as_slice()
        && let Some(description) = described_drives(uri)?
    {
        run::in_time(true, async {
            let mut target = array(uri, &description)?;
            Ok::<_, Failure>(replay(&mut target, &mut requests, &options, each).await?)
        })?
    } else {
        run::in_time(simulated, async {
            // A file is created where its size is given: the trace is what is written to it.
            let files = NewFiles::new();
            let open = |uri| moirai::open_device_for_timing(uri, Access::Create(&files));
            let devices: Result<Vec<_>, _> =
                arguments.devices.iter().map(|uri| open(uri)).collect();
            let devices = match devices {
                Ok(devices) => devices,
                Err(error) => {
                    files.remove();
                    return Err(Failure::from(error));
                }
            };
            if arguments.yes_destroy_data && !simulated {
                let held = moirai::storage::occupants(&devices, true).await;
                for (index, occupant) in held.inspect_err(|_| files.remove())? {
                    let name = arguments.devices.get(index).map_or("", String::as_str);
                    print::note_of_loss(name, &occupant);
                }
            }
            let mut target = Devices::new(devices);
            let replayed = replay(&mut target, &mut requests, &options, each).await;
            Ok::<_, Failure>(replayed.inspect_err(|_| files.remove())?)
        })?
    };
    bar.finish_and_clear();
    let wall_s = watch.elapsed().as_s();
    if let Some(csv) = csv {
        csv.finish()?;
    }
    let shown = shown(arguments, format, &summary, simulated, wall_s);
    if arguments.json { print::json(&shown) } else { print_shown(&shown) }
}

/// The simulated drive that a URI names, to be stepped directly; `None` where it names something else.
fn drive(uri: &DeviceUri) -> Result<Option<NamedDrive>, Failure> {
    if uri.scheme != "sim" {
        return Ok(None);
    }
    Ok(match moirai::devices::named_model(&mut uri.clone())? {
        NamedModel::Disk(drive) => Some(*drive),
        NamedModel::Mems(..) | NamedModel::Ssd(_) => None,
    })
}

/// The description of a volume that is nothing but simulated drives.
fn described_drives(uri: &DeviceUri) -> Result<Option<Description>, Failure> {
    if uri.scheme != "volume" {
        return Ok(None);
    }
    let description = Description::read(Path::new(&uri.target))?;
    let mut are_drives = true;
    for device in &description.devices {
        are_drives &= drive(&device.parse()?)?.is_some();
    }
    let is_array = are_drives && description.parts.is_empty() && description.controller.is_none();
    Ok(is_array.then_some(description))
}

/// The volume's drives, to be stepped directly.
fn array(uri: &DeviceUri, description: &Description) -> Result<Array, Failure> {
    let open = |uri| moirai::devices::open_without_data(uri, Access::Read);
    let volume = moirai::volume::lay_out(Path::new(&uri.target), description, open)?;
    let drive = |device: &String| moirai::devices::model(device.parse()?);
    let drives = description.devices.iter().map(drive).collect::<Result<_, _>>()?;
    Ok(Array::new(uri.to_string(), volume.layout().clone(), drives))
}

/// An error when the trace has writes, which would destroy what a file holds.
fn refuse_writes(
    arguments: &Arguments,
    trace: TraceReader<BufReader<File>>,
) -> Result<(), Failure> {
    for request in trace {
        if request?.op == Op::Write {
            return Err(Failure::Usage(format!(
                "{} has writes, and replaying them destroys what {} holds: allow that with --yes-destroy-data",
                arguments.trace.display(),
                arguments.devices.join(" and ")
            )));
        }
    }
    Ok(())
}

/// Requests between two looks at the clock.
const PROGRESS_REQUESTS: u64 = 1 << 16;

fn with_progress<'a>(
    trace: TraceReader<BufReader<File>>,
    bar: &'a ProgressBar,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> + 'a {
    let mut read = 0u64;
    trace.inspect(move |_| {
        read += 1;
        if read.is_multiple_of(PROGRESS_REQUESTS) {
            bar.set_position(read);
        }
    })
}

/// The CSV file with a line for each request, in the order in which they finish.
struct PerRequest {
    path: PathBuf,
    out: BufWriter<File>,
}

impl PerRequest {
    fn create(path: &Path) -> Result<PerRequest, Failure> {
        let failed = |problem| Failure::Failed(format!("creating {}: {problem}", path.display()));
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(
            out,
            "request,device,rw,lbn,sectors,issued_ns,started_ns,finished_ns,response_ns,queue_ns,\
             overhead_ns,seek_ns,head_switch_ns,rotation_ns,media_ns,bus_ns"
        )
        .map_err(failed)?;
        Ok(PerRequest { path: path.to_owned(), out })
    }

    fn write(&mut self, replayed: &Replayed) -> std::io::Result<()> {
        let Replayed { request, device, op, blocks, done } = replayed;
        let op = if *op == Op::Read { 'R' } else { 'W' };
        let (lbn, sectors) = (blocks.first.0, blocks.count.0);
        let (issued, started, finished) = (done.issued.ns, done.started.ns, done.finished.ns);
        let response = done.finished.since(done.issued).0;
        write!(
            self.out,
            "{request},{device},{op},{lbn},{sectors},{issued},{started},{finished},{response}"
        )?;
        match done.parts {
            Some(parts) => writeln!(
                self.out,
                ",{},{},{},{},{},{},{}",
                parts.queue.0,
                parts.overhead.0,
                parts.seek.0,
                parts.head_switch.0,
                parts.rotation.0,
                parts.media.0,
                parts.bus.0
            ),
            None => writeln!(self.out, ",,,,,,,"),
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        let path = self.path.display();
        self.out.flush().map_err(|problem| Failure::Failed(format!("writing {path}: {problem}")))
    }
}

fn shown(
    arguments: &Arguments,
    format: Format,
    summary: &Summary,
    is_virtual: bool,
    wall_s: f64,
) -> Shown {
    let virtual_s = summary.span().as_s();
    let rate = |seconds: f64| if seconds > 0.0 { summary.requests() as f64 / seconds } else { 0.0 };
    Shown {
        devices: arguments.devices.clone(),
        trace: arguments.trace.display().to_string(),
        format: format.name(),
        requests: summary.requests(),
        reads: summary.reads(),
        bytes: summary.blocks() * 512,
        mean_response_ms: summary.mean_response_ms(),
        p50_response_ms: summary.response_percentile_ms(50.0),
        p95_response_ms: summary.response_percentile_ms(95.0),
        p99_response_ms: summary.response_percentile_ms(99.0),
        p999_response_ms: summary.response_percentile_ms(99.9),
        max_response_ms: summary.max_response_ms(),
        parts_ms: summary.mean_parts_ms().map(|parts| parts.into_iter().collect()),
        utilisation: summary.utilisation(),
        mean_queue_depth: summary.mean_under_way(),
        max_queue_depth: summary.max_under_way(),
        requests_per_virtual_s: rate(virtual_s),
        virtual_s,
        is_virtual,
        wall_s,
        requests_per_wall_s: rate(wall_s),
    }
}

fn print_shown(shown: &Shown) -> Result<(), Failure> {
    let ms = |value: f64| format!("{value:.3} ms");
    let reads = shown.reads as f64 / (shown.requests as f64).max(1.0);
    let mut rows = vec![
        ("format", shown.format.to_owned()),
        ("requests", grouped(shown.requests)),
        ("reads", format!("{:.1} %", reads * 100.0)),
        ("moved", ByteCount(shown.bytes).to_string()),
        ("mean response", ms(shown.mean_response_ms)),
        ("median", ms(shown.p50_response_ms)),
        ("95 %", ms(shown.p95_response_ms)),
        ("99 %", ms(shown.p99_response_ms)),
        ("99.9 %", ms(shown.p999_response_ms)),
        ("longest", ms(shown.max_response_ms)),
        ("queue depth, mean", format!("{:.2}", shown.mean_queue_depth)),
        ("queue depth, most", grouped(shown.max_queue_depth)),
    ];
    if let Some(utilisation) = shown.utilisation {
        rows.push(("utilisation", format!("{:.1} %", utilisation * 100.0)));
    }
    let time = if shown.is_virtual { "virtual time" } else { "time on the devices" };
    rows.push((time, format!("{:.3} s", shown.virtual_s)));
    rows.push(("requests a second in it", format!("{:.1}", shown.requests_per_virtual_s)));
    rows.push(("real time", format!("{:.3} s", shown.wall_s)));
    let rate = grouped(shown.requests_per_wall_s as u64);
    rows.push(("requests a real second", rate));
    let cells = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print::table(&[("figure", false), ("value", true)], cells)?;
    let Some(parts) = &shown.parts_ms else { return Ok(()) };
    print::line("\nWhere the mean response time goes:")?;
    let order = ["queue", "overhead", "seek", "head_switch", "rotation", "media", "bus"];
    let rows = order.iter().filter_map(|name| {
        let part = parts.get(name)?;
        let share = part / shown.mean_response_ms.max(f64::MIN_POSITIVE) * 100.0;
        Some(vec![name.replace('_', " "), ms(*part), format!("{share:.1} %")])
    });
    print::table(&[("part", false), ("mean", true), ("share", true)], rows.collect())
}
