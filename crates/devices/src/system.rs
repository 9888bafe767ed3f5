//! What Linux says of the block device that a file lies on: `/sys/dev/block` and what it links to.

use std::fs::{metadata, read_dir, read_to_string};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use moirai_units::ByteCount;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};
use rustix::path::Arg;

/// What the system says of a block device. A claim that is missing, or zero where that says nothing, is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemSays {
    /// The whole device, without the number of a partition.
    pub name: String,
    /// The unit of addresses.
    pub logical_block: Option<ByteCount>,
    /// The unit that the medium writes.
    pub physical_block: Option<ByteCount>,
    /// The shortest request that is not worse than it must be.
    pub minimum_io: Option<ByteCount>,
    /// The length, and the alignment, that requests should have: a stripe of an array.
    pub optimal_io: Option<ByteCount>,
    /// Requests should not cross multiples of this: a stripe unit, or a zone.
    pub chunk: Option<ByteCount>,
    /// The longest request.
    pub maximum_io: Option<ByteCount>,
    /// The unit of discards.
    pub discard: Option<ByteCount>,
    /// The longest write that is whole or not there after a power cut.
    pub atomic_write: Option<ByteCount>,
    /// What the places and lengths of direct I/O are multiples of, for the file.
    pub direct_io: Option<ByteCount>,
    /// Whether it turns.
    pub is_rotational: Option<bool>,
    /// Requests that the system lets wait for it.
    pub requests: Option<u64>,
    /// `host-managed` or `host-aware`, where it has zones.
    pub zones: Option<String>,
    /// Zones that may be open at a time.
    pub open_zones_max: Option<u64>,
    /// Parts that move by themselves, as the actuators of a disk.
    pub actuators: Option<usize>,
    /// The disks of an array, and what each has of a stripe.
    pub array: Option<SystemArray>,
    /// The devices that it lies on, as those of an array or an encrypted one.
    pub below: Vec<String>,
}

/// An array of Linux's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemArray {
    /// `raid0`, `raid5`.
    pub level: String,
    /// Its disks.
    pub disks: u64,
    /// What each disk has of a stripe.
    pub chunk: Option<ByteCount>,
}

impl SystemSays {
    /// Asks the system about the device that holds the file at `path`, or that it names. `None` where no block device shows, as below
    /// a file system in memory.
    ///
    /// # Errors
    /// Where there is no such file.
    pub fn of(path: &Path) -> io::Result<Option<SystemSays>> {
        let file = metadata(path)?;
        let number = if file.file_type().is_block_device() { file.rdev() } else { file.dev() };
        let name = format!("{}:{}", major(number), minor(number));
        let says = SystemSays::in_folder(&Path::new("/sys/dev/block").join(name));
        let direct_io = direct_io_of(CWD, path, AtFlags::empty());
        let direct_io = direct_io.map(|align| ByteCount(align.offset)).filter(|align| align.0 > 0);
        Ok(says.map(|says| SystemSays { direct_io, ..says }))
    }

    /// What a folder of `/sys` says, of a device or of a partition of one.
    fn in_folder(folder: &Path) -> Option<SystemSays> {
        let folder = folder.canonicalize().ok()?;
        let folder = match folder.join("partition").exists() {
            true => folder.parent()?.to_path_buf(),
            false => folder,
        };
        let queue = folder.join("queue");
        let of_queue = |key: &str| bytes(&queue.join(key), 1);
        let array = folder.join("md");
        let level = text(&array.join("level"));
        let mut below: Vec<String> = names(&folder.join("slaves")).collect();
        below.sort_unstable();
        Some(SystemSays {
            name: folder.file_name()?.to_string_lossy().into_owned(),
            logical_block: of_queue("logical_block_size"),
            physical_block: of_queue("physical_block_size"),
            minimum_io: of_queue("minimum_io_size"),
            optimal_io: of_queue("optimal_io_size"),
            chunk: bytes(&queue.join("chunk_sectors"), 512),
            maximum_io: bytes(&queue.join("max_sectors_kb"), 1024),
            discard: of_queue("discard_granularity")
                .filter(|_| of_queue("discard_max_bytes").is_some()),
            atomic_write: of_queue("atomic_write_unit_max_bytes"),
            direct_io: None,
            is_rotational: number::<u8>(&queue.join("rotational")).map(|turns| turns == 1),
            requests: number(&queue.join("nr_requests")),
            zones: text(&queue.join("zoned")).filter(|zones| zones != "none"),
            open_zones_max: number(&queue.join("max_open_zones")).filter(|zones| *zones > 0),
            actuators: Some(names(&queue.join("independent_access_ranges")).count())
                .filter(|ranges| *ranges > 1),
            array: level.map(|level| SystemArray {
                level,
                disks: number(&array.join("raid_disks")).unwrap_or(0),
                chunk: bytes(&array.join("chunk_size"), 1),
            }),
            below,
        })
    }
}

