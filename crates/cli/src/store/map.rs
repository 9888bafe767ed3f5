//! `moirai store map`: where a store lies on its device.

use std::collections::BTreeMap;
use std::path::Path;

use moirai::btree::{Mapped, Store};
use moirai::storage::Device;
use moirai::units::{BlockCount, BlockRange, Lbn};
use moirai_charts::DrawnExtent;
use serde::Serialize;

use crate::failure::Failure;
use crate::{output, print};

/// A picture shows so many ensembles.
const ROWS: usize = 64;
/// What extents are for, in the order of the colours.
const USES: [&str; 4] = ["leaves and pages", "staged changes", "long values", "checkpoint"];

/// What extents of one kind take.
#[derive(Default)]
struct Sum {
    extents: u64,
    blocks: u64,
    crossed: u64,
    avoidable: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    what: &'static str,
    tree: Option<&'a str>,
    first: u64,
    blocks: u64,
    boundaries_crossed: u64,
    boundaries_avoidable: u64,
}

impl Row<'_> {
    fn of(one: &Mapped) -> Row<'_> {
        Row {
            what: one.what,
            tree: one.tree.as_deref(),
            first: one.blocks.first.0,
            blocks: one.blocks.count.0,
            boundaries_crossed: one.crossed,
            boundaries_avoidable: one.avoidable,
        }
    }
}

pub(super) async fn map(store: &Store, json: bool, out: Option<&Path>) -> Result<(), Failure> {
    let all = store.map().await?;
    if let Some(out) = out {
        output::write(out, &picture(store.data_device(), &all)?)?;
    }
    if json {
        let rows: Vec<Row<'_>> = all.iter().map(Row::of).collect();
        return print::json(&rows);
    }
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    for one in &all {
        let sum = sums.entry((one.what, one.tree.as_deref().unwrap_or("-"))).or_default();
        sum.extents += 1;
        sum.blocks += one.blocks.count.0;
        sum.crossed += one.crossed;
        sum.avoidable += one.avoidable;
    }
    let rows = sums.iter().map(|((what, tree), sum)| {
        let bytes = BlockCount(sum.blocks).bytes();
        let mut row = vec![(*what).to_owned(), (*tree).to_owned(), sum.extents.to_string()];
        row.push(format!("{:.1}", bytes.0 as f64 / f64::from(1 << 20)));
        row.extend([sum.crossed.to_string(), sum.avoidable.to_string()]);
        row
    });
    let columns = [
        ("holds", false),
        ("tree", false),
        ("extents", true),
        ("MiB", true),
        ("boundaries crossed", true),
        ("avoidable", true),
    ];
    print::table(&columns, rows.collect())?;
    if let Some(out) = out {
        print::note(format!("{}: open it in a browser", out.display()));
    }
    Ok(())
}

/// The ensembles from the first extent on.
fn picture(device: &dyn Device, all: &[Mapped]) -> Result<String, Failure> {
    let capacity = device.inquiry().capacity;
    let mut rows: Vec<BlockRange> = Vec::new();
    let mut at = all.first().map_or(Lbn(0), |one| one.blocks.first);
    while rows.len() < ROWS && at.0 < capacity.0 {
        let ensemble = device.ensemble(at)?.blocks;
        at = ensemble.end();
        rows.push(ensemble);
    }
    let end = rows.last().map_or(Lbn(0), |row| row.end());
    let shown = all.iter().filter(|one| one.blocks.first < end).map(|one| DrawnExtent {
        used_for: USES.iter().position(|name| name.contains(one.what)).unwrap_or(USES.len()),
        blocks: one.blocks,
    });
    let name = &device.inquiry().name;
    let note = format!(
        "The first {} ensembles with data, of {}: on a disk these are its tracks, and the blocks of a row are read within \
         one revolution. A white line ends an extent. An extent that goes on in the next row crosses a boundary.",
        rows.len(),
        capacity.bytes(),
    );
    Ok(moirai_charts::extents(name, &note, &USES, &rows, &shown.collect::<Vec<_>>()))
}
