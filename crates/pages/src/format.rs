//! The format of pages, as the update engine knows it.

use std::sync::Arc;

use moirai_encodings::Encoder;
use moirai_update::{
    Block, BlockFormat, Formats, KindNumber, Kinds, Modification, NewBlocks, NotOfFormat, UnitSet,
    Value,
};
use parking_lot::Mutex;

use crate::fields::{Fields, FieldsBuilder};
use crate::kinds::{ADD, ROWS, SET};
use crate::page::Page;
use crate::rewrite;
use crate::schema::PageSchema;

/// Blocks of 512 bytes are the least of a unit.
const UNIT_BYTES_MIN: usize = 512;

/// Blocks that are pages of a table's columns. The parameters of a space are its [`PageSchema`].
///
/// Readers of some units read unit 0, too, unless they read in layers: it says which rows a page has.
#[derive(Debug)]
pub struct PageFormat {
    schema: PageSchema,
    /// Memory of encoders that nobody uses.
    encoders: Mutex<Vec<Encoder>>,
}

impl PageFormat {
    /// The name of the format.
    pub const NAME: &'static str = "columns";

    /// The pages of a table.
    #[must_use]
    pub fn new(schema: PageSchema) -> PageFormat {
        PageFormat { schema, encoders: Mutex::default() }
    }

    /// Adds this format to those that a program knows.
    #[must_use]
    pub fn register(formats: Formats) -> Formats {
        formats.with_parameters(PageFormat::NAME, |parameters| {
            Some(Arc::new(PageFormat::new(PageSchema::of_parameters(parameters)?)))
        })
    }
}

impl BlockFormat for PageFormat {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        _: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let encoder = self.encoders.lock().pop();
        let mut encoder = encoder.unwrap_or_default();
        let applied =
            rewrite::apply(&self.schema, low, block, modifications, &mut encoder, new_blocks);
        self.encoders.lock().push(encoder);
        applied
    }

    fn find(
        &self,
        _: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        let page = Page::of(&self.schema, block);
        let found = page.key_columns()?.search(0, key, &mut Vec::new())?;
        match found {
            Ok(row) => value.set(Some(&page.fields(row)?)),
            Err(_) => value.set(None),
        }
        Ok(())
    }

    fn units(&self, block_bytes: usize) -> Vec<usize> {
        let units = self.schema.units();
        let rest = block_bytes.saturating_sub((units - 1) * UNIT_BYTES_MIN);
        std::iter::once(rest).chain(vec![UNIT_BYTES_MIN; units - 1]).collect()
    }

    fn fits_units(&self) -> bool {
        true
    }

    fn ingests(&self, kind: KindNumber) -> bool {
        kind == ROWS
    }

    fn unit_of(&self, modification: &Modification<'_>) -> Option<usize> {
        if !matches!(modification.kind, SET | ADD) {
            return None;
        }
        let mut units = Fields::of(modification.bytes).map(|(column, _)| self.schema.unit(column));
        let first = units.next()??;
        units.all(|unit| unit == Some(first)).then_some(first)
    }

    fn units_of(&self, modification: &Modification<'_>) -> UnitSet {
        if !matches!(modification.kind, SET | ADD) {
            return UnitSet::ALL;
        }
        let columns = Fields::of(modification.bytes).map(|(column, _)| column);
        let units = columns.filter_map(|column| self.schema.unit(column));
        units.map(UnitSet::one).fold(UnitSet::NONE, UnitSet::with)
    }

    fn divide(&self, modification: &Modification<'_>, put: &mut dyn FnMut(&[u8])) -> bool {
        if !matches!(modification.kind, SET | ADD) {
            return false;
        }
        let (mut fields, mut last) = (FieldsBuilder::new(), None);
        for (column, value) in Fields::of(modification.bytes) {
            let unit = self.schema.unit(column);
            if last.is_some_and(|last| last != unit) {
                put(fields.bytes());
                fields.clear();
            }
            last = Some(unit);
            fields.push(column, value);
        }
        if last.is_some() {
            put(fields.bytes());
        }
        last.is_some()
    }

    fn growth_bytes(&self, modification: &Modification<'_>, _: usize) -> usize {
        modification.key.len() + modification.bytes.len()
    }

    fn name(&self) -> &'static str {
        PageFormat::NAME
    }

    fn last_key<'a>(&self, _: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        Page::of(&self.schema, block).last_key()
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        // A page of one row has the key three times, and its fields.
        ((block_bytes / 16).min(usize::from(u16::MAX)), block_bytes / 4)
    }
}
