//! Pictures of many kinds of drives and series: each call returns well-formed XML without a panic.
//!
//! The tests leave the pictures in `target/tmp/charts`, so that a person can look at them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::path::Path;

use moirai_charts::{distributions, drive};
use moirai_models::{
    Profile, ProfileFile, SeekFormula, Sparing, TrackOrder, ZoneFile, built_in_names,
};
use moirai_units::{BlockCount, Nanos};

/// Checks a picture, writes it to a file, and returns all its text.
fn check(name: &str, picture: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("charts");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.svg")), picture).unwrap();
    let document = roxmltree::Document::parse(picture).unwrap();
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"), "{name}");
    assert!(root.has_attribute("viewBox"), "{name}");
    let title = root.first_element_child().unwrap();
    assert!(title.has_tag_name((root.tag_name().namespace().unwrap(), "title")), "{name}");
    for bad in ["NaN", "inf"] {
        let attributes = document.descendants().flat_map(|node| node.attributes());
        let geometric = attributes.filter(|attribute| attribute.name() != "aria-label");
        assert!(geometric.into_iter().all(|value| !value.value().contains(bad)), "{name}: {bad}");
    }
    assert!(picture.len() < 1_000_000, "{name}: {} bytes", picture.len());
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let texts: Vec<_> = texts.filter_map(|node| node.text()).collect();
    texts.join("\n")
}

/// Returns a drive of 4 heads with a formula for its seeks, after `change`.
fn changed(name: &str, change: impl FnOnce(&mut ProfileFile)) -> Profile {
    let mut file = Profile::built_in("seagate-cheetah-36es").unwrap().file;
    file.name = name.into();
    file.description = format!("A drive made up for a test: {name}");
    file.seek_ms.clear();
    let (single_ms, average_ms, full_ms) = (0.5, 8.0, 16.0);
    file.seek = Some(SeekFormula::ThreePointCurve { single_ms, average_ms, full_ms });
    file.sources.insert("seek".into(), "interpolated: for a test".into());
    file.sources.remove("seek_ms");
    change(&mut file);
    Profile::new(file).unwrap()
}

fn zone(cylinders: u32, track_sectors: u32) -> ZoneFile {
    let skew = track_sectors / 8;
    ZoneFile {
        cylinders,
        track_sectors,
        track_skew: skew,
        cylinder_skew: skew,
        ..ZoneFile::default()
    }
}

/// Returns a drive of 20 TB in 24 zones, with serpentine tracks in groups of cylinders.
fn large() -> Profile {
    changed("large-20tb", |file| {
        file.description = "A large drive of today, 20 TB, 7,200 rpm, made up for a test".into();
        file.rotation_rpm = 7200.0;
        file.heads = 18;
        file.track_order = TrackOrder::SurfaceSerpentine { cylinders: 120 };
        let sectors = |index: u32| 5_900 - 125 * index;
        file.zones = (0..24).map(|index| zone(20_300, sectors(index))).collect();
        file.zones[23].cylinders = 20_450;
        file.zones[0].reserved_sectors = 1_000;
    })
}

