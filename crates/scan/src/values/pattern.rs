//! LIKE patterns, matched on bytes.
//!
//! A *piece* is the text between two `%`, in which `_` is any character. The first piece is matched
//! at the start of the text, the last piece at its end, and each piece between them at the first
//! position after the previous piece. An earlier match leaves more text for later pieces, so there
//! is no backtracking. A match takes at most one comparison per byte of text and byte of pattern.

use std::fmt;
use std::ops::Range;

use memchr::memmem::Finder;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use crate::runtime::interrupt::Steps;

/// The size of the windows in which text is searched, so that a long search can be interrupted.
const WINDOW: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum Pattern {
    /// A case-sensitive pattern without `_`.
    Plain(Plain),
    Pieces(Box<Pieces>),
}

/// A pattern of pieces that may contain `_`.
#[derive(Debug)]
pub(crate) struct Pieces {
    first: Piece,
    inner: Vec<Piece>,
    /// The last piece; `None` if there is no `%`, so that the whole text must match `first`.
    last: Option<Piece>,
}

/// A pattern of plain texts: the start of the text, what it contains in this order, and its end.
#[derive(Debug)]
pub(crate) struct Plain {
    first: Vec<u8>,
    inner: Vec<Finder<'static>>,
    /// The end of the text; `None` if there is no `%`, so that the whole text must be `first`.
    last: Option<Vec<u8>>,
}

/// The text between two `%`.
pub(crate) struct Piece {
    parts: Vec<Part>,
    /// The number of characters that the piece matches.
    characters: usize,
    /// The longest literal text in the piece, and the number of characters before it.
    anchor: Option<(Finder<'static>, usize)>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    /// These characters.
    Text(Vec<u8>),
    /// This number of arbitrary characters.
    Any(usize),
    /// One of these characters, which differ only in case.
    OneOf(Vec<char>),
}

impl Pattern {
    /// Compiles a pattern in Arrow's form. `%` matches any run and `_` any character. A backslash
    /// escapes the character after it; at the end of the pattern it stands for itself.
    pub(crate) fn new(pattern: &str, case_insensitive: bool) -> Self {
        let mut pieces: Vec<Vec<Part>> = vec![vec![]];
        let mut characters = pattern.chars();
        let add = |pieces: &mut Vec<Vec<Part>>, part: Part| {
            let Some(piece) = pieces.last_mut() else { return };
            match (piece.last_mut(), part) {
                (Some(Part::Text(text)), Part::Text(more)) => text.extend_from_slice(&more),
                (Some(Part::Any(count)), Part::Any(more)) => *count += more,
                (_, part) => piece.push(part),
            }
        };
        let literal = |c: char| if case_insensitive { folded(c) } else { Part::Text(c.to_string().into_bytes()) };
        while let Some(c) = characters.next() {
            match c {
                '%' => pieces.push(vec![]),
                '_' => add(&mut pieces, Part::Any(1)),
                '\\' => add(&mut pieces, literal(characters.next().unwrap_or('\\'))),
                c => add(&mut pieces, literal(c)),
            }
        }
        Plain::new(&pieces).map_or_else(|| Self::of_pieces(pieces), Self::Plain)
    }

    fn of_pieces(pieces: Vec<Vec<Part>>) -> Self {
        let mut pieces = pieces.into_iter().map(Piece::new);
        let first = pieces.next().unwrap_or_else(|| Piece::new(vec![]));
        let last = pieces.next_back();
        let inner = pieces.filter(|piece| piece.characters > 0).collect();
        Self::Pieces(Box::new(Pieces { first, inner, last }))
    }

    /// Matches UTF-8 text. Work is counted in `steps`; if those run out, the result is arbitrary.
    #[inline]
    pub(crate) fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        match self {
            Self::Plain(plain) => plain.matches(text, steps),
            Self::Pieces(pieces) => matches_pieces(&pieces.first, &pieces.inner, pieces.last.as_ref(), text, steps),
        }
    }
}

