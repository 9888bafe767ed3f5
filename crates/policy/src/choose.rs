//! Choices for one object, and the greedy partition of objects over arrays.

use moirai_runtime::Random;
use moirai_units::{BlockCount, ByteCount};
use moirai_volume::Level;
use rand::seq::SliceRandom;

use crate::workload::{Arrivals, Stream, Workload};

/// The smallest and the largest stripe unit that are considered.
pub const UNIT_MIN: ByteCount = ByteCount(4 << 10);
/// See [`UNIT_MIN`].
pub const UNIT_MAX: ByteCount = ByteCount(4 << 20);
/// The stripe units that are considered, in blocks.
pub(crate) fn units() -> impl Iterator<Item = u64> {
    let double = |unit: &u64| Some(unit * 2);
    std::iter::successors(Some(BlockCount::holding(UNIT_MIN).0), double)
        .take_while(|unit| BlockCount(*unit).bytes() <= UNIT_MAX)
}

/// What a write counts as many reads (placement paper 3.4): read-modify-write takes four accesses.
pub const WRITE_WEIGHT: f64 = 4.0;

/// The stripe unit for requests of this mean size: half of it (placement paper 3.6), as the nearest power
/// of two from [`UNIT_MIN`] to [`UNIT_MAX`].
#[must_use]
pub fn stripe_unit(stream: &Stream) -> BlockCount {
    let half = (stream.mean_bytes().0 as f64 / 2.0).max(1.0);
    let power = half.log2().round().exp2() as u64;
    BlockCount::holding(ByteCount(power.clamp(UNIT_MIN.0, UNIT_MAX.0)))
}

/// The level of `allowed` that takes the least disk time for the requests of `stream` on an array of
/// `width` disks (placement paper 2): small writes want mirrors, large ones parity. Of those that take
/// alike, the one that needs the least space.
#[must_use]
pub fn level(stream: &Stream, allowed: &[Level], width: usize, unit: BlockCount) -> Option<Level> {
    let blocks = BlockCount::holding(stream.mean_bytes()).0 as f64;
    let units = (blocks / unit.0.max(1) as f64).max(1.0);
    let accesses = |level: &Level| {
        let data = level.data_units(width) as f64;
        let written = units.min(data.max(1.0));
        let parity = level.parity_units() as f64;
        let a_write = match parity > 0.0 {
            // Old data and parity, or the rest of the stripe, and then the new.
            true => (written + parity).min(data - written) + written + parity,
            false => written * level.copies(width) as f64,
        };
        let a_read = written;
        (stream.reads * a_read + (1.0 - stream.reads) * a_write) / written
    };
    let space = |level: &Level| width as f64 / level.data_units(width).max(1) as f64;
    let better = |one: &&Level, other: &&Level| {
        let (a, b) = (accesses(one), accesses(other));
        // Within a twentieth they take alike.
        match (a - b).abs() <= 0.05 * a.max(b) {
            true => space(one).total_cmp(&space(other)),
            false => a.total_cmp(&b),
        }
    };
    allowed.iter().min_by(better).copied()
}

/// The load of a stream: requests a second, writes counted as four (placement paper 3.4).
#[must_use]
pub fn write_weighted_iops(workload: &Workload, stream: &Stream) -> f64 {
    let rate = match (stream.arrivals(), workload.mean_iops(stream)) {
        (_, Some(rate)) => rate,
        // A closed loop of n: as n disks that are always busy, 100 requests a second each.
        (Arrivals::Closed(most), None) => f64::from(most) * 100.0,
        (Arrivals::Poisson(_), None) => 0.0,
    };
    rate * (stream.reads + (1.0 - stream.reads) * WRITE_WEIGHT)
}

/// Divides `loads` into `partitions` with sums as equal as possible (placement paper 3.4): random
/// orders, each load to the partition that gives the least imbalance, until the imbalance is under
/// `enough` of the mean or `tries` are through. Gives the partition of each load and the imbalance.
#[must_use]
pub fn greedy_partition(
    loads: &[f64],
    partitions: usize,
    enough: f64,
    tries: usize,
    random: &mut Random,
) -> (Vec<usize>, f64) {
    let partitions = partitions.max(1);
    let mean = loads.iter().sum::<f64>() / partitions as f64;
    let mut order: Vec<usize> = (0..loads.len()).collect();
    let mut best = (vec![0; loads.len()], f64::INFINITY);
    for _ in 0..tries.max(1) {
        order.shuffle(random);
        let mut sums = vec![0.0; partitions];
        let mut of = vec![0; loads.len()];
        for index in &order {
            // The difference of the largest and the least sum is least where the least grows.
            let least =
                (0..partitions).min_by(|one, other| at(&sums, *one).total_cmp(&at(&sums, *other)));
            let least = least.unwrap_or(0);
            if let (Some(sum), Some(load)) = (sums.get_mut(least), loads.get(*index)) {
                *sum += load;
            }
            if let Some(of) = of.get_mut(*index) {
                *of = least;
            }
        }
        let (low, high) = sums
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), sum| (low.min(*sum), high.max(*sum)));
        let imbalance = if mean > 0.0 { (high - low) / mean } else { 0.0 };
        if imbalance < best.1 {
            best = (of, imbalance);
        }
        if best.1 < enough {
            break;
        }
    }
    best
}

fn at(sums: &[f64], index: usize) -> f64 {
    sums.get(index).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use moirai_runtime::seeded;

    use super::*;

    #[test]
    fn stripe_units_are_half_of_the_mean_request() {
        let unit = |bytes| stripe_unit(&Stream::open("a", 1.0, ByteCount(bytes))).bytes().0;
        assert_eq!((unit(1 << 20), unit(64 << 10), unit(3 << 10)), (512 << 10, 32 << 10, 4 << 10));
        assert_eq!(unit(15_509), 8 << 10);
        assert_eq!(unit(1 << 30), UNIT_MAX.0);
    }

    #[test]
    fn small_writes_are_mirrored_and_large_writes_have_parity() {
        let allowed = ["raid10", "raid5"].map(|level| level.parse::<Level>().unwrap());
        let chosen = |bytes: u64, reads: f64, unit: u64| {
            let stream = Stream { reads, ..Stream::open("a", 1.0, ByteCount(bytes)) };
            level(&stream, &allowed, 6, BlockCount(unit)).unwrap().to_string()
        };
        assert_eq!(chosen(4096, 0.3, 8), "raid10");
        // Five units are a full stripe: six writes for five units, where mirrors take ten.
        assert_eq!(chosen(5 * (64 << 10), 0.3, 128), "raid5");
        assert_eq!(chosen(4096, 1.0, 8), "raid5");
    }

    #[test]
    fn the_greedy_partition_balances_to_one_percent() {
        let mut random = seeded(1, "partition");
        let loads: Vec<f64> = (1..=48).map(|index| 1.0 + f64::from(index % 17) * 3.7).collect();
        let (of, imbalance) = greedy_partition(&loads, 4, 0.01, 10_000, &mut random);
        assert!(imbalance < 0.01, "{imbalance}");
        let sum = |partition| -> f64 {
            loads.iter().zip(&of).filter(|(_, of)| **of == partition).map(|(load, _)| load).sum()
        };
        let sums = [0, 1, 2, 3].map(sum);
        let (low, high) = (
            sums.iter().copied().fold(f64::MAX, f64::min),
            sums.iter().copied().fold(0.0, f64::max),
        );
        assert!((high - low) / (sums.iter().sum::<f64>() / 4.0) < 0.01);
    }
}
