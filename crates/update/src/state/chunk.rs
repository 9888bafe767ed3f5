//! Chunks: what was swept out of memory and waits in an extent of its own for the sweep that applies it.
//!
//! A chunk is modifications in the order of their keys, so those of a block are a stretch of it. That, with what comes
//! for the next blocks when it is short, is a *part*. A filter of the keys of each part stays in memory, with a byte for
//! each modification: who reads a value reads the parts alone that may have something of it.
//!
//! Where blocks have several units, a chunk has several *runs*, each in the order of keys and divided into parts: one of
//! modifications that may change any unit, and behind it one for each unit that some modifications change alone. Who reads some
//! units reads the first run and theirs. The modifications of one key are applied run by run, so all that come before one that
//! may change any unit are in the first run, too.
//!
//! ```text
//!  key 7:   set a = 1 | put | set a = 2 | set b = 3 | set a = 4     (oldest first)
//!  runs:    any unit: put         unit 0: set a = 2, set a = 4         unit 1: set b = 3
//! ```

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use bytes::Bytes;
use moirai_units::{BLOCK_BYTES, BlockCount};

use crate::block_format::BlockFormat;
use crate::codec::{Taker, is_sum, put_bytes, put_number};
use crate::encoded::encode;
use crate::filter::KeyHash;
use crate::ids::{AFTER_POINT, DELETE, KindNumber};
use crate::kind::{Kinds, Modification};
use crate::limits::PARTITION_BLOCKS_MAX;
use crate::long::references::References;
use crate::state::block_table::BlockTable;
use crate::state::queue::Queue;
use crate::state::sorted::Sorted;
use crate::units::{UNITS_MAX, UnitSet};

/// What is known of a chunk without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    parts: Box<[ChunkPart]>,
    /// The filters of all parts, one behind the other.
    filters: Box<[u8]>,
    /// Bytes of the deletes in it.
    deleted_bytes: u32,
    /// Which kinds there are in it: it is not to be read without them.
    kinds: Box<[KindNumber]>,
}

/// A part has so many bytes at least, if not the last: less is not read by itself.
const PART_BYTES_MIN: u32 = BLOCK_BYTES as u32;

/// The number of the run of modifications that may change any unit. That of unit n has number n + 1.
const ANY_UNIT: u8 = 0;

/// The modifications of a run for a block, or for some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkPart {
    run: u8,
    /// The first of the blocks, and the last.
    first: u8,
    last: u8,
    /// Modifications up to its end, and bytes of filters.
    count: u32,
    /// Bytes up to its end.
    end: u32,
    checksum: u32,
}

/// What a chunk is divided by.
pub(crate) enum Blocks {
    Of(Arc<BlockTable>),
    /// So many blocks with unknown keys: the chunk is one part, for all of them.
    All(usize),
}

impl Blocks {
    /// The blocks that may hold `key`, the first and the last.
    fn holding(&self, key: &[u8]) -> (u8, u8) {
        match self {
            Blocks::Of(table) => {
                let block = table.holding(key) as u8;
                (block, block)
            }
            Blocks::All(count) => (0, count.saturating_sub(1) as u8),
        }
    }
}

/// A run that is being made.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    parts: Vec<ChunkPart>,
    filters: Vec<u8>,
    /// Of the modifications of the last part.
    hashes: Vec<KeyHash>,
    /// Where the last part begins.
    begin: u32,
}

impl Run {
    /// Begins with the modifications of a key, of these blocks.
    fn begin_key(&mut self, run: u8, (first, last): (u8, u8)) {
        let is_full = |part: &ChunkPart| part.end - self.begin >= PART_BYTES_MIN;
        if self.parts.last().is_none_or(|part| last != part.last && is_full(part)) {
            self.end_part();
            self.begin = self.bytes.len() as u32;
            self.parts.push(ChunkPart { run, first, last, count: 0, end: self.begin, checksum: 0 });
        }
        if let Some(part) = self.parts.last_mut() {
            part.last = last;
        }
    }

