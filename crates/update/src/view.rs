//! Views: neighbouring blocks of a partition, with all that is staged and pending for them.

mod ahead;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use self::ahead::Views;
use crate::block_format::NewBlocks;
use crate::codec::prefix_of;
use crate::data::place::Place;
use crate::draft::Moment;
use crate::encoded::{decode, decode_before, encode};
use crate::error::Result;
use crate::ids::{DELETE, KindNumber, PUT_LONG, SpaceId};
use crate::kind::{Kinds, Modification};
use crate::long::epoch::Epoch;
use crate::long::made::Made;
use crate::long::read::LongValues;
use crate::read::{Found, Wanted};
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::state::State;
use crate::state::points::Probe;
use crate::units::{Block, UnitSet};

/// Of the memory, what the blocks of one view may take, and the bounds of that. A view of blocks in columns reads a strip of each column, and a
/// disk takes as long to reach a strip as to read some hundred KiB.
const VIEW_SHARE: usize = 32;
const VIEW_BYTES_MIN: usize = 1 << 20;
const VIEW_BYTES_MAX: usize = 8 << 20;
/// The most bytes that a scan reads ahead, whatever the options say, and of how many disks.
pub(crate) const AHEAD_BYTES_MAX: usize = 16 << 20;
/// Scans keep blocks in the cache where the whole space takes no more than this part of the cache's room.
const KEPT_SPACE_SHARE: usize = 2;

/// Which block of a space is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// The one with this key.
    Key(&'a [u8]),
    /// The one with the keys just before this one.
    Before(&'a [u8]),
    /// The last.
    Last,
}

/// The same, with a key of its own.
#[derive(Clone, Debug)]
enum OwnedAt {
    Key(Box<[u8]>),
    Before(Box<[u8]>),
    Last,
}

impl OwnedAt {
    fn of(at: At<'_>) -> OwnedAt {
        match at {
            At::Key(key) => OwnedAt::Key(key.into()),
            At::Before(key) => OwnedAt::Before(key.into()),
            At::Last => OwnedAt::Last,
        }
    }

    fn at(&self) -> At<'_> {
        match self {
            OwnedAt::Key(key) => At::Key(key),
            OwnedAt::Before(key) => At::Before(key),
            OwnedAt::Last => At::Last,
        }
    }

    /// Where the view behind one that was asked for here is; `None` behind the last.
    fn behind(&self, view: &WantedView) -> Option<OwnedAt> {
        match self {
            OwnedAt::Key(_) => view.next.clone().map(OwnedAt::Key),
            OwnedAt::Before(_) | OwnedAt::Last => view.low.clone().map(OwnedAt::Before),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            OwnedAt::Key(key) | OwnedAt::Before(key) => key,
            OwnedAt::Last => &[],
        }
    }
}

/// Neighbouring blocks as they are with all that is pending for them.
#[derive(Debug)]
pub struct View {
    parts: Vec<ViewPart>,
    /// The modifications of all layers, one after the other.
    modifications: Vec<u8>,
    /// What was read, block after block.
    strips: Vec<Bytes>,
    unit_bytes: Arc<[usize]>,
    /// The lowest key of the first block; `None` when no block lies before it.
    pub low: Option<Box<[u8]>>,
    /// The lowest key of the block behind the last; `None` when there is none.
    pub next: Option<Box<[u8]>>,
    /// The long values that the blocks refer to: see [`Engine::long_value`](crate::Engine::long_value).
    pub long: LongValues,
}

#[derive(Debug)]
enum ViewPart {
    /// A block for which nothing is pending, with its lowest key: which one of those that were read.
    Read(Box<[u8]>, usize),
    /// What a block would be written as: one, several, or none when it is empty.
    Merged(NewBlocks),
    /// Which block of those that were read, if any, with its lowest key, and where its modifications are.
    Layers(Box<[u8]>, Option<usize>, Range<usize>),
}

