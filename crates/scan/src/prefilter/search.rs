//! Searching of text blocks for records that may pass.
//!
//! A single needle, or needles with a common prefix, are found together with the delimiter that
//! could split them ([`crate::prefilter::probe`]). For other needles, or on a processor with narrow
//! registers, each stretch of lines is read twice: for needles, with [`memchr::memmem`] or the
//! Teddy algorithm of `aho-corasick`, and for delimiters. A stretch fits into the first-level
//! cache. Only text in which every terminator ends a record can be searched.

use std::collections::VecDeque;

use aho_corasick::{AhoCorasick, packed};
use memchr::{memchr, memchr_iter, memchr2_iter, memmem, memrchr};

use crate::prefilter::derive::{After, Needle, Needles};
use crate::prefilter::probe::Probe;

/// The number of bytes that are searched at a time.
const STRETCH_BYTES: usize = 24 * 1024;

/// The minimum length of a common prefix by which needles are found.
const MIN_COMMON_BYTES: usize = 3;

/// The bytes that delimit lines and values.
#[derive(Clone, Debug)]
pub(crate) struct RecordDelimiters {
    /// The byte that ends every line.
    terminator: u8,
    /// For each byte, whether it cannot occur in a value without an escape.
    breaks: [bool; 256],
    torn: Torn,
}

/// What may separate adjacent characters of a value.
#[derive(Clone, Copy, Debug)]
enum Torn {
    Never,
    /// A closing quote, or an escape before an ordinary character.
    Quotes {
        quote: u8,
        escape: Option<u8>,
    },
    /// A backslash, since any character may be written as `\u` and its number.
    Backslash,
}

impl RecordDelimiters {
    pub(crate) fn csv(terminator: u8, delimiter: u8, quote: Option<u8>, escape: Option<u8>) -> Self {
        let torn = match quote {
            Some(quote) => Torn::Quotes { quote, escape },
            None => Torn::Never,
        };
        let escape = quote.and(escape);
        Self::new(terminator, &[Some(delimiter), quote, escape], torn)
    }

    /// Returns the delimiters of JSON lines. A slash may be escaped, too.
    pub(crate) fn json() -> Self {
        Self::new(b'\n', &[Some(b'"'), Some(b'\\'), Some(b'/')], Torn::Backslash)
    }

    fn new(terminator: u8, others: &[Option<u8>], torn: Torn) -> Self {
        let mut breaks = [false; 256];
        let lines = [Some(terminator), Some(b'\n'), Some(b'\r')];
        for mark in lines.iter().chain(others).flatten() {
            if let Some(slot) = breaks.get_mut(usize::from(*mark)) {
                *slot = true;
            }
        }
        if let Torn::Backslash = torn {
            breaks.iter_mut().take(usize::from(b' ')).for_each(|control| *control = true);
        }
        Self { terminator, breaks, torn }
    }

    /// Returns the byte that ends lines.
    pub(crate) fn terminator(&self) -> u8 {
        self.terminator
    }

    /// Returns whether a needle must not contain the byte.
    pub(crate) fn breaks(&self, byte: u8) -> bool {
        self.breaks.get(usize::from(byte)).copied().unwrap_or(true)
    }

    /// Returns the byte that could split a value, `Some(None)` if there is none, and `None` if
    /// there are two.
    fn mark(&self) -> Option<Option<u8>> {
        match self.torn {
            Torn::Never => Some(None),
            Torn::Quotes { quote, escape: None } => Some(Some(quote)),
            Torn::Quotes { escape: Some(_), .. } => None,
            Torn::Backslash => Some(Some(b'\\')),
        }
    }

    /// Returns whether the delimiter at `at` splits a value.
    #[inline]
    fn tears(&self, text: &[u8], at: usize) -> bool {
        let byte = |at: Option<usize>| at.and_then(|at| text.get(at)).copied();
        let (here, next) = (byte(Some(at)), byte(Some(at + 1)));
        // A value continues after a quote only between two ordinary bytes.
        let joins = || {
            let ordinary = |byte: Option<u8>| byte.is_some_and(|byte| !self.breaks(byte));
            ordinary(next) && ordinary(byte(at.checked_sub(1)))
        };
        match self.torn {
            Torn::Never => false,
            Torn::Quotes { quote, escape } if escape.is_some() && here == escape => {
                next.is_some_and(|next| next != quote && Some(next) != escape)
            }
            Torn::Quotes { quote, .. } => here == Some(quote) && joins(),
            Torn::Backslash => here == Some(b'\\') && next == Some(b'u'),
        }
    }

