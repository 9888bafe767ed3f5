//! `moirai volume show` and `map`.

use std::path::Path;
use std::sync::Arc;

use moirai::Access;
use moirai::storage::{Device, DeviceUri};
use moirai::units::{BlockCount, ByteCount, Lbn, grouped};
use moirai::volume::{
    Description, DevicesThere, DiskIndex, Inspection, MemberState, Part, QuadrangleZone, Volume,
    lay_out,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, run};

#[derive(Serialize)]
struct Shown {
    level: String,
    layout: &'static str,
    capacity_bytes: u64,
    raw_capacity_bytes: u64,
    /// Devices that may fail now, whichever they are, without a block being lost.
    survives_failures: usize,
    /// Whether blocks have checksums.
    integrity: bool,
    parallelism: u32,
    depth: u32,
    volume_block_blocks: u64,
    /// While the volume grows: stripes moved, and stripes in all.
    moved: Option<(u64, u64)>,
    quadrangles: Vec<ShownZone>,
    disks: Vec<ShownDisk>,
}

#[derive(Serialize)]
pub(super) struct ShownDisk {
    /// The device, unless it failed or is missing.
    device: Option<String>,
    /// `ready`, `rebuilding`, `failed` or `missing`.
    state: &'static str,
    /// How much of a disk that is being rebuilt is ready.
    ready_percent: Option<f64>,
    /// The device of a disk that failed, when it is there.
    failed_device: Option<String>,
}

impl ShownDisk {
    /// A disk whose device has no label.
    fn unlabelled(device: &Arc<dyn Device>) -> ShownDisk {
        let device = Some(device.inquiry().name.clone());
        ShownDisk { device, state: "ready", ready_percent: None, failed_device: None }
    }

    /// The name of its device, or why it has none.
    pub(super) fn name(self) -> String {
        self.device.unwrap_or_else(|| self.state.to_owned())
    }

    fn labelled(
        index: DiskIndex,
        there: &DevicesThere,
        inspection: &Inspection,
    ) -> Option<ShownDisk> {
        let disk = inspection.disks.get(index.0)?;
        let stripes = inspection.volume.layout().stripes();
        let device = there.uri(disk).map(str::to_owned);
        let failed_device = match device {
            Some(_) => None,
            None => there.stale_uri(index, inspection).map(str::to_owned),
        };
        let (state, ready_percent) = match disk.state {
            MemberState::Failed => ("failed", None),
            _ if device.is_none() => ("missing", None),
            MemberState::Ready => ("ready", None),
            MemberState::Rebuilding(ready) => {
                ("rebuilding", Some(ready as f64 / stripes as f64 * 100.0))
            }
        };
        Some(ShownDisk { device, state, ready_percent, failed_device })
    }
}

#[derive(Serialize)]
struct ShownZone {
    zone: usize,
    track_blocks: u64,
    switch_blocks: u64,
    width: u64,
    residual_blocks: u64,
    quadrangles: u64,
    tracks_passed_over: u64,
}

/// Shows the volume that the file at `path` describes.
pub(super) fn show(path: &Path, json: bool) -> Result<(), Failure> {
    let description = Description::read(path)?;
    if !description.parts.is_empty() {
        return show_parts(path, &description, json);
    }
    with_volume(path, |volume, disks| print_volume(volume, disks, json))
}

#[derive(Serialize)]
struct ShownParts {
    layout: &'static str,
    capacity_bytes: u64,
    parts: Vec<ShownPart>,
}

#[derive(Serialize)]
struct ShownPart {
    first_lbn: u64,
    capacity_bytes: u64,
    device: String,
}

fn show_parts(path: &Path, description: &Description, json: bool) -> Result<(), Failure> {
    // A volume that contains itself is an error.
    moirai::are_simulated(&description.uris())?;
    let mut first = Lbn(0);
    let part = |part: &Part| {
        let blocks = BlockCount(part.blocks);
        let (device, capacity_bytes) = (part.uri.clone(), blocks.bytes().0);
        let shown = ShownPart { first_lbn: first.0, capacity_bytes, device };
        first += blocks;
        shown
    };
    let parts = description.parts.iter().map(part).collect();
    let capacity_bytes = first.since(Lbn(0)).bytes().0;
    let shown = ShownParts { layout: "parts", capacity_bytes, parts };
    if json {
        return print::json(&shown);
    }
    print::line(format!("volume:{}: {}", path.display(), ByteCount(shown.capacity_bytes)))?;
    let row = |part: &ShownPart| {
        vec![
            grouped(part.first_lbn),
            ByteCount(part.capacity_bytes).to_string(),
            part.device.clone(),
        ]
    };
    let columns = [("first LBN", true), ("capacity", true), ("part", false)];
    print::table(&columns, shown.parts.iter().map(row).collect())
}

