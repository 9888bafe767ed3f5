//! Volumes through power cuts, dead devices and blocks that cannot be read, one seed after another in
//! virtual time: nothing that was flushed is lost, and nothing wrong is read, ever.
//!
//! A build for tests runs 300 seeds, an optimised one 100,000, as `cargo xtask test --full` does.
//! `MOIRAI_RUNS` says another number, and `MOIRAI_SEED` with which to begin. A failure prints what runs
//! it again.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops there")]

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use futures::future::{Either, join_all, select};
use moirai_devices::{FaultyDevice, Medium, Power};
use moirai_runtime::{Random, block_on_virtual, each_seed, random, sleep};
use moirai_storage::{Device, IoBuf, Op, Request};
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};
use moirai_volume::{
    DiskIndex, Format, LayoutDescription, Level, MemberState, Repair, StripeUnit, Volume,
    add_disks, assemble, format, replace,
};
use parking_lot::Mutex;
use rand::Rng;
use rand::seq::SliceRandom;

const LEVELS: [(&str, usize); 11] = [
    ("raid0", 3),
    ("raid1", 2),
    ("raid1", 3),
    ("raid10", 4),
    ("raid4", 4),
    ("raid5", 3),
    ("raid5", 5),
    ("raid5-left-asymmetric", 4),
    ("raid6", 4),
    ("raid6", 5),
    ("raid6", 6),
];

/// Whether the devices know the volume; without, a crash leaves what it leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kept,
    Bare,
}

/// A write of one block: what it wrote tells which it was.
type Tag = u64;

/// What a discarded block holds: anything.
const ANY: Tag = u64::MAX;

/// What a block may hold.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What it held at the last flush; 0 when nothing was ever written.
    durable: Tag,
    /// What was written since, in order, and whether it was acknowledged.
    since: Vec<(Tag, bool)>,
    /// Whether a write is under way.
    busy: bool,
}

impl Known {
    /// What a read gives while nothing is being written.
    fn current(&self) -> Tag {
        self.since
            .iter()
            .rev()
            .find(|(_, acknowledged)| *acknowledged)
            .map_or(self.durable, |(tag, _)| *tag)
    }

    /// What it holds after a crash, when this was read; `None` when that is wrong. What was discarded stays
    /// anything until a later write is there: another copy may hold something else.
    fn found(&self, tag: Option<Tag>) -> Option<Tag> {
        let since = self.since.iter().map(|(tag, _)| *tag);
        let mut all: Vec<Tag> = std::iter::once(self.durable).chain(since).collect();
        if let Some(discarded) = all.iter().rposition(|tag| *tag == ANY) {
            all.drain(..discarded);
        }
        tag.filter(|tag| all.contains(tag)).or_else(|| all.contains(&ANY).then_some(ANY))
    }
}

fn content(lbn: Lbn, tag: Tag) -> Vec<u8> {
    match tag {
        0 => vec![0; 512],
        _ => (lbn.0 << 40 ^ tag).to_le_bytes().repeat(64),
    }
}

fn tag_of(lbn: Lbn, block: &[u8]) -> Option<Tag> {
    let word = u64::from_le_bytes(block.get(..8)?.try_into().ok()?);
    let tag = if word == 0 { 0 } else { word ^ lbn.0 << 40 };
    (content(lbn, tag) == block).then_some(tag)
}

/// The least blocks of a device.
const BLOCKS: u64 = 720;

fn device(name: String, more: u64, physical: BlockCount, power: &Arc<Power>) -> Arc<FaultyDevice> {
    let (capacity, ensemble) = (BlockCount(BLOCKS + more), BlockCount(16));
    FaultyDevice::on(Medium::disk(physical), name, capacity, ensemble, Arc::clone(power))
}

/// One seed's run.
struct Run {
    kind: Kind,
    level: Level,
    layout: LayoutDescription,
    /// By how many blocks devices may be larger than others.
    unequal: u64,
    /// Physical sectors of the devices. All requests are for whole ones, as those of programs are that mind them.
    physical: BlockCount,
    /// Whether disks are added to it.
    grows: bool,
    /// Whether its blocks have checksums.
    integrity: bool,
    devices: Vec<Arc<FaultyDevice>>,
    dead: BTreeSet<usize>,
    /// What was replaced, and may be named again.
    retired: Vec<Arc<FaultyDevice>>,
    power: Arc<Power>,
    known: Mutex<Vec<Known>>,
    random: Mutex<Random>,
    next_tag: Mutex<Tag>,
    problems: Mutex<Vec<String>>,
}

