//! Parity: P, the sum of a stripe's data units, and Q, their sum with weights, in the field of 256
//! elements. From any data units and parities that are left, two missing units are worked out.
//!
//! The weight of the unit at position i is g to the i, with g = 2 and the polynomial
//! x^8 + x^4 + x^3 + x^2 + 1: H. P. Anvin, "The mathematics of RAID-6".

/// Powers of the generator, twice over, so that two logarithms can be added.
const POWERS: [u8; 510] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

#[expect(clippy::indexing_slicing, reason = "constants: a wrong index does not compile")]
const fn powers() -> [u8; 510] {
    let mut powers = [0; 510];
    let mut value: u16 = 1;
    let mut index = 0;
    while index < 255 {
        powers[index] = value as u8;
        powers[index + 255] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= 0x11d;
        }
        index += 1;
    }
    powers
}

#[expect(clippy::indexing_slicing, reason = "constants: a wrong index does not compile")]
const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut index = 0;
    while index < 255 {
        logarithms[POWERS[index] as usize] = index as u8;
        index += 1;
    }
    logarithms
}

fn power(index: usize) -> u8 {
    POWERS.get(index % 255).copied().unwrap_or(1)
}

fn logarithm(value: u8) -> usize {
    usize::from(LOGARITHMS.get(usize::from(value)).copied().unwrap_or(0))
}

fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + logarithm(b)) }
}

/// Of a value that is not zero.
fn inverse(value: u8) -> u8 {
    power(255 - logarithm(value))
}

/// The products of one factor with all values.
fn products(factor: u8) -> [u8; 256] {
    let mut products = [0; 256];
    for (value, product) in (0..=255).zip(&mut products) {
        *product = multiply(factor, value);
    }
    products
}

/// Adds `unit` to the sum P, which is as long.
pub(crate) fn add_to_p(p: &mut [u8], unit: &[u8]) {
    for (sum, byte) in p.iter_mut().zip(unit) {
        *sum ^= byte;
    }
}

/// Adds the unit at `position`, with its weight, to the sum Q, which is as long.
pub(crate) fn add_to_q(q: &mut [u8], position: usize, unit: &[u8]) {
    let products = products(power(position));
    for (sum, byte) in q.iter_mut().zip(unit) {
        *sum ^= products.get(usize::from(*byte)).copied().unwrap_or(0);
    }
}

/// From Q with all units but the one at `position` taken off, makes that unit.
pub(crate) fn solve_one(q: &mut [u8], position: usize) {
    let products = products(inverse(power(position)));
    for byte in q {
        *byte = products.get(usize::from(*byte)).copied().unwrap_or(0);
    }
}

/// From P and Q with all units but those at the positions `x` and `y` taken off, makes these two: `q`
/// becomes the unit at `x`, and `p` the one at `y`.
pub(crate) fn solve_two(p: &mut [u8], q: &mut [u8], x: usize, y: usize) {
    let of_y = products(power(y));
    let quotients = products(inverse(power(x) ^ power(y)));
    for (p, q) in p.iter_mut().zip(q) {
        let sum = *q ^ of_y.get(usize::from(*p)).copied().unwrap_or(0);
        *q = quotients.get(usize::from(sum)).copied().unwrap_or(0);
        *p ^= *q;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_field_is_a_field() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1);
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply(b, a));
                // Multiplication by shifts and the polynomial, as it is defined.
                let (mut product, mut shifted, mut bits) = (0u8, a, b);
                while bits != 0 {
                    product ^= if bits & 1 == 1 { shifted } else { 0 };
                    shifted = (shifted << 1) ^ if shifted & 0x80 == 0 { 0 } else { 0x1d };
                    bits >>= 1;
                }
                assert_eq!(multiply(a, b), product);
            }
        }
    }

    proptest! {
        #[test]
        fn any_two_units_are_worked_out(
            units in prop::collection::vec(prop::collection::vec(any::<u8>(), 16), 2..12),
            x in 0usize..12,
            y in 0usize..12,
        ) {
            let (x, y) = (x % units.len(), y % units.len());
            let sums = |left_out: &[usize]| {
                let (mut p, mut q) = (vec![0; 16], vec![0; 16]);
                for (position, unit) in units.iter().enumerate() {
                    if !left_out.contains(&position) {
                        add_to_p(&mut p, unit);
                        add_to_q(&mut q, position, unit);
                    }
                }
                (p, q)
            };
            let (p, q) = sums(&[]);
            let (known_p, known_q) = sums(&[x, y]);
            let (mut rest_p, mut rest_q) = (p.clone(), q.clone());
            add_to_p(&mut rest_p, &known_p);
            add_to_p(&mut rest_q, &known_q);
            if x == y {
                prop_assert_eq!(&rest_p, &units[x]);
                solve_one(&mut rest_q, x);
                prop_assert_eq!(&rest_q, &units[x]);
            } else {
                solve_two(&mut rest_p, &mut rest_q, x, y);
                prop_assert_eq!((&rest_q, &rest_p), (&units[x], &units[y]));
            }
        }
    }
}
