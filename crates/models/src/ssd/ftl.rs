//! The flash translation layer of one die: which flash page holds a logical one, and which erase blocks are free.
//!
//! A superblock is the erase blocks with one number of all planes of the die: they are written side by side and erased together.
//!
//! Invariants:
//! 1. A flash page is programmed once between two erases, and those of a superblock in order.
//! 2. A logical page is mapped to the flash page that holds what was written last, or to none. Until that page is programmed no
//!    other copy is erased: who finds on the flash the newest copy of each page has lost nothing but what was not programmed.
//! 3. While superblocks are opened one at least stays free, for what garbage collection copies.
//!
//! A logical ensemble is as long as a superblock. One that is written from its first page on gets a superblock of its own, for as
//! long as it goes on in order: written anew as a whole it leaves one without valid pages, which is erased for nothing. What comes
//! in another order shares superblocks. These are the sequential log blocks of FAST (Lee et al. 2007), with pages mapped.

use std::collections::VecDeque;

/// What the die has to do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Read a page and program it elsewhere in the die.
    Copy { from: u32, to: u32 },
    /// Erase a superblock.
    Erase { superblock: u32 },
    /// Program a page that came from the host.
    Program { page: u32 },
}

/// A superblock that is being written, and its next page.
#[derive(Clone, Copy, Debug)]
struct Open {
    superblock: u32,
    next: u32,
}

/// An ensemble that is being written in order.
#[derive(Clone, Copy, Debug)]
struct Stream {
    ensemble: u32,
    open: Open,
}

/// Superblocks that stay free until garbage is collected.
const RESERVE: usize = 2;
/// The least number of superblocks by which a die has more than ensembles and streams: those that are kept free, one for pages in no
/// order, one for copies, what a stream left over, and one for garbage.
///
/// So there is always something to collect. When a superblock is to be opened, at most streams + 2 are partly written. If no more than
/// the reserve is free, more are full than there are ensembles, and not all of their pages can be valid. Collecting one takes at most one
/// free superblock for the copies before it gives one back.
pub(super) const SPARE_LEAST: u32 = RESERVE as u32 + 4;

/// No page.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Ftl {
    /// Pages of a superblock, and of an ensemble.
    pages: u32,
    /// How many ensembles may be written in order at once.
    streams_most: usize,
    /// The flash page of each logical one.
    map: Vec<u32>,
    /// The logical page that each flash page holds, or held before that was written again.
    logical: Vec<u32>,
    /// Mapped pages of each superblock.
    valid: Vec<u32>,
    /// Whether a superblock is full.
    is_full: Vec<bool>,
    free: VecDeque<u32>,
    /// The one used last is the last.
    streams: Vec<Stream>,
    /// Where pages in no order go.
    unordered: Option<Open>,
    copies: Option<Open>,
    /// What an ensemble that was not written to its end left of its superblock.
    left_over: Option<Open>,
}

impl Ftl {
    pub(super) fn new(pages: u32, superblocks: u32, ensembles: u32, streams: usize) -> Ftl {
        Ftl {
            pages,
            streams_most: streams,
            map: vec![NONE; (ensembles * pages) as usize],
            logical: vec![NONE; (superblocks * pages) as usize],
            valid: vec![0; superblocks as usize],
            is_full: vec![false; superblocks as usize],
            free: (0..superblocks).collect(),
            streams: Vec::with_capacity(streams),
            unordered: None,
            copies: None,
            left_over: None,
        }
    }

    /// The flash page with a logical one; `None` where nothing was written.
    pub(super) fn find(&self, logical: u32) -> Option<u32> {
        self.map.get(logical as usize).copied().filter(|page| *page != NONE)
    }

    /// Writes a logical page; appends what that takes to `work`.
    pub(super) fn write(&mut self, logical: u32, work: &mut Vec<Work>) {
        let (ensemble, offset) = (logical / self.pages, logical % self.pages);
        let goes_on = |stream: &Stream| (stream.ensemble, stream.open.next) == (ensemble, offset);
        let open = match self.streams.iter().position(goes_on) {
            Some(index) => self.streams.remove(index).open,
            None if offset == 0 && self.left_over.is_none() => {
                if self.streams.len() == self.streams_most {
                    self.left_over = Some(self.streams.remove(0).open);
                }
                self.open(work)
            }
            None => {
                let open = self.unordered.take().or_else(|| self.left_over.take());
                let open = open.unwrap_or_else(|| self.open(work));
                self.unordered = self.program(open, logical, work);
                return;
            }
        };
        if let Some(open) = self.program(open, logical, work) {
            self.streams.push(Stream { ensemble, open });
        }
    }

    /// Forgets a logical page.
    pub(super) fn trim(&mut self, logical: u32) {
        if let Some(entry) = self.map.get_mut(logical as usize) {
            let page = std::mem::replace(entry, NONE);
            self.invalidate(page);
        }
    }

    fn invalidate(&mut self, page: u32) {
        let superblock = self.valid.get_mut((page / self.pages) as usize);
        superblock.into_iter().filter(|_| page != NONE).for_each(|valid| *valid -= 1);
    }

    fn program(&mut self, open: Open, logical: u32, work: &mut Vec<Work>) -> Option<Open> {
        work.push(Work::Program { page: self.page(open) });
        self.place(open, logical)
    }

    fn page(&self, open: Open) -> u32 {
        open.superblock * self.pages + open.next
    }

    /// Notes that the next page of `open` holds a logical page; gives back what is left of `open`.
    fn place(&mut self, open: Open, logical: u32) -> Option<Open> {
        let page = self.page(open);
        let index = open.superblock as usize;
        if let (Some(holds), Some(entry), Some(valid)) = (
            self.logical.get_mut(page as usize),
            self.map.get_mut(logical as usize),
            self.valid.get_mut(index),
        ) {
            *holds = logical;
            *valid += 1;
            let before = std::mem::replace(entry, page);
            self.invalidate(before);
        }
        if open.next + 1 < self.pages {
            return Some(Open { next: open.next + 1, ..open });
        }
        self.is_full.get_mut(index).into_iter().for_each(|full| *full = true);
        None
    }

    /// A superblock without data, after garbage was collected where few are left.
    fn open(&mut self, work: &mut Vec<Work>) -> Open {
        while self.free.len() <= RESERVE && self.collect(work) {}
        self.take_free()
    }

    #[expect(
        clippy::expect_used,
        reason = "a profile has more superblocks than can be full or open"
    )]
    fn take_free(&mut self) -> Open {
        Open { superblock: self.free.pop_front().expect("a free superblock"), next: 0 }
    }

    /// Copies what is valid of the full superblock that has the least of it, and erases it; `false` where all are valid.
    fn collect(&mut self, work: &mut Vec<Work>) -> bool {
        let full = self.is_full.iter().zip(&self.valid).enumerate();
        let gainful = full.filter(|(_, (full, valid))| **full && **valid < self.pages);
        let Some((index, _)) = gainful.min_by_key(|(_, (_, valid))| **valid) else { return false };
        let superblock = index as u32;
        let first = superblock * self.pages;
        for from in first..first + self.pages {
            let Some(logical) = self.logical.get(from as usize).copied() else { break };
            if self.find(logical) == Some(from) {
                let open = self.copies.take().unwrap_or_else(|| self.take_free());
                work.push(Work::Copy { from, to: self.page(open) });
                self.copies = self.place(open, logical);
            }
        }
        self.is_full.get_mut(index).into_iter().for_each(|full| *full = false);
        self.free.push_back(superblock);
        work.push(Work::Erase { superblock });
        true
    }
}

#[cfg(test)]
mod tests;
