//! Writing long values, before the group that refers to them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_units::{BlockCount, BlockRange, ByteCount};
use parking_lot::Mutex;

use crate::codec::Taker;
use crate::data::extents::{Extent, Extents};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::PUT;
use crate::kind::Modification;
use crate::long::layout::{Index, LongLayout, Write, holding};
use crate::long::reference::Reference;
use crate::long::{PART_BYTES, VALUE_BYTES_MAX};
use crate::shared::Shared;
use crate::state::entry::Entry;

/// A long value that is on the device, for one modification of a group: see
/// [`Group::put_long`](crate::Group::put_long). Its blocks are free again when it is dropped before its group is
/// committed.
#[derive(Debug)]
pub struct LongValue {
    pub(crate) reference: Reference,
    runs: Vec<BlockRange>,
    /// `None` once its group was taken in: the state has them then.
    extents: Mutex<Option<Vec<Extent>>>,
}

impl LongValue {
    fn new(reference: Reference, extents: Vec<Extent>) -> LongValue {
        let runs = extents.iter().map(|extent| extent.blocks).collect();
        LongValue { reference, runs, extents: Mutex::new(Some(extents)) }
    }

    /// Bytes of the value.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        self.reference.length()
    }

    pub(crate) fn runs(&self) -> &[BlockRange] {
        &self.runs
    }

    /// Whether it may be put: it was not yet, and lies in `all`.
    pub(crate) fn is_new(&self, all: &Arc<Extents>) -> bool {
        let extents = self.extents.lock();
        extents.as_ref().is_some_and(|extents| extents.iter().all(|one| one.is_of(all)))
    }

    /// Gives its extents to the state.
    pub(crate) fn give(&self) -> Vec<Extent> {
        self.extents.lock().take().unwrap_or_default()
    }
}

/// A value that a program writes in parts. It holds up to a part of it, 1 MiB, in memory.
pub struct ValueWriter {
    shared: Arc<Shared>,
    layout: LongLayout,
    /// What is not yet on the device: less than a part.
    buffer: Vec<u8>,
}

/// A value that was written.
#[derive(Debug)]
pub enum WrittenValue {
    /// It fits into a block.
    Short(Vec<u8>),
    /// It is on the device.
    Long(Arc<LongValue>),
}

impl ValueWriter {
    pub(crate) fn new(shared: Arc<Shared>) -> ValueWriter {
        ValueWriter { shared, layout: LongLayout::default(), buffer: Vec::new() }
    }

    /// Appends bytes to the value.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond 1 GiB, or beyond what the format of blocks takes; [`Error::Full`], [`Error::Device`],
    /// [`Error::ReadOnly`], [`Error::Stopped`]. Nothing of the value is kept then.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let have = self.layout.length().0 + (self.buffer.len() + bytes.len()) as u64;
        self.shared.check_value_length(have)?;
        while self.buffer.len() + bytes.len() > PART_BYTES {
            let (now, rest) = bytes.split_at(PART_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = rest;
            self.shared.write_part(&mut self.layout, &self.buffer).await?;
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The value, which is durable once its group is. Errors as of [`ValueWriter::write`].
    pub async fn finish(mut self) -> Result<WrittenValue> {
        if self.layout.length().0 == 0 && self.buffer.len() <= self.shared.longest.1 {
            return Ok(WrittenValue::Short(self.buffer));
        }
        if !self.buffer.is_empty() {
            self.shared.write_part(&mut self.layout, &self.buffer).await?;
        }
        let value = self.shared.finish_long(self.layout).await?;
        self.shared.data.flush().await?;
        Ok(WrittenValue::Long(Arc::new(value)))
    }
}

impl std::fmt::Debug for ValueWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueWriter").finish_non_exhaustive()
    }
}

impl Shared {
    /// The longest value of a put.
    pub(crate) fn value_bytes_max(&self) -> u64 {
        match self.format.takes_long_values() {
            true => VALUE_BYTES_MAX.0,
            false => self.longest.1 as u64,
        }
    }

    pub(crate) fn check_value_length(&self, have: u64) -> Result<()> {
        let most = self.value_bytes_max();
        match have > most {
            true => Err(Error::TooLong { what: "value", have: have as usize, most: most as usize }),
            false => Ok(()),
        }
    }

    /// The group with its long values on the device, and references in their place; as it is where there are none.
    pub(crate) async fn with_long_values<'a>(&self, group: &'a Group) -> Result<Cow<'a, Group>> {
        if group.longest_put <= self.longest.1 {
            return Ok(Cow::Borrowed(group));
        }
        self.check_running()?;
        let mut written = Group::new();
        (written.long, written.uses) = (group.long.clone(), group.uses.clone());
        let mut taker = Taker(&group.bytes);
        while let Some(entry) = Entry::take(&mut taker) {
            let Entry::Modify { space, modification, .. } = entry else { continue };
            let Modification { key, kind, bytes } = modification;
            if kind != PUT || bytes.len() <= self.longest.1 {
                written.add(space, modification);
                continue;
            }
            let mut layout = LongLayout::default();
            for part in bytes.chunks(PART_BYTES) {
                self.write_part(&mut layout, part).await?;
            }
            written.put_long(space, key, &Arc::new(self.finish_long(layout).await?));
        }
        self.data.flush().await?;
        Ok(Cow::Owned(written))
    }

    /// Writes some bytes of a long value to extents.
    async fn write_part(&self, layout: &mut LongLayout, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let extent = self.take_for_long(holding(bytes.len())).await?;
            let (write, rest) = layout.add(bytes, extent);
            self.write_long(write).await?;
            bytes = rest;
        }
        Ok(())
    }

    async fn finish_long(&self, layout: LongLayout) -> Result<LongValue> {
        match layout.index() {
            Index::None(part) => {
                let (reference, extents) = layout.finish(part);
                Ok(LongValue::new(reference, extents))
            }
            Index::Bytes(index) => {
                let extent = self.take_for_long(holding(index.len())).await?;
                if extent.blocks.count < holding(index.len()) {
                    // An index lies in one run, and no free run is so long.
                    return Err(Error::full(&*self.data));
                }
                let (reference, extents, write) = layout.finish_index(&index, extent);
                self.write_long(write).await?;
                Ok(LongValue::new(reference, extents))
            }
            Index::TooLong => Err(Error::full(&*self.data)),
        }
    }

    pub(crate) async fn write_long(&self, (first, buffer): Write) -> Result<()> {
        self.counts.long_written_bytes.add(buffer.len() as u64);
        Ok(self.data.write(first, buffer).await?)
    }

    /// An extent for a part of a long value, or for some of it where the free blocks are scattered. Has sweeps make space
    /// where there is none, as for a group that waits.
    async fn take_for_long(&self, count: BlockCount) -> Result<Extent> {
        self.is_space_refused.store(false, Ordering::Relaxed);
        loop {
            let freed = self.room.notified();
            self.check_running()?;
            let reserve = self.reserve() + self.growth();
            if let Some(extent) = self.extents.take_high(count, reserve) {
                return Ok(extent);
            }
            {
                let mut state = self.state();
                if self.is_space_refused.load(Ordering::Relaxed) || self.is_full(&state) {
                    state.was_full = true;
                    return Err(Error::full(&*self.data));
                }
                self.want_space(count.bytes().0 as usize);
            }
            self.sweep_wake.notify_one();
            freed.await;
        }
    }
}
