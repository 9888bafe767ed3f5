//! Arrow arrays made of what pages hold.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, StringViewArray, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use moirai_encodings::{Damaged, Number, Numbers, Texts};
use moirai_pages::{ColumnRead, Validity, Values, ValuesContent, number_of, short_number_of};

use crate::types;
use crate::values::fixed_bytes;

/// Bytes of a text that its view holds itself, at most.
const INLINE_BYTES_MAX: usize = 12;
/// Bytes of texts that come one by one in a buffer at most: offsets have 31 bits.
const OWN_BYTES_MAX: usize = 1 << 30;

/// Builds the array of a column, page by page.
pub(crate) struct ColumnBuilder {
    data_type: DataType,
    content: Content,
    nulls: NullBufferBuilder,
}

enum Content {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Sixteen(Vec<i128>),
    /// Views of texts or bytes.
    Views {
        views: Vec<u128>,
        buffers: Vec<Buffer>,
        /// Texts that came one by one: a buffer behind the others.
        own: Vec<u8>,
    },
    /// Bytes of one width.
    Fixed {
        width: usize,
        bytes: Vec<u8>,
    },
}

/// Numbers as wide as a column has them.
trait Narrow: Number {
    fn narrow(number: i128) -> Self;
}

macro_rules! narrow {
    ($($number:ty)*) => {
        $(impl Narrow for $number {
            fn narrow(number: i128) -> $number {
                number as $number
            }
        })*
    };
}

narrow! { u8 u16 u32 u64 i128 }

/// Calls `$work` with the numbers, whatever their width is.
macro_rules! with_numbers {
    ($content:expr, $numbers:ident => $work:expr, $other:pat => $otherwise:expr) => {
        match $content {
            Content::One($numbers) => $work,
            Content::Two($numbers) => $work,
            Content::Four($numbers) => $work,
            Content::Eight($numbers) => $work,
            Content::Sixteen($numbers) => $work,
            $other => $otherwise,
        }
    };
}

/// Puts texts that came one by one behind the buffers.
fn seal(own: &mut Vec<u8>, buffers: &mut Vec<Buffer>) {
    if !own.is_empty() {
        buffers.push(Buffer::from_vec(std::mem::take(own)));
    }
}

/// Appends some rows of a minipage.
fn decode_rows<N: Narrow>(
    numbers: &Numbers<'_>,
    rows: &Range<usize>,
    to: &mut Vec<N>,
) -> Result<(), Damaged> {
    let first = to.len();
    numbers.decode(to)?;
    keep(to, first, rows);
    Ok(())
}

/// Takes values out, and makes room for as many more: batches are about as long as each other.
fn taken<T>(values: &mut Vec<T>) -> Vec<T> {
    let more = Vec::with_capacity(values.len());
    std::mem::replace(values, more)
}

/// Keeps these rows of a minipage, whose values lie from `first` on.
fn keep<T>(values: &mut Vec<T>, first: usize, rows: &Range<usize>) {
    if rows.start > 0 {
        values.drain(first..first + rows.start.min(values.len() - first));
    }
    values.truncate(first + rows.len());
}

impl ColumnBuilder {
    /// An array of a type that tables hold.
    pub(crate) fn new(data_type: &DataType) -> ColumnBuilder {
        let content = match types::column_type(data_type) {
            Some(moirai_pages::ColumnType::Number(of)) => match of.width_bytes {
                1 => Content::One(Vec::new()),
                2 => Content::Two(Vec::new()),
                4 => Content::Four(Vec::new()),
                8 => Content::Eight(Vec::new()),
                _ => Content::Sixteen(Vec::new()),
            },
            _ => match fixed_bytes(data_type) {
                Some(width) => Content::Fixed { width, bytes: Vec::new() },
                None => {
                    let (views, buffers, own) = (Vec::new(), Vec::new(), Vec::new());
                    Content::Views { views, buffers, own }
                }
            },
        };
        ColumnBuilder { data_type: data_type.clone(), content, nulls: NullBufferBuilder::new(0) }
    }

    /// Adds what was read of a page.
    pub(crate) fn append(&mut self, read: ColumnRead<'_>) -> Result<(), Damaged> {
        match read {
            ColumnRead::Minipage(Some(minipage), rows) => self.append_minipage(minipage, rows),
            ColumnRead::Minipage(None, mut rows) => rows.try_for_each(|_| self.append_field(None)),
            ColumnRead::Values(values) => self.append_values(&values),
        }
    }

    fn append_minipage(&mut self, minipage: &[u8], rows: Range<usize>) -> Result<(), Damaged> {
        let count = rows.len();
        let of_rows = |found: usize| match found >= rows.end {
            true => Ok(()),
            false => Err(Damaged { problem: "it has fewer rows than the others of its page" }),
        };
        if let Content::Views { .. } | Content::Fixed { .. } = &self.content {
            let texts = Texts::parse(minipage)?;
            of_rows(texts.rows())?;
            if let Content::Views { views, buffers, own } = &mut self.content {
                seal(own, buffers);
                let (first, buffer, mut is_used) = (views.len(), buffers.len() as u32, false);
                let bytes = texts.bytes();
                let view = |range: Range<u32>| {
                    let text = bytes.get(range.start as usize..range.end as usize);
                    let text = text.unwrap_or_default();
                    is_used |= text.len() > INLINE_BYTES_MAX;
                    make_view(text, buffer, range.start)
                };
                texts.map(view, views)?;
                if is_used {
                    buffers.push(Buffer::from(bytes));
                }
                keep(views, first, &rows);
            } else {
                let mut ranges = Vec::with_capacity(texts.rows());
                texts.ranges(&mut ranges)?;
                let ranges = ranges.get(rows.clone()).unwrap_or_default();
                self.append_texts(texts.bytes(), ranges.iter().cloned())?;
            }
            self.append_validity(texts.validity(), rows.start, count);
            return Ok(());
        }
        let numbers = Numbers::parse(minipage)?;
        of_rows(numbers.rows())?;
        with_numbers!(&mut self.content, to => decode_rows(&numbers, &rows, to)?, _ => {});
        self.append_validity(numbers.validity(), rows.start, count);
        Ok(())
    }

