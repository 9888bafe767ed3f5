//! The commands of the SQL prompt that are not SQL: `\d`, `\timing`, `help` and the like.

use moirai_sql::{ColumnInfo, IndexInfo, TableInfo};

use super::{Next, Session};
use crate::failure::Failure;
use crate::print;

/// A command of the prompt; scripts take them, too.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// List the tables.
    Tables,
    /// Describe a table.
    Table(&'a str),
    /// Print the time of each statement, or stop that.
    Timing,
    /// Print a line for each value, or stop that.
    Expanded,
    Help,
    Quit,
}

/// What [`Command::Help`] prints.
const HELP: &str = "\
End a statement with a semicolon. Commands:
  \\d            list the tables
  \\d TABLE      show the columns of a table
  \\timing       print the time of each statement, or stop that
  \\x            print a line for each value, or stop that
  \\?, help      print this list
  \\q, quit      leave, as Ctrl-D does
Ctrl-C cancels a statement.";

impl<'a> Command<'a> {
    /// The command that `line` is; `None` for SQL. An error for a backslash command that does not exist.
    pub(super) fn parse(line: &'a str) -> Option<Result<Command<'a>, Failure>> {
        let line = line.trim().trim_end_matches(';').trim_end();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim().trim_matches('"');
        Some(Ok(match (word.to_ascii_lowercase().as_str(), rest) {
            ("quit" | "exit" | "\\q", "") => Command::Quit,
            ("help" | "\\?" | "\\h", "") => Command::Help,
            ("\\d" | "\\dt", "") => Command::Tables,
            ("\\d", table) => Command::Table(table),
            ("\\timing", "") => Command::Timing,
            ("\\x", "") => Command::Expanded,
            (other, _) if other.starts_with('\\') => {
                let problem = format!("there is no command `{line}`: \\? lists the commands");
                return Some(Err(Failure::Usage(problem)));
            }
            _ => return None,
        }))
    }
}

impl Session {
    pub(super) async fn meta(&mut self, command: &Command<'_>) -> Result<Next, Failure> {
        match command {
            Command::Quit => return Ok(Next::Quit),
            Command::Help => print::line(HELP)?,
            Command::Tables => self.list_tables().await?,
            Command::Table(name) => self.describe(name).await?,
            Command::Timing => {
                self.has_timing = !self.has_timing;
                print::error_line(format!("Timing is {}.", on(self.has_timing)));
            }
            Command::Expanded => {
                self.is_expanded = !self.is_expanded;
                print::error_line(format!("Expanded display is {}.", on(self.is_expanded)));
            }
        }
        Ok(Next::Continue)
    }

    async fn list_tables(&self) -> Result<(), Failure> {
        let row = |table: TableInfo| {
            let rows = moirai::units::grouped(table.rows);
            vec![table.name, table.layout, rows, table.columns.len().to_string()]
        };
        print::table(
            &[("table", false), ("layout", false), ("rows, about", true), ("columns", true)],
            self.database.tables().await?.into_iter().map(row).collect(),
        )
    }

    async fn describe(&self, name: &str) -> Result<(), Failure> {
        let mut tables = self.database.tables().await?;
        let Some(at) = tables.iter().position(|table| table.name == name) else {
            let names: Vec<String> = tables.into_iter().map(|table| table.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let problem = format!("there is no table `{name}`; the store has {known}");
            return Err(Failure::Failed(problem));
        };
        let row = |column: ColumnInfo| {
            let null = if column.is_nullable { "" } else { "not null" };
            let key = if column.is_key { "key" } else { "" };
            let default = column.default.unwrap_or_default();
            vec![column.name, column.data_type, null.to_owned(), key.to_owned(), default]
        };
        let TableInfo { columns, indexes, .. } = tables.swap_remove(at);
        let rows = columns.into_iter().map(row).collect();
        print::table(
            &[
                ("column", false),
                ("type", false),
                ("nulls", false),
                ("key", false),
                ("default", false),
            ],
            rows,
        )?;
        for IndexInfo { name, columns, is_unique } in indexes {
            let unique = if is_unique { "unique " } else { "" };
            print::line(format!("{unique}index {name} on ({})", columns.join(", ")))?;
        }
        Ok(())
    }
}

fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_sql() {
        let check = |line: &str, expected: Option<Command<'_>>| {
            assert_eq!(Command::parse(line).map(|found| found.unwrap()), expected, "{line}");
        };
        check("\\d", Some(Command::Tables));
        check(" \\d lineitem ;", Some(Command::Table("lineitem")));
        check("\\d \"My Table\"", Some(Command::Table("My Table")));
        check("QUIT;", Some(Command::Quit));
        check("exit", Some(Command::Quit));
        check("help", Some(Command::Help));
        check("\\timing", Some(Command::Timing));
        check("select 1", None);
        check("quit from tables", None);
        let error = Command::parse("\\nothing").unwrap().unwrap_err().to_string();
        assert!(error.contains("`\\nothing`") && error.contains("\\?"), "{error}");
    }
}
