//! Tables in Markdown, for issues and documents.

use std::io::Write;

use anyhow::Result;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::output::Output;
use super::writer::RowWriter;

/// Writes a table in GitHub's Markdown, without aligning its columns.
pub struct Markdown(Output);

impl Markdown {
    /// Writes the header for results with this `schema`.
    pub fn new(schema: &SchemaRef, mut output: Output) -> Result<Self> {
        let names: Vec<_> = schema.fields().iter().map(|field| cell(field.name())).collect();
        let rules = schema.fields().iter().map(|field| if field.data_type().is_numeric() { "---:" } else { "---" });
        writeln!(output, "| {} |", names.join(" | "))?;
        writeln!(output, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
        Ok(Self(output))
    }
}

impl RowWriter for Markdown {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::new().with_null("NULL");
        let formatters: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = formatters.iter().map(|f| f.value(row).try_to_string().map(|text| cell(&text)));
            writeln!(self.0, "| {} |", cells.collect::<Result<Vec<_>, _>>()?.join(" | "))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.0.flush()?)
    }
}

/// Escapes characters that would end a cell or begin HTML markup.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' => cell.push_str("\\|"),
            '\\' => cell.push_str("\\\\"),
            '<' => cell.push_str("&lt;"),
            '\n' => cell.push_str("<br>"),
            '\r' => {}
            c if c.is_control() => cell.extend(c.escape_default()),
            c => cell.push(c),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_cell_ends_it() {
        assert_eq!(cell("a|b\nc\\<d>\u{1b}"), "a\\|b<br>c\\\\&lt;d>\\u{1b}");
    }
}
