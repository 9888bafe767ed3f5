//! Opening an engine: recovery from checkpoint and log, and the start of its tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use moirai_extents::{Ensembles, Extents};
use moirai_runtime::{check_timers, now, spawn};
use moirai_storage::Device;
use moirai_units::BlockCount;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::data::cache::Cache;
use crate::data::checkpoint::read::read_checkpoint;
use crate::data::format::disk_id;
use crate::data::requests::Requests;
use crate::data::superblock::Superblock;
use crate::data::tables::Tables;
use crate::engine::{Engine, Tasks};
use crate::error::{Error, Result};
use crate::figures::Counts;
use crate::ids::SpaceId;
use crate::kind::Kinds;
use crate::locked::Lagging;
use crate::log::replay::replay;
use crate::log::segments::{LogDisk, Ring, Segments};
use crate::log::{Log, Opened};
use crate::options::Options;
use crate::shared::{LONG_WAIT, Shared};
use crate::spec::{Formats, Spec, Specs};
use crate::state::State;
use crate::state::directory::Directory;
use crate::sweep::requests::{Bulks, Clears, Ingests};
use crate::sweep::working::Working;
use crate::view::AHEAD_BYTES_MAX;

/// Sweeps take a partition early once this many bytes, or a sixteenth of the memory, are pending for it: each read of the
/// partition looks through them.
const HOT_BYTES_MAX: usize = 1 << 20;

/// The part of the memory that tables of blocks may take.
const TABLES_SHARE: usize = 4;

impl Engine {
    /// Opens the engine that was formatted on `data` and `logs`, which come in the same order, and takes up what a
    /// crash left pending. The `kinds` must have every kind of which something is in the log or staged, and the
    /// `formats` the one that it was formatted with and those of its spaces. Where `data` has grown since, what it has more is used for data. An engine whose log
    /// takes nothing more, as when the data device is full and so
    /// the log cannot be freed, is opened, too: it serves reads.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Version`], [`Error::OtherLog`] when the devices are not what was formatted
    /// together; [`Error::Device`] outside a runtime; [`Error::LogLost`], [`Error::LogUnreadable`], [`Error::Damaged`],
    /// [`Error::UnknownKind`], [`Error::UnknownFormat`], [`Error::NoSpace`] for what they hold;
    /// [`Error::Options`] for too little memory, another number of log devices, or a data device that was cut off. Nothing of
    /// what was acknowledged is lost then.
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        kinds: Kinds,
        formats: Formats,
        options: Options,
    ) -> Result<Engine> {
        check_timers().map_err(moirai_storage::Error::NoRuntime)?;
        options.check()?;
        let (mut superblock, wrong) = Superblock::read(&*data).await?;
        let name = String::from_utf8_lossy(&superblock.format);
        let name = name.trim_end_matches('\0').to_owned();
        let specs = Specs::new(formats, &name, superblock.layout.division);
        let specs = specs.ok_or(Error::UnknownFormat { format: name })?;
        let disks = log_disks(&*data, logs, &superblock)?;
        let layout = superblock.layout.grown(data.inquiry().capacity);
        let has_grown = layout != superblock.layout;
        superblock.layout = layout;
        // What the last run left in caches must not be taken for durable.
        if !options.read_only {
            data.flush().await?;
            for log in logs {
                log.flush().await?;
            }
        }
        let ensembles = Ensembles::of(Arc::clone(&data));
        let extents = Extents::new(layout.data, layout.division.grain, ensembles);
        let mut state = State::new(specs.clone(), Arc::clone(&extents));
        state.page_partitions = options.page_partitions as usize;
        let kept = read_checkpoint(&*data, &superblock, &mut state).await?;
        #[cfg(feature = "canary")]
        {
            state.canary = options.canary;
            if options.canary == crate::Canary::ExtentTwice {
                extents.give_twice(7);
            }
        }
        state.hot_bytes = (options.memory.0 as usize / 16).clamp(4 << 10, HOT_BYTES_MAX);
        let replayed = replay(&*data, &disks, &superblock, &mut state, &kinds, &options).await?;
        if let Some(number) = state.unknown_kind(&kinds) {
            return Err(Error::UnknownKind { number });
        }
        extents.discard_all();
        // What an older copy names is free from here on. The right copy stays as it is until this one is durable.
        if let Some(copy) = wrong.filter(|_| !options.read_only)
            && let Err(error) = superblock.write_copy(&*data, copy).await
        {
            let name = &data.inquiry().name;
            tracing::warn!("{name}: a copy of the superblock could not be written anew: {error}");
        }
        // Before anything lies in the new part.
        if has_grown && !options.read_only {
            superblock.generation += 1;
            superblock.write(&*data).await?;
        }
        let of_space =
            |(space, directory): (&SpaceId, &Directory)| (*space, Arc::clone(&directory.spec));
        let spaces: BTreeMap<SpaceId, Arc<Spec>> = state.spaces.iter().map(of_space).collect();
        let divisions = spaces.values().map(|spec| spec.division.partition());
        let longest = divisions.max().unwrap_or_default().max(layout.division.partition());
        let next = state.applied;
        let room = Arc::new(Notify::new());
        let opened = Opened {
            disks,
            opening: replayed.opening + 1,
            used: replayed.used,
            next,
            // The flushes above came before the replay.
            frame: replayed.at.number,
            room: Arc::clone(&room),
        };
        let log = Log::new(opened, &options);
        let (start, last_frame) = (superblock.checkpoint.start, replayed.at.number);
        let mut at = replayed.at;
        let opening = match options.read_only {
            true => Ok(()),
            false => at.write_opening(&log, next).await,
        };
        // A view ends with its partition, which is often shorter than a view may be. Several requests for less keep a disk as busy as
        // one for more.
        let disks = u64::from(data.inquiry().parallelism.max(1));
        let ahead_bytes =
            (options.read_ahead.0.saturating_mul(disks) as usize).clamp(1, AHEAD_BYTES_MAX);
        let shared = Arc::new(Shared {
            data,
            log,
            layout,
            extents,
            kinds,
            specs,
            spaces: RwLock::new(spaces),
            partition_blocks_max: AtomicU64::new(longest.0),
            memory_bytes: options.memory.0 as usize,
            cache_bytes_max: options.cache.0 as usize,
            ahead_bytes,
            cache: Cache::new(),
            tables: Tables::new(options.memory.0 as usize / TABLES_SHARE),
            working: Working::new(options.memory.0 as usize),
            maps_bytes: AtomicUsize::new(0),
            state: Lagging::new(state),
            directory_blocks: AtomicU64::new(0),
            directory_more_bytes: AtomicU64::new(0),
            requests: Requests::default(),
            clears: Clears::default(),
            clearing: Arc::default(),
            deciding: AtomicUsize::new(0),
            ending: AtomicUsize::new(0),
            ingests: Ingests::default(),
            bulks: Bulks::default(),
            ingesting: Arc::default(),
            closing: AtomicBool::new(false),
            long_writes: Arc::default(),
            is_sweeping: AtomicBool::new(false),
            checkpoint_blocks: AtomicU64::new(kept.blocks().0),
            kept_bytes: AtomicUsize::new(kept.memory_bytes()),
            sweep_wake: Notify::new(),
            is_parked: AtomicBool::new(false),
            read_ns: AtomicU64::new(0),
            is_making_way: AtomicBool::new(false),
            room,
            turn: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            superblock: tokio::sync::Mutex::new((superblock, kept)),
            is_read_only: options.read_only,
            stopped: Mutex::new(None),
            space_wanted_bytes: AtomicUsize::new(0),
            is_space_refused: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            idle: options.idle,
            last_commit: Mutex::new(now()),
            replayed_bytes: replayed.bytes_read,
            waited_ns: AtomicU64::new(LONG_WAIT.0 / 2),
        });
        // A log that takes nothing more need not keep anybody from reading.
        if let Err(error) = opening {
            shared.stop(&format!("writing the log failed: {error}"));
        }
        if options.read_only {
            return Ok(Engine { shared, tasks: None });
        }
        shared.note_directory();
        if replayed.is_outline {
            shared.load(start, last_frame, options.force_log_end).await?;
        }
        // Made here and not in the tasks: a runtime that ends may drop a task that never ran.
        let writing = SayEnded(Arc::clone(&shared), "the task that writes the log ended");
        let writer = spawn(async move {
            let SayEnded(shared, _) = &writing;
            if shared.check_running().is_ok() {
                shared.write_log(at).await;
            }
        });
        let sweeping = SayEnded(Arc::clone(&shared), "the task that sweeps ended");
        let sweeper = spawn(async move {
            let SayEnded(shared, _) = &sweeping;
            if shared.check_running().is_ok() {
                shared.sweep_forever().await;
            }
        });
        let engine = Engine { shared, tasks: Some(Tasks { writer, sweeper }) };
        // Each opening adds a frame to the log, so a log without room takes a checkpoint now. Where the checkpoint fails, the
        // engine serves reads and refuses modifications. After a forced end a checkpoint makes the next opening need no force.
        if engine.shared.check_running().is_ok()
            && (replayed.is_forced || !engine.shared.log.has_room(0))
            && let Err(error) = engine.checkpoint().await
        {
            let name = &engine.shared.data.inquiry().name;
            tracing::warn!(
                "{name}: the checkpoint that the log needs after opening failed: {error}"
            );
        }
        Ok(engine)
    }
}

