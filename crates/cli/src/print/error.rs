//! Prints errors: one line with the problem and its position, and the line of SQL with a caret if
//! the position is known.

use std::fmt;

/// An error in a piece of SQL, with the text it is about.
#[derive(Debug)]
pub struct Located {
    /// The name of the script, `-c` or a file; empty if there is only one place the SQL can come
    /// from.
    pub script: String,
    /// The text in which the error counts its lines.
    pub sql: String,
    /// Number of lines of the script before that text.
    pub lines_before: usize,
    /// The error.
    pub error: pushdowndb_contract::Error,
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.script.as_str() {
            "" => {}
            "-" => write!(f, "stdin:{}: ", self.line())?,
            script => write!(f, "{script}:{}: ", self.line())?,
        }
        let text = self.error.to_string();
        match place(&text) {
            // Converts the line number from that in the statement to that in the script.
            Some((line, _)) if self.lines_before > 0 => f.write_str(&text.replacen(
                &format!("Line: {line},"),
                &format!("Line: {},", line + self.lines_before),
                1,
            )),
            _ => f.write_str(&text),
        }
    }
}

impl std::error::Error for Located {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Located {
    /// The line of the script with the error, or the first line of its statement.
    fn line(&self) -> usize {
        self.lines_before + place(self.error.message()).map_or(1, |(line, _)| line)
    }

    /// The line of SQL with a caret below it, if the message contains a position.
    fn snippet(&self) -> Option<String> {
        let (line, column) = place(self.error.message())?;
        let number = line + self.lines_before;
        let text = self.sql.lines().nth(line.checked_sub(1)?)?;
        // Of a long line, only the part around the position is shown.
        let before: Vec<char> = text.chars().take(column.checked_sub(1)?).collect();
        let from = before.len().saturating_sub(70);
        let shown: String = text.chars().skip(from).take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let margin = format!("{number}");
        let caret = " ".repeat(before.len() - from);
        Some(format!("  {margin} | {shown}\n  {} | {caret}^", " ".repeat(margin.len())))
    }
}

/// Parses the position in messages of the SQL parser: `… at Line: 2, Column: 7`.
fn place(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((line.parse().ok()?, digits.parse().ok()?))
}

/// Prints an error to stderr.
pub fn error(error: &anyhow::Error) {
    eprintln!("error: {}", message(error));
    if let Some(snippet) = error.chain().find_map(|cause| cause.downcast_ref::<Located>()).and_then(Located::snippet) {
        eprintln!("{snippet}");
    }
}

/// Joins the messages of a chain of causes without repetitions: many libraries repeat their cause
/// in their own message.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut is_said = false;
    for cause in error.chain() {
        let next = cause.to_string();
        // Skips the cause of a [`Located`] error, whose message it repeats with the lines of the
        // script.
        if std::mem::replace(&mut is_said, cause.is::<Located>()) || text.contains(&next) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&next);
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn located(sql: &str, lines_before: usize, message: &str) -> Located {
        Located {
            script: String::new(),
            sql: sql.into(),
            lines_before,
            error: pushdowndb_contract::Error::invalid(message),
        }
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        let snippet = located("selec 2", 1, "Expected: a statement, found: selec at Line: 1, Column: 1").snippet();
        assert_eq!(snippet.as_deref(), Some("  2 | selec 2\n    | ^"));
        let snippet = located("select *\n  form t", 0, "unexpected form at Line: 2, Column: 3").snippet();
        assert_eq!(snippet.as_deref(), Some("  2 |   form t\n    |   ^"));
        assert_eq!(located("select 1", 0, "no place").snippet(), None);
        assert_eq!(located("select 1", 0, "at Line: 9, Column: 1").snippet(), None);
    }

    #[test]
    fn lines_are_those_of_the_script() {
        let of_a_file =
            |before, message| Located { script: "a.sql".into(), ..located("x", before, message) }.to_string();
        assert_eq!(of_a_file(6, "unexpected at Line: 2, Column: 3"), "a.sql:8: unexpected at Line: 8, Column: 3");
        assert_eq!(of_a_file(3, "no such table"), "a.sql:4: no such table");
    }

    #[test]
    fn each_cause_is_said_once() {
        let error = Err::<(), _>(pushdowndb_contract::Error::invalid("bad"))
            .context("reading: bad")
            .context("f.sql")
            .unwrap_err();
        assert_eq!(message(&error), "f.sql: reading: bad");
        let located = anyhow::Error::new(located("x", 3, "wrong at Line: 1, Column: 2"));
        assert_eq!(message(&located), "wrong at Line: 4, Column: 2");
    }
}
