//! Output: tables that line up and fit the terminal, JSON, and notes on standard error.

use std::fmt::Display;
use std::io::Write;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent};
use console::{Term, measure_text_width};
use serde::Serialize;

use crate::failure::Failure;

/// The failure of a write to standard output.
pub(crate) fn failed(error: std::io::Error) -> Failure {
    match Failure::from(error) {
        Failure::Failed(problem) => Failure::Failed(format!("writing standard output: {problem}")),
        failure => failure,
    }
}

/// Writes a line to standard output.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(failed)
}

/// Writes bytes, and ends the line.
pub(crate) fn bytes_line(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.write_all(b"\n")).map_err(failed)
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::other)?;
    line(text)
}

/// A column of a table: its title, and whether it holds numbers, which are aligned to the right.
pub(crate) type Column<'a> = (&'a str, bool);

/// Writes a table; on a terminal no wider than that, with long texts over several lines.
pub(crate) fn table(columns: &[Column<'_>], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    line(table_within(columns, rows, terminal_width()))
}

/// Text of so many columns does not wrap.
const SHORT_COLUMNS: usize = 18;

/// A table of at most `width` columns, if any: long cells of text wrap, numbers do not.
pub(crate) fn table_within(
    columns: &[Column<'_>],
    rows: Vec<Vec<String>>,
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for line in [TableComponent::HorizontalLines, TableComponent::MiddleIntersections] {
        table.remove_style(line);
    }
    table.set_header(columns.iter().map(|(title, _)| *title));
    let longest = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(String::as_str);
        let title = columns.get(index).map(|(title, _)| *title);
        cells.chain(title).map(measure_text_width).max().unwrap_or(0)
    };
    let is_short = |(index, (_, is_number)): (usize, &Column<'_>)| {
        *is_number || longest(index) <= SHORT_COLUMNS
    };
    let wraps_elsewhere = columns.iter().enumerate().skip(1).any(|column| !is_short(column));
    for (index, (title, is_number)) in columns.iter().enumerate() {
        // Names are copied from the first column, so that it wraps only where no other does.
        let is_whole = match (index, width) {
            (0, Some(width)) => wraps_elsewhere && longest(0) <= usize::from(width) / 2,
            (0, None) => true,
            _ => is_short((index, &(*title, *is_number))),
        };
        let Some(column) = table.column_mut(index) else { continue };
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if is_whole {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.add_rows(rows);
    table.trim_fmt()
}

/// Columns of the terminal, where standard output is one.
pub(crate) fn terminal_width() -> Option<u16> {
    Term::stdout().size_checked().map(|(_, columns)| columns)
}

/// Notes that a simulated device with contents in memory ends with the command.
pub(crate) fn note_of_memory(uri: &str) {
    if uri.starts_with("sim:") && !uri.contains("data=") {
        let text = "keeps its contents in memory, so they end with this command: add ?data=FILE to keep them";
        note(format!("{uri} {text}"));
    }
}

/// Notes what a device held that was overwritten.
pub(crate) fn note_of_loss(device: &str, occupant: &moirai::storage::Occupant) {
    note(format!("{device} held {occupant}, which is overwritten"));
}

/// Writes a note to standard error.
pub(crate) fn note(note: impl Display) {
    error_line(format!("note: {note}"));
}

/// Writes notes to standard error.
pub(crate) fn notes(notes: &[String]) {
    notes.iter().for_each(note);
}

/// Writes a line to standard error. Where nobody reads that the command goes on.
pub(crate) fn error_line(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A count and what is counted, like `1 record` and `2,000 records`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", moirai::units::grouped(count))
}
