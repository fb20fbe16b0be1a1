//! Descends a path to the records inside a value, while the value arrives in pieces.
//!
//! `FROM S3Object[*].rows[*]` makes a record of every element of `rows`, in a document that may be
//! larger than memory. Text that is not on the path is skipped byte by byte; only its brackets and
//! quotes are examined. Only a record has to be in the buffer completely.
//!
//! Every step that finds nothing (a missing member, an empty array, a value of another kind) yields
//! a record without content, which S3 Select calls MISSING.

use std::ops::Range;

use memchr::memchr2;
use pushdowndb_contract::JsonStep;

use crate::values::json::{Key, is_blank, skip_blanks};

#[derive(Clone, Debug)]
pub(crate) struct Descent {
    steps: Vec<Step>,
    /// The open objects and arrays, one for each step of the path.
    open: Vec<Open>,
    next: Next,
}

#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Index(usize),
    AnyElement,
    AnyMember,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    is_array: bool,
    /// The number of elements or members seen so far.
    seen: usize,
    /// True if the step has found something in this object or array.
    found: bool,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Value,
    /// The first element or key, or the end.
    First,
    /// An element or key after a comma.
    Another,
    /// A comma, or the end.
    After,
    /// A value that is not on the path.
    Skip(Skip),
}

/// The state of a value that is being skipped.
#[derive(Clone, Copy, Debug, Default)]
struct Skip {
    depth: usize,
    begun: bool,
    in_string: bool,
    escaped: bool,
}

/// The result of a step.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// A record.
    Record(Range<usize>),
    /// A record without content.
    Missing,
    /// The end of the top-level value.
    Root,
    /// More text is needed.
    More,
}

impl Descent {
    pub(crate) fn new(path: &[JsonStep]) -> Self {
        let step = |step: &JsonStep| match step {
            JsonStep::Key { name, exact } => Step::Key(Key::new(name, *exact)),
            JsonStep::Index(index) => Step::Index(*index),
            JsonStep::AnyElement => Step::AnyElement,
            JsonStep::AnyMember => Step::AnyMember,
        };
        Self { steps: path.iter().map(step).collect(), open: Vec::new(), next: Next::Value }
    }

    /// Returns whether the top-level values are the records.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns whether a top-level value comes next, instead of the rest of one.
    pub(crate) fn is_at_root(&self) -> bool {
        self.open.is_empty() && matches!(self.next, Next::Value)
    }

    /// Continues at `at`. `whole` says that there is no more text. Returns what was found and where
    /// to continue. The error is the position of malformed text.
    pub(crate) fn advance(&mut self, text: &[u8], mut at: usize, whole: bool) -> Result<(Found, usize), usize> {
        loop {
            at = if matches!(self.next, Next::Skip(_)) { at } else { skip_blanks(text, at) };
            let Some(&byte) = text.get(at) else { return self.out_of_text(at, whole) };
            match self.next {
                Next::Value => {
                    let open = match self.steps.get(self.open.len()) {
                        None => {
                            let Some(end) = value_end(text, at).or(whole.then_some(text.len())) else {
                                return Ok((Found::More, at));
                            };
                            self.next = Next::After;
                            return Ok((Found::Record(at..end), end));
                        }
                        Some(Step::Key(_) | Step::AnyMember) => (byte == b'{').then_some(false),
                        Some(Step::Index(_) | Step::AnyElement) => (byte == b'[').then_some(true),
                    };
                    let Some(is_array) = open else {
                        self.next = Next::Skip(Skip::default());
                        return Ok((Found::Missing, at));
                    };
                    self.open.push(Open { is_array, seen: 0, found: false });
                    self.next = Next::First;
                    at += 1;
                }
                Next::After if self.open.is_empty() => {
                    self.next = Next::Value;
                    return Ok((Found::Root, at));
                }
                Next::First | Next::After if matches!(byte, b']' | b'}') => {
                    let Some(open) = self.open.pop().filter(|open| open.is_array == (byte == b']')) else {
                        return Err(at);
                    };
                    at += 1;
                    self.next = Next::After;
                    if !open.found {
                        return Ok((Found::Missing, at));
                    }
                }
                Next::After if byte == b',' => {
                    self.next = Next::Another;
                    at += 1;
                }
                Next::After => return Err(at),
                Next::First | Next::Another => match self.enter(text, at, byte, whole)? {
                    Some(next) => at = next,
                    None => return Ok((Found::More, at)),
                },
                Next::Skip(skip) => {
                    let (skip, next, ended) = skip.over(text, at);
                    self.next = if ended { Next::After } else { Next::Skip(skip) };
                    at = next;
                }
            }
        }
    }

