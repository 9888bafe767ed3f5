//! Requests of a volume, cut into pieces that are each consecutive on one disk, and put together again.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai_runtime::now;
use moirai_storage::{Completion, Device, Error, IoBuf, Op, Request, Result, Timing};
use moirai_units::{BlockCount, BlockRange, Instant, Lbn};

use crate::plan::Extent;
use crate::{DiskIndex, Layout, StripeIndex};

/// Where a piece belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceOf {
    /// Which request of the batch.
    pub(crate) request: usize,
    /// Which piece of it.
    pub(crate) order: usize,
    /// The first block, counted in the request.
    pub(crate) from: BlockCount,
    pub(crate) stripe: StripeIndex,
    pub(crate) extent: Extent,
}

/// A part of a request that is consecutive in a unit.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) of: PieceOf,
    /// None when the request moves no data.
    pub(crate) buffers: Vec<IoBuf>,
}

/// Cuts a request along the layout.
pub(crate) fn cut(layout: &Layout, index: usize, request: Request) -> Vec<Piece> {
    let with_data = !request.data.is_empty();
    let mut data: VecDeque<IoBuf> = request.data.into();
    let mut pieces = Vec::new();
    let mut at = request.blocks.first;
    while at < request.blocks.end() {
        let place = layout.place(at);
        let count = place.run.min(request.blocks.end().since(at));
        let buffers = if with_data { take_blocks(&mut data, count) } else { Vec::new() };
        let extent = Extent { position: place.position, offset: place.offset, count };
        let of = PieceOf {
            request: index,
            order: pieces.len(),
            from: at.since(request.blocks.first),
            stripe: place.stripe,
            extent,
        };
        pieces.push(Piece { of, buffers });
        at += count;
    }
    pieces
}

/// Takes the first `count` blocks off the front of a list of buffers.
pub(crate) fn take_blocks(data: &mut VecDeque<IoBuf>, mut count: BlockCount) -> Vec<IoBuf> {
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
pub(crate) fn put_together(pieces: Vec<IoBuf>, buffer_blocks: &[BlockCount]) -> Vec<IoBuf> {
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

/// What became of a piece.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) of: PieceOf,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its buffers; and when, on the first piece that one disk request served.
    Done(Vec<IoBuf>, Option<Timing>),
    /// It was not served, and why, on the first piece of a disk request.
    Failed(Option<Error>),
}

/// The requests of one disk, each with the pieces that it serves.
#[derive(Default)]
pub(crate) struct DiskBatch {
    requests: Vec<Request>,
    serves: Vec<Vec<(PieceOf, usize)>>,
}

impl DiskBatch {
    /// Adds a piece that begins at `dlbn`; one that follows the last on the disk and in its ensemble
    /// becomes part of it.
    pub(crate) fn add(
        &mut self,
        op: Op,
        dlbn: Lbn,
        piece: Piece,
        device: &dyn Device,
    ) -> Result<()> {
        let serves = (piece.of, piece.buffers.len());
        let blocks = BlockRange::new(dlbn, piece.of.extent.count);
        if let (Some(request), Some(pieces)) = (self.requests.last_mut(), self.serves.last_mut())
            && pieces.last().is_some_and(|(last, _)| last.request == piece.of.request)
            && request.blocks.end() == dlbn
            && device.ensemble(request.blocks.first)?.blocks.contains(dlbn)
        {
            request.blocks.count += blocks.count;
            request.data.extend(piece.buffers);
            pieces.push(serves);
            return Ok(());
        }
        self.requests.push(Request { op, blocks, data: piece.buffers });
        self.serves.push(vec![serves]);
        Ok(())
    }

    /// Carries them out together.
    pub(crate) async fn carry_out(
        self,
        device: Arc<dyn Device>,
        disk: DiskIndex,
    ) -> Vec<(DiskIndex, Served)> {
        if self.requests.is_empty() {
            return Vec::new();
        }
        let mut served = Vec::with_capacity(self.requests.len());
        let results = device.submit(self.requests).await;
        for (result, pieces) in results.into_iter().zip(self.serves) {
            match result {
                Ok(completion) => {
                    let mut data = completion.data.into_iter();
                    let mut timing = Some(completion.timing);
                    for (of, buffers) in pieces {
                        let data = data.by_ref().take(buffers).collect();
                        let outcome = Outcome::Done(data, timing.take());
                        served.push((disk, Served { of, outcome }));
                    }
                }
                Err(error) => {
                    let mut error = Some(error);
                    for (of, _) in pieces {
                        served.push((disk, Served { of, outcome: Outcome::Failed(error.take()) }));
                    }
                }
            }
        }
        served
    }
}

/// A request of the volume on its way to completion.
#[derive(Default)]
pub(crate) struct Gathering {
    buffer_blocks: Vec<BlockCount>,
    /// The pieces' buffers, at the pieces' places.
    buffers: Vec<Vec<IoBuf>>,
    issued: Instant,
    timing: Option<Timing>,
    error: Option<Error>,
}

impl Gathering {
    /// For a request that could not be begun.
    pub(crate) fn failed(error: Error) -> Gathering {
        Gathering { error: Some(error), ..Gathering::default() }
    }

    /// For a request with buffers of these sizes, which has come now.
    pub(crate) fn of(buffer_blocks: Vec<BlockCount>) -> Gathering {
        Gathering { buffer_blocks, issued: now(), ..Gathering::default() }
    }

    /// Expects so many pieces.
    pub(crate) fn expect(&mut self, pieces: usize) {
        self.buffers.resize_with(pieces, Vec::new);
    }

    /// Fresh buffers for `count` blocks from `from` on, divided as the request's are; none when it
    /// moves no data.
    pub(crate) fn fresh(&self, from: BlockCount, count: BlockCount) -> Vec<IoBuf> {
        let (mut begin, end) = (0, from.0 + count.0);
        let mut fresh = Vec::new();
        for blocks in &self.buffer_blocks {
            let (low, high) = (begin.max(from.0), (begin + blocks.0).min(end));
            if low < high {
                fresh.push(IoBuf::zeroed(BlockCount(high - low)));
            }
            begin += blocks.0;
        }
        fresh
    }

    pub(crate) fn add(&mut self, Served { of, outcome }: Served) {
        match outcome {
            Outcome::Failed(error) => self.error = self.error.take().or(error),
            Outcome::Done(data, timing) => {
                if let Some(place) = self.buffers.get_mut(of.order) {
                    *place = data;
                }
                self.timing = match (self.timing, timing) {
                    (Some(one), Some(other)) => Some(one.and(other)),
                    (one, other) => one.or(other),
                };
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Completion> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Completion {
                data: put_together(
                    self.buffers.into_iter().flatten().collect(),
                    &self.buffer_blocks,
                ),
                // A stripe that somebody else works on keeps it waiting, before any device is asked.
                timing: Timing { issued: self.issued, ..self.timing.unwrap_or_default() },
            }),
        }
    }
}
