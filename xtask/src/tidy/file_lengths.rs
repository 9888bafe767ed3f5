//! Check: a Rust file is short enough to have one subject.

use super::Violation;
use super::tree::Tree;

const LINE_COUNT_MAX: usize = 900;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter_map(|file| {
            let line_count = file.text.lines().count();
            (line_count > LINE_COUNT_MAX).then(|| {
                Violation::new(
                    &file.path,
                    LINE_COUNT_MAX + 1,
                    format!("{line_count} lines, over the {LINE_COUNT_MAX} allowed; split the file by role"),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn the_limit_itself_passes() {
        let text = "//! A.\n".repeat(LINE_COUNT_MAX);
        assert!(report(check, &[("crates/store/src/a.rs", &text)]).is_empty());
    }

    #[test]
    fn one_line_more_fires() {
        let text = "//! A.\n".repeat(LINE_COUNT_MAX + 1);
        assert_eq!(
            report(check, &[("crates/store/src/a.rs", &text)]),
            ["crates/store/src/a.rs:901: 901 lines, over the 900 allowed; split the file by role"]
        );
    }
}
