//! Reading long values, whole or in parts.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use moirai_units::{BlockRange, ByteCount};

use crate::codec::is_sum;
use crate::error::{Error, Result};
use crate::limits::MERGED_BYTES_MAX;
use crate::long::epoch::Epoch;
use crate::long::reference::{Reference, ValuePart, parts_of};
use crate::shared::Shared;

/// Parts that are read at the same time, for each of the disks below.
const READS_OF_DISK: usize = 2;
/// What damaged blocks of a long value are called in messages.
const WHAT: &str = "a long value";

/// A value that may be read in parts: as it was when the program asked for it, whatever is committed meanwhile. While it is
/// open, blocks of long values that are freed are given to nobody. Closing the engine ends it: drop it before.
pub struct ValueReader {
    shared: Arc<Shared>,
    source: Source,
    length: ByteCount,
    /// Keeps its blocks from being given to others; none in memory.
    _epoch: Option<Arc<Epoch>>,
}

/// Where a value is.
pub(crate) enum Source {
    Memory(Bytes),
    /// In these parts.
    Device(Vec<ValuePart>),
}

/// The long values of a view.
#[derive(Clone, Debug)]
pub struct LongValues {
    /// Keeps those on the device from being given to others; none where there are none.
    pub(crate) epoch: Option<Arc<Epoch>>,
    /// Those that merges made.
    pub(crate) made: Arc<[Bytes]>,
}

impl ValueReader {
    pub(crate) fn in_memory(shared: Arc<Shared>, value: Vec<u8>) -> ValueReader {
        let length = ByteCount(value.len() as u64);
        ValueReader { shared, source: Source::Memory(value.into()), length, _epoch: None }
    }

    /// Reads the index, if there is one.
    pub(crate) async fn of(
        shared: Arc<Shared>,
        values: &LongValues,
        reference: &[u8],
    ) -> Result<ValueReader> {
        let reference = Reference::decode(reference).ok_or_else(|| shared.damaged_reference())?;
        let (length, epoch) = (reference.length(), values.epoch.clone());
        let source = match reference {
            Reference::Memory { place, .. } => {
                let made = values.made.get(place as usize).cloned();
                Source::Memory(made.ok_or_else(|| shared.damaged_reference())?)
            }
            on_device => Source::Device(shared.parts(&on_device).await?),
        };
        Ok(ValueReader { shared, source, length, _epoch: epoch })
    }

    /// Bytes of the value.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        self.length
    }

    /// The bytes of the value in `range`; fewer where it ends before. Reads and checks whole parts of up to 1 MiB.
    ///
    /// # Errors
    /// [`Error::Device`]; [`Error::Damaged`] when the device holds something else.
    pub async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let range = range.start.min(self.length.0)..range.end.min(self.length.0);
        match &self.source {
            Source::Memory(value) => {
                let part = value.get(range.start as usize..range.end as usize);
                Ok(part.unwrap_or_default().to_vec())
            }
            Source::Device(parts) => self.shared.read_parts(parts, range).await,
        }
    }
}

impl std::fmt::Debug for ValueReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueReader").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Shared {
    /// The parts of a value on the device.
    pub(crate) async fn parts(&self, reference: &Reference) -> Result<Vec<ValuePart>> {
        match reference {
            Reference::Run(part) => Ok(vec![*part]),
            Reference::Index { length, index } => {
                let content = self.read_part(index).await?;
                parts_of(&content, *length).ok_or_else(|| self.damaged_long(index.blocks()))
            }
            Reference::Memory { .. } => Err(self.damaged_reference()),
        }
    }

    /// The blocks of a value on the device, those of its index included.
    pub(crate) async fn runs_of(&self, reference: &Reference) -> Result<Vec<BlockRange>> {
        let parts = self.parts(reference).await?;
        let mut runs: Vec<BlockRange> = parts.iter().map(|part| part.run(&self.layout)).collect();
        if let Reference::Index { index, .. } = reference {
            runs.push(index.run(&self.layout));
        }
        Ok(runs)
    }

    /// A whole value.
    pub(crate) async fn read_long(&self, reference: &Reference) -> Result<Vec<u8>> {
        let parts = self.parts(reference).await?;
        self.read_parts(&parts, 0..reference.length().0).await
    }

    /// A whole value, unless it is longer than merges change.
    pub(crate) async fn read_to_merge(&self, reference: &Reference) -> Result<Option<Vec<u8>>> {
        match reference.length() > MERGED_BYTES_MAX {
            true => Ok(None),
            false => self.read_long(reference).await.map(Some),
        }
    }

    /// The bytes of a range of a value.
    async fn read_parts(&self, parts: &[ValuePart], range: Range<u64>) -> Result<Vec<u8>> {
        let mut begin = 0;
        let mut wanted = Vec::new();
        for part in parts {
            let end = begin + part.length.0;
            if end > range.start && begin < range.end {
                let from = range.start.max(begin) - begin;
                let upto = range.end.min(end) - begin;
                wanted.push((*part, from as usize..upto as usize));
            }
            begin = end;
        }
        let at_once = self.data.inquiry().parallelism as usize * READS_OF_DISK;
        let mut read = stream::iter(wanted)
            .map(async |(part, bytes)| self.read_part(&part).await.map(|content| (content, bytes)))
            .buffered(at_once.max(1));
        let mut value = Vec::with_capacity(range.end.saturating_sub(range.start) as usize);
        while let Some((content, bytes)) = read.try_next().await? {
            value.extend_from_slice(content.get(bytes).unwrap_or_default());
        }
        Ok(value)
    }

    pub(crate) async fn read_part(&self, part: &ValuePart) -> Result<Bytes> {
        let blocks = part.blocks();
        if blocks.end() > self.layout.data.end() {
            return Err(self.damaged_long(blocks));
        }
        self.counts.long_reads.add(1);
        let content = self.data.read(blocks).await?.freeze();
        let bytes = content.get(..part.length.0 as usize).unwrap_or_default();
        match is_sum(part.checksum, crc32c::crc32c(bytes)) {
            true => Ok(content.slice_ref(bytes)),
            false => Err(self.damaged_long(blocks)),
        }
    }

    fn damaged_long(&self, blocks: BlockRange) -> Error {
        Error::damaged(&*self.data, WHAT, blocks)
    }

    /// A reference that is none: its block is not what was written.
    pub(crate) fn damaged_reference(&self) -> Error {
        self.damaged_long(BlockRange::between(self.layout.data.first, self.layout.data.first))
    }
}
