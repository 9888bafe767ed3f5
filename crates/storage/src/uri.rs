//! Devices are named by URI: `sim:quantum-atlas-10k`, `file:/srv/vol.img?size=8GiB`.

use std::fmt;
use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;

use crate::{Error, Result};

/// A device's name: a scheme, a target, and parameters.
///
/// The scheme decides which parameters exist. The opener takes each parameter that it knows with
/// [`take`](DeviceUri::take) and then calls [`finish`](DeviceUri::finish), so that a misspelt
/// parameter is an error and is not ignored.
///
/// Relative paths in a URI (the target of `file:` and `volume:`, a profile's file, `data=`, `profile=`) are relative to
/// the current folder; in the description of a volume they are relative to the description's folder
/// ([`resolved`](DeviceUri::resolved), [`relative_to`](DeviceUri::relative_to)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUri {
    text: String,
    /// The part before the first colon.
    pub scheme: String,
    /// The path or profile that the scheme opens.
    pub target: String,
    parameters: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl FromStr for DeviceUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |problem: &str| Error::Uri { uri: text.to_owned(), problem: problem.to_owned() };
        let (scheme, rest) = text.split_once(':').ok_or_else(|| {
            bad("write a scheme, a colon and a target, like file:./vol.img?size=8GiB or sim:quantum-atlas-10k")
        })?;
        let (target, query) = rest.split_once('?').unwrap_or((rest, ""));
        if target.is_empty() {
            return Err(bad("nothing follows the colon"));
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                bad(&format!("parameter `{pair}` has no value: write {pair}=..."))
            })?;
            if parameters.iter().any(|(known, _)| known == key) {
                return Err(bad(&format!("parameter `{key}` is given twice")));
            }
            parameters.push((key.to_owned(), value.to_owned()));
        }
        Ok(DeviceUri {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            target: target.to_owned(),
            parameters,
            known: Vec::new(),
        })
    }
}

impl DeviceUri {
    /// Takes the parameter `key` and reads its value; `None` when it is not given.
    pub fn take<T>(&mut self, key: &'static str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.known.push(key);
        let Some(index) = self.parameters.iter().position(|(name, _)| name == key) else {
            return Ok(None);
        };
        let (_, value) = self.parameters.swap_remove(index);
        value
            .parse()
            .map(Some)
            .map_err(|problem| self.error(format!("parameter `{key}`: {problem}")))
    }

    /// An error when parameters are left that were not taken.
    pub fn finish(&self) -> Result<()> {
        match self.parameters.first() {
            None => Ok(()),
            Some((key, _)) if self.known.is_empty() => {
                Err(self.error(format!("`{}:` takes no parameter `{key}`", self.scheme)))
            }
            Some((key, _)) => Err(self.error(format!(
                "`{}:` takes no parameter `{key}`; it takes {}",
                self.scheme,
                self.known.join(", ")
            ))),
        }
    }

    /// The URI without the parameter `key`.
    #[must_use]
    pub fn without(&self, key: &str) -> String {
        let mut other = self.clone();
        other.parameters.retain(|(name, _)| name != key);
        other.written()
    }

    /// The URI with relative paths taken as relative to `folder`.
    #[must_use]
    pub fn resolved(&self, folder: &Path) -> DeviceUri {
        self.with_paths(|path| folder.join(path))
    }

    /// The URI for a description in `folder`, of one whose paths are relative to the current folder: paths below
    /// `folder` become relative to it, the others absolute.
    #[must_use]
    pub fn relative_to(&self, folder: &Path) -> DeviceUri {
        self.with_paths(|path| {
            if folder.as_os_str().is_empty() {
                return path.to_owned();
            }
            let (Ok(base), Ok(whole)) = (absolute(folder), absolute(path)) else {
                return path.to_owned();
            };
            whole.strip_prefix(&base).map(Path::to_owned).unwrap_or(whole)
        })
    }

    /// The file that holds the device's data: of `file:`, or of the `data` parameter.
    #[must_use]
    pub fn data_path(&self) -> Option<PathBuf> {
        let data = self.parameters.iter().find(|(name, _)| name == "data");
        if self.scheme == "scsi" {
            return Some(PathBuf::from(&self.target));
        }
        match (self.scheme.as_str(), data) {
            ("file" | "block", _) => Some(PathBuf::from(&self.target)),
            (_, Some((_, path))) if path != "none" => Some(PathBuf::from(path)),
            _ => None,
        }
    }

