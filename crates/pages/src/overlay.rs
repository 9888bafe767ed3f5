//! Columns of a page with the modifications that wait for it, as a scan shows them.

use moirai_update::{Block, Modification, NotOfFormat};

use crate::page::Page;
use crate::rewrite::Changes;
use crate::schema::PageSchema;
use crate::values::Values;

/// Some columns of a page's rows, in the order of the keys.
#[derive(Clone, Debug)]
pub struct ColumnsRead {
    /// How many rows there are.
    pub rows: usize,
    /// The columns, in the order in which they were asked for.
    pub columns: Vec<Values>,
}

/// The rows of a page with its modifications, as a view in layers has both (`moirai_update::Layers`). The units of these columns
/// were read; where there are modifications, or a column has no minipage, so was unit 0.
///
/// # Errors
/// [`NotOfFormat`] for what no page has.
pub fn read_columns(
    schema: &PageSchema,
    block: Option<Block<'_>>,
    modifications: &[Modification<'_>],
    columns: &[usize],
) -> Result<ColumnsRead, NotOfFormat> {
    let page = block.map(|block| Page::of(schema, block));
    let of = |column: &usize| Ok(schema.columns().get(*column).ok_or(NotOfFormat)?.of);
    if let (Some(page), []) = (&page, modifications) {
        let mut rows = page.rows().ok();
        let mut read = Vec::with_capacity(columns.len());
        for column in columns {
            let minipage = page.minipage(*column)?;
            let known = match (rows, minipage) {
                (Some(rows), _) => rows,
                (None, Some(minipage)) => Values::rows_of(minipage)?,
                (None, None) => return Err(NotOfFormat),
            };
            rows = Some(known);
            read.push(Values::decode(of(column)?, minipage, known)?);
        }
        return Ok(ColumnsRead { rows: rows.ok_or(NotOfFormat)?, columns: read });
    }
    let changes = Changes::of(schema, page.as_ref(), modifications)?;
    let keys = changes.inserted_keys(schema)?;
    let mut read = Vec::with_capacity(columns.len());
    for column in columns {
        let mut values = Values::new(of(column)?);
        changes.append_column(schema, page.as_ref(), (*column, &keys), &mut values)?;
        read.push(values);
    }
    let before = page.as_ref().map_or(Ok(0), Page::rows)?;
    Ok(ColumnsRead { rows: changes.rows_after(before), columns: read })
}
