//! The folder of a plan that is carried out: which sections each object has, and the descriptions of
//! their volumes. `docs/formats/placement.md` describes the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use moirai_storage::{DeviceUri, SectionBlocks};
use moirai_volume::{Description, Level, Part};
use serde::{Deserialize, Serialize};

use super::{described, range};
use crate::error::{Error, Result};
use crate::file;
use crate::plan::{Plan, PlannedArray};

/// The version of `placement.toml`.
const VERSION: u32 = 1;
/// The longest name of an object: file names have 255 bytes.
const NAME_BYTES_MAX: usize = 200;
/// The file that is locked.
const LOCK: &str = ".lock";
/// The file of a folder.
const FILE: &str = "placement.toml";

/// A folder of a plan that is carried out.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    state: State,
    /// Locked while objects may move.
    lock: Option<File>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    /// The arrays, in the order of their numbers.
    arrays: Vec<ArrayState>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    objects: BTreeMap<String, Placed>,
    /// The object that is being made or moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moving: Option<Move>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ArrayState {
    name: String,
    profile: String,
    /// The URIs of its disks; in the file relative to the folder.
    disks: Vec<String>,
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
        for uri in self.arrays.iter_mut().flat_map(|array| &mut array.disks) {
            *uri = change(&uri.parse()?).to_string();
        }
        Ok(())
    }
}

impl Placed {
    /// Whether the object survives the failure of a disk.
    pub(super) fn survives(&self) -> bool {
        self.level.parse::<Level>().is_ok_and(|level| level != Level::Raid0)
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
    /// Opens the folder at `path`, or makes it, for the arrays of `plan` with disks of these URIs. No other
    /// program can open it so at the same time.
    ///
    /// # Errors
    /// When a file cannot be read or written, another program uses the folder, or it is for other disks.
    pub fn open(path: &Path, plan: &Plan, disks: &[Vec<String>]) -> Result<Folder> {
        std::fs::create_dir_all(path).map_err(failed(path, "creating"))?;
        if path.join(FILE).exists() {
            let mut folder = Folder::reopen(path)?;
            folder.take_replaced()?;
            let own: Vec<Vec<String>> = folder.disks();
            let names = |disks: &[Vec<String>]| -> Result<Vec<Vec<String>>> {
                // A size is for disks that are created.
                let name =
                    |uri: &String| Ok(uri.parse::<DeviceUri>()?.relative_to(path).without("size"));
                disks.iter().map(|array| array.iter().map(name).collect()).collect()
            };
            if names(&own)? != names(disks)? {
                let problem = "the folder is of a plan on other disks: leave out --device, or name another folder";
                return Err(file::invalid(&path.join(FILE), problem));
            }
            return Ok(folder);
        }
        check_names(plan)?;
        let lock = Some(locked(path)?);
        let array = |(array, disks): (&PlannedArray, &Vec<String>)| ArrayState {
            name: array.name.clone(),
            profile: array.profile.clone(),
            disks: disks.clone(),
        };
        let arrays = plan.arrays.iter().zip(disks).map(array).collect();
        let state = State { version: VERSION, arrays, objects: BTreeMap::new(), moving: None };
        let folder = Folder { path: path.to_owned(), state, lock };
        folder.save()?;
        Ok(folder)
    }

    /// Opens the folder at `path`, which exists. No other program can open it so at the same time.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn reopen(path: &Path) -> Result<Folder> {
        let lock = locked(path)?;
        Ok(Folder { lock: Some(lock), ..Folder::read(path)? })
    }

    /// Reads the folder at `path`, to see what lies where.
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
        Ok(Folder { path: path.to_owned(), state, lock: None })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The URIs of each array's disks.
    #[must_use]
    pub fn disks(&self) -> Vec<Vec<String>> {
        self.state.arrays.iter().map(|array| array.disks.clone()).collect()
    }

    /// The objects, each with the place that its description has: of one whose move is cut off before it is noted that may be the new
    /// one.
    pub(super) fn described(&self) -> impl Iterator<Item = (&str, &Placed)> {
        self.objects().map(|(name, placed)| {
            let moved = self.state.moving.as_ref().filter(|moving| moving.object == name);
            let to = moved.map(|moving| &moving.to).filter(|to| self.is_described(name, to));
            (name, to.unwrap_or(placed))
        })
    }

