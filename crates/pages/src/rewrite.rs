//! What a sweep makes of a page and its modifications.
//!
//! Where rows are only set, the minipages of the columns that are not touched stay as they are, bytes and all. Where rows come or
//! go, all columns are taken apart, and the page may become several, or be joined with the one before.

use std::borrow::Cow;

use moirai_encodings::{Encoder, TEXT_BYTES_MAX};
use moirai_update::{Block, DELETE, Modification, NewBlocks, NotOfFormat, OwnedUnits, PUT};

use crate::fields::{Fields, merged};
use crate::key::KeyReader;
use crate::kinds::{ADD, ROWS, SET, added};
use crate::page::{Page, put_header, put_minipage};
use crate::rows;
use crate::schema::PageSchema;
use crate::values::Values;

type Result<T> = std::result::Result<T, NotOfFormat>;

/// A page with fewer rows and bytes than such a part of those that it may have is joined with a neighbour.
const SMALL_SHARE: usize = 2;

/// So many modifications of a page are worth the making of numbers of all its keys.
const NUMBERED_MIN: usize = 16;

/// What becomes of a row that modifications are of.
enum Row<'m> {
    /// There is none.
    Absent,
    /// It stays, with these fields set.
    Kept(Cow<'m, [u8]>),
    /// It has these fields, and no others.
    Put(Cow<'m, [u8]>),
}

/// What modifications do to a page.
#[derive(Default)]
pub(crate) struct Changes {
    /// Values of columns, by column: the row, and where in `bytes` the value is; `None` for a null.
    set: Vec<Vec<(usize, Option<std::ops::Range<usize>>)>>,
    bytes: Vec<u8>,
    /// Rows that go.
    removed: Vec<usize>,
    /// Rows that come: before which row, and the key.
    inserted: Vec<(usize, Vec<u8>)>,
    /// Of each column, where in `bytes` their values are; `None` for a null.
    inserted_values: Vec<Vec<Option<std::ops::Range<u32>>>>,
    refused: u64,
}

impl Changes {
    fn set(&mut self, column: usize, row: usize, value: Option<&[u8]>) {
        let first = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let range = value.map(|_| first..self.bytes.len());
        if let Some(set) = self.set.get_mut(column) {
            set.push((row, range));
        }
    }

    /// Adds a row that comes: its fields are looked through once, however many columns there are.
    fn insert(&mut self, at: usize, key: &[u8], fields: &[u8]) {
        self.inserted.push((at, key.to_vec()));
        let mut fields = Fields::of(fields).peekable();
        for (column, values) in self.inserted_values.iter_mut().enumerate() {
            let field = fields.next_if(|(one, _)| *one == column);
            values.push(field.and_then(|(_, value)| value).map(|value| {
                let first = self.bytes.len() as u32;
                self.bytes.extend_from_slice(value);
                first..self.bytes.len() as u32
            }));
        }
    }

    pub(crate) fn of(
        schema: &PageSchema,
        page: Option<&Page<'_, '_>>,
        modifications: &[Modification<'_>],
    ) -> Result<Changes> {
        let columns = schema.columns().len();
        let (set, inserted_values) = (vec![Vec::new(); columns], vec![Vec::new(); columns]);
        let mut changes = Changes { set, inserted_values, ..Changes::default() };
        let keys = page.map(Page::key_columns).transpose()?;
        let numbers = match &keys {
            Some(keys) if modifications.len() >= NUMBERED_MIN => keys.numbers()?,
            _ => None,
        };
        let mut key_reader = KeyReader::new(schema);
        let (mut next, mut buffer) = (0, Vec::new());
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let Some(Modification { key, .. }) = of_key.first() else { continue };
            let found = match (numbers.as_ref().and_then(|keys| keys.search(next, key)), &keys) {
                (Some(found), _) => found,
                (None, Some(keys)) => keys.search(next, key, &mut buffer)?,
                (None, None) => Err(0),
            };
            next = found.map_or_else(|row| row, |row| row + 1);
            let at = found.ok();
            let mut row = match at {
                Some(_) => Row::Kept(Cow::Borrowed(&[])),
                None => Row::Absent,
            };
            for one in of_key {
                if matches!(one.kind, PUT | SET | ADD) && !are_fields(schema, one.bytes) {
                    changes.refused += 1;
                } else {
                    row = changes.applied(page, at, row, one)?;
                }
            }
            match (row, found) {
                (Row::Absent, Ok(at)) => changes.removed.push(at),
                (Row::Kept(fields), Ok(at)) => {
                    for (column, value) in Fields::of(&fields) {
                        changes.set(column, at, value);
                    }
                }
                (Row::Put(fields), Ok(at)) => {
                    let mut fields = Fields::of(&fields).peekable();
                    for column in 0..columns {
                        let field = fields.next_if(|(one, _)| *one == column);
                        if !schema.key().contains(&column) {
                            changes.set(column, at, field.and_then(|(_, value)| value));
                        }
                    }
                }
                (Row::Put(fields), Err(at)) if key_reader.read(key).is_some() => {
                    changes.insert(at, key, &fields);
                }
                // Bytes that are no key of the table.
                (Row::Put(_), Err(_)) => changes.refused += 1,
                (Row::Absent | Row::Kept(_), Err(_)) => {}
            }
        }
        Ok(changes)
    }

    /// What a modification makes of a row, which is the `at` of the page where it is there already.
    fn applied<'m>(
        &mut self,
        page: Option<&Page<'_, '_>>,
        at: Option<usize>,
        row: Row<'m>,
        one: &Modification<'m>,
    ) -> Result<Row<'m>> {
        Ok(match (one.kind, row) {
            (PUT, _) => Row::Put(Cow::Borrowed(one.bytes)),
            (DELETE, _) => Row::Absent,
            (SET, Row::Kept(fields)) if fields.is_empty() => Row::Kept(Cow::Borrowed(one.bytes)),
            (SET, Row::Kept(fields)) => Row::Kept(Cow::Owned(with_set(&fields, one.bytes))),
            (SET, Row::Put(fields)) => Row::Put(Cow::Owned(with_set(&fields, one.bytes))),
            (ADD, Row::Put(fields)) => Row::Put(Cow::Owned(with_added(&fields, one.bytes))),
            (ADD, Row::Kept(fields)) => {
                let mut fields = fields.into_owned();
                // The numbers of the page come in first.
                let (page, at) = page.zip(at).ok_or(NotOfFormat)?;
                let mut value = Vec::new();
                for (column, _) in Fields::of(one.bytes) {
                    // Who reads some units alone is not shown the others.
                    let is_read =
                        page.schema.unit(column).is_some_and(|unit| page.unit(unit).is_some());
                    if is_read && Fields::of(&fields).all(|(other, _)| other != column) {
                        let is_valid = page.value(column, at, &mut value)?;
                        let mut own = crate::FieldsBuilder::new();
                        own.push(column, is_valid.then_some(&value));
                        fields = with_set(&fields, own.bytes());
                    }
                }
                Row::Kept(Cow::Owned(with_added(&fields, one.bytes)))
            }
            (_, row) => {
                self.refused += 1;
                row
            }
        })
    }

    /// The values of the key's columns in each row that comes.
    pub(crate) fn inserted_keys(&self, schema: &PageSchema) -> Result<Vec<Vec<Vec<u8>>>> {
        let mut keys = KeyReader::new(schema);
        let values = |(_, key): &(usize, Vec<u8>)| {
            keys.read(key).map(<[Vec<u8>]>::to_vec).ok_or(NotOfFormat)
        };
        self.inserted.iter().map(values).collect()
    }

    /// Adds a column of the page to `to`, as the changes make it; with the keys of the rows that come.
    pub(crate) fn append_column(
        &self,
        schema: &PageSchema,
        page: Option<&Page<'_, '_>>,
        (column, inserted_keys): (usize, &[Vec<Vec<u8>>]),
        to: &mut Values,
    ) -> Result<()> {
        let rows = page.map_or(Ok(0), Page::rows)?;
        let of = schema.columns().get(column).ok_or(NotOfFormat)?.of;
        let from = match page {
            Some(page) => {
                let mut values = Values::decode(of, page.minipage_read(column)?, rows)?;
                values.set(self.changes_of(column));
                values
            }
            None => Values::new(of),
        };
        if self.rows_stay() && to.rows() == 0 {
            *to = from;
            return Ok(());
        }
        let in_key = schema.key().iter().position(|one| *one == column);
        let mut removed = self.removed.iter().copied().peekable();
        let mut next = 0;
        // Adds rows up to one that stays or goes, without those that go.
        let mut append_until = |to: &mut Values, end: usize| {
            while let Some(row) = removed.next_if(|row| *row < end) {
                to.append(&from, next..row);
                next = row + 1;
            }
            to.append(&from, next..end);
            next = end;
        };
        let values = self.inserted_values.get(column).into_iter().flatten();
        for (((at, _), value), key) in self.inserted.iter().zip(values).zip(inserted_keys) {
            append_until(to, *at);
            match in_key {
                Some(part) => to.push(key.get(part).map(|value| &value[..])),
                None => to.push(value.as_ref().map(|range| {
                    let range = range.start as usize..range.end as usize;
                    self.bytes.get(range).unwrap_or_default()
                })),
            }
        }
        append_until(to, rows);
        Ok(())
    }

    /// How many rows there are, of those of the page.
    pub(crate) fn rows_after(&self, before: usize) -> usize {
        before + self.inserted.len() - self.removed.len()
    }

    /// Leaves the page's rows outside of `shown` out, of `all`: the changes are of others.
    pub(crate) fn show(&mut self, shown: std::ops::Range<usize>, all: usize) {
        if shown != (0..all) {
            let removed = std::mem::take(&mut self.removed);
            self.removed = (0..shown.start).chain(removed).chain(shown.end..all).collect();
        }
    }

    /// Whether a column is not as it was.
    pub(crate) fn changes(&self, column: usize) -> bool {
        self.touches(column) || !self.rows_stay()
    }

    /// Whether all rows stay, and no other comes.
    pub(crate) fn rows_stay(&self) -> bool {
        self.removed.is_empty() && self.inserted.is_empty()
    }

    fn changes_of(&self, column: usize) -> impl Iterator<Item = (usize, Option<&[u8]>)> {
        let set = self.set.get(column).into_iter().flatten();
        set.map(|(row, value)| {
            (*row, value.as_ref().map(|range| self.bytes.get(range.clone()).unwrap_or_default()))
        })
    }

    fn touches(&self, column: usize) -> bool {
        self.set.get(column).is_some_and(|set| !set.is_empty())
    }
}

