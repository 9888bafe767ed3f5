//! Scans over a range of keys: a position between two records that moves both ways.

use std::ops::Bound;

use futures::Stream;
use futures::stream::try_unfold;
use moirai_units::ByteCount;
use moirai_update::{At, LongValues, Stored, View, Views};

use crate::leaf::Leaf;
use crate::range::KeyRange;
use crate::reader::Reader;
use crate::store::Tree;
use crate::{Error, Result, ValueReader};

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    #[default]
    Forward,
    /// From the highest key down.
    Backward,
}

impl Direction {
    fn reversed(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// A position between two records.
#[derive(Clone, Debug)]
enum Gap {
    /// Just before the record of this key, or where it would be.
    Before(Vec<u8>),
    /// Just after it.
    After(Vec<u8>),
    /// After all records.
    End,
}

/// Records of a tree in the order of their keys, between the ends of a range.
///
/// A scan is at a position between two records. [`Scan::next`] passes the record on one side and [`Scan::prev`] the one
/// on the other, so `prev` after `next` returns the same record again. A scan that came to an end stays there and can
/// turn back.
///
/// A scan reads one leaf first and, while it goes one way, twice as many with each request, up to 64 leaves. From
/// the fifth request on the next 2 MiB for each disk are read before they are asked for. It shows leaves as they were when they were read. It is no
/// snapshot, unless it is of a [`ReadPoint`](crate::ReadPoint): the scan may show or miss records that change meanwhile. While it goes one way, no record comes twice or out of
/// order.
#[derive(Debug)]
pub struct Scan<'a> {
    reader: Reader<'a>,
    tree: Tree,
    range: KeyRange,
    direction: Direction,
    /// The position, while no leaf is loaded.
    gap: Gap,
    has_leaves: bool,
    leaves: Loaded,
    /// How many leaves are read next, and which way the last ones lay.
    leaves_max: usize,
    way: Direction,
    /// The next leaves that way, once there are many.
    ahead: Option<Views>,
    /// A long value that was passed last.
    value: Vec<u8>,
}

/// How many leaves are read at once: at most, and when they are read ahead.
const LEAVES_MAX: usize = 64;
const LEAVES_AHEAD_MIN: usize = 16;

/// The value of a record that was passed.
pub(crate) enum Passed<'a> {
    Short(&'a [u8]),
    Long(ValueReader),
}

/// The records of some leaves that are in the range.
#[derive(Debug, Default)]
struct Loaded {
    /// Keys and values.
    bytes: Vec<u8>,
    records: Vec<Place>,
    /// What the references to long values are for.
    long: Option<LongValues>,
    /// How many records are before the position.
    at: usize,
    /// The keys between which all records are loaded; `None` where the range ends, or the tree.
    low: Option<Box<[u8]>>,
    next: Option<Box<[u8]>>,
}

/// Where a record lies among the bytes that are loaded.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: usize,
    /// Where the key ends, and the value begins.
    value: usize,
    end: usize,
    /// Whether the value is a reference to a long one.
    is_long: bool,
}

impl Loaded {
    fn record(&self, index: usize) -> Option<(&[u8], Stored<'_>)> {
        let Place { key, value, end, is_long } = *self.records.get(index)?;
        let (key, value) = (self.bytes.get(key..value)?, self.bytes.get(value..end)?);
        Some((key, if is_long { Stored::Long(value) } else { Stored::Short(value) }))
    }

    /// Passes a record, if there is one.
    fn pass(&mut self, way: Direction) -> Option<usize> {
        let index = match way {
            Direction::Forward => self.at,
            Direction::Backward => self.at.checked_sub(1)?,
        };
        self.records.get(index)?;
        self.at = match way {
            Direction::Forward => index + 1,
            Direction::Backward => index,
        };
        Some(index)
    }

