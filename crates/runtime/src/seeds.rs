//! The seeds of a simulation: which of them run, on all cores, and how one that failed is run again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::block_on_virtual;

/// Runs a simulation in virtual time with each of `runs` seeds, from 0 on. The environment may say otherwise:
/// `MOIRAI_SEED` with which to begin, `MOIRAI_RUNS` how many. For tests.
///
/// # Panics
/// When the simulation does, after the command that runs the seed again.
pub fn each_seed(runs: u64, simulate: impl AsyncFn() + Sync) {
    let first = variable("MOIRAI_SEED").unwrap_or(0);
    let end = first + variable("MOIRAI_RUNS").unwrap_or(runs);
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || failed.load(Ordering::Relaxed) {
                return;
            }
            let _attempt = Attempt { seed, test: &test, failed: &failed };
            block_on_virtual(seed, simulate());
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A run of a seed. When it panics, it says how to run the seed again, and the others end.
struct Attempt<'a> {
    seed: u64,
    test: &'a str,
    failed: &'a AtomicBool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed.store(true, Ordering::Relaxed);
            eprintln!("again: {}", replay_command(self.seed, self.test));
        }
    }
}

/// Cargo tells a test its package, and names its program after it.
fn replay_command(seed: u64, test: &str) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_stem().map(|name| Path::new(name).to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let target = name.rsplit_once('-').map_or(name.as_str(), |(target, _hash)| target);
    format!(
        "MOIRAI_SEED={seed} MOIRAI_RUNS=1 cargo test --release -p {package} --test {target} {test}"
    )
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use rand::RngCore;

    use super::*;
    use crate::random;

    #[test]
    fn each_seed_runs_once() {
        let drawn = |run: &dyn Fn(&Mutex<Vec<u64>>)| {
            let all = Mutex::new(Vec::new());
            run(&all);
            let mut all = all.into_inner();
            all.sort_unstable();
            all
        };
        let one_by_one = drawn(&|all| {
            for seed in 0..20 {
                block_on_virtual(seed, async { all.lock().push(random("draw").next_u64()) });
            }
        });
        let on_all_cores =
            drawn(&|all| each_seed(20, async || all.lock().push(random("draw").next_u64())));
        assert_eq!(on_all_cores, one_by_one);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_run_that_fails_ends_all() {
        let runs = AtomicU64::new(0);
        each_seed(1 << 40, async || assert!(runs.fetch_add(1, Ordering::Relaxed) < 3));
    }

    #[test]
    fn what_runs_a_seed_again_names_the_test() {
        let command = replay_command(7, "nothing_is_lost");
        assert!(command.starts_with("MOIRAI_SEED=7 MOIRAI_RUNS=1 cargo test"), "{command}");
        assert!(command.contains("-p moirai-runtime") && command.ends_with(" nothing_is_lost"));
    }
}
