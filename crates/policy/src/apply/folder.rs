//! The folder of a plan that is carried out: which sections each object has, and the descriptions of
//! their volumes. `docs/formats/placement.md` describes the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use moirai_storage::{DeviceUri, SectionBlocks};
use moirai_volume::Level;
use serde::{Deserialize, Serialize};

use super::{described, range};
use crate::error::{Error, Result};
use crate::file;

/// The version of `placement.toml`.
const VERSION: u32 = 1;
/// The file of a folder.
const FILE: &str = "placement.toml";

/// A folder of a plan that is carried out.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    /// The URIs of each array's disks; in the file relative to the folder.
    disks: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    objects: BTreeMap<String, Placed>,
    /// The object that is being made or moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moving: Option<Move>,
}

/// An object that is being made or moved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The object.
    pub object: String,
    /// Where it is to lie.
    pub to: Placed,
}

/// Where an object lies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Its blocks.
    pub blocks: u64,
    /// Its RAID level on each array.
    pub level: String,
    /// The blocks of its stripe unit.
    pub unit_blocks: u64,
    /// Counts the places that it had.
    pub generation: u64,
    /// Its arrays, in the order of its stripe units.
    pub arrays: Vec<PlacedArray>,
}

/// The section that an object has of each disk of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedArray {
    /// The array, counted from 0.
    pub array: usize,
    /// The first block of the section.
    pub first: u64,
    /// Its blocks.
    pub count: u64,
}

impl State {
    fn change_uris(&mut self, change: impl Fn(&DeviceUri) -> DeviceUri) -> Result<()> {
        for uri in self.disks.iter_mut().flatten() {
            *uri = change(&uri.parse()?).to_string();
        }
        Ok(())
    }
}

impl PlacedArray {
    /// The section.
    #[must_use]
    pub fn section(&self) -> SectionBlocks {
        SectionBlocks(range(self.first, self.count))
    }
}

