//! Interleaved scans of a RAID 5 with stripe units of a track and of 256 KB: thesis 5.7.6.

use std::sync::Arc;

use futures::future::try_join_all;
use moirai::devices::Contents;
use moirai::runtime::{block_on_virtual, now};
use moirai::storage::{Device, Op, Request};
use moirai::units::{BlockCount, BlockRange, Lbn};
use moirai::volume::{LayoutDescription, Level, Rotation, StripeUnit, Volume};
use moirai_models::Profile;

use crate::setting::{drive, profile};
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "raid5-scan",
    source: "thesis 5.7.6 and figure 5.14",
    summary: "interleaved scans of a RAID 5: stripe units of a track and of 256 KB",
    assumptions: &[
        "Drives: four maxtor-atlas-10k-iii with one zone of 584 sectors a track, the zone that the thesis names. \
         The skew takes as long as in the drive's outermost zone. The profile has no cache.",
        "Parity: left-symmetric. A request reads one stripe unit, 584 or 512 blocks, aligned.",
        "The thesis replays traces of TPC-H queries, which are not published. Here scans run side by side, \
         each with one request in flight, through distant parts of the volume. A single scan never seeks \
         back, so it is not judged.",
        "The ratio compares times for the same amount of data, as the figure does: a request of 584 blocks \
         moves 14 % more.",
    ],
    takes: "1 s",
    scaling: None,
    run,
};

const DISKS: usize = 4;
const TRACK: u32 = 584;
/// 256 KB.
const FIXED: u64 = 512;
/// Blocks of each scan.
const SCANNED: u64 = 400_000;
const SCANS: [u64; 4] = [1, 2, 4, 8];
/// "On average 25 %."
const PUBLISHED: f64 = 0.75;
/// The judged figure: at least a fifth less time.
const RATIO_MAX: f64 = 0.80;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let seed = context.seed();
    let mut rows = Vec::new();
    let stages = context.stage().split(SCANS.map(|scans| scans as f64));
    for (scans, stage) in SCANS.into_iter().zip(stages) {
        let stage = stage.called(&format!("{scans} scans"));
        let fixed_ms =
            block_on_virtual(seed, io_ms(StripeUnit::Blocks(BlockCount(FIXED)), FIXED, scans))?;
        stage.at(0.5);
        let track_ms = block_on_virtual(seed, io_ms(StripeUnit::Track, TRACK.into(), scans))?;
        let per_mb = |ms: f64, blocks: u64| ms / (blocks as f64 * 512.0 / 1e6);
        let (fixed, track) = (per_mb(fixed_ms, FIXED), per_mb(track_ms, TRACK.into()));
        rows.push(Row::new(
            format!("{scans} scans, mean I/O time, units of 256 KB"),
            "virtual ms",
            fixed_ms,
        ));
        rows.push(Row::new(
            format!("{scans} scans, mean I/O time, units of a track"),
            "virtual ms",
            track_ms,
        ));
        let mut ratio =
            Row::new(format!("{scans} scans, ratio track to 256 KB, same data"), "", track / fixed);
        if scans > 1 {
            ratio = ratio.beside(PUBLISHED).judged(Tolerance::AtMost(RATIO_MAX));
        }
        rows.push(ratio);
    }
    Ok(rows)
}

/// Mean time of a request of `blocks`.
async fn io_ms(unit: StripeUnit, blocks: u64, scans: u64) -> Result<f64, Failure> {
    let volume = raid5(profile("maxtor-atlas-10k-iii")?, unit, || Contents::Nothing)?;
    let part = volume.inquiry().capacity.0 / scans / blocks;
    let requests = SCANNED / blocks;
    let scan = |index: u64| {
        let volume = &volume;
        async move {
            let device: &dyn Device = &**volume;
            let mut total_ms = 0.0;
            for request in 0..requests {
                let first = Lbn((index * part + request) * blocks);
                let began = now();
                let blocks = BlockRange::new(first, BlockCount(blocks));
                device.access(Request::access(Op::Read, blocks)).await?;
                total_ms += now().since(began).as_ms();
            }
            Ok::<f64, Failure>(total_ms)
        }
    };
    let totals = try_join_all((0..scans).map(scan)).await?;
    Ok(totals.into_iter().sum::<f64>() / (requests * scans) as f64)
}

/// Four drives, but with 584 sectors in each track, as RAID 5.
pub(super) fn raid5(
    profile: Profile,
    unit: StripeUnit,
    contents: impl Fn() -> Contents,
) -> Result<Arc<Volume>, Failure> {
    let setting = |problem: String| Failure::Setting(problem);
    let mut file = profile.file;
    let mut zones = file.zones.drain(..);
    let mut zone = zones.next().ok_or_else(|| setting("the drive has no zones".into()))?;
    zone.cylinders += zones.map(|other| other.cylinders).sum::<u32>();
    let skew = (zone.track_skew * TRACK).div_ceil(zone.track_sectors);
    (zone.track_sectors, zone.track_skew, zone.cylinder_skew) = (TRACK, skew, skew);
    file.zones = vec![zone];
    let profile = Profile::new(file).map_err(|error| setting(error.to_string()))?;
    let disk = |index| drive(&profile, format!("disk {index}"), contents(), None);
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let layout = LayoutDescription::Stripe { unit };
    let disks = (0..DISKS).map(disk).collect();
    Volume::new("raid5 of four disks".into(), disks, level, layout).map_err(Failure::Setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripe_units_of_a_track_take_a_fifth_less_time() {
        let outcome = EXPERIMENT.outcome(&Context::new(1)).unwrap();
        let judged: Vec<_> = outcome.rows.iter().filter_map(|row| row.within).collect();
        assert_eq!(judged, [true; 3], "{outcome:?}");
    }
}
