//! Check: time, threads and randomness come from `runtime` alone.
//!
//! The same code runs in real and in virtual time, and a failing run is replayed by its seed. Both
//! hold only while nothing asks the operating system behind the runtime's back.

use super::tree::Tree;
use super::{Violation, forbidden};

const PHRASES: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "thread::spawn",
    "thread::sleep",
    "thread_rng",
    "rand::rng(",
    "from_os_rng",
    "from_entropy",
    "tokio::spawn",
    "spawn_blocking",
    "tokio::time",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        // Tools outside crates/ measure elapsed time and never run under virtual time.
        .filter(|file| file.crate_folder().is_some_and(|folder| folder != "runtime"))
        .flat_map(|file| {
            forbidden::find(
                file,
                PHRASES,
                "cannot be replayed; use moirai-runtime's clock, tasks and seeded randomness",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn every_phrase_fires() {
        for phrase in PHRASES {
            let text = format!("//! A.\nlet a = std::{phrase};\n");
            let found = report(check, &[("crates/store/src/a.rs", &text)]);
            assert_eq!(found.len(), 1, "{phrase}");
            assert!(found[0].starts_with("crates/store/src/a.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn runtime_and_tools_are_free() {
        let text = "let start = Instant::now();\n";
        let files = [("crates/runtime/src/clock.rs", text), ("xtask/src/test.rs", text)];
        assert!(report(check, &files).is_empty());
    }

    #[test]
    fn comments_literals_and_longer_names_pass() {
        let text = "// Instant::now is forbidden\n/// as is SystemTime\nlet a = \"thread_rng\"; tokio::timeout();\n";
        assert!(report(check, &[("crates/store/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn a_line_with_a_reason_passes_and_one_without_fires() {
        let text =
            "Instant::now(); // tidy: allow(times the peer)\nInstant::now(); // tidy: allow()\n";
        let found = report(check, &[("crates/lab/src/a.rs", text)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/lab/src/a.rs:2: "), "{found:?}");
    }
}
