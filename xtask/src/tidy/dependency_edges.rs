//! Check: the crates depend on each other exactly as the table in ARCHITECTURE.md says.
//!
//! The table is the first one under the heading `## Crates`. The first column of a row is the name of
//! the crate's folder, the last one the folders of the crates it depends on, or `-`:
//!
//! ```text
//! | `store` | tables on a volume | `storage`, `units` |
//! | `units` | addresses, times   | -                  |
//! ```
//!
//! Dev-dependencies are free: a test may look at everything.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::Violation;
use super::rust_text::line_number_at;
use super::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Crates";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let crates = crates(tree, &mut violations);
    let Some(rows) = rows(tree, &mut violations) else {
        return violations;
    };

    for (folder, used) in &crates {
        let Some(row) = rows.get(folder) else {
            violations.push(Violation::new(
                used.manifest_path,
                1,
                format!("the crate `{folder}` is not in the table of {PAGE}; add a row"),
            ));
            continue;
        };
        for (dependency, &line_number) in &used.dependencies {
            if !row.allowed.contains(dependency) {
                violations.push(Violation::new(
                    used.manifest_path,
                    line_number,
                    format!(
                        "`{folder}` may not depend on `{dependency}` ({PAGE}:{}); remove the \
                         dependency, or make the case for it in the table",
                        row.line_number
                    ),
                ));
            }
        }
    }
    for (&folder, row) in &rows {
        let Some(used) = crates.get(folder) else {
            violations.push(Violation::new(
                PAGE,
                row.line_number,
                format!("there is no crate in a folder `{folder}`; remove the row"),
            ));
            continue;
        };
        for dependency in &row.allowed {
            if !used.dependencies.contains_key(dependency) {
                violations.push(Violation::new(
                    PAGE,
                    row.line_number,
                    format!("`{folder}` does not depend on `{dependency}`; remove it from the row"),
                ));
            }
        }
    }
    violations
}

/// What a manifest says.
struct Used<'a> {
    manifest_path: &'a str,
    /// Folder of the crate depended on, and the line that says so.
    dependencies: BTreeMap<&'a str, usize>,
}

/// The crates of the workspace by folder.
fn crates<'a>(tree: &'a Tree, violations: &mut Vec<Violation>) -> BTreeMap<&'a str, Used<'a>> {
    let mut manifests = Vec::new();
    for (folder, file) in tree.manifests() {
        match Manifest::parse(file) {
            Ok(manifest) => manifests.push((folder, file, manifest)),
            Err(violation) => violations.push(violation),
        }
    }
    // Manifests speak of packages, the table of folders.
    let folder_by_package: BTreeMap<&str, &'a str> = manifests
        .iter()
        .map(|(folder, _, manifest)| (manifest.package.as_str(), *folder))
        .collect();
    manifests
        .iter()
        .map(|(folder, file, manifest)| {
            let dependencies = manifest
                .dependencies
                .iter()
                .filter_map(|(package, line)| {
                    Some((*folder_by_package.get(package.as_str())?, *line))
                })
                .collect();
            let used = Used { manifest_path: &file.path, dependencies };
            (*folder, used)
        })
        .collect()
}

/// What is of interest in a Cargo.toml: all its dependencies with their lines, internal or not.
struct Manifest {
    package: String,
    dependencies: Vec<(String, usize)>,
}

impl Manifest {
    fn parse(file: &File) -> Result<Self, Violation> {
        let document = DeTable::parse(&file.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line_number = line_number_at(&file.text, offset);
            Violation::new(&file.path, line_number, format!("{}; correct it", error.message()))
        })?;
        let document = document.get_ref();
        let package = table(document, "package")
            .and_then(|package| package.get("name")?.get_ref().as_str())
            .ok_or_else(|| Violation::new(&file.path, 1, "no package name; add one"))?;

        let mut manifest = Self { package: package.to_owned(), dependencies: Vec::new() };
        manifest.add_dependencies(document, &file.text);
        for target in table(document, "target").into_iter().flat_map(DeTable::values) {
            if let Some(sections) = target.get_ref().as_table() {
                manifest.add_dependencies(sections, &file.text);
            }
        }
        Ok(manifest)
    }

    fn add_dependencies(&mut self, sections: &DeTable<'_>, text: &str) {
        for section in ["dependencies", "build-dependencies"] {
            for (key, value) in table(sections, section).into_iter().flatten() {
                let package = renamed_package(value.get_ref()).unwrap_or(key.get_ref().as_ref());
                let line_number = line_number_at(text, key.span().start);
                self.dependencies.push((package.to_owned(), line_number));
            }
        }
    }
}

