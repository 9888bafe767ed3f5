//! Mutations that libFuzzer lacks: of the numbers in a text, and of its lines.

use std::ops::Range;

use libfuzzer_sys::fuzzer_mutate;

/// Ends of types and of what the parsers allow (292 years in s, ms and us; the blocks of a trace), and
/// what is no number.
const NUMBERS: [&str; 34] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "0.0",
    "-0.5",
    "0.000001",
    "1.5",
    "1e9",
    "1e300",
    "255",
    "256",
    "512",
    "1000",
    "10000",
    "65535",
    "65536",
    "100000",
    "1000000",
    "10000000",
    "1000000000",
    "9223372036.854775807",
    "9223372036854.775807",
    "9223372036854775",
    "36028797018963967",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "inf",
    "-inf",
    "nan",
];

/// Changes `data`, of which `size` bytes are in use, and gives how many are then. Most changes keep
/// the text well-formed, so that it gets past the syntax; libFuzzer's own rarely do.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut text = data.get(..size).unwrap_or_default().to_vec();
    let mut random = Random((u64::from(seed) << 1) | 1);
    let is_changed = match random.below(8) {
        0..=4 => replace_numbers(&mut text, &mut random),
        5 => change_lines(&mut text, &mut random),
        _ => false,
    };
    let changed = data.get_mut(..text.len()).filter(|_| text.len() <= max_size);
    let Some(changed) = changed.filter(|_| is_changed) else {
        return fuzzer_mutate(data, size, max_size);
    };
    changed.copy_from_slice(&text);
    text.len()
}

/// Leaves a line out, or repeats it elsewhere; false where there is but one.
fn change_lines(text: &mut Vec<u8>, random: &mut Random) -> bool {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() < 2 {
        return false;
    }
    let index = random.below(lines.len());
    if random.below(2) == 0 {
        lines.remove(index);
    } else if let Some(line) = lines.get(index).copied() {
        lines.insert(random.below(lines.len() + 1), line);
    }
    *text = lines.concat();
    true
}

/// Replaces up to three numbers; false where there is none.
fn replace_numbers(text: &mut Vec<u8>, random: &mut Random) -> bool {
    let mut is_changed = false;
    for _ in 0..=random.below(3) {
        let numbers = numbers(text);
        let Some(place) = random.of(&numbers).cloned() else { break };
        let number = match random.below(4) {
            0 => random.of(&numbers).and_then(|other| text.get(other.clone())).map(<[u8]>::to_vec),
            1 => beside(text.get(place.clone()).unwrap_or_default(), random),
            2 => Some((random.next() >> random.below(64)).to_string().into_bytes()),
            _ => random.of(&NUMBERS).map(|number| number.as_bytes().to_vec()),
        };
        text.splice(place, number.unwrap_or_default());
        is_changed = true;
    }
    is_changed
}

/// A whole number a little above or below.
fn beside(number: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let number: u64 = str::from_utf8(number).ok()?.parse().ok()?;
    let moved = number.wrapping_add(random.below(17) as u64).wrapping_sub(8);
    Some(moved.to_string().into_bytes())
}

/// Where the numbers are: digits, with a sign before and points within.
fn numbers(text: &[u8]) -> Vec<Range<usize>> {
    let mut numbers: Vec<Range<usize>> = Vec::new();
    for (index, byte) in text.iter().enumerate() {
        let last = numbers.last_mut().filter(|last| last.end == index);
        match (byte, last) {
            (b'0'..=b'9' | b'.', Some(last)) => last.end += 1,
            (b'0'..=b'9', _) => numbers.push(index..index + 1),
            (b'-', _) if text.get(index + 1).is_some_and(u8::is_ascii_digit) => {
                numbers.push(index..index + 1);
            }
            _ => {}
        }
    }
    numbers
}

/// Xorshift (Marsaglia 2003), from libFuzzer's seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        // The high bits are the better ones.
        ((self.next() >> 32) as usize) % end.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}
