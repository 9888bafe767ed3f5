//! Disks that were replaced in the volumes of a folder's objects: the folder takes note of them.

use std::path::Path;

use moirai_storage::{DeviceUri, SectionBlocks};
use moirai_volume::Description;

use super::folder::{Folder, PlacedArray};
use crate::error::{Error, Result};

/// A disk of an array, and what has its place.
type Replaced = (usize, String);

impl Folder {
    /// The URIs of each array's disks in the folder at `path`, with those that `moirai volume replace` has put into the volumes of the
    /// objects.
    ///
    /// # Errors
    /// As [`Folder::read`], and disks that were replaced in the volumes of some objects and not in those of others, or by other sections.
    pub fn disks_now(path: &Path) -> Result<Vec<Vec<String>>> {
        let mut folder = Folder::read(path)?;
        folder.take_replaced()?;
        Ok(folder.disks())
    }

    /// Takes these disks over.
    pub(super) fn take_replaced(&mut self) -> Result<()> {
        for array in 0..self.disks().len() {
            let mut all: Vec<(String, Vec<Replaced>)> = Vec::new();
            for (object, placed) in self.described() {
                for part in placed.arrays.iter().filter(|part| part.array == array) {
                    let path = self.part_path(object, placed, part);
                    // A stripe without redundancy has lost what its disk had, and takes no other.
                    if placed.survives() && path.exists() {
                        all.push((object.to_owned(), self.replaced(&path, part)?));
                    }
                }
            }
            let Some((first, replaced)) = all.first() else { continue };
            if let Some((other, _)) = all.iter().find(|(_, other)| other != replaced) {
                return Err(Error::Mismatch(format!(
                    "{}: the volumes of `{first}` and `{other}` have different disks in array {array}: replace a disk that failed \
                     in those of all objects there, with `moirai volume replace`",
                    self.path().display()
                )));
            }
            for (disk, uri) in replaced.clone() {
                self.set_disk(array, disk, uri);
            }
        }
        Ok(())
    }

    /// The disks of an object's volume on an array, which `path` describes, that are not the folder's.
    fn replaced(&self, path: &Path, part: &PlacedArray) -> Result<Vec<Replaced>> {
        let there = Description::read(path)?.devices;
        let own = self.uris(part)?;
        let gone = own.iter().enumerate().filter(|(_, uri)| !there.contains(uri));
        let new = there.iter().filter(|uri| !own.contains(uri));
        if there.len() != own.len() {
            return Err(Error::Mismatch(format!(
                "{} names {} devices, and the array has {} disks: take those out that are gone",
                path.display(),
                there.len(),
                own.len()
            )));
        }
        let mut replaced = Vec::new();
        for ((disk, _), uri) in gone.zip(new) {
            let mut uri: DeviceUri = uri.parse()?;
            let section: Option<SectionBlocks> = uri.take("section")?;
            if section != Some(part.section()) {
                return Err(Error::Mismatch(format!(
                    "{}: {uri} must have the section of the disk that it replaces: give it `section={}`",
                    path.display(),
                    part.section()
                )));
            }
            replaced.push((disk, uri.without("section")));
        }
        Ok(replaced)
    }
}
