//! A file or a block device: direct I/O where the file system allows it, and a flush that is one.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, join_all};
use moirai_runtime::{blocking, check_runtime, is_virtual, now};
use moirai_storage::{
    Completion, Completions, Device, DeviceUri, Discarded, Ensemble, EquivalenceClass, Error,
    Flushed, Inquiry, IoBuf, Op, Request, Result, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Instant, Lbn};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::direct::Direct;
use crate::file_parts::{PAGE, file_error};
use crate::flushes::{Flushes, Others, Synced};
use crate::in_place::FlushedTimes;
use crate::lock::{lock, unlock};
use crate::ring::{Carried, Ring};
use crate::{Access, NewFiles, block};

/// Requests of one batch that threads carry out at the same time, where there is no ring.
const BATCH_PARALLELISM: usize = 8;

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// The size of a file that is created.
    pub size: Option<ByteCount>,
    /// The size of an ensemble: a file has no boundaries of its own.
    pub ensemble: ByteCount,
    /// Whether to ask for direct I/O.
    pub direct: bool,
    /// The physical sector; where it is not given, the block of the file system, at most a page.
    pub physical_block: Option<BlockCount>,
}

/// A file. Cheap to clone the inside of, which travels to the threads that block on it.
pub struct FileDevice {
    inquiry: Inquiry,
    ensemble: BlockCount,
    /// Made when it is first used; `None` where there is no direct I/O, or the system has no rings.
    ring: OnceLock<Option<Ring>>,
    files: Arc<Files>,
}

struct Files {
    name: String,
    path: PathBuf,
    is_block: bool,
    buffered: File,
    direct: Option<Direct>,
    flushes: Flushes,
    flushed: FlushedTimes,
}

impl FileDevice {
    /// Opens the file or the block device that `uri` names; with [`Access::Create`] creates a file where it does not exist.
    pub fn open(
        uri: &DeviceUri,
        options: FileOptions,
        access: Access<'_>,
    ) -> Result<Arc<FileDevice>> {
        let path = PathBuf::from(&uri.target);
        let is_block = uri.scheme == "block";
        let (buffered, read_only) = match is_block {
            true => block::open_block(uri, &path, access)?,
            false => open_or_create(uri, &path, options.size, access)?,
        };
        let direct = options.direct.then(|| Direct::open(&path, read_only)).flatten();
        lock_for_transfers(&buffered, direct.as_ref(), &path, read_only, access)?;
        let failed = || file_error(&path, "reading the size");
        let (length, own_block) = match is_block {
            true => (
                block::length(&buffered).map_err(failed())?,
                block::physical_block(&buffered).map_err(failed())?,
            ),
            false => {
                let metadata = buffered.metadata().map_err(failed())?;
                (ByteCount(metadata.len()), block_of_file_system(metadata.blksize()))
            }
        };
        let capacity = BlockCount(length.0 / BLOCK_BYTES / PAGE.0 * PAGE.0);
        if capacity == BlockCount::ZERO {
            return Err(Error::TooSmall {
                device: uri.to_string(),
                have: length,
                need: PAGE.bytes(),
            });
        }
        let ensemble = BlockCount::holding(options.ensemble);
        if ensemble == BlockCount::ZERO || !ensemble.0.is_multiple_of(PAGE.0) {
            return Err(uri.error("parameter `ensemble` is not a multiple of 4 KiB"));
        }
        let physical_block = options.physical_block.unwrap_or(own_block);
        let (discard, wants_discards) = if read_only {
            (None, false)
        } else if is_block {
            // It cannot be tried without discarding something.
            block::discards(&path).map_err(failed())?
        } else {
            // What fills a hole again waits for space of the file system, so holes are left for when the file rests.
            (has_holes(&buffered, length).then_some(PAGE), false)
        };
        let discard = discard.map(|unit| unit.max(PAGE).max(physical_block));
        let name = format!("{}:{}", uri.scheme, path.display());
        if options.direct && direct.is_none() {
            tracing::warn!(
                "{}: the file system does not support direct I/O, so transfers use the page cache",
                path.display()
            );
        }
        Ok(Arc::new(FileDevice {
            inquiry: Inquiry {
                name: name.clone(),
                capacity,
                parallelism: 1,
                depth: 1,
                volume_block: PAGE,
                atomic_write: BlockCount(1),
                physical_block,
                discard,
                wants_discards,
                volatile_cache: true,
                read_only,
                keeps_data: true,
            },
            ensemble,
            ring: OnceLock::new(),
            files: Arc::new(Files {
                name,
                path,
                is_block,
                buffered,
                direct,
                flushes: Flushes::default(),
                flushed: FlushedTimes::default(),
            }),
        }))
    }

