//! Groups on their way into frames, and from there into the state.

use std::sync::Arc;

use crate::ids::Seq;

/// What a group has before its bytes: its length.
const LENGTH_BYTES: usize = 4;

/// Consecutive groups. The writer of the log and the state share them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    bytes: Vec<u8>,
    /// Where each group begins.
    begins: Vec<usize>,
    /// The number of the first one.
    first: Seq,
}

impl Groups {
    /// None yet; the next one has the number `first`.
    pub(crate) fn from(first: Seq) -> Groups {
        Groups { first, ..Groups::default() }
    }

    /// Adds a group; gives its number.
    pub(crate) fn push(&mut self, group: &[u8]) -> Seq {
        let seq = self.end();
        self.begins.push(self.bytes.len());
        self.bytes.extend_from_slice(&(group.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(group);
        seq
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.begins.capacity() * size_of::<usize>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// The number after that of the last one.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.first.0 + self.begins.len() as u64)
    }

    /// The group with a number, if it is one of these.
    pub(crate) fn get(&self, seq: Seq) -> Option<&[u8]> {
        let index = seq.0.checked_sub(self.first.0)? as usize;
        let begin = *self.begins.get(index)?;
        let end = self.begins.get(index + 1).copied().unwrap_or(self.bytes.len());
        self.bytes.get(begin + LENGTH_BYTES..end)
    }
}

/// Groups on their way into frames.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    groups: Arc<Groups>,
    /// Bytes that are in frames, and groups that begin in them.
    pub(crate) done: usize,
    pub(crate) begun: usize,
}

/// What goes into one frame.
pub(crate) struct FrameContent<'a> {
    pub(crate) content: &'a [u8],
    /// Bytes at its front of a group that began before.
    pub(crate) continued: usize,
    /// The first group that begins in it, or else the next.
    pub(crate) first: Seq,
    /// Groups before this one are whole with it.
    pub(crate) end: Seq,
}

impl Batch {
    pub(crate) fn new(groups: Arc<Groups>) -> Batch {
        Batch { groups, done: 0, begun: 0 }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.begins.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.bytes.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.len()
    }

    fn next(&self) -> Seq {
        Seq(self.groups.first.0 + self.begun as u64)
    }

    /// The next part, of so many bytes at most.
    pub(crate) fn cut(&mut self, bytes_max: usize) -> FrameContent<'_> {
        let (begin, first) = (self.done, self.next());
        let next_begin = |batch: &Batch| batch.groups.begins.get(batch.begun).copied();
        let end = self.len().min(begin + bytes_max);
        let continued = next_begin(self).unwrap_or(end).min(end) - begin;
        let begins = &self.groups.begins;
        self.begun += begins.iter().skip(self.begun).take_while(|at| **at < end).count();
        self.done = end;
        let is_whole = next_begin(self).unwrap_or(self.len()) == end;
        let whole = Seq(self.next().0 - u64::from(!is_whole));
        let content = self.groups.bytes.get(begin..end).unwrap_or_default();
        FrameContent { content, continued, first, end: whole }
    }
}
