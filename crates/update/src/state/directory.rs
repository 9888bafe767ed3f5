//! The partitions of a space, in the order of their lowest keys.
//!
//! A list of pages with up to so many entries each, and a running sum of their lengths. To insert or to remove an entry
//! moves entries of one page and changes the sums of the later pages. Of 4 million partitions and 128 to a page that is 2 KiB and
//! 0.5 MiB at most, and up to 3 MiB where a page is divided or two are joined, where one list of all entries would move 64 MiB under the lock of the state. A checkpoint writes the pages
//! that have changed.

use std::sync::Arc;

use crate::ids::PartitionId;
use crate::spec::Spec;

/// The first bytes of a partition's lowest key, and its number. The key itself is compared only where these are equal.
pub(crate) type Entry = (u64, PartitionId);

/// The partitions of a space, in the order of their lowest keys.
#[derive(Debug)]
pub(crate) struct Directory {
    /// What the blocks of the space are.
    pub(crate) spec: Arc<Spec>,
    /// None is empty.
    pages: Vec<Page>,
    /// Entries of each page and of all before it.
    ends: Vec<usize>,
    /// Entries of a page at most.
    page_max: usize,
}

/// Neighbouring partitions.
#[derive(Debug, Default)]
pub(crate) struct Page {
    entries: Vec<Entry>,
    /// Where the last checkpoint has it, unless a partition has changed since.
    stored: Option<Stored>,
}

/// Where a page lies in the sequence of bytes that checkpoints write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

impl Stored {
    pub(crate) fn end(&self) -> u64 {
        self.at + self.length
    }
}

impl Page {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn stored(&self) -> Option<Stored> {
        self.stored
    }
}

impl Directory {
    /// No partition yet; pages have up to so many.
    pub(crate) fn new(spec: &Arc<Spec>, page_max: usize) -> Directory {
        Directory::of_pages(spec, page_max, 0)
    }

    /// So many pages, each of which is to be filled.
    pub(crate) fn of_pages(spec: &Arc<Spec>, page_max: usize, count: usize) -> Directory {
        let mut pages = Vec::new();
        pages.resize_with(count, Page::default);
        Directory { spec: Arc::clone(spec), pages, ends: Vec::new(), page_max }
    }

    /// Gives the entries of a page that is empty.
    pub(crate) fn fill(
        &mut self,
        number: usize,
        entries: Vec<Entry>,
        stored: Stored,
    ) -> Option<()> {
        let page = self.pages.get_mut(number).filter(|page| page.entries.is_empty())?;
        *page = Page { entries, stored: Some(stored) };
        Some(())
    }

    /// All pages are filled; tells whether `is_before` is true of each entry and the first one of the next page.
    pub(crate) fn end_filling(&mut self, is_before: impl Fn(&Entry, &Entry) -> bool) -> bool {
        let mut end = 0;
        self.ends.clear();
        for page in &self.pages {
            end += page.entries.len();
            self.ends.push(end);
        }
        let bounds = self.pages.iter().zip(self.pages.iter().skip(1));
        let mut bounds = bounds.map(|(page, next)| page.entries.last().zip(next.entries.first()));
        let are_in_order =
            bounds.all(|bound| bound.is_some_and(|(one, next)| is_before(one, next)));
        are_in_order && self.pages.iter().all(|page| !page.entries.is_empty())
    }

    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Notes where a checkpoint has a page, or that it has not.
    pub(crate) fn set_stored(&mut self, number: usize, stored: Option<Stored>) {
        if let Some(page) = self.pages.get_mut(number) {
            page.stored = stored;
        }
    }

    /// Forgets where pages lie of which `is_kept` is false.
    pub(crate) fn keep_stored(&mut self, is_kept: impl Fn(Stored) -> bool) {
        self.pages
            .iter_mut()
            .for_each(|page| page.stored = page.stored.filter(|one| is_kept(*one)));
    }

