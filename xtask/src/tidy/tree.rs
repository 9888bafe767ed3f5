//! The part of the working tree that the checks look at, read once.

use std::fs;
use std::path::Path;

use super::rust_text;
use crate::error::Error;

/// Files in order of their paths, so that two runs print the same.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: Vec<File>,
}

#[derive(Debug)]
pub(super) struct File {
    /// Relative to the workspace root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// Of a Rust file, `text` with comments and literals blanked out (`rust_text::code_only`);
    /// empty for any other file.
    pub(super) code: String,
}

impl File {
    fn new(path: String, text: String) -> Self {
        let code = if path.ends_with(".rs") { rust_text::code_only(&text) } else { String::new() };
        Self { path, text, code }
    }

    /// `store` for everything below `crates/store/`, `None` outside `crates/`.
    pub(super) fn crate_folder(&self) -> Option<&str> {
        let (folder, _) = self.path.strip_prefix("crates/")?.split_once('/')?;
        Some(folder)
    }
}

impl Tree {
    /// Reads ARCHITECTURE.md, the format pages, and the manifests and Rust files of every crate.
    pub(super) fn load(root: &Path) -> Result<Self, Error> {
        let mut tree = Self::default();
        for start in ["ARCHITECTURE.md", "crates", "docs/formats", "xtask"] {
            tree.add(root, start)?;
        }
        Ok(tree)
    }

    /// Adds the file at `path` or the files below it. What does not exist adds nothing: the checks
    /// that need it say so.
    fn add(&mut self, root: &Path, path: &str) -> Result<(), Error> {
        let full_path = root.join(path);
        let read_error = |source| Error::Read { path: full_path.clone(), source };
        if full_path.is_dir() {
            let mut names = Vec::new();
            for entry in fs::read_dir(&full_path).map_err(read_error)? {
                names.push(entry.map_err(read_error)?.file_name());
            }
            names.sort();
            // A name that is not UTF-8 cannot be a crate, a module or a page.
            for name in names.iter().filter_map(|name| name.to_str()) {
                if name != "target" && !name.starts_with('.') {
                    self.add(root, &format!("{path}/{name}"))?;
                }
            }
        } else if full_path.is_file() && is_checked(path) {
            let text = fs::read_to_string(&full_path).map_err(read_error)?;
            self.files.push(File::new(path.to_owned(), text));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|&(path, text)| File::new(path.to_owned(), text.to_owned())).collect();
        Self { files }
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The crates' manifests, each with the name of its folder.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().filter_map(|file| {
            let folder = file.path.strip_suffix("/Cargo.toml")?;
            let folder = folder.strip_prefix("crates/").unwrap_or(folder);
            // A manifest further down is a fixture, not a crate of the workspace.
            (!folder.contains('/')).then_some((folder, file))
        })
    }

    /// The pages that each describe an on-disk format, without the README that lists them.
    pub(super) fn format_pages(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| {
            file.path.starts_with("docs/formats/") && !file.path.ends_with("/README.md")
        })
    }
}

fn is_checked(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with(".md") || path.ends_with("/Cargo.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_folder_is_the_one_below_crates() {
        let tree = Tree::of(&[("crates/store/src/a/b.rs", ""), ("xtask/src/main.rs", "")]);
        let folders: Vec<_> = tree.rust_files().map(File::crate_folder).collect();
        assert_eq!(folders, [Some("store"), None]);
    }

    #[test]
    fn manifests_are_those_of_the_workspace_members() {
        let tree = Tree::of(&[
            ("crates/store/Cargo.toml", ""),
            ("crates/store/tests/fixture/Cargo.toml", ""),
            ("xtask/Cargo.toml", ""),
        ]);
        let folders: Vec<_> = tree.manifests().map(|(folder, _)| folder).collect();
        assert_eq!(folders, ["store", "xtask"]);
    }

    #[test]
    fn the_working_tree_loads() {
        let tree = Tree::load(crate::workspace_root()).unwrap();
        assert!(tree.file("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.manifests().any(|(folder, _)| folder == "xtask"));
    }
}