fn table<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

/// The real name in `alias = { package = "name", ... }`.
fn renamed_package<'a>(dependency: &'a DeValue<'_>) -> Option<&'a str> {
    dependency.as_table()?.get("package")?.get_ref().as_str()
}

/// A row of the table.
struct Row<'a> {
    line_number: usize,
    allowed: BTreeSet<&'a str>,
}

/// The rows by folder, `None` without a table; what is wrong with it goes to `violations`.
fn rows<'a>(tree: &'a Tree, violations: &mut Vec<Violation>) -> Option<BTreeMap<&'a str, Row<'a>>> {
    let Some(page) = tree.file(PAGE) else {
        violations.push(Violation::new(PAGE, 1, "does not exist; write it"));
        return None;
    };
    let mut lines = table_rows(&page.text).peekable();
    if lines.peek().is_none() {
        let message = format!("no table of crates under a heading `{HEADING}`; add one");
        violations.push(Violation::new(PAGE, 1, message));
        return None;
    }
    let mut rows = BTreeMap::new();
    for (line_number, line) in lines {
        let mut complain =
            |message: String| violations.push(Violation::new(PAGE, line_number, message));
        match parse_row(line) {
            Err(message) => complain(message.to_owned()),
            Ok((folder, _)) if rows.contains_key(folder) => {
                complain(format!("a second row for `{folder}`; make them one"));
            }
            Ok((folder, allowed)) => {
                rows.insert(folder, Row { line_number, allowed });
            }
        }
    }
    Some(rows)
}

/// The numbered lines of the first table under the heading, without its head.
fn table_rows(page: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(page.lines().map(str::trim))
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("# ") && !line.starts_with("## "))
        .skip_while(|(_, line)| !line.starts_with('|'))
        .take_while(|(_, line)| line.starts_with('|'))
        // The head is one line of titles and one of dashes.
        .skip(2)
}

fn parse_row(line: &str) -> Result<(&str, BTreeSet<&str>), &'static str> {
    let (first, last) = line
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'))
        .and_then(|line| Some((line.split_once('|')?.0, line.rsplit_once('|')?.1)))
        .ok_or("not a row of at least two columns; write `| `FOLDER` | ... | `FOLDER`, ... |`")?;
    let folder = quoted(first)
        .ok_or("the first column is not the name of a crate's folder; write it in backticks")?;
    let allowed = match last.trim() {
        "-" => Some(BTreeSet::new()),
        list => list.split(',').map(quoted).collect(),
    };
    let allowed =
        allowed.ok_or("the last column is not a list of crates; write `FOLDER`, `FOLDER` or -")?;
    Ok((folder, allowed))
}

