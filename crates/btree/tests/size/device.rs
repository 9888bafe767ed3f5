//! A device of any size that stores no leaves: it recognises those of [`record`] and makes them up again when they are read.
//!
//! Superblocks, checkpoints, tables of leaves and leaves of other records lie in a sparse file. Of a run of leaves in one
//! write the device remembers the number of the first record alone.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, ready};
use moirai_runtime::now;
use moirai_storage::{
    Completion, Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf,
    Op, Request, Result, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;

pub(crate) const LEAF_BYTES: usize = 64 << 10;
const LEAF_BLOCKS: u64 = LEAF_BYTES as u64 / BLOCK_BYTES;
pub(crate) const KEY_BYTES: usize = 16;
/// As long as eight records to a leaf allow.
pub(crate) const VALUE_BYTES: usize = (LEAF_BYTES - 4) / 8 - 6 - KEY_BYTES;
pub(crate) const RECORDS_OF_LEAF: u64 = 8;
const KEY_PREFIX: &[u8; 8] = b"record: ";

pub(crate) fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(KEY_PREFIX);
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Fills the value of record `number` with one word of eight bytes, again and again.
pub(crate) fn fill_value(number: u64, value: &mut [u8]) {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut filled = word.len();
    value[..filled].copy_from_slice(&word);
    while filled < value.len() {
        let more = filled.min(value.len() - filled);
        value.copy_within(..more, filled);
        filled += more;
    }
}

/// The leaf with the records from `first` on.
fn fill_leaf(first: u64, leaf: &mut [u8]) {
    leaf.fill(0);
    leaf[..4].copy_from_slice(&(RECORDS_OF_LEAF as u32).to_le_bytes());
    let mut at = LEAF_BYTES;
    for index in 0..RECORDS_OF_LEAF as usize {
        at -= 4 + KEY_BYTES + VALUE_BYTES;
        leaf[4 + 2 * index..][..2].copy_from_slice(&(at as u16).to_le_bytes());
        let record = &mut leaf[at..];
        record[..2].copy_from_slice(&(KEY_BYTES as u16).to_le_bytes());
        record[2..4].copy_from_slice(&(VALUE_BYTES as u16).to_le_bytes());
        record[4..4 + KEY_BYTES].copy_from_slice(&key_of(first + index as u64));
        fill_value(first + index as u64, &mut record[4 + KEY_BYTES..][..VALUE_BYTES]);
    }
}

/// The number of the first record of a leaf that may be one of ours.
fn first_of(leaf: &[u8]) -> Option<u64> {
    if leaf.len() < LEAF_BYTES || leaf[..4] != (RECORDS_OF_LEAF as u32).to_le_bytes() {
        return None;
    }
    let at = usize::from(u16::from_le_bytes([leaf[4], leaf[5]]));
    let key = leaf.get(at + 4..at + 4 + KEY_BYTES)?.strip_prefix(KEY_PREFIX)?;
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// Consecutive leaves.
#[derive(Clone, Copy)]
struct Run {
    leaves: u32,
    /// The first record of the first leaf.
    first: u64,
}

/// The block after a run.
fn end_of((at, run): (u64, Run)) -> u64 {
    at + u64::from(run.leaves) * LEAF_BLOCKS
}

pub(crate) struct SizeDevice {
    inquiry: Inquiry,
    file: File,
    /// By their first blocks. One large piece of memory: nodes of a tree would lie between those of the store, and keep pages of
    /// memory in use that the store has given back.
    runs: Mutex<Vec<(u64, Run)>>,
    /// One leaf in so many is compared with what will be read.
    checked: u64,
    reads: AtomicU64,
    stored: AtomicU64,
}

impl SizeDevice {
    /// A device of `capacity`, whose file has no name.
    pub(crate) fn new(name: &str, capacity: BlockCount, checked: u64) -> Arc<SizeDevice> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(capacity.bytes().0).unwrap();
        Arc::new(SizeDevice {
            inquiry: Inquiry {
                name: name.into(),
                capacity,
                parallelism: 1,
                depth: 1,
                volume_block: BlockCount(1),
                atomic_write: BlockCount(1),
                physical_block: BlockCount(8),
                discard: None,
                wants_discards: false,
                volatile_cache: true,
                read_only: false,
                keeps_data: true,
            },
            file,
            runs: Mutex::default(),
            checked,
            reads: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        })
    }

    /// Requests that read, and bytes that were written to the file.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.stored.load(Ordering::Relaxed))
    }

    fn write(&self, first: Lbn, bytes: &[u8]) {
        let end = first.0 + bytes.len() as u64 / BLOCK_BYTES;
        self.forget(first.0, end);
        let mut rest = bytes;
        let mut expected = Vec::new();
        let mut run: Option<Run> = None;
        while let Some(number) = first_of(rest) {
            let next = run.map(|run| run.first + u64::from(run.leaves) * RECORDS_OF_LEAF);
            if next.is_some_and(|next| next != number) {
                break;
            }
            let (leaf, others) = rest.split_at(LEAF_BYTES);
            if (number / RECORDS_OF_LEAF).is_multiple_of(self.checked) {
                expected.resize(LEAF_BYTES, 0);
                fill_leaf(number, &mut expected);
                if leaf != expected {
                    break;
                }
            }
            run.get_or_insert(Run { leaves: 0, first: number }).leaves += 1;
            rest = others;
        }
        if let Some(run) = run {
            let mut runs = self.runs.lock();
            let place = runs.partition_point(|(at, _)| *at < first.0);
            runs.insert(place, (first.0, run));
        }
        let at = first.byte_offset() + (bytes.len() - rest.len()) as u64;
        self.file.write_all_at(rest, at).unwrap();
        self.stored.fetch_add(rest.len() as u64, Ordering::Relaxed);
    }

    /// Extents are written whole, so a run of which a block is written is of an extent that was left.
    fn forget(&self, first: u64, end: u64) {
        let mut runs = self.runs.lock();
        let after = runs.partition_point(|(at, _)| *at < end);
        let before = runs.partition_point(|one| end_of(*one) <= first);
        runs.drain(before.min(after)..after);
    }

    fn read(&self, first: Lbn, mut bytes: &mut [u8]) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut at = first.0;
        let mut leaf = vec![0; LEAF_BYTES];
        while !bytes.is_empty() {
            let found = {
                let runs = self.runs.lock();
                let after = runs.partition_point(|(begin, _)| *begin <= at);
                let before = after.checked_sub(1).map(|place| runs[place]);
                let next = runs.get(after).map_or(u64::MAX, |(next, _)| *next);
                before.filter(|before| end_of(*before) > at).ok_or(next)
            };
            let blocks = match found {
                Ok((begin, run)) => {
                    let (index, skipped) = ((at - begin) / LEAF_BLOCKS, (at - begin) % LEAF_BLOCKS);
                    fill_leaf(run.first + index * RECORDS_OF_LEAF, &mut leaf);
                    let content = &leaf[(skipped * BLOCK_BYTES) as usize..];
                    let length = content.len().min(bytes.len());
                    bytes[..length].copy_from_slice(&content[..length]);
                    length as u64 / BLOCK_BYTES
                }
                Err(next) => {
                    let length = bytes.len().min(((next - at).min(1 << 32) * BLOCK_BYTES) as usize);
                    self.file.read_exact_at(&mut bytes[..length], at * BLOCK_BYTES).unwrap();
                    length as u64 / BLOCK_BYTES
                }
            };
            at += blocks;
            bytes = &mut std::mem::take(&mut bytes)[(blocks * BLOCK_BYTES) as usize..];
        }
    }

    fn serve(&self, mut request: Request) -> Result<Completion> {
        request.check(&self.inquiry)?;
        let issued = now();
        let mut at = request.blocks.first;
        for buffer in &mut request.data {
            match request.op {
                Op::Read => self.read(at, buffer),
                Op::Write => self.write(at, buffer),
            }
            at += buffer.blocks();
        }
        let timing = Timing { issued, started: issued, finished: now(), parts: None };
        Ok(Completion { data: request.data, timing })
    }
}

