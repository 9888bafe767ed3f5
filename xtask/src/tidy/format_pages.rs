//! Check: the pages in docs/formats and the constants in the code say the same.
//!
//! A page names the constants it documents in lines that do not show when it is rendered:
//!
//! ```text
//! <!-- const: crates/store/src/superblock.rs SUPERBLOCK_MAGIC = b"MOIRAISB" -->
//! ```
//!
//! Each must be in that file with that value; and each `*_MAGIC` and `*_VERSION` of the crates must be
//! named on a page, so that a format cannot change behind its page's back.

use std::collections::BTreeSet;

use super::Violation;
use super::rust_text::{find_outside_brackets, is_word_char, line_number_at, occurrences};
use super::tree::{File, Tree};

const LINE_START: &str = "<!-- const:";
const LINE_END: &str = "-->";
const LINE_FORM: &str = "<!-- const: PATH NAME = VALUE -->";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut documented = BTreeSet::new();
    for page in tree.format_pages() {
        let mut const_line_count = 0;
        for (index, line) in page.text.lines().enumerate() {
            let Some(body) = line.trim().strip_prefix(LINE_START) else {
                continue;
            };
            const_line_count += 1;
            let verdict = match Claim::parse(body) {
                Some(claim) => {
                    documented.insert((claim.path, claim.name));
                    claim.verify(tree)
                }
                None => Err(format!("not of the form `{LINE_FORM}`; write it so")),
            };
            if let Err(message) = verdict {
                violations.push(Violation::new(&page.path, index + 1, message));
            }
        }
        if const_line_count == 0 {
            violations.push(Violation::new(
                &page.path,
                1,
                format!("names no constant of the format; add lines `{LINE_FORM}`"),
            ));
        }
    }
    violations.extend(undocumented(tree, &documented));
    violations
}

/// The constants that mark a format but are on no page.
fn undocumented(tree: &Tree, documented: &BTreeSet<(&str, &str)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files().filter(|file| is_crate_source(file)) {
        for constant in constants(file) {
            let name = constant.name;
            let marks_format = name.ends_with("_MAGIC") || name.ends_with("_VERSION");
            if marks_format && !documented.contains(&(file.path.as_str(), name)) {
                violations.push(Violation::new(
                    &file.path,
                    constant.line_number,
                    format!(
                        "`{name}` is on no page in docs/formats; add the line \
                         `{LINE_START} {} {name} = {} {LINE_END}` to the page of its format",
                        file.path, constant.value
                    ),
                ));
            }
        }
    }
    violations
}

fn is_crate_source(file: &File) -> bool {
    let below = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    below.is_some_and(|(_, path)| path.starts_with("src/"))
}

/// What one line of a page says about a constant.
struct Claim<'a> {
    path: &'a str,
    name: &'a str,
    value: String,
}

impl<'a> Claim<'a> {
    /// Parses what follows `<!-- const:`.
    fn parse(body: &'a str) -> Option<Self> {
        let body = body.strip_suffix(LINE_END)?.trim();
        let (path, assignment) = body.split_once(' ')?;
        let (name, value) = assignment.split_once('=')?;
        let (name, value) = (name.trim(), normalise(value));
        let is_complete = !name.is_empty() && name.chars().all(is_word_char) && !value.is_empty();
        is_complete.then_some(Self { path, name, value })
    }

    fn verify(&self, tree: &Tree) -> Result<(), String> {
        let Self { path, name, value } = self;
        let file =
            tree.file(path).ok_or_else(|| format!("{path} does not exist; correct the path"))?;
        let constant =
            constants(file).find(|constant| constant.name == *name).ok_or_else(|| {
                format!("{path} has no constant `{name}`; correct the name or the path")
            })?;
        if constant.value == *value {
            return Ok(());
        }
        Err(format!(
            "`{name}` is `{value}` here and `{}` at {path}:{}; a new value is a new version of the \
             format: correct the one that is wrong",
            constant.value, constant.line_number
        ))
    }
}

/// A `const NAME: TYPE = VALUE;` as the source has it.
struct Constant<'a> {
    name: &'a str,
    value: String,
    line_number: usize,
}

