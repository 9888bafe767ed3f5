//! Check: a Rust file opens by saying what it is for.

use super::Violation;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|file| {
            let first_line = file.text.lines().next().unwrap_or_default();
            let subject = first_line.strip_prefix("//!").unwrap_or_default();
            subject.trim().is_empty()
        })
        .map(|file| {
            Violation::new(
                &file.path,
                1,
                "the first line does not say what the file is for; begin it with `//!` and the subject",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn a_subject_on_the_first_line_passes() {
        let files = [("crates/store/src/lib.rs", "//! Tables.\n"), ("docs/formats/a.md", "# A\n")];
        assert!(report(check, &files).is_empty());
    }

    #[test]
    fn anything_else_fires() {
        for text in ["", "use std::fs;\n", "\n//! Late.\n", "// Tables.\n", "//!\n//! Tables.\n"] {
            let found = report(check, &[("xtask/src/main.rs", text)]);
            assert_eq!(found.len(), 1, "{text:?}");
            assert!(found[0].starts_with("xtask/src/main.rs:1: "), "{found:?}");
        }
    }
}