/// Whether bytes are fields of columns of the table that are not of its key, each once and in their order.
fn are_fields(schema: &PageSchema, bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    let mut last = None;
    let are_columns = fields.by_ref().all(|(column, _)| {
        let is_behind = last.replace(column).is_none_or(|last| last < column);
        is_behind && column < schema.columns().len() && !schema.key().contains(&column)
    });
    are_columns && fields.is_at_end()
}

fn with_set(fields: &[u8], newer: &[u8]) -> Vec<u8> {
    merged(fields, newer, |_, newer, out, column| out.push(column, newer))
}

fn with_added(fields: &[u8], newer: &[u8]) -> Vec<u8> {
    merged(fields, newer, |older, newer, out, column| {
        out.push(column, added(older, newer).as_deref());
    })
}

/// Rows that are taken apart.
struct Rows<'s> {
    schema: &'s PageSchema,
    /// Of each column.
    columns: Vec<Values>,
    count: usize,
}

impl<'s> Rows<'s> {
    fn new(schema: &'s PageSchema) -> Rows<'s> {
        let columns = schema.columns().iter().map(|column| Values::new(column.of)).collect();
        Rows { schema, columns, count: 0 }
    }

    /// Adds the rows of a page, as the changes make them.
    fn append(&mut self, page: Option<&Page<'_, '_>>, changes: &Changes) -> Result<()> {
        let keys = changes.inserted_keys(self.schema)?;
        for (column, to) in self.columns.iter_mut().enumerate() {
            changes.append_column(self.schema, page, (column, &keys), to)?;
        }
        self.count += changes.rows_after(page.map_or(Ok(0), Page::rows)?);
        Ok(())
    }

    /// Adds pages of some rows to `new_blocks`, as few as hold them.
    fn put(
        &self,
        rows: std::ops::Range<usize>,
        low: Option<&[u8]>,
        encoder: &mut Encoder,
        new_blocks: &mut NewBlocks,
    ) {
        if rows.is_empty() {
            return;
        }
        let half = rows.len().div_ceil(2);
        let texts_bytes = self.columns.iter().map(|column| column.texts_bytes(&rows)).max();
        let is_encodable = texts_bytes.is_none_or(|bytes| bytes <= TEXT_BYTES_MAX);
        let units = if is_encodable { self.encoded(rows.clone(), encoder) } else { Vec::new() };
        let bytes: usize = units.iter().map(|unit| unit.len().next_multiple_of(512)).sum();
        if half < rows.len() && (!is_encodable || bytes > new_blocks.block_bytes()) {
            let middle = rows.start + half;
            self.put(rows.start..middle, low, encoder, new_blocks);
            return self.put(middle..rows.end, None, encoder, new_blocks);
        }
        let first = self.key(rows.start);
        let low = low.map_or(&first[..], |low| low.min(&first));
        new_blocks.push_units(low, |unit, out| {
            out.extend_from_slice(units.get(unit).map_or(&[], |unit| &unit[..]));
        });
    }

    /// The units of a page of some rows.
    fn encoded(&self, rows: std::ops::Range<usize>, encoder: &mut Encoder) -> Vec<Vec<u8>> {
        let last = rows.end.checked_sub(1).map(|last| self.key(last)).unwrap_or_default();
        let mut units = vec![Vec::new(); self.schema.units()];
        for (number, unit) in units.iter_mut().enumerate() {
            if number == 0 {
                put_header(unit, rows.len(), &last);
            }
            for column in self.schema.columns_of(number) {
                if let Some(values) = self.columns.get(*column) {
                    put_minipage(unit, |out| values.encode(rows.clone(), encoder, out));
                }
            }
        }
        units
    }

    fn key(&self, row: usize) -> Vec<u8> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for column in self.schema.key() {
            if let Some(values) = self.columns.get(*column) {
                values.put_key(row, &mut value, &mut key);
            }
        }
        key
    }
}

