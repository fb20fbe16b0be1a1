//! Cutting JSON text into records, which are lines, or values one after the other.

use std::ops::Range;

use memchr::memchr;
use pushdowndb_contract::{JsonShape, JsonStep};

use crate::text::buffer::Candidates;
use crate::text::json::path::{Descent, Found, value_end};
use crate::values::json::skip_blanks;

/// Cuts text into records.
pub(crate) struct Cutter {
    shape: JsonShape,
    /// True if the elements of a top-level array are records, instead of the array itself. S3
    /// Select reads them only with `S3Object[*][*]`, tables always do.
    flat: bool,
    /// True inside such an array.
    in_array: bool,
    /// The next token in that array.
    expected: Expected,
    /// The path from a top-level value to its records.
    descent: Descent,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Expected {
    /// A value, or the end of the array.
    First,
    /// A value.
    Value,
    /// A comma, or the end of the array.
    Comma,
}

/// The result of a cut.
#[derive(Default)]
pub(crate) struct Cut {
    /// The ranges of the records in the text. An empty range is a record without content.
    pub(crate) records: Vec<Range<usize>>,
    /// The number of bytes that are done.
    pub(crate) consumed: usize,
}

impl Cutter {
    pub(crate) fn new(shape: JsonShape, from: &[JsonStep], flat: bool) -> Self {
        Self { shape, flat, in_array: false, expected: Expected::First, descent: Descent::new(from) }
    }

    /// Cuts the first `most` complete records of `text` that begin before `stop`. `whole` says that
    /// there is no more text.
    ///
    /// If cutting finds malformed text, its position is returned as the error. Most errors are left
    /// to the decoder.
    pub(crate) fn cut(
        &mut self,
        text: &[u8],
        whole: bool,
        stop: usize,
        most: usize,
        into: &mut Cut,
    ) -> Result<(), usize> {
        into.records.clear();
        into.consumed = 0;
        while into.records.len() < most && into.consumed < stop {
            if self.shape == JsonShape::Lines {
                let rest = text.get(into.consumed..stop.min(text.len())).unwrap_or_default();
                into.consumed += rest.iter().position(|byte| *byte != b'\n').unwrap_or(rest.len());
                if into.consumed >= stop {
                    break;
                }
            }
            let at = into.consumed;
            let next = match self.shape {
                JsonShape::Lines => self.line(text, at, whole, &mut into.records)?.map(|end| (None, end)),
                JsonShape::Document if self.descent.is_empty() => match self.mark(text, at)? {
                    Some(end) => Some((None, end)),
                    None => value(text, at, whole),
                },
                JsonShape::Document => match self.root_or_further(text, at, whole)? {
                    (Found::Record(record), end) => Some((Some(record), end)),
                    (Found::Missing, end) => Some((Some(end..end), end)),
                    // There are only blanks after the last value.
                    (Found::Root, end) if end == at => None,
                    (Found::Root, end) => Some((None, end)),
                    (Found::More, end) => {
                        into.consumed = end;
                        None
                    }
                },
            };
            let Some((record, end)) = next else { break };
            if self.in_array && self.descent.is_at_root() && record.is_some() {
                self.expected = Expected::Comma;
            }
            into.consumed = end;
            into.records.extend(record);
        }
        Ok(())
    }

    /// Like [`Self::cut`], but only for lines at `candidates`, which are taken from the queue.
    /// `text` begins at the start of `bytes`, a range of the object's text. Records that begin at
    /// or after its end are not needed.
    pub(crate) fn cut_candidates(
        &mut self,
        text: &[u8],
        bytes: Range<u64>,
        whole: bool,
        most: usize,
        candidates: &mut Candidates,
        into: &mut Cut,
    ) -> Result<(), usize> {
        let Range { start: offset, end } = bytes;
        into.records.clear();
        into.consumed = 0;
        let place = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
        while into.records.len() < most {
            let Some(start) = candidates.starts.pop_front_if(|start| *start < end) else {
                // Continues with the first line that was not searched or is not needed.
                let beyond = place(candidates.searched.min(end));
                let next = beyond.checked_sub(1).map_or(0, |before| {
                    let end = text.get(before..).and_then(|rest| memchr(b'\n', rest));
                    end.map_or(text.len(), |end| before + end + 1)
                });
                into.consumed = next.max(into.consumed);
                break;
            };
            if start < offset {
                continue;
            }
            let Some(next) = self.line(text, place(start), whole, &mut into.records)? else { break };
            into.consumed = next;
        }
        Ok(())
    }

