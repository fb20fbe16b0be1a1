//! Derivation of needles (byte strings that a matching record must contain) from a predicate.
//!
//! Only values with an exact spelling are used. Text is in a record as it is, except for the
//! delimiters of its format, at which needles are cut. A declared date has one spelling. Integers
//! may have a sign, zeros and blanks before them, but their digits are adjacent. Other numbers may
//! have exponents and decimal places, and times have zones, so there are no needles for them, nor
//! for case-insensitive matches.
//!
//! A range of texts yields the prefix that all of its texts share (YourSQL, Section 3.1.2). It also
//! yields a second set: that prefix with each byte that may follow it, and a check of what follows
//! the first and the last of these bytes. A range of dates is a range of texts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pushdowndb_contract::{CompareOp, Expr, Function, LikePart, Literal, like_parts};

use crate::values::json::unescape;

/// Maximum number of needles in a set.
const MAX_NEEDLES: usize = 64;

/// Maximum number of sets.
const MAX_SETS: usize = 6;

/// Minimum length of a needle in bytes. Shorter ones occur in almost every record.
const MIN_NEEDLE_BYTES: usize = 2;

/// Maximum number of bytes that may follow a shared prefix such that they are searched, too.
const MAX_CONTINUATIONS: u8 = 16;

/// The days of 0000-01-01 and 9999-12-31, the range of declared dates.
const DAYS: (i32, i32) = (-719_528, 2_932_896);

/// How the values of a column are spelled in a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stored {
    /// As they are, except for the delimiters of the format.
    Text,
    /// Exactly `YYYY-MM-DD`.
    Date,
    /// As adjacent digits.
    Integer,
}

/// Bytes to search for, and a condition on the bytes after them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Needle {
    pub(crate) bytes: Vec<u8>,
    pub(crate) after: After,
}

/// The condition on the bytes of the value after a needle.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum After {
    Anything,
    /// They must not be less than this text.
    AtLeast(Vec<u8>),
    /// They must not be greater than this text.
    AtMost(Vec<u8>),
}

impl Needle {
    fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, after: After::Anything }
    }
}

/// A set of needles: a matching record contains at least one of them.
pub(crate) type Needles = Vec<Needle>;

/// Returns the sets of needles that the predicate requires; there may be none. `stored` returns how
/// a column is spelled, and `breaks` whether a needle must not contain a byte.
pub(crate) fn required(
    predicate: &Expr,
    stored: &dyn Fn(usize) -> Option<Stored>,
    breaks: &dyn Fn(u8) -> bool,
) -> Vec<Needles> {
    let mut sets = Derivation { stored, breaks }.sets(predicate);
    sets.sort_by_key(|set| std::cmp::Reverse(promise(set)));
    sets.dedup();
    sets.truncate(MAX_SETS);
    sets
}

/// Returns a sort key for sets by their expected number of hits: the length of the shortest needle,
/// and then the number of needles.
fn promise(set: &Needles) -> (usize, usize) {
    (set.iter().map(|needle| needle.bytes.len()).min().unwrap_or(0), MAX_NEEDLES.saturating_sub(set.len()))
}

struct Derivation<'a> {
    stored: &'a dyn Fn(usize) -> Option<Stored>,
    breaks: &'a dyn Fn(u8) -> bool,
}

/// A range of texts, which may include both bounds.
#[derive(Clone, Debug)]
struct Texts {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Derivation<'_> {
    fn sets(&self, predicate: &Expr) -> Vec<Needles> {
        match predicate {
            Expr::And(_) => {
                let all = predicate.conjuncts();
                let ranges = self.ranges(&all).into_values().flat_map(|texts| self.between(&texts));
                ranges.chain(all.into_iter().flat_map(|part| self.sets(part))).collect()
            }
            Expr::Or(all) if !all.is_empty() => {
                let best = |part| self.sets(part).into_iter().max_by_key(promise);
                all.iter().map(best).collect::<Option<Vec<_>>>().and_then(together).into_iter().collect()
            }
            Expr::InList { expr, list, negated: false } => {
                let needles = list.iter().filter(|item| !matches!(item, Expr::Literal(Literal::Null)));
                let needles = needles.map(|item| match item {
                    Expr::Literal(literal) => self.equal(expr, literal).map(|needle| vec![needle]),
                    _ => None,
                });
                needles.collect::<Option<Vec<_>>>().and_then(together).into_iter().collect()
            }
            Expr::Like { expr, pattern, negated: false, case_insensitive: false } if self.is_text(expr) => {
                let Expr::Literal(Literal::Utf8(pattern)) = &**pattern else { return vec![] };
                let pieces = like_pieces(pattern);
                pieces.iter().filter_map(|piece| self.longest(piece)).map(|needle| vec![needle]).collect()
            }
            comparison => match with_constant(comparison) {
                Some((CompareOp::Eq, value, constant)) => {
                    self.equal(value, &constant).into_iter().map(|needle| vec![needle]).collect()
                }
                _ => vec![],
            },
        }
    }