    /// Appends the positions at which values in `text` may be split, ascending.
    fn all_tears(&self, text: &[u8], into: &mut Vec<usize>) {
        into.clear();
        let torn = |at: &usize| self.tears(text, *at);
        match self.torn {
            Torn::Never => {}
            Torn::Quotes { quote, escape: None } => into.extend(memchr_iter(quote, text).filter(torn)),
            Torn::Quotes { quote, escape: Some(escape) } => into.extend(memchr2_iter(quote, escape, text).filter(torn)),
            Torn::Backslash => into.extend(memchr_iter(b'\\', text).filter(torn)),
        }
    }
}

/// A set of needles, compiled for searching.
#[derive(Debug)]
pub(crate) struct Search {
    needles: Needles,
    finder: Finder,
    /// True if hits of the finder must be verified, since it searches for a prefix, or needles have
    /// checks.
    check: bool,
    /// The common prefix of the needles, if it is searched for. The probe for it is created when
    /// the first text is searched.
    common: Option<Box<[u8]>>,
    probe: Option<Option<Probe>>,
    /// The number of hits that were rejected when verified.
    misses: usize,
    /// Scratch space: positions of splits, or of lines that may pass.
    places: Vec<usize>,
}

#[derive(Debug)]
enum Finder {
    One(Box<memmem::Finder<'static>>),
    Few(Box<packed::Searcher>),
    Many(Box<AhoCorasick>),
}

impl Finder {
    #[inline]
    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::One(finder) => finder.find(text.get(from..)?).map(|at| from + at),
            Self::Few(searcher) => {
                let span = aho_corasick::Span { start: from, end: text.len() };
                (from <= text.len()).then(|| searcher.find_in(text, span)).flatten().map(|found| found.start())
            }
            Self::Many(all) => all.find(text.get(from..)?).map(|found| from + found.start()),
        }
    }
}

impl Search {
    /// Compiles `needles`, of which there must be at least one. Returns `None` if they cannot be
    /// searched for.
    pub(crate) fn new(needles: Needles) -> Option<Self> {
        let first = needles.first()?;
        let common = needles.iter().fold(first.bytes.len(), |common, needle| {
            first.bytes.iter().zip(&needle.bytes).take(common).take_while(|(a, b)| a == b).count()
        });
        let checked = needles.iter().any(|needle| needle.after != After::Anything);
        let mut beginning = None;
        let (finder, check) = if needles.len() == 1 || common >= MIN_COMMON_BYTES {
            let common = first.bytes.get(..common)?;
            beginning = Some(common.into());
            (Finder::One(Box::new(memmem::Finder::new(common).into_owned())), checked || needles.len() > 1)
        } else {
            let all = needles.iter().map(|needle| &needle.bytes);
            let finder = match packed::Searcher::new(all.clone()) {
                Some(searcher) => Finder::Few(Box::new(searcher)),
                None => Finder::Many(Box::new(AhoCorasick::new(all).ok()?)),
            };
            (finder, checked)
        };
        Some(Self { needles, finder, check, common: beginning, probe: None, misses: 0, places: Vec::new() })
    }

    /// Returns the number of needles.
    pub(crate) fn size(&self) -> usize {
        self.needles.len()
    }

    /// Returns the number of rejected hits, and resets it.
    pub(crate) fn take_misses(&mut self) -> usize {
        std::mem::take(&mut self.misses)
    }

    /// Appends the starts of the lines of `text` that may pass to `starts`, counted from `offset`.
    /// Returns the bytes of those lines. Expects whole lines, but the last one may lack its
    /// terminator.
    pub(crate) fn lines(
        &mut self,
        text: &[u8],
        offset: u64,
        marks: &RecordDelimiters,
        starts: &mut VecDeque<u64>,
    ) -> usize {
        if let Some(bytes) = self.probed(text, offset, marks, starts) {
            return bytes;
        }
        let mut bytes = 0;
        let mut at = 0;
        while at < text.len() {
            let end = match text.get(at..at + STRETCH_BYTES).and_then(|stretch| memrchr(marks.terminator, stretch)) {
                Some(last) => at + last + 1,
                // There is a line longer than a stretch, or the text ends here.
                None => line_end(text, at + STRETCH_BYTES, marks.terminator),
            };
            let stretch = text.get(at..end).unwrap_or_default();
            bytes += self.stretch(stretch, offset + at as u64, marks, starts);
            at = end;
        }
        bytes
    }

