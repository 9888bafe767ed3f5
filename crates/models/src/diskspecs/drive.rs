//! `disksim_disk`: electronics and cache, and the `dm_disk` that it names.

use std::collections::BTreeMap;

use super::parameters::Parameters;
use super::{Block, DiskspecsError, Imported, Load, layout, mechanism};
use crate::profile::{CYLINDERS_MAX, SEGMENTS_MAX};
use crate::{
    CacheFile, ExtraDisconnectFile, ImmediateReport, OverheadsFile, ProfileFile, ReadAhead,
    Scheduler,
};

/// What a file that leaves the transfer rate to a bus it does not have is given: synchronous SCSI-1,
/// 5 million bytes a second, the bus of the drives that such files are of.
const BUS_MB_PER_S_ASSUMED: f64 = 5.0;

/// The source of that, in the profile.
pub const BUS_ASSUMED: &str =
    "interpolated: synchronous SCSI-1; the file leaves it to the machine's bus";

/// The two drives of this level whose measured traces are known lose their read data at each write:
/// of 36 reads that would have hit them right after one, none did.
const LIMITED_FAST_WRITE: &str = "`Fast write level` is 1 (limited): writes are reported complete \
    when their data are in the buffer, and a write discards the data read before.";

const LONG_WRITES: &str = "`Low (write) water mark` and `Hold bus entire write xfer` matter to writes longer than a segment alone, \
    whose data are taken at once here.";

/// DiskSim gives no credit for sectors read out of order unless the drive also reads any free block.
const NO_FREE_BLOCKS: &str = "`Immediate buffer read` without `Read any free blocks` changes no time \
    in DiskSim; zero-latency reads are off.";

const BLOCKS_MAX: u64 = 1 << 50;

/// Parameters that say nothing of the drive, or only how DiskSim is to compute.
const NOT_OF_THE_DRIVE: [&str; 3] =
    ["Print stats", "Avg sectors per cylinder", "Calc sector by sector"];

/// DiskSim has a drive with `Extra write disconnect` write nothing before so many blocks are in the buffer (15 of 45 and more, which
/// is left out here).
const EXTRA_DISCONNECT_START_BLOCKS: u64 = 10;

/// Parameters whose value 0 is what a profile does: any other is noted.
const ZERO_EXPECTED: [&str; 7] = [
    "Allow sneaky full read hits",
    "Allow sneaky partial read hits",
    "Allow sneaky intermediate read hits",
    "Allow write prebuffering",
    "Preseeking level",
    "Minimum read-ahead (blks)",
    "Disconnect write if seek",
];

/// Parameters whose value 1 is what a profile does.
const ONE_EXPECTED: [&str; 3] =
    ["Write hit stop prefetch", "Read directly to buffer", "Immed transfer partial hit"];

