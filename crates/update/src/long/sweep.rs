//! Long values in sweeps: which of them a partition refers to, and which are left.

use moirai_units::BlockRange;

use crate::block_format::BlockFormat;
use crate::encoded::decode;
use crate::ids::{DELETE, PUT_LONG};
use crate::kind::{Kinds, Modification};
use crate::long::epoch::Epoch;
use crate::long::reference::Reference;
use crate::long::references::References;
use crate::read_whole::Content;
use crate::shared::Shared;
use crate::state::partition::Staged;
use crate::units::Block;

/// Whether a chunk has references.
pub(crate) fn has_references(staged: &Staged) -> bool {
    staged.chunk.kinds().contains(&PUT_LONG)
}

impl Shared {
    /// The references in what was read of a partition.
    pub(crate) fn references(&self, read: &Content) -> References {
        let mut all = References::default();
        for block in read.blocks() {
            for (_, reference) in read.format().references(block).unwrap_or_default() {
                all.add(reference);
            }
        }
        read.chunks.iter().for_each(|chunk| all.add_put(decode(chunk)));
        all
    }

    /// The blocks of the values in `before` that nothing refers to any more, as `after` tells. Blocks of a value whose
    /// index cannot be read stay in use.
    pub(crate) async fn left_runs(
        &self,
        before: References,
        after: &References,
    ) -> Vec<BlockRange> {
        let mut runs = Vec::new();
        for reference in before.without(after).iter() {
            match self.runs_of(reference).await {
                Ok(more) => runs.extend(more),
                Err(error) => tracing::warn!("blocks of a long value stay in use: {error}"),
            }
        }
        runs
    }

    /// Frees what sweeps have left, now that the log says so, once all readers have ended that may read it.
    pub(crate) fn free_left(&self) {
        // Dropped once the state is no longer locked.
        let _ended = {
            let mut state = self.state();
            let left = std::mem::take(&mut state.left);
            (!left.is_empty()).then(|| Epoch::end(&mut state.epoch, left))
        };
    }

    /// The long values of a partition that cannot be read, with their keys.
    pub(crate) async fn damaged_long_values<'a>(
        &self,
        read: &'a Content,
    ) -> Vec<(&'a [u8], Reference)> {
        let mut all = Vec::new();
        for block in read.blocks() {
            all.extend(read.format().references(block).unwrap_or_default());
        }
        let staged = read.chunks.iter().flat_map(|chunk| decode(chunk));
        let put = staged.filter(|one| one.kind == PUT_LONG);
        all.extend(put.map(|one| (one.key, one.bytes)));
        let mut damaged = Vec::new();
        for (key, reference) in all {
            let Some(reference) = Reference::decode(reference) else { continue };
            if self.check_long(&reference).await.is_err() {
                damaged.push((key, reference));
            }
        }
        damaged
    }

    /// Reads a long value, part by part.
    pub(crate) async fn check_long(&self, reference: &Reference) -> crate::error::Result<()> {
        for part in self.parts(reference).await? {
            self.read_part(&part).await?;
        }
        Ok(())
    }

    /// The modifications of a block with deletes in the place of puts of damaged values, and before them deletes of those that
    /// the block refers to; without merges onto these.
    pub(crate) fn without_damaged<'a>(
        &self,
        format: &dyn BlockFormat,
        modifications: Vec<Modification<'a>>,
        block: Option<Block<'a>>,
        damaged: &References,
    ) -> Vec<Modification<'a>> {
        let delete = |key| Modification { key, kind: DELETE, bytes: &[] };
        let references = block.map(|block| format.references(block).unwrap_or_default());
        let in_block = references.into_iter().flatten();
        let in_block = in_block.filter(|(_, reference)| damaged.has(reference));
        let put = |one: Modification<'a>| match one.kind == PUT_LONG && damaged.has(one.bytes) {
            true => delete(one.key),
            false => one,
        };
        let mut all: Vec<Modification<'a>> = in_block.map(|(key, _)| delete(key)).collect();
        let in_block = all.len();
        let mut is_lost = false;
        for (index, one) in modifications.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| modifications.get(before));
            if before.is_none_or(|before| before.key != one.key) {
                is_lost =
                    all.get(..in_block).unwrap_or_default().iter().any(|lost| lost.key == one.key);
            }
            if Kinds::replaces(one.kind) {
                is_lost = put(*one) != *one;
            }
            // Merges onto a value that is lost go with it.
            if Kinds::replaces(one.kind) || !is_lost {
                all.push(put(*one));
            }
        }
        all.sort_by(|one, other| one.key.cmp(other.key));
        all
    }
}