impl Folder {
    /// Opens the folder at `path`, or makes it, for arrays whose disks have these URIs.
    ///
    /// # Errors
    /// When a file cannot be read or written, or the folder is for other disks.
    pub fn open(path: &Path, disks: &[Vec<String>]) -> Result<Folder> {
        let file = path.join(FILE);
        if file.exists() {
            let folder = Folder::read(path)?;
            // A size is for disks that are created.
            let name = |uri: &String| Ok(uri.parse::<DeviceUri>()?.without("size"));
            let names = |disks: &[Vec<String>]| -> Result<Vec<Vec<String>>> {
                disks.iter().map(|array| array.iter().map(name).collect()).collect()
            };
            if names(&folder.state.disks)? != names(disks)? {
                let problem = "the folder is of a plan on other disks: name the disks that it has, or another folder";
                return Err(file::invalid(&file, problem));
            }
            return Ok(folder);
        }
        std::fs::create_dir_all(path).map_err(failed(path, "creating"))?;
        let (version, disks) = (VERSION, disks.to_vec());
        let state = State { version, disks, objects: BTreeMap::new(), moving: None };
        let folder = Folder { path: path.to_owned(), state };
        folder.save()?;
        Ok(folder)
    }

    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged.
    pub fn read(path: &Path) -> Result<Folder> {
        let file = path.join(FILE);
        let text = std::fs::read_to_string(&file).map_err(failed(&file, "reading"))?;
        let damaged = || file::invalid(&file, "it is damaged: its checksum does not match");
        let (head, body) = text.split_once('\n').ok_or_else(damaged)?;
        if head != checksum_line(body) {
            return Err(damaged());
        }
        let mut state: State = file::parse(body, &file)?;
        if state.version != VERSION {
            let problem =
                format!("version {} is not known: this program writes {VERSION}", state.version);
            return Err(file::invalid(&file, problem));
        }
        state.change_uris(|uri| uri.resolved(path))?;
        Ok(Folder { path: path.to_owned(), state })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The URIs of each array's disks.
    #[must_use]
    pub fn disks(&self) -> &[Vec<String>] {
        &self.state.disks
    }

    /// The objects and where they lie.
    pub fn objects(&self) -> impl Iterator<Item = (&str, &Placed)> {
        self.state.objects.iter().map(|(name, placed)| (name.as_str(), placed))
    }

    /// Where the object called `name` lies.
    #[must_use]
    pub fn placed(&self, name: &str) -> Option<&Placed> {
        self.state.objects.get(name)
    }

    /// The move that was begun and has not ended.
    #[must_use]
    pub fn moving(&self) -> Option<&Move> {
        self.state.moving.as_ref()
    }

    /// The file that describes the volume of the object called `name`.
    #[must_use]
    pub fn description(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.toml"))
    }

    /// All places that are taken, the one that an object moves to included.
    pub(super) fn all(&self) -> impl Iterator<Item = &Placed> {
        let moving = self.state.moving.iter().map(|moving| &moving.to);
        self.state.objects.values().chain(moving)
    }

    /// Notes that an object is made at, or moves to, `to`.
    pub(super) fn begin(&mut self, object: &str, mut to: Placed) -> Result<()> {
        // A file's name must not lead elsewhere.
        let is_name =
            !object.is_empty() && !object.starts_with('.') && !object.contains(['/', '\0']);
        if !is_name || object == "placement" {
            return Err(Error::Mismatch(format!("object `{object}`: the name is none of a file")));
        }
        to.generation = self.placed(object).map_or(0, |placed| placed.generation + 1);
        let parts = self.part_descriptions(object, &to)?;
        for (path, text) in parts {
            write(&path, &text)?;
        }
        self.state.moving = Some(Move { object: object.to_owned(), to });
        self.save()
    }

    /// Makes the place of the move the object's: from here on the object lies there.
    pub(super) fn switch(&mut self, object: &str) -> Result<()> {
        let Some(moving) = self.state.moving.clone().filter(|moving| moving.object == object)
        else {
            return Ok(());
        };
        write(&self.description(object), &self.text(object, &moving.to)?)?;
        self.finish(moving)
    }

    /// Ends a move that came to the switch and not to its end.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(moving) = self.state.moving.clone() else { return Ok(()) };
        let path = self.description(&moving.object);
        let is_there = match std::fs::read_to_string(&path) {
            Ok(text) => text == self.text(&moving.object, &moving.to)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(&path, "reading")(error)),
        };
        match is_there {
            true => self.finish(moving),
            // The move begins again: its sections are free.
            false => self.forget(&moving),
        }
    }

    /// Gives up the move.
    pub(super) fn give_up(&mut self) -> Result<Option<String>> {
        let Some(moving) = self.state.moving.clone() else { return Ok(None) };
        self.forget(&moving)?;
        Ok(Some(moving.object))
    }

    fn finish(&mut self, Move { object, to }: Move) -> Result<()> {
        let old = self.state.objects.insert(object.clone(), to);
        self.state.moving = None;
        self.save()?;
        match old {
            Some(old) => self.remove_parts(&object, &old),
            None => Ok(()),
        }
    }

    fn forget(&mut self, moving: &Move) -> Result<()> {
        self.state.moving = None;
        self.save()?;
        self.remove_parts(&moving.object, &moving.to)
    }

    fn remove_parts(&self, object: &str, placed: &Placed) -> Result<()> {
        for (path, _) in self.part_descriptions(object, placed)? {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&path, "removing")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The URIs of an object's sections on the disks of an array.
    fn uris(&self, placed: &PlacedArray) -> Result<Vec<String>> {
        let disks = self.state.disks.get(placed.array).map(Vec::as_slice).unwrap_or_default();
        let section = |uri: &String| {
            let uri = uri.parse::<DeviceUri>()?.without("size");
            let join = if uri.contains('?') { '&' } else { '?' };
            Ok(format!("{uri}{join}section={}", placed.section()))
        };
        disks.iter().map(section).collect()
    }

    /// The descriptions of the volumes on each array of an object that lies on several.
    fn part_descriptions(&self, object: &str, placed: &Placed) -> Result<Vec<(PathBuf, String)>> {
        if placed.arrays.len() == 1 {
            return Ok(Vec::new());
        }
        let level: Level = placed.level.parse().map_err(Error::Mismatch)?;
        let part = |array: &PlacedArray| {
            let path = self.part_path(object, placed, array);
            let text = described(self.uris(array)?, level, placed).text_for(&path)?;
            Ok((path, text))
        };
        placed.arrays.iter().map(part).collect()
    }

    fn part_path(&self, object: &str, placed: &Placed, array: &PlacedArray) -> PathBuf {
        self.path.join(format!(".{object}.{}.{}.toml", placed.generation, array.array))
    }

    /// The text of an object's description.
    fn text(&self, object: &str, placed: &Placed) -> Result<String> {
        let level: Level = placed.level.parse().map_err(Error::Mismatch)?;
        let description = match placed.arrays.as_slice() {
            [alone] => described(self.uris(alone)?, level, placed),
            arrays => {
                let part =
                    |array| format!("volume:{}", self.part_path(object, placed, array).display());
                described(arrays.iter().map(part).collect(), Level::Raid0, placed)
            }
        };
        Ok(description.text_for(&self.description(object))?)
    }

    fn save(&self) -> Result<()> {
        let path = self.path.join(FILE);
        let mut state = self.state.clone();
        state.change_uris(|uri| uri.relative_to(&self.path))?;
        let body = file::text(&state, &path)?;
        write(&path, &format!("{}\n{body}", checksum_line(&body)))
    }
}

/// The first line of `placement.toml`.
fn checksum_line(body: &str) -> String {
    format!("# moirai placement {VERSION}, crc32c {:08x}", crc32c::crc32c(body.as_bytes()))
}

fn failed(path: &Path, action: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::File { path: path.to_owned(), action, source }
}

/// Replaces the file at `path`: after a crash it has the old text or the new one.
fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("toml.new");
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    })();
    written.map_err(failed(path, "writing"))
}
