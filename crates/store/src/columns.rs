//! Columns on their way in (Arrow arrays taken apart) and out (arrays being built).

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use bytes::Bytes;

use crate::heap::Page;
use crate::minipage::UnitValues;
use crate::schema::{Attribute, AttributeType};
use crate::{Error, Result, values};

/// A column of a batch that is being stored.
#[derive(Debug)]
pub(crate) enum Input {
    Fixed { bytes: Buffer, width_bytes: usize, nulls: Option<NullBuffer> },
    Text(StringViewArray),
}

impl Input {
    fn new(array: &ArrayRef, attribute_type: AttributeType) -> Result<Input> {
        Ok(match attribute_type.width_bytes() {
            Some(width_bytes) => Input::Fixed {
                bytes: values::value_bytes(&**array, width_bytes),
                width_bytes,
                nulls: array.nulls().cloned(),
            },
            None => {
                let text = cast(array, &DataType::Utf8View)?;
                Input::Text(text.as_string_view().clone())
            }
        })
    }

    /// How many rows are null.
    pub(crate) fn null_count(&self) -> usize {
        match self {
            Input::Fixed { nulls, .. } => nulls.as_ref().map_or(0, NullBuffer::null_count),
            Input::Text(text) => text.null_count(),
        }
    }

    /// The bytes of a row's value; `None` when it is null.
    pub(crate) fn value(&self, row: usize) -> Option<&[u8]> {
        match self {
            Input::Fixed { bytes, width_bytes, nulls } => {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                bytes.get(row * width_bytes..(row + 1) * width_bytes)
            }
            Input::Text(text) => text.is_valid(row).then(|| text.value(row).as_bytes()),
        }
    }
}

/// The columns of `batch`, which is checked against the table's attributes. `first_row` is the
/// batch's place in the table, for messages.
pub(crate) fn inputs(
    attributes: &[Attribute],
    batch: &RecordBatch,
    first_row: u64,
) -> Result<Vec<Input>> {
    let types = |columns: &mut dyn Iterator<Item = (String, Option<AttributeType>)>| {
        let column = |(name, kind): (String, Option<AttributeType>)| match kind {
            Some(kind) => format!("{name} {kind}"),
            None => format!("{name} ?"),
        };
        columns.map(column).collect::<Vec<_>>().join(", ")
    };
    let batch_schema = batch.schema();
    let fits = batch_schema.fields().len() == attributes.len()
        && batch_schema.fields().iter().zip(attributes).all(|(field, attribute)| {
            *field.name() == attribute.name
                && AttributeType::of(field.data_type()) == Some(attribute.attribute_type)
        });
    if !fits {
        let found = batch_schema.fields().iter();
        return Err(Error::SchemaMismatch {
            expected: types(
                &mut attributes.iter().map(|a| (a.name.clone(), Some(a.attribute_type))),
            ),
            found: types(&mut found.map(|f| (f.name().clone(), AttributeType::of(f.data_type())))),
        });
    }
    attributes
        .iter()
        .zip(batch.columns())
        .map(|(attribute, array)| {
            if !attribute.nullable
                && let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0)
            {
                let row = (0..nulls.len()).find(|row| nulls.is_null(*row)).unwrap_or(0);
                return Err(Error::UnexpectedNull {
                    column: attribute.name.clone(),
                    row: first_row + row as u64,
                });
            }
            Input::new(array, attribute.attribute_type)
        })
        .collect()
}

/// A column that is being built from what was read.
#[derive(Debug)]
pub(crate) enum Output {
    Fixed {
        attribute_type: AttributeType,
        width_bytes: usize,
        bytes: MutableBuffer,
        /// Only of nullable attributes.
        validity: Option<BooleanBufferBuilder>,
    },
    Text(StringViewBuilder),
}

impl Output {
    /// An empty column with room for `rows` values.
    pub(crate) fn new(attribute: &Attribute, rows: usize) -> Output {
        let attribute_type = attribute.attribute_type;
        match attribute_type.width_bytes() {
            Some(width_bytes) => Output::Fixed {
                attribute_type,
                width_bytes,
                bytes: MutableBuffer::with_capacity(rows * width_bytes),
                validity: attribute.nullable.then(|| BooleanBufferBuilder::new(rows)),
            },
            None => Output::Text(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Appends the values of a minipage unit from `skip` on, `count` of them.
    pub(crate) fn extend(&mut self, values: UnitValues<'_>, skip: usize, count: usize) {
        let Output::Fixed { width_bytes, bytes, validity, .. } = self else {
            return;
        };
        let range = skip * *width_bytes..(skip + count) * *width_bytes;
        bytes.extend_from_slice(values.bytes.get(range).unwrap_or(&[]));
        if let (Some(validity), Some(bits)) = (validity, values.validity) {
            validity.append_packed_range(skip..skip + count, bits);
        }
    }

    /// Appends one value, `None` for a null. Text that is not UTF-8 is an error.
    pub(crate) fn push(&mut self, value: Option<&[u8]>) -> std::result::Result<(), &'static str> {
        match self {
            Output::Fixed { width_bytes, bytes, validity, .. } => {
                match value {
                    Some(value) => bytes.extend_from_slice(value),
                    None => bytes.extend_zeros(*width_bytes),
                }
                if let Some(validity) = validity {
                    validity.append(value.is_some());
                }
            }
            Output::Text(builder) => match value {
                Some(value) => {
                    builder.append_value(std::str::from_utf8(value).map_err(|_| NOT_UTF8)?);
                }
                None => builder.append_null(),
            },
        }
        Ok(())
    }

    /// Adds bytes that texts can point into; gives the number to name them by.
    pub(crate) fn add_block(&mut self, bytes: &Bytes) -> u32 {
        match self {
            Output::Text(builder) => builder.append_block(Buffer::from(bytes.clone())),
            Output::Fixed { .. } => 0,
        }
    }

    /// Appends the records `range` of a heap page of text, which begins at `offset` of a block.
    pub(crate) fn extend_text(
        &mut self,
        page: &Page<'_>,
        block: u32,
        offset: usize,
        range: std::ops::Range<usize>,
    ) -> std::result::Result<(), &'static str> {
        let Output::Text(builder) = self else {
            return Ok(());
        };
        for index in range {
            if page.is_valid(index) {
                let span = page.span(index);
                let (start, length) = ((offset + span.start) as u32, span.len() as u32);
                builder.try_append_view(block, start, length).map_err(|_| NOT_UTF8)?;
            } else {
                builder.append_null();
            }
        }
        Ok(())
    }

    /// The finished column.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        Ok(match self {
            Output::Fixed { attribute_type, width_bytes, bytes, validity } => {
                let rows = bytes.len() / width_bytes;
                let nulls = validity
                    .map(|mut validity| NullBuffer::new(validity.finish()))
                    .filter(|nulls| nulls.null_count() > 0);
                values::fixed_array(attribute_type, rows, bytes, nulls)?
            }
            Output::Text(mut builder) => std::sync::Arc::new(builder.finish()),
        })
    }
}

const NOT_UTF8: &str = "the page holds text that is not UTF-8";
