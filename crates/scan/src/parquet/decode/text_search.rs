//! Searching plain text pages without decoding them.
//!
//! A condition on text often requires certain bytes: `LIKE '%special requests%'` requires these two
//! words. The bytes are searched with SIMD in the page as it is, including lengths. The condition
//! is then evaluated only on the values that contain them. It is the prefilter
//! ([`crate::prefilter`]) of Parquet.

use ::parquet::errors::{ParquetError, Result};
use memchr::memmem::Finder;
use pushdowndb_contract::Expr;

use crate::parquet::errors::{check_interrupt, external};
use crate::prefilter::derive::{Stored, required};
use crate::runtime::interrupt::Steps;
use crate::values::pattern::find;

/// Searches bytes that every matching value must contain.
#[derive(Clone, Debug)]
pub(crate) struct TextSearch(Finder<'static>);

fn broken() -> ParquetError {
    ParquetError::General("a page with fewer values than it claims".into())
}

impl TextSearch {
    /// Derives the bytes from a condition on a single column, which must be text. Returns `None` if
    /// no bytes are required.
    pub(crate) fn new(condition: &Expr) -> Option<Self> {
        let sets = required(condition, &|_| Some(Stored::Text), &|_| false);
        let only = |set: &Vec<_>| set.len() == 1;
        let needle = sets.into_iter().filter(only).flatten().max_by_key(|needle| needle.bytes.len())?;
        Some(Self(Finder::new(&needle.bytes).into_owned()))
    }

    /// Returns those of `count` values that contain the bytes, with their indexes. In `values`,
    /// each value follows its length in four bytes.
    pub(crate) fn find<'a>(&self, values: &'a [u8], count: usize) -> Result<Vec<(usize, &'a str)>> {
        let needle = self.0.needle().len();
        let (mut found, mut steps) = (Vec::new(), Steps::default());
        let mut from = 0;
        // The index and the range of the current value.
        let (mut place, mut start, mut end) = (0, 4, end_of(values, 0)?);
        while let Some(hit) = values.get(from..).and_then(|rest| find(&self.0, rest, &mut steps)) {
            let hit = from + hit;
            steps.did(1 + needle).map_err(external)?;
            while hit >= end {
                place += 1;
                if place >= count {
                    return Ok(found);
                }
                (start, end) = (end + 4, end_of(values, end)?);
            }
            if start <= hit && hit + needle <= end {
                let value = values.get(start..end).map(std::str::from_utf8);
                let value = value.ok_or_else(broken)?.map_err(|error| ParquetError::General(error.to_string()))?;
                found.push((place, value));
                from = end;
            } else {
                // The hit includes part of a length, or of the next value.
                from = hit + 1;
            }
        }
        // An interrupted search is incomplete.
        check_interrupt()?;
        Ok(found)
    }
}

/// Returns the end of the value whose length is at offset `at`.
fn end_of(values: &[u8], at: usize) -> Result<usize> {
    let Some(length) = values.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
        return if at == values.len() { Ok(at) } else { Err(broken()) };
    };
    let end = (at + 4).saturating_add(u32::from_le_bytes(*length) as usize);
    if end <= values.len() { Ok(end) } else { Err(broken()) }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::Literal;

    use super::*;

    fn like(pattern: &str) -> Expr {
        Expr::Like {
            expr: Box::new(Expr::Column(0)),
            pattern: Box::new(Expr::Literal(Literal::Utf8(pattern.into()))),
            negated: false,
            case_insensitive: false,
        }
    }

    fn page(values: &[&str]) -> Vec<u8> {
        values.iter().flat_map(|value| [&(value.len() as u32).to_le_bytes(), value.as_bytes()].concat()).collect()
    }

    fn found(pattern: &str, values: &[&str]) -> Vec<usize> {
        let search = TextSearch::new(&like(pattern)).unwrap();
        let page = page(values);
        let found = search.find(&page, values.len()).unwrap();
        assert!(found.iter().all(|(place, value)| values[*place] == *value));
        found.into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn values_that_hold_the_bytes_are_found() {
        let values = ["", "a special request", "special", "", "requests are special, special", "spec", "ial"];
        assert_eq!(found("%special%", &values), [1, 2, 4]);
        assert_eq!(found("spec%re_", &values), [1, 2, 4, 5], "the longest piece");
        assert!(TextSearch::new(&like("%")).is_none());
        assert!(TextSearch::new(&like("_%a_")).is_none());
    }

    #[test]
    fn lengths_are_no_text() {
        // With the length that follows it, "ab" would become "ab" and a control character, or
        // "\0\0\0ab".
        assert_eq!(found("%ab\u{2}%", &["xab", "cd", "ab\u{2}"]), [2]);
        assert_eq!(found("%\0\0\0ab%", &["ab", "ab\0\0\0ab", "\0\0\0\0ab"]), [1, 2]);
        // A hit across a length overlaps the beginning of a valid hit.
        assert_eq!(found("%\0\0\0%", &["\0\0\0", "", "\0\0"]), [0]);
    }

    #[test]
    fn a_page_that_is_cut_short_is_an_error() {
        let search = TextSearch::new(&like("%needle%")).unwrap();
        let mut cut = page(&["hay", "a needle"]);
        cut.truncate(cut.len() - 1);
        assert!(search.find(&cut, 2).is_ok_and(|found| found.is_empty()), "the needle itself is cut");
        let mut claims = page(&["hay", "a needle"]);
        claims[7] = 200;
        assert!(search.find(&claims, 2).is_err());
        assert!(search.find(&[1, 0], 1).is_err());
    }
}