    fn put(&mut self, modification: Modification<'_>) {
        let before = self.bytes.len();
        encode(&mut self.bytes, modification);
        self.hashes.push(KeyHash::of(modification.key));
        if let Some(part) = self.parts.last_mut() {
            let added = self.bytes.get(before..).unwrap_or_default();
            part.checksum = crc32c::crc32c_append(part.checksum, added);
            part.count = (self.filters.len() + self.hashes.len()) as u32;
            part.end = self.bytes.len() as u32;
        }
    }

    fn end_part(&mut self) {
        let before = self.filters.len();
        self.filters.resize(before + self.hashes.len(), 0);
        let filter = self.filters.get_mut(before..).unwrap_or_default();
        self.hashes.drain(..).for_each(|hash| hash.put_into(filter));
    }

    /// Puts another one behind.
    fn append(&mut self, next: Run) {
        let (bytes, count) = (self.bytes.len() as u32, self.filters.len() as u32);
        let moved = |part: ChunkPart| ChunkPart {
            end: part.end + bytes,
            count: part.count + count,
            ..part
        };
        self.parts.extend(next.parts.into_iter().map(moved));
        self.bytes.extend_from_slice(&next.bytes);
        self.filters.extend_from_slice(&next.filters);
    }
}

/// The runs of a chunk that is being made, by their numbers.
struct Runs<'a> {
    runs: Vec<Run>,
    /// What is combined by them; nothing is, where whoever reads the chunk is to see each modification.
    combining: Option<&'a Kinds>,
    kinds: Vec<KindNumber>,
    deleted_bytes: u32,
}

impl Runs<'_> {
    /// Puts modifications of a key, of these blocks, into a run.
    fn put(&mut self, number: u8, at: (u8, u8), some: &[Modification<'_>]) {
        if some.is_empty() {
            return;
        }
        let number = usize::from(number);
        if self.runs.len() <= number {
            self.runs.resize_with(number + 1, Run::default);
        }
        let Runs { runs, combining, kinds, deleted_bytes } = self;
        let Some(run) = runs.get_mut(number) else { return };
        run.begin_key(number as u8, at);
        let mut put = |one: Modification<'_>| {
            let before = run.bytes.len();
            run.put(one);
            if one.kind == DELETE {
                *deleted_bytes += (run.bytes.len() - before) as u32;
            }
            if !kinds.contains(&one.kind) {
                kinds.push(one.kind);
            }
        };
        match combining.filter(|_| !some.iter().any(is_mark)) {
            Some(kinds) => for_each_combined(some, kinds, put),
            None => some.iter().copied().for_each(&mut put),
        }
    }

    /// Puts all modifications of a key among which there are marks of read points. What came before a read point and after it is
    /// told apart, and each point is told once.
    fn put_history(&mut self, at: (u8, u8), of_key: &mut Vec<Modification<'_>>) {
        let mut told = None;
        of_key.retain(|one| !is_mark(one) || told.replace(one.bytes) != Some(one.bytes));
        for some in of_key.chunk_by(|one, next| is_mark(one) == is_mark(next)) {
            self.put(ANY_UNIT, at, some);
        }
    }

    /// Puts all modifications of a key: up to the last that may change any unit into the first run, and the others into those of
    /// their units.
    fn put_by_units(
        &mut self,
        at: (u8, u8),
        of_key: &[Modification<'_>],
        format: &dyn BlockFormat,
    ) {
        let unit_of = |one: &Modification<'_>| format.unit_of(one);
        let may_divide =
            |one: &Modification<'_>| !Kinds::replaces(one.kind) && unit_of(one).is_none();
        let is_divided =
            |one: &Modification<'_>| may_divide(one) && format.divide(one, &mut |_| {});
        if of_key.iter().any(is_divided) {
            let (mut bytes, mut contents) = (Vec::new(), Vec::new());
            for one in of_key {
                let before = contents.len();
                let is_divided = may_divide(one)
                    && format.divide(one, &mut |content| {
                        let first = bytes.len();
                        bytes.extend_from_slice(content);
                        contents.push((one, Some(first..bytes.len())));
                    });
                if !is_divided {
                    contents.truncate(before);
                    contents.push((one, None));
                }
            }
            let divided: Vec<Modification<'_>> = contents
                .into_iter()
                .map(|(one, content)| match content.and_then(|range| bytes.get(range)) {
                    Some(bytes) => Modification { bytes, ..*one },
                    None => *one,
                })
                .collect();
            return self.put_each_unit(at, &divided, format);
        }
        self.put_each_unit(at, of_key, format);
    }

    /// The same once they are divided by units.
    fn put_each_unit(
        &mut self,
        at: (u8, u8),
        of_key: &[Modification<'_>],
        format: &dyn BlockFormat,
    ) {
        let unit_of = |one: &Modification<'_>| format.unit_of(one);
        let any = of_key.iter().rposition(|one| unit_of(one).is_none()).map_or(0, |at| at + 1);
        let (any_unit, one_unit) = of_key.split_at_checked(any).unwrap_or((of_key, &[]));
        self.put(ANY_UNIT, at, any_unit);
        let mut units: Vec<usize> = one_unit.iter().filter_map(unit_of).collect();
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let of_unit = one_unit.iter().filter(|one| unit_of(one) == Some(unit));
            let of_unit: Vec<Modification<'_>> = of_unit.copied().collect();
            self.put(ANY_UNIT + 1 + unit.min(UNITS_MAX - 1) as u8, at, &of_unit);
        }
    }

    /// The chunk, and its bytes.
    fn end(mut self) -> (Chunk, Vec<u8>) {
        self.runs.iter_mut().for_each(Run::end_part);
        let mut runs = self.runs.into_iter();
        let mut all = runs.next().unwrap_or_default();
        runs.for_each(|run| all.append(run));
        let Run { bytes, parts, filters, .. } = all;
        let (parts, filters) = (parts.into(), filters.into());
        let (deleted_bytes, kinds) = (self.deleted_bytes, self.kinds.into());
        (Chunk { parts, filters, deleted_bytes, kinds }, bytes)
    }
}

