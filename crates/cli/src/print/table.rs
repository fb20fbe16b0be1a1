//! Results as tables.
//!
//! The width of columns must be known before the first row is drawn. In scripts it is that of the
//! first rows; longer cells of later rows shift their line rather than being cut. On a terminal
//! long results show their first and last rows, and wide ones shrink to the screen; a note says
//! what is hidden.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::Result;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use unicode_width::UnicodeWidthStr;

use super::output::Output;
use super::writer::RowWriter;
use crate::print::units;

/// Rows whose widths decide the columns' when everything is printed.
const SAMPLE_ROWS: usize = 1000;
/// Columns are not shrunk below this many characters.
const MIN_SHRUNK: usize = 10;
const ELLIPSIS: &str = "…";

/// The style of a table.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TableStyle {
    /// Show at most this many rows, from both ends.
    pub max_rows: Option<usize>,
    /// Fit into this many characters.
    pub width: Option<usize>,
    /// True for one line per value instead of one per row.
    pub expanded: bool,
    /// Say how many rows there were.
    pub footer: bool,
}

type Cells = Vec<String>;

/// Draws one result.
pub struct Table {
    output: Output,
    style: TableStyle,
    names: Cells,
    right: Vec<bool>,
    head: Vec<Cells>,
    tail: VecDeque<Cells>,
    rows: u64,
    /// The columns' widths, once rows stream.
    layout: Option<Layout>,
}

impl Table {
    pub fn new(schema: &SchemaRef, output: Output, style: TableStyle) -> Result<Self> {
        let fields = schema.fields();
        Ok(Self {
            output,
            style,
            names: fields.iter().map(|field| printable(field.name())).collect(),
            right: fields.iter().map(|field| is_number(field.data_type())).collect(),
            head: Vec::new(),
            tail: VecDeque::new(),
            rows: 0,
            layout: None,
        })
    }

    /// The most rows buffered before the first is drawn.
    fn head_rows(&self) -> usize {
        self.style.max_rows.unwrap_or(SAMPLE_ROWS)
    }

    fn add(&mut self, cells: Cells) -> Result<()> {
        if self.style.expanded {
            self.write_expanded(&cells)?;
        } else if let Some(layout) = &self.layout {
            layout.row(&mut self.output, &cells)?;
        } else if self.head.len() < self.head_rows() {
            self.head.push(cells);
        } else if let Some(max_rows) = self.style.max_rows {
            self.tail.push_back(cells);
            if self.tail.len() > max_rows / 2 {
                self.tail.pop_front();
            }
        } else {
            let layout = self.start()?;
            layout.row(&mut self.output, &cells)?;
            self.layout = Some(layout);
        }
        Ok(())
    }

    /// Draws the head: the names and the buffered rows.
    fn start(&mut self) -> Result<Layout> {
        let layout = Layout::new(&self.names, &self.right, self.head.iter(), self.style.width);
        layout.rule(&mut self.output, ["┌", "┬", "┐"])?;
        layout.row(&mut self.output, &self.names)?;
        layout.rule(&mut self.output, ["├", "┼", "┤"])?;
        for cells in std::mem::take(&mut self.head) {
            layout.row(&mut self.output, &cells)?;
        }
        Ok(layout)
    }

    fn write_expanded(&mut self, cells: &Cells) -> Result<()> {
        let width = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        writeln!(self.output, "─[ row {} ]─", units::count(self.rows))?;
        for (name, cell) in self.names.iter().zip(cells) {
            writeln!(self.output, "{name}{} │ {cell}", " ".repeat(width - name.width()))?;
        }
        Ok(())
    }
}

