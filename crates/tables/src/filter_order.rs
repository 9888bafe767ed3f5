//! In which order a scan reads the columns of its filter and the others: SI-scan and S-scan of Clotho 6.1.

use moirai_units::Nanos;

/// The order is looked at again after so many pages.
pub(crate) const PAGES_OF_DECISION: u64 = 16;
/// The filter's columns come first where less than 1 in 8 pages has rows to keep, and all together where more than 1 in 2 has. Between
/// these the order stays.
const FIRST_BELOW: u64 = 8;
const TOGETHER_ABOVE: u64 = 2;
/// Behind a trial the next one comes after so many times the pages.
const NEXT_TRIAL: u64 = 8;
/// How many pages have rows is looked at after so many times the pages. All columns together stay the better order where not so much fewer
/// have some.
const NEXT_LOOK: u64 = 2;
const FEWER: u64 = 2;
/// So many pages with rows, which it read by themselves, tell what such a page takes.
const SINGLE_MIN: u64 = 16;

/// In which order a scan reads the columns of its filter and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterOrder {
    /// By how many pages have rows that are kept, and where single pages are most of what the scan waits for, by trial.
    #[default]
    Chosen,
    /// Together: S-scan.
    Together,
    /// Those of the filter first: SI-scan.
    First,
    /// As chosen, and rows that the filter does not keep come, too, where it keeps some of many pages. For filters of columns that are
    /// asked for; with others it is [`FilterOrder::Chosen`].
    Hint,
}

/// What a scan found and waited for, and which order follows from it.
///
/// How long a disk or a flash device takes for a page by itself, beside the pages that it passes anyway, differs a hundredfold, and with
/// what is in memory. So the scan tries: where it waits longer for single pages than for the filter's columns, it reads some pages with
/// all columns, and stays with what took less time for a page. After eight times the pages it may try again; all columns are left before
/// where fewer pages have rows by then.
#[derive(Debug, Default)]
pub(crate) struct OrderChooser {
    /// Since the last decision.
    found: Found,
    /// Since the last trial began or ended: pages, what the scan waited for, and of that for single pages.
    tried: Found,
    waited: Nanos,
    waited_for_single: Nanos,
    /// Of views.
    bytes: u64,
    /// Pages in all, and how many there must be before the next trial, or look.
    pages: u64,
    next_trial: u64,
    together: Together,
}

/// Pages, and those of them that had rows to keep.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    pages: u64,
    with_rows: u64,
}

impl Found {
    fn and(self, other: Found) -> Found {
        let (pages, with_rows) = (self.pages + other.pages, self.with_rows + other.with_rows);
        Found { pages, with_rows }
    }

    /// Whether the share with rows is much smaller than in `other`.
    fn are_fewer(self, other: Found) -> bool {
        self.with_rows * FEWER * other.pages < other.with_rows * self.pages
    }
}

/// Why a scan reads all columns together.
#[derive(Debug, Default)]
enum Together {
    /// Many pages have rows, or it does not.
    #[default]
    Many,
    /// To see whether it takes less: with the filter's columns first a page took so long, where as many as `of` had rows. The first views do
    /// not count, which it waits for together.
    Begins {
        first_ns: u64,
        of: Found,
    },
    Trial {
        first_ns: u64,
        of: Found,
    },
    /// It took less where as many as `of` had rows.
    Faster {
        of: Found,
    },
}

/// How a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Stay,
    /// With the filter's columns first.
    First,
    /// With all columns.
    Together,
    /// The same, as most pages have rows to keep.
    Most,
}

impl OrderChooser {
    /// A page was looked at.
    pub(crate) fn page(&mut self, has_rows: bool) {
        self.found = self.found.and(Found { pages: 1, with_rows: u64::from(has_rows) });
    }

    /// The scan waited for a view of so many bytes.
    pub(crate) fn waited(&mut self, time: Nanos, bytes: u64) {
        self.waited += time;
        self.bytes += bytes;
    }

    /// The scan waited for single pages.
    pub(crate) fn waited_for_single(&mut self, time: Nanos) {
        self.waited += time;
        self.waited_for_single += time;
    }