    /// The partition at a place has changed.
    pub(crate) fn changed(&mut self, place: usize) {
        let (page, _) = self.page_of(place);
        self.set_stored(page, None);
    }

    /// How many partitions there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries: usize = self.pages.iter().map(|page| page.entries.capacity()).sum();
        let lists = self.pages.capacity() * size_of::<Page>();
        entries * size_of::<Entry>() + lists + self.ends.capacity() * size_of::<usize>()
    }

    /// The page that has a place, and the place of its first entry.
    fn page_of(&self, place: usize) -> (usize, usize) {
        let page = self.ends.partition_point(|end| *end <= place);
        (page, self.begin(page))
    }

    fn begin(&self, page: usize) -> usize {
        page.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    /// The partition at a place.
    pub(crate) fn at(&self, place: usize) -> Option<PartitionId> {
        let (page, begin) = self.page_of(place);
        self.pages.get(page)?.entries.get(place - begin).map(|(_, partition)| *partition)
    }

    /// The partitions from a place on.
    pub(crate) fn from(&self, place: usize) -> impl Iterator<Item = PartitionId> + '_ {
        let (page, begin) = self.page_of(place);
        let pages = self.pages.get(page..).unwrap_or_default();
        let entries = pages.iter().flat_map(|page| &page.entries);
        entries.skip(place - begin).map(|(_, partition)| *partition)
    }

    /// How many entries come before the first one of which `is_before` is false; it is true of all before that one, and false
    /// of all others.
    pub(crate) fn rank(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let is_first_before = |page: &Page| page.entries.first().is_some_and(&is_before);
        let pages = self.pages.partition_point(is_first_before);
        let Some(page) = pages.checked_sub(1) else { return 0 };
        let of_page = self.pages.get(page).map_or(0, |one| one.entries.partition_point(&is_before));
        self.begin(page) + of_page
    }

    /// Inserts an entry before the one at `place`.
    pub(crate) fn insert(&mut self, place: usize, entry: Entry) {
        // At the end of a page rather than at the beginning of the next one.
        let number = self.ends.partition_point(|end| *end < place);
        if number >= self.pages.len() {
            self.ends.push(self.len());
            self.pages.push(Page::default());
        }
        let begin = self.begin(number);
        let Some(page) = self.pages.get_mut(number) else { return };
        page.entries.insert((place - begin).min(page.entries.len()), entry);
        page.stored = None;
        let count = page.entries.len();
        self.ends.iter_mut().skip(number).for_each(|end| *end += 1);
        if count > self.page_max {
            // Keys that come in order fill the pages.
            let is_appended = begin + count == self.len() && place + 1 == self.len();
            self.split(number, if is_appended { self.page_max } else { count / 2 });
        }
    }

    fn split(&mut self, number: usize, at: usize) {
        let begin = self.begin(number);
        let Some(page) = self.pages.get_mut(number) else { return };
        let rest = Page { entries: page.entries.split_off(at), stored: None };
        self.pages.insert(number + 1, rest);
        self.ends.insert(number, begin + at);
    }

    /// Puts an entry in the place of another one.
    pub(crate) fn put(&mut self, place: usize, entry: Entry) {
        let (number, begin) = self.page_of(place);
        let Some(page) = self.pages.get_mut(number) else { return };
        if let Some(other) = page.entries.get_mut(place - begin) {
            *other = entry;
        }
        page.stored = None;
    }

    /// Removes the entry at `place`.
    pub(crate) fn remove(&mut self, place: usize) {
        let (number, begin) = self.page_of(place);
        let Some(page) = self.pages.get_mut(number) else { return };
        page.entries.remove(place - begin);
        page.stored = None;
        self.ends.iter_mut().skip(number).for_each(|end| *end -= 1);
        self.join(number);
        if let Some(before) = number.checked_sub(1) {
            self.join(before);
        }
    }

    /// Joins a page and the next one when both have few entries, and removes a page without any.
    fn join(&mut self, number: usize) {
        let count = |number: usize| self.pages.get(number).map(|page| page.entries.len());
        let (here, next) = (count(number).unwrap_or(0), count(number + 1));
        if next.is_some_and(|next| here + next <= self.page_max / 2) {
            let mut rest = self.pages.remove(number + 1);
            if let Some(page) = self.pages.get_mut(number) {
                page.entries.append(&mut rest.entries);
                page.stored = None;
            }
            self.ends.remove(number);
        } else if here == 0 && number < self.pages.len() {
            self.pages.remove(number);
            self.ends.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use moirai_units::BlockCount;

    use super::*;
    use crate::data::division::Division;
    use crate::spec::whole_blocks;

    const PAGE_MAX: usize = 1 << 7;

    fn directory() -> Directory {
        let (one, staging) = (BlockCount(1), BlockCount(8));
        let division = Division { grain: one, block: one, partition_blocks: 4, staging };
        Directory::new(&whole_blocks(division).default, PAGE_MAX)
    }

    /// Pages are bounded, and so are their number and the work of each change.
    fn check(directory: &Directory, count: usize) {
        assert_eq!((directory.len(), directory.ends.len()), (count, directory.pages.len()));
        let mut end = 0;
        for (page, of) in directory.pages.iter().zip(&directory.ends) {
            end += page.entries.len();
            assert!((1..=PAGE_MAX).contains(&page.entries.len()) && *of == end);
        }
        // Two pages in a row have more than half a page's entries.
        assert!(directory.pages.len() <= 2 * (2 * count / PAGE_MAX) + 2);
    }

    #[test]
    fn directory_is_as_a_list() {
        let mut random = moirai_runtime::random("directory");
        let (mut directory, mut list) = (directory(), Vec::new());
        for turn in 0..40_000_u32 {
            let grows = turn % 20_000 < 12_000;
            if list.is_empty() || random.random_ratio(if grows { 9 } else { 1 }, 10) {
                let place = random.random_range(0..=list.len());
                let low = match place.checked_sub(1) {
                    Some(before) => list[before],
                    None => (0, PartitionId(0)),
                };
                directory.insert(place, (low.0, PartitionId(turn)));
                list.insert(place, (low.0, PartitionId(turn)));
            } else {
                let place = random.random_range(0..list.len());
                directory.remove(place);
                list.remove(place);
            }
            let place = random.random_range(0..=list.len());
            assert_eq!(directory.at(place), list.get(place).map(|(_, id)| *id));
            if turn % 7 == 0 && place < list.len() {
                let (low, id) = (list[place].0, PartitionId(turn + 1_000_000));
                directory.put(place, (low, id));
                list[place].1 = id;
            }
            if turn % 1000 == 0 {
                check(&directory, list.len());
                let ids = list.iter().skip(place).map(|(_, id)| *id);
                assert!(directory.from(place).eq(ids), "from {place}");
            }
        }
    }

    #[test]
    fn change_among_4_million_partitions_moves_few_entries() {
        const COUNT: u32 = 4 << 20;
        let mut directory = directory();
        for number in 0..COUNT {
            directory.insert(number as usize, (u64::from(number) << 8, PartitionId(number)));
        }
        // In order they fill the pages.
        assert_eq!(directory.pages.len(), COUNT as usize / PAGE_MAX);
        let mut random = moirai_runtime::random("directory");
        for _ in 0..1000 {
            let low = random.random_range(0..u64::from(COUNT) << 8);
            let place = directory.rank(|(other, _)| *other <= low);
            assert_eq!(place as u64, (low >> 8) + 1);
            directory.insert(place, (low, PartitionId(COUNT)));
            assert_eq!(directory.at(place), Some(PartitionId(COUNT)));
            directory.remove(place);
        }
        check(&directory, COUNT as usize);
        assert_eq!(directory.from(3_000_000).next(), Some(PartitionId(3_000_000)));
    }
}
