//! `cargo xtask tidy`: the rules of the house that the compiler does not know.
//!
//! Each check is a function from the tree, read once, to the violations it finds in it. None of them
//! parses Rust: they look at the code with its comments and literals blanked out, which is enough to
//! keep honest people honest and builds in seconds.

mod dependency_edges;
mod file_heads;
mod file_lengths;
mod forbidden;
mod format_pages;
mod hidden_inputs;
mod import_circles;
mod lint_exceptions;
mod rust_text;
mod tree;
mod unordered_maps;
mod unsafe_code;

use std::fmt;
use std::path::Path;

use crate::error::Error;
use tree::Tree;

const CHECKS: &[fn(&Tree) -> Vec<Violation>] = &[
    dependency_edges::check,
    file_heads::check,
    file_lengths::check,
    format_pages::check,
    hidden_inputs::check,
    import_circles::check,
    lint_exceptions::check,
    unordered_maps::check,
    unsafe_code::check,
];

/// A place where the tree breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    /// Relative to the workspace root, with forward slashes.
    path: String,
    /// Counted from 1, as editors do.
    line_number: usize,
    /// What is wrong; what to do.
    message: String,
}

impl Violation {
    fn new(path: &str, line_number: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line_number, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line_number, self.message)
    }
}

/// Prints every violation in the tree at `root`; any at all is an error.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let violations = violations(&Tree::load(root)?);
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Error::Untidy { violation_count: violations.len() })
    }
}

fn violations(tree: &Tree) -> Vec<Violation> {
    let mut violations: Vec<_> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    violations.sort();
    violations
}

/// What `check` says about a tree of these (path, text) files, one printed line per violation.
#[cfg(test)]
fn report(check: fn(&Tree) -> Vec<Violation>, files: &[(&str, &str)]) -> Vec<String> {
    let tree = Tree::of(files);
    check(&tree).iter().map(Violation::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_come_from_every_check_in_order_of_place() {
        let found = report(
            violations,
            &[
                ("ARCHITECTURE.md", "## Crates\n\n| crate | |\n|---|---|\n| `b` | - |\n"),
                ("crates/b/Cargo.toml", "[package]\nname = \"moirai-b\"\n"),
                (
                    "crates/b/src/lib.rs",
                    "use std::time::SystemTime;\n#[allow(dead_code)]\nfn f() {}\n",
                ),
            ],
        );
        let places: Vec<_> = found.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(
            places,
            ["crates/b/src/lib.rs:1:", "crates/b/src/lib.rs:1:", "crates/b/src/lib.rs:2:"],
            "{found:#?}"
        );
    }
}
