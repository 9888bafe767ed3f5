//! A drive behind SCSI commands, whose layout is extracted: a transport answers with the bytes of the SCSI documents, from the tables
//! of a simulated drive.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use moirai_devices::scsi::{Data, Reply, ScsiDrive, Sense, Transport};
use moirai_discovery::find_layout;
use moirai_models::{Defects, Geometry, Profile, Sparing, TrackOrder, Zone};
use moirai_runtime::{Random, block_on_virtual, random};
use moirai_storage::{CachePage, Device, Error, IoBuf, conformance};
use moirai_units::{BlockCount, BlockRange, Lbn, Location};
use parking_lot::Mutex;
use rand::Rng;

/// ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST.
const UNKNOWN: Sense = Sense { key: 5, code: 0x26, qualifier: 0, is_deferred: false };

#[derive(Debug)]
struct Mock {
    geometry: Geometry,
    page: Mutex<[u8; 14]>,
    caching: Mutex<Vec<u8>>,
    blocks: Mutex<Vec<u8>>,
    /// What it says instead of carrying out the next commands.
    says: Arc<Mutex<Vec<Sense>>>,
    is_write_protected: bool,
    /// Answers are changed at random.
    noise: Option<Mutex<Random>>,
    synchronized: Arc<AtomicBool>,
    /// Blocks that it no longer has.
    lost: Arc<AtomicU64>,
}

impl Mock {
    fn of(name: &str) -> Mock {
        let caching =
            vec![0x88, 0x12, 0x04, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0];
        Mock {
            geometry: Profile::built_in(name).unwrap().geometry,
            page: Mutex::new([0; 14]),
            caching: Mutex::new(caching),
            blocks: Mutex::new(vec![0; 64 * 512]),
            says: Arc::default(),
            is_write_protected: false,
            noise: None,
            synchronized: Arc::default(),
            lost: Arc::default(),
        }
    }

    fn last(&self) -> u64 {
        self.geometry.capacity().0 - 1 - self.lost.load(Relaxed)
    }

    /// The answer to the translation that was sent, or none where the drive does not know what was named.
    fn translated(&self) -> Option<Vec<u8>> {
        let page = *self.page.lock();
        let word = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
        let mut answer = vec![0x40, 0, 0, 0x0a, page[4], page[5]];
        if page[4] == 0 {
            let lbn = Lbn(u64::from(word(6)));
            let at = self.geometry.locate(lbn)?;
            answer[5] |= if self.geometry.is_remapped(lbn) { 0x40 } else { 0 };
            answer.extend_from_slice(&((at.cylinder << 8) | at.head).to_be_bytes());
            answer.extend_from_slice(&at.sector.to_be_bytes());
            return Some(answer);
        }
        let at = Location { cylinder: word(6) >> 8, head: word(6) & 0xff, sector: word(10) };
        if !self.geometry.has(at) {
            return None;
        }
        match self.geometry.lbn_at(at) {
            Some(lbn) => answer.extend_from_slice(&(lbn.0 as u32).to_be_bytes()),
            // Without an address, as drives may.
            None => answer[5] |= 0x80,
        }
        answer.resize(14, 0);
        Some(answer)
    }

    fn defects(&self, list: u8, is_long: bool) -> Vec<u8> {
        let (slipped, remapped) = self.geometry.defects();
        let places = if list & 0x10 != 0 { slipped } else { remapped };
        let mut answer = vec![0, list];
        let length = 8 * places.len() as u32;
        match is_long {
            true => {
                answer.extend([0; 2]);
                answer.extend(length.to_be_bytes());
            }
            false => answer.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()),
        }
        for place in places {
            let Location { cylinder, head, sector } = place.location;
            let sector = if place.is_track { u32::MAX } else { sector };
            answer.extend_from_slice(&((cylinder << 8) | head).to_be_bytes());
            answer.extend_from_slice(&sector.to_be_bytes());
        }
        answer
    }
}

