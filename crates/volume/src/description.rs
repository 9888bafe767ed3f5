//! The TOML file that describes a volume.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use moirai_storage::{DeviceUri, Error, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};
use serde::{Deserialize, Serialize};

use crate::Level;

/// A volume as its file describes it.
///
/// ```toml
/// devices = ["sim:seagate-cheetah-36es", "sim:seagate-cheetah-36es"]
///
/// [quadrangle]
/// depth = 4
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The URIs of the devices, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Instead of devices and a layout: devices, or volumes, that are put one behind the other.
    #[serde(default, rename = "part", skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The URIs of devices that take the places of disks that fail, when the volume is rebuilt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<String>,
    /// `raid0` when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// Whether the devices say on themselves what they are of: then they may come in any order, and the
    /// volume survives failures and crashes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub labels: bool,
    /// Whether blocks have checksums.
    #[serde(default, skip_serializing_if = "is_false")]
    pub integrity: bool,
    stripe: Option<StripeTable>,
    quadrangle: Option<QuadrangleTable>,
    /// The array controller before the volume, if there is one. Who opens the volume puts it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerTable>,
    /// The trace that requests to the volume are recorded in, if there is one. Who opens the volume does so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A device, or a volume, that is a part of another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is called.
    pub uri: String,
    /// How many of its blocks are used, from the first on.
    pub blocks: u64,
}

/// An array controller's cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerTable {
    /// The size of the cache, like `64MiB`.
    pub size: String,
    /// Whether writes are acknowledged before the disks have them.
    #[serde(default)]
    pub write: ControllerWrites,
}

/// When a controller gives writes to the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerWrites {
    /// After they are acknowledged, early.
    #[default]
    Back,
    /// Before.
    Through,
}

impl ControllerTable {
    /// The size in bytes; `path` is what messages call the description.
    pub fn size(&self, path: &Path) -> Result<ByteCount> {
        let size: ByteCount = self
            .size
            .parse()
            .map_err(|problem| bad(path, format!("key `controller.size`: {problem}")))?;
        if size.0 < CONTROLLER_BYTES_MIN {
            let least = ByteCount(CONTROLLER_BYTES_MIN);
            return Err(bad(path, format!("key `controller.size`: {size} is less than {least}")));
        }
        Ok(size)
    }
}

/// The smallest controller's cache.
const CONTROLLER_BYTES_MIN: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StripeTable {
    /// `"track"`, or a size.
    unit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct QuadrangleTable {
    depth: Option<u32>,
    #[serde(default = "one")]
    block: u64,
    zone: Option<usize>,
}

fn one() -> u64 {
    1
}

/// How a described volume is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutDescription {
    /// Stripe units in turn.
    Stripe {
        /// Their size.
        unit: StripeUnit,
    },
    /// Quadrangles.
    Quadrangle {
        /// Tracks of a quadrangle; the deepest that keeps one revolution when not given.
        depth: Option<u32>,
        /// Blocks of 512 bytes in a volume block, b.
        block: BlockCount,
        /// Which zone, counted from the rim; all of them when not given.
        zone: Option<usize>,
    },
}

impl LayoutDescription {
    /// The same, with quadrangles of `depth` tracks.
    pub(crate) fn with_depth(self, depth: u32) -> LayoutDescription {
        match self {
            LayoutDescription::Quadrangle { block, zone, .. } => {
                LayoutDescription::Quadrangle { depth: Some(depth), block, zone }
            }
            stripe @ LayoutDescription::Stripe { .. } => stripe,
        }
    }
}

/// The size of a stripe unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeUnit {
    /// One ensemble of the devices, whatever its size at that place.
    Track,
    /// A fixed number of blocks.
    Blocks(BlockCount),
}

impl FromStr for StripeUnit {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "track" {
            return Ok(StripeUnit::Track);
        }
        let size: ByteCount = text
            .parse()
            .map_err(|_| format!("`{text}` is neither `track` nor a size like 64KiB"))?;
        if size.0 == 0 || !size.0.is_multiple_of(BLOCK_BYTES) {
            return Err(format!("`{text}` is not a multiple of {BLOCK_BYTES} bytes"));
        }
        Ok(StripeUnit::Blocks(BlockCount::holding(size)))
    }
}

impl Description {
    /// Describes a volume. Its devices have labels when they keep their data: without labels other programs would take
    /// the devices for blank.
    #[must_use]
    pub fn new(devices: Vec<String>, level: Level, layout: LayoutDescription) -> Description {
        let labels = match level {
            // Without redundancy a device that keeps its data may stand beside one that does not.
            Level::Raid0 => !devices.is_empty() && devices.iter().all(|device| outlives(device)),
            _ => devices.iter().any(|device| outlives(device)),
        };
        let level = (level != Level::default()).then(|| level.to_string());
        let mut description = Description {
            devices,
            parts: Vec::new(),
            spares: Vec::new(),
            level,
            labels,
            integrity: false,
            stripe: None,
            quadrangle: None,
            controller: None,
            record: None,
        };
        match layout {
            LayoutDescription::Stripe { unit } => {
                let unit = match unit {
                    StripeUnit::Track => "track".to_owned(),
                    StripeUnit::Blocks(blocks) => match blocks.bytes().0 {
                        bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
                        bytes if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
                        bytes => bytes.to_string(),
                    },
                };
                description.stripe = Some(StripeTable { unit });
            }
            LayoutDescription::Quadrangle { depth, block, zone } => {
                description.quadrangle = Some(QuadrangleTable { depth, block: block.0, zone });
            }
        }
        description
    }

