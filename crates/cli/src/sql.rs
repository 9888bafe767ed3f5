//! `moirai sql`: statements from the command line, from scripts, or at a prompt.

mod meta;
mod prompt;

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;
use moirai::runtime::{Stopwatch, is_virtual, now, yield_now};
use moirai::tables::Tables;
use moirai::units::ByteCount;
use moirai::update::Options;
use moirai::{Held, NewFiles};
use moirai_sql::{
    AnswerStream, AnswerWriter, Database, Format, Need, Script, memory_database, need, syntax_error,
};

use crate::failure::Failure;
use crate::store::Place;
use crate::{kv, print, progress};

/// Query the tables of a store in SQL, and change them
///
/// Tables take INSERT, UPDATE and DELETE, whether `CREATE TABLE` or `table load` made them, beside the trees of `kv` in the same store;
/// each statement is whole or not at all. The first CREATE makes a store of a blank device, or of a new file with `?size=` in its URI.
///
/// Statements come from the command line (STATEMENT, -c), from scripts (-f), from standard input where that is not a
/// terminal, or else from a prompt, where `\?` lists the commands. Answers go to standard output, everything else
/// to standard error. A statement that fails ends the command with status 1; of a long answer, rows may have been written before.
#[derive(Clone, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Write nothing, so that several may read the store at once; statements on the command line that only read do so anyway
    #[arg(long)]
    read_only: bool,
    /// Statements to run, separated by semicolons
    statement: Option<String>,
    /// Run these statements; repeat for more
    #[arg(short = 'c', long = "command", value_name = "STATEMENTS", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run the statements of a script, `-` for standard input; scripts run after -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format of the answers: table, csv, json, or expanded, with a line for each value
    #[arg(long, default_value = "table")]
    format: Format,
    /// Go on after a statement that fails; the exit status is 1 at the end
    #[arg(long)]
    keep_going: bool,
    /// Print the time of each statement to standard error
    #[arg(long)]
    timing: bool,
}

/// Memory unless `--memory` says another: the changes of a statement wait there.
const MEMORY: ByteCount = ByteCount(256 << 20);

/// Whether there is no such file.
fn is_no_file(error: &moirai::btree::Error) -> bool {
    let moirai::btree::Error::Update(moirai::update::Error::Device(error)) = error else {
        return false;
    };
    matches!(error, moirai::storage::Error::NoFile { .. })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    arguments.place.run(async {
        let mut session = Session::open(&arguments).await?;
        let done = session.run(&arguments).await;
        let tables = session.tables.take();
        drop(session);
        if let Some(tables) = tables {
            let closed = tables.close().await;
            done?;
            closed?;
            return Ok(());
        }
        done
    })
}

impl Arguments {
    fn options(&self) -> Options {
        let memory = self.place.memory.unwrap_or(MEMORY);
        Options { memory, read_only: self.only_reads(), ..Options::default() }
    }

    /// Whether what is not there yet is made: a file with its size, or what a simulated disk keeps its data in.
    fn makes_files(&self) -> bool {
        let uri = &self.place.store;
        uri.contains("?size=") || uri.contains("&size=") || uri.starts_with("sim:")
    }

    /// Whether no statement writes, as far as their first words tell.
    fn only_reads(&self) -> bool {
        let given: Vec<&String> = self.statement.iter().chain(&self.commands).collect();
        let reads = |statement: &String| need(statement) == Need::Reading;
        let all_read = |text: &&String| {
            let mut script = Script::new();
            let mut statements = script.push(text);
            statements.extend(script.rest());
            statements.iter().all(reads)
        };
        self.read_only || (self.files.is_empty() && !given.is_empty() && given.iter().all(all_read))
    }
}

/// Whether a session goes on after a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

/// What the statements of one command share.
struct Session {
    database: Database,
    /// The tables, where they take updates.
    tables: Option<Arc<Tables>>,
    /// What the first `CREATE` makes a store of.
    blank: Option<Arguments>,
    format: Format,
    /// Whether the last line of an answer has no end yet.
    is_in_line: bool,
    /// Whether tables have a line for each value.
    is_expanded: bool,
    has_timing: bool,
    keep_going: bool,
    /// Statements that failed.
    failed: u64,
}

