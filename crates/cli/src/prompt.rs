//! The SQL prompt: history, and statements over several lines that end with a semicolon.

use std::path::PathBuf;

use moirai::runtime::{Stopwatch, is_virtual, now};
use moirai::store::Store;
use moirai_sql::{Database, Format};
use rustyline::error::ReadlineError;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Editor, Helper, Highlighter, Hinter};

use crate::failure::Failure;
use crate::{print, sql};

/// Asks for more lines until a statement ends.
#[derive(Completer, Helper, Highlighter, Hinter)]
struct Statements;

impl Validator for Statements {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input().trim();
        let complete = input.is_empty() || input.ends_with(';') || input.starts_with('\\');
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

fn history_path() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    std::fs::create_dir_all(state.join("moirai")).ok()?;
    Some(state.join("moirai/sql_history"))
}

/// Reads statements and answers them until the input ends.
pub(crate) async fn run(database: &Database, store: &Store, format: Format) -> Result<(), Failure> {
    let broken = |error: ReadlineError| Failure::Failed(format!("the prompt: {error}"));
    let mut editor: Editor<Statements, _> = Editor::new().map_err(broken)?;
    editor.set_helper(Some(Statements));
    let history = history_path();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    print::line(format!(
        "Tables: {}. End a statement with `;`. Ctrl-D leaves.",
        store.table_names().join(", ")
    ))?;
    loop {
        let input = match editor.readline("moirai> ") {
            Ok(input) => input,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        };
        let statement = input.trim().trim_end_matches(';').trim();
        if statement.is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(&input);
        if matches!(statement, "\\q" | "quit" | "exit") {
            break;
        }
        let (watch, began) = (Stopwatch::start(), now());
        match sql::answer(database, statement, format).await {
            Ok(()) if is_virtual() => {
                print::line(format!("virtual I/O time {}", now().since(began)))?;
            }
            Ok(()) => print::line(format!("{}", watch.elapsed()))?,
            // A statement that fails does not end the prompt.
            Err(failure) => eprintln!("{failure}"),
        }
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}
