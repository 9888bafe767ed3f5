//! A SCSI drive as a device.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, join_all};
use moirai_runtime::{blocking, now};
use moirai_storage::{
    Answer, CachePage, CachePages, Completion, Completions, DefectLists, Device, Diagnostics,
    Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf, Located, Op, Request, Result,
    Sector, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn, Location};
use parking_lot::Mutex;

use super::commands as scsi;
use super::{Data, Reply, Sense, Transport};

/// Blocks of one command: longer requests are several.
const BLOCKS_MAX: u64 = 1024;
/// How often a command is given that the drive does not carry out, as it has something else to say first.
const ATTENTIONS_MAX: u32 = 8;
/// Without attributes of its own, blocks are accessed by so many.
const ENSEMBLE: BlockCount = BlockCount(2048);

/// A SCSI drive.
#[derive(Debug)]
pub struct ScsiDrive<T> {
    transport: Arc<T>,
    inquiry: Inquiry,
    /// A translation is two commands, which belong together.
    translating: Arc<Mutex<()>>,
    /// Writes may be complete that are in its cache alone: it was opened so, or was set so since.
    holds_writes: Arc<AtomicBool>,
    /// The caching page before anything was set.
    first_caching: Option<Vec<u8>>,
    /// Set by a failed flush, by a reset that may have lost what a write cache held, and by an error of an earlier command; never cleared.
    latched: Arc<AtomicBool>,
}

impl<T: Transport> ScsiDrive<T> {
    /// Asks a drive for its size.
    ///
    /// # Errors
    /// A drive that does not answer or is not ready, or whose blocks have not 512 bytes.
    pub fn open(name: &str, transport: T, read_only: bool) -> Result<Arc<ScsiDrive<T>>> {
        let holds_writes = AtomicBool::new(false);
        let commands = Commands {
            device: name,
            transport: &transport,
            loses: None,
            holds_writes: &holds_writes,
        };
        commands.ready()?;
        let (capacity, physical_block) = commands.capacity()?;
        // A drive that does not say whether it has a write cache may have one.
        let caching = commands.caching()?;
        let writes = caching.as_ref().is_none_or(|caching| caching.pages.current.writes);
        let mode = commands.mode(false)?;
        let read_only = read_only || mode.is_some_and(|mode| scsi::is_write_protected(&mode));
        Ok(Arc::new(ScsiDrive {
            inquiry: Inquiry {
                name: name.to_owned(),
                capacity,
                parallelism: 1,
                depth: 1,
                volume_block: BlockCount(1),
                atomic_write: BlockCount(1),
                physical_block,
                discard: None,
                wants_discards: false,
                volatile_cache: writes,
                read_only,
                keeps_data: true,
            },
            transport: Arc::new(transport),
            translating: Arc::default(),
            first_caching: caching.map(|caching| caching.current),
            holds_writes: Arc::new(AtomicBool::new(writes)),
            latched: Arc::default(),
        }))
    }

    /// What carries its commands.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Carries out commands on a thread that may block.
    fn ask<A: Send + 'static>(
        &self,
        ask: impl FnOnce(&Commands<'_, T>) -> Result<A> + Send + 'static,
    ) -> Answer<'_, A> {
        let (transport, device) = (Arc::clone(&self.transport), self.inquiry.name.clone());
        let holds = self.holds_writes.load(Ordering::Acquire) && !self.inquiry.read_only;
        let latched = holds.then(|| Arc::clone(&self.latched));
        let holds_writes = Arc::clone(&self.holds_writes);
        Box::pin(async move {
            blocking(move || {
                let loses = latched.as_deref();
                let holds_writes = &holds_writes;
                ask(&Commands { device: &device, transport: &transport, loses, holds_writes })
            })
            .await
        })
    }

    async fn access(&self, mut request: Request) -> Result<Completion> {
        self.check()?;
        request.check(&self.inquiry)?;
        let Request { op, blocks, ref mut data } = request;
        let buffers = std::mem::take(data);
        let (data, timing) =
            self.ask(move |commands| commands.transfer(op, blocks, buffers)).await?;
        Ok(Completion { data, timing })
    }

    fn check(&self) -> Result<()> {
        match self.latched.load(Ordering::Acquire) {
            true => Err(Error::Latched { device: self.inquiry.name.clone() }),
            false => Ok(()),
        }
    }

    fn ensemble_at(&self, lbn: Lbn) -> Result<BlockRange> {
        (self as &dyn Device).check_lbn(lbn)?;
        let first = Lbn(lbn.0 / ENSEMBLE.0 * ENSEMBLE.0);
        let end = (first + ENSEMBLE).min(Lbn(self.inquiry.capacity.0));
        Ok(BlockRange::between(first, end))
    }
}

