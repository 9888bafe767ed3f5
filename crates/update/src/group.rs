//! Groups of modifications, as programs make them.

use crate::ids::{DELETE, KindNumber, SpaceId};
use crate::kind::Modification;
use crate::state::entry::put_modification;

/// Modifications that are durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub(crate) bytes: Vec<u8>,
    count: usize,
    /// Spaces and kinds in it.
    pub(crate) uses: Vec<(SpaceId, KindNumber)>,
    /// Bytes of all but deletes: what values may become longer by.
    pub(crate) added_bytes: usize,
    /// The longest key and modification.
    pub(crate) longest: (usize, usize),
}

impl Group {
    /// None yet.
    #[must_use]
    pub fn new() -> Group {
        Group::default()
    }

    /// Adds a modification; it comes after those before it.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) {
        let before = self.bytes.len();
        put_modification(&mut self.bytes, space, modification);
        if modification.kind != DELETE {
            self.added_bytes += self.bytes.len() - before;
        }
        self.count += 1;
        let (key, bytes) = self.longest;
        self.longest = (key.max(modification.key.len()), bytes.max(modification.bytes.len()));
        let used = (space, modification.kind);
        if self.uses.last() != Some(&used) && !self.uses.contains(&used) {
            self.uses.push(used);
        }
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
        (self.count, self.added_bytes, self.longest) = (0, 0, (0, 0));
    }
}