impl Chunk {
    /// What other chunks hold, the oldest first, and after them `queue`, as short as the kinds allow; with the chunk's bytes, and
    /// the references to long values that are left out.
    pub(crate) fn of(
        older: &[Bytes],
        queue: &Queue,
        blocks: &Blocks,
        kinds: &Kinds,
        format: &dyn BlockFormat,
    ) -> (Chunk, Vec<u8>, References) {
        let mut sorted = Sorted::new(older, queue);
        let first = Run {
            bytes: Vec::with_capacity(queue.bytes() + older.iter().map(Bytes::len).sum::<usize>()),
            filters: Vec::with_capacity(queue.count()),
            ..Run::default()
        };
        // Who makes modifications of other spaces of what changes sees each change.
        let combining = (format.emitted_bytes_max() == 0).then_some(kinds);
        let mut runs = Runs { runs: vec![first], combining, kinds: Vec::new(), deleted_bytes: 0 };
        let mut left = References::default();
        let mut of_key = Vec::new();
        while let Some(key) = sorted.take_key(&mut of_key) {
            let at = blocks.holding(key);
            // In a history nothing is left out: a read point may need it.
            if of_key.iter().any(is_mark) {
                runs.put_history(at, &mut of_key);
            } else {
                if combining.is_some() {
                    left.add_put(left_out(&of_key).iter().copied());
                }
                runs.put_by_units(at, &of_key, format);
            }
            of_key.clear();
        }
        let (chunk, bytes) = runs.end();
        (chunk, bytes, left)
    }

    /// Which kinds its modifications are of.
    pub(crate) fn kinds(&self) -> &[KindNumber] {
        &self.kinds
    }

    /// How many modifications there are.
    pub(crate) fn count(&self) -> usize {
        self.filters.len()
    }

    /// Bytes of the deletes in it.
    pub(crate) fn deleted_bytes(&self) -> u64 {
        u64::from(self.deleted_bytes)
    }

