//! What devices free when blocks are discarded, and what a power cut leaves of it and of physical sectors.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use moirai_devices::{Access, FaultyDevice, Medium, NewFiles, Power, open};
use moirai_runtime::{block_on_real, block_on_virtual};
use moirai_storage::{Device, DeviceUri, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn};

fn create(uri: &str) -> Arc<dyn Device> {
    let uri: DeviceUri = uri.parse().unwrap();
    open(uri, Access::Create(&NewFiles::new())).unwrap()
}

fn range(first: u64, count: u64) -> BlockRange {
    BlockRange::new(Lbn(first), BlockCount(count))
}

fn filled(count: u64, with: u8) -> IoBuf {
    let mut buffer = IoBuf::zeroed(BlockCount(count));
    buffer.fill(with);
    buffer
}

async fn read(device: &dyn Device, lbn: u64) -> Vec<u8> {
    device.read(range(lbn, 1)).await.unwrap().to_vec()
}

/// Blocks of 512 bytes that the file system has given the file.
fn allocated(path: &Path) -> u64 {
    path.metadata().unwrap().blocks()
}

/// A discard of 3002 blocks from 1001 on frees the pages from 1008 to 4000.
async fn check_that_space_is_freed(device: Arc<dyn Device>, path: &Path) {
    device.write(Lbn(0), filled(8000, 7)).await.unwrap();
    device.flush().await.unwrap();
    let before = allocated(path);
    assert!(before >= 8000, "{before}");
    device.discard(range(1001, 3002)).await.unwrap();
    device.flush().await.unwrap();
    let freed = before - allocated(path);
    assert!((2992..3002).contains(&freed), "{freed} blocks were freed");
    for lbn in [0, 1000, 4003, 7999] {
        assert_eq!(read(&*device, lbn).await, [7; 512], "LBN {lbn}");
    }
    assert_eq!(read(&*device, 1008).await, [0; 512]);
}

#[test]
fn a_file_gives_the_space_of_discarded_blocks_back() {
    let folder = tempfile::tempdir().unwrap();
    for parameters in ["", "&direct=false"] {
        let path = folder.path().join(format!("file{parameters}"));
        block_on_real(1, async {
            let device = create(&format!("file:{}?size=4MiB{parameters}", path.display()));
            assert_eq!(device.inquiry().discard, Some(BlockCount(8)));
            check_that_space_is_freed(device, &path).await;
            assert_eq!(path.metadata().unwrap().len(), 4 << 20);
        });
    }
}

#[test]
fn the_contents_of_a_simulated_disk_are_freed_in_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("contents");
    block_on_virtual(1, async {
        let uri = format!("sim:quantum-atlas-10k?data={}", path.display());
        check_that_space_is_freed(create(&uri), &path).await;
        let device = create("sim:quantum-atlas-10k");
        device.write(Lbn(0), filled(64, 7)).await.unwrap();
        let before = moirai_runtime::now();
        device.discard(range(3, 40)).await.unwrap();
        assert_eq!(moirai_runtime::now(), before);
        for (lbn, expected) in [(2, 7), (3, 0), (20, 0), (42, 0), (43, 7)] {
            assert_eq!(read(&*device, lbn).await, [expected; 512], "LBN {lbn}");
        }
    });
}

#[test]
fn a_file_that_is_only_read_is_not_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![7; 8192]).unwrap();
    block_on_real(1, async {
        let uri: DeviceUri = format!("file:{}", path.display()).parse().unwrap();
        let device = open(uri, Access::Read).unwrap();
        assert_eq!(device.inquiry().discard, None);
        let error = device.discard(range(0, 16)).await.unwrap_err().to_string();
        assert!(error.contains("is read-only"), "{error}");
    });
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 8192]);
}

