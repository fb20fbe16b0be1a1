//! JSON text, read in place: values are pieces of the text.

use std::borrow::Cow;

use pushdowndb_contract::{Error, Result};

/// Maximum nesting of arrays and objects.
const MAX_DEPTH: usize = 512;

/// Maximum bytes of a malformed text that an error shows.
const SHOWN_BYTES: usize = 80;

/// Returns the one value in `text`, without blanks around it.
///
/// # Errors
///
/// Returns an error if the text is not JSON. It names the byte at which the text ceases to be JSON.
pub(super) fn document(text: &str) -> Result<&str> {
    let mut reader = Reader { text, at: 0 };
    reader.blanks();
    let from = reader.at;
    let end = reader.value(0).map(|()| reader.at);
    let end = end.and_then(|end| {
        reader.blanks();
        if reader.at == text.len() { Ok(end) } else { Err("nothing may follow the value") }
    });
    match end {
        Ok(end) => Ok(text.get(from..end).unwrap_or_default()),
        Err(what) => {
            let shown = text.char_indices().take_while(|(at, _)| *at < SHOWN_BYTES).map(|(_, c)| c).collect::<String>();
            let more = if shown.len() < text.len() { "…" } else { "" };
            Err(Error::invalid(format!("this is not JSON: {what} at byte {} of '{shown}{more}'", reader.at)))
        }
    }
}

/// Returns the values of a valid `object` with their keys, in the order of the text; `None` if it
/// is not an object.
pub(super) fn entries(object: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let mut reader = Reader::inside(object, b'{')?;
    Some(std::iter::from_fn(move || {
        reader.blanks();
        let key = reader.piece()?;
        reader.blanks();
        reader.at += 1;
        reader.blanks();
        let value = reader.piece()?;
        reader.blanks();
        reader.at += 1;
        Some((unquoted(key), value))
    }))
}

/// Returns the elements of a valid `array`; `None` if it is not an array.
pub(super) fn elements(array: &str) -> Option<impl Iterator<Item = &str>> {
    let mut reader = Reader::inside(array, b'[')?;
    Some(std::iter::from_fn(move || {
        reader.blanks();
        let value = reader.piece()?;
        reader.blanks();
        reader.at += 1;
        Some(value)
    }))
}