    /// Like [`Self::lines`], in a single pass. Returns `None` if that is not possible.
    fn probed(
        &mut self,
        text: &[u8],
        offset: u64,
        marks: &RecordDelimiters,
        starts: &mut VecDeque<u64>,
    ) -> Option<usize> {
        let Self { needles, check, common, probe, misses, places, .. } = self;
        let common = common.as_deref()?;
        let probe = probe.get_or_insert_with(|| Probe::new(common, marks.mark()?, text)).as_mut()?;
        places.clear();
        let holds = |at: usize| {
            let rest = text.get(at..).unwrap_or_default();
            if rest.first().is_some_and(|first| marks.breaks(*first)) || !rest.starts_with(common) {
                return marks.tears(text, at);
            }
            let is_hit = !*check || needles.iter().any(|needle| needle.is_at(rest, marks));
            *misses += usize::from(!is_hit);
            is_hit
        };
        probe.find(text, holds, places);
        let (mut bytes, mut end) = (0, 0);
        for at in places {
            if *at >= end {
                let start =
                    memrchr(marks.terminator, text.get(..*at).unwrap_or_default()).map_or(0, |before| before + 1);
                end = line_end(text, *at, marks.terminator);
                starts.push_back(offset + start as u64);
                bytes += end - start;
            }
        }
        Some(bytes)
    }

    fn stretch(&mut self, text: &[u8], offset: u64, marks: &RecordDelimiters, starts: &mut VecDeque<u64>) -> usize {
        marks.all_tears(text, &mut self.places);
        let mut tears = self.places.iter().copied().peekable();
        let (mut bytes, mut misses) = (0, 0);
        let mut hit = self.hit(text, 0, marks, &mut misses);
        while let Some(at) = [hit, tears.peek().copied()].into_iter().flatten().min() {
            let start = memrchr(marks.terminator, text.get(..at).unwrap_or_default()).map_or(0, |before| before + 1);
            let end = line_end(text, at, marks.terminator);
            starts.push_back(offset + start as u64);
            bytes += end - start;
            while tears.next_if(|tear| *tear < end).is_some() {}
            if hit.is_some_and(|hit| hit < end) {
                hit = self.hit(text, end, marks, &mut misses);
            }
        }
        self.misses += misses;
        bytes
    }

    /// Returns the position of the first needle at or after `from`.
    #[inline]
    fn hit(&self, text: &[u8], mut from: usize, marks: &RecordDelimiters, misses: &mut usize) -> Option<usize> {
        loop {
            let at = self.finder.find(text, from)?;
            if !self.check || self.needles.iter().any(|needle| needle.is_at(text.get(at..).unwrap_or_default(), marks))
            {
                return Some(at);
            }
            *misses += 1;
            from = at + 1;
        }
    }
}

impl Needle {
    /// Returns whether `text` begins with the needle, followed by bytes that satisfy its condition.
    fn is_at(&self, text: &[u8], marks: &RecordDelimiters) -> bool {
        let Some(rest) = text.strip_prefix(self.bytes.as_slice()) else { return false };
        let (bound, least) = match &self.after {
            After::Anything => return true,
            After::AtLeast(bound) => (bound, true),
            After::AtMost(bound) => (bound, false),
        };
        let mut rest = rest.iter().copied();
        for wanted in bound.iter().copied() {
            match rest.next() {
                Some(byte) if byte == wanted => {}
                // The value may end here, or continue after an escape.
                None => return true,
                Some(byte) => return marks.breaks(byte) || (byte > wanted) == least,
            }
        }
        least || rest.next().is_none_or(|byte| marks.breaks(byte))
    }
}