#[test]
fn the_physical_sector_is_the_file_system_s_or_as_the_uri_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file_system_bytes = folder.path().metadata().unwrap().blksize();
    block_on_real(1, async {
        let reported = |parameters: &str, name: &str| {
            let uri = format!("file:{}-{name}?size=1MiB{parameters}", path.display());
            create(&uri).inquiry().clone()
        };
        assert_eq!(reported("", "plain").physical_block.bytes().0, file_system_bytes.min(4096));
        assert_eq!(reported("&physical=512", "small").physical_block, BlockCount(1));
        let large = reported("&physical=16KiB", "large");
        assert_eq!(large.physical_block, BlockCount(32));
        assert_eq!(large.discard, Some(BlockCount(32)));
    });
    block_on_virtual(1, async {
        let of = |uri| create(uri).inquiry().physical_block;
        assert_eq!(of("sim:quantum-atlas-10k"), BlockCount(1));
        assert_eq!(of("sim:quantum-atlas-10k?physical=4096"), BlockCount(8));
        for wrong in ["1000", "256", "0", "128KiB"] {
            let uri = format!("sim:quantum-atlas-10k?physical={wrong}").parse().unwrap();
            let error = open(uri, Access::Write).unwrap_err().to_string();
            assert!(error.contains("parameter `physical`") && error.contains("4096"), "{error}");
        }
    });
}

/// What a block holds after work that a power cut ends, over many seeds.
fn after_cuts(
    physical_block: u64,
    work: impl AsyncFn(&dyn Device, &Power),
    lbn: u64,
) -> Vec<Vec<u8>> {
    let mut contents: Vec<Vec<u8>> = (0..200)
        .map(|seed| {
            block_on_virtual(seed, async {
                let power = Power::on();
                let device = FaultyDevice::on(
                    Medium::disk(BlockCount(physical_block)),
                    "faulty".into(),
                    BlockCount(64),
                    BlockCount(16),
                    Arc::clone(&power),
                );
                work(&*device, &power).await;
                assert!(power.is_off());
                power.bring_back();
                device.restart();
                read(&*device, lbn).await
            })
        })
        .collect();
    contents.sort();
    contents.dedup();
    contents
}

/// Blocks 0 to 23 are durable; the power is cut in a write of block 9, or in the flush after it.
async fn cut_beside_durable_blocks(device: &dyn Device, power: &Power, writes: u64) {
    device.write(Lbn(0), filled(24, 1)).await.unwrap();
    device.flush().await.unwrap();
    power.fail_after(writes);
    let written = device.write(Lbn(9), filled(1, 2)).await;
    assert_eq!(written.is_err(), writes == 0);
    device.flush().await.unwrap_err();
}

#[test]
fn a_torn_write_damages_the_physical_sector_and_no_other() {
    let (old, new) = (vec![1; 512], vec![2; 512]);
    for writes in [0, 1] {
        let left = |physical, lbn| {
            after_cuts(
                physical,
                async |device, power| cut_beside_durable_blocks(device, power, writes).await,
                lbn,
            )
        };
        // A durable neighbour in the sector of 8 blocks from 8 on is lost with some seeds.
        for neighbour in [8, 15] {
            assert!(left(8, neighbour).contains(&old));
            assert!(left(8, neighbour).len() > 10, "block {neighbour} was never damaged");
        }
        assert!([&old, &new].iter().all(|whole| left(8, 9).contains(whole)));
        for other in [7, 16] {
            assert_eq!(left(8, other), from_ref(&old), "block {other} is in another sector");
        }
        // With sectors of one block only the block that was written is in danger.
        assert_eq!(left(1, 9), [old.clone(), new.clone()]);
        assert_eq!(left(1, 8), from_ref(&old));
    }
}

#[test]
fn a_discard_is_durable_with_the_next_flush() {
    let (old, zeros) = (vec![1; 512], vec![0; 512]);
    let left = |flushes: bool| {
        after_cuts(
            1,
            async |device, power| {
                device.write(Lbn(0), filled(24, 1)).await.unwrap();
                device.flush().await.unwrap();
                device.discard(range(4, 8)).await.unwrap();
                assert_eq!(read(device, 5).await, [0; 512]);
                if flushes {
                    device.flush().await.unwrap();
                }
                power.fail_after(0);
                device.flush().await.unwrap_err();
            },
            5,
        )
    };
    assert_eq!(left(true), from_ref(&zeros));
    assert_eq!(left(false), [zeros, old]);
}

#[test]
fn a_discard_undone_by_a_cut_does_not_undo_a_flushed_write_after_it() {
    let left = after_cuts(
        1,
        async |device, power| {
            device.write(Lbn(0), filled(24, 1)).await.unwrap();
            device.discard(range(4, 8)).await.unwrap();
            device.write(Lbn(5), filled(1, 3)).await.unwrap();
            device.flush().await.unwrap();
            power.fail_after(0);
            device.discard(range(16, 8)).await.unwrap_err();
        },
        5,
    );
    assert_eq!(left, [vec![3; 512]]);
}
