//! Reads of the values under several keys at once.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;

use crate::data::place::Place;
use crate::draft::Moment;
use crate::error::Result;
use crate::ids::{PartitionId, SpaceId};
use crate::read::{Found, Lookup, Wanted};
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::state::State;

/// Blocks that are read at the same time for the keys of one call.
const READS_MAX: usize = 32;

/// Keys of one block, which is read once for all of them.
struct Asked {
    partition: Option<PartitionId>,
    wanted: Wanted,
    keys: Vec<AskedKey>,
}

struct AskedKey {
    /// The place of its answer.
    place: usize,
    /// Where the blocks of its partition lie.
    of: Arc<Place>,
    /// Its modifications in memory, as queues have them.
    pending: Vec<u8>,
}

/// What to read, block by block, and the keys of which memory says all.
#[derive(Default)]
struct AllAsked {
    blocks: Vec<Asked>,
    told: Vec<AskedKey>,
}

impl Shared {
    /// The values under `keys`, in that order and all of one moment.
    pub(crate) async fn get_many(
        &self,
        space: SpaceId,
        keys: &[&[u8]],
        moment: Moment<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut sorted: Vec<(usize, &[u8])> = keys.iter().copied().enumerate().collect();
        sorted.sort_by_key(|(_, key)| *key);
        let (AllAsked { blocks, told, .. }, _epoch) = self
            .with_tables(|state, tables| {
                let asked = self.asked(state, tables, space, &sorted, moment)?;
                let epoch = self.epoch_at(state, moment.point)?;
                Ok(asked.map(|asked| (asked, epoch)))
            })
            .await?;
        let mut answers = vec![None; keys.len()];
        let mut answer = async |read: Option<(&Wanted, &Found)>, asked: &AskedKey| -> Result<()> {
            if let (Some(key), Some(answer)) = (keys.get(asked.place), answers.get_mut(asked.place))
            {
                let value = self.value_in(asked.of.spec(), read, key, &asked.pending).await?;
                *answer = self.whole(value).await?;
            }
            Ok(())
        };
        for asked in &told {
            answer(None, asked).await?;
        }
        let mut reads = stream::iter(blocks)
            .map(async |asked| {
                let found = self.read_blocks(&asked.wanted).await;
                (asked, found)
            })
            .buffer_unordered(READS_MAX);
        while let Some((Asked { wanted, keys, .. }, found)) = reads.next().await {
            let found = found?;
            for asked in &keys {
                answer(Some((&wanted, &found)), asked).await?;
            }
        }
        drop(reads);
        Ok(answers)
    }

    /// What to read for the sorted `keys`, which come with the places of their answers; `None` when tables are missing.
    fn asked(
        &self,
        state: &mut State,
        tables: &mut TablesAtHand<'_>,
        space: SpaceId,
        keys: &[(usize, &[u8])],
        moment: Moment<'_>,
    ) -> Result<Option<AllAsked>> {
        let mut all = AllAsked::default();
        let (mut partitions, mut has_all) = (Vec::with_capacity(keys.len()), true);
        for (place, key) in keys {
            let Some(Lookup { partition, place: of_key, wanted, pending, merged }) =
                self.lookup(state, tables, (space, key), moment)?
            else {
                has_all = false;
                continue;
            };
            let of_key = AskedKey { place: *place, of: of_key, pending };
            partitions.extend(partition.map(|partition| (partition, merged)));
            let Some(mut wanted) = wanted else {
                all.told.push(of_key);
                continue;
            };
            match all.blocks.last_mut() {
                Some(last)
                    if Arc::ptr_eq(&last.wanted.place, &wanted.place)
                        && last.wanted.blocks == wanted.blocks =>
                {
                    last.wanted.staged.append(&mut wanted.staged);
                    last.keys.push(of_key);
                }
                _ => all.blocks.push(Asked { partition, wanted, keys: vec![of_key] }),
            }
        }
        if !has_all {
            return Ok(None);
        }
        let mut ordered = None;
        for (partition, merged) in partitions {
            self.pay(state, partition, None, merged);
            if ordered.replace(partition) != Some(partition) {
                state.order_for_keys(partition);
            }
        }
        for asked in &mut all.blocks {
            let staged = &mut asked.wanted.staged;
            // Later chunks have extents of higher numbers.
            staged.sort_by_key(|(one, part)| (one.extent.number, part.start));
            staged.dedup_by_key(|(one, part)| (one.extent.number, part.start));
            if let Some(partition) = asked.partition {
                self.pay(state, partition, Some(&asked.wanted), 0);
            }
        }
        Ok(Some(all))
    }
}
