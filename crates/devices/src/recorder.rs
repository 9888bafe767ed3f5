//! A device whose requests are recorded in a trace, in the columns of MSR Cambridge.
//!
//! Times continue where the file ends: the time between two openings does not count. A line that a crash
//! cut off is removed at the next opening.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_runtime::now;
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, Op,
    Request, Result, Timing,
};
use moirai_units::{BlockRange, Instant, Lbn};
use parking_lot::Mutex;

/// The unit of a trace's times.
const TICK_NS: u64 = 100;
/// The time between the last request of one opening and the first of the next.
const GAP_TICKS: u64 = 10_000;
/// The longest line that a recorder writes is shorter.
const TAIL_BYTES: u64 = 4096;

/// Passes everything on to another device and records the requests.
pub struct Recorder {
    inner: Arc<dyn Device>,
    opened: Instant,
    /// The time of the trace at `opened`.
    first_tick: u64,
    /// `None` after a failed write to the file.
    file: Mutex<Option<BufWriter<File>>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("inner", self.inner.inquiry()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Records the requests to `inner` at the end of the trace at `path`, which is created if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn start(inner: Arc<dyn Device>, path: &Path) -> Result<Arc<Recorder>> {
        let failed = |source| Error::File {
            path: path.to_owned(),
            action: "opening the trace to record in",
            source,
        };
        let (file, first_tick) = open(path).map_err(failed)?;
        let file = Mutex::new(Some(BufWriter::new(file)));
        Ok(Arc::new(Recorder { inner, opened: now(), first_tick, file }))
    }

    fn record(&self, op: Op, blocks: BlockRange, timing: &Timing) {
        let ticks = self.first_tick + timing.issued.since(self.opened).0 / TICK_NS;
        let response = timing.finished.since(timing.issued).0 / TICK_NS;
        let word = match op {
            Op::Read => "Read",
            Op::Write => "Write",
        };
        let (offset, size) = (blocks.first.byte_offset(), blocks.bytes().0);
        self.write(|file| writeln!(file, "{ticks},moirai,0,{word},{offset},{size},{response}"));
    }

    /// Writes to the trace. The first failure ends the recording; the device goes on.
    fn write(&self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
        let mut file = self.file.lock();
        if let Some(Err(error)) = file.as_mut().map(write) {
            tracing::warn!("{}: recording ends: {error}", self.inner.inquiry().name);
            *file = None;
        }
    }
}

/// Opens the trace to append to it; gives the time at which it goes on.
fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    let from = end.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    file.set_len(from + whole as u64)?;
    let text = String::from_utf8_lossy(tail.get(..whole).unwrap_or_default());
    let last = text.lines().next_back().and_then(|line| line.split(',').next()?.parse().ok());
    Ok((file, last.map_or(0, |last: u64| last.saturating_add(GAP_TICKS))))
}

impl Device for Recorder {
    fn inquiry(&self) -> &Inquiry {
        self.inner.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.inner.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.inner.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.inner.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let requests: Vec<_> =
                batch.iter().map(|request| (request.op, request.blocks)).collect();
            let results = self.inner.submit(batch).await;
            for ((op, blocks), result) in requests.into_iter().zip(&results) {
                if let Ok(completion) = result {
                    self.record(op, blocks, &completion.timing);
                }
            }
            results
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.write(BufWriter::flush);
        self.inner.flush()
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        self.inner.discard(blocks)
    }
}

#[cfg(test)]
mod tests {
    use moirai_runtime::{block_on_virtual, sleep};
    use moirai_units::{BlockCount, Nanos};

    use super::*;
    use crate::Access;

    fn disk() -> Arc<dyn Device> {
        let uri = "sim:seagate-cheetah-36es?data=none".parse().unwrap();
        crate::open(uri, Access::Write).unwrap()
    }

    #[test]
    fn times_continue_and_a_line_that_was_cut_off_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        for _ in 0..2 {
            block_on_virtual(1, async {
                let recorder: Arc<dyn Device> = Recorder::start(disk(), &path).unwrap();
                for index in 0..3 {
                    sleep(Nanos(5_000_000)).await;
                    recorder.read(BlockRange::new(Lbn(index * 1000), BlockCount(8))).await.unwrap();
                }
                drop(recorder);
            });
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"123,moirai,0,Re").unwrap();
        }
        block_on_virtual(1, async {
            drop(Recorder::start(disk(), &path).unwrap());
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let ticks: Vec<u64> =
            text.lines().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(ticks.len(), 6, "{text}");
        assert!(ticks.is_sorted() && ticks[0] == 50_000, "{text}");
        assert!(text.lines().all(|line| line.contains(",moirai,0,Read,")), "{text}");
    }
}
