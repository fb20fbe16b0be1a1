//! JSON tokens: finding their ends, validation, and lookup by path.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memchr2;

use crate::limits::MAX_JSON_DEPTH;
use crate::runtime::interrupt::Steps;

/// One step of a path into a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Key(Key),
    Index(usize),
}

/// The name of a member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    name: String,
    /// True if case matters.
    exact: bool,
}

impl Key {
    pub(crate) fn new(name: &str, exact: bool) -> Self {
        Self { name: if exact { name.to_owned() } else { name.to_lowercase() }, exact }
    }

    /// Returns the name to search for.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this name matches `other`.
    pub(crate) fn means(&self, other: &str) -> bool {
        if self.exact {
            self.name == other
        } else {
            self.name.eq_ignore_ascii_case(other) || (!other.is_ascii() && self.name == other.to_lowercase())
        }
    }

    /// Returns whether this name matches a key, which is given with its quotes.
    pub(crate) fn is(&self, quoted: &[u8]) -> bool {
        let [b'"', inner @ .., b'"'] = quoted else { return false };
        if self.exact && !inner.contains(&b'\\') {
            return inner == self.name.as_bytes();
        }
        if inner.eq_ignore_ascii_case(self.name.as_bytes()) {
            return true;
        }
        if inner.is_ascii() && !inner.contains(&b'\\') {
            return false;
        }
        std::str::from_utf8(quoted).ok().and_then(unescape).is_some_and(|key| self.means(&key))
    }
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unfound {
    /// The text is not JSON from this position on.
    Malformed(usize),
    /// A case-insensitive name matches several members.
    Ambiguous {
        /// The column of the name.
        column: usize,
    },
    /// The task was interrupted.
    Interrupted,
}

/// The cost of comparing a key with a name, in bytes that could be read in the same time.
pub(crate) const STEPS_PER_NAME: usize = 8;

/// Counts work. Returns an error if the task was interrupted.
fn look(steps: &mut Steps, done: usize) -> Result<(), Unfound> {
    if steps.go_on(done) { Ok(()) } else { Err(Unfound::Interrupted) }
}

impl From<usize> for Unfound {
    fn from(at: usize) -> Self {
        Self::Malformed(at)
    }
}

/// Parses a path such as `a.b[0]`. Keys match in any case, but keys in double quotes (`a."b.c"`,
/// with quotes inside doubled) exactly. An empty path, or `$`, is the record itself.
pub(crate) fn parse_path(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = if path == "$" { "" } else { path };
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']')?;
            steps.push(Step::Index(index.trim().parse().ok()?));
            rest = after;
        } else {
            let body = if steps.is_empty() { rest } else { rest.strip_prefix('.')? };
            let (key, after) = match body.strip_prefix('"') {
                Some(quoted) => quoted_key(quoted).map(|(key, after)| (Key::new(&key, true), after))?,
                None => {
                    let (key, after) = body.split_at(body.find(['.', '[']).unwrap_or(body.len()));
                    ((!key.is_empty()).then(|| Key::new(key, false))?, after)
                }
            };
            steps.push(Step::Key(key));
            rest = after;
        }
    }
    Some(steps)
}

/// Splits `text` into the key up to its closing quote, and the rest.
fn quoted_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        key.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                key.push('"');
                rest = after;
            }
            None => return Some((key, after)),
        }
    }
}

/// The rest of a path to search for, and the column of its token.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) column: usize,
    pub(crate) path: &'a [Step],
}

/// Finds tokens by path, and the ends of values.
pub(crate) struct Finder<'a, 's> {
    text: &'a [u8],
    /// The token of each column.
    found: &'s mut [Option<Range<usize>>],
    steps: &'s mut Steps,
}

/// Validates the value at `at`, and returns its end.
pub(crate) fn value_end(text: &[u8], at: usize, depth: usize, steps: &mut Steps) -> Result<usize, Unfound> {
    Finder::new(text, &mut [], steps).find(at, &[], depth)
}

impl<'a, 's> Finder<'a, 's> {
    pub(crate) fn new(text: &'a [u8], found: &'s mut [Option<Range<usize>>], steps: &'s mut Steps) -> Self {
        Self { text, found, steps }
    }

