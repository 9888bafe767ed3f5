//! Progress on standard error: nothing when that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use moirai::discovery::Progress;

/// A count of requests whose number is not known, with their rate.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let template = "{msg:16} {human_pos} requests  {per_sec}  {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// A clock for work whose length is not known. It shows nothing for the first second.
pub(crate) fn clock(what: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{late}") {
        let what = what.to_owned();
        bar.set_style(style.with_key(
            "late",
            move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                if state.elapsed() >= TICK {
                    let _ = write!(out, "{what} {} s", state.elapsed().as_secs());
                }
            },
        ));
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// How often a clock moves: work that is done before has none.
const TICK: Duration = Duration::from_secs(1);

/// Steps of a bar over shares of a whole.
const SHARE_STEPS: f64 = 1000.0;

/// A bar over shares of a whole, from 0 to 1.
pub(crate) fn shares() -> ProgressBar {
    bar("", Some(SHARE_STEPS as u64))
}

/// Shows on a bar of [`shares`] what is done now, and the share of the whole that is done.
pub(crate) fn show(bar: &ProgressBar, what: &str, share: f64) {
    if bar.message() != what {
        bar.set_message(what.to_owned());
    }
    bar.set_position((share * SHARE_STEPS) as u64);
}

/// Shows on such a bar how far a search over the blocks of a device has come.
pub(crate) fn show_search(bar: &ProgressBar, what: &str, at: Progress) {
    show(bar, what, at.done.0 as f64 / at.capacity.0.max(1) as f64);
}

/// A bar over a known number of steps, or a count when it is not known.
pub(crate) fn bar(what: &str, steps: Option<u64>) -> ProgressBar {
    let bar = match steps {
        Some(steps) => ProgressBar::new(steps),
        None => ProgressBar::no_length(),
    };
    let template = match steps {
        Some(_) => "{msg:32} [{bar:30}] {percent:>3} %  {eta} left",
        None => "{msg:32} {human_pos} rows  {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what.to_owned());
    bar
}
