//! The partitions of a space, in the order of their lowest keys.
//!
//! A list of chunks with up to [`CHUNK_MAX`] entries each, and a running sum of their lengths. To insert or to remove an entry
//! moves entries of one chunk and changes the sums of the later chunks. Of 4 million partitions that is 16 KiB and 64 KiB at
//! most, where one list of all entries would move 64 MiB under the lock of the state.

use std::sync::Arc;

use crate::ids::PartitionId;
use crate::spec::Spec;

/// Entries of a chunk at most.
const CHUNK_MAX: usize = 1 << 10;

/// The first bytes of a partition's lowest key, and its number. The key itself is compared only where these are equal.
pub(crate) type Entry = (u64, PartitionId);

/// The partitions of a space, in the order of their lowest keys.
#[derive(Debug)]
pub(crate) struct Directory {
    /// What the blocks of the space are.
    pub(crate) spec: Arc<Spec>,
    /// None is empty.
    chunks: Vec<Vec<Entry>>,
    /// Entries of each chunk and of all before it.
    ends: Vec<usize>,
}

impl Directory {
    /// No partition yet.
    pub(crate) fn new(spec: &Arc<Spec>) -> Directory {
        Directory { spec: Arc::clone(spec), chunks: Vec::new(), ends: Vec::new() }
    }

    /// How many partitions there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        let lists = self.chunks.capacity() * size_of::<Vec<Entry>>();
        entries * size_of::<Entry>() + lists + self.ends.capacity() * size_of::<usize>()
    }

    /// The chunk that has a place, and the place of its first entry.
    fn chunk_of(&self, place: usize) -> (usize, usize) {
        let chunk = self.ends.partition_point(|end| *end <= place);
        (chunk, self.begin(chunk))
    }

    fn begin(&self, chunk: usize) -> usize {
        chunk.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    /// The partition at a place.
    pub(crate) fn at(&self, place: usize) -> Option<PartitionId> {
        let (chunk, begin) = self.chunk_of(place);
        self.chunks.get(chunk)?.get(place - begin).map(|(_, partition)| *partition)
    }

    /// The partitions from a place on.
    pub(crate) fn from(&self, place: usize) -> impl Iterator<Item = PartitionId> + '_ {
        let (chunk, begin) = self.chunk_of(place);
        let entries = self.chunks.get(chunk..).unwrap_or_default().iter().flatten();
        entries.skip(place - begin).map(|(_, partition)| *partition)
    }

    /// How many entries come before the first one of which `is_before` is false; it is true of all before that one, and false
    /// of all others.
    pub(crate) fn rank(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let chunks = self.chunks.partition_point(|chunk| chunk.first().is_some_and(&is_before));
        let Some(chunk) = chunks.checked_sub(1) else { return 0 };
        let entries = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(&is_before));
        self.begin(chunk) + entries
    }

    /// Inserts an entry before the one at `place`.
    pub(crate) fn insert(&mut self, place: usize, entry: Entry) {
        // At the end of a chunk rather than at the beginning of the next one.
        let chunk = self.ends.partition_point(|end| *end < place);
        if chunk >= self.chunks.len() {
            self.ends.push(self.len());
            self.chunks.push(Vec::new());
        }
        let begin = self.begin(chunk);
        let Some(entries) = self.chunks.get_mut(chunk) else { return };
        entries.insert((place - begin).min(entries.len()), entry);
        let count = entries.len();
        self.ends.iter_mut().skip(chunk).for_each(|end| *end += 1);
        if count > CHUNK_MAX {
            // Keys that come in order fill the chunks.
            let is_appended = begin + count == self.len() && place + 1 == self.len();
            self.split(chunk, if is_appended { CHUNK_MAX } else { count / 2 });
        }
    }

    fn split(&mut self, chunk: usize, at: usize) {
        let begin = self.begin(chunk);
        let Some(entries) = self.chunks.get_mut(chunk) else { return };
        let rest = entries.split_off(at);
        self.chunks.insert(chunk + 1, rest);
        self.ends.insert(chunk, begin + at);
    }

    /// Removes the entry at `place`.
    pub(crate) fn remove(&mut self, place: usize) {
        let (chunk, begin) = self.chunk_of(place);
        let Some(entries) = self.chunks.get_mut(chunk) else { return };
        entries.remove(place - begin);
        self.ends.iter_mut().skip(chunk).for_each(|end| *end -= 1);
        self.join(chunk);
        if let Some(before) = chunk.checked_sub(1) {
            self.join(before);
        }
    }

    /// Joins a chunk and the next one when both have few entries, and removes a chunk without any.
    fn join(&mut self, chunk: usize) {
        let count = |chunk: usize| self.chunks.get(chunk).map(Vec::len);
        let (here, next) = (count(chunk).unwrap_or(0), count(chunk + 1));
        if next.is_some_and(|next| here + next <= CHUNK_MAX / 2) {
            let mut rest = self.chunks.remove(chunk + 1);
            if let Some(entries) = self.chunks.get_mut(chunk) {
                entries.append(&mut rest);
            }
            self.ends.remove(chunk);
        } else if here == 0 && chunk < self.chunks.len() {
            self.chunks.remove(chunk);
            self.ends.remove(chunk);
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

    fn directory() -> Directory {
        let (one, staging) = (BlockCount(1), BlockCount(8));
        let division = Division { grain: one, block: one, partition_blocks: 4, staging };
        Directory::new(&whole_blocks(division).default)
    }

    /// Chunks are bounded, and so are their number and the work of each change.
    fn check(directory: &Directory, count: usize) {
        assert_eq!((directory.len(), directory.ends.len()), (count, directory.chunks.len()));
        let mut end = 0;
        for (chunk, of) in directory.chunks.iter().zip(&directory.ends) {
            end += chunk.len();
            assert!((1..=CHUNK_MAX).contains(&chunk.len()) && *of == end);
        }
        // Two chunks in a row have more than half a chunk's entries.
        assert!(directory.chunks.len() <= 2 * (2 * count / CHUNK_MAX) + 2);
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
        // In order they fill the chunks.
        assert_eq!(directory.chunks.len(), COUNT as usize / CHUNK_MAX);
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
