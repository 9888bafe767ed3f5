//! The map of a die on flash that takes only what flash takes, also when the power fails.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const PAGES: u32 = 8;
const ENSEMBLES: u32 = 12;
const STREAMS: usize = 2;
const SUPERBLOCKS: u32 = ENSEMBLES + STREAMS as u32 + SPARE_LEAST;

/// Beside its data a flash page holds whose they are, of which write, and how often they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    logical: u32,
    write: u64,
    copied: u32,
}

fn from_host(logical: u32, write: u64) -> Stored {
    Stored { logical, write, copied: 0 }
}

/// Flash that takes only what flash takes.
struct Flash {
    pages: Vec<Option<Stored>>,
    copied: u64,
}

impl Flash {
    fn new() -> Flash {
        Flash { pages: vec![None; (SUPERBLOCKS * PAGES) as usize], copied: 0 }
    }

    fn program(&mut self, page: u32, stored: Stored) {
        assert_eq!(self.pages[page as usize], None, "programmed twice");
        let later = page as usize..(page / PAGES * PAGES + PAGES) as usize;
        assert!(self.pages[later].iter().all(Option::is_none), "out of order");
        self.pages[page as usize] = Some(stored);
    }

    fn do_work(&mut self, work: Work, host: Stored) {
        match work {
            Work::Program { page } => self.program(page, host),
            Work::Copy { from, to } => {
                self.copied += 1;
                let stored = self.pages[from as usize].expect("copies what is there");
                self.program(to, Stored { copied: stored.copied + 1, ..stored });
            }
            Work::Erase { superblock } => self.erase(superblock),
        }
    }

    fn erase(&mut self, superblock: u32) {
        let first = (superblock * PAGES) as usize;
        self.pages[first..first + PAGES as usize].fill(None);
    }

    /// What a drive finds when its power comes back: of each page the newest copy counts, and of equal ones that from which the
    /// others were made, so that copies that were not finished leave nothing that is needed. Superblocks without anything that
    /// counts are erased, and those that were not written to their end are left so.
    fn power_up(&mut self) -> Ftl {
        let mut ftl = Ftl::new(PAGES, SUPERBLOCKS, ENSEMBLES, STREAMS);
        ftl.free.clear();
        let mut newest: BTreeMap<u32, ((u64, Reverse<u32>), u32)> = BTreeMap::new();
        for (page, stored) in self.pages.iter().enumerate() {
            let Some(Stored { logical, write, copied }) = *stored else { continue };
            ftl.logical[page] = logical;
            let found = ((write, Reverse(copied)), page as u32);
            let best = newest.entry(logical).or_insert(found);
            *best = (*best).max(found);
        }
        for (logical, (_, page)) in newest {
            ftl.map[logical as usize] = page;
            ftl.valid[(page / PAGES) as usize] += 1;
        }
        for superblock in 0..SUPERBLOCKS {
            match ftl.valid[superblock as usize] {
                0 => {
                    self.erase(superblock);
                    ftl.free.push_back(superblock);
                }
                _ => ftl.is_full[superblock as usize] = true,
            }
        }
        ftl
    }

    fn read(&self, ftl: &Ftl, logical: u32) -> Option<u64> {
        let stored = self.pages[ftl.find(logical)? as usize].expect("mapped to what is there");
        assert_eq!(stored.logical, logical);
        Some(stored.write)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        logical: u32,
        pages: u32,
    },
    Trim {
        logical: u32,
        pages: u32,
    },
    /// The power fails after so many pieces of the next write's work.
    PowerFails {
        logical: u32,
        after: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let all = ENSEMBLES * PAGES;
    prop_oneof![
        8 => (0..all).prop_map(|logical| Step::Write { logical, pages: 1 }),
        4 => (0..ENSEMBLES, 1..=2 * PAGES).prop_map(|(ensemble, pages)| Step::Write { logical: ensemble * PAGES, pages }),
        2 => (0..all, 1..2 * PAGES).prop_map(|(logical, pages)| Step::Trim { logical, pages }),
        1 => (0..all, 0..20usize).prop_map(|(logical, after)| Step::PowerFails { logical, after }),
    ]
}

proptest! {
    /// Whatever is written, trimmed and cut off, a page reads as what was written to it last.
    #[test]
    fn a_page_is_what_was_written_last(steps in prop::collection::vec(step(), 1..400)) {
        let mut flash = Flash::new();
        let mut ftl = Ftl::new(PAGES, SUPERBLOCKS, ENSEMBLES, STREAMS);
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        // What a page may read as after it was trimmed and the power failed: anything, until it is written.
        let mut trimmed = BTreeSet::new();
        let mut work = Vec::new();
        let mut writes = 0;
        for step in steps {
            match step {
                Step::Write { logical, pages } => {
                    for logical in logical..(logical + pages).min(ENSEMBLES * PAGES) {
                        writes += 1;
                        ftl.write(logical, &mut work);
                        work.drain(..).for_each(|work| flash.do_work(work, from_host(logical, writes)));
                        last.insert(logical, writes);
                        trimmed.remove(&logical);
                    }
                }
                Step::Trim { logical, pages } => {
                    for logical in logical..(logical + pages).min(ENSEMBLES * PAGES) {
                        ftl.trim(logical);
                        last.remove(&logical);
                        trimmed.insert(logical);
                    }
                }
                Step::PowerFails { logical, after } => {
                    writes += 1;
                    ftl.write(logical, &mut work);
                    let is_done = after >= work.len();
                    work.drain(..).take(after).for_each(|work| flash.do_work(work, from_host(logical, writes)));
                    if is_done {
                        last.insert(logical, writes);
                        trimmed.remove(&logical);
                    }
                    ftl = flash.power_up();
                    // A trim is not stored: what was there may be there again.
                    for logical in &trimmed {
                        if let Some(write) = flash.read(&ftl, *logical) {
                            last.insert(*logical, write);
                        }
                    }
                }
            }
            for logical in 0..ENSEMBLES * PAGES {
                prop_assert_eq!(flash.read(&ftl, logical), last.get(&logical).copied(), "page {}", logical);
            }
        }
    }
}

/// Fills a die, and then writes pages in this order; copies for each page written.
fn copies_for_each_write(order: impl Iterator<Item = u32>) -> f64 {
    let mut flash = Flash::new();
    let mut ftl = Ftl::new(PAGES, SUPERBLOCKS, ENSEMBLES, STREAMS);
    let mut work = Vec::new();
    let mut written = 0;
    for logical in (0..ENSEMBLES * PAGES).chain(order) {
        written += 1;
        ftl.write(logical, &mut work);
        work.drain(..).for_each(|work| flash.do_work(work, from_host(logical, written)));
    }
    flash.copied as f64 / written as f64
}

#[test]
fn whole_ensembles_cost_no_copies() {
    let ensembles = (0..1000u32).map(|turn| turn * 7 % ENSEMBLES);
    let pages = ensembles.flat_map(|ensemble| ensemble * PAGES..(ensemble + 1) * PAGES);
    assert_eq!(copies_for_each_write(pages), 0.0);
    let scattered = (0..8000u32).map(|turn| turn.wrapping_mul(0x9e37_79b1) % (ENSEMBLES * PAGES));
    assert!(copies_for_each_write(scattered) > 0.1);
}
