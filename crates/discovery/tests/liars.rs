//! Drives that fail, shrink or lie while they are asked: each ends with an error that says what is wrong.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::future::BoxFuture;
use moirai_devices::{Access, open};
use moirai_discovery::{CacheField, DriveFound, Error, extract, extract_until, find_layout};
use moirai_runtime::{block_on_virtual, now, sleep};
use moirai_storage::{
    self as storage, Answer, CachePage, CachePages, Completions, Defect, DefectLists, Device,
    Diagnostics, Ensemble, EquivalenceClass, Flushed, Inquiry, Located, Op, Request, Sector,
    Timing,
};
use moirai_units::{BlockCount, BlockRange, Lbn, Location, Nanos};
use parking_lot::Mutex;

/// What is wrong with a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Nothing.
    None,
    /// Fails from this command on.
    FailsAfter(u64),
    /// Answers a place that no drive has.
    Rubbish,
    /// Says fewer blocks than it was opened with.
    Shrunk,
    /// The same, but only when it was asked once.
    Shrinks,
    /// Leaves out what is bad.
    HidesDefects,
    /// Lists what was bad when it was made as found later, too.
    ListsTwice,
    /// Lists places that it does not have, in both lists.
    ListsBeyond,
    /// Lists as bad what holds a block.
    ListsMore,
    /// Lists as found later what was bad when it was made, and the other way round.
    ListsSwapped,
    /// Tells another cylinder for some blocks.
    Scatters,
    /// Says that every place exists.
    Endless,
    /// Answers one command in so many 50 ms late.
    Stalls(u64),
    /// Says that its cache is set as it was told, and leaves it on.
    KeepsCache,
    /// Says that its write cache is off when it was told so, and leaves it on.
    KeepsWriteCache,
    /// Says that it reads ahead no further than it was told, and does.
    IgnoresReadAhead,
    /// Fails when it is told to read ahead no further than some blocks.
    RefusesLimits,
}

struct Liar {
    device: Arc<dyn Device>,
    lie: Lie,
    commands: AtomicU64,
    /// How often it was asked how many blocks it has.
    capacities: AtomicU64,
    /// The caching page that it was told last.
    told: Mutex<Option<CachePage>>,
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Liar({:?})", self.lie)
    }
}

impl Liar {
    fn new(device: Arc<dyn Device>, lie: Lie) -> Liar {
        let [commands, capacities] = [0, 0].map(AtomicU64::new);
        Liar { device, lie, commands, capacities, told: Mutex::new(None) }
    }

    fn honest(&self) -> &dyn Diagnostics {
        self.device.diagnostics().unwrap()
    }

    fn fails(&self) -> Option<storage::Error> {
        let count = self.commands.fetch_add(1, Relaxed);
        let blocks = BlockRange::new(Lbn(0), BlockCount(1));
        let error = storage::Error::Corrupt { device: "liar".to_owned(), blocks };
        matches!(self.lie, Lie::FailsAfter(after) if count >= after).then_some(error)
    }
}

