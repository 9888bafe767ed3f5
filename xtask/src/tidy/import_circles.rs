//! Files of a crate do not import each other in a circle: a reader can begin at the bottom.
//!
//! A file imports another one whose path it names after `crate::`, or after `super::`. What its unit tests name does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::tree::Tree;

/// Crates that have circles still. Take one out of here once they are cut.
const STILL_CIRCULAR: [&str; 5] = ["btree", "sql", "store", "tables", "volume"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, BTreeMap<String, (&str, &str)>> = BTreeMap::new();
    for file in tree.rust_files() {
        let Some(folder) = file.crate_folder() else { continue };
        let inside = format!("crates/{folder}/src/");
        if let Some(path) = file.path.strip_prefix(&inside)
            && !STILL_CIRCULAR.contains(&folder)
        {
            let modules = crates.entry(folder).or_default();
            modules.insert(module_of(path), (&file.path, &file.code));
        }
    }
    crates.values().flat_map(circles).collect()
}

/// `a::b` for `a/b.rs` and `a/b/mod.rs`; nothing for the root.
fn module_of(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") }
}

/// One violation for each circle of a crate, at the first of its files.
fn circles(modules: &BTreeMap<String, (&str, &str)>) -> Vec<Violation> {
    let imports: BTreeMap<&str, BTreeSet<&str>> = modules
        .iter()
        .map(|(module, (_, code))| (module.as_str(), imports_of(module, code, modules)))
        .collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (*module, reached_from(module, &imports))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut seen = BTreeSet::new();
    let mut violations = Vec::new();
    for (module, (path, _)) in modules {
        if !reaches(module, module) || seen.contains(module.as_str()) {
            continue;
        }
        let is_in = |other: &&str| reaches(module, other) && reaches(other, module);
        let circle: Vec<&str> = imports.keys().copied().filter(is_in).collect();
        seen.extend(circle.iter().copied());
        violations.push(Violation::new(
            path,
            1,
            format!(
                "these files import each other in a circle: {}; move what both need to a file below them",
                circle.join(", ")
            ),
        ));
    }
    violations
}

fn reached_from<'m>(
    module: &str,
    imports: &BTreeMap<&'m str, BTreeSet<&'m str>>,
) -> BTreeSet<&'m str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = imports.get(module).into_iter().flatten().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(imports.get(next).into_iter().flatten().copied());
        }
    }
    reached
}

/// The other modules that some code names.
fn imports_of<'m>(
    module: &str,
    code: &str,
    modules: &'m BTreeMap<String, (&str, &str)>,
) -> BTreeSet<&'m str> {
    let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or(code);
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut imports = BTreeSet::new();
    for (prefix, base) in [("crate::", ""), ("super::", parent)] {
        for (at, _) in code.match_indices(prefix) {
            let is_whole = !code[..at].ends_with(|before: char| {
                before.is_alphanumeric() || before == '_' || before == ':'
            });
            if is_whole && !(prefix == "super::" && module.is_empty()) {
                for path in paths(&code[at + prefix.len()..]) {
                    imports.extend(resolved(base, &path, modules));
                }
            }
        }
    }
    imports.remove(module);
    imports
}

/// The paths at the front of some code: one, or those of a group in braces, which may have groups.
fn paths(code: &str) -> Vec<String> {
    let is_of_path = |one: char| one.is_alphanumeric() || one == '_' || one == ':';
    let end = code.find(|one| !is_of_path(one)).unwrap_or(code.len());
    let (front, rest) = code.split_at(end);
    let Some(group) = rest.strip_prefix('{').filter(|_| front.is_empty() || front.ends_with("::"))
    else {
        return vec![front.to_owned()];
    };
    let mut depth = 0;
    let mut members = vec![0];
    let mut group_end = group.len();
    for (at, one) in group.char_indices() {
        match one {
            '{' => depth += 1,
            '}' if depth == 0 => {
                group_end = at;
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => members.push(at + 1),
            _ => {}
        }
    }
    let member = |at: &usize| paths(group[*at..group_end].trim_start());
    let inner = members.iter().filter(|at| **at <= group_end).flat_map(member);
    inner.filter(|path| !path.is_empty()).map(|path| format!("{front}{path}")).collect()
}

/// The module with the longest path that a path begins with; none for the root.
fn resolved<'m>(
    base: &str,
    path: &str,
    modules: &'m BTreeMap<String, (&str, &str)>,
) -> Option<&'m str> {
    let whole = if base.is_empty() { path.to_owned() } else { format!("{base}::{path}") };
    let mut rest = whole.trim_end_matches(':');
    while !rest.is_empty() {
        if let Some((module, _)) = modules.get_key_value(rest) {
            return Some(module);
        }
        rest = rest.rsplit_once("::").map_or("", |(front, _)| front);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn a_circle_is_told_once_with_its_files() {
        let found = report(
            check,
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
                ("crates/x/src/a.rs", "use crate::b::{self, B};\n"),
                ("crates/x/src/b/mod.rs", "mod c;\n"),
                ("crates/x/src/b/c.rs", "use crate::a::A;\n"),
                ("crates/x/src/d.rs", "use crate::{b::c::C, d};\n"),
            ],
        );
        assert_eq!(found, Vec::<String>::new());
        let found = report(
            check,
            &[
                ("crates/x/src/a.rs", "use crate::{d, b::{C, c::{D, E}}};\n"),
                ("crates/x/src/b/mod.rs", "mod c;\n"),
                ("crates/x/src/b/c.rs", "use super::helper;\nfn f() { crate::a::f() }\n"),
                ("crates/x/src/d.rs", "\n"),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("crates/x/src/a.rs:1:") && found[0].contains(": a, b::c;"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_and_longer_names_do_not_count() {
        let found = report(
            check,
            &[
                ("crates/x/src/a.rs", "use crate::b::B;\n"),
                (
                    "crates/x/src/b.rs",
                    "fn f() { my_crate::a::g() }\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
                ),
            ],
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn groups_are_taken_apart() {
        assert_eq!(paths("a::{b, c::{d, e}, f as g};"), ["a::b", "a::c::d", "a::c::e", "a::f"]);
        assert_eq!(paths("a::B;"), ["a::B"]);
        assert_eq!(paths("{a, b::C};"), ["a", "b::C"]);
    }
}
