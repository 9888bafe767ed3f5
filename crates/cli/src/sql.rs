//! `moirai sql`: one statement, or a prompt.

use std::io::Write;

use moirai_sql::{Database, Format, write_batches};

use crate::failure::Failure;
use crate::{prompt, run};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The device or volume that the store is on, as URI
    #[arg(long, value_name = "URI")]
    store: String,
    /// The statement; without one, a prompt
    statement: Option<String>,
    /// How answers are written: table, csv or json
    #[arg(long, default_value = "table")]
    format: Format,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    run::on_device(&arguments.store, async {
        let store = moirai::open_store(&arguments.store).await?;
        let database = Database::new(&store)?;
        match &arguments.statement {
            Some(statement) => answer(&database, statement, arguments.format).await,
            None => prompt::run(&database, &store, arguments.format).await,
        }
    })
}

/// Runs a statement and writes its answer to standard output.
pub(crate) async fn answer(
    database: &Database,
    statement: &str,
    format: Format,
) -> Result<(), Failure> {
    let (schema, batches) = database.query(statement).await?;
    let mut text = Vec::new();
    write_batches(&mut text, format, &schema, &batches)?;
    std::io::stdout().lock().write_all(&text)?;
    Ok(())
}
