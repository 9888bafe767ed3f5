//! A drive that answers diagnostic commands, and how many of which it was asked.

use std::collections::BTreeMap;

use futures::join;
use moirai_runtime::sleep;
use moirai_storage::{
    CachePage, CachePages, DefectLists, Device, Diagnostics, Located, Op, Request, Sector, Timing,
};
use moirai_units::{BlockCount, BlockRange, Lbn, Location, Nanos};

use crate::error::{Error, Result};

/// What no drive has more of: answers beyond are rubbish.
pub(crate) const CYLINDERS_MAX: u32 = 10_000_000;
const HEADS_MAX: u32 = 256;
pub(crate) const TRACK_SECTORS_MAX: u32 = 1_000_000;

/// Commands that were given, by name.
pub type Commands = BTreeMap<&'static str, u64>;

/// A drive under examination.
pub(crate) struct Drive<'a> {
    device: &'a dyn Device,
    diagnostics: &'a dyn Diagnostics,
    commands: Commands,
    /// No access to a block takes longer, once that is known, in ns.
    longest_ns: f64,
    late: u64,
    doubts: Vec<String>,
}

impl<'a> Drive<'a> {
    /// `None` when the device answers no diagnostic commands.
    pub(crate) fn new(device: &'a dyn Device) -> Option<Drive<'a>> {
        let diagnostics = device.diagnostics()?;
        let commands = Commands::new();
        let doubts = Vec::new();
        Some(Drive { device, diagnostics, commands, longest_ns: f64::INFINITY, late: 0, doubts })
    }

    pub(crate) fn device(&self) -> &'a dyn Device {
        self.device
    }

    pub(crate) fn name(&self) -> &str {
        &self.device.inquiry().name
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Commands so far.
    pub(crate) fn asked(&self) -> u64 {
        self.commands.values().sum()
    }

    pub(crate) fn count(&mut self, command: &'static str, times: u64) {
        *self.commands.entry(command).or_default() += times;
    }

    /// From now on, accesses to a block that take longer were held up.
    pub(crate) fn set_longest(&mut self, ns: f64) {
        self.longest_ns = ns;
    }

    /// How many accesses to a block were held up.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Notes what the drive said that cannot be right, once.
    pub(crate) fn doubt(&mut self, why: String) {
        if !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    pub(crate) fn take_doubts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.doubts)
    }

    /// An error about what the drive answered.
    pub(crate) fn contradiction(&self, why: String) -> Error {
        Error::Contradiction { device: self.name().to_owned(), why }
    }

    pub(crate) async fn capacity(&mut self) -> Result<BlockCount> {
        self.count("read_capacity", 1);
        let told = self.diagnostics.capacity().await?;
        let held = self.device.inquiry().capacity;
        match told == held && told > BlockCount::ZERO {
            true => Ok(told),
            false => Err(Error::Resized { device: self.name().to_owned(), held, told }),
        }
    }

    pub(crate) async fn locate(&mut self, lbn: Lbn) -> Result<Located> {
        self.count("translate_lbn", 1);
        let located = self.diagnostics.locate(lbn).await?;
        let Location { cylinder, head, sector } = located.location;
        match cylinder < CYLINDERS_MAX && head < HEADS_MAX && sector < TRACK_SECTORS_MAX {
            true => Ok(located),
            false => Err(self.contradiction(format!(
                "it translates {lbn} to cylinder {cylinder}, head {head}, sector {sector}"
            ))),
        }
    }

    pub(crate) async fn sector(&mut self, at: Location) -> Result<Option<Sector>> {
        self.count("translate_place", 1);
        Ok(self.diagnostics.sector(at).await?)
    }

    pub(crate) async fn defects(&mut self) -> Result<DefectLists> {
        self.count("read_defects", 1);
        Ok(self.diagnostics.defects().await?)
    }

    pub(crate) async fn cache(&mut self) -> Result<CachePages> {
        self.count("mode_sense", 1);
        Ok(self.diagnostics.cache().await?)
    }

    pub(crate) async fn set_cache(&mut self, page: CachePage) -> Result<()> {
        self.count("mode_select", 1);
        Ok(self.diagnostics.set_cache(page).await?)
    }

    pub(crate) async fn seek(&mut self, lbn: Lbn) -> Result<Timing> {
        self.count("seek", 1);
        Ok(self.diagnostics.seek(lbn).await?)
    }

    pub(crate) async fn read(&mut self, first: Lbn, count: u64) -> Result<Timing> {
        self.access(Op::Read, first, count).await
    }

    /// Reads or writes blocks; a write leaves what they hold as it is.
    pub(crate) async fn access(&mut self, op: Op, first: Lbn, count: u64) -> Result<Timing> {
        let request = self.prepare(op, first, count).await?;
        self.carry_out(request).await
    }

    /// A request. What it writes is what the blocks hold, which is read here.
    pub(crate) async fn prepare(&mut self, op: Op, first: Lbn, count: u64) -> Result<Request> {
        let blocks = BlockRange::new(first, BlockCount(count));
        if op == Op::Write && self.device.inquiry().keeps_data {
            self.count("read", 1);
            let data = vec![self.device.read(blocks).await?];
            return Ok(Request { op, blocks, data });
        }
        Ok(Request::access(op, blocks))
    }

    pub(crate) async fn carry_out(&mut self, request: Request) -> Result<Timing> {
        let is_one = request.blocks.count == BlockCount(1);
        let timings = self.submit(vec![request]).await?;
        let timing = timings.first().copied();
        let timing = timing.ok_or_else(|| self.contradiction("it gave no answer".to_owned()))?;
        self.late += u64::from(is_one && timing.response().0 as f64 > self.longest_ns);
        Ok(timing)
    }

    /// Gives the drive several requests at once.
    pub(crate) async fn submit(&mut self, requests: Vec<Request>) -> Result<Vec<Timing>> {
        for request in &requests {
            self.count(if request.op == Op::Read { "read" } else { "write" }, 1);
        }
        let mut timings = Vec::with_capacity(requests.len());
        for done in self.device.submit(requests).await {
            timings.push(done?.timing);
        }
        Ok(timings)
    }

    /// Reads a block, and submits a write `later_ns` after it; gives the read's timing.
    pub(crate) async fn read_beside(
        &mut self,
        lbn: Lbn,
        later_ns: f64,
        write: Request,
    ) -> Result<Timing> {
        self.count("read", 1);
        self.count("write", 1);
        let read = Request::access(Op::Read, BlockRange::new(lbn, BlockCount(1)));
        let device = self.device;
        let later = async {
            sleep(Nanos(later_ns as u64)).await;
            device.submit(vec![write]).await
        };
        let (mut read, written) = join!(device.submit(vec![read]), later);
        for done in written {
            done?;
        }
        let read = read.pop().transpose()?;
        read.map(|read| read.timing)
            .ok_or_else(|| self.contradiction("it gave no answer".to_owned()))
    }

    /// Waits until what was written is on the media (SYNCHRONIZE CACHE).
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.count("synchronize_cache", 1);
        Ok(self.device.flush().await?)
    }

    /// Lets time pass.
    pub(crate) async fn wait(&self, ns: f64) {
        sleep(Nanos(ns.max(0.0) as u64)).await;
    }
}