/// The drive, for one command or some that belong together.
struct Commands<'a, T> {
    device: &'a str,
    transport: &'a T,
    /// Set when the drive says that it may have lost writes, where it may hold some.
    loses: Option<&'a AtomicBool>,
    holds_writes: &'a AtomicBool,
}

/// The caching page of a drive.
struct Caching {
    pages: CachePages,
    /// As the drive has it.
    current: Vec<u8>,
}

impl<T: Transport> Commands<'_, T> {
    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io { device: self.device.to_owned(), action, offset: 0, source }
    }

    fn sensed(&self, sense: Sense) -> Error {
        self.failed("a SCSI command", io::Error::other(sense.to_string()))
    }

    fn decode<A>(&self, decoded: std::result::Result<A, String>) -> Result<A> {
        decoded.map_err(|problem| self.failed("a SCSI command", io::Error::other(problem)))
    }

    /// Takes what a drive has to say before it carries out commands: that it was switched on, or has another medium.
    fn ready(&self) -> Result<()> {
        let command = scsi::test_unit_ready();
        for _ in 0..ATTENTIONS_MAX {
            match self.execute(&command, Data::None)? {
                Err(sense) if sense.is_unit_attention() => {}
                done => return done.map(drop).map_err(|sense| self.sensed(sense)),
            }
        }
        let why = format!("{ATTENTIONS_MAX} times it says that something happened to it");
        Err(self.failed("a SCSI command", io::Error::other(why)))
    }

    /// Its blocks, and the blocks of a physical sector. The long form of the command says how large that is; older drives know only
    /// the short one.
    fn capacity(&self) -> Result<(BlockCount, BlockCount)> {
        let mut long = [0; scsi::CAPACITY_16_BYTES];
        match self.execute(&scsi::read_capacity_16(), Data::In(&mut long))? {
            Ok(bytes) => {
                let bytes = long.get(..bytes).unwrap_or(&long);
                self.decode(scsi::decode_capacity_16(bytes))
            }
            Err(sense) if sense.is_illegal_request() => {
                let mut short = [0; scsi::CAPACITY_10_BYTES];
                let bytes = self.read(&scsi::read_capacity_10(), &mut short)?;
                let capacity = self.decode(scsi::decode_capacity_10(bytes))?;
                let too_large = || "it has more blocks than its short answer counts".to_owned();
                Ok((self.decode(capacity.ok_or_else(too_large))?, BlockCount(1)))
            }
            Err(sense) => Err(self.sensed(sense)),
        }
    }

    /// Gives a command, again where the drive says that its settings were changed. A reset or another medium is told to whoever asked:
    /// what was set is not set any more, and what was written may be gone.
    fn give(&self, command: &[u8], mut data: Data<'_>) -> io::Result<Reply> {
        let mut reply = self.give_once(command, data.again())?;
        for _ in 1..ATTENTIONS_MAX {
            if !reply.sense.is_some_and(Sense::is_settings_changed) {
                break;
            }
            // Somebody may have switched the write cache on.
            self.holds_writes.store(true, Ordering::Release);
            reply = self.give_once(command, data.again())?;
        }
        Ok(reply)
    }

    fn give_once(&self, command: &[u8], data: Data<'_>) -> io::Result<Reply> {
        let reply = self.transport.execute(command, data)?;
        if let Some(loses) = self.loses.filter(|_| reply.sense.is_some_and(Sense::loses_writes)) {
            loses.store(true, Ordering::Release);
        }
        Ok(reply)
    }

    /// The bytes that came, or what the drive says instead.
    fn execute(&self, command: &[u8], data: Data<'_>) -> Result<std::result::Result<usize, Sense>> {
        let reply = self.give(command, data);
        let reply = reply.map_err(|source| self.failed("a SCSI command", source))?;
        Ok(reply.sense.map_or(Ok(reply.bytes), Err))
    }

    fn read<'b>(&self, command: &[u8], answer: &'b mut [u8]) -> Result<&'b [u8]> {
        let bytes = self.execute(command, Data::In(answer))?;
        let bytes = bytes.map_err(|sense| self.sensed(sense))?;
        Ok(answer.get(..bytes).unwrap_or(answer))
    }

    fn write(&self, command: &[u8], data: Data<'_>) -> Result<()> {
        let done = self.execute(command, data)?;
        done.map(drop).map_err(|sense| self.sensed(sense))
    }

    /// The answer to a translation; `None` where the drive does not know what is to be translated.
    fn translate(&self, page: &[u8], together: &Mutex<()>) -> Result<Option<Vec<u8>>> {
        let _both = together.lock();
        let send = scsi::send_diagnostic(page.len() as u16);
        match self.execute(&send, Data::Out(page))? {
            Err(sense) if sense.is_illegal_request() => return Ok(None),
            Err(sense) => return Err(self.sensed(sense)),
            Ok(_) => {}
        }
        let mut answer = [0; scsi::TRANSLATION_BYTES];
        // Without the commands between: the answer is to the page that was sent.
        let reply = self.give_once(&scsi::receive_diagnostic(), Data::In(&mut answer));
        let reply = reply.map_err(|source| self.failed("a SCSI command", source))?;
        match reply.sense.map_or(Ok(reply.bytes), Err) {
            Err(sense) if sense.is_illegal_request() => Ok(None),
            Err(sense) => Err(self.sensed(sense)),
            Ok(bytes) => Ok(Some(answer.get(..bytes).unwrap_or(&answer).to_vec())),
        }
    }

    fn defects(&self, grown: bool) -> Result<Vec<moirai_storage::Defect>> {
        let mut answer = vec![0; usize::from(scsi::DEFECT_BYTES_MAX)];
        let bytes = self.read(&scsi::read_defects(grown), &mut answer)?;
        if let Some(defects) = self.decode(scsi::decode_defects(bytes))? {
            return Ok(defects);
        }
        let mut long = vec![0; scsi::LONG_DEFECT_BYTES_MAX as usize];
        match self.execute(&scsi::read_long_defects(grown), Data::In(&mut long))? {
            Ok(bytes) => self.decode(scsi::decode_long_defects(long.get(..bytes).unwrap_or(&long))),
            // An old drive knows the short form alone, whose list may be all.
            Err(sense) if sense.is_illegal_request() => {
                self.decode(scsi::decode_whole_defects(&answer))
            }
            Err(sense) => Err(self.sensed(sense)),
        }
    }

    /// The answer that has the caching page, as it is or as it can be changed; `None` where the drive has none.
    fn mode(&self, changeable: bool) -> Result<Option<Vec<u8>>> {
        let mut answer = vec![0; usize::from(scsi::MODE_BYTES)];
        match self.execute(&scsi::sense_caching(changeable), Data::In(&mut answer))? {
            Ok(bytes) => {
                answer.truncate(bytes);
                Ok(Some(answer))
            }
            Err(sense) if sense.is_illegal_request() => Ok(None),
            Err(sense) => Err(self.sensed(sense)),
        }
    }

    /// How the cache is set; `None` where the drive does not say.
    fn caching(&self) -> Result<Option<Caching>> {
        let (current, changeable) = (self.mode(false)?, self.mode(true)?);
        Ok(current.zip(changeable).and_then(|(current, changeable)| {
            let current = scsi::caching_page(&current).ok()?;
            let changeable = scsi::caching_page(&changeable).ok()?;
            let pages = scsi::decode_caching(current, changeable).ok()?;
            Some(Caching { pages, current: current.to_vec() })
        }))
    }

    fn transfer(
        &self,
        op: Op,
        blocks: BlockRange,
        mut buffers: Vec<IoBuf>,
    ) -> Result<(Vec<IoBuf>, Timing)> {
        // An access without buffers moves its data all the same.
        let mut spare = buffers.is_empty().then(|| IoBuf::zeroed(blocks.count));
        let issued = now();
        let mut at = blocks.first;
        for buffer in buffers.iter_mut().chain(&mut spare) {
            for piece in buffer.chunks_mut((BLOCKS_MAX * BLOCK_BYTES) as usize) {
                let count = piece.len() as u64 / BLOCK_BYTES;
                let command = scsi::transfer(op == Op::Write, at, count as u16);
                let length = piece.len();
                let data = match op {
                    Op::Read => Data::In(piece),
                    Op::Write => Data::Out(piece),
                };
                let action = if op == Op::Write { "write" } else { "read" };
                let failed = |text: String| Error::Io {
                    device: self.device.to_owned(),
                    action,
                    offset: at.byte_offset(),
                    source: io::Error::other(text),
                };
                let reply = self.give(&command, data);
                let reply = reply.map_err(|error| failed(error.to_string()))?;
                if let Some(sense) = reply.sense {
                    return Err(failed(sense.to_string()));
                }
                if reply.bytes < length {
                    return Err(failed(format!(
                        "{} of {length} bytes were transferred",
                        reply.bytes
                    )));
                }
                at += BlockCount(count);
            }
        }
        Ok((buffers, Timing { issued, started: issued, finished: now(), parts: None }))
    }
}