/// See [`moirai_update::BlockFormat::apply`].
pub(crate) fn apply(
    schema: &PageSchema,
    low: &[u8],
    block: Option<Block<'_>>,
    modifications: &[Modification<'_>],
    encoder: &mut Encoder,
    new_blocks: &mut NewBlocks,
) -> Result<()> {
    let Some(first) = modifications.iter().position(|one| one.kind == ROWS) else {
        return apply_to_rows(schema, low, block, modifications, encoder, new_blocks);
    };
    let (before, ingested) = modifications.split_at_checked(first).unwrap_or((modifications, &[]));
    let mut last = match block {
        Some(block) => Page::of(schema, block).last_key()?.to_vec(),
        None => Vec::new(),
    };
    last = last.max(before.last().map(|one| one.key.to_vec()).unwrap_or_default());
    let (mut pages, mut are_behind) = (Vec::with_capacity(ingested.len()), true);
    for one in ingested {
        are_behind &= one.kind == ROWS && (last.is_empty() || one.key > &last[..]);
        if one.kind != ROWS {
            pages.push((one, None));
            continue;
        }
        let units = rows::units_of(schema, one.bytes).ok_or(NotOfFormat)?;
        last = Page::of(schema, Block::of_units(&units)).last_key()?.to_vec();
        pages.push((one, Some(units)));
    }
    if are_behind {
        if block.is_some() || !before.is_empty() {
            apply_to_rows(schema, low, block, before, encoder, new_blocks)?;
        }
        for (one, units) in &pages {
            let low = if new_blocks.is_empty() { low.min(one.key) } else { one.key };
            let units = units.iter().flatten().map(Vec::as_slice).collect::<Vec<_>>();
            new_blocks.push_units(low, |unit, out| {
                out.extend_from_slice(units.get(unit).copied().unwrap_or_default());
            });
        }
        return Ok(());
    }
    // Rows among others are put one by one.
    let mut puts = Vec::new();
    for units in pages.iter().filter_map(|(_, units)| units.as_ref()) {
        let page = Page::of(schema, Block::of_units(units));
        puts.extend(page.all()?);
    }
    let mut all: Vec<Modification<'_>> = before.to_vec();
    all.extend(ingested.iter().filter(|one| one.kind != ROWS));
    all.extend(puts.iter().map(|(key, bytes)| Modification { key, kind: PUT, bytes }));
    all.sort_by(|one, other| one.key.cmp(other.key));
    apply_to_rows(schema, low, block, &all, encoder, new_blocks)
}

/// The same of modifications that are of a row each.
fn apply_to_rows(
    schema: &PageSchema,
    low: &[u8],
    block: Option<Block<'_>>,
    modifications: &[Modification<'_>],
    encoder: &mut Encoder,
    new_blocks: &mut NewBlocks,
) -> Result<()> {
    let page = block.map(|block| Page::of(schema, block));
    // Readers of some units alone are shown what is there: they lay modifications over it themselves.
    if let Some(page) = &page
        && page.unit(0).is_none()
        && modifications.is_empty()
    {
        new_blocks.push_units(low, |unit, out| {
            out.extend_from_slice(page.unit(unit).unwrap_or_default());
        });
        return Ok(());
    }
    let changes = Changes::of(schema, page.as_ref(), modifications)?;
    new_blocks.refuse(changes.refused);
    let before = page.as_ref().map_or(Ok(0), Page::rows)?;
    let count = changes.rows_after(before);
    let stays = changes.rows_stay();
    if count == 0 {
        return Ok(());
    }
    let bytes = page.as_ref().map_or(Ok(0), Page::content_bytes)?;
    let is_small = is_small(schema, new_blocks, count, bytes * count / before.max(1));
    let joined = if is_small { small_before(schema, new_blocks)? } else { None };
    if stays
        && joined.is_none()
        && rewrite_units(page.as_ref(), low, &changes, encoder, new_blocks)?
    {
        return Ok(());
    }
    let mut rows = Rows::new(schema);
    let mut first_low = new_blocks.is_empty().then_some(low);
    let before_low;
    if let Some(OwnedUnits { low, units }) = joined {
        let whole = Block::of_units(&units);
        rows.append(Some(&Page::of(schema, whole)), &Changes::default())?;
        before_low = low;
        first_low = Some(&before_low);
    }
    rows.append(page.as_ref(), &changes)?;
    let pages = rows.count.div_ceil(schema.rows_max()).max(1);
    let of_page = rows.count.div_ceil(pages);
    let mut first = 0;
    while first < rows.count {
        let end = (first + of_page.max(1)).min(rows.count);
        rows.put(first..end, first_low.take(), encoder, new_blocks);
        first = end;
    }
    Ok(())
}

/// Whether a page of so many rows and bytes is joined with a small one beside it.
fn is_small(schema: &PageSchema, new_blocks: &NewBlocks, rows: usize, bytes: usize) -> bool {
    rows < schema.rows_max() / SMALL_SHARE && bytes < new_blocks.block_bytes() / SMALL_SHARE
}

/// The last of `new_blocks`, taken out, where it is small.
fn small_before(schema: &PageSchema, new_blocks: &mut NewBlocks) -> Result<Option<OwnedUnits>> {
    let Some((_, last)) = new_blocks.last() else { return Ok(None) };
    let page = Page::of(schema, last);
    let (rows, bytes) = (page.rows()?, page.content_bytes()?);
    Ok(is_small(schema, new_blocks, rows, bytes).then(|| new_blocks.pop()).flatten())
}

/// Writes a page whose rows stay with other values in some columns; `false` where they do not fit into a block.
fn rewrite_units(
    page: Option<&Page<'_, '_>>,
    low: &[u8],
    changes: &Changes,
    encoder: &mut Encoder,
    new_blocks: &mut NewBlocks,
) -> Result<bool> {
    let Some(page) = page else { return Ok(false) };
    let (schema, rows) = (page.schema, page.rows()?);
    let mut units: Vec<Cow<'_, [u8]>> = Vec::with_capacity(schema.units());
    for unit in 0..schema.units() {
        let columns = schema.columns_of(unit);
        let is_changed =
            page.unit(unit).is_some() && columns.iter().any(|column| changes.touches(*column));
        if !is_changed {
            units.push(Cow::Borrowed(page.content(unit)?.unwrap_or_default()));
            continue;
        }
        let mut content = Vec::new();
        if unit == 0 {
            put_header(&mut content, rows, page.last_key()?);
        }
        for column in columns {
            let of = schema.columns().get(*column).ok_or(NotOfFormat)?.of;
            let minipage = page.minipage(*column)?;
            if !changes.touches(*column) {
                put_minipage(&mut content, |out| out.extend(minipage.unwrap_or_default()));
                continue;
            }
            let mut values = Values::decode(of, minipage, rows)?;
            values.set(changes.changes_of(*column));
            if values.texts_bytes(&(0..rows)) > TEXT_BYTES_MAX {
                return Ok(false);
            }
            put_minipage(&mut content, |out| values.encode(0..rows, encoder, out));
        }
        units.push(Cow::Owned(content));
    }
    let bytes: usize = units.iter().map(|unit| unit.len().next_multiple_of(512)).sum();
    if bytes > new_blocks.block_bytes() && rows > 1 {
        return Ok(false);
    }
    new_blocks.push_units(low, |unit, out| {
        out.extend_from_slice(units.get(unit).map_or(&[], |unit| &unit[..]));
    });
    Ok(true)
}