    /// Validates the value at `at`, and records the tokens of all `wanted` paths in it. Returns the
    /// end of the value. The error contains the position of malformed text.
    pub(crate) fn find(&mut self, at: usize, wanted: &[Wanted<'_>], depth: usize) -> Result<usize, Unfound> {
        let end = match self.text.get(at) {
            Some(b'{') => self.find_within::<true>(at, wanted, depth)?,
            Some(b'[') => self.find_within::<false>(at, wanted, depth)?,
            _ => scalar_end(self.text, at)?,
        };
        for want in wanted.iter().filter(|w| w.path.is_empty()) {
            if let Some(slot) = self.found.get_mut(want.column) {
                *slot = Some(at..end);
            }
        }
        Ok(end)
    }

    /// Finds tokens in the object or array at `at`.
    fn find_within<const IS_OBJECT: bool>(
        &mut self,
        at: usize,
        wanted: &[Wanted<'_>],
        depth: usize,
    ) -> Result<usize, Unfound> {
        if depth >= MAX_JSON_DEPTH {
            return Err(at.into());
        }
        let close = if IS_OBJECT { b'}' } else { b']' };
        let mut inner = Vec::new();
        // For each column with a case-insensitive name, the key that was found.
        let mut met = HashMap::new();
        let mut at = skip_blanks(self.text, at + 1);
        if self.text.get(at) == Some(&close) {
            return Ok(at + 1);
        }
        for index in 0.. {
            inner.clear();
            if IS_OBJECT {
                at = self.enter_member(at, wanted, &mut inner, &mut met)?;
            } else {
                look(self.steps, wanted.len().saturating_add(1))?;
                inner.extend(wanted.iter().filter_map(|want| match want.path {
                    [Step::Index(wanted), path @ ..] if *wanted == index => Some(Wanted { path, ..*want }),
                    _ => None,
                }));
            }
            at = skip_blanks(self.text, self.find(at, &inner, depth + 1)?);
            match self.text.get(at) {
                Some(b',') => at = skip_blanks(self.text, at + 1),
                Some(byte) if *byte == close => return Ok(at + 1),
                _ => return Err(at.into()),
            }
        }
        Err(at.into())
    }

    /// Reads the key at `at`, and adds the paths to search for in its value to `inner`. Returns the
    /// position of the value.
    fn enter_member<'w>(
        &mut self,
        at: usize,
        wanted: &[Wanted<'w>],
        inner: &mut Vec<Wanted<'w>>,
        met: &mut HashMap<usize, &'a [u8]>,
    ) -> Result<usize, Unfound> {
        let key_end = string_end(self.text, at)?;
        let colon = skip_blanks(self.text, key_end);
        if self.text.get(colon) != Some(&b':') {
            return Err(colon.into());
        }
        if !wanted.is_empty() {
            let key = self.text.get(at..key_end).unwrap_or_default();
            look(self.steps, wanted.len().saturating_mul(STEPS_PER_NAME))?;
            for Wanted { column, path } in wanted {
                let [Step::Key(name), path @ ..] = *path else { continue };
                if !name.is(key) {
                    continue;
                }
                inner.push(Wanted { column: *column, path });
                if !name.exact && *met.entry(*column).or_insert(key) != key {
                    return Err(Unfound::Ambiguous { column: *column });
                }
            }
        }
        // If two keys are equal, the last one counts, even if it lacks something that the first one
        // has.
        for below in inner.iter().filter(|below| !below.path.is_empty()) {
            if let Some(slot) = self.found.get_mut(below.column) {
                *slot = None;
            }
        }
        Ok(skip_blanks(self.text, colon + 1))
    }
}

/// Returns whether the byte is JSON white space. Unlike in Rust, a form feed is not.
#[inline]
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns the position of the first non-blank byte at or after `at`.
pub(crate) fn skip_blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len())
}

