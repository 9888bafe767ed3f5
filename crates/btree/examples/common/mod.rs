//! What the examples share: their devices and their keys.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use moirai_devices::{Access, NewFiles};
use moirai_storage::Device;
use moirai_units::ByteCount;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) const KEY_BYTES: usize = 16;
pub(crate) const LEAF: ByteCount = ByteCount(8 << 10);

/// A new file of so many bytes in `folder`.
pub(crate) fn device(folder: &Path, name: &str, size: ByteCount) -> Outcome<Arc<dyn Device>> {
    let path = folder.join(name);
    // Left over from a run that was cut off.
    drop(std::fs::remove_file(&path));
    let uri = format!("file:{}?size={}MiB", path.display(), size.0 >> 20);
    Ok(moirai_devices::open(uri.parse()?, Access::Create(&NewFiles::new()))?)
}

/// The key of a record, in the order of the numbers.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (to, from) in key.iter_mut().rev().zip(number.to_le_bytes()) {
        *to = from;
    }
    key
}
