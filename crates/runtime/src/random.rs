//! Seeded random streams: one per name, independent of each other and of the order of creation.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A deterministic random stream. Draw from it with the traits of the `rand` crate.
pub type Random = ChaCha8Rng;

/// The stream that belongs to `name` under `seed`. The same pair gives the same draws.
#[must_use]
pub fn seeded(seed: u64, name: &str) -> Random {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    // FNV-1a over the name, once for each remaining word with another basis: a name is a label, not
    // a secret, so all that is asked of the hash is that different names rarely meet.
    for (index, word) in key[8..].chunks_exact_mut(8).enumerate() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ (index as u64);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        word.copy_from_slice(&hash.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}