impl Transport for Mock {
    fn execute(&self, command: &[u8], data: Data<'_>) -> io::Result<Reply> {
        let done = |bytes| Ok(Reply { bytes, sense: None });
        let refused = Ok(Reply { bytes: 0, sense: Some(UNKNOWN) });
        if let Some(sense) = self.says.lock().pop() {
            return Ok(Reply { bytes: 0, sense: Some(sense) });
        }
        let mut answer = match command[0] {
            0x00 => return done(0),
            // Older drives do not know the long form.
            0x9e if self.noise.is_none() && self.geometry.capacity().0.is_multiple_of(2) => {
                let mut answer = self.last().to_be_bytes().to_vec();
                answer.extend_from_slice(&512_u32.to_be_bytes());
                answer.resize(32, 0);
                answer
            }
            0x25 => {
                let last = self.last() as u32;
                [last.to_be_bytes(), 512_u32.to_be_bytes()].concat()
            }
            0x1d => {
                let Data::Out(page) = data else { return refused };
                *self.page.lock() = page.try_into().unwrap();
                return done(0);
            }
            0x1c => match self.translated() {
                Some(answer) => answer,
                None => return refused,
            },
            0x37 => self.defects(command[2], false),
            0xb7 => self.defects(command[1], true),
            0x5a => {
                let page = self.caching.lock().clone();
                let is_changeable = command[2] & 0xc0 == 0x40;
                let protected = if self.is_write_protected { 0x80 } else { 0 };
                let mut answer = vec![0, 26, 0, protected, 0, 0, 0, 0];
                match is_changeable {
                    true => answer.extend_from_slice(&[
                        0x88, 0x12, 0x05, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    ]),
                    false => answer.extend(page),
                }
                answer
            }
            0x55 => {
                let Data::Out(list) = data else { return refused };
                assert_eq!(
                    (list[8] & 0x80, command[1]),
                    (0, 0x10),
                    "the page has no PS bit, and PF is set"
                );
                *self.caching.lock() = list[8..].to_vec();
                return done(0);
            }
            0x28 | 0x2a => {
                let at = u32::from_be_bytes(command[2..6].try_into().unwrap()) as usize * 512;
                let length =
                    usize::from(u16::from_be_bytes(command[7..9].try_into().unwrap())) * 512;
                let mut blocks = self.blocks.lock();
                let Some(held) = blocks.get_mut(at..at + length) else { return refused };
                match data {
                    Data::In(into) => into.copy_from_slice(held),
                    Data::Out(from) => held.copy_from_slice(from),
                    Data::None => return refused,
                }
                return done(length);
            }
            0x35 => {
                self.synchronized.store(true, Relaxed);
                return done(0);
            }
            0x2b => return done(0),
            _ => return refused,
        };
        if let Some(random) = &self.noise {
            let mut random = random.lock();
            if random.random_ratio(1, 40) {
                let cut = random.random_range(0..=answer.len());
                answer.truncate(cut);
                answer.iter_mut().for_each(|byte| *byte ^= random.random::<u8>());
            }
        }
        let Data::In(into) = data else { return refused };
        let bytes = answer.len().min(into.len());
        into[..bytes].copy_from_slice(&answer[..bytes]);
        done(bytes)
    }
}

#[test]
fn the_layout_is_extracted_by_commands() {
    for name in ["quantum-atlas-10k-extracted", "hp-c2247", "seagate-cheetah-4lp"] {
        let mock = Mock::of(name);
        let truth = mock.geometry.clone();
        block_on_virtual(1, async {
            let drive = ScsiDrive::open("scsi:mock", mock, true).unwrap();
            assert_eq!(drive.inquiry().capacity, truth.capacity());
            let (found, _) = find_layout(&*drive).await.unwrap();
            let mut at = Lbn(0);
            while let Some(track) = truth.track(at) {
                assert_eq!(found.track(at).unwrap().blocks, track.blocks, "{name}");
                at = track.blocks.end();
            }
        });
    }
}

#[test]
fn blocks_and_the_cache_are_read_and_written() {
    block_on_virtual(1, async {
        let mock = Mock::of("hp-c2247");
        let synchronized = Arc::clone(&mock.synchronized);
        let lost = Arc::clone(&mock.lost);
        let drive = ScsiDrive::open("scsi:mock", mock, false).unwrap();
        let device: &dyn Device = &*drive;
        assert!(device.inquiry().volatile_cache);
        device.write(Lbn(7), IoBuf::holding(b"apple")).await.unwrap();
        device.flush().await.unwrap();
        assert!(synchronized.load(Relaxed));
        let read = device.read(BlockRange::new(Lbn(7), BlockCount(1))).await.unwrap();
        assert_eq!(&read[..5], b"apple");
        let beyond = device.read(BlockRange::new(Lbn(64), BlockCount(1))).await;
        assert!(beyond.unwrap_err().to_string().contains("26/00"));
        let diagnostics = device.diagnostics().unwrap();
        let pages = diagnostics.cache().await.unwrap();
        let page = CachePage { reads: true, writes: true, read_ahead_blocks: 0xffff };
        assert_eq!((pages.current, pages.can_set_read_ahead), (page, true));
        let off = CachePage { reads: false, writes: false, read_ahead_blocks: 4 };
        diagnostics.set_cache(off).await.unwrap();
        assert_eq!(diagnostics.cache().await.unwrap().current, off);
        let capacity = device.inquiry().capacity;
        assert_eq!(diagnostics.capacity().await.unwrap(), capacity);
        lost.store(100, Relaxed);
        assert_eq!(diagnostics.capacity().await.unwrap().0, capacity.0 - 100, "it is asked again");
        diagnostics.seek(Lbn(9)).await.unwrap();
    });
}

/// UNIT ATTENTION: the drive was switched on or reset, or its settings were changed.
const RESET: Sense = Sense { key: 6, code: 0x29, qualifier: 0, is_deferred: false };
const CHANGED: Sense = Sense { code: 0x2a, qualifier: 1, ..RESET };

