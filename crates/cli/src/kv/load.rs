//! `kv load`: files whose lines are records, committed group by group, or ingested.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use moirai::btree::{Batch, Store, Tree};
use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::units::{Instant, grouped};

use super::text::Text;
use crate::failure::Failure;
use crate::{print, progress};

/// A file that is loaded.
#[derive(clap::Args)]
pub(super) struct Input {
    /// File to read, `-` for standard input
    file: PathBuf,
    /// Lines of a group, or records of a dump, which are committed together
    #[arg(long, default_value_t = 1000)]
    group: usize,
    /// Print the number of durable lines or records after each group
    #[arg(long)]
    acknowledge: bool,
}

impl Input {
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

/// The load of a file into trees of a store.
pub(super) struct Loading<'a> {
    store: &'a Store,
    file: &'a Path,
    reader: Box<dyn BufRead + Send>,
    /// The number of the last line read.
    pub(super) line: u64,
    /// What each line is.
    what: &'static str,
    pub(super) batch: Batch,
    group: usize,
    /// Records or changes that are durable.
    durable: u64,
    acknowledge: bool,
    bar: ProgressBar,
    watch: Stopwatch,
    began: Instant,
}

impl<'a> Loading<'a> {
    pub(super) fn start(
        store: &'a Store,
        input: &'a Input,
        what: &'static str,
    ) -> Result<Loading<'a>, Failure> {
        let file = &*input.file;
        let reader: Box<dyn BufRead + Send> = match file.to_str() {
            Some("-") => Box::new(BufReader::new(std::io::stdin())),
            _ => {
                let opened = std::fs::File::open(file)
                    .map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
                Box::new(BufReader::new(opened))
            }
        };
        Ok(Loading {
            store,
            file,
            reader,
            line: 0,
            what,
            batch: Batch::new(),
            group: input.group.max(1),
            durable: 0,
            acknowledge: input.acknowledge,
            bar: progress::bar("loading", None),
            watch: Stopwatch::start(),
            began: now(),
        })
    }

    /// Reads the next line into `line`, without its end; tells whether there was one.
    pub(super) fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, Failure> {
        line.clear();
        let read = self.reader.read_until(b'\n', line).map_err(|error| self.failed(error))?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        self.line += u64::from(read > 0);
        Ok(read > 0)
    }

    /// The failure of the whole load, which says what is durable.
    pub(super) fn failed(&self, problem: impl std::fmt::Display) -> Failure {
        let file = self.file.display();
        let loaded = match self.durable {
            0 => "nothing of it is known to be loaded".to_owned(),
            1 => format!("at least the first {} is loaded", self.what.trim_end_matches('s')),
            durable => format!("at least the first {} {} are loaded", grouped(durable), self.what),
        };
        Failure::Failed(format!("{file}: {problem}; {loaded}"))
    }

    /// The failure of the last line read.
    pub(super) fn failed_line(&self, problem: impl std::fmt::Display) -> Failure {
        self.failed(format!("line {}: {problem}", self.line))
    }

    /// Commits the batch when it is a whole group; tells whether it was.
    pub(super) async fn commit_group(&mut self) -> Result<bool, Failure> {
        let is_whole = self.batch.len() >= self.group;
        if is_whole {
            self.commit().await?;
        }
        Ok(is_whole)
    }

    /// Commits the batch, and with `--acknowledge` prints how many lines are durable.
    async fn commit(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.store.commit(&self.batch).await {
            return Err(self.failed(error));
        }
        self.durable += self.batch.len() as u64;
        self.batch.clear();
        self.bar.set_position(self.durable);
        match self.acknowledge {
            // A reader that has gone must not take the rest for loaded.
            true => print::line(self.durable).map_err(|failure| self.failed(failure)),
            false => Ok(()),
        }
    }

    /// Commits what is left, and prints how fast it went.
    pub(super) async fn finish(mut self) -> Result<(), Failure> {
        self.commit().await?;
        self.store.checkpoint().await.map_err(|error| self.failed(error))?;
        self.bar.finish_and_clear();
        let real_s = self.watch.elapsed().as_s();
        let rate = |seconds: f64| grouped((self.durable as f64 / seconds.max(1e-9)) as u64);
        let count = grouped(self.durable);
        let what = match self.durable {
            1 => self.what.trim_end_matches('s'),
            _ => self.what,
        };
        let told = match is_virtual() {
            true => {
                let virtual_s = now().since(self.began).as_s();
                let rate = rate(virtual_s);
                format!(
                    "{count} {what} in {virtual_s:.1} s of virtual time, {rate} a second (real time {real_s:.1} s)"
                )
            }
            false => format!("{count} {what} in {real_s:.1} s, {} a second", rate(real_s)),
        };
        // Who repeats the command because it failed is to know that all is there.
        print::line(told).map_err(|failure| match failure {
            Failure::BrokenPipe => failure,
            failure if self.durable == 1 => {
                Failure::Failed(format!("{failure}; the only {what} is loaded"))
            }
            failure => Failure::Failed(format!("{failure}; all {count} {what} are loaded")),
        })
    }
}

/// Puts the records of a file whose lines are key, tab, value.
pub(super) async fn load(
    store: &Store,
    tree: &Tree,
    input: &Input,
    text: Text,
) -> Result<(), Failure> {
    let mut loading = Loading::start(store, input, "records")?;
    let mut line = Vec::new();
    while loading.next_line(&mut line)? {
        match record(&line, text) {
            Ok((key, value)) => loading.batch.put(tree, &key, &value),
            Err(problem) => {
                loading.commit().await?;
                return Err(loading.failed_line(problem));
            }
        }
        loading.commit_group().await?;
    }
    loading.finish().await
}

/// Ingests the records of a file whose lines are sorted by key.
pub(super) async fn load_sorted(
    store: &Store,
    tree: &Tree,
    input: &Input,
    text: Text,
) -> Result<(), Failure> {
    let mut loading = Loading::start(store, input, "records")?;
    let mut ingest = store.ingest_into(tree)?;
    let mut line = Vec::new();
    while loading.next_line(&mut line)? {
        let pushed = match record(&line, text) {
            Ok((key, value)) => ingest.push(&key, &value).await.map_err(|error| error.to_string()),
            Err(problem) => match ingest.flush().await {
                Ok(()) => Err(problem),
                Err(error) => Err(error.to_string()),
            },
        };
        loading.durable = ingest.durable();
        pushed.map_err(|problem| loading.failed_line(problem))?;
        loading.bar.set_position(loading.durable);
    }
    let flushed = ingest.flush().await;
    loading.durable = ingest.durable();
    flushed.map_err(|error| loading.failed(error))?;
    loading.finish().await
}

/// The key and the value of a line.
pub(super) fn record(line: &[u8], text: Text) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (key, value) = split(line).ok_or("there is no tab between key and value")?;
    let read = |bytes| text.read_bytes(bytes).map_err(|problem| problem.to_string());
    Ok((read(key)?, read(value)?))
}

/// What is before the first tab, and what is after it.
pub(super) fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (before, after) = line.split_at_checked(tab)?;
    Some((before, after.strip_prefix(b"\t").unwrap_or(after)))
}
