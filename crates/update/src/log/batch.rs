//! Groups on their way into frames.

use crate::ids::Seq;

/// Groups on their way into frames.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// Where each group begins.
    pub(crate) begins: Vec<usize>,
    /// The first of these groups.
    pub(crate) first: Seq,
    /// Bytes that are in frames, and groups that begin in them.
    pub(crate) done: usize,
    pub(crate) begun: usize,
}

/// What goes into one frame.
pub(crate) struct Part<'a> {
    pub(crate) content: &'a [u8],
    /// Bytes at its front of a group that began before.
    pub(crate) continued: usize,
    /// The first group that begins in it, or else the next.
    pub(crate) first: Seq,
    /// Groups before this one are whole with it.
    pub(crate) end: Seq,
}

impl Batch {
    pub(crate) fn new(bytes: Vec<u8>, begins: Vec<usize>, first: Seq) -> Batch {
        Batch { bytes, begins, first, done: 0, begun: 0 }
    }

    pub(crate) fn groups(&self) -> usize {
        self.begins.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.bytes.len()
    }

    fn next(&self) -> Seq {
        Seq(self.first.0 + self.begun as u64)
    }

    /// The next part, of so many bytes at most.
    pub(crate) fn cut(&mut self, bytes_max: usize) -> Part<'_> {
        let (begin, first) = (self.done, self.next());
        let next_begin = |batch: &Batch| batch.begins.get(batch.begun).copied();
        let end = self.bytes.len().min(begin + bytes_max);
        let continued = next_begin(self).unwrap_or(end).min(end) - begin;
        self.begun += self.begins.iter().skip(self.begun).take_while(|at| **at < end).count();
        self.done = end;
        let is_whole = next_begin(self).unwrap_or(self.bytes.len()) == end;
        let whole = Seq(self.next().0 - u64::from(!is_whole));
        let content = self.bytes.get(begin..end).unwrap_or_default();
        Part { content, continued, first, end: whole }
    }
}