    /// How to go on at the end of a view, where so many bytes are read ahead.
    pub(crate) fn decide(&mut self, are_whole: bool, ahead_bytes: u64) -> Decision {
        let found = self.found;
        if found.pages < PAGES_OF_DECISION {
            return Decision::Stay;
        }
        let have_most = found.with_rows * TOGETHER_ABOVE > found.pages;
        let have_few = found.with_rows * FIRST_BELOW < found.pages;
        let tried = self.tried.and(found);
        (self.found, self.tried) = (Found::default(), tried);
        self.pages += found.pages;
        let is_due = self.pages >= self.next_trial;
        if have_most {
            if !matches!(self.together, Together::Faster { .. }) {
                self.together = Together::Many;
            }
            self.forget();
            return Decision::Most;
        }
        let page_ns = self.waited.0 / tried.pages;
        let are_single = self.waited_for_single.0 * 2 > self.waited.0;
        match &mut self.together {
            _ if !are_whole => {
                if !(is_due && are_single && tried.with_rows >= SINGLE_MIN) {
                    return Decision::Stay;
                }
                self.next_trial = self.pages * NEXT_TRIAL;
                self.together = Together::Begins { first_ns: page_ns, of: tried };
                self.forget();
                return Decision::Together;
            }
            // Views that are in flight together come together: only after as many bytes their pace shows.
            Together::Begins { .. } | Together::Trial { .. } if self.bytes < ahead_bytes => {}
            Together::Begins { first_ns, of } => {
                self.together = Together::Trial { first_ns: *first_ns, of: *of };
                self.forget();
            }
            Together::Trial { first_ns, of } if page_ns < *first_ns => {
                self.together = Together::Faster { of: *of };
                self.forget();
            }
            Together::Faster { of } if is_due => {
                if tried.are_fewer(*of) {
                    return self.first();
                }
                self.next_trial = self.pages * NEXT_LOOK;
                self.forget();
            }
            Together::Many if have_few => return self.first(),
            Together::Trial { .. } => return self.first(),
            Together::Faster { .. } | Together::Many => {}
        }
        Decision::Stay
    }

    fn first(&mut self) -> Decision {
        self.together = Together::Many;
        self.forget();
        Decision::First
    }

    /// What comes is looked at by itself.
    fn forget(&mut self) {
        (self.tried, self.bytes) = (Found::default(), 0);
        (self.waited, self.waited_for_single) = (Nanos::ZERO, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 20_000;
    /// A page with all columns. It takes a tenth of that with the filter's.
    const WHOLE_NS: u64 = 1_000;

    /// A scan in views of 16 pages, of which some have rows to keep; one by itself takes `single_ns`. Gives the time beside that of each
    /// order alone.
    fn scan(single_ns: u64, have_rows: impl Fn(u64) -> bool) -> [u64; 3] {
        let whole_ns = WHOLE_NS;
        let mut chooser = OrderChooser::default();
        let (mut are_whole, mut took) = (false, 0);
        let first_ns = |has_rows: bool| whole_ns / 10 + u64::from(has_rows) * single_ns;
        let mut alone = [0, PAGES * whole_ns];
        for page in 0..PAGES {
            let has_rows = have_rows(page);
            alone[0] += first_ns(has_rows);
            chooser.page(has_rows);
            if are_whole {
                chooser.waited(Nanos(whole_ns), 10);
                took += whole_ns;
            } else {
                chooser.waited(Nanos(whole_ns / 10), 1);
                chooser.waited_for_single(Nanos(u64::from(has_rows) * single_ns));
                took += first_ns(has_rows);
            }
            if page % 16 == 15 {
                match chooser.decide(are_whole, 200) {
                    Decision::Stay => {}
                    Decision::First => are_whole = false,
                    Decision::Together | Decision::Most => are_whole = true,
                }
            }
        }
        [took, alone[0], alone[1]]
    }

    #[test]
    fn the_better_order_is_found_whatever_single_pages_cost() {
        for one_in in [3, 10, 100, 1000] {
            for single_ns in [0, 500, 5_000, 50_000] {
                let [took, first, together] = scan(single_ns, |page| page % one_in == 0);
                let better = first.min(together) as f64;
                assert!(
                    took as f64 <= 1.1 * better,
                    "1 in {one_in}, {single_ns} ns: {took} ns, {first} and {together}"
                );
            }
        }
    }

    /// A third of the pages has rows, and from the tenth part on none.
    #[test]
    fn the_order_follows_what_is_found() {
        let [took, _, together] = scan(50_000, |page| page % 3 == 0 && page < PAGES / 10);
        assert!(took < together * 3 / 10, "{took} ns, {together}");
    }

    /// A tenth of the pages has rows, and now and then all have for a while.
    #[test]
    fn a_dense_stretch_is_no_reason_to_try_again() {
        let [took, _, together] = scan(50_000, |page| page % 10 == 0 || page % 640 < 64);
        assert!(took * 10 <= together * 12, "{took} ns, {together}");
    }

    /// Nothing is tried where waiting for single pages is a small part of the time.
    #[test]
    fn cheap_pages_are_read_by_themselves() {
        let [took, first, _] = scan(600, |page| page % 10 == 0);
        assert_eq!(took, first);
    }
}