impl RowWriter for Table {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::new().with_null("NULL");
        let formatters: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            self.rows += 1;
            // Rows that will be cut out of the middle need not be formatted, only counted.
            let left = batch.num_rows() - row;
            let is_cut = self.style.max_rows.is_some_and(|max| self.head.len() >= max && left > max.div_ceil(2));
            if is_cut && !self.style.expanded {
                continue;
            }
            let cells = formatters.iter().map(|f| f.value(row).try_to_string().map(|text| printable(&text)));
            self.add(cells.collect::<Result<_, _>>()?)?;
        }
        if self.layout.is_some() && self.output.is_terminal() {
            self.output.flush()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        let mut hidden_columns = None;
        if !self.style.expanded {
            if let Some(max_rows) = self.style.max_rows {
                self.head.extend(std::mem::take(&mut self.tail));
                if self.rows > max_rows as u64 {
                    let last = self.head.split_off(self.head.len().saturating_sub(max_rows / 2));
                    self.head.truncate(max_rows.div_ceil(2));
                    self.head.push(vec!["·".to_owned(); self.names.len()]);
                    self.head.extend(last);
                }
            }
            let layout = match self.layout.take() {
                Some(layout) => layout,
                None => self.start()?,
            };
            layout.rule(&mut self.output, ["└", "┴", "┘"])?;
            hidden_columns = layout.hidden;
        }
        if self.style.footer {
            let plural = if self.rows == 1 { "" } else { "s" };
            write!(self.output, "({} row{plural}", units::count(self.rows))?;
            if self.style.max_rows.is_some_and(|max| self.rows > max as u64) && !self.style.expanded {
                write!(self.output, ", first and last shown: \\rows all prints every row")?;
            }
            if let Some(hidden) = hidden_columns {
                write!(self.output, ", {hidden} columns hidden: \\x shows them")?;
            }
            writeln!(self.output, ")")?;
        }
        Ok(self.output.flush()?)
    }
}

/// Which columns are drawn, and how wide.
struct Layout {
    /// Column index, or `None` for the mark of hidden columns; and width.
    columns: Vec<(Option<usize>, usize)>,
    right: Vec<bool>,
    /// True if cells are cut to their column's width.
    cut: bool,
    hidden: Option<usize>,
}

impl Layout {
    fn new<'a>(names: &Cells, right: &[bool], rows: impl Iterator<Item = &'a Cells>, limit: Option<usize>) -> Self {
        let mut widths: Vec<usize> = names.iter().map(|name| name.width()).collect();
        for cells in rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.split('\n').fold(*width, |width, line| width.max(line.width()));
            }
        }
        let mut columns: Vec<_> = widths.into_iter().enumerate().map(|(index, width)| (Some(index), width)).collect();
        let mut hidden = None;
        if let Some(limit) = limit {
            shrink(&mut columns, limit);
            while total(&columns) > limit && columns.len() > 3 {
                // Columns are hidden from the middle, where the mark stands.
                let middle = columns.len() / 2;
                if hidden.is_none() {
                    columns.insert(middle, (None, 1));
                }
                let mark = columns.iter().position(|(index, _)| index.is_none()).unwrap_or(middle);
                let next = if columns.len() - mark > mark { mark + 1 } else { mark - 1 };
                columns.remove(next);
                hidden = Some(hidden.unwrap_or(0) + 1);
            }
        }
        Self { columns, right: right.to_vec(), cut: limit.is_some(), hidden }
    }

    fn rule(&self, out: &mut Output, [left, cross, right]: [&str; 3]) -> Result<()> {
        let lines: Vec<_> = self.columns.iter().map(|(_, width)| "─".repeat(width + 2)).collect();
        Ok(writeln!(out, "{left}{}{right}", lines.join(cross))?)
    }

    fn row(&self, out: &mut Output, cells: &Cells) -> Result<()> {
        let height = cells.iter().map(|cell| cell.split('\n').count()).max().unwrap_or(1);
        let mut text = String::new();
        for line in 0..height {
            text.push('│');
            for (index, width) in &self.columns {
                let cell = index.map_or(ELLIPSIS, |index| cells.get(index).map_or("", String::as_str));
                let right = index.is_some_and(|index| self.right.get(index) == Some(&true));
                self.cell(&mut text, cell.split('\n').nth(line).unwrap_or_default(), *width, right);
            }
            text.push('\n');
        }
        Ok(out.write_all(text.as_bytes())?)
    }

    fn cell(&self, text: &mut String, cell: &str, width: usize, right: bool) {
        let cut;
        let cell = if self.cut && cell.width() > width {
            cut = cut_to(cell, width);
            &cut
        } else {
            cell
        };
        let space = " ".repeat(width.saturating_sub(cell.width()));
        let (before, after) = if right { (space.as_str(), "") } else { ("", space.as_str()) };
        for part in [" ", before, cell, after, " │"] {
            text.push_str(part);
        }
    }
}

