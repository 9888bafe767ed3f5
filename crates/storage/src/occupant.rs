//! What already lies on a device: signatures of file systems, partition tables, RAID members and
//! databases, so that no command overwrites somebody else's data unasked.
//!
//! Offsets and magic numbers are those of each format's own documents; blkid (util-linux) reads the same
//! places. A device counts as blank when its first and last MiB hold nothing but zeros: every signature
//! below lies there, and so does the beginning of nearly every other file. Of a file, what is no hole between them is looked
//! at, too: a disk of a striped volume may have nothing at its ends.

use std::fmt;
use std::sync::Arc;

use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::{Device, Error, IoBuf, Result};

/// Blocks at each end of a device that are looked at: 1 MiB.
const END_BLOCKS: BlockCount = BlockCount((1 << 20) / BLOCK_BYTES);

/// Blocks between the ends that are read whole, 256 MiB, and how many samples are read of all others.
const READ_BLOCKS: BlockCount = BlockCount((256 << 20) / BLOCK_BYTES);
const SAMPLES: u64 = 256;

/// Data that a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// What the data are, with an article: "a Btrfs file system".
    pub what: String,
    /// Where they show, in bytes from the start of the device.
    pub offset: u64,
}

impl Occupant {
    fn unknown(offset: u64) -> Occupant {
        Occupant { what: "data of a format that Moirai does not know".to_owned(), offset }
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.offset)
    }
}

/// What `device` holds, as its first and last MiB tell, and what lies between where the device knows that something does
/// ([`Device::data_after`]); `None` where all of that is zeros. Of much data between the ends, samples are read.
pub async fn occupant(device: &dyn Device) -> Result<Option<Occupant>> {
    let [head, tail] = ends(device);
    let first = device.read(head).await?;
    let last = device.read(tail).await?;
    let ends = Ends { head: &first, tail: &last, bytes: device.inquiry().capacity.bytes().0 };
    match ends.occupant() {
        None if head.end() < tail.first => {
            between(device, BlockRange::between(head.end(), tail.first)).await
        }
        found => Ok(found),
    }
}

/// The first byte that is no zero among `blocks`, where the device knows that they may hold something. After the first
/// [`READ_BLOCKS`] of these, a MiB is read of each of [`SAMPLES`] parts of `blocks`.
async fn between(device: &dyn Device, blocks: BlockRange) -> Result<Option<Occupant>> {
    let step = BlockCount(blocks.count.0 / SAMPLES).max(END_BLOCKS);
    let (mut next, mut left) = (blocks.first, READ_BLOCKS);
    while next < blocks.end()
        && let Some(run) = device.data_after(next)?
        && run.first < blocks.end()
    {
        let first = run.first.max(next);
        let some =
            BlockRange::between(first, (first + END_BLOCKS).min(run.end()).min(blocks.end()));
        let content = device.read(some).await?;
        if let Some(byte) = content.iter().position(|byte| *byte != 0) {
            return Ok(Some(Occupant::unknown(first.byte_offset() + byte as u64)));
        }
        next = if left > BlockCount::ZERO { some.end() } else { first + step };
        left = BlockCount(left.0.saturating_sub(some.count.0));
    }
    Ok(None)
}

/// The RAID or pool that took over `device` after a store was made on it, if any. Linux RAID and ZFS leave the first block
/// of a device as it was, so that a store there seems to be whole.
pub async fn usurper(device: &dyn Device) -> Result<Option<Occupant>> {
    let [head, tail] = ends(device);
    let first = device.read(head).await?;
    let last = device.read(tail).await?;
    Ok(Ends { head: &first, tail: &last, bytes: device.inquiry().capacity.bytes().0 }.usurper())
}

