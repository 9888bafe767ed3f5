//! Devices are named by URI: `sim:quantum-atlas-10k`, `file:/srv/vol.img?size=8GiB`.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A device's name: a scheme, what it names, and parameters.
///
/// The scheme decides which parameters there are. Who opens the device takes each one it knows with
/// [`take`](DeviceUri::take) and then calls [`finish`](DeviceUri::finish), so that a misspelt
/// parameter is an error and not ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUri {
    text: String,
    /// What comes before the first colon.
    pub scheme: String,
    /// What the scheme opens: a path, or a profile's name.
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
            return Err(bad("nothing stands behind the colon"));
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

    /// An error when parameters are left that nobody took.
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
        let mut text = format!("{}:{}", self.scheme, self.target);
        let others = self.parameters.iter().filter(|(name, _)| name != key);
        for (index, (name, value)) in others.enumerate() {
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
        check("file:", "nothing stands behind the colon");
        check("file:x?size", "parameter `size` has no value");
        check("file:x?size=big", "parameter `size`: `big` is no size");
        check("file:x?size=1&size=2", "given twice");
        check("file:x?sise=1MiB", "takes no parameter `sise`; it takes size");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<DeviceUri>();
        }
    }
}