impl Session {
    async fn open(arguments: &Arguments) -> Result<Session, Failure> {
        let options = arguments.options();
        let mut session = Session {
            database: memory_database([])?,
            tables: None,
            blank: None,
            format: match arguments.format {
                Format::Expanded => Format::Table,
                format => format,
            },
            is_expanded: arguments.format == Format::Expanded,
            is_in_line: false,
            has_timing: arguments.timing,
            keep_going: arguments.keep_going,
            failed: 0,
        };
        let held = match moirai::held(&arguments.place.store).await {
            Err(error) if arguments.makes_files() && is_no_file(&error) && !options.read_only => {
                session.blank = Some(arguments.clone());
                return Ok(session);
            }
            Err(error)
                if arguments.place.store.starts_with("file:")
                    && !arguments.makes_files()
                    && is_no_file(&error) =>
            {
                return Err(Failure::Failed(format!(
                    "{error}: a new store needs its size, as in \"{}?size=1GiB\"",
                    arguments.place.store
                )));
            }
            held => held?,
        };
        match held {
            Held::Store => {
                let tables =
                    moirai::open_tables(arguments.place.trees(), kv::kinds()?, options).await?;
                session.database = Database::over(&tables);
                session.tables = Some(tables);
            }
            Held::Nothing => {
                if !options.read_only {
                    session.blank = Some(arguments.clone());
                }
                print::note(format!(
                    "{} is blank: CREATE TABLE and `moirai table load` make a store of it",
                    arguments.place.store
                ));
            }
            Held::Other(occupant) => return Err(arguments.place.no_store(&occupant)),
        }
        Ok(session)
    }

    /// Makes a store of what is blank with a first table; nothing where that fails.
    async fn create(
        &mut self,
        arguments: &Arguments,
        statement: &str,
    ) -> Result<AnswerStream, Failure> {
        let files = NewFiles::new();
        let created = arguments.place.create(&files, arguments.options(), false).await?;
        let tables = Tables::over(created.store);
        let database = Database::over(&tables);
        match database.stream(statement).await {
            Ok(answer) => {
                (self.database, self.tables, self.blank) = (database, Some(tables), None);
                Ok(answer)
            }
            Err(error) => {
                drop(database);
                // The statement tells what is wrong.
                drop(tables.close().await);
                files.remove();
                Err(error.into())
            }
        }
    }

    async fn run(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let is_option = |given: &&String| given.starts_with('-') && !given.contains('\n');
        if let Some(given) = arguments.commands.iter().find(is_option) {
            let problem = format!("-c takes statements, and `{given}` is none");
            return Err(Failure::Usage(problem));
        }
        let given = arguments.statement.iter().chain(&arguments.commands);
        let mut is_given = !arguments.files.is_empty();
        for statements in given {
            is_given = true;
            if self.script(&mut statements.as_bytes(), None).await? == Next::Quit {
                return self.ended();
            }
        }
        for file in &arguments.files {
            let next = match file == Path::new("-") {
                true => self.script(&mut std::io::stdin().lock(), Some(file)).await?,
                false => {
                    let opened = std::fs::File::open(file);
                    let opened = opened.map_err(|problem| {
                        Failure::Failed(format!("opening {}: {problem}", file.display()))
                    })?;
                    self.script(&mut BufReader::new(opened), Some(file)).await?
                }
            };
            if next == Next::Quit {
                return self.ended();
            }
        }
        if !is_given {
            match std::io::stdin().is_terminal() {
                true => self.prompt().await?,
                false => {
                    self.script(&mut std::io::stdin().lock(), None).await?;
                }
            }
        }
        self.ended()
    }

    fn ended(&self) -> Result<(), Failure> {
        if self.database.is_in_block() {
            print::note("a transaction was open at the end, and was rolled back: write COMMIT");
        }
        match self.failed {
            0 => Ok(()),
            1 => Err(Failure::Failed("1 statement failed".to_owned())),
            failed => Err(Failure::Failed(format!("{failed} statements failed"))),
        }
    }

