//! Tests of the pictures of volumes: the pictures are read back as XML.

use super::*;
use moirai_units::BlockCount;
use roxmltree::{Document, Node};

/// A stripe of one data unit of 334 blocks, with the access in its middle.
fn stripe(index: u64, depth: u64) -> Stripe {
    let blocks = BlockRange::new(Lbn(334 * index), BlockCount(334));
    Stripe {
        index,
        begins_group: index.is_multiple_of(depth),
        access: vec![blocks.first],
        units: vec![Unit {
            content: Content::Data(blocks),
            first_at: 0.5,
            marks: vec![(0.5, 0.003)],
        }],
    }
}

fn draw(stripes: &[Stripe]) -> String {
    let disks = stripes.first().map_or(0, |stripe| stripe.units.len());
    let names: Vec<String> = (0..disks).map(|disk| format!("sim:{disk}")).collect();
    volume("volume:v.toml", "A note.", &names, stripes)
}

fn number(node: Node, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn texts(picture: &str) -> Vec<String> {
    let document = Document::parse(picture).unwrap();
    let texts = document.descendants().filter(|node| is(node, "text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn is(node: &Node, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

#[test]
fn picture_is_well_formed_with_any_names_and_numbers() {
    let unit =
        |content| Unit { content, first_at: 0.25, marks: vec![(0.9, 0.001), (f64::NAN, 0.5)] };
    let data = Content::Data(BlockRange::new(Lbn(0), BlockCount(334)));
    let stripe = |index, begins_group| Stripe {
        index,
        begins_group,
        access: vec![Lbn(0), Lbn(334)],
        units: vec![unit(data.clone()), unit(Content::P)],
    };
    let disks = ["a<b".to_owned(), "c&d".to_owned()];
    for disks in [&disks[..], &[]] {
        let picture = volume("<v>", "A \"note\".", disks, &[stripe(0, true), stripe(1, false)]);
        let document = Document::parse(&picture).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "svg");
    }
}

#[test]
fn marks_do_not_overlap_numbers() {
    let picture = draw(&(0..4).map(|index| stripe(index, 4)).collect::<Vec<_>>());
    let document = Document::parse(&picture).unwrap();
    let marks = || document.descendants().filter(|node| node.attribute("fill") == Some(ORANGE));
    assert_eq!(marks().count(), 4);
    let is_range =
        |node: &Node| is(node, "text") && node.text().is_some_and(|text| text.contains('\u{2013}'));
    let ranges = || document.descendants().filter(is_range);
    assert_eq!(ranges().count(), 4);
    for range in ranges() {
        let (base_line, size) = (number(range, "y"), number(range, "font-size"));
        for mark in marks() {
            let (top, height) = (number(mark, "y"), number(mark, "height"));
            let is_apart = top >= base_line + 0.2 * size || top + height <= base_line - 0.8 * size;
            assert!(is_apart, "a mark at {top} and {:?} at {base_line}", range.text());
        }
    }
}

#[test]
fn columns_have_headings() {
    let texts = texts(&draw(&[stripe(7, 4)]));
    for heading in ["stripe", "blocks of", "the access", "disk 0", "sim:0"] {
        assert!(texts.iter().any(|text| text == heading), "{heading} in {texts:?}");
    }
    // The stripe and the block of the access under these headings.
    for cell in ["7", "2,338"] {
        assert!(texts.iter().any(|text| text == cell), "{cell} in {texts:?}");
    }
}

#[test]
fn legend_explains_what_the_picture_shows_and_nothing_else() {
    let blocks = BlockRange::new(Lbn(0), BlockCount(128));
    let legend = |contents: &[Content]| {
        let unit =
            |content: &Content| Unit { content: content.clone(), first_at: 0.0, marks: Vec::new() };
        let units = contents.iter().map(unit).collect();
        let texts =
            texts(&draw(&[Stripe { index: 0, begins_group: true, access: Vec::new(), units }]));
        let is_there = |start: &&str| texts.iter().any(|text| text.starts_with(*start));
        ["data: ", "copy: ", "P: ", "Q: ", "block of the access"]
            .into_iter()
            .filter(is_there)
            .collect::<Vec<_>>()
    };
    let (data, copy) = (Content::Data(blocks), Content::Copy(blocks));
    assert_eq!(legend(&[data.clone(), copy]), ["data: ", "copy: "]);
    assert_eq!(legend(&[data.clone(), Content::P, Content::Q]), ["data: ", "P: ", "Q: "]);
    assert_eq!(legend(&[data]), ["data: "]);
    let marked = texts(&draw(&[stripe(0, 1)]));
    assert!(marked.iter().any(|text| text == "block of the access"), "{marked:?}");
}

#[test]
fn picture_of_deep_quadrangles_is_bounded_and_counts_stripes_left_out() {
    let depth = 999;
    let chosen = stripes_to_draw(0..4 * depth, depth, 1_500);
    let picture = draw(&chosen.iter().map(|index| stripe(*index, depth)).collect::<Vec<_>>());
    let document = Document::parse(&picture).unwrap();
    let height = number(document.root_element(), "height");
    assert!(height < 4_000.0, "{height} pixels");
    let left_out = |text: &String| {
        let (count, rest) = text.split_once(" stripe")?;
        rest.contains("left out: ").then(|| count.replace(',', "").parse::<usize>().unwrap())
    };
    let left_out: usize = texts(&picture).iter().filter_map(left_out).sum();
    assert_eq!(chosen.len() + left_out, 4 * depth as usize);
}

#[test]
fn picture_is_wide_enough_for_all_disks() {
    for disks in [1, 12, 80] {
        let mut stripe = stripe(0, 1);
        stripe.units = vec![stripe.units[0].clone(); disks];
        let picture = draw(&[stripe]);
        let document = Document::parse(&picture).unwrap();
        let width = number(document.root_element(), "width");
        let rects = document.descendants().filter(|node| is(node, "rect"));
        let rights = rects.filter(|node| node.has_attribute("x"));
        let right =
            rights.map(|node| number(node, "x") + number(node, "width")).fold(0.0, f64::max);
        assert!(right <= width, "{disks} disks: a unit ends at {right} of {width}");
    }
}

#[test]
fn labels_of_narrow_units_have_whole_numbers() {
    let mut stripe = stripe(30_000, 1);
    stripe.units = vec![stripe.units[0].clone(); 12];
    let texts = texts(&draw(&[stripe]));
    // And one of the access, in front of the units.
    let count = texts.iter().filter(|text| *text == "10,020,000").count();
    assert_eq!(count, 13, "{texts:?}");
}

#[test]
fn blocks_of_the_access_are_whole_numbers_and_dots() {
    let named =
        |count: u64| named(&(0..count).map(|index| Lbn(123_456 + index)).collect::<Vec<_>>());
    assert_eq!(named(1), "123,456");
    assert_eq!(named(2), "123,456, 123,457");
    assert_eq!(named(9), "123,456, 123,457, \u{2026}");
    assert_eq!(super::named(&[]), "");
}
