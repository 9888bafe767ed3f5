//! The parameters of an SSD, as they stand in a TOML file and as the model wants them.

use std::collections::BTreeMap;

use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use serde::{Deserialize, Serialize};

use super::ftl::SPARE_LEAST;
use crate::ProfileError;
use crate::profile::{bad, within};

const PROFILES: [(&str, &str); 1] = [("ssd-slc", include_str!("../../profiles/ssd-slc.toml"))];

/// Flash pages at most: the maps take 8 bytes of memory for each.
const PAGES_MAX: f64 = (1u64 << 28) as f64;

/// The names of the built-in SSDs, sorted.
pub fn built_in_ssd_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// What `kind` is in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SsdKind {
    /// An SSD.
    #[default]
    Ssd,
}

/// A profile's keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdProfileFile {
    /// `ssd`: a file without it describes a disk.
    pub kind: SsdKind,
    /// What `sim:` URIs call it.
    pub name: String,
    /// The SSD in words.
    pub description: String,
    /// Buses between the controller and the flash.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Parts of a die that read, program and erase side by side.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// What is read and programmed at once, and what the map is of.
    pub page_bytes: u32,
    /// The part of the flash that the host does not see (over-provisioning), a little more for what is not a whole ensemble.
    pub spare_share: f64,
    /// Ensembles of a die that may be written in order at once, with a superblock each.
    pub streams_per_die: u32,
    /// A page from the flash into the die's register.
    pub read_us: f64,
    /// A page from the register into the flash.
    pub program_us: f64,
    /// Erasing a block.
    pub erase_us: f64,
    /// A channel, in million bytes a second.
    pub channel_mb_per_s: f64,
    /// The host's bus, in million bytes a second.
    pub host_mb_per_s: f64,
    /// Command processing.
    pub command_us: f64,
    /// Pages that were written and may wait in memory for the flash: lost when the power fails.
    pub buffer_pages: u32,
    /// Where numbers come from, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// The parameters of a simulated SSD.
#[derive(Clone, Debug)]
pub struct SsdProfile {
    /// What it was made from.
    pub file: SsdProfileFile,
    /// Dies.
    pub dies: u32,
    /// Blocks of a page.
    pub page_blocks: BlockCount,
    /// Pages of a superblock, which has an erase block of each plane of a die.
    pub superblock_pages: u32,
    /// Ensembles, each as long as a superblock, that lie on a die.
    pub ensembles_per_die: u32,
    /// Blocks of an ensemble.
    pub ensemble: BlockCount,
    /// Command processing.
    pub command: Nanos,
    /// A page from the flash into the die's register.
    pub read: Nanos,
    /// A page from the register into the flash.
    pub program: Nanos,
    /// Erasing a superblock.
    pub erase: Nanos,
    /// A page on a channel.
    pub channel_page: Nanos,
    /// A block on the host's bus.
    pub host_block: Nanos,
}