pub(super) fn convert(
    block: &Block,
    all: &[Block],
    load: &mut Load<'_>,
) -> Result<Imported, DiskspecsError> {
    let given = Parameters::of(block);
    let mut notes = Vec::new();
    let model = match given.block("Model") {
        Ok(Some(model)) => model,
        Ok(None) => return Err(given.error("Model", "missing")),
        // A name of a block that stands elsewhere.
        Err(error) => {
            let name = given.word("Model")?;
            all.iter().find(|other| Some(other.name.as_str()) == name).ok_or(error)?
        }
    };
    let disk = Parameters::of(model);
    if model.kind != "dm_disk" {
        return Err(model.place.error(format!("expected a `dm_disk`, found `{}`", model.kind)));
    }
    let needed = |name: &str| match disk.block(name) {
        Ok(Some(block)) => Ok(block),
        Ok(None) => Err(disk.error(name, "missing")),
        Err(error) => Err(error),
    };
    let heads = disk.needed_count("Number of data surfaces", 256)? as u32;
    let layout = layout::convert(needed("Layout Model")?, &mut notes)?;
    let cylinders =
        layout.zones.last().map_or(0, |zone| zone.first_cylinder.unwrap_or(0) + zone.cylinders);
    let stated = disk.count("Number of cylinders", CYLINDERS_MAX)?;
    if stated != 0 && stated != u64::from(cylinders) {
        notes.push(format!(
            "`Number of cylinders` is {stated}, the zones end with cylinder {cylinders}; \
             the profile follows the zones."
        ));
    }
    let mechanism = mechanism::convert(needed("Mechanical Model")?, cylinders, &mut notes, load)?;
    let blocks = disk.count("Block count", BLOCKS_MAX)?;
    for name in disk.left_over() {
        notes.push(format!("`{name}` of the disk model is not represented."));
    }

    let bus = bus_mb_per_s(&given, all)?;
    if bus.is_none() {
        notes.push(format!(
            "`Bulk sector transfer time` is 0, which leaves the rate to the bus of a `.parv` file; \
             {BUS_MB_PER_S_ASSUMED} MB/s are assumed (synchronous SCSI-1)."
        ));
    }
    let bus_mb_per_s = bus.map_or(BUS_MB_PER_S_ASSUMED, |(read, _)| read);
    let write_bus_mb_per_s = bus.map(|(_, write)| write).filter(|write| *write != bus_mb_per_s);
    let overheads = overheads(&given)?;
    let cache = cache(&given, &mut notes)?;
    let read_watermark = given.number("High (read) water mark", 0.0, 1.0)?.unwrap_or(0.0);
    let of_request = given.flag("Set watermark by reqsize")?;
    let immediate_read = given.flag("Immediate buffer read")?;
    let zero_latency_read = immediate_read && given.flag("Read any free blocks")?;
    if immediate_read && !zero_latency_read {
        notes.push(NO_FREE_BLOCKS.into());
    }
    let zero_latency_write = given.flag("Immediate buffer write")?;
    let low_mark = given.number("Low (write) water mark", 0.0, 1.0)?.is_some_and(|mark| mark > 0.0);
    if given.flag("Hold bus entire write xfer")? || low_mark {
        notes.push(LONG_WRITES.into());
    }
    if read_watermark > 0.0 && !of_request {
        notes.push(
            "`High (read) water mark` is a share of the segment; the profile takes a share of the \
             request."
                .into(),
        );
    }
    let missing = given.missing();
    if !missing.is_empty() {
        notes.push(format!("The file does not give {}; the profile has 0.", missing.join(", ")));
    }
    let scheduler = note_the_rest(&given, &mut notes)?;

    let source = |what: &str| format!("extracted: {what} of {}", block.place.file);
    let mut sources = BTreeMap::new();
    for key in ["heads", "rotation_rpm", "head_switch_ms", "write_settle_ms", "zones", "sparing"] {
        sources.insert(key.to_owned(), source("the disk model"));
    }
    let seek = if mechanism.seek.is_some() { "seek" } else { "seek_ms" };
    sources.insert(seek.to_owned(), source("the disk model"));
    sources.insert("track_order".to_owned(), source("the disk model"));
    for key in ["zero_latency_read", "zero_latency_write", "overheads", "bus_in_order"] {
        sources.insert(key.to_owned(), source("the electronics"));
    }
    let bus_source = match bus {
        Some(_) => source("the electronics or the bus"),
        None => BUS_ASSUMED.into(),
    };
    sources.insert("bus_mb_per_s".to_owned(), bus_source);
    sources.insert("read_watermark".to_owned(), source("the electronics"));
    if cache.is_some() {
        sources.insert("cache".to_owned(), source("the electronics"));
    }
    let mut profile = ProfileFile {
        name: profile_name(&block.name),
        description: format!("{}, from DiskSim's parameters", block.name),
        heads,
        rotation_rpm: mechanism.rotation_rpm,
        head_switch_ms: mechanism.head_switch_ms,
        write_settle_ms: mechanism.write_settle_ms,
        zero_latency_read,
        zero_latency_write,
        bus_mb_per_s,
        write_bus_mb_per_s,
        bus_in_order: true,
        holds_bus: given.flag("Hold bus entire read xfer")? || given.flag("Never disconnect")?,
        read_watermark,
        diagnostic_ms: None,
        capacity_blocks: None,
        seek_ms: mechanism.seek_ms,
        track_order: layout.track_order,
        sparing: layout.sparing,
        seek: mechanism.seek,
        overheads,
        cache,
        zones: layout.zones,
        sources,
    };
    read_to_track_end(&mut profile);
    drop_bad_remaps(&mut profile, &mut notes);
    check_capacity(&mut profile, blocks, &mut notes);
    Ok(Imported { profile, notes, bus_assumed: bus.is_none(), scheduler })
}

/// The bus's rates for reads and for writes: for each the slowest of the drive's own and those of the file's buses. `None` where
/// neither is given.
fn bus_mb_per_s(
    given: &Parameters<'_>,
    all: &[Block],
) -> Result<Option<(f64, f64)>, DiskspecsError> {
    let own_ms = given.ms("Bulk sector transfer time")?;
    let (mut read_ms, mut write_ms) = (own_ms, own_ms);
    for bus in all.iter().filter(|block| block.kind == "disksim_bus") {
        let bus = Parameters::of(bus);
        read_ms = read_ms.max(bus.ms("Read block transfer time")?);
        write_ms = write_ms.max(bus.ms("Write block transfer time")?);
    }
    // A rate that is not given is the other's.
    let either = |ms: f64, other: f64| if ms > 0.0 { ms } else { other };
    let (read_ms, write_ms) = (either(read_ms, write_ms), either(write_ms, read_ms));
    Ok((read_ms > 0.0).then(|| (0.512 / read_ms, 0.512 / write_ms)))
}

