//! Writing long values, before the group that refers to them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_extents::Extent;
use moirai_runtime::spawn;
use moirai_storage::IoBuf;
use moirai_units::BlockCount;

use crate::codec::Taker;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::{PUT, PUT_LONG, SpaceId};
use crate::kind::Modification;
use crate::limits::PART_BYTES;
use crate::long::layout::{Index, LongLayout, first_of, holding};
use crate::long::made::MadeOnDevice;
use crate::long::value::LongValue;
use crate::shared::{Shared, Turn};
use crate::spec::Spec;
use crate::state::entry::Entry;

/// A value that a program writes in parts. It holds up to a part of it, 1 MiB, in memory.
pub struct ValueWriter {
    shared: Arc<Shared>,
    /// Of the space that the value is for.
    spec: Arc<Spec>,
    /// `None` after an error, and after a call that was cancelled.
    layout: Option<LongLayout>,
    /// What is not yet on the device: up to a part.
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
    pub(crate) fn new(shared: Arc<Shared>, spec: Arc<Spec>) -> ValueWriter {
        ValueWriter { shared, spec, layout: Some(LongLayout::default()), buffer: Vec::new() }
    }

    /// Appends bytes to the value.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond 1 GiB, or beyond what the format of blocks takes; [`Error::Full`], [`Error::Device`],
    /// [`Error::ReadOnly`], [`Error::Stopped`]. Nothing of the value is kept then, and all further calls fail with
    /// [`Error::LongValueUsed`]; so they do after a call whose future was dropped.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut layout = self.layout.take().ok_or(Error::LongValueUsed)?;
        let have = layout.length().0 + (self.buffer.len() + bytes.len()) as u64;
        self.spec.check_value_length(have)?;
        while self.buffer.len() + bytes.len() > PART_BYTES {
            let (now, rest) = bytes.split_at(PART_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = rest;
            self.shared.write_part(&mut layout, &self.buffer, Turn::Free).await?;
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(bytes);
        self.layout = Some(layout);
        Ok(())
    }

    /// The value, which is durable once its group is. Errors as of [`ValueWriter::write`].
    pub async fn finish(self) -> Result<WrittenValue> {
        let ValueWriter { shared, spec, layout, buffer } = self;
        let mut layout = layout.ok_or(Error::LongValueUsed)?;
        if layout.length().0 == 0 && buffer.len() <= spec.longest.1 {
            return Ok(WrittenValue::Short(buffer));
        }
        shared.write_part(&mut layout, &buffer, Turn::Free).await?;
        let value = shared.finish_long(layout, Turn::Free).await?;
        shared.data.flush().await?;
        Ok(WrittenValue::Long(Arc::new(value)))
    }
}

impl std::fmt::Debug for ValueWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueWriter").finish_non_exhaustive()
    }
}

impl Shared {
    /// Writes the values that are not on the device yet.
    pub(crate) async fn write_made(&self, made: &mut MadeOnDevice) -> Result<()> {
        for (first, buffer) in made.writes.drain(..) {
            self.counts.long_written_bytes.add(buffer.len() as u64);
            self.data.write(first, buffer).await?;
        }
        Ok(())
    }

