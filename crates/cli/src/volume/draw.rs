//! `moirai volume draw`: a picture like thesis figure 6.2.

use std::path::Path;

use moirai::storage::Device;
use moirai::units::{BlockCount, BlockRange, Lbn};
use moirai::volume::{DiskIndex, Role, StripeIndex, Volume};
use moirai_charts::{Content, Stripe, Unit, stripes_to_draw};

use super::show::with_volume;
use crate::failure::Failure;
use crate::{output, print};

/// A picture shows no fewer stripes, so that it also shows the stripes after a small access.
const STRIPES_MIN: u64 = 8;

pub(super) fn draw(path: &Path, out: &Path, at: Lbn, force: &output::Force) -> Result<(), Failure> {
    let path_text = path.display().to_string();
    force.check(out, &[&path_text, &format!("volume:{path_text}")])?;
    let picture = with_volume(path, |volume, disks| {
        let names: Vec<String> = disks.into_iter().map(|disk| disk.name()).collect();
        picture(volume, &names, at)
    })?;
    output::write(out, &picture)?;
    print::note(format!("{}: open it in a browser", out.display()));
    Ok(())
}

/// Draws the access that block `at` is part of: the stripes of its equivalence class.
fn picture(volume: &Volume, names: &[String], at: Lbn) -> Result<String, Failure> {
    let layout = volume.layout();
    let access = volume.equivalent(at)?.lbns;
    let of_access = || access.iter().map(|lbn| layout.place(*lbn).stripe.0);
    let depth = u64::from(layout.depth());
    let first = of_access().min().unwrap_or(0) / depth * depth;
    let last = of_access().max().unwrap_or(0);
    let shown = (last + 1 - first).next_multiple_of(depth).max(STRIPES_MIN.next_multiple_of(depth));
    let end = layout.stripes().min(first + shown);
    let row = |stripe| row(volume, StripeIndex(stripe), &access);
    let chosen = stripes_to_draw(first..end, depth, layout.place(at).stripe.0);
    let stripes: Vec<Stripe> = chosen.into_iter().map(row).collect();
    let inquiry = volume.inquiry();
    let across = match depth {
        1 => "one unit of each disk. From left to right run the blocks of the unit.",
        _ => {
            "one track, or other ensemble, of each disk. From left to right is one revolution, \
             from the angle at which the quadrangle begins."
        }
    };
    let note = format!(
        "{}, {} over {} disks; parallelism p = {}, depth d = {}, volume block b = {}. A row is a stripe: {across} \
         The access is the equivalence class of {at}: each disk reads its part with one positioning.",
        inquiry.capacity.bytes(),
        layout.level(),
        layout.disks(),
        inquiry.parallelism,
        inquiry.depth,
        inquiry.volume_block,
    );
    Ok(moirai_charts::volume(&inquiry.name, &note, names, &stripes))
}

fn row(volume: &Volume, stripe: StripeIndex, access: &[Lbn]) -> Stripe {
    let layout = volume.layout();
    let is_here = |lbn: &Lbn| layout.place(*lbn).stripe == stripe;
    let here: Vec<Lbn> = access.iter().copied().filter(is_here).collect();
    let row = stripe.0 % u64::from(layout.depth());
    // On a disk, each track of a quadrangle is skewed by the switch delay against the one above.
    let (_, switch) = layout.unit_around(layout.stripe_blocks(stripe).first);
    let skew = BlockCount(row * switch.0);
    let disks = (0..layout.disks()).map(DiskIndex);
    Stripe {
        index: stripe.0,
        begins_group: row == 0,
        units: disks.map(|disk| unit(volume, stripe, disk, skew, &here)).collect(),
        access: here,
    }
}

/// Returns the unit of `disk` in a stripe whose tracks are skewed by `skew` blocks.
fn unit(
    volume: &Volume,
    stripe: StripeIndex,
    disk: DiskIndex,
    skew: BlockCount,
    access: &[Lbn],
) -> Unit {
    let layout = volume.layout();
    let blocks = layout.unit(stripe);
    let share = |count: BlockCount| count.0 as f64 / blocks.0.max(1) as f64;
    let angle = |lbn| share(layout.place(lbn).offset + skew).fract();
    let parity = |content| Unit { content, first_at: 0.0, marks: Vec::new() };
    let (position, copy) = match layout.role(stripe, disk) {
        Role::Data { position, copy } => (position, copy),
        Role::P => return parity(Content::P),
        Role::Q => return parity(Content::Q),
    };
    let first = layout.stripe_blocks(stripe).first + BlockCount(position as u64 * blocks.0);
    let is_here = |lbn: &&Lbn| layout.place(**lbn).position == position;
    let is_read = copy == layout.preferred_copy(stripe);
    let marks = access.iter().filter(is_here).filter(|_| is_read);
    let block = share(volume.inquiry().volume_block);
    let range = BlockRange::new(first, blocks);
    Unit {
        content: if copy > 0 { Content::Copy(range) } else { Content::Data(range) },
        first_at: angle(first),
        marks: marks.map(|lbn| (angle(*lbn), block)).collect(),
    }
}