    /// Whether requests go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.files.direct.is_some()
    }

    fn check_latch(&self) -> Result<()> {
        if self.files.flushes.have_failed() {
            return Err(Error::Latched { device: self.inquiry.name.clone() });
        }
        Ok(())
    }

    fn ring(&self) -> Option<&Ring> {
        // In virtual time the order in which transfers end would be the machine's.
        if is_virtual() || self.files.direct.is_none() {
            return None;
        }
        self.ring.get_or_init(Ring::new).as_ref()
    }

    async fn by_ring(&self, ring: &Ring, requests: Vec<Request>, issued: Instant) -> Completions {
        if requests.iter().all(|request| request.data.is_empty()) {
            return self.by_threads(requests, issued).await;
        }
        let offsets: Vec<u64> =
            requests.iter().map(|request| request.blocks.first.byte_offset()).collect();
        let file_of = |offset, buffer: &[u8]| self.files.file_for(offset, buffer).as_raw_fd();
        let carried = match ring.carry_out(requests, file_of).await {
            Ok(carried) => carried,
            Err(error) => {
                let error = |offset| Error::Io {
                    device: self.inquiry.name.clone(),
                    action: "submitting a transfer",
                    offset,
                    source: io::Error::new(error.kind(), error.to_string()),
                };
                return offsets.into_iter().map(|offset| Err(error(offset))).collect();
            }
        };
        let mut results = Vec::with_capacity(carried.len());
        for Carried { request, is_whole, started, finished } in carried {
            if is_whole {
                let timing = Timing { issued, started, finished, parts: None };
                results.push(Ok(Completion { data: request.data, timing }));
            } else {
                // It came short, or failed: another try finishes it, or says why it cannot be.
                results.append(&mut self.by_threads(vec![request], issued).await);
            }
        }
        results
    }

    async fn by_threads(&self, requests: Vec<Request>, issued: Instant) -> Completions {
        let share = requests.len().div_ceil(BATCH_PARALLELISM).max(1);
        let mut requests = requests.into_iter().peekable();
        let mut jobs = Vec::new();
        while requests.peek().is_some() {
            let requests: Vec<Request> = requests.by_ref().take(share).collect();
            let files = Arc::clone(&self.files);
            jobs.push(blocking(move || {
                let carry_out = |request| files.carry_out(request, issued);
                requests.into_iter().map(carry_out).collect::<Completions>()
            }));
        }
        join_all(jobs).await.into_iter().flatten().collect()
    }

    fn ensemble_around(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let first = Lbn(lbn.0 / self.ensemble.0 * self.ensemble.0);
        let end = (first + self.ensemble).min(self.inquiry.all_blocks().end());
        Ok(BlockRange::between(first, end))
    }
}

