//! Results as tables.
//!
//! The width of columns must be known before the first row is drawn. In scripts it is derived from
//! the first rows; longer cells of later rows shift their line instead of being cut. On a terminal
//! long results show their first and last rows, and wide ones shrink to the screen; a note says
//! what is hidden.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::Result;
use arrow::array::Array;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pushdowndb_engine::sql_type;
use unicode_width::UnicodeWidthStr;

use super::output::Output;
use super::writer::RowWriter;
use crate::print::units;
use cell::{Cell, Cells, printable};
use layout::{Column, Layout};

mod cell;
mod layout;

/// Number of rows that determine the widths of columns when everything is printed.
const SAMPLE_ROWS: usize = 1000;
/// Types are cut to this many characters.
const MAX_TYPE: usize = 24;

/// The style of a table.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TableStyle {
    /// Maximum rows to show, half from each end; `None` shows all.
    pub max_rows: Option<usize>,
    /// Maximum width in characters; `None` is unlimited.
    pub width: Option<usize>,
    /// Whether to draw one line per value instead of one per row.
    pub expanded: bool,
    /// Whether to print the number of rows.
    pub footer: bool,
    /// Whether to show the types below the names.
    pub types: bool,
    /// Whether to dim text that is not a value: NULL and types.
    pub colors: bool,
}

/// Draws one result.
pub struct Table {
    output: Output,
    style: TableStyle,
    columns: Vec<Column>,
    head: Vec<Cells>,
    tail: VecDeque<Cells>,
    rows: u64,
    /// The layout, once rows are drawn as they arrive.
    layout: Option<Layout>,
}

impl Table {
    pub fn new(schema: &SchemaRef, output: Output, style: TableStyle) -> Result<Self> {
        let fields = schema.fields();
        Ok(Self {
            output,
            style,
            columns: fields.iter().map(|field| column(field, style.types)).collect(),
            head: Vec::new(),
            tail: VecDeque::new(),
            rows: 0,
            layout: None,
        })
    }

    /// Maximum rows that are buffered before the first is drawn.
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
        let layout = Layout::new(&self.columns, self.head.iter(), self.style.width, self.style.colors);
        layout.rule(&mut self.output, ["┌", "┬", "┐"])?;
        let row = |cell: fn(&Column) -> Cell| self.columns.iter().map(cell).collect::<Cells>();
        layout.row(&mut self.output, &row(|column| Cell::of(column.name.clone())))?;
        if self.style.types {
            layout.row(&mut self.output, &row(|column| Cell::dim(column.kind.clone())))?;
        }
        layout.rule(&mut self.output, ["├", "┼", "┤"])?;
        for cells in std::mem::take(&mut self.head) {
            layout.row(&mut self.output, &cells)?;
        }
        Ok(layout)
    }

    fn write_expanded(&mut self, cells: &Cells) -> Result<()> {
        let width = self.columns.iter().map(|column| column.name.width()).max().unwrap_or(0);
        writeln!(self.output, "─[ row {} ]─", units::count(self.rows))?;
        for (Column { name, .. }, cell) in self.columns.iter().zip(cells) {
            let space = " ".repeat(width.saturating_sub(name.width()));
            writeln!(self.output, "{name}{space} │ {}", cell.styled(&cell.text, self.style.colors))?;
        }
        Ok(())
    }
}

impl RowWriter for Table {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::new().with_null("NULL");
        let formatters: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        for row in 0..batch.num_rows() {
            self.rows += 1;
            // Rows that will be cut out of the middle are only counted, not formatted.
            let left = batch.num_rows() - row;
            let is_cut = self.style.max_rows.is_some_and(|max| self.head.len() >= max && left > max.div_ceil(2));
            if is_cut && !self.style.expanded {
                continue;
            }
            let cells = formatters.iter().zip(&nulls).zip(batch.columns()).map(|((formatter, nulls), column)| {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return Ok(Cell::dim("NULL".to_owned()));
                }
                let text = formatter.value(row).try_to_string()?;
                Ok::<_, ArrowError>(Cell::value(&text, column.data_type().is_string()))
            });
            self.add(cells.collect::<Result<_, _>>()?)?;
        }
        if self.layout.is_some() && self.output.is_terminal() {
            self.output.flush()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut hidden_columns = None;
        if !self.style.expanded {
            if let Some(max_rows) = self.style.max_rows {
                self.head.extend(std::mem::take(&mut self.tail));
                if self.rows > max_rows as u64 {
                    let last = self.head.split_off(self.head.len().saturating_sub(max_rows / 2));
                    self.head.truncate(max_rows.div_ceil(2));
                    self.head.push(vec![Cell::dim("·".to_owned()); self.columns.len()]);
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

/// The column for a `field`. Its type is included if `types`.
fn column(field: &Field, types: bool) -> Column {
    let kind = if types { short_type(field.data_type()) } else { String::new() };
    Column {
        name: printable(field.name()),
        kind,
        right: is_number(field.data_type()),
        is_cut: is_text(field.data_type()),
    }
}

/// The name of a type in lower case, shortened if it is long.
fn short_type(kind: &DataType) -> String {
    let name = sql_type(kind).to_lowercase();
    match name.char_indices().nth(MAX_TYPE) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name,
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_numeric()
}

/// Whether values of this type can be of any length, so that they may be cut.
fn is_text(kind: &DataType) -> bool {
    kind.is_nested() || kind.is_string() || kind.is_binary() || matches!(kind, DataType::Dictionary(..))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::Schema;

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
    fn expanded_rows() {
        let style = TableStyle { expanded: true, footer: true, ..TableStyle::default() };
        assert_eq!(draw(1, 1, style), "─[ row 1 ]─\nn    │ 0\ntext │ row\\t0\n(1 row)\n");
    }

    #[test]
    fn types_stand_below_names_and_null_is_not_a_text() {
        let style = TableStyle { types: true, colors: true, ..TableStyle::default() };
        let expected = "┌────────┬─────────┐\n│      n │ text    │\n│ \x1b[2mbigint\x1b[0m │ \x1b[2mvarchar\x1b[0m │\n\
                        ├────────┼─────────┤\n│      0 │ row\\t0  │\n│      1 │ \x1b[2mNULL\x1b[0m    │\n└────────┴─────────┘\n";
        assert_eq!(draw(2, 2, style), expected);
    }
}
