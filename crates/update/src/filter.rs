//! Filters: bits that tell of most keys that nothing of them is there.
//!
//! After Bloom (Space/time trade-offs in hash coding with allowable errors, CACM 1970): a key sets some of the bits, by
//! its hash. One that finds all of its bits set may be there. With eight bits for each that is there, one in fifty of
//! the others does.

/// Bits that a key sets.
const BITS: u32 = 5;

/// What says which bits are a key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub(crate) fn of(key: &[u8]) -> KeyHash {
        // The checksum alone says too little where keys differ little; the golden ratio spreads it.
        KeyHash(u64::from(crc32c::crc32c(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Puts a key into a filter.
    pub(crate) fn put_into(self, filter: &mut [u8]) {
        for (byte, bit) in self.bits(filter.len()) {
            if let Some(byte) = filter.get_mut(byte) {
                *byte |= bit;
            }
        }
    }

    /// Whether the key may have been put into a filter.
    pub(crate) fn may_be_in(self, filter: &[u8]) -> bool {
        self.bits(filter.len())
            .all(|(byte, bit)| filter.get(byte).is_some_and(|had| had & bit != 0))
    }

    /// The bits of the key in a filter of so many bytes.
    fn bits(self, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
        let (first, step) = ((self.0 >> 32) as u32, self.0 as u32 | 1);
        (0..BITS).map(move |turn| {
            let at = first.wrapping_add(step.wrapping_mul(turn));
            let bit = (u64::from(at) * bytes as u64 * 8) >> 32;
            ((bit / 8) as usize, 1 << (bit % 8))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_put_is_found_and_little_else() {
        // Few bits are the same for more keys.
        for (count, one_in) in [(1_u64, 10), (8, 25), (40, 35), (1000, 40)] {
            let (mut found, mut asked) = (0, 0);
            for first in (0..20_000).step_by(count as usize) {
                let mut filter = vec![0; count as usize];
                let hashes = |numbers: std::ops::Range<u64>| {
                    numbers.map(|number| KeyHash::of(&number.to_be_bytes()))
                };
                hashes(first..first + count).for_each(|hash| hash.put_into(&mut filter));
                assert!(hashes(first..first + count).all(|hash| hash.may_be_in(&filter)));
                let others = hashes(first + count..first + count + 20);
                found += others.filter(|hash| hash.may_be_in(&filter)).count();
                asked += 20;
            }
            assert!(found * one_in < asked, "with {count}: {found} of {asked}");
        }
        assert!(!KeyHash::of(b"a").may_be_in(&[]));
    }
}
