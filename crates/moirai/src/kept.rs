//! What was discovered of a device, kept in a file: its ensembles, and a few timings by which it is known again.
//!
//! `docs/formats/device-profile.md` describes the file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use moirai_discovery::{Angle, Annotated, TrackMap};
use moirai_storage::{Device, DeviceUri, Error, Result};
use moirai_units::{BlockCount, Lbn};
use serde::{Deserialize, Serialize};

/// What the first line of a file begins with.
const KEPT_MAGIC: &str = "# moirai device profile";
/// The version of the format.
const KEPT_VERSION: u32 = 1;
/// How much of a device's name is in that of its file.
const NAME_CHARS: usize = 64;
/// More blocks than any device has: their bytes can be counted.
const BLOCKS_MAX: u64 = 1 << 54;
/// How the names of the files end.
const KEPT_EXTENSION: &str = "device";

/// What was discovered of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The device, as its URI names it, without parameters.
    pub device: String,
    /// Its size.
    pub capacity_blocks: u64,
    /// How it was found out: `diagnostic` or `timing`.
    pub method: String,
    /// How many requests at a time bring all that more would.
    pub parallelism: u32,
    /// The time of a revolution in ns, of what turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_ns: Option<f64>,
    /// Angles between blocks: two blocks, and the time in ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub angles: Vec<(u64, u64, f64)>,
    /// Ensembles of equal length: the first block of the first, blocks of each, and the switch behind each.
    pub ensembles: Vec<(u64, u32, u32)>,
    /// Where ensembles are guesses: the first block of each range, and its blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<(u64, u64)>,
}

impl Kept {
    /// The angles, as they were measured.
    pub fn angles(&self) -> impl Iterator<Item = Angle> + '_ {
        let angle =
            |(from, to, ns): &(u64, u64, f64)| Angle { from: Lbn(*from), to: Lbn(*to), ns: *ns };
        self.angles.iter().map(angle)
    }

    /// Whether it is of an array of disks: the angles between those change, and are not kept.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.rotation_ns.is_some() && self.parallelism > 1
    }

    /// Its ensembles.
    #[must_use]
    pub fn map(&self) -> TrackMap {
        TrackMap::from_runs(self.ensembles.iter().copied(), BlockCount(self.capacity_blocks))
    }

    /// The text of a file.
    #[must_use]
    pub fn text(&self) -> String {
        // Plain values, all of which TOML has.
        let body = toml::to_string(self).unwrap_or_default();
        let checksum = crc32c::crc32c(body.as_bytes());
        format!("{KEPT_MAGIC} {KEPT_VERSION}, crc32c {checksum:08x}\n{body}")
    }

    /// Reads the text of a file; the message says what is wrong with it.
    pub fn parse(text: &str) -> std::result::Result<Kept, String> {
        let (line, body) = text.split_once('\n').unwrap_or((text, ""));
        let rest = line.strip_prefix(KEPT_MAGIC).ok_or_else(|| {
            format!(
                "it is no profile of a device: the first line does not begin with `{KEPT_MAGIC}`"
            )
        })?;
        let (version, checksum) = rest
            .trim()
            .split_once(", crc32c ")
            .ok_or("its first line has no version or checksum")?;
        if version != KEPT_VERSION.to_string() {
            return Err(format!(
                "it has format version {version}, and this program reads {KEPT_VERSION}: discover the device again"
            ));
        }
        if checksum.trim_end() != format!("{:08x}", crc32c::crc32c(body.as_bytes())) {
            return Err("its checksum does not match: discover the device again".to_owned());
        }
        Kept::parse_body(body)
    }

    /// Reads what lies behind the first line.
    pub fn parse_body(body: &str) -> std::result::Result<Kept, String> {
        let kept: Kept = toml::from_str(body).map_err(|problem| problem.to_string())?;
        kept.check()?;
        Ok(kept)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let ascends = self.ensembles.is_sorted_by(|one, next| one.0 < next.0);
        let begins = self.ensembles.first().is_some_and(|run| run.0 == 0);
        let fits = self.ensembles.iter().all(|run| run.0 < self.capacity_blocks && run.1 > 0);
        if self.capacity_blocks > BLOCKS_MAX {
            return Err(format!("it says that the device has {} blocks", self.capacity_blocks));
        }
        if !(ascends && begins && fits) {
            return Err(
                "its ensembles do not begin at 0 and ascend to the end of the device".to_owned()
            );
        }
        let is_within = |(first, blocks): &(u64, u64)| {
            first.checked_add(*blocks).is_some_and(|end| end <= self.capacity_blocks)
        };
        if !self.unsure.iter().all(is_within) {
            return Err("it doubts blocks that the device does not have".to_owned());
        }
        let known = |lbn: u64| lbn < self.capacity_blocks;
        let turns = |ns: f64| ns.is_finite() && ns > 0.0;
        let is_fine = self.angles.iter().all(|(a, b, ns)| known(*a) && known(*b) && ns.is_finite());
        match is_fine && self.rotation_ns.is_none_or(turns) {
            true => Ok(()),
            false => {
                Err("its times are of blocks that the device does not have, or no times".to_owned())
            }
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no such profile.
    pub fn load(path: &Path) -> Result<Kept> {
        let text = std::fs::read_to_string(path).map_err(|source| file(path, "reading", source))?;
        Kept::parse(&text).map_err(|problem| Error::Description { path: path.to_owned(), problem })
    }

    /// Writes the file of its device in `folder`, over an older one; gives its path.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).map_err(|source| file(folder, "creating", source))?;
        let path = folder.join(name_of(&self.device));
        // Under a name of its own first: others may save, too, and the machine may stop in between.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = File::create(&new).and_then(|mut to| {
            to.write_all(self.text().as_bytes())?;
            to.sync_all()
        });
        written.map_err(|source| file(&new, "writing", source))?;
        std::fs::rename(&new, &path).map_err(|source| file(&path, "renaming", source))?;
        Ok(path)
    }
}

