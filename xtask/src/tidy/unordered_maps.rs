//! Check: no map or set with a random order in the crates that issue I/O.
//!
//! The order of iteration would become the order of requests, and differ from run to run.

use super::tree::Tree;
use super::{Violation, forbidden};

const CRATE_FOLDERS: &[&str] = &[
    "storage", "models", "devices", "volume", "extents", "store", "update", "btree", "pages",
    "tables",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|file| file.crate_folder().is_some_and(|folder| CRATE_FOLDERS.contains(&folder)))
        .flat_map(|file| {
            forbidden::find(
                file,
                &["HashMap", "HashSet"],
                "has an order that differs from run to run and can reach an I/O; \
                 use BTreeMap or BTreeSet",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn a_hash_map_below_the_store_fires() {
        let text = "//! A.\nuse std::collections::{BTreeMap, HashMap};\ntype S = HashSet<u8>;\n";
        let found = report(check, &[("crates/volume/src/a.rs", text)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/volume/src/a.rs:2: `HashMap` "), "{found:?}");
        assert!(found[1].starts_with("crates/volume/src/a.rs:3: `HashSet` "), "{found:?}");
    }

    #[test]
    fn ordered_maps_exempt_lines_and_other_crates_pass() {
        let files = [
            ("crates/store/src/a.rs", "use std::collections::BTreeMap; // not a HashMap\n"),
            (
                "crates/store/src/b.rs",
                "type A = HashMap<u8, u8>; // tidy: allow(looked up, never iterated)\n",
            ),
            ("crates/sql/src/a.rs", "use std::collections::HashMap;\n"),
        ];
        assert!(report(check, &files).is_empty());
    }
}
