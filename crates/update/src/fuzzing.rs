//! What opening an engine parses, for the fuzz targets: arbitrary bytes give `None` or an error, and no panic.

use std::sync::Arc;

use moirai_extents::{Ensembles, Extents};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::Taker;
use crate::data::checkpoint::format::{Index, decode_state, encode_state, take_root};
use crate::data::division::Division;
use crate::data::layout::Layout;
use crate::data::superblock::Superblock;
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::kind::Kinds;
use crate::limits::PAGE_PARTITIONS;
use crate::log::frame::Frame;
use crate::spec::{Specs, whole_blocks};
use crate::state::State;
use crate::state::directory::Directory;
use crate::state::entry::Entry;
use crate::state::partition::Partition;

const DATA: BlockRange = BlockRange { first: Lbn(16), count: BlockCount(4096) };

const DIVISION: Division = Division {
    grain: BlockCount(1),
    block: BlockCount(1),
    partition_blocks: 4,
    staging: BlockCount(64),
};

fn extents() -> Arc<Extents> {
    Extents::new(DATA, DIVISION.grain, Ensembles::none())
}

fn specs() -> Specs {
    whole_blocks(DIVISION)
}

/// A state with a space of one partition.
fn state_with_space() -> State {
    let mut state = State::new(specs(), extents());
    let spec = Arc::clone(&state.specs.default);
    state.spaces.insert(SpaceId(1), Directory::new(&spec, PAGE_PARTITIONS));
    let partition = Partition::new(SpaceId(1), &spec, Box::default(), Seq(0));
    let _ = state.add(PartitionId(0), partition);
    state
}

/// A superblock; the addresses that it gives do not overflow.
pub fn superblock(bytes: &[u8]) {
    if let Some(superblock) = Superblock::decode(bytes) {
        let Layout { data, division } = superblock.layout;
        let _ = (division.partition(), data.end() + division.block);
        for ring in &superblock.rings {
            let _ = ring.segment_at(ring.segments);
        }
    }
}

/// A checkpoint's state: what is parsed is what was written. And a root, and an index.
pub fn checkpoint(bytes: &[u8]) {
    let _ = take_root(bytes);
    if let Some(index) = Index::take(bytes) {
        let mut state = State::new(specs(), extents());
        let _ = index.put_into(&mut state);
    }
    if let Ok(state) = decode_state(bytes, specs(), &extents(), Seq(9)) {
        let written = encode_state(&state);
        drop(state);
        let again = decode_state(&written, specs(), &extents(), Seq(9));
        assert_eq!(again.map(|state| encode_state(&state)), Ok(written));
    }
}

/// A frame of the log, and the groups in it, which change a state that has a space.
pub fn log(bytes: &[u8]) {
    let _ = groups(bytes);
}

/// The state that the groups in a frame, or in `bytes` themselves, lead to.
fn groups(bytes: &[u8]) -> State {
    let content = match Frame::decode(bytes) {
        Some((frame, content, _)) => content.get(frame.continued as usize..).unwrap_or_default(),
        None => bytes,
    };
    let mut state = state_with_space();
    let mut taker = Taker(content);
    for seq in 1.. {
        let length = taker.le32().map(|length| length as usize);
        let Some(group) = length.and_then(|length| taker.fixed(length)) else { break };
        entries(group);
        if state.apply(Seq(seq), group, &Kinds::new(), Seq(3)).is_err() {
            break;
        }
        state.left.clear();
        let queued: usize = state
            .partitions
            .iter()
            .map(|(_, one)| {
                one.active.count() + one.sealed.as_ref().map_or(0, |sealed| sealed.queue.count())
            })
            .sum();
        assert_eq!(queued, state.queued);
    }
    state.unseal();
    state
}

