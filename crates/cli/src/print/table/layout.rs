//! The layout of a table: which columns are drawn, and how wide.
//!
//! If the screen is too narrow, texts are cut first, but not below [`MIN_CUT`] characters; numbers
//! and times are never cut. Then columns are hidden, from the middle. The remaining width goes to
//! the columns that were cut.

use std::io::Write;

use anyhow::Result;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::{Cell, Cells};
use crate::print::output::Output;

/// Texts and names are not cut below this many characters.
const MIN_CUT: usize = 12;
const ELLIPSIS: &str = "…";

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type; empty where types are not shown.
    pub kind: String,
    /// Whether the values are right-aligned.
    pub right: bool,
    /// Whether the values may be cut.
    pub is_cut: bool,
}

/// Which columns are drawn, and how wide.
pub struct Layout {
    /// The index and width of each column; the index is `None` for the mark of hidden columns.
    columns: Vec<(Option<usize>, usize)>,
    right: Vec<bool>,
    /// Whether cells are cut to the width of their column.
    cut: bool,
    colors: bool,
    /// The number of hidden columns, if there are any.
    pub hidden: Option<usize>,
}

impl Layout {
    /// Computes the layout of `columns` for the first `rows` of a result, at most `limit`
    /// characters wide.
    pub fn new<'a>(
        columns: &[Column],
        rows: impl Iterator<Item = &'a Cells>,
        limit: Option<usize>,
        colors: bool,
    ) -> Self {
        let mut cells: Vec<usize> = vec![0; columns.len()];
        for row in rows {
            for (width, cell) in cells.iter_mut().zip(row) {
                *width = cell.text.split('\n').fold(*width, |width, line| width.max(line.width()));
            }
        }
        let named = |column: &Column| column.name.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let heads: Vec<usize> = columns.iter().map(|column| named(column).max(column.kind.width())).collect();
        let wanted: Vec<usize> = heads.iter().zip(&cells).map(|(head, cells)| *head.max(cells)).collect();
        let least = |index: usize| {
            let head = heads[index].min(MIN_CUT);
            head.max(if columns[index].is_cut { cells[index].min(MIN_CUT) } else { cells[index] })
        };
        let mut drawn: Vec<(Option<usize>, usize)> =
            wanted.iter().enumerate().map(|(index, width)| (Some(index), *width)).collect();
        let mut hidden = None;
        if let Some(limit) = limit.filter(|limit| total(&drawn) > *limit) {
            for (index, width) in &mut drawn {
                *width = index.map_or(*width, least);
            }
            while total(&drawn) > limit && drawn.len() > 3 {
                // Hides the column next to the mark, which is in the middle.
                let middle = drawn.len() / 2;
                if hidden.is_none() {
                    drawn.insert(middle, (None, 1));
                }
                let mark = drawn.iter().position(|(index, _)| index.is_none()).unwrap_or(middle);
                let next = if drawn.len() - mark > mark { mark + 1 } else { mark - 1 };
                drawn.remove(next);
                hidden = Some(hidden.unwrap_or(0) + 1);
            }
            narrow(&mut drawn, limit);
            widen(&mut drawn, &wanted, limit);
        }
        let right = columns.iter().map(|column| column.right).collect();
        Self { columns: drawn, right, cut: limit.is_some(), colors, hidden }
    }

    /// Draws a horizontal line.
    pub fn rule(&self, out: &mut Output, [left, cross, right]: [&str; 3]) -> Result<()> {
        let lines: Vec<_> = self.columns.iter().map(|(_, width)| "─".repeat(width + 2)).collect();
        Ok(writeln!(out, "{left}{}{right}", lines.join(cross))?)
    }

    /// Draws a row, as high as its highest cell.
    pub fn row(&self, out: &mut Output, cells: &Cells) -> Result<()> {
        let height = cells.iter().map(|cell| cell.text.split('\n').count()).max().unwrap_or(1);
        let (mark, empty) = (Cell::dim(ELLIPSIS.to_owned()), Cell::of(String::new()));
        let mut text = String::new();
        for line in 0..height {
            text.push('│');
            for (index, width) in &self.columns {
                let cell = index.map_or(&mark, |index| cells.get(index).unwrap_or(&empty));
                let right = index.is_some_and(|index| self.right.get(index) == Some(&true));
                let part = cell.text.split('\n').nth(line).unwrap_or_default();
                let part = if index.is_none() && line > 0 { "" } else { part };
                self.cell(&mut text, cell, part, *width, right);
            }
            text.push('\n');
        }
        Ok(out.write_all(text.as_bytes())?)
    }

    fn cell(&self, text: &mut String, cell: &Cell, part: &str, width: usize, right: bool) {
        let cut;
        let part = if self.cut && part.width() > width {
            cut = cut_to(part, width);
            &cut
        } else {
            part
        };
        let space = " ".repeat(width.saturating_sub(part.width()));
        let (before, after) = if right { (space.as_str(), "") } else { ("", space.as_str()) };
        for part in [" ", before, &cell.styled(part, self.colors), after, " │"] {
            text.push_str(part);
        }
    }
}

