//! Arrow arrays made of rows, each a key and its fields, as the engine answers with them and leaves have them.

use arrow_array::ArrayRef;
use moirai_btree::Leaf;
use moirai_pages::{Fields, KeyBounds, KeyReader, PageRows};
use moirai_update::{Reader, Stored, UnitSet, View};

use crate::Result;
use crate::columns::ColumnBuilder;
use crate::definition::Layout;
use crate::table::Table;

/// Takes columns out of rows.
pub(crate) struct RowDecoder<'t> {
    table: &'t Table,
    keys: KeyReader<'t>,
    /// Parts of the key that are wanted, and the place of the array of each.
    of_key: Vec<(usize, usize)>,
    /// Other columns that are wanted, ascending, and the place of the array of each.
    others: Vec<(usize, usize)>,
}

impl<'t> RowDecoder<'t> {
    /// Those of a table that are wanted, in the order of the arrays.
    pub(crate) fn of(table: &'t Table, columns: &[usize]) -> RowDecoder<'t> {
        let key = table.pages().key();
        let (mut of_key, mut others) = (Vec::new(), Vec::new());
        for (place, column) in columns.iter().enumerate() {
            match key.iter().position(|one| one == column) {
                Some(part) => of_key.push((part, place)),
                None => others.push((*column, place)),
            }
        }
        others.sort_unstable();
        RowDecoder { table, keys: KeyReader::new(table.pages()), of_key, others }
    }

    /// Adds a row to the arrays.
    pub(crate) fn append(
        &mut self,
        key: &[u8],
        fields: &[u8],
        arrays: &mut [ColumnBuilder],
    ) -> Result<()> {
        let no_page = || self.table.no_page();
        if !self.of_key.is_empty() {
            let values = self.keys.read(key).ok_or_else(no_page)?;
            for (part, place) in &self.of_key {
                let array = arrays.get_mut(*place).ok_or_else(no_page)?;
                let value = values.get(*part).map(|value| &value[..]);
                array.append_field(value).map_err(|_| no_page())?;
            }
        }
        let mut fields = Fields::of(fields).peekable();
        for (column, place) in &self.others {
            while fields.next_if(|(one, _)| one < column).is_some() {}
            // A row without a field of a column has a null there.
            let value = fields.peek().and_then(|(one, value)| value.filter(|_| one == column));
            let array = arrays.get_mut(*place).ok_or_else(no_page)?;
            array.append_field(value).map_err(|_| no_page())?;
        }
        Ok(())
    }
}

/// The values of a key, for people.
pub(crate) fn key_text(table: &Table, key: &[u8]) -> String {
    let columns = table.pages().key();
    let schema = table.schema_with_row_numbers();
    let types = columns.iter().map(|column| schema.field(*column).data_type());
    let mut arrays: Vec<ColumnBuilder> = types.map(ColumnBuilder::new).collect();
    let appended = RowDecoder::of(table, columns).append(key, &[], &mut arrays);
    let arrays: std::result::Result<Vec<_>, _> =
        arrays.iter_mut().map(ColumnBuilder::finish).collect();
    match (appended, arrays) {
        (Ok(()), Ok(arrays)) => text_of(&arrays, 0),
        _ => "?".to_owned(),
    }
}

/// Adds the rows of a leaf of a view that have keys between bounds to the arrays of some columns; gives how many there are, and `None`
/// behind the last leaf. `reader` is that of the view.
///
/// # Cancel safety
/// No row is added until the long values of the leaf are there.
pub(crate) async fn append_leaf(
    reader: Reader<'_>,
    (view, at): (&View, usize),
    bounds: KeyBounds<'_>,
    (table, columns, arrays): (&Table, &[usize], &mut [ColumnBuilder]),
) -> Result<Option<usize>> {
    let no_page = || table.no_page();
    let Some((_, block)) = view.blocks().nth(at) else { return Ok(None) };
    let leaf = Leaf::of(block.bytes()).ok_or_else(no_page)?;
    let is_between = |key: &[u8]| key >= bounds.from && bounds.to.is_none_or(|to| key < to);
    // Most leaves lie between the bounds as a whole.
    let end = |index: usize| leaf.record(index).is_none_or(|(key, _)| is_between(key));
    let is_whole = end(0) && end(leaf.len().saturating_sub(1));
    let is_wanted = |key: &[u8]| is_whole || is_between(key);
    let mut long_values = Vec::new();
    if leaf.has_long() && !columns.is_empty() {
        for index in 0..leaf.len() {
            if let Some((key, Stored::Long(reference))) = leaf.record(index)
                && is_wanted(key)
            {
                let value = reader.long_value(&view.long, reference).await?;
                long_values.push(value.read(0..value.length().0).await?);
            }
        }
    }
    let mut long_values = long_values.iter();
    let (mut decoder, mut rows) = (RowDecoder::of(table, columns), 0);
    for index in 0..leaf.len() {
        let (key, fields) = leaf.record(index).ok_or_else(no_page)?;
        if !is_wanted(key) {
            continue;
        }
        rows += 1;
        if columns.is_empty() {
            continue;
        }
        let fields = match fields {
            Stored::Short(fields) => fields,
            Stored::Long(_) => long_values.next().ok_or_else(no_page)?,
        };
        decoder.append(key, fields, arrays)?;
    }
    Ok(Some(rows))
}

/// How many rows the pages of a view have.
pub(crate) fn rows_of(table: &Table, view: &View) -> Result<u64> {
    let (no_page, mut rows) = (|| table.no_page(), 0);
    if table.layout() == Layout::Nsm {
        for (_, block) in view.blocks() {
            rows += Leaf::of(block.bytes()).ok_or_else(no_page)?.len();
        }
    }
    for page in view.layers() {
        let modifications: Vec<_> = page.modifications().collect();
        let read = PageRows::of(table.pages(), page.block, &modifications, None, &[]);
        rows += read.map_err(|_| no_page())?.rows();
    }
    Ok(rows as u64)
}

/// Reads pages as far as they say which rows they have.
pub(crate) fn page_reader<'a>(table: &Table, reader: Reader<'a>) -> Reader<'a> {
    let reader = reader.units(UnitSet::one(0));
    match table.layout() {
        Layout::Csm | Layout::Pax => reader.in_layers(UnitSet::one(0)),
        Layout::Nsm => reader,
    }
}

/// The values of a row, for people.
pub(crate) fn text_of(arrays: &[ArrayRef], row: usize) -> String {
    let texts = arrays.iter().map(|array| {
        arrow_cast::display::array_value_to_string(array, row).unwrap_or_else(|_| "?".to_owned())
    });
    texts.collect::<Vec<_>>().join(", ")
}