/// Returns the text without trailing blanks.
#[inline]
pub(crate) fn without_blanks_after(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

fn scalar_end(text: &[u8], at: usize) -> Result<usize, usize> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first() {
        Some(b'"') => string_end(text, at),
        Some(b'-' | b'0'..=b'9') => number_end(text, at),
        _ => {
            let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word)).ok_or(at)?;
            Ok(at + word.len())
        }
    }
}

fn string_end(text: &[u8], at: usize) -> Result<usize, usize> {
    if text.get(at) != Some(&b'"') {
        return Err(at);
    }
    let mut from = at + 1;
    loop {
        let rest = text.get(from..).unwrap_or_default();
        let stop = from + memchr2(b'"', b'\\', rest).ok_or(at)?;
        if let Some(control) = text.get(from..stop).and_then(|s| s.iter().position(|b| *b < 0x20)) {
            return Err(from + control);
        }
        if text.get(stop) == Some(&b'"') {
            return Ok(stop + 1);
        }
        from = match text.get(stop + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => stop + 2,
            Some(b'u') if text.get(stop + 2..stop + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => {
                stop + 6
            }
            _ => return Err(stop),
        };
    }
}

pub(crate) fn number_end(text: &[u8], at: usize) -> Result<usize, usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len())
    };
    let start = at + usize::from(text.get(at) == Some(&b'-'));
    let mut end = digits(start);
    if end == start || (text.get(start) == Some(&b'0') && end > start + 1) {
        return Err(at);
    }
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if fraction == end + 1 {
            return Err(at);
        }
        end = fraction;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent == end + 1 + sign {
            return Err(at);
        }
        end = exponent;
    }
    Ok(end)
}

/// Returns the text of a JSON string; `None` if the token is not a string.
pub(crate) fn unescape(token: &str) -> Option<String> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next()? {
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => {
                let first = hex4(&mut chars)?;
                let code = match first {
                    0xd800..=0xdbff => {
                        // This is the second half of a surrogate pair. Without it, the character is
                        // unknown.
                        let mut ahead = chars.clone();
                        let second = (ahead.next() == Some('\\') && ahead.next() == Some('u'))
                            .then(|| hex4(&mut ahead))
                            .flatten()
                            .filter(|second| (0xdc00..=0xdfff).contains(second));
                        match second {
                            Some(second) => {
                                chars = ahead;
                                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                            }
                            None => 0xfffd,
                        }
                    }
                    other => other,
                };
                text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            other => text.push(other),
        }
    }
    Some(text)
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |value, _| Some(value * 16 + chars.next()?.to_digit(16)?))
}