impl Run {
    async fn new(kind: Kind) -> Run {
        let mut random = random("survival");
        let (level, disks) = LEVELS[random.random_range(0..LEVELS.len())];
        // Without redundancy nobody can restore a sector that a power cut damaged.
        let is_long = kind == Kind::Kept && level != "raid0" && random.random_bool(0.3);
        let physical = BlockCount(if is_long { 8 } else { 1 });
        let layout = match random.random_range(0..4) {
            _ if is_long => LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(8)) },
            0 => LayoutDescription::Stripe { unit: StripeUnit::Track },
            1 => {
                let depth = [None, Some(2)][random.random_range(0..2)];
                LayoutDescription::Quadrangle { depth, block: BlockCount(3), zone: None }
            }
            _ => {
                let unit = BlockCount(random.random_range(1..13));
                LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) }
            }
        };
        let unit = match layout {
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } => unit.0,
            _ => 16,
        };
        let power = Power::on();
        let unequal = if kind == Kind::Kept { 100 } else { 0 };
        let mut more = || random.random_range(0..=unequal);
        let devices = (0..disks)
            .map(|disk| device(format!("disk {disk}"), more(), physical, &power))
            .collect();
        let level: Level = level.parse().unwrap();
        let striped = matches!(layout, LayoutDescription::Stripe { .. });
        let grows =
            kind == Kind::Kept && striped && level != Level::Raid0 && random.random_bool(0.5);
        let may_check = kind == Kind::Kept && level != Level::Raid0 && !is_long;
        let integrity = may_check && random.random_bool(0.5);
        let run = Run {
            kind,
            level,
            layout,
            grows,
            integrity,
            unequal,
            physical,
            devices,
            dead: BTreeSet::new(),
            retired: Vec::new(),
            power: Arc::clone(&power),
            known: Mutex::default(),
            random: Mutex::new(random),
            next_tag: Mutex::new(1),
            problems: Mutex::default(),
        };
        if kind == Kind::Kept {
            // The least that holds four stripes, so that it is full again and again.
            let most_disks = if run.grows { disks as u64 + 2 } else { disks as u64 };
            let header = (64 + 32 * (64 + 2 * most_disks)).div_ceil(512);
            let journal = 4 * (header + most_disks * unit) + run.draw(0..40);
            let journal = journal.max(12 * run.physical.0);
            // What devices held before is gone, and no parity fits it.
            let is_blank = run.draw(0..2) == 0 || run.level == Level::Raid0;
            if !is_blank {
                for device in run.whole() {
                    let mut garbage = IoBuf::zeroed(device.inquiry().capacity);
                    garbage.chunks_mut(512).for_each(|block| block.fill(run.draw(0..256) as u8));
                    device.write(Lbn(0), garbage).await.unwrap();
                }
            }
            let journal = Some(BlockCount(journal));
            let how = Format { level: run.level, layout, journal, integrity, is_blank };
            format("v", &run.whole(), how, |_, _| ()).await.unwrap();
        }
        run
    }

    fn device(&self, name: String) -> Arc<FaultyDevice> {
        // As large as any that it may take the place of.
        device(name, self.unequal, self.physical, &self.power)
    }

    fn whole(&self) -> Vec<Arc<dyn Device>> {
        let alive = |disk: &usize| !self.dead.contains(disk);
        let disks = (0..self.devices.len()).filter(alive);
        disks.map(|disk| Arc::clone(&self.devices[disk]) as Arc<dyn Device>).collect()
    }

    async fn open(&self) -> Arc<Volume> {
        if self.kind == Kind::Bare {
            let all = self.devices.iter().map(|device| Arc::clone(device) as _).collect();
            let volume = Volume::new("v".into(), all, self.level, self.layout).unwrap();
            self.dead.iter().for_each(|disk| volume.fail(DiskIndex(*disk)));
            return volume;
        }
        // The power may be cut while it is opened, too.
        for attempt in 0.. {
            let mut devices = self.whole();
            let old = self.retired.iter().filter(|_| self.draw(0..2) == 0);
            devices.extend(old.map(|device| Arc::clone(device) as Arc<dyn Device>));
            devices.shuffle(&mut *self.random.lock());
            if attempt < 3 && self.draw(0..3) == 0 {
                self.power.fail_after(self.draw(0..30));
            }
            let opened = assemble("v".into(), devices, true).await;
            match opened {
                Ok(volume) if !self.power.is_off() => {
                    self.power.bring_back();
                    // It has grown when all is moved: what is new holds zeros.
                    let blocks = volume.inquiry().capacity.0 as usize;
                    self.known.lock().resize(blocks, Known::default());
                    return volume;
                }
                Err(error) if !self.power.is_off() => panic!("{error}"),
                _ => self.restart().await,
            }
        }
        panic!("it is opened at the fourth attempt");
    }

    async fn restart(&self) {
        // What nobody waits for goes on until it fails, too.
        self.power.fail_after(0);
        sleep(Nanos(1_000_000_000)).await;
        self.power.bring_back();
        self.devices.iter().chain(&self.retired).for_each(|device| device.restart());
    }

    fn problem(&self, what: String) {
        self.problems.lock().push(what);
    }

    fn draw(&self, range: std::ops::Range<u64>) -> u64 {
        self.random.lock().random_range(range)
    }

    /// A range of blocks that nobody writes, which is taken.
    fn take(&self, longest: u64) -> Option<BlockRange> {
        let mut known = self.known.lock();
        let sector = self.physical.0;
        let count = self.draw(1..longest + 1).next_multiple_of(sector);
        let first = self.draw(0..known.len() as u64 - count) / sector * sector;
        let blocks = &mut known[first as usize..(first + count) as usize];
        if blocks.iter().any(|block| block.busy) {
            return None;
        }
        blocks.iter_mut().for_each(|block| block.busy = true);
        Some(BlockRange::new(Lbn(first), BlockCount(count)))
    }

    fn each(&self, blocks: BlockRange, mut with: impl FnMut(Lbn, &mut Known)) {
        let mut known = self.known.lock();
        for lbn in blocks.first.0..blocks.end().0 {
            with(Lbn(lbn), &mut known[lbn as usize]);
        }
    }

    async fn write(&self, volume: &Volume) {
        let ranges: Vec<BlockRange> = (0..self.draw(1..4))
            .filter_map(|_| self.take(if self.draw(0..4) == 0 { 50 } else { 6 }))
            .collect();
        let mut batch = Vec::new();
        for blocks in &ranges {
            let tag = {
                let mut next = self.next_tag.lock();
                *next += 1;
                *next
            };
            let mut bytes = Vec::new();
            self.each(*blocks, |lbn, known| {
                known.since.push((tag, false));
                bytes.extend(content(lbn, tag));
            });
            let data = vec![IoBuf::holding(&bytes)];
            batch.push(Request { op: Op::Write, blocks: *blocks, data });
        }
        let patience = match self.draw(0..20) {
            0 => Nanos(self.draw(0..10_000_000)),
            _ => Nanos(u64::MAX / 4),
        };
        // Who does not wait for a write does not know whether it is there, and nobody else asks before
        // the power was cut.
        let submitted = select(volume.submit(batch), Box::pin(sleep(patience)));
        let Either::Left((results, _)) = submitted.await else { return };
        for (blocks, result) in ranges.into_iter().zip(results) {
            match result {
                Ok(_) => self.each(blocks, |_, known| {
                    if let Some(last) = known.since.last_mut() {
                        last.1 = true;
                    }
                    known.busy = false;
                }),
                // What was not acknowledged may be there or not, and nobody writes over it before the
                // power is back and that is known.
                Err(_) if self.power.is_off() => {}
                Err(error) => self.problem(format!("a write of {blocks} failed: {error}")),
            }
        }
    }

    async fn read(&self, volume: &Volume) {
        let Some(blocks) = self.take(20) else { return };
        let device: &dyn Device = volume;
        match device.read(blocks).await {
            Ok(read) => {
                let mut read = read.chunks(512);
                self.each(blocks, |lbn, known| {
                    let tag = read.next().and_then(|block| tag_of(lbn, block));
                    if known.current() != ANY && tag != Some(known.current()) {
                        self.problem(format!("{lbn} holds {tag:?}, and not {known:?}"));
                    }
                });
            }
            Err(_) if self.power.is_off() => {}
            Err(error) => self.problem(format!("a read of {blocks} failed: {error}")),
        }
        self.each(blocks, |_, known| known.busy = false);
    }

    async fn discard(&self, volume: &Volume) {
        let Some(blocks) = self.take(50) else { return };
        let is_passed_on = volume.inquiry().discard.is_some();
        if is_passed_on {
            self.each(blocks, |_, known| known.since.push((ANY, true)));
        }
        match volume.discard(blocks).await {
            Err(error) if !self.power.is_off() => {
                self.problem(format!("a discard of {blocks} failed: {error}"));
            }
            _ => {}
        }
        self.each(blocks, |_, known| known.busy = false);
    }

    async fn flush(&self, volume: &Volume) {
        let before: Vec<Tag> = self.known.lock().iter().map(Known::current).collect();
        match volume.flush().await {
            Ok(()) => {
                for (known, tag) in self.known.lock().iter_mut().zip(before) {
                    if let Some(at) = known.since.iter().position(|(since, _)| *since == tag) {
                        known.durable = tag;
                        known.since.drain(..=at);
                    }
                }
            }
            Err(_) if self.power.is_off() => {}
            Err(error) => self.problem(format!("a flush failed: {error}")),
        }
    }

    /// Reads all after a crash, and takes what is there for what is there.
    async fn check_all(&self, volume: &Volume) {
        let device: &dyn Device = volume;
        let end = Lbn(self.known.lock().len() as u64);
        let mut at = Lbn(0);
        while at < end {
            let blocks = BlockRange::new(at, BlockCount(self.draw(1..60)).min(end.since(at)));
            match device.read(blocks).await {
                Err(error) => self.problem(format!("{blocks} cannot be read: {error}")),
                Ok(read) => {
                    let mut read = read.chunks(512);
                    self.each(blocks, |lbn, known| {
                        let tag = read.next().and_then(|block| tag_of(lbn, block));
                        match known.found(tag) {
                            Some(durable) => *known = Known { durable, ..Known::default() },
                            None => self.problem(format!("{lbn} holds {tag:?}, and not {known:?}")),
                        }
                    });
                }
            }
            at = blocks.end();
        }
    }

    /// Whether one of the blocks was discarded: its copies may differ.
    fn has_discarded(&self, blocks: BlockRange) -> bool {
        let mut discarded = false;
        self.each(blocks, |_, known| discarded |= known.current() == ANY);
        discarded
    }

    /// Disks that are not there, or not yet filled.
    fn not_ready(&self, volume: &Volume) -> usize {
        let disks = (0..self.devices.len()).map(DiskIndex);
        disks.filter(|disk| volume.state(*disk) != MemberState::Ready).count()
    }

    /// Puts a new device in the place of one that failed.
    async fn replace_one(&mut self, failed: &[DiskIndex]) {
        let Some(DiskIndex(disk)) = failed.first().copied() else { return };
        let new = self.device(format!("disk {disk} again, {}", self.draw(0..u64::MAX)));
        let old = Arc::clone(&self.devices[disk]) as Arc<dyn Device>;
        let mut devices = self.whole();
        devices.retain(|device| !Arc::ptr_eq(device, &old));
        if self.kind == Kind::Kept {
            if self.draw(0..3) == 0 {
                self.power.fail_after(self.draw(0..20));
            }
            let replaced = replace("v", &devices, DiskIndex(disk), Arc::clone(&new) as _).await;
            assert!(replaced.is_ok() || self.power.is_off(), "{replaced:?}");
            let was_cut = self.power.is_off();
            let old = std::mem::replace(&mut self.devices[disk], new);
            if self.dead.remove(&disk) {
                old.die();
            }
            self.retired.push(old);
            self.restart().await;
            if was_cut {
                // Half begun: it is begun again.
                let new = self.device(format!("disk {disk} once more"));
                let half = std::mem::replace(&mut self.devices[disk], Arc::clone(&new));
                let mut devices = self.whole();
                let is_other = |one: &Arc<dyn Device>| {
                    !Arc::ptr_eq(one, &(Arc::clone(&new) as Arc<dyn Device>))
                };
                devices.retain(is_other);
                replace("v", &devices, DiskIndex(disk), new).await.unwrap();
                self.retired.push(half);
            }
        }
    }

    /// Puts a new device in the place of one that failed while the volume is open; tells whether the power
    /// was cut.
    async fn replace_open(&mut self, volume: &Volume) -> bool {
        let Some(disk) = volume.failed().first().copied() else { return false };
        let new = self.device(format!("spare disk {}", self.draw(0..u64::MAX)));
        if self.draw(0..3) == 0 {
            self.power.fail_after(self.draw(0..30));
        }
        let replaced = volume.replace(disk, Arc::clone(&new) as _).await;
        assert!(replaced.is_ok() || self.power.is_off(), "{replaced:?}");
        // When the power was cut it may be a disk of the volume or not; the old one is none any more.
        let old = std::mem::replace(&mut self.devices[disk.0], new);
        if self.dead.remove(&disk.0) {
            old.die();
        }
        self.retired.push(old);
        let was_cut = self.power.is_off();
        if !was_cut {
            self.power.bring_back();
        }
        was_cut
    }

    /// Adds disks to a volume that is not open.
    async fn add_some(&mut self) {
        let count = if self.level == Level::Raid10 { 2 } else { self.draw(1..3) };
        let name = |_| format!("added disk {}", self.draw(0..u64::MAX));
        let added: Vec<_> = (0..count).map(|index| self.device(name(index))).collect();
        if self.draw(0..3) == 0 {
            self.power.fail_after(self.draw(0..30));
        }
        let as_devices: Vec<_> = added.iter().map(|device| Arc::clone(device) as _).collect();
        let result = add_disks("v", &self.whole(), &as_devices).await;
        assert!(result.is_ok() || self.power.is_off(), "{result:?}");
        self.devices.extend(added);
        self.restart().await;
        // When the power was cut they may be disks of the volume or not.
        let disks = self.open().await.layout().disks();
        let left = self.devices.split_off(disks);
        self.retired.extend(left);
    }

    /// Goes on with what goes on beside other work: growing, or filling disks.
    async fn rebuild(&self, volume: &Volume) {
        // Now and then nobody waits for it any more, and it is begun again.
        for patient in [self.draw(0..3) > 0, true] {
            let patience = if patient { u64::MAX / 4 } else { self.draw(0..10_000_000) };
            let bytes_per_s = NonZeroU64::new(self.draw(0..20) * 1_000_000);
            let work = Box::pin(async {
                match volume.moved() {
                    Some(_) => volume.grow(bytes_per_s, |_, _| ()).await,
                    None => volume.rebuild(bytes_per_s, |_, _| ()).await.map(drop),
                }
            });
            match select(work, Box::pin(sleep(Nanos(patience)))).await {
                Either::Left((Err(error), _)) if !self.power.is_off() => {
                    return self.problem(format!("the rebuild failed: {error}"));
                }
                Either::Left(_) => return,
                Either::Right(_) => {}
            }
        }
    }

    /// Some work, side by side; perhaps with a device that dies in the middle.
    async fn live(&self, volume: &Volume, dies: Option<usize>) {
        let worker = |_| async {
            for _ in 0..self.draw(3..12) {
                match self.draw(0..11) {
                    0 => self.flush(volume).await,
                    10 => self.discard(volume).await,
                    1..4 => self.read(volume).await,
                    _ => self.write(volume).await,
                }
                if self.power.is_off() {
                    return;
                }
            }
        };
        let death = async {
            if let Some(disk) = dies {
                sleep(Nanos(self.draw(0..20_000_000))).await;
                self.devices[disk].die();
            }
        };
        futures::join!(join_all((0..4).map(worker)), death, self.rebuild(volume));
    }

    /// Lets as many devices fail as may.
    fn fail_some(&self, volume: &Volume, most: usize) {
        let first = self.draw(0..self.devices.len() as u64) as usize;
        for disk in
            (0..self.devices.len()).map(|disk| DiskIndex((disk + first) % self.devices.len()))
        {
            let is_ready = volume.state(disk) == MemberState::Ready;
            if is_ready && most > 0 && volume.survives_without(disk) {
                volume.fail(disk);
            }
        }
    }

    async fn all(&mut self) {
        let bearable = self.level.failures(self.devices.len());
        let mut volume = self.open().await;
        self.known.lock().resize(volume.inquiry().capacity.0 as usize, Known::default());
        // Either devices die, or one has blocks that cannot be read and fewer of the others die.
        // What is restored is not in the journal: a power cut could damage what lies in the same physical sector.
        let unreadable = self.draw(0..3) == 0 && bearable > 0 && self.physical.0 == 1;
        let deaths = if unreadable { bearable - 1 } else { bearable };
        let bad = self.draw(0..self.devices.len() as u64) as usize;
        for _ in 0..self.draw(1..4) {
            let dies = self.draw(0..self.devices.len() as u64) as usize;
            // With RAID 1+0 one of each pair may be away.
            let may_die = match unreadable {
                true => self.not_ready(&volume) < deaths && dies != bad,
                false => volume.survives_without(DiskIndex(dies)),
            };
            let dies = Some(dies).filter(|_| may_die && self.draw(0..3) == 0);
            if self.draw(0..4) > 0 {
                self.power.fail_after(self.draw(1..120));
            }
            if unreadable {
                for _ in 0..self.draw(0..6) {
                    let (device, lbn) = (&self.devices[bad], Lbn(self.draw(0..BLOCKS)));
                    match self.draw(0..3) {
                        0 if self.integrity => device.corrupt(lbn),
                        1 if self.integrity => device.misdirect(lbn),
                        _ => device.make_unreadable(lbn),
                    }
                }
            }
            self.live(&volume, dies).await;
            // Half of those that died are back after the power cut, with what they held.
            let stays_dead = self.draw(0..2) == 0 || self.kind == Kind::Bare;
            let (dead, back) = if stays_dead { (dies, None) } else { (None, dies) };
            self.dead.extend(dead);
            // The power is cut at the end at the latest.
            drop(volume);
            self.restart().await;
            back.into_iter().for_each(|disk| self.devices[disk].revive());
            if self.draw(0..2) == 0 {
                let failed = self.open().await.failed();
                self.replace_one(&failed).await;
            }
            volume = self.open().await;
            if self.kind == Kind::Kept && self.draw(0..3) == 0 {
                let was_cut = self.replace_open(&volume).await;
                if was_cut {
                    drop(volume);
                    self.restart().await;
                    volume = self.open().await;
                }
            }
            let may_grow = self.grows && self.not_ready(&volume) == 0;
            if may_grow && self.draw(0..2) == 0 {
                drop(volume);
                self.add_some().await;
                self.grows = false;
                volume = self.open().await;
            }
            self.check_all(&volume).await;
            if !unreadable {
                // Parity and copies say the same; nothing of this is written.
                self.fail_some(&volume, deaths);
                self.check_all(&volume).await;
                drop(volume);
                volume = self.open().await;
            }
            self.check_all(&volume).await;
        }
        if volume.moved().is_some() {
            self.rebuild(&volume).await;
            self.check_all(&volume).await;
            drop(volume);
            volume = self.open().await;
            self.check_all(&volume).await;
        }
        self.rebuild(&volume).await;
        self.check_all(&volume).await;
        if bearable > 0 && self.kind == Kind::Kept {
            match volume.scrub(None, Repair::default(), |_| ()).await {
                Ok(scrubbed) if scrubbed.differing.iter().all(|b| self.has_discarded(*b)) => {}
                other => self.problem(format!("the scrub found {other:?}")),
            }
        }
        // What the parity says is what the data were.
        self.fail_some(&volume, if unreadable { 0 } else { deaths });
        self.check_all(&volume).await;
    }
}

/// What goes wrong in a run.
async fn problems_of(kind: Kind) -> Vec<String> {
    let mut run = Run::new(kind).await;
    run.all().await;
    let level = run.level;
    let problems = std::mem::take(&mut *run.problems.lock());
    let disks = run.devices.len();
    problems.into_iter().map(|problem| format!("{level} over {disks}: {problem}")).collect()
}

fn problems(seed: u64, kind: Kind) -> Vec<String> {
    block_on_virtual(seed, problems_of(kind))
}

#[test]
fn nothing_flushed_is_lost_and_nothing_wrong_is_read() {
    each_seed(if cfg!(debug_assertions) { 300 } else { 100_000 }, async || {
        let problems = problems_of(Kind::Kept).await;
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(problems(7, Kind::Bare), problems(7, Kind::Bare));
}

/// A volume that keeps no journal has the write hole, and this finds it.
#[test]
fn a_volume_without_a_journal_is_caught() {
    assert!((0..200).any(|seed| !problems(seed, Kind::Bare).is_empty()));
}
