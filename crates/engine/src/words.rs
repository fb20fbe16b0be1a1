//! Reading the statements that DataFusion's planner does not know, before it sees them.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use pushdown::{Error, Result};

/// The tokens of a statement that are left.
pub(crate) struct Words {
    tokens: Vec<Token>,
    at: usize,
    /// What should have been written, for errors.
    usage: &'static str,
}

impl Words {
    /// Of a statement that holds this word in upper or lower case; `None` of others, and of what cannot be cut into tokens,
    /// which is for DataFusion to refuse.
    pub(crate) fn of(sql: &str, word: &str, usage: &'static str) -> Option<Self> {
        if !sql.as_bytes().windows(word.len()).any(|found| found.eq_ignore_ascii_case(word.as_bytes())) {
            return None;
        }
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().ok()?;
        let blank = |token: &Token| matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
        Some(Self { tokens: tokens.into_iter().filter(|token| !blank(token)).collect(), at: 0, usage })
    }

    /// Takes these words if they come next.
    pub(crate) fn takes(&mut self, words: &[&str]) -> bool {
        let is_word = |(word, token): (&&str, &Token)| matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
        let next = self.tokens.get(self.at..).unwrap_or_default();
        let found = next.len() >= words.len() && words.iter().zip(next).all(is_word);
        if found {
            self.at += words.len();
        }
        found
    }

    /// Takes a mark if it comes next.
    pub(crate) fn takes_mark(&mut self, mark: &Token) -> bool {
        let found = self.tokens.get(self.at) == Some(mark);
        self.at += usize::from(found);
        found
    }

    /// A name, in lower case unless it is quoted.
    pub(crate) fn name(&mut self, what: &str) -> Result<String> {
        let name = match self.tokens.get(self.at) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_lowercase(),
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::SingleQuotedString(text)) => text.clone(),
            _ => return Err(self.expected(what)),
        };
        self.at += 1;
        Ok(name)
    }

    /// A table's name or the address of objects.
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

    /// Text in single quotes.
    pub(crate) fn text(&mut self, what: &str) -> Result<String> {
        let Some(Token::SingleQuotedString(text)) = self.tokens.get(self.at).cloned() else {
            return Err(self.expected(what));
        };
        self.at += 1;
        Ok(text)
    }

    /// The error where something else comes next.
    pub(crate) fn expected(&self, what: &str) -> Error {
        let found = self.tokens.get(self.at).map_or("the end".to_owned(), |token| format!("'{token}'"));
        Error::invalid(format!("expected {what}, found {found}; write {}", self.usage))
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<()> {
        if self.at == self.tokens.len() { Ok(()) } else { Err(self.expected("the end")) }
    }
}
