//! Cutting JSON text into records: lines, or values one after the other.

use std::ops::Range;

use memchr::memchr;
use pushdown::JsonShape;

use super::token::skip_blanks;

/// Cuts text into records.
pub(crate) struct Cutter {
    shape: JsonShape,
    /// Within a top-level array, whose elements are the records.
    in_array: bool,
}

/// What one cut found.
#[derive(Default)]
pub(crate) struct Cut {
    /// The records, as ranges of the text.
    pub(crate) records: Vec<Range<usize>>,
    /// How much of the text is done with.
    pub(crate) consumed: usize,
}

impl Cutter {
    pub(crate) fn new(shape: JsonShape) -> Self {
        Self { shape, in_array: false }
    }

    /// The first `most` complete records of `text` that begin before `stop`; `whole` if no more text will come.
    pub(crate) fn cut(&mut self, text: &[u8], whole: bool, stop: usize, most: usize, into: &mut Cut) {
        into.records.clear();
        into.consumed = 0;
        while into.records.len() < most && into.consumed < stop {
            let next = match self.shape {
                JsonShape::Lines => line(text, into.consumed, whole),
                JsonShape::Document => self.value(text, into.consumed, whole),
            };
            let Some((record, end)) = next else { break };
            into.consumed = end;
            into.records.extend(record);
        }
    }

    /// The value after `at`, if it is complete, and where to go on. What is malformed is left for the decoder.
    fn value(&mut self, text: &[u8], at: usize, whole: bool) -> Option<(Option<Range<usize>>, usize)> {
        let start = skip_blanks(text, at);
        match text.get(start)? {
            b'[' if !self.in_array => {
                self.in_array = true;
                return Some((None, start + 1));
            }
            b',' if self.in_array => return Some((None, start + 1)),
            b']' if self.in_array => {
                self.in_array = false;
                return Some((None, start + 1));
            }
            _ => {}
        }
        match value_end(text, start) {
            Some(end) => Some((Some(start..end), end)),
            None if whole => Some((Some(start..text.len()), text.len())),
            None => None,
        }
    }
}

/// The line at `at`; blank lines are no records.
fn line(text: &[u8], at: usize, whole: bool) -> Option<(Option<Range<usize>>, usize)> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let (end, next) = match memchr(b'\n', rest) {
        Some(found) => (at + found, at + found + 1),
        None if whole => (text.len(), text.len()),
        None => return None,
    };
    let start = skip_blanks(text, at);
    Some(((start < end).then_some(start..end), next))
}

/// Where the value at `start` ends, judged by its brackets and quotes alone.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
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
            // A number or word ends where something else begins.
            b' ' | b'\t' | b'\n' | b'\r' | b',' if depth == 0 => return Some(at.max(start + 1)),
            _ => {}
        }
        // `1]` and `1{`: a word directly before a bracket.
        if depth == 0 && matches!(text.get(at + 1), Some(b']' | b'}' | b'{' | b'[' | b'"')) {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str, shape: JsonShape) -> Vec<&str> {
        let mut cut = Cut::default();
        Cutter::new(shape).cut(text.as_bytes(), true, usize::MAX, usize::MAX, &mut cut);
        assert_eq!(skip_blanks(text.as_bytes(), cut.consumed), text.len());
        cut.records.into_iter().filter_map(|r| text.get(r)).collect()
    }

    #[test]
    fn lines_and_documents() {
        assert_eq!(
            records("{\"a\":1}\n\n {\"a\":2}\r\n{\"a\":3}", JsonShape::Lines),
            ["{\"a\":1}", "{\"a\":2}\r", "{\"a\":3}"]
        );
        let document = JsonShape::Document;
        assert_eq!(records("{\"a\":\n1} {\"b\":\"}\\\"\"}{}", document), ["{\"a\":\n1}", "{\"b\":\"}\\\"\"}", "{}"]);
        assert_eq!(records(" [ {\"a\":[1]} , 2,\"x,\" ,null]\n", document), ["{\"a\":[1]}", "2", "\"x,\"", "null"]);
        assert_eq!(records("1 2 3", document), ["1", "2", "3"]);
        assert_eq!(records("{\"a\":1", document), ["{\"a\":1"]);
    }
}
