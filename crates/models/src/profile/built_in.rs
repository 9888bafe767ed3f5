//! The drives that the library knows.

/// Names and texts, sorted by name.
pub(super) const PROFILES: [(&str, &str); 3] = [
    ("maxtor-atlas-10k-iii", include_str!("../../profiles/maxtor-atlas-10k-iii.toml")),
    ("quantum-atlas-10k", include_str!("../../profiles/quantum-atlas-10k.toml")),
    ("seagate-cheetah-36es", include_str!("../../profiles/seagate-cheetah-36es.toml")),
];

/// The names of the built-in profiles, sorted.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
