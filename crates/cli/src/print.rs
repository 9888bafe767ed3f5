//! Output: tables that line up, and JSON.

use std::io::Write;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table, TableComponent};
use serde::Serialize;

use crate::failure::Failure;

/// Writes a line to standard output.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Writes bytes, and ends the line.
pub(crate) fn bytes_line(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(bytes)?;
    Ok(output.write_all(b"\n")?)
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::other)?;
    line(text)
}

/// A column of a table: its title, and whether it holds numbers, which stand to the right.
pub(crate) type Column<'a> = (&'a str, bool);

/// Writes a table.
pub(crate) fn table(columns: &[Column<'_>], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    for line in [TableComponent::HorizontalLines, TableComponent::MiddleIntersections] {
        table.remove_style(line);
    }
    table.set_header(columns.iter().map(|(title, _)| *title));
    for (index, (_, is_number)) in columns.iter().enumerate() {
        if let (true, Some(column)) = (*is_number, table.column_mut(index)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    line(table.trim_fmt())
}

/// A simulated device whose contents are in memory ends with the command: says so.
pub(crate) fn note_of_memory(uri: &str) {
    if uri.starts_with("sim:") && !uri.contains("data=") {
        let note = "holds its contents in memory, so they end here: add ?data=FILE to keep them";
        notes(&[format!("{uri} {note}")]);
    }
}

/// Says notes on standard error.
pub(crate) fn notes(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}
