//! Splitting CSV text into records and fields, with the line of each.
//!
//! The text is that of RFC 4180: a field may be in double quotes, and a doubled quote in such a field
//! stands for one. A record ends at a line feed, a carriage return, or both in that order. A quote
//! within an unquoted field has no meaning. The fields are bytes: nothing here asks for UTF-8.
//!
//! `csv-core` would do the splitting, but drops two facts: whether a field was quoted, which tells NULL
//! from the empty text, and whether the file ended within quotes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use memchr::{memchr, memchr_iter, memchr3};

use super::error::CsvError;

const BUFFER_BYTES: usize = 256 << 10;

/// The most bytes and fields of a record together. Without a limit, a quote that is never closed would
/// take the rest of the file into memory.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// The value, without its quotes.
    pub(super) value: &'a [u8],
    /// Whether the value was in quotes.
    pub(super) is_quoted: bool,
    /// The line that the field begins on.
    pub(super) line: u64,
}

#[derive(Clone, Copy, Debug)]
struct FieldEnd {
    end: usize,
    is_quoted: bool,
    line: u64,
}

/// A record: the fields of one line, or of several where line breaks are in quotes.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The line that the record begins on.
    pub(super) line: u64,
    /// The values of all fields, one after the other.
    values: Vec<u8>,
    ends: Vec<FieldEnd>,
}

impl Record {
    pub(super) fn field_count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the record in memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.values.len() + self.ends.len() * size_of::<FieldEnd>()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let mut start = 0;
        self.ends.iter().map(move |field| {
            let value = self.values.get(start..field.end).unwrap_or_default();
            start = field.end;
            Field { value, is_quoted: field.is_quoted, line: field.line }
        })
    }

    fn start(&mut self, line: u64) {
        self.line = line;
        self.values.clear();
        self.ends.clear();
    }

    fn end_field(&mut self, is_quoted: bool, line: u64) {
        self.ends.push(FieldEnd { end: self.values.len(), is_quoted, line });
    }

    fn is_blank(&self) -> bool {
        self.values.is_empty() && matches!(self.ends.as_slice(), [field] if !field.is_quoted)
    }
}

/// Where the splitter stands within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote within a quoted field: the field's last byte, or the first of a doubled quote.
    QuoteInQuoted,
}

/// The records of a CSV text, read one at a time.
///
/// All have the same count of fields: that of the first one, unless [`Records::expect_width`] says.
/// Blank lines are skipped, except in a text of one column: there a blank line is an empty field.
pub(super) struct Records<R> {
    input: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    delimiter: u8,
    width: Option<usize>,
    /// The line of the next byte, counted from 1.
    line: u64,
    /// Whether the last record ended in a carriage return, so that a line feed here belongs to it.
    after_carriage_return: bool,
    record: Record,
    /// Whether `record` was read by [`Records::peek`] and is still to be returned.
    is_peeked: bool,
}

impl<R: Read> Records<R> {
    /// The records of `input`, whose byte order mark is dropped if it has one.
    pub(super) fn new(mut input: R, delimiter: u8) -> io::Result<Self> {
        let mut head = Vec::new();
        input.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut head)?;
        if head == BYTE_ORDER_MARK {
            head.clear();
        }
        Ok(Records {
            input: BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(input)),
            delimiter,
            width: None,
            line: 1,
            after_carriage_return: false,
            record: Record::default(),
            is_peeked: false,
        })
    }

    /// Asks that each record has `fields` fields.
    pub(super) fn expect_width(&mut self, fields: usize) {
        self.width = Some(fields);
    }

    /// Reads the next record without passing over it.
    pub(super) fn peek(&mut self) -> Result<(), CsvError> {
        self.is_peeked = self.next()?.is_some();
        Ok(())
    }

    /// Reads the next record; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<&Record>, CsvError> {
        if std::mem::take(&mut self.is_peeked) {
            return Ok(Some(&self.record));
        }
        loop {
            if !self.read()? {
                return Ok(None);
            }
            if self.width == Some(1) || !self.record.is_blank() {
                break;
            }
        }
        let found = self.record.field_count();
        let expected = *self.width.get_or_insert(found);
        if found != expected {
            return Err(CsvError::FieldCount { line: self.record.line, found, expected });
        }
        Ok(Some(&self.record))
    }

    /// Reads into `self.record`; returns whether there was a record.
    fn read(&mut self) -> Result<bool, CsvError> {
        let Records { input, delimiter, line, after_carriage_return, record, .. } = self;
        record.start(*line);
        let mut state = State::FieldStart;
        let mut field_line = *line;
        loop {
            let chunk = match input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                return match state {
                    State::Quoted => Err(CsvError::UnclosedQuote { line: field_line }),
                    State::FieldStart if record.ends.is_empty() => Ok(false),
                    _ => {
                        record.end_field(state == State::QuoteInQuoted, field_line);
                        Ok(true)
                    }
                };
            }
            let mut rest = chunk;
            if std::mem::take(after_carriage_return) {
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let mut is_ended = false;
            while !is_ended && let Some((&first, after_first)) = rest.split_first() {
                // The byte that ends a field, and what is after it.
                let end;
                match state {
                    State::FieldStart => {
                        field_line = *line;
                        state = State::Unquoted;
                        if first == b'"' {
                            state = State::Quoted;
                            rest = after_first;
                        }
                        continue;
                    }
                    State::Quoted => {
                        let (value, after) = split_at_byte(rest, memchr(b'"', rest));
                        *line += memchr_iter(b'\n', value).count() as u64;
                        record.values.extend_from_slice(value);
                        rest = match after {
                            Some((_, after)) => {
                                state = State::QuoteInQuoted;
                                after
                            }
                            None => &[],
                        };
                        continue;
                    }
                    State::QuoteInQuoted if first == b'"' => {
                        record.values.push(b'"');
                        state = State::Quoted;
                        rest = after_first;
                        continue;
                    }
                    State::QuoteInQuoted => {
                        if first != *delimiter && first != b'\n' && first != b'\r' {
                            let column = record.field_count() + 1;
                            return Err(CsvError::TextAfterQuote { line: *line, column });
                        }
                        end = first;
                        rest = after_first;
                    }
                    State::Unquoted => {
                        let at = memchr3(*delimiter, b'\n', b'\r', rest);
                        let (value, after) = split_at_byte(rest, at);
                        record.values.extend_from_slice(value);
                        let Some((byte, after)) = after else {
                            rest = &[];
                            continue;
                        };
                        end = byte;
                        rest = after;
                    }
                }
                record.end_field(state == State::QuoteInQuoted, field_line);
                state = State::FieldStart;
                if end != *delimiter {
                    *line += 1;
                    *after_carriage_return = end == b'\r';
                    is_ended = true;
                }
            }
            let used = chunk.len() - rest.len();
            input.consume(used);
            if is_ended {
                return Ok(true);
            }
            if record.values.len() + record.ends.len() > RECORD_BYTES_MAX {
                return Err(CsvError::RecordTooLong { line: record.line });
            }
        }
    }
}

