//! Check: unsafe code is in few files, so that who reads for it knows where.

use super::tree::Tree;
use super::{Violation, forbidden};

/// The ring that hands buffers to the kernel, the registration of its event, a setting of the C library, and commands to SCSI drives.
const FILES: &[&str] = &[
    "crates/devices/src/ring.rs",
    "crates/devices/src/scsi/sg.rs",
    "crates/runtime/src/heap.rs",
    "crates/runtime/src/watched.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|file| file.crate_folder().is_some() && !FILES.contains(&file.path.as_str()))
        .flat_map(|file| {
            forbidden::find(file, &["unsafe_code", "unsafe {"], "belongs into `devices::ring`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    #[test]
    fn it_may_be_where_it_is_and_nowhere_else() {
        let text = "//! A.\n#![expect(unsafe_code, reason = \"fast\")]\nunsafe { f() }\n";
        assert_eq!(report(check, &[("crates/store/src/a.rs", text)]).len(), 2);
        assert_eq!(report(check, &[("crates/devices/src/ring.rs", text)]).len(), 0);
    }
}
