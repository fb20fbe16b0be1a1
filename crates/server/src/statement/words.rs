//! A reader of a statement's tokens.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A statement as a list of tokens, with the position of the reader.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// The tokens, including whitespace. Strings are as written.
    tokens: Vec<Token>,
    at: usize,
}

impl Words {
    /// Tokenizes `sql` in the engine's dialect. Text that is not SQL has no tokens.
    pub fn new(sql: &str) -> Self {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).with_unescape(false).tokenize();
        Self { tokens: tokens.unwrap_or_default(), at: 0 }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.tokens.get(self.at), Some(Token::Whitespace(_))) {
            self.at += 1;
        }
    }

    /// Returns the next token without consuming it.
    pub fn peek(&mut self) -> Option<&Token> {
        self.skip_blanks();
        self.tokens.get(self.at)
    }

    /// Consumes and returns the next token.
    pub fn next(&mut self) -> Option<Token> {
        let next = self.peek().cloned();
        self.at += 1;
        next
    }

    /// Whether only a semicolon is left, or nothing.
    pub fn is_end(&mut self) -> bool {
        matches!(self.peek(), None | Some(Token::EOF | Token::SemiColon))
    }

    /// Consumes the next token if it is the unquoted word `word`, in any case. Returns whether it
    /// was.
    pub fn takes(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(next))
            if next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    /// Consumes all of these words in a row, or nothing. Returns whether they were there.
    pub fn takes_all(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        let all = words.iter().all(|word| self.takes(word));
        if !all {
            self.at = start;
        }
        all
    }

    /// Consumes the next token if it is `mark`. Returns whether it was.
    pub fn takes_mark(&mut self, mark: &Token) -> bool {
        let is_it = self.peek() == Some(mark);
        self.at += usize::from(is_it);
        is_it
    }

    /// Consumes an unquoted word and returns it in upper case.
    pub fn keyword(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                let word = word.value.to_ascii_uppercase();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    /// Consumes an identifier: unquoted ones are returned in lower case, quoted ones unchanged.
    pub fn name(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let name = match word.quote_style {
                    Some(_) => word.value.replace("\"\"", "\""),
                    None => word.value.to_lowercase(),
                };
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Consumes an identifier of several parts, separated by periods.
    pub fn dotted_name(&mut self) -> Option<String> {
        let mut name = self.name()?;
        while self.takes_mark(&Token::Period) {
            name = format!("{name}.{}", self.name()?);
        }
        Some(name)
    }

    /// Consumes a value and returns it as text: a string, a number with its sign, or a word.
    pub fn value(&mut self) -> Option<String> {
        let sign = if self.takes_mark(&Token::Minus) { "-" } else { "" };
        let value = match self.next()? {
            Token::Number(number, _) => number,
            Token::SingleQuotedString(text) => text.replace("''", "'"),
            Token::EscapedStringLiteral(text) => text,
            Token::Word(word) => word.value,
            _ => return None,
        };
        Some(format!("{sign}{value}"))
    }

    /// Consumes an integer.
    pub fn integer(&mut self) -> Option<i64> {
        self.value()?.parse().ok()
    }

    /// Consumes a part in parentheses and returns its contents as written.
    pub fn parenthesized(&mut self) -> Option<String> {
        if !self.takes_mark(&Token::LParen) {
            return None;
        }
        let (start, mut depth) = (self.at, 1_usize);
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(self.written(start, self.at - 1));
            }
        }
        None
    }

    /// Consumes the rest and returns it as written.
    pub fn rest(&mut self) -> String {
        self.skip_blanks();
        let start = std::mem::replace(&mut self.at, self.tokens.len());
        self.written(start, self.tokens.len())
    }

    fn written(&self, start: usize, end: usize) -> String {
        let written = |token: &Token| match token {
            // The backslashes of such a literal are resolved already.
            Token::EscapedStringLiteral(text) => format!("'{}'", text.replace('\'', "''")),
            other => other.to_string(),
        };
        self.tokens.get(start..end).unwrap_or_default().iter().map(written).collect()
    }

    /// All tokens except whitespace.
    pub fn marks(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_parentheses_is_kept_as_written() {
        let mut words = Words::new("COPY (SELECT 'it''s', \"a\"\"b\", (1), E'\\n', $1 -- x\n) TO STDOUT");
        assert!(words.takes("copy"));
        assert_eq!(words.parenthesized().unwrap(), "SELECT 'it''s', \"a\"\"b\", (1), '\n', $1 -- x\n");
        assert!(words.takes_all(&["TO", "STDOUT"]) && words.is_end());
    }

    #[test]
    fn values_and_names_are_read() {
        let mut words = Words::new("-5 'it''s' Word \"Quo\"\"ted\" a.B");
        assert_eq!(words.integer(), Some(-5));
        assert_eq!(words.value().as_deref(), Some("it's"));
        assert_eq!(words.keyword().as_deref(), Some("WORD"));
        assert_eq!(words.name().as_deref(), Some("Quo\"ted"));
        assert_eq!(words.dotted_name().as_deref(), Some("a.b"));
        assert_eq!(Words::new("'open").next(), None);
    }
}
