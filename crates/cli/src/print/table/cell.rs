//! The cells of a table.

/// A cell: its text, and whether the text is a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cell {
    /// The text, without control characters other than line ends.
    pub text: String,
    /// Whether the text is not a value but NULL, a type or a mark.
    is_dim: bool,
}

/// A row.
pub type Cells = Vec<Cell>;

impl Cell {
    /// A cell with this text.
    pub fn of(text: String) -> Self {
        Self { text, is_dim: false }
    }

    /// A cell whose text is not a value.
    pub fn dim(text: String) -> Self {
        Self { text, is_dim: true }
    }

    /// The cell for a value that is written as `text`. If the value is the string `NULL`, the text
    /// is quoted.
    pub fn value(text: &str, is_text: bool) -> Self {
        match text {
            "NULL" if is_text => Self::of("'NULL'".to_owned()),
            text => Self::of(printable(text)),
        }
    }

    /// Formats `part` of the cell for a terminal, with or without `colors`.
    pub fn styled(&self, part: &str, colors: bool) -> String {
        match self.is_dim && colors && !part.is_empty() {
            true => format!("\x1b[2m{part}\x1b[0m"),
            false => part.to_owned(),
        }
    }
}

/// Escapes control characters, which would affect the terminal. Line ends are kept and make the row
/// higher.
pub fn printable(text: &str) -> String {
    let safe = |c: char| c == '\n' || !c.is_control();
    if text.chars().all(safe) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if safe(c) { vec![c] } else { c.escape_default().collect() }).collect()
}