#[test]
fn a_drive_that_was_switched_on_says_so_first_and_is_opened() {
    block_on_virtual(1, async {
        let mock = Mock::of("hp-c2247");
        let says = Arc::clone(&mock.says);
        says.lock().extend([CHANGED, RESET]);
        let drive = ScsiDrive::open("scsi:mock", mock, false).unwrap();
        let device: &dyn Device = &*drive;
        // What changed its settings does not keep a command from being carried out.
        says.lock().extend([CHANGED, CHANGED]);
        device.write(Lbn(7), IoBuf::holding(b"apple")).await.unwrap();
        // Another medium is not written with what was meant for this one.
        says.lock().push(Sense { code: 0x28, ..RESET });
        device.write(Lbn(7), IoBuf::holding(b"pear")).await.unwrap_err();
        // A reset may have lost what was in its cache: no flush after that says that it is safe.
        says.lock().push(RESET);
        let lost = device.write(Lbn(8), IoBuf::holding(b"pear")).await.unwrap_err();
        assert!(lost.to_string().contains("29/00"), "{lost}");
        let flushed = device.flush().await;
        assert!(matches!(flushed, Err(Error::Latched { .. })), "{flushed:?}");
        // A page in which at least 32 blocks are read ahead is as before when what was set is taken back.
        let page = Mock::of("hp-c2247");
        page.caching.lock()[7] = 32;
        let drive = ScsiDrive::open("scsi:mock", page, false).unwrap();
        let diagnostics = (&*drive as &dyn Device).diagnostics().unwrap();
        let before = diagnostics.cache().await.unwrap().current;
        let limited = CachePage { read_ahead_blocks: 4, ..before };
        diagnostics.set_cache(limited).await.unwrap();
        diagnostics.set_cache(before).await.unwrap();
        assert_eq!(drive.transport().caching.lock()[6..10], [0, 32, 0xff, 0xff]);
        let late = Mock::of("hp-c2247");
        let says = Arc::clone(&late.says);
        let drive = ScsiDrive::open("scsi:mock", late, false).unwrap();
        says.lock().push(Sense { key: 3, is_deferred: true, ..RESET });
        let lost = (&*drive as &dyn Device).read(BlockRange::new(Lbn(1), BlockCount(1))).await;
        assert!(lost.unwrap_err().to_string().contains("of a command before"));
        assert!(matches!(drive.flush().await, Err(Error::Latched { .. })));
        let never = Mock::of("hp-c2247");
        never.says.lock().extend([RESET; 100]);
        assert!(ScsiDrive::open("scsi:mock", never, false).is_err());
    });
}

#[test]
fn a_protected_drive_takes_no_writes() {
    block_on_virtual(1, async {
        let mock = Mock { is_write_protected: true, ..Mock::of("hp-c2247") };
        let drive = ScsiDrive::open("scsi:mock", mock, false).unwrap();
        assert!(drive.inquiry().read_only);
    });
}

#[test]
fn more_defects_than_a_short_list_counts_are_read() {
    block_on_virtual(1, async {
        let slipped = (0..10_000).map(|bad| bad * 7).collect();
        let defects = Defects { slipped, remapped: Vec::new() };
        let zone = Zone { cylinders: 1000, track_sectors: 50, defects, ..Zone::default() };
        let geometry =
            Geometry::new(2, TrackOrder::Cylinder, Sparing::None, vec![zone], None).unwrap();
        let mock = Mock { geometry, ..Mock::of("hp-c2247") };
        let drive = ScsiDrive::open("scsi:mock", mock, true).unwrap();
        let defects = drive.diagnostics().unwrap().defects().await.unwrap();
        assert_eq!((defects.primary.len(), defects.grown.len()), (10_000, 0));
    });
}

#[test]
fn it_is_a_device_as_others_are() {
    block_on_virtual(1, async {
        let zone = Zone { cylinders: 20, track_sectors: 50, ..Zone::default() };
        let geometry =
            Geometry::new(2, TrackOrder::Cylinder, Sparing::None, vec![zone], None).unwrap();
        let blocks = Mutex::new(vec![0; geometry.capacity().bytes().0 as usize]);
        let mock = Mock { geometry, blocks, ..Mock::of("hp-c2247") };
        let drive = ScsiDrive::open("scsi:mock", mock, false).unwrap();
        conformance::check(drive).await;
    });
}

#[test]
fn rubbish_is_an_error_and_no_layout() {
    for seed in 0..20 {
        block_on_virtual(seed, async {
            let mut mock = Mock::of("hp-c2247");
            mock.noise = Some(Mutex::new(random("noise")));
            let Ok(drive) = ScsiDrive::open("scsi:mock", mock, true) else { return };
            let found = find_layout(&*drive).await;
            assert!(found.is_err(), "{found:?}");
        });
    }
}
