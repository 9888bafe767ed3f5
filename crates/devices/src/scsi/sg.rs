//! Linux's generic SCSI interface: the ioctl `SG_IO`.
#![expect(unsafe_code, reason = "the ioctl takes a structure with addresses")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::{Data, Reply, Sense, Transport};

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

/// A drive behind `/dev/sg*`, or behind a block device that takes such commands.
#[derive(Debug)]
pub struct Generic(File);

impl Generic {
    /// Commands go to this file.
    #[must_use]
    pub fn new(file: File) -> Generic {
        Generic(file)
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
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), SG_IO, &raw mut header) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let said = sense.get(..usize::from(header.sense_len)).unwrap_or_default();
        if header.status == CHECK_CONDITION || !said.is_empty() {
            // RECOVERED ERROR and NO SENSE are successes.
            if let Some(sense) = Sense::decode(said).filter(|sense| sense.key > 1) {
                return Ok(Reply { bytes: 0, sense: Some(sense) });
            }
        }
        if header.host_status != 0 || header.status & !CHECK_CONDITION != 0 {
            let (host, drive) = (header.host_status, header.status);
            return Err(io::Error::other(format!("host status {host}, drive status {drive}")));
        }
        let missing = usize::try_from(header.residual).unwrap_or(0);
        Ok(Reply { bytes: length.saturating_sub(missing), sense: None })
    }
}
