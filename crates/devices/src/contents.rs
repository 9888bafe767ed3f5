//! What a simulated disk holds: bytes in memory, bytes in a file, or nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use moirai_storage::{Error, IoBuf, Result};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::Access;
use crate::file::{create_file, has_holes, open_file, punch};

const CHUNK_BYTES: u64 = 4 << 10;

/// What a simulated disk holds. Blocks that were never written are zeros.
#[derive(Debug)]
pub enum Contents {
    /// Bytes in memory, gone with the device. Zeros take none.
    Memory(BTreeMap<u64, Box<[u8]>>),
    /// Bytes in a sparse file.
    File {
        /// The file.
        file: File,
        /// Its path.
        path: PathBuf,
        /// Whether it takes no writes.
        is_read_only: bool,
    },
    /// Nothing is kept: the device simulates timing only.
    Nothing,
}

impl Contents {
    /// Empty contents in memory.
    #[must_use]
    pub fn memory() -> Contents {
        Contents::Memory(BTreeMap::new())
    }

    /// Contents in the file at `path`, as long as a disk of `capacity`. With [`Access::Create`] a file that does
    /// not exist is created.
    pub fn file(path: &Path, capacity: BlockCount, access: Access<'_>) -> Result<Contents> {
        let failed = |action| {
            let path = path.to_owned();
            move |source| Error::File { path, action, source }
        };
        let length = match path.metadata() {
            Ok(metadata) => Some(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("opening")(error)),
        };
        let (file, is_read_only) = match (length, access) {
            (None, Access::Create(new)) => (create_file(path, capacity.bytes(), new)?, false),
            (None, _) => return Err(Error::NoFile { path: path.to_owned() }),
            (Some(length), _) if length != capacity.bytes().0 => {
                return Err(Error::Description {
                    path: path.to_owned(),
                    problem: format!(
                        "the file has {length} bytes, but the simulated disk has {}: name a file of \
                         this disk",
                        capacity.bytes().0
                    ),
                });
            }
            (Some(_), access) => open_file(path, access).map_err(failed("opening"))?,
        };
        crate::lock::lock(&file, path, is_read_only)?;
        Ok(Contents::File { file, path: path.to_owned(), is_read_only })
    }

    /// Reads from `first` on into `buffer`.
    pub(crate) fn read(&self, first: Lbn, buffer: &mut IoBuf) -> Result<()> {
        match self {
            Contents::Memory(chunks) => {
                for (chunk, within, range) in chunk_pieces(first, buffer.len()) {
                    let Some(target) = buffer.get_mut(range) else {
                        continue;
                    };
                    match chunks.get(&chunk) {
                        None => target.fill(0),
                        Some(bytes) => {
                            if let Some(source) = bytes.get(within..within + target.len()) {
                                target.copy_from_slice(source);
                            }
                        }
                    }
                }
                Ok(())
            }
            Contents::File { file, path, .. } => file
                .read_exact_at(buffer, first.byte_offset())
                .map_err(io_error(path, "reading", first)),
            Contents::Nothing => Ok(()),
        }
    }

    /// Writes `buffer` from `first` on.
    pub(crate) fn write(&mut self, first: Lbn, buffer: &IoBuf) -> Result<()> {
        match self {
            Contents::Memory(chunks) => {
                for (chunk, within, range) in chunk_pieces(first, buffer.len()) {
                    let Some(source) = buffer.get(range) else {
                        continue;
                    };
                    if source.iter().all(|byte| *byte == 0) && !chunks.contains_key(&chunk) {
                        continue;
                    }
                    let bytes = chunks
                        .entry(chunk)
                        .or_insert_with(|| vec![0; CHUNK_BYTES as usize].into_boxed_slice());
                    if let Some(target) = bytes.get_mut(within..within + source.len()) {
                        target.copy_from_slice(source);
                    }
                }
                Ok(())
            }
            Contents::File { file, path, .. } => file
                .write_all_at(buffer, first.byte_offset())
                .map_err(io_error(path, "writing", first)),
            Contents::Nothing => Ok(()),
        }
    }

    /// Makes the blocks zeros, which take no space.
    pub(crate) fn discard(&mut self, blocks: BlockRange) -> Result<()> {
        let (first, end) = (blocks.first.byte_offset(), blocks.end().byte_offset());
        match self {
            Contents::Memory(chunks) => {
                let touched = first / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
                let empty = chunks.extract_if(touched, |chunk, bytes| {
                    let start = chunk * CHUNK_BYTES;
                    let (from, to) = (first.saturating_sub(start), (end - start).min(CHUNK_BYTES));
                    if let Some(gone) = bytes.get_mut(from as usize..to as usize) {
                        gone.fill(0);
                    }
                    bytes.iter().all(|byte| *byte == 0)
                });
                empty.for_each(drop);
                Ok(())
            }
            Contents::File { file, path, .. } if !blocks.is_empty() => punch(
                file,
                first,
                blocks.bytes(),
            )
            .map_err(io_error(path, "discarding", blocks.first)),
            Contents::File { .. } | Contents::Nothing => Ok(()),
        }
    }

    /// The granularity of a discard, if it frees anything.
    pub(crate) fn discard_granularity(&self) -> Option<BlockCount> {
        match self {
            Contents::Memory(_) => Some(BlockCount(1)),
            Contents::File { file, is_read_only: false, .. } => {
                let length = file.metadata().ok()?.len();
                has_holes(file, ByteCount(length)).then_some(BlockCount(1))
            }
            Contents::File { .. } | Contents::Nothing => None,
        }
    }

    /// Makes what was written durable.
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Contents::File { file, path, .. } => {
                file.sync_data().map_err(io_error(path, "flushing", Lbn(0)))
            }
            Contents::Memory(_) | Contents::Nothing => Ok(()),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Contents::File { is_read_only: true, .. })
    }

    pub(crate) fn keeps_data(&self) -> bool {
        !matches!(self, Contents::Nothing)
    }
}

fn io_error(path: &Path, action: &'static str, first: Lbn) -> impl FnOnce(std::io::Error) -> Error {
    let device = path.display().to_string();
    move |source| Error::Io { device, action, offset: first.byte_offset(), source }
}

/// The chunks that `length` bytes from `first` on lie in: chunk, offset in it, range of the bytes.
fn chunk_pieces(
    first: Lbn,
    length: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = first.byte_offset() + done as u64;
        let within = (at % CHUNK_BYTES) as usize;
        let count = (length - done).min(CHUNK_BYTES as usize - within);
        done += count;
        Some((at / CHUNK_BYTES, within, done - count..done))
    })
}