    /// The group with its long values on the device, and references in their place; as it is where there are none.
    pub(crate) async fn with_long_values<'a>(
        &self,
        group: &'a Group,
        turn: Turn,
    ) -> Result<Cow<'a, Group>> {
        let specs: Vec<(SpaceId, Arc<Spec>)> = {
            let spaces = self.spaces.read();
            let puts = group.uses.iter().filter(|used| used.kind == PUT);
            let with_spec = puts.filter_map(|used| Some((used, spaces.get(&used.space)?)));
            let with_long = with_spec.filter(|(used, spec)| used.bytes > spec.longest.1);
            with_long.map(|(used, spec)| (used.space, Arc::clone(spec))).collect()
        };
        if specs.is_empty() {
            return Ok(Cow::Borrowed(group));
        }
        let mut written = Group::new();
        written.long = group.long.clone();
        // Of the others alone: what was too long is no longer.
        written.uses = group.uses.iter().filter(|used| used.has_long).copied().collect();
        written.uses.iter_mut().for_each(|used| used.bytes = 0);
        let mut taker = Taker(&group.bytes);
        while let Some(entry) = Entry::take(&mut taker) {
            let Entry::Modify { space, modification, .. } = entry else { continue };
            let Modification { key, bytes, .. } = modification;
            let mut of_space = specs.iter().filter(|(other, _)| *other == space);
            if !of_space.any(|(_, spec)| spec.is_long(modification)) {
                match modification.kind {
                    // It is noted already.
                    PUT_LONG => written.add(space, modification),
                    _ => written.modify(space, modification),
                }
                continue;
            }
            let mut layout = LongLayout::default();
            for part in bytes.chunks(PART_BYTES) {
                self.write_part(&mut layout, part, turn).await?;
            }
            let value = self.finish_long(layout, turn).await?;
            written.put_long(space, key, &Arc::new(value));
        }
        self.data.flush().await?;
        Ok(Cow::Owned(written))
    }

    /// Writes some bytes of a long value to extents.
    async fn write_part(
        &self,
        layout: &mut LongLayout,
        mut bytes: &[u8],
        turn: Turn,
    ) -> Result<()> {
        while !bytes.is_empty() {
            let extent = self.take_for_long(holding(bytes.len()), turn).await?;
            let (part, rest) = first_of(bytes, &extent);
            self.counts.long_written_bytes.add(part.len() as u64);
            layout.push(part, self.write_extent(extent, part).await?);
            bytes = rest;
        }
        Ok(())
    }

    async fn finish_long(&self, layout: LongLayout, turn: Turn) -> Result<LongValue> {
        let (reference, extents) = match layout.index() {
            Index::None(part) => layout.finish(part),
            Index::Bytes(index) => {
                let extent = self.take_for_long(holding(index.len()), turn).await?;
                if extent.blocks.count < holding(index.len()) {
                    // An index lies in one run, and no free run is so long.
                    return Err(Error::full(&*self.data));
                }
                self.counts.long_written_bytes.add(index.len() as u64);
                let extent = self.write_extent(extent, &index).await?;
                layout.finish_index(&index, extent)
            }
            Index::TooLong => return Err(Error::full(&*self.data)),
        };
        Ok(LongValue::new(reference, extents))
    }

    /// Writes bytes to an extent, in a task that has it until the write has ended: who asked may be cancelled, and a free
    /// extent has no write in flight.
    pub(crate) async fn write_extent(&self, extent: Extent, bytes: &[u8]) -> Result<Extent> {
        let in_flight = Arc::clone(&self.long_writes).read_owned().await;
        self.check_open()?;
        let (data, first, buffer) = (Arc::clone(&self.data), extent.first(), IoBuf::holding(bytes));
        let write = spawn(async move {
            let done = data.write(first, buffer).await;
            drop(in_flight);
            (extent, done)
        });
        let (extent, done) = write.await;
        done?;
        Ok(extent)
    }

    /// Whether it takes modifications, and is not closed: a closed engine has no blocks.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_running()?;
        match self.is_closing() {
            true => Err(self.stopped_by("it is closed")),
            false => Ok(()),
        }
    }

    /// An extent for a part of a long value, or for some of it where the free blocks are scattered. Has sweeps make space
    /// where there is none, as for a group that waits.
    pub(crate) async fn take_for_long(&self, count: BlockCount, turn: Turn) -> Result<Extent> {
        self.check_open()?;
        if let Some(extent) = self.space_for_long(count) {
            return Ok(extent);
        }
        let _turn = match turn {
            Turn::Held => None,
            Turn::Free => Some(self.turn.lock().await),
        };
        self.is_space_refused.store(false, Ordering::Relaxed);
        loop {
            let freed = self.room.notified();
            self.check_open()?;
            if let Some(extent) = self.space_for_long(count) {
                return Ok(extent);
            }
            let is_full = {
                let mut state = self.state();
                let is_refused = self.is_space_refused.load(Ordering::Relaxed);
                state.was_full |= is_refused || self.is_full(&state);
                is_refused || self.is_full(&state)
            };
            if !is_full {
                self.want_space(count.bytes().0 as usize);
            }
            self.sweep_wake.notify_one();
            if is_full {
                return Err(Error::full(&*self.data));
            }
            freed.await;
        }
    }

    fn space_for_long(&self, count: BlockCount) -> Option<Extent> {
        self.extents.take_high(count, self.reserve() + self.growth())
    }
}