    /// Bytes of its modifications.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.last().map_or(0, |last| last.end as usize)
    }

    /// Device blocks that it takes.
    pub(crate) fn length(&self) -> BlockCount {
        BlockCount((self.bytes() as u64).div_ceil(BLOCK_BYTES))
    }

    /// Bytes and filters before a part.
    fn before(&self, part: usize) -> (usize, usize) {
        let before = part.checked_sub(1).and_then(|before| self.parts.get(before));
        before.map_or((0, 0), |before| (before.end as usize, before.count as usize))
    }

    /// Gives `take` the bytes where modifications of some units of some blocks are, run by run; when the last part that a
    /// run has of these blocks may have something of `key`, if one is given.
    pub(crate) fn for_each_range(
        &self,
        blocks: &Range<usize>,
        units: UnitSet,
        key: Option<KeyHash>,
        mut take: impl FnMut(Range<usize>),
    ) {
        let runs = self.parts.last().map_or(0, |last| last.run + 1);
        for run in 0..runs {
            if run == ANY_UNIT || units.has(usize::from(run - ANY_UNIT - 1)) {
                self.range_of(run, blocks, key).into_iter().for_each(&mut take);
            }
        }
    }

    fn range_of(
        &self,
        run: u8,
        blocks: &Range<usize>,
        key: Option<KeyHash>,
    ) -> Option<Range<usize>> {
        let is_before = |part: &ChunkPart| (part.run, usize::from(part.last)) < (run, blocks.start);
        let is_within = |part: &ChunkPart| (part.run, usize::from(part.first)) < (run, blocks.end);
        let first = self.parts.partition_point(is_before);
        let end = self.parts.partition_point(is_within);
        let last = end.checked_sub(1).filter(|last| *last >= first)?;
        let last_part = self.parts.get(last)?;
        let filter = self.filters.get(self.before(last).1..last_part.count as usize)?;
        let is_wanted = key.is_none_or(|key| key.may_be_in(filter));
        is_wanted.then_some(self.before(first).0..last_part.end as usize)
    }

    /// The bytes of each run, and whether it is the one of modifications that may change any unit. The modifications of a run are in
    /// the order of their keys.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (bool, Range<usize>)> {
        let mut begin = 0;
        self.parts.chunk_by(|one, next| one.run == next.run).map(move |parts| {
            let end = parts.last().map_or(begin, |last| last.end as usize);
            let is_any = parts.first().is_some_and(|first| first.run == ANY_UNIT);
            (is_any, std::mem::replace(&mut begin, end)..end)
        })
    }

    /// Whether `content` is whole parts of the chunk, from the one that begins with byte `from` on, as they were written.
    pub(crate) fn is_right(&self, from: usize, mut content: &[u8]) -> bool {
        let mut at = self.parts.partition_point(|part| part.end as usize <= from);
        while !content.is_empty() {
            let begin = self.before(at).0;
            let Some(part) = self.parts.get(at) else { return false };
            let bytes = (part.end as usize).saturating_sub(begin);
            let Some((content_of, rest)) = content.split_at_checked(bytes) else { return false };
            if !is_sum(part.checksum, crc32c::crc32c(content_of)) {
                return false;
            }
            (content, at) = (rest, at + 1);
        }
        true
    }

    /// The bytes of all parts, each with the first and the last of its blocks.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (RangeInclusive<usize>, Range<usize>)> {
        self.parts.iter().enumerate().map(|(at, part)| {
            let blocks = part.first as usize..=part.last as usize;
            (blocks, self.before(at).0..part.end as usize)
        })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let parts = self.parts.len() * size_of::<ChunkPart>();
        parts + self.filters.len() + self.kinds.len() + size_of::<Chunk>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.parts.len() as u64);
        let (mut count, mut end) = (0, 0);
        for part in &self.parts {
            put_number(out, u64::from(part.run));
            put_number(out, u64::from(part.first));
            put_number(out, u64::from(part.last - part.first));
            put_number(out, u64::from(part.count - count));
            put_number(out, u64::from(part.end - end));
            out.extend_from_slice(&part.checksum.to_le_bytes());
            (count, end) = (part.count, part.end);
        }
        out.extend_from_slice(&self.filters);
        put_number(out, u64::from(self.deleted_bytes));
        let kinds: Vec<u8> = self.kinds.iter().map(|kind| kind.0).collect();
        put_bytes(out, &kinds);
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<Chunk> {
        let mut parts: Vec<ChunkPart> = Vec::new();
        let (mut count, mut end) = (0_u32, 0_u32);
        for _ in 0..taker.number()? {
            let run = taker.number32()?;
            let first = taker.number32()?;
            let last = first.checked_add(taker.number32()?)?;
            let follows =
                |before: &ChunkPart| (u32::from(before.run), u32::from(before.last)) < (run, first);
            if run > UNITS_MAX as u32
                || last >= PARTITION_BLOCKS_MAX
                || !parts.last().is_none_or(follows)
            {
                return None;
            }
            count = count.checked_add(taker.number32()?)?;
            end = end.checked_add(taker.number32()?)?;
            let (run, first, last) = (run as u8, first as u8, last as u8);
            parts.push(ChunkPart { run, first, last, count, end, checksum: taker.le32()? });
        }
        let filters = taker.fixed(count as usize)?.into();
        let deleted_bytes = taker.number32()?;
        let kinds = taker.bytes()?.iter().copied().map(KindNumber).collect();
        Some(Chunk { parts: parts.into(), filters, deleted_bytes, kinds })
    }
}