    /// The paths that the URI names: of a file, a volume's description, a profile, a disk's contents.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        self.with_paths(|path| {
            paths.push(path.to_owned());
            path.to_owned()
        });
        paths
    }

    /// The URI with other paths in the places of its own.
    fn with_paths(&self, mut replace: impl FnMut(&Path) -> PathBuf) -> DeviceUri {
        let mut other = self.clone();
        let mut replaced = |text: &str| replace(Path::new(text)).to_string_lossy().into_owned();
        let is_path = match self.scheme.as_str() {
            "file" | "block" | "volume" | "scsi" => true,
            // A built-in profile's name has no extension.
            "sim" => Path::new(&self.target).extension().is_some() || self.target.contains('/'),
            _ => false,
        };
        if is_path {
            other.target = replaced(&self.target);
        }
        for (name, value) in &mut other.parameters {
            if name == "profile" || (name == "data" && value != "none") {
                *value = replaced(value);
            }
        }
        other.text = other.written();
        other
    }

    fn written(&self) -> String {
        let mut text = format!("{}:{}", self.scheme, self.target);
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            text.push_str(&format!("{}{name}={value}", if index == 0 { '?' } else { '&' }));
        }
        text
    }

    /// An error that names this URI.
    #[must_use]
    pub fn error(&self, problem: impl Into<String>) -> Error {
        Error::Uri { uri: self.text.clone(), problem: problem.into() }
    }
}

impl fmt::Display for DeviceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_units::ByteCount;

    #[test]
    fn a_uri_has_a_scheme_a_target_and_parameters() {
        let mut uri: DeviceUri = "file:/srv/vol.img?size=8GiB".parse().unwrap();
        assert_eq!((uri.scheme.as_str(), uri.target.as_str()), ("file", "/srv/vol.img"));
        assert_eq!(uri.take::<ByteCount>("size").unwrap(), Some(ByteCount(8 << 30)));
        assert_eq!(uri.take::<u64>("other").unwrap(), None);
        uri.finish().unwrap();
    }

    #[test]
    fn bad_uris_say_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let error = text
                .parse::<DeviceUri>()
                .and_then(|mut uri| {
                    uri.take::<ByteCount>("size")?;
                    uri.finish()
                })
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected) && error.contains(text), "{error}");
        };
        check("vol.img", "write a scheme");
        check("file:", "nothing follows the colon");
        check("file:x?size", "parameter `size` has no value");
        check("file:x?size=big", "parameter `size`: `big` is not a size");
        check("file:x?size=1&size=2", "given twice");
        check("file:x?sise=1MiB", "takes no parameter `sise`; it takes size");
    }

    #[test]
    fn paths_are_resolved_and_made_relative() {
        let check = |given: &str, folder: &str, expected: &str| {
            let uri: DeviceUri = given.parse().unwrap();
            assert_eq!(uri.resolved(Path::new(folder)).to_string(), expected);
        };
        check("file:a.img?size=1GiB", "/srv", "file:/srv/a.img?size=1GiB");
        check("file:/b/a.img", "/srv", "file:/b/a.img");
        check("volume:v.toml", "sub", "volume:sub/v.toml");
        check(
            "sim:seagate-cheetah-36es?data=d.img",
            "sub",
            "sim:seagate-cheetah-36es?data=sub/d.img",
        );
        check("sim:mine.toml?data=none", "sub", "sim:sub/mine.toml?data=none");
        check("file:a.img", "", "file:a.img");

        let relative = |given: &str, folder: &str| {
            let uri: DeviceUri = given.parse().unwrap();
            uri.relative_to(Path::new(folder)).to_string()
        };
        let data = |text: &str| text.parse::<DeviceUri>().unwrap().data_path();
        assert_eq!(data("file:a.img?size=1"), Some("a.img".into()));
        assert_eq!(data("sim:mine.toml?data=d.img"), Some("d.img".into()));
        assert_eq!((data("sim:mine.toml"), data("sim:mine.toml?data=none")), (None, None));
        assert_eq!(relative("file:sub/a.img?size=4096", "sub"), "file:a.img?size=4096");
        assert_eq!(relative("file:/srv/v/a.img", "/srv/v"), "file:a.img");
        assert_eq!(relative("file:../a.img", ""), "file:../a.img");
        assert_eq!(relative("file:/other/a.img", "/srv/v"), "file:/other/a.img");
        // There and back.
        let uri: DeviceUri = "sim:x.toml?data=d.img".parse().unwrap();
        let back = uri.relative_to(Path::new("sub")).resolved(Path::new("sub"));
        assert_eq!(
            back.paths().first().map(|path| absolute(path).unwrap()),
            Some(absolute("x.toml").unwrap())
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<DeviceUri>();
        }
    }
}
