//! Sets of references to long values.

use std::collections::BTreeMap;

use moirai_units::Lbn;

use crate::ids::PUT_LONG;
use crate::kind::Modification;
use crate::long::reference::Reference;

/// References to long values on the device, by what tells them apart.
#[derive(Debug, Default)]
pub(crate) struct References(BTreeMap<Lbn, Reference>);

impl References {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add_all(&mut self, others: References) {
        self.0.extend(others.0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reference> {
        self.0.values()
    }

    /// Adds an encoded reference. One that is none is of a damaged block, and passed over.
    pub(crate) fn add(&mut self, reference: &[u8]) {
        let reference = Reference::decode(reference);
        self.0.extend(reference.and_then(|one| Some((one.first()?, one))));
    }

    /// These.
    pub(crate) fn of(all: impl Iterator<Item = Reference>) -> References {
        References(all.filter_map(|one| Some((one.first()?, one))).collect())
    }

    /// Adds those of modifications.
    pub(crate) fn add_put<'a>(&mut self, all: impl Iterator<Item = Modification<'a>>) {
        all.filter(|one| one.kind == PUT_LONG).for_each(|one| self.add(one.bytes));
    }

    pub(crate) fn has(&self, reference: &[u8]) -> bool {
        let first = Reference::decode(reference).and_then(|one| one.first());
        first.is_some_and(|first| self.0.contains_key(&first))
    }

    /// Removes those that are in `others`.
    pub(crate) fn without(mut self, others: &References) -> References {
        self.0.retain(|first, _| !others.0.contains_key(first));
        self
    }
}
