//! A few timings by which a disk is known again.

use moirai_storage::Device;
use moirai_units::Lbn;

use crate::error::Result;
use crate::probe::{Prober, Read};
use crate::rotation::{CacheSeen, Rotation, SCATTERED_MAX, cache, rotation};

/// Two blocks, and the time between their passing the head, in ns: from minus one half of a revolution to one half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Angle {
    /// The one.
    pub from: Lbn,
    /// The other.
    pub to: Lbn,
    /// How much later it passes.
    pub ns: f64,
}

/// Measures how a disk turns, and the angles between pairs of blocks.
///
/// # Errors
/// A device that does not turn, and what it fails with.
pub async fn angles(device: &dyn Device, pairs: &[(Lbn, Lbn)]) -> Result<(Rotation, Vec<Angle>)> {
    let mut prober = Prober::new(device);
    let rotation = rotation(&mut prober).await?;
    let mut seen = cache(&mut prober, &rotation).await?;
    let mut angles = Vec::with_capacity(pairs.len());
    for (from, to) in pairs.iter().copied() {
        // The later one first: a cache reads ahead, and not back.
        let later = read(&mut prober, to, &mut seen).await?;
        let earlier = read(&mut prober, from, &mut seen).await?;
        let ns = rotation.offset(earlier.finished, later.finished, 0.0);
        angles.push(Angle { from, to, ns });
    }
    Ok((rotation, angles))
}

/// Reads a block that does not come from the cache.
async fn read(prober: &mut Prober<'_>, lbn: Lbn, seen: &mut CacheSeen) -> Result<Read> {
    loop {
        let read = prober.read(lbn).await?;
        let is_known = seen.forgotten_after > 0 && seen.forgotten_after <= SCATTERED_MAX;
        if read.response > seen.hit || !is_known {
            return Ok(read);
        }
        prober.scatter(seen.forgotten_after).await?;
        seen.forgotten_after *= 2;
    }
}