/// Returns the end of the line that contains the byte at `at`, including its terminator.
fn line_end(text: &[u8], at: usize, terminator: u8) -> usize {
    text.get(at..).and_then(|rest| memchr(terminator, rest)).map_or(text.len(), |end| at + end + 1)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn needle(bytes: &str, after: After) -> Needle {
        Needle { bytes: bytes.into(), after }
    }

    fn plain(all: &[&str]) -> Needles {
        all.iter().map(|bytes| needle(bytes, After::Anything)).collect()
    }

    /// Returns the lines that may pass.
    fn lines<'a>(needles: &Needles, text: &'a str, marks: &RecordDelimiters) -> Vec<&'a str> {
        let mut starts = VecDeque::new();
        let bytes = Search::new(needles.clone()).unwrap().lines(text.as_bytes(), 100, marks, &mut starts);
        let found: Vec<&str> = starts
            .into_iter()
            .map(|start| {
                let start = start as usize - 100;
                &text[start..line_end(text.as_bytes(), start, b'\n')]
            })
            .collect();
        assert_eq!(found.iter().map(|line| line.len()).sum::<usize>(), bytes);
        found.into_iter().map(|line| line.trim_end_matches('\n')).collect()
    }

    fn csv() -> RecordDelimiters {
        RecordDelimiters::csv(b'\n', b',', Some(b'"'), None)
    }

    #[test]
    fn hits_become_lines() {
        let text = "a,special\nb,other\n\nspecial special,c\nd,spec\nial\nspecial";
        assert_eq!(lines(&plain(&["special"]), text, &csv()), ["a,special", "special special,c", "special"]);
        assert_eq!(lines(&plain(&["other", "spec\u{e9}"]), text, &csv()), ["b,other"]);
        assert_eq!(lines(&plain(&["nothing"]), text, &csv()), [""; 0]);
        assert_eq!(lines(&plain(&["special"]), "", &csv()), [""; 0]);
        let many: Vec<String> = (0..64).map(|n| format!("{n:02}x")).collect();
        let many = plain(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(lines(&many, "a07x\nb7x\n63x,\n64x", &csv()), ["a07x", "63x,"]);
    }

    #[test]
    fn a_needle_torn_by_quotes_is_a_hit() {
        let text = "\"sp\"ecial\n\"spe\",\"cial\"\n\"a\"\"b\"\r\nsp\"e\n\"spec\",x\"\"y\n";
        assert_eq!(lines(&plain(&["special"]), text, &csv()), ["\"sp\"ecial", "sp\"e"]);
        let escaping = RecordDelimiters::csv(b'\n', b',', Some(b'"'), Some(b'\\'));
        let text = "\"sp\\ecial\"\n\"a\\\"b\"\n\"a\\\\\",b\nc\n";
        assert_eq!(lines(&plain(&["special"]), text, &escaping), ["\"sp\\ecial\""]);
        let without = RecordDelimiters::csv(b'\n', b',', None, Some(b'\\'));
        assert_eq!(lines(&plain(&["special"]), "\"sp\"ecial\nsp\\ecial\n", &without), [""; 0]);
        let text = "{\"a\":\"\\u0073pecial\"}\n{\"a\":\"\\n\"}\n{\"a\":\"especially\"}\n";
        assert_eq!(
            lines(&plain(&["special"]), text, &RecordDelimiters::json()),
            ["{\"a\":\"\\u0073pecial\"}", "{\"a\":\"especially\"}"]
        );
    }

    #[test]
    fn what_follows_is_compared_up_to_the_end_of_the_value() {
        let month =
            vec![needle("1995-0", After::AtLeast("9-05".into())), needle("1995-1", After::AtMost("0-02".into()))];
        let text = "1995-09-05\n1995-09-04\n1995-1\n1995-10-02\n1995-10-03\n1995-10-022\n1995-0,9\n1995-0\"9\n1995-2\n";
        let expected = ["1995-09-05", "1995-1", "1995-10-02", "1995-0,9", "1995-0\"9"];
        assert_eq!(lines(&month, text, &csv()), expected);
        // A rejected hit may overlap an accepted one.
        let overlapping = vec![needle("aa", After::AtMost("b".into()))];
        assert_eq!(lines(&overlapping, "aac\naaab\naaac\n", &csv()), ["aaab", "aaac"]);
    }

    /// Compares a search in one pass with a search in two, in texts with many needles and
    /// delimiters.
    #[test]
    fn one_pass_finds_the_lines_that_two_find() {
        let mut random = StdRng::seed_from_u64(11);
        let mut next = |below: usize| random.random_range(0..below);
        let pieces = ["1995-0", "9-0", "95-", "\"", "\"\"", ",", "\n", "\r\n", "\\", "\\u0031", "é", "12", "x"];
        let checked = vec![needle("1995-0", After::AtLeast("9-05".into())), needle("1995-1", After::Anything)];
        let marks = [csv(), RecordDelimiters::csv(b'\n', b',', None, None), RecordDelimiters::json()];
        let mut found = 0;
        for round in 0..600 {
            let text: String = (0..next(400)).map(|_| pieces[next(pieces.len())]).collect();
            let needles = [plain(&["95"]), plain(&["1995-0"]), checked.clone()].into_iter().nth(round % 3).unwrap();
            let marks = &marks[next(3)];
            let [one, two] = [false, true].map(|in_two| {
                let mut search = Search::new(needles.clone()).unwrap();
                if in_two {
                    search.probe = Some(None);
                }
                let mut starts = VecDeque::new();
                let bytes = search.lines(text.as_bytes(), 7, marks, &mut starts);
                (bytes, starts)
            });
            assert_eq!(one, two, "{text:?}");
            found += one.1.len();
        }
        // With fewer hits, this test would prove nothing.
        assert!(found > 1_000, "{found}");
    }

    #[test]
    fn long_lines_and_many_stretches() {
        let mut text = String::new();
        for line in 0..2_000 {
            text.push_str(&"x".repeat(line % 97));
            text.push_str(if line % 50 == 7 { "needle" } else { "thread" });
            text.push('\n');
        }
        text.insert_str(text.len() / 2, &"y".repeat(3 * STRETCH_BYTES));
        assert_eq!(lines(&plain(&["needle"]), &text, &csv()).len(), 40);
        let long = format!("{}needle{}\nneedle", "x".repeat(STRETCH_BYTES - 3), "y".repeat(STRETCH_BYTES * 2));
        assert_eq!(lines(&plain(&["needle"]), &long, &csv()).len(), 2);
    }
}
