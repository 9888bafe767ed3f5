//! Direct I/O: transfers of a file that do not go through the page cache.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use moirai_storage::IoBuf;
use rustix::fs::{AtFlags, OFlags};

use crate::file_parts::PAGE;
use crate::system::direct_io_of;

/// A file for direct I/O, and how its transfers are to be aligned, in bytes.
pub(crate) struct Direct {
    pub(crate) file: File,
    offset_align: u64,
    memory_align: usize,
}

impl Direct {
    /// Opens it; `None` where the file system has no direct I/O.
    pub(crate) fn open(path: &Path, read_only: bool) -> Option<Direct> {
        let flags = OFlags::DIRECT.bits() as i32;
        let file =
            OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path).ok()?;
        let page = PAGE.bytes().0;
        let mut direct = Direct { file, offset_align: page, memory_align: page as usize };
        // Where the kernel does not tell the alignment, a page is right for every file system.
        if let Some(align) = direct_io_of(&direct.file, "", AtFlags::EMPTY_PATH) {
            if align.offset == 0 {
                return None;
            }
            (direct.offset_align, direct.memory_align) = (align.offset, align.memory);
        }
        // Some file systems accept the flag and refuse the first transfer.
        let mut probe = IoBuf::zeroed(PAGE);
        match direct.file.read_at(&mut probe, 0) {
            Ok(_) => Some(direct),
            Err(_) => None,
        }
    }

    /// Whether it takes a transfer as it is aligned.
    pub(crate) fn takes(&self, offset: u64, buffer: &[u8]) -> bool {
        offset.is_multiple_of(self.offset_align)
            && (buffer.len() as u64).is_multiple_of(self.offset_align)
            && buffer.as_ptr().align_offset(self.memory_align) == 0
    }
}