impl Plain {
    /// Returns `None` if one of the pieces contains a wildcard.
    fn new(pieces: &[Vec<Part>]) -> Option<Self> {
        let text = |piece: &Vec<Part>| match piece.as_slice() {
            [] => Some(vec![]),
            [Part::Text(text)] => Some(text.clone()),
            _ => None,
        };
        let mut pieces = pieces.iter().map(text).collect::<Option<Vec<_>>>()?.into_iter();
        let first = pieces.next()?;
        let last = pieces.next_back();
        let inner = pieces.filter(|piece| !piece.is_empty()).map(|piece| Finder::new(&piece).into_owned()).collect();
        Some(Self { first, inner, last })
    }

    #[inline]
    fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        let Some(last) = &self.last else { return text == self.first };
        let Some(rest) = text.strip_prefix(self.first.as_slice()) else { return false };
        let Some(mut rest) = rest.strip_suffix(last.as_slice()) else { return false };
        for piece in &self.inner {
            let Some(at) = find(piece, rest, steps) else { return false };
            rest = rest.get(at + piece.needle().len()..).unwrap_or_default();
        }
        true
    }
}

/// Returns the first position of the needle. A long text is searched in windows.
#[inline]
pub(crate) fn find(needle: &Finder<'static>, text: &[u8], steps: &mut Steps) -> Option<usize> {
    if text.len() <= WINDOW {
        let found = needle.find(text);
        return if steps.go_on(found.unwrap_or(text.len())) { found } else { None };
    }
    find_in_windows(needle, text, steps)
}

#[inline(never)]
fn find_in_windows(needle: &Finder<'static>, text: &[u8], steps: &mut Steps) -> Option<usize> {
    let overlap = needle.needle().len().saturating_sub(1);
    let mut from = 0;
    while from < text.len() {
        let end = from.saturating_add(WINDOW).saturating_add(overlap).min(text.len());
        if let Some(at) = needle.find(text.get(from..end)?) {
            return Some(from + at);
        }
        if end == text.len() || !steps.go_on(end - from) {
            return None;
        }
        from += WINDOW;
    }
    None
}

fn matches_pieces(first: &Piece, inner: &[Piece], last: Option<&Piece>, text: &[u8], steps: &mut Steps) -> bool {
    let Some(begun) = first.length_at(text, 0, steps) else { return false };
    let Some(last) = last else { return begun == text.len() };
    let Some(end) = last.start_of_end(text).filter(|end| *end >= begun) else { return false };
    if last.length_at(text, end, steps) != Some(text.len() - end) {
        return false;
    }
    let mut at = begun;
    for piece in inner {
        let Some(found) = text.get(..end).and_then(|text| piece.find(text, at, steps)) else { return false };
        at = found.end;
    }
    true
}

impl Piece {
    fn new(parts: Vec<Part>) -> Self {
        let mut anchor: Option<(&[u8], usize)> = None;
        let mut characters = 0;
        for part in &parts {
            match part {
                Part::Text(text) => {
                    if anchor.is_none_or(|(longest, _)| text.len() > longest.len()) {
                        anchor = Some((text, characters));
                    }
                    characters += text.iter().filter(|byte| begins_character(**byte)).count();
                }
                Part::Any(count) => characters += count,
                Part::OneOf(_) => characters += 1,
            }
        }
        let anchor = anchor.map(|(text, before)| (Finder::new(text).into_owned(), before));
        Self { anchor, characters, parts }
    }

    /// Returns the number of bytes that the piece matches at `at`; `None` if it does not match.
    fn length_at(&self, text: &[u8], at: usize, steps: &mut Steps) -> Option<usize> {
        let mut rest = text.get(at..)?;
        let before = rest.len();
        for part in &self.parts {
            rest = match part {
                Part::Text(wanted) => {
                    let rest = rest.strip_prefix(wanted.as_slice());
                    if !steps.go_on(1 + rest.map_or(0, |_| wanted.len())) {
                        return None;
                    }
                    rest?
                }
                Part::Any(count) => {
                    let length = after_characters(rest, *count)?;
                    if !steps.go_on(length) {
                        return None;
                    }
                    rest.get(length..)?
                }
                Part::OneOf(wanted) => {
                    if !steps.go_on(1) {
                        return None;
                    }
                    let (c, length) = first_character(rest)?;
                    rest.get(length..).filter(|_| wanted.contains(&c))?
                }
            };
        }
        Some(before - rest.len())
    }

