//! What cannot be opened says why and what to do.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use moirai_devices::{Access, NewFiles, open};
use moirai_runtime::{block_on_real, block_on_virtual};
use std::sync::Arc;

use moirai_storage::{Device, DeviceUri, Error, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn};

fn error_of(uri: &str) -> String {
    block_on_virtual(0, async { create(uri.parse().unwrap()).unwrap_err().to_string() })
}

fn create(uri: DeviceUri) -> moirai_storage::Result<Arc<dyn Device>> {
    open(uri, Access::Create(&NewFiles::new()))
}

#[test]
fn unknown_devices_are_errors_that_name_what_there_is() {
    let check = |uri: &str, expected: &str| {
        let error = error_of(uri);
        assert!(error.contains(expected), "{error}");
    };
    check("tape:x", "there is no scheme `tape`");
    check("sim:quantum-fireball", "seagate-cheetah-36es, ");
    check("sim:./no-such.toml", "no-such.toml: reading the profile failed");
    check("sim:quantum-atlas-10k?scheduler=elevator", "no scheduler `elevator`");
    check("sim:quantum-atlas-10k?date=x", "takes no parameter `date`; it takes data, scheduler");
    check("file:/no/such/file", "add ?size=SIZE");
    check("file:/tmp", "not a regular file");
    check("block:/tmp", "not a block device");
    check("block:/no/such/device", "/no/such/device");
    check("block:/dev/null?size=1MiB", "takes no parameter `size`; it takes ensemble");
}

#[test]
fn a_profile_with_an_unknown_key_names_it_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.toml");
    std::fs::write(&path, "name = \"x\"\nwings = 2\n").unwrap();
    let error = error_of(&format!("sim:{}", path.display()));
    assert!(error.contains("line 2") && error.contains("`wings`"), "{error}");
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.img");
    std::fs::write(&path, vec![0; 1000]).unwrap();
    let uri = format!("file:{}", path.display());
    assert!(error_of(&uri).contains("has 1000 B, but needs 4 KiB"));
    std::fs::write(&path, vec![0; 8192]).unwrap();
    assert!(error_of(&format!("{uri}?size=1MiB")).contains("has 8 KiB, not 1 MiB"));
}

#[test]
fn a_read_only_file_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.img");
    std::fs::write(&path, vec![7; 8192]).unwrap();
    let mut permissions = path.metadata().unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    block_on_real(0, async {
        let device = create(format!("file:{}", path.display()).parse().unwrap()).unwrap();
        let device: &dyn Device = &*device;
        assert_eq!(device.read(device.inquiry().all_blocks()).await.unwrap()[8191], 7);
        let result = device.write(Lbn(0), IoBuf::zeroed(BlockCount(8))).await;
        assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    });
}

/// The task that steps a simulated disk ends with its runtime: nobody waits for it.
#[test]
fn a_simulated_disk_of_an_ended_runtime_says_so() {
    let open = async { open("sim:quantum-atlas-10k".parse().unwrap(), Access::Write).unwrap() };
    let disk = block_on_virtual(1, open);
    block_on_virtual(1, async {
        let error = disk.flush().await.unwrap_err();
        assert!(matches!(error, Error::RuntimeEnded { .. }), "{error}");
        let first = BlockRange::new(Lbn(0), BlockCount(1));
        assert!(matches!(disk.read(first).await, Err(Error::RuntimeEnded { .. })));
    });
}
