//! The SQL prompt: history, statements over several lines, and Ctrl-C that cancels a statement.

use std::path::PathBuf;

use futures::future::{Either, select};
use moirai::runtime::Interrupts;
use moirai_sql::Script;
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use super::{Next, Session, meta};
use crate::failure::Failure;
use crate::print;

const PROMPT: &str = "moirai> ";
/// The prompt in a transaction block.
const IN_BLOCK: &str = "moirai*> ";
/// The prompt of the further lines of a statement.
const CONTINUATION: &str = "     -> ";

fn history_path() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    std::fs::create_dir_all(state.join("moirai")).ok()?;
    Some(state.join("moirai/sql_history"))
}

impl Session {
    /// Reads statements and answers them until the user leaves.
    pub(super) async fn prompt(&mut self) -> Result<(), Failure> {
        let broken = |error: ReadlineError| Failure::Failed(format!("the prompt: {error}"));
        // The terminal itself, so that prompts are not in a file that answers go to.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        let mut editor = DefaultEditor::with_config(config).map_err(broken)?;
        let history = history_path();
        if let Some(path) = &history {
            // There is none the first time.
            let _ = editor.load_history(path);
        }
        let tables = self.database.tables().await?.into_iter().map(|table| table.name);
        let tables: Vec<String> = tables.collect();
        let tables = if tables.is_empty() { "none".to_owned() } else { tables.join(", ") };
        print::error_line(format!("Tables: {tables}. End a statement with `;`; \\? for help."));
        self.has_timing = true;
        let interrupts = Interrupts::listen()?;
        let mut script = Script::new();
        let mut entered = String::new();
        'lines: loop {
            let prompt = match (entered.is_empty(), self.database.is_in_block()) {
                (true, false) => PROMPT,
                (true, true) => IN_BLOCK,
                (false, _) => CONTINUATION,
            };
            let line = match editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    script = Script::new();
                    entered.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(broken(error)),
            };
            if entered.is_empty() && line.trim().is_empty() {
                continue;
            }
            if !entered.is_empty() {
                entered.push('\n');
            }
            entered.push_str(&line);
            let mut statements = match entered.lines().count() {
                // Words such as `quit` need no semicolon.
                1 if meta::Command::parse(&line).is_some() => vec![line.clone()],
                _ => script.push(&format!("{line}\n")),
            };
            if statements.is_empty() && !script.is_empty() {
                continue;
            }
            let _ = editor.add_history_entry(&entered);
            if script.is_empty() {
                entered.clear();
            } else {
                entered = script.pending().trim_start().to_owned();
            }
            for statement in statements.drain(..) {
                match self.interruptible(&statement, &interrupts).await {
                    Ok(Next::Continue) => {}
                    Ok(Next::Quit) => break 'lines,
                    Err(failure) => print::error_line(failure),
                }
            }
        }
        if let Some(path) = &history {
            let _ = editor.save_history(path);
        }
        Ok(())
    }

    /// Runs a statement until it ends or the user presses Ctrl-C.
    async fn interruptible(
        &mut self,
        statement: &str,
        interrupts: &Interrupts,
    ) -> Result<Next, Failure> {
        // One that was pressed before does not count.
        let _ = interrupts.take();
        let done = {
            let running = std::pin::pin!(self.line(statement));
            let pressed = std::pin::pin!(interrupts.pressed());
            match select(running, pressed).await {
                Either::Left((done, _)) => Some(done),
                Either::Right(_) => None,
            }
        };
        if let Some(done) = done {
            return done;
        }
        let _ = interrupts.take();
        self.end_line()?;
        Err(Failure::Interrupted("the statement is cancelled".to_owned()))
    }
}
