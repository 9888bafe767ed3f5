//! Locks on the files behind devices: one writer, or several readers; and who holds them.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use moirai_storage::{Error, Result};
use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;

/// How long to wait for the last transfers of a process that has ended: tries, and the time between two.
const TRIES: u32 = 2000;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// Locks a file for as long as it is open, against other processes and against a second use in this one.
/// Readers share the lock.
///
/// The kernel carries out what a killed process handed to io_uring, and keeps the file open, and locked, until that
/// is done. So the lock of a process that has ended is waited for.
pub(crate) fn lock(file: &File, path: &Path, is_shared: bool) -> Result<()> {
    let operation = match is_shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    let mut tries = TRIES;
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if tries > 0 && !holder(file).is_some_and(is_running) => {
                tries -= 1;
                std::thread::sleep(BETWEEN_TRIES); // tidy: allow(the kernel does not tell when it is done)
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::InUse { path: path.to_owned(), holder: name_of(holder(file)) });
            }
            Err(error) => {
                return Err(Error::File {
                    path: path.to_owned(),
                    action: "locking",
                    source: error.into(),
                });
            }
        }
    }
}

/// Gives a lock back before the file is closed.
pub(crate) fn unlock(file: &File, path: &Path) -> Result<()> {
    rustix::fs::flock(file, FlockOperation::Unlock).map_err(|error| Error::File {
        path: path.to_owned(),
        action: "unlocking",
        source: error.into(),
    })
}

/// The process that holds the lock on `file`, where the kernel tells.
fn holder(file: &File) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    holder_among(&locks, major(device), minor(device), inode)
}

/// Whether a process has not ended. One that was killed stays in the list until its parent asks for its status.
fn is_running(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state is behind the name, which is in parentheses and may hold some: proc_pid_stat(5).
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The process, for a message.
fn name_of(process: Option<u32>) -> String {
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

    #[test]
    fn the_lock_of_a_process_that_has_ended_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"x").unwrap();
        // `flock` takes the lock and ends; what it locked stays open for a while.
        let script = "exec 9<>x; flock 9 || exit 1; sleep 0.3 > /dev/null 2>&1 &";
        let mut shell = std::process::Command::new("sh");
        let status = shell.args(["-c", script]).current_dir(&folder).status();
        if !status.is_ok_and(|status| status.success()) {
            return;
        }
        lock(&File::open(&path).unwrap(), &path, false).unwrap();
    }
}