    /// Handles the end of the available text.
    fn out_of_text(&mut self, at: usize, whole: bool) -> Result<(Found, usize), usize> {
        let ended = match self.next {
            Next::After => true,
            // A number or word may end with the text.
            Next::Skip(skip) => skip.begun && skip.depth == 0 && !skip.in_string,
            _ => false,
        };
        if !whole {
            return Ok((Found::More, at));
        }
        if !self.open.is_empty() || !(ended || self.is_at_root()) {
            return Err(at);
        }
        self.next = Next::Value;
        Ok((Found::Root, at))
    }

    /// Moves to the value of the next element or member. Returns `None` if its key is incomplete.
    fn enter(&mut self, text: &[u8], at: usize, byte: u8, whole: bool) -> Result<Option<usize>, usize> {
        let depth = self.open.len();
        let step = depth.checked_sub(1).and_then(|at| self.steps.get(at));
        let Some(open) = self.open.last_mut() else { return Err(at) };
        let (wanted, value) = if open.is_array {
            if matches!(byte, b']' | b'}' | b',') {
                return Err(at);
            }
            let wanted = match step {
                Some(Step::Index(index)) => *index == open.seen,
                _ => true,
            };
            (wanted, at)
        } else {
            if byte != b'"' {
                return Err(at);
            }
            let key_end = closing_quote(text, at);
            let colon = key_end.map(|end| skip_blanks(text, end)).filter(|colon| *colon < text.len());
            let (Some(key_end), Some(colon)) = (key_end, colon) else {
                return if whole { Err(at) } else { Ok(None) };
            };
            if text.get(colon) != Some(&b':') {
                return Err(colon);
            }
            let key = text.get(at..key_end).unwrap_or_default();
            let wanted = match step {
                Some(Step::Key(wanted)) => wanted.is(key),
                _ => true,
            };
            (wanted, colon + 1)
        };
        open.seen += 1;
        open.found |= wanted;
        self.next = if wanted { Next::Value } else { Next::Skip(Skip::default()) };
        Ok(Some(value))
    }
}

impl Skip {
    /// Skips the value as far as there is text. Returns the new state, the position, and whether
    /// the value ended there.
    fn over(mut self, text: &[u8], mut at: usize) -> (Self, usize, bool) {
        while let Some(&byte) = text.get(at) {
            if self.in_string {
                if std::mem::take(&mut self.escaped) {
                    at += 1;
                    continue;
                }
                let rest = text.get(at..).unwrap_or_default();
                let Some(stop) = memchr2(b'"', b'\\', rest) else { return (self, text.len(), false) };
                at += stop + 1;
                match rest.get(stop) {
                    Some(b'\\') => self.escaped = true,
                    _ => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return (self, at, true);
                        }
                    }
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                // A number or word ends where another token begins.
                b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if self.depth == 0 && self.begun => {
                    return (self, at, true);
                }
                b'}' | b']' if self.depth <= 1 => return (self, at + 1, true),
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            self.begun |= !is_blank(byte);
            at += 1;
        }
        (self, at, false)
    }
}

