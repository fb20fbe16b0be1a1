//! Decides whether a search pays, and which set of needles to search for.
//!
//! A search reads every byte once, and saves the exact filter the records without a hit. It pays if
//! that is most of the records: YourSQL filters early if less than 30 % remain (Section 3.2.1).
//! This is measured on a sample of the text, and on every stretch that is searched.

use std::collections::VecDeque;
use std::sync::Arc;

use memchr::memrchr;
use parking_lot::Mutex;
use pushdowndb_contract::Expr;

use crate::prefilter::derive::{Stored, required};
use crate::prefilter::search::{RecordDelimiters, Search};

/// Whether text is searched for bytes that a matching record must contain.
///
/// The results are the same in any case. But a malformed record that cannot match is reported only
/// if it is decoded, and which text is searched depends on the timing of concurrent scans.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Matching {
    /// Text is searched where it pays, but never at the beginning of an object: every record of a
    /// small object is decoded.
    #[default]
    Sampled,
    /// Text is searched wherever that is possible.
    Always,
    /// Text is never searched.
    Never,
}

/// The number of bytes at the beginning of an object that are not searched.
const SKIPPED_BYTES: u64 = 256 * 1024;

/// The size of a sample, in bytes.
const SAMPLE_BYTES: usize = 128 * 1024;

/// The minimum number of bytes from which the hit rate is measured. Less text, such as the end of a
/// piece, is not representative.
const MIN_JUDGED_BYTES: usize = 32 * 1024;

/// Searching starts if records with hits are less than this percentage of the bytes.
const MAX_HIT_PERCENT_TO_START: usize = 25;

/// Searching stops if records with hits are more than this percentage of the bytes.
const MAX_HIT_PERCENT_TO_CONTINUE: usize = 35;

/// The cost of a rejected hit, in bytes of records with hits. For example, the first digits of a
/// year occur in most dates.
const MISS_BYTES: usize = 32;

/// The number of bytes of text before sampling is repeated for the first time. It is doubled each
/// time.
const MIN_PAUSE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum number of bytes before sampling is repeated.
const MAX_PAUSE_BYTES: u64 = 256 * 1024 * 1024;

/// Whether a search pays, as measured by all scans of a fragment, which share this.
#[derive(Debug, Default)]
pub(crate) struct SearchVerdict(Mutex<Verdict>);

#[derive(Debug)]
struct Verdict {
    state: State,
    pause: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next bytes of text, as many as given, are not searched.
    Resting(u64),
    /// The needles of this set are searched.
    Searching(usize),
}

impl Default for Verdict {
    fn default() -> Self {
        Self { state: State::Resting(0), pause: MIN_PAUSE_BYTES }
    }
}

impl SearchVerdict {
    /// Returns the state for the next `bytes` of text. They count as passed if they are not
    /// searched.
    fn of(&self, bytes: u64) -> State {
        self.change(|verdict| {
            let state = verdict.state;
            if let State::Resting(left) = &mut verdict.state {
                *left = left.saturating_sub(bytes);
            }
            state
        })
    }

    /// Starts searching with the set `chosen`.
    fn search(&self, chosen: usize) {
        self.change(|verdict| *verdict = Verdict { state: State::Searching(chosen), pause: MIN_PAUSE_BYTES });
    }

