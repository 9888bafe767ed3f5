//! A volume behind the storage interface: requests are cut along the layout and served in parallel.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, join_all};
use moirai_storage::{
    Completion, Completions, Device, DeviceUri, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, IoBuf, Op, Request, Result, Timing,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{
    Description, DiskIndex, Layout, LayoutDescription, Location, Quadrangle, Stripe, zone_runs,
};

/// Several devices as one.
#[derive(Debug)]
pub struct Volume {
    inquiry: Inquiry,
    devices: Vec<Arc<dyn Device>>,
    layout: Layout,
    /// Set by a failed flush of any device and never cleared.
    latched: AtomicBool,
}

/// Opens the volume that the file at `path` describes; `open_device` opens each of its devices.
pub fn open(
    path: &Path,
    open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<Volume>> {
    open_described(path, &Description::read(path)?, open_device)
}

/// Opens the volume of `description`, which is or will be in the file at `path`.
pub fn open_described(
    path: &Path,
    description: &Description,
    mut open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<Volume>> {
    let layout = description.layout(path)?;
    let devices = description
        .devices
        .iter()
        .map(|text| text.parse().and_then(&mut open_device))
        .collect::<Result<Vec<_>>>()?;
    Volume::new(format!("volume:{}", path.display()), devices, layout)
        .map_err(|problem| Error::Description { path: path.to_owned(), problem })
}

impl Volume {
    /// Lays `layout` over `devices`. The message of the error says what does not fit.
    pub fn new(
        name: String,
        devices: Vec<Arc<dyn Device>>,
        layout: LayoutDescription,
    ) -> std::result::Result<Arc<Volume>, String> {
        check_equal(&devices).map_err(|error| error.to_string())??;
        let layout = match layout {
            LayoutDescription::Stripe { unit } => Stripe::new(devices.clone(), unit)
                .map(Layout::Stripe)
                .ok_or("key `unit`: the devices are smaller than it, or it is no multiple of their block")?,
            LayoutDescription::Quadrangle { depth, block, zone } => {
                let Some(device) = devices.first() else {
                    return Err("key `devices`: a volume has at least one".into());
                };
                let runs = zone_runs(&**device).map_err(|error| error.to_string())?;
                // The last track of a zone may be short, and is then a run of its own.
                let zones: Vec<_> = runs.iter().filter(|run| run.ensembles > 1).collect();
                let run = zones.get(zone).ok_or_else(|| {
                    format!(
                        "key `zone`: there is no zone {zone}, the devices have {}",
                        zones.len()
                    )
                })?;
                Quadrangle::new(devices.len(), run, depth, block).map(Layout::Quadrangle)?
            }
        };
        let inquiries = || devices.iter().map(|device| device.inquiry());
        let inquiry = Inquiry {
            name,
            capacity: layout.capacity(),
            parallelism: devices.len() as u32,
            depth: layout.depth(),
            volume_block: layout.volume_block(),
            atomic_write: inquiries().map(|i| i.atomic_write).min().unwrap_or(BlockCount(1)),
            volatile_cache: inquiries().any(|inquiry| inquiry.volatile_cache),
            read_only: inquiries().any(|inquiry| inquiry.read_only),
            keeps_data: inquiries().all(|inquiry| inquiry.keeps_data),
        };
        Ok(Arc::new(Volume { inquiry, devices, layout, latched: AtomicBool::new(false) }))
    }

    /// The layout, to ask where blocks lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The devices, in their order.
    #[must_use]
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    /// Where `vlbn` lies.
    pub fn locate(&self, vlbn: Lbn) -> Result<Location> {
        let device: &dyn Device = self;
        device.check_lbn(vlbn)?;
        self.layout.locate(vlbn)
    }

    fn check_latch(&self) -> Result<()> {
        if self.latched.load(Ordering::Acquire) {
            return Err(Error::Latched { device: self.inquiry.name.clone() });
        }
        Ok(())
    }

    fn cut(&self, request: Request, index: usize) -> Result<CutRequest> {
        self.check_latch()?;
        request.check(&self.inquiry)?;
        let with_data = !request.data.is_empty();
        let buffer_blocks = request.data.iter().map(IoBuf::blocks).collect();
        let mut data: VecDeque<IoBuf> = request.data.into();
        let mut pieces = Vec::new();
        let mut at = request.blocks.first;
        while at < request.blocks.end() {
            let Location { disk, dlbn, run } = self.layout.locate(at)?;
            let count = run.min(request.blocks.end().since(at));
            let buffers = if with_data { take_blocks(&mut data, count) } else { Vec::new() };
            pieces.push(Piece {
                disk,
                blocks: BlockRange::new(dlbn, count),
                order: pieces.len(),
                buffers,
            });
            at += count;
        }
        pieces.sort_by_key(|piece| (piece.disk, piece.blocks.first));
        Ok(CutRequest { index, op: request.op, pieces, buffer_blocks })
    }
}

/// `Ok(Err(message))` when the devices differ in what a layout depends on.
fn check_equal(devices: &[Arc<dyn Device>]) -> Result<std::result::Result<(), String>> {
    let Some((first, others)) = devices.split_first() else {
        return Ok(Ok(()));
    };
    let runs = zone_runs(&**first)?;
    for other in others {
        if zone_runs(&**other)? != runs {
            return Ok(Err(format!(
                "{} and {} have different geometries: a volume takes devices of one kind",
                first.inquiry().name,
                other.inquiry().name
            )));
        }
    }
    Ok(Ok(()))
}

/// A part of a request that is consecutive on one disk.
struct Piece {
    disk: DiskIndex,
    blocks: BlockRange,
    /// Its place in the request.
    order: usize,
    buffers: Vec<IoBuf>,
}

/// A request of the volume, in pieces sorted by disk and block.
struct CutRequest {
    /// Its place in the batch.
    index: usize,
    op: Op,
    pieces: Vec<Piece>,
    /// How its buffers were divided, to put them together again.
    buffer_blocks: Vec<BlockCount>,
}

/// What became of pieces that one disk served with one request.
struct Served {
    /// Which request of the batch they belong to.
    index: usize,
    /// The pieces' places in it, each with its number of buffers.
    orders: Vec<(usize, usize)>,
    result: Result<Completion>,
}

/// Takes the first `count` blocks off the front of a list of buffers.
fn take_blocks(data: &mut VecDeque<IoBuf>, mut count: BlockCount) -> Vec<IoBuf> {
    let mut taken = Vec::new();
    while count > BlockCount::ZERO {
        let Some(mut front) = data.pop_front() else {
            break;
        };
        if front.blocks() > count {
            data.push_front(front.split_off(count));
        }
        count = count - front.blocks();
        taken.push(front);
    }
    taken
}

/// Joins pieces of buffers into the buffers they were cut from.
fn put_together(pieces: Vec<IoBuf>, buffer_blocks: &[BlockCount]) -> Vec<IoBuf> {
    let mut pieces = pieces.into_iter();
    let mut whole = Vec::with_capacity(buffer_blocks.len());
    for blocks in buffer_blocks {
        let Some(mut buffer) = pieces.next() else {
            break;
        };
        while buffer.blocks() < *blocks {
            let Some(piece) = pieces.next() else { break };
            buffer.join(piece);
        }
        whole.push(buffer);
    }
    whole
}

/// The requests of one disk, each with what it serves.
#[derive(Default)]
struct DiskBatch {
    requests: Vec<Request>,
    serves: Vec<(usize, Vec<(usize, usize)>)>,
}

impl DiskBatch {
    /// Adds a piece; one that follows the last on the disk and in its ensemble becomes part of it.
    fn add(&mut self, index: usize, op: Op, piece: Piece, device: &dyn Device) -> Result<()> {
        let order = (piece.order, piece.buffers.len());
        if let (Some(request), Some((last_index, orders))) =
            (self.requests.last_mut(), self.serves.last_mut())
            && *last_index == index
            && request.blocks.end() == piece.blocks.first
            && device.ensemble(request.blocks.first)?.blocks.contains(piece.blocks.first)
        {
            request.blocks.count += piece.blocks.count;
            request.data.extend(piece.buffers);
            orders.push(order);
            return Ok(());
        }
        self.requests.push(Request { op, blocks: piece.blocks, data: piece.buffers });
        self.serves.push((index, vec![order]));
        Ok(())
    }

    async fn carry_out(self, device: &dyn Device) -> Vec<Served> {
        if self.requests.is_empty() {
            return Vec::new();
        }
        let results = device.submit(self.requests).await;
        let served = results.into_iter().zip(self.serves);
        served.map(|(result, (index, orders))| Served { index, orders, result }).collect()
    }
}

/// A request of the volume on its way to completion.
#[derive(Default)]
struct Gathering {
    buffer_blocks: Vec<BlockCount>,
    /// The pieces' buffers, at the pieces' places.
    buffers: Vec<Vec<IoBuf>>,
    timing: Option<Timing>,
    error: Option<Error>,
}

impl Gathering {
    fn add(&mut self, orders: Vec<(usize, usize)>, result: Result<Completion>) {
        match result {
            Err(error) => {
                self.error.get_or_insert(error);
            }
            Ok(completion) => {
                let mut data = completion.data.into_iter();
                for (order, count) in orders {
                    if let Some(place) = self.buffers.get_mut(order) {
                        place.extend(data.by_ref().take(count));
                    }
                }
                self.timing = Some(match self.timing {
                    None => completion.timing,
                    Some(timing) => timing.and(completion.timing),
                });
            }
        }
    }

    fn finish(self) -> Result<Completion> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Completion {
                data: put_together(
                    self.buffers.into_iter().flatten().collect(),
                    &self.buffer_blocks,
                ),
                timing: self.timing.unwrap_or_default(),
            }),
        }
    }
}