/// What direct I/O to a file must be a multiple of.
pub(crate) struct DirectIoAlign {
    /// Places and lengths; 0 where the file takes no direct I/O.
    pub(crate) offset: u64,
    /// Addresses.
    pub(crate) memory: usize,
}

/// The same, of a file that is named as for `statx`; `None` where the kernel does not tell (before 6.1).
pub(crate) fn direct_io_of(
    folder: impl AsFd,
    path: impl Arg,
    flags: AtFlags,
) -> Option<DirectIoAlign> {
    let wanted = StatxFlags::DIOALIGN;
    let stat = statx(folder, path, flags, wanted).ok()?;
    (stat.stx_mask & wanted.bits() != 0).then_some(DirectIoAlign {
        offset: u64::from(stat.stx_dio_offset_align),
        memory: stat.stx_dio_mem_align as usize,
    })
}

fn text(path: &Path) -> Option<String> {
    read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// So many units of bytes; `None` for zero.
fn bytes(path: &Path, unit: u64) -> Option<ByteCount> {
    let bytes = number::<u64>(path)?.checked_mul(unit)?;
    (bytes > 0).then_some(ByteCount(bytes))
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = read_dir(PathBuf::from(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_partition_says_what_its_device_says() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("devices/nvme0n1");
        for folder in ["queue", "nvme0n1p2", "queue/independent_access_ranges/0"] {
            create_dir_all(device.join(folder)).unwrap();
        }
        for (key, value) in [
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("queue/optimal_io_size", "33553920\n"),
            ("queue/chunk_sectors", "0\n"),
            ("queue/max_sectors_kb", "128\n"),
            ("queue/rotational", "0\n"),
            ("queue/zoned", "none\n"),
            ("queue/nr_requests", "what\n"),
            ("nvme0n1p2/partition", "2\n"),
        ] {
            write(device.join(key), value).unwrap();
        }
        let link = root.path().join("259:2");
        symlink(device.join("nvme0n1p2"), &link).unwrap();
        let says = SystemSays::in_folder(&link).unwrap();
        let expected = SystemSays {
            name: "nvme0n1".to_owned(),
            logical_block: Some(ByteCount(512)),
            physical_block: Some(ByteCount(4096)),
            optimal_io: Some(ByteCount(33_553_920)),
            maximum_io: Some(ByteCount(128 << 10)),
            is_rotational: Some(false),
            ..SystemSays::default()
        };
        assert_eq!(says, expected);
        assert_eq!(SystemSays::in_folder(&root.path().join("7:0")), None);
    }

    #[test]
    fn an_array_says_what_it_lies_on() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("md0");
        for folder in ["queue", "md", "slaves/sdb", "slaves/sda"] {
            create_dir_all(device.join(folder)).unwrap();
        }
        for (key, value) in [
            ("md/level", "raid5\n"),
            ("md/raid_disks", "3\n"),
            ("md/chunk_size", "524288\n"),
            ("queue/rotational", "1\n"),
            ("queue/zoned", "host-managed\n"),
            ("queue/chunk_sectors", "1024\n"),
        ] {
            write(device.join(key), value).unwrap();
        }
        let says = SystemSays::in_folder(&device).unwrap();
        let chunk = Some(ByteCount(512 << 10));
        assert_eq!(says.array, Some(SystemArray { level: "raid5".to_owned(), disks: 3, chunk }));
        assert_eq!((says.below.join(" "), says.chunk), ("sda sdb".to_owned(), chunk));
        assert_eq!(says.zones.as_deref(), Some("host-managed"));
    }

    #[test]
    fn a_file_of_this_machine_is_on_some_device_or_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let says = SystemSays::of(file.path()).unwrap();
        assert!(says.is_none_or(|says| !says.name.is_empty()));
        assert!(SystemSays::of(Path::new("/there/is/no/such/file")).is_err());
    }
}
