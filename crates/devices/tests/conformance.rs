//! Every device passes the conformance suite of the storage interface.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{
    Access, Contents, FaultyDevice, Medium, NewFiles, Power, SimulatedOptions, SimulatedSsd,
    ZoneOptions, ZonedDevice, open,
};
use moirai_models::{Scheduler, SsdProfile};
use moirai_runtime::{block_on_real, block_on_virtual, now};
use moirai_storage::{
    Device, DeviceUri, Error, IoBuf, Op, Request, ZoneAction, ZoneLimits, conformance, occupant,
};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

fn check_file(parameters: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.img");
    block_on_real(1, async {
        let uri = format!("file:{}?size=16MiB{parameters}", path.display());
        conformance::check(create(uri.parse().unwrap()).unwrap()).await;
    });
}

fn create(uri: DeviceUri) -> moirai_storage::Result<Arc<dyn Device>> {
    open(uri, Access::Create(&NewFiles::new()))
}

#[test]
fn files_conform() {
    check_file("");
    check_file("&direct=false");
    check_file("&ensemble=36KiB");
}

/// On the block device that `MOIRAI_BLOCK_DEVICE` names and that is blank, such as one that `losetup -f --show FILE` made of a file of
/// zeros. It is overwritten.
#[test]
fn block_devices_conform() {
    let Ok(path) = std::env::var("MOIRAI_BLOCK_DEVICE") else { return };
    block_on_real(1, async {
        let uri = format!("block:{path}");
        let device = create(uri.parse().unwrap()).unwrap();
        let occupant = occupant(&*device).await.unwrap();
        assert_eq!(occupant, None, "{path} is not blank");
        let again = create(uri.parse().unwrap()).unwrap_err();
        assert!(matches!(again, Error::InUse { .. }), "{again}");
        conformance::check(device).await;
    });
}

#[test]
fn simulated_disks_conform() {
    for uri in ["sim:quantum-atlas-10k", "sim:seagate-cheetah-36es?scheduler=fcfs"] {
        block_on_virtual(1, async {
            conformance::check(create(uri.parse().unwrap()).unwrap()).await;
        });
    }
}

#[test]
fn simulated_mems_stores_conform() {
    for uri in ["sim:mems-g1", "sim:mems-g2", "sim:mems-g3?scheduler=fcfs&tips=64"] {
        block_on_virtual(1, async {
            conformance::check(create(uri.parse().unwrap()).unwrap()).await;
        });
    }
}

#[test]
fn simulated_ssds_conform() {
    for uri in ["sim:ssd-slc?size=64MiB", "sim:ssd-slc?data=none"] {
        block_on_virtual(1, async {
            conformance::check(create(uri.parse().unwrap()).unwrap()).await;
        });
    }
}

#[test]
fn zones_conform() {
    for uri in [
        "sim:quantum-atlas-10k?zone=1MiB&conventional=3&open=5",
        "sim:ssd-slc?size=64MiB&zone=4MiB&open=4&active=6",
        "sim:ssd-slc?size=64MiB&zone=512KiB&open=4&active=4",
        "sim:ssd-slc?size=64MiB&zone=5MiB&active=3",
    ] {
        block_on_virtual(1, async {
            let device = create(uri.parse().unwrap()).unwrap();
            conformance::check_zones(&*device).await;
        });
    }
}

/// What is refused does not hold up the rest of its batch.
#[test]
fn a_batch_is_written_but_for_what_its_zones_refuse() {
    block_on_virtual(1, async {
        let uri = "sim:quantum-atlas-10k?zone=1MiB".parse().unwrap();
        let device = create(uri).unwrap();
        let write = |first: u64| Request {
            op: Op::Write,
            blocks: BlockRange::new(Lbn(first), BlockCount(1)),
            data: vec![IoBuf::zeroed(BlockCount(1))],
        };
        let done = device.submit([0, 5, 1, 2048, 0].map(write).into()).await;
        let is_done: Vec<bool> = done.iter().map(Result::is_ok).collect();
        assert_eq!(is_done, [true, false, true, true, false]);
        assert_eq!(device.zones().unwrap().zone(Lbn(7)).unwrap().write_pointer, Lbn(2));
    });
}

