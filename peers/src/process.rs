//! What the operating system knows of this process, and how its memory is limited.

use std::fs;
use std::io::ErrorKind;
use std::ops::Sub;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Outcome;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) written_bytes: u64,
    pub(crate) cpu_s: f64,
}

impl Sub for Used {
    type Output = Used;

    fn sub(self, before: Used) -> Used {
        Used {
            written_bytes: self.written_bytes - before.written_bytes,
            cpu_s: self.cpu_s - before.cpu_s,
        }
    }
}

/// Bytes that the disk of `folder` has taken, of all processes, once what is cached was written; and time of cores that
/// this process has used. What the operating system counts for a process is not it: of a page that was cached with others
/// it counts all of these.
pub(crate) fn used(folder: &Path) -> Outcome<Used> {
    // The whole machine's: nothing else is to run beside a benchmark.
    std::process::Command::new("sync").status()?;
    let device = fs::metadata(folder)?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"))?;
    let sectors = stat.split_whitespace().nth(6).and_then(|count| count.parse::<u64>().ok());
    let written_bytes = sectors.ok_or("the disk does not tell what it wrote")? * 512;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may have blanks: utime and stime are the 14th and 15th of all, in 1/100 s.
    let (_, rest) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let ticks =
        rest.split_whitespace().skip(11).take(2).filter_map(|tick| tick.parse::<f64>().ok());
    Ok(Used { written_bytes, cpu_s: ticks.sum::<f64>() / 100.0 })
}

/// What this process takes of memory, without files.
pub(crate) fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "RssAnon:").unwrap_or(0) / 1024
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn folder_mib(folder: &Path) -> u64 {
    fn bytes(folder: &Path) -> u64 {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let sizes = entries.filter_map(|entry| entry.metadata().ok().map(|about| (entry, about)));
        sizes
            .map(
                |(entry, about)| {
                    if about.is_dir() { bytes(&entry.path()) } else { about.blocks() * 512 }
                },
            )
            .sum()
    }
    bytes(folder) >> 20
}

/// A limit of the memory of processes, with the files that are cached for them: a control group.
pub(crate) struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// For this process and those that it starts. `Err` says why there can be none here.
    pub(crate) fn enter(bytes: u64) -> Result<MemoryLimit, std::io::Error> {
        let own = format!("moirai-peers-{}", std::process::id());
        let (folder, limit) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            (Path::new("/sys/fs/cgroup").join(own), "memory.max")
        } else {
            (Path::new("/sys/fs/cgroup/memory").join(own), "memory.limit_in_bytes")
        };
        // That of a process which was killed, and had the same number, stays.
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let group = MemoryLimit(folder);
        fs::write(group.0.join(limit), bytes.to_string())?;
        fs::write(group.0.join("cgroup.procs"), std::process::id().to_string())?;
        Ok(group)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A group with processes stays: this one goes back to the one above first.
        if let Some(above) = self.0.parent() {
            let _ = fs::write(above.join("cgroup.procs"), std::process::id().to_string());
        }
        let _ = fs::remove_dir(&self.0);
    }
}
