//! Sections of devices, as the parameter `section` of a URI names them.
//!
//! Several volumes lie on sections of the same disks. A file is locked by whoever opened it, so sections
//! of one file that are open in one program share the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use moirai_storage::{Device, DeviceUri, Result, Section};
use moirai_units::BlockRange;
use parking_lot::Mutex;

use crate::Access;

/// Files of which sections are open to write, or only to read.
static OPEN: Mutex<BTreeMap<(PathBuf, bool), Weak<dyn Device>>> = Mutex::new(BTreeMap::new());

/// The `section` of the device that `uri` names; `open` opens the whole.
pub(crate) fn open(
    uri: &DeviceUri,
    blocks: BlockRange,
    access: Access<'_>,
    open: impl FnOnce(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<dyn Device>> {
    let whole: DeviceUri = uri.without("section").parse()?;
    let file = whole.data_path().map(|path| path.canonicalize().unwrap_or(path));
    let Some(file) = file else {
        return Ok(Section::of(open(whole)?, blocks)?);
    };
    let key = (file, access.is_read_only());
    let mut open_files = OPEN.lock();
    open_files.retain(|_, device| device.strong_count() > 0);
    let shared = open_files.get(&key).and_then(Weak::upgrade);
    let device = match shared {
        Some(device) => device,
        None => {
            let device = open(whole)?;
            // A file that was just created has its canonical name now.
            let (file, reads) = key;
            let file = file.canonicalize().unwrap_or(file);
            open_files.insert((file, reads), Arc::downgrade(&device));
            device
        }
    };
    Ok(Section::of(device, blocks)?)
}