impl<T: Transport> Device for ScsiDrive<T> {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let blocks = self.ensemble_at(lbn)?;
        Ok(Ensemble { blocks, switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.ensemble_at(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.ensemble_at(lbn).map(|_| EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(join_all(batch.into_iter().map(|request| self.access(request))))
    }

    fn flush(&self) -> Flushed<'_> {
        let has_cache = self.holds_writes.load(Ordering::Acquire);
        let latched = Arc::clone(&self.latched);
        Box::pin(async move {
            self.check()?;
            let flushed = self.ask(move |commands| {
                match commands.execute(&scsi::synchronize_cache(), Data::None) {
                    // Without a cache a drive may not know the command.
                    Ok(Err(sense)) if sense.is_illegal_request() && !has_cache => Ok(()),
                    Ok(done) => done.map(drop).map_err(|sense| commands.sensed(sense)),
                    Err(error) => Err(error),
                }
            });
            let flushed = flushed.await;
            if flushed.is_err() {
                latched.store(true, Ordering::Release);
            }
            flushed
        })
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

impl<T: Transport> Diagnostics for ScsiDrive<T> {
    fn capacity(&self) -> Answer<'_, BlockCount> {
        self.ask(|commands| commands.capacity().map(|(capacity, _)| capacity))
    }

    fn locate(&self, lbn: Lbn) -> Answer<'_, Located> {
        let together = Arc::clone(&self.translating);
        self.ask(move |commands| {
            let page = commands.decode(scsi::translate_block(lbn))?;
            let answer = commands.translate(&page, &together)?;
            let answer = answer.ok_or_else(|| format!("it does not translate {lbn}"));
            let answer = commands.decode(answer)?;
            commands.decode(scsi::decode_located(&answer))
        })
    }

    fn sector(&self, at: Location) -> Answer<'_, Option<Sector>> {
        let together = Arc::clone(&self.translating);
        self.ask(move |commands| {
            // A place that has no address in this format is none that the drive has.
            let Ok(page) = scsi::translate_place(at) else { return Ok(None) };
            let answer = commands.translate(&page, &together)?;
            let sector = answer.map(|answer| commands.decode(scsi::decode_sector(&answer)));
            sector.transpose()
        })
    }

    fn defects(&self) -> Answer<'_, DefectLists> {
        self.ask(|commands| {
            Ok(DefectLists { primary: commands.defects(false)?, grown: commands.defects(true)? })
        })
    }