/// The devices that hold data, by their index among `devices`. Devices that keep nothing are left out.
///
/// # Errors
/// [`Error::Occupied`] for the first of them, unless they may be overwritten. Nothing is written: a caller clears
/// devices with [`clear_ends`] once it knows that its work on all of them can be done.
pub async fn occupants(
    devices: &[Arc<dyn Device>],
    overwrite: bool,
) -> Result<Vec<(usize, Occupant)>> {
    let mut found = Vec::new();
    let kept = devices.iter().enumerate().filter(|(_, device)| device.inquiry().keeps_data);
    for (index, device) in kept {
        match occupant(&**device).await {
            Ok(None) => {}
            Ok(Some(occupant)) if overwrite => found.push((index, occupant)),
            Ok(Some(occupant)) => {
                let device = device.inquiry().name.clone();
                return Err(Error::Occupied { device, occupant });
            }
            Err(error) if overwrite => {
                let what = format!("data that cannot be read ({error})");
                found.push((index, Occupant { what, offset: 0 }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Writes zeros over the first and the last MiB of `device`, and flushes: what [`occupant`] found is gone.
pub async fn clear_ends(device: &dyn Device) -> Result<()> {
    for range in ends(device) {
        device.write(range.first, IoBuf::zeroed(range.count)).await?;
    }
    device.flush().await
}

fn ends(device: &dyn Device) -> [BlockRange; 2] {
    let capacity = device.inquiry().capacity;
    let count = END_BLOCKS.min(capacity);
    [BlockCount::ZERO, capacity - count].map(|first| BlockRange::new(Lbn(first.0), count))
}

/// Where a signature lies.
#[derive(Clone, Copy)]
enum Place {
    /// Bytes from the start of the device.
    Start(u64),
    /// Bytes before its end.
    End(u64),
    /// Bytes before its end, rounded down to a multiple of the second number.
    EndAligned(u64, u64),
}

/// A signature: what it stands for, where it lies, its bytes.
struct Signature {
    what: &'static str,
    place: Place,
    bytes: &'static [u8],
}

const fn at(what: &'static str, offset: u64, bytes: &'static [u8]) -> Signature {
    Signature { what, place: Place::Start(offset), bytes }
}

const fn before_end(what: &'static str, distance: u64, bytes: &'static [u8]) -> Signature {
    Signature { what, place: Place::End(distance), bytes }
}

const EXT: &str = "an ext2, ext3 or ext4 file system";
const XFS: &str = "an XFS file system";
const BTRFS: &str = "a Btrfs file system";
const ISO: &str = "an ISO 9660 image";
const UDF: &str = "a UDF file system";
const FAT: &str = "a FAT file system";
const MD: &str = "a member of a Linux software RAID (md)";
const LVM: &str = "an LVM physical volume";
const LUKS: &str = "a LUKS-encrypted volume";
const SWAP: &str = "Linux swap space";
const GPT: &str = "a GPT partition table";
const MD_SIGNATURE_LE: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_SIGNATURE_BE: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];

/// Signatures, the more telling first: a file system before the boot sector in front of it.
const SIGNATURES: &[Signature] = &[
    at("tables of an earlier Moirai, which are to be loaded again", 0, b"MOIRAISB"),
    at("tables of an earlier Moirai, which are to be loaded again", 512, b"MOIRAISB"),
    at("tables of an earlier Moirai, which are to be loaded again", 4096, b"MOIRAISB"),
    at("a store of Moirai", 0, b"MOIRAIUD"),
    at("a log of a store of Moirai", 0, b"MOIRAIUL"),
    at("a disk of a volume of Moirai", 0, b"MOIRAIVL"),
    at(EXT, 0x438, &[0x53, 0xef]),
    at(XFS, 0, b"XFSB"),
    at(BTRFS, 0x1_0040, b"_BHRfS_M"),
    at(ISO, 0x8001, b"CD001"),
    at(UDF, 0x8001, b"BEA01"),
    at(UDF, 0x8001, b"NSR0"),
    at("an exFAT file system", 3, b"EXFAT   "),
    at("an NTFS file system", 3, b"NTFS    "),
    at("a BitLocker volume", 3, b"-FVE-FS-"),
    at(FAT, 0x36, b"FAT1"),
    at(FAT, 0x36, b"FAT     "),
    at(FAT, 0x52, b"FAT32"),
    at("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    at("an HFS+ file system", 0x400, b"H+\0\x04"),
    at("an APFS container", 0x20, b"NXSB"),
    at("a JFS file system", 0x8000, b"JFS1"),
    at("a ReiserFS file system", 0x1_0034, b"ReIsEr"),
    at("a SquashFS file system", 0, b"hsqs"),
    at(
        "a bcachefs file system or bcache device",
        0x1018,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
    ),
    at(MD, 0, MD_SIGNATURE_LE),
    at(MD, 4096, MD_SIGNATURE_LE),
    Signature { what: MD, place: Place::EndAligned(8192, 4096), bytes: MD_SIGNATURE_LE },
    Signature { what: MD, place: Place::EndAligned(65_536, 65_536), bytes: MD_SIGNATURE_LE },
    Signature { what: MD, place: Place::EndAligned(65_536, 65_536), bytes: MD_SIGNATURE_BE },
    before_end("a member of a RAID (DDF)", 512, &[0xde, 0x11, 0xde, 0x11]),
    before_end("a member of a RAID (Intel)", 1024, b"Intel Raid ISM Cfg Sig. "),
    at(LVM, 0, b"LABELONE"),
    at(LVM, 512, b"LABELONE"),
    at(LVM, 1024, b"LABELONE"),
    at(LVM, 1536, b"LABELONE"),
    at(LUKS, 0, b"LUKS\xba\xbe"),
    at(LUKS, 0x4000, b"SKUL\xba\xbe"),
    at(SWAP, 4086, b"SWAPSPACE2"),
    at(SWAP, 8182, b"SWAPSPACE2"),
    at(SWAP, 16_374, b"SWAPSPACE2"),
    at(SWAP, 65_526, b"SWAPSPACE2"),
    at(SWAP, 4086, b"SWAP-SPACE"),
    at("a SQLite database", 0, b"SQLite format 3\0"),
    at("a DuckDB database", 8, b"DUCK"),
    at("a Parquet file", 0, b"PAR1"),
    at("an Arrow file", 0, b"ARROW1"),
    at("a QCOW2 disk image", 0, b"QFI\xfb"),
    at("a VMDK disk image", 0, b"KDMV"),
    before_end("a VHD disk image", 512, b"conectix"),
    at("a VHDX disk image", 0, b"vhdxfile"),
    at("a PDF document", 0, b"%PDF-"),
    at("a ZIP archive", 0, b"PK\x03\x04"),
    at("a gzip archive", 0, &[0x1f, 0x8b, 0x08]),
    at("an xz archive", 0, &[0xfd, b'7', b'z', b'X', b'Z', 0]),
    at("a Zstandard archive", 0, &[0x28, 0xb5, 0x2f, 0xfd]),
    at("a tar archive", 257, b"ustar"),
    at("an ELF program", 0, b"\x7fELF"),
    at(GPT, 512, b"EFI PART"),
    at(GPT, 4096, b"EFI PART"),
    before_end(GPT, 512, b"EFI PART"),
    before_end(GPT, 4096, b"EFI PART"),
    at("a partition table or boot sector (MBR)", 510, &[0x55, 0xaa]),
];

/// ZFS keeps four labels of 256 KiB, two at each end; each ends with a ring of uberblocks.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
const ZFS_UBERBLOCKS: std::ops::Range<u64> = 128 << 10..256 << 10;
const ZFS_UBERBLOCK_STEP: usize = 1 << 10;
const ZFS_SIGNATURE: u64 = 0x00ba_b10c;

/// The two ends of a device of `bytes` bytes. On a short device they overlap.
struct Ends<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    bytes: u64,
}

impl Ends<'_> {
    /// `length` bytes from `offset` on, where both lie within one end.
    fn get(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let tail_at = self.bytes.checked_sub(self.tail.len() as u64)?;
        [(self.head, 0), (self.tail, tail_at)].into_iter().find_map(|(end, begins)| {
            let from = usize::try_from(offset.checked_sub(begins)?).ok()?;
            end.get(from..from.checked_add(usize::try_from(length).ok()?)?)
        })
    }

    fn offset(&self, place: Place) -> Option<u64> {
        match place {
            Place::Start(offset) => Some(offset),
            Place::End(distance) => self.bytes.checked_sub(distance),
            // The md driver rounds the size down first (mdadm super0.c), version 1.0 the place (super1.c);
            // where the size is a multiple of the step both are the same.
            Place::EndAligned(distance, step) if distance == step => {
                (self.bytes / step * step).checked_sub(distance)
            }
            Place::EndAligned(distance, step) => {
                self.bytes.checked_sub(distance).map(|place| place / step * step)
            }
        }
    }

    fn occupant(&self) -> Option<Occupant> {
        self.signature().or_else(|| self.zfs()).or_else(|| self.unknown())
    }

    fn usurper(&self) -> Option<Occupant> {
        let raid = SIGNATURES.iter().filter(|signature| signature.what == MD);
        self.among(raid).or_else(|| self.zfs())
    }

    fn signature(&self) -> Option<Occupant> {
        self.among(SIGNATURES.iter())
    }

    fn among<'a>(&self, signatures: impl Iterator<Item = &'a Signature>) -> Option<Occupant> {
        let mut signatures = signatures;
        signatures.find_map(|signature| {
            let offset = self.offset(signature.place)?;
            let there = self.get(offset, signature.bytes.len() as u64)?;
            (there == signature.bytes).then(|| Occupant { what: signature.what.to_owned(), offset })
        })
    }

    fn zfs(&self) -> Option<Occupant> {
        let aligned = self.bytes / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
        let from_end = [2, 1].map(|labels| aligned.checked_sub(labels * ZFS_LABEL_BYTES));
        let labels = [Some(0), Some(ZFS_LABEL_BYTES)].into_iter().chain(from_end).flatten();
        labels.into_iter().find_map(|label| {
            let slots = ZFS_UBERBLOCKS.step_by(ZFS_UBERBLOCK_STEP);
            slots.into_iter().find_map(|slot| {
                let offset = label + slot;
                let there = self.get(offset, 8)?;
                let is_magic =
                    there == ZFS_SIGNATURE.to_le_bytes() || there == ZFS_SIGNATURE.to_be_bytes();
                is_magic.then(|| Occupant { what: "a member of a ZFS pool".to_owned(), offset })
            })
        })
    }

    /// The first byte that is no zero.
    fn unknown(&self) -> Option<Occupant> {
        let tail_at = self.bytes.saturating_sub(self.tail.len() as u64);
        [(self.head, 0), (self.tail, tail_at)].into_iter().find_map(|(end, begins)| {
            let at = end.iter().position(|byte| *byte != 0)?;
            Some(Occupant::unknown(begins + at as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The ends of a device of `bytes` zeros with `content` at `offset`.
    fn found(bytes: u64, content: &[(u64, &[u8])]) -> Option<Occupant> {
        let mut device = vec![0; bytes as usize];
        for (offset, content) in content {
            device[*offset as usize..][..content.len()].copy_from_slice(content);
        }
        let end = device.len().min(MIB as usize);
        let ends = Ends { head: &device[..end], tail: &device[device.len() - end..], bytes };
        ends.occupant()
    }

    #[test]
    fn zeros_are_blank_and_single_bytes_at_either_end_are_not() {
        assert_eq!(found(4 * MIB, &[]), None);
        // What lies between the ends is looked at by other means.
        assert_eq!(found(4 * MIB, &[(2 * MIB, b"x")]), None);
        for offset in [0, MIB - 1, 3 * MIB, 4 * MIB - 1] {
            let occupant = found(4 * MIB, &[(offset, b"x")]).unwrap();
            assert_eq!(occupant.offset, offset);
            assert!(occupant.what.contains("does not know"), "{occupant}");
        }
        assert_eq!(found(8192, &[(8191, b"x")]).unwrap().offset, 8191);
    }

    #[test]
    fn every_signature_is_found_on_devices_of_odd_sizes() {
        for bytes in [4 * MIB, 4 * MIB + 36 * 1024, 300 * 1024] {
            for signature in SIGNATURES {
                let ends = Ends { head: &[], tail: &[], bytes };
                let offset = ends.offset(signature.place).unwrap();
                let occupant = found(bytes, &[(offset, signature.bytes)]).unwrap();
                let expected = Occupant { what: signature.what.to_owned(), offset };
                assert_eq!(occupant, expected, "{bytes}");
            }
        }
    }

    /// Offsets that the formats' documents give for sizes that are easy to work out by hand.
    #[test]
    fn md_and_zfs_lie_where_their_documents_say() {
        // Version 0.90: the last 64 KiB that are aligned; version 1.0: 8 KiB before the end, aligned to 4 KiB.
        let odd = 4 * MIB + 20 * 1024;
        let md = |offset| found(odd, &[(offset, MD_SIGNATURE_LE)]).unwrap().what;
        assert_eq!(md(4 * MIB - 65_536), MD);
        assert_eq!(md(4 * MIB + 12 * 1024), MD);
        let uberblock = ZFS_SIGNATURE.to_be_bytes();
        for label in [0, 256 << 10, 4 * MIB - (512 << 10), 4 * MIB - (256 << 10)] {
            let occupant = found(odd, &[(label + (128 << 10) + 5 * 1024, &uberblock)]).unwrap();
            assert_eq!(occupant.what, "a member of a ZFS pool", "{label}");
        }
    }

    #[test]
    fn a_raid_beside_a_store_is_told_and_other_data_are_not() {
        let usurper = |content: &[(u64, &[u8])]| {
            let mut device = vec![0; 4 * MIB as usize];
            for (offset, content) in content {
                device[*offset as usize..][..content.len()].copy_from_slice(content);
            }
            let (head, tail) = (&device[..MIB as usize], &device[3 * MIB as usize..]);
            Ends { head, tail, bytes: 4 * MIB }.usurper().map(|occupant| occupant.what)
        };
        let store: (u64, &[u8]) = (0, b"MOIRAISB");
        assert_eq!(usurper(&[store, (4096, b"MOIRAISB"), (0x438, &[0x53, 0xef])]), None);
        assert_eq!(usurper(&[store, (4096, MD_SIGNATURE_LE)]).as_deref(), Some(MD));
        let uberblock = ZFS_SIGNATURE.to_le_bytes();
        assert!(usurper(&[store, (128 << 10, &uberblock)]).is_some());
    }

    #[test]
    fn a_file_system_is_named_before_its_boot_sector() {
        let ntfs: &[(u64, &[u8])] = &[(3, b"NTFS    "), (510, &[0x55, 0xaa])];
        assert_eq!(found(4 * MIB, ntfs).unwrap().what, "an NTFS file system");
    }
}