    /// Returns the start of the piece's match at the end of the text.
    fn start_of_end(&self, text: &[u8]) -> Option<usize> {
        before_characters(text, self.characters)
    }

    /// Returns the first match of the piece at or after `from`.
    fn find(&self, text: &[u8], from: usize, steps: &mut Steps) -> Option<Range<usize>> {
        let found = |at: usize, steps: &mut Steps| self.length_at(text, at, steps).map(|length| at..at + length);
        let Some((anchor, before)) = &self.anchor else {
            let any = self.parts.iter().all(|part| matches!(part, Part::Any(_)));
            let mut at = from;
            while at < text.len() {
                if let Some(found) = found(at, steps) {
                    return Some(found);
                }
                // A piece of only arbitrary characters needs one test; other pieces are tested at
                // each position once.
                if any || !steps.go_on(1) {
                    return None;
                }
                at += first_character(text.get(at..)?)?.1;
            }
            return None;
        };
        // The anchor is a fixed number of characters after the start, so both positions advance
        // together.
        let mut start = from;
        let mut place = from + after_characters(text.get(from..)?, *before)?;
        loop {
            let hit = place + find(anchor, text.get(place..)?, steps)?;
            while place < hit {
                place += first_character(text.get(place..)?)?.1;
                start += first_character(text.get(start..)?)?.1;
            }
            if !steps.go_on(1 + before) {
                return None;
            }
            if let Some(found) = found(start, steps) {
                return Some(found);
            }
            place += first_character(text.get(place..)?)?.1;
            start += first_character(text.get(start..)?)?.1;
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

/// Returns the characters that differ from `c` only in case, by Unicode's simple case folding.
fn folded(c: char) -> Part {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    // If the tables are missing, case matters.
    if class.try_case_fold_simple().is_err() {
        return Part::OneOf(vec![c]);
    }
    Part::OneOf(class.ranges().iter().flat_map(|range| range.start()..=range.end()).collect())
}

fn begins_character(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// Returns the number of bytes of the first `count` characters; `None` if there are fewer.
fn after_characters(text: &[u8], count: usize) -> Option<usize> {
    if count > text.len() {
        return None;
    }
    let mut at = 0;
    for _ in 0..count {
        at += first_character(text.get(at..)?)?.1;
    }
    Some(at)
}

/// Returns the start of the last `count` characters; `None` if there are fewer.
fn before_characters(text: &[u8], count: usize) -> Option<usize> {
    let mut starts = text.iter().enumerate().rev().filter(|(_, byte)| begins_character(**byte)).map(|(at, _)| at);
    match count.checked_sub(1) {
        None => Some(text.len()),
        Some(_) if count > text.len() => None,
        Some(others) => starts.nth(others),
    }
}

fn first_character(text: &[u8]) -> Option<(char, usize)> {
    let first = *text.first()?;
    if first < 0x80 {
        return Some((char::from(first), 1));
    }
    let length = match first {
        0xF0.. => 4,
        0xE0.. => 3,
        _ => 2,
    };
    let c = text.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    // This does not occur in UTF-8. One byte is skipped, so that every loop advances.
    Some(c.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, length)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{BooleanArray, Scalar, StringArray};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::runtime::interrupt::Interrupt;

    fn ours(pattern: &str, case_insensitive: bool, texts: &[String]) -> BooleanArray {
        let (pattern, mut steps) = (Pattern::new(pattern, case_insensitive), Steps::default());
        texts.iter().map(|text| Some(pattern.matches(text.as_bytes(), &mut steps))).collect()
    }

    fn check(pattern: &str, texts: &[String]) -> usize {
        let (array, scalar) = (StringArray::from(texts.to_vec()), Scalar::new(StringArray::from(vec![pattern])));
        let like = ours(pattern, false, texts);
        assert_eq!(like, arrow::compute::like(&array, &scalar).unwrap(), "LIKE {pattern:?} of {texts:?}");
        let ilike = ours(pattern, true, texts);
        assert_eq!(ilike, arrow::compute::ilike(&array, &scalar).unwrap(), "ILIKE {pattern:?} of {texts:?}");
        like.true_count() + ilike.true_count()
    }

    #[test]
    fn patterns_match_as_arrow_has_them() {
        let texts = [
            "", "a", "ab", "abab", "ba", "a%b", "aéb", "aab", "b", "aXbXab", "\\", "a\\b", "xaby", "a\nb", "ÄÖ",
            "Straße", "\u{212a}", "k", "ſ", "S", "ΣΑΣ", "σας",
        ];
        let texts = texts.map(str::to_owned);
        for pattern in [
            "",
            "%",
            "%%",
            "a",
            "a%",
            "%a",
            "%a%",
            "a%b",
            "ab%ab",
            "%ab%",
            "%a%b%",
            "a%%b",
            "%ab%ab%",
            "%é%",
            "a\\%b",
            "\\\\",
            "%\\\\%",
            "ab%b",
            "a_",
            "_",
            "__",
            "_%",
            "%_",
            "%_%_%",
            "a_b",
            "%_b%",
            "a\\b",
            "a\\",
            "\\a",
            "\\_",
            "äö",
            "STRASSE",
            "K",
            "s",
            "σας",
            "_%_%_%_%_%",
        ] {
            check(pattern, &texts);
        }
    }

    #[test]
    fn random_patterns_match_as_arrow_has_them() {
        let mut random = StdRng::seed_from_u64(5);
        let mut some = |from: &[&str], most: usize| -> String {
            (0..random.random_range(0..=most)).map(|_| from[random.random_range(0..from.len())]).collect()
        };
        let mut matched = 0;
        for round in 0..3_000 {
            let of_text: &[&str] =
                if round % 2 == 0 { &["a", "b"] } else { &["a", "A", "é", "É", "漢", "🌏", "%", "\n"] };
            let texts: Vec<String> = (0..20).map(|_| some(of_text, 12)).collect();
            let pattern = some(&["%", "%", "_", "_", "a", "b", "é", "漢", "\\", "\\%"], 9);
            matched += check(&pattern, &texts);
        }
        // With fewer matches, this test would prove nothing.
        assert!(matched > 5_000, "{matched}");
    }

    /// Returns whether the text matches the pattern, and how many steps that takes.
    fn steps_of(pattern: &str, text: &str) -> (bool, usize) {
        let (pattern, mut steps) = (Pattern::new(pattern, false), Steps::default());
        let found = pattern.matches(text.as_bytes(), &mut steps);
        (found, steps.counted())
    }

    #[test]
    fn comparisons_are_at_most_those_of_every_place() {
        let text = "a".repeat(20_000);
        for pattern in [
            format!("%{}b%", "_a".repeat(1_000)),
            format!("%{}_b%", "_a".repeat(1_000)),
            format!("%{}b", "_a".repeat(1_000)),
            format!("%{}%b%", "a_%".repeat(1_000)),
            format!("{}%b", "%_a".repeat(1_000)),
            format!("%{}b%", "_".repeat(2_000)),
        ] {
            let (found, steps) = steps_of(&pattern, &text);
            assert!(!found);
            assert!(steps <= 2 * text.len() * pattern.len(), "{steps} steps");
        }
        // At most a few steps per byte, if no piece has to be tested at each position.
        let (found, steps) = steps_of(&format!("{}a", "%_".repeat(2_000)), &text);
        assert!(found && steps < 4 * text.len(), "{steps} steps");
    }

    #[test]
    fn an_interrupt_ends_it() {
        let text = "a".repeat(4 << 20);
        let pattern = Pattern::new(&format!("%{}_b%", "_a".repeat(50_000)), false);
        Interrupt::after(Duration::ZERO).scope_sync(|| {
            let mut steps = Steps::default();
            assert!(!pattern.matches(text.as_bytes(), &mut steps));
            assert!(steps.counted() < 4 << 20, "{} of 400 thousand million", steps.counted());
        });
        let pattern = Pattern::new("%b%c", false);
        Interrupt::after(Duration::ZERO).scope_sync(|| {
            let mut steps = Steps::default();
            assert!(!pattern.matches((text + "c").as_bytes(), &mut steps));
        });
    }
}
