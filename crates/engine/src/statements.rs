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
    let lines = LineStarts::new(sql);
    let mut statements = Vec::new();
    let mut first: Option<Location> = None;
    let mut end = 0;
    let mut close = |first: &mut Option<Location>, end: usize| {
        if let Some(start) = first.take() {
            let text = sql.get(lines.offset(sql, start)..end).unwrap_or_default().trim_end();
            statements.push(Statement { text: text.to_owned(), line: start.line as usize });
        }
    };
    for token in &tokens {
        match &token.token {
            Token::SemiColon => close(&mut first, end),
            Token::Whitespace(_) | Token::EOF => {}
            _ => {
                first.get_or_insert(token.span.start);
                end = lines.offset(sql, token.span.end);
            }
        }
    }
    close(&mut first, end);
    Ok(statements)
}

struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// The byte at a line and a column of characters, both from 1.
    fn offset(&self, text: &str, at: Location) -> usize {
        let line = usize::try_from(at.line).unwrap_or(1).max(1) - 1;
        let start = self.0.get(line).copied().unwrap_or(text.len());
        let column = usize::try_from(at.column).unwrap_or(1).max(1) - 1;
        let rest = text.get(start..).unwrap_or_default();
        start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
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