fn file(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::File { path: path.to_owned(), action, source }
}

/// What the profile of a device is kept under: the URI without parameters but that of a section, of a file with its whole path.
///
/// # Errors
/// A text that is no URI.
pub fn identity(uri: &str) -> Result<String> {
    let mut uri: DeviceUri = uri.parse()?;
    // A drive's name in /dev may be another one's tomorrow: what was given counts, and not what a link leads to.
    let whole = match uri.scheme.as_str() {
        "file" | "volume" => Path::new(&uri.target).canonicalize().ok(),
        _ => None,
    };
    let target = whole.map_or_else(|| uri.target.clone(), |whole| whole.display().to_string());
    // Sections of one disk are devices of their own.
    let section: Option<String> = uri.take("section")?;
    let section = section.map_or_else(String::new, |section| format!("?section={section}"));
    Ok(format!("{}:{target}{section}", uri.scheme))
}

fn name_of(identity: &str) -> String {
    let readable: String = identity
        .rsplit('/')
        .next()
        .unwrap_or(identity)
        .chars()
        .take(NAME_CHARS)
        .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
        .collect();
    format!("{readable}-{:08x}.{KEPT_EXTENSION}", crc32c::crc32c(identity.as_bytes()))
}

/// The file in which the profile of a device is kept, if it is.
///
/// # Errors
/// A text that is no URI.
pub fn kept_path(folder: &Path, uri: &str) -> Result<Option<PathBuf>> {
    let path = folder.join(name_of(&identity(uri)?));
    Ok(path.is_file().then_some(path))
}

/// All files of a folder with profiles of devices, by name.
#[must_use]
pub fn kept_paths(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == KEPT_EXTENSION))
        .collect();
    paths.sort_unstable();
    paths
}

