//! Commands and answers, byte by byte: SCSI-2 (ANSI X3.131-1994), with the longer forms of SBC and SPC for large drives.
//!
//! Answers are from outside: whatever they are, decoding gives a value or says what is wrong.

use std::fmt;

use moirai_storage::{CachePage, CachePages, Defect, Located, Sector};
use moirai_units::{BLOCK_BYTES, BlockCount, Lbn, Location};

/// Formats of an address: a logical block, and a physical sector.
const LOGICAL: u8 = 0;
const PHYSICAL: u8 = 5;
const FORMAT: u8 = 7;
/// Bits of a translation: in an area that is reserved, on an alternate sector or track.
const RESERVED_AREA: u8 = 0x80;
const ALTERNATES: u8 = 0x60;
/// Of a defect descriptor: the whole track.
const WHOLE_TRACK: u32 = u32::MAX;
/// The caching page, and its bits.
const CACHING: u8 = 8;
const WRITE_CACHE: u8 = 0x04;
const READ_CACHE_DISABLED: u8 = 0x01;
/// The fields of reading ahead count transfers and not blocks.
const MULTIPLICATION: u8 = 0x02;
/// Nothing is read ahead.
const READ_AHEAD_DISABLED: u8 = 0x20;
/// Where its fields lie in the page.
const FLAGS_AT: usize = 2;
const MINIMUM_PREFETCH_AT: usize = 6;
const MAXIMUM_PREFETCH_AT: usize = 8;
const MORE_FLAGS_AT: usize = 12;
/// In the header of mode pages: the medium takes no writes.
const WRITE_PROTECTED: u8 = 0x80;
/// What a drive with more blocks than 32 bits count says.
const TOO_LARGE: u32 = u32::MAX;
/// Sense keys: up to RECOVERED ERROR (0 is NO SENSE) a command is done; ILLEGAL REQUEST; UNIT ATTENTION.
const RECOVERED: u8 = 1;
const ILLEGAL_REQUEST: u8 = 5;
const UNIT_ATTENTION: u8 = 6;
/// Of UNIT ATTENTION: the drive was switched on or reset.
const RESET: u8 = 0x29;
/// Of UNIT ATTENTION: parameters were changed, and by its qualifier which; others are of reservations and of the capacity.
const PARAMETERS_CHANGED: u8 = 0x2a;
const MODE_PARAMETERS: u8 = 1;
const LOG_PARAMETERS: u8 = 2;

/// More blocks than any device has: their bytes can be counted.
const BLOCKS_MAX: u64 = 1 << 54;
/// How long answers may be.
pub(super) const TRANSLATION_BYTES: usize = 14;
pub(super) const CAPACITY_10_BYTES: usize = 8;
pub(super) const CAPACITY_16_BYTES: usize = 32;
pub(super) const DEFECT_BYTES_MAX: u16 = u16::MAX;
/// Some 65,000 defects: what most host adapters carry in one command.
pub(super) const LONG_DEFECT_BYTES_MAX: u32 = 512 << 10;
pub(super) const MODE_BYTES: u16 = 255;
/// The longest form of a block's address in the short commands.
pub(super) const SHORT_BLOCKS: u64 = 1 << 32;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: u8,
    /// The additional sense code.
    pub code: u8,
    /// Its qualifier.
    pub qualifier: u8,
    /// A command before failed, and this one was not carried out.
    pub is_deferred: bool,
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sense { key, code, qualifier, is_deferred } = self;
        let what = match key {
            2 => "it is not ready",
            3 => "its media are damaged",
            5 => "it does not know what it was asked",
            6 if self.is_reset() => "it was reset: try again",
            6 => "something was changed, its medium perhaps: open it again",
            7 => "it is protected against that",
            _ => "it failed",
        };
        let of = if *is_deferred { "of a command before: " } else { "" };
        write!(f, "{of}{what} (sense key {key:x}h, additional sense {code:02x}/{qualifier:02x})")
    }
}

