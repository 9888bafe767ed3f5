//! Groups of modifications, as programs make them.

use crate::ids::{KindNumber, SpaceId};
use crate::kind::Modification;
use crate::state::entry::put_modification;

/// Modifications that are durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub(crate) bytes: Vec<u8>,
    count: usize,
    /// Spaces and kinds in it.
    pub(crate) uses: Vec<(SpaceId, KindNumber)>,
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
        put_modification(&mut self.bytes, space, modification);
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
        (self.count, self.longest) = (0, (0, 0));
    }
}