    /// Describes devices, or volumes, that are put one behind the other.
    #[must_use]
    pub fn concatenated(parts: Vec<Part>) -> Description {
        let unit = StripeUnit::Track;
        let mut description =
            Description::new(Vec::new(), Level::Raid0, LayoutDescription::Stripe { unit });
        description.stripe = None;
        description.parts = parts;
        description
    }

    /// What it is made of: its parts, or its devices.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|part| part.uri.clone());
        self.devices.iter().cloned().chain(parts).collect()
    }

    /// Reads the description in the file at `path`. Relative paths in it are relative to its folder; here they
    /// become paths from the current folder.
    pub fn read(path: &Path) -> Result<Description> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.to_owned(),
            action: "reading the volume's description",
            source,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Description::parse(&text, path)?.with_uris(|uri| uri.resolved(folder))
    }

    /// The description as TOML for the file at `path`, with relative paths where devices lie below its folder.
    pub fn text_for(&self, path: &Path) -> Result<String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let description = self.clone().with_uris(|uri| uri.relative_to(folder))?;
        toml::to_string(&description).map_err(|error| bad(path, error.to_string()))
    }

    fn with_uris(mut self, change: impl Fn(&DeviceUri) -> DeviceUri) -> Result<Description> {
        let parts = self.parts.iter_mut().map(|part| &mut part.uri);
        for text in self.devices.iter_mut().chain(&mut self.spares).chain(parts) {
            *text = change(&text.parse()?).to_string();
        }
        if let Some(trace) = &mut self.record {
            let uri: DeviceUri = format!("file:{}", trace.display()).parse()?;
            *trace = PathBuf::from(change(&uri).target);
        }
        Ok(self)
    }

    /// What the description calls the device that `uri` names: the same file may be spelt in several ways.
    #[must_use]
    pub fn name_of(&self, uri: &str) -> String {
        let file = |text: &str| -> Option<PathBuf> {
            let uri: DeviceUri = text.parse().ok()?;
            uri.data_path()?.canonicalize().ok()
        };
        let wanted = file(uri);
        let mut names = self.devices.iter().chain(&self.spares);
        let same = names.find(|name| wanted.is_some() && file(name) == wanted);
        same.cloned().unwrap_or_else(|| uri.to_owned())
    }

    /// Reads a description; `path` is what messages call it.
    pub fn parse(text: &str, path: &Path) -> Result<Description> {
        let description: Description =
            toml::from_str(text).map_err(|error| bad(path, error.to_string()))?;
        if !description.parts.is_empty() {
            let Description {
                devices, level, labels, stripe, quadrangle, spares, integrity, ..
            } = &description;
            let is_more = !devices.is_empty() || stripe.is_some() || quadrangle.is_some();
            if is_more || level.is_some() || *labels || *integrity || !spares.is_empty() {
                let problem = "key `part`: a volume of parts has no devices, level, layout, labels, spares or checksums \
                               of its own";
                return Err(bad(path, problem));
            }
            if let Some(controller) = &description.controller {
                controller.size(path)?;
            }
            return Ok(description);
        }
        if description.devices.is_empty() {
            return Err(bad(
                path,
                "key `devices`: name at least one device, or write a table [[part]]",
            ));
        }
        description.layout(path)?;
        description.check_labels(path)?;
        if let Some(controller) = &description.controller {
            controller.size(path)?;
        }
        Ok(description)
    }

    /// An error when the devices should have labels and have none, or cannot.
    pub fn check_labels(&self, path: &Path) -> Result<()> {
        let level = self.level(path)?;
        let device = |wanted: bool| self.devices.iter().find(|device| outlives(device) == wanted);
        if self.integrity && !self.labels {
            return Err(bad(path, "key `integrity`: checksums of blocks need `labels = true`"));
        }
        if !self.spares.is_empty() && !self.labels {
            return Err(bad(path, "key `spares`: a volume with spares needs `labels = true`"));
        }
        match (self.labels, device(true), device(false)) {
            (false, Some(device), _) if level != Level::Raid0 => {
                let problem = format!(
                    "key `labels`: {device} keeps its data, so {level} needs labels that record failed \
                     devices: create the volume with `moirai volume create`"
                );
                Err(bad(path, problem))
            }
            (true, _, Some(device)) => Err(bad(
                path,
                format!("key `labels`: {device} keeps no data: name a file, or add `data=FILE`"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether opening the volume writes to its devices: labels record which devices were in use, and a journal is
    /// replayed. Then even its readers are alone.
    pub fn opening_writes(&self, path: &Path) -> Result<bool> {
        // Not by the number of devices: the description may name those that are left alone.
        Ok(self.labels && self.level(path)? != Level::Raid0)
    }

    /// How the volume survives failures; `path` is what messages call the description.
    pub fn level(&self, path: &Path) -> Result<Level> {
        let level = self.level.as_deref().map_or(Ok(Level::default()), str::parse);
        level.map_err(|problem| bad(path, format!("key `level`: {problem}")))
    }

    /// How the volume is laid out; `path` is what messages call the description.
    pub fn layout(&self, path: &Path) -> Result<LayoutDescription> {
        match (&self.stripe, &self.quadrangle) {
            (Some(stripe), None) => {
                let unit = stripe.unit.parse();
                let unit = unit.map_err(|problem| bad(path, format!("key `unit`: {problem}")))?;
                Ok(LayoutDescription::Stripe { unit })
            }
            (None, Some(table)) => Ok(LayoutDescription::Quadrangle {
                depth: table.depth,
                block: BlockCount(table.block),
                zone: table.zone,
            }),
            _ => Err(bad(path, "write either a table [stripe] or a table [quadrangle]")),
        }
    }
}

/// Whether the data of the device that the URI names outlive the program.
fn outlives(uri: &str) -> bool {
    uri.parse().ok().and_then(|uri: DeviceUri| uri.data_path()).is_some()
}

/// An error when two of `uris` name the same file. Readers share their locks, so that these do not tell.
pub(crate) fn refuse_twice(path: &Path, uris: &[String]) -> Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    for uri in uris {
        let Some(file) = uri.parse::<DeviceUri>()?.data_path() else { continue };
        let Ok(file) = file.canonicalize() else { continue };
        if files.contains(&file) {
            return Err(bad(path, format!("key `devices`: {} is named twice", file.display())));
        }
        files.push(file);
    }
    Ok(())
}

fn bad(path: &Path, problem: impl Into<String>) -> Error {
    Error::Description { path: PathBuf::from(path), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rotation;

    #[test]
    fn descriptions_round_trip() {
        let path = Path::new("v.toml");
        for layout in [
            LayoutDescription::Stripe { unit: StripeUnit::Track },
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) },
            LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: None },
            LayoutDescription::Quadrangle { depth: None, block: BlockCount(16), zone: Some(2) },
        ] {
            let level = Level::Raid5(Rotation::RightSymmetric);
            let written = Description::new(vec!["sim:quantum-atlas-10k".into()], level, layout);
            let read = Description::parse(&written.text_for(path).unwrap(), path).unwrap();
            assert_eq!(read, written);
            assert_eq!(read.layout(path).unwrap(), layout);
            assert_eq!(read.level(path).unwrap(), level);
        }
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_the_description() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let inside = format!("file:{}", folder.path().join("a.img").display());
        let devices = vec![inside.clone(), "file:/elsewhere/b.img".to_owned()];
        let layout = LayoutDescription::Stripe { unit: StripeUnit::Track };
        let written = Description::new(devices.clone(), Level::Raid0, layout);
        let text = written.text_for(&path).unwrap();
        assert!(
            text.contains("\"file:a.img\"") && text.contains("file:/elsewhere/b.img"),
            "{text}"
        );
        std::fs::write(&path, text).unwrap();
        let read = Description::read(&path).unwrap();
        assert_eq!(read.devices, devices);
        // Another spelling of the same file.
        std::fs::write(folder.path().join("a.img"), "x").unwrap();
        let detour = format!("file:{}/./a.img?direct=false", folder.path().display());
        assert_eq!(read.name_of(&detour), inside);
        assert_eq!(read.name_of("file:other.img"), "file:other.img");
    }

    #[test]
    fn bad_descriptions_name_the_key_and_the_line() {
        let check = |text: &str, expected: &[&str]| {
            let error = Description::parse(text, Path::new("v.toml")).unwrap_err().to_string();
            for part in expected.iter().chain(&["v.toml"]) {
                assert!(error.contains(part), "{error}");
            }
        };
        check("devices = []\n[stripe]\nunit = \"track\"", &["`devices`"]);
        check("devices = [\"sim:x\"]", &["[stripe]", "[quadrangle]"]);
        check("devices = [\"sim:x\"]\n[stripe]\nunit = \"10\"", &["`unit`", "not a multiple"]);
        check("devices = [\"sim:x\"]\n[quadrangle]\ndeph = 4", &["line 3", "`deph`"]);
        check("device = [\"sim:x\"]", &["line 1", "`device`"]);
        check("devices = [", &["line 1"]);
        check("devices = [\"sim:x\"]\nlevel = \"raid7\"\n[quadrangle]", &["`level`", "raid10"]);
    }
}
