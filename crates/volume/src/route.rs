//! Requests cut where one part of a block space ends and the next begins.

use std::collections::VecDeque;

use moirai_storage::{Completion, Completions, Error, IoBuf, Request, Result, Timing};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::pieces::{put_together, take_blocks};

/// A batch on its way to several parts.
pub(crate) struct Routed {
    /// What each part is asked, in order.
    parts: Vec<Vec<Result<Request>>>,
    /// Of each request, where its pieces went, and the blocks of its buffers.
    routes: Vec<(Vec<usize>, Vec<BlockCount>)>,
}

impl Routed {
    /// Cuts a batch at the ends of parts, which rise; the last reaches past everything. A request that
    /// failed goes to the first.
    pub(crate) fn of(batch: Vec<Result<Request>>, ends: &[Lbn]) -> Routed {
        let mut parts: Vec<Vec<Result<Request>>> = Vec::new();
        parts.resize_with(ends.len(), Vec::new);
        let mut routes = Vec::with_capacity(batch.len());
        for request in batch {
            let mut route = Vec::with_capacity(1);
            let mut buffers = Vec::new();
            let mut rest = Some(request);
            for (index, (part, end)) in parts.iter_mut().zip(ends).enumerate() {
                let piece = match rest.take() {
                    Some(Ok(request)) if request.blocks.first >= *end => {
                        rest = Some(Ok(request));
                        continue;
                    }
                    Some(Ok(request)) if request.blocks.end() > *end => {
                        if route.is_empty() {
                            buffers = request.data.iter().map(IoBuf::blocks).collect();
                        }
                        let (before, after) = split(request, *end);
                        rest = Some(Ok(after));
                        Ok(before)
                    }
                    Some(piece) => piece,
                    None => break,
                };
                part.push(piece);
                route.push(index);
            }
            routes.push((route, buffers));
        }
        Routed { parts, routes }
    }

    /// What a part is asked.
    pub(crate) fn take(&mut self, part: usize) -> Vec<Result<Request>> {
        self.parts.get_mut(part).map(std::mem::take).unwrap_or_default()
    }

    /// The results of the batch from those of the parts. `device` is what an error calls it.
    pub(crate) fn gather(self, served: Vec<Completions>, device: &str) -> Completions {
        let mut served: Vec<_> = served.into_iter().map(Vec::into_iter).collect();
        let mut next = |part: usize| {
            let lost = || Err(Error::Latched { device: device.to_owned() });
            served.get_mut(part).and_then(Iterator::next).unwrap_or_else(lost)
        };
        let gather = |(route, buffers): (Vec<usize>, Vec<BlockCount>)| {
            if let [part] = route.as_slice() {
                return next(*part);
            }
            // All are taken, whichever of them failed.
            let pieces: Vec<Result<Completion>> = route.into_iter().map(&mut next).collect();
            let mut data = Vec::new();
            let mut timing: Option<Timing> = None;
            for piece in pieces {
                let piece = piece?;
                data.extend(piece.data);
                timing = Some(timing.map_or(piece.timing, |one| one.and(piece.timing)));
            }
            let data = put_together(data, &buffers);
            Ok(Completion { data, timing: timing.unwrap_or_default() })
        };
        self.routes.into_iter().map(gather).collect()
    }
}

/// The two parts of a request before and after `boundary`.
fn split(request: Request, boundary: Lbn) -> (Request, Request) {
    let Request { op, blocks, data } = request;
    let count = boundary.since(blocks.first);
    let mut data = VecDeque::from(data);
    let before = take_blocks(&mut data, count);
    let (low, high) =
        (BlockRange::new(blocks.first, count), BlockRange::between(boundary, blocks.end()));
    let after = Request { op, blocks: high, data: data.into() };
    (Request { op, blocks: low, data: before }, after)
}