    /// How many records are before the gap.
    fn rank(&self, gap: &Gap) -> usize {
        let key = |record: &Place| self.bytes.get(record.key..record.value);
        match gap {
            Gap::Before(at) => self.records.partition_point(|one| key(one) < Some(&at[..])),
            Gap::After(at) => self.records.partition_point(|one| key(one) <= Some(&at[..])),
            Gap::End => self.records.len(),
        }
    }
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        reader: Reader<'a>,
        tree: Tree,
        range: KeyRange,
        direction: Direction,
    ) -> Self {
        let gap = match direction {
            Direction::Forward => start_of(&range),
            Direction::Backward => end_of(&range),
        };
        Scan {
            reader,
            tree,
            range,
            direction,
            gap,
            has_leaves: false,
            leaves: Loaded::default(),
            leaves_max: 1,
            way: direction,
            ahead: None,
            value: Vec::new(),
        }
    }

    /// Passes the next record in the scan's direction and returns its key and value; `None` at the end.
    ///
    /// # Errors
    /// As of [`Store::get`](crate::Store::get), and [`Error::NoLeaf`]. The scan stays where it is.
    pub async fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(self.direction).await
    }

    /// As [`Scan::next`], but returns the key alone: a long value is not read.
    pub async fn next_key(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_sizes().await?.map(|(key, _)| key))
    }

    /// As [`Scan::next_key`], with the length of the value.
    pub(crate) async fn next_sizes(&mut self) -> Result<Option<(&[u8], ByteCount)>> {
        let index = self.pass(self.direction).await?;
        let record = index.and_then(|index| self.leaves.record(index));
        Ok(record.map(|(key, value)| (key, value.length())))
    }

    /// As [`Scan::next`], with a reader in the place of a long value.
    pub(crate) async fn next_passed(&mut self) -> Result<Option<(&[u8], Passed<'_>)>> {
        let Some(index) = self.pass(self.direction).await? else { return Ok(None) };
        let damaged = || Error::NoLeaf { tree: self.tree.name().to_owned() };
        let (key, value) = self.leaves.record(index).ok_or_else(damaged)?;
        let passed = match value {
            Stored::Short(value) => Passed::Short(value),
            Stored::Long(reference) => {
                let values = self.leaves.long.as_ref().ok_or_else(damaged)?;
                Passed::Long(self.reader.engine.long_value(values, reference).await?)
            }
        };
        Ok(Some((key, passed)))
    }

    /// Passes the record before, against the scan's direction, and returns its key and value; `None` at the end where the
    /// scan began. Errors as of [`Scan::next`].
    pub async fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(self.direction.reversed()).await
    }

    /// Moves to `key`, which need not exist: [`Scan::next`] returns the record of `key` or the first one after it in the
    /// scan's direction. A key outside of the range moves the scan to that end of the range. Reads nothing yet.
    pub fn seek(&mut self, key: &[u8]) {
        self.has_leaves = false;
        self.ahead = None;
        self.leaves.records.clear();
        self.leaves.at = 0;
        self.gap = match self.direction {
            _ if !self.range.begins_by(key) => start_of(&self.range),
            _ if !self.range.reaches(key) => end_of(&self.range),
            Direction::Forward => Gap::Before(key.into()),
            Direction::Backward => Gap::After(key.into()),
        };
    }

    /// The records from the position on, as a stream, each copied. The stream ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Record>> + 'a {
        try_unfold(self, async |mut scan| {
            let record = scan.next().await?.map(|(key, value)| (key.to_vec(), value.to_vec()));
            Ok(record.map(|record| (record, scan)))
        })
    }

    /// How many records come from the position on, upwards.
    pub(crate) async fn count(mut self) -> Result<u64> {
        let mut count = 0;
        while self.load(Direction::Forward).await? {
            count += self.leaves.records.len() as u64;
        }
        Ok(count)
    }

    async fn step(&mut self, way: Direction) -> Result<Option<(&[u8], &[u8])>> {
        let Some(index) = self.pass(way).await? else { return Ok(None) };
        if let Some((_, Stored::Long(reference))) = self.leaves.record(index) {
            match self.long_value(reference).await {
                Ok(value) => self.value = value,
                Err(error) => {
                    self.leaves.pass(way.reversed());
                    return Err(error);
                }
            }
        }
        Ok(self.leaves.record(index).map(|(key, value)| match value {
            Stored::Short(value) => (key, value),
            Stored::Long(_) => (key, &self.value[..]),
        }))
    }

    /// Passes a record, which is loaded then; `None` at the end.
    async fn pass(&mut self, way: Direction) -> Result<Option<usize>> {
        loop {
            if let Some(index) = self.leaves.pass(way) {
                return Ok(Some(index));
            }
            if !self.load(way).await? {
                return Ok(None);
            }
        }
    }

    async fn long_value(&self, reference: &[u8]) -> Result<Vec<u8>> {
        let damaged = || Error::NoLeaf { tree: self.tree.name().to_owned() };
        let values = self.leaves.long.as_ref().ok_or_else(damaged)?;
        let value = self.reader.engine.long_value(values, reference).await?;
        Ok(value.read(0..value.length().0).await?)
    }

    /// Loads the leaf at the position, or some after those that are loaded; tells whether there were any.
    async fn load(&mut self, way: Direction) -> Result<bool> {
        if !self.has_leaves || way != self.way {
            self.ahead = None;
            self.leaves_max = 1;
        }
        self.way = way;
        let at = match (self.has_leaves, way, &self.gap) {
            (true, Direction::Forward, _) => self.leaves.next.as_deref().map(At::Key),
            (true, Direction::Backward, _) => self.leaves.low.as_deref().map(At::Before),
            (false, Direction::Forward, Gap::End) => None,
            (false, Direction::Backward, Gap::End) => Some(At::Last),
            (false, Direction::Backward, Gap::Before(key)) => Some(At::Before(key)),
            (false, _, Gap::Before(key) | Gap::After(key)) => Some(At::Key(key)),
        };
        let Some(at) = at else { return Ok(false) };
        let Reader { engine, .. } = self.reader;
        let space = self.reader.space_of(&self.tree)?;
        if self.leaves_max >= LEAVES_AHEAD_MIN && self.ahead.is_none() {
            let range = self.range.clone();
            let goes_on = move |key: &[u8]| match way {
                Direction::Forward => range.reaches(key),
                Direction::Backward => is_above_start(&range, key),
            };
            self.ahead = Some(engine.views(space, at, LEAVES_MAX, goes_on));
        }
        let ahead = match &mut self.ahead {
            Some(ahead) => ahead.next().await.transpose(),
            None => Ok(None),
        };
        let view = match ahead {
            Ok(Some(view)) => Ok(Some(view)),
            Ok(None) => engine.view(space, at, self.leaves_max).await,
            Err(error) => Err(error),
        };
        let view = match view {
            // One of several leaves is damaged: those before it can be read.
            Err(_) if self.leaves_max > 1 => {
                (self.ahead, self.leaves_max) = (None, 1);
                engine.view(space, at, 1).await?
            }
            view => view?,
        };
        let Some(view) = view else { return Ok(false) };
        // Leaves may have been divided otherwise since: what was passed does not come again.
        let (mut low, mut next) = (view.low.clone(), view.next.clone());
        match way {
            Direction::Forward if self.has_leaves => low.clone_from(&self.leaves.next),
            Direction::Backward if self.has_leaves => next.clone_from(&self.leaves.low),
            _ => {}
        }
        if let Err(error) = self.fill(&view, low.as_deref(), next.as_deref()) {
            self.ahead = None;
            return Err(error);
        }
        self.leaves.at = match (self.has_leaves, way) {
            (true, Direction::Forward) => 0,
            (true, Direction::Backward) => self.leaves.records.len(),
            (false, _) => self.leaves.rank(&self.gap),
        };
        self.leaves.low = low.filter(|low| is_above_start(&self.range, low));
        self.leaves.next = next.filter(|next| self.range.reaches(next));
        self.has_leaves = true;
        self.leaves_max = (self.leaves_max * 2).min(LEAVES_MAX);
        Ok(true)
    }

    /// Copies the records from `low` up to `next`.
    fn fill(&mut self, view: &View, low: Option<&[u8]>, next: Option<&[u8]>) -> Result<()> {
        let Loaded { bytes, records, at, long, .. } = &mut self.leaves;
        *long = Some(view.long.clone());
        bytes.clear();
        records.clear();
        *at = 0;
        let damaged = || Error::NoLeaf { tree: self.tree.name().to_owned() };
        for (_, block) in view.blocks() {
            let leaf = Leaf::of(block.bytes()).ok_or_else(damaged)?;
            let is_here = |key: &[u8]| {
                low.is_none_or(|low| key >= low)
                    && next.is_none_or(|next| key < next)
                    && self.range.holds(key)
            };
            // Keys are in order: what holds of the first and the last holds of those between.
            let mut ends = [0, leaf.len().saturating_sub(1)].into_iter();
            let is_whole =
                ends.all(|index| leaf.record(index).is_some_and(|(key, _)| is_here(key)));
            for index in 0..leaf.len() {
                let (key, value) = leaf.record(index).ok_or_else(damaged)?;
                if is_whole || is_here(key) {
                    let (value, is_long) = match value {
                        Stored::Short(value) => (value, false),
                        Stored::Long(reference) => (reference, true),
                    };
                    let first = bytes.len();
                    bytes.extend_from_slice(key);
                    let middle = bytes.len();
                    bytes.extend_from_slice(value);
                    records.push(Place { key: first, value: middle, end: bytes.len(), is_long });
                }
            }
        }
        Ok(())
    }
}

/// Whether records before `key` may be in a range.
fn is_above_start(range: &KeyRange, key: &[u8]) -> bool {
    match &range.from {
        Bound::Included(from) | Bound::Excluded(from) => *key > from[..],
        Bound::Unbounded => true,
    }
}

/// The position before the records of a range.
fn start_of(range: &KeyRange) -> Gap {
    match &range.from {
        Bound::Included(key) => Gap::Before(key.clone()),
        Bound::Excluded(key) => Gap::After(key.clone()),
        Bound::Unbounded => Gap::Before(Vec::new()),
    }
}

/// The position after them.
fn end_of(range: &KeyRange) -> Gap {
    match &range.to {
        Bound::Included(key) => Gap::After(key.clone()),
        Bound::Excluded(key) => Gap::Before(key.clone()),
        Bound::Unbounded => Gap::End,
    }
}