/// A zoned SSD whose zones are reset before they are written again moves nothing.
#[test]
fn zones_of_an_ssd_cost_no_copies() {
    block_on_virtual(1, async {
        let profile = SsdProfile::built_in("ssd-slc").unwrap();
        let profile = profile.with_size(ByteCount::mib(64)).unwrap();
        let options = SimulatedOptions {
            name: "ssd".into(),
            scheduler: Scheduler::Fcfs,
            contents: Contents::Nothing,
            physical_block: BlockCount(1),
            host_bus: None,
        };
        let zone = profile.row(Lbn(0)).count;
        let zones = profile.capacity().0 / zone.0;
        let ssd = SimulatedSsd::start(profile, options);
        let limits = ZoneLimits { open: 8, active: Some(8) };
        let options = ZoneOptions { zone, conventional: 0, limits };
        let device: Arc<dyn Device> = ZonedDevice::over(Arc::clone(&ssd) as _, options);
        let zoned = device.zones().unwrap();
        for turn in 0..20 * zones {
            let first = Lbn(turn * 7 % zones * zone.0);
            zoned.manage(first, ZoneAction::Reset).await.unwrap();
            zoned.append(first, IoBuf::zeroed(zone)).await.unwrap();
        }
        let counters = ssd.counters();
        assert_eq!(counters.host.0, 20 * zones * zone.0);
        assert_eq!((counters.programmed, counters.moved), (counters.host, BlockCount::ZERO));
    });
}

/// Any p blocks of a class cost what one costs, but for the bus; p others cost several times as much (thesis 6.2.1).
#[test]
fn equals_of_a_mems_store_are_read_at_once() {
    block_on_virtual(1, async {
        let device = create("sim:mems-g2".parse().unwrap()).unwrap();
        let class = device.equivalent(Lbn(2_000_000)).unwrap();
        assert_eq!((class.parallelism, class.lbns.len()), (10, 100));
        let read = async |lbns: Vec<Lbn>| {
            let began = now();
            let one = |lbn| Request::read(BlockRange::new(lbn, BlockCount(1)));
            for done in device.submit(lbns.into_iter().map(one).collect()).await {
                done.unwrap();
            }
            now().since(began).as_ms()
        };
        read(vec![Lbn(0)]).await;
        let one = read(vec![class.lbns[0]]).await;
        read(vec![Lbn(0)]).await;
        let column = read(class.by_column().take(10).collect()).await;
        assert!(column < one + 0.1, "{one} ms for one, {column} ms for a column");
        let apart = read((0..10).map(|at| Lbn(at * 600_000)).collect()).await;
        assert!(apart > 3.0 * column, "{column} ms for a column, {apart} ms for blocks anywhere");
    });
}

#[test]
fn a_simulated_disk_without_contents_conforms() {
    block_on_virtual(1, async {
        let uri = "sim:maxtor-atlas-10k-iii?data=none".parse().unwrap();
        conformance::check(create(uri).unwrap()).await;
    });
}

#[test]
fn simulated_contents_in_a_file_conform_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sim:quantum-atlas-10k?data={}", folder.path().join("disk.img").display());
    block_on_virtual(1, async {
        conformance::check(create(uri.parse().unwrap()).unwrap()).await;
    });
    let other = uri.replace("quantum-atlas-10k", "seagate-cheetah-36es");
    block_on_virtual(1, async {
        create(uri.parse().unwrap()).unwrap();
        let error = create(other.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("name a file of this disk"), "{error}");
    });
}

fn faulty(physical_block: u64, power: &Arc<Power>) -> Arc<FaultyDevice> {
    FaultyDevice::on(
        Medium::disk(BlockCount(physical_block)),
        format!("faulty {physical_block}"),
        BlockCount(4096),
        BlockCount(64),
        Arc::clone(power),
    )
}

#[test]
fn faulty_devices_conform() {
    for physical_block in [1, 8] {
        block_on_virtual(1, async {
            conformance::check(faulty(physical_block, &Power::on())).await;
        });
    }
}
