//! How a long value is laid out: in parts, each in an extent, and an index where there are several.

use std::sync::Arc;

use moirai_extents::{Extent, Extents};
use moirai_storage::IoBuf;
use moirai_units::{BlockCount, ByteCount, Lbn};

use crate::limits::PART_BYTES;
use crate::long::reference::{Reference, ValuePart};

/// A value that is being laid out.
#[derive(Debug, Default)]
pub(crate) struct LongLayout {
    parts: Vec<ValuePart>,
    extents: Vec<Extent>,
    length: u64,
}

/// Something that is to be written to the device.
pub(crate) type Write = (Lbn, IoBuf);

impl LongLayout {
    /// Bytes that it has so far.
    pub(crate) fn length(&self) -> ByteCount {
        ByteCount(self.length)
    }

    /// Adds a part, which lies in `extent`.
    pub(crate) fn push(&mut self, part: &[u8], extent: Extent) {
        self.parts.push(ValuePart::of(part, &extent));
        self.length += part.len() as u64;
        self.extents.push(extent);
    }

    /// What lists the parts.
    pub(crate) fn index(&self) -> Index {
        if let [part] = &self.parts[..] {
            return Index::None(*part);
        }
        let mut index = Vec::new();
        self.parts.iter().for_each(|part| part.encode(&mut index));
        match index.len() <= PART_BYTES {
            true => Index::Bytes(index),
            false => Index::TooLong,
        }
    }

    /// The reference to a value of one part, and its extents.
    pub(crate) fn finish(self, part: ValuePart) -> (Reference, Vec<Extent>) {
        (Reference::Run(part), self.extents)
    }

    /// The reference to a value whose index lies in `extent`, and its extents.
    pub(crate) fn finish_index(mut self, index: &[u8], extent: Extent) -> (Reference, Vec<Extent>) {
        let part = ValuePart::of(index, &extent);
        self.extents.push(extent);
        (Reference::Index { length: ByteCount(self.length), index: part }, self.extents)
    }

    /// Lays a whole value out; gives its reference, its extents and what is to be written. `None` when there is no space
    /// that leaves `reserve` free.
    pub(crate) fn whole(
        value: &[u8],
        extents: &Arc<Extents>,
        reserve: BlockCount,
    ) -> Option<(Reference, Vec<Extent>, Vec<Write>)> {
        let (mut layout, mut writes) = (LongLayout::default(), Vec::new());
        for mut bytes in value.chunks(PART_BYTES) {
            while !bytes.is_empty() {
                let extent = extents.take_high(holding(bytes.len()), reserve)?;
                let (part, rest) = first_of(bytes, &extent);
                writes.push((extent.first(), IoBuf::holding(part)));
                layout.push(part, extent);
                bytes = rest;
            }
        }
        match layout.index() {
            Index::None(part) => {
                let (reference, extents) = layout.finish(part);
                Some((reference, extents, writes))
            }
            Index::Bytes(index) => {
                let extent = extents.take(holding(index.len()), reserve)?;
                writes.push((extent.first(), IoBuf::holding(&index)));
                let (reference, extents) = layout.finish_index(&index, extent);
                Some((reference, extents, writes))
            }
            Index::TooLong => None,
        }
    }
}

/// What lists the parts of a value.
pub(crate) enum Index {
    /// Nothing: there is this part alone.
    None(ValuePart),
    Bytes(Vec<u8>),
    /// The device's free blocks are too scattered.
    TooLong,
}

/// The first of `bytes`, as many as an extent has room for, and the rest.
pub(crate) fn first_of<'a>(bytes: &'a [u8], extent: &Extent) -> (&'a [u8], &'a [u8]) {
    let room = (extent.blocks.count.bytes().0 as usize).min(bytes.len());
    bytes.split_at_checked(room).unwrap_or((bytes, &[]))
}

/// Device blocks for so many bytes.
pub(crate) fn holding(bytes: usize) -> BlockCount {
    BlockCount::holding(ByteCount(bytes as u64))
}