    fn append_validity(&mut self, validity: Option<Validity<'_>>, first: usize, count: usize) {
        match validity {
            None => self.nulls.append_n_non_nulls(count),
            Some(validity) => {
                let bits = Buffer::from(validity.bits());
                let nulls = NullBuffer::new(BooleanBuffer::new(bits, first, count));
                self.nulls.append_buffer(&nulls);
            }
        }
    }

    fn append_texts(
        &mut self,
        bytes: &[u8],
        ranges: impl Iterator<Item = Range<u32>>,
    ) -> Result<(), Damaged> {
        let lost = Damaged { problem: "a text lies outside of its bytes" };
        match &mut self.content {
            Content::Views { views, buffers, own } => {
                seal(own, buffers);
                let (buffer, mut is_used) = (buffers.len() as u32, false);
                for Range { start, end } in ranges {
                    let text = bytes.get(start as usize..end as usize).ok_or(lost)?;
                    is_used |= text.len() > INLINE_BYTES_MAX;
                    views.push(make_view(text, buffer, start));
                }
                if is_used {
                    buffers.push(Buffer::from(bytes));
                }
            }
            Content::Fixed { width, bytes: to } => {
                for Range { start, end } in ranges {
                    let value = bytes.get(start as usize..end as usize).ok_or(lost)?;
                    // A null has none.
                    to.extend_from_slice(value.get(..*width).unwrap_or_default());
                    let missing = width.saturating_sub(value.len());
                    to.extend(std::iter::repeat_n(0, missing));
                }
            }
            _ => return Err(Damaged { problem: "it holds texts where numbers are expected" }),
        }
        Ok(())
    }

    fn append_values(&mut self, values: &Values) -> Result<(), Damaged> {
        match values.content() {
            ValuesContent::Numbers(numbers) => {
                with_numbers!(&mut self.content, to => {
                    to.reserve(numbers.len());
                    numbers.iter().for_each(|number| to.push(Number::of(*number)));
                }, _ => {});
            }
            ValuesContent::Wide(numbers) => {
                with_numbers!(&mut self.content, to => {
                    to.reserve(numbers.len());
                    numbers.iter().for_each(|number| to.push(Narrow::narrow(*number)));
                }, _ => {});
            }
            ValuesContent::Texts { ends, bytes } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let ranges = starts.zip(ends).map(|(start, end)| start..*end);
                self.append_texts(bytes, ranges)?;
            }
        }
        self.append_validity(Some(values.validity()), 0, values.rows());
        Ok(())
    }

    /// Adds the value of a row, as fields have it.
    pub(crate) fn append_field(&mut self, value: Option<&[u8]>) -> Result<(), Damaged> {
        let bytes = value.unwrap_or_default();
        if let Content::Views { views, buffers, own } = &mut self.content {
            if own.len() + bytes.len() > OWN_BYTES_MAX {
                seal(own, buffers);
            }
            views.push(make_view(bytes, buffers.len() as u32, own.len() as u32));
            if bytes.len() > INLINE_BYTES_MAX {
                own.extend_from_slice(bytes);
            }
        } else {
            with_numbers!(&mut self.content, to => {
                to.push(match short_number_of(bytes) {
                    Some(number) => Number::of(number as u64),
                    None => Narrow::narrow(number_of(bytes).unwrap_or(0)),
                });
            }, _ => {
                self.append_texts(bytes, std::iter::once(0..bytes.len() as u32))?;
            });
        }
        self.nulls.append(value.is_some());
        Ok(())
    }

    /// The array of what was added, and none after it.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        let primitive = |rows: usize, buffer: Buffer, nulls: Option<NullBuffer>| {
            let data = ArrayData::builder(self.data_type.clone()).len(rows).add_buffer(buffer);
            Ok(make_array(data.nulls(nulls).build()?))
        };
        match &mut self.content {
            Content::One(numbers) if self.data_type == DataType::Boolean => {
                let bits = numbers.drain(..).map(|byte| byte != 0).collect();
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            Content::Views { views, buffers, own } => {
                seal(own, buffers);
                let views = ScalarBuffer::from(taken(views));
                let buffers = std::mem::take(buffers);
                Ok(match self.data_type {
                    DataType::Utf8View => {
                        Arc::new(StringViewArray::try_new(views, buffers, nulls)?)
                    }
                    _ => Arc::new(BinaryViewArray::try_new(views, buffers, nulls)?),
                })
            }
            Content::Fixed { width, bytes } => {
                let (width, bytes) = (*width, taken(bytes));
                let rows = bytes.len() / width.max(1);
                match self.data_type {
                    DataType::FixedSizeBinary(size) => {
                        let values = Buffer::from_vec(bytes);
                        Ok(Arc::new(FixedSizeBinaryArray::try_new(size, values, nulls)?))
                    }
                    _ => primitive(rows, Buffer::from(&bytes[..]), nulls),
                }
            }
            content => with_numbers!(content, numbers => {
                let numbers = taken(numbers);
                primitive(numbers.len(), Buffer::from_vec(numbers), nulls)
            }, _ => Err(ArrowError::ComputeError("no numbers".to_owned()))),
        }
    }
}
