//! Locks on the files behind devices: one writer, or several readers; and who holds them.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use moirai_storage::{Error, Result};
use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;

/// Locks a file for as long as it is open, against other processes and against a second use in this one.
/// Readers share the lock.
pub(crate) fn lock(file: &File, path: &Path, is_shared: bool) -> Result<()> {
    let operation = match is_shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Error::InUse { path: path.to_owned(), holder: holder(file) }),
        Err(error) => {
            Err(Error::File { path: path.to_owned(), action: "locking", source: error.into() })
        }
    }
}

/// Who holds the lock on `file`, for a message.
fn holder(file: &File) -> String {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = file.metadata().ok().and_then(|metadata| {
        let (device, inode) = (metadata.dev(), metadata.ino());
        holder_among(&locks, major(device), minor(device), inode)
    });
    match process {
        None => "another process".to_owned(),
        Some(process) if process == std::process::id() => {
            "this command itself, which names the file twice".to_owned()
        }
        Some(process) => {
            match std::fs::read_to_string(format!("/proc/{process}/comm")) {
                Ok(name) => format!("process {process} ({})", name.trim()),
                // It has ended, or lives in another namespace.
                Err(_) => format!("process {process}"),
            }
        }
    }
}

/// The process that holds a lock on an inode, from the text of `/proc/locks` (proc(5)):
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. Lines with `->` wait and hold nothing.
fn holder_among(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != "FLOCK" {
            return None;
        }
        let mut words = words.skip(2);
        let process = words.next()?;
        (words.next()? == wanted).then(|| process.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_is_found_in_the_kernel_s_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:5678 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 77 fe:00:42 0 EOF\n";
        assert_eq!(holder_among(locks, 8, 1, 5678), Some(1234));
        assert_eq!(holder_among(locks, 0xfe, 0, 42), Some(77));
        assert_eq!(holder_among(locks, 8, 1, 1), None);
    }

    #[test]
    fn a_locked_file_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"x").unwrap();
        let open = || File::open(&path).unwrap();
        let (first, second, third) = (open(), open(), open());
        lock(&first, &path, true).unwrap();
        lock(&second, &path, true).unwrap();
        let error = lock(&third, &path, false).unwrap_err().to_string();
        // Where /proc is not there the process is not known.
        let is_named = error.contains("names the file twice") || error.contains("another process");
        assert!(is_named, "{error}");
    }
}