impl Device for Liar {
    fn inquiry(&self) -> &Inquiry {
        self.device.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> storage::Result<Ensemble> {
        self.device.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> storage::Result<BlockRange> {
        self.device.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> storage::Result<EquivalenceClass> {
        self.device.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        if let Some(error) = self.fails() {
            return Box::pin(async move { vec![Err(error)] });
        }
        Box::pin(async move {
            let mut done = self.device.submit(batch).await;
            let count = self.commands.load(Relaxed);
            if matches!(self.lie, Lie::Stalls(every) if count.is_multiple_of(every)) {
                sleep(Nanos(50_000_000)).await;
                done.iter_mut().flatten().for_each(|one| one.timing.finished = now());
            }
            done
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.device.flush()
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

impl Diagnostics for Liar {
    fn capacity(&self) -> Answer<'_, BlockCount> {
        Box::pin(async {
            let told = self.honest().capacity().await?;
            let count = self.capacities.fetch_add(1, Relaxed);
            let is_less = self.lie == Lie::Shrunk || (self.lie == Lie::Shrinks && count > 0);
            Ok(if is_less { BlockCount(told.0 / 2) } else { told })
        })
    }

    fn locate(&self, lbn: Lbn) -> Answer<'_, Located> {
        Box::pin(async move {
            if let Some(error) = self.fails() {
                return Err(error);
            }
            let mut told = self.honest().locate(lbn).await?;
            match self.lie {
                Lie::Rubbish if lbn.0 % 1000 > 500 => told.location.cylinder = u32::MAX,
                Lie::Scatters if lbn.0 % 7 == 3 => told.location.cylinder += 1,
                _ => {}
            }
            Ok(told)
        })
    }

    fn sector(&self, at: Location) -> Answer<'_, Option<Sector>> {
        Box::pin(async move {
            let told = self.honest().sector(at).await?;
            Ok(told.or((self.lie == Lie::Endless).then_some(Sector::Reserved)))
        })
    }

    fn defects(&self) -> Answer<'_, DefectLists> {
        Box::pin(async {
            let told = self.honest().defects().await?;
            let DefectLists { mut primary, mut grown } = told;
            match self.lie {
                Lie::HidesDefects => return Ok(DefectLists::default()),
                Lie::ListsTwice => grown.extend(&primary),
                Lie::ListsBeyond => {
                    primary.push(Defect { cylinder: 5, head: 0, sector: Some(9999) });
                    primary.push(Defect { cylinder: 99_999, head: 0, sector: Some(1) });
                    grown.push(Defect { cylinder: 88_888, head: 0, sector: None });
                }
                Lie::ListsMore => primary.push(Defect { cylinder: 5, head: 0, sector: Some(9) }),
                Lie::ListsSwapped => std::mem::swap(&mut primary, &mut grown),
                _ => {}
            }
            Ok(DefectLists { primary, grown })
        })
    }

    fn cache(&self) -> Answer<'_, CachePages> {
        Box::pin(async {
            let pages = self.honest().cache().await?;
            let told = self.told.lock().filter(|_| self.lie != Lie::None);
            Ok(CachePages { current: told.unwrap_or(pages.current), ..pages })
        })
    }

    fn set_cache(&self, page: CachePage) -> Answer<'_, ()> {
        let limit = u16::MAX;
        if self.lie == Lie::RefusesLimits && page.read_ahead_blocks < limit {
            let blocks = BlockRange::new(Lbn(0), BlockCount(1));
            let error = storage::Error::Corrupt { device: "liar".to_owned(), blocks };
            return Box::pin(async move { Err(error) });
        }
        *self.told.lock() = Some(page);
        self.honest().set_cache(match self.lie {
            Lie::KeepsCache => CachePage { reads: true, writes: true, read_ahead_blocks: limit },
            Lie::KeepsWriteCache => CachePage { writes: true, ..page },
            Lie::IgnoresReadAhead => CachePage { read_ahead_blocks: limit, ..page },
            _ => page,
        })
    }

    fn seek(&self, lbn: Lbn) -> Answer<'_, Timing> {
        self.honest().seek(lbn)
    }
}

/// The layout of one drive with the times of another one: all of its answers agree with each other, and not with the platter.
#[derive(Debug)]
struct Masked {
    said: Arc<dyn Device>,
    timed: Arc<dyn Device>,
}