    /// Returns the needle of a value that equals the constant.
    fn equal(&self, value: &Expr, literal: &Literal) -> Option<Needle> {
        match literal {
            Literal::Utf8(text) if self.is_text(value) => self.longest(text.as_bytes()),
            Literal::Date(day) if self.column(value) == Some(Stored::Date) && (DAYS.0..=DAYS.1).contains(day) => {
                self.longest(literal.to_text()?.as_bytes())
            }
            Literal::Int64(number) if self.column(value) == Some(Stored::Integer) && *number != 0 => {
                self.longest(number.unsigned_abs().to_string().as_bytes())
            }
            _ => None,
        }
    }

    /// Returns how values are spelled, if `value` is a column.
    fn column(&self, value: &Expr) -> Option<Stored> {
        match value {
            Expr::Column(index) => (self.stored)(*index),
            _ => None,
        }
    }

    /// Returns whether the value is a substring of a column's text, or NULL.
    fn is_text(&self, value: &Expr) -> bool {
        match value {
            Expr::Call(
                Function::NullIf
                | Function::Substring
                | Function::Trim
                | Function::TrimLeading
                | Function::TrimTrailing
                | Function::JsonText
                | Function::JsonString
                | Function::JsonValue,
                operands,
            ) => operands.first().is_some_and(|first| self.is_text(first)),
            column => self.column(column) == Some(Stored::Text),
        }
    }

    /// Returns the longest part of `bytes` without a break, if it is long enough.
    fn longest(&self, bytes: &[u8]) -> Option<Needle> {
        let longest = bytes.split(|byte| (self.breaks)(*byte)).max_by_key(|part| part.len())?;
        (longest.len() >= MIN_NEEDLE_BYTES).then(|| Needle::plain(longest.to_vec()))
    }