/// The disks of the log, as they were formatted.
fn log_disks(
    data: &dyn Device,
    logs: &[Arc<dyn Device>],
    superblock: &Superblock,
) -> Result<Vec<LogDisk>> {
    let Superblock { id, layout, rings, .. } = superblock;
    if rings.len() != logs.len() {
        let problem = format!(
            "{}: the log has {} devices, but {} are named: name all log devices, in the order of creation",
            data.inquiry().name,
            rings.len(),
            logs.len()
        );
        return Err(Error::Options { problem });
    }
    let capacity = data.inquiry().capacity;
    if layout.data.end().0 > capacity.0 {
        let problem = format!(
            "{}: the store takes {} of the device, which has {}: give back what was cut off, or restore a backup",
            data.inquiry().name,
            BlockCount(layout.data.end().0).bytes(),
            capacity.bytes()
        );
        return Err(Error::Options { problem });
    }
    let disk = |((disk, log), ring): ((u64, &Arc<dyn Device>), &Ring)| {
        let segments = Segments::of(&**log, *ring)?;
        let segments = segments.ok_or_else(|| Error::other_log(data, &**log))?;
        let id = disk_id(*id, disk);
        Ok(LogDisk { device: Arc::clone(log), segments: Arc::new(segments), id })
    };
    (0..).zip(logs).zip(rings).map(disk).collect()
}

/// Has nobody wait for a task that ended, as when a kind of a program panics, or when the runtime ends.
struct SayEnded(Arc<Shared>, &'static str);

impl Drop for SayEnded {
    fn drop(&mut self) {
        if !self.0.is_closing() {
            self.0.stop(self.1);
        }
    }
}
