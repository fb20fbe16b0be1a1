//! SQL text cut into statements, each with the line it starts at.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use pushdown::{Error, Result};

/// One statement of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statement {
    /// Its text, without the semicolon.
    pub text: String,
    /// The line of the script it starts at, from 1.
    pub line: usize,
}

/// Cuts a script at its semicolons, except those in strings and comments. Statements of nothing but blanks
/// and comments are left out.
pub(crate) fn split(sql: &str) -> Result<Vec<Statement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|e| Error::invalid(format!("this is not SQL: {e}")))?;
    let mut cursor = Cursor::new(sql);
    let mut statements = Vec::new();
    let mut first: Option<(usize, u64)> = None;
    let mut end = 0;
    let mut close = |first: &mut Option<(usize, u64)>, end: usize| {
        if let Some((start, line)) = first.take() {
            let text = sql.get(start..end).unwrap_or_default().trim_end();
            statements.push(Statement { text: text.to_owned(), line: line as usize });
        }
    };
    for token in &tokens {
        match &token.token {
            Token::SemiColon => close(&mut first, end),
            Token::Whitespace(_) | Token::EOF => {}
            _ => {
                let start = cursor.advance(token.span.start);
                first.get_or_insert((start, token.span.start.line));
                end = cursor.advance(token.span.end);
            }
        }
    }
    close(&mut first, end);
    Ok(statements)
}

/// A place in the text that only moves forward: tokens come in order, and long scripts may be one line.
struct Cursor<'a> {
    rest: std::str::CharIndices<'a>,
    text: &'a str,
    line: u64,
    column: u64,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.char_indices(), text, line: 1, column: 1 }
    }

    /// The byte at a line and a column of characters, both from 1.
    fn advance(&mut self, to: Location) -> usize {
        while (self.line, self.column) < (to.line, to.column) {
            match self.rest.next() {
                Some((_, '\n')) => {
                    self.line += 1;
                    self.column = 1;
                }
                Some(_) => self.column += 1,
                None => return self.text.len(),
            }
        }
        self.rest.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_cut_at_semicolons_only() {
        let script = "-- first; not here\nselect ';' as \"a;b\";\n\n  select 2 -- tail;\n;;select\n 'é' , 3";
        let statements = split(script).unwrap();
        let texts: Vec<_> = statements.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(texts, [(2, "select ';' as \"a;b\""), (4, "select 2"), (5, "select\n 'é' , 3")]);
    }

    #[test]
    fn nothing_is_no_statement() {
        assert_eq!(split(" ; -- x\n ;").unwrap(), []);
    }

    #[test]
    fn an_open_string_is_said_so() {
        let error = split("select 'abc").unwrap_err().to_string();
        assert!(error.contains("Unterminated"), "{error}");
    }
}
