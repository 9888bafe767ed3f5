//! Drives whose answers come late by some more or less, examined by their diagnostic commands.

mod late;

use late::Late;
use moirai_devices::{Access, open};
use moirai_discovery::extract;
use moirai_models::Profile;
use moirai_runtime::block_on_virtual;

/// A sector passes in 10 to 25 us on these: the skew of two tracks is told by their angles to some sectors.
#[test]
fn skews_are_exact_where_times_vary_by_a_sector() {
    for (name, deviation_us) in [
        ("hp-c2247", 20.0),
        ("ibm-ultrastar-18lzx", 20.0),
        ("quantum-atlas-10k", 10.0),
        ("seagate-cheetah-4lp", 20.0),
        ("seagate-cheetah-x15", 10.0),
    ] {
        let truth = Profile::built_in(name).unwrap().geometry;
        let found = block_on_virtual(1, async {
            let device = open(format!("sim:{name}").parse().unwrap(), Access::Read).unwrap();
            extract(&*Late::over(device, deviation_us, None), false, |_| ()).await
        });
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        // A zone may be cut in two that turn alike.
        for zone in truth.zones() {
            let of_zone = |cylinder: u32| {
                let mut zones = found.geometry.zones();
                zones.find(|found| {
                    (found.first_cylinder..found.first_cylinder + found.cylinders)
                        .contains(&cylinder)
                })
            };
            let found = of_zone(zone.first_cylinder).unwrap();
            assert_eq!(
                (found.track_sectors, found.track_skew, found.cylinder_skew),
                (zone.track_sectors, zone.track_skew, zone.cylinder_skew),
                "{name}, cylinder {}",
                zone.first_cylinder
            );
        }
    }
}
