//! Kinds of modifications: what a modification does to the value under a key.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ids::{DELETE, KINDS_OF_PROGRAMS, KindNumber, PUT, PUT_LONG};
use crate::limits::MERGED_BYTES_MAX;
use crate::long::stored::Stored;

/// A modification of the value under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modification<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its kind.
    pub kind: KindNumber,
    /// What the kind makes of it.
    pub bytes: &'a [u8],
}

/// What is under a key, while modifications are applied to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Whether there is a value.
    pub is_there: bool,
    /// The value; of no meaning when there is none.
    pub bytes: Vec<u8>,
    /// Whether the value is a long one, and the bytes refer to it. Kinds never see such a value.
    pub is_long: bool,
}

impl Value {
    /// Takes another value, or none, over.
    pub fn set(&mut self, value: Option<&[u8]>) {
        self.is_there = value.is_some();
        self.is_long = false;
        self.bytes.clear();
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Takes over what a block holds.
    pub fn set_stored(&mut self, stored: Option<Stored<'_>>) {
        match stored {
            Some(Stored::Long(reference)) => {
                self.set(Some(reference));
                self.is_long = true;
            }
            Some(Stored::Short(value)) => self.set(Some(value)),
            None => self.set(None),
        }
    }

    /// What a block is to hold; `None` when there is no value.
    #[must_use]
    pub fn stored(&self) -> Option<Stored<'_>> {
        let stored = if self.is_long { Stored::Long } else { Stored::Short };
        self.is_there.then_some(stored(&self.bytes))
    }

    /// The value; `None` when there is none.
    #[must_use]
    pub fn get(&self) -> Option<&[u8]> {
        self.is_there.then_some(&self.bytes)
    }
}

/// A kind of modifications that programs register, like a counter. Applying one must depend on nothing but
/// the value and the modification: it is done again after a crash, and whenever a value is read.
pub trait Kind: Send + Sync {
    /// Whether `modification` can be applied to `value`. A value that it does not fit is left as it is, and the
    /// modification is counted ([`Figures::refused`](crate::Figures::refused)).
    fn fits(&self, value: &Value, modification: &[u8]) -> bool {
        let _ = (value, modification);
        true
    }

    /// Changes `value` as `modification` says.
    fn apply(&self, value: &mut Value, modification: &[u8]);

    /// Puts into `both` one modification that does what `older` and `newer` do one after the other, and
    /// tells whether it could. Where a value grows beyond [`MERGED_BYTES_MAX`] with the older, the newer is refused by itself,
    /// and not together with it.
    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        let _ = (older, newer, both);
        false
    }
}

/// What somebody wants to know of the value under a key, which what is pending in memory may tell.
pub trait Question: Sync {
    /// What comes back.
    type Answer;

    /// The answer, where the newest modification of the value tells it, whatever was before, and puts no long value. It is as the program
    /// gave it: what the blocks' format makes of a value is not yet done.
    fn of_newest(&self, newest: Modification<'_>) -> Option<Self::Answer>;

    /// The answer where the value is a long one, and need not be read for it.
    fn of_long(&self) -> Option<Self::Answer> {
        None
    }

    /// The answer from the value with all that was modified; `None` when there is none.
    fn of_value(&self, value: Option<&[u8]>) -> Self::Answer;
}

/// The kinds that an engine knows.
#[derive(Clone, Default)]
pub struct Kinds {
    registered: Vec<Option<Arc<dyn Kind>>>,
}

impl Kinds {
    /// [`PUT`] and [`DELETE`] alone.
    #[must_use]
    pub fn new() -> Kinds {
        Kinds::default()
    }

    /// Registers a kind. An error when its number is below [`KINDS_OF_PROGRAMS`] or has a kind.
    pub fn register(&mut self, number: KindNumber, kind: Arc<dyn Kind>) -> Result<()> {
        let index = usize::from(number.0);
        if number < KINDS_OF_PROGRAMS || self.registered.get(index).is_some_and(Option::is_some) {
            return Err(Error::KindTaken { number });
        }
        if self.registered.len() <= index {
            self.registered.resize(index + 1, None);
        }
        if let Some(place) = self.registered.get_mut(index) {
            *place = Some(kind);
        }
        Ok(())
    }

    fn registered(&self, number: KindNumber) -> Option<&dyn Kind> {
        self.registered.get(usize::from(number.0))?.as_deref()
    }

    pub(crate) fn knows(&self, number: KindNumber) -> bool {
        Kinds::replaces(number) || self.registered(number).is_some()
    }

    /// Changes `value`; tells whether the modification fitted it. Unknown kinds do nothing: the engine takes none in,
    /// and does not open where the log or a staged chunk has one.
    pub fn apply(&self, number: KindNumber, value: &mut Value, modification: &[u8]) -> bool {
        match number {
            PUT => value.set(Some(modification)),
            DELETE => value.set(None),
            PUT_LONG => value.set_stored(Some(Stored::Long(modification))),
            // A value that is too long for merges, whether it is on the device or not.
            _ if value.is_long || value.bytes.len() as u64 > MERGED_BYTES_MAX.0 => return false,
            number => {
                if let Some(kind) = self.registered(number) {
                    if !kind.fits(value, modification) {
                        return false;
                    }
                    kind.apply(value, modification);
                }
            }
        }
        true
    }

    /// Whether nothing that came before a modification of this kind matters.
    pub(crate) fn replaces(number: KindNumber) -> bool {
        matches!(number, PUT | DELETE | PUT_LONG)
    }

    pub(crate) fn combine(
        &self,
        number: KindNumber,
        older: &[u8],
        newer: &[u8],
        both: &mut Vec<u8>,
    ) -> bool {
        self.registered(number).is_some_and(|kind| kind.combine(older, newer, both))
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = self.registered.iter().enumerate().filter(|(_, kind)| kind.is_some());
        f.debug_list().entries(numbers.map(|(number, _)| number)).finish()
    }
}
