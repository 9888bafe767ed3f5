//! Devices that a trace calls by name, numbered in the order in which they appear.

use super::Flaw;

/// More than any one trace has; a bound for the memory that names take.
const DEVICES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Devices {
    names: Vec<Box<[u8]>>,
}

impl Devices {
    /// The number of the device called `name`.
    pub(super) fn number(&mut self, column: &'static str, name: &[u8]) -> Result<u32, Flaw> {
        let known = self.names.iter().position(|known| **known == *name);
        let number = known.unwrap_or(self.names.len());
        if number == DEVICES_MAX {
            return Err(Flaw::Devices { column, max: DEVICES_MAX });
        }
        if known.is_none() {
            self.names.push(name.into());
        }
        Ok(number as u32)
    }
}
