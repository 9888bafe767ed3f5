//! How long the next track of a disk is expected to be: as those of its zone, and as lengths repeat that end cylinders.

use std::collections::VecDeque;

/// What the next tracks are expected to have.
#[derive(Default)]
pub(super) struct Expected {
    /// The blocks of the tracks so far.
    pub(super) lengths: Vec<u64>,
    /// The length that tracks have which are not special, and the first track of those.
    pub(super) regular: u64,
    since: usize,
    /// Tracks that were not as expected, the last ones.
    special: VecDeque<usize>,
    /// After so many tracks lengths repeat.
    period: Option<usize>,
}

impl Expected {
    /// The length of the track that follows those so far and `ahead`.
    pub(super) fn length(&self, ahead: &[u64]) -> u64 {
        let at = self.lengths.len() + ahead.len();
        let length = |index: usize| {
            self.lengths.get(index).or_else(|| ahead.get(index - self.lengths.len())).copied()
        };
        let before = self.period.and_then(|period| {
            let (one, other) = (at.checked_sub(period)?, at.checked_sub(2 * period)?);
            if other < self.since {
                return None;
            }
            length(one).filter(|one| length(other) == Some(*one))
        });
        before.unwrap_or(self.regular)
    }

    /// Adds the next track; tells whether it is of another zone.
    pub(super) fn push(&mut self, length: u64) -> bool {
        let at = self.lengths.len();
        let before = self.regular;
        if length != self.length(&[]) {
            if length == self.regular {
                self.period = None;
            }
            if self.lengths.last() == Some(&length) && length != self.regular {
                (self.regular, self.since) = (length, at - 1);
                (self.period, self.special) = (None, VecDeque::new());
            }
            self.special.push_back(at);
            if self.special.len() > 3 {
                self.special.pop_front();
            }
            if let &[one, two, three] = &*self.special.make_contiguous()
                && two - one == three - two
                && two - one > 1
            {
                self.period = Some(two - one);
            }
        }
        if self.regular == 0 {
            self.regular = length;
        }
        self.lengths.push(length);
        self.regular != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_repeat_are_expected() {
        let mut expected = Expected::default();
        let mut missed = 0;
        // Spares at the end of each cylinder of four tracks, and a slipped sector in one of them.
        for track in 0..64 {
            let length = match track {
                30 => 99,
                _ if track % 4 == 3 => 96,
                _ => 100,
            };
            missed += usize::from(expected.length(&[]) != length);
            expected.push(length);
        }
        assert!(missed <= 7, "{missed}");
        assert_eq!(expected.length(&[]), 100);
        assert_eq!(expected.length(&[100, 100, 100]), 96);
    }
}