/// Returns the end of the string that opens at `at`; `None` if it is incomplete.
fn closing_quote(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let stop = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(stop) == Some(&b'"') {
            return Some(stop + 1);
        }
        from = stop + 2;
    }
}

/// Returns the end of the value at `start`, judged only by its brackets and quotes.
pub(crate) fn value_end(text: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut bytes = text.iter().enumerate().skip(start);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let mut closed = None;
                while let Some((at, byte)) = bytes.next() {
                    match byte {
                        b'\\' => _ = bytes.next(),
                        b'"' => {
                            closed = Some(at);
                            break;
                        }
                        _ => {}
                    }
                }
                let closed = closed?;
                if depth == 0 {
                    return Some(closed + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            // A number or word ends where another token begins.
            b' ' | b'\t' | b'\n' | b'\r' | b',' if depth == 0 => return Some(at.max(start + 1)),
            _ => {}
        }
        // As in `1]` and `1{`: a word directly before a bracket.
        if depth == 0 && matches!(text.get(at + 1), Some(b']' | b'}' | b'{' | b'[' | b'"')) {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> JsonStep {
        JsonStep::Key { name: name.into(), exact: false }
    }

    /// Returns the records of one value, which is passed in pieces; `-` stands for a missing
    /// record.
    fn records(text: &str, path: &[JsonStep], piece: usize) -> Result<Vec<String>, usize> {
        let mut descent = Descent::new(path);
        let (mut records, mut start, mut end) = (Vec::new(), 0, 0);
        loop {
            let whole = end >= text.len();
            let (found, at) = descent.advance(&text.as_bytes()[start..end.min(text.len())], 0, whole)?;
            match found {
                Found::Record(range) => records.push(text[start + range.start..start + range.end].to_owned()),
                Found::Missing => records.push("-".to_owned()),
                Found::Root => return Ok(records),
                Found::More => end = (end + piece).min(text.len() + piece),
            }
            start += at;
        }
    }

    #[test]
    fn records_are_found_at_the_path() {
        let rules =
            r#"{"x":[1,{"Rules":0}],"y":"a\\\"]}","Rules":[{"id":"1"},{"expr":"y > x"},{"id":{"a":[2]}}],"z":-1.5}"#;
        let any = JsonStep::AnyElement;
        for (text, path, expected) in [
            (rules, vec![key("rules"), any.clone(), key("id")], vec!["\"1\"", "-", "{\"a\":[2]}"]),
            (rules, vec![key("Rules"), JsonStep::Index(1)], vec!["{\"expr\":\"y > x\"}"]),
            (rules, vec![key("Rules"), JsonStep::Index(9)], vec!["-"]),
            (rules, vec![key("nothing"), any.clone()], vec!["-"]),
            (rules, vec![key("z")], vec!["-1.5"]),
            (rules, vec![key("z"), any.clone()], vec!["-"]),
            (r#" {"a" : {"b":1, "c" : [] }} "#, vec![key("a"), JsonStep::AnyMember], vec!["1", "[]"]),
            (r#"{"a":{}}"#, vec![key("a"), JsonStep::AnyMember], vec!["-"]),
            ("[[1,2],[],3,[4]]", vec![any.clone(), any.clone()], vec!["1", "2", "-", "-", "4"]),
            ("5", vec![any.clone()], vec!["-"]),
            ("\"a\"", vec![key("a")], vec!["-"]),
        ] {
            for piece in [1, 2, 5, 1000] {
                assert_eq!(
                    records(text, &path, piece).as_deref(),
                    Ok(&expected.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..]),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["{\"a\":[1,}", "{\"a\":[1", "{\"a\"", "{a:1}", "[1}", "{\"a\":[1,]}", "{\"a\":[1]]", "{\"b\":\"x"]
        {
            let path =
                if text.starts_with('[') { vec![JsonStep::AnyElement] } else { vec![key("a"), JsonStep::AnyElement] };
            assert!(records(text, &path, 3).is_err(), "{text}");
        }
    }
}