    fn cache(&self) -> Answer<'_, CachePages> {
        // Where it does not say, its reads may come from a cache, and nothing of that can be set.
        let unknown = CachePages {
            current: CachePage { reads: true, writes: true, read_ahead_blocks: u16::MAX },
            can_set_reads: false,
            can_set_writes: false,
            can_set_read_ahead: false,
        };
        self.ask(move |commands| Ok(commands.caching()?.map_or(unknown, |caching| caching.pages)))
    }

    fn set_cache(&self, page: CachePage) -> Answer<'_, ()> {
        if page.writes {
            self.holds_writes.store(true, Ordering::Release);
        }
        let first = self.first_caching.clone();
        self.ask(move |commands| {
            let current = commands.caching()?.map(|caching| caching.current);
            let current =
                commands.decode(current.ok_or_else(|| "it has no caching page".to_owned()))?;
            let told = scsi::with_caching(&current, first.as_deref().unwrap_or(&current), page);
            commands.write(&scsi::select_mode(told.len() as u16), Data::Out(&told))
        })
    }

    fn seek(&self, lbn: Lbn) -> Answer<'_, Timing> {
        self.ask(move |commands| {
            let command = commands.decode(scsi::seek(lbn))?;
            let issued = now();
            commands.write(&command, Data::None)?;
            Ok(Timing { issued, started: issued, finished: now(), parts: None })
        })
    }
}
