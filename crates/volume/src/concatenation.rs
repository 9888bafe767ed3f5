//! Devices one behind the other: arrays that are added to each other.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
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
    /// `parts` one behind the other. What is told of all is what the least of them can do.
    #[must_use]
    pub fn of(name: String, parts: Vec<Arc<dyn Device>>) -> Arc<Concatenation> {
        let inquiries = || parts.iter().map(|part| part.inquiry());
        let mut end = Lbn(0);
        let mut ends = Vec::with_capacity(parts.len());
        for inquiry in inquiries() {
            end += inquiry.capacity;
            ends.push(end);
        }
        let inquiry = Inquiry {
            name,
            capacity: BlockCount(end.0),
            parallelism: inquiries().map(|inquiry| inquiry.parallelism).min().unwrap_or(1),
            depth: inquiries().map(|inquiry| inquiry.depth).min().unwrap_or(1),
            volume_block: inquiries().map(|i| i.volume_block).max().unwrap_or(BlockCount(1)),
            atomic_write: inquiries().map(|i| i.atomic_write).min().unwrap_or(BlockCount(1)),
            volatile_cache: inquiries().any(|inquiry| inquiry.volatile_cache),
            read_only: inquiries().any(|inquiry| inquiry.read_only),
            keeps_data: inquiries().all(|inquiry| inquiry.keeps_data),
        };
        Arc::new(Concatenation { inquiry, parts, ends })
    }

    /// The part that `lbn` is in, and the part's first block.
    #[must_use]
    pub fn part(&self, lbn: Lbn) -> Option<(&Arc<dyn Device>, Lbn)> {
        let index = self.ends.partition_point(|end| *end <= lbn);
        Some((self.parts.get(index)?, self.first(index)))
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
        Ok(Ensemble { blocks: BlockRange::new(blocks.first + first, blocks.count), switch })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let (blocks, first) = self.ask(lbn, |part, lbn| part.parallel_ensemble(lbn))?;
        Ok(BlockRange::new(blocks.first + first, blocks.count))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let (mut class, first) = self.ask(lbn, |part, lbn| part.equivalent(lbn))?;
        class.lbns.iter_mut().for_each(|lbn| *lbn += first);
        Ok(class)
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
}