/// A block as it is on the device, and what modifies it.
#[derive(Clone, Debug)]
pub struct Layers<'a> {
    /// It holds the keys from here on.
    pub low: &'a [u8],
    /// `None` where a partition has no block yet.
    pub block: Option<Block<'a>>,
    modifications: &'a [u8],
}

impl<'a> Layers<'a> {
    /// The modifications that are not in the block yet, in the order of their keys, and of one key oldest first. Some
    /// may change other units alone than were asked for.
    pub fn modifications(&self) -> impl Iterator<Item = Modification<'a>> + use<'a> {
        decode(self.modifications)
    }
}

impl View {
    /// The blocks, in the order of their keys, each with its lowest key. One that modifications are pending for comes as it
    /// would be written: as one, several, or none when it is empty.
    pub fn blocks(&self) -> impl Iterator<Item = (&[u8], Block<'_>)> {
        let read = |index| Block::read(&self.strips, index, &self.unit_bytes);
        self.parts.iter().flat_map(move |part| {
            let (block, new_blocks) = match part {
                ViewPart::Read(low, index) => (Some((&**low, read(*index))), None),
                ViewPart::Merged(new_blocks) => (None, Some(new_blocks.iter())),
                ViewPart::Layers(low, index, _) => (index.map(|index| (&**low, read(index))), None),
            };
            block.into_iter().chain(new_blocks.into_iter().flatten())
        })
    }

    /// The bytes of blocks that it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.strips.iter().map(|strip| strip.len() as u64).sum()
    }

    /// The same of a reader [in layers](crate::Reader::in_layers); of others there are none.
    pub fn layers(&self) -> impl Iterator<Item = Layers<'_>> {
        let read = |index| Block::read(&self.strips, index, &self.unit_bytes);
        self.parts.iter().filter_map(move |part| match part {
            ViewPart::Layers(low, index, modifications) => Some(Layers {
                low,
                block: index.map(read),
                modifications: self.modifications.get(modifications.clone()).unwrap_or_default(),
            }),
            ViewPart::Read(..) | ViewPart::Merged(_) => None,
        })
    }
}

/// What to read for a view, and the keys between which it lies.
struct WantedView {
    wanted: Wanted,
    low: Option<Box<[u8]>>,
    next: Option<Box<[u8]>>,
    /// What is pending in memory, encoded as in queues; of each key the oldest first.
    pending: Vec<u8>,
    /// Long values among that.
    made: Vec<Bytes>,
    in_layers: bool,
    epoch: Arc<Epoch>,
}

impl Shared {
    /// The block at `at` and those that follow it, up to `blocks_max`; with [`At::Before`] and [`At::Last`] those that come
    /// before it. `None` when nothing lies there. All are of one partition, and lie side by side.
    pub(crate) async fn view(
        &self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
        moment: Moment<'_>,
    ) -> Result<Option<View>> {
        match self.located(space, at, blocks_max, moment).await? {
            Some(wanted) => self.read_view(wanted).await.map(Some),
            None => Ok(None),
        }
    }

