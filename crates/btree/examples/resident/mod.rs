//! How much memory the process takes.

use crate::common::Outcome;

/// MiB that the process has resident, now (`VmRSS:`) or at most (`VmHWM:`).
pub(crate) fn resident_mib(what: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let kib: u64 = line.ok_or("no such line")?.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib >> 10)
}
