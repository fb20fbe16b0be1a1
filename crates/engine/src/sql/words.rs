//! A reader of tokens, for the statements that DataFusion's parser does not know.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

/// A position in the tokens of a statement, which leaves out blanks.
#[derive(Clone)]
pub(crate) struct Words<'a> {
    tokens: Vec<&'a Token>,
    next: usize,
    /// How the statement is written, for errors.
    usage: &'static str,
}

impl<'a> Words<'a> {
    /// Starts at the first of `tokens`; `usage` says how the statement is written.
    pub(crate) fn new(tokens: &'a [TokenWithSpan], usage: &'static str) -> Self {
        let tokens = tokens.iter().map(|token| &token.token);
        Self { tokens: tokens.filter(|token| !matches!(token, Token::Whitespace(_))).collect(), next: 0, usage }
    }

    /// Consumes these words if they come next, in upper or lower case. Returns whether they did.
    pub(crate) fn takes(&mut self, words: &[&str]) -> bool {
        let is_word = |(word, token): (&&str, &&Token)| match token {
            Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        };
        let next = self.tokens.get(self.next..).unwrap_or_default();
        let found = next.len() >= words.len() && words.iter().zip(next).all(is_word);
        if found {
            self.next += words.len();
        }
        found
    }

    /// Consumes a mark if it comes next. Returns whether it did.
    pub(crate) fn takes_mark(&mut self, mark: &Token) -> bool {
        let found = self.tokens.get(self.next) == Some(&mark);
        self.next += usize::from(found);
        found
    }

    /// Consumes a name, in lower case unless it is quoted; `what` describes it in errors.
    pub(crate) fn name(&mut self, what: &str) -> Result<String> {
        let name = match self.tokens.get(self.next) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_lowercase(),
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::SingleQuotedString(text)) => text.clone(),
            _ => return Err(self.expected(what)),
        };
        self.next += 1;
        Ok(name)
    }

    /// Consumes a table's name or the address of objects.
    pub(crate) fn table(&mut self) -> Result<TableReference> {
        let mut parts = vec![self.name("a table")?];
        while parts.len() < 3 && self.takes_mark(&Token::Period) {
            parts.push(self.name("a table")?);
        }
        let mut parts = parts.into_iter();
        Ok(match (parts.next(), parts.next(), parts.next()) {
            (Some(catalog), Some(schema), Some(table)) => TableReference::full(catalog, schema, table),
            (Some(schema), Some(table), None) => TableReference::partial(schema, table),
            (first, ..) => TableReference::bare(first.unwrap_or_default()),
        })
    }

    /// Consumes text in single quotes; `what` describes it in errors.
    pub(crate) fn text(&mut self, what: &str) -> Result<String> {
        let Some(Token::SingleQuotedString(text)) = self.tokens.get(self.next) else {
            return Err(self.expected(what));
        };
        self.next += 1;
        Ok(text.clone())
    }

    /// Returns the error that something other than `what` comes next.
    pub(crate) fn expected(&self, what: &str) -> Error {
        let found = self.tokens.get(self.next).map_or("the end".to_owned(), |token| format!("'{token}'"));
        Error::invalid(format!("expected {what}, found {found}; write {}", self.usage))
    }

    /// Checks that every token was consumed.
    pub(crate) fn end(&self) -> Result<()> {
        if self.next == self.tokens.len() { Ok(()) } else { Err(self.expected("the end")) }
    }
}