/// The file, and whether it takes no writes.
fn open_or_create(
    uri: &DeviceUri,
    path: &Path,
    size: Option<ByteCount>,
    access: Access<'_>,
) -> Result<(File, bool)> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Access::Create(new) = access else {
                return Err(Error::NoFile { path: path.to_owned() });
            };
            let size = size.ok_or_else(|| {
                uri.error("there is no such file: add ?size=SIZE, like ?size=8GiB, to create it")
            })?;
            let size = whole_pages(size);
            if size.0 == 0 {
                return Err(uri.error("parameter `size`: a file has 4 KiB or more"));
            }
            Ok((create_file(path, size, new)?, false))
        }
        Err(source) => Err(file_error(path, "opening")(source)),
        Ok(metadata) if metadata.file_type().is_block_device() => {
            Err(uri.error("this is a block device: name it as block:PATH"))
        }
        Ok(metadata) if !metadata.is_file() => Err(uri.error("this is not a regular file")),
        Ok(metadata) => {
            let is_other = |size: &ByteCount| whole_pages(*size) != ByteCount(metadata.len());
            if let Some(size) = size.filter(is_other) {
                return Err(uri.error(format!(
                    "the file exists and has {}, not {size}: leave `size` out to use the file",
                    ByteCount(metadata.len())
                )));
            }
            open_file(path, access).map_err(file_error(path, "opening"))
        }
    }
}

/// The size without the part of a page at its end, as decimal sizes have it.
fn whole_pages(size: ByteCount) -> ByteCount {
    ByteCount(size.0 / PAGE.bytes().0 * PAGE.bytes().0)
}

/// Opens a file that exists; tells whether it takes no writes.
pub(crate) fn open_file(path: &Path, access: Access<'_>) -> io::Result<(File, bool)> {
    // The permission bits decide even for a user whom they do not bind.
    let is_read_only = access.is_read_only() || path.metadata()?.permissions().readonly();
    let file = OpenOptions::new().read(true).write(!is_read_only).open(path)?;
    Ok((file, is_read_only))
}

/// Creates a sparse file of `size` zeros, and locks it.
pub(crate) fn create_file(path: &Path, size: ByteCount, new: &NewFiles) -> Result<File> {
    let failed = file_error(path, "creating the file");
    let mut options = OpenOptions::new();
    let file = match options.read(true).write(true).create_new(true).open(path) {
        Ok(file) => file,
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::InUse { path: path.to_owned(), holder: "another process".into() });
        }
        Err(error) => return Err(failed(error)),
    };
    // From here on the file is ours. Another process that found it first keeps it.
    lock(&file, path, false)?;
    new.note(path);
    file.set_len(size.0).map_err(failed)?;
    sync_folder_of(path)?;
    Ok(file)
}

/// Makes the name of a new file durable.
fn sync_folder_of(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(file_error(folder, "flushing the folder"))
}

/// What a file system writes as one, from the size that it prefers for transfers. Network file systems prefer
/// sizes far above their blocks, and no drive has sectors of more than a page.
fn block_of_file_system(preferred_bytes: u64) -> BlockCount {
    let bytes = preferred_bytes.clamp(BLOCK_BYTES, PAGE.bytes().0);
    // The largest power of two that is not above it.
    BlockCount(1 << (bytes / BLOCK_BYTES).ilog2())
}

/// Whether the file system frees the space of parts of a file: tried behind the end of the file, where
/// nothing is.
pub(crate) fn has_holes(file: &File, length: ByteCount) -> bool {
    let behind = length.0.next_multiple_of(PAGE.bytes().0);
    punch(file, behind, PAGE.bytes()).is_ok()
}

