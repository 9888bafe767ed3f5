//! The programs of other projects that tests use as clients, and how they get installed.

use std::collections::BTreeSet;
use std::process::Command;

use crate::error::Error;
use crate::process;

/// (program, Debian package that contains it)
const REAL_CLIENTS: &[(&str, &str)] = &[
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.fat", "dosfstools"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkswap", "util-linux"),
    ("sgdisk", "gdisk"),
];

/// Installs the packages whose programs are missing when run as root. Otherwise says which command does, and goes on:
/// a test says which program it does without.
pub(crate) fn install_missing() -> Result<(), Error> {
    let packages = missing_packages(REAL_CLIENTS, is_on_path);
    if packages.is_empty() {
        return Ok(());
    }
    if !is_root() {
        let list = packages.into_iter().collect::<Vec<_>>().join(" ");
        println!("tests with real clients need programs that are not installed; run");
        println!("    sudo apt-get update && sudo apt-get install -y {list}");
        return Ok(());
    }
    let installed = process::run(Command::new("apt-get").arg("update")).and_then(|()| {
        process::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["install", "-y", "--no-install-recommends"])
                .args(&packages),
        )
    });
    if let Err(problem) = installed {
        println!("installing {packages:?} failed, so tests go on without them: {problem}");
    }
    Ok(())
}

fn missing_packages<'a>(
    clients: &[(&str, &'a str)],
    is_installed: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    clients
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|&(_, package)| package)
        .collect()
}

fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_asked_for_once_and_only_when_missing() {
        let clients = [("nbdinfo", "libnbd-bin"), ("nbdcopy", "libnbd-bin"), ("fio", "fio")];
        let missing = missing_packages(&clients, |program| program == "fio");
        assert_eq!(missing, BTreeSet::from(["libnbd-bin"]));
    }

    #[test]
    fn programs_are_looked_up_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-here"));
    }
}
