//! Rows of a page with the modifications that wait for it, as a scan shows them.

use std::ops::Range;

use moirai_update::{Block, Modification, NotOfFormat};

use crate::page::Page;
use crate::rewrite::Changes;
use crate::schema::PageSchema;
use crate::values::Values;

type Result<T> = std::result::Result<T, NotOfFormat>;

/// Keys from one on, and before another or to the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyBounds<'a> {
    /// The first key.
    pub from: &'a [u8],
    /// The key behind the last.
    pub to: Option<&'a [u8]>,
}

/// The rows of a page with its modifications, in the order of the keys: a view in layers has both (`moirai_update::Layers`).
pub struct PageRows<'s, 'a> {
    schema: &'s PageSchema,
    page: Option<Page<'s, 'a>>,
    /// What the modifications do, with the keys of rows that come.
    changes: Option<(Changes, Vec<Vec<Vec<u8>>>)>,
    /// Rows of the page that are shown, where there are no changes.
    shown: Range<usize>,
    rows: usize,
}

/// A column of some rows.
#[derive(Debug)]
pub enum ColumnRead<'a> {
    /// These rows of a minipage; nulls where there is none.
    Minipage(Option<&'a [u8]>, Range<usize>),
    /// All of these.
    Values(Values),
}

impl<'s, 'a> PageRows<'s, 'a> {
    /// The rows of `block` with `modifications`, of which some `columns` are to be read, whose units were read. Unit 0 was, too,
    /// where there are modifications, where `bounds` leave rows out, and where a column may have no minipage.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn of(
        schema: &'s PageSchema,
        block: Option<Block<'a>>,
        modifications: &[Modification<'_>],
        bounds: Option<KeyBounds<'_>>,
        columns: &[usize],
    ) -> Result<PageRows<'s, 'a>> {
        let page = block.map(|block| Page::of(schema, block));
        let all = match &page {
            None => 0,
            Some(page) if page.unit(0).is_some() => page.rows()?,
            // Each minipage says it.
            Some(page) => {
                let column = columns.first().ok_or(NotOfFormat)?;
                Values::rows_of(page.minipage(*column)?.ok_or(NotOfFormat)?)?
            }
        };
        let shown = match (&page, bounds) {
            (Some(page), Some(bounds)) => {
                let (keys, mut buffer) = (page.key_columns()?, Vec::new());
                let mut first_from = |key: &[u8]| -> Result<usize> {
                    Ok(keys.search(0, key, &mut buffer)?.unwrap_or_else(|row| row))
                };
                let first = first_from(bounds.from)?;
                first..bounds.to.map_or(Ok(all), first_from)?.max(first)
            }
            _ => 0..all,
        };
        let mut some;
        let modifications = match bounds {
            None => modifications,
            Some(KeyBounds { from, to }) => {
                some = modifications.to_vec();
                some.retain(|one| one.key >= from && to.is_none_or(|to| one.key < to));
                &some[..]
            }
        };
        if modifications.is_empty() {
            let rows = shown.len();
            return Ok(PageRows { schema, page, changes: None, shown, rows });
        }
        let mut changes = Changes::of(schema, page.as_ref(), modifications)?;
        changes.show(shown, all);
        let keys = changes.inserted_keys(schema)?;
        let rows = changes.rows_after(all);
        Ok(PageRows { schema, page, changes: Some((changes, keys)), shown: 0..all, rows })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A column of all of them, whose unit was read.
    ///
    /// # Errors
    /// [`NotOfFormat`] for what no page has.
    pub fn column(&self, column: usize) -> Result<ColumnRead<'a>> {
        match (&self.changes, &self.page) {
            (Some((changes, _)), Some(page)) if !changes.changes(column) => {
                Ok(ColumnRead::Minipage(page.minipage(column)?, self.shown.clone()))
            }
            (None, Some(page)) => {
                Ok(ColumnRead::Minipage(page.minipage(column)?, self.shown.clone()))
            }
            (None, None) => Ok(ColumnRead::Minipage(None, 0..0)),
            (Some((changes, keys)), page) => {
                let of = self.schema.columns().get(column).ok_or(NotOfFormat)?.of;
                let mut values = Values::new(of);
                let column = (column, &keys[..]);
                changes.append_column(self.schema, page.as_ref(), column, &mut values)?;
                Ok(ColumnRead::Values(values))
            }
        }
    }
}