fn overheads(given: &Parameters<'_>) -> Result<OverheadsFile, DiskspecsError> {
    let scale = given.number("Time scale for overheads", 0.0, 1000.0)?.unwrap_or(1.0);
    let each = given.ms("Per-request overhead time")? * scale;
    let prepare = given.ms("Data preparation overhead")? * scale;
    let scaled = |name: &str| given.ms(name).map(|ms| ms * scale);
    let first = |name: &str, more: f64| Ok(Some(scaled(name)? + more + each));
    // Writes that wait for the media pay the overheads of a miss, and others those of a hit, for the data and for the arm.
    let (after_read, after_write) = match given.count("Fast write level", 2)? {
        0 => ("Write miss over. after read", "Write miss over. after write"),
        _ => ("Write hit over. after read", "Write hit over. after write"),
    };
    let reselect = scaled("First reselect overhead")?;
    // A drive that never leaves the bus need not come back for what it read.
    let leaves = !given.flag("Never disconnect")?;
    let leaving = |ms: f64| if leaves { ms } else { 0.0 };
    let arm = scaled("Extradisc command overhead")?;
    let after_arm = scaled("Extradisc seek delta")?;
    let until_free = arm + scaled("Extradisc disconnect overhead")?;
    let between = given.ms("Extradisc inter-disconnect delay")?;
    let extra_disconnect = ExtraDisconnectFile {
        arm_ms: arm + after_arm + each,
        data_ms: until_free + between + reselect + prepare + each,
        disconnect_ms: scaled("Extradisc 2nd disconnect overhead")?,
        reconnect_ms: scaled("Other reselect overhead")?,
    };
    Ok(OverheadsFile {
        command_ms: 0.0,
        read_hit_after_read_ms: first("Read hit over. after read", prepare)?,
        read_hit_after_write_ms: first("Read hit over. after write", prepare)?,
        read_miss_after_read_ms: first("Read miss over. after read", 0.0)?,
        read_miss_after_write_ms: first("Read miss over. after write", 0.0)?,
        write_hit_after_read_ms: first(after_read, prepare)?,
        write_hit_after_write_ms: first(after_write, prepare)?,
        write_miss_after_read_ms: first(after_read, 0.0)?,
        write_miss_after_write_ms: first(after_write, 0.0)?,
        reconnect_ms: leaving(reselect + prepare),
        read_completion_ms: scaled("Read completion overhead")?,
        write_completion_ms: scaled("Write completion overhead")?,
        read_disconnect_after_read_ms: leaving(scaled("Read disconnect afterread")?),
        read_disconnect_after_write_ms: leaving(scaled("Read disconnect afterwrite")?),
        write_disconnect_ms: scaled("Write disconnect overhead")?,
        write_reconnect_ms: reselect,
        write_positioning_least_ms: given.ms("Minimum seek delay")?,
        extra_disconnect: given.flag("Extra write disconnect")?.then_some(extra_disconnect),
    })
}

