//! Minipages of texts and bytes, on their way in: which encoding needs the fewest bytes.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use zstd::bulk::Compressor;

use crate::header::{Encoding, HEADER_BYTES, Header, ROWS_MAX, Validity, put_nested};
use crate::numbers_encoder::put_numbers;
use crate::packed::{bits_of, pack, packed_bytes};
use crate::texts::TEXT_BYTES_MAX;

/// Distinct texts that are looked up before a dictionary is given up, and the rows for each further one.
const FIRST_ENTRIES: usize = 16;
const ROWS_OF_ENTRY: usize = 4;
/// Bytes of texts at least that are compressed.
const COMPRESSED_BYTES_MIN: usize = 512;
/// Of zstd: the fastest that finds matches of any distance.
const COMPRESSION_LEVEL: i32 = 1;

/// See [`Encoder::texts`](crate::Encoder::texts).
#[derive(Default)]
pub(crate) struct TextsEncoder {
    hashing: DefaultHashBuilder,
    /// Numbers of entries by the hash of their texts.
    table: HashTable<u32>,
    entries: Vec<Range<usize>>,
    codes: Vec<u64>,
    lengths: Vec<u64>,
    dictionary: Vec<u8>,
    compressor: Option<Compressor<'static>>,
    compressed: Vec<u8>,
}

impl TextsEncoder {
    pub(crate) fn encode(
        &mut self,
        ends: &[u32],
        bytes: &[u8],
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        let last = ends.last().copied().unwrap_or(0) as usize;
        assert!(ends.is_sorted() && last == bytes.len(), "texts end where the next ones begin");
        assert!(ends.len() <= ROWS_MAX, "a minipage has up to {ROWS_MAX} rows");
        assert!(
            bytes.len() <= TEXT_BYTES_MAX,
            "a minipage has up to {TEXT_BYTES_MAX} bytes of texts"
        );
        let rows = ends.len();
        self.lengths.clear();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        self.lengths.extend(starts.zip(ends).map(|(start, end)| u64::from(end - start)));
        if self.look_up(ends, bytes) {
            let bits = bits_of((self.entries.len() as u64).saturating_sub(1));
            let longest = self.lengths.iter().copied().max().unwrap_or(0);
            let of_entries: usize = self.entries.iter().map(Range::len).sum();
            let of_lengths = |count| HEADER_BYTES + packed_bytes(count, bits_of(longest));
            let with_dictionary = HEADER_BYTES
                + of_lengths(self.entries.len())
                + of_entries
                + packed_bytes(rows, bits);
            if with_dictionary < of_lengths(rows) + bytes.len() {
                return self.put_dictionary(bytes, bits, validity, out);
            }
        }
        let lengths = std::mem::take(&mut self.lengths);
        self.put_texts(&lengths, bytes, validity, out);
        self.lengths = lengths;
    }

    /// Appends the minipage of texts of these lengths.
    fn put_texts(
        &mut self,
        lengths: &[u64],
        bytes: &[u8],
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        let (is_compressed, rows) = (self.compress(bytes), lengths.len());
        let encoding = if is_compressed { Encoding::CompressedTexts } else { Encoding::Texts };
        Header { encoding, bits: 0, rows, base: 0 }.put(validity, out);
        put_nested(out, |out| put_numbers(lengths, false, out));
        if is_compressed {
            put_nested(out, |out| out.extend(&self.compressed));
        } else {
            out.extend(bytes);
        }
    }

    /// Appends the minipage of the dictionary that was looked up.
    fn put_dictionary(
        &mut self,
        bytes: &[u8],
        bits: u8,
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        let rows = self.codes.len();
        Header { encoding: Encoding::TextDictionary, bits, rows, base: 0 }.put(validity, out);
        let mut dictionary = std::mem::take(&mut self.dictionary);
        dictionary.clear();
        self.lengths.clear();
        for entry in &self.entries {
            self.lengths.push(entry.len() as u64);
            dictionary.extend(bytes.get(entry.clone()).unwrap_or_default());
        }
        let lengths = std::mem::take(&mut self.lengths);
        put_nested(out, |out| self.put_texts(&lengths, &dictionary, None, out));
        (self.dictionary, self.lengths) = (dictionary, lengths);
        pack(&self.codes, 0, bits, out);
    }

    /// Looks up the code of each text among the distinct ones; `false` where many are distinct.
    fn look_up(&mut self, ends: &[u32], bytes: &[u8]) -> bool {
        self.table.clear();
        self.entries.clear();
        self.codes.clear();
        let TextsEncoder { hashing, table, entries, codes, .. } = self;
        let text = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let mut start = 0;
        for (row, end) in ends.iter().enumerate() {
            let range = std::mem::replace(&mut start, *end as usize)..*end as usize;
            let of_row = text(&range);
            let of_entry = |code: &u32| entries.get(*code as usize).map(text).unwrap_or_default();
            let entry = table.entry(
                hashing.hash_one(of_row),
                |code| of_entry(code) == of_row,
                |code| hashing.hash_one(of_entry(code)),
            );
            let code = match entry {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(_) if entries.len() >= FIRST_ENTRIES + row / ROWS_OF_ENTRY => {
                    return false;
                }
                Entry::Vacant(entry) => {
                    let code = entries.len() as u32;
                    entry.insert(code);
                    entries.push(range);
                    code
                }
            };
            codes.push(u64::from(code));
        }
        true
    }

    /// Compresses `bytes`; tells whether that saves an eighth of them.
    fn compress(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() < COMPRESSED_BYTES_MIN {
            return false;
        }
        if self.compressor.is_none() {
            self.compressor = Compressor::new(COMPRESSION_LEVEL).ok();
        }
        let Some(compressor) = &mut self.compressor else { return false };
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        let compressed = compressor.compress_to_buffer(bytes, &mut self.compressed);
        compressed.is_ok_and(|count| count <= bytes.len() - bytes.len() / 8)
    }
}