    /// Whether an object's description has it at `placed`.
    fn is_described(&self, object: &str, placed: &Placed) -> bool {
        let description = Description::read(&self.description(object));
        let uri = self.whole_uri(object, placed);
        description.is_ok_and(|own| own.parts.first().is_some_and(|part| part.uri == uri))
    }

    /// Another device is in the place of a disk.
    pub(super) fn set_disk(&mut self, array: usize, disk: usize, uri: String) {
        let disks = self.state.arrays.get_mut(array).map(|array| &mut array.disks);
        if let Some(place) = disks.and_then(|disks| disks.get_mut(disk)) {
            *place = uri;
        }
    }

    /// Checks that `plan` has the folder's arrays, and objects that can lie in it.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        let own = self.state.arrays.iter();
        let own: Vec<(&str, &str, usize)> = own
            .map(|array| (array.name.as_str(), array.profile.as_str(), array.disks.len()))
            .collect();
        let wanted: Vec<(&str, &str, usize)> = plan
            .arrays
            .iter()
            .map(|array| (array.name.as_str(), array.profile.as_str(), array.disks))
            .collect();
        if own != wanted {
            let text = |arrays: &[(&str, &str, usize)]| {
                let of = |(name, profile, disks): &(&str, &str, usize)| {
                    format!("{name}: {disks} x {profile}")
                };
                arrays.iter().map(of).collect::<Vec<_>>().join(", ")
            };
            return Err(Error::Mismatch(format!(
                "{} has other arrays than the plan: {} instead of {}",
                self.path.display(),
                text(&own),
                text(&wanted)
            )));
        }
        check_names(plan)
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

    /// The folder as it is, to try in memory what fits.
    pub(super) fn tried(&self) -> Folder {
        Folder { path: self.path.clone(), state: self.state.clone(), lock: None }
    }

    /// Takes a place for an object, in memory.
    pub(super) fn take(&mut self, object: &str, placed: Placed) {
        self.state.objects.insert(object.to_owned(), placed);
    }

