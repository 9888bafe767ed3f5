//! Linux's generic SCSI interface: the ioctl `SG_IO`.
#![expect(unsafe_code, reason = "the ioctl takes a structure with addresses")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use moirai_storage::{Error, Result};

use super::{Data, Reply, Sense, Transport};
use crate::lock::lock;

/// `SG_IO` of `<scsi/sg.h>`, and its directions.
const SG_IO: libc::c_ulong = 0x2285;
const TO_NOBODY: i32 = -1;
const TO_DRIVE: i32 = -2;
const FROM_DRIVE: i32 = -3;
/// The longest that a command may take.
const TIMEOUT_MS: u32 = 30_000;
const SENSE_BYTES: u8 = 64;
/// CHECK CONDITION: sense data say why.
const CHECK_CONDITION: u8 = 2;

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    sense_len_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// A drive behind `/dev/sg*`.
#[derive(Debug)]
pub struct Generic {
    file: File,
    /// The drive as a block device, held so that no file system is mounted from it meanwhile.
    _held: Vec<File>,
}

impl Generic {
    /// Opens a drive. To be written it must be nobody else's: no program's and no file system's.
    ///
    /// # Errors
    /// A file that cannot be opened, or is in use.
    pub fn open(path: &Path, read_only: bool) -> Result<Generic> {
        let failed = |path: &Path, source: io::Error| match source.raw_os_error() {
            Some(libc::EBUSY) => Error::InUse {
                path: path.to_owned(),
                holder: "a program or a file system".to_owned(),
            },
            _ => Error::File { path: path.to_owned(), action: "opening", source },
        };
        let exclusive = if read_only { 0 } else { libc::O_EXCL };
        // Commands are writes to the file, whatever they do.
        let file = File::options().read(true).write(true).custom_flags(exclusive).open(path);
        let file = file.map_err(|source| failed(path, source))?;
        lock(&file, path, read_only)?;
        let mut held = Vec::new();
        if !read_only && let Some(name) = path.file_name() {
            let blocks = Path::new("/sys/class/scsi_generic").join(name).join("device/block");
            for block in std::fs::read_dir(blocks).into_iter().flatten().flatten() {
                let path = Path::new("/dev").join(block.file_name());
                let block = File::options().read(true).custom_flags(libc::O_EXCL).open(&path);
                held.push(block.map_err(|source| failed(&path, source))?);
            }
        }
        Ok(Generic { file, _held: held })
    }
}

impl Transport for Generic {
    fn execute(&self, command: &[u8], data: Data<'_>) -> io::Result<Reply> {
        let (direction, address, length) = match data {
            Data::None => (TO_NOBODY, std::ptr::null_mut(), 0),
            Data::In(bytes) => (FROM_DRIVE, bytes.as_mut_ptr().cast(), bytes.len()),
            // The kernel only reads them.
            Data::Out(bytes) => (TO_DRIVE, bytes.as_ptr().cast_mut().cast(), bytes.len()),
        };
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let mut sense = [0_u8; SENSE_BYTES as usize];
        let mut header = Header {
            interface_id: i32::from(b'S'),
            direction,
            command_len: u8::try_from(command.len()).map_err(too_long)?,
            sense_len_max: SENSE_BYTES,
            iovec_count: 0,
            data_len: u32::try_from(length).map_err(too_long)?,
            data: address,
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIMEOUT_MS,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: the header has the layout of the kernel's, and its addresses are of buffers of the lengths that it says, which
        // outlive the call. The kernel writes into those that are meant for that, and is done when the call returns.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), SG_IO, &raw mut header) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let said = sense.get(..usize::from(header.sense_len)).unwrap_or_default();
        let missing = usize::try_from(header.residual).unwrap_or(0);
        verdict(header.status, header.host_status, said, length.saturating_sub(missing))
    }
}

/// What the states of a command say: it is done where nothing says otherwise, or where the drive says that it recovered.
fn verdict(status: u8, host: u16, sense: &[u8], bytes: usize) -> io::Result<Reply> {
    if host != 0 || status & !CHECK_CONDITION != 0 {
        return Err(io::Error::other(format!("host status {host}, drive status {status}")));
    }
    if status & CHECK_CONDITION == 0 {
        return Ok(Reply { bytes, sense: None });
    }
    match Sense::decode(sense) {
        // It is of this command, and not of one before it.
        Some(sense) if sense.is_recovered() && !sense.is_deferred => {
            Ok(Reply { bytes, sense: None })
        }
        Some(sense) => Ok(Reply { bytes: 0, sense: Some(sense) }),
        None => Err(io::Error::other("it failed, and does not say why")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_done_only_where_the_drive_says_so() {
        let reply = |bytes, sense| Some(Reply { bytes, sense });
        assert_eq!(verdict(0, 0, &[], 8).ok(), reply(8, None));
        let sense = |code: u8, key: u8| [code, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x17, 0];
        assert_eq!(verdict(2, 0, &sense(0x70, 1), 8).ok(), reply(8, None), "recovered");
        let medium = verdict(2, 0, &sense(0x70, 3), 8).unwrap();
        assert_eq!((medium.bytes, medium.sense.map(|sense| sense.key)), (0, Some(3)));
        assert!(verdict(2, 0, &sense(0x71, 1), 8).unwrap().sense.is_some(), "of another command");
        for (status, host, said) in [(2, 0, &[][..]), (2, 0, &[0x70]), (8, 0, &[]), (0, 1, &[])] {
            assert!(verdict(status, host, said, 8).is_err(), "{status} {host} {said:?}");
        }
    }
}
