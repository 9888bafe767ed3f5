//! What opening an engine parses, for the fuzz targets: arbitrary bytes give `None` or an error, and no panic.

use crate::codec::Taker;
use crate::data::checkpoint::{decode_state, encode_state};
use crate::data::extents::Extents;
use crate::data::superblock::Superblock;
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::kind::Kinds;
use crate::log::frame::Frame;
use crate::state::State;
use crate::state::entry::Entry;
use crate::state::partition::Partition;

const EXTENTS: u32 = 16;

/// A superblock; the addresses that it gives do not overflow.
pub fn superblock(bytes: &[u8]) {
    if let Some(superblock) = Superblock::decode(bytes) {
        let last = superblock.division.extents;
        let _ = superblock.division.staging_at(
            last,
            superblock.division.staging,
            superblock.division.block,
        );
        for ring in &superblock.rings {
            let _ = ring.segment_at(ring.segments);
        }
    }
}

/// A checkpoint's state: what is parsed is what was written.
pub fn checkpoint(bytes: &[u8]) {
    if let Some(state) = decode_state(bytes, &Extents::new(EXTENTS), Seq(9)) {
        let written = encode_state(&state);
        drop(state);
        let again = decode_state(&written, &Extents::new(EXTENTS), Seq(9));
        assert_eq!(again.map(|state| encode_state(&state)), Some(written));
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
    let mut state = State::new(Extents::new(EXTENTS));
    state.spaces.insert(SpaceId(1), Default::default());
    let _ = state.add(PartitionId(0), Partition::new(SpaceId(1), Box::default(), Seq(0)));
    let mut taker = Taker(content);
    for seq in 1.. {
        let length = taker.le32().map(|length| length as usize);
        let Some(group) = length.and_then(|length| taker.fixed(length)) else { break };
        entries(group);
        if state.apply(Seq(seq), group, &Kinds::new(), Seq(3)).is_err() {
            break;
        }
        let queued: usize = state
            .partitions
            .iter()
            .map(|one| {
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

    /// Seeds of an older format would lead a fuzzer nowhere.
    #[test]
    fn seeds_are_of_this_format() {
        let seed = |name: &str, first: u8| {
            let path = format!("{}/../../fuzz/seeds/log/{name}", env!("CARGO_MANIFEST_DIR"));
            let mut bytes = std::fs::read(path).unwrap();
            assert_eq!(bytes.remove(0), first);
            bytes
        };
        let bytes = seed("superblock", b'b');
        assert!(Superblock::decode(&bytes).is_some());
        superblock(&bytes);
        let bytes = seed("checkpoint", b'c');
        let state = decode_state(&bytes, &Extents::new(EXTENTS), Seq(9)).unwrap();
        assert_eq!(state.partitions[0].staged.len(), 2);
        checkpoint(&bytes);
        let (frame, groups) = (seed("frame", b'l'), seed("groups", b'l'));
        assert_eq!(Frame::decode(&frame).unwrap().1, groups);
        let state = super::groups(&frame);
        // All of them were taken in: the last is of a space that the one before makes.
        assert_eq!((state.partitions.len(), state.next, state.queued), (3, Seq(11), 2));
    }
}
