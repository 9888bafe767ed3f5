//! Pages of columns: a format of blocks of the update engine, for tables.
//!
//! A page holds the rows of a range of keys, each attribute in a minipage of its own (Clotho 3.1), in the encoding that its
//! values need (`moirai_encodings`). The minipages of an attribute in neighbouring pages lie side by side, since each attribute is
//! a unit of the blocks (`moirai_update::BlockFormat::units`):
//!
//! ```text
//!  unit 0: | header, last key | minipages of the key |      unit 1: | minipage of attribute a |     unit 2: | of b |
//! ```
//!
//! In layout PAX all minipages of a page are one unit ([`Placement::ByPage`]).
//!
//! A modification says what it does to a row: put it whole, delete it, set or add to some of its attributes. It waits in the
//! engine's queues without a page being read; a sweep applies it ([`PageFormat`]), and decodes and encodes only the minipages of
//! attributes that it changes, unless rows come or go.
//!
//! | file | subject |
//! |---|---|
//! | `schema` | columns and keys of a table, as the parameters of a space |
//! | `key` | keys as bytes whose order is that of the values |
//! | `fields` | rows, and what is set of rows, as values of the engine |
//! | `number` | numbers as values of fields |
//! | `kinds` | what modifications do to a row |
//! | `page` | pages on their way out |
//! | `values` | columns of a page that are taken apart and put together |
//! | `overlay` | columns of a page with what waits for it |
//! | `rewrite` | pages on their way in: what a sweep makes of a page and its modifications |
//! | `rows` | pages that are ingested |
//! | `format` | the format itself |

mod fields;
mod format;
mod key;
mod kinds;
mod number;
mod overlay;
mod page;
mod rewrite;
mod rows;
mod schema;
mod values;

pub use fields::{Fields, FieldsBuilder};
pub use format::PageFormat;
pub use key::KeyReader;
pub use kinds::{ADD, ROWS, SET, added_field, register};
pub use moirai_encodings::{Encoder, NumberType, TEXT_BYTES_MAX, Validity};
pub use number::{number_bytes, number_of, put_number_bytes, short_number_of};
pub use overlay::{ColumnRead, KeyBounds, PageRows};
pub use page::Page;
pub use rows::{ColumnSlice, do_keys_ascend, encode_rows, is_in_last_block, key_of_row};
pub use schema::{COLUMNS_MAX, Column, ColumnType, PageSchema, Placement};
pub use values::{Values, ValuesContent};