impl fmt::Debug for SizeDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SizeDevice({})", self.inquiry.name)
    }
}

impl Device for SizeDevice {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        Ok(Ensemble { blocks: self.parallel_ensemble(lbn)?, switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(self.inquiry.all_blocks())
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move { batch.into_iter().map(|request| self.serve(request)).collect() })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(ready(Ok::<(), Error>(())))
    }
}

#[test]
fn leaves_are_made_up_as_they_were_written() {
    let device = SizeDevice::new("device", BlockCount(10_000), 1);
    let mut leaves = IoBuf::zeroed(BlockCount(3 * LEAF_BLOCKS + 3));
    for (index, leaf) in leaves.chunks_exact_mut(LEAF_BYTES).enumerate() {
        fill_leaf(800 + 8 * index as u64, leaf);
    }
    leaves.iter_mut().skip(3 * LEAF_BYTES).for_each(|byte| *byte = 7);
    device.write(Lbn(1000), &leaves);
    assert_eq!(device.counts(), (0, 3 * BLOCK_BYTES));
    for (from, blocks) in [(0, 3 * LEAF_BLOCKS + 3), (1, 1), (127, 130), (383, 2), (384, 2)] {
        let mut read = vec![1; (blocks * BLOCK_BYTES) as usize];
        device.read(Lbn(1000 + from), &mut read);
        assert!(read == leaves[(from * BLOCK_BYTES) as usize..][..read.len()], "{from} {blocks}");
    }
    // A leaf of others is stored, and takes the place of the run.
    let mut other = vec![0; LEAF_BYTES];
    fill_leaf(16, &mut other);
    other[LEAF_BYTES - 1] ^= 1;
    device.write(Lbn(1000), &other);
    let mut read = vec![1; LEAF_BYTES];
    device.read(Lbn(1000), &mut read);
    assert!(read == other);
}