impl Device for Volume {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        self.layout.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        self.layout.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        self.layout.equivalent(lbn)
    }

    /// The requests of a batch reach each disk together, so that its own scheduler orders them;
    /// different disks work in parallel.
    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut gatherings: Vec<Gathering> = Vec::with_capacity(batch.len());
            let mut disks: Vec<DiskBatch> = Vec::new();
            disks.resize_with(self.devices.len(), DiskBatch::default);
            for (index, request) in batch.into_iter().enumerate() {
                let mut gathering = Gathering::default();
                match self.cut(request, index) {
                    Err(error) => gathering.error = Some(error),
                    Ok(cut) => {
                        gathering.buffers.resize_with(cut.pieces.len(), Vec::new);
                        gathering.buffer_blocks = cut.buffer_blocks;
                        for piece in cut.pieces {
                            let disk = piece.disk.0;
                            let (Some(disk), Some(device)) =
                                (disks.get_mut(disk), self.devices.get(disk))
                            else {
                                continue;
                            };
                            if let Err(error) = disk.add(cut.index, cut.op, piece, &**device) {
                                gathering.error = Some(error);
                            }
                        }
                    }
                }
                gatherings.push(gathering);
            }
            let work = disks.into_iter().zip(&self.devices);
            let served = join_all(work.map(|(disk, device)| disk.carry_out(&**device))).await;
            for Served { index, orders, result } in served.into_iter().flatten() {
                if let Some(gathering) = gatherings.get_mut(index) {
                    gathering.add(orders, result);
                }
            }
            gatherings.into_iter().map(Gathering::finish).collect()
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            self.check_latch()?;
            for flushed in join_all(self.devices.iter().map(|device| device.flush())).await {
                if flushed.is_err() {
                    self.latched.store(true, Ordering::Release);
                }
                flushed?;
            }
            Ok(())
        })
    }
}