fn cache(
    given: &Parameters<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<CacheFile>, DiskspecsError> {
    let segments = given.count("Number of buffer segments", SEGMENTS_MAX)?.max(1);
    let segment_blocks = given.count("Segment size (in blks)", 1 << 30)?.max(1);
    let write_segments =
        given.count("Maximum number of write segments", SEGMENTS_MAX)?.clamp(1, segments);
    let starts_late = given.flag("Extra write disconnect")?;
    let policy = "Buffer continuous read";
    let read_ahead = match given.count(policy, 1000)? {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 => ReadAhead::Segment,
        4 => ReadAhead::NextTrack,
        other => return Err(given.error(policy, &format!("{other} is not known: 0 to 4 are"))),
    };
    let most = given.count("Maximum read-ahead (blks)", 1 << 30)?;
    let kept = given.number("Read-ahead over requested", -1.0, 1.0)?.unwrap_or(0.0);
    let fast_write = given.count("Fast write level", 2)?;
    let immediate_report =
        if fast_write == 0 { ImmediateReport::None } else { ImmediateReport::All };
    if fast_write == 1 {
        notes.push(LIMITED_FAST_WRITE.into());
    }
    let file = CacheFile {
        segments: segments as u32,
        segment_blocks,
        adaptive: false,
        separate_write_segment: given.flag("Use separate write segment")? && segments > 1,
        write_start_blocks: starts_late.then_some(EXTRA_DISCONNECT_START_BLOCKS),
        write_segments: write_segments as u32,
        read_ahead,
        read_ahead_blocks: (most > 0).then_some(most),
        resume_on_hit: given.flag("Read-ahead on idle hit")?,
        read_while_waiting: given.flag("Read any free blocks")?,
        hit_on_arriving: given.flag("Allow almost read hits")?,
        discard_sent: kept < 0.0,
        write_drops_reads: fast_write == 1,
        hit_on_written: given.flag("Allow read hits on write data")?,
        stop_within_sector: given.flag("Stop prefetch in sector")?,
        immediate_report,
        combine_writes: given.flag("Combine seq writes")?,
    };
    if given.count("Enable caching in buffer", 2)? == 2 {
        notes.push("`Enable caching in buffer` is 2; a profile behaves as for 1.".into());
    }
    Ok(given.flag("Enable caching in buffer")?.then_some(file))
}

/// Parameters without a place in a profile: those that matter are named. Gives the scheduler, which
/// is no part of a profile either.
fn note_the_rest(
    given: &Parameters<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Scheduler>, DiskspecsError> {
    for name in NOT_OF_THE_DRIVE {
        given.number(name, 0.0, 1e9)?;
    }
    for (names, expected) in [(ZERO_EXPECTED.as_slice(), 0.0), (ONE_EXPECTED.as_slice(), 1.0)] {
        for name in names {
            let value = given.number(name, -1.0, 1e9)?.unwrap_or(expected);
            if value != expected {
                notes.push(format!("`{name}` is {value}; a profile behaves as for {expected}."));
            }
        }
    }
    if given.count("Max queue length", 1 << 30)? == 1 {
        notes.push(
            "`Max queue length` is 1; a simulated disk accepts any number of requests.".into(),
        );
    }
    let mut of_the_file = None;
    if let Some(scheduler) = given.block("Scheduler")? {
        let scheduler = Parameters::of(scheduler);
        let policy = scheduler.count("Scheduling policy", 1000)?;
        if policy == 1 {
            of_the_file = Some(Scheduler::Fcfs);
        } else {
            notes.push(format!(
                "`Scheduling policy` is {policy}; `?scheduler=` in the URI of the disk \
                 sets the order."
            ));
        }
    }
    for name in given.left_over() {
        let value = given.number(name, f64::MIN, f64::MAX).ok().flatten();
        if value != Some(0.0) {
            notes.push(format!("`{name}` is not represented."));
        }
    }
    Ok(of_the_file)
}

/// Reading ahead to the end of a track minds no maximum in DiskSim, and no segment: it may read two tracks.
fn read_to_track_end(profile: &mut ProfileFile) {
    let longest = profile.zones.iter().map(|zone| u64::from(zone.track_sectors)).max();
    if let Some(cache) =
        profile.cache.as_mut().filter(|cache| cache.read_ahead == ReadAhead::NextTrack)
    {
        cache.read_ahead_blocks = longest.map(|longest| 2 * longest);
    }
}

/// Leaves out remaps to places that hold blocks themselves, which no disk could have.
fn drop_bad_remaps(profile: &mut ProfileFile, notes: &mut Vec<String>) {
    for index in 0..profile.zones.len() {
        let mut alone = profile.clone();
        let Some(zone) = profile.zones.get_mut(index).filter(|zone| !zone.remapped.is_empty())
        else {
            continue;
        };
        alone.zones = vec![zone.clone()];
        if crate::Profile::new(alone.clone()).is_ok() {
            continue;
        }
        if let Some(only) = alone.zones.first_mut() {
            only.remapped.clear();
        }
        if crate::Profile::new(alone).is_ok() {
            notes.push(format!(
                "zone {index}: its remapped defects do not fit its spares and are left out."
            ));
            zone.remapped.clear();
        }
    }
}

/// The zones say how many blocks there are; a smaller count of the file cuts the disk short.
fn check_capacity(profile: &mut ProfileFile, stated: u64, notes: &mut Vec<String>) {
    let Ok(worked_out) = crate::Profile::new(profile.clone()) else { return };
    let all = worked_out.geometry.capacity().0;
    if stated == 0 || stated == all {
        return;
    }
    if stated < all {
        profile.capacity_blocks = Some(stated);
        profile
            .sources
            .insert("capacity_blocks".into(), "extracted: the file's block count".into());
    }
    notes.push(format!(
        "`Block count` is {stated}, the zones hold {all}; the disk has {} blocks.",
        stated.min(all)
    ));
}

fn profile_name(block: &str) -> String {
    let words = block.trim_end_matches("_validate").split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<String> =
        words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    if words.is_empty() { "imported".into() } else { words.join("-") }
}