    /// What to read for the view at `at`.
    async fn located(
        &self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
        moment: Moment<'_>,
    ) -> Result<Option<WantedView>> {
        let wanted = |state: &mut State, tables: &mut TablesAtHand<'_>| {
            self.wanted_at(state, tables, (space, at), blocks_max, moment)
        };
        self.with_tables(wanted).await
    }

    async fn read_view(&self, wanted: WantedView) -> Result<View> {
        let WantedView { wanted, low, next, pending, made, in_layers, epoch } = wanted;
        let found = self.read_blocks(&wanted).await?;
        let spec = Arc::clone(wanted.place.spec());
        let keys = (low.as_deref(), next.as_deref());
        let all = modifications(&wanted, &found, keys, &pending);
        let (mut layered, of_blocks) = (Vec::new(), divided(&wanted, &found, &all));
        let (parts, made) = if in_layers {
            let parts = layers(&wanted, &found, keys.0, of_blocks, &mut layered);
            (parts, made)
        } else {
            self.merged(&wanted, &found, keys.0, (of_blocks, made)).await?
        };
        let (strips, unit_bytes) = (found.strips, Arc::clone(&wanted.place.shape().unit_bytes));
        let long = LongValues { epoch: None, made: made.into() };
        let mut view = View { parts, modifications: layered, strips, unit_bytes, low, next, long };
        // Who shows no long value keeps no blocks in use.
        if view.blocks().any(|(_, block)| spec.format.has_long_values(block)) {
            view.long.epoch = Some(epoch);
        }
        Ok(view)
    }

    /// What the blocks of a view take at most, but for a longer block.
    fn view_bytes_max(&self) -> usize {
        (self.memory_bytes / VIEW_SHARE).clamp(VIEW_BYTES_MIN, VIEW_BYTES_MAX)
    }

    /// The most blocks of a partition that a view has: those that this divides the partition into are about as long as each other.
    fn view_blocks(&self, place: &Place, units: UnitSet) -> usize {
        let most = (self.view_bytes_max() / place.shape().bytes_of(units).max(1)).max(1);
        let views = place.blocks().div_ceil(most).max(1);
        place.blocks().div_ceil(views)
    }

    /// What to read for a view; `None` outside when a table is missing.
    fn wanted_at(
        &self,
        state: &mut State,
        tables: &mut TablesAtHand<'_>,
        (space, at): (SpaceId, At<'_>),
        blocks_max: usize,
        moment: Moment<'_>,
    ) -> Result<Option<Option<WantedView>>> {
        let probe = match at {
            At::Before([]) => return Ok(Some(None)),
            At::Key(key) => Probe::Key(key),
            At::Before(key) => Probe::Before(key),
            At::Last => Probe::Last,
        };
        // Scans of many rows need no order: they sort the modifications of each view after the lock is released.
        if moment.within.is_some() {
            let holder = self.holder(state, space, probe, moment.point)?;
            if let Some((id, _)) = holder.partition.filter(|(_, one)| one.active.is_to_order()) {
                state.order_keys(id);
            }
        }
        let holder = self.holder(state, space, probe, moment.point)?;
        holder.place.spec().check_units(moment.units)?;
        let count = holder.place.blocks();
        let blocks_max = blocks_max.min(self.view_blocks(holder.place, moment.units)).max(1);
        let (is_first, is_last) = match at {
            At::Key(key) => (key <= holder.low, false),
            // All of it lies before the key.
            At::Before(key) => (false, holder.high.is_some_and(|high| high <= key)),
            At::Last => (false, true),
        };
        // All blocks of a partition are found without their table, which is read with them.
        let is_whole = (is_first || is_last) && count <= blocks_max;
        let is_table_read =
            is_whole && holder.place.has_table_with_blocks() && tables.get(holder.place).is_none();
        let table = match is_table_read {
            true => Arc::default(),
            false => match tables.of(holder.place) {
                Some(table) => table,
                None => return Ok(None),
            },
        };
        let block = match at {
            At::Key(_) if is_first => 0,
            At::Key(key) => table.holding(key),
            _ if is_last => count.saturating_sub(1),
            At::Before(key) => match table.holding(key) {
                block if block > 0 && table.low(block) >= key => block - 1,
                block => block,
            },
            At::Last => count.saturating_sub(1),
        };
        let (first, end) =
            holder.place.neighbours(block).map_or((block, block + 1), |run| match at {
                At::Key(_) => (block, run.end.min(block + blocks_max)),
                At::Before(_) | At::Last => {
                    (run.start.max((block + 1).saturating_sub(blocks_max)), block + 1)
                }
            });
        // The lowest key of the first block: the holder's, if that is its first one; none of the very first.
        let low = match first {
            0 => (!holder.low.is_empty()).then(|| holder.low.into()),
            block => Some(table.low(block).into()),
        };
        let next = match end < count {
            true => Some(table.low(end).into()),
            false => holder.high.map(Box::from),
        };
        let mut pending = Vec::new();
        let mut from: &[u8] = low.as_deref().unwrap_or_default();
        let mut to = next.as_deref();
        let mut cut = None;
        if let Some(within) = moment.within {
            from = from.max(within.from);
            to = to.into_iter().chain(within.to).min();
            cut = holder.cut((from, to), within.changes);
            to = to.into_iter().chain(cut).min();
        }
        let mut merged = 0;
        for modification in holder.pending(moment.units, (from, to)) {
            encode(&mut pending, modification);
            merged += usize::from(is_work(modification.kind));
        }
        let own = moment.own_between(space, from, to);
        let made = encode_own(holder.place.spec(), &mut pending, own);
        let next = cut.map_or(next, |cut| Some(cut.into()));
        let mut wanted = Wanted::of(&holder, table, (first..end, moment.units), None);
        wanted.is_table_read = is_table_read;
        if let Some(with) = moment.in_layers
            && !(pending.is_empty() && wanted.staged.is_empty())
        {
            wanted.units = wanted.units.with(with);
        }
        wanted.is_to_keep = self.may_keep_space(state, space, &wanted);
        if let Some((id, _)) = holder.partition {
            // A scan reads many rows for what it merges; who wants a few reads them again and again.
            let merged = if moment.within.is_some() { merged } else { 0 };
            self.pay(state, id, Some(&wanted), merged);
        }
        let epoch = self.epoch_at(state, moment.point)?;
        let in_layers = moment.in_layers.is_some();
        Ok(Some(Some(WantedView { wanted, low, next, pending, made, in_layers, epoch })))
    }

    /// Whether the cache is to keep blocks of a view: where all of the space, in such units, takes little of its room. Views of a
    /// longer one would drive out what others read often, and be gone themselves before they are asked for again.
    fn may_keep_space(&self, state: &State, space: SpaceId, wanted: &Wanted) -> bool {
        let Wanted { place, units, .. } = wanted;
        let partitions = state.spaces.get(&space).map_or(0, |directory| directory.len());
        let bytes = place.blocks() * place.shape().bytes_of(*units);
        partitions.saturating_mul(bytes) <= self.cache_bytes_max(state) / KEPT_SPACE_SHARE
    }

    /// The blocks with their modifications applied, and the long values that merges made.
    async fn merged(
        &self,
        wanted: &Wanted,
        found: &Found,
        low: Option<&[u8]>,
        (of_blocks, mut made): (Vec<&[Modification<'_>]>, Vec<Bytes>),
    ) -> Result<(Vec<ViewPart>, Vec<Bytes>)> {
        let Wanted { place, blocks, .. } = wanted;
        let spec = place.spec();
        let mut parts = Vec::with_capacity(blocks.len());
        for (index, (block, modifications)) in blocks.clone().zip(of_blocks).enumerate() {
            let content = found.block(wanted, index);
            let block_low = low_of(wanted, found, low, block);
            match content {
                Some(_) if modifications.is_empty() => {
                    parts.push(ViewPart::Read(block_low.into(), index));
                }
                content => {
                    let mut new_blocks = spec.new_blocks(wanted.units, Made::Memory(made));
                    let merged = self
                        .merge_long(spec, block_low, content, modifications, &mut new_blocks)
                        .await?;
                    let replaced = (!merged.is_empty()).then(|| merged.put_into(modifications));
                    spec.format
                        .apply(
                            block_low,
                            content,
                            replaced.as_deref().unwrap_or(modifications),
                            &self.kinds,
                            &mut new_blocks,
                        )
                        .map_err(|_| self.damaged_block(place, block))?;
                    made = new_blocks.made.take_values();
                    parts.push(ViewPart::Merged(new_blocks));
                }
            }
        }
        Ok((parts, made))
    }
}

/// Whether readers of a few rows do work for a modification that a sweep would save: it is merged, or passed over. The rest they want.
fn is_work(kind: KindNumber) -> bool {
    kind == DELETE || !Kinds::replaces(kind)
}

/// What is staged and pending between two keys, in the order of the keys.
fn modifications<'a>(
    wanted: &Wanted,
    found: &'a Found,
    (low, next): (Option<&[u8]>, Option<&[u8]>),
    pending: &'a [u8],
) -> Vec<Modification<'a>> {
    let from = low.unwrap_or_default();
    let is_shown =
        |one: &Modification<'_>| one.key >= from && next.is_none_or(|next| one.key < next);
    let staged = found.staged.iter().flat_map(|part| decode_before(part, wanted.point));
    let staged = staged.filter(is_shown);
    let all: Vec<Modification<'_>> = staged.chain(decode(pending)).collect();
    if all.is_sorted_by_key(|one| one.key) {
        return all;
    }
    // All keys begin with what both ends have in common; eight bytes behind that tell most of them apart.
    let common = |next: &[u8]| from.iter().zip(next).take_while(|(one, next)| one == next).count();
    let common = next.map_or(0, common);
    let prefix = |one: &Modification<'_>| prefix_of(one.key.get(common..).unwrap_or_default());
    let mut places: Vec<(u64, u32)> =
        all.iter().zip(0..).map(|(one, at)| (prefix(one), at)).collect();
    places.sort_unstable();
    let key = |place: &(u64, u32)| all.get(place.1 as usize).map(|one| one.key);
    for same in places.chunk_by_mut(|one, next| one.0 == next.0) {
        if same.len() > 1 {
            same.sort_by(|one, other| key(one).cmp(&key(other)));
        }
    }
    places.iter().filter_map(|place| all.get(place.1 as usize).copied()).collect()
}

