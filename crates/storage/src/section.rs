//! A part of a device, as a device.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{
    Completion, Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, IoBuf, Request, Result,
};

/// Consecutive blocks of a device, counted from zero. Several volumes can lie on the same devices, each on
/// its own sections of them and with a layout of its own.
#[derive(Debug)]
pub struct Section {
    inquiry: Inquiry,
    device: Arc<dyn Device>,
    first: BlockCount,
}

/// Which blocks of a device a section has, as the parameter `section` of a URI says it: the first and the
/// count, like `2048+65536`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionBlocks(pub BlockRange);

impl fmt::Display for SectionBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.0.first.0, self.0.count.0)
    }
}

impl FromStr for SectionBlocks {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<SectionBlocks, String> {
        let numbers = text.split_once('+').and_then(|(first, count)| {
            let (first, count): (u64, u64) = (first.parse().ok()?, count.parse().ok()?);
            first.checked_add(count).filter(|_| count > 0)?;
            Some(BlockRange::new(Lbn(first), BlockCount(count)))
        });
        let problem = || {
            format!("`{text}` is no section: write its first block and its blocks, like 2048+65536")
        };
        numbers.map(SectionBlocks).ok_or_else(problem)
    }
}

impl Section {
    /// The `blocks` of `device`; an error when it has not all of them.
    pub fn of(device: Arc<dyn Device>, blocks: BlockRange) -> Result<Arc<Section>> {
        let whole = device.inquiry();
        if blocks.is_empty() || blocks.end() > whole.all_blocks().end() {
            let capacity = whole.capacity;
            return Err(Error::PastEnd { device: whole.name.clone(), blocks, capacity });
        }
        let inquiry = Inquiry { capacity: blocks.count, ..whole.clone() };
        Ok(Arc::new(Section { inquiry, device, first: BlockCount(blocks.first.0) }))
    }

    /// A range of the device as the section counts it; what lies before or behind the section is cut off.
    fn within(&self, blocks: BlockRange) -> BlockRange {
        let place = |lbn: Lbn| Lbn(lbn.0.saturating_sub(self.first.0).min(self.inquiry.capacity.0));
        BlockRange::between(place(blocks.first), place(blocks.end()))
    }
}

impl Device for Section {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let Ensemble { blocks, switch } = self.device.ensemble(lbn + self.first)?;
        Ok(Ensemble { blocks: self.within(blocks), switch })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(self.within(self.device.parallel_ensemble(lbn + self.first)?))
    }

    /// A class that lies in the section in part has no equals here.
    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let class = self.device.equivalent(lbn + self.first)?;
        let here = |of_device: &Lbn| {
            let lbn = Lbn(of_device.0.checked_sub(self.first.0)?);
            (lbn.0 < self.inquiry.capacity.0).then_some(lbn)
        };
        let lbns: Option<Vec<Lbn>> = class.lbns.iter().map(here).collect();
        let whole = lbns.map(|lbns| EquivalenceClass { lbns, ..class });
        Ok(whole.unwrap_or_else(|| EquivalenceClass::single(lbn)))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut results: Vec<Option<Result<Completion>>> = Vec::with_capacity(batch.len());
            let mut requests = Vec::with_capacity(batch.len());
            for mut request in batch {
                match request.check(&self.inquiry) {
                    Err(error) => results.push(Some(Err(error))),
                    Ok(()) => {
                        request.blocks.first += self.first;
                        requests.push(request);
                        results.push(None);
                    }
                }
            }
            let mut done = self.device.submit(requests).await.into_iter();
            let lost = || Error::BufferMismatch {
                device: self.inquiry.name.clone(),
                blocks: self.inquiry.all_blocks(),
                buffers: BlockCount::ZERO,
            };
            let fill =
                |result: Option<_>| result.or_else(|| done.next()).unwrap_or_else(|| Err(lost()));
            results.into_iter().map(fill).collect()
        })
    }

    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        let data = self.device.data_after(from + self.first)?;
        Ok(data.map(|data| self.within(data)).filter(|data| !data.is_empty()))
    }

    fn flush(&self) -> Flushed<'_> {
        self.device.flush()
    }

    fn write_flushed(&self, first: Lbn, data: IoBuf) -> Flushed<'_> {
        match self.inquiry.check_blocks(BlockRange::new(first, data.blocks())) {
            Ok(()) => self.device.write_flushed(first + self.first, data),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        match self.inquiry.check_blocks(blocks) {
            Ok(()) => self.device.discard(BlockRange::new(blocks.first + self.first, blocks.count)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}
