//! Whether a search pays, and with which needles.
//!
//! A search reads every byte once and spares the exact filter the records without a hit. It pays where these are most
//! of them: YourSQL filters early where less than 30 % are left (Section 3.2.1). A sample of the text tells, and so
//! does every stretch that is searched.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memrchr;
use pushdown::Expr;

use super::derive::{Stored, required};
use super::search::{Marks, Search};
use crate::Learned;

/// Whether scans of text look for bytes that a record must hold before they decode it. What a scan answers is the same;
/// but a malformed record that cannot pass is found only where it is decoded, and which text is searched depends on where
/// scans at once have come to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Matching {
    /// Where it pays, and never at the beginning of an object: of small ones every record is decoded.
    #[default]
    Sampled,
    /// Wherever it can be done.
    Always,
    /// Never.
    Never,
}

/// Text at the beginning of an object that is not searched.
const BEGINNING: u64 = 256 * 1024;

/// How much text is a sample.
const SAMPLE: usize = 128 * 1024;

/// Less text than this, as at the end of a piece, tells nothing of the rest.
const TELLING: usize = 32 * 1024;

/// Searching begins where hits are less than so many hundredths of the text.
const SPARSE: usize = 25;

/// It ends where they are more.
const DENSE: usize = 35;

/// A hit that is looked at and is none costs as much as so many bytes of a record that is: of a year, what is found are
/// the first digits of most dates.
const MISS_BYTES: usize = 32;

/// After how much text it is tried again; twice as much each time.
const PAUSE: u64 = 8 * 1024 * 1024;

/// The longest pause.
const LONGEST_PAUSE: u64 = 256 * 1024 * 1024;

/// Whether a search pays, as far as scans have seen that share this: those of one fragment, over one object or several.
#[derive(Debug, Default)]
pub(crate) struct SearchVerdict(Mutex<Verdict>);

#[derive(Debug)]
struct Verdict {
    state: State,
    pause: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No search in the next so many bytes of text, whoever passes over them.
    Resting(u64),
    /// With the needles of this set.
    Searching(usize),
}

impl Default for Verdict {
    fn default() -> Self {
        Self { state: State::Resting(0), pause: PAUSE }
    }
}

impl SearchVerdict {
    /// What it is for so much text that is passed over if there is no search in it.
    fn of(&self, bytes: u64) -> State {
        self.change(|verdict| {
            let state = verdict.state;
            if let State::Resting(left) = &mut verdict.state {
                *left = left.saturating_sub(bytes);
            }
            state
        })
    }

    /// The needles of this set are rare.
    fn search(&self, chosen: usize) {
        self.change(|verdict| *verdict = Verdict { state: State::Searching(chosen), pause: PAUSE });
    }

