//! Merges onto long values: the values are read before the modifications of a block are applied.

use bytes::Bytes;

use crate::error::Result;
use crate::ids::PUT_LONG;
use crate::kind::{Kinds, Modification};
use crate::long::Stored;
use crate::long::reference::Reference;
use crate::shared::Shared;

/// Long values that merges change, by their references.
pub(crate) type Bases = Vec<(Box<[u8]>, Bytes)>;

impl Shared {
    /// Reads the long values that some of `modifications`, which are sorted by key, change in `block`. Values that are too
    /// long for merges are left out.
    pub(crate) async fn bases(
        &self,
        low: &[u8],
        block: Option<&[u8]>,
        modifications: &[Modification<'_>],
    ) -> Result<Bases> {
        let mut bases = Bases::new();
        for base in self.bases_of(low, block, modifications) {
            bases.extend(self.base(base).await?);
        }
        Ok(bases)
    }

    /// The same for readers: a value that cannot be read is left out, and fails when its own key is read.
    pub(crate) async fn bases_for_view(
        &self,
        low: &[u8],
        block: Option<&[u8]>,
        modifications: &[Modification<'_>],
    ) -> Bases {
        let mut bases = Bases::new();
        for base in self.bases_of(low, block, modifications) {
            bases.extend(self.base(base).await.ok().flatten());
        }
        bases
    }

    async fn base(&self, base: &[u8]) -> Result<Option<(Box<[u8]>, Bytes)>> {
        let reference = Reference::decode(base).ok_or_else(|| self.damaged_reference())?;
        let value = self.read_to_merge(&reference).await?;
        Ok(value.map(|value| (base.into(), value.into())))
    }

    /// The references to the long values that merges change.
    fn bases_of<'a>(
        &self,
        low: &[u8],
        block: Option<&'a [u8]>,
        modifications: &[Modification<'a>],
    ) -> Vec<&'a [u8]> {
        let mut bases = Vec::new();
        let has_long = modifications.iter().any(|one| one.kind == PUT_LONG)
            || block.is_some_and(|block| self.format.has_long_values(block));
        if !has_long {
            return bases;
        }
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let Some(last) = of_key.last().filter(|last| !Kinds::replaces(last.kind)) else {
                continue;
            };
            let in_block = || block.map(|block| self.format.find(low, block, last.key));
            match of_key.iter().rfind(|one| Kinds::replaces(one.kind)) {
                Some(put) if put.kind == PUT_LONG => bases.push(put.bytes),
                Some(_) => {}
                None => {
                    if let Some(Ok(Some(Stored::Long(reference)))) = in_block() {
                        bases.push(reference);
                    }
                }
            }
        }
        bases
    }
}