/// Returns the content of a valid string in quotes, with its escapes replaced.
pub(super) fn unquoted(string: &str) -> Cow<'_, str> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(string);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let mut chars = after.chars();
        let escaped = chars.next().unwrap_or('\\');
        rest = chars.as_str();
        match escaped {
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => {
                let (unit, after) = unit(rest);
                rest = after;
                let pair = rest.strip_prefix("\\u").filter(|_| (0xd800..0xdc00).contains(&unit)).map(self::unit);
                let code = match pair {
                    Some((low @ 0xdc00..0xe000, after)) => {
                        rest = after;
                        0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => unit,
                };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => text.push(other),
        }
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Returns the value of the first four hexadecimal digits, and the text after them.
fn unit(text: &str) -> (u32, &str) {
    let (digits, rest) = text.split_at_checked(4).unwrap_or((text, ""));
    (u32::from_str_radix(digits, 16).unwrap_or(0xfffd), rest)
}

/// Returns a valid `value` without the blanks between its parts.
pub(super) fn compact(value: &str) -> Cow<'_, str> {
    if !value.contains([' ', '\n', '\t', '\r']) {
        return Cow::Borrowed(value);
    }
    let (mut text, mut within, mut escaped) = (String::with_capacity(value.len()), false, false);
    for c in value.chars() {
        match (within, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => within = !within,
            (false, ' ' | '\n' | '\t' | '\r') => continue,
            _ => {}
        }
        text.push(c);
    }
    Cow::Owned(text)
}

/// A position in a text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader behind the bracket `open`; `None` if the text does not begin with it.
    fn inside(text: &'a str, open: u8) -> Option<Self> {
        text.as_bytes().first().is_some_and(|first| *first == open).then_some(Self { text, at: 1 })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads the value at this position; `None` at the end.
    fn piece(&mut self) -> Option<&'a str> {
        let from = self.at;
        self.value(0).ok()?;
        self.text.get(from..self.at)
    }

    /// Checks the value at this position and moves past it.
    fn value(&mut self, depth: usize) -> Result<(), &'static str> {
        if depth > MAX_DEPTH {
            return Err("arrays and objects lie more than 512 deep");
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.list(depth, b'}', |reader| {
                reader.string()?;
                reader.blanks();
                reader.expect(b':', "a colon is missing")?;
                reader.blanks();
                Ok(())
            }),
            Some(b'[') => self.list(depth, b']', |_| Ok(())),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err("no value begins"),
            None => Err("a value is missing"),
        }
    }

    fn list(
        &mut self,
        depth: usize,
        close: u8,
        key: impl Fn(&mut Self) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            key(self)?;
            self.value(depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err("a comma or a closing bracket is missing"),
            }
            self.blanks();
        }
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Result<(), &'static str> {
        if self.peek() != Some(byte) {
            return Err(otherwise);
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), &'static str> {
        if !self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            return Err("no value begins");
        }
        self.at += word.len();
        Ok(())
    }

    fn string(&mut self) -> Result<(), &'static str> {
        self.expect(b'"', "a key in double quotes is missing")?;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
                            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                                return Err("\\u takes four hexadecimal digits");
                            }
                            self.at += 5;
                        }
                        _ => return Err("an unknown escape"),
                    }
                }
                Some(0..0x20) => return Err("a control character in a string"),
                Some(_) => self.at += 1,
                None => return Err("a string does not end"),
            }
        }
    }

    fn digits(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { Err("a digit is missing") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), &'static str> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_json_are_errors_with_a_position() {
        for good in ["1", " -0.5e+3 ", "\"\\u00e9\\\"\"", "[]", "{}", "[1, {\"a\": [null, true]}]", "\"é\""] {
            assert_eq!(document(good).unwrap(), good.trim(), "{good}");
        }
        for (bad, said) in [
            ("", "a value is missing at byte 0"),
            ("{bad", "a key in double quotes is missing at byte 1"),
            ("{\"a\":1} x", "nothing may follow the value at byte 8"),
            ("[1,]", "no value begins at byte 3"),
            ("01", "nothing may follow"),
            ("\"a", "does not end"),
            ("\"\\x\"", "unknown escape"),
            ("1.", "a digit is missing"),
            ("tru", "no value begins"),
        ] {
            let error = document(bad).unwrap_err().to_string();
            assert!(error.contains(said), "{bad}: {error}");
        }
        assert!(document(&"[".repeat(100_000)).unwrap_err().to_string().contains("512 deep"));
        assert!(document(&format!("{}{}", "[".repeat(500), "]".repeat(500))).is_ok());
    }

    #[test]
    fn parts_of_values_are_found() {
        let object = "{ \"a\" : 1 , \"b\\u0063\":[1, 2] }";
        let all: Vec<_> = entries(object).unwrap().map(|(key, value)| (key.into_owned(), value)).collect();
        assert_eq!(all, [("a".to_owned(), "1"), ("bc".to_owned(), "[1, 2]")]);
        assert_eq!(elements("[ 1 ,\"x\",{}]").unwrap().collect::<Vec<_>>(), ["1", "\"x\"", "{}"]);
        assert_eq!(elements("[ ]").unwrap().count(), 0);
        assert!(entries("[]").is_none() && elements("{}").is_none());
        assert_eq!(unquoted("\"a\\n\\ud83d\\ude00\\ud83d\\/\""), "a\n😀\u{fffd}/");
        assert_eq!(compact("{ \"a b\" : [ 1, \"\\\" \" ] }"), "{\"a b\":[1,\"\\\" \"]}");
    }
}
