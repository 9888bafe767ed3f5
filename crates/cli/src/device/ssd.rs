//! What there is to say of an SSD.

use moirai::units::{ByteCount, grouped};
use moirai_models::{SsdProfile, SsdProfileFile};
use serde::Serialize;

/// The parameters, and what follows from them.
#[derive(Serialize)]
pub(super) struct ShownSsd {
    dies: u32,
    superblock_bytes: u64,
    flash_bytes: u64,
    #[serde(flatten)]
    pub(super) file: SsdProfileFile,
}

impl From<SsdProfile> for ShownSsd {
    fn from(profile: SsdProfile) -> ShownSsd {
        let superblock_bytes = profile.ensemble.bytes().0;
        let superblocks = u64::from(profile.dies) * u64::from(profile.file.blocks_per_plane);
        ShownSsd {
            dies: profile.dies,
            superblock_bytes,
            flash_bytes: superblock_bytes * superblocks,
            file: profile.file,
        }
    }
}

impl ShownSsd {
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let file = &self.file;
        let dies = format!("{} on {} channels", self.dies, file.channels);
        let pages =
            format!("{} of {}", file.pages_per_block, ByteCount(u64::from(file.page_bytes)));
        vec![
            ("flash", ByteCount(self.flash_bytes).to_string()),
            ("dies", dies),
            ("planes of a die", file.planes_per_die.to_string()),
            ("erase blocks of a plane", grouped(u64::from(file.blocks_per_plane))),
            ("pages of an erase block", pages),
            ("read, program a page", format!("{:.0} us, {:.0} us", file.read_us, file.program_us)),
            ("erase", format!("{:.1} ms", file.erase_us / 1e3)),
            (
                "channel, host's bus",
                format!("{:.1}, {:.1} MB/s", file.channel_mb_per_s, file.host_mb_per_s),
            ),
            ("command", format!("{:.0} us", file.command_us)),
            ("write buffer", format!("{} pages", file.buffer_pages)),
        ]
    }
}
