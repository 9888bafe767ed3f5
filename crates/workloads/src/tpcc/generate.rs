//! Random values (clauses 2.1.6 and 4.3.2).

use moirai_runtime::Random;
use moirai_tables::Datum;
use rand::Rng;

use crate::tpcc::schema::Scale;

/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Last names that there are.
const NAMES: i64 = 1000;
/// The time of rows that are loaded: 2026-01-01, in microseconds since 1970.
pub(crate) const LOADED_US: i64 = 1_767_225_600_000_000;

/// The constants C of NURand (clause 2.1.6.1), which a run draws once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    of_names: i64,
    of_customers: i64,
    of_items: i64,
}

/// NURand(A, x, y), with A the power of two that the specification takes for as many values: a quarter to a half of them, and for items
/// a twelfth.
fn skewed(random: &mut Random, (a, c): (i64, i64), (from, to): (i64, i64)) -> i64 {
    let both = random.random_range(0..=a) | random.random_range(from..=to);
    (both + c) % (to - from + 1) + from
}

/// The largest number of ones that is below a count over `parts`.
fn ones_below(count: i64, parts: i64) -> i64 {
    let mut ones = 1;
    while 2 * ones < count / parts {
        ones = 2 * ones + 1;
    }
    ones
}

impl Skew {
    pub(crate) fn draw(random: &mut Random) -> Skew {
        Skew {
            of_names: random.random_range(0..256),
            of_customers: random.random_range(0..1024),
            of_items: random.random_range(0..8192),
        }
    }

    /// A customer of a district: NURand(1023, 1, 3000).
    pub(crate) fn customer(&self, random: &mut Random, scale: &Scale) -> i64 {
        let a = ones_below(scale.customers, 1);
        skewed(random, (a.min(1023), self.of_customers), (1, scale.customers))
    }

    /// An item: NURand(8191, 1, 100000).
    pub(crate) fn item(&self, random: &mut Random, scale: &Scale) -> i64 {
        let a = ones_below(scale.items, 12);
        skewed(random, (a.min(8191), self.of_items), (1, scale.items))
    }

    /// A last name that some customer has: NURand(255, 0, 999).
    pub(crate) fn name(&self, random: &mut Random, scale: &Scale) -> String {
        let names = NAMES.min(scale.customers);
        let a = ones_below(names, 2).min(255);
        last_name(skewed(random, (a, self.of_names), (0, names - 1)))
    }

    /// The last name of a customer that is loaded (clause 4.3.3.1).
    pub(crate) fn loaded_name(&self, random: &mut Random, customer: i64, scale: &Scale) -> String {
        match customer <= NAMES {
            true => last_name(customer - 1),
            false => self.name(random, scale),
        }
    }
}

fn last_name(number: i64) -> String {
    let syllable = |place: i64| SYLLABLES.get((number / place % 10) as usize).unwrap_or(&"");
    [100, 10, 1].map(syllable).into_iter().copied().collect()
}

/// Letters and digits.
pub(crate) fn letters(random: &mut Random, from: usize, to: usize) -> String {
    let count = random.random_range(from..=to);
    (0..count).map(|_| char::from(random.sample(rand::distr::Alphanumeric))).collect()
}

pub(crate) fn digits(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| char::from(random.random_range(b'0'..=b'9'))).collect()
}

/// Street, street, city, state and zip (clause 4.3.2.7).
pub(crate) fn address(random: &mut Random) -> [Datum; 5] {
    let zip = digits(random, 4) + "11111";
    [
        letters(random, 10, 20).into(),
        letters(random, 10, 20).into(),
        letters(random, 10, 20).into(),
        letters(random, 2, 2).to_uppercase().into(),
        zip.into(),
    ]
}

/// 26 to 50 letters, a tenth of them with "ORIGINAL" (clause 4.3.3.1).
pub(crate) fn data(random: &mut Random) -> String {
    let mut data = letters(random, 26, 50);
    if random.random_bool(0.1) {
        let at = random.random_range(0..=data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the specification's examples, and the constants of its scale.
    #[test]
    fn names_and_constants_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(
            (ones_below(3000, 1), ones_below(100_000, 12), ones_below(1000, 2)),
            (2047, 8191, 255)
        );
        let (mut random, scale) = (moirai_runtime::seeded(1, "tpcc"), Scale::of(1));
        let skew = Skew::draw(&mut random);
        let mut counts = vec![0_u32; 3001];
        for _ in 0..300_000 {
            counts[skew.customer(&mut random, &scale) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        // A customer whose number has k ones in its last ten bits has 3^k of 1,024 times 3,000 chances: some 100 are not drawn.
        let drawn = counts.iter().filter(|count| **count > 0).count();
        let most = counts.iter().max().copied().unwrap_or(0);
        assert!((2800..2990).contains(&drawn) && most > 1000, "{drawn} drawn, one {most} times");
    }
}
