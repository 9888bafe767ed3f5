//! Groups of modifications, as programs make them.

use std::sync::Arc;

use crate::codec::Taker;
use crate::encoded::{put_modification, take_modification};
use crate::ids::{DELETE, KindNumber, PUT, PUT_LONG, SpaceId};
use crate::kind::Modification;
use crate::long::value::LongValue;

/// What an entry takes beside its key and content, at most: three numbers of up to five bytes, and its kind. See
/// `BlockFormat::emitted_bytes_max`.
const ENTRY_OVERHEAD_BYTES: usize = 16;

/// Modifications that are durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub(crate) bytes: Vec<u8>,
    count: usize,
    /// Spaces and kinds in it.
    pub(crate) uses: Vec<Use>,
    /// Bytes of all but deletes: what values may become longer by.
    pub(crate) added_bytes: usize,
    /// The long values that it refers to.
    pub(crate) long: Vec<Arc<LongValue>>,
}

/// Modifications of a kind in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) space: SpaceId,
    pub(crate) kind: KindNumber,
    /// Bytes of the longest key, and of the longest content.
    pub(crate) key_bytes: usize,
    pub(crate) bytes: usize,
    /// Whether there are puts of long values, which are on the device already.
    pub(crate) has_long: bool,
}

/// The modifications of a group, in their order.
pub struct Modifications<'a>(Taker<'a>);

impl<'a> Iterator for Modifications<'a> {
    type Item = (SpaceId, Modification<'a>);

    fn next(&mut self) -> Option<(SpaceId, Modification<'a>)> {
        take_modification(&mut self.0)
    }
}

impl std::fmt::Debug for Modifications<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Modifications").finish_non_exhaustive()
    }
}

impl Use {
    pub(crate) fn of(space: SpaceId, one: Modification<'_>) -> Use {
        let (key_bytes, bytes) = (one.key.len(), one.bytes.len());
        Use { space, kind: one.kind, key_bytes, bytes, has_long: false }
    }

    fn is_like(&self, other: &Use) -> bool {
        (self.space, self.kind) == (other.space, other.kind)
    }

    fn include(&mut self, other: &Use) {
        self.key_bytes = self.key_bytes.max(other.key_bytes);
        self.bytes = self.bytes.max(other.bytes);
        self.has_long |= other.has_long;
    }
}

impl Group {
    /// None yet.
    #[must_use]
    pub fn new() -> Group {
        Group::default()
    }

    /// Adds a modification; it comes after those before it.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) {
        self.add(space, modification);
        let used = Use::of(space, modification);
        match self.uses.last_mut() {
            Some(last) if last.is_like(&used) => last.include(&used),
            _ => self.note(used),
        }
    }

    fn note(&mut self, used: Use) {
        match self.uses.iter_mut().find(|one| one.is_like(&used)) {
            Some(one) => one.include(&used),
            None => self.uses.push(used),
        }
    }

    /// Adds a put of a long value, which is on the device already. A value is for one group, which is committed once.
    pub fn put_long(&mut self, space: SpaceId, key: &[u8], value: &Arc<LongValue>) {
        let bytes = &value.reference.encode();
        self.add(space, Modification { key, kind: PUT_LONG, bytes });
        self.note(Use { space, kind: PUT, key_bytes: key.len(), bytes: 0, has_long: true });
        self.long.push(Arc::clone(value));
    }

    /// Adds a modification whose kind is known.
    pub(crate) fn add(&mut self, space: SpaceId, modification: Modification<'_>) {
        let before = self.bytes.len();
        put_modification(&mut self.bytes, space, modification);
        if modification.kind != DELETE {
            self.added_bytes += self.bytes.len() - before;
        }
        self.count += 1;
    }

    /// Bytes of the entries with one more, at most.
    pub(crate) fn bytes_with(&self, one: Modification<'_>) -> usize {
        self.bytes.len() + one.key.len() + one.bytes.len() + ENTRY_OVERHEAD_BYTES
    }

    /// Whether two of its puts are of one long value.
    pub(crate) fn has_long_twice(&self) -> bool {
        let mut values: Vec<*const LongValue> = self.long.iter().map(Arc::as_ptr).collect();
        values.sort_unstable();
        values.windows(2).any(|pair| matches!(pair, [one, next] if one == next))
    }

    /// Its modifications, in their order; of puts of long values the references.
    pub fn iter(&self) -> Modifications<'_> {
        Modifications(Taker(&self.bytes))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.uses.clear();
        (self.count, self.added_bytes) = (0, 0);
        self.long.clear();
    }
}