/// The name in a cell that is nothing but a name in backticks.
fn quoted(cell: &str) -> Option<&str> {
    let name = cell.trim().strip_prefix('`')?.strip_suffix('`')?;
    (!name.is_empty() && !name.contains('`')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    const TABLE_HEAD: &str =
        "# Moirai\n\n## Crates\n\nText.\n\n| crate | what it does | may use |\n|---|---|---|\n";
    const UNITS: &str =
        "[package]\nname = \"moirai-units\"\n\n[dependencies]\nbytes.workspace = true\n";
    const STORE: &str = "[package]\nname = \"moirai-store\"\n\n[dependencies]\n\
        moirai-units.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\nxtask = \"1\"\n";
    const XTASK: &str = "[package]\nname = \"xtask\"\n";

    /// What the check says of the three crates above beside a table of these `rows`, the first of
    /// which is line 9. `units` and `store` are as given.
    fn check_with(units: &str, store: &str, rows: &[&str]) -> Vec<String> {
        let page = format!("{TABLE_HEAD}{}\n\n## Next\n\n| `a` | b |\n", rows.join("\n"));
        report(
            check,
            &[
                ("ARCHITECTURE.md", &page),
                ("crates/store/Cargo.toml", store),
                ("crates/units/Cargo.toml", units),
                ("xtask/Cargo.toml", XTASK),
            ],
        )
    }

    fn check_rows(rows: &[&str]) -> Vec<String> {
        check_with(UNITS, STORE, rows)
    }

    const STORE_ROW: &str = "| `store` | tables | `units` |";
    const UNITS_ROW: &str = "| `units` | lengths, a \\| b | - |";
    const XTASK_ROW: &str = "| `xtask` | commands | - |";

    #[test]
    fn a_table_that_tells_the_truth_passes() {
        assert_eq!(check_rows(&[STORE_ROW, UNITS_ROW, XTASK_ROW]), [""; 0]);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_fires() {
        let row = "| `store` | tables | - |";
        assert_eq!(
            check_rows(&[row, UNITS_ROW, XTASK_ROW]),
            ["crates/store/Cargo.toml:5: `store` may not depend on `units` (ARCHITECTURE.md:9); \
              remove the dependency, or make the case for it in the table"]
        );
    }

    #[test]
    fn an_edge_counts_however_it_is_written() {
        let row = "| `store` | tables | - |";
        for dependencies in [
            "[dependencies]\nmoirai-units = { path = \"../units\" }\n",
            "[dependencies]\nu = { package = \"moirai-units\", path = \"../units\" }\n",
            "[dependencies.moirai-units]\npath = \"../units\"\n",
            "[build-dependencies]\nmoirai-units.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nmoirai-units.workspace = true\n",
        ] {
            let store = format!("[package]\nname = \"moirai-store\"\n{dependencies}");
            let found = check_with(UNITS, &store, &[row, UNITS_ROW, XTASK_ROW]);
            assert_eq!(found.len(), 1, "{dependencies}: {found:?}");
            assert!(found[0].contains("may not depend on `units`"), "{found:?}");
        }
    }

    #[test]
    fn the_library_is_a_crate_like_the_others() {
        let units = UNITS.replace("moirai-units", "moirai");
        let store = STORE.replace("moirai-units", "moirai");
        let found = check_with(&units, &store, &["| `store` | tables | - |", UNITS_ROW, XTASK_ROW]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn an_allowed_edge_that_is_not_used_fires() {
        let row = "| `units` | lengths | `xtask` |";
        assert_eq!(
            check_rows(&[STORE_ROW, row, XTASK_ROW]),
            ["ARCHITECTURE.md:10: `units` does not depend on `xtask`; remove it from the row"]
        );
    }

    #[test]
    fn a_crate_that_is_missing_from_the_table_fires() {
        assert_eq!(
            check_rows(&[STORE_ROW, UNITS_ROW]),
            [
                "xtask/Cargo.toml:1: the crate `xtask` is not in the table of ARCHITECTURE.md; add a row"
            ]
        );
    }

    #[test]
    fn a_row_without_a_crate_fires() {
        assert_eq!(
            check_rows(&[STORE_ROW, UNITS_ROW, XTASK_ROW, "| `gone` | nothing | `units` |"]),
            ["ARCHITECTURE.md:12: there is no crate in a folder `gone`; remove the row"]
        );
    }

    #[test]
    fn a_row_that_cannot_be_read_fires() {
        for row in [
            "| store | tables | - |",
            "| `store` | tables | units |",
            "| `store` | tables | `units` `store` |",
            "| `store` | tables | |",
            "| `store` |",
            "| `units` | a second row | - |",
        ] {
            let found = check_rows(&[UNITS_ROW, XTASK_ROW, row]);
            // The second one is that `store` is missing.
            assert_eq!(found.len(), 2, "{row}: {found:?}");
            assert!(found[0].starts_with("ARCHITECTURE.md:11: "), "{found:?}");
        }
    }

    #[test]
    fn a_missing_page_or_table_fires() {
        assert_eq!(report(check, &[]), ["ARCHITECTURE.md:1: does not exist; write it"]);
        assert_eq!(
            report(check, &[("ARCHITECTURE.md", "# Moirai\n\n| `store` | - |\n")]),
            ["ARCHITECTURE.md:1: no table of crates under a heading `## Crates`; add one"]
        );
    }

    #[test]
    fn a_manifest_that_cannot_be_read_fires() {
        let found = check_with("[package]\nname = \n", STORE, &[STORE_ROW, UNITS_ROW, XTASK_ROW]);
        assert!(found[0].starts_with("crates/units/Cargo.toml:2: "), "{found:?}");
        let found = check_with("[dependencies]\n", STORE, &[STORE_ROW, UNITS_ROW, XTASK_ROW]);
        assert!(found[0].starts_with("crates/units/Cargo.toml:1: no package name"), "{found:?}");
    }
}
