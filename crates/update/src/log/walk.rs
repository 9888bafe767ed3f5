//! Walking along the log: frame after frame, over all of its disks, and the groups in them.

use std::collections::VecDeque;

use crate::codec::Taker;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::log::placing::Gap;
use crate::log::readers::{Found, Readers};
use crate::log::segments::{LogDisk, Start};
use crate::state::Misfit;

/// The log up to some frame, and the groups that are whole with it.
pub(crate) struct Walk<'a> {
    pub(super) readers: Readers<'a>,
    /// The segments that it went through.
    pub(super) used: VecDeque<Start>,
    /// The last frame, its checksum, the disk that has it, and its opening.
    pub(crate) number: u64,
    pub(super) checksum: u32,
    pub(super) last: usize,
    pub(super) opening: u32,
    place: Gap,
    /// What was read of groups: those before `done` were given.
    rest: Vec<u8>,
    done: usize,
    /// The next group.
    seq: Seq,
    is_first: bool,
}

impl<'a> Walk<'a> {
    pub(crate) async fn new(
        disks: &'a [LogDisk],
        start: Start,
        is_forced: bool,
    ) -> Result<Walk<'a>> {
        Ok(Walk {
            readers: Readers::new(disks, start, is_forced).await?,
            used: VecDeque::from([start]),
            number: start.number - 1,
            checksum: start.previous,
            last: 0,
            opening: 0,
            place: Gap::default(),
            rest: Vec::new(),
            done: 0,
            seq: start.first,
            is_first: true,
        })
    }

    /// Reads the next frame; tells whether there was one. All groups before it must have been taken.
    pub(crate) async fn step(&mut self) -> Result<bool> {
        loop {
            let Some(found) = self.readers.after(self.number, self.checksum) else {
                // A disk's next segment is the log's if the frame that follows is there.
                let next = self.readers.go_on(self.number, self.checksum).await?;
                let Some((disk, segment, first)) = next else { return Ok(false) };
                let at = self.used.back().map(|start| start.at).unwrap_or_default();
                let (number, previous) = (self.number + 1, self.checksum);
                self.used.push_back(Start { at, number, previous, first }.with(disk, segment));
                continue;
            };
            let Found { disk, place, frame, content, checksum } = found;
            self.rest.drain(..std::mem::take(&mut self.done));
            if frame.opening != self.opening {
                // What a run before left unfinished never ends.
                self.rest.clear();
            }
            let skipped = if self.is_first { frame.continued as usize } else { 0 };
            if self.is_first || frame.opening != self.opening {
                self.seq = frame.first;
            }
            // A frame that is whole within a group that began before says nothing yet.
            self.is_first = self.is_first && skipped == content.len() && !content.is_empty();
            self.rest.extend_from_slice(content.get(skipped..).unwrap_or_default());
            (self.number, self.checksum, self.opening) = (frame.number, checksum, frame.opening);
            (self.last, self.place) = (disk, place);
            self.readers.take(disk, place);
            return Ok(true);
        }
    }

    /// The next group that is whole, and its number.
    pub(crate) fn next_group(&mut self) -> Option<(Seq, &[u8])> {
        let mut taker = Taker(self.rest.get(self.done..)?);
        let group = taker.le32().and_then(|bytes| taker.fixed(bytes as usize))?;
        self.done += 4 + group.len();
        let seq = self.seq;
        self.seq = Seq(seq.0 + 1);
        Some((seq, group))
    }

    /// Why a group does not fit that ends in the last frame.
    pub(crate) fn not_applied(&self, misfit: Misfit) -> Error {
        self.readers.not_applied(self.last, self.place, misfit)
    }
}
