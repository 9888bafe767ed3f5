//! Reads of the values under several keys at once.

use futures::StreamExt;
use futures::stream;

use crate::error::Result;
use crate::ids::{PartitionId, SpaceId};
use crate::read::{Found, Wanted};
use crate::shared::Shared;
use crate::state::State;

/// Blocks that are read at the same time for the keys of one call.
const READS_MAX: usize = 32;

/// Keys of one block, which is read once for all of them.
struct Asked {
    partition: PartitionId,
    wanted: Wanted,
    /// Whether what is pending leaves one of them open.
    is_read: bool,
    keys: Vec<AskedKey>,
}

struct AskedKey {
    /// The place of its answer.
    place: usize,
    /// Its modifications in memory, as queues have them.
    pending: Vec<u8>,
    /// Whether these say all.
    is_told: bool,
}

impl Shared {
    /// The values under `keys`, in that order and all of one moment.
    pub(crate) async fn get_many(
        &self,
        space: SpaceId,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let all = self.asked(&mut self.state(), space, keys)?;
        let mut answers = vec![None; keys.len()];
        let mut reads = stream::iter(all)
            .map(async |asked| {
                let found = match asked.is_read {
                    true => self.read_block(&asked.wanted).await,
                    false => Ok(Found::default()),
                };
                (asked, found)
            })
            .buffer_unordered(READS_MAX);
        while let Some((asked, found)) = reads.next().await {
            let (found, nothing) = (found?, Found::default());
            for AskedKey { place, pending, is_told } in &asked.keys {
                let (Some(key), Some(answer)) = (keys.get(*place), answers.get_mut(*place)) else {
                    continue;
                };
                let found = if *is_told { &nothing } else { &found };
                *answer = self.value_in(&asked.wanted, found, key, pending)?;
            }
        }
        Ok(answers)
    }

    /// What to read for `keys`, block by block.
    fn asked(&self, state: &mut State, space: SpaceId, keys: &[&[u8]]) -> Result<Vec<Asked>> {
        let mut sorted: Vec<(usize, &[u8])> = keys.iter().copied().enumerate().collect();
        sorted.sort_by_key(|(_, key)| *key);
        let mut all: Vec<Asked> = Vec::new();
        for (place, key) in sorted {
            let (partition, mut wanted, is_told) = self.wanted_for(state, space, key)?;
            let pending = std::mem::take(&mut wanted.pending);
            if is_told {
                wanted.staged.clear();
            }
            let of_key = AskedKey { place, pending, is_told };
            match all.last_mut() {
                Some(last) if last.partition == partition && last.wanted.block == wanted.block => {
                    last.is_read |= !is_told;
                    last.wanted.staged.append(&mut wanted.staged);
                    last.keys.push(of_key);
                }
                _ => {
                    all.push(Asked { partition, wanted, is_read: !is_told, keys: vec![of_key] });
                }
            }
        }
        for asked in all.iter_mut().filter(|asked| asked.is_read) {
            let staged = &mut asked.wanted.staged;
            // Later chunks have extents of higher numbers.
            staged.sort_by_key(|(one, part)| (one.extent.number, part.bytes.start));
            staged.dedup_by_key(|(one, part)| (one.extent.number, part.bytes.start));
            self.pay(state, asked.partition, &asked.wanted);
        }
        Ok(all)
    }
}