    /// No more searching for a while.
    fn rest(&self) {
        self.change(|verdict| {
            // Of two who see it at the same time, one says so.
            if !matches!(verdict.state, State::Resting(1..)) {
                verdict.state = State::Resting(verdict.pause);
                verdict.pause = (verdict.pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Verdict) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Finds the records that may pass, where that pays.
#[derive(Debug)]
pub(crate) struct Matcher {
    marks: Marks,
    /// One for each set of needles.
    searches: Vec<Search>,
    always: bool,
    learned: Arc<Learned>,
    /// Text before this byte counts as passed over: some is looked at again, with more behind it.
    passed: u64,
    /// What was searched since it was last told whether that pays, and what of it are hits.
    searched: usize,
    hits: usize,
}

impl Matcher {
    /// For a predicate over columns of which `stored` tells how they stand in the text; `None` if there is nothing to look
    /// for.
    pub(crate) fn new(
        predicate: &Expr,
        stored: &dyn Fn(usize) -> Option<Stored>,
        marks: Marks,
        matching: Matching,
        learned: Arc<Learned>,
    ) -> Option<Self> {
        if matching == Matching::Never {
            return None;
        }
        let sets = required(predicate, stored, &|byte| marks.breaks(byte));
        let searches: Vec<Search> = sets.into_iter().filter_map(Search::new).collect();
        let always = matching == Matching::Always;
        (!searches.is_empty()).then_some(Self { marks, searches, always, learned, passed: 0, searched: 0, hits: 0 })
    }

    /// Looks through the complete lines of `text`, which begins with a line at byte `offset` of the object's text and is
    /// `whole` if nothing comes after it. Gives where the searched lines end and has in `starts` where those begin that
    /// may pass; `None` if it is not worth it here.
    pub(crate) fn search(&mut self, text: &[u8], offset: u64, whole: bool, starts: &mut VecDeque<u64>) -> Option<u64> {
        starts.clear();
        let state = match self.always {
            true => State::Searching(0),
            false if offset < BEGINNING => return None,
            false => {
                let before = self.passed.max(offset);
                self.passed = before.max(offset + text.len() as u64);
                self.learned.search.of(self.passed - before)
            }
        };
        let lines = if whole { text } else { text.get(..=memrchr(self.marks.terminator(), text)?)? };
        let chosen = match state {
            State::Searching(chosen) if chosen < self.searches.len() => chosen,
            // Or of an object with other sets.
            State::Resting(0) | State::Searching(_) => self.choose(lines, offset)?,
            State::Resting(_) => return None,
        };
        let search = self.searches.get_mut(chosen)?;
        self.hits += search.lines(lines, offset, &self.marks, starts) + search.take_misses() * MISS_BYTES;
        self.searched += lines.len();
        if self.searched >= TELLING {
            if self.hits > self.searched / 100 * DENSE {
                self.learned.search.rest();
            }
            (self.hits, self.searched) = (0, 0);
        }
        Some(offset + lines.len() as u64)
    }

    /// The needles with the fewest hits in a sample of these lines, if they are few.
    fn choose(&mut self, lines: &[u8], offset: u64) -> Option<usize> {
        let end = lines.get(..SAMPLE).and_then(|sample| memrchr(self.marks.terminator(), sample)).map(|at| at + 1);
        let end = end.filter(|end| *end >= TELLING).unwrap_or(lines.len());
        let sample = lines.get(..end).filter(|sample| sample.len() >= TELLING)?;
        (self.hits, self.searched) = (0, 0);
        let mut unused = VecDeque::new();
        let mut hits = |search: &mut Search| {
            unused.clear();
            let bytes = search.lines(sample, offset, &self.marks, &mut unused);
            (bytes + search.take_misses() * MISS_BYTES, search.size())
        };
        let all = self.searches.iter_mut().map(&mut hits).enumerate();
        let (best, (bytes, _)) = all.min_by_key(|(_, hits)| *hits)?;
        if bytes > sample.len() / 100 * SPARSE {
            self.learned.search.rest();
            return None;
        }
        self.learned.search.search(best);
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use pushdown::CompareOp;

    use super::*;

    fn equal(column: usize, value: &str) -> Expr {
        Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::text(value))
    }

    fn matcher(predicate: &Expr, matching: Matching) -> Option<Matcher> {
        let marks = Marks::csv(b'\n', b',', Some(b'"'), None);
        Matcher::new(predicate, &|_| Some(Stored::Text), marks, matching, Arc::default())
    }

    /// Whether each block of text, in turn, is searched, and how many lines of it may pass.
    fn run(matcher: &mut Matcher, blocks: &[&str]) -> Vec<Option<usize>> {
        let (mut offset, mut starts) = (0, VecDeque::new());
        let mut search = |block: &&str| {
            let searched = matcher.search(block.as_bytes(), offset, false, &mut starts);
            offset += block.len() as u64;
            assert!(searched.is_none_or(|end| end == offset));
            searched.map(|_| starts.len())
        };
        blocks.iter().map(&mut search).collect()
    }

    #[test]
    fn the_set_with_the_fewest_hits_is_taken() {
        let block = format!("{}rare\n", "frequent\n".repeat(60_000));
        let mut matcher = matcher(&equal(0, "frequent").and(equal(1, "rare")), Matching::Sampled).unwrap();
        assert_eq!(run(&mut matcher, &[&block, &block]), [None, Some(1)]);
    }

    #[test]
    fn searching_stops_where_hits_are_dense_and_is_tried_again() {
        let (dense, sparse) = ("special\n".repeat(140_000), "ordinary\n".repeat(130_000));
        let mut matcher = matcher(&equal(0, "special"), Matching::Sampled).unwrap();
        let mut blocks = vec![sparse.as_str(), &sparse, &dense];
        blocks.extend([sparse.as_str(); 9]);
        let outcomes = run(&mut matcher, &blocks);
        // The beginning, then no hits, then a block full of them, and a pause of 8 MiB.
        assert_eq!(outcomes[..5], [None, Some(0), Some(140_000), None, None]);
        assert_eq!(outcomes.last(), Some(&Some(0)));
    }

    #[test]
    fn scans_learn_from_each_other() {
        let (dense, sparse) = ("special\n".repeat(140_000), "ordinary\n".repeat(130_000));
        let learned = Arc::<Learned>::default();
        let another = |offset: u64, text: &str| {
            let (predicate, marks) = (equal(0, "special"), Marks::csv(b'\n', b',', Some(b'"'), None));
            let shared = Arc::clone(&learned);
            let mut matcher =
                Matcher::new(&predicate, &|_| Some(Stored::Text), marks, Matching::Sampled, shared).unwrap();
            matcher.search(text.as_bytes(), offset, false, &mut VecDeque::new()).is_some()
        };
        assert!(!another(0, &sparse), "the beginning of an object is not searched");
        assert!(another(BEGINNING, &sparse));
        // No sample would allow this search.
        assert!(another(1 << 30, &dense), "the needles were rare");
        let pause = PAUSE.div_ceil(sparse.len() as u64);
        assert!((0..pause).all(|_| !another(1 << 31, &sparse)), "wherever they scan");
        assert!(another(1 << 20, &sparse));
    }

    #[test]
    fn a_short_stretch_decides_nothing() {
        let (dense, sparse) = ("special\n".repeat(1_000), "ordinary\n".repeat(130_000));
        let mut matcher = matcher(&equal(0, "special"), Matching::Sampled).unwrap();
        // Neither that searching does not pay, nor, once it does, that it does no more; until there are enough of them.
        let few = [&sparse[..], &dense, &sparse, &dense, &dense, &dense, &dense, &dense];
        let outcomes = run(&mut matcher, &few);
        assert_eq!(outcomes[..3], [None, None, Some(0)]);
        assert_eq!(outcomes[3..], [Some(1_000), Some(1_000), Some(1_000), Some(1_000), Some(1_000)]);
        assert_eq!(run(&mut matcher, &[&sparse, &sparse]), [None, None], "they were dense");
    }

    #[test]
    fn text_that_is_looked_at_again_is_passed_over_once() {
        let text = "special\n".repeat(140_000);
        let mut matcher = matcher(&equal(0, "special"), Matching::Sampled).unwrap();
        let looks = |matcher: &mut Matcher, at: usize| {
            matcher.search(&text.as_bytes()[at..], BEGINNING + at as u64, false, &mut VecDeque::new())
        };
        assert_eq!(looks(&mut matcher, 0), None, "dense");
        for record in 1..100 {
            assert_eq!(looks(&mut matcher, record * 8), None);
        }
        let left = matcher.learned.search.of(0);
        assert!(matches!(left, State::Resting(left) if left == PAUSE), "what rests was looked at before: {left:?}");
    }

    #[test]
    fn a_search_that_looks_at_most_records_in_vain_does_not_pay() {
        let from = Expr::compare(CompareOp::GtEq, Expr::Column(0), Expr::text("1994-01-01"));
        let year = from.and(Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::text("1995-01-01")));
        let dates = "1992-03-04,1997-05-06,1998-07-08\n".repeat(30_000);
        assert_eq!(run(&mut matcher(&year, Matching::Sampled).unwrap(), &[&dates, &dates]), [None, None]);
        let text = format!("1992-03-04,{}\n", "text ".repeat(40)).repeat(5_000);
        assert_eq!(run(&mut matcher(&year, Matching::Sampled).unwrap(), &[&text, &text]), [None, Some(0)]);
    }

    #[test]
    fn the_beginning_is_searched_only_on_request() {
        let text = "ordinary\nspecial\ncut of";
        assert_eq!(run(&mut matcher(&equal(0, "special"), Matching::Sampled).unwrap(), &[text]), [None]);
        let mut starts = VecDeque::new();
        let mut always = matcher(&equal(0, "special"), Matching::Always).unwrap();
        assert_eq!(always.search(text.as_bytes(), 5, false, &mut starts), Some(5 + 17));
        assert_eq!(starts, [14]);
        assert_eq!(always.search(b"cut off", 22, false, &mut starts), None);
        assert_eq!(always.search(b"special", 22, true, &mut starts), Some(29));
        assert_eq!(starts, [22]);
        assert!(matcher(&equal(0, "special"), Matching::Never).is_none());
        assert!(matcher(&equal(0, "s"), Matching::Always).is_none());
    }
}