    /// Appends the records of the line at `at`. Returns the start of the next line; `None` if the
    /// line is incomplete.
    fn line(
        &mut self,
        text: &[u8],
        at: usize,
        whole: bool,
        into: &mut Vec<Range<usize>>,
    ) -> Result<Option<usize>, usize> {
        let Some((record, end)) = line(text, at, whole) else { return Ok(None) };
        match record {
            Some(record) if !self.descent.is_empty() => within(&mut self.descent, text, record, into)?,
            record => into.extend(record),
        }
        Ok(Some(end))
    }

    /// Returns whether the text may end here.
    pub(crate) fn may_end(&self) -> bool {
        !self.in_array && self.descent.is_at_root()
    }

    /// Reads the next bracket or comma of a top-level array, or else descends further to the
    /// records.
    fn root_or_further(&mut self, text: &[u8], at: usize, whole: bool) -> Result<(Found, usize), usize> {
        if self.descent.is_at_root()
            && let Some(end) = self.mark(text, at)?
        {
            return Ok((Found::Root, end));
        }
        let further = self.descent.advance(text, at, whole)?;
        if further.0 == Found::Root && self.in_array {
            self.expected = Expected::Comma;
        }
        Ok(further)
    }

    /// Returns the end of a bracket or comma of a top-level array, if it comes next.
    fn mark(&mut self, text: &[u8], at: usize) -> Result<Option<usize>, usize> {
        let start = skip_blanks(text, at);
        let Some(&byte) = text.get(start) else { return Ok(None) };
        if !self.in_array {
            self.in_array = byte == b'[' && self.flat;
            self.expected = Expected::First;
            return Ok(self.in_array.then_some(start + 1));
        }
        self.expected = match (byte, self.expected) {
            (b',', Expected::Comma) => Expected::Value,
            (b']', Expected::First | Expected::Comma) => {
                self.in_array = false;
                Expected::First
            }
            (b',' | b']', _) | (_, Expected::Comma) => return Err(start),
            _ => return Ok(None),
        };
        Ok(Some(start + 1))
    }
}

/// Returns the value after `at` and the position after it; `None` if the value is incomplete.
/// Malformed values are left to the decoder.
fn value(text: &[u8], at: usize, whole: bool) -> Option<(Option<Range<usize>>, usize)> {
    let start = skip_blanks(text, at);
    text.get(start)?;
    match value_end(text, start) {
        Some(end) => Some((Some(start..end), end)),
        None if whole => Some((Some(start..text.len()), text.len())),
        None => None,
    }
}

/// Appends the records inside a complete value.
fn within(descent: &mut Descent, text: &[u8], value: Range<usize>, into: &mut Vec<Range<usize>>) -> Result<(), usize> {
    let mut at = value.start;
    let text = text.get(..value.end).unwrap_or_default();
    loop {
        let (found, end) = descent.advance(text, at, true)?;
        at = end;
        match found {
            Found::Record(record) => into.push(record),
            Found::Missing => into.push(end..end),
            Found::Root if skip_blanks(text, end) == text.len() => return Ok(()),
            Found::Root | Found::More => return Err(end),
        }
    }
}

/// Returns the line at `at` and the position after it. A blank line is not a record.
fn line(text: &[u8], at: usize, whole: bool) -> Option<(Option<Range<usize>>, usize)> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let (end, next) = match memchr(b'\n', rest) {
        Some(found) => (at + found, at + found + 1),
        None if whole => (text.len(), text.len()),
        None => return None,
    };
    // Only this line is skipped: many blank lines may follow.
    let start = skip_blanks(text.get(..end).unwrap_or_default(), at);
    Some(((start < end).then_some(start..end), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str, shape: JsonShape) -> Vec<&str> {
        let mut cut = Cut::default();
        Cutter::new(shape, &[], true).cut(text.as_bytes(), true, usize::MAX, usize::MAX, &mut cut).unwrap();
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