impl Sense {
    /// What sense data say, in the fixed or the descriptor format.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Sense> {
        let at = |index: usize| bytes.get(index).copied();
        let response = at(0)? & 0x7f;
        let is_deferred = matches!(response, 0x71 | 0x73);
        match response {
            0x70 | 0x71 => Some(Sense {
                is_deferred,
                key: at(2)? & 0x0f,
                code: at(12).unwrap_or(0),
                qualifier: at(13).unwrap_or(0),
            }),
            0x72 | 0x73 => {
                Some(Sense { is_deferred, key: at(1)? & 0x0f, code: at(2)?, qualifier: at(3)? })
            }
            _ => None,
        }
    }

    /// The drive does not know what was named: a place, a page, a command.
    #[must_use]
    pub fn is_illegal_request(self) -> bool {
        self.key == ILLEGAL_REQUEST
    }

    /// Mode or log parameters were changed, and the command was not carried out: it may be given again.
    #[must_use]
    pub fn is_settings_changed(self) -> bool {
        self.is_unit_attention()
            && self.code == PARAMETERS_CHANGED
            && matches!(self.qualifier, MODE_PARAMETERS | LOG_PARAMETERS)
    }

    /// The drive was reset: settings are as they were when it was switched on, and what its write cache held is gone.
    #[must_use]
    pub fn is_reset(self) -> bool {
        self.is_unit_attention() && self.code == RESET
    }

    /// Writes that were acknowledged may be lost: the drive was reset, or says only now that an earlier command failed.
    #[must_use]
    pub fn loses_writes(self) -> bool {
        self.is_reset() || (self.is_deferred && !self.is_recovered())
    }

    /// The command that it is of is done.
    pub(super) fn is_recovered(self) -> bool {
        self.key <= RECOVERED
    }

    /// Something happened to the drive before the command, which was not carried out.
    #[must_use]
    pub fn is_unit_attention(self) -> bool {
        self.key == UNIT_ATTENTION && !self.is_deferred
    }
}

/// TEST UNIT READY.
pub(super) fn test_unit_ready() -> [u8; 6] {
    [0; 6]
}