fn constants(file: &File) -> impl Iterator<Item = Constant<'_>> {
    occurrences(&file.code, "const").filter_map(|offset| {
        let after_keyword = file.code.get(offset + "const".len()..)?.trim_start();
        let (name, _) = after_keyword.split_once(|char| !is_word_char(char))?;
        let declaration = after_keyword.strip_prefix(name)?.strip_prefix(':')?;
        let start = file.code.len() - declaration.len();
        // A semicolon first: declared in a trait, without a value.
        let equals = find_outside_brackets(declaration, &['=', ';'])?;
        let value = declaration.get(equals..)?.strip_prefix('=')?;
        let value_start = start + equals + 1;
        let value_end = value_start + find_outside_brackets(value, &[';'])?;
        Some(Constant {
            name,
            value: normalise(file.text.get(value_start..value_end)?),
            line_number: line_number_at(&file.code, offset),
        })
    })
}

/// Runs of white space as one space, so that a line break in the source does not matter.
fn normalise(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    const SOURCE: &str = "//! The superblock.\n\
        pub const SUPERBLOCK_MAGIC: [u8; 8] = *b\"MOIRAI;=\";\n\
        /// The second one.\n\
        const SUPERBLOCK_VERSION: u32 =\n    2;\n\
        const SLOT_COUNT: usize = 4;\n";

    const PAGE: &str = "# Superblock\n\
        <!-- const: crates/store/src/superblock.rs SUPERBLOCK_MAGIC = *b\"MOIRAI;=\" -->\n\
        <!-- const: crates/store/src/superblock.rs SUPERBLOCK_VERSION = 2 -->\n";

    /// What the check says of `page` beside the source above.
    fn check_page(page: &str) -> Vec<String> {
        report(
            check,
            &[("crates/store/src/superblock.rs", SOURCE), ("docs/formats/superblock.md", page)],
        )
    }

    #[test]
    fn a_page_that_agrees_passes() {
        assert_eq!(check_page(PAGE), [""; 0]);
    }

    #[test]
    fn the_readme_is_no_page() {
        assert!(report(check, &[("docs/formats/README.md", "# Formats\n")]).is_empty());
    }

    #[test]
    fn a_constant_of_any_name_may_be_on_a_page() {
        let line = "<!-- const: crates/store/src/superblock.rs SLOT_COUNT =  4 -->\n";
        assert_eq!(check_page(&format!("{PAGE}{line}")), [""; 0]);
    }

    #[test]
    fn a_value_that_differs_fires() {
        let found = check_page(&PAGE.replace("VERSION = 2", "VERSION = 1"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(
                "docs/formats/superblock.md:3: `SUPERBLOCK_VERSION` is `1` here and `2` at \
                 crates/store/src/superblock.rs:4;"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_wrong_path_name_or_form_fires() {
        for (line, message) in [
            ("<!-- const: crates/store/src/gone.rs A_SIZE = 1 -->", "gone.rs does not exist"),
            ("<!-- const: crates/store/src/superblock.rs A_SIZE = 1 -->", "no constant `A_SIZE`"),
            ("<!-- const: crates/store/src/superblock.rs SLOT_COUNT -->", "not of the form"),
            ("<!-- const: crates/store/src/superblock.rs SLOT_COUNT = 4", "not of the form"),
        ] {
            let found = check_page(&format!("{PAGE}{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with("docs/formats/superblock.md:4: "), "{found:?}");
            assert!(found[0].contains(message), "{found:?}");
        }
    }

    #[test]
    fn a_page_without_constants_and_constants_without_a_page_fire() {
        let found = check_page("# Superblock\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/formats/superblock.md:1: "), "{found:?}");
        assert!(found[1].starts_with("crates/store/src/superblock.rs:2: "), "{found:?}");
        assert!(
            found[2].contains(
                "`<!-- const: crates/store/src/superblock.rs SUPERBLOCK_VERSION = 2 -->`"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn constants_outside_the_sources_of_crates_need_no_page() {
        let files = [("crates/store/tests/a.rs", SOURCE), ("xtask/src/a.rs", SOURCE)];
        assert!(report(check, &files).is_empty());
    }

    #[test]
    fn declarations_without_a_value_and_functions_are_no_constants() {
        let text =
            "trait T { const PAGE_VERSION: u32; }\nconst fn of_VERSION(a: u32) -> u32 { a }\n";
        assert!(report(check, &[("crates/store/src/a.rs", text)]).is_empty());
    }
}