fn total(columns: &[(Option<usize>, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + 3).sum::<usize>() + 1
}

/// Shrinks the widest columns until the table fits or all are at their minimum.
fn shrink(columns: &mut [(Option<usize>, usize)], limit: usize) {
    while total(columns) > limit {
        match columns.iter_mut().max_by_key(|(_, width)| *width) {
            Some((_, width)) if *width > MIN_SHRUNK => *width -= 1,
            _ => return,
        }
    }
}

fn cut_to(text: &str, width: usize) -> String {
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) + 1 > width {
            break;
        }
        cut.push(c);
    }
    cut + ELLIPSIS
}

/// Escapes control characters, which would affect the terminal. Line ends make a taller row.
fn printable(text: &str) -> String {
    let safe = |c: char| c == '\n' || !c.is_control();
    if text.chars().all(safe) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if safe(c) { vec![c] } else { c.escape_default().collect() }).collect()
}

fn is_number(kind: &DataType) -> bool {
    kind.is_numeric()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn draw(rows: i64, batch_rows: usize, style: TableStyle) -> String {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("text", DataType::Utf8, true),
        ]));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let output = Output::file(&path).unwrap();
        let mut table = Box::new(Table::new(&schema, output.clone(), style).unwrap());
        let all: Vec<i64> = (0..rows).collect();
        for part in all.chunks(batch_rows) {
            let text = part.iter().map(|n| (n % 3 != 1).then(|| format!("row\t{n}")));
            let columns: Vec<arrow::array::ArrayRef> =
                vec![Arc::new(Int64Array::from(part.to_vec())), Arc::new(text.collect::<StringArray>())];
            table.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        }
        table.finish().unwrap();
        output.finish().unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    const HEAD: &str = "┌───┬────────┐\n│ n │ text   │\n├───┼────────┤\n";

    #[test]
    fn a_small_table() {
        let expected = format!("{HEAD}│ 0 │ row\\t0 │\n│ 1 │ NULL   │\n│ 2 │ row\\t2 │\n└───┴────────┘\n");
        assert_eq!(draw(3, 2, TableStyle::default()), expected);
    }

    #[test]
    fn a_long_table_streams_or_is_cut() {
        assert_eq!(draw(5000, 100, TableStyle::default()).lines().count(), 5004);
        let style = TableStyle { max_rows: Some(4), footer: true, ..TableStyle::default() };
        for batch_rows in [1, 2, 3, 10] {
            let cut = draw(10, batch_rows, style);
            let expected = format!(
                "{HEAD}│ 0 │ row\\t0 │\n│ 1 │ NULL   │\n│ · │ ·      │\n│ 8 │ row\\t8 │\n│ 9 │ row\\t9 │\n└───┴────────┘\n\
                 (10 rows, first and last shown: \\rows all prints every row)\n"
            );
            assert_eq!(cut, expected, "batches of {batch_rows}");
            assert!(draw(4, batch_rows, style).ends_with("│ 3 │ row\\t3 │\n└───┴────────┘\n(4 rows)\n"));
        }
    }

    #[test]
    fn line_ends_make_taller_rows() {
        let names: Cells = vec!["a".into(), "b".into()];
        let cells: Cells = vec!["x\nyy".into(), "1".into()];
        let layout = Layout::new(&names, &[false, true], std::iter::once(&cells), None);
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::file(&dir.path().join("t")).unwrap();
        layout.row(&mut output, &cells).unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("t")).unwrap(), "│ x  │ 1 │\n│ yy │   │\n");
    }

    #[test]
    fn expanded_rows() {
        let style = TableStyle { expanded: true, footer: true, ..TableStyle::default() };
        assert_eq!(draw(1, 1, style), "─[ row 1 ]─\nn    │ 0\ntext │ row\\t0\n(1 row)\n");
    }

    #[test]
    fn wide_tables_fit_the_screen() {
        let names: Cells = (0..10).map(|n| format!("a_rather_long_name_{n}")).collect();
        let layout = Layout::new(&names, &[false; 10], std::iter::empty(), Some(80));
        assert!(total(&layout.columns) <= 80);
        assert_eq!(layout.columns.iter().filter(|(index, _)| index.is_some()).count() + layout.hidden.unwrap(), 10);
        assert_eq!((layout.columns[0].0, layout.columns.last().unwrap().0), (Some(0), Some(9)));
        assert_eq!(cut_to("abcdef", 4), "abc…");
    }
}
