//! SQL text cut into statements: the only place that tokenizes what a user wrote.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use pushdowndb_contract::{Error, Result};

/// One statement of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statement {
    /// The text, without the semicolon.
    pub text: String,
    /// The line of the script that the statement starts at, from 1.
    pub line: usize,
    /// The text's tokens, blanks and comments included; their positions count from the statement's
    /// start.
    pub(crate) tokens: Vec<TokenWithSpan>,
}

impl Statement {
    /// Parses `sql`, which must hold exactly one statement.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not SQL, or has no statement or several.
    pub(crate) fn parse(sql: &str) -> Result<Self> {
        let mut statements = parse(sql)?;
        match (statements.pop(), statements.len()) {
            (Some(statement), 0) => Ok(statement),
            (None, _) => Err(Error::invalid("there is no statement in this text")),
            (Some(_), others) => Err(Error::invalid(format!(
                "one statement runs at a time, and this text has {}; cut it by Engine::parse",
                others + 1
            ))),
        }
    }

    /// Returns the statement of `tokens`, which lie in the script after `cursor`; `None` if all of
    /// them are blank.
    fn of(tokens: &[TokenWithSpan], cursor: &mut Cursor<'_>) -> Option<Self> {
        let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let first = tokens.iter().position(|token| !is_blank(token))?;
        let last = tokens.iter().rposition(|token| !is_blank(token))?;
        let mut tokens = tokens.get(first..=last)?.to_vec();
        let (start, end) = (tokens.first()?.span.start, tokens.last()?.span.end);
        let (from, to) = (cursor.advance(start), cursor.advance(end));
        let text = cursor.text.get(from..to).unwrap_or_default().to_owned();
        for place in tokens.iter_mut().flat_map(|token| [&mut token.span.start, &mut token.span.end]) {
            if place.line == start.line {
                place.column -= start.column - 1;
            }
            place.line -= start.line - 1;
        }
        Some(Self { text, line: start.line as usize, tokens })
    }
}

/// Splits a script at its semicolons, except those in strings and comments. Statements of nothing
/// but blanks and comments are left out.
pub(crate) fn parse(sql: &str) -> Result<Vec<Statement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|e| Error::invalid(format!("this is not SQL: {e}")))?;
    let mut cursor = Cursor { rest: sql.char_indices(), text: sql, line: 1, column: 1 };
    let parts = tokens.split(|token| token.token == Token::SemiColon);
    Ok(parts.filter_map(|part| Statement::of(part, &mut cursor)).collect())
}

/// A position in the text that only moves forward, since a long script may be a single line.
struct Cursor<'a> {
    rest: std::str::CharIndices<'a>,
    text: &'a str,
    line: u64,
    column: u64,
}

impl Cursor<'_> {
    /// Moves to a line and a column, which count characters from 1, and returns the byte offset.
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
        let statements = parse(script).unwrap();
        let texts: Vec<_> = statements.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(texts, [(2, "select ';' as \"a;b\""), (4, "select 2"), (5, "select\n 'é' , 3")]);
    }

    #[test]
    fn a_statement_has_the_tokens_of_its_own_text() {
        for statement in parse("select 1;  select\n  'é' , 3; /* x */ select 2 -- end").unwrap() {
            let alone = parse(&statement.text).unwrap();
            assert_eq!(alone.first().map(|alone| &alone.tokens), Some(&statement.tokens), "{statement:?}");
        }
    }

    #[test]
    fn nothing_is_no_statement() {
        assert_eq!(parse(" ; -- x\n ;").unwrap(), []);
        assert!(Statement::parse(" ; ").unwrap_err().to_string().contains("no statement"));
        let error = Statement::parse("select 1; select 2;").unwrap_err().to_string();
        assert!(error.contains("this text has 2"), "{error}");
    }

    #[test]
    fn an_open_string_is_said_so() {
        let error = parse("select 'abc").unwrap_err().to_string();
        assert!(error.contains("Unterminated"), "{error}");
    }
}