fn total(columns: &[(Option<usize>, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + 3).sum::<usize>() + 1
}

/// Narrows the widest columns until the table fits, if hiding columns was not enough.
fn narrow(columns: &mut [(Option<usize>, usize)], limit: usize) {
    while total(columns) > limit {
        match columns.iter_mut().max_by_key(|(_, width)| *width) {
            Some((_, width)) if *width > 1 => *width -= 1,
            _ => return,
        }
    }
}

/// Widens the columns that are cut, the narrowest first, up to the width that they need.
fn widen(columns: &mut [(Option<usize>, usize)], wanted: &[usize], limit: usize) {
    let mut room = limit.saturating_sub(total(columns));
    while room > 0 {
        let is_cut = |(index, width): &(Option<usize>, usize)| index.is_some_and(|index| *width < wanted[index]);
        let Some((_, width)) = columns.iter_mut().filter(|column| is_cut(column)).min_by_key(|(_, width)| *width)
        else {
            return;
        };
        *width += 1;
        room -= 1;
    }
}

fn cut_to(text: &str, width: usize) -> String {
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        cut.push(c);
    }
    cut + ELLIPSIS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, right: bool, is_cut: bool) -> Column {
        Column { name: name.to_owned(), kind: String::new(), right, is_cut }
    }

    fn cells(texts: &[&str]) -> Cells {
        texts.iter().map(|text| Cell::value(text, true)).collect()
    }

    #[test]
    fn line_ends_make_taller_rows() {
        let columns = [column("a", false, true), column("b", true, false)];
        let cells = cells(&["x\nyy", "1"]);
        let layout = Layout::new(&columns, std::iter::once(&cells), None, false);
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::file(&dir.path().join("t")).unwrap();
        layout.row(&mut output, &cells).unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("t")).unwrap(), "│ x  │ 1 │\n│ yy │   │\n");
    }

    #[test]
    fn wide_tables_fit_the_screen() {
        let columns: Vec<_> = (0..10).map(|n| column(&format!("a_rather_long_name_{n}"), false, true)).collect();
        let layout = Layout::new(&columns, std::iter::empty(), Some(80), false);
        assert!(total(&layout.columns) > 76 && total(&layout.columns) <= 80, "{:?}", layout.columns);
        assert_eq!(layout.columns.iter().filter(|(index, _)| index.is_some()).count() + layout.hidden.unwrap(), 10);
        assert_eq!((layout.columns[0].0, layout.columns.last().unwrap().0), (Some(0), Some(9)));
        assert_eq!(cut_to("abcdef", 4), "abc…");
    }

    #[test]
    fn times_and_numbers_are_whole_and_texts_take_the_room() {
        let columns = [column("when", false, false), column("n", true, false), column("text", false, true)];
        let long = "x".repeat(100);
        let row = cells(&["2026-01-01T00:00:00", "1234567890123", &long]);
        let layout = Layout::new(&columns, std::iter::once(&row), Some(60), false);
        assert_eq!(layout.columns, [(Some(0), 19), (Some(1), 13), (Some(2), 18)]);
        assert_eq!((total(&layout.columns), layout.hidden), (60, None));
    }
}