impl Device for Masked {
    fn inquiry(&self) -> &Inquiry {
        self.said.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> storage::Result<Ensemble> {
        self.said.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> storage::Result<BlockRange> {
        self.said.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> storage::Result<EquivalenceClass> {
        self.said.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.timed.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        self.timed.flush()
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        self.said.diagnostics()
    }
}

fn device(name: &str) -> Arc<dyn Device> {
    open(format!("sim:{name}").parse().unwrap(), Access::Read).unwrap()
}

fn extract_from(lie: Lie) -> moirai_discovery::Result<moirai_discovery::DriveFound> {
    block_on_virtual(1, async {
        // A drive with slipped sectors.
        let device = device("quantum-atlas-10k-extracted");
        let liar = Liar::new(device, lie);
        extract(&liar, false, |_| ()).await
    })
}

#[test]
fn a_drive_that_fails_at_any_time_is_an_error() {
    let honest = extract_from(Lie::None).unwrap();
    let all: u64 = ["translate_lbn", "read"].map(|command| honest.commands[command]).iter().sum();
    for after in [0, 1, 10, all / 2, all * 9 / 10, all * 95 / 100] {
        let found = extract_from(Lie::FailsAfter(after));
        assert!(matches!(found, Err(Error::Device(_))), "{after} of {all}: {found:?}");
    }
}

#[test]
fn the_cache_is_left_as_it_was() {
    for lie in [Lie::None, Lie::FailsAfter(5000), Lie::Rubbish] {
        block_on_virtual(1, async {
            let device = device("quantum-atlas-10k-extracted");
            let before = device.diagnostics().unwrap().cache().await.unwrap();
            assert!(before.current.reads && before.current.writes);
            let liar = Liar::new(Arc::clone(&device), lie);
            let _ = extract(&liar, false, |_| ()).await;
            assert_eq!(device.diagnostics().unwrap().cache().await.unwrap(), before, "{lie:?}");
        });
    }
}

#[test]
fn a_drive_that_is_not_waited_for_has_its_cache_as_it_was() {
    // While the layout is looked at, and while the cache is.
    let all = block_on_virtual(1, async {
        extract(&*device("quantum-atlas-10k-extracted"), true, |_| ()).await.unwrap().elapsed
    });
    for part in [0.1, 0.5, 0.9, 0.95, 0.99] {
        block_on_virtual(1, async {
            let device = device("quantum-atlas-10k-extracted");
            let before = device.diagnostics().unwrap().cache().await.unwrap();
            let stop = sleep(Nanos((part * all.0 as f64) as u64));
            let found = extract_until(&*device, true, |_| (), stop).await;
            assert!(matches!(found, Err(Error::Stopped { .. })), "{part}: {found:?}");
            assert_eq!(device.diagnostics().unwrap().cache().await.unwrap(), before, "{part}");
        });
    }
}

/// A drive whose blocks hold their numbers: what is written must be that.
#[derive(Debug)]
struct Numbered(Arc<dyn Device>);

impl Device for Numbered {
    fn inquiry(&self) -> &Inquiry {
        self.0.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> storage::Result<Ensemble> {
        self.0.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> storage::Result<BlockRange> {
        self.0.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> storage::Result<EquivalenceClass> {
        self.0.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        let number = |first: Lbn, index: usize| (first.0 + index as u64).to_le_bytes();
        for request in batch.iter().filter(|request| request.op == Op::Write) {
            let held = request.data.iter().flat_map(|buffer| buffer.chunks(512));
            for (index, block) in held.enumerate() {
                assert_eq!(block[..8], number(request.blocks.first, index));
            }
        }
        Box::pin(async move {
            let asked: Vec<_> = batch.iter().map(|one| (one.op, one.blocks.first)).collect();
            let mut done = self.0.submit(batch).await;
            for (one, (op, first)) in done.iter_mut().flatten().zip(asked) {
                let blocks = one.data.iter_mut().flat_map(|buffer| buffer.chunks_mut(512));
                for (index, block) in blocks.enumerate().filter(|_| op == Op::Read) {
                    block[..8].copy_from_slice(&number(first, index));
                }
            }
            done
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.0.flush()
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        self.0.diagnostics()
    }
}

#[test]
fn what_is_written_is_what_the_blocks_hold() {
    for name in ["ibm-ultrastar-18es", "quantum-atlas-10k", "seagate-barracuda-4lp"] {
        let found = block_on_virtual(1, async {
            let device = open(format!("sim:{name}").parse().unwrap(), Access::Write).unwrap();
            extract(&Numbered(device), true, |_| ()).await.unwrap()
        });
        assert!(found.commands["write"] > 50, "{:?}", found.commands);
    }
}

#[test]
fn a_drive_that_stalls_is_found_as_it_is_or_is_an_error() {
    let truth = extract_from(Lie::None).unwrap();
    let mut found = 0;
    for every in [211, 307, 401, 503, 997, 1009] {
        let Ok(ours) = extract_from(Lie::Stalls(every)) else { continue };
        found += 1;
        assert_eq!(ours.geometry, truth.geometry, "{every}");
        let cache = |found: &DriveFound| found.cache.unwrap();
        let (ours_cache, truth_cache) = (cache(&ours), cache(&truth));
        assert_eq!(
            (ours_cache.segments, ours_cache.segment_blocks, ours_cache.read_ahead),
            (truth_cache.segments, truth_cache.segment_blocks, truth_cache.read_ahead),
            "{every}"
        );
        let near = |what: &str, ours: f64, truth: f64| {
            assert!((ours - truth).abs() < 20e3, "{every}: {what} {ours} and not {truth}");
        };
        near("head switch", ours.head_switch_ns.unwrap(), truth.head_switch_ns.unwrap());
        near("read miss", ours.overheads.read_miss.read, truth.overheads.read_miss.read);
        near(
            "read hit",
            ours.overheads.read_hit.unwrap().read,
            truth.overheads.read_hit.unwrap().read,
        );
        assert_eq!(ours.scheduler, truth.scheduler, "{every}");
        for (one, other) in ours.seeks.iter().zip(&truth.seeks) {
            assert_eq!(one.0, other.0, "{every}");
            near("seek", one.1, other.1);
        }
    }
    assert!(found >= 3, "{found}");
}

#[test]
fn a_limit_that_is_not_minded_has_no_effect() {
    let [minded, ignored] =
        [Lie::None, Lie::IgnoresReadAhead].map(|lie| extract_from(lie).unwrap().cache_fields);
    let field = |has_effect| CacheField { can_set: true, has_effect };
    assert_eq!((minded.reads, minded.read_ahead), (field(Some(true)), field(Some(true))));
    assert_eq!((ignored.reads, ignored.read_ahead), (field(Some(true)), field(Some(false))));
    assert_eq!(minded.writes, field(None), "not without leave to write");
    let refused = extract_from(Lie::RefusesLimits).unwrap().cache_fields;
    assert_eq!((refused.reads, refused.read_ahead), (field(Some(true)), field(None)));
}

#[test]
fn answers_that_contradict_each_other_are_an_error() {
    for lie in [
        Lie::Rubbish,
        Lie::HidesDefects,
        Lie::ListsTwice,
        Lie::ListsMore,
        Lie::ListsSwapped,
        Lie::Scatters,
        Lie::Endless,
        Lie::KeepsCache,
    ] {
        let found = extract_from(lie);
        let why = found.expect_err("it lies");
        assert!(matches!(why, Error::Contradiction { .. }), "{lie:?}: {why}");
    }
}

#[test]
fn a_drive_that_shrinks_is_an_error() {
    for lie in [Lie::Shrunk, Lie::Shrinks] {
        let found = extract_from(lie);
        assert!(matches!(found, Err(Error::Resized { .. })), "{lie:?}: {found:?}");
    }
}

/// A list that is wrong must not make another sparing scheme of a drive, above all of one without any defects.
#[test]
fn wrong_defect_lists_are_refused_or_doubted() {
    for name in ["hp-c2247", "ibm-ultrastar-18es", "quantum-atlas-10k", "seagate-barracuda-4lp"] {
        let layout_from = |lie| {
            block_on_virtual(1, async {
                let liar = Liar::new(device(&format!("{name}?data=none")), lie);
                find_layout(&liar).await
            })
        };
        let (truth, _) = layout_from(Lie::None).unwrap();
        let more = layout_from(Lie::ListsMore);
        assert!(matches!(more, Err(Error::Contradiction { .. })), "{name}: {more:?}");
        let (beyond, _) = layout_from(Lie::ListsBeyond).unwrap();
        assert_eq!(beyond, truth, "{name}");
    }
    let found = extract_from(Lie::ListsBeyond).unwrap();
    assert!(
        found.doubts.iter().any(|doubt| doubt.contains("3 lie where it says")),
        "{:?}",
        found.doubts
    );
    assert!(extract_from(Lie::None).unwrap().doubts.len() < found.doubts.len());
}

#[test]
fn a_cache_that_stays_on_is_an_error() {
    for lie in [Lie::KeepsCache, Lie::KeepsWriteCache] {
        let found = block_on_virtual(1, async {
            let uri = "sim:quantum-atlas-10k-extracted".parse().unwrap();
            let liar = Liar::new(open(uri, Access::Write).unwrap(), lie);
            extract(&liar, true, |_| ()).await.map(|_| ())
        });
        let why = found.unwrap_err().to_string();
        assert!(why.contains("says that its cache is off"), "{lie:?}: {why}");
    }
}

#[test]
fn translations_that_contradict_the_times_are_an_error() {
    let found = block_on_virtual(1, async {
        let (said, timed) = (device("quantum-atlas-10k-ii"), device("quantum-atlas-10k"));
        let masked = Masked { said, timed };
        extract(&masked, false, |_| ()).await
    });
    assert!(matches!(found, Err(Error::Contradiction { .. })), "{found:?}");
}