/// Returns the scalar of a token as text: a string without quotes, other tokens as written. `None`
/// for `null`.
pub(crate) fn scalar_text(token: &str) -> Option<String> {
    match token {
        "null" => None,
        string if string.starts_with('"') => unescape(string),
        other => Some(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens<'a>(text: &'a str, paths: &[&str]) -> Result<Vec<Option<&'a str>>, Unfound> {
        let paths: Vec<_> = paths.iter().filter_map(|p| parse_path(p)).collect();
        let wanted: Vec<_> = paths.iter().enumerate().map(|(column, path)| Wanted { column, path }).collect();
        let mut found = vec![None; paths.len()];
        let end = Finder::new(text.as_bytes(), &mut found, &mut Steps::default()).find(0, &wanted, 0)?;
        assert_eq!(end, text.len());
        Ok(found.into_iter().map(|range| range.and_then(|r| text.get(r))).collect())
    }

    #[test]
    fn tokens_are_found_by_path_as_they_are_written() {
        let text = r#"{"a": 17.00, "b" : {"c": [1, {"d": "x\"y"}, null], "e.f": true}, "\u0061b": -1e5}"#;
        assert_eq!(
            tokens(text, &["a", "b.c[1].d", "b.c[2]", "b.\"e.f\"", "ab", "b.c[9]", "zz", "a.b"]),
            Ok(vec![Some("17.00"), Some(r#""x\"y""#), Some("null"), Some("true"), Some("-1e5"), None, None, None])
        );
        assert_eq!(tokens("[1,2]", &["", "[1]"]), Ok(vec![Some("[1,2]"), Some("2")]));
        // If two keys are equal, the last one counts.
        assert_eq!(tokens(r#"{"a":1,"a":2}"#, &["a"]), Ok(vec![Some("2")]));
        for last in [r#"{"a":{"b":1},"a":{}}"#, r#"{"a":{"b":1},"a":null}"#, r#"{"a":[0,1],"a":[0]}"#] {
            assert_eq!(tokens(last, &["a.b", "a[1]"]), Ok(vec![None, None]), "{last}");
        }
        let text = r#"{"A":1,"b":{"Straße":2,"STRASSE":3}}"#;
        assert_eq!(
            tokens(text, &["a", "\"a\"", "B.STRAßE", "\"b\".strasse"]),
            Ok(vec![Some("1"), None, Some("2"), Some("3")])
        );
        assert_eq!(tokens(r#"{"A":1,"a":2}"#, &["\"a\""]), Ok(vec![Some("2")]));
        assert_eq!(tokens(r#"{"A":1,"a":2}"#, &["\"a\"", "a"]), Err(Unfound::Ambiguous { column: 1 }));
    }

    #[test]
    fn malformed_json_is_refused_where_it_is_malformed() {
        for (text, at) in [
            ("{", 1),
            ("{\"a\"}", 4),
            ("{\"a\":1,}", 7),
            ("[1 2]", 3),
            ("01", 0),
            ("1.", 0),
            ("\"a", 0),
            ("\"\\x\"", 1),
            ("\"\u{1}\"", 1),
            ("nul", 0),
            ("{a:1}", 1),
            ("", 0),
            ("-", 0),
            ("1e", 0),
        ] {
            assert_eq!(tokens(text, &[]), Err(Unfound::Malformed(at)), "{text}");
        }
        assert!(tokens(&"[".repeat(100_000), &[]).is_err());
    }

    /// A key that occurs again is not compared with all earlier keys, and the search can be
    /// interrupted.
    #[test]
    fn names_times_keys_are_steps() {
        let text = format!("{{{}\"z\":0}}", "\"a\":1,".repeat(50_000));
        let paths: Vec<_> = ["a", "A", "z", "y.z"].iter().filter_map(|path| parse_path(path)).collect();
        let wanted: Vec<_> = paths.iter().enumerate().map(|(column, path)| Wanted { column, path }).collect();
        let mut steps = Steps::default();
        assert_eq!(Finder::new(text.as_bytes(), &mut vec![None; 4], &mut steps).find(0, &wanted, 0), Ok(text.len()));
        assert!(steps.counted() <= 50_001 * 4 * STEPS_PER_NAME + 100, "{}", steps.counted());
        let many = wanted.repeat(1_000);
        let interrupt = crate::runtime::interrupt::Interrupt::new();
        interrupt.cancel();
        let (mut tokens, mut steps) = (vec![None; 4], Steps::default());
        let found = interrupt.scope_sync(|| Finder::new(text.as_bytes(), &mut tokens, &mut steps).find(0, &many, 0));
        assert_eq!(found, Err(Unfound::Interrupted));
    }

    #[test]
    fn scalars_become_text() {
        assert_eq!(scalar_text(r#""a\n\u00e9\ud83d\ude00\ud800""#).as_deref(), Some("a\né😀\u{fffd}"));
        assert_eq!(scalar_text("17.00").as_deref(), Some("17.00"));
        assert_eq!(scalar_text("null"), None);
        assert_eq!(scalar_text("\"null\"").as_deref(), Some("null"));
    }

    #[test]
    fn paths() {
        let (bare, quoted) = (|name| Step::Key(Key::new(name, false)), |name| Step::Key(Key::new(name, true)));
        assert_eq!(parse_path("A[0].b"), Some(vec![bare("a"), Step::Index(0), bare("b")]));
        assert_eq!(parse_path(""), Some(vec![]));
        assert_eq!(parse_path("$"), Some(vec![]));
        assert_eq!(parse_path(r#""a""B"."$""#), Some(vec![quoted("a\"B"), quoted("$")]));
        assert_eq!(parse_path("a..b"), None);
        assert_eq!(parse_path("a[x]"), None);
    }
}
