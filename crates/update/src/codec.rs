//! Numbers and byte strings as log entries, queues, chunks and checkpoints have them.

use crate::ids::{Seq, SpaceId};

/// Appends `number` in groups of seven bits, the lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends `bytes` behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values off the front of bytes; `None` when they end too early or are none of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl<'a> Taker<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn seq(&mut self) -> Option<Seq> {
        self.number().map(Seq)
    }

    pub(crate) fn space(&mut self) -> Option<SpaceId> {
        self.number32().map(SpaceId)
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.fixed(length)
    }

    #[inline]
    pub(crate) fn fixed(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn le32(&mut self) -> Option<u32> {
        self.fixed(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn le64(&mut self) -> Option<u64> {
        self.fixed(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

/// Whether a checksum that was read is that of what was read with it. For fuzzers it always is: they would not get
/// past it.
pub(crate) fn is_sum(read: u32, worked_out: u32) -> bool {
    cfg!(fuzzing) || read == worked_out
}

/// The first eight bytes of a key as a number: keys that differ there are ordered as these are.
#[inline]
pub(crate) fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first.iter_mut().zip(key).for_each(|(place, byte)| *place = *byte);
            u64::from_be_bytes(first)
        }
    }
}

/// Whether two keys are the same; mostly told by their first bytes.
#[inline]
pub(crate) fn is_same_key(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && prefix_of(one) == prefix_of(other) && one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_round_trip() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        numbers.iter().for_each(|number| put_number(&mut out, *number));
        put_bytes(&mut out, b"abc");
        let mut taker = Taker(&out);
        for number in numbers {
            assert_eq!(taker.number(), Some(number));
        }
        assert_eq!((taker.bytes(), taker.number()), (Some(&b"abc"[..]), None));
        assert_eq!(Taker(&[0x80; 20]).number(), None);
        assert_eq!(Taker(&[5, 1]).bytes(), None);
    }

    #[test]
    fn prefixes_are_ordered_as_keys() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"aaaaaaaa", b"aaaaaaab", b"b"];
        assert!(keys.windows(2).all(|pair| prefix_of(pair[0]) <= prefix_of(pair[1])));
        assert!(keys.windows(2).all(|pair| !is_same_key(pair[0], pair[1])));
        assert!(keys.iter().all(|key| is_same_key(key, key)));
    }
}
