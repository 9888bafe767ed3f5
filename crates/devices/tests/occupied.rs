//! What a file holds between its first and its last MiB.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use moirai_devices::{Access, open};
use moirai_runtime::block_on_real;
use moirai_storage::occupant;

const MIB: u64 = 1 << 20;

/// Where something is found in the file.
fn found(path: &Path) -> Option<u64> {
    block_on_real(1, async {
        let uri = format!("file:{}", path.display()).parse().unwrap();
        let device = open(uri, Access::Read).unwrap();
        occupant(&*device).await.unwrap().map(|occupant| occupant.offset)
    })
}

#[test]
fn a_single_byte_between_holes_is_found_and_zeros_are_blank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let file = File::create(&path).unwrap();
    file.set_len(64 * MIB).unwrap();
    assert_eq!(found(&path), None);
    file.write_all_at(&vec![0; 4 * MIB as usize], 10 * MIB).unwrap();
    file.write_all_at(&[0], 30 * MIB).unwrap();
    assert_eq!(found(&path), None);
    // Where whole blocks are looked at, up to the last one before the end that is read by itself.
    for offset in [63 * MIB - 1, 30 * MIB + 5, 12 * MIB, MIB] {
        file.write_all_at(b"x", offset).unwrap();
        assert_eq!(found(&path), Some(offset));
    }
}

/// After 256 MiB of zeros samples are read: of a file of 1 GiB, one MiB in four.
#[test]
fn much_data_is_found_by_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let file = File::create(&path).unwrap();
    file.set_len(1024 * MIB).unwrap();
    let zeros = vec![0; MIB as usize];
    (1..270).for_each(|mib| file.write_all_at(&zeros, mib * MIB).unwrap());
    assert_eq!(found(&path), None);
    let data = vec![7; 8 * MIB as usize];
    file.write_all_at(&data, 800 * MIB).unwrap();
    let offset = found(&path).unwrap();
    assert!((800 * MIB..808 * MIB).contains(&offset), "{offset}");
}
