//! Devices one behind the other: arrays that are added to each other.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, Request,
    Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::route::Routed;

/// Devices one behind the other, as one.
#[derive(Debug)]
pub struct Concatenation {
    inquiry: Inquiry,
    parts: Vec<Arc<dyn Device>>,
    /// Where each part ends.
    ends: Vec<Lbn>,
}

impl Concatenation {
    /// The first blocks of `parts`, as many as is said of each, one behind the other: a part that has
    /// more by now, because it has grown, moves none that lies behind it. What is told of all is what the
    /// least of them can do. An error when a part has fewer.
    pub fn of(
        name: String,
        parts: Vec<(Arc<dyn Device>, BlockCount)>,
    ) -> Result<Arc<Concatenation>> {
        let mut end = Lbn(0);
        let mut ends = Vec::with_capacity(parts.len());
        for (part, blocks) in &parts {
            let inquiry = part.inquiry();
            if inquiry.capacity < *blocks || blocks.0 == 0 || end.0.checked_add(blocks.0).is_none()
            {
                return Err(Error::TooSmall {
                    device: inquiry.name.clone(),
                    have: inquiry.capacity.bytes(),
                    need: (*blocks).max(BlockCount(1)).bytes(),
                });
            }
            end += *blocks;
            ends.push(end);
        }
        let parts: Vec<Arc<dyn Device>> = parts.into_iter().map(|(part, _)| part).collect();
        let inquiries = || parts.iter().map(|part| part.inquiry());
        let inquiry = Inquiry {
            name,
            capacity: BlockCount(end.0),
            parallelism: inquiries().map(|inquiry| inquiry.parallelism).min().unwrap_or(1),
            depth: inquiries().map(|inquiry| inquiry.depth).min().unwrap_or(1),
            volume_block: inquiries().map(|i| i.volume_block).max().unwrap_or(BlockCount(1)),
            atomic_write: inquiries().map(|i| i.atomic_write).min().unwrap_or(BlockCount(1)),
            physical_block: inquiries().map(|i| i.physical_block).max().unwrap_or(BlockCount(1)),
            discard: inquiries().filter_map(|inquiry| inquiry.discard).max(),
            wants_discards: inquiries().all(|inquiry| inquiry.wants_discards),
            volatile_cache: inquiries().any(|inquiry| inquiry.volatile_cache),
            read_only: inquiries().any(|inquiry| inquiry.read_only),
            keeps_data: inquiries().all(|inquiry| inquiry.keeps_data),
        };
        Ok(Arc::new(Concatenation { inquiry, parts, ends }))
    }

    /// The part that `lbn` is in, and the part's first block.
    #[must_use]
    pub fn part(&self, lbn: Lbn) -> Option<(&Arc<dyn Device>, Lbn)> {
        let index = self.ends.partition_point(|end| *end <= lbn);
        Some((self.parts.get(index)?, self.first(index)))
    }

    /// Where what is used of the part around `lbn` ends.
    fn end_around(&self, lbn: Lbn) -> Lbn {
        let index = self.ends.partition_point(|end| *end <= lbn);
        self.ends.get(index).copied().unwrap_or(lbn)
    }

    /// A part's range as this counts it, as far as it is used.
    fn within(&self, lbn: Lbn, blocks: BlockRange, first: BlockCount) -> BlockRange {
        let end = (blocks.end() + first).min(self.end_around(lbn));
        BlockRange::between(blocks.first + first, end)
    }

    fn first(&self, part: usize) -> Lbn {
        part.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(Lbn(0))
    }

    /// What the part around `lbn` says of it, and the part's first block.
    fn ask<T>(
        &self,
        lbn: Lbn,
        ask: impl Fn(&dyn Device, Lbn) -> Result<T>,
    ) -> Result<(T, BlockCount)> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        match self.part(lbn) {
            Some((part, first)) => {
                let first = first.since(Lbn(0));
                Ok((ask(&**part, Lbn(lbn.0 - first.0))?, first))
            }
            // It was checked.
            None => ask(device, lbn).map(|answer| (answer, BlockCount::ZERO)),
        }
    }
}

impl Device for Concatenation {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let (Ensemble { blocks, switch }, first) = self.ask(lbn, |part, lbn| part.ensemble(lbn))?;
        Ok(Ensemble { blocks: self.within(lbn, blocks, first), switch })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let (blocks, first) = self.ask(lbn, |part, lbn| part.parallel_ensemble(lbn))?;
        Ok(self.within(lbn, blocks, first))
    }

    /// Blocks that go with one of a part may lie past what is used of it: none are told of then.
    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let (mut class, first) = self.ask(lbn, |part, lbn| part.equivalent(lbn))?;
        class.lbns.iter_mut().for_each(|lbn| *lbn += first);
        let end = self.end_around(lbn);
        match class.lbns.iter().all(|lbn| *lbn < end) {
            true => Ok(class),
            false => Ok(EquivalenceClass::single(lbn)),
        }
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let checked = batch.into_iter().map(|request| {
                request.check(&self.inquiry)?;
                Ok(request)
            });
            let mut ends = self.ends.clone();
            if let Some(last) = ends.last_mut() {
                *last = Lbn(u64::MAX);
            }
            let mut routed = Routed::of(checked.collect(), &ends);
            let of_parts: Vec<_> = (0..self.parts.len()).map(|part| routed.take(part)).collect();
            let served =
                of_parts.into_iter().zip(&self.parts).enumerate().map(|(index, (asked, part))| {
                    let first = self.first(index).0;
                    async move {
                        let mut results = Vec::with_capacity(asked.len());
                        let mut requests = Vec::with_capacity(asked.len());
                        for request in asked {
                            match request {
                                Ok(mut request) => {
                                    request.blocks.first = Lbn(request.blocks.first.0 - first);
                                    requests.push(request);
                                    results.push(None);
                                }
                                Err(error) => results.push(Some(Err(error))),
                            }
                        }
                        let mut done = part.submit(requests).await.into_iter();
                        let result = |known: Option<_>| known.or_else(|| done.next());
                        results.into_iter().filter_map(result).collect::<Completions>()
                    }
                });
            let served = join_all(served).await;
            routed.gather(served, &self.inquiry.name)
        })
    }

    /// Flushes all parts; gives the first error.
    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            let flushed = join_all(self.parts.iter().map(|part| part.flush())).await;
            flushed.into_iter().collect()
        })
    }

    /// Passes each part what it has of the range; gives the first error.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move {
            let freed = self.inquiry.discardable(blocks)?;
            let parts = self.parts.iter().enumerate().zip(&self.ends);
            let done = parts.map(|((index, part), end)| {
                let first = self.first(index);
                let within = |lbn: Lbn| lbn.clamp(first, *end).since(first).0;
                part.discard(BlockRange::between(
                    Lbn(within(freed.first)),
                    Lbn(within(freed.end())),
                ))
            });
            join_all(done).await.into_iter().collect()
        })
    }
}
