//! A block device of Linux: how it is opened, and what it frees. Everything else is done with it as with a file.
#![expect(unsafe_code, reason = "the ioctl takes an address")] // tidy: allow(no crate wraps BLKDISCARD)

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use moirai_storage::{DeviceUri, Error, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};
use rustix::fs::{OFlags, SeekFrom, ioctl_blkpbszget};
use rustix::io::Errno;

use crate::file_parts::file_error;
use crate::{Access, SystemSays};

/// `BLKDISCARD` of `<linux/fs.h>`.
const DISCARD: libc::Ioctl = 0x1277;

/// Opens a block device; tells whether it takes no writes. Who writes it has it alone: the kernel refuses one that is mounted, or that
/// another program or an array has.
pub(crate) fn open_block(uri: &DeviceUri, path: &Path, access: Access<'_>) -> Result<(File, bool)> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoFile { path: path.to_owned() },
        _ if Errno::from_io_error(&error) == Some(Errno::BUSY) => Error::InUse {
            path: path.to_owned(),
            holder: "a file system, an array or another program, which has it open".to_owned(),
        },
        _ => file_error(path, "opening")(error),
    };
    if !path.metadata().map_err(failed)?.file_type().is_block_device() {
        return Err(uri.error("this is not a block device: a file is named as file:PATH"));
    }
    let is_read_only = access.is_read_only();
    let alone = if is_read_only { OFlags::empty() } else { OFlags::EXCL };
    let mut options = OpenOptions::new();
    options.read(true).write(!is_read_only).custom_flags(alone.bits() as i32);
    options.open(path).map(|file| (file, is_read_only)).map_err(failed)
}

/// How long a block device is.
pub(crate) fn length(file: &File) -> io::Result<ByteCount> {
    Ok(ByteCount(rustix::fs::seek(file, SeekFrom::End(0))?))
}

/// What its medium writes as one.
pub(crate) fn physical_block(file: &File) -> io::Result<BlockCount> {
    Ok(BlockCount(u64::from(ioctl_blkpbszget(file)?).div_ceil(BLOCK_BYTES).max(1)))
}

/// The unit in which it frees what is not needed any more; `None` where it frees nothing. And whether it is flash.
pub(crate) fn discards(path: &Path) -> io::Result<(Option<BlockCount>, bool)> {
    let Some(says) = SystemSays::of(path)? else { return Ok((None, false)) };
    Ok((says.discard.map(BlockCount::holding), says.is_rotational == Some(false)))
}

/// Discards a range; its content is undefined afterwards.
pub(crate) fn discard(file: &File, offset: u64, length: ByteCount) -> io::Result<()> {
    let part = [offset, length.0];
    // SAFETY: the kernel reads two numbers at the address, and is done when the call returns.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), DISCARD, part.as_ptr()) }; // tidy: allow(no crate wraps BLKDISCARD)
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