    /// Stops searching for a while.
    fn rest(&self) {
        self.change(|verdict| {
            // If several scans call this at the same time, only the first call has an effect.
            if !matches!(verdict.state, State::Resting(1..)) {
                verdict.state = State::Resting(verdict.pause);
                verdict.pause = (verdict.pause * 2).min(MAX_PAUSE_BYTES);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Verdict) -> T) -> T {
        change(&mut self.0.lock())
    }
}

/// Finds the records that may pass, where searching pays.
#[derive(Debug)]
pub(crate) struct Prefilter {
    marks: RecordDelimiters,
    /// One search for each set of needles.
    searches: Vec<Search>,
    always: bool,
    verdict: Arc<SearchVerdict>,
    /// Text before this offset was already counted: some text is passed again, with more text after
    /// it.
    passed: u64,
    /// The bytes searched since the hit rate was last measured, and the bytes of records with hits.
    searched: usize,
    hits: usize,
}

impl Prefilter {
    /// Creates the prefilter of a predicate. `stored` returns how a column is spelled. Returns
    /// `None` if there is nothing to search for.
    pub(crate) fn new(
        predicate: &Expr,
        stored: &dyn Fn(usize) -> Option<Stored>,
        marks: RecordDelimiters,
        matching: Matching,
        verdict: Arc<SearchVerdict>,
    ) -> Option<Self> {
        if matching == Matching::Never {
            return None;
        }
        let sets = required(predicate, stored, &|byte| marks.breaks(byte));
        let searches: Vec<Search> = sets.into_iter().filter_map(Search::new).collect();
        let always = matching == Matching::Always;
        (!searches.is_empty()).then_some(Self { marks, searches, always, verdict, passed: 0, searched: 0, hits: 0 })
    }

    /// Searches the complete lines of `text`, which must begin with a line, at `offset` of the
    /// object's text. `whole` says whether it is the rest of the text.
    ///
    /// Returns the end of the searched lines, and fills `starts` with the starts of the lines that
    /// may pass. Returns `None` if a search does not pay here.
    pub(crate) fn search(&mut self, text: &[u8], offset: u64, whole: bool, starts: &mut VecDeque<u64>) -> Option<u64> {
        starts.clear();
        let state = match self.always {
            true => State::Searching(0),
            false if offset < SKIPPED_BYTES => return None,
            false => {
                let before = self.passed.max(offset);
                self.passed = before.max(offset + text.len() as u64);
                self.verdict.of(self.passed - before)
            }
        };
        let lines = if whole { text } else { text.get(..=memrchr(self.marks.terminator(), text)?)? };
        let chosen = match state {
            State::Searching(chosen) if chosen < self.searches.len() => chosen,
            // A set may also have been selected for an object with other sets.
            State::Resting(0) | State::Searching(_) => self.choose(lines, offset)?,
            State::Resting(_) => return None,
        };
        let search = self.searches.get_mut(chosen)?;
        self.hits += search.lines(lines, offset, &self.marks, starts) + search.take_misses() * MISS_BYTES;
        self.searched += lines.len();
        if self.searched >= MIN_JUDGED_BYTES {
            if self.hits > self.searched / 100 * MAX_HIT_PERCENT_TO_CONTINUE {
                self.verdict.rest();
            }
            (self.hits, self.searched) = (0, 0);
        }
        Some(offset + lines.len() as u64)
    }

    /// Returns the set with the fewest hits in a sample of these lines, if the hits are few.
    fn choose(&mut self, lines: &[u8], offset: u64) -> Option<usize> {
        let end =
            lines.get(..SAMPLE_BYTES).and_then(|sample| memrchr(self.marks.terminator(), sample)).map(|at| at + 1);
        let end = end.filter(|end| *end >= MIN_JUDGED_BYTES).unwrap_or(lines.len());
        let sample = lines.get(..end).filter(|sample| sample.len() >= MIN_JUDGED_BYTES)?;
        (self.hits, self.searched) = (0, 0);
        let mut unused = VecDeque::new();
        let mut hits = |search: &mut Search| {
            unused.clear();
            let bytes = search.lines(sample, offset, &self.marks, &mut unused);
            (bytes + search.take_misses() * MISS_BYTES, search.size())
        };
        let all = self.searches.iter_mut().map(&mut hits).enumerate();
        let (best, (bytes, _)) = all.min_by_key(|(_, hits)| *hits)?;
        if bytes > sample.len() / 100 * MAX_HIT_PERCENT_TO_START {
            self.verdict.rest();
            return None;
        }
        self.verdict.search(best);
        Some(best)
    }
}

#[cfg(test)]
mod tests {

    use pushdowndb_contract::CompareOp;

    use super::*;

    fn equal(column: usize, value: &str) -> Expr {
        Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::text(value))
    }

    fn matcher(predicate: &Expr, matching: Matching) -> Option<Prefilter> {
        let marks = RecordDelimiters::csv(b'\n', b',', Some(b'"'), None);
        Prefilter::new(predicate, &|_| Some(Stored::Text), marks, matching, Arc::default())
    }

    /// Returns for each block of text, in order, how many of its lines may pass; `None` if it is
    /// not searched.
    fn run(matcher: &mut Prefilter, blocks: &[&str]) -> Vec<Option<usize>> {
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
        // The beginning, then no hits, then a block full of hits, and a pause of 8 MiB.
        assert_eq!(outcomes[..5], [None, Some(0), Some(140_000), None, None]);
        assert_eq!(outcomes.last(), Some(&Some(0)));
    }

    #[test]
    fn scans_learn_from_each_other() {
        let (dense, sparse) = ("special\n".repeat(140_000), "ordinary\n".repeat(130_000));
        let learned = Arc::<SearchVerdict>::default();
        let another = |offset: u64, text: &str| {
            let (predicate, marks) = (equal(0, "special"), RecordDelimiters::csv(b'\n', b',', Some(b'"'), None));
            let shared = Arc::clone(&learned);
            let mut matcher =
                Prefilter::new(&predicate, &|_| Some(Stored::Text), marks, Matching::Sampled, shared).unwrap();
            matcher.search(text.as_bytes(), offset, false, &mut VecDeque::new()).is_some()
        };
        assert!(!another(0, &sparse), "the beginning of an object is not searched");
        assert!(another(SKIPPED_BYTES, &sparse));
        // A sample of this text would not allow the search.
        assert!(another(1 << 30, &dense), "the needles were rare");
        let pause = MIN_PAUSE_BYTES.div_ceil(sparse.len() as u64);
        assert!((0..pause).all(|_| !another(1 << 31, &sparse)), "wherever they scan");
        assert!(another(1 << 20, &sparse));
    }

    #[test]
    fn a_short_stretch_decides_nothing() {
        let (dense, sparse) = ("special\n".repeat(1_000), "ordinary\n".repeat(130_000));
        let mut matcher = matcher(&equal(0, "special"), Matching::Sampled).unwrap();
        // A few bytes show neither that searching does not pay nor that it does.
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
        let looks = |matcher: &mut Prefilter, at: usize| {
            matcher.search(&text.as_bytes()[at..], SKIPPED_BYTES + at as u64, false, &mut VecDeque::new())
        };
        assert_eq!(looks(&mut matcher, 0), None, "dense");
        for record in 1..100 {
            assert_eq!(looks(&mut matcher, record * 8), None);
        }
        let left = matcher.verdict.of(0);
        assert!(
            matches!(left, State::Resting(left) if left == MIN_PAUSE_BYTES),
            "what rests was looked at before: {left:?}"
        );
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