    /// Notes that an object is made at, or moves to, `to`.
    pub(super) fn begin(&mut self, object: &str, mut to: Placed) -> Result<()> {
        if self.lock.is_none() {
            let problem = "the folder was opened to read alone";
            return Err(file::invalid(&self.path.join(FILE), problem));
        }
        match self.placed(object) {
            Some(placed) => {
                to.generation = placed.generation + 1;
                self.check_description(object, placed)?;
            }
            None if self.description(object).exists() => {
                let problem = "this file is there already and is no object of the folder: name another folder, or the \
                               object otherwise";
                return Err(file::invalid(&self.description(object), problem));
            }
            None => {}
        }
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

    /// Refuses an object whose description has more than `placed`: the move would leave the rest behind.
    fn check_description(&self, object: &str, placed: &Placed) -> Result<()> {
        let path = self.description(object);
        let own = Part { uri: self.whole_uri(object, placed), blocks: placed.blocks };
        if Description::read(&path)?.parts == [own] {
            return Ok(());
        }
        let problem = "it was changed, as by `moirai volume grow`, so that the object has more than its place in the folder: \
                       let it grow in the policy instead, or leave it out of the plan";
        Err(file::invalid(&path, problem))
    }

    /// Ends a move that reached the switch; gives up one that did not, and gives its object's name: the
    /// object stays where it was, or is not there.
    pub(super) fn settle(&mut self) -> Result<Option<String>> {
        let Some(moving) = self.state.moving.clone() else { return Ok(None) };
        let object = moving.object.clone();
        let path = self.description(&object);
        let present = match path.exists() {
            true => Description::read(&path)?.parts.first().map(|part| part.uri.clone()),
            false => None,
        };
        let is_at = |placed: Option<&Placed>| -> bool {
            placed.map(|placed| self.whole_uri(&object, placed)) == present
        };
        if is_at(Some(&moving.to)) {
            self.finish(moving)?;
            return Ok(None);
        }
        if !is_at(self.placed(&object)) {
            let problem = "it describes neither the old place of the object nor the new one: bring it back as it was";
            return Err(file::invalid(&path, problem));
        }
        self.forget(&moving)?;
        Ok(Some(object))
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
    pub(super) fn uris(&self, placed: &PlacedArray) -> Result<Vec<String>> {
        let array = self.state.arrays.get(placed.array);
        let disks = array.map(|array| array.disks.as_slice()).unwrap_or_default();
        let section = |uri: &String| {
            let uri = uri.parse::<DeviceUri>()?.without("size");
            let join = if uri.contains('?') { '&' } else { '?' };
            Ok(format!("{uri}{join}section={}", placed.section()))
        };
        disks.iter().map(section).collect()
    }

    /// The descriptions below an object's own: its volume on each array, and a stripe over these where they
    /// are several.
    fn part_descriptions(&self, object: &str, placed: &Placed) -> Result<Vec<(PathBuf, String)>> {
        let level: Level = placed.level.parse().map_err(Error::Mismatch)?;
        let mut parts = Vec::new();
        for array in &placed.arrays {
            let path = self.part_path(object, placed, array);
            let text = described(self.uris(array)?, level, placed).text_for(&path)?;
            parts.push((path, text));
        }
        if placed.arrays.len() > 1 {
            let uris =
                placed.arrays.iter().map(|array| uri_of(&self.part_path(object, placed, array)));
            let path = self.stripe_path(object, placed);
            let text = described(uris.collect(), Level::Raid0, placed).text_for(&path)?;
            parts.push((path, text));
        }
        Ok(parts)
    }

    pub(super) fn part_path(&self, object: &str, placed: &Placed, array: &PlacedArray) -> PathBuf {
        self.path.join(format!(".{object}.{}.{}.toml", placed.generation, array.array))
    }

    fn stripe_path(&self, object: &str, placed: &Placed) -> PathBuf {
        self.path.join(format!(".{object}.{}.toml", placed.generation))
    }

    /// The URI of the volume that an object's description has as its only part.
    fn whole_uri(&self, object: &str, placed: &Placed) -> String {
        match placed.arrays.as_slice() {
            [alone] => uri_of(&self.part_path(object, placed, alone)),
            _ => uri_of(&self.stripe_path(object, placed)),
        }
    }

    /// The text of an object's description. What it has beside its part stays, like the trace that requests are recorded in.
    fn text(&self, object: &str, placed: &Placed) -> Result<String> {
        let path = self.description(object);
        let parts = vec![Part { uri: self.whole_uri(object, placed), blocks: placed.blocks }];
        let mut description = match path.exists() {
            true => Description::read(&path)?,
            false => Description::concatenated(Vec::new()),
        };
        description.parts = parts;
        Ok(description.text_for(&path)?)
    }

    /// Removes the files of a folder that has no object: for a plan that could not be carried out.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_unused(&self) -> Result<()> {
        if self.state.objects.is_empty() && self.state.moving.is_none() {
            let path = self.path.join(FILE);
            std::fs::remove_file(&path).map_err(failed(&path, "removing"))?;
        }
        Ok(())
    }

    fn save(&self) -> Result<()> {
        let path = self.path.join(FILE);
        let mut state = self.state.clone();
        state.change_uris(|uri| uri.relative_to(&self.path))?;
        let body = file::text(&state, &path)?;
        write(&path, &format!("{}\n{body}", checksum_line(&body)))
    }
}

/// Refuses objects whose files could not be made, or would be those of another.
fn check_names(plan: &Plan) -> Result<()> {
    for object in &plan.objects {
        let name = &object.name;
        let is_odd = |letter: char| letter.is_control() || "/?&#".contains(letter);
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(is_odd);
        if !is_name || name == "placement" || name.len() > NAME_BYTES_MAX {
            let problem = format!("object `{name}`: the name cannot be that of a file");
            return Err(Error::Mismatch(problem));
        }
        // The files below a description end so.
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        if !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()) {
            let problem = format!("object `{name}`: the name cannot end in a point and a number");
            return Err(Error::Mismatch(problem));
        }
    }
    Ok(())
}

fn uri_of(path: &Path) -> String {
    format!("volume:{}", path.display())
}

/// Locks the folder at `path` until what is given is dropped.
fn locked(path: &Path) -> Result<File> {
    let path = path.join(LOCK);
    let file = File::create(&path).map_err(failed(&path, "opening"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Error::Mismatch(format!("{}: another program uses the folder", path.display())))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(failed(&path, "locking")(error)),
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

#[cfg(test)]
mod tests;