/// Shows where block `lbn` lies.
pub(super) fn map(path: &Path, lbn: Lbn, all: bool, json: bool) -> Result<(), Failure> {
    with_volume(path, |volume, _| print_map(volume, lbn, all, json))
}

/// Gives the volume that the file at `path` describes and its disks to `f`, without opening it where the
/// devices have labels.
pub(super) fn with_volume<T>(
    path: &Path,
    f: impl FnOnce(&Volume, Vec<ShownDisk>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let description = Description::read(path)?;
    if let [first, ..] = description.parts.as_slice() {
        return Err(Failure::Failed(format!(
            "{}: the volume consists of parts, which have their own layouts: name a part, such as {}",
            path.display(),
            first.uri
        )));
    }
    run::in_time(moirai::are_simulated(&description.devices)?, async {
        if !description.labels {
            let volume = lay_out(path, &description, to_read)?;
            let disks = volume.devices().iter().map(ShownDisk::unlabelled).collect();
            return f(&volume, disks);
        }
        let there = DevicesThere::of(path, &description.devices, to_read)?;
        let inspection = there.inspect().await?;
        let disks = (0..inspection.disks.len()).map(DiskIndex);
        let shown = disks.filter_map(|disk| ShownDisk::labelled(disk, &there, &inspection));
        f(&inspection.volume, shown.collect())
    })
}

fn to_read(uri: DeviceUri) -> moirai::storage::Result<Arc<dyn Device>> {
    match uri.scheme.as_str() {
        // A stripe over volumes: where their own blocks lie, each of them shows.
        "volume" => moirai::open_device_for_timing(&uri.to_string(), Access::Read),
        _ => moirai::devices::open(uri, Access::Read),
    }
}

fn print_volume(volume: &Volume, disks: Vec<ShownDisk>, json: bool) -> Result<(), Failure> {
    let (inquiry, layout) = (volume.inquiry(), volume.layout());
    let devices = volume.devices();
    // For a disk that is gone another stands in.
    let is_there = |(disk, device): &(usize, &Arc<dyn Device>)| {
        !devices.iter().take(*disk).any(|other| Arc::ptr_eq(other, device))
    };
    let raw = devices.iter().enumerate().filter(is_there);
    let raw = raw.map(|(_, device)| device.inquiry().capacity.bytes().0);
    let shown = Shown {
        level: layout.level().to_string(),
        layout: if volume.quadrangles().is_empty() { "stripe" } else { "quadrangle" },
        capacity_bytes: inquiry.capacity.bytes().0,
        raw_capacity_bytes: raw.sum(),
        survives_failures: volume.survives(),
        integrity: volume.has_checksums(),
        parallelism: inquiry.parallelism,
        depth: inquiry.depth,
        volume_block_blocks: inquiry.volume_block.0,
        moved: volume.moved(),
        quadrangles: volume.quadrangles().iter().map(ShownZone::from).collect(),
        disks,
    };
    if json {
        return print::json(&shown);
    }
    // What disks that are gone had is not known.
    let share = match shown.disks.iter().all(|disk| disk.device.is_some()) {
        true => {
            let percent = shown.capacity_bytes as f64 / shown.raw_capacity_bytes as f64 * 100.0;
            format!(", {percent:.1} % of the devices")
        }
        false => String::new(),
    };
    let mut facts = vec![
        ("level", shown.level.clone()),
        (
            "survives",
            match volume.is_whole() {
                true => survives(shown.survives_failures, layout.level().failures(layout.disks())),
                false => format!(
                    "nothing now: too many disks failed or are missing for {}, and blocks are lost until one is back",
                    shown.level
                ),
            },
        ),
        ("checksums", if shown.integrity { "of each block".into() } else { "none".into() }),
        ("layout", layout_text(volume)),
        ("capacity", format!("{}{share}", inquiry.capacity.bytes())),
        ("parallelism p", shown.parallelism.to_string()),
        ("depth d", shown.depth.to_string()),
        ("volume block b", inquiry.volume_block.to_string()),
    ];
    if let Some((moved, all)) = shown.moved {
        let note = format!("{} of {} stripes are moved", grouped(moved), grouped(all));
        facts.push(("growing", note));
    }
    print::table(
        &[("volume", false), (inquiry.name.as_str(), false)],
        facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    )?;
    if !shown.quadrangles.is_empty() {
        print::line("")?;
        let columns = [
            "zone",
            "track N",
            "switch H",
            "width w",
            "residual R",
            "quadrangles",
            "tracks unused",
        ];
        let row = |zone: &ShownZone| {
            let numbers = [
                zone.zone as u64,
                zone.track_blocks,
                zone.switch_blocks,
                zone.width,
                zone.residual_blocks,
                zone.quadrangles,
                zone.tracks_passed_over,
            ];
            numbers.map(grouped).to_vec()
        };
        print::table(
            &columns.map(|name| (name, true)),
            shown.quadrangles.iter().map(row).collect(),
        )?;
    }
    print::line("")?;
    let row = |(index, disk): (usize, &ShownDisk)| {
        let state = match disk.ready_percent {
            Some(percent) => format!("{}, {percent:.1} % done", disk.state),
            None => disk.state.to_owned(),
        };
        let device = disk.device.as_ref().or(disk.failed_device.as_ref());
        vec![index.to_string(), state, device.cloned().unwrap_or_default()]
    };
    print::table(
        &[("disk", true), ("state", false), ("device", false)],
        shown.disks.iter().enumerate().map(row).collect(),
    )
}

fn layout_text(volume: &Volume) -> String {
    match volume.quadrangles() {
        [] => format!("stripe, units of {}", volume.layout().unit_max().bytes()),
        _ => "quadrangle".to_owned(),
    }
}

/// What a volume survives now, and what its level survives when all disks are ready.
fn survives(now: usize, level: usize) -> String {
    let devices = |count| {
        if count == 1 { "1 failed device".into() } else { format!("{count} failed devices") }
    };
    match now == level {
        true => devices(now),
        false => format!("{} now; {} once all disks are ready", devices(now), devices(level)),
    }
}

impl From<&QuadrangleZone> for ShownZone {
    fn from(zone: &QuadrangleZone) -> ShownZone {
        let dimensions = &zone.dimensions;
        ShownZone {
            zone: zone.zone,
            track_blocks: dimensions.track.0,
            switch_blocks: dimensions.switch.0,
            width: dimensions.width(),
            residual_blocks: dimensions.residual().0,
            quadrangles: zone.quadrangles,
            tracks_passed_over: zone.passed_over,
        }
    }
}

#[derive(Serialize)]
struct Mapped {
    lbn: u64,
    disk: usize,
    disk_lbn: u64,
    ensemble: [u64; 2],
    parallel_ensemble: [u64; 2],
    equivalent: Vec<MappedBlock>,
}

#[derive(Serialize)]
struct MappedBlock {
    lbn: u64,
    disk: usize,
    disk_lbn: u64,
}

fn print_map(volume: &Volume, lbn: Lbn, all: bool, json: bool) -> Result<(), Failure> {
    let location = volume.locate(lbn)?;
    let ensemble = volume.ensemble(lbn)?.blocks;
    let parallel = volume.parallel_ensemble(lbn)?;
    let class = volume.equivalent(lbn)?;
    let mut equivalent = Vec::new();
    for member in &class.lbns {
        let location = volume.locate(*member)?;
        equivalent.push(MappedBlock {
            lbn: member.0,
            disk: location.disk.0,
            disk_lbn: location.dlbn.0,
        });
    }
    let mapped = Mapped {
        lbn: lbn.0,
        disk: location.disk.0,
        disk_lbn: location.dlbn.0,
        ensemble: [ensemble.first.0, ensemble.end().0],
        parallel_ensemble: [parallel.first.0, parallel.end().0],
        equivalent,
    };
    if json {
        return print::json(&mapped);
    }
    print::line(format!("{lbn} is {} on disk {}", location.dlbn, location.disk.0))?;
    print::line(format!("ensemble           {ensemble}"))?;
    print::line(format!("parallel ensemble  {parallel}"))?;
    let parallelism = class.parallelism as usize;
    if mapped.equivalent.len() <= 1 {
        return print::line("equivalence class  the block alone");
    }
    let rows = mapped.equivalent.len() / parallelism.max(1);
    let how = match rows {
        1 => "accessed in parallel".to_owned(),
        _ => format!(
            "the {parallelism} of a row are accessed in parallel, the {rows} of a column semi-sequentially"
        ),
    };
    print::line(format!(
        "equivalence class  {} blocks: {how}\n\nEach cell is an LBN of the volume, with its disk and its LBN there.",
        mapped.equivalent.len()
    ))?;
    let shown = if all { rows } else { MAP_ROWS.min(rows) };
    let cell = |block: &MappedBlock| format!("{}  ({}: {})", block.lbn, block.disk, block.disk_lbn);
    let cells = mapped.equivalent.chunks(parallelism.max(1));
    let cells = cells.take(shown).map(|row| row.iter().map(cell).collect());
    let titles: Vec<String> = (0..parallelism).map(|column| format!("column {column}")).collect();
    let columns: Vec<(&str, bool)> = titles.iter().map(|title| (title.as_str(), false)).collect();
    print::table(&columns, cells.collect())?;
    if shown < rows {
        print::line(format!("... and {} rows more: --all shows them", rows - shown))?;
    }
    Ok(())
}

/// Rows of an equivalence class that `map` shows without `--all`.
const MAP_ROWS: usize = 12;