/// Whether it marks a read point in a history.
fn is_mark(one: &Modification<'_>) -> bool {
    one.kind == AFTER_POINT
}

/// The modifications of a key that do not matter: those before the last one that replaces.
fn left_out<'a, 'b>(of_key: &'b [Modification<'a>]) -> &'b [Modification<'a>] {
    let from = of_key.iter().rposition(|one| Kinds::replaces(one.kind)).unwrap_or(0);
    of_key.get(..from).unwrap_or_default()
}

/// Gives `put` the modifications of a key, as few as do the same.
fn for_each_combined(
    of_key: &[Modification<'_>],
    kinds: &Kinds,
    mut put: impl FnMut(Modification<'_>),
) {
    let mut rest = of_key.get(left_out(of_key).len()..).unwrap_or_default().iter();
    let Some(mut last) = rest.next().copied() else { return };
    let (mut combined, mut both) = (Vec::new(), Vec::new());
    let mut is_combined = false;
    for next in rest {
        let older = if is_combined { &combined[..] } else { last.bytes };
        both.clear();
        if next.kind == last.kind && kinds.combine(last.kind, older, next.bytes, &mut both) {
            std::mem::swap(&mut combined, &mut both);
            is_combined = true;
            continue;
        }
        put(Modification { bytes: older, ..last });
        (last, is_combined) = (*next, false);
    }
    let bytes = if is_combined { &combined[..] } else { last.bytes };
    put(Modification { bytes, ..last });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::decode;
    use crate::ids::PointNumber;
    use crate::{PUT, WholeBlocks};

    const BLOCKS: [&[u8]; 3] = [b"b", b"d", b"f"];

    fn bytes_for(
        chunk: &Chunk,
        blocks: Range<usize>,
        key: Option<KeyHash>,
    ) -> Option<Range<usize>> {
        let mut all = Vec::new();
        chunk.for_each_range(&blocks, UnitSet::ALL, key, |range| all.push(range));
        assert!(all.len() <= 1);
        all.pop()
    }

    /// Of values of 200 bytes.
    fn chunk_of(keys: &[&[u8]]) -> (Chunk, Vec<u8>) {
        let mut queue = Queue::default();
        for key in keys {
            let mut encoded = Vec::new();
            encode(&mut encoded, Modification { key, kind: PUT, bytes: &[7; 200] });
            queue.push(key, &encoded, PointNumber::default());
        }
        let table = Blocks::Of(Arc::new(BlockTable::new(BLOCKS.into_iter(), vec![0; 3])));
        let (chunk, bytes, _) = Chunk::of(&[], &queue, &table, &Kinds::new(), &WholeBlocks);
        (chunk, bytes)
    }

    #[test]
    fn a_block_is_in_one_part_and_a_part_is_worth_reading() {
        let all: [&[u8]; 9] = [b"f1", b"a", b"b2", b"f0", b"b3", b"f1", b"d1", b"f2", b"e"];
        let (chunk, bytes) = chunk_of(&all);
        assert_eq!(chunk.bytes(), bytes.len());
        let keys_of = |blocks: Range<usize>, key| -> Vec<String> {
            let wanted = bytes_for(&chunk, blocks, key).unwrap();
            let part = &bytes[wanted.clone()];
            assert!(chunk.is_right(wanted.start, part));
            let mut damaged = part.to_vec();
            *damaged.last_mut().unwrap() ^= 1;
            assert!(!chunk.is_right(wanted.start, &damaged));
            assert!(!chunk.is_right(wanted.start, &part[1..]));
            decode(part).map(|one| String::from_utf8(one.key.to_vec()).unwrap()).collect()
        };
        // What comes before the first block is in the first; of a key the last value alone is there; of the second
        // block there is too little for a part.
        let first = ["a", "b2", "b3"];
        assert_eq!(keys_of(0..1, None), first);
        let rest = ["d1", "e", "f0", "f1", "f2"];
        assert_eq!(keys_of(1..2, None), rest);
        assert_eq!(keys_of(2..3, Some(KeyHash::of(b"f1"))), rest);
        // Neighbours, in one piece.
        assert_eq!(keys_of(1..3, None), rest);
        assert_eq!(keys_of(0..2, None), [&first[..], &rest[..]].concat());
        assert_eq!(chunk.parts().count(), 2);
        let others = (0..100_u8).filter(|last| !b"012".contains(last));
        let may_be =
            |last: &u8| bytes_for(&chunk, 2..3, Some(KeyHash::of(&[b'f', *last]))).is_some();
        let taken = others.filter(may_be).count();
        assert!(taken <= 10, "{taken} of 97 keys that are not there");
        // Nothing of the first block, and of the last.
        let (chunk, _) = chunk_of(&[b"d1", b"d2"]);
        assert_eq!((bytes_for(&chunk, 0..1, None), bytes_for(&chunk, 2..3, None)), (None, None));
        assert!(bytes_for(&chunk, 0..3, None).is_some());
    }

    #[test]
    fn it_is_taken_as_it_was_put() {
        let (chunk, _) = chunk_of(&[b"a", b"d", b"e", b"x"]);
        let mut encoded = Vec::new();
        chunk.encode(&mut encoded);
        let mut taker = Taker(&encoded);
        assert_eq!(chunk.kinds(), [PUT]);
        assert_eq!(Chunk::take(&mut taker), Some(chunk));
        assert!(taker.is_empty());
        for end in 0..encoded.len() {
            assert_eq!(Chunk::take(&mut Taker(&encoded[..end])), None);
        }
        // A block that no partition has, a run of no unit, and runs and blocks out of their order.
        let taken = |parts: &[[u8; 3]]| {
            let mut encoded = vec![parts.len() as u8];
            parts.iter().for_each(|part| encoded.extend([&part[..], &[0; 6]].concat()));
            encoded.extend([0, 0]);
            Chunk::take(&mut Taker(&encoded)).is_some()
        };
        assert!(taken(&[[0, 63, 0]]) && !taken(&[[0, 63, 1]]));
        assert!(taken(&[[64, 0, 0]]) && !taken(&[[65, 0, 0]]));
        assert!(taken(&[[0, 1, 0], [0, 2, 0], [3, 1, 0]]));
        assert!(!taken(&[[0, 1, 0], [0, 1, 0]]) && !taken(&[[3, 1, 0], [0, 2, 0]]));
    }
}
