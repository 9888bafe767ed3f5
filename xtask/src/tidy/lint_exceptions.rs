//! Check: an exception from a lint is `#[expect(..., reason = "...")]`, never `#[allow(...)]`.
//!
//! An `expect` that is no longer needed is a warning, so exceptions do not outlive their cause.

use super::Violation;
use super::rust_text::{find_outside_brackets, line_number_at, occurrences};
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for attribute in attributes(file) {
        let mut complain =
            |message| violations.push(Violation::new(&file.path, attribute.line_number, message));
        if attribute.applies("allow") {
            complain("`allow` outlives its cause; use `#[expect(LINT, reason = \"...\")]`");
        }
        if attribute.applies("expect") && !attribute.has_reason() {
            complain("`expect` without a reason; add `reason = \"...\"` after the lint");
        }
    }
    violations
}

/// What stands between `#[` or `#![` and the bracket that closes it, on however many lines.
struct Attribute<'a> {
    line_number: usize,
    text: &'a str,
    code: &'a str,
}

fn attributes(file: &File) -> impl Iterator<Item = Attribute<'_>> {
    file.code.match_indices('#').filter_map(|(offset, _)| {
        let after_hash = file.code.get(offset + 1..)?;
        let after_bang = after_hash.strip_prefix('!').unwrap_or(after_hash);
        let body = after_bang.strip_prefix('[')?;
        let start = file.code.len() - body.len();
        let end = start + find_outside_brackets(body, &[']'])?;
        Some(Attribute {
            line_number: line_number_at(&file.code, offset),
            text: file.text.get(start..end)?,
            code: file.code.get(start..end)?,
        })
    })
}

impl Attribute<'_> {
    /// Whether this is `level(...)`, or a `cfg_attr` that may become it.
    fn applies(&self, level: &str) -> bool {
        let name = self.code.trim_start();
        let is_conditional = name.starts_with("cfg_attr");
        occurrences(name, &format!("{level}(")).any(|offset| offset == 0 || is_conditional)
    }

    fn has_reason(&self) -> bool {
        occurrences(self.code, "reason").any(|offset| {
            let after_name = self.text.get(offset + "reason".len()..).unwrap_or_default();
            let value = after_name.trim_start().strip_prefix('=').unwrap_or_default();
            let literal = value.trim_start().trim_start_matches(['r', '#']);
            let reason = literal.strip_prefix('"').and_then(|rest| rest.split('"').next());
            reason.is_some_and(|reason| !reason.trim().is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    fn line_numbers(text: &str) -> Vec<String> {
        report(check, &[("crates/store/src/a.rs", text)])
            .iter()
            .filter_map(|line| line.split(':').nth(1).map(str::to_owned))
            .collect()
    }

    #[test]
    fn allow_fires() {
        assert_eq!(line_numbers("//! A.\n#[allow(dead_code)]\nfn f() {}\n"), ["2"]);
        assert_eq!(line_numbers("//! A.\n#![allow(\n    dead_code\n)]\n"), ["2"]);
        assert_eq!(line_numbers("#[cfg_attr(test, allow(dead_code))]\n"), ["1"]);
        assert_eq!(line_numbers("#[allow(dead_code, reason = \"later\")]\n"), ["1"]);
    }

    #[test]
    fn expect_without_a_reason_fires() {
        assert_eq!(line_numbers("\n#[expect(dead_code)]\n"), ["2"]);
        assert_eq!(line_numbers("#[expect(dead_code, reason = \"\")]\n"), ["1"]);
        assert_eq!(
            line_numbers("#[expect(\n    dead_code,\n)]\nconst A: &str = \"reason = 1\";\n"),
            ["1"]
        );
    }

    #[test]
    fn expect_with_a_reason_passes() {
        assert!(
            line_numbers("#[expect(dead_code, reason = \"the next step calls it\")]\n").is_empty()
        );
        assert!(
            line_numbers(
                "#[expect(\n    clippy::unwrap_used,\n    reason = \"checked [above]\"\n)]\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn other_uses_of_the_words_pass() {
        assert!(
            line_numbers("// #[allow(dead_code)]\nlet a = \"#[allow(dead_code)]\";\n").is_empty()
        );
        assert!(line_numbers("#[cfg(test)]\nx.expect(\"a\"); allow(1);\n").is_empty());
        assert!(line_numbers("#[derive(Debug)]\n#[arg(allow_hyphen_values = true)]\n").is_empty());
    }
}
