//! `moirai volume bench`: latency and throughput of the accesses that a volume's layout is made for.

use std::path::Path;

use futures::stream::{self, StreamExt};
use moirai::runtime::{is_virtual, now, random};
use moirai::storage::{Device, IoBuf, Op, Request};
use moirai::units::{BlockCount, BlockRange, Lbn, Nanos, grouped_decimals};
use rand::Rng;
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress, run};

/// Blocks of a random request: 8 KiB.
const RANDOM: BlockCount = BlockCount(16);
/// Requests in flight of random accesses with several.
const OUTSTANDING: usize = 16;

#[derive(Clone, Copy)]
enum Access {
    /// Parallel ensembles, one after the other, two in flight.
    Sequential,
    /// The equivalence class of a random block, in one batch.
    OtherMajor,
    /// Random blocks, one at a time, or several.
    Random(usize),
}

#[derive(Serialize)]
struct Measured {
    access: String,
    op: &'static str,
    requests: u64,
    mean_ms: f64,
    median_ms: f64,
    p99_ms: f64,
    requests_per_s: f64,
    mb_per_s: f64,
}

#[derive(Serialize)]
struct Shown {
    volume: String,
    virtual_time: bool,
    measured: Vec<Measured>,
}

pub(super) fn bench(path: &Path, requests: u64, writes: bool, json: bool) -> Result<(), Failure> {
    let uri = format!("volume:{}", path.display());
    let shown = run::on_device(&uri, async {
        let access = if writes { moirai::Access::Write } else { moirai::Access::Read };
        let device = moirai::open_device_for(&uri, access).await?;
        if writes {
            for (_, occupant) in
                moirai::storage::occupants(std::slice::from_ref(&device), true).await?
            {
                print::note_of_loss(&uri, &occupant);
            }
        }
        let accesses = [
            Access::Sequential,
            Access::OtherMajor,
            Access::Random(1),
            Access::Random(OUTSTANDING),
        ];
        let reads = accesses.map(|access| (access, Op::Read)).to_vec();
        let of_writes = [Access::Sequential, Access::Random(1), Access::Random(OUTSTANDING)];
        let of_writes = of_writes.map(|access| (access, Op::Write)).into_iter();
        let all: Vec<_> = reads.into_iter().chain(of_writes.filter(|_| writes)).collect();
        let bar = progress::bar("measuring", Some(all.len() as u64));
        let mut measured = Vec::new();
        for (access, op) in all {
            measured.push(measure(&*device, access, op, requests).await?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let volume = device.inquiry().name.clone();
        Ok(Shown { volume, virtual_time: is_virtual(), measured })
    })?;
    if json {
        return print::json(&shown);
    }
    let row = |one: &Measured| {
        let decimals = |value: f64| grouped_decimals(value, 2);
        vec![
            one.access.clone(),
            one.op.to_owned(),
            decimals(one.mean_ms),
            decimals(one.median_ms),
            decimals(one.p99_ms),
            grouped_decimals(one.requests_per_s, 0),
            grouped_decimals(one.mb_per_s, 1),
        ]
    };
    let columns = [
        ("access", false),
        ("", false),
        ("mean ms", true),
        ("median ms", true),
        ("99 % ms", true),
        ("requests/s", true),
        ("MB/s", true),
    ];
    print::table(&columns, shown.measured.iter().map(row).collect())?;
    match shown.virtual_time {
        true => print::line("Times and rates are virtual: those of the simulated disks."),
        false => Ok(()),
    }
}

async fn measure(
    device: &dyn Device,
    access: Access,
    op: Op,
    requests: u64,
) -> Result<Measured, Failure> {
    let mut random = random("volume bench");
    let capacity = device.inquiry().capacity;
    let mut next = Lbn(0);
    let mut batches = Vec::new();
    for _ in 0..requests {
        batches.push(match access {
            Access::Sequential => {
                let ensemble = device.parallel_ensemble(next)?;
                next = if ensemble.end().0 < capacity.0 { ensemble.end() } else { Lbn(0) };
                vec![ensemble]
            }
            Access::OtherMajor => {
                let class = device.equivalent(Lbn(random.random_range(0..capacity.0)))?;
                class.lbns.into_iter().map(|lbn| BlockRange::new(lbn, BlockCount(1))).collect()
            }
            Access::Random(_) => {
                let count = RANDOM.min(capacity);
                let places = capacity.0 / count.0;
                vec![BlockRange::new(Lbn(random.random_range(0..places) * count.0), count)]
            }
        });
    }
    let (name, outstanding) = match access {
        Access::Sequential => ("sequential, by parallel ensembles".to_owned(), 2),
        Access::OtherMajor => ("other-major, by equivalence classes".to_owned(), 1),
        Access::Random(1) => (format!("random {}", RANDOM.bytes()), 1),
        Access::Random(count) => (format!("random {}, {count} in flight", RANDOM.bytes()), count),
    };
    let blocks: u64 = batches.iter().flatten().map(|blocks| blocks.count.0).sum();
    let began = now();
    let served: Vec<Result<Nanos, Failure>> = stream::iter(batches)
        .map(|batch| serve(device, op, batch))
        .buffer_unordered(outstanding)
        .collect()
        .await;
    let flushed = if op == Op::Write { device.flush().await } else { Ok(()) };
    flushed?;
    let elapsed_s = now().since(began).as_ms() / 1e3;
    let mut times = served.into_iter().collect::<Result<Vec<Nanos>, Failure>>()?;
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1))).map_or(0.0, |time| time.as_ms())
    };
    let sum_ms: f64 = times.iter().map(|time| time.as_ms()).sum();
    Ok(Measured {
        access: name,
        op: if op == Op::Read { "read" } else { "write" },
        requests,
        mean_ms: sum_ms / requests.max(1) as f64,
        median_ms: at(0.5),
        p99_ms: at(0.99),
        requests_per_s: requests as f64 / elapsed_s,
        mb_per_s: BlockCount(blocks).bytes().0 as f64 / 1e6 / elapsed_s,
    })
}

/// Serves a batch; gives the time it took.
async fn serve(device: &dyn Device, op: Op, batch: Vec<BlockRange>) -> Result<Nanos, Failure> {
    let request = |blocks: BlockRange| match op {
        Op::Read => Request::read(blocks),
        Op::Write => Request { op, blocks, data: vec![IoBuf::zeroed(blocks.count)] },
    };
    let began = now();
    for completion in device.submit(batch.into_iter().map(request).collect()).await {
        completion?;
    }
    Ok(now().since(began))
}