/// Frees the space of a part of a file, which reads as zeros then.
pub(crate) fn punch(file: &File, offset: u64, length: ByteCount) -> io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        match rustix::fs::fallocate(file, hole, offset, length.0) {
            Err(Errno::INTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

/// Locks what transfers by io_uring use: they go on when this process is killed, and until they are done nobody else may
/// write the file. Those that use the page cache end before the process does.
fn lock_for_transfers(
    buffered: &File,
    direct: Option<&Direct>,
    path: &Path,
    read_only: bool,
    access: Access<'_>,
) -> Result<()> {
    let Some(direct) = direct else { return lock(buffered, path, read_only) };
    if let Access::Create(new) = access
        && new.contains(path)
    {
        // A new file is locked since it was made.
        unlock(buffered, path)?;
        let locked = lock(&direct.file, path, read_only);
        if locked.is_err() {
            // Another process was faster, and has it now.
            new.forget(path);
        }
        return locked;
    }
    lock(&direct.file, path, read_only)
}

impl Files {
    /// The file to use for a transfer: past the page cache when its alignment allows.
    fn file_for(&self, offset: u64, buffer: &[u8]) -> &File {
        match &self.direct {
            Some(direct) if direct.takes(offset, buffer) => &direct.file,
            _ => &self.buffered,
        }
    }

    fn transfer(&self, request: &mut Request) -> io::Result<()> {
        let mut offset = request.blocks.first.byte_offset();
        for buffer in &mut request.data {
            let file = self.file_for(offset, buffer);
            match request.op {
                Op::Read => file.read_exact_at(buffer, offset)?,
                Op::Write => file.write_all_at(buffer, offset)?,
            }
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn carry_out(&self, mut request: Request, issued: Instant) -> Result<Completion> {
        let started = now();
        let offset = request.blocks.first.byte_offset();
        self.transfer(&mut request).map_err(|source| Error::Io {
            device: self.name.clone(),
            action: match request.op {
                Op::Read => "reading",
                Op::Write => "writing",
            },
            offset,
            source,
        })?;
        Ok(Completion {
            data: request.data,
            timing: Timing { issued, started, finished: now(), parts: None },
        })
    }

    /// Writes and flushes, on a thread that may block.
    fn write_flushed(&self, request: Request, issued: Instant) -> Result<()> {
        match self.write_and_sync(request, issued)? {
            Some(others) => self.wait(others),
            None => Ok(()),
        }
    }

    /// Writes and flushes; returns the other flushes of the file that are still in flight.
    fn write_and_sync(&self, request: Request, issued: Instant) -> Result<Option<Others>> {
        let (bytes, begun) = (request.blocks.count.bytes(), now());
        self.carry_out(request, issued)?;
        let others = self.sync()?;
        self.flushed.note(bytes, now().since(begun));
        Ok(others)
    }

    fn flush(&self) -> Result<()> {
        match self.flushes.run(|| self.buffered.sync_data()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.latched()),
            Err(source) => Err(file_error(&self.path, "flushing")(source)),
        }
    }

    fn sync(&self) -> Result<Option<Others>> {
        match self.flushes.sync(|| self.buffered.sync_data()) {
            Ok(Synced::Alone) => Ok(None),
            Ok(Synced::Beside(others)) => Ok(Some(others)),
            Ok(Synced::Lost) => Err(self.latched()),
            Err(source) => Err(file_error(&self.path, "flushing")(source)),
        }
    }

    /// Waits for other flushes: an error of theirs is one of this file's.
    fn wait(&self, others: Others) -> Result<()> {
        if self.flushes.wait(others) { Ok(()) } else { Err(self.latched()) }
    }

    fn latched(&self) -> Error {
        Error::Latched { device: self.name.clone() }
    }
}

impl fmt::Debug for FileDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileDevice({})", self.inquiry.name)
    }
}

impl Device for FileDevice {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.ensemble_around(lbn).map(|blocks| Ensemble { blocks, switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.ensemble_around(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(EquivalenceClass::single(lbn))
    }

    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        let all = self.inquiry.all_blocks();
        let seek = |place| rustix::fs::seek(&self.files.buffered, place);
        let begin = match seek(SeekFrom::Data(from.byte_offset())) {
            Ok(begin) => Lbn(begin / BLOCK_BYTES),
            // Behind the last data.
            Err(Errno::NXIO) => return Ok(None),
            // The file system does not know holes.
            Err(_) => return Ok((from < all.end()).then(|| BlockRange::between(from, all.end()))),
        };
        let hole = seek(SeekFrom::Hole(begin.byte_offset().max(from.byte_offset())));
        let end = hole.map_or(all.end(), |hole| Lbn(hole.div_ceil(BLOCK_BYTES)));
        let (begin, end) = (begin.max(from), end.min(all.end()));
        Ok((begin < end).then(|| BlockRange::between(begin, end)))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let issued = now();
            let is_in_runtime = check_runtime();
            let mut refused = Vec::new();
            let mut requests = Vec::with_capacity(batch.len());
            for (place, request) in batch.into_iter().enumerate() {
                let checked =
                    is_in_runtime.map_err(Error::NoRuntime).and_then(|()| self.check_latch());
                match checked.and_then(|()| request.check(&self.inquiry)) {
                    Ok(()) => requests.push(request),
                    Err(error) => refused.push((place, error)),
                }
            }
            let mut results = match requests.is_empty() {
                true => Vec::new(),
                false => match self.ring() {
                    Some(ring) => self.by_ring(ring, requests, issued).await,
                    None => self.by_threads(requests, issued).await,
                },
            };
            for (place, error) in refused {
                results.insert(place, Err(error));
            }
            results
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            check_runtime().map_err(Error::NoRuntime)?;
            self.check_latch()?;
            let files = Arc::clone(&self.files);
            blocking(move || files.flush()).await
        })
    }

    /// By one thread: this one where that has been short. Other flushes are waited for by a thread that may block.
    fn write_flushed(&self, first: Lbn, data: IoBuf) -> Flushed<'_> {
        Box::pin(async move {
            let issued = now();
            check_runtime().map_err(Error::NoRuntime)?;
            self.check_latch()?;
            let bytes = data.blocks().bytes();
            let request = Request::write(first, data);
            request.check(&self.inquiry)?;
            let is_short = self.files.flushed.are_short(bytes) && self.files.flushes.is_idle();
            let files = Arc::clone(&self.files);
            if !is_short {
                return blocking(move || files.write_flushed(request, issued)).await;
            }
            match self.files.write_and_sync(request, issued)? {
                // A long flush began meanwhile, as that of a sweep does.
                Some(others) => blocking(move || files.wait(others)).await,
                None => Ok(()),
            }
        })
    }

    /// Punches a hole, or lets a block device free what it likes.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move {
            check_runtime().map_err(Error::NoRuntime)?;
            self.check_latch()?;
            let freed = self.inquiry.discardable(blocks)?;
            if freed.is_empty() {
                return Ok(());
            }
            let (files, offset) = (Arc::clone(&self.files), freed.first.byte_offset());
            let free = if files.is_block { block::discard } else { punch };
            let punched = blocking(move || free(&files.buffered, offset, freed.bytes())).await;
            let device = || self.inquiry.name.clone();
            punched.map_err(|source| Error::Io {
                device: device(),
                action: "discarding",
                offset,
                source,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel keeps the file of a transfer that goes on after its process was killed, and nothing else of that process.
    #[test]
    fn a_file_is_locked_until_its_last_transfer_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let uri: DeviceUri = format!("file:{}", folder.path().join("x").display()).parse().unwrap();
        let options = FileOptions {
            size: Some(ByteCount(1 << 20)),
            ensemble: PAGE.bytes(),
            direct: true,
            physical_block: None,
        };
        let new = NewFiles::new();
        // As it is made, and as it is found.
        for access in [Access::Create(&new), Access::Write] {
            let options = FileOptions { size: options.size.filter(|_| !new.any()), ..options };
            let device = FileDevice::open(&uri, options, access).unwrap();
            let Some(direct) = &device.files.direct else { return };
            let transfer = direct.file.try_clone().unwrap();
            drop(device);
            let options = FileOptions { size: None, ..options };
            let early = FileDevice::open(&uri, options, Access::Write).unwrap_err();
            assert!(matches!(early, Error::InUse { .. }), "{early}");
            drop(transfer);
            FileDevice::open(&uri, options, Access::Write).unwrap();
        }
    }
}