    /// Returns the range to which all of these comparisons restrict each column.
    fn ranges(&self, all: &[&Expr]) -> BTreeMap<(usize, bool), Texts> {
        let mut ranges: BTreeMap<(usize, bool), Texts> = BTreeMap::new();
        for part in all {
            let Some((op, Expr::Column(column), literal)) = with_constant(part) else { continue };
            let (from, to) = match ((self.stored)(*column), &*literal) {
                (Some(Stored::Text), Literal::Utf8(text)) => {
                    let bound = || Some(text.clone().into_bytes());
                    match op {
                        CompareOp::Gt | CompareOp::GtEq => (bound(), None),
                        CompareOp::Lt | CompareOp::LtEq => (None, bound()),
                        _ => continue,
                    }
                }
                (Some(Stored::Date), Literal::Date(day)) => {
                    let bound = |day: i32| Literal::Date(day.clamp(DAYS.0, DAYS.1)).to_text().map(String::into_bytes);
                    match op {
                        CompareOp::Gt => (bound(day.saturating_add(1)), None),
                        CompareOp::GtEq => (bound(*day), None),
                        CompareOp::Lt => (None, bound(day.saturating_sub(1))),
                        CompareOp::LtEq => (None, bound(*day)),
                        _ => continue,
                    }
                }
                _ => continue,
            };
            // The order of JSON tokens differs from that of the texts inside them.
            let is_token = matches!(literal, Cow::Owned(_));
            let range = ranges.entry((*column, is_token)).or_insert(Texts { from: None, to: None });
            range.from = range.from.take().max(from);
            range.to = match (range.to.take(), to) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        ranges
    }

    /// Returns the sets of needles for a range of texts.
    fn between(&self, texts: &Texts) -> Vec<Needles> {
        let Texts { from: Some(from), to: Some(to) } = texts else { return vec![] };
        let shared: Vec<u8> = from.iter().zip(to).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect();
        let mut sets: Vec<Needles> = self.longest(&shared).map(|needle| vec![needle]).into_iter().collect();
        let (mut low, mut high) = (from.iter().skip(shared.len()), to.iter().skip(shared.len()));
        if let (Some(low_byte), Some(high_byte)) = (low.next().copied(), high.next().copied())
            && high_byte.checked_sub(low_byte).is_some_and(|ways| ways < MAX_CONTINUATIONS)
        {
            let needle = |byte: u8| {
                let mut bytes = shared.clone();
                bytes.push(byte);
                let after = match byte {
                    byte if byte == low_byte => After::AtLeast(low.clone().copied().collect()),
                    byte if byte == high_byte => After::AtMost(high.clone().copied().collect()),
                    _ => After::Anything,
                };
                let whole = bytes.len() >= MIN_NEEDLE_BYTES && !bytes.iter().any(|byte| (self.breaks)(*byte));
                if whole { Some(Needle { bytes, after }) } else { self.longest(&bytes) }
            };
            sets.extend((low_byte..=high_byte).map(needle).collect::<Option<Needles>>());
        }
        sets
    }
}

/// Returns the operator of a comparison, the value on its left side, and the constant. If JSON
/// tokens are compared, the constant is the text as a token: tokens of other kinds neither equal it
/// nor are ordered with it.
fn with_constant(comparison: &Expr) -> Option<(CompareOp, &Expr, Cow<'_, Literal>)> {
    let (op, a, b, are_tokens) = match comparison {
        Expr::Compare(op, a, b) => (*op, &**a, &**b, false),
        Expr::Call(function, operands) => {
            let op = match function {
                Function::TokenEq => CompareOp::Eq,
                Function::TokenLt => CompareOp::Lt,
                Function::TokenLtEq => CompareOp::LtEq,
                _ => return None,
            };
            let [a, b] = operands.as_slice() else { return None };
            (op, a, b, true)
        }
        _ => return None,
    };
    let (op, value, literal) = match (a, b) {
        (value, Expr::Literal(literal)) => (op, value, literal),
        (Expr::Literal(literal), value) => (op.swap(), value, literal),
        _ => return None,
    };
    if !are_tokens {
        return Some((op, value, Cow::Borrowed(literal)));
    }
    let (Expr::Column(_), Literal::Utf8(token)) = (value, literal) else { return None };
    unescape(token).map(|text| (op, value, Cow::Owned(Literal::Utf8(text))))
}

/// Returns the union of the sets, if it is not too large.
fn together(sets: Vec<Needles>) -> Option<Needles> {
    let mut all: Needles = sets.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    (1..=MAX_NEEDLES).contains(&all.len()).then_some(all)
}

/// Returns the runs of literal characters in a LIKE pattern.
fn like_pieces(pattern: &str) -> Vec<Vec<u8>> {
    // An escape before an ordinary character yields no needles; the evaluator decides what it
    // means.
    let Some(parts) = like_parts(pattern, Some('\\')) else { return vec![] };
    let piece = |run: &[LikePart]| {
        let text: String =
            run.iter().filter_map(|part| if let LikePart::Char(c) = part { Some(*c) } else { None }).collect();
        text.into_bytes()
    };
    parts.split(|part| !matches!(part, LikePart::Char(_))).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns are 0 text, 1 date, 2 integer, and 3 any other type.
    fn sets(predicate: &Expr) -> Vec<String> {
        let stored = |column| [Stored::Text, Stored::Date, Stored::Integer].get(column).copied();
        let sets = required(predicate, &stored, &|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
        let shown = |needle: &Needle| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match &needle.after {
                After::Anything => text(&needle.bytes),
                After::AtLeast(rest) => format!("{}>={}", text(&needle.bytes), text(rest)),
                After::AtMost(rest) => format!("{}<={}", text(&needle.bytes), text(rest)),
            }
        };
        sets.iter().map(|set| set.iter().map(shown).collect::<Vec<_>>().join(" ")).collect()
    }

    fn compare(op: CompareOp, column: usize, literal: Literal) -> Expr {
        Expr::compare(op, Expr::Column(column), Expr::Literal(literal))
    }

    fn text(op: CompareOp, value: &str) -> Expr {
        compare(op, 0, Literal::Utf8(value.into()))
    }

    fn like(pattern: &str) -> Expr {
        let (expr, pattern) = (Box::new(Expr::Column(0)), Box::new(Expr::text(pattern)));
        Expr::Like { expr, pattern, negated: false, case_insensitive: false }
    }

    #[test]
    fn one_value_and_several() {
        assert_eq!(sets(&text(CompareOp::Eq, "AIR")), ["AIR"]);
        assert_eq!(sets(&text(CompareOp::Eq, "a, \"bcd\"")), ["bcd"]);
        assert_eq!(sets(&text(CompareOp::Eq, "R")), [""; 0]);
        assert_eq!(sets(&compare(CompareOp::Eq, 1, Literal::Date(0))), ["1970-01-01"]);
        assert_eq!(sets(&compare(CompareOp::Eq, 2, Literal::Int64(-1234))), ["1234"]);
        assert_eq!(sets(&compare(CompareOp::Eq, 3, Literal::Int64(1234))), [""; 0]);
        assert_eq!(sets(&compare(CompareOp::Eq, 2, Literal::Decimal(1234, 5, 0))), [""; 0]);
        let list = |negated| Expr::InList {
            expr: Box::new(Expr::Column(0)),
            list: vec![Expr::text("MAIL"), Expr::Literal(Literal::Null), Expr::text("SHIP")],
            negated,
        };
        assert_eq!(sets(&list(false)), ["MAIL SHIP"]);
        assert_eq!(sets(&list(true)), [""; 0]);
        assert_eq!(sets(&text(CompareOp::NotEq, "AIR")), [""; 0]);
        assert_eq!(sets(&Expr::Not(Box::new(text(CompareOp::Eq, "AIR")))), [""; 0]);
    }

    #[test]
    fn and_offers_a_choice_and_or_needs_all() {
        let (air, mail) = (text(CompareOp::Eq, "AIR"), text(CompareOp::Eq, "MAIL"));
        assert_eq!(sets(&air.clone().and(mail.clone())), ["MAIL", "AIR"]);
        assert_eq!(sets(&Expr::Or(vec![air.clone(), mail.clone()])), ["AIR MAIL"]);
        assert_eq!(sets(&Expr::Or(vec![air.clone(), Expr::Column(4)])), [""; 0]);
        assert_eq!(sets(&Expr::Or(vec![air, mail.and(like("%urgent%"))])), ["AIR urgent"]);
        assert_eq!(sets(&Expr::Or(vec![])), [""; 0]);
    }

    #[test]
    fn pieces_of_patterns() {
        assert_eq!(sets(&like("%special%requests_")), ["requests", "special"]);
        assert_eq!(sets(&like(r"50\%_off")), ["50%", "off"]);
        assert_eq!(sets(&like(r"a\bcdef")), [""; 0]);
        assert_eq!(sets(&like("%a_b%")), [""; 0]);
    }

    #[test]
    fn ranges_share_prefixes() {
        let day =
            |op, text: &str| compare(op, 1, Literal::Date(crate::values::dates::date32(text.as_bytes()).unwrap()));
        let month = day(CompareOp::GtEq, "1995-09-01").and(day(CompareOp::Lt, "1995-10-01"));
        assert_eq!(sets(&month), ["1995-09-0>=1 1995-09-1 1995-09-2 1995-09-3<=0", "1995-09-"]);
        let year = day(CompareOp::GtEq, "1995-01-01").and(day(CompareOp::Lt, "1996-01-01"));
        assert_eq!(sets(&year), ["1995-0>=1-01 1995-1<=2-31", "1995-"]);
        assert_eq!(sets(&day(CompareOp::GtEq, "1995-09-01")), [""; 0]);
        // As in S3 Select, where dates are text.
        let month = text(CompareOp::GtEq, "1995-09-01").and(text(CompareOp::Lt, "1995-10-01"));
        assert_eq!(sets(&month), ["1995-0>=9-01 1995-1<=0-01", "1995-"]);
        let token = |function, from_constant: bool, token: &str| {
            let (column, constant) = (Expr::Column(0), Expr::text(token));
            Expr::Call(function, if from_constant { vec![constant, column] } else { vec![column, constant] })
        };
        let (from, to) = (r#""1995-09-01""#, r#""1995-10-01""#);
        let month = token(Function::TokenLtEq, true, from).and(token(Function::TokenLt, false, to));
        assert_eq!(sets(&month), ["1995-0>=9-01 1995-1<=0-01", "1995-"], "of JSON");
        assert_eq!(sets(&token(Function::TokenEq, false, r#""p\u0071rs""#)), ["pqrs"]);
        assert_eq!(sets(&token(Function::TokenEq, false, "1995")), [""; 0], "1995.0 is the same number");
        let same = text(CompareOp::GtEq, "ab").and(text(CompareOp::LtEq, "abcd"));
        assert_eq!(sets(&same), ["ab"]);
        let nothing = text(CompareOp::GtEq, "b").and(text(CompareOp::LtEq, "a"));
        assert_eq!(sets(&nothing), [""; 0]);
    }
}