/// What is before the byte at `at`, that byte, and what is after it.
fn split_at_byte(bytes: &[u8], at: Option<usize>) -> (&[u8], Option<(u8, &[u8])>) {
    let Some((before, from)) = at.and_then(|at| bytes.split_at_checked(at)) else {
        return (bytes, None);
    };
    (before, from.split_first().map(|(byte, after)| (*byte, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives `step` bytes at a time.
    struct Dribble<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(buffer.len()).min(self.bytes.len());
            buffer[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    /// The records, each as `line:field|field`; a quoted field is in `<>`, and a field on another line
    /// than its record begins with that line.
    fn split(text: &[u8], step: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut records = Records::new(Dribble { bytes: text, step }, b',').unwrap();
        loop {
            let record = match records.next() {
                Ok(Some(record)) => record,
                Ok(None) => return found,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            };
            let fields = record.fields().map(|field| {
                let value = String::from_utf8_lossy(field.value);
                let line = if field.line == record.line {
                    String::new()
                } else {
                    format!("{}:", field.line)
                };
                if field.is_quoted { format!("{line}<{value}>") } else { format!("{line}{value}") }
            });
            let fields: Vec<_> = fields.collect();
            found.push(format!("{}:{}", record.line, fields.join("|")));
        }
    }

    #[test]
    fn text_splits_the_same_whatever_the_reads_return() {
        let check = |text: &str, expected: &[&str]| {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(split(text.as_bytes(), step), expected, "{text:?} by {step}");
            }
        };
        check("", &[]);
        check("\n\r\n\r", &[]);
        check("a,b\n1,2", &["1:a|b", "2:1|2"]);
        check("a,b\r\n1,2\r3,4\n", &["1:a|b", "2:1|2", "3:3|4"]);
        check("\u{feff}\"a\",b\n", &["1:<a>|b"]);
        check("a,\n,\n\n,b", &["1:a|", "2:|", "4:|b"]);
        check("a\n\nb\n\"\"\n", &["1:a", "2:", "3:b", "4:<>"]);
        check("\n\na\n\n", &["3:a", "4:"]);
        check("a \"b\",\"c \"\"d\"\", e\"\"\"\n", &["1:a \"b\"|<c \"d\", e\">"]);
        check("\"a\r\nb\",\"c\nd\",e\n1,2,3", &["1:<a\r\nb>|2:<c\nd>|3:e", "4:1|2|3"]);
        check("a,b\n1,\"x\ny", &["1:a|b", "line 2: the quote that opens here is not closed"]);
        check(
            "a,b\n1,\"x\"y\n",
            &[
                "1:a|b",
                "line 2: text follows the closing quote of field 2 (hint: a quote within a quoted field is written twice)",
            ],
        );
        check("a,b\n1\n", &["1:a|b", "line 2 has 1 field, expected 2"]);
        check("a,b\n\n1,2,3\n", &["1:a|b", "line 3 has 3 fields, expected 2"]);
    }

    #[test]
    fn unclosed_quote_stops_at_the_record_limit() {
        let text = [b"a\n\"".to_vec(), vec![b'x'; RECORD_BYTES_MAX + 1]].concat();
        let found = split(&text, usize::MAX);
        assert_eq!(
            found,
            [
                "1:a",
                "line 2: the record that begins here is longer than 16 MiB (hint: a quote may not be closed)"
            ]
        );
        let found = split(&vec![b','; RECORD_BYTES_MAX + 2 * BUFFER_BYTES], usize::MAX);
        assert!(found[0].starts_with("line 1: the record"), "{found:?}");
    }
}
