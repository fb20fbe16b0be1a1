//! The lexer: it splits SQL text into tokens, each with the offset at which it starts.

use crate::SelectError;

/// One token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A keyword or a name without quotes.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// A number as it is written, without sign.
    Number(String),
    /// A text in single quotes.
    Text(String),
    /// A value in backticks, in the text form of Amazon Ion.
    Ion(String),
    /// An operator or a punctuation mark.
    Symbol(&'static str),
    /// The end of the statement.
    End,
}

impl Token {
    /// Returns the token as error messages show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("'{text}'"),
            Self::Quoted(name) => format!("\"{name}\""),
            Self::Text(text) => format!("the text '{text}'"),
            Self::Ion(text) => format!("`{text}`"),
            Self::Symbol(symbol) => format!("'{symbol}'"),
            Self::End => "the end of the statement".to_owned(),
        }
    }
}

/// The symbols, longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 22] =
    ["<>", "!=", "<=", ">=", "||", "(", ")", "[", "]", "{", "}", ",", ".", ";", ":", "+", "-", "*", "/", "%", "=", "<"];

/// Splits a statement into tokens with their byte offsets. The last token is always [`Token::End`].
pub(crate) fn tokens(sql: &str) -> Result<Vec<(Token, usize)>, SelectError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let (token, length) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if c == '\'' || c == '"' {
            let (text, length) = quoted(rest, c).ok_or_else(|| unterminated(c, at))?;
            (if c == '\'' { Token::Text(text) } else { Token::Quoted(text) }, length)
        } else if c == '`' {
            let end = rest[1..].find('`').ok_or_else(|| {
                SelectError::new("LexerInvalidIONLiteral", format!("at byte {at}: the closing ` is missing"))
            })?;
            (Token::Ion(rest[1..=end].to_owned()), end + 2)
        } else if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit())) {
            let length = number(rest);
            (Token::Number(rest[..length].to_owned()), length)
        } else if c.is_alphabetic() || c == '_' {
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
            (Token::Word(rest[..length].to_owned()), length)
        } else if c == '>' && !rest.starts_with(">=") {
            (Token::Symbol(">"), 1)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            return Err(SelectError::new("LexerInvalidChar", format!("at byte {at}: '{c}' has no meaning in SQL")));
        };
        tokens.push((token, at));
        at += length;
    }
    tokens.push((Token::End, at));
    Ok(tokens)
}

fn unterminated(quote: char, at: usize) -> SelectError {
    SelectError::new("LexerInvalidLiteral", format!("at byte {at}: the closing {quote} is missing"))
}

/// Returns the text between quotes and its length including them. A doubled quote stands for one.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            text.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Some((text, at + 1));
        }
    }
    None
}

/// Returns the length of the number at the start of `rest`: digits, a fraction, an exponent.
fn number(rest: &str) -> usize {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if rest[end..].starts_with('.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sql: &str) -> Vec<String> {
        tokens(sql).unwrap().into_iter().map(|(token, _)| token.shown()).collect()
    }

    #[test]
    fn statements_come_apart() {
        assert_eq!(
            shown("SELECT s._1,\"a\"\"b\" -- all\nWHERE x>=1.5e-3 'it''s' .5||1"),
            [
                "'SELECT'",
                "'s'",
                "'.'",
                "'_1'",
                "','",
                "\"a\"b\"",
                "'WHERE'",
                "'x'",
                "'>='",
                "'1.5e-3'",
                "the text 'it's'",
                "'.5'",
                "'||'",
                "'1'",
                "the end of the statement"
            ]
        );
        assert_eq!(shown("größe>1"), ["'größe'", "'>'", "'1'", "the end of the statement"]);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        assert_eq!(tokens("a ? b").unwrap_err().code, "LexerInvalidChar");
        assert_eq!(tokens("'abc").unwrap_err().code, "LexerInvalidLiteral");
        assert_eq!(tokens("`2007T").unwrap_err().code, "LexerInvalidIONLiteral");
        assert_eq!(shown("`2007T`=``"), ["`2007T`", "'='", "``", "the end of the statement"]);
    }
}
