//! `moirai volume draw`: a picture like thesis figure 6.2.

use std::path::Path;

use moirai::storage::Device;
use moirai::units::{BlockCount, BlockRange, Lbn, grouped};
use moirai::volume::{DiskIndex, Layout, Role, StripeIndex, Volume};
use moirai_charts::{Stripe, Unit};

use super::show::with_volume;
use crate::failure::Failure;
use crate::{output, print};

/// Stripes shown at least.
const STRIPES_MIN: u64 = 8;
/// Blocks named beside a stripe at most.
const BLOCKS_NAMED: usize = 3;

pub(super) fn draw(path: &Path, out: &Path, at: Lbn) -> Result<(), Failure> {
    output::keep_inputs(out, &[&path.display().to_string()])?;
    let picture = with_volume(path, |volume, disks| {
        let names: Vec<String> = disks.into_iter().map(|disk| disk.name()).collect();
        picture(volume, &names, at)
    })?;
    output::write(out, &picture)?;
    print::line(format!("{}: open it in a browser", out.display()))
}

/// The stripes around the access to the blocks that go with `at`.
fn picture(volume: &Volume, names: &[String], at: Lbn) -> Result<String, Failure> {
    let layout = volume.layout();
    let access = volume.equivalent(at)?.lbns;
    let of_access = || access.iter().map(|lbn| layout.place(*lbn).stripe.0);
    let depth = u64::from(layout.depth());
    let first = of_access().min().unwrap_or(0) / depth * depth;
    let last = of_access().max().unwrap_or(0);
    // What comes next is shown, too.
    let shown = (last + 1 - first).next_multiple_of(depth).max(STRIPES_MIN.next_multiple_of(depth));
    let end = layout.stripes().min(first + shown);
    let row = |stripe| row(volume, StripeIndex(stripe), &access);
    let stripes: Vec<Stripe> = (first..end).map(row).collect();
    let inquiry = volume.inquiry();
    let note = format!(
        "{}, {} over {} disks: p = {}, d = {}, b = {}. Rows are stripes: a track, or a stripe unit, of each \
         disk, with the volume's blocks that it holds. Rows of a quadrangle are drawn as they pass under \
         the heads: a bar shows where the first block is when the row above begins. Orange are the blocks \
         that go with {at}: on each disk they are accessed for one positioning.",
        inquiry.capacity.bytes(),
        layout.level(),
        layout.disks(),
        inquiry.parallelism,
        inquiry.depth,
        layout.block().0,
    );
    Ok(moirai_charts::volume(&inquiry.name, &note, names, &stripes))
}

fn row(volume: &Volume, stripe: StripeIndex, access: &[Lbn]) -> Stripe {
    let layout = volume.layout();
    let is_here = |lbn: &Lbn| layout.place(*lbn).stripe == stripe;
    let here: Vec<Lbn> = access.iter().copied().filter(is_here).collect();
    let mut named: Vec<String> = here.iter().take(BLOCKS_NAMED).map(|lbn| grouped(lbn.0)).collect();
    if here.len() > BLOCKS_NAMED {
        named.push("…".to_owned());
    }
    let row = stripe.0 % u64::from(layout.depth());
    let turned = BlockCount(row * switch(volume, stripe).0);
    let disks = (0..layout.disks()).map(DiskIndex);
    Stripe {
        begins_turn: row == 0,
        access: named.join(", "),
        units: disks.map(|disk| unit(layout, stripe, disk, turned, &here)).collect(),
    }
}

/// By how much the tracks of a quadrangle are turned against each other on the disks themselves.
fn switch(volume: &Volume, stripe: StripeIndex) -> BlockCount {
    let track = volume.layout().unit(stripe);
    let of_stripe = volume.quadrangles().iter().find(|zone| zone.dimensions.track == track);
    of_stripe.map_or(BlockCount::ZERO, |zone| zone.dimensions.switch)
}

/// A disk's unit of a stripe that is turned by `turned` blocks.
fn unit(
    layout: &Layout,
    stripe: StripeIndex,
    disk: DiskIndex,
    turned: BlockCount,
    access: &[Lbn],
) -> Unit {
    let blocks = layout.unit(stripe);
    let share = |count: BlockCount| count.0 as f64 / blocks.0.max(1) as f64;
    let angle = |lbn| share(layout.place(lbn).offset + turned).fract();
    let (position, copy) = match layout.role(stripe, disk) {
        Role::Data { position, copy } => (position, copy),
        parity => {
            let name = if parity == Role::P { "P" } else { "Q" };
            let name = name.to_owned();
            return Unit { blocks: None, name, first_at: 0.0, marks: Vec::new() };
        }
    };
    let first = layout.stripe_blocks(stripe).first + BlockCount(position as u64 * blocks.0);
    let is_here = |lbn: &&Lbn| layout.place(**lbn).position == position;
    let is_read = copy == layout.preferred_copy(stripe);
    let marks = access.iter().filter(is_here).filter(|_| is_read);
    let block = share(layout.block().max(BlockCount(1)));
    Unit {
        blocks: Some(BlockRange::new(first, blocks)),
        name: if copy > 0 { "copy".to_owned() } else { String::new() },
        first_at: angle(first),
        marks: marks.map(|lbn| (angle(*lbn), block)).collect(),
    }
}
