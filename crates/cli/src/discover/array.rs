//! An array: disks and stripe units that show in the times of reads.

use moirai::discovery::Array;
use moirai::units::BlockCount;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ShownArray {
    /// How many were told apart.
    disks: Option<usize>,
    rotation_rpm: f64,
    /// Runs of stripe units of equal length.
    units: Vec<ShownUnits>,
}

#[derive(Serialize)]
struct ShownUnits {
    first_lbn: u64,
    unit_blocks: u64,
}

impl From<&Array> for ShownArray {
    fn from(found: &Array) -> ShownArray {
        let units = found.units.iter();
        let units =
            units.map(|(first, unit)| ShownUnits { first_lbn: first.0, unit_blocks: unit.0 });
        ShownArray {
            disks: found.disks,
            rotation_rpm: found.rotation.rpm(),
            units: units.collect(),
        }
    }
}

impl ShownArray {
    pub(super) fn disks(&self) -> Option<usize> {
        self.disks
    }

    /// The stripe unit, where there is one.
    pub(super) fn unit_bytes(&self) -> Option<u64> {
        match &*self.units {
            [all] => Some(BlockCount(all.unit_blocks).bytes().0),
            _ => None,
        }
    }

    pub(super) fn facts(&self) -> [(&'static str, String); 3] {
        let disks = self.disks.map_or_else(|| "several".to_owned(), |count| count.to_string());
        [
            ("disks that show", disks),
            ("stripe unit", self.unit()),
            ("rotation", format!("{:.1} rpm", self.rotation_rpm)),
        ]
    }

    fn unit(&self) -> String {
        let size = |units: &ShownUnits| BlockCount(units.unit_blocks).bytes().to_string();
        match &*self.units {
            [] => "not found".to_owned(),
            [all] => size(all),
            [first, ..] => format!("{} in the first of {} runs", size(first), self.units.len()),
        }
    }
}