impl SsdProfile {
    /// The built-in profile `name`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test reads every built-in profile")]
    pub fn built_in(name: &str) -> Option<SsdProfile> {
        let (_, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
        Some(SsdProfile::parse(text).expect("a valid built-in profile"))
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<SsdProfile, ProfileError> {
        let file: SsdProfileFile =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        SsdProfile::new(file)
    }

    /// Checks a profile and works it out.
    pub fn new(file: SsdProfileFile) -> Result<SsdProfile, ProfileError> {
        for (key, count, most) in [
            ("channels", file.channels, 1e3),
            ("dies_per_channel", file.dies_per_channel, 1e3),
            ("planes_per_die", file.planes_per_die, 64.0),
            ("pages_per_block", file.pages_per_block, 1e5),
            ("streams_per_die", file.streams_per_die, 1e3),
            ("buffer_pages", file.buffer_pages, 1e6),
        ] {
            within(key, f64::from(count), 1.0, most)?;
        }
        let block = BLOCK_BYTES as u32;
        if !file.page_bytes.is_power_of_two() || !(block..=1 << 16).contains(&file.page_bytes) {
            let problem =
                format!("{} is not a power of two from {block} to 65536", file.page_bytes);
            return Err(bad("page_bytes", problem));
        }
        for (key, us) in [
            ("read_us", file.read_us),
            ("program_us", file.program_us),
            ("erase_us", file.erase_us),
            ("command_us", file.command_us),
        ] {
            within(key, us, 0.0, 1e6)?;
        }
        within("channel_mb_per_s", file.channel_mb_per_s, 1e-3, 1e9)?;
        within("host_mb_per_s", file.host_mb_per_s, 1e-3, 1e9)?;
        within("spare_share", file.spare_share, 0.0, 0.9)?;
        let superblock_pages = file.planes_per_die * file.pages_per_block;
        let dies = f64::from(file.channels) * f64::from(file.dies_per_channel);
        let most = (PAGES_MAX / f64::from(superblock_pages) / dies).floor();
        within("blocks_per_plane", f64::from(file.blocks_per_plane), 1.0, most)?;
        let seen = f64::from(file.blocks_per_plane) * (1.0 - file.spare_share);
        let spare_least = file.streams_per_die + SPARE_LEAST;
        let ensembles_per_die =
            (seen.floor() as u32).min(file.blocks_per_plane.saturating_sub(spare_least));
        if ensembles_per_die == 0 {
            let problem = format!(
                "{} leaves no ensemble: {spare_least} and what is spare are needed beside the data",
                file.blocks_per_plane
            );
            return Err(bad("blocks_per_plane", problem));
        }
        let page_blocks = BlockCount(u64::from(file.page_bytes / block));
        let us = |us: f64| Nanos((us * 1e3).round() as u64);
        let transfer =
            |bytes: u64, mb_per_s: f64| Nanos((bytes as f64 * 1e3 / mb_per_s).round() as u64);
        Ok(SsdProfile {
            dies: file.channels * file.dies_per_channel,
            page_blocks,
            superblock_pages,
            ensembles_per_die,
            ensemble: BlockCount(page_blocks.0 * u64::from(superblock_pages)),
            command: us(file.command_us),
            read: us(file.read_us),
            program: us(file.program_us),
            erase: us(file.erase_us),
            channel_page: transfer(u64::from(file.page_bytes), file.channel_mb_per_s),
            host_block: transfer(BLOCK_BYTES, file.host_mb_per_s),
            file,
        })
    }

    /// This one with so many erase blocks that the host sees at least `size`.
    pub fn with_size(&self, size: ByteCount) -> Result<SsdProfile, ProfileError> {
        let row = self.ensemble.bytes().0 * u64::from(self.dies);
        if size.0 == 0 {
            return Err(bad("blocks_per_plane", "an SSD has at least one block"));
        }
        let ensembles = size.0.div_ceil(row);
        let spare_least = f64::from(self.file.streams_per_die + SPARE_LEAST);
        let share = 1.0 - self.file.spare_share;
        let blocks = (ensembles as f64 / share).ceil().max(ensembles as f64 + spare_least);
        let blocks_per_plane = if blocks < f64::from(u32::MAX) { blocks as u32 } else { u32::MAX };
        let sized = |blocks_per_plane| {
            SsdProfile::new(SsdProfileFile { blocks_per_plane, ..self.file.clone() })
        };
        let profile = sized(blocks_per_plane)?;
        // What is spare is rounded up, and may take the last ensemble.
        match u64::from(profile.ensembles_per_die) < ensembles {
            true => sized(blocks_per_plane.saturating_add(1)),
            false => Ok(profile),
        }
    }

    /// The blocks that the host sees.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        BlockCount(self.ensemble.0 * u64::from(self.dies) * u64::from(self.ensembles_per_die))
    }

    /// The ensemble around a block: the pages that lie on one die.
    #[must_use]
    pub fn ensemble(&self, lbn: Lbn) -> BlockRange {
        BlockRange::new(Lbn(lbn.0 / self.ensemble.0 * self.ensemble.0), self.ensemble)
    }

    /// The ensembles around a block that lie on one die each.
    #[must_use]
    pub fn row(&self, lbn: Lbn) -> BlockRange {
        let row = BlockCount(self.ensemble.0 * u64::from(self.dies));
        BlockRange::new(Lbn(lbn.0 / row.0 * row.0), row)
    }

    /// What crossing a boundary between ensembles costs: another superblock to erase, as the number of blocks that could have been
    /// programmed meanwhile.
    #[must_use]
    pub fn switch(&self) -> BlockCount {
        let page = (self.program.0 / u64::from(self.file.planes_per_die)).max(1);
        BlockCount(self.erase.0 / page * self.page_blocks.0)
    }
}