/// READ CAPACITY (10).
pub(super) fn read_capacity_10() -> [u8; 10] {
    [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// READ CAPACITY (16).
pub(super) fn read_capacity_16() -> [u8; 16] {
    let mut command = [0; 16];
    command[..2].copy_from_slice(&[0x9e, 0x10]);
    command[13] = CAPACITY_16_BYTES as u8;
    command
}

/// Blocks of a drive; `None` when the long form must be asked.
pub(super) fn decode_capacity_10(bytes: &[u8]) -> Result<Option<BlockCount>, String> {
    let last = be_u32(bytes, 0)?;
    check_block(be_u32(bytes, 4)?)?;
    Ok((last != TOO_LARGE).then_some(BlockCount(u64::from(last) + 1)))
}

/// Blocks of a drive, and of a physical sector.
pub(super) fn decode_capacity_16(bytes: &[u8]) -> Result<(BlockCount, BlockCount), String> {
    let last = be_u64(bytes, 0)?;
    check_block(be_u32(bytes, 8)?)?;
    let exponent = u32::from(bytes.get(13).copied().unwrap_or(0) & 0x0f);
    if last >= BLOCKS_MAX {
        return Err(format!("it says that its last block is {last}"));
    }
    let blocks = last + 1;
    Ok((BlockCount(blocks), BlockCount(1 << exponent)))
}

fn check_block(bytes: u32) -> Result<(), String> {
    match u64::from(bytes) == BLOCK_BYTES {
        true => Ok(()),
        false => Err(format!("its blocks have {bytes} bytes, and must have {BLOCK_BYTES}")),
    }
}

/// SEND DIAGNOSTIC of a page of `length` bytes.
pub(super) fn send_diagnostic(length: u16) -> [u8; 6] {
    let [high, low] = length.to_be_bytes();
    [0x1d, 0x10, 0, high, low, 0]
}

/// RECEIVE DIAGNOSTIC RESULTS of the page that was sent.
pub(super) fn receive_diagnostic() -> [u8; 6] {
    [0x1c, 0, 0, 0, TRANSLATION_BYTES as u8, 0]
}

/// The page that asks where a block lies.
pub(super) fn translate_block(lbn: Lbn) -> Result<[u8; TRANSLATION_BYTES], String> {
    let short = u32::try_from(lbn.0);
    let lbn = short.map_err(|_| format!("{lbn} has no short address, which translations take"))?;
    let mut page = translation(LOGICAL, PHYSICAL);
    page[6..10].copy_from_slice(&lbn.to_be_bytes());
    Ok(page)
}

/// The page that asks what a place holds.
pub(super) fn translate_place(at: Location) -> Result<[u8; TRANSLATION_BYTES], String> {
    let mut page = translation(PHYSICAL, LOGICAL);
    page[6..].copy_from_slice(&place(at)?);
    Ok(page)
}

fn translation(supplied: u8, wanted: u8) -> [u8; TRANSLATION_BYTES] {
    let mut page = [0; TRANSLATION_BYTES];
    page[..6].copy_from_slice(&[0x40, 0, 0, 0x0a, supplied, wanted]);
    page
}

/// The physical sector format: cylinder, head, sector.
fn place(at: Location) -> Result<[u8; 8], String> {
    let Location { cylinder, head, sector } = at;
    let ([0, a, b, c], Ok(head)) = (cylinder.to_be_bytes(), u8::try_from(head)) else {
        return Err(format!("cylinder {cylinder}, head {head} have no address in its format"));
    };
    let [d, e, f, g] = sector.to_be_bytes();
    Ok([a, b, c, head, d, e, f, g])
}

fn decode_place(bytes: &[u8], at: usize) -> Result<Location, String> {
    let first = be_u32(bytes, at)?;
    Ok(Location { cylinder: first >> 8, head: first & 0xff, sector: be_u32(bytes, at + 4)? })
}

/// Where a block lies.
pub(super) fn decode_located(bytes: &[u8]) -> Result<Located, String> {
    let flags = translation_flags(bytes, PHYSICAL)?;
    Ok(Located { location: decode_place(bytes, 6)?, is_moved: flags & ALTERNATES != 0 })
}

/// What a place holds.
pub(super) fn decode_sector(bytes: &[u8]) -> Result<Sector, String> {
    // In a reserved area the answer may have no address.
    if bytes.get(5).is_some_and(|flags| flags & RESERVED_AREA != 0) {
        return Ok(Sector::Reserved);
    }
    translation_flags(bytes, LOGICAL)?;
    Ok(Sector::Block(Lbn(u64::from(be_u32(bytes, 6)?))))
}

fn translation_flags(bytes: &[u8], format: u8) -> Result<u8, String> {
    let (page, flags) = (bytes.first().copied(), bytes.get(5).copied());
    let length = be_u16(bytes, 2)?;
    match (page, flags) {
        (Some(0x40), Some(flags)) if flags & FORMAT == format && length >= 10 => Ok(flags),
        _ => Err(format!("it answers a translation with page {page:x?} and flags {flags:x?}")),
    }
}

/// READ DEFECT DATA (10) of the primary or of the grown list, as physical sectors.
pub(super) fn read_defects(grown: bool) -> [u8; 10] {
    let list = if grown { 0x08 } else { 0x10 };
    let [high, low] = DEFECT_BYTES_MAX.to_be_bytes();
    [0x37, 0, list | PHYSICAL, 0, 0, 0, 0, high, low, 0]
}

/// READ DEFECT DATA (12), for lists that are longer than the short form counts.
pub(super) fn read_long_defects(grown: bool) -> [u8; 12] {
    let list = if grown { 0x08 } else { 0x10 };
    let [a, b, c, d] = LONG_DEFECT_BYTES_MAX.to_be_bytes();
    [0xb7, list | PHYSICAL, 0, 0, 0, 0, a, b, c, d, 0, 0]
}

/// The bad places of a list; `None` when the long form must be asked.
pub(super) fn decode_defects(bytes: &[u8]) -> Result<Option<Vec<Defect>>, String> {
    let length = usize::from(be_u16(bytes, 2)?);
    // One that is as long as can be may have been cut.
    let most = (usize::from(DEFECT_BYTES_MAX) - 4) / 8 * 8;
    if length >= most {
        return Ok(None);
    }
    defects(bytes, 4, length).map(Some)
}

/// The bad places of a list in the short form that is as long as one can be.
pub(super) fn decode_whole_defects(bytes: &[u8]) -> Result<Vec<Defect>, String> {
    defects(bytes, 4, usize::from(be_u16(bytes, 2)?))
}

/// The bad places of a list in the long form.
pub(super) fn decode_long_defects(bytes: &[u8]) -> Result<Vec<Defect>, String> {
    let length = be_u32(bytes, 4)? as usize;
    defects(bytes, 8, length)
}

/// `length` bytes of descriptors behind a header.
fn defects(bytes: &[u8], header: usize, length: usize) -> Result<Vec<Defect>, String> {
    let format = bytes.get(1).copied().unwrap_or(0) & FORMAT;
    if format != PHYSICAL || !length.is_multiple_of(8) {
        return Err(format!(
            "it lists defects in {length} bytes of format {format}, and not as physical sectors"
        ));
    }
    let list = bytes.get(header..).and_then(|list| list.get(..length)).ok_or_else(|| {
        format!("its list of defects has {length} bytes, more than a command takes")
    })?;
    let mut defects = Vec::with_capacity(list.len() / 8);
    for one in list.chunks_exact(8) {
        let Location { cylinder, head, sector } = decode_place(one, 0)?;
        let sector = (sector != WHOLE_TRACK).then_some(sector);
        defects.push(Defect { cylinder, head, sector });
    }
    Ok(defects)
}

/// MODE SENSE (10) of the caching page: as it is, or which of its bits can be changed.
pub(super) fn sense_caching(changeable: bool) -> [u8; 10] {
    let control = if changeable { 0x40 } else { 0 };
    let [high, low] = MODE_BYTES.to_be_bytes();
    [0x5a, 0x08, control | CACHING, 0, 0, 0, 0, high, low, 0]
}

/// MODE SELECT (10) of `length` bytes.
pub(super) fn select_mode(length: u16) -> [u8; 10] {
    let [high, low] = length.to_be_bytes();
    [0x55, 0x10, 0, 0, 0, 0, 0, high, low, 0]
}

/// The caching page in an answer, behind the header and the block descriptors.
pub(super) fn caching_page(bytes: &[u8]) -> Result<&[u8], String> {
    let descriptors = usize::from(be_u16(bytes, 6)?);
    let page = bytes.get(8 + descriptors..).unwrap_or_default();
    let length = page.get(1).map_or(0, |length| usize::from(*length) + 2);
    match (page.first().map(|code| code & 0x3f), page.get(..length)) {
        (Some(CACHING), Some(page)) if length > MAXIMUM_PREFETCH_AT + 1 => Ok(page),
        _ => Err("it has no caching page".to_owned()),
    }
}

/// Whether an answer says that the medium takes no writes.
pub(super) fn is_write_protected(bytes: &[u8]) -> bool {
    bytes.get(3).is_some_and(|parameter| parameter & WRITE_PROTECTED != 0)
}

fn has(page: &[u8], at: usize, bit: u8) -> bool {
    page.get(at).is_some_and(|flags| flags & bit != 0)
}

/// Whether the maximum pre-fetch of a page counts blocks, and is minded.
fn limits_blocks(page: &[u8]) -> bool {
    !has(page, FLAGS_AT, MULTIPLICATION) && !has(page, MORE_FLAGS_AT, READ_AHEAD_DISABLED)
}

/// The cache, by the caching page as it is and as it can be changed.
pub(super) fn decode_caching(current: &[u8], changeable: &[u8]) -> Result<CachePages, String> {
    let limit = be_u16(current, MAXIMUM_PREFETCH_AT)?;
    let is_limit = limits_blocks(current);
    Ok(CachePages {
        current: CachePage {
            reads: !has(current, FLAGS_AT, READ_CACHE_DISABLED),
            writes: has(current, FLAGS_AT, WRITE_CACHE),
            read_ahead_blocks: if has(current, MORE_FLAGS_AT, READ_AHEAD_DISABLED) {
                0
            } else if is_limit {
                limit
            } else {
                u16::MAX
            },
        },
        can_set_reads: has(changeable, FLAGS_AT, READ_CACHE_DISABLED),
        can_set_writes: has(changeable, FLAGS_AT, WRITE_CACHE),
        can_set_read_ahead: is_limit && be_u16(changeable, MAXIMUM_PREFETCH_AT)? == u16::MAX,
    })
}

/// What MODE SELECT is given: a header, and the caching page with these settings. What is read ahead at least is what `first` says, the page
/// before anything was set, but no more than what is at most.
pub(super) fn with_caching(current: &[u8], first: &[u8], page: CachePage) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(current);
    let page_at = 8;
    // The bit that says a page can be saved is reserved here.
    if let Some(code) = bytes.get_mut(page_at) {
        *code &= 0x3f;
    }
    if let Some(flags) = bytes.get_mut(page_at + FLAGS_AT) {
        let set = |flags: u8, bit: u8, on: bool| if on { flags | bit } else { flags & !bit };
        *flags = set(*flags, READ_CACHE_DISABLED, !page.reads);
        *flags = set(*flags, WRITE_CACHE, page.writes);
    }
    let at = page_at + MAXIMUM_PREFETCH_AT;
    if let Some(field) = bytes.get_mut(at..at + 2).filter(|_| limits_blocks(current)) {
        field.copy_from_slice(&page.read_ahead_blocks.to_be_bytes());
        let least = be_u16(first, MINIMUM_PREFETCH_AT).unwrap_or(0).min(page.read_ahead_blocks);
        let at = page_at + MINIMUM_PREFETCH_AT;
        if let Some(field) = bytes.get_mut(at..at + 2) {
            field.copy_from_slice(&least.to_be_bytes());
        }
    }
    bytes
}

/// SEEK (10).
pub(super) fn seek(lbn: Lbn) -> Result<[u8; 10], String> {
    let short = u32::try_from(lbn.0);
    let [a, b, c, d] = short.map_err(|_| format!("{lbn} has no short address"))?.to_be_bytes();
    Ok([0x2b, 0, a, b, c, d, 0, 0, 0, 0])
}

/// READ or WRITE of up to 65,535 blocks: (10) where the address is short, else (16).
pub(super) fn transfer(is_write: bool, first: Lbn, blocks: u16) -> Vec<u8> {
    if first.0 + u64::from(blocks) <= SHORT_BLOCKS {
        let [a, b, c, d] = (first.0 as u32).to_be_bytes();
        let [high, low] = blocks.to_be_bytes();
        return vec![if is_write { 0x2a } else { 0x28 }, 0, a, b, c, d, 0, high, low, 0];
    }
    let mut command = vec![if is_write { 0x8a } else { 0x88 }, 0];
    command.extend_from_slice(&first.0.to_be_bytes());
    command.extend_from_slice(&u32::from(blocks).to_be_bytes());
    command.extend_from_slice(&[0, 0]);
    command
}

/// SYNCHRONIZE CACHE (10) of all blocks.
pub(super) fn synchronize_cache() -> [u8; 10] {
    [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn be_u16(bytes: &[u8], at: usize) -> Result<u16, String> {
    field(bytes, at).map(u16::from_be_bytes)
}

fn be_u32(bytes: &[u8], at: usize) -> Result<u32, String> {
    field(bytes, at).map(u32::from_be_bytes)
}

fn be_u64(bytes: &[u8], at: usize) -> Result<u64, String> {
    field(bytes, at).map(u64::from_be_bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], String> {
    let field = bytes.get(at..at + N).and_then(|field| field.try_into().ok());
    field.ok_or_else(|| format!("its answer of {} bytes ends before byte {}", bytes.len(), at + N))
}

/// Decodes bytes as every kind of answer: for a fuzzer.
pub fn fuzz(bytes: &[u8]) {
    let _ = Sense::decode(bytes);
    let _ = decode_capacity_10(bytes);
    let _ = decode_capacity_16(bytes);
    let _ = decode_located(bytes);
    let _ = decode_sector(bytes);
    let _ = decode_defects(bytes);
    let _ = decode_long_defects(bytes);
    let (current, changeable) = bytes.split_at(bytes.len() / 2);
    if let (Ok(current), Ok(changeable)) = (caching_page(current), caching_page(changeable))
        && be_u16(current, MINIMUM_PREFETCH_AT) <= be_u16(current, MAXIMUM_PREFETCH_AT)
        && let Ok(pages) = decode_caching(current, changeable)
    {
        let told = with_caching(current, current, pages.current);
        assert_eq!(caching_page(&told).map(|page| page.get(1..)), Ok(current.get(1..)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_bytes_of_the_documents() {
        let at = Location { cylinder: 0x01_2345, head: 6, sector: 0x89 };
        let page = [0x40, 0, 0, 0x0a, 5, 0, 0x01, 0x23, 0x45, 6, 0, 0, 0, 0x89];
        assert_eq!(translate_place(at), Ok(page));
        let page = [0x40, 0, 0, 0x0a, 0, 5, 0, 0x12, 0xd6, 0x87, 0, 0, 0, 0];
        assert_eq!(translate_block(Lbn(1_234_567)), Ok(page));
        assert!(translate_block(Lbn(1 << 32)).is_err());
        assert!(translate_place(Location { cylinder: 1 << 24, head: 0, sector: 0 }).is_err());
        assert!(translate_place(Location { cylinder: 0, head: 256, sector: 0 }).is_err());
        assert_eq!(read_defects(false), [0x37, 0, 0x15, 0, 0, 0, 0, 0xff, 0xff, 0]);
        assert_eq!(read_defects(true), [0x37, 0, 0x0d, 0, 0, 0, 0, 0xff, 0xff, 0]);
        let long = [0xb7, 0x15, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0];
        assert_eq!(read_long_defects(false), long);
        assert_eq!(seek(Lbn(0x0102_0304)), Ok([0x2b, 0, 1, 2, 3, 4, 0, 0, 0, 0]));
        assert_eq!(transfer(false, Lbn(5), 8), [0x28, 0, 0, 0, 0, 5, 0, 0, 8, 0]);
        let long = [0x8a, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 8, 0, 0];
        assert_eq!(transfer(true, Lbn((1 << 32) - 1), 8), long);
        assert_eq!(sense_caching(true), [0x5a, 8, 0x48, 0, 0, 0, 0, 0, 255, 0]);
    }

    #[test]
    fn answers_are_read_as_the_documents_have_them() {
        assert_eq!(decode_capacity_10(&[0, 0, 0, 99, 0, 0, 2, 0]), Ok(Some(BlockCount(100))));
        assert_eq!(decode_capacity_10(&[0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]), Ok(None));
        assert!(decode_capacity_10(&[0, 0, 0, 99, 0, 0, 16, 0]).is_err(), "4 KiB blocks");
        let mut long = [0; 32];
        long[..14].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 3]);
        let blocks = BlockCount((1 << 32) + 1);
        assert_eq!(decode_capacity_16(&long), Ok((blocks, BlockCount(8))));
        let located = decode_located(&[0x40, 0, 0, 0x0a, 0, 0x45, 0, 1, 2, 3, 0, 0, 0, 9]);
        let location = Location { cylinder: 0x102, head: 3, sector: 9 };
        assert_eq!(located, Ok(Located { location, is_moved: true }));
        let sector = [0x40, 0, 0, 0x0a, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(decode_sector(&sector), Ok(Sector::Block(Lbn(256))));
        assert_eq!(decode_sector(&[0x40, 0, 0, 2, 5, 0x80]), Ok(Sector::Reserved));
        let list = [0, 0x15, 0, 16, 0, 0, 7, 2, 0, 0, 0, 5, 0, 0, 8, 0, 0xff, 0xff, 0xff, 0xff];
        let defect = |cylinder, head, sector| Defect { cylinder, head, sector };
        let bad = vec![defect(7, 2, Some(5)), defect(8, 0, None)];
        assert_eq!(decode_defects(&list), Ok(Some(bad.clone())));
        let long = [&[0, 0x15, 0, 0, 0, 0, 0, 16], &list[4..]].concat();
        assert_eq!(decode_long_defects(&long), Ok(bad));
        assert_eq!(decode_defects(&[0, 0x15, 0xff, 0xff]), Ok(None), "more than it counts");
        assert_eq!(decode_defects(&[0, 0x15, 0xff, 0xf8]), Ok(None), "perhaps more");
        assert!(decode_defects(&[0, 0x15, 0xff, 0xf0]).is_err(), "cut off");
        assert!(decode_long_defects(&[0, 0x15, 0, 0, 0xff, 0xff, 0xff, 0xf8]).is_err());
        let fixed = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x26, 0];
        let sense = Sense { key: 5, code: 0x26, qualifier: 0, is_deferred: false };
        assert_eq!(Sense::decode(&fixed), Some(sense));
        assert_eq!(Sense::decode(&[0x72, 5, 0x26, 0]), Some(sense));
        assert!(sense.is_illegal_request());
    }

    #[test]
    fn the_caching_page_is_found_behind_block_descriptors_and_changed() {
        let mut answer = vec![0, 36, 0, 0, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        answer.extend_from_slice(&[
            0x88, 0x12, 0x04, 0, 0xff, 0xff, 0, 0, 1, 2, 3, 4, 0, 16, 0, 0, 0, 0, 0, 0,
        ]);
        let page = caching_page(&answer).unwrap();
        let mut changeable = page.to_vec();
        changeable[2] = 0x05;
        let pages = decode_caching(page, &changeable).unwrap();
        let current = CachePage { reads: true, writes: true, read_ahead_blocks: 0x0102 };
        assert_eq!(pages.current, current);
        assert_eq!(
            (pages.can_set_reads, pages.can_set_writes, pages.can_set_read_ahead),
            (true, true, false)
        );
        let off = CachePage { reads: false, writes: false, read_ahead_blocks: 7 };
        let told = with_caching(page, page, off);
        assert_eq!(told[..8], [0; 8]);
        assert_eq!(told[8..18], [0x08, 0x12, 0x01, 0, 0xff, 0xff, 0, 0, 0, 7]);
        assert_eq!(told[18..], page[10..]);
        // A limit that counts transfers, or that is not minded, is left alone.
        for (at, bit, blocks) in
            [(FLAGS_AT, MULTIPLICATION, 0xffff), (MORE_FLAGS_AT, READ_AHEAD_DISABLED, 0)]
        {
            let mut page = page.to_vec();
            page[at] |= bit;
            let pages = decode_caching(&page, &[0xff; 20]).unwrap();
            assert_eq!(
                (pages.current.read_ahead_blocks, pages.can_set_read_ahead),
                (blocks, false)
            );
            assert_eq!(with_caching(&page, &page, off)[16..18], [1, 2]);
        }
    }
}