#[test]
fn drive_draws_built_in_profiles() {
    for name in built_in_names() {
        let profile = Profile::built_in(name).unwrap();
        let text = check(name, &drive(&profile));
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn drive_shows_the_numbers_of_the_profile() {
    let text = check("numbers", &drive(&Profile::built_in("quantum-atlas-10k").unwrap()));
    for number in [
        "9.18 GB",
        "17,938,986 blocks",
        "10,025 rpm",
        "60,252 tracks",
        "24 zones",
        "over 3,347 cylinders",
        // 334 sectors of 512 bytes in 5.985 ms.
        "28.6",
        "63 sectors (1.13 ms) between heads",
        "334 to 667",
    ] {
        assert!(text.replace('\n', " ").contains(number), "{number} in {text}");
    }
}

#[test]
fn drive_draws_a_large_profile() {
    let profile = large();
    let capacity = profile.geometry.capacity();
    assert!(capacity > BlockCount(38_000_000_000), "{capacity}");
    let text = check("large-20tb", &drive(&profile));
    assert!(text.contains("2,000"), "{text}");
}

#[test]
fn drive_draws_small_profiles() {
    let one = |name: &str, heads, cylinders, sectors| {
        let profile = changed(name, |file| {
            file.heads = heads;
            file.zones = vec![zone(cylinders, sectors)];
        });
        check(name, &drive(&profile))
    };
    assert!(one("one-sector", 1, 1, 1).contains("512 B"));
    assert!(one("one-cylinder", 2, 1, 100).contains("never moves"));
    one("two-cylinders", 1, 2, 100);
    one("one-zone", 4, 1000, 500);
    assert!(one("a-million-sectors", 256, 1, 1_000_000).contains("1,000,000"));
    one("most-cylinders", 1, 10_000_000, 63);
}

#[test]
fn drive_draws_unusual_profiles() {
    let gaps = changed("gaps", |file| {
        file.heads = 3;
        file.rotation_rpm = 5411.5;
        file.zones = vec![zone(40, 120), zone(40, 90), zone(40, 60)];
        file.zones[0].first_cylinder = Some(10);
        file.zones[2].first_cylinder = Some(150);
        file.zones[0].origin_sector = 70;
        file.zones[0].spares = 7;
        file.zones[0].reserved_sectors = 130;
        file.zones[0].slipped = vec![140, 141, 150, 300, 700];
        file.zones[0].remapped = vec![(500, 595)];
        file.sparing = Sparing::SectorsPerTrack;
        file.seek = Some(SeekFormula::Constant { ms: 3.0 });
    });
    check("gaps", &drive(&gaps));
    let thousands = changed("thousands-of-zones", |file| {
        file.zones = (0..20_000).map(|index| zone(1, 2_000 - index / 20)).collect();
    });
    check("thousands-of-zones", &drive(&thousands));
    let bad = changed("every-other-sector-bad", |file| {
        file.heads = 1;
        file.zones = vec![zone(2, 20_000)];
        file.zones[0].slipped = (0..20_000).map(|index| 2 * index).collect();
    });
    check("every-other-sector-bad", &drive(&bad));
    let still = changed("no-time-to-seek", |file| {
        file.seek = Some(SeekFormula::Constant { ms: 0.0 });
        file.capacity_blocks = Some(700);
    });
    check("no-time-to-seek", &drive(&still));
}

#[test]
fn drive_escapes_the_texts_of_the_profile() {
    let name = "<a> & \"b\" ' \u{1} ]]>";
    let profile = changed(name, |file| file.description = "</svg> & ".repeat(100));
    let picture = drive(&profile);
    assert!(picture.contains("&lt;a&gt; &amp; &quot;b&quot;"));
    let text = check("markup", &picture);
    assert!(text.contains("<a> & \"b\" '"), "{text}");
}

/// Returns times that look random and are the same in each run.
fn times(count: u64, scale_ms: f64, offset_ms: f64) -> Vec<Nanos> {
    let share = |index: u64| ((index * 7919 % count) as f64 + 0.5) / count as f64;
    let ms =
        |share: f64| offset_ms + scale_ms * (share + 0.4 * share.powi(12) - 0.2 * share.ln().abs());
    (0..count).map(|index| Nanos::from_ms(ms(share(index)).max(0.3))).collect()
}

#[test]
fn distributions_draw_several_series() {
    let (measured, model) = (times(10_000, 16.0, 3.0), times(10_000, 16.4, 2.9));
    let (fast, slow) = (times(1000, 6.0, 2.0), times(500, 25.0, 2.0));
    let two: [(&str, &[Nanos]); 2] = [("measured", &measured), ("simulated", &model)];
    let note = "Demerit figure 0.268 ms, 1.9% of the mean response time.";
    let text = check("distributions-2", &distributions("Random reads of 4 KiB", &two, note));
    assert!(text.contains("measured (10,000 requests)"), "{text}");
    let four = [
        two[0],
        two[1],
        ("shortest positioning time first", &fast),
        ("first come, first served", &slow),
    ];
    check("distributions-4", &distributions("Four <schedulers> & more", &four, ""));
}

#[test]
fn distributions_draw_series_of_any_length() {
    let one = [Nanos::from_ms(4.0)];
    let long = "a long note that goes on and on ".repeat(30);
    let draw = |name: &str, series: &[(&str, &[Nanos])]| {
        check(name, &distributions("Title", series, &long));
    };
    draw("series-none", &[]);
    draw("series-empty", &[("empty", &[])]);
    draw("series-one-value", &[("one", &one), ("empty", &[])]);
    draw("series-zero", &[("zero", &[Nanos::ZERO; 3])]);
    draw("series-endless", &[("endless", &[Nanos(u64::MAX), Nanos(1)])]);
    draw("series-many", &[("one of many, with a long name to it", &one[..]); 9]);
}