/// Opens a device; a file, a block device or a SCSI drive with the ensembles that the profile in its parameter `profile` says.
pub(crate) fn open(
    mut uri: DeviceUri,
    open: impl FnOnce(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<dyn Device>> {
    if !matches!(uri.scheme.as_str(), "file" | "block" | "scsi") {
        return open(uri);
    }
    let profile: Option<PathBuf> = uri.take("profile")?;
    let Some(path) = profile else { return open(uri) };
    let kept = Kept::load(&path)?;
    let own = identity(&uri.to_string())?;
    if kept.device != own {
        tracing::warn!(
            "{}: it is the profile of {}, and serves {own} here: `moirai device check` tells whether it fits",
            path.display(),
            kept.device
        );
    }
    let device = open(uri)?;
    let capacity = device.inquiry().capacity;
    if capacity.0 != kept.capacity_blocks {
        let problem = format!(
            "it is of a device of {}, and {} has {capacity}: discover the device again",
            BlockCount(kept.capacity_blocks),
            device.inquiry().name
        );
        return Err(Error::Description { path, problem });
    }
    Ok(Arc::new(Annotated::new(device, kept.map())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept {
            device: "file:/srv/vol.img".to_owned(),
            capacity_blocks: 1000,
            method: "timing".to_owned(),
            parallelism: 4,
            rotation_ns: Some(5_985_037.4),
            angles: vec![(99, 100, 1234.5), (700, 3, -77.0)],
            ensembles: vec![(0, 100, 9), (500, 90, 8)],
            unsure: vec![(100, 200)],
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        assert_eq!(Kept::parse(&kept().text()), Ok(kept()));
        let folder = tempfile::tempdir().unwrap();
        let path = kept().save(folder.path()).unwrap();
        assert_eq!(Kept::load(&path).unwrap(), kept());
        assert_eq!(kept_paths(folder.path()), [path]);
    }

    #[test]
    fn what_reads_only_is_served_with_its_profile() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("x.img");
        std::fs::write(&image, vec![0; 512 << 10]).unwrap();
        for own in ["file:/srv/x.img", "block:/dev/sdx", "scsi:/dev/sg7"] {
            let kept = Kept { device: own.to_owned(), capacity_blocks: 1024, ..kept() };
            let path = kept.save(folder.path()).unwrap();
            let uri = format!("{own}?profile={}", path.display()).parse().unwrap();
            let opened = super::open(uri, |_| {
                let image = format!("file:{}", image.display()).parse()?;
                moirai_devices::open(image, moirai_devices::Access::Read)
            });
            let ensemble = opened.unwrap().ensemble(Lbn(250)).unwrap();
            assert_eq!((ensemble.blocks.first, ensemble.blocks.count), (Lbn(200), BlockCount(100)));
        }
    }

    #[test]
    fn devices_of_other_blocks_are_other_devices() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.img");
        std::fs::write(&file, b"x").unwrap();
        let of = |uri: &str| identity(uri).unwrap();
        let data = format!("?data={}", file.display());
        // Not the file that a simulated disk keeps its data in.
        assert_eq!(of(&format!("sim:quantum-atlas-10k{data}")), "sim:quantum-atlas-10k");
        assert_ne!(of(&format!("sim:quantum-atlas-10k{data}")), of(&format!("sim:ibm-18es{data}")));
        let file = format!("file:{}", file.display());
        assert_eq!(of(&format!("{file}?direct=false")), of(&file));
        assert_ne!(of(&format!("{file}?section=0+8")), of(&format!("{file}?section=8+8")));
    }

    #[test]
    fn a_profile_that_was_changed_is_an_error() {
        let text = kept().text();
        for (at, _) in text.char_indices() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(Kept::parse(&changed).is_err() || changed == text, "{at}: {changed}");
            assert!(Kept::parse(&text[..at]).is_err());
        }
        let bad = [
            Kept { ensembles: vec![], ..kept() },
            Kept { ensembles: vec![(1, 10, 0)], ..kept() },
            Kept { ensembles: vec![(0, 0, 0)], ..kept() },
            Kept { ensembles: vec![(0, 10, 0), (1000, 10, 0)], ..kept() },
            Kept { angles: vec![(0, 1000, 0.0)], ..kept() },
            Kept { unsure: vec![(1, 1000)], ..kept() },
            Kept { unsure: vec![(u64::MAX, 2)], ..kept() },
            Kept { rotation_ns: Some(f64::NAN), ..kept() },
        ];
        for bad in bad {
            assert!(Kept::parse(&bad.text()).is_err(), "{bad:?}");
        }
    }
}