/// Entries mean the same when they are written and read again.
fn entries(group: &[u8]) {
    let mut taker = Taker(group);
    while let Some(entry) = Entry::take(&mut taker) {
        let mut written = Vec::new();
        entry.encode(&mut written);
        let again = Entry::take(&mut Taker(&written));
        let Some(again) = again else { panic!("{entry:?} is not read again") };
        let mut twice = Vec::new();
        again.encode(&mut twice);
        assert_eq!(twice, written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::place::{Location, TablePlace};
    use crate::data::strips::{Run, StripRows};
    use crate::data::superblock::Checkpoint;
    use crate::encoded::encode;
    use crate::group::Group;
    use crate::ids::PointNumber;
    use crate::ids::{DELETE, PUT};
    use crate::kind::Modification;
    use crate::limits::NAME_BYTES;
    use crate::log::segments::{LOG_DISKS_MAX, LogWriter, Ring, Start};
    use crate::spec::SpecBytes;
    use crate::state::block_table::BlockTable;
    use crate::state::chunk::{Blocks, Chunk};
    use crate::state::entry::Placed;
    use crate::state::queue::Queue;

    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);

    fn put(space: u32, keys: &[&str]) -> Vec<u8> {
        let mut group = Group::new();
        for key in keys {
            let modification = Modification { key: key.as_bytes(), kind: PUT, bytes: b"value" };
            group.modify(SpaceId(space), modification);
        }
        group.bytes
    }

    fn own(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut group = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut group));
        group
    }

    fn staged(first: u64, combined: usize) -> Vec<u8> {
        let mut queue = Queue::default();
        let mut encoded = Vec::new();
        encode(&mut encoded, Modification { key: b"a", kind: DELETE, bytes: b"" });
        queue.push(b"a", &encoded, PointNumber::default());
        let (chunk, ..) =
            Chunk::of(&[], &queue, &Blocks::All(0), &Kinds::new(), &crate::WholeBlocks);
        own(&[Entry::Staged { partition: A, chunk, first: Lbn(first), combined }])
    }

    fn placed(partition: PartitionId, first: u64, lows: &[&str]) -> Placed {
        let blocks = BlockTable::new(lows.iter().map(|low| low.as_bytes()), vec![7; lows.len()]);
        let low = lows.first().unwrap().as_bytes().into();
        let count = lows.len() as u32;
        let runs = [Run { first: Lbn(first), count, rows: StripRows::ONE }].into();
        let table = match lows.len() {
            3.. => TablePlace::Behind { bytes: 100, checksum: 7 },
            _ => TablePlace::Short(Arc::new(blocks)),
        };
        Placed { partition, low, location: Location { runs, table, has_long: false, shape: None } }
    }

    fn long(first: u64, count: u64) -> BlockRange {
        BlockRange::new(Lbn(first), BlockCount(count))
    }

    /// Two chunks, one that takes the place of the second, a division, long values, a merge of the halves, and a space that is made.
    fn groups_seed() -> Vec<Vec<u8>> {
        let seal = |id| Entry::Seal { partition: id };
        vec![
            put(1, &["a", "b"]),
            own(&[seal(A)]),
            staged(100, 0),
            put(1, &["c"]),
            own(&[seal(A)]),
            staged(101, 0),
            put(1, &["az"]),
            own(&[seal(A)]),
            staged(102, 1),
            put(1, &["m"]),
            own(&[seal(A)]),
            own(&[
                Entry::Refused { partition: A, count: 3 },
                Entry::Long { runs: vec![long(1000, 8), long(1008, 8)] },
                Entry::Freed { runs: vec![long(1004, 8)] },
                Entry::Placed {
                    from: vec![A],
                    into: vec![placed(A, 200, &["", "b"]), placed(B, 300, &["k"])],
                },
            ]),
            put(1, &["n"]),
            own(&[seal(A), seal(B)]),
            put(1, &["l"]),
            own(&[Entry::Placed {
                from: vec![A, B],
                into: vec![placed(PartitionId(2), 400, &["", "c", "k"])],
            }]),
            own(&[Entry::CreateSpace {
                space: SpaceId(2),
                partition: A,
                spec: SpecBytes::default(),
            }]),
            put(2, &["k"]),
        ]
    }

    fn superblock_seed() -> Vec<u8> {
        let start = Start { at: [0; LOG_DISKS_MAX], number: 8, previous: 9, first: Seq(10) };
        let root = BlockRange::new(Lbn(96), BlockCount(1));
        let superblock = Superblock {
            generation: 1,
            id: 2,
            format: [b'x'; NAME_BYTES],
            layout: Layout { data: DATA, division: DIVISION },
            capacity: BlockCount(5000),
            rings: vec![Ring {
                segment: Ring::segment_min(BlockCount(8)),
                segments: 4,
                writer: LogWriter::Append,
                physical: BlockCount(8),
            }],
            checkpoint: Checkpoint { next: Seq(12), frame: 7, start, root, root_copy: Lbn(98) },
        };
        let mut bytes = superblock.encode().to_vec();
        // Without the zeros behind it: fuzzers take checksums for right, and tests do not.
        let length = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 16;
        bytes.truncate(length);
        let sum = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The seeds: what the fuzz target `log` does with the bytes, and the bytes.
    fn seeds() -> [(&'static str, u8, Vec<u8>); 4] {
        let all = groups_seed();
        let mut content = Vec::new();
        for group in &all {
            content.extend_from_slice(&(group.len() as u32).to_le_bytes());
            content.extend_from_slice(group);
        }
        let (log, number, first) = (2, 8, Seq(1));
        let (durable, previous, bytes) = (7, 9, content.len() as u32);
        let frame =
            Frame { log, number, first, durable, previous, bytes, continued: 0, opening: 1 };
        let mut state = state_with_space();
        for (seq, group) in (1..).zip(&all).take(6) {
            state.apply(Seq(seq), group, &Kinds::new(), Seq(0)).unwrap();
        }
        [
            ("superblock", b'b', superblock_seed()),
            ("checkpoint", b'c', encode_state(&state)),
            ("frame", b'l', frame.encode(&content, BlockCount(1)).0.to_vec()),
            ("groups", b'l', content),
        ]
    }

    /// Seeds of an older format would lead a fuzzer nowhere. `MOIRAI_WRITE_SEEDS=1` writes them anew.
    #[test]
    fn seeds_are_of_this_format() {
        for (name, first, bytes) in seeds() {
            let path = format!("{}/../../fuzz/seeds/log/{name}", env!("CARGO_MANIFEST_DIR"));
            let seed = [&[first][..], &bytes].concat();
            if std::env::var_os("MOIRAI_WRITE_SEEDS").is_some() {
                std::fs::write(&path, &seed).unwrap();
            }
            assert!(std::fs::read(&path).unwrap() == seed, "{path} is of another format");
        }
        let [(.., block), (.., state), (.., frame), (.., content)] = seeds();
        assert!(Superblock::decode(&block).is_some());
        superblock(&block);
        let decoded = decode_state(&state, specs(), &extents(), Seq(9)).unwrap();
        assert_eq!(decoded.partition(A).unwrap().staged.len(), 2);
        checkpoint(&state);
        assert_eq!(Frame::decode(&frame).unwrap().1, content);
        // All of them were taken in: the last is of a space that the one before makes.
        let state = super::groups(&frame);
        assert_eq!((state.partitions.len(), state.applied, state.queued), (2, Seq(19), 2));
        assert_eq!(state.refused, 3);
        let long_runs: Vec<BlockRange> = state.long.iter().collect();
        assert_eq!(long_runs, [long(1000, 4), long(1012, 4)]);
    }

    /// Of two partitions with the same lowest key, which no sweep makes, the first cannot be replaced: the directory would
    /// lose one, and keep the other twice.
    #[test]
    fn partitions_with_the_same_lowest_key_are_refused() {
        let mut state = state_with_space();
        let seal = || own(&[Entry::Seal { partition: A }]);
        let into = |lows: &[PartitionId]| {
            let into = lows.iter().map(|id| placed(*id, 200 + 100 * u64::from(id.0), &[""]));
            own(&[Entry::Placed { from: vec![A], into: into.collect() }])
        };
        let groups = [(seal(), true), (into(&[A, B]), true), (seal(), true), (into(&[A]), false)];
        for (seq, (group, is_taken)) in (1..).zip(groups) {
            let applied = state.apply(Seq(seq), &group, &Kinds::new(), Seq(0));
            assert_eq!(applied.is_ok(), is_taken, "group {seq}");
        }
    }

    /// Also where they are more than an entry of the log may leave out.
    #[test]
    fn free_numbers_are_read_back() {
        let mut state = state_with_space();
        let spec = Arc::clone(&state.specs.default);
        for _ in 0..70_000 {
            state.partitions.reserve();
        }
        let last = state.partitions.reserve();
        let partition = Partition::new(SpaceId(1), &spec, b"k"[..].into(), Seq(0));
        state.add(last, partition).unwrap();
        state.partitions.reserve();
        let bytes = encode_state(&state);
        let mut decoded = decode_state(&bytes, specs(), &extents(), Seq(9)).unwrap();
        assert_eq!(encode_state(&decoded), bytes);
        assert_eq!(decoded.partitions.slots(), state.partitions.slots());
        assert_eq!(decoded.partitions.reserve(), B);
    }
}
