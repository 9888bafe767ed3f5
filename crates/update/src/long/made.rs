//! Long values that merges make: where they go.

use std::sync::Arc;

use bytes::Bytes;
use moirai_extents::{Extent, Extents};
use moirai_units::{BlockCount, ByteCount};

use crate::limits::MERGED_BYTES_MAX;
use crate::long::layout::{LongLayout, Write};
use crate::long::reference::Reference;

/// Where long values go that merges make.
#[derive(Debug)]
pub(crate) enum Made {
    /// Into memory: the blocks are for a reader.
    Memory(Vec<Bytes>),
    /// To the device.
    Device(MadeOnDevice),
}

/// Long values that a sweep writes with its blocks.
#[derive(Debug)]
pub(crate) struct MadeOnDevice {
    extents: Arc<Extents>,
    /// Device blocks that stay free.
    reserve: BlockCount,
    pub(crate) writes: Vec<Write>,
    pub(crate) taken: Vec<Extent>,
    /// Whether one found no space: the blocks lack it then.
    pub(crate) lacks_space: bool,
}

impl Made {
    /// To the device, as far as `reserve` blocks stay free.
    pub(crate) fn on_device(extents: &Arc<Extents>, reserve: BlockCount) -> Made {
        Made::Device(MadeOnDevice {
            extents: Arc::clone(extents),
            reserve,
            writes: Vec::new(),
            taken: Vec::new(),
            lacks_space: false,
        })
    }

    /// Takes a value; gives the reference to it. `None` where there is no space.
    pub(crate) fn make(&mut self, value: &[u8]) -> Option<Reference> {
        match self {
            Made::Memory(values) => {
                let length = ByteCount(value.len() as u64);
                let place = values.len() as u32;
                values.push(Bytes::copy_from_slice(value));
                Some(Reference::Memory { length, place })
            }
            Made::Device(made) => {
                let laid_out = LongLayout::whole(value, &made.extents, made.reserve);
                let Some((reference, extents, writes)) = laid_out else {
                    made.lacks_space = true;
                    return None;
                };
                made.taken.extend(extents);
                made.writes.extend(writes);
                Some(reference)
            }
        }
    }

    /// A value in memory that merges may change.
    pub(crate) fn value(&self, place: u32) -> Option<Vec<u8>> {
        let Made::Memory(values) = self else { return None };
        let value = values.get(place as usize)?;
        (value.len() as u64 <= MERGED_BYTES_MAX.0).then(|| value.to_vec())
    }

    /// The values in memory.
    pub(crate) fn take_values(&mut self) -> Vec<Bytes> {
        match self {
            Made::Memory(values) => std::mem::take(values),
            Made::Device(_) => Vec::new(),
        }
    }
}