/// Those of each block.
fn divided<'a, 'm>(
    wanted: &Wanted,
    found: &Found,
    all: &'a [Modification<'m>],
) -> Vec<&'a [Modification<'m>]> {
    let (table, mut rest) = (found.table(wanted), all);
    let of_block = |block: usize| {
        let count = match block + 1 == wanted.blocks.end {
            true => rest.len(),
            false => rest.partition_point(|one| one.key < table.low(block + 1)),
        };
        let (of_block, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        rest = others;
        of_block
    };
    wanted.blocks.clone().map(of_block).collect()
}

/// The lowest key of a block; the partition's lowest key where it has no blocks yet.
fn low_of<'a>(
    wanted: &'a Wanted,
    found: &'a Found,
    low: Option<&'a [u8]>,
    block: usize,
) -> &'a [u8] {
    let table = found.table(wanted);
    if table.len() == 0 { low.unwrap_or_default() } else { table.low(block) }
}

/// The blocks as they are, with their modifications in `layered`.
fn layers(
    wanted: &Wanted,
    found: &Found,
    low: Option<&[u8]>,
    of_blocks: Vec<&[Modification<'_>]>,
    layered: &mut Vec<u8>,
) -> Vec<ViewPart> {
    let mut parts = Vec::with_capacity(of_blocks.len());
    for (index, (block, modifications)) in wanted.blocks.clone().zip(of_blocks).enumerate() {
        let first = layered.len();
        modifications.iter().for_each(|one| encode(layered, *one));
        let of_block = found.block(wanted, index).map(|_| index);
        // The first block has all keys from the partition's lowest on, also where its own are higher.
        let low = match block {
            0 => low.unwrap_or_default(),
            block => low_of(wanted, found, low, block),
        };
        parts.push(ViewPart::Layers(low.into(), of_block, first..layered.len()));
    }
    parts
}

/// Appends the program's own modifications to those that are pending, with references in the place of long values; gives these.
fn encode_own<'a>(
    spec: &Spec,
    pending: &mut Vec<u8>,
    own: impl Iterator<Item = Modification<'a>>,
) -> Vec<Bytes> {
    let mut made = Made::Memory(Vec::new());
    for one in own {
        let reference = spec.is_long(one).then(|| made.make(one.bytes)).flatten();
        match reference.map(|reference| reference.encode()) {
            Some(bytes) => encode(pending, Modification { kind: PUT_LONG, bytes: &bytes, ..one }),
            None => encode(pending, one),
        }
    }
    made.take_values()
}