    /// Runs the statements of a script, each once it is complete. Messages name the script's file.
    async fn script(
        &mut self,
        lines: &mut dyn BufRead,
        file: Option<&Path>,
    ) -> Result<Next, Failure> {
        let mut script = Script::new();
        let mut line = String::new();
        let mut number = 0_u64;
        loop {
            line.clear();
            let read = lines.read_line(&mut line)?;
            let text = match number {
                // Some editors begin a file with this mark.
                0 => line.trim_start_matches('\u{feff}'),
                _ => &line,
            };
            let statements = if read == 0 { script.rest() } else { script.push(text) };
            number += u64::from(read > 0);
            for statement in statements {
                let (failure, next) = match self.line(&statement).await {
                    Ok(next) => (None, next),
                    Err(failure @ Failure::BrokenPipe) => return Err(failure),
                    Err(failure) => (Some(failure), Next::Continue),
                };
                if let Some(failure) = failure {
                    let failure = match file {
                        Some(file) => {
                            Failure::Failed(format!("{}:{number}: {failure}", file.display()))
                        }
                        None => Failure::Failed(failure.to_string()),
                    };
                    if !self.keep_going {
                        return Err(failure);
                    }
                    self.failed += 1;
                    print::error_line(format!("moirai: {failure}"));
                }
                if next == Next::Quit {
                    return Ok(Next::Quit);
                }
            }
            if read == 0 {
                return Ok(Next::Continue);
            }
        }
    }

    /// Runs a statement, or a command of the prompt.
    async fn line(&mut self, statement: &str) -> Result<Next, Failure> {
        if let Some(command) = meta::Command::parse(statement) {
            return self.meta(&command?).await;
        }
        if self.blank.is_some() && need(statement) == Need::Nothing {
            return Ok(Next::Continue);
        }
        let (watch, began) = (Stopwatch::start(), now());
        let clock = progress::clock("running");
        let answer = match (self.blank.clone(), need(statement)) {
            (Some(blank), Need::Creating) => self.create(&blank, statement).await,
            (Some(blank), Need::Writing) => Err(Failure::Failed(match syntax_error(statement) {
                Some(problem) => problem,
                None => format!("{} has no tables: CREATE TABLE comes first", blank.place.store),
            })),
            _ => self.database.stream(statement).await.map_err(Failure::from),
        };
        let shown = match answer {
            Ok(mut answer) => {
                let shown = self.show(&mut answer, &clock).await;
                answer.stop().await;
                match shown {
                    Err(Failure::BrokenPipe) => shown,
                    _ => {
                        let ended = self.end_line();
                        shown.and(ended)
                    }
                }
            }
            Err(failure) => Err(failure),
        };
        clock.finish_and_clear();
        shown?;
        if self.has_timing {
            print::error_line(match is_virtual() {
                true => format!("{} of virtual I/O time", now().since(began)),
                false => watch.elapsed().to_string(),
            });
        }
        Ok(Next::Continue)
    }

    /// Writes an answer to standard output while it comes, and yields now and then, so that Ctrl-C ends a long one. The clock
    /// ends with the first rows.
    async fn show(
        &mut self,
        answer: &mut AnswerStream,
        clock: &ProgressBar,
    ) -> Result<(), Failure> {
        let format = match (self.is_expanded, self.format) {
            (true, Format::Table) => Format::Expanded,
            (_, format) => format,
        };
        let mut writer = AnswerWriter::new(answer.schema(), format)?;
        let mut text = Vec::new();
        while let Some(batch) = answer.next().await? {
            let mut first = 0;
            while first < batch.num_rows() {
                let rows = SHOWN_ROWS.min(batch.num_rows() - first);
                writer.push(&batch.slice(first, rows), &mut text)?;
                self.put(&mut text, clock).await?;
                first += rows;
            }
        }
        writer.finish(&mut text)?;
        self.put(&mut text, clock).await
    }

    /// Writes what there is of an answer to standard output, and leaves `text` empty.
    async fn put(&mut self, text: &mut Vec<u8>, clock: &ProgressBar) -> Result<(), Failure> {
        if !text.is_empty() {
            clock.finish_and_clear();
        }
        for part in text.chunks(SHOWN_BYTES) {
            std::io::stdout().lock().write_all(part).map_err(print::failed)?;
            self.is_in_line = !part.ends_with(b"\n");
            yield_now().await;
        }
        text.clear();
        Ok(())
    }

    /// Ends the line of an answer that was cut off, so that what comes next has one of its own.
    fn end_line(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_in_line) {
            true => print::line(""),
            false => Ok(()),
        }
    }
}

/// Rows of an answer that become text at once.
const SHOWN_ROWS: usize = 10_000;

/// Bytes of an answer that are written at once.
const SHOWN_BYTES: usize = 64 << 10;
