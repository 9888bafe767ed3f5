//! Tables with lines, whose columns are as wide as the first rows need.

use std::io::Write;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use unicode_width::UnicodeWidthStr;

use super::{formatters, pad};
use crate::Result;

/// A column is at most so wide; wider values make their own line longer.
const WIDTH_MAX: usize = 1000;

/// Writes rows as they come. Values wider than those of the first rows make their own line longer.
#[derive(Debug, Default)]
pub(super) struct TableWriter {
    /// Columns of the terminal for each column of the answer, once the names are written.
    widths: Option<Vec<usize>>,
}

impl TableWriter {
    /// Writes rows, under the names of the columns where they are the first.
    pub(super) fn rows(
        &mut self,
        target: &mut dyn Write,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<()> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for batch in batches {
            let columns = formatters(batch)?;
            for row in 0..batch.num_rows() {
                rows.push(columns.iter().map(|column| column.value(row).to_string()).collect());
            }
        }
        if self.widths.is_none() {
            let names: Vec<String> =
                schema.fields().iter().map(|field| field.name().clone()).collect();
            let mut widths = vec![0; names.len()];
            for row in rows.iter().chain([&names]) {
                for (width, value) in widths.iter_mut().zip(row) {
                    let widest = value.lines().map(UnicodeWidthStr::width).max();
                    *width = (*width).max(widest.unwrap_or(0)).min(WIDTH_MAX);
                }
            }
            self.widths = Some(widths);
            self.border(target)?;
            self.row(target, &names)?;
            self.border(target)?;
        }
        for row in &rows {
            self.row(target, row)?;
        }
        Ok(())
    }

    /// Writes the line under the last row.
    pub(super) fn border(&self, target: &mut dyn Write) -> Result<()> {
        for width in self.widths.iter().flatten() {
            target.write_all(b"+")?;
            pad(target, b"-", width + 2)?;
        }
        Ok(writeln!(target, "+")?)
    }

    /// Writes a row, in as many lines as its longest value has.
    fn row(&self, target: &mut dyn Write, values: &[String]) -> Result<()> {
        let height = values.iter().map(|value| value.lines().count()).max().unwrap_or(0).max(1);
        let mut values: Vec<_> = values.iter().map(|value| value.lines()).collect();
        for _ in 0..height {
            for (lines, width) in values.iter_mut().zip(self.widths.iter().flatten()) {
                let line = lines.next().unwrap_or("");
                write!(target, "| {line}")?;
                pad(target, b" ", width.saturating_sub(line.width()) + 1)?;
            }
            writeln!(target, "|")?;
        }
        Ok(())
    }
}
