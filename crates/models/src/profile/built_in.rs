//! The drives that the library knows.

/// Names and texts, sorted by name.
pub(super) const PROFILES: [(&str, &str); 19] = [
    ("dec-rz26", include_str!("../../profiles/dec-rz26.toml")),
    ("fujitsu-mag3091", include_str!("../../profiles/fujitsu-mag3091.toml")),
    ("fujitsu-maj3182mc", include_str!("../../profiles/fujitsu-maj3182mc.toml")),
    ("fujitsu-man3367mp", include_str!("../../profiles/fujitsu-man3367mp.toml")),
    ("hp-c2247", include_str!("../../profiles/hp-c2247.toml")),
    ("hp-c3323a", include_str!("../../profiles/hp-c3323a.toml")),
    ("ibm-deskstar-dtla-307030", include_str!("../../profiles/ibm-deskstar-dtla-307030.toml")),
    ("ibm-ultrastar-18es", include_str!("../../profiles/ibm-ultrastar-18es.toml")),
    ("ibm-ultrastar-18lzx", include_str!("../../profiles/ibm-ultrastar-18lzx.toml")),
    ("maxtor-atlas-10k-iii", include_str!("../../profiles/maxtor-atlas-10k-iii.toml")),
    ("modern-20tb-7200", include_str!("../../profiles/modern-20tb-7200.toml")),
    ("quantum-atlas-10k", include_str!("../../profiles/quantum-atlas-10k.toml")),
    (
        "quantum-atlas-10k-extracted",
        include_str!("../../profiles/quantum-atlas-10k-extracted.toml"),
    ),
    ("quantum-atlas-10k-ii", include_str!("../../profiles/quantum-atlas-10k-ii.toml")),
    ("quantum-viking", include_str!("../../profiles/quantum-viking.toml")),
    ("seagate-barracuda-4lp", include_str!("../../profiles/seagate-barracuda-4lp.toml")),
    ("seagate-cheetah-36es", include_str!("../../profiles/seagate-cheetah-36es.toml")),
    ("seagate-cheetah-4lp", include_str!("../../profiles/seagate-cheetah-4lp.toml")),
    ("seagate-cheetah-x15", include_str!("../../profiles/seagate-cheetah-x15.toml")),
];

/// The names of the built-in profiles, sorted.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
